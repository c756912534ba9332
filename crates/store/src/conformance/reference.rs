//! The store as simply as it can be said: lists, searched from end to end. Every backend is compared with it.
//!
//! Refuses to share anything with a backend, and to keep what can be looked for: which run is active and which
//! interrupt is pending is found anew each time. It is one piece: every verb looks through the same lists.

mod quota;

use causeway_contract::event::{EventType, Sequence};
use causeway_contract::id::{ConversationId, Name, Reference as ResultReference, RunId};
use causeway_contract::timestamp::Timestamp;

use crate::error::{Error, Misuse, Refusal};
use crate::model::{
    ConsumeInterrupt, Deleted, DeletedRun, Epoch, Expired, ExpiredRun, Fenced, Final, Generation, Head,
    HeadMove, Interrupt, InterruptCommit, InterruptStatus, InterruptSummary, Open, OpenRun, Opened, Orphan,
    Outcome, Owner, Page, Revision, Run, RunFilter, StaleThread, Status, Thread, Withdrawal,
};
use crate::record::Record;
use crate::store::Result;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// One run with everything that belongs to it.
#[derive(Clone, Debug)]
pub struct Row {
    pub run: Run,
    pub log: Vec<Record>,
    pub head: Option<HeadMove>,
    pub interrupt: Option<Interrupt>,
    pub results: Vec<(ResultReference<'static>, Vec<u8>)>,
    instance: u64,
    forgotten: bool,
}

#[derive(Clone, Debug)]
struct Key {
    owner: Owner,
    key: String,
    body: [u8; 32],
    run_id: RunId<'static>,
    created: i64,
}

#[derive(Clone, Debug)]
struct Place {
    owner: Owner,
    conversation_id: ConversationId<'static>,
    epoch: Epoch,
    heads: Vec<(Name<'static>, Head)>,
}

/// The lists.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// In the order in which they were opened.
    pub rows: Vec<Row>,
    places: Vec<Place>,
    keys: Vec<Key>,
    /// Every start that was to be counted, for ever: when, of whom, with which agent.
    begun: Vec<(i64, Owner, Name<'static>)>,
    instance: u64,
}

impl Reference {
    pub fn restart(&mut self) {
        self.instance += 1;
    }

    pub fn open_run(&mut self, open: &OpenRun) -> Result<Opened> {
        if let Some(answer) = self.replayed(open) {
            return answer;
        }
        self.is_free(open)?;
        let now = open.started.timestamp.unix_millis();
        if let Some(pending) = self.pending(&open.owner, &open.conversation_id) {
            let Interrupt { run_id, summary, .. } = pending.clone();
            if !is_over(&summary, now) {
                return Err(
                    Refusal::InterruptPending { run_id, interrupt_id: summary.interrupt_id.clone() }.into()
                );
            }
            self.is_within(open)?;
            self.void_interrupt(&run_id, Withdrawal::Expired)?;
        }
        self.is_within(open)?;
        Ok(Opened::New(self.insert(open, None)))
    }

    pub fn append(&mut self, run_id: &RunId<'_>, given: Generation, records: &[Record]) -> Result<()> {
        numbered(records)?;
        if records.iter().any(|record| record.event_type.is_terminal()) {
            return Err(Misuse::TerminalInAppend.into());
        }
        let row = self.row_mut(run_id)?;
        row.admit(Some(given), records)?;
        row.write(records);
        Ok(())
    }

    pub fn commit_final(&mut self, run_id: &RunId<'_>, given: Generation, end: &Final) -> Result<()> {
        numbered(&end.tail)?;
        self.end(run_id, Some(given), end)
    }

    pub fn close_run(&mut self, run_id: &RunId<'_>, tail: &[Record]) -> Result<()> {
        numbered(tail)?;
        if tail.last().is_some_and(|record| record.event_type == EventType::RunFinished) {
            return Err(Misuse::TerminalKind { verb: "close_run", terminal: "run.finished" }.into());
        }
        self.end(run_id, None, &Final { tail: tail.to_vec(), head: None })?;
        let run = &mut self.row_mut(run_id)?.run;
        run.generation = run.generation.next();
        Ok(())
    }

