//! A store that fails on demand, for the tests of whoever uses one.
//!
//! Refuses to invent states: what it lets through, the store behind it does; what it withholds never happened.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use tokio::sync::watch;

use crate::error::{Cause, Error, Refusal, Unavailable};
use crate::follow::{Figures, Follow};
use crate::model::{
    Archived, ConsumeInterrupt, Cursor, Deleted, Epoch, Expired, Fenced, Final, Generation, Head, Health,
    Interrupt, InterruptCommit, OpenRun, Opened, Orphan, Outcome, Owner, Page, Run, RunFilter, RunPage,
    StaleThread, Whose, Withdrawal,
};
use crate::record::Record;
use crate::store::{Result, Store};

/// Which calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum On {
    /// `open_run`.
    Open,
    /// `append`.
    Append,
    /// `commit_final`.
    CommitFinal,
    /// `commit_interrupt`.
    CommitInterrupt,
    /// `consume_interrupt`.
    Consume,
    /// `fence`.
    Fence,
    /// `close_run`.
    Close,
    /// `outcome`.
    Outcome,
    /// `read_after`, `read_owned`.
    Read,
}

/// How a call fails.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The store says no; nothing is written.
    Refused(Refusal),
    /// It is written, but the answer is lost.
    UnknownAfterApply,
    /// It is not written, and the answer is lost.
    UnknownBeforeApply,
    /// The answer is lost, and it is written when somebody asks for an outcome, not before. `open_run` only.
    UnknownInHand,
    /// The store cannot; nothing is written.
    Unavailable(Cause),
}

/// A store that fails on demand. Clones share the plan.
#[derive(Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Arc<Mutex<Plan>>,
    held: Arc<watch::Sender<Vec<On>>>,
}

#[derive(Debug, Default)]
struct Plan {
    once: VecDeque<(On, Fault)>,
    always: Vec<(On, Fault)>,
    calls: Vec<On>,
    in_hand: Vec<OpenRun>,
}

impl FaultyStore {
    /// Passes everything on until it is told otherwise.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: Arc::default(), held: Arc::new(watch::Sender::new(Vec::new())) }
    }

    /// The next call of this kind fails so; faults of one kind are used in the order given.
    pub fn fail_next(&self, on: On, fault: Fault) {
        self.plan().once.push_back((on, fault));
    }

    /// Every call of this kind fails so until [`heal`](Self::heal).
    pub fn fail_always(&self, on: On, fault: Fault) {
        self.plan().always.push((on, fault));
    }

    /// Forgets every planned fault.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.once.clear();
        plan.always.clear();
    }

    /// Calls of this kind wait until [`release`](Self::release).
    pub fn hold(&self, on: On) {
        self.held.send_modify(|held| held.push(on));
    }

    /// Lets every held call go on.
    pub fn release(&self) {
        self.held.send_modify(Vec::clear);
    }

    /// How many calls of this kind came, failed ones included.
    pub fn calls(&self, on: On) -> usize {
        self.plan().calls.iter().filter(|call| **call == on).count()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn planned(&self, on: On) -> Option<Fault> {
        let mut plan = self.plan();
        plan.calls.push(on);
        if let Some(at) = plan.once.iter().position(|(planned, _)| *planned == on) {
            return plan.once.remove(at).map(|(_, fault)| fault);
        }
        plan.always.iter().find(|(planned, _)| *planned == on).map(|(_, fault)| fault.clone())
    }

    /// Lets `call` through, or not, as planned.
    async fn through<T>(&self, on: On, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let mut held = self.held.subscribe();
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = held.wait_for(|held| !held.contains(&on)).await;
        let trouble = |cause| Unavailable::new(cause, "faulty", "planned");
        match self.planned(on) {
            None => call.await,
            Some(Fault::Refused(refusal)) => Err(refusal.into()),
            Some(Fault::Unavailable(cause)) => Err(trouble(cause).into()),
            Some(Fault::UnknownBeforeApply | Fault::UnknownInHand) => Err(Error::Unknown(trouble(Cause::Io))),
            Some(Fault::UnknownAfterApply) => {
                call.await?;
                Err(Error::Unknown(trouble(Cause::Io)))
            }
        }
    }
}

