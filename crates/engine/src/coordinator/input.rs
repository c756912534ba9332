//! What the coordinator is told: one input at a time, with the time at which it happened.

use causeway_adapter::ItemError;
use causeway_contract::error::Check;
use causeway_contract::event::{CancelReason, EventDraft, EventType, Sequence};
use causeway_contract::id::Reference;
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::Verdict;

use super::recovery::Crash;
use crate::failure::Failure;

/// Something that happened, and when. The coordinator has no clock of its own.
#[derive(Clone, Debug)]
pub struct Input {
    /// When; becomes the timestamp of the events that follow from it.
    pub at: Timestamp<'static>,
    /// What.
    pub signal: Signal,
}

impl Input {
    /// `signal` at `at`.
    pub fn new(at: Timestamp<'static>, signal: Signal) -> Self {
        Self { at, signal }
    }
}

/// Everything that can happen to a run.
#[derive(Clone, Debug)]
pub enum Signal {
    /// The run and its first event are durable.
    Opened {
        /// The revision of the conversation's head that the run starts from; 0 without one.
        base_revision: u64,
    },
    /// The adapter yielded an event.
    Draft(EventDraft<'static>),
    /// The adapter reported the harness's state after this turn; due before a durable terminal.
    State(Head),
    /// The yield check refused what the adapter yielded.
    Rejected(Rejection),
    /// The native stream is over, with a closing record or without.
    Closed,
    /// The native stream cannot go on, for a reason the driver recognised.
    Failed(Failure),
    /// The run was found without a terminal, and nothing of it runs any more.
    Crashed(Crash),
    /// The run is to end early: a client, its disconnect, the shutdown, the deadline.
    Cancel(CancelReason),
    /// Everything up to here is in the durable log.
    Appended {
        /// The number of the last durable event.
        through: Sequence,
    },
    /// The log could not be written, for good: nothing more can be promised about this run here.
    AppendFailed,
    /// The commit is durable. An interrupt needs the receipt (R14).
    Committed(Option<CommitReceipt>),
    /// The commit was refused and can no longer land.
    CommitRefused,
    /// Nobody knows whether the commit landed.
    CommitUnknown,
    /// The answer to [`Effect::ReadOutcome`](super::Effect::ReadOutcome).
    Outcome(Outcome),
}

/// What reading the store told about a commit whose outcome was unknown.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// It is in the store.
    Committed,
    /// It is not, and after the fence it can no longer land.
    NotCommitted,
    /// The store cannot be read.
    Unreachable,
}

/// A state of the harness that can become the head of its conversation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// What the harness calls the state.
    pub reference: Reference<'static>,
    /// What the adapter needs to go on from it, as JSON text; never shown.
    pub private: Option<String>,
}

/// An event that broke a rule: enough to find it, nothing of its content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    /// The number it would have had.
    pub sequence: Option<Sequence>,
    /// Its type, where it had one.
    pub event_type: Option<EventType>,
    /// The rule or the check.
    pub verdict: Verdict,
    /// What was wrong, with ids but without payload.
    pub message: String,
}

impl Rejection {
    /// The rejection inside an adapter's error, if it is one of the yield check.
    pub fn of(error: &ItemError) -> Option<Self> {
        let ItemError::Refused { rule, message, event_type } = error else {
            return None;
        };
        // A verdict always reads back from its own spelling; `envelope` stands in for one of a newer adapter.
        let verdict = Verdict::parse(rule).unwrap_or(Verdict::Check(Check::Envelope));
        Some(Self { sequence: None, event_type: *event_type, verdict, message: message.clone() })
    }
}
