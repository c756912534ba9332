//! Interrupts of Strands as one canonical request, and an answer as the responses that Strands takes.
//!
//! A hook's interrupt before a call is an approval; any other is a plain pause (decisions §6). Strands leaves the meaning
//! of a response to the hook that asked: the words here are `approve` and `reject`, and nothing can be edited.

use std::collections::HashSet;

use causeway_contract::event::{Decision, InterruptRequest, ToolApproval};
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use crate::adapter::ItemError;
use crate::calls::{self, Calls};
use crate::deepagents::interrupt::{answer, question};
use crate::json::{Json, write_string};
use crate::project;
use crate::text;
use crate::turn::{Answer, AnswerError, Decided, Options};

/// One interrupt that waits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Pause {
    /// Its native id.
    pub interrupt: String,
    /// Whether it is the approval of a call.
    pub approval: bool,
    /// What the name of its field starts with.
    pub prefix: String,
    /// The call it is about, by its canonical id.
    pub call: Option<String>,
}

/// What an interrupted run leaves for its answer. Stored with the interrupt and never shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Snapshot {
    /// In the harness's order.
    pub pauses: Vec<Pause>,
    /// Native ids of open calls whose canonical id differs, with that.
    pub aliases: Vec<(String, String)>,
}

impl Snapshot {
    /// As JSON.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{\"pauses\":[");
        for (n, pause) in self.pauses.iter().enumerate() {
            out.push_str(if n > 0 { ",{\"interrupt\":" } else { "{\"interrupt\":" });
            write_string(&pause.interrupt, &mut out);
            out.push_str(if pause.approval { ",\"approval\":true" } else { ",\"approval\":false" });
            for (key, value) in [("prefix", Some(&pause.prefix)), ("call", pause.call.as_ref())] {
                if let Some(value) = value {
                    out.push_str(&format!(",\"{key}\":"));
                    write_string(value, &mut out);
                }
            }
            out.push('}');
        }
        out.push_str("],\"aliases\":");
        calls::write_aliases(&self.aliases, &mut out);
        out.push('}');
        out
    }

    /// From JSON; `None` if it is not what [`to_json`](Self::to_json) wrote.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        let owned = |value: &Json<'_>, key: &str| Some(value.str(key)?.lossy().into_owned());
        let mut snapshot = Self::default();
        for pause in json.list("pauses") {
            snapshot.pauses.push(Pause {
                interrupt: owned(pause, "interrupt")?,
                approval: pause.get("approval") == Some(&Json::Bool(true)),
                prefix: owned(pause, "prefix")?,
                call: owned(pause, "call"),
            });
        }
        snapshot.aliases = calls::read_aliases(json.list("aliases"))?;
        Some(snapshot)
    }

    fn approving(&self) -> bool {
        self.pauses.iter().any(|pause| pause.approval)
    }
}

