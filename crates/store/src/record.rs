//! One stored event: the payload, and of the envelope only what differs from event to event.
//!
//! Refuses to keep the envelope: run and conversation are rebuilt from the run's own row, so a replay gives the
//! same canonical bytes without storing them.

use std::fmt;
use std::sync::Arc;

use causeway_contract::event::{EventType, Sequence};
use causeway_contract::text::Str;
use causeway_contract::timestamp::Timestamp;

/// One stored event. Cloning copies no text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Its number in the run.
    pub sequence: Sequence,
    /// When.
    pub timestamp: Timestamp<'static>,
    /// Its type.
    pub event_type: EventType,
    /// Its namespace as compact JSON; `[]` for the root.
    pub namespace: Str<'static>,
    /// Its payload as compact JSON in the contract's key order.
    pub data: Payload,
}

impl Record {
    /// Bytes that the record holds in memory and, about, in the log.
    pub fn stored_len(&self) -> usize {
        self.data.as_str().len() + self.namespace.len() + 48
    }
}

/// JSON text that came from an encoder of ours. `Debug` shows its length only, so that no log can show content.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shared.
    pub fn into_shared(self) -> Arc<str> {
        self.0
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<Arc<str>> for Payload {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}
