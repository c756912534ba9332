//! What the coordinator wants done, done in order.
//!
//! Refuses to reorder: a commit waits for every append before it, and nothing is shown before it is durable.

use std::time::Duration;

use causeway_adapter::adapter::WholeResult;
use causeway_contract::event::{Event, EventData, Sequence};
use causeway_contract::id::Code;
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use causeway_store::error::Cause;
use causeway_store::model::{Final, HeadMove, InterruptCommit, Outcome as StoreOutcome, Revision};
use causeway_store::record::Payload;
use causeway_store::{Error, Record, Refusal};
use tokio::time::Instant;

use super::Drive;
use super::write::Write;
use crate::clock;
use crate::coordinator::{Closing, Commit, Effect, End, Outcome, Rejection, Signal, Stage, Status};
use crate::failpoint::{self, hit};
use crate::metrics::{Operation, Outcome as Ended};
use crate::repair::{backoff, ended, note_cause};
use crate::uncertain::Why;

/// How long a session may take to be stopped by force, or to say its last words after the terminal.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a failed commit makes of a run.
fn why(error: &Error) -> Why {
    match error {
        Error::Unknown(_) => Why::OutcomeUnknown,
        Error::Unavailable(trouble) if matches!(trouble.cause, Cause::DiskFull | Cause::LowDisk) => {
            Why::DiskFull
        }
        Error::Unavailable(_) => Why::StoreFailed,
        _other => Why::CommitRefused,
    }
}

/// How a commit went.
enum Went {
    Committed(Option<CommitReceipt>),
    Refused,
    Unknown,
    /// Somebody else writes this run now.
    Ousted,
}

