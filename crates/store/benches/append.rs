//! What an event costs on its way to the disk: batch sizes, and writers that share a transaction.
//!
//! `cargo bench -p causeway-store` writes to the temporary directory; `CAUSEWAY_BENCH_DIR` names another disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_store::conformance::fixture::{deltas, fail, first, open, opened, run_id};
use causeway_store::sqlite::{Options, SqliteStore};
use causeway_store::{MemoryStore, Store};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn place() -> TempDir {
    std::env::var_os("CAUSEWAY_BENCH_DIR")
        .map_or_else(tempfile::tempdir, tempfile::tempdir_in)
        .expect("a directory for the bench")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

/// `writers` runs at once, each appending `rounds` batches and waiting for every one.
async fn write(store: Arc<dyn Store>, tag: u64, writers: u64, rounds: u64, batch: u64) -> Duration {
    for writer in 0..writers {
        opened(&*store, open(&format!("r{tag}-{writer}"), &format!("c{tag}-{writer}"))).await;
    }
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let id = run_id(&format!("r{tag}-{writer}"));
                for round in 0..rounds {
                    let from = 1 + round * batch;
                    store.append(&id, first(), deltas(from..from + batch)).await.expect("an append");
                }
                id
            })
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(task.await.expect("a writer"));
    }
    let took = started.elapsed();
    for id in ids {
        store.commit_final(&id, first(), fail(1 + rounds * batch)).await.expect("an end");
    }
    took
}

fn appends(criterion: &mut Criterion) {
    let runtime = runtime();
    let dir = place();
    let stores: [(&str, Arc<dyn Store>); 2] = [
        ("memory", Arc::new(MemoryStore::new())),
        ("sqlite", Arc::new(SqliteStore::open(Options::new(dir.path()).low_disk_bytes(0)).expect("a store"))),
    ];
    let mut tag = 0;
    for (name, store) in stores {
        let mut group = criterion.benchmark_group(format!("append/{name}"));
        group.sample_size(10).measurement_time(Duration::from_secs(4)).warm_up_time(Duration::from_secs(1));
        for (writers, batch) in [(1, 1), (1, 16), (1, 128), (16, 1), (64, 1), (64, 8)] {
            group.throughput(Throughput::Elements(writers * batch));
            let id = BenchmarkId::new(format!("{writers} writers"), format!("{batch} events"));
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|rounds| {
                    tag += 1;
                    runtime.block_on(write(Arc::clone(&store), tag, writers, rounds, batch))
                });
            });
        }
    }
}

criterion_group!(benches, appends);
criterion_main!(benches);
