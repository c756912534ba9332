//! `cargo +nightly fuzz run validator`: any operations, and any lines, against a second opinion.

#![no_main]

#[path = "../bodies/validator.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::validator(input));
