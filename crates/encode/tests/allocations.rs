//! A delta costs no allocation: not when it is read, not in the validator, not in an encoder.
//!
//! In a process of its own, since it counts what the whole process allocates.

#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::alloc::System;

use causeway_contract::decode::decode_line;
use causeway_contract::limits::Limits;
use causeway_encode::{Protocol, Seed};
use causeway_lifecycle::{Boundary, Thread, Validator};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn line(sequence: usize, kind: &str, data: &str) -> String {
    // Milliseconds pass, so the printed timestamp changes with every event.
    let time = format!("2026-08-17T00:00:{:02}.{:03}Z", sequence / 1000, sequence % 1000);
    let ids = r#""run_id":"run-1","conversation_id":"conv-1""#;
    format!(
        r#"{{"version":1,"type":"{kind}",{ids},"sequence":{sequence},"timestamp":"{time}","namespace":[],"data":{data}}}"#
    )
}

#[test]
fn a_delta_costs_no_allocation_from_its_line_to_its_frame() {
    let mut lines = vec![
        line(0, "run.started", r#"{"harness_id":"h","adapter_version":"1"}"#),
        line(1, "text.started", r#"{"message_id":"m","role":"assistant"}"#),
    ];
    let texts = ["plain words ", "größe 日本語 😀", "a / b", "\u{7f}\u{85}"];
    lines.extend((2..5000).map(|at| {
        line(at, "text.delta", &format!(r#"{{"message_id":"m","delta":"{}"}}"#, texts[at % texts.len()]))
    }));
    let limits = Limits::DEFAULT;
    let mut validator = Validator::new(Boundary::Commit, Thread::Durable, limits.clone()).offline();
    let mut encoders: Vec<_> = Protocol::ALL.iter().map(|protocol| protocol.encoder(&Seed::new())).collect();
    let mut out = Vec::with_capacity(1 << 12);
    let mut pass = |lines: &[String]| {
        let region = Region::new(ALLOCATOR);
        for line in lines {
            let event = decode_line(line.as_bytes(), &limits).unwrap();
            validator.accept(&event, line.len()).unwrap();
            out.clear();
            encoders.iter_mut().for_each(|encoder| encoder.encode(&event, &mut out));
        }
        let change = region.change();
        change.allocations + change.reallocations
    };
    assert!(pass(&lines[..10]) > 0, "the start of a run is remembered");
    assert_eq!(pass(&lines[10..]), 0);
}
