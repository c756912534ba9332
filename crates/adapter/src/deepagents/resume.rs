//! Answers: ours to the harness's resume value, and back where only the value is known.
//!
//! The value is what LangGraph takes: the bare answer when one interrupt waits, a map from native id to answer when
//! several do. The decisions of an approval stand in the order of its requests.

use std::collections::HashMap;

use causeway_contract::event::Decision;
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use super::interrupt::{asked_for, field_name};
use super::native::FORM;
use super::snapshot::{Kind, Pause, Snapshot};
use crate::json::{Json, write_string};
use crate::project::restored;
use crate::turn::{Answer, AnswerError, Decided, Edited, Resume};

/// The native value for an answer.
///
/// # Errors
/// The answer does not fit what the interrupt asked.
pub(super) fn resume_value(snapshot: &Snapshot, answer: &Answer) -> Result<String, AnswerError> {
    if let Answer::Decisions(decisions) = answer {
        for decided in decisions {
            let known = |pause: &Pause| pause.call.as_deref() == Some(decided.tool_call_id.as_str());
            if !snapshot.pauses.iter().any(known) {
                return Err(AnswerError::Unknown { tool_call_id: decided.tool_call_id.clone() });
            }
        }
    }
    let groups = snapshot.interrupts();
    let mut answers = Vec::new();
    for (id, pauses) in &groups {
        answers.push((*id, group_value(pauses, answer)?));
    }
    match answers.as_slice() {
        [] => Err(AnswerError::NothingAsked),
        // LangGraph takes a bare null for no answer at all; in a map it is one.
        [(_, value)] if value != "null" => Ok(value.clone()),
        all => {
            let mut out = String::from("{");
            for (n, (id, value)) in all.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_string(id, &mut out);
                out.push(':');
                out.push_str(value);
            }
            out.push('}');
            Ok(out)
        }
    }
}

fn group_value(pauses: &[&Pause], answer: &Answer) -> Result<String, AnswerError> {
    if let [pause] = pauses
        && pause.kind == Kind::Pause
    {
        return plain_value(pause, answer);
    }
    let mut out = String::from("{\"decisions\":[");
    for (n, pause) in pauses.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        decision(pause, answer, &mut out)?;
    }
    out.push_str("]}");
    Ok(out)
}

/// The value for a plain pause; null when the reviewer does not answer it.
fn plain_value(pause: &Pause, answer: &Answer) -> Result<String, AnswerError> {
    let missing = || AnswerError::MissingField { field_name: format!("{}answer", pause.prefix) };
    let from = |object: &JsonObject<'_>, key: &str| {
        let json = Json::parse(object.as_str().as_bytes()).ok()?;
        json.get(key).map(Json::to_text)
    };
    match answer {
        Answer::Values(values) => from(values, &format!("{}answer", pause.prefix)).ok_or_else(missing),
        Answer::Dismissed => Ok("null".to_owned()),
        Answer::Decisions(_) => {
            let decided = decided(pause, answer)?;
            match decided.decision {
                Decision::Edit => {
                    decided.edited_args.as_ref().and_then(|args| from(args, "answer")).ok_or_else(|| {
                        AnswerError::NoArguments { tool_call_id: decided.tool_call_id.clone() }
                    })
                }
                Decision::Reject => Ok("null".to_owned()),
                Decision::Approve => Err(AnswerError::NotAllowed {
                    tool_call_id: decided.tool_call_id.clone(),
                    decision: decided.decision,
                }),
            }
        }
    }
}

fn decided<'a>(pause: &Pause, answer: &'a Answer) -> Result<&'a Decided, AnswerError> {
    let Answer::Decisions(decisions) = answer else { return Err(AnswerError::WrongKind) };
    decisions
        .iter()
        .find(|decided| Some(decided.tool_call_id.as_str()) == pause.call.as_deref())
        .ok_or_else(|| AnswerError::Undecided { tool_call_id: pause.call.clone().unwrap_or_default() })
}

fn decision(pause: &Pause, answer: &Answer, out: &mut String) -> Result<(), AnswerError> {
    let edit = |arguments: &str, out: &mut String| {
        out.push_str("{\"type\":\"edit\",\"edited_action\":{\"name\":");
        write_string(&pause.name, out);
        out.push_str(",\"args\":");
        out.push_str(arguments);
        out.push_str("}}");
    };
    match (pause.kind, answer) {
        (Kind::Form, Answer::Values(values)) => {
            edit(&filled(&pause.arguments, values.as_str(), &pause.prefix), out);
        }
        (Kind::Form, Answer::Dismissed) => out.push_str("{\"type\":\"reject\"}"),
        (Kind::Approval | Kind::Form | Kind::Pause, Answer::Decisions(_)) => {
            let decided = decided(pause, answer)?;
            match decided.decision {
                Decision::Approve if pause.kind == Kind::Form => {
                    return Err(AnswerError::NotAllowed {
                        tool_call_id: decided.tool_call_id.clone(),
                        decision: decided.decision,
                    });
                }
                Decision::Approve => out.push_str("{\"type\":\"approve\"}"),
                Decision::Edit => {
                    let arguments = edited(pause, decided).ok_or_else(|| AnswerError::NoArguments {
                        tool_call_id: decided.tool_call_id.clone(),
                    })?;
                    edit(&arguments, out);
                }
                Decision::Reject => {
                    out.push_str("{\"type\":\"reject\"");
                    if let Some(message) = &decided.message {
                        out.push_str(",\"message\":");
                        write_string(message, out);
                    }
                    out.push('}');
                }
            }
        }
        (Kind::Approval | Kind::Pause, Answer::Values(_) | Answer::Dismissed) => {
            return Err(AnswerError::WrongKind);
        }
    }
    Ok(())
}

