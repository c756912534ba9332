//! What the coordinator wants done. The driver performs effects in their order and feeds the answers back.

use causeway_contract::event::{CancelReason, Event, EventData, EventType, Sequence};
use causeway_contract::id::InterruptId;

use super::input::{Head, Rejection};
use crate::failure::UNCERTAIN;

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Create the run with its first event and its request, in one transaction.
    Open(Box<Event<'static>>),
    /// Append one event; the driver may gather several into one append.
    Append(Box<Event<'static>>),
    /// End the run: everything in ONE transaction (R13, R14, R15).
    Commit(Box<Commit>),
    /// Fence the run, so that a commit on its way can no longer land, then read what the store has.
    ReadOutcome,
    /// Everything up to here is durable: clients may see it.
    Deliver {
        /// The last event they may see.
        through: Sequence,
    },
    /// Ask the harness to leave the turn.
    CancelHarness(CancelReason),
    /// Make sure that nothing of the turn runs on.
    StopHarness,
    /// An event was refused: log run, number, type and rule, and count it.
    Reject(Rejection),
    /// Something came after the end: log its name and count it.
    Late(Late),
    /// The run is over for its readers.
    Close(Closing),
}

/// What came too late to matter.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Late {
    /// An event of the adapter.
    Event(EventType),
    /// A state of the harness.
    State,
    /// An event that the yield check refused.
    Rejected,
    /// An answer of the store that nobody waits for any more.
    Answer,
}

/// How a run's stream ends for its readers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Closing {
    /// With the terminal, which is delivered.
    Terminal,
    /// Without one: what became of the run is not known here. Readers come back by cursor and read the truth later.
    WithoutTerminal,
}

/// The one transaction that ends a run.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Events not in the log yet; the terminal is the last of them.
    pub events: Vec<Event<'static>>,
    /// What the run's row says afterwards.
    pub status: Status,
    /// The head that is compared and set, where it moves.
    pub head: Option<NewHead>,
    /// The interrupt that becomes pending (R14).
    pub interrupt: Option<InterruptId<'static>>,
}

impl Commit {
    /// The terminal, if this is well-formed.
    pub fn terminal(&self) -> Option<&Event<'static>> {
        self.events.last()
    }
}

/// A compare-and-set of a conversation's head.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewHead {
    /// The revision that the run started from.
    pub from: u64,
    /// The revision after it.
    pub to: u64,
    /// The new state.
    pub head: Head,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Status {
    /// `run.finished`.
    Finished,
    /// `run.interrupted`.
    Interrupted,
    /// `run.cancelled`.
    Cancelled,
    /// `run.error`.
    Error,
    /// `run.error` with `thread_durability_uncertain`.
    Uncertain,
}

impl Status {
    /// The status that belongs to a terminal; `None` for any other event.
    pub fn of(data: &EventData<'_>) -> Option<Self> {
        match data {
            EventData::RunFinished(_) => Some(Self::Finished),
            EventData::RunInterrupted(_) => Some(Self::Interrupted),
            EventData::RunCancelled(_) => Some(Self::Cancelled),
            EventData::RunError(error) if error.code.as_str() == UNCERTAIN => Some(Self::Uncertain),
            EventData::RunError(_) => Some(Self::Error),
            EventData::RunStarted(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolStarted(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::ToolFinished(_)
            | EventData::ToolError(_)
            | EventData::InterruptRequested(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => None,
        }
    }
}
