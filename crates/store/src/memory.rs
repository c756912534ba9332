//! The store in memory: for tests, `adapt`, and a gateway that may forget everything.
//!
//! Refuses durability. Clones share one log.

pub mod core;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;

use self::core::Memory;
use crate::model::{
    Archived, ConsumeInterrupt, Cursor, Deleted, Epoch, Expired, Fenced, Final, Generation, Head, Health,
    Interrupt, InterruptCommit, OpenRun, Opened, Orphan, Outcome, Owner, Page, Run, RunFilter, RunPage,
    StaleThread, Whose, Withdrawal,
};
use crate::record::Record;
use crate::store::{Result, Store};

/// A [`Memory`] behind the trait.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Memory>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same log as a restarted gateway sees it: runs that are open now are its orphans.
    pub fn restarted(&self) -> Self {
        self.lock().restart();
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // No method of `Memory` leaves it half changed when it panics: checks come before changes.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn open_run(&self, open: OpenRun) -> Result<Opened> {
        self.lock().open_run(open)
    }

    async fn append(&self, run_id: &RunId<'_>, generation: Generation, records: Vec<Record>) -> Result<()> {
        self.lock().append(run_id, generation, records)
    }

    async fn commit_final(&self, run_id: &RunId<'_>, generation: Generation, end: Final) -> Result<()> {
        self.lock().commit_final(run_id, generation, end)
    }

    async fn commit_interrupt(
        &self,
        run_id: &RunId<'_>,
        generation: Generation,
        interrupt: InterruptCommit,
    ) -> Result<CommitReceipt> {
        self.lock().commit_interrupt(run_id, generation, interrupt)
    }

    async fn consume_interrupt(&self, answer: ConsumeInterrupt) -> Result<Opened> {
        self.lock().consume_interrupt(answer)
    }

    async fn void_interrupt(&self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool> {
        self.lock().void_interrupt(run_id, why)
    }

    async fn note_cause(&self, run_id: &RunId<'_>, cause: &str) -> Result<()> {
        self.lock().note_cause(run_id, cause)
    }

    async fn fence(&self, run_id: &RunId<'_>) -> Result<Fenced> {
        self.lock().fence(run_id)
    }

    async fn close_run(&self, run_id: &RunId<'_>, tail: Vec<Record>) -> Result<()> {
        self.lock().close_run(run_id, tail)
    }

    async fn put_result(&self, run_id: &RunId<'_>, reference: &Reference<'_>, bytes: Vec<u8>) -> Result<()> {
        self.lock().put_result(run_id, reference, &bytes)
    }

    async fn outcome(&self, run_id: &RunId<'_>) -> Result<Outcome> {
        let core = self.lock();
        core.not_expired(run_id)?;
        Ok(core.outcome(run_id))
    }

    async fn load_head(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: &Name<'_>,
    ) -> Result<Option<Head>> {
        Ok(self.lock().load_head(owner, conversation_id, agent_id))
    }

    async fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page> {
        self.lock().read_after(run_id, after, limit)
    }

    async fn read_owned(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
    ) -> Result<Page> {
        let core = self.lock();
        core.run(owner, run_id)?;
        core.read_after(run_id, after, limit)
    }

    async fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run> {
        self.lock().run(owner, run_id)
    }

    async fn runs(
        &self,
        owner: &Owner,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage> {
        Ok(self.lock().runs(owner, filter, limit, cursor))
    }

    async fn active_run(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<RunId<'static>>> {
        Ok(self.lock().active_run(owner, conversation_id))
    }

    async fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<Interrupt>> {
        Ok(self.lock().pending_interrupt(owner, conversation_id))
    }

    async fn pending_interrupts(&self, owner: &Owner, limit: usize) -> Result<Vec<Interrupt>> {
        Ok(self.lock().pending_interrupts(owner, limit))
    }

    async fn expiring_interrupts(&self, limit: usize) -> Result<Vec<(RunId<'static>, Timestamp<'static>)>> {
        Ok(self.lock().expiring_interrupts(limit))
    }

    async fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt> {
        self.lock().interrupt(owner, run_id)
    }

    async fn result(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        reference: &Reference<'_>,
    ) -> Result<Arc<[u8]>> {
        self.lock().result(owner, run_id, reference)
    }

    async fn clear_conversation(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<Epoch> {
        self.lock().clear_conversation(owner, conversation_id)
    }

    async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted> {
        self.lock().delete_conversation(owner, conversation_id)
    }

    async fn stored_bytes(&self, whose: Whose, name: &str) -> Result<u64> {
        Ok(self.lock().stored_bytes(whose, name))
    }

    async fn stale_threads(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        limit: usize,
    ) -> Result<Vec<StaleThread>> {
        Ok(self.lock().stale_threads(owner, conversation_id, limit))
    }

    async fn threads_forgotten(&self, runs: &[RunId<'static>]) -> Result<()> {
        self.lock().threads_forgotten(runs);
        Ok(())
    }

    async fn list_orphans(&self) -> Result<Vec<Orphan>> {
        Ok(self.lock().list_orphans())
    }

    async fn renew_lease(&self) -> Result<()> {
        Ok(())
    }

    /// Packs nothing: memory is not what an archive saves here.
    async fn archive(&self, _before: &Timestamp<'_>, _limit: usize) -> Result<Archived> {
        Ok(Archived::default())
    }

    async fn expire(&self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Result<Expired> {
        Ok(self.lock().expire(before, at, limit))
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health { backend: "memory", ..Health::default() })
    }
}
