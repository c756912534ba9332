//! The adapters for the Claude Agent SDK and the Anthropic Messages API against their recordings, damaged ones, and
//! secrets planted in errors.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

mod claude;
mod damaged;
mod expected;
mod leaks;
mod messages;
mod support;
