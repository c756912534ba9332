//! The stages of `causeway bench codec` under criterion: `cargo bench -p causeway-encode`.
//!
//! The code that is measured is the command's own; the workload is the built-in one, so nothing else is needed.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench fails loudly")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a bench is not the core")]

#[path = "../../cli/src/commands/bench/baseline.rs"]
mod baseline;
#[path = "../../cli/src/commands/bench/stages.rs"]
mod stages;
#[allow(dead_code)]
#[path = "../../cli/src/commands/bench/workload.rs"]
mod workload;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use crate::stages::Stage;

fn codec(criterion: &mut Criterion) {
    let text = workload::generated(20_000);
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.sample_size(30).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for stage in Stage::ALL {
        group.bench_function(stage.name(), |bencher| bencher.iter(|| stage.pass(&lines).unwrap()));
    }
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
