//! `cargo +nightly fuzz run token`: any bytes as the headers that say who calls.

#![no_main]

#[path = "../bodies/token.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::token(data));
