//! Restarts, orphans, archive, health.

use std::collections::HashSet;

use causeway_contract::event::EventType;
use causeway_contract::timestamp::Timestamp;
use tokio::task::JoinSet;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    NOON, agent, answer, conversation, deltas, fail, failed, finish, first, keyed, log, open, opened, record,
    reference, refusal, replayed, run_id, run_to_end, run_to_pause, sequence,
};
use crate::error::Refusal;
use crate::model::{
    Epoch, Expired, ExpiredRun, InterruptStatus, Orphan, Owner, Remains, Run, RunFilter, Status, Thread,
    Whose, Withdrawal,
};
use crate::store::Store;

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
    assert_eq!(store.delete_conversation(&Owner::local(), &conversation("c")).await.unwrap().runs.len(), 2);
}

/// What is left of a run with this status, whose terminal has the number 2, or 1 without a usage.
fn remains(run: &str, status: Status, last: u64, at: i64) -> Refusal {
    let remains = Remains {
        run_id: run_id(run),
        status,
        created_at: record(0, EventType::RunStarted, "").timestamp,
        ended_at: Some(record(last, EventType::RunFinished, "").timestamp),
        last_sequence: sequence(last),
        error_code: (status == Status::Error).then(|| "harness_timeout".into()),
        expired_at: Timestamp::from_unix(at, 0),
    };
    Refusal::Expired { remains: Box::new(remains) }
}

fn gone(runs: &[&str]) -> Vec<ExpiredRun> {
    let of = |run: &&str| ExpiredRun {
        owner: Owner::local(),
        run_id: run_id(run),
        conversation_id: conversation("c"),
    };
    runs.iter().map(of).collect()
}

/// Deletes the content of what ended before, this many seconds after noon, at that time.
async fn expire(store: &dyn Store, seconds: i64, limit: usize) -> Expired {
    let at = Timestamp::from_unix(NOON + seconds, 0);
    store.expire(&at, &at, limit).await.unwrap()
}

