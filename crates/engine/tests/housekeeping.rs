//! Old runs are packed, and later lose their content, without anybody asking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may fail the test"
)]

#[path = "support/harness.rs"]
mod harness;

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::Sequence;
use causeway_contract::id::RunId;
use causeway_engine::config::Retention;
use causeway_engine::{Engine, Error};
use causeway_store::model::{Owner, Run, Status};
use causeway_store::{MemoryStore, Refusal, SqliteStore, Store, sqlite};
use harness::{Scripted, agent, answer, begin, question, settings, start};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(60);

async fn engine(harness: &Arc<Scripted>, store: Arc<dyn Store>, delete_after: Option<Duration>) -> Engine {
    let soon = Duration::from_millis(20);
    let retention = Retention { pack_after: soon, delete_after, interval: soon };
    let settings = causeway_engine::Settings { retention, ..settings() };
    Engine::open(settings, vec![agent(harness)], store).await.unwrap()
}

/// The run as soon as it is as wanted.
async fn until(engine: &Engine, run_id: &RunId<'_>, wanted: impl Fn(&Run) -> bool) -> Run {
    let looking = async {
        loop {
            let run = engine.run(&Owner::local(), run_id).await.unwrap();
            if wanted(&run) {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("in time")
}

fn ended(run: &Run) -> bool {
    run.status.is_terminal()
}

fn expired(run: &Run) -> bool {
    run.expired_at.is_some()
}

#[tokio::test]
async fn what_ended_long_ago_loses_its_content_and_its_conversation_goes_on() {
    let harness = Scripted::new([answer("h1"), answer("h2")]);
    let engine = engine(&harness, Arc::new(MemoryStore::new()), Some(Duration::from_millis(50))).await;
    let first = start(&engine, "c").await;
    let run = until(&engine, &first, expired).await;
    assert_eq!((run.status, run.request.as_str()), (Status::Finished, "{}"));
    let refused = engine.events(&Owner::local(), &first, None, 9, Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Expired { .. })), "{refused}");
    let refused = engine.subscribe(&Owner::local(), &first, None).await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Expired { .. })), "{refused}");
    start(&engine, "c").await;
    let begun = tokio::time::timeout(PATIENCE, async {
        while harness.begun.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        harness.begun.lock().unwrap()[1].clone()
    });
    assert_eq!(begun.await.unwrap().base.unwrap().as_str(), "h1", "the head stays");
    engine.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn what_waits_for_an_answer_keeps_its_content() {
    let harness = Scripted::new([vec![begin(), question("h1")], answer("h2")]);
    let engine = engine(&harness, Arc::new(MemoryStore::new()), Some(Duration::from_millis(50))).await;
    let waits = start(&engine, "c").await;
    until(&engine, &waits, ended).await;
    // Another one, that ended later, is gone by then.
    let other = start(&engine, "d").await;
    until(&engine, &other, expired).await;
    let run = engine.run(&Owner::local(), &waits).await.unwrap();
    assert_eq!((run.status, run.expired_at), (Status::Interrupted, None));
    assert!(engine.cancel_run(&Owner::local(), &waits).await.unwrap().interrupt_voided);
    until(&engine, &waits, expired).await;
    assert!(!engine.cancel_run(&Owner::local(), &waits).await.unwrap().interrupt_voided, "harmless");
    engine.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn without_a_time_to_delete_after_old_runs_are_packed_and_replay_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let harness = Scripted::new([answer("h1"), answer("h2")]);
    let options = sqlite::Options::new(dir.path()).low_disk_bytes(0);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    let engine = engine(&harness, Arc::clone(&store), None).await;
    let run_id = start(&engine, "c").await;
    until(&engine, &run_id, ended).await;
    let read = || store.read_after(&run_id, None, usize::MAX);
    let before = read().await.unwrap();
    let packed = || {
        let mut registry = prometheus_client::registry::Registry::default();
        engine.register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().any(|line| line == "causeway_runs_packed_total 1")
    };
    let waiting = async {
        while !packed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    assert_eq!(read().await.unwrap(), before);
    assert_eq!(before.records.first().map(|record| record.sequence), Some(Sequence::ZERO));
    assert!(!expired(&engine.run(&Owner::local(), &run_id).await.unwrap()));
    engine.shutdown(Duration::from_secs(1)).await;
}
