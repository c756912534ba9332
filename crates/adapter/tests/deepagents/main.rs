//! The deepagents adapter against the goldens, the recordings, the cases, and damaged recordings.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

mod answers;
#[path = "../damage/mod.rs"]
mod damage;
mod features;
mod golden;
mod mutated;
mod native;
mod recorded;
mod stacks;
mod support;
