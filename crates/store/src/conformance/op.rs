//! One call as a value: made on a store, told to the reference, and everything that can be read afterwards compared.
//!
//! Refuses to judge by half: answers are compared whole, and so is every run, record, head and interrupt.

use std::fmt::Debug;

use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::timestamp::Timestamp;

use crate::conformance::fixture::{NOON, agent, conversation, reference as named, sequence};
use crate::conformance::reference::Reference;
use crate::error::Error;
use crate::model::{
    ConsumeInterrupt, Deleted, Epoch, Expired, Fenced, Final, Generation, InterruptCommit, OpenRun, Opened,
    Owner, RunFilter, Status, Whose, Withdrawal,
};
use crate::record::Record;
use crate::store::Store;

/// Conversations that are looked at: `c0` to `c3`.
pub const PLACES: u64 = 4;

/// A call, whole.
#[derive(Clone, Debug)]
pub enum Op {
    Open(OpenRun),
    Append(RunId<'static>, Generation, Vec<Record>),
    Finish(RunId<'static>, Generation, Final),
    Pause(RunId<'static>, Generation, InterruptCommit),
    Answer(ConsumeInterrupt),
    Void(RunId<'static>, Withdrawal),
    Fence(RunId<'static>),
    Close(RunId<'static>, Vec<Record>),
    Result(RunId<'static>, &'static str, Vec<u8>),
    Clear(Owner, ConversationId<'static>),
    Delete(Owner, ConversationId<'static>),
    Forget(Vec<RunId<'static>>),
    Archive(Timestamp<'static>),
    /// What ended before the first, as of the second.
    Expire(Timestamp<'static>, Timestamp<'static>),
    /// For a store: nothing; whoever walks restarts it.
    Restart,
}

/// What a call answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Opened(Opened),
    Done,
    Committed(u64, String),
    Taken(bool),
    Fenced(Fenced),
    Epoch(Epoch),
    Deleted(Deleted),
    Expired(Expired),
}

impl Op {
    /// The run that the call is about.
    pub fn run(&self) -> Option<RunId<'static>> {
        match self {
            Self::Open(open) => Some(open.run_id.clone()),
            Self::Append(run_id, ..)
            | Self::Finish(run_id, ..)
            | Self::Pause(run_id, ..)
            | Self::Answer(ConsumeInterrupt { interrupted: run_id, .. })
            | Self::Void(run_id, _)
            | Self::Fence(run_id)
            | Self::Close(run_id, _)
            | Self::Result(run_id, ..) => Some(run_id.clone()),
            Self::Clear(..) | Self::Delete(..) | Self::Forget(_) => None,
            Self::Archive(_) | Self::Expire(..) | Self::Restart => None,
        }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// What the store says.
    pub async fn make(self, store: &dyn Store) -> Result<Answer, Error> {
        Ok(match self {
            Self::Open(open) => Answer::Opened(store.open_run(open).await?),
            Self::Append(id, generation, records) => {
                store.append(&id, generation, records).await.map(done)?
            }
            Self::Finish(id, generation, end) => store.commit_final(&id, generation, end).await.map(done)?,
            Self::Pause(id, generation, commit) => {
                let receipt = store.commit_interrupt(&id, generation, commit).await?;
                Answer::Committed(receipt.revision(), receipt.head().as_str().to_owned())
            }
            Self::Answer(given) => Answer::Opened(store.consume_interrupt(given).await?),
            Self::Void(id, why) => Answer::Taken(store.void_interrupt(&id, why).await?),
            Self::Fence(id) => Answer::Fenced(store.fence(&id).await?),
            Self::Close(id, tail) => store.close_run(&id, tail).await.map(done)?,
            Self::Result(id, kept, bytes) => store.put_result(&id, &named(kept), bytes).await.map(done)?,
            Self::Clear(owner, id) => Answer::Epoch(store.clear_conversation(&owner, &id).await?),
            Self::Delete(owner, id) => Answer::Deleted(store.delete_conversation(&owner, &id).await?),
            Self::Forget(runs) => store.threads_forgotten(&runs).await.map(done)?,
            // What it saves is the backend's own affair; what is read afterwards is not.
            Self::Archive(before) => store.archive(&before, 3).await.map(|_| Answer::Done)?,
            Self::Expire(before, at) => Answer::Expired(store.expire(&before, &at, 2).await?),
            Self::Restart => Answer::Done,
        })
    }

    /// Tells the reference.
    ///
    /// # Errors
    /// What a store should say.
    pub fn tell(&self, reference: &mut Reference) -> Result<Answer, Error> {
        Ok(match self {
            Self::Open(open) => Answer::Opened(reference.open_run(open)?),
            Self::Append(id, generation, records) => reference.append(id, *generation, records).map(done)?,
            Self::Finish(id, generation, end) => reference.commit_final(id, *generation, end).map(done)?,
            Self::Pause(id, generation, commit) => {
                let (revision, head) = reference.commit_interrupt(id, *generation, commit)?;
                Answer::Committed(revision, head)
            }
            Self::Answer(given) => Answer::Opened(reference.consume_interrupt(given)?),
            Self::Void(id, why) => Answer::Taken(reference.void_interrupt(id, *why)?),
            Self::Fence(id) => Answer::Fenced(reference.fence(id)?),
            Self::Close(id, tail) => reference.close_run(id, tail).map(done)?,
            Self::Result(id, kept, bytes) => reference.put_result(id, &named(kept), bytes).map(done)?,
            Self::Clear(owner, id) => Answer::Epoch(reference.clear_conversation(owner, id)?),
            Self::Delete(owner, id) => Answer::Deleted(reference.delete_conversation(owner, id)?),
            Self::Forget(runs) => {
                reference.threads_forgotten(runs);
                Answer::Done
            }
            Self::Archive(_) => Answer::Done,
            Self::Expire(before, at) => Answer::Expired(reference.expire(before, at, 2)),
            Self::Restart => {
                reference.restart();
                Answer::Done
            }
        })
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}

/// Everything that this owner sees of a run, its records after each of these cursors.
///
/// # Errors
/// The first difference, in words.
pub async fn same_run(
    told: &Reference,
    store: &dyn Store,
    owner: &Owner,
    id: &RunId<'_>,
    after: impl IntoIterator<Item = Option<u64>>,
    limit: usize,
) -> Result<(), String> {
    for after in after {
        let after = after.map(sequence);
        let found = store.read_after(id, after, limit).await;
        same("read_after", told.read_after(id, after, limit), found)?;
    }
    same("outcome", told.outcome(id), store.outcome(id).await)?;
    same("run", told.run(owner, id), store.run(owner, id).await)?;
    same("interrupt", told.interrupt(owner, id), store.interrupt(owner, id).await)
}

/// Everything that can be read, after every cursor.
///
/// # Errors
/// The first difference, in words.
pub async fn same_store(told: &Reference, store: &dyn Store) -> Result<(), String> {
    for row in &told.rows {
        let (owner, id) = (&row.run.owner, &row.run.run_id);
        let cursors = std::iter::once(None).chain((0..row.run.last_sequence.value() + 2).map(Some));
        same_run(told, store, owner, id, cursors, 2).await?;
        for (kept, owner) in [("a", owner), ("b", &Owner::new("ann"))] {
            let found = store.result(owner, id, &named(kept)).await;
            same("result", told.result(owner, id, &named(kept)), found.map(|bytes| bytes.to_vec()))?;
        }
    }
    for owner in owners() {
        same_lists(told, store, &owner).await?;
        for at in 0..PLACES {
            let id = conversation(&format!("c{at}"));
            for agent_id in ["helper", "other"] {
                let found = store.load_head(&owner, &id, &agent(agent_id)).await;
                same("load_head", Ok(told.load_head(&owner, &id, &agent(agent_id))), found)?;
            }
            same("active_run", Ok(told.active_run(&owner, &id)), store.active_run(&owner, &id).await)?;
            let pending = store.pending_interrupt(&owner, &id).await;
            same("pending_interrupt", Ok(told.pending(&owner, &id).cloned()), pending)?;
            let mut stale = told.stale_threads(&owner, &id);
            stale.truncate(5);
            same("stale_threads", Ok(stale), store.stale_threads(&owner, &id, 5).await)?;
        }
    }
    for (whose, name) in
        [(Whose::Owner, "local"), (Whose::Owner, "ann"), (Whose::Agent, "helper"), (Whose::Agent, "other")]
    {
        same("stored_bytes", Ok(told.stored_bytes(whose, name)), store.stored_bytes(whose, name).await)?;
    }
    same("list_orphans", Ok(told.list_orphans()), store.list_orphans().await)
}

async fn same_lists(told: &Reference, store: &dyn Store, owner: &Owner) -> Result<(), String> {
    let mut filters = vec![RunFilter::default()];
    filters.extend(Status::ALL.iter().map(|of| RunFilter { status: Some(*of), ..RunFilter::default() }));
    filters.push(RunFilter { agent_id: Some(agent("other")), ..RunFilter::default() });
    filters.push(RunFilter { conversation_id: Some(conversation("c1")), ..RunFilter::default() });
    let latest = told.rows.iter().map(|row| row.run.created_at.unix_millis()).max();
    let middle = latest.map_or(NOON * 1000, |latest| i64::midpoint(NOON * 1000, latest));
    filters.push(RunFilter { since: Some(middle), ..RunFilter::default() });
    filters.push(RunFilter { until: Some(middle), ..RunFilter::default() });
    for filter in filters {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.runs(owner, &filter, 7, cursor).await.map_err(|error| error.to_string())?;
            found.extend(page.runs);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        same("runs", told.runs(owner, &filter), found)?;
    }
    let mut pending = told.pending_of_all(owner);
    pending.truncate(3);
    same("pending_interrupts", Ok(pending), store.pending_interrupts(owner, 3).await)
}

/// The owners that are looked at.
pub fn owners() -> [Owner; 2] {
    [Owner::local(), Owner::new("ann")]
}

/// Compares two answers.
///
/// # Errors
/// The difference, in words.
// By value: both are made for this call, and calls read better.
#[allow(clippy::needless_pass_by_value)]
pub fn same<T: Debug + PartialEq>(what: &str, expected: T, found: T) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}\n  expected {expected:?}\n  found    {found:?}"))
}