/// The one request for everything that waits, and what its answer needs; `call_of` finds the call of an interrupt.
///
/// # Errors
/// A value cannot stand in an event, or an interrupt beside approvals belongs to no call.
pub(super) fn request(
    interrupts: &[Json<'_>],
    calls: &Calls,
    call_of: &dyn Fn(&str) -> Option<usize>,
    options: &Options,
) -> Result<(InterruptRequest<'static>, Snapshot), ItemError> {
    let mut snapshot = Snapshot::default();
    let mut taken = HashSet::new();
    for one in interrupts {
        let interrupt = one.str("id").map(|id| id.lossy().into_owned()).unwrap_or_default();
        let call = call_of(&interrupt).filter(|at| taken.insert(*at)).and_then(|at| calls.get(at));
        snapshot.pauses.push(Pause {
            approval: call.is_some() && interrupt.contains(":before_tool_call:"),
            interrupt,
            prefix: String::new(),
            call: call.map(|call| call.id.as_str().to_owned()),
        });
    }
    for (_, call) in calls.open() {
        if call.native != call.id.as_str() {
            snapshot.aliases.push((call.native.clone(), call.id.as_str().to_owned()));
        }
    }
    let approving = snapshot.approving();
    let (mut approvals, mut prompts, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    for (one, pause) in interrupts.iter().zip(&mut snapshot.pauses) {
        if approving {
            let call = calls.open().find(|(_, call)| Some(call.id.as_str()) == pause.call.as_deref());
            let Some((_, call)) = call else {
                return Err(ItemError::Shape { what: "interrupts that belong to calls" });
            };
            let first = if pause.approval { Decision::Approve } else { Decision::Edit };
            approvals.push(ToolApproval {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                tool_args: project::arguments(&call.arguments, options)?,
                allowed_decisions: vec![first, Decision::Reject],
            });
        } else {
            if !prompts.is_empty() {
                pause.prefix = format!("{}.", prompts.len() + 1);
            }
            prompts.push(question(one.get("reason").unwrap_or(&Json::Null), options));
            fields.push(answer(&pause.prefix, options)?);
        }
    }
    let request = if approving {
        InterruptRequest::Approvals(approvals)
    } else {
        let prompt = text::cut(&prompts.join("\n\n"), options.limits.prompt_bytes).into_owned();
        InterruptRequest::Form { prompt: prompt.into(), fields }
    };
    Ok((request, snapshot))
}

/// The list of interrupt responses for an answer.
///
/// # Errors
/// The answer does not fit what was asked.
pub(super) fn resume_value(snapshot: &Snapshot, answer: &Answer) -> Result<String, AnswerError> {
    if snapshot.pauses.is_empty() {
        return Err(AnswerError::NothingAsked);
    }
    if let Answer::Decisions(decisions) = answer {
        let asked = |decided: &Decided| {
            snapshot.pauses.iter().any(|pause| pause.call.as_deref() == Some(decided.tool_call_id.as_str()))
        };
        if let Some(other) = decisions.iter().find(|decided| !asked(decided)) {
            return Err(AnswerError::Unknown { tool_call_id: other.tool_call_id.clone() });
        }
    }
    let approving = snapshot.approving();
    let mut out = String::from("[");
    for pause in &snapshot.pauses {
        let response = match (approving, answer) {
            (true, Answer::Decisions(decisions)) => decided(pause, decisions)?,
            (false, Answer::Values(values)) => {
                let name = format!("{}answer", pause.prefix);
                member(values, &name).ok_or(AnswerError::MissingField { field_name: name })?
            }
            (false, Answer::Dismissed) => "null".to_owned(),
            (true, Answer::Values(_) | Answer::Dismissed) | (false, Answer::Decisions(_)) => {
                return Err(AnswerError::WrongKind);
            }
        };
        out.push_str(if out.len() > 1 { "," } else { "" });
        out.push_str("{\"interruptResponse\":{\"interruptId\":");
        write_string(&pause.interrupt, &mut out);
        out.push_str(",\"response\":");
        out.push_str(&response);
        out.push_str("}}");
    }
    out.push(']');
    Ok(out)
}

fn member(object: &JsonObject<'_>, key: &str) -> Option<String> {
    Json::parse(object.as_str().as_bytes()).ok()?.get(key).map(Json::to_text)
}

fn decided(pause: &Pause, decisions: &[Decided]) -> Result<String, AnswerError> {
    let found = decisions.iter().find(|one| Some(one.tool_call_id.as_str()) == pause.call.as_deref());
    let Some(one) = found else {
        return Err(AnswerError::Undecided { tool_call_id: pause.call.clone().unwrap_or_default() });
    };
    match (pause.approval, one.decision) {
        (true, Decision::Approve) => Ok("\"approve\"".to_owned()),
        (true, Decision::Reject) => Ok("\"reject\"".to_owned()),
        (false, Decision::Reject) => Ok("null".to_owned()),
        (false, Decision::Edit) => one
            .edited_args
            .as_ref()
            .and_then(|values| member(values, "answer"))
            .ok_or_else(|| AnswerError::NoArguments { tool_call_id: one.tool_call_id.clone() }),
        (true, Decision::Edit) | (false, Decision::Approve) => {
            Err(AnswerError::NotAllowed { tool_call_id: one.tool_call_id.clone(), decision: one.decision })
        }
    }
}

/// The answer behind a list of responses; `None` where it cannot be told.
pub(super) fn answer_of(snapshot: &Snapshot, value: &Json<'_>, limits: &Limits) -> Option<Answer> {
    let approving = snapshot.approving();
    let (mut decisions, mut values) = (Vec::new(), String::from("{"));
    for pause in &snapshot.pauses {
        let of = |one: &&Json<'_>| one.str("interruptId").is_some_and(|id| *id == *pause.interrupt.as_str());
        let mut responses = value.items().iter().filter_map(|one| one.get("interruptResponse"));
        let response = responses.find(of)?.get("response").unwrap_or(&Json::Null);
        if approving {
            let (decision, edited) = match (pause.approval, response) {
                (true, Json::String(word)) if *word == *"approve" => (Decision::Approve, None),
                (true, _) | (false, Json::Null) => (Decision::Reject, None),
                (false, other) => (Decision::Edit, Some(format!("{{\"answer\":{}}}", other.to_text()))),
            };
            decisions.push(Decided {
                tool_call_id: ToolCallId::new(pause.call.clone()?).ok()?,
                decision,
                edited_args: match edited {
                    Some(edited) => Some(JsonObject::parse(edited, limits).ok()?),
                    None => None,
                },
                message: None,
            });
        } else if *response == Json::Null {
            return Some(Answer::Dismissed);
        } else {
            values.push_str(if values.len() > 1 { "," } else { "" });
            write_string(&format!("{}answer", pause.prefix), &mut values);
            values.push(':');
            response.write(&mut values);
        }
    }
    if approving {
        return Some(Answer::Decisions(decisions));
    }
    values.push('}');
    Some(Answer::Values(JsonObject::parse(values, limits).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(approval: bool, prefix: &str) -> Pause {
        Pause {
            interrupt: "i\"1".to_owned(),
            approval,
            prefix: prefix.to_owned(),
            call: Some("c".to_owned()),
        }
    }

    fn decide(decision: Decision) -> Answer {
        let tool_call_id = ToolCallId::new("c").unwrap();
        Answer::Decisions(vec![Decided { tool_call_id, decision, edited_args: None, message: None }])
    }

    #[test]
    fn a_snapshot_reads_back() {
        let snapshot = Snapshot {
            pauses: vec![pause(true, ""), pause(false, "2.")],
            aliases: vec![("c".to_owned(), "c#2".to_owned())],
        };
        assert_eq!(Snapshot::from_json(&snapshot.to_json()), Some(snapshot));
        assert_eq!(Snapshot::from_json("{"), None);
    }

    #[test]
    fn answers_become_interrupt_responses_and_read_back() {
        let round = |snapshot: &Snapshot, answer: &Answer| {
            let value = resume_value(snapshot, answer).unwrap();
            let json = Json::parse(value.as_bytes()).unwrap();
            (value.clone(), answer_of(snapshot, &json, &Limits::DEFAULT))
        };
        let asked = Snapshot { pauses: vec![pause(true, "")], aliases: Vec::new() };
        for (decision, word) in [(Decision::Approve, "approve"), (Decision::Reject, "reject")] {
            let expected =
                format!(r#"[{{"interruptResponse":{{"interruptId":"i\"1","response":"{word}"}}}}]"#);
            assert_eq!(round(&asked, &decide(decision)), (expected, Some(decide(decision))));
        }
        assert!(matches!(resume_value(&asked, &decide(Decision::Edit)), Err(AnswerError::NotAllowed { .. })));
        assert_eq!(resume_value(&asked, &Answer::Dismissed), Err(AnswerError::WrongKind));
        let open = Snapshot { pauses: vec![pause(false, "")], aliases: Vec::new() };
        let blue = Answer::Values(JsonObject::parse(r#"{"answer":"blue"}"#, &Limits::DEFAULT).unwrap());
        assert_eq!(round(&open, &blue).1, Some(blue));
        assert_eq!(round(&open, &Answer::Dismissed).1, Some(Answer::Dismissed));
        let none = Answer::Values(JsonObject::EMPTY);
        assert_eq!(
            resume_value(&open, &none),
            Err(AnswerError::MissingField { field_name: "answer".to_owned() })
        );
        assert_eq!(resume_value(&Snapshot::default(), &none), Err(AnswerError::NothingAsked));
    }
}
