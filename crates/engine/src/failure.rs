//! Why a run ended early, and the one place where that becomes a public code, a sentence and `retryable`.
//!
//! Refuses to carry text from anywhere else: every sentence a client may read about a failure of the engine stands
//! here (decisions §6 "Error text"). Adapters have sentences of their own for failures that a harness reports.

use causeway_contract::event::{RunError, SideEffectStatus};
use causeway_contract::id::Code;
use causeway_contract::json::JsonNumber;

/// A failure that the engine itself recognised. Adapters report what a harness says about itself as drafts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Failure {
    /// The adapter yielded an event that breaks a rule; it is in neither log nor client.
    EventInvalid,
    /// The final commit was refused and can no longer land (R13, R15), or a crash left output without one.
    DurabilityUncertain,
    /// The native stream closed without a terminal (R12), whatever the exit code said.
    StreamClosed,
    /// The harness was silent longer than `idle_timeout`.
    HarnessTimeout,
    /// The gateway restarted before the run had any output.
    EngineRestarted,
    /// The log could not be written for too long, and the run had no output yet.
    JournalUnavailable,
    /// An answer was stored, the store's word for it was lost, and so nobody began what it asks for.
    AnswerUnacknowledged,
    /// The harness asks for an answer, and keeps no state from which it could go on.
    NothingToResume,
    /// The engine itself failed before the run had any output.
    EngineFault,
    /// The harness could not be started.
    HarnessUnavailable,
    /// All workers that may run are busy.
    Capacity,
    /// The harness wrote something that is not its own format.
    OutputMalformed,
    /// The harness wrote an item that is larger than the limit.
    OutputOversized,
    /// The harness does not know the committed state that the run starts from.
    StateLost,
    /// The harness refused the request.
    RequestRefused,
    /// The process that waited for this answer is gone, and no other can take it.
    AnswerLost,
    /// The endpoint refused the gateway's credentials.
    HarnessAccess,
    /// The endpoint limits requests.
    HarnessRateLimited {
        /// The seconds after which it takes one again, where it says so.
        retry_after: Option<u32>,
    },
    /// The endpoint is overloaded.
    HarnessOverloaded {
        /// The seconds after which it may take a request again, where it says so.
        retry_after: Option<u32>,
    },
    /// The endpoint says that it failed.
    HarnessFailed,
}

/// What a client may be told about a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Public {
    /// Stable machine code.
    pub code: &'static str,
    /// A sentence for people.
    pub message: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl Failure {
    /// Every failure, for tables and tests.
    pub const ALL: &[Self] = &[
        Self::EventInvalid,
        Self::DurabilityUncertain,
        Self::StreamClosed,
        Self::HarnessTimeout,
        Self::EngineRestarted,
        Self::JournalUnavailable,
        Self::AnswerUnacknowledged,
        Self::NothingToResume,
        Self::EngineFault,
        Self::HarnessUnavailable,
        Self::Capacity,
        Self::OutputMalformed,
        Self::OutputOversized,
        Self::StateLost,
        Self::RequestRefused,
        Self::AnswerLost,
        Self::HarnessAccess,
        Self::HarnessRateLimited { retry_after: None },
        Self::HarnessOverloaded { retry_after: None },
        Self::HarnessFailed,
    ];

    /// Code, sentence and `retryable`: the only place that writes them.
    pub fn public(self) -> Public {
        let (code, message, retryable) = match self {
            Self::EventInvalid => (
                "harness_event_invalid",
                "The agent's harness produced an invalid event, so the run was stopped.",
                false,
            ),
            Self::DurabilityUncertain => (
                UNCERTAIN,
                "The run may have produced output or effects, but its final state could not be saved.",
                false,
            ),
            Self::StreamClosed => {
                ("provider_stream_closed", "The agent's stream closed before the run was complete.", false)
            }
            Self::HarnessTimeout => {
                ("harness_timeout", "The agent did not produce anything for too long.", false)
            }
            Self::EngineRestarted => {
                ("engine_restarted", "The service restarted before the run had produced anything.", true)
            }
            Self::JournalUnavailable => (
                "journal_unavailable",
                "The run could not be recorded, and had not produced anything yet.",
                true,
            ),
            Self::AnswerUnacknowledged => (
                "answer_unacknowledged",
                "The answer was recorded, but nothing of what it decided was done; send a new message to go on.",
                false,
            ),
            Self::NothingToResume => (
                "interrupt_not_resumable",
                "The agent asked for an answer, but its conversations are not kept, so that it could not go on with one.",
                false,
            ),
            Self::EngineFault => {
                ("engine_fault", "The service failed before the run had produced anything.", true)
            }
            Self::HarnessUnavailable => ("harness_unavailable", "The agent could not be started.", true),
            Self::Capacity => {
                ("runtime_capacity", "All agent workers are busy at the moment; try again shortly.", true)
            }
            Self::OutputMalformed => (
                "harness_output_invalid",
                "The agent's harness wrote something that could not be read, so the run was stopped.",
                false,
            ),
            Self::OutputOversized => (
                "harness_output_too_large",
                "The agent's harness wrote a single item above the size limit, so the run was stopped.",
                false,
            ),
            Self::StateLost => (
                "thread_state_unavailable",
                "The saved state of this conversation is no longer available to the agent.",
                false,
            ),
            Self::RequestRefused => {
                ("harness_request_refused", "The agent's harness did not accept the request.", false)
            }
            Self::AnswerLost => (
                "answer_lost",
                "The agent's process that asked has ended, so the answer reached nobody and what it was about was not done.",
                false,
            ),
            Self::HarnessAccess => {
                ("harness_access_denied", "The agent's endpoint refused the gateway's credentials.", false)
            }
            Self::HarnessRateLimited { .. } => {
                ("harness_rate_limited", "The agent's endpoint is limiting requests at the moment.", true)
            }
            Self::HarnessOverloaded { .. } => {
                ("harness_overloaded", "The agent's endpoint is overloaded at the moment.", true)
            }
            Self::HarnessFailed => {
                ("agent_execution_failed", "The agent failed while it was working on this request.", false)
            }
        };
        Public { code, message, retryable }
    }

    /// When the same request may succeed, where the harness says so.
    fn retry_after(self) -> Option<u32> {
        match self {
            Self::HarnessRateLimited { retry_after } | Self::HarnessOverloaded { retry_after } => retry_after,
            Self::EventInvalid
            | Self::DurabilityUncertain
            | Self::StreamClosed
            | Self::HarnessTimeout
            | Self::EngineRestarted
            | Self::JournalUnavailable
            | Self::AnswerUnacknowledged
            | Self::NothingToResume
            | Self::EngineFault
            | Self::HarnessUnavailable
            | Self::Capacity
            | Self::OutputMalformed
            | Self::OutputOversized
            | Self::StateLost
            | Self::RequestRefused
            | Self::AnswerLost
            | Self::HarnessAccess
            | Self::HarnessFailed => None,
        }
    }

    /// The `run.error` that tells a client about it.
    pub fn run_error(self, side_effect_status: SideEffectStatus) -> RunError<'static> {
        let Public { code, message, retryable } = self.public();
        RunError {
            code: literal_code(code),
            message: message.into(),
            retryable,
            retry_after_seconds: self.retry_after().map(JsonNumber::from),
            side_effect_status,
        }
    }
}

