//! What a worker's lines mean: its adapter's view of one turn, and answers to what it asks.

use causeway_adapter::adapter::{Adapter as _, Close, Output};
use causeway_adapter::ids::SeededIds;
use causeway_adapter::json::{Json, write_string};
use causeway_adapter::registry::Harness;
use causeway_adapter::turn::{Answer, Decided, Options, Turn};
use causeway_contract::event::{Decision, EventData, FormField, InterruptRequest};
use causeway_contract::id::Name;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

/// One turn as its adapter tells it.
#[derive(Debug, Default)]
pub struct Told {
    /// All text.
    pub text: String,
    /// What it asks, and what its answer is built from.
    pub asked: Option<(InterruptRequest<'static>, String)>,
}

/// What the lines of a turn mean. A line that its adapter refuses is left out: the checks of runs tell it.
pub fn told(harness: &Harness, lines: &[Vec<u8>]) -> Told {
    let Ok(name) = Name::new("conform") else { return Told::default() };
    let mut adapter = harness.adapter(Turn::Start, Options::new(name), Box::new(SeededIds::new(1)));
    let (mut told, mut private) = (Told::default(), String::new());
    for line in lines {
        let _told_elsewhere = adapter.handle(line);
    }
    adapter.close(Close::End);
    while let Some(output) = adapter.poll() {
        match output {
            Output::Draft(draft) => match draft.data {
                EventData::TextDelta(delta) => told.text.push_str(&delta.delta),
                EventData::InterruptRequested(asked) => told.asked = Some((asked.request, private.clone())),
                _said => {}
            },
            Output::State(state) => private = state.private,
            Output::Result(_) => {}
        }
    }
    told
}

/// How to answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// Approve, or fill in.
    Yes,
    /// Approve with the arguments set to what they are already.
    Edit,
    /// Refuse, or close.
    No,
}

/// An answer to a request; `None` where the request does not allow that one.
pub fn answer(request: &InterruptRequest<'_>, how: How) -> Option<Answer> {
    match request {
        InterruptRequest::Form { fields, .. } => match how {
            How::Yes | How::Edit => Some(Answer::Values(values(fields)?)),
            How::No => Some(Answer::Dismissed),
        },
        InterruptRequest::Approvals(approvals) => {
            let mut decisions = Vec::new();
            for one in approvals {
                let may =
                    |decision| one.allowed_decisions.is_empty() || one.allowed_decisions.contains(&decision);
                let decision = match how {
                    How::Yes if may(Decision::Approve) => Decision::Approve,
                    How::Edit | How::Yes if may(Decision::Edit) => Decision::Edit,
                    How::No if may(Decision::Reject) => Decision::Reject,
                    How::Yes | How::Edit | How::No => return None,
                };
                let edited_args = (decision == Decision::Edit).then(|| one.tool_args.clone().into_owned());
                decisions.push(Decided {
                    tool_call_id: one.tool_call_id.clone().into_owned(),
                    decision,
                    edited_args,
                    message: None,
                });
            }
            Some(Answer::Decisions(decisions))
        }
    }
}

/// A value for every field.
fn values(fields: &[FormField<'_>]) -> Option<JsonObject<'static>> {
    let mut out = String::from("{");
    for field in fields {
        let object = Json::parse(field.object.as_str().as_bytes()).ok()?;
        out.push_str(if out.len() > 1 { "," } else { "" });
        write_string(field.field_name.as_str(), &mut out);
        out.push(':');
        let offered = ["field_values", "options", "choices"].iter().find_map(|key| object.list(key).first());
        let offered = offered.map(|one| one.get("value").or_else(|| one.get("label")).unwrap_or(one));
        match (offered, field.field_type.as_str()) {
            (Some(one), _) => one.write(&mut out),
            (None, "number" | "integer") => out.push('1'),
            (None, "boolean" | "checkbox") => out.push_str("true"),
            (None, _text) => out.push_str("\"Oslo\""),
        }
    }
    out.push('}');
    JsonObject::parse(out, &Limits::DEFAULT).ok()
}

#[cfg(test)]
mod tests {
    use causeway_contract::event::ToolApproval;
    use causeway_contract::id::ToolCallId;

    use super::*;

    #[test]
    fn every_call_is_decided_only_as_it_may_be() {
        let request = InterruptRequest::Approvals(vec![ToolApproval {
            tool_call_id: ToolCallId::new("c").unwrap(),
            tool_name: Name::new("t").unwrap(),
            tool_args: JsonObject::EMPTY,
            allowed_decisions: vec![Decision::Edit],
        }]);
        let edited = answer(&request, How::Edit);
        assert!(edited.is_some());
        assert_eq!(answer(&request, How::Yes), edited);
        assert_eq!(answer(&request, How::No), None);
    }
}
