//! Calls that the gate runs, in the stream of an adapter: each is told once, whoever speaks first.
//!
//! A worker may tell of such a call too (its harness streams what its model asked for, and the result that came back), or say
//! nothing of it. The start is told by whoever is first, a good end by the gate alone: a worker that says that a call
//! finished which the gate has not run, or not yet, is not believed.

use std::collections::HashSet;

use causeway_contract::event::{EventData, EventDraft, ToolError, ToolFinished};
use causeway_contract::id::{Code, ToolCallId};

use crate::adapter::{Output, Told};

/// The code of a call whose end a worker made up.
pub const BYPASSED: &str = "tool_bypassed";

/// What is known of the calls of one run.
#[derive(Debug, Default)]
pub(crate) struct Gated {
    /// Calls that the gate has.
    claimed: HashSet<ToolCallId<'static>>,
    /// Those that the gate started.
    started: HashSet<ToolCallId<'static>>,
    /// Those that have ended.
    ended: HashSet<ToolCallId<'static>>,
}

impl Gated {
    /// Takes note of what the gate tells; gives the event that is to be yielded.
    pub(crate) fn tell(&mut self, told: Told) -> Option<EventDraft<'static>> {
        match told {
            Told::Claim(id) => {
                self.claimed.insert(id);
                None
            }
            Told::Event(draft) => {
                if let EventData::ToolStarted(start) = &draft.data {
                    self.claimed.insert(start.tool_call_id.clone());
                    self.started.insert(start.tool_call_id.clone());
                } else if let Some(id) = ended(&draft.data)
                    && !self.ended.insert(id.clone())
                {
                    return None; // the worker gave it up before
                }
                Some(draft)
            }
        }
    }

    /// What is yielded of an output of the adapter.
    pub(crate) fn pass(&mut self, output: Output) -> Option<Output> {
        let Output::Draft(EventDraft { namespace, data }) = output else { return Some(output) };
        let data = match data {
            EventData::ToolStarted(start) if self.started.contains(&start.tool_call_id) => return None,
            EventData::ToolArgumentsDelta(delta) if self.started.contains(&delta.tool_call_id) => {
                return None;
            }
            EventData::ToolFinished(end) if self.claimed.contains(&end.tool_call_id) => {
                if !self.ended.insert(end.tool_call_id.clone()) {
                    return None;
                }
                bypassed(end).into()
            }
            EventData::ToolError(end) if self.claimed.contains(&end.tool_call_id) => {
                if !self.ended.insert(end.tool_call_id.clone()) {
                    return None;
                }
                end.into()
            }
            other => other,
        };
        Some(Output::Draft(EventDraft { namespace, data }))
    }
}

/// The call that an event ends.
pub fn ended<'e>(data: &'e EventData<'static>) -> Option<&'e ToolCallId<'static>> {
    match data {
        EventData::ToolFinished(end) => Some(&end.tool_call_id),
        EventData::ToolError(end) => Some(&end.tool_call_id),
        _other => None,
    }
}

fn bypassed(end: ToolFinished<'static>) -> ToolError<'static> {
    ToolError {
        tool_call_id: end.tool_call_id,
        code: Code::new(BYPASSED).unwrap_or_else(|_| unreachable!("a constant that is a code")),
        message: "The worker said that this call was done, but the gateway had not run it.".into(),
        retryable: false,
    }
}

#[cfg(test)]
mod tests {
    use causeway_contract::event::ToolStarted;
    use causeway_contract::id::Name;
    use causeway_contract::json::JsonObject;

    use super::*;

    fn id(id: &str) -> ToolCallId<'static> {
        ToolCallId::new(id.to_owned()).unwrap()
    }

    fn draft(event: &str) -> EventDraft<'static> {
        let (kind, call) = event.split_once(' ').unwrap();
        let tool_call_id = id(call);
        EventDraft::root(match kind {
            "start" => EventData::from(ToolStarted {
                tool_call_id,
                tool_name: Name::new("t").unwrap(),
                arguments: JsonObject::EMPTY,
                parent_message_id: None,
            }),
            "finish" => ToolFinished { tool_call_id, result: "r".into(), result_ref: None }.into(),
            _error => ToolError {
                tool_call_id,
                code: Code::new("tool_error").unwrap(),
                message: "m".into(),
                retryable: false,
            }
            .into(),
        })
    }

    /// `>` before what the gate tells, nothing before what the worker tells; what is yielded of it.
    fn yielded(script: &str) -> String {
        let mut gated = Gated::default();
        let mut out = Vec::new();
        for word in script.split("; ") {
            let given = match word.strip_prefix('>') {
                Some(claim) if claim.starts_with("claim") => gated.tell(Told::Claim(id(&claim[6..]))),
                Some(event) => gated.tell(Told::Event(draft(event))),
                None => match gated.pass(Output::Draft(draft(word))) {
                    Some(Output::Draft(draft)) => Some(draft),
                    Some(Output::State(_) | Output::Result(_)) | None => None,
                },
            };
            out.extend(given.map(|draft| match draft.data {
                EventData::ToolError(error) => format!("{} {}", error.code, error.tool_call_id),
                other => other.event_type().as_str().to_owned(),
            }));
        }
        out.join("; ")
    }

    #[test]
    fn a_call_is_told_once_whoever_speaks_first() {
        assert_eq!(yielded("start a; >claim a; >finish a; finish a"), "tool.started; tool.finished");
        assert_eq!(yielded(">start a; start a; >finish a; finish a"), "tool.started; tool.finished");
        assert_eq!(yielded(">start a; start a; >error a; finish a"), "tool.started; tool_error a");
        assert_eq!(yielded("start b; finish b"), "tool.started; tool.finished", "no call of the gate");
    }

    #[test]
    fn a_worker_can_give_a_call_up_but_not_finish_it() {
        assert_eq!(yielded("start a; >claim a; error a; >finish a"), "tool.started; tool_error a");
        assert_eq!(yielded("start a; >claim a; finish a; >finish a"), "tool.started; tool_bypassed a");
    }
}