    pub fn commit_interrupt(
        &mut self,
        run_id: &RunId<'_>,
        given: Generation,
        commit: &InterruptCommit,
    ) -> Result<(u64, String)> {
        numbered(&commit.tail)?;
        let end = Final { tail: commit.tail.clone(), head: Some(commit.head.clone()) };
        self.end(run_id, Some(given), &end)?;
        let row = self.row_mut(run_id)?;
        row.interrupt = Some(Interrupt {
            owner: row.run.owner.clone(),
            run_id: row.run.run_id.clone(),
            conversation_id: row.run.conversation_id.clone(),
            agent_id: row.run.agent_id.clone(),
            summary: InterruptSummary {
                interrupt_id: commit.interrupt_id.clone(),
                reason: commit.reason,
                revision: commit.head.revision(),
                status: InterruptStatus::Pending,
                expires_at: commit.expires_at.clone(),
                decision: None,
            },
            request: commit.request.clone(),
            snapshot: commit.snapshot.clone(),
            head_ref: commit.head.head_ref.clone(),
            resumed_by: None,
        });
        Ok((commit.head.revision().value(), commit.head.head_ref.as_str().to_owned()))
    }

    pub fn consume_interrupt(&mut self, answer: &ConsumeInterrupt) -> Result<Opened> {
        let open = &answer.open;
        if let Some(replayed) = self.replayed(open) {
            return replayed;
        }
        let row = self.row(&answer.interrupted)?;
        if row.run.owner != open.owner {
            return Err(Refusal::UnknownRun.into());
        }
        let same = row.run.conversation_id == open.conversation_id
            && row.run.agent_id == open.agent_id
            && row.run.thread == open.thread;
        if !same {
            return Err(Misuse::Stranger.into());
        }
        let interrupt = row.interrupt.as_ref().ok_or(Refusal::NoInterrupt)?;
        let Interrupt { summary, resumed_by, .. } = interrupt;
        if summary.interrupt_id != answer.interrupt_id {
            return Err(Refusal::NoInterrupt.into());
        }
        if summary.revision != answer.revision {
            let (expected, found) = (summary.revision, answer.revision);
            return Err(Refusal::RevisionMismatch { expected, found }.into());
        }
        if let Some(resumed_by) = resumed_by.clone() {
            return Err(Refusal::InterruptConsumed { resumed_by }.into());
        }
        let over = is_over(summary, open.started.timestamp.unix_millis());
        match summary.status {
            InterruptStatus::Pending if !over => {}
            InterruptStatus::Pending | InterruptStatus::Expired => {
                return Err(Refusal::InterruptExpired.into());
            }
            InterruptStatus::Consumed | InterruptStatus::Voided => {
                return Err(Refusal::InterruptClosed.into());
            }
        }
        self.is_free(open)?;
        self.is_within(open)?;
        let row = self.row_mut(&answer.interrupted)?;
        row.run.resumed_by = Some(open.run_id.clone());
        if let Some(interrupt) = &mut row.interrupt {
            interrupt.summary.status = InterruptStatus::Consumed;
            interrupt.summary.decision = Some(answer.decision.clone());
            interrupt.resumed_by = Some(open.run_id.clone());
        }
        Ok(Opened::New(self.insert(open, Some(&answer.interrupted))))
    }

