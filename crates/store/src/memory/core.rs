//! The log in memory, without threads or waiting: what `causeway adapt` and the models of the tests use.
//!
//! Refuses durability: everything is gone with the value. In all else it is the reference for the other backends.

mod expire;
mod read;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use causeway_contract::event::EventType;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;

use crate::error::Refusal;
use crate::model::interrupt::expired;
use crate::model::{
    Bound, ConsumeInterrupt, Deleted, DeletedRun, Epoch, Fenced, Final, Generation, Head, HeadMove,
    Interrupt, InterruptCommit, InterruptStatus, InterruptSummary, Open, OpenRun, Opened, Owner, Revision,
    Run, StaleThread, Status, Whose, Withdrawal,
};
use crate::record::Record;
use crate::rules::{self, Ending, RunState};
use crate::store::Result;

/// The log in memory. Its methods are the verbs of [`Store`](crate::Store), without the waiting.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    runs: BTreeMap<u64, Row>,
    by_id: HashMap<RunId<'static>, u64>,
    conversations: HashMap<Place, Conversation>,
    keys: HashMap<(Owner, Arc<str>), Key>,
    /// Runs begun within the last minute that were to be counted.
    begun: Vec<Begun>,
    last_key: u64,
    instance: u64,
    /// Refusals that are not made.
    tolerated: Option<fn(&Refusal) -> bool>,
}

