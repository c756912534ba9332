//! What one gateway writes is noticed at another: by a hint where one comes, by looking where none does, and always by the
//! cursor, so that nothing is read twice or left out.

use std::time::Duration;

use causeway_contract::event::Sequence;
use causeway_store::conformance::fixture::{
    delta, deltas, fail, failed, first, log, open, opened, run_id, sequence,
};
use causeway_store::conformance::server::Server;
use causeway_store::model::{Generation, Owner, Status};
use causeway_store::{PostgresStore, Record, Store};
use tokio::time::sleep;

use crate::gateways::{bounded, gateway, hasty};

/// Longer than any test: what waits for it waits for ever.
const NEVER: Duration = Duration::from_secs(3600);

/// Reads a run at a gateway to its end, waiting as a reader does.
async fn follow(store: PostgresStore, id: &str) -> Vec<Record> {
    let id = run_id(id);
    let mut follow = store.follow(&id).expect("it is shared");
    let (mut read, mut reached) = (Vec::new(), None::<Sequence>);
    loop {
        follow.moved(reached).await;
        // What is cut off meanwhile is asked again.
        let Ok(page) = store.read_after(&id, reached, 16).await else { continue };
        let done = page.is_done(reached);
        reached = page.records.last().map(|record| record.sequence).or(reached);
        read.extend(page.records);
        if done {
            return read;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hint_wakes_whoever_follows_at_another_gateway() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty().look(NEVER);
    let (here, there) = (gateway(&options), gateway(&options));
    opened(&here, open("r1", "c")).await;
    let mut follow = there.follow(&run_id("r1")).expect("it is shared");
    bounded(follow.moved(None)).await;
    for number in 1..20 {
        here.append(&run_id("r1"), first(), vec![delta(number)]).await.unwrap();
        bounded(follow.moved(Some(sequence(number - 1)))).await;
        let page = there.read_after(&run_id("r1"), Some(sequence(number - 1)), 16).await.unwrap();
        assert_eq!(page.records, [delta(number)]);
    }
    here.commit_final(&run_id("r1"), first(), fail(20)).await.unwrap();
    bounded(follow.moved(Some(sequence(20)))).await;
    let (sent, received) = (here.figures().unwrap(), there.figures().unwrap());
    assert!(sent.hints_sent >= 2 && received.hints_received >= 2, "{sent:?} {received:?}");
    assert_eq!((received.followed, sent.followed), (1, 0));
    drop(follow);
    assert_eq!(there.figures().unwrap().followed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_any_hint_a_follower_comes_to_the_end_by_looking() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let here = gateway(&options.clone().notify(false).look(NEVER));
    let there = gateway(&options.look(Duration::from_millis(20)));
    opened(&here, open("r1", "c")).await;
    let follower = tokio::spawn(follow(there.clone(), "r1"));
    for number in 1..40 {
        here.append(&run_id("r1"), first(), vec![delta(number)]).await.unwrap();
    }
    here.commit_final(&run_id("r1"), first(), fail(40)).await.unwrap();
    let read = bounded(follower).await.unwrap();
    assert_eq!(read, log(&here, "r1").await);
    assert_eq!(here.figures().unwrap().hints_sent, 0);
    assert_eq!(there.figures().unwrap().hints_received, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_listener_that_is_cut_off_again_and_again_neither_misses_nor_repeats() {
    const RECORDS: u64 = 300;
    let Some(server) = Server::shared() else { return };
    let options = server.empty().look(NEVER);
    let (here, there) = (gateway(&options), gateway(&options.clone().application_name("cut_off")));
    opened(&here, open("r1", "c")).await;
    let followers: Vec<_> = (0..8).map(|_| tokio::spawn(follow(there.clone(), "r1"))).collect();
    let client = crate::schema::raw(server).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cut_off'";
    for number in 1..RECORDS {
        here.append(&run_id("r1"), first(), vec![delta(number)]).await.unwrap();
        if number % 30 == 0 {
            client.query(cut, &[]).await.unwrap();
        }
    }
    here.commit_final(&run_id("r1"), first(), fail(RECORDS)).await.unwrap();
    let whole = log(&here, "r1").await;
    for follower in followers {
        assert!(bounded(follower).await.unwrap() == whole);
    }
    // It listens again: what is written now comes by a hint, for nobody looks.
    opened(&here, open("r2", "c2")).await;
    let mut follow = there.follow(&run_id("r2")).unwrap();
    bounded(follow.moved(None)).await;
    let mut written = 0;
    loop {
        written += 1;
        here.append(&run_id("r2"), first(), vec![delta(written)]).await.unwrap();
        bounded(follow.moved(Some(sequence(written - 1)))).await;
        let page = there.read_after(&run_id("r2"), Some(sequence(written - 1)), 16).await.unwrap();
        if !page.records.is_empty() && written > 3 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gateway_hears_at_once_that_a_run_was_taken_from_it() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty().look(NEVER).lease(NEVER, NEVER);
    let (here, there) = (gateway(&options), gateway(&options));
    for run in ["r1", "r2"] {
        opened(&here, open(run, run)).await;
    }
    // Its first looks have to come before it can see a difference.
    bounded(async {
        while here.figures().unwrap().looks < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    there.close_run(&run_id("r1"), vec![failed(1, "cancelled")]).await.unwrap();
    bounded(here.disturbed()).await;
    assert_eq!(there.run(&Owner::local(), &run_id("r1")).await.unwrap().status, Status::Error);
    assert_eq!(there.fence(&run_id("r2")).await.unwrap().generation, Generation::new(2));
    bounded(here.disturbed()).await;
    let (ours, theirs) = (here.figures().unwrap(), there.figures().unwrap());
    assert_eq!((ours.runs_lost, ours.runs_taken, ours.leases_lost, ours.others), (2, 0, 0, 1));
    assert_eq!((theirs.runs_taken, theirs.runs_lost, theirs.leases_ended), (2, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_that_ran_out_is_counted_on_both_sides() {
    let Some(server) = Server::shared() else { return };
    let proxy = crate::proxy::Proxy::start(server).await;
    let options = hasty(server.empty());
    let (here, there) = (gateway(&proxy.options(&options)), gateway(&options));
    opened(&here, open("r1", "c")).await;
    here.append(&run_id("r1"), first(), deltas(1..4)).await.unwrap();
    proxy.set(crate::proxy::Mode::Freeze);
    bounded(async {
        while there.list_orphans().await.unwrap().is_empty() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let figures = there.figures().unwrap();
    assert_eq!((figures.leases_ended, figures.runs_taken, figures.leases_lost), (1, 1, 0));
    proxy.set(crate::proxy::Mode::Pass);
    bounded(async {
        while here.renew_lease().await.is_err() || here.figures().unwrap().leases_lost == 0 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let figures = here.figures().unwrap();
    assert_eq!((figures.leases_ended, figures.runs_taken), (0, 0));
    bounded(here.disturbed()).await;
}
