//! R11: what a run, a message or a call may sum up to. The size of one value or event is the contract's (`bounds`).

use causeway_contract::limits::Limits;

use crate::message::MessageKind;
use crate::violation::Violation;

/// The sums of a run so far, and the limits of every sum.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    events: u64,
    bytes: u64,
    text: usize,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, events: 0, bytes: 0, text: 0 }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// One more event of `encoded_len` bytes. Whoever must be able to close a run that exceeds its sums keeps room for
    /// that itself.
    pub(crate) fn check_event(&self, encoded_len: usize) -> Result<(), Violation> {
        if self.events >= self.limits.run_events {
            return Err(Violation::TooManyEvents { limit: self.limits.run_events });
        }
        if self.bytes.saturating_add(widen(encoded_len)) > self.limits.run_bytes {
            return Err(Violation::TooManyRunBytes { limit: self.limits.run_bytes });
        }
        Ok(())
    }

    pub(crate) fn apply_event(&mut self, encoded_len: usize) {
        self.events = self.events.saturating_add(1);
        self.bytes = self.bytes.saturating_add(widen(encoded_len));
    }

    /// `added` more bytes for a message that has `so_far`.
    pub(crate) fn check_text(
        &self,
        kind: MessageKind,
        id: &str,
        so_far: usize,
        added: usize,
    ) -> Result<(), Violation> {
        if so_far.saturating_add(added) > self.limits.message_text_bytes {
            let limit = self.limits.message_text_bytes;
            return Err(Violation::TooMuchMessageText { kind, id: id.to_owned(), limit });
        }
        if self.text.saturating_add(added) > self.limits.run_text_bytes {
            return Err(Violation::TooMuchRunText { limit: self.limits.run_text_bytes });
        }
        Ok(())
    }

    pub(crate) fn apply_text(&mut self, added: usize) {
        self.text = self.text.saturating_add(added);
    }

    /// One more message where `count` were started.
    pub(crate) fn check_messages(&self, count: usize) -> Result<(), Violation> {
        let limit = self.limits.messages;
        if count >= limit { Err(Violation::TooManyMessages { limit }) } else { Ok(()) }
    }

    /// One more call where `count` were started.
    pub(crate) fn check_calls(&self, count: usize) -> Result<(), Violation> {
        let limit = self.limits.tool_calls;
        if count >= limit { Err(Violation::TooManyCalls { limit }) } else { Ok(()) }
    }

    /// One more open namespace where `count` are open.
    pub(crate) fn check_namespaces(&self, count: usize) -> Result<(), Violation> {
        let limit = self.limits.open_namespaces;
        if count >= limit { Err(Violation::TooManyOpenNamespaces { limit }) } else { Ok(()) }
    }

    /// `added` more bytes of streamed arguments for a call that has `so_far`.
    pub(crate) fn check_arguments(&self, id: &str, so_far: usize, added: usize) -> Result<(), Violation> {
        let limit = self.limits.arguments_bytes;
        if so_far.saturating_add(added) > limit {
            return Err(Violation::TooManyArgumentBytes { id: id.to_owned(), limit });
        }
        Ok(())
    }
}

fn widen(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
