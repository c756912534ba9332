//! Two and three gateways on one schema: whose lease runs out loses its runs, and writes nothing to them any more.

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::{EventType, Sequence};
use causeway_contract::timestamp::Timestamp;
use causeway_store::conformance::fixture::{
    NOON, answer, delta, deltas, fail, failed, finish, first, interrupt_id, log, open, opened, refusal,
    run_id, run_to_pause, sequence,
};
use causeway_store::conformance::server::Server;
use causeway_store::error::{Error, Refusal};
use causeway_store::model::{Fenced, Generation, Opened, Orphan, Owner, Status};
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, Record, Store};
use tokio::time::{Instant, sleep, timeout};

use crate::proxy::{Mode, Proxy};
use crate::schema::raw;

const BOUND: Duration = Duration::from_secs(120);

/// Takes `work` that must come to an end.
pub async fn bounded<T>(work: impl Future<Output = T>) -> T {
    timeout(BOUND, work).await.expect("it takes too long")
}

/// A gateway of a schema. They open on a thread where blocking is allowed.
pub fn gateway(options: &Options) -> PostgresStore {
    tokio::task::block_in_place(|| PostgresStore::open(options.clone()).unwrap())
}

/// Leases that run out soon.
pub fn hasty(options: Options) -> Options {
    let (connect, statement, lock) =
        (Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(10));
    options
        .lease(Duration::from_millis(1500), Duration::from_millis(300))
        .timeouts(connect, statement, lock)
        .idle_timeout(Duration::from_millis(700))
}

