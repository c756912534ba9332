//! What an event costs on PostgreSQL: one and three gateways, beside the same rows written in raw batches to the same server.
//!
//! `cargo bench -p causeway-store --bench postgres` starts a server of its own, in memory where that is to be had, so that
//! the disk does not decide; the ratio is what counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use causeway_store::conformance::fixture::{deltas, first, open, opened, run_id};
use causeway_store::conformance::server::Server;
use causeway_store::{PostgresStore, Store};
use tokio_postgres::NoTls;

/// Runs that write at once, events in an append, and how long each way is measured.
const RUNS: usize = 192;
const BATCH: u64 = 8;
const SPAN: Duration = Duration::from_secs(8);

/// Events a second with this many gateways.
async fn gateways(server: &Server, count: usize) -> f64 {
    let options = server.empty();
    let stores: Vec<_> = (0..count)
        .map(|_| tokio::task::block_in_place(|| PostgresStore::open(options.clone()).unwrap()))
        .collect();
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

/// Events a second of one connection that writes the same rows, as many in a transaction as waited there, and nothing else.
async fn raw(server: &Server) -> f64 {
    let mut config = tokio_postgres::Config::new();
    config.host_path(server.home()).port(server.port()).user("gateway").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE SCHEMA raw; SET search_path TO raw;
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

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(server) = Server::shared() else { return };
        let raw = raw(server).await;
        println!("raw batches      {raw:>9.0} events/s");
        for count in [1, 3] {
            let rate = gateways(server, count).await;
            println!("{count} gateway(s)     {rate:>9.0} events/s, {:.2} of raw", rate / raw);
        }
    });
}
