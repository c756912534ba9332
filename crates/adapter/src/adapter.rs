//! The interface of every adapter: native items in, outputs out, one adapter a run.
//!
//! An adapter refuses what it cannot read with a typed [`ItemError`]; it never repairs a stream by inventing ends
//! of text or tools, and never claims that a state is durable.

use causeway_contract::event::{EventDraft, EventType};
use causeway_contract::id::{Reference, ToolCallId};

/// Translates the native stream of one run.
///
/// `run.started` is the first output and waits in the queue from the start. After every [`handle`](Self::handle)
/// and after [`close`](Self::close) the caller polls until `None`.
pub trait Adapter: Send {
    /// Takes one native item: a line of JSON without its line break, or one frame of a binary protocol.
    ///
    /// # Errors
    /// What is wrong with the item. Nothing of a refused item is translated. The caller ends the run: what a
    /// harness meant after a fault cannot be known.
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError>;

    /// The next output, if there is one.
    fn poll(&mut self) -> Option<Output>;

    /// Says what the gate knows of a call that the worker asked it to run. A translator counts it as its worker's own; the
    /// check behind it yields it, and keeps out what the worker tells of the same call.
    ///
    /// # Errors
    /// What is told cannot stand in the run.
    fn tell(&mut self, told: Told) -> Result<(), ItemError> {
        let _ = told;
        Ok(())
    }

    /// Says that no item will follow. An adapter then yields a terminal only for an end or a failure that it
    /// recognises; everything else is R12, which the coordinator converts. Harmless after a terminal.
    fn close(&mut self, how: Close);
}

impl<A: Adapter + ?Sized> Adapter for Box<A> {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        (**self).handle(item)
    }

    fn poll(&mut self) -> Option<Output> {
        (**self).poll()
    }

    fn tell(&mut self, told: Told) -> Result<(), ItemError> {
        (**self).tell(told)
    }

    fn close(&mut self, how: Close) {
        (**self).close(how);
    }
}

/// What the gate tells an adapter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Told {
    /// The gate has this call now: it alone says how it ends well.
    Claim(ToolCallId<'static>),
    /// An event of the gate's own.
    Event(EventDraft<'static>),
}

/// What an adapter gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Output {
    /// An event, in order.
    Draft(EventDraft<'static>),
    /// The harness's state at the end of the run. Comes before the terminal (or `interrupt.requested`) it belongs
    /// to; a durable `run.finished` or `run.interrupted` without one is treated as a closed stream (R12).
    State(State),
    /// The whole text of a result that the following `tool.finished` shows in part, to be kept under its `result_ref`.
    Result(WholeResult),
}

/// The harness's own state: what a later run starts from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct State {
    /// Opaque name of the state.
    pub head: Reference<'static>,
    /// What the adapter must remember to answer an interrupt, as JSON; `{}` when there is none. It is stored with
    /// the interrupt, never shown, and given back to [`resume_value`](crate::registry::resume_value) and to the
    /// adapter of the resumed run.
    pub private: String,
}

/// A tool result before it was cut.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WholeResult {
    /// The `result_ref` of the event that follows.
    pub result_ref: Reference<'static>,
    /// The call.
    pub tool_call_id: ToolCallId<'static>,
    /// The text, NUL and lone surrogates replaced.
    pub text: String,
}

/// How the native stream ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Close {
    /// Regularly: end of file, end of the HTTP body.
    End,
    /// The transport failed, or the process died.
    Broken,
}

/// Why a native item was refused. Texts name the place and never repeat what stood there.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ItemError {
    /// The item is longer than the protocol allows.
    #[error("the item is {len} bytes long, the limit is {max}")]
    Oversized {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The item is not one JSON value in UTF-8.
    #[error("the item is not JSON: {what} at byte {offset}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where.
        offset: usize,
    },
    /// The item is JSON, but not of this harness.
    #[error("the item does not have the shape of this harness: {what}")]
    Shape {
        /// What was expected.
        what: &'static str,
    },
    /// The item came at a moment at which it cannot come.
    #[error("`{kind}` out of order: {what}")]
    OutOfOrder {
        /// The kind of item.
        kind: &'static str,
        /// Why it cannot come here.
        what: &'static str,
    },
    /// A value of the item cannot stand in a canonical event, and no projection is allowed for it.
    #[error("{what} of the item cannot stand in an event: {why}")]
    Value {
        /// Which value.
        what: &'static str,
        /// The rule it breaks.
        why: String,
    },
    /// The yield validator refused an event of the adapter ([`Checked`](crate::checked::Checked)).
    #[error("an event of the adapter breaks {rule}: {message}")]
    Refused {
        /// `R01`…`R15` or one of the four checks.
        rule: String,
        /// What the validator says; ids, no content.
        message: String,
        /// The type of the event, where it had one.
        event_type: Option<EventType>,
    },
}
