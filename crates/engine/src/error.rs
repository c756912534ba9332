//! What the engine may answer instead of doing it.

use std::time::Duration;

use causeway_adapter::turn::AnswerError;
use causeway_contract::event::Sequence;
use causeway_contract::id::Name;
use causeway_store::error::{Misuse, Refusal, Unavailable};

use crate::answer::Misfit;
use crate::audit;
use crate::harness::NoRoom;

/// Why the engine did not do it. Texts name ids and causes, never content.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// No agent has this id.
    #[error("no agent is called {id}")]
    UnknownAgent {
        /// The id that was asked for.
        id: String,
    },
    /// The agent takes no files.
    #[error("agent {id} does not accept files")]
    FilesNotAllowed {
        /// The agent.
        id: String,
    },
    /// All workers that the agent may have are busy, and no more turns may wait for one. There is no run.
    #[error("all workers of agent {id} are busy")]
    AtCapacity {
        /// The agent.
        id: String,
    },
    /// The last workers of the agent did not start, so none is tried for a while. There is no run.
    #[error("the workers of agent {id} do not start")]
    HarnessUnavailable {
        /// The agent.
        id: String,
        /// After this one is tried again.
        retry_after: Duration,
    },
    /// The answer does not fit its interrupt. Nothing was written.
    #[error(transparent)]
    DoesNotFit(#[from] Misfit),
    /// What would be done could not be recorded.
    #[error(transparent)]
    AuditUnavailable(#[from] audit::Unwritable),
    /// The gateway is about to stop.
    #[error("the gateway is shutting down")]
    ShuttingDown,
    /// The store understood and said no: busy, pending interrupt, reused key, unknown run …
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store cannot do it now; nothing was written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The answer of the store was lost. The same request with the same idempotency key finds out.
    #[error("it is not known whether the request was stored: {0}")]
    OutcomeUnknown(Unavailable),
    /// A cursor beyond the last event of a run. No event is shown before it is stored, so this log never gave it.
    #[error("event {after} is beyond the last event of the run, {last}")]
    BeyondEnd {
        /// The cursor.
        after: u64,
        /// The last event.
        last: u64,
    },
    /// A fault of the engine itself.
    #[error("internal fault: {0}")]
    Fault(String),
}

impl Error {
    /// A start for which the agent has no worker.
    pub(crate) fn no_room(id: &Name<'_>, why: NoRoom) -> Self {
        let id = id.to_string();
        match why {
            NoRoom::Busy => Self::AtCapacity { id },
            NoRoom::Unavailable { retry_after } => Self::HarnessUnavailable { id, retry_after },
        }
    }

    /// Refuses a cursor beyond the last event of a run, whether it goes on or not.
    ///
    /// # Errors
    /// [`BeyondEnd`](Self::BeyondEnd).
    pub fn beyond_end(after: Option<Sequence>, last: Sequence) -> Result<(), Self> {
        match after {
            Some(after) if after > last => Err(Self::BeyondEnd { after: after.value(), last: last.value() }),
            Some(_) | None => Ok(()),
        }
    }
}

impl From<causeway_store::Error> for Error {
    fn from(error: causeway_store::Error) -> Self {
        match error {
            causeway_store::Error::Refused(refusal) => Self::Refused(refusal),
            causeway_store::Error::Unknown(trouble) => Self::OutcomeUnknown(trouble),
            causeway_store::Error::Unavailable(trouble) => Self::Unavailable(trouble),
            causeway_store::Error::Misuse(misuse) => misuse.into(),
            other => Self::Fault(other.to_string()),
        }
    }
}

impl From<AnswerError> for Error {
    fn from(error: AnswerError) -> Self {
        match error {
            // The stored state is at fault, not the answer.
            AnswerError::NothingAsked | AnswerError::Unreadable | AnswerError::NoAnswers { .. } => {
                Self::Fault(error.to_string())
            }
            other => Self::DoesNotFit(Misfit::Harness(other)),
        }
    }
}

impl From<Misuse> for Error {
    fn from(misuse: Misuse) -> Self {
        Self::Fault(misuse.to_string())
    }
}

/// Why an engine could not be opened.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// Two agents have the same id.
    #[error("two agents are called {id}")]
    AgentTwice {
        /// The id.
        id: String,
    },
    /// No adapter translates this harness.
    #[error("agent {agent}: no adapter for harness {harness}; known are {known}")]
    UnknownHarness {
        /// The agent.
        agent: String,
        /// What it asks for.
        harness: String,
        /// What there is.
        known: String,
    },
    /// The driver cannot be set up.
    #[error("agent {agent}: {what}")]
    Driver {
        /// The agent.
        agent: String,
        /// What is wrong, and where.
        what: String,
    },
    /// What a killed gateway left running cannot be ended.
    #[error("{what}")]
    Reap {
        /// What is wrong.
        what: String,
    },
    /// The engine takes no new agents any more.
    #[error("the gateway is shutting down")]
    ShuttingDown,
    /// Traces cannot be sent.
    #[error("tracing: {what}")]
    Trace {
        /// What is wrong.
        what: String,
    },
    /// The audit log cannot be gone on with.
    #[error(transparent)]
    Audit(#[from] audit::OpenError),
    /// The store could not be read or written for recovery.
    #[error("cannot recover what an earlier gateway left")]
    Store(#[from] causeway_store::Error),
}
