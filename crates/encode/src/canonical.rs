//! Canonical events as SSE: `event: TYPE`, `data:` the event as compact canonical JSON.
//!
//! Nothing is hidden and nothing added: every event is one frame, so a reader of the `data:` lines has the log.

use causeway_contract::event::Event;

use crate::encoder::Encoder;
use crate::json::put;

/// Encodes one run; has no state, and a seed changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct CanonicalSse;

impl CanonicalSse {
    /// For any run.
    pub fn new() -> Self {
        Self
    }

    /// For a resumed run; the same as [`new`](Self::new), since the log is shown as it is.
    pub fn resumed(_: &crate::seed::Seed) -> Self {
        Self
    }
}

impl Encoder for CanonicalSse {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        put(out, "event: ");
        put(out, event.data.event_type().as_str());
        put(out, "\ndata: ");
        event.write_json(out);
        put(out, "\n\n");
    }
}
