#![no_main]

#[path = "../bodies/bedrock.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::bedrock(data));