/// The code of R15.
pub const UNCERTAIN: &str = "thread_durability_uncertain";

/// The literals above are codes; a test holds every one of them to that.
fn literal_code(code: &'static str) -> Code<'static> {
    match Code::new(code) {
        Ok(code) => code,
        Err(_) => unreachable!("{code} is a literal of this file and obeys the pattern of a code"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use causeway_contract::Limits;

    #[test]
    fn every_failure_has_a_code_of_its_own_and_a_bounded_sentence() {
        let mut codes = Vec::new();
        for failure in Failure::ALL {
            let error = failure.run_error(SideEffectStatus::None);
            assert!(!codes.contains(&error.code), "{} is used twice", error.code);
            assert!(error.message.len() <= Limits::DEFAULT.message_bytes);
            assert!(error.message.ends_with('.') && !error.message.chars().any(char::is_control));
            codes.push(error.code);
        }
        assert_eq!(codes.len(), Failure::ALL.len());
    }

    #[test]
    fn only_what_surely_did_nothing_may_be_retried() {
        let retryable: Vec<_> = Failure::ALL.iter().filter(|f| f.public().retryable).copied().collect();
        assert_eq!(
            retryable,
            [
                Failure::EngineRestarted,
                Failure::JournalUnavailable,
                Failure::EngineFault,
                Failure::HarnessUnavailable,
                Failure::Capacity,
                Failure::HarnessRateLimited { retry_after: None },
                Failure::HarnessOverloaded { retry_after: None }
            ]
        );
    }

    /// The rows of the page's tables of codes: code and `retryable`.
    fn rows(page: &str) -> BTreeSet<(String, bool)> {
        let part = page.split("## Refusals").next().unwrap();
        let rows = part.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let code = cells.next()?.strip_suffix('`')?.to_owned();
            match cells.next()? {
                "yes" => Some((code, true)),
                "no" => Some((code, false)),
                other => panic!("{code}: {other}"),
            }
        });
        let all: Vec<_> = rows.collect();
        let set: BTreeSet<_> = all.iter().cloned().collect();
        assert_eq!(set.len(), all.len(), "a code stands twice in docs/errors.md");
        set
    }

    #[test]
    fn the_page_of_errors_lists_every_code_and_no_other() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md")).unwrap();
        let engine =
            Failure::ALL.iter().map(|failure| failure.public()).map(|told| (told.code, told.retryable));
        let known: BTreeSet<_> = engine
            .chain(causeway_adapter::failure_codes())
            .map(|(code, retryable)| (code.to_owned(), retryable))
            .collect();
        assert_eq!(rows(&page), known, "left: docs/errors.md, right: the source");
    }
}