/// The arguments that an edit makes the tool run with.
fn edited(pause: &Pause, decided: &Decided) -> Option<String> {
    let arguments = decided.edited_args.as_ref()?;
    let json = Json::parse(arguments.as_str().as_bytes()).ok()?;
    if pause.kind == Kind::Form && json.get("fields").is_none() {
        return Some(filled(&pause.arguments, arguments.as_str(), &pause.prefix));
    }
    let original = Json::parse(pause.arguments.as_bytes()).ok()?;
    let mut out = String::new();
    restored(&json, Some(&original), &mut out);
    Some(out)
}

/// What the edits of an answer make of their calls.
pub(super) fn edits(snapshot: &Snapshot, answer: &Answer) -> Vec<Edited> {
    if !matches!(answer, Answer::Decisions(_)) {
        return Vec::new();
    }
    let of = |pause: &Pause| {
        let decided = decided(pause, answer).ok().filter(|decided| decided.decision == Decision::Edit)?;
        let whole = || {
            Some(Edited::Arguments {
                tool_call_id: decided.tool_call_id.clone(),
                arguments: edited(pause, decided)?,
            })
        };
        match pause.kind {
            Kind::Approval => whole(),
            Kind::Form => {
                let values = decided.edited_args.clone()?;
                let given = Json::parse(values.as_str().as_bytes()).ok()?;
                if given.get("fields").is_some() {
                    return whole(); // the form itself, filled in
                }
                let fields = asked_for(&pause.arguments, &pause.prefix)?;
                Some(Edited::Form { fields, values: values.clone() })
            }
            Kind::Pause => None,
        }
    };
    snapshot.pauses.iter().filter_map(of).collect()
}

/// The arguments of a form with `value` set in each field that has one.
pub(super) fn filled(arguments: &str, values: &str, prefix: &str) -> String {
    let (Ok(arguments), Ok(values)) = (Json::parse(arguments.as_bytes()), Json::parse(values.as_bytes()))
    else {
        return arguments.to_owned();
    };
    let given = |field: &Json<'_>, n: usize| {
        let name = format!("{prefix}{}", field_name(field, n));
        values.members().iter().rev().find(|(key, _)| key == name.as_str()).map(|(_, value)| value.to_text())
    };
    let mut out = String::from("{");
    for (n, (key, value)) in arguments.members().iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write_string(&key.lossy(), &mut out);
        out.push(':');
        if key != "fields" {
            value.write(&mut out);
            continue;
        }
        out.push('[');
        for (n, field) in value.items().iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            match (field, given(field, n)) {
                (Json::Object(members), Some(given)) => {
                    out.push('{');
                    for (key, value) in members.iter().filter(|(key, _)| key != "value") {
                        write_string(&key.lossy(), &mut out);
                        out.push(':');
                        value.write(&mut out);
                        out.push(',');
                    }
                    out.push_str("\"value\":");
                    out.push_str(&given);
                    out.push('}');
                }
                (field, Some(_) | None) => field.write(&mut out),
            }
        }
        out.push(']');
    }
    out.push('}');
    out
}

