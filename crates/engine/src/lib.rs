//! Runs: decided by a pure coordinator, driven by tokio tasks, made durable by a store, read by cursors.
//!
//! Refuses: public frames (that is `causeway-encode`), HTTP (that is `causeway-server`), and any event that the store
//! has not acknowledged.

mod agents;
pub mod answer;
pub mod audit;
mod claude;
mod clock;
pub mod config;
pub mod coordinator;
mod drive;
pub mod engine;
mod erasing;
pub mod error;
mod expiry;
pub mod failpoint;
pub mod failure;
mod feed;
pub mod gate;
pub mod harness;
mod housekeeping;
pub mod http;
pub mod inspect;
pub mod metrics;
pub mod origin;
pub mod process;
pub mod quota;
mod recording;
mod repair;
mod resume;
pub mod schema;
mod start;
mod subscription;
pub mod trace;
mod translate;
pub mod uncertain;

pub use agents::{Prepared, Reloaded};
pub use answer::{AnswerRun, Misfit};
pub use config::{AgentConfig, Settings};
pub use coordinator::Coordinator;
pub use engine::Engine;
pub use error::{Error, OpenError};
pub use subscription::Subscription;
