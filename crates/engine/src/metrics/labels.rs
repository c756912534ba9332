//! The labels of metrics. Every value comes from the configuration or stands here.

use std::fmt::Write as _;

use causeway_adapter::failure_codes;
use causeway_contract::event::EventType;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use crate::agents::Agent;
use crate::coordinator::Late;
use crate::failure::Failure;

/// How a run ended, or a tool call.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Outcome {
    Finished,
    Interrupted,
    Cancelled,
    Error,
    Uncertain,
}

impl Outcome {
    /// That of a terminal.
    pub(crate) fn of(terminal: EventType, code: Option<&str>) -> Self {
        if terminal == EventType::RunFinished {
            Self::Finished
        } else if terminal == EventType::RunInterrupted {
            Self::Interrupted
        } else if terminal == EventType::RunCancelled {
            Self::Cancelled
        } else if code == Some(crate::failure::UNCERTAIN) {
            Self::Uncertain
        } else {
            Self::Error
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
            Self::Uncertain => "uncertain",
        }
    }
}

/// A bound that was reached, and whose.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfBound {
    pub whose: &'static str,
    pub bound: &'static str,
}

/// What a store is asked to write.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Operation {
    Open,
    Answer,
    Append,
    Commit,
    Interrupt,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answer => "answer",
            Self::Append => "append",
            Self::Commit => "commit",
            Self::Interrupt => "interrupt",
        }
    }
}

macro_rules! words {
    ($($name:ident),+) => {$(
        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
                encoder.write_str(self.as_str())
            }
        }
    )+};
}
words!(Outcome, Operation);

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct Of {
    agent: String,
    harness: String,
}

impl Of {
    pub(crate) fn agent(agent: &Agent) -> Self {
        Self {
            agent: agent.config.id.as_str().to_owned(),
            harness: agent.translator.harness_id().as_str().to_owned(),
        }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfAgent {
    agent: String,
}

impl OfAgent {
    pub(crate) fn new(agent: &str) -> Self {
        Self { agent: agent.to_owned() }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfRefusal {
    agent: String,
    reason: &'static str,
}

impl OfRefusal {
    pub(crate) fn new(agent: &str, reason: &'static str) -> Self {
        Self { agent: agent.to_owned(), reason }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfEnd {
    agent: String,
    harness: String,
    outcome: Outcome,
    code: &'static str,
}

impl OfEnd {
    pub(crate) fn new(agent: &Agent, outcome: Outcome, code: Option<&str>) -> Self {
        let Of { agent, harness } = Of::agent(agent);
        Self { agent, harness, outcome, code: code.map_or("none", known) }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfRun {
    agent: String,
    outcome: Outcome,
}

impl OfRun {
    pub(crate) fn new(agent: &Agent, outcome: Outcome) -> Self {
        Self { agent: agent.config.id.as_str().to_owned(), outcome }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfRule {
    pub rule: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfLate {
    pub what: &'static str,
}

impl OfLate {
    pub(crate) fn of(late: Late) -> Self {
        let what = match late {
            Late::Event(_) => "event",
            Late::State => "state",
            Late::Rejected => "rejected",
            Late::Answer => "answer",
        };
        Self { what }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(crate) struct OfOperation {
    pub operation: Operation,
}

/// A code of ours, or `other`: what a harness may spell as it likes does not become a label.
fn known(code: &str) -> &'static str {
    let ours = Failure::ALL.iter().map(|failure| failure.public().code);
    let adapters = failure_codes().map(|(code, _)| code);
    ours.chain(adapters).find(|ours| *ours == code).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_not_ours_is_other() {
        assert_eq!(known("harness_timeout"), "harness_timeout");
        assert_eq!(known("provider_rate_limited"), "provider_rate_limited");
        assert_eq!(known("run_0193"), "other");
    }
}