/// The answer behind a native resume value; `None` where it cannot be told.
pub(super) fn answer_of(snapshot: &Snapshot, value: &Json<'_>, limits: &Limits) -> Option<Answer> {
    let groups = snapshot.interrupts();
    let approvals = snapshot.pauses.iter().any(|pause| pause.kind == Kind::Approval);
    let mut decisions = Vec::new();
    let mut values = String::new();
    let mut dismissed = false;
    let mut put = |name: &str, value: &Json<'_>| {
        values.push(if values.is_empty() { '{' } else { ',' });
        write_string(name, &mut values);
        values.push(':');
        value.write(&mut values);
    };
    for (id, pauses) in &groups {
        let own = value.members().iter().find(|(key, _)| key == *id).map(|(_, value)| value);
        let own = if groups.len() == 1 { own.unwrap_or(value) } else { own? };
        if let [Pause { kind: Kind::Pause, call, prefix, .. }] = pauses.as_slice() {
            if approvals {
                let answered = *own != Json::Null;
                let edited = answered.then(|| format!("{{\"answer\":{}}}", own.to_text()));
                decisions.push(Decided {
                    tool_call_id: ToolCallId::new(call.clone()?).ok()?,
                    decision: if answered { Decision::Edit } else { Decision::Reject },
                    edited_args: edited.and_then(|text| JsonObject::parse(text, limits).ok()),
                    message: None,
                });
            } else if *own == Json::Null {
                dismissed = true;
            } else {
                put(&format!("{prefix}answer"), own);
            }
            continue;
        }
        let given = own.list("decisions");
        if given.len() != pauses.len() {
            return None;
        }
        for (pause, given) in pauses.iter().zip(given) {
            let decision = Decision::parse(given.text("type")?)?;
            let edited = given.get("edited_action").and_then(|action| action.get("args"));
            if !approvals {
                match (decision, edited) {
                    (Decision::Edit, Some(args)) => {
                        for (n, field) in args.list("fields").iter().enumerate() {
                            if let Some(value) = field.get("value") {
                                put(&format!("{}{}", pause.prefix, field_name(field, n)), value);
                            }
                        }
                    }
                    (Decision::Reject, _) => dismissed = true,
                    (Decision::Approve | Decision::Edit, _) => return None,
                }
                continue;
            }
            decisions.push(Decided {
                tool_call_id: ToolCallId::new(pause.call.clone()?).ok()?,
                decision,
                edited_args: edited.and_then(|args| JsonObject::parse(args.to_text(), limits).ok()),
                message: given.str("message").map(|text| text.lossy().into_owned()),
            });
        }
    }
    if approvals {
        return Some(Answer::Decisions(decisions));
    }
    if dismissed {
        return Some(Answer::Dismissed);
    }
    values.push_str(if values.is_empty() { "{}" } else { "}" });
    Some(Answer::Values(JsonObject::parse(values, limits).ok()?))
}

/// How a refusal is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    /// A reviewer refused the call: `tool_rejected`.
    Rejected,
    /// A form was closed without an answer: `tool_status_error`.
    Dismissed,
}

/// What was decided on the calls of the interrupted run, by canonical id.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// The arguments to run instead.
    pub edits: HashMap<String, String>,
    /// Calls that will not run.
    pub refusals: HashMap<String, Refusal>,
}

impl Verdicts {
    /// The verdicts of an answer.
    pub(super) fn of(resume: &Resume, snapshot: &Snapshot) -> Self {
        let mut verdicts = Self::default();
        let Some(answer) = &resume.answer else { return verdicts };
        let guessed;
        let pauses = if snapshot.pauses.is_empty() {
            guessed = guess(resume, answer);
            &guessed
        } else {
            &snapshot.pauses
        };
        for pause in pauses {
            let Some(call) = pause.call.clone() else { continue };
            match (pause.kind, answer) {
                (Kind::Pause, _) => {}
                (Kind::Form, Answer::Values(values)) => {
                    verdicts.edits.insert(call, filled(&pause.arguments, values.as_str(), &pause.prefix));
                }
                (Kind::Form, Answer::Dismissed) => {
                    verdicts.refusals.insert(call, Refusal::Dismissed);
                }
                (Kind::Approval, Answer::Values(_) | Answer::Dismissed) => {}
                (kind, Answer::Decisions(_)) => {
                    let Ok(decided) = decided(pause, answer) else { continue };
                    match decided.decision {
                        Decision::Approve => {}
                        Decision::Edit => {
                            if let Some(arguments) = edited(pause, decided) {
                                verdicts.edits.insert(call, arguments);
                            }
                        }
                        Decision::Reject => {
                            let refusal =
                                if kind == Kind::Form { Refusal::Dismissed } else { Refusal::Rejected };
                            verdicts.refusals.insert(call, refusal);
                        }
                    }
                }
            }
        }
        verdicts
    }
}

/// The pauses of an interrupt whose snapshot is not at hand, from its open calls.
fn guess(resume: &Resume, answer: &Answer) -> Vec<Pause> {
    let mut forms = 0;
    let mut pauses = Vec::new();
    for call in &resume.open_calls {
        let form = call.name == *FORM;
        forms += usize::from(form);
        let decided = match answer {
            Answer::Decisions(decisions) => decisions.iter().any(|decided| decided.tool_call_id == call.id),
            Answer::Values(_) | Answer::Dismissed => form,
        };
        if decided {
            pauses.push(Pause {
                interrupt: String::new(),
                kind: if form { Kind::Form } else { Kind::Approval },
                prefix: if forms > 1 { format!("{forms}.") } else { String::new() },
                call: Some(call.id.as_str().to_owned()),
                name: call.name.as_str().to_owned(),
                arguments: call.arguments.as_str().to_owned(),
            });
        }
    }
    pauses
}
