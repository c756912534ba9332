//! `cargo +nightly fuzz run request`: any bytes as the body and the query of a request.

#![no_main]

#[path = "../bodies/request.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::request(data));
