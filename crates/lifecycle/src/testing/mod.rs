//! For tests of this and other crates (feature `testing`): streams from a short notation, legal streams and arbitrary
//! operations from bytes, and a slow checker that knows nothing of the validator.
//!
//! Refuses to be used in production: it panics on notation that it does not know.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that is written wrongly should stop"
)]

pub mod choices;
pub mod legal;
pub mod operations;
pub mod reference;
pub mod script;

use causeway_contract::event::{Event, EventData, Sequence};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::namespace::Namespace;
use causeway_contract::timestamp::Timestamp;

/// An event of run `run-1` in conversation `conv-1`, `sequence` seconds after 2026-08-17T00:00:00Z.
pub fn event(sequence: u64, namespace: Namespace<'static>, data: EventData<'static>) -> Event<'static> {
    Event {
        run_id: RunId::new("run-1").unwrap(),
        conversation_id: ConversationId::new("conv-1").unwrap(),
        sequence: Sequence::new(sequence).unwrap(),
        timestamp: Timestamp::from_unix(1_786_924_800 + i64::try_from(sequence % 1_000_000).unwrap(), 0),
        namespace,
        data,
    }
}
