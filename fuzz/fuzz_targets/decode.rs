//! `cargo +nightly fuzz run decode`: any bytes as a line of canonical JSONL.

#![no_main]

#[path = "../bodies/decode.rs"]
#[allow(dead_code)] // the mutator serves the tests on stable
mod body;

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    body::decode(line);
    if let Ok(text) = std::str::from_utf8(line) {
        body::grammar(text);
    }
});
