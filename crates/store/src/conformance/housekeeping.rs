//! Restarts, orphans, archive, health.

use causeway_contract::timestamp::Timestamp;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    NOON, agent, answer, conversation, deltas, failed, finish, first, log, open, opened, refusal, run_id,
    run_to_end, run_to_pause, sequence,
};
use crate::error::Refusal;
use crate::model::{Epoch, Orphan, Owner, RunFilter, Status, Thread};

pub async fn what_was_acknowledged_survives_a_restart(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    run_to_pause(&*store, open("r2", "c"), "h2", "i").await;
    opened(&*store, open("r3", "d")).await;
    store.append(&run_id("r3"), first(), deltas(1..50)).await.unwrap();
    let runs = store.runs(&Owner::local(), &RunFilter::default(), 10, None).await.unwrap();
    let head = store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await;
    let pending = store.pending_interrupt(&Owner::local(), &conversation("c")).await;
    let records = log(&*store, "r3").await;
    drop(store);

    backend.restart();
    let store = backend.store();
    assert_eq!(store.runs(&Owner::local(), &RunFilter::default(), 10, None).await, Ok(runs));
    assert_eq!(store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await, head);
    assert_eq!(store.pending_interrupt(&Owner::local(), &conversation("c")).await, pending);
    assert_eq!(log(&*store, "r3").await, records);
    store.append(&run_id("r3"), first(), deltas(50..51)).await.unwrap();
    store.consume_interrupt(answer("r2", "i", 2, open("r4", "c"))).await.unwrap();
}

pub async fn runs_of_a_former_instance_are_orphans(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    run_to_pause(&*store, open("r2", "d"), "h1", "i").await;
    opened(&*store, open("r3", "c")).await;
    store.append(&run_id("r3"), first(), deltas(1..4)).await.unwrap();
    assert_eq!(store.list_orphans().await, Ok(Vec::new()));
    store.renew_lease().await.unwrap();
    drop(store);

    backend.restart();
    let store = backend.store();
    opened(&*store, open("r4", "e")).await;
    let orphan = Orphan {
        owner: Owner::local(),
        run_id: run_id("r3"),
        conversation_id: conversation("c"),
        epoch: Epoch::new(1),
        agent_id: agent("helper"),
        harness_id: open("r3", "c").harness_id,
        thread: Thread::Durable,
        last_sequence: sequence(3),
        worker_thread: Some("thread-r3".into()),
    };
    assert_eq!(store.list_orphans().await, Ok(vec![orphan]));
    assert_eq!(
        refusal(store.open_run(open("r5", "c")).await),
        Refusal::ConversationBusy { run_id: run_id("r3") }
    );
    store.close_run(&run_id("r3"), vec![failed(4, "thread_durability_uncertain")]).await.unwrap();
    assert_eq!(store.list_orphans().await, Ok(Vec::new()));
    let run = store.run(&Owner::local(), &run_id("r3")).await.unwrap();
    assert_eq!(run.status, Status::Uncertain);
    opened(&*store, open("r5", "c")).await;
}

pub async fn a_packed_run_replays_the_same_records(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), deltas(1..1500)).await.unwrap();
    store.commit_final(&run_id("r1"), first(), finish(1500, 0, "h1")).await.unwrap();
    opened(&*store, open("r2", "c")).await;
    store.append(&run_id("r2"), first(), deltas(1..10)).await.unwrap();
    let (one, two) = (log(&*store, "r1").await, log(&*store, "r2").await);
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    let outcome = store.outcome(&run_id("r1")).await;

    let ended = NOON + 1500;
    let early = store.archive(&Timestamp::from_unix(ended, 0), 10).await.unwrap();
    assert_eq!(early.runs, 0);
    let packed = store.archive(&Timestamp::from_unix(ended + 1, 0), 10).await.unwrap();
    assert!(packed.bytes_after <= packed.bytes_before, "{packed:?}");
    let again = store.archive(&Timestamp::from_unix(ended + 1, 0), 10).await.unwrap();
    assert_eq!(again.runs, 0);

    assert_eq!((log(&*store, "r1").await, log(&*store, "r2").await), (one.clone(), two));
    assert_eq!(store.run(&Owner::local(), &run_id("r1")).await, Ok(run));
    assert_eq!(store.outcome(&run_id("r1")).await, outcome);
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let page = store.read_after(&run_id("r1"), after, 333).await.unwrap();
        after = page.records.last().map(|record| record.sequence).or(after);
        let done = page.is_done(after);
        paged.extend(page.records);
        if done {
            break;
        }
    }
    assert_eq!(paged, one);
    assert_eq!(
        store
            .delete_conversation(&Owner::local(), &conversation("c"))
            .await
            .map_err(|error| error.to_string()),
        Err("run r2 of this conversation is still running".to_owned())
    );
    store.close_run(&run_id("r2"), vec![failed(10, "engine_restarted")]).await.unwrap();
    assert_eq!(store.delete_conversation(&Owner::local(), &conversation("c")).await.unwrap().runs, 2);
}

pub async fn the_store_says_how_it_feels(backend: &mut impl Backend) {
    let health = backend.store().health().await.unwrap();
    assert!(["memory", "sqlite", "postgres"].contains(&health.backend));
    assert_eq!((health.queued, health.low_disk), (0, false));
}
