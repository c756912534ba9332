//! Who no longer has the run runs nothing: after a cancel, a terminal, a fence, and for a worker of another generation.

use std::sync::Arc;
use std::time::Duration;

use causeway_store::conformance::server::Server;
use causeway_store::faulty::{FaultyStore, On};
use causeway_store::model::Owner;
use causeway_store::{MemoryStore, PostgresStore, Store};

use crate::rig::{Counter, Rig, Strings, Turns, calls};
use crate::runs::last;

const GOOD: &str = r#"{"name":"api"}"#;

struct Stage {
    rig: Rig,
    turns: Turns,
    tool: Arc<Counter>,
    store: FaultyStore,
}

impl Stage {
    async fn new(lets: usize) -> Self {
        let tool = Counter::new(lets);
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let (rig, turns) = Rig::puppets(&tool, Arc::new(store.clone())).await;
        Self { rig, turns, tool, store }
    }

    async fn begin(&self) -> (causeway_contract::id::RunId<'static>, Strings) {
        let run_id = self.rig.start("go").await;
        let worker = self.turns.next().await;
        worker.begin();
        (run_id, worker)
    }
}

#[tokio::test]
async fn a_call_of_the_run_that_has_the_worker_runs() {
    let stage = Stage::new(9).await;
    let (run_id, mut worker) = stage.begin().await;
    worker.ask("c", "restart", GOOD);
    assert_eq!(worker.reply().await, "c ok");
    worker.end();
    let records = stage.rig.records(&run_id).await;
    assert_eq!((calls(&records).as_str(), stage.tool.count()), ("tool.started c; tool.finished c", 1));
    let call = stage.tool.calls.lock().unwrap()[0].clone();
    assert_eq!(call.idempotency_key(), format!("{run_id}:c"));
}

