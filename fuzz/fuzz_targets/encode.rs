//! `cargo +nightly fuzz run encode`: any lines, the first perhaps a seed, through every encoder.

#![no_main]

#[allow(dead_code)]
#[path = "../bodies/encode.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::encode(input));
