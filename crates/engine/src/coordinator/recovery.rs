//! A run that was found without a terminal: its log is taken in, and the same machine closes it.
//!
//! Refuses to go on with such a run: whatever wrote it is gone (decisions §6 "Crash").

use causeway_contract::event::Event;
use causeway_contract::timestamp::Timestamp;

use super::effect::Effect;
use super::input::Rejection;
use super::{Coordinator, Phase, Run};
use crate::failure::Failure;
use crate::uncertain::Why;

/// What a run was orphaned by.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Crash {
    /// The gateway that drove it is gone.
    Restart,
    /// The log could not be written for too long, so the gateway let the run go.
    Journal,
    /// The answer to an interrupt opened it, and the store's word that it had done so was lost: it was never begun.
    Unacknowledged,
    /// The task that drove it broke down.
    Fault,
}

impl Crash {
    /// What it makes of a run with output.
    pub(crate) fn why(self) -> Why {
        match self {
            Self::Restart => Why::EngineRestarted,
            Self::Journal | Self::Unacknowledged => Why::JournalLost,
            Self::Fault => Why::EngineFault,
        }
    }
}

impl Coordinator {
    /// A run as far as its log tells. The next input should be [`Signal::Crashed`](super::Signal::Crashed).
    pub fn recovering(run: Run) -> Self {
        let mut found = Self::new(run);
        found.phase = Phase::Streaming;
        found
    }

    /// Takes in the next event of the log.
    ///
    /// # Errors
    /// The log does not hold what a coordinator wrote; nothing was changed.
    pub fn replay(&mut self, event: &Event<'_>) -> Result<(), Box<Rejection>> {
        self.ledger.replay(event)?;
        self.delivered = Some(event.sequence);
        Ok(())
    }

    pub(super) fn crashed(&mut self, crash: Crash, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Fresh | Phase::Streaming | Phase::Holding(_) | Phase::Cancelling(_) => {
                let failure = match crash {
                    _ if self.ledger.has_output() => Failure::DurabilityUncertain,
                    Crash::Restart => Failure::EngineRestarted,
                    Crash::Journal => Failure::JournalUnavailable,
                    Crash::Unacknowledged => Failure::AnswerUnacknowledged,
                    Crash::Fault => Failure::EngineFault,
                };
                self.fail(failure, at, effects);
            }
            Phase::Committing(_) | Phase::Asking(_) | Phase::Ended(_) => {}
        }
    }
}
