//! Two gateways on one PostgreSQL: a run that one drives is followed and cancelled at the other, and whoever is left ends
//! what a dead one was at. Without a server here it says SKIPPED.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/harness.rs"]
mod harness;

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::EventType;
use causeway_engine::quota::Bounds;
use causeway_engine::{Engine, Error};
use causeway_store::conformance::fixture;
use causeway_store::conformance::server::Server;
use causeway_store::model::{Bound, Owner, Status};
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, Refusal, Store};
use tokio::time::timeout;

use harness::{
    Scripted, Step, agent, answer, begin, cancelled_line, engine, follow, request, settings, start, story,
    text,
};

const BOUND: Duration = Duration::from_secs(120);

fn store(options: &Options) -> Arc<PostgresStore> {
    // Renewals, and looks at what others left, come soon; leases last.
    let options = options.clone().lease(Duration::from_secs(60), Duration::from_millis(200));
    Arc::new(tokio::task::block_in_place(|| PostgresStore::open(options).unwrap()))
}

async fn gateway(options: &Options, harness: &Arc<Scripted>) -> Engine {
    engine(agent(harness), store(options)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_is_followed_and_cancelled_at_another_gateway() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let driving = Scripted::new([vec![begin(), text("m", "so far"), Step::Hang], answer("h")]);
    driving.says_when_cancelled(vec![cancelled_line("h")]);
    let (here, there) = (gateway(&options, &driving).await, gateway(&options, &Scripted::new([])).await);
    let run_id = start(&here, "c").await;

    let mut live = there.subscribe(&Owner::local(), &run_id, None).await.unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|record: &causeway_store::Record| record.event_type != EventType::TextDelta)
    {
        seen.push(timeout(BOUND, live.next()).await.unwrap().unwrap().expect("it goes on"));
    }
    let cancelled = timeout(BOUND, there.cancel_run(&Owner::local(), &run_id)).await.unwrap().unwrap();
    assert!(cancelled.cancelled);
    while let Some(record) = timeout(BOUND, live.next()).await.unwrap().unwrap() {
        seen.push(record);
    }
    assert_eq!(seen.last().map(|record| record.event_type), Some(EventType::RunCancelled));
    assert_eq!(follow(&there, &run_id, None).await.unwrap(), seen);
    assert_eq!(there.run(&Owner::local(), &run_id).await.unwrap().status, Status::Cancelled);

    // The gateway that drove it finds out, and stops its turn; what that one says is not in the log.
    timeout(BOUND, follow(&here, &run_id, None)).await.expect("the turn goes on").unwrap();
    let next = start(&here, "c").await;
    timeout(BOUND, follow(&here, &next, None)).await.unwrap().unwrap();
    assert_eq!(follow(&here, &run_id, None).await.unwrap(), seen);
    assert_eq!(here.run(&Owner::local(), &next).await.unwrap().status, Status::Finished);
}

/// No timer of a gateway comes round within this test, so it is the hint that tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_at_another_gateway_stops_the_harness_without_waiting_for_the_next_look() {
    let Some(server) = Server::shared() else { return };
    let hour = Duration::from_secs(3600);
    let options = server.empty().look(hour);
    let open = |options: &Options| {
        let options = options.clone().lease(hour, hour);
        Arc::new(tokio::task::block_in_place(|| PostgresStore::open(options).unwrap()))
    };
    let driving = Scripted::new([vec![begin(), text("m", "so far"), Step::Hang]]);
    driving.says_when_cancelled(vec![cancelled_line("h")]);
    let here = engine(agent(&driving), open(&options)).await;
    let there = engine(agent(&Scripted::new([])), open(&options)).await;
    let run_id = start(&here, "c").await;
    let mut live = there.subscribe(&Owner::local(), &run_id, None).await.unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|record: &causeway_store::Record| record.event_type != EventType::TextDelta)
    {
        seen.push(timeout(BOUND, live.next()).await.unwrap().unwrap().expect("it goes on"));
    }
    timeout(BOUND, there.cancel_run(&Owner::local(), &run_id)).await.unwrap().unwrap();
    while let Some(record) = timeout(BOUND, live.next()).await.unwrap().unwrap() {
        seen.push(record);
    }
    timeout(BOUND, follow(&here, &run_id, None)).await.expect("the turn goes on").unwrap();
    assert_eq!(follow(&here, &run_id, None).await.unwrap(), seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_gateway_that_is_gone_was_at_gets_its_terminal_at_another() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let left = gateway(&options, &Scripted::new([])).await;
    let gone = store(&options);
    fixture::opened(&*gone, fixture::open("r1", "c")).await;
    let run_id = fixture::run_id("r1");
    let follower = {
        let (left, run_id) = (left.clone(), run_id.clone());
        tokio::spawn(async move { follow(&left, &run_id, None).await.unwrap() })
    };
    tokio::task::block_in_place(|| drop(gone));
    let seen = timeout(BOUND, follower).await.expect("nobody ends it").unwrap();
    assert_eq!(story(&seen), "run.started; run.error engine_restarted");
    let left: &dyn Store = &*store(&options);
    assert_eq!(left.run(&Owner::local(), &run_id).await.unwrap().status, Status::Error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_an_owner_has_open_at_one_gateway_counts_at_another() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let harness = Scripted::new([vec![begin(), Step::Hang], vec![begin(), Step::Hang]]);
    let open = async || {
        let mut settings = settings();
        settings.quotas.subject =
            Bounds { open_runs: Some(2), starts_per_minute: Some(3), ..Bounds::default() };
        Engine::open(settings, vec![agent(&harness)], store(&options)).await.unwrap()
    };
    let (here, there) = (open().await, open().await);
    let first = start(&here, "a").await;
    start(&there, "b").await;
    let over = |error: Error| match error {
        Error::Refused(Refusal::OverQuota(over)) => over.bound,
        other => panic!("{other:?}"),
    };
    assert_eq!(over(here.start(request("c")).await.unwrap_err()), Bound::OpenRuns);
    assert_eq!(over(there.start(request("c")).await.unwrap_err()), Bound::OpenRuns);
    timeout(BOUND, there.cancel_run(&Owner::local(), &first)).await.unwrap().unwrap();
    harness.add(answer("h"));
    let third = start(&here, "c").await;
    timeout(BOUND, follow(&here, &third, None)).await.unwrap().unwrap();
    assert_eq!(over(there.start(request("d")).await.unwrap_err()), Bound::Starts);
}
