#![no_main]

#[path = "../bodies/adapter.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::adapter(data));
