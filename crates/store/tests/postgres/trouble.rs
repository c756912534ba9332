//! Servers that die and connections that are cut in the middle of a commit: what was acknowledged stays, once, and what
//! was not is told for what it is.

use std::time::Duration;

use causeway_store::conformance::fixture::{delta, finish, first, log, open, opened, run_id, sequence};
use causeway_store::conformance::server::Server;
use causeway_store::error::Error;
use causeway_store::model::{Generation, Outcome, Status};
use causeway_store::{PostgresStore, Refusal, Store};
use tokio::time::{sleep, timeout};

use crate::proxy::{Mode, Proxy};

const BOUND: Duration = Duration::from_secs(180);

/// Asks until the store knows.
async fn outcome(store: &PostgresStore, run: &str) -> Outcome {
    let asking = async {
        loop {
            match store.outcome(&run_id(run)).await {
                Ok(outcome) => return outcome,
                Err(Error::Unavailable(_) | Error::Unknown(_)) => sleep(Duration::from_millis(20)).await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    timeout(BOUND, asking).await.expect("the store never knows")
}

/// What becomes of an append, and then of the end of a run, whose commit is cut off.
async fn cut(mode: Mode, lands: bool) {
    let Some(server) = Server::shared() else { return };
    let proxy = Proxy::start(server).await;
    let options = server.empty();
    let store = tokio::task::block_in_place(|| PostgresStore::open(proxy.options(&options)).unwrap());
    opened(&store, open("r1", "c")).await;

    proxy.set(mode);
    let answer = timeout(BOUND, store.append(&run_id("r1"), first(), vec![delta(1)])).await.unwrap();
    assert!(matches!(answer, Err(Error::Unknown(_))), "{answer:?}");
    proxy.set(Mode::Pass);
    let last_sequence = sequence(u64::from(lands));
    assert_eq!(outcome(&store, "r1").await, Outcome::Running { generation: first(), last_sequence });
    let next = last_sequence.value() + 1;
    if !lands {
        // It cannot land any more: its place is taken.
        store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    }
    assert_eq!(log(&store, "r1").await.len(), 2);

    proxy.set(mode);
    let end = finish(2, 0, "h");
    let answer = timeout(BOUND, store.commit_final(&run_id("r1"), first(), end.clone())).await.unwrap();
    assert!(matches!(answer, Err(Error::Unknown(_))), "{answer:?}, after event {next}");
    proxy.set(Mode::Pass);
    let found = outcome(&store, "r1").await;
    if lands {
        let [terminal] = end.tail.try_into().unwrap();
        assert_eq!(found, Outcome::Ended { status: Status::Finished, terminal, head: end.head });
    } else {
        assert_eq!(found, Outcome::Running { generation: first(), last_sequence: sequence(1) });
        store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    }
    assert_eq!(log(&store, "r1").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_that_was_lost_on_its_way_has_not_landed_and_never_will() {
    cut(Mode::CutBeforeCommit, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_whose_answer_was_lost_has_landed() {
    cut(Mode::CutAfterCommit, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_killed_again_and_again_loses_nothing_that_was_acknowledged() {
    const KILLS: usize = 3;
    let Some(mut server) = Server::start() else { return };
    let options = server.empty();
    let store = tokio::task::block_in_place(|| PostgresStore::open(options.clone()).unwrap());
    let runs = ["r1", "r2", "r3", "r4"];
    for run in runs {
        opened(&store, open(run, run)).await;
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writers = runs.map(|run| {
        let (store, stopped) = (store.clone(), stopped.clone());
        tokio::spawn(async move {
            let mut number = 1;
            while !*stopped.borrow() {
                match store.append(&run_id(run), first(), vec![delta(number)]).await {
                    Ok(()) => number += 1,
                    // An earlier try has landed after all.
                    Err(Error::Refused(Refusal::NotContiguous { expected, .. }))
                        if expected.value() == number + 1 =>
                    {
                        number += 1;
                    }
                    Err(Error::Unavailable(_) | Error::Unknown(_)) => sleep(Duration::from_millis(20)).await,
                    Err(other) => panic!("{run}: {other}"),
                }
            }
            number - 1
        })
    });
    for _ in 0..KILLS {
        let before = log_length(&store, "r1").await;
        let more = async {
            while log_length(&store, "r1").await < before + 20 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(BOUND, more).await.expect("nothing is written any more");
        tokio::task::block_in_place(|| server.crash());
    }
    stop.send_replace(true);
    for (run, writer) in runs.into_iter().zip(writers) {
        let acknowledged = timeout(BOUND, writer).await.unwrap().unwrap();
        let numbers: Vec<_> = log(&store, run).await.iter().map(|record| record.sequence.value()).collect();
        assert_eq!(numbers, (0..=acknowledged).collect::<Vec<_>>(), "{run}");
        let generation = Generation::new(1);
        assert_eq!(
            outcome(&store, run).await,
            Outcome::Running { generation, last_sequence: sequence(acknowledged) }
        );
    }
    tokio::task::block_in_place(|| drop(store));
}

/// How long a log is, once the server can be asked.
async fn log_length(store: &PostgresStore, run: &str) -> u64 {
    match outcome(store, run).await {
        Outcome::Running { last_sequence, .. } => last_sequence.value() + 1,
        Outcome::Missing | Outcome::Ended { .. } => panic!("{run} is not running"),
    }
}
