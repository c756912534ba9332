//! What an event costs on PostgreSQL: one and three gateways beside the same rows written in raw batches to the same server;
//! how far a follower at another gateway is behind, with hints and without; and what an event takes of the disk.
//!
//! `cargo bench -p causeway-store --bench postgres` starts a server of its own, in memory where that is to be had, so that
//! the disk does not decide; ratios are what counts. Raw batches and gateways take turns, three times each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(missing_docs)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use causeway_contract::event::{EventType, Sequence};
use causeway_contract::timestamp::Timestamp;
use causeway_store::conformance::fixture::{fail, first, open, opened, record_at, run_id};
use causeway_store::conformance::server::Server;
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, Record, Store};
use tokio_postgres::{Client, NoTls};

/// Runs that write at once, events in an append, and how long each way is measured.
const RUNS: usize = 192;
const BATCH: u64 = 8;
const SPAN: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;
/// Events whose way to a follower is timed.
const TIMED: u64 = 300;

/// A store of a schema.
fn gateway(options: &Options) -> PostgresStore {
    tokio::task::block_in_place(|| PostgresStore::open(options.clone()).unwrap())
}

/// Events of the size that most have: a few words of a message, which is prose, so that packing it is no child's play.
fn deltas(numbers: std::ops::Range<u64>) -> Vec<Record> {
    const PROSE: &str =
        concat!(include_str!("../../../README.md"), include_str!("../../../docs/shared-mode.md"));
    static WORDS: OnceLock<Vec<&str>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        PROSE.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect()
    });
    let delta = |number: u64| {
        let at = usize::try_from(number * 7919).unwrap();
        let some: Vec<&str> = (at..at + 6).map(|at| words[at % words.len()]).collect();
        let text = some.join(" ");
        let data = format!(r#"{{"message_id":"msg-01990000-0000-7000-8000-000000000000","delta":"{text}"}}"#);
        record_at(i64::try_from(number / 20).unwrap(), number, EventType::TextDelta, &data)
    };
    numbers.map(delta).collect()
}

/// Events a second with this many gateways.
async fn gateways(server: &Server, count: usize) -> f64 {
    let options = server.empty();
    let stores: Vec<_> = (0..count).map(|_| gateway(&options)).collect();
    for run in 0..RUNS {
        opened(&stores[run % count], open(&format!("r{run}"), &format!("c{run}"))).await;
    }
    let started = Instant::now();
    let writers: Vec<_> = (0..RUNS)
        .map(|run| {
            let store = stores[run % count].clone();
            tokio::spawn(async move {
                let (id, mut next) = (run_id(&format!("r{run}")), 1);
                while started.elapsed() < SPAN {
                    store.append(&id, first(), deltas(next..next + BATCH)).await.unwrap();
                    next += BATCH;
                }
                next - 1
            })
        })
        .collect();
    let mut events = 0;
    for writer in writers {
        events += writer.await.unwrap();
    }
    let rate = f64::from(u32::try_from(events).unwrap()) / started.elapsed().as_secs_f64();
    tokio::task::block_in_place(|| drop(stores));
    rate
}

async fn raw_client(server: &Server) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host_path(server.home()).port(server.port()).user("gateway").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Events a second of one connection that writes the same rows, as many in a transaction as waited there, and nothing else.
async fn raw(server: &Server) -> f64 {
    let client = raw_client(server).await;
    client
        .batch_execute(
            "DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw; SET search_path TO raw;
             CREATE TABLE log (run_key bigint, sequence bigint, type bigint, timestamp text, data text,
                 PRIMARY KEY (run_key, sequence))",
        )
        .await
        .unwrap();
    let insert = client
        .prepare(
            "INSERT INTO log SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])",
        )
        .await
        .unwrap();
    let (started, mut events, mut next) = (Instant::now(), 0_u32, 1_u64);
    while started.elapsed() < SPAN {
        let records = deltas(next..next + BATCH);
        let rows = || {
            (0..i64::try_from(RUNS).unwrap()).flat_map(|run| records.iter().map(move |record| (run, record)))
        };
        let runs: Vec<i64> = rows().map(|(run, _)| run).collect();
        let numbers: Vec<i64> =
            rows().map(|(_, record)| i64::try_from(record.sequence.value()).unwrap()).collect();
        let types = vec![6_i64; runs.len()];
        let times: Vec<String> = rows().map(|(_, record)| record.timestamp.to_string()).collect();
        let data: Vec<&str> = rows().map(|(_, record)| record.data.as_str()).collect();
        client.batch_execute("BEGIN").await.unwrap();
        client.execute(&insert, &[&runs, &numbers, &types, &times, &data]).await.unwrap();
        client.batch_execute("COMMIT").await.unwrap();
        events += u32::try_from(runs.len()).unwrap();
        next += BATCH;
    }
    f64::from(events) / started.elapsed().as_secs_f64()
}

