//! `cargo +nightly fuzz run worker`: any bytes as lines of a worker.

#![no_main]

#[path = "../bodies/worker.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::worker(data));