impl Plan {
    fn keeps_in_hand(&self) -> bool {
        let next = self.once.iter().chain(&self.always).find(|(on, _)| *on == On::Open);
        next.is_some_and(|(_, fault)| *fault == Fault::UnknownInHand)
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn open_run(&self, open: OpenRun) -> Result<Opened> {
        let kept = self.plan().keeps_in_hand().then(|| open.clone());
        let answer = self.through(On::Open, self.inner.open_run(open)).await;
        self.plan().in_hand.extend(kept);
        answer
    }

    async fn append(&self, run_id: &RunId<'_>, generation: Generation, records: Vec<Record>) -> Result<()> {
        self.through(On::Append, self.inner.append(run_id, generation, records)).await
    }

    async fn commit_final(&self, run_id: &RunId<'_>, generation: Generation, end: Final) -> Result<()> {
        self.through(On::CommitFinal, self.inner.commit_final(run_id, generation, end)).await
    }

    async fn commit_interrupt(
        &self,
        run_id: &RunId<'_>,
        generation: Generation,
        interrupt: InterruptCommit,
    ) -> Result<CommitReceipt> {
        self.through(On::CommitInterrupt, self.inner.commit_interrupt(run_id, generation, interrupt)).await
    }

    async fn consume_interrupt(&self, answer: ConsumeInterrupt) -> Result<Opened> {
        self.through(On::Consume, self.inner.consume_interrupt(answer)).await
    }

    async fn void_interrupt(&self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool> {
        self.inner.void_interrupt(run_id, why).await
    }

    async fn note_cause(&self, run_id: &RunId<'_>, cause: &str) -> Result<()> {
        self.inner.note_cause(run_id, cause).await
    }

    async fn fence(&self, run_id: &RunId<'_>) -> Result<Fenced> {
        self.through(On::Fence, self.inner.fence(run_id)).await
    }

    async fn close_run(&self, run_id: &RunId<'_>, tail: Vec<Record>) -> Result<()> {
        self.through(On::Close, self.inner.close_run(run_id, tail)).await
    }

    async fn put_result(&self, run_id: &RunId<'_>, reference: &Reference<'_>, bytes: Vec<u8>) -> Result<()> {
        self.inner.put_result(run_id, reference, bytes).await
    }

    async fn outcome(&self, run_id: &RunId<'_>) -> Result<Outcome> {
        let in_hand = std::mem::take(&mut self.plan().in_hand);
        for open in in_hand {
            // Nobody waits for its answer any more.
            let _ = self.inner.open_run(open).await;
        }
        self.through(On::Outcome, self.inner.outcome(run_id)).await
    }

    async fn load_head(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: &Name<'_>,
    ) -> Result<Option<Head>> {
        self.inner.load_head(owner, conversation_id, agent_id).await
    }

    async fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page> {
        self.through(On::Read, self.inner.read_after(run_id, after, limit)).await
    }

    async fn read_owned(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
    ) -> Result<Page> {
        self.through(On::Read, self.inner.read_owned(owner, run_id, after, limit)).await
    }

    async fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run> {
        self.inner.run(owner, run_id).await
    }

    async fn runs(
        &self,
        owner: &Owner,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage> {
        self.inner.runs(owner, filter, limit, cursor).await
    }

    async fn active_run(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<RunId<'static>>> {
        self.inner.active_run(owner, conversation_id).await
    }

    async fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<Interrupt>> {
        self.inner.pending_interrupt(owner, conversation_id).await
    }

    async fn pending_interrupts(&self, owner: &Owner, limit: usize) -> Result<Vec<Interrupt>> {
        self.inner.pending_interrupts(owner, limit).await
    }

    async fn expiring_interrupts(&self, limit: usize) -> Result<Vec<(RunId<'static>, Timestamp<'static>)>> {
        self.inner.expiring_interrupts(limit).await
    }

    async fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt> {
        self.inner.interrupt(owner, run_id).await
    }

    async fn result(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        reference: &Reference<'_>,
    ) -> Result<Arc<[u8]>> {
        self.inner.result(owner, run_id, reference).await
    }

    async fn clear_conversation(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<Epoch> {
        self.inner.clear_conversation(owner, conversation_id).await
    }

    async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted> {
        self.inner.delete_conversation(owner, conversation_id).await
    }

    async fn stored_bytes(&self, whose: Whose, name: &str) -> Result<u64> {
        self.inner.stored_bytes(whose, name).await
    }

    async fn stale_threads(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        limit: usize,
    ) -> Result<Vec<StaleThread>> {
        self.inner.stale_threads(owner, conversation_id, limit).await
    }

    async fn threads_forgotten(&self, runs: &[RunId<'static>]) -> Result<()> {
        self.inner.threads_forgotten(runs).await
    }

    async fn list_orphans(&self) -> Result<Vec<Orphan>> {
        self.inner.list_orphans().await
    }

    async fn renew_lease(&self) -> Result<()> {
        self.inner.renew_lease().await
    }

    async fn archive(&self, before: &Timestamp<'_>, limit: usize) -> Result<Archived> {
        self.inner.archive(before, limit).await
    }

    async fn expire(&self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Result<Expired> {
        self.inner.expire(before, at, limit).await
    }

    fn shared(&self) -> Option<Duration> {
        self.inner.shared()
    }

    fn follow(&self, run_id: &RunId<'_>) -> Option<Box<dyn Follow>> {
        self.inner.follow(run_id)
    }

    async fn disturbed(&self) {
        self.inner.disturbed().await;
    }

    fn figures(&self) -> Option<Figures> {
        self.inner.figures()
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }
}