/// Milliseconds from the answer that an event is durable to its arrival at a follower of another gateway: the middle one,
/// and that of which one in a hundred is longer. `busy`: 64 other runs write 10,000 events a second meanwhile.
async fn latency(server: &Server, notify: bool, busy: bool) -> (f64, f64) {
    let options = server.empty().notify(notify);
    let (here, there) = (gateway(&options), gateway(&options));
    opened(&here, open("timed", "timed")).await;
    let others: Vec<_> = (0..if busy { 64 } else { 0 })
        .map(|run| {
            let store = here.clone();
            tokio::spawn(async move {
                let id = format!("r{run}");
                opened(&store, open(&id, &id)).await;
                let mut every = tokio::time::interval(Duration::from_millis(51));
                for next in (1..).step_by(8) {
                    every.tick().await;
                    store.append(&run_id(&id), first(), deltas(next..next + 8)).await.unwrap();
                }
            })
        })
        .collect();
    let store = there.clone();
    let follower = tokio::spawn(async move {
        let id = run_id("timed");
        let mut follow = store.follow(&id).unwrap();
        let (mut reached, mut arrived) = (None::<Sequence>, Vec::new());
        loop {
            follow.moved(reached).await;
            let page = store.read_after(&id, reached, 64).await.unwrap();
            arrived.extend(page.records.iter().map(|_| Instant::now()));
            let done = page.is_done(reached);
            reached = page.records.last().map(|record| record.sequence).or(reached);
            if done {
                return arrived;
            }
        }
    });
    let mut answered = vec![Instant::now()];
    for number in 1..=TIMED {
        // Out of step with everything else.
        tokio::time::sleep(Duration::from_millis(12 + number * 7919 % 23)).await;
        here.append(&run_id("timed"), first(), deltas(number..number + 1)).await.unwrap();
        answered.push(Instant::now());
    }
    here.commit_final(&run_id("timed"), first(), fail(TIMED + 1)).await.unwrap();
    let arrived = follower.await.unwrap();
    others.iter().for_each(tokio::task::JoinHandle::abort);
    let mut took: Vec<_> = answered
        .iter()
        .zip(arrived)
        .skip(1)
        .map(|(answered, arrived)| arrived.saturating_duration_since(*answered).as_secs_f64() * 1000.0)
        .collect();
    took.sort_by(f64::total_cmp);
    let at = |hundredth: usize| took[(took.len() - 1) * hundredth / 100];
    tokio::task::block_in_place(|| drop((here, there)));
    (at(50), at(99))
}

/// What the server counts: bytes of its write-ahead log, and commits.
async fn counters(client: &Client) -> (f64, f64) {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8,
                   (SELECT sum(xact_commit)::float8 FROM pg_stat_database)";
    let row = client.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// What an event takes: of the write-ahead log, of tables and indexes, and packed. 64 runs of 2,000 events, written at once.
async fn bytes(server: &Server) {
    let options = server.empty().schema("bytes");
    let store = gateway(&options);
    let client = raw_client(server).await;
    client.batch_execute("CHECKPOINT").await.unwrap();
    let (wal, _) = counters(&client).await;
    let (runs, events) = (64, 2_000);
    let writers: Vec<_> = (0..runs)
        .map(|run| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = format!("r{run}");
                opened(&store, open(&id, &id)).await;
                for next in (1..events).step_by(8) {
                    store.append(&run_id(&id), first(), deltas(next..next + 8)).await.unwrap();
                }
                store.commit_final(&run_id(&id), first(), fail(events + 1)).await.unwrap();
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let all = f64::from(u32::try_from(runs * (events + 2)).unwrap());
    let (after, _) = counters(&client).await;
    println!("write-ahead log  {:>9.0} bytes an event, from a checkpoint on", (after - wal) / all);
    let size = "SELECT sum(pg_total_relation_size(c.oid))::float8 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                WHERE nspname = 'bytes' AND relkind = 'r' AND relname LIKE $1";
    let of = async |tables: &str| client.query_one(size, &[&tables]).await.unwrap().get::<_, f64>(0);
    let stored = deltas(1..2)[0].stored_len();
    println!(
        "log and index    {:>9.0} bytes an event, of which {stored} are its own",
        of("log\\_%").await / all
    );
    let other = of("%").await - of("log\\_%").await;
    println!("everything else  {:>9.0} bytes a run", other / f64::from(u32::try_from(runs).unwrap()));
    let done = store.archive(&Timestamp::from_unix(4_000_000_000, 0), 1000).await.unwrap();
    assert_eq!(done.runs, runs);
    println!("packed           {:>9.0} bytes an event", of("pack").await / all);
    tokio::task::block_in_place(|| drop(store));
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(server) = Server::shared() else { return };
        let client = raw_client(server).await;
        for round in 1..=ROUNDS {
            let raw = raw(server).await;
            println!("round {round}: raw batches  {raw:>9.0} events/s");
            for count in [1, 3] {
                let (_, before) = counters(&client).await;
                let rate = gateways(server, count).await;
                let (_, after) = counters(&client).await;
                println!(
                    "round {round}: {count} gateway(s) {rate:>9.0} events/s, {:.2} of raw, {:.0} commits/s",
                    rate / raw,
                    (after - before) / SPAN.as_secs_f64()
                );
            }
        }
        for busy in [false, true] {
            for notify in [true, false] {
                let (middle, worst) = latency(server, notify, busy).await;
                println!(
                    "follower {} {}: p50 {middle:.1} ms, p99 {worst:.1} ms",
                    if notify { "with hints   " } else { "without hints" },
                    if busy { "beside 10,000 events/s" } else { "alone" },
                );
            }
        }
        bytes(server).await;
    });
}
