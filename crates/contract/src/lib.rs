//! Canonical Lifecycle Events v1: the types, the limits, strict decoding and the canonical JSON form.
//!
//! Refuses: IO, clocks, randomness, and any rule that needs more than one event (those are `causeway-lifecycle`).

pub mod canonical;
mod check;
pub mod decode;
pub mod error;
pub mod event;
pub mod id;
pub mod json;
pub mod limits;
pub mod namespace;
mod owned;
pub mod receipt;
pub mod schema;
pub mod text;
pub mod timestamp;

pub use error::{Check, DecodeError};
pub use event::{Event, EventData, EventDraft, EventType, Sequence};
pub use limits::Limits;

/// The examples of README.md, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
