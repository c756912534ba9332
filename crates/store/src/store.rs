//! The trait: what the engine asks of a store.
//!
//! Every write is durable when it is acknowledged, and all of it or nothing is written. A write that is refused
//! writes nothing. Dropping the future of a write does not take the write back: ask [`Store::outcome`].
//!
//! ```text
//!  open_run ──▶ running ──append──▶ running ──commit_final───────▶ finished · cancelled · error · uncertain
//!     ▲            │                         ├─commit_interrupt──▶ interrupted ──consume_interrupt──▶ (a new run)
//!     │            └──fence──▶ running, next generation            └─void_interrupt
//!  the base is the head of the last commit
//! ```

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;

use crate::error::{Error, Refusal};
use crate::follow::{Figures, Follow};
use crate::model::{
    Archived, ConsumeInterrupt, Cursor, Deleted, Epoch, Expired, Fenced, Final, Generation, Head, Health,
    Interrupt, InterruptCommit, OpenRun, Opened, Orphan, Outcome, Owner, Page, Run, RunFilter, RunPage,
    StaleThread, Whose, Withdrawal,
};
use crate::record::Record;

/// What the verbs answer.
pub type Result<T> = std::result::Result<T, Error>;

/// A durable log of runs. Share it as `Arc<dyn Store>`.
///
/// # Errors
/// Every verb may answer [`Error::Unavailable`]; writes may answer [`Error::Unknown`] and [`Error::Misuse`]. The
/// refusals a verb may give are listed with it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    // Writing a run.

    /// Inserts a run with its request and `run.started` (one transaction), or finds the run of the same request.
    /// Checked in this order: the idempotency key, the run id, the conversation, the quota. A pending interrupt that has
    /// expired by the time of `run.started` is marked so and does not stand in the way. Where several gateways share a
    /// store, each of them may open one run more than the quota in the same instant.
    ///
    /// Refuses: `KeyReused`, `RunExists`, `ConversationBusy`, `InterruptPending`, `OverQuota`.
    async fn open_run(&self, open: OpenRun) -> Result<Opened>;

    /// Appends records that are no terminal.
    ///
    /// Refuses: `UnknownRun`, `Fenced`, `Ended`, `NotContiguous`.
    async fn append(&self, run_id: &RunId<'_>, generation: Generation, records: Vec<Record>) -> Result<()>;

    /// Ends a run: tail, terminal, head and status in ONE transaction (R13, R15). On a refusal nothing of the tail
    /// is in the log; `run.error` may follow with the number that the tail had begun with.
    ///
    /// Refuses: as `append`, and `HeadMoved`.
    async fn commit_final(&self, run_id: &RunId<'_>, generation: Generation, end: Final) -> Result<()>;

    /// Interrupts a run: tail, terminal, head, snapshot and status in ONE transaction (R14).
    ///
    /// Refuses: as `commit_final`.
    async fn commit_interrupt(
        &self,
        run_id: &RunId<'_>,
        generation: Generation,
        interrupt: InterruptCommit,
    ) -> Result<CommitReceipt>;

    /// Consumes an interrupt and inserts the resumed run in ONE transaction. The same answer with the same
    /// idempotency key finds its run.
    ///
    /// Refuses: `KeyReused`, `UnknownRun` (also for another owner), `NoInterrupt`, `RevisionMismatch`,
    /// `InterruptConsumed`, `InterruptClosed`, `InterruptExpired`, `RunExists`, `ConversationBusy`, `OverQuota`.
    async fn consume_interrupt(&self, answer: ConsumeInterrupt) -> Result<Opened>;

    /// Takes a pending interrupt back; false if there is none. The run's terminal does not change.
    ///
    /// Refuses: `UnknownRun`.
    async fn void_interrupt(&self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool>;

    /// Takes a run from its writer: whatever that one still sends is refused, and a write of it that had begun has
    /// landed, or never will, when this is answered.
    ///
    /// Refuses: `UnknownRun`, `Ended`.
    async fn fence(&self, run_id: &RunId<'_>) -> Result<Fenced>;

    /// Fences a run, as `fence` does, and ends it with `run.error` or `run.cancelled`, in one transaction. The head stays.
    ///
    /// Refuses: `UnknownRun`, `Ended`, `NotContiguous`.
    async fn close_run(&self, run_id: &RunId<'_>, tail: Vec<Record>) -> Result<()>;

    /// Notes why a run will end as uncertain, for operators. The first note stands; it changes nothing else.
    ///
    /// Refuses: `UnknownRun`.
    async fn note_cause(&self, run_id: &RunId<'_>, cause: &str) -> Result<()>;

    /// Keeps the whole of a tool result. Storing the same bytes again is no error.
    ///
    /// Refuses: `UnknownRun`, `Expired`, `ResultExists`, `ResultTooLarge`.
    async fn put_result(&self, run_id: &RunId<'_>, reference: &Reference<'_>, bytes: Vec<u8>) -> Result<()>;

    // Finding out.

    /// What became of a run's last write; answered after every write that this store still has in hand.
    ///
    /// Refuses: `Expired`.
    async fn outcome(&self, run_id: &RunId<'_>) -> Result<Outcome>;

    /// Whether the run is `generation`'s to write at this moment, and has not ended: asked before something is done that the
    /// log cannot take back. Where several gateways share a store it is read under this one's lease.
    ///
    /// Refuses: `UnknownRun`, `Fenced`, `Ended`.
    async fn holds(&self, run_id: &RunId<'_>, generation: Generation) -> Result<()> {
        match self.outcome(run_id).await? {
            Outcome::Running { generation: current, .. } if current == generation => Ok(()),
            Outcome::Running { generation: current, .. } => {
                Err(Refusal::Fenced { given: generation, current }.into())
            }
            Outcome::Ended { status, .. } => Err(Refusal::Ended { status }.into()),
            Outcome::Missing => Err(Refusal::UnknownRun.into()),
        }
    }

    /// The durable head of a conversation with an agent; `None` is the empty state.
    async fn load_head(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: &Name<'_>,
    ) -> Result<Option<Head>>;

    /// Records with a number above `after`, from the start if it is `None`; at most `limit`, and fewer where they
    /// are large (but never none where there is one).
    ///
    /// Refuses: `UnknownRun`, `Expired`.
    async fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page>;

    /// The same for a reader, who may see what is its own.
    ///
    /// Refuses: `UnknownRun`, for another owner's too; `Expired`.
    async fn read_owned(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
    ) -> Result<Page> {
        // A run never changes its owner. A store that can asks for both at once.
        self.run(owner, run_id).await?;
        self.read_after(run_id, after, limit).await
    }

    /// A run.
    ///
    /// Refuses: `UnknownRun`, for another owner's too.
    async fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run>;

    /// Runs, newest first.
    async fn runs(
        &self,
        owner: &Owner,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage>;

    /// The active run of a conversation.
    async fn active_run(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<RunId<'static>>>;

    /// The pending interrupt of a conversation, with its snapshot. Whether it has expired is for the caller to see.
    async fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<Interrupt>>;

    /// The pending interrupts of an owner, newest first.
    async fn pending_interrupts(&self, owner: &Owner, limit: usize) -> Result<Vec<Interrupt>>;

    /// Pending interrupts that will expire or have, whosever they are, with the time, the soonest first; at most
    /// `limit`.
    async fn expiring_interrupts(&self, limit: usize) -> Result<Vec<(RunId<'static>, Timestamp<'static>)>>;

    /// The interrupt of a run, whatever became of it.
    ///
    /// Refuses: `UnknownRun`, `Expired`, `NoInterrupt`.
    async fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt>;

    /// The whole of a tool result.
    ///
    /// Refuses: `UnknownRun`, `UnknownResult`.
    async fn result(&self, owner: &Owner, run_id: &RunId<'_>, reference: &Reference<'_>)
    -> Result<Arc<[u8]>>;

    /// Bytes of what the ended runs of an owner or an agent hold, as it came: requests, seeds, events, and the results of
    /// running ones too. What the archive saves does not count.
    async fn stored_bytes(&self, whose: Whose, name: &str) -> Result<u64>;

    // Conversations.

    /// Begins the next epoch: the next run starts from the empty state. A pending interrupt is taken back.
    ///
    /// Refuses: `UnknownConversation`, `ConversationBusy`.
    async fn clear_conversation(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<Epoch>;

    /// Deletes a conversation: runs, records, results, interrupts, heads, keys.
    ///
    /// Refuses: `UnknownConversation`, `ConversationBusy`.
    async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted>;

    /// Worker threads of a conversation that may be forgotten: of runs that have ended and whose state is not the
    /// head. Oldest first, at most `limit`.
    async fn stale_threads(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        limit: usize,
    ) -> Result<Vec<StaleThread>>;

    /// Notes that the workers forgot the threads of these runs.
    async fn threads_forgotten(&self, runs: &[RunId<'static>]) -> Result<()>;

    // Keeping house.

    /// Runs without a terminal that a former instance of the gateway wrote, oldest first. In shared mode those of every
    /// gateway whose lease has run out, unless another one is at them already.
    async fn list_orphans(&self) -> Result<Vec<Orphan>>;

    /// How often to ask for orphans and to look for what other gateways write; `None` where this one is alone.
    fn shared(&self) -> Option<Duration> {
        None
    }

    /// Follows a run that another gateway may be writing; `None` where no other can, or nobody can tell.
    fn follow(&self, run_id: &RunId<'_>) -> Option<Box<dyn Follow>> {
        let _nobody_else_writes = run_id;
        None
    }

    /// Returns when something was taken from this gateway that it may be at: a run, or its lease. What happened before the
    /// call counts. It never does where this gateway is alone; one at a time may wait.
    async fn disturbed(&self) {
        std::future::pending::<()>().await;
    }

    /// What is counted where a store is shared.
    fn figures(&self) -> Option<Figures> {
        None
    }

    /// Confirms that this instance still owns the store.
    async fn renew_lease(&self) -> Result<()>;

    /// Packs runs that ended before `before`, at most `limit`; replay gives the same bytes.
    async fn archive(&self, before: &Timestamp<'_>, limit: usize) -> Result<Archived>;

    /// Deletes the content of runs that ended before `before`, at most `limit`, the oldest end first: their records, their
    /// results, what was asked, the seed and, of an interrupt, request, snapshot and decision. What else [`Run`] says stays,
    /// with `at` as `expired_at`; so do heads and worker threads. A run whose interrupt is pending is left alone, and so is
    /// one whose interrupt was answered while the run of the answer keeps its content, since replays of that one look back.
    /// Several gateways may be at it at once.
    async fn expire(&self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Result<Expired>;

    /// How the store feels. An error says that it cannot serve.
    async fn health(&self) -> Result<Health>;
}