#[tokio::test]
async fn after_a_cancel_nothing_runs_and_what_runs_is_ended() {
    let stage = Stage::new(0).await;
    let (run_id, mut worker) = stage.begin().await;
    worker.ask("running", "restart", GOOD);
    stage.tool.has_begun(1).await;
    let engine = stage.rig.engine.clone();
    let (owner, id) = (Owner::local(), run_id.clone());
    let cancel = tokio::spawn(async move { engine.cancel_run(&owner, &id).await });
    assert_eq!(worker.reply().await, "running error run_over");
    worker.ask("late", "restart", GOOD);
    assert_eq!(worker.reply().await, "late error run_over");
    worker.line(r#"{"kind":"cancelled","run_id":"r","state":{}}"#);
    worker.end();
    assert!(cancel.await.unwrap().unwrap().cancelled);
    let records = stage.rig.records(&run_id).await;
    // What was ended may have done something: it stays open, and the run says so.
    assert_eq!(calls(&records), "tool.started running");
    assert_eq!(crate::rig::data(&records, "run.cancelled")[0]["side_effect_status"], "possible");
    assert_eq!(stage.tool.count(), 1);
}

#[tokio::test]
async fn after_the_terminal_nothing_runs() {
    let stage = Stage::new(9).await;
    let (run_id, mut worker) = stage.begin().await;
    worker.line(r#"{"kind":"end","run_id":"r","state":{"head":"h","interrupts":[]}}"#);
    let records = stage.rig.records(&run_id).await;
    assert_eq!(last(&records), "run.finished");
    worker.ask("late", "restart", GOOD);
    assert_eq!(worker.reply().await, "late error run_over");
    worker.end();
    assert_eq!(stage.tool.count(), 0);
}

#[tokio::test]
async fn a_worker_of_another_generation_runs_nothing() {
    let stage = Stage::new(9).await;
    let (run_id, mut worker) = stage.begin().await;
    let now = worker.turn.tools.as_ref().unwrap().generation;
    for stale in [now + 1, now.wrapping_sub(1), u64::MAX] {
        worker.ask_as(stale, "c", "restart", GOOD);
        assert_eq!(worker.reply().await, "c error stale_worker");
    }
    worker.end();
    assert_eq!(calls(&stage.rig.records(&run_id).await), "");
    assert_eq!(stage.tool.count(), 0);
}

#[tokio::test]
async fn a_run_that_was_taken_over_before_the_start_is_written_runs_nothing() {
    let stage = Stage::new(9).await;
    let (run_id, mut worker) = stage.begin().await;
    stage.rig.store.fence(&run_id).await.unwrap();
    worker.ask("c", "restart", GOOD);
    assert_eq!(worker.reply().await, "c error not_recorded");
    assert_eq!(stage.tool.count(), 0);
}

#[tokio::test]
async fn a_run_that_is_taken_over_between_start_and_invocation_runs_nothing() {
    let stage = Stage::new(9).await;
    let (run_id, mut worker) = stage.begin().await;
    stage.store.hold(On::Outcome); // the look at the store, right before the invocation
    worker.ask("c", "restart", GOOD);
    crate::runs::until(&stage.rig.engine, &run_id, "tool.started").await;
    stage.rig.store.fence(&run_id).await.unwrap();
    stage.store.release();
    assert_eq!(worker.reply().await, "c error stale_worker");
    assert_eq!(stage.tool.count(), 0);
}

#[tokio::test]
async fn a_worker_that_is_replaced_while_its_call_waits_runs_nothing() {
    // Its process dies: the run ends, and the next turn of the conversation has another worker.
    let stage = Stage::new(9).await;
    let (run_id, worker) = stage.begin().await;
    stage.store.hold(On::Outcome);
    worker.ask("c", "restart", GOOD);
    crate::runs::until(&stage.rig.engine, &run_id, "tool.started").await;
    drop(worker);
    let records = stage.rig.records(&run_id).await;
    assert_eq!(last(&records), "run.error provider_stream_closed");
    stage.store.release();
    let (next, mut other) = stage.begin().await;
    other.ask("c", "restart", GOOD);
    assert_eq!(other.reply().await, "c ok");
    other.end();
    assert_eq!(calls(&stage.rig.records(&next).await), "tool.started c; tool.finished c");
    assert_eq!(stage.tool.count(), 1, "the call of the worker that is gone ran as well");
}

#[tokio::test]
async fn a_start_that_cannot_be_written_runs_nothing() {
    let stage = Stage::new(9).await;
    let (_run, mut worker) = stage.begin().await;
    let refused = causeway_store::error::Refusal::UnknownRun;
    stage.store.fail_next(On::Append, causeway_store::faulty::Fault::Refused(refused));
    worker.ask("c", "restart", GOOD);
    assert_eq!(worker.reply().await, "c error not_recorded");
    assert_eq!(stage.tool.count(), 0);
}

#[tokio::test]
async fn the_same_call_is_not_run_twice() {
    let stage = Stage::new(0).await;
    let (run_id, mut worker) = stage.begin().await;
    worker.ask("c", "restart", GOOD);
    stage.tool.has_begun(1).await;
    worker.ask("c", "restart", GOOD);
    assert_eq!(worker.reply().await, "c error call_repeated");
    stage.tool.lets.add_permits(1);
    assert_eq!(worker.reply().await, "c ok");
    worker.ask("c", "restart", GOOD);
    assert_eq!(worker.reply().await, "c error call_repeated");
    worker.end();
    assert_eq!(calls(&stage.rig.records(&run_id).await), "tool.started c; tool.finished c");
    assert_eq!(stage.tool.count(), 1);
}

/// Two engines on one PostgreSQL, of which the first learns of nothing by itself: no hint, no look, no renewal comes round. What
/// refuses its worker is the question before the invocation, and the row that the append holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_was_cancelled_at_another_gateway_runs_nothing_and_commits_nothing() {
    let Some(server) = Server::shared() else { return };
    let hour = Duration::from_secs(3600);
    let options = server.empty().notify(false).look(hour).lease(hour, hour);
    let open = || -> Arc<dyn Store> {
        Arc::new(tokio::task::block_in_place(|| PostgresStore::open(options.clone()).unwrap()))
    };
    for begun in [false, true] {
        let (ours, theirs) = (Counter::new(9), Counter::new(9));
        let store = FaultyStore::new(open());
        let (here, turns) = Rig::puppets(&ours, Arc::new(store.clone())).await;
        let (there, others) = Rig::puppets(&theirs, open()).await;
        let run_id = here.start("go").await;
        let mut worker = turns.next().await;
        worker.begin();
        if begun {
            store.hold(On::Outcome); // between the start, which is written, and the invocation
            worker.ask("c", "restart", GOOD);
            crate::runs::until(&there.engine, &run_id, "tool.started").await;
        }
        assert!(there.engine.cancel_run(&Owner::local(), &run_id).await.unwrap().cancelled);
        let before = there.records(&run_id).await;
        assert_eq!(last(&before), "run.cancelled client_request");
        // The conversation goes on there, before the stale worker wakes.
        let conversation = there.engine.run(&Owner::local(), &run_id).await.unwrap().conversation_id;
        let next = there.start_in(conversation, "go on").await;
        let mut fresh = others.next().await;
        fresh.begin();
        fresh.ask("d", "restart", GOOD);
        assert_eq!(fresh.reply().await, "d ok");
        fresh.end();
        let finished = there.records(&next).await;
        assert_eq!(last(&finished), "run.finished");

        let refusal = if begun { "c error stale_worker" } else { "c error not_recorded" };
        if begun {
            store.release();
        } else {
            worker.ask("c", "restart", GOOD);
        }
        assert_eq!(worker.reply().await, refusal);
        worker.end();
        here.engine.shutdown(Duration::from_secs(5)).await; // waits for what the worker said to be refused
        let late = there.records(&run_id).await;
        assert_eq!((late, ours.count(), theirs.count()), (before, 0, 1), "begun: {begun}");
        assert_eq!(there.records(&next).await, finished);
    }
}
