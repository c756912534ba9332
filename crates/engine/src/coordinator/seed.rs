//! What a resumed run inherits from the interrupted one: the calls that were open, and what encoders must hide.
//!
//! Refuses to decide anything: it reads a log and an answer.

use causeway_adapter::turn::{Answer, OpenCall};
use causeway_contract::event::{Decision, Event, EventData, NamespaceOutcome};
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

/// What the encoders of a resumed run start with (decisions §6 "Resumed runs are self-contained").
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seed {
    /// Calls that were open at the end of the interrupted run, in the order of their starts.
    pub open_tool_calls: Vec<ToolCallId<'static>>,
    /// Those of them whose namespace exited `interrupted`.
    pub delegations: Vec<ToolCallId<'static>>,
    /// Those of them that a reviewer refused.
    pub rejected: Vec<ToolCallId<'static>>,
}

impl Seed {
    /// The seed as JSON, the form in which it is stored and served.
    pub fn to_json(&self) -> String {
        fn list(ids: &[ToolCallId<'_>]) -> serde_json::Value {
            ids.iter().map(ToolCallId::as_str).collect::<Vec<_>>().into()
        }
        let mut seed = serde_json::Map::new();
        seed.insert("open_tool_calls".to_owned(), list(&self.open_tool_calls));
        seed.insert("delegations".to_owned(), list(&self.delegations));
        seed.insert("rejected".to_owned(), list(&self.rejected));
        serde_json::Value::Object(seed).to_string()
    }
}

/// What an interrupted run left, read from its log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Remains {
    /// Calls without an end, in the order of their starts; streamed arguments are joined.
    pub open_calls: Vec<OpenCall>,
    /// The subset whose namespace exited `interrupted`, in the same order.
    pub delegations: Vec<ToolCallId<'static>>,
    streamed: Vec<(ToolCallId<'static>, String)>,
    interrupted: Vec<ToolCallId<'static>>,
}

impl Remains {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next event of the interrupted run.
    pub fn see(&mut self, event: &Event<'_>, limits: &Limits) {
        match &event.data {
            EventData::ToolStarted(started) => self.open_calls.push(OpenCall {
                id: started.tool_call_id.clone().into_owned(),
                name: started.tool_name.clone().into_owned(),
                arguments: started.arguments.clone().into_owned(),
                namespace: event.namespace.clone().into_owned(),
            }),
            EventData::ToolArgumentsDelta(piece) => {
                match self.streamed.iter_mut().find(|(id, _)| *id == piece.tool_call_id) {
                    Some((_, text)) => text.push_str(&piece.delta),
                    None => {
                        let id = piece.tool_call_id.clone().into_owned();
                        self.streamed.push((id, piece.delta.clone().into_owned()));
                    }
                }
            }
            EventData::ToolFinished(finished) => self.close(&finished.tool_call_id),
            EventData::ToolError(error) => self.close(&error.tool_call_id),
            EventData::NamespaceExited(exited) if exited.outcome == NamespaceOutcome::Interrupted => {
                self.interrupted.push(exited.parent_tool_call_id.clone().into_owned());
            }
            EventData::RunInterrupted(_) => self.settle(limits),
            EventData::NamespaceExited(_)
            | EventData::RunStarted(_)
            | EventData::RunFinished(_)
            | EventData::RunCancelled(_)
            | EventData::RunError(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::InterruptRequested(_)
            | EventData::NamespaceEntered(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => {}
        }
    }

    /// The seed of the run that `answer` starts.
    pub fn seed(&self, answer: &Answer) -> Seed {
        let rejected = match answer {
            Answer::Decisions(decisions) => decisions
                .iter()
                .filter(|decided| decided.decision == Decision::Reject)
                .map(|decided| decided.tool_call_id.clone())
                .filter(|id| self.open_calls.iter().any(|call| call.id == *id))
                .collect(),
            Answer::Values(_) | Answer::Dismissed => Vec::new(),
        };
        Seed {
            open_tool_calls: self.open_calls.iter().map(|call| call.id.clone()).collect(),
            delegations: self.delegations.clone(),
            rejected,
        }
    }

    fn close(&mut self, id: &ToolCallId<'_>) {
        self.open_calls.retain(|call| call.id.as_str() != id.as_str());
        self.streamed.retain(|(streamed, _)| streamed.as_str() != id.as_str());
    }

    fn settle(&mut self, limits: &Limits) {
        for (id, text) in std::mem::take(&mut self.streamed) {
            let call = self.open_calls.iter_mut().find(|call| call.id == id);
            // Fragments that were cut short by the interrupt are no arguments.
            if let (Some(call), Ok(arguments)) = (call, JsonObject::parse(&text, limits)) {
                call.arguments = arguments.into_owned();
            }
        }
        let interrupted = std::mem::take(&mut self.interrupted);
        self.delegations = self
            .open_calls
            .iter()
            .map(|call| call.id.clone())
            .filter(|id| interrupted.contains(id))
            .collect();
    }
}
