//! The HTTP gateway: routes, established and new, over the engine; one SSE frame writer for all streams.
//!
//! Refuses: deciding anything about a run (that is `causeway-engine`), and showing anything that is not committed.

pub mod app;
pub mod auth;
mod body;
pub mod config;
pub mod failpoint;
pub mod gateway;
mod guard;
pub mod listen;
pub mod metrics;
pub mod openapi;
mod path;
mod problem;
pub mod refusal;
pub mod reload;
mod routes;
mod scope;
#[cfg(test)]
mod sources;
mod stream;
pub mod view;
pub mod wire;