pub async fn an_expired_run_keeps_what_it_was_and_loses_what_it_said(backend: &mut impl Backend) {
    let store = backend.store();
    let (local, later) = (Owner::local(), NOON + 100);
    opened(&*store, keyed(open("r1", "c"), "key", 1)).await;
    let usage = record(1, EventType::UsageUpdated, r#"{"input_tokens":3,"final":true}"#);
    store.append(&run_id("r1"), first(), vec![usage]).await.unwrap();
    store.put_result(&run_id("r1"), &reference("a"), b"whole".to_vec()).await.unwrap();
    store.commit_final(&run_id("r1"), first(), fail(2)).await.unwrap();
    run_to_end(&*store, open("r2", "c"), "h1").await;
    store.archive(&Timestamp::from_unix(later, 0), 1).await.unwrap();
    let before = store.run(&local, &run_id("r1")).await.unwrap();
    let head = store.load_head(&local, &conversation("c"), &agent("helper")).await;
    let threads = store.stale_threads(&local, &conversation("c"), 9).await;

    let nothing = Expired::default();
    assert_eq!(expire(&*store, 1, 10).await, nothing, "nothing had ended a second after noon");
    let done = expire(&*store, 100, 1).await;
    assert_eq!(done.runs, gone(&["r2"]), "the one that ended first");
    assert_eq!(done.oldest_left, before.ended_at.as_ref().map(|at| at.unix_millis()));
    assert_eq!(expire(&*store, 100, 10).await, Expired { runs: gone(&["r1"]), oldest_left: None });
    assert_eq!(expire(&*store, 200, 10).await, nothing, "once is enough");
    assert_eq!(store.stored_bytes(Whose::Owner, "local").await, Ok(0), "it takes up nothing");

    drop(store);
    backend.restart();
    let store = backend.store();
    let at = Some(Timestamp::from_unix(later, 0));
    let after = Run { request: "{}".into(), expired_at: at, ..before };
    assert_eq!(store.run(&local, &run_id("r1")).await, Ok(after.clone()));
    let listed = store.runs(&local, &RunFilter::default(), 10, None).await.unwrap().runs;
    assert_eq!(listed.last(), Some(&after));
    let error = remains("r1", Status::Error, 2, later);
    assert_eq!(refusal(store.read_after(&run_id("r1"), None, 5).await), error);
    assert_eq!(refusal(store.read_owned(&local, &run_id("r1"), Some(sequence(2)), 5).await), error);
    let ann = Owner::new("ann");
    assert_eq!(refusal(store.read_owned(&ann, &run_id("r1"), None, 5).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.outcome(&run_id("r1")).await), error);
    assert_eq!(
        refusal(store.put_result(&run_id("r1"), &reference("b"), b"late".to_vec()).await),
        error,
        "nothing comes back"
    );
    assert_eq!(refusal(store.result(&local, &run_id("r1"), &reference("a")).await), Refusal::UnknownResult);
    assert_eq!(
        refusal(store.read_after(&run_id("r2"), None, 5).await),
        remains("r2", Status::Finished, 1, later)
    );
    assert_eq!(store.load_head(&local, &conversation("c"), &agent("helper")).await, head);
    assert_eq!(store.stale_threads(&local, &conversation("c"), 9).await, threads);

    assert_eq!(replayed(store.open_run(keyed(open("r3", "c"), "key", 1)).await), after);
    assert_eq!(opened(&*store, open("r3", "c")).await.base_revision().value(), 1);
    store.close_run(&run_id("r3"), vec![failed(1, "engine_restarted")]).await.unwrap();
    assert_eq!(store.delete_conversation(&local, &conversation("c")).await.unwrap().runs.len(), 3);
}

pub async fn what_runs_or_waits_for_an_answer_does_not_expire(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r0", "d")).await;
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    assert_eq!(expire(&*store, 100, 10).await, Expired::default());
    store.consume_interrupt(answer("r1", "i", 1, open("r2", "c"))).await.unwrap();
    assert_eq!(expire(&*store, 100, 10).await, Expired::default(), "the same answer may come again");
    store.commit_final(&run_id("r2"), first(), finish(1, 1, "h2")).await.unwrap();
    assert_eq!(expire(&*store, 100, 10).await.runs, gone(&["r2"]));
    assert_eq!(expire(&*store, 100, 10).await.runs, gone(&["r1"]), "its answer has made way for it");
    let error = remains("r1", Status::Interrupted, 2, NOON + 100);
    assert_eq!(refusal(store.interrupt(&Owner::local(), &run_id("r1")).await), error);
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    let interrupt = run.interrupt.unwrap();
    assert_eq!((interrupt.status, interrupt.decision), (InterruptStatus::Consumed, None));
    assert_eq!(
        refusal(store.consume_interrupt(answer("r1", "i", 1, open("r3", "c"))).await),
        Refusal::InterruptConsumed { resumed_by: run_id("r2") }
    );

    run_to_pause(&*store, open("r4", "c"), "h3", "i").await;
    store.void_interrupt(&run_id("r4"), Withdrawal::Voided).await.unwrap();
    assert_eq!(expire(&*store, 100, 10).await.runs, gone(&["r4"]));
}

pub async fn of_many_who_expire_runs_each_takes_its_own(backend: &mut impl Backend) {
    let store = backend.store();
    for at in 0..12 {
        run_to_end(&*store, open(&format!("r{at}"), "c"), "h").await;
    }
    let at = Timestamp::from_unix(NOON + 100, 0);
    let mut passes = JoinSet::new();
    for _ in 0..4 {
        let (store, at) = (backend.store(), at.clone());
        passes.spawn(async move { store.expire(&at, &at, 12).await.unwrap().runs });
    }
    let told: Vec<_> = passes.join_all().await.into_iter().flatten().map(|run| run.run_id).collect();
    let runs: HashSet<_> = told.iter().collect();
    assert_eq!((told.len(), runs.len()), (12, 12), "every run once");
    assert_eq!(expire(&*store, 100, 12).await, Expired::default());
}

pub async fn the_store_says_how_it_feels(backend: &mut impl Backend) {
    let health = backend.store().health().await.unwrap();
    assert!(["memory", "sqlite", "postgres"].contains(&health.backend));
    assert_eq!((health.queued, health.low_disk), (0, false));
}
