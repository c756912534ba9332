//! The gate, whole: what runs a tool, what does not, and what is told of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may fail the test"
)]

#[path = "../http_driver/endpoint.rs"]
#[allow(dead_code, reason = "shared with the tests of the http driver")]
mod endpoint;
#[path = "../support/harness.rs"]
mod harness;
mod rig;
#[path = "../support/runs.rs"]
mod runs;

mod approvals;
mod bad_input;
mod endpoints;
mod programs;
mod property;
mod recorded;
mod stale;
