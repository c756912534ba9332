//! The adapters for Bedrock Converse and AgentCore against their recordings, as lines and as raw bytes, damaged ones, and
//! secrets planted in errors.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

mod cases;
#[path = "../damage/mod.rs"]
mod damage;
mod damaged;
mod expected;
mod leaks;
mod support;