/// Asks until there is an orphan.
async fn orphans(store: &PostgresStore) -> Vec<Orphan> {
    let until = Instant::now() + BOUND;
    loop {
        let found = store.list_orphans().await.unwrap();
        if !found.is_empty() {
            return found;
        }
        assert!(Instant::now() < until, "nobody's lease runs out");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The first answer that is not about what was asked on a connection that was held up.
async fn answered<T>(ask: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    bounded(async {
        loop {
            match ask().await {
                Err(Error::Unavailable(_) | Error::Unknown(_)) => sleep(Duration::from_millis(50)).await,
                answer => return answer,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gateway_that_was_away_for_longer_than_its_lease_writes_nothing_more() {
    let Some(server) = Server::shared() else { return };
    let proxy = Proxy::start(server).await;
    let options = hasty(server.empty());
    let (here, there) = (gateway(&proxy.options(&options)), gateway(&options));
    opened(&here, open("r1", "c")).await;
    here.append(&run_id("r1"), first(), deltas(1..4)).await.unwrap();
    assert_eq!(there.list_orphans().await, Ok(Vec::new()), "its owner lives");

    proxy.set(Mode::Freeze);
    let found = bounded(orphans(&there)).await;
    assert_eq!(
        found.iter().map(|orphan| (&orphan.run_id, orphan.last_sequence)).collect::<Vec<_>>(),
        [(&run_id("r1"), sequence(3))]
    );
    there.close_run(&run_id("r1"), vec![failed(4, "thread_durability_uncertain")]).await.unwrap();
    let closed = log(&there, "r1").await;

    proxy.set(Mode::Pass);
    let id = run_id("r1");
    let late = answered(async || here.append(&id, first(), vec![delta(4)]).await).await;
    assert!(
        matches!(refusal(late), Refusal::Fenced { given, current } if given == first() && current > given)
    );
    let end = here.commit_final(&id, first(), finish(4, 0, "h")).await;
    assert!(matches!(refusal(end), Refusal::Fenced { .. }));
    assert_eq!(log(&there, "r1").await, closed);
    assert_eq!(there.run(&Owner::local(), &id).await.unwrap().status, Status::Uncertain);
    // It goes on under a new lease.
    opened(&here, open("r2", "c")).await;
    here.append(&run_id("r2"), first(), deltas(1..3)).await.unwrap();
    assert_eq!(log(&there, "r2").await.len(), 3);
}

/// Has one gateway write while its commit is held up, and another fence the run; what the fence said, and the log after.
async fn fence_during_a_commit(careless: bool) -> Option<(Fenced, Vec<Record>)> {
    let server = Server::shared()?;
    let proxy = Proxy::start(server).await;
    let patient = Duration::from_secs(60);
    let options =
        server.empty().timeouts(patient, patient, patient).idle_timeout(patient).lease(patient, patient);
    let theirs = proxy.options(&options);
    let here = gateway(&if careless { theirs.without_lease_lock() } else { theirs });
    let there = gateway(&options);
    opened(&here, open("r1", "c")).await;
    proxy.set(Mode::HoldCommit);
    let writing = here.clone();
    let append = tokio::spawn(async move { writing.append(&run_id("r1"), first(), vec![delta(1)]).await });
    bounded(proxy.met_a_commit()).await;
    let fencing = there.clone();
    let fence = tokio::spawn(async move { fencing.fence(&run_id("r1")).await });
    if careless {
        let fenced = bounded(fence).await.unwrap().unwrap();
        proxy.set(Mode::Pass);
        bounded(append).await.unwrap().unwrap();
        return Some((fenced, log(&there, "r1").await));
    }
    // The server says that somebody waits for the row that the writer holds.
    let client = raw(server).await;
    let sql = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
               WHERE NOT l.granted AND a.query LIKE '%FROM instance%FOR UPDATE%'";
    bounded(async {
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    proxy.set(Mode::Pass);
    bounded(append).await.unwrap().unwrap();
    let fenced = bounded(fence).await.unwrap().unwrap();
    let refused = here.append(&run_id("r1"), first(), vec![delta(2)]).await;
    let current = Generation::new(2);
    assert_eq!(refusal(refused), Refusal::Fenced { given: first(), current });
    Some((fenced, log(&there, "r1").await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fence_waits_for_the_write_that_had_begun() {
    let Some((fenced, log)) = fence_during_a_commit(false).await else { return };
    assert_eq!(fenced, Fenced { generation: Generation::new(2), last_sequence: sequence(1) });
    assert_eq!(log.last().map(|record| record.sequence), Some(sequence(1)));
}

/// The control: where the row is looked at and not held, a write lands after the fence was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_the_lock_a_write_lands_behind_the_fence() {
    let Some((fenced, log)) = fence_during_a_commit(true).await else { return };
    assert_eq!(fenced.last_sequence, sequence(0));
    assert_eq!(log.last().map(|record| record.sequence), Some(sequence(1)), "it landed behind the fence");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_answers_at_three_gateways_one_starts_a_run() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let gateways: Vec<_> = (0..3).map(|_| gateway(&options)).collect();
    run_to_pause(&gateways[0], open("r1", "c"), "h", "i").await;
    let answers: Vec<_> = (0..64)
        .map(|number| {
            let store = gateways[number % 3].clone();
            tokio::spawn(async move {
                store.consume_interrupt(answer("r1", "i", 1, open(&format!("a{number}"), "c"))).await
            })
        })
        .collect();
    let mut started = Vec::new();
    let mut refused = Vec::new();
    for (number, answer) in answers.into_iter().enumerate() {
        match bounded(answer).await.unwrap() {
            Ok(Opened::New(_)) => started.push(run_id(&format!("a{number}"))),
            Ok(Opened::Replayed(run)) => panic!("{} was there already", run.run_id),
            Err(Error::Refused(refusal)) => refused.push(refusal),
            Err(other) => panic!("{other}"),
        }
    }
    let [resumed_by] = started.try_into().expect("one run");
    assert_eq!(refused, vec![Refusal::InterruptConsumed { resumed_by: resumed_by.clone() }; 63]);
    let interrupted = gateways[2].run(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!(interrupted.resumed_by, Some(resumed_by));
    assert_eq!(interrupted.interrupt.unwrap().interrupt_id, interrupt_id("i"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_key_starts_one_run_at_three_gateways() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let gateways: Vec<_> = (0..3).map(|_| gateway(&options)).collect();
    let starts: Vec<_> = (0..30)
        .map(|number| {
            let store = gateways[number % 3].clone();
            // Even the conversation is new to all of them.
            let open = causeway_store::conformance::fixture::keyed(open(&format!("r{number}"), "c"), "k", 7);
            tokio::spawn(async move { store.open_run(open).await })
        })
        .collect();
    let (mut new, mut found) = (0, Vec::new());
    for start in starts {
        match bounded(start).await.unwrap().unwrap() {
            Opened::New(_) => new += 1,
            Opened::Replayed(run) => found.push(run.run_id.clone()),
        }
    }
    found.dedup();
    assert_eq!((new, found.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_attaches_at_another_gateway_reads_the_whole_stream() {
    const RECORDS: u64 = 400;
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let (writer, readers) = (gateway(&options), [gateway(&options), gateway(&options)]);
    opened(&writer, open("r1", "c")).await;
    let attached: Vec<_> = (0..50_u64)
        .map(|number| {
            let store = readers[usize::try_from(number % 2).unwrap()].clone();
            // From the start, and from cursors all over the stream.
            let after = (number * 37 % RECORDS).checked_sub(1).and_then(Sequence::new);
            tokio::spawn(async move {
                let (mut reached, mut read) = (after, Vec::new());
                loop {
                    let page = store.read_after(&run_id("r1"), reached, 16).await.unwrap();
                    let done = page.is_done(reached);
                    reached = page.records.last().map(|record| record.sequence).or(reached);
                    read.extend(page.records);
                    if done {
                        return (after, read);
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            })
        })
        .collect();
    for number in 1..RECORDS {
        writer.append(&run_id("r1"), first(), vec![delta(number)]).await.unwrap();
    }
    writer.commit_final(&run_id("r1"), first(), fail(RECORDS)).await.unwrap();
    let whole = log(&writer, "r1").await;
    assert_eq!(whole.iter().filter(|record| record.event_type == EventType::RunError).count(), 1);
    for reader in attached {
        let (after, read) = bounded(reader).await.unwrap();
        let missed = after.map_or(0, |after| usize::try_from(after.value()).unwrap() + 1);
        assert!(read == whole[missed..], "attached after {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_orphan_is_closed_by_one_gateway() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let (leaving, left) = (gateway(&options), Arc::new([gateway(&options), gateway(&options)]));
    for number in 0..40 {
        opened(&leaving, open(&format!("r{number}"), &format!("c{number}"))).await;
    }
    tokio::task::block_in_place(|| drop(leaving));
    let list = |at: usize| {
        let left = Arc::clone(&left);
        tokio::spawn(async move { left[at].list_orphans().await.unwrap() })
    };
    let lists = [list(0), list(1)];
    let mut found = Vec::new();
    for list in lists {
        found.extend(bounded(list).await.unwrap().into_iter().map(|orphan| orphan.run_id.to_string()));
    }
    found.sort();
    let mut all: Vec<_> = (0..40).map(|number| format!("r{number}")).collect();
    all.sort();
    assert_eq!(found, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gateway_is_not_told_that_a_run_is_its_own_once_its_lease_is_over_and_another_has_taken_it() {
    let Some(server) = Server::shared() else { return };
    let proxy = Proxy::start(server).await;
    let options = hasty(server.empty());
    let (here, there) = (gateway(&proxy.options(&options)), gateway(&options));
    let id = run_id("r1");
    opened(&here, open("r1", "c")).await;
    here.holds(&id, first()).await.unwrap();
    assert!(matches!(refusal(there.holds(&id, Generation::new(9)).await), Refusal::Fenced { .. }));

    // Away, and another has taken the run.
    proxy.set(Mode::Freeze);
    bounded(orphans(&there)).await;
    proxy.set(Mode::Pass);
    let told = answered(async || here.holds(&id, first()).await).await;
    assert!(
        matches!(refusal(told), Refusal::Fenced { given, current } if given == first() && current > given)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gateways_that_keep_house_at_once_take_each_run_once_and_leave_nothing() {
    let Some(server) = Server::shared() else { return };
    let client = raw(server).await;
    let options = server.empty().schema("old");
    let (here, there) = (gateway(&options), gateway(&options));
    for at in 0..20 {
        let run = format!("r{at}");
        opened(&here, open(&run, &run)).await;
        here.append(&run_id(&run), first(), deltas(1..20)).await.unwrap();
        here.commit_final(&run_id(&run), first(), fail(20)).await.unwrap();
    }
    let later = Timestamp::from_unix(NOON + 1_000, 0);
    let (packed, too) =
        bounded(async { tokio::join!(here.archive(&later, 15), there.archive(&later, 15)) }).await;
    let packed = packed.unwrap().runs + too.unwrap().runs;
    assert!((15..=20).contains(&packed), "{packed}");
    let expire = |store: PostgresStore| async move {
        let later = Timestamp::from_unix(NOON + 1_000, 0);
        store.expire(&later, &later, 20).await.unwrap().runs
    };
    let (mine, theirs) = bounded(async { tokio::join!(expire(here.clone()), expire(there.clone())) }).await;
    assert_eq!(mine.len() + theirs.len(), 20, "each run once");
    // A packed run stands in its partition, too, until that goes.
    for table in ["log", "pack"] {
        let left = client.query_one(&format!("SELECT count(*) FROM old.{table}"), &[]).await.unwrap();
        assert_eq!(left.get::<_, i64>(0), 0, "{table}");
    }
    let gone = refusal(there.read_after(&run_id("r7"), None, 5).await);
    assert!(matches!(gone, Refusal::Expired { .. }), "{gone}");
    tokio::task::block_in_place(|| drop((here, there)));
}
