//! R02, R03, R04, R12: a run starts once, ends once, and nothing follows its end. Also the identity of the run
//! (`envelope`) and what the terminals must look like: `payload` and R13 for `run.finished`, R15 for `run.error`.

use causeway_contract::event::{Durability, EventData, EventType, RunError, RunFinished, Sequence};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::namespace::Namespace;

use crate::interrupt::{self, Pending};
use crate::validator::{Boundary, Thread};
use crate::violation::Violation;

/// Where a run stands:
///
/// ```text
///          run.started            interrupt.requested
/// Awaited ────────────▶ Running ──────────────────────▶ Interrupting ──┐ text.finished, reasoning.finished,
///                       │  ▲ │                            │       ▲    │ tool.finished, tool.error,
///    any other event    └──┘ │                            │       └────┘ namespace.exited
///                            │ run.finished               │
///                            │ run.cancelled              │ run.interrupted
///                            │ run.error                  │
///                            └─────────▶ Ended ◀──────────┘
/// ```
#[derive(Clone, Debug)]
enum Phase {
    Awaited,
    Running,
    Interrupting(Pending),
    Ended(Terminal),
}

/// The event that ended a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terminal {
    /// Its number.
    pub sequence: Sequence,
    /// Which of the four it is.
    pub event_type: EventType,
}

/// What an accepted event does to the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Start,
    Stay,
    Interrupt,
    End,
}

/// Phase and identity of a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    phase: Phase,
    identity: Option<(RunId<'static>, ConversationId<'static>)>,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self { phase: Phase::Awaited, identity: None }
    }

    /// `envelope`: both ids stay what they were in the first accepted event.
    pub(crate) fn check_identity(
        &self,
        run_id: &RunId<'_>,
        conversation_id: &ConversationId<'_>,
    ) -> Result<(), Violation> {
        match &self.identity {
            Some((run, _)) if run.as_str() != run_id.as_str() => {
                Err(Violation::OtherRun { expected: run.to_string(), found: run_id.to_string() })
            }
            Some((_, conversation)) if conversation.as_str() != conversation_id.as_str() => {
                let (expected, found) = (conversation.to_string(), conversation_id.to_string());
                Err(Violation::OtherConversation { expected, found })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn apply_identity(&mut self, run_id: &RunId<'_>, conversation_id: &ConversationId<'_>) {
        if self.identity.is_none() {
            self.identity = Some((run_id.clone().into_owned(), conversation_id.clone().into_owned()));
        }
    }

    /// R02, R03, R04 and R08: whether an event of this type may come now.
    pub(crate) fn check_phase(
        &self,
        sequence: Sequence,
        namespace: &Namespace<'_>,
        data: &EventData<'_>,
    ) -> Result<Step, Violation> {
        let event = data.event_type();
        match &self.phase {
            Phase::Ended(terminal) if event.is_terminal() => Err(Violation::SecondTerminal {
                event,
                first: terminal.event_type,
                at: terminal.sequence.value(),
            }),
            Phase::Ended(terminal) => Err(Violation::EventAfterTerminal {
                sequence: sequence.value(),
                terminal: terminal.sequence.value(),
            }),
            Phase::Awaited if event != EventType::RunStarted => Err(Violation::NotStarted { event }),
            Phase::Awaited if sequence != Sequence::ZERO => {
                Err(Violation::StartedLate { sequence: sequence.value() })
            }
            Phase::Awaited if !namespace.is_root() => Err(Violation::StartedInNamespace),
            Phase::Awaited => Ok(Step::Start),
            Phase::Running | Phase::Interrupting(_) if event == EventType::RunStarted => {
                Err(Violation::StartedTwice { sequence: sequence.value() })
            }
            Phase::Running => {
                interrupt::check_none_pending(data)?;
                Ok(if event.is_terminal() {
                    Step::End
                } else if event == EventType::InterruptRequested {
                    Step::Interrupt
                } else {
                    Step::Stay
                })
            }
            Phase::Interrupting(pending) => {
                pending.check_follows(data)?;
                Ok(if event.is_terminal() { Step::End } else { Step::Stay })
            }
        }
    }

    pub(crate) fn apply(&mut self, step: Step, sequence: Sequence, data: &EventData<'_>) {
        match step {
            Step::Start => self.phase = Phase::Running,
            Step::Stay => {}
            Step::Interrupt => {
                if let EventData::InterruptRequested(requested) = data {
                    self.phase = Phase::Interrupting(Pending::new(requested));
                }
            }
            Step::End => self.phase = Phase::Ended(Terminal { sequence, event_type: data.event_type() }),
        }
    }

    /// R12: the stream must not end before the run has.
    pub(crate) fn check_end(&self) -> Result<(), Violation> {
        match &self.phase {
            Phase::Ended(_) => Ok(()),
            Phase::Awaited | Phase::Running | Phase::Interrupting(_) => Err(Violation::ClosedWithoutTerminal),
        }
    }

    pub(crate) fn terminal(&self) -> Option<Terminal> {
        match &self.phase {
            Phase::Ended(terminal) => Some(*terminal),
            Phase::Awaited | Phase::Running | Phase::Interrupting(_) => None,
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        match &self.phase {
            Phase::Awaited => false,
            Phase::Running | Phase::Interrupting(_) | Phase::Ended(_) => true,
        }
    }
}

/// `payload` and R13: an adapter cannot claim durability, and a durable thread is not finished without it.
pub(crate) fn check_finished(
    finished: &RunFinished<'_>,
    boundary: Boundary,
    thread: Thread,
) -> Result<(), Violation> {
    match (boundary, thread, &finished.thread_state) {
        (Boundary::Yield, _, Some(_)) => Err(Violation::DurabilityClaimed),
        (Boundary::Yield, _, None) => Ok(()),
        (Boundary::Commit, Thread::Ephemeral, _) => Ok(()),
        (Boundary::Commit, Thread::Durable, None) => Err(Violation::ThreadStateMissing),
        (Boundary::Commit, Thread::Durable, Some(state)) => match state.durability {
            Durability::Committed => Ok(()),
            durability @ (Durability::Pending | Durability::Uncertain | Durability::Failed) => {
                Err(Violation::NotCommitted { durability })
            }
        },
    }
}

/// R15: what is uncertain is never tried again by itself, so it must not invite to.
pub(crate) fn check_error(error: &RunError<'_>) -> Result<(), Violation> {
    if error.retryable && error.code.as_str() == UNCERTAIN {
        Err(Violation::UncertainYetRetryable)
    } else {
        Ok(())
    }
}

/// The code of R15.
pub(crate) const UNCERTAIN: &str = "thread_durability_uncertain";
