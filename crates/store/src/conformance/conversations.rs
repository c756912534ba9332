//! Conversations: epochs, deletion, and the worker threads they leave behind.

use crate::conformance::Backend;
use crate::conformance::fixture::{
    agent, answer, conversation, delta, fail, first, keyed, log, open, opened, owned_by, reference, refusal,
    run_id, run_to_end, run_to_pause,
};
use crate::error::Refusal;
use crate::model::{
    Cursor, Deleted, DeletedRun, Epoch, InterruptStatus, Outcome, Owner, RunFilter, StaleThread,
};
use crate::store::Store;

fn thread(run: &str) -> StaleThread {
    StaleThread {
        run_id: run_id(run),
        agent_id: agent("helper"),
        epoch: Epoch::new(1),
        worker_thread: format!("thread-{run}").into(),
    }
}

async fn stale(store: &dyn Store) -> Vec<StaleThread> {
    store.stale_threads(&Owner::local(), &conversation("c"), 10).await.unwrap()
}

pub async fn clear_begins_an_epoch_from_the_empty_state(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    assert_eq!(store.clear_conversation(&Owner::local(), &conversation("c")).await, Ok(Epoch::new(2)));
    assert_eq!(store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await, Ok(None));
    let next = opened(&*store, open("r2", "c")).await;
    assert_eq!((next.epoch, next.base), (Epoch::new(2), None));
    assert_eq!(store.run(&Owner::local(), &run_id("r1")).await.unwrap().epoch, Epoch::new(1));
    assert_eq!(store.run(&Owner::local(), &run_id("r2")).await.unwrap().epoch, Epoch::new(2));
    assert_eq!(log(&*store, "r1").await.len(), 2);
}

pub async fn clear_takes_a_pending_interrupt_back(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    assert_eq!(store.clear_conversation(&Owner::local(), &conversation("c")).await, Ok(Epoch::new(2)));
    let interrupt = store.interrupt(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!(interrupt.summary.status, InterruptStatus::Voided);
    let late = store.consume_interrupt(answer("r1", "i", 1, open("r2", "c"))).await;
    assert_eq!(refusal(late), Refusal::InterruptClosed);
    opened(&*store, open("r2", "c")).await;
}

pub async fn a_busy_conversation_is_neither_cleared_nor_deleted(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let busy = Refusal::ConversationBusy { run_id: run_id("r1") };
    let (owner, id) = (Owner::local(), conversation("c"));
    assert_eq!(refusal(store.clear_conversation(&owner, &id).await), busy);
    assert_eq!(refusal(store.delete_conversation(&owner, &id).await), busy);
    let unknown = Refusal::UnknownConversation;
    assert_eq!(refusal(store.clear_conversation(&owner, &conversation("d")).await), unknown);
    assert_eq!(refusal(store.delete_conversation(&owner, &conversation("d")).await), unknown);
    assert_eq!(refusal(store.delete_conversation(&Owner::new("ann"), &id).await), unknown);
}

pub async fn a_deleted_conversation_leaves_nothing(backend: &mut impl Backend) {
    let store = backend.store();
    let (owner, id) = (Owner::local(), conversation("c"));
    opened(&*store, keyed(open("r1", "c"), "k", 1)).await;
    store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    store.put_result(&run_id("r1"), &reference("big"), b"whole".to_vec()).await.unwrap();
    store.commit_final(&run_id("r1"), first(), fail(2)).await.unwrap();
    run_to_pause(&*store, open("r2", "c"), "h1", "i").await;
    store.threads_forgotten(&[run_id("r1")]).await.unwrap();
    run_to_end(&*store, owned_by(open("r3", "c"), "ann"), "h1").await;

    // What a reader may see is its own alone.
    let ann = Owner::new("ann");
    for (run, of, other) in [("r1", &owner, &ann), ("r3", &ann, &owner)] {
        let page = store.read_after(&run_id(run), None, 10).await;
        assert_eq!(store.read_owned(of, &run_id(run), None, 10).await, page);
        assert_eq!(refusal(store.read_owned(other, &run_id(run), None, 10).await), Refusal::UnknownRun);
        assert_eq!(refusal(store.run(other, &run_id(run)).await), Refusal::UnknownRun);
    }

    let run = |id| DeletedRun { run_id: run_id(id), agent_id: agent("helper"), epoch: Epoch::new(1) };
    let deleted = Deleted { runs: vec![run("r1"), run("r2")], threads: vec![thread("r2")] };
    assert_eq!(store.delete_conversation(&owner, &id).await, Ok(deleted));
    for run in ["r1", "r2"] {
        assert_eq!(refusal(store.run(&owner, &run_id(run)).await), Refusal::UnknownRun);
        assert_eq!(refusal(store.read_after(&run_id(run), None, 1).await), Refusal::UnknownRun);
        assert_eq!(store.outcome(&run_id(run)).await, Ok(Outcome::Missing));
        let result = store.result(&owner, &run_id(run), &reference("big")).await;
        assert_eq!(refusal(result), Refusal::UnknownRun);
    }
    assert_eq!(store.load_head(&owner, &id, &agent("helper")).await, Ok(None));
    assert_eq!(store.pending_interrupts(&owner, 10).await, Ok(Vec::new()));
    let none: Option<Cursor> = None;
    assert_eq!(store.runs(&owner, &RunFilter::default(), 10, none).await.unwrap().runs, []);
    assert_eq!(store.runs(&Owner::new("ann"), &RunFilter::default(), 10, none).await.unwrap().runs.len(), 1);
    // Key, run id and conversation are free again.
    let again = opened(&*store, keyed(open("r1", "c"), "k", 2)).await;
    assert_eq!((again.epoch, again.base), (Epoch::new(1), None));
    assert_eq!(log(&*store, "r1").await.len(), 1);
}

pub async fn threads_that_nothing_starts_from_can_be_forgotten(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    assert_eq!(stale(&*store).await, []);
    opened(&*store, open("r2", "c")).await;
    assert_eq!(stale(&*store).await, []);
    store.commit_final(&run_id("r2"), first(), fail(1)).await.unwrap();
    assert_eq!(stale(&*store).await, [thread("r2")]);
    run_to_pause(&*store, open("r3", "c"), "h2", "i").await;
    assert_eq!(stale(&*store).await, [thread("r1"), thread("r2")]);
    let first_only = store.stale_threads(&Owner::local(), &conversation("c"), 1).await;
    assert_eq!(first_only, Ok(vec![thread("r1")]));
    store.threads_forgotten(&[run_id("r1"), run_id("r2"), run_id("nobody")]).await.unwrap();
    assert_eq!(stale(&*store).await, []);
    store.clear_conversation(&Owner::local(), &conversation("c")).await.unwrap();
    assert_eq!(stale(&*store).await, [thread("r3")]);
    assert_eq!(store.stale_threads(&Owner::local(), &conversation("d"), 1).await, Ok(Vec::new()));
}
