//! The decisions about one run: a pure machine from inputs to effects.
//!
//! Refuses to do anything itself: it reads no clock, opens nothing, awaits nothing and draws nothing. The driver
//! performs its effects in order and feeds the answers back, so a run is a list of inputs that can be played again.

mod effect;
mod ending;
mod input;
mod ledger;
mod recovery;
pub mod seed;
mod stream;

use std::sync::Arc;

use causeway_contract::event::{CancelReason, Event, EventType, RunStarted, Sequence};
use causeway_contract::id::{ConversationId, InterruptId, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::{Thread, ToolSchemas};

pub use effect::{Closing, Commit, Effect, Late, NewHead, Status};
pub use input::{Head, Input, Outcome, Rejection, Signal};
pub use recovery::Crash;

use crate::failure::Failure;
use ledger::{Ledger, Prepared};

/// What is known about a run before it starts.
#[derive(Clone, Debug)]
pub struct Run {
    /// The run.
    pub run_id: RunId<'static>,
    /// Its conversation.
    pub conversation_id: ConversationId<'static>,
    /// Whether its success needs a durable state (R13).
    pub thread: Thread,
    /// The `run.started` to use where the run fails before the adapter has yielded its own.
    pub started: RunStarted<'static>,
    /// The bounds of its events.
    pub limits: Limits,
}

/// Decides what becomes of one run.
///
/// ```text
///            run.started: Open
///   Fresh ────────────────────────────────────────▶ Streaming ◀─┐ Draft: Append
///     │                                              │  │  │  └──┘
///     │                          interrupt.requested │  │  │ Cancel
///     │                          ┌───────────────────┘  │  └──────────────────┐
///     │                          ▼           any failure│                     ▼
///     │                       Holding ────────────────┐ │                 Cancelling ◀─┐ Draft: Append
///     │ any failure              │ run.interrupted    │ │ terminal        │  │  │     └──┘
///     └──────────────────────┐   │                    │ │                 │  │  └── run.finished
///                            ▼   ▼                    ▼ ▼     closed, late▼  ▼
///                           Committing ◀──────────────────────────────────────
///        Committed │  CommitRefused │ ▲ run.error      │ CommitUnknown
///                  │                └─┘                ▼
///                  │◀──────── Outcome: committed ──── Asking ── not committed ──▶ Committing (run.error)
///                  ▼                                   │ unreachable
///                Ended ◀───────────────────────────────┘
/// ```
///
/// * `Holding` keeps everything from `interrupt.requested` on; nothing of it is in the log (R14).
/// * `Committing` and `Asking` keep the run as it was before the attempt, to go back to when it is refused (R15).
/// * `AppendFailed` ends any phase without a terminal.
#[derive(Clone, Debug)]
pub struct Coordinator {
    run: Run,
    ledger: Ledger,
    phase: Phase,
    /// The revision of the head that the run starts from; known once it is open.
    base_revision: u64,
    /// The state the adapter reported last.
    state: Option<Head>,
    /// The last event that clients may see.
    delivered: Option<Sequence>,
}

#[derive(Clone, Debug)]
enum Phase {
    Fresh,
    Streaming,
    Holding(Box<Held>),
    Cancelling(Wish),
    Committing(Box<Attempt>),
    Asking(Box<Attempt>),
    Ended(End),
}

/// An interrupt on its way, and the run as it was before it.
#[derive(Clone, Debug)]
struct Held {
    before: Ledger,
    events: Vec<Event<'static>>,
    interrupt_id: InterruptId<'static>,
}

/// A cancel that the harness was told of.
#[derive(Clone, Copy, Debug)]
struct Wish {
    reason: CancelReason,
    /// The harness paused instead; nothing of the pause counts, its state neither.
    paused: bool,
}

/// A transaction on its way, and the run as it was before it.
#[derive(Clone, Debug)]
struct Attempt {
    before: Ledger,
    terminal: Prepared,
    moves_head: bool,
    interrupt: bool,
}

/// How it ended here.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum End {
    /// With a committed terminal of this type.
    Terminal(EventType),
    /// Without one: the store did not answer. Recovery will close the run.
    Unknown,
}

/// Where a run stands, for those who watch it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Stage {
    /// Nothing has happened.
    Fresh,
    /// Events flow.
    Streaming,
    /// An interrupt is being gathered.
    Holding,
    /// The harness was asked to leave.
    Cancelling,
    /// The final transaction is on its way.
    Committing,
    /// Its outcome is being read.
    Asking,
    /// Over.
    Ended(End),
}

impl Coordinator {
    /// A run of which nothing has happened.
    pub fn new(run: Run) -> Self {
        let ledger =
            Ledger::new(run.run_id.clone(), run.conversation_id.clone(), run.thread, run.limits.clone());
        Self { run, ledger, phase: Phase::Fresh, base_revision: 0, state: None, delivered: None }
    }