impl Drive {
    /// Performs effects in order until there are none; answers may bring new ones.
    pub(super) async fn perform(&mut self) {
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                // The engine opened the run before this task was there.
                Effect::Open(event) => {
                    tracing::error!(run_id = %event.run_id, "a run that is open was opened again");
                }
                Effect::Append(event) => self.gather(&event),
                Effect::Commit(commit) => self.commit(*commit).await,
                Effect::ReadOutcome => {
                    let outcome = self.read_outcome().await;
                    self.tell(Signal::Outcome(outcome));
                }
                Effect::Deliver { through } => self.show(through),
                Effect::CancelHarness(reason) => {
                    hit(failpoint::CANCEL);
                    tracing::info!(run_id = %self.run_id, %reason, "the turn is cancelled");
                    self.leave_tools();
                    self.session.cancel();
                    self.grace_over = Some(Instant::now() + self.agent.harness.cancel_grace());
                    if self.session_over {
                        // Nobody is left who could hand over a state.
                        self.tell(Signal::Closed);
                    }
                }
                Effect::StopHarness => {
                    self.leave_tools();
                    self.stop_session().await;
                }
                Effect::Reject(rejection) => {
                    self.why = Some(Why::EventRefused);
                    self.note(rejection);
                }
                Effect::Late(late) => {
                    self.inner.metrics.late(late);
                    tracing::debug!(run_id = %self.run_id, ?late, "something came after the end of the run");
                }
                Effect::Close(how) => self.close(how),
            }
        }
    }

    /// Whether anything but appends is to be done.
    pub(super) fn has_more_than_appends(&self) -> bool {
        self.effects.iter().any(|effect| !matches!(effect, Effect::Append(_)))
    }

    /// Gathers what is to be appended; there is nothing else to be done.
    pub(super) fn gather_appends(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::Append(event) = effect {
                self.gather(&event);
            }
        }
    }

    fn gather(&mut self, event: &Event<'_>) {
        self.watch.decided(event, &self.agent, &self.inner.metrics);
        let record = Record::from_event(event);
        self.batch_bytes += record.stored_len();
        self.unshown.push_back(record.clone());
        self.batch.push(record);
    }

    /// Hands what was gathered to the store, one append at a time.
    pub(super) fn begin_write(&mut self) {
        if self.write.is_none() {
            let records = std::mem::take(&mut self.batch);
            let bytes = std::mem::take(&mut self.batch_bytes);
            let span = (!records.is_empty()).then(|| {
                let mut span = self.watch.child("commit append");
                span.set("causeway.events", records.len() as u64);
                span
            });
            self.write = Write::begin(&self.inner, &self.run_id, self.generation, records, bytes, span);
        }
    }

    pub(super) fn written(&mut self) {
        if let Some(write) = self.write.take() {
            self.tell(Signal::Appended { through: write.last });
        }
    }

    /// Waits until everything decided so far is durable.
    pub(super) async fn flush(&mut self) -> bool {
        loop {
            self.begin_write();
            if self.write.is_none() {
                return true;
            }
            if !Write::wait(&mut self.write).await {
                self.write = None;
                return false;
            }
            self.written();
        }
    }

    async fn commit(&mut self, commit: Commit) {
        // What a tool does after the terminal could be told nowhere.
        self.leave_tools();
        self.invocations.end().await;
        if !self.flush().await {
            self.tell(Signal::AppendFailed);
            return;
        }
        let status = commit.status;
        self.code = match commit.terminal().map(|terminal| &terminal.data) {
            Some(EventData::RunError(error)) => Some(error.code.clone()),
            _other => None,
        };
        if status == Status::Uncertain {
            let why = self.why.unwrap_or(Why::CommitRefused);
            note_cause(&self.inner.store, &self.run_id, why).await;
        }
        for event in &commit.events {
            self.watch.decided(event, &self.agent, &self.inner.metrics);
        }
        let tail: Vec<Record> = commit.events.iter().map(Record::from_event).collect();
        let went = match self.interrupt_commit(&commit, &tail) {
            Some(interrupt) => self.commit_interrupt(interrupt).await,
            None => self.commit_final(&commit, &tail).await,
        };
        let signal = match went {
            Went::Committed(receipt) => {
                self.unshown.extend(tail);
                Signal::Committed(receipt)
            }
            Went::Refused => Signal::CommitRefused,
            Went::Unknown => {
                // Shown only if the store turns out to have it.
                self.unshown.extend(tail);
                Signal::CommitUnknown
            }
            Went::Ousted => Signal::AppendFailed,
        };
        self.tell(signal);
    }

    async fn commit_final(&mut self, commit: &Commit, tail: &[Record]) -> Went {
        let head = commit.head.as_ref().map(|head| HeadMove {
            expected: Revision::new(head.from),
            head_ref: head.head.reference.clone(),
        });
        // Moving the head is tried once (R15). A terminal that moves nothing may be tried as often as it takes.
        let patience = if head.is_some() { Duration::ZERO } else { self.inner.settings.store_patience };
        let until = Instant::now() + patience;
        let mut tries = 0;
        loop {
            let end = Final { tail: tail.to_vec(), head: head.clone() };
            hit(failpoint::COMMIT);
            let _span = self.watch.child("commit final");
            let began = Instant::now();
            let error = match self.inner.store.commit_final(&self.run_id, self.generation, end).await {
                Ok(()) => {
                    self.inner.metrics.wrote(Operation::Commit, began.elapsed());
                    hit(failpoint::COMMIT_DONE);
                    return Went::Committed(None);
                }
                Err(error) => error,
            };
            let unavailable = matches!(error, Error::Unavailable(_));
            if !unavailable || Instant::now() >= until {
                if head.is_some() {
                    self.why = Some(why(&error));
                }
                return self.went(&error);
            }
            tokio::time::sleep(backoff(tries)).await;
            tries += 1;
        }
    }

    async fn commit_interrupt(&mut self, interrupt: InterruptCommit) -> Went {
        hit(failpoint::INTERRUPT);
        let _span = self.watch.child("commit interrupt");
        let began = Instant::now();
        let expires = interrupt.expires_at.is_some();
        let committed = self.inner.store.commit_interrupt(&self.run_id, self.generation, interrupt).await;
        if expires {
            self.inner.expiring.notify_one(); // also where the answer was lost: it may be there
        }
        match committed {
            Ok(receipt) => {
                self.inner.metrics.wrote(Operation::Interrupt, began.elapsed());
                hit(failpoint::INTERRUPT_DONE);
                Went::Committed(Some(receipt))
            }
            Err(error) => {
                self.why = Some(why(&error));
                self.went(&error)
            }
        }
    }

    fn interrupt_commit(&self, commit: &Commit, tail: &[Record]) -> Option<InterruptCommit> {
        let interrupt_id = commit.interrupt.clone()?;
        let head = commit.head.as_ref()?;
        let (request, reason) =
            commit.events.iter().zip(tail).find_map(|(event, record)| match &event.data {
                EventData::InterruptRequested(requested) => {
                    Some((record.data.clone(), requested.request.reason()))
                }
                _other => None,
            })?;
        let expires_at = self.agent.config.interrupt_expiry.and_then(|expiry| {
            let at = clock::now().unix_millis().checked_add(i64::try_from(expiry.as_millis()).ok()?)?;
            let part = u32::try_from(at.rem_euclid(1_000)).ok()?;
            Some(Timestamp::from_unix(at.div_euclid(1_000), part * 1_000_000))
        });
        Some(InterruptCommit {
            tail: tail.to_vec(),
            head: HeadMove { expected: Revision::new(head.from), head_ref: head.head.reference.clone() },
            interrupt_id,
            reason,
            request,
            snapshot: Payload::from(head.head.private.clone().unwrap_or_else(|| "{}".to_owned())),
            expires_at,
        })
    }

    fn went(&self, error: &Error) -> Went {
        tracing::warn!(run_id = %self.run_id, %error, "the commit of this run failed");
        match error {
            Error::Unknown(_) => Went::Unknown,
            Error::Refused(Refusal::Fenced { .. } | Refusal::Ended { .. } | Refusal::UnknownRun) => {
                Went::Ousted
            }
            Error::Refused(_) | Error::Unavailable(_) | Error::Misuse(_) => Went::Refused,
            _other => Went::Refused,
        }
    }

    /// Fence before you speak: after the fence, a commit that has not landed never will.
    async fn read_outcome(&mut self) -> Outcome {
        let until = Instant::now() + self.inner.settings.store_patience;
        let mut tries = 0;
        hit(failpoint::OUTCOME);
        loop {
            match self.inner.store.fence(&self.run_id).await {
                Ok(fenced) => {
                    hit(failpoint::FENCE_DONE);
                    self.generation = fenced.generation;
                    self.forget_unwritten(fenced.last_sequence);
                    return Outcome::NotCommitted;
                }
                Err(Error::Refused(Refusal::Ended { .. })) => match self.landed().await {
                    Some(true) => {
                        hit(failpoint::OUTCOME_READ);
                        return Outcome::Committed;
                    }
                    // Somebody else ended it: readers must go and see.
                    Some(false) => return Outcome::Unreachable,
                    None => {}
                },
                Err(error @ (Error::Refused(_) | Error::Misuse(_))) => {
                    tracing::error!(run_id = %self.run_id, %error, "the run cannot be fenced");
                    return Outcome::Unreachable;
                }
                Err(error) => {
                    tracing::warn!(run_id = %self.run_id, %error, "the outcome of the commit cannot be read yet");
                }
            }
            if Instant::now() >= until {
                return Outcome::Unreachable;
            }
            tokio::time::sleep(backoff(tries)).await;
            tries += 1;
        }
    }

    /// Whether the terminal in the log is the one this run tried to commit.
    async fn landed(&mut self) -> Option<bool> {
        match self.inner.store.outcome(&self.run_id).await {
            Ok(StoreOutcome::Ended { terminal, .. }) => {
                Some(self.unshown.back().is_some_and(|last| *last == terminal))
            }
            Ok(StoreOutcome::Running { .. } | StoreOutcome::Missing) => Some(false),
            Err(_) => None,
        }
    }

    /// What was to be committed with a lost commit is not in the log.
    fn forget_unwritten(&mut self, last: Sequence) {
        self.unshown.retain(|record| record.sequence <= last);
    }

    fn show(&mut self, through: Sequence) {
        let due = self.unshown.iter().take_while(|record| record.sequence <= through).count();
        self.inner.metrics.events.inc_by(due as u64);
        self.watch.shown(through.value(), &self.agent, &self.inner.metrics);
        hit(failpoint::DELIVER);
        self.feed.publish(self.unshown.drain(..due));
        hit(failpoint::DELIVER_DONE);
    }

    pub(super) async fn stop_session(&mut self) {
        if self.session_over {
            return;
        }
        self.session_over = true;
        if tokio::time::timeout(STOP_PATIENCE, self.session.stop()).await.is_err() {
            tracing::error!(run_id = %self.run_id, "the turn could not be stopped in time");
        }
    }

    pub(super) fn note(&self, rejection: Rejection) {
        self.inner.metrics.rejected(rejection.verdict.id());
        let sequence = rejection.sequence.map(Sequence::value);
        let event_type = rejection.event_type.map(causeway_contract::EventType::as_str);
        tracing::warn!(run_id = %self.run_id, sequence, event_type, rule = %rejection.verdict, "event refused");
        self.inner.findings.note(self.run_id.clone(), rejection);
    }

    fn close(&mut self, how: Closing) {
        self.leave_tools();
        let stage = self.coordinator.stage();
        let code = self.code.as_ref().map(Code::as_str);
        tracing::info!(run_id = %self.run_id, ?stage, code, "run over");
        if let Stage::Ended(End::Terminal(terminal)) = stage {
            let outcome = Ended::of(terminal, code);
            self.inner.metrics.ended(&self.agent, outcome, code, self.watch.elapsed());
            self.watch.over(outcome.as_str(), code);
            self.inner
                .note(ended(&self.owner, &self.lost, outcome.as_str(), code).agent(&self.agent.config.id));
        }
        hit(failpoint::OVER);
        self.inner.forget(&self.run_id);
        self.feed.close(how);
        if how == Closing::WithoutTerminal {
            self.inner.metrics.lost.inc();
            self.inner.repairs.add(self.lost.clone());
        }
    }

    /// Keeps a whole result before the event that refers to it is written.
    pub(super) async fn keep_result(&mut self, whole: WholeResult) {
        let until = Instant::now() + self.inner.settings.store_patience;
        let mut tries = 0;
        loop {
            let bytes = whole.text.clone().into_bytes();
            hit(failpoint::RESULT);
            let error = match self.inner.store.put_result(&self.run_id, &whole.result_ref, bytes).await {
                Ok(()) => return hit(failpoint::RESULT_DONE),
                Err(error) => error,
            };
            let may_try = matches!(error, Error::Unavailable(_) | Error::Unknown(_));
            if !may_try || Instant::now() >= until {
                // The event shows what it shows; asking for the whole is then answered with "no such result".
                tracing::warn!(run_id = %self.run_id, %error, "a whole tool result was not kept");
                return;
            }
            tokio::time::sleep(backoff(tries)).await;
            tries += 1;
        }
    }

    /// After the end: hears the session out, so that its worker can serve the next turn.
    pub(super) async fn leave(mut self) {
        self.invocations.end().await;
        let last_words = async {
            while !self.session_over {
                match self.session.next().await {
                    crate::harness::Item::Line(_) => self.inner.metrics.late_item(),
                    crate::harness::Item::Tool(line) => {
                        self.inner.metrics.late_item();
                        self.asked(line).await;
                    }
                    crate::harness::Item::End(_) => self.session_over = true,
                }
            }
        };
        if tokio::time::timeout(LAST_WORDS, last_words).await.is_err() {
            self.stop_session().await;
        }
        if self.code.is_some() || self.forced {
            let trouble = self.session.trouble().await;
            let code = self.code.as_ref().map(Code::as_str);
            let error_type = trouble.error_type.as_deref();
            let stderr = trouble.stderr.as_ref().map(|path| tracing::field::display(path.display()));
            tracing::warn!(run_id = %self.run_id, agent = %self.agent.config.id, code, error_type, stderr, "run failed");
        }
        if self.session.forgot() && !self.stale.is_empty() {
            hit(failpoint::FORGOT);
            let runs: Vec<_> = self.stale.iter().map(|stale| stale.run_id.clone()).collect();
            if let Err(error) = self.inner.store.threads_forgotten(&runs).await {
                tracing::debug!(run_id = %self.run_id, %error, "forgotten threads were not noted");
            }
        }
    }
}