type Place = (Owner, ConversationId<'static>);

#[derive(Clone, Debug)]
struct Row {
    run: Run,
    log: Vec<Record>,
    head: Option<HeadMove>,
    interrupt: Option<Interrupt>,
    results: HashMap<Reference<'static>, Arc<[u8]>>,
    instance: u64,
    forgotten: bool,
    /// Of its request and its seed.
    opened_bytes: u64,
}

#[derive(Clone, Debug)]
struct Conversation {
    epoch: Epoch,
    active: Option<u64>,
    pending: Option<u64>,
    heads: BTreeMap<Name<'static>, Head>,
}

#[derive(Clone, Debug)]
struct Key {
    body_hash: [u8; 32],
    run: u64,
    created: i64,
}

/// When a run was begun, and whose it is.
#[derive(Clone, Debug)]
struct Begun {
    at: i64,
    owner: Owner,
    agent_id: Name<'static>,
}

impl Memory {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same log, but it does not make the refusals that `tolerated` says yes to. For models, which leave a check
    /// out to see what it is for.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn tolerating(self, tolerated: Option<fn(&Refusal) -> bool>) -> Self {
        Self { tolerated, ..self }
    }

    /// What a restart of the gateway does: runs that are open now count as orphans.
    pub fn restart(&mut self) {
        self.instance += 1;
    }

    /// See [`Store::open_run`](crate::Store::open_run).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn open_run(&mut self, open: OpenRun) -> Result<Opened> {
        rules::check_open(&open)?;
        if let Some(run) = self.replayed(&open)? {
            return Ok(Opened::Replayed(Box::new(run)));
        }
        self.check_new(&open)?;
        let mut voided = None;
        if let Some(pending) = self.pending_of(&open.owner, &open.conversation_id) {
            if expired(pending.summary.expires_at.as_ref(), open.started.timestamp.unix_millis()) {
                voided = Some(pending.run_id.clone());
            } else {
                self.check(Err(Refusal::InterruptPending {
                    run_id: pending.run_id.clone(),
                    interrupt_id: pending.summary.interrupt_id.clone(),
                }))?;
            }
        }
        self.check_quota(&open)?;
        if let Some(run_id) = voided {
            self.void_interrupt(&run_id, Withdrawal::Expired)?;
        }
        Ok(Opened::New(self.insert(open, None)))
    }

    /// See [`Store::append`](crate::Store::append).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn append(&mut self, run_id: &RunId<'_>, generation: Generation, records: Vec<Record>) -> Result<()> {
        rules::check_append(&records)?;
        self.check(rules::admit(self.row(run_id)?.state(), Some(generation), &records))?;
        self.row_mut(run_id)?.extend(records);
        Ok(())
    }

    /// See [`Store::commit_final`](crate::Store::commit_final).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn commit_final(&mut self, run_id: &RunId<'_>, generation: Generation, end: Final) -> Result<()> {
        let ending = rules::check_end(rules::COMMIT_FINAL, &end)?;
        self.end(run_id, Some(generation), ending, end.tail, end.head)
    }

    /// See [`Store::commit_interrupt`](crate::Store::commit_interrupt).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn commit_interrupt(
        &mut self,
        run_id: &RunId<'_>,
        generation: Generation,
        interrupt: InterruptCommit,
    ) -> Result<CommitReceipt> {
        rules::check_interrupt(&interrupt)?;
        let InterruptCommit { tail, head, interrupt_id, reason, request, snapshot, expires_at } = interrupt;
        let ending = Ending { status: Status::Interrupted, error: None };
        self.end(run_id, Some(generation), ending, tail, Some(head.clone()))?;
        let key = self.key(run_id)?;
        let row = self.row_mut(run_id)?;
        let summary = InterruptSummary {
            interrupt_id,
            reason,
            revision: head.revision(),
            status: InterruptStatus::Pending,
            expires_at,
            decision: None,
        };
        row.interrupt = Some(Interrupt {
            owner: row.run.owner.clone(),
            run_id: row.run.run_id.clone(),
            conversation_id: row.run.conversation_id.clone(),
            agent_id: row.run.agent_id.clone(),
            summary,
            request,
            snapshot,
            head_ref: head.head_ref.clone(),
            resumed_by: None,
        });
        let place = row.place();
        if let Some(conversation) = self.conversations.get_mut(&place) {
            conversation.pending = Some(key);
        }
        Ok(rules::receipt(&head))
    }

    /// See [`Store::consume_interrupt`](crate::Store::consume_interrupt).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn consume_interrupt(&mut self, answer: ConsumeInterrupt) -> Result<Opened> {
        rules::check_open(&answer.open)?;
        if let Some(run) = self.replayed(&answer.open)? {
            return Ok(Opened::Replayed(Box::new(run)));
        }
        let row = self.row(&answer.interrupted)?;
        rules::check_resumed(&answer, &row.run)?;
        let interrupt = row.interrupt.as_ref().ok_or(Refusal::NoInterrupt)?;
        self.check(rules::check_answer(&answer, interrupt))?;
        self.check_new(&answer.open)?;
        self.check_quota(&answer.open)?;

        let place = row.place();
        let resumed_by = answer.open.run_id.clone();
        let row = self.row_mut(&answer.interrupted)?;
        if let Some(interrupt) = &mut row.interrupt {
            interrupt.summary.status = InterruptStatus::Consumed;
            interrupt.summary.decision = Some(answer.decision);
            interrupt.resumed_by = Some(resumed_by.clone());
        }
        row.run.resumed_by = Some(resumed_by);
        if let Some(conversation) = self.conversations.get_mut(&place) {
            conversation.pending = None;
        }
        Ok(Opened::New(self.insert(answer.open, Some(answer.interrupted))))
    }

    /// See [`Store::note_cause`](crate::Store::note_cause).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn note_cause(&mut self, run_id: &RunId<'_>, cause: &str) -> Result<()> {
        self.row_mut(run_id)?.run.cause.get_or_insert_with(|| Arc::from(cause));
        Ok(())
    }

    /// See [`Store::void_interrupt`](crate::Store::void_interrupt).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn void_interrupt(&mut self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool> {
        let row = self.row_mut(run_id)?;
        let Some(interrupt) = row.interrupt.as_mut().filter(|i| i.summary.status == InterruptStatus::Pending)
        else {
            return Ok(false);
        };
        interrupt.summary.status = why.into();
        let place = row.place();
        if let Some(conversation) = self.conversations.get_mut(&place) {
            conversation.pending = None;
        }
        Ok(true)
    }

    /// See [`Store::fence`](crate::Store::fence).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn fence(&mut self, run_id: &RunId<'_>) -> Result<Fenced> {
        let row = self.row_mut(run_id)?;
        rules::admit(row.state(), None, &[])?;
        row.run.generation = row.run.generation.next();
        Ok(Fenced { generation: row.run.generation, last_sequence: row.run.last_sequence })
    }

    /// See [`Store::close_run`](crate::Store::close_run).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn close_run(&mut self, run_id: &RunId<'_>, tail: Vec<Record>) -> Result<()> {
        let end = Final { tail, head: None };
        let ending = rules::check_end(rules::CLOSE_RUN, &end)?;
        self.end(run_id, None, ending, end.tail, None)?;
        let row = self.row_mut(run_id)?;
        row.run.generation = row.run.generation.next();
        Ok(())
    }

    /// See [`Store::put_result`](crate::Store::put_result).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn put_result(&mut self, run_id: &RunId<'_>, reference: &Reference<'_>, bytes: &[u8]) -> Result<()> {
        rules::check_result(bytes)?;
        let row = self.row_mut(run_id)?;
        rules::not_expired(&row.run)?;
        match row.results.get(reference.as_str()) {
            Some(kept) if **kept == *bytes => Ok(()),
            Some(_) => Err(Refusal::ResultExists.into()),
            None => {
                row.results.insert(reference.clone().into_owned(), Arc::from(bytes));
                Ok(())
            }
        }
    }

    /// See [`Store::clear_conversation`](crate::Store::clear_conversation).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn clear_conversation(
        &mut self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Epoch> {
        let pending = self.idle(owner, conversation_id)?.pending;
        let pending = pending.and_then(|key| self.runs.get(&key)).map(|row| row.run.run_id.clone());
        if let Some(run_id) = pending {
            self.void_interrupt(&run_id, Withdrawal::Voided)?;
        }
        let conversation =
            self.conversations.get_mut(&place(owner, conversation_id)).ok_or(Refusal::UnknownConversation)?;
        conversation.epoch = conversation.epoch.next();
        conversation.heads.clear();
        Ok(conversation.epoch)
    }

    /// See [`Store::delete_conversation`](crate::Store::delete_conversation).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn delete_conversation(
        &mut self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted> {
        self.idle(owner, conversation_id)?;
        let place = place(owner, conversation_id);
        let mut deleted = Deleted::default();
        self.runs.retain(|_, row| {
            if row.place() != place {
                return true;
            }
            deleted.runs.push(DeletedRun {
                run_id: row.run.run_id.clone(),
                agent_id: row.run.agent_id.clone(),
                epoch: row.run.epoch,
            });
            deleted.threads.extend(row.thread_left());
            false
        });
        self.by_id.retain(|_, key| self.runs.contains_key(key));
        self.keys.retain(|_, key| self.runs.contains_key(&key.run));
        self.conversations.remove(&place);
        Ok(deleted)
    }

    /// See [`Store::threads_forgotten`](crate::Store::threads_forgotten).
    pub fn threads_forgotten(&mut self, runs: &[RunId<'static>]) {
        for run_id in runs {
            if let Ok(row) = self.row_mut(run_id) {
                row.forgotten = true;
            }
        }
    }

    fn replayed(&self, open: &OpenRun) -> Result<Option<Run>> {
        let Some(given) = &open.idempotency else { return Ok(None) };
        let Some(key) = self.keys.get(&(open.owner.clone(), given.key.clone())) else { return Ok(None) };
        if open.started.timestamp.unix_millis() - key.created >= rules::KEY_MILLIS {
            return Ok(None);
        }
        let Some(row) = self.runs.get(&key.run) else { return Ok(None) };
        if key.body_hash == given.body_hash {
            Ok(Some(row.view()))
        } else {
            Err(Refusal::KeyReused { run_id: row.run.run_id.clone() }.into())
        }
    }

    fn check_new(&self, open: &OpenRun) -> Result<()> {
        if self.by_id.contains_key(open.run_id.as_str()) {
            return Err(Refusal::RunExists { run_id: open.run_id.clone() }.into());
        }
        match self.active_run(&open.owner, &open.conversation_id) {
            Some(run_id) => self.check(Err(Refusal::ConversationBusy { run_id })),
            None => Ok(()),
        }
    }

    fn check_quota(&self, open: &OpenRun) -> Result<()> {
        let now = open.started.timestamp.unix_millis();
        self.check(open.quota.check_reached().map_err(Refusal::from))?;
        for (whose, bound, limit) in open.quota.bounds() {
            let of = |owner: &Owner, agent_id: &Name<'_>| match whose {
                Whose::Owner => *owner == open.owner,
                Whose::Agent => *agent_id == open.agent_id,
            };
            let checked = if bound == Bound::OpenRuns {
                let is_open =
                    |row: &&Row| !row.run.status.is_terminal() && of(&row.run.owner, &row.run.agent_id);
                rules::check_open_runs(whose, limit, self.runs.values().filter(is_open).count() as u64)
            } else {
                let within = |begun: &&Begun| {
                    begun.at > now - rules::START_MILLIS && of(&begun.owner, &begun.agent_id)
                };
                let mut times: Vec<i64> = self.begun.iter().filter(within).map(|begun| begun.at).collect();
                times.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
                let nth = limit.checked_sub(1).and_then(|at| times.get(usize::try_from(at).ok()?).copied());
                rules::check_starts(whose, limit, nth, now)
            };
            self.check(checked)?;
        }
        Ok(())
    }

    fn check(&self, checked: std::result::Result<(), Refusal>) -> Result<()> {
        match checked {
            Err(refusal) if !self.tolerated.is_some_and(|tolerated| tolerated(&refusal)) => {
                Err(refusal.into())
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn insert(&mut self, open: OpenRun, resumed_from: Option<RunId<'static>>) -> Open {
        let opened_bytes = rules::opened_bytes(&open);
        self.last_key += 1;
        let key = self.last_key;
        let place = (open.owner.clone(), open.conversation_id.clone());
        let conversation = self.conversations.entry(place).or_insert_with(|| Conversation {
            epoch: Epoch::new(1),
            active: None,
            pending: None,
            heads: BTreeMap::new(),
        });
        conversation.active = Some(key);
        let (epoch, generation) = (conversation.epoch, Generation::new(1));
        let base = conversation.heads.get(&open.agent_id).cloned();
        if let Some(given) = open.idempotency {
            let created = open.started.timestamp.unix_millis();
            self.keys.retain(|_, key| created - key.created < rules::KEY_MILLIS);
            self.keys.insert(
                (open.owner.clone(), given.key),
                Key { body_hash: given.body_hash, run: key, created },
            );
        }
        self.by_id.insert(open.run_id.clone(), key);
        if open.quota.counts_starts() {
            let at = open.started.timestamp.unix_millis();
            self.begun.retain(|begun| begun.at > at - rules::START_MILLIS);
            self.begun.push(Begun { at, owner: open.owner.clone(), agent_id: open.agent_id.clone() });
        }
        let run = Run {
            owner: open.owner,
            run_id: open.run_id,
            conversation_id: open.conversation_id,
            epoch,
            agent_id: open.agent_id,
            harness_id: open.harness_id,
            thread: open.thread,
            status: Status::Running,
            generation,
            created_at: open.started.timestamp.clone(),
            ended_at: None,
            last_sequence: open.started.sequence,
            request: open.request,
            error: None,
            cause: None,
            interrupt: None,
            resumed_from,
            resumed_by: None,
            seed: open.seed,
            usage: None,
            worker_thread: open.worker_thread,
            expired_at: None,
        };
        self.runs.insert(
            key,
            Row {
                run,
                log: vec![open.started],
                head: None,
                interrupt: None,
                results: HashMap::new(),
                instance: self.instance,
                forgotten: false,
                opened_bytes,
            },
        );
        Open { generation, epoch, base }
    }

    fn end(
        &mut self,
        run_id: &RunId<'_>,
        writer: Option<Generation>,
        ending: Ending,
        tail: Vec<Record>,
        head: Option<HeadMove>,
    ) -> Result<()> {
        let row = self.row(run_id)?;
        self.check(rules::admit(row.state(), writer, &tail))?;
        rules::check_head(row.run.thread, ending.status, head.as_ref())?;
        let (place, agent_id, run_id) = (row.place(), row.run.agent_id.clone(), row.run.run_id.clone());
        if let (Some(head), Some(conversation)) = (&head, self.conversations.get(&place)) {
            let found = conversation.heads.get(&agent_id).map_or(Revision::new(0), |head| head.revision);
            self.check(rules::compare_head(found, head))?;
        }
        if let Some(conversation) = self.conversations.get_mut(&place) {
            if let Some(head) = &head {
                let next = Head {
                    revision: head.revision(),
                    head_ref: head.head_ref.clone(),
                    run_id: run_id.clone(),
                };
                conversation.heads.insert(agent_id, next);
            }
            conversation.active = None;
        }
        let row = self.row_mut(&run_id)?;
        row.run.status = ending.status;
        row.run.error = ending.error;
        row.run.ended_at = tail.last().map(|terminal| terminal.timestamp.clone());
        row.head = head;
        row.extend(tail);
        Ok(())
    }

    fn idle(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<&Conversation> {
        let conversation = self.conversation(owner, conversation_id).ok_or(Refusal::UnknownConversation)?;
        if let Some(row) = conversation.active.and_then(|key| self.runs.get(&key)) {
            self.check(Err(Refusal::ConversationBusy { run_id: row.run.run_id.clone() }))?;
        }
        Ok(conversation)
    }

    fn conversation(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Option<&Conversation> {
        self.conversations.get(&place(owner, conversation_id))
    }

    fn pending_of(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Option<&Interrupt> {
        let key = self.conversation(owner, conversation_id)?.pending?;
        self.runs.get(&key)?.interrupt.as_ref()
    }

    fn key(&self, run_id: &RunId<'_>) -> Result<u64> {
        Ok(self.by_id.get(run_id.as_str()).copied().ok_or(Refusal::UnknownRun)?)
    }

    fn row(&self, run_id: &RunId<'_>) -> Result<&Row> {
        let key = self.key(run_id)?;
        Ok(self.runs.get(&key).ok_or(Refusal::UnknownRun)?)
    }

    fn row_mut(&mut self, run_id: &RunId<'_>) -> Result<&mut Row> {
        let key = self.key(run_id)?;
        Ok(self.runs.get_mut(&key).ok_or(Refusal::UnknownRun)?)
    }
}

impl Row {
    fn state(&self) -> RunState {
        RunState {
            generation: self.run.generation,
            status: self.run.status,
            thread: self.run.thread,
            last: self.run.last_sequence,
        }
    }

    fn ended(&self) -> Option<i64> {
        self.run.ended_at.as_ref().map(|at| at.unix_millis())
    }

    fn extend(&mut self, records: Vec<Record>) {
        for record in &records {
            self.run.last_sequence = record.sequence;
            if record.event_type == EventType::UsageUpdated {
                self.run.usage = Some(record.data.clone());
            }
        }
        self.log.extend(records);
    }

    fn view(&self) -> Run {
        let mut run = self.run.clone();
        run.interrupt = self.interrupt.as_ref().map(|interrupt| interrupt.summary.clone());
        run
    }

    fn place(&self) -> Place {
        (self.run.owner.clone(), self.run.conversation_id.clone())
    }

    fn stored_bytes(&self) -> u64 {
        let results: u64 = self.results.values().map(|bytes| bytes.len() as u64).sum();
        let log = if self.run.status.is_terminal() { rules::record_bytes(&self.log) } else { 0 };
        self.opened_bytes + results + log
    }

    fn thread_left(&self) -> Option<StaleThread> {
        let worker_thread = self.run.worker_thread.clone().filter(|_| !self.forgotten)?;
        Some(StaleThread {
            run_id: self.run.run_id.clone(),
            agent_id: self.run.agent_id.clone(),
            epoch: self.run.epoch,
            worker_thread,
        })
    }
}

fn place(owner: &Owner, conversation_id: &ConversationId<'_>) -> Place {
    (owner.clone(), conversation_id.clone().into_owned())
}
