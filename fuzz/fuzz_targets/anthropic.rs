#![no_main]

#[path = "../bodies/anthropic.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::anthropic(data));