    pub fn void_interrupt(&mut self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool> {
        match &mut self.row_mut(run_id)?.interrupt {
            Some(interrupt) if interrupt.summary.status == InterruptStatus::Pending => {
                interrupt.summary.status = match why {
                    Withdrawal::Voided => InterruptStatus::Voided,
                    Withdrawal::Expired => InterruptStatus::Expired,
                };
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }

    pub fn fence(&mut self, run_id: &RunId<'_>) -> Result<Fenced> {
        let row = self.row_mut(run_id)?;
        row.admit(None, &[])?;
        row.run.generation = row.run.generation.next();
        Ok(Fenced { generation: row.run.generation, last_sequence: row.run.last_sequence })
    }

    pub fn put_result(
        &mut self,
        run_id: &RunId<'_>,
        reference: &ResultReference<'_>,
        bytes: &[u8],
    ) -> Result<()> {
        let row = self.row_mut(run_id)?;
        row.is_kept()?;
        let results = &mut row.results;
        match results.iter().find(|(kept, _)| kept == reference) {
            Some((_, kept)) if kept == bytes => Ok(()),
            Some(_) => Err(Refusal::ResultExists.into()),
            None => {
                results.push((reference.clone().into_owned(), bytes.to_vec()));
                Ok(())
            }
        }
    }

    pub fn clear_conversation(&mut self, owner: &Owner, id: &ConversationId<'_>) -> Result<Epoch> {
        self.is_idle(owner, id)?;
        if let Some(run_id) = self.pending(owner, id).map(|interrupt| interrupt.run_id.clone()) {
            self.void_interrupt(&run_id, Withdrawal::Voided)?;
        }
        let place = self.place_mut(owner, id).ok_or(Refusal::UnknownConversation)?;
        place.epoch = place.epoch.next();
        place.heads.clear();
        Ok(place.epoch)
    }

    pub fn delete_conversation(&mut self, owner: &Owner, id: &ConversationId<'_>) -> Result<Deleted> {
        self.is_idle(owner, id)?;
        let here = |row: &Row| row.run.owner == *owner && row.run.conversation_id == *id;
        let gone: Vec<_> = self.rows.iter().filter(|row| here(row)).cloned().collect();
        self.rows.retain(|row| !here(row));
        self.places.retain(|place| place.owner != *owner || place.conversation_id != *id);
        self.keys.retain(|key| !gone.iter().any(|row| row.run.run_id == key.run_id));
        let threads = gone.iter().filter_map(Row::thread).collect();
        let runs = gone.into_iter().map(|Row { run, .. }| DeletedRun {
            run_id: run.run_id,
            agent_id: run.agent_id,
            epoch: run.epoch,
        });
        Ok(Deleted { runs: runs.collect(), threads })
    }

    pub fn threads_forgotten(&mut self, runs: &[RunId<'static>]) {
        for row in &mut self.rows {
            row.forgotten |= runs.contains(&row.run.run_id);
        }
    }

    /// Of the runs that are due the oldest, and once more from the start for the next: one may make way for another, but not
    /// within a pass.
    pub fn expire(&mut self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Expired {
        let mut due: Vec<usize> = (0..self.rows.len()).filter(|row| self.is_due(*row, before)).collect();
        due.sort_by_key(|row| self.rows[*row].run.ended_at.as_ref().map(|at| at.unix_millis()));
        due.truncate(limit);
        let mut done = Expired::default();
        for row in due {
            let row = &mut self.rows[row];
            row.log.clear();
            row.results.clear();
            row.run.request = "{}".into();
            row.run.seed = None;
            row.run.expired_at = Some(at.clone().into_owned());
            if let Some(interrupt) = &mut row.interrupt {
                (interrupt.request, interrupt.snapshot) = ("{}".into(), "{}".into());
                interrupt.summary.decision = None;
            }
            let Run { owner, run_id, conversation_id, .. } = row.run.clone();
            done.runs.push(ExpiredRun { owner, run_id, conversation_id });
        }
        let left = (0..self.rows.len()).filter(|row| self.is_due(*row, before));
        done.oldest_left =
            left.filter_map(|row| self.rows[row].run.ended_at.as_ref()).map(|at| at.unix_millis()).min();
        done
    }

    fn is_due(&self, row: usize, before: &Timestamp<'_>) -> bool {
        let row = &self.rows[row];
        let answer = row.run.resumed_by.as_ref().and_then(|id| self.row(id).ok());
        row.run.ended_at.as_ref().is_some_and(|at| at.unix_millis() < before.unix_millis())
            && row.run.expired_at.is_none()
            && row.pending().is_none()
            && answer.is_none_or(|row| row.run.expired_at.is_some())
    }

    pub fn outcome(&self, run_id: &RunId<'_>) -> Result<Outcome> {
        let Ok(row) = self.row(run_id) else { return Ok(Outcome::Missing) };
        row.is_kept()?;
        let (status, run) = (row.run.status, &row.run);
        if !status.is_terminal() {
            let (generation, last_sequence) = (run.generation, run.last_sequence);
            return Ok(Outcome::Running { generation, last_sequence });
        }
        Ok(Outcome::Ended { status, terminal: row.log.last().unwrap().clone(), head: row.head.clone() })
    }

    pub fn load_head(&self, owner: &Owner, id: &ConversationId<'_>, agent: &Name<'_>) -> Option<Head> {
        let place = self.places.iter().find(|place| place.owner == *owner && place.conversation_id == *id)?;
        place.heads.iter().find(|(of, _)| of == agent).map(|(_, head)| head.clone())
    }

    pub fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page> {
        let row = self.row(run_id)?;
        row.is_kept()?;
        let later = row.log.iter().filter(|record| after.is_none_or(|after| record.sequence > after));
        let records = later.take(limit).cloned().collect();
        Ok(Page { records, status: row.run.status, last_sequence: row.run.last_sequence })
    }

    pub fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run> {
        Ok(self.owned(owner, run_id)?.view())
    }

    /// All pages as one list.
    pub fn runs(&self, owner: &Owner, filter: &RunFilter) -> Vec<Run> {
        let fits = |run: &Run| {
            let created = run.created_at.unix_millis();
            run.owner == *owner
                && filter.status.is_none_or(|status| run.status == status)
                && filter.agent_id.as_ref().is_none_or(|agent| run.agent_id == *agent)
                && filter.conversation_id.as_ref().is_none_or(|id| run.conversation_id == *id)
                && filter.since.is_none_or(|since| created >= since)
                && filter.until.is_none_or(|until| created < until)
        };
        self.rows.iter().rev().map(Row::view).filter(fits).collect()
    }

    pub fn active_run(&self, owner: &Owner, id: &ConversationId<'_>) -> Option<RunId<'static>> {
        let active = |row: &&Row| row.is_in(owner, id) && row.run.status == Status::Running;
        self.rows.iter().find(active).map(|row| row.run.run_id.clone())
    }

    pub fn pending(&self, owner: &Owner, id: &ConversationId<'_>) -> Option<&Interrupt> {
        let mut here = self.rows.iter().filter(|row| row.is_in(owner, id));
        here.find_map(Row::pending)
    }

    pub fn pending_of_all(&self, owner: &Owner) -> Vec<Interrupt> {
        let pending = self.rows.iter().rev().filter_map(Row::pending);
        pending.filter(|interrupt| interrupt.owner == *owner).cloned().collect()
    }

    pub fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt> {
        let row = self.owned(owner, run_id)?;
        row.is_kept()?;
        Ok(row.interrupt.clone().ok_or(Refusal::NoInterrupt)?)
    }

    pub fn result(&self, owner: &Owner, run_id: &RunId<'_>, of: &ResultReference<'_>) -> Result<Vec<u8>> {
        let results = &self.owned(owner, run_id)?.results;
        let found = results.iter().find(|(reference, _)| reference == of);
        Ok(found.map(|(_, bytes)| bytes.clone()).ok_or(Refusal::UnknownResult)?)
    }

    pub fn stale_threads(&self, owner: &Owner, id: &ConversationId<'_>) -> Vec<StaleThread> {
        let heads = self.places.iter().filter(|place| place.owner == *owner && place.conversation_id == *id);
        let heads: Vec<_> = heads.flat_map(|place| &place.heads).map(|(_, head)| &head.run_id).collect();
        let stale = |row: &&Row| {
            row.is_in(owner, id) && row.run.status.is_terminal() && !heads.contains(&&row.run.run_id)
        };
        self.rows.iter().filter(stale).filter_map(Row::thread).collect()
    }

    pub fn list_orphans(&self) -> Vec<Orphan> {
        let orphans =
            self.rows.iter().filter(|row| !row.run.status.is_terminal() && row.instance != self.instance);
        orphans
            .map(|Row { run, .. }| Orphan {
                owner: run.owner.clone(),
                run_id: run.run_id.clone(),
                conversation_id: run.conversation_id.clone(),
                epoch: run.epoch,
                agent_id: run.agent_id.clone(),
                harness_id: run.harness_id.clone(),
                thread: run.thread,
                last_sequence: run.last_sequence,
                worker_thread: run.worker_thread.clone(),
            })
            .collect()
    }

    fn replayed(&self, open: &OpenRun) -> Option<Result<Opened>> {
        let given = open.idempotency.as_ref()?;
        let now = open.started.timestamp.unix_millis();
        let young = |key: &&Key| {
            key.owner == open.owner && key.key == *given.key && now.saturating_sub(key.created) < DAY
        };
        let key = self.keys.iter().rev().find(young)?;
        if key.body != given.body_hash {
            return Some(Err(Refusal::KeyReused { run_id: key.run_id.clone() }.into()));
        }
        Some(self.row(&key.run_id).map(|row| Opened::Replayed(Box::new(row.view()))))
    }

    fn is_free(&self, open: &OpenRun) -> Result<()> {
        if self.row(&open.run_id).is_ok() {
            return Err(Refusal::RunExists { run_id: open.run_id.clone() }.into());
        }
        match self.active_run(&open.owner, &open.conversation_id) {
            Some(run_id) => Err(Refusal::ConversationBusy { run_id }.into()),
            None => Ok(()),
        }
    }

    fn is_idle(&self, owner: &Owner, id: &ConversationId<'_>) -> Result<()> {
        let known = self.places.iter().any(|place| place.owner == *owner && place.conversation_id == *id);
        if !known {
            return Err(Refusal::UnknownConversation.into());
        }
        match self.active_run(owner, id) {
            Some(run_id) => Err(Refusal::ConversationBusy { run_id }.into()),
            None => Ok(()),
        }
    }

    fn insert(&mut self, open: &OpenRun, resumed_from: Option<&RunId<'static>>) -> Open {
        if self.place_mut(&open.owner, &open.conversation_id).is_none() {
            self.places.push(Place {
                owner: open.owner.clone(),
                conversation_id: open.conversation_id.clone(),
                epoch: Epoch::new(1),
                heads: Vec::new(),
            });
        }
        let base = self.load_head(&open.owner, &open.conversation_id, &open.agent_id);
        let epoch = self.place_mut(&open.owner, &open.conversation_id).unwrap().epoch;
        if let Some(given) = &open.idempotency {
            self.keys.push(Key {
                owner: open.owner.clone(),
                key: given.key.to_string(),
                body: given.body_hash,
                run_id: open.run_id.clone(),
                created: open.started.timestamp.unix_millis(),
            });
        }
        if open.quota.owner.starts_per_minute.or(open.quota.agent.starts_per_minute).is_some() {
            let at = open.started.timestamp.unix_millis();
            self.begun.push((at, open.owner.clone(), open.agent_id.clone()));
        }
        let generation = Generation::new(1);
        let run = Run {
            owner: open.owner.clone(),
            run_id: open.run_id.clone(),
            conversation_id: open.conversation_id.clone(),
            epoch,
            agent_id: open.agent_id.clone(),
            harness_id: open.harness_id.clone(),
            thread: open.thread,
            status: Status::Running,
            generation,
            created_at: open.started.timestamp.clone(),
            ended_at: None,
            last_sequence: Sequence::ZERO,
            request: open.request.clone(),
            error: None,
            cause: None,
            interrupt: None,
            resumed_from: resumed_from.cloned(),
            resumed_by: None,
            seed: open.seed.clone(),
            usage: None,
            worker_thread: open.worker_thread.clone(),
            expired_at: None,
        };
        self.rows.push(Row {
            run,
            log: vec![open.started.clone()],
            head: None,
            interrupt: None,
            results: Vec::new(),
            instance: self.instance,
            forgotten: false,
        });
        Open { generation, epoch, base }
    }

    fn end(&mut self, run_id: &RunId<'_>, writer: Option<Generation>, end: &Final) -> Result<()> {
        let terminal = end.tail.last().ok_or(Misuse::Empty)?;
        let status = match terminal.event_type {
            EventType::RunFinished => Status::Finished,
            EventType::RunInterrupted => Status::Interrupted,
            EventType::RunCancelled => Status::Cancelled,
            _ if terminal.data.as_str().contains("thread_durability_uncertain") => Status::Uncertain,
            _ => Status::Error,
        };
        let failed = matches!(status, Status::Error | Status::Uncertain);
        if failed && end.head.is_some() {
            return Err(Misuse::HeadForbidden.into());
        }
        if let (Status::Finished, Some(head)) = (status, &end.head)
            && !terminal.data.as_str().contains(&format!(
                r#""durable_revision":{},"head_ref":"{}""#,
                head.revision(),
                head.head_ref
            ))
        {
            return Err(Misuse::HeadDiffers.into());
        }
        let row = self.row(run_id)?;
        row.admit(writer, &end.tail)?;
        match (row.run.thread, &end.head) {
            (Thread::Durable, None) if status == Status::Finished => return Err(Misuse::HeadMissing.into()),
            (Thread::Ephemeral, Some(_)) => return Err(Misuse::HeadForbidden.into()),
            (Thread::Durable | Thread::Ephemeral, _) => {}
        }
        let Run { owner, conversation_id, agent_id, run_id, .. } = row.run.clone();
        if let Some(head) = &end.head {
            let found = self.load_head(&owner, &conversation_id, &agent_id);
            let found = found.map_or(Revision::new(0), |head| head.revision);
            if found != head.expected {
                return Err(Refusal::HeadMoved { expected: head.expected, found }.into());
            }
            let heads = &mut self.place_mut(&owner, &conversation_id).unwrap().heads;
            heads.retain(|(of, _)| *of != agent_id);
            let (revision, head_ref) = (head.revision(), head.head_ref.clone());
            heads.push((agent_id, Head { revision, head_ref, run_id: run_id.clone() }));
        }
        let row = self.row_mut(&run_id)?;
        row.write(&end.tail);
        row.head = end.head.clone();
        row.run.status = status;
        row.run.ended_at = Some(terminal.timestamp.clone());
        row.run.error = failed.then(|| terminal.data.clone());
        Ok(())
    }

    fn row(&self, run_id: &RunId<'_>) -> Result<&Row> {
        let found = self.rows.iter().find(|row| row.run.run_id == *run_id);
        found.ok_or_else(|| Refusal::UnknownRun.into())
    }

    fn row_mut(&mut self, run_id: &RunId<'_>) -> Result<&mut Row> {
        let found = self.rows.iter_mut().find(|row| row.run.run_id == *run_id);
        found.ok_or_else(|| Refusal::UnknownRun.into())
    }

    fn owned(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<&Row> {
        self.row(run_id)
            .and_then(|row| if row.run.owner == *owner { Ok(row) } else { Err(Refusal::UnknownRun.into()) })
    }

    fn place_mut(&mut self, owner: &Owner, id: &ConversationId<'_>) -> Option<&mut Place> {
        self.places.iter_mut().find(|place| place.owner == *owner && place.conversation_id == *id)
    }
}

impl Row {
    fn admit(&self, writer: Option<Generation>, records: &[Record]) -> Result<()> {
        let current = self.run.generation;
        if let Some(given) = writer.filter(|given| *given != current) {
            return Err(Refusal::Fenced { given, current }.into());
        }
        if self.run.status != Status::Running {
            return Err(Refusal::Ended { status: self.run.status }.into());
        }
        let expected = self.run.last_sequence.next().unwrap();
        match records.first().map(|record| record.sequence) {
            Some(found) if found != expected => Err(Refusal::NotContiguous { expected, found }.into()),
            Some(_) | None => Ok(()),
        }
    }

    fn write(&mut self, records: &[Record]) {
        self.log.extend_from_slice(records);
        self.run.last_sequence = self.log.last().unwrap().sequence;
        let last_usage = self.log.iter().rev().find(|record| record.event_type == EventType::UsageUpdated);
        self.run.usage = last_usage.map(|record| record.data.clone());
    }

    fn view(&self) -> Run {
        let interrupt = self.interrupt.as_ref().map(|interrupt| interrupt.summary.clone());
        Run { interrupt, ..self.run.clone() }
    }

    fn is_kept(&self) -> Result<()> {
        match self.run.remains() {
            Some(remains) => Err(Refusal::Expired { remains: Box::new(remains) }.into()),
            None => Ok(()),
        }
    }

    fn pending(&self) -> Option<&Interrupt> {
        self.interrupt.as_ref().filter(|interrupt| interrupt.summary.status == InterruptStatus::Pending)
    }

    fn is_in(&self, owner: &Owner, id: &ConversationId<'_>) -> bool {
        self.run.owner == *owner && self.run.conversation_id == *id
    }

    fn thread(&self) -> Option<StaleThread> {
        let worker_thread = self.run.worker_thread.clone().filter(|_| !self.forgotten)?;
        let Run { run_id, agent_id, epoch, .. } = self.run.clone();
        Some(StaleThread { run_id, agent_id, epoch, worker_thread })
    }
}

fn numbered(records: &[Record]) -> Result<()> {
    if records.is_empty() {
        return Err(Misuse::Empty.into());
    }
    let follows = |pair: &[Record]| pair[0].sequence.value() + 1 == pair[1].sequence.value();
    if records.windows(2).all(follows) { Ok(()) } else { Err(Error::Misuse(Misuse::Gap)) }
}

fn is_over(summary: &InterruptSummary, now: i64) -> bool {
    summary.expires_at.as_ref().is_some_and(|at| at.unix_millis() <= now)
}