    /// The same that knows the schemas of tools: streamed arguments of a call that finishes must satisfy them.
    #[must_use]
    pub fn schemas(mut self, schemas: Arc<dyn ToolSchemas>) -> Self {
        self.ledger.know(schemas);
        self
    }

    /// Where the run stands.
    pub fn stage(&self) -> Stage {
        match &self.phase {
            Phase::Fresh => Stage::Fresh,
            Phase::Streaming => Stage::Streaming,
            Phase::Holding(_) => Stage::Holding,
            Phase::Cancelling(_) => Stage::Cancelling,
            Phase::Committing(_) => Stage::Committing,
            Phase::Asking(_) => Stage::Asking,
            Phase::Ended(end) => Stage::Ended(*end),
        }
    }

    /// The last event that clients may see.
    pub fn delivered(&self) -> Option<Sequence> {
        self.delivered
    }

    /// The number of the next event.
    pub fn next_sequence(&self) -> Sequence {
        self.ledger.next()
    }

    /// Decides; performs nothing. The driver performs `effects` in order and feeds the answers back.
    pub fn apply(&mut self, input: Input, effects: &mut Vec<Effect>) {
        let Input { at, signal } = input;
        match signal {
            Signal::Opened { base_revision } => {
                self.base_revision = base_revision;
                self.deliver(Sequence::ZERO, effects);
            }
            Signal::Draft(draft) => self.draft(draft, &at, effects),
            Signal::State(head) => self.report_state(head, effects),
            Signal::Rejected(rejection) => self.refused_at_yield(rejection, &at, effects),
            Signal::Closed => self.harness_gone(Failure::StreamClosed, &at, effects),
            Signal::Failed(failure) => self.harness_gone(failure, &at, effects),
            Signal::Crashed(crash) => self.crashed(crash, &at, effects),
            Signal::Cancel(reason) => self.cancel(reason, &at, effects),
            Signal::Appended { through } => self.deliver(through, effects),
            Signal::AppendFailed => self.lose(effects),
            Signal::Committed(receipt) => self.committed(receipt.as_ref(), effects),
            Signal::CommitRefused => self.refused(&at, effects),
            Signal::CommitUnknown => self.unknown(effects),
            Signal::Outcome(outcome) => self.learned(outcome, &at, effects),
        }
    }

    fn report_state(&mut self, head: Head, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Fresh | Phase::Streaming | Phase::Holding(_) | Phase::Cancelling(_) => {
                self.state = Some(head);
            }
            Phase::Committing(_) | Phase::Asking(_) | Phase::Ended(_) => {
                effects.push(Effect::Late(Late::State));
            }
        }
    }

    fn refused_at_yield(&mut self, rejection: Rejection, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Fresh | Phase::Streaming | Phase::Holding(_) | Phase::Cancelling(_) => {
                let sequence = Some(self.ledger.next());
                self.reject(Rejection { sequence, ..rejection }, at, effects);
            }
            Phase::Committing(_) | Phase::Asking(_) | Phase::Ended(_) => {
                effects.push(Effect::Late(Late::Rejected));
            }
        }
    }

    /// R12 and its relatives: the native stream is over without a terminal.
    fn harness_gone(&mut self, failure: Failure, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Fresh | Phase::Streaming | Phase::Holding(_) => {
                if failure != Failure::StreamClosed {
                    effects.push(Effect::StopHarness);
                }
                self.fail(failure, at, effects);
            }
            Phase::Cancelling(wish) => {
                if failure != Failure::StreamClosed {
                    effects.push(Effect::StopHarness);
                }
                self.end_cancelled(wish, at, effects);
            }
            Phase::Committing(_) | Phase::Asking(_) | Phase::Ended(_) => {}
        }
    }

    fn cancel(&mut self, reason: CancelReason, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Ended(End::Unknown)) {
            Phase::Fresh => {
                self.open(at, effects);
                if matches!(self.phase, Phase::Streaming) {
                    effects.push(Effect::CancelHarness(reason));
                    self.phase = Phase::Cancelling(Wish { reason, paused: false });
                }
            }
            Phase::Streaming => {
                effects.push(Effect::CancelHarness(reason));
                self.phase = Phase::Cancelling(Wish { reason, paused: false });
            }
            Phase::Holding(held) => {
                // Nothing of the interrupt is in the log, so it never was.
                self.ledger = held.before;
                effects.push(Effect::CancelHarness(reason));
                self.phase = Phase::Cancelling(Wish { reason, paused: true });
            }
            // Idempotent; and once the final commit is on its way, its outcome decides.
            phase @ (Phase::Cancelling(_) | Phase::Committing(_) | Phase::Asking(_) | Phase::Ended(_)) => {
                self.phase = phase;
            }
        }
    }
}
