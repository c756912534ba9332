//! The gateway end to end: the binary, its HTTP routes byte by byte, its command line, its data directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../../../tests/support/exposition.rs"]
mod exposition;
#[path = "../../../../tests/support/gateway.rs"]
mod gateway;
#[path = "../../../../tests/support/http.rs"]
mod http;
#[path = "../../../../tests/support/issuer.rs"]
mod issuer;
#[path = "../../../../tests/support/runs.rs"]
mod runs;

mod answers;
mod audit;
mod backup;
mod bad_input;
mod canaries;
mod cases;
mod claude;
mod client_routes;
mod commands;
mod data_directory;
mod doctor;
mod drain;
mod endpoints;
mod identity;
mod inspect;
mod lifecycle;
mod live;
mod live_answers;
mod live_shared;
mod logging;
mod metrics;
mod planted;
mod pools;
mod quotas;
mod reload;
mod retention;
mod shared;
mod streams;
mod traces;
