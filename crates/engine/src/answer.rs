//! An answer to an interrupt: what it may say, whether it fits, and how it is written down.
//!
//! Refuses an answer that leaves something undecided, decides what was not asked, or decides it in a way that the
//! interrupt does not allow. It reads no store and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_adapter::json::Json;
use causeway_adapter::redact::redact;
use causeway_adapter::turn::{AnswerError, Edited};
use causeway_contract::event::{Decision, FormField, InterruptRequest, ToolApproval};
use causeway_contract::id::{InterruptId, RunId, ToolCallId};
use causeway_contract::json::{JsonObject, check_object};
use causeway_contract::limits::Limits;
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::{Mismatch, ToolSchemas as _};
use causeway_store::model::{Owner, Revision};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use causeway_adapter::turn::{Answer, Decided};

use crate::schema::Schemas;

/// A request to answer the interrupt of a run.
#[derive(Clone, Debug)]
pub struct AnswerRun {
    /// Whose run.
    pub owner: Owner,
    /// The interrupted run.
    pub run_id: RunId<'static>,
    /// Its interrupt.
    pub interrupt_id: InterruptId<'static>,
    /// The interrupt's revision, so that an answer to a former one is told from one to this.
    pub revision: Revision,
    /// The answer.
    pub answer: Answer,
    /// The route through which it came, for the decision record.
    pub route: &'static str,
    /// The client's key for "the same answer again".
    pub idempotency_key: Option<Arc<str>>,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// Why an answer does not fit its interrupt. Texts name calls and fields, never values.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Misfit {
    /// The harness's own check said no.
    #[error(transparent)]
    Harness(#[from] AnswerError),
    /// A call is decided twice.
    #[error("call {tool_call_id} is decided twice")]
    Twice {
        /// The call.
        tool_call_id: ToolCallId<'static>,
    },
    /// Arguments with a decision that is no edit.
    #[error("call {tool_call_id} has edited arguments, but is not edited")]
    ArgumentsWithoutEdit {
        /// The call.
        tool_call_id: ToolCallId<'static>,
    },
    /// A message with a decision that is no refusal.
    #[error("call {tool_call_id} has a message, but is not rejected")]
    MessageWithoutReject {
        /// The call.
        tool_call_id: ToolCallId<'static>,
    },
    /// A value for a field that the form does not have.
    #[error("the form has no field {field_name}")]
    UnknownField {
        /// The name given.
        field_name: String,
    },
    /// A value that is not one of those the field offers.
    #[error("the field {field_name} does not offer this value")]
    NotOffered {
        /// The field.
        field_name: String,
    },
    /// Edited arguments that do not satisfy the schema of their tool. It names places, never values.
    #[error("the edited arguments of call {tool_call_id} do not satisfy the schema of its tool {mismatch}")]
    NotOfSchema {
        /// The call.
        tool_call_id: ToolCallId<'static>,
        /// Where.
        mismatch: Mismatch,
    },
    /// A value of another type than the field's.
    #[error("the field {field_name} takes a value of type {field_type}")]
    OtherType {
        /// The field.
        field_name: String,
        /// What it takes.
        field_type: String,
    },
    /// Arguments or values that are no JSON object as the agent's limits have it, or text that holds U+0000.
    #[error("{what} nests too deep, or holds U+0000")]
    Malformed {
        /// What it is.
        what: &'static str,
    },
    /// Arguments, values or a message above the bounds.
    #[error("{what} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Checks that an answer decides everything that was asked, and nothing else.
pub(crate) fn check(request: &InterruptRequest<'_>, answer: &Answer, limits: &Limits) -> Result<(), Misfit> {
    match (request, answer) {
        (InterruptRequest::Approvals(approvals), Answer::Decisions(decisions)) => {
            decided(approvals, decisions, limits)
        }
        (InterruptRequest::Form { fields, .. }, Answer::Values(values)) => filled(fields, values, limits),
        (InterruptRequest::Form { .. }, Answer::Dismissed) => Ok(()),
        (InterruptRequest::Approvals(_), Answer::Values(_) | Answer::Dismissed)
        | (InterruptRequest::Form { .. }, Answer::Decisions(_)) => Err(AnswerError::WrongKind.into()),
    }
}

fn decided(approvals: &[ToolApproval<'_>], decisions: &[Decided], limits: &Limits) -> Result<(), Misfit> {
    for (at, one) in decisions.iter().enumerate() {
        let tool_call_id = || one.tool_call_id.clone();
        let asked = approvals.iter().find(|approval| approval.tool_call_id == one.tool_call_id);
        let Some(approval) = asked else {
            return Err(AnswerError::Unknown { tool_call_id: tool_call_id() }.into());
        };
        if decisions.iter().take(at).any(|former| former.tool_call_id == one.tool_call_id) {
            return Err(Misfit::Twice { tool_call_id: tool_call_id() });
        }
        if !approval.allows(one.decision) {
            let decision = one.decision;
            return Err(AnswerError::NotAllowed { tool_call_id: tool_call_id(), decision }.into());
        }
        match (&one.edited_args, one.decision) {
            (None, Decision::Edit) => {
                return Err(AnswerError::NoArguments { tool_call_id: tool_call_id() }.into());
            }
            (Some(_), Decision::Approve | Decision::Reject) => {
                return Err(Misfit::ArgumentsWithoutEdit { tool_call_id: tool_call_id() });
            }
            (Some(arguments), Decision::Edit) => sound("edited_args", arguments, limits)?,
            (None, Decision::Approve | Decision::Reject) => {}
        }
        if let Some(message) = &one.message {
            if one.decision != Decision::Reject {
                return Err(Misfit::MessageWithoutReject { tool_call_id: tool_call_id() });
            }
            bounded("message", message.len(), limits.tool_error_bytes)?;
            if message.contains('\0') {
                return Err(Misfit::Malformed { what: "message" });
            }
        }
    }
    let open =
        |approval: &&ToolApproval<'_>| !decisions.iter().any(|one| one.tool_call_id == approval.tool_call_id);
    match approvals.iter().find(open) {
        Some(left) => {
            Err(AnswerError::Undecided { tool_call_id: left.tool_call_id.as_str().to_owned() }.into())
        }
        None => Ok(()),
    }
}

fn filled(fields: &[FormField<'_>], values: &JsonObject<'_>, limits: &Limits) -> Result<(), Misfit> {
    sound("values", values, limits)?;
    let values = members(values);
    let unknown = |name: &&String| !fields.iter().any(|field| field.field_name.as_str() == name.as_str());
    if let Some(field_name) = values.keys().find(unknown) {
        // Of a name that may be anything, enough to find it.
        return Err(Misfit::UnknownField { field_name: field_name.chars().take(64).collect() });
    }
    for field in fields {
        let field_name = || field.field_name.as_str().to_owned();
        let value = values.get(field.field_name.as_str()).filter(|value| !is_blank(value));
        let Some(value) = value else {
            if field.required {
                return Err(AnswerError::MissingField { field_name: field_name() }.into());
            }
            continue;
        };
        if !offers(&members(&field.object), value) {
            return Err(Misfit::NotOffered { field_name: field_name() });
        }
        if !is_of_type(field.field_type.as_str(), value) {
            let field_type = field.field_type.to_string();
            return Err(Misfit::OtherType { field_name: field_name(), field_type });
        }
    }
    Ok(())
}

/// What the edits make of their calls, against the schemas of the tools and the fields of forms among approvals.
pub(crate) fn check_edits(
    request: &InterruptRequest<'_>,
    edits: &[Edited],
    schemas: &Schemas,
    limits: &Limits,
) -> Result<(), Misfit> {
    let InterruptRequest::Approvals(approvals) = request else { return Ok(()) };
    for edit in edits {
        match edit {
            Edited::Form { fields, values } => filled(fields, values, limits)?,
            Edited::Arguments { tool_call_id, arguments } => {
                let asked = approvals.iter().find(|approval| approval.tool_call_id == *tool_call_id);
                let Some(approval) = asked else { continue };
                schemas.check(approval.tool_name.as_str(), arguments).map_err(|mismatch| {
                    Misfit::NotOfSchema { tool_call_id: tool_call_id.clone(), mismatch }
                })?;
            }
        }
    }
    Ok(())
}

/// Whether a value is of the type that its field names. Clients send text for anything; types that are not known here
/// are the harness's to judge.
fn is_of_type(field_type: &str, value: &Value) -> bool {
    match (field_type, value) {
        ("number" | "integer", Value::String(text)) => {
            let number: Option<Value> = serde_json::from_str(text.trim()).ok();
            number.is_some_and(|number| is_of_type(field_type, &number) && number.is_number())
        }
        ("integer", Value::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        ("number", value) => value.is_number(),
        ("integer", _) => false,
        ("boolean" | "bool", Value::String(text)) => matches!(text.as_str(), "true" | "false"),
        ("boolean" | "bool", value) => value.is_boolean(),
        // The answer to a plain pause is a field of text that takes any value; several may be chosen of those offered.
        _ => true,
    }
}

/// Whether a field takes this value: one of its `field_values`, or several where the value is a list.
fn offers(field: &serde_json::Map<String, Value>, value: &Value) -> bool {
    let Some(Value::Array(offered)) = field.get("field_values") else { return true };
    let offered = |value: &Value| {
        offered.is_empty()
            || offered.iter().any(|choice| choice == value || choice.get("value").is_some_and(|v| v == value))
    };
    match value {
        Value::Array(several) => several.iter().all(offered),
        one => offered(one),
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(several) => several.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// The members of an object that was checked when it was made.
fn members(object: &JsonObject<'_>) -> serde_json::Map<String, Value> {
    serde_json::from_str(object.as_str()).unwrap_or_default()
}

/// Within the limits of the agent: size, depth, characters.
fn sound(what: &'static str, object: &JsonObject<'_>, limits: &Limits) -> Result<(), Misfit> {
    bounded(what, object.as_str().len(), limits.arguments_bytes)?;
    match check_object(object.as_str(), limits) {
        Ok(()) => Ok(()),
        Err(_) => Err(Misfit::Malformed { what }),
    }
}

fn bounded(what: &'static str, bytes: usize, limit: usize) -> Result<(), Misfit> {
    if bytes <= limit { Ok(()) } else { Err(Misfit::TooLarge { what, bytes, limit }) }
}

/// The answer as the members of a JSON object, without the braces: as it is stored, shown and hashed.
fn written(answer: &Answer) -> String {
    match answer {
        Answer::Values(values) => format!("\"values\":{}", values.as_str()),
        Answer::Dismissed => "\"dismissed\":true".to_owned(),
        Answer::Decisions(decisions) => {
            let decisions: Vec<String> = decisions.iter().map(one_decision).collect();
            format!("\"decisions\":[{}]", decisions.join(","))
        }
    }
}

fn one_decision(decided: &Decided) -> String {
    let mut out = format!(
        "{{\"tool_call_id\":{},\"decision\":\"{}\"",
        Value::from(decided.tool_call_id.as_str()),
        decided.decision
    );
    if let Some(arguments) = &decided.edited_args {
        out.push_str(",\"edited_args\":");
        out.push_str(arguments.as_str());
    }
    if let Some(message) = &decided.message {
        out.push_str(",\"message\":");
        out.push_str(&Value::from(message.as_str()).to_string());
    }
    out.push('}');
    out
}

/// What the resumed run was asked, as its row says it.
pub(crate) fn request_json(answer: &Answer) -> String {
    format!("{{{}}}", written(answer))
}

/// The answer in words of ours: which decisions, and how many of each; no value and no message.
pub(crate) fn in_short(answer: &Answer) -> String {
    match answer {
        Answer::Values(_) => "submitted".to_owned(),
        Answer::Dismissed => "dismissed".to_owned(),
        Answer::Decisions(decisions) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for decided in decisions {
                *counts.entry(decided.decision.to_string()).or_default() += 1;
            }
            let words: Vec<String> = counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
            words.join(", ")
        }
    }
}

/// The decision record: who, when, through which route, and what.
pub(crate) fn record_json(by: &Owner, route: &str, answer: &Answer, at: &Timestamp<'_>) -> String {
    format!(
        "{{\"answered_by\":{},\"answered_at\":\"{at}\",\"route\":\"{route}\",{}}}",
        Value::from(by.as_str()),
        written(answer)
    )
}

/// The answer as it is shown where the agent hides secrets in content. What the harness gets is the answer itself.
pub(crate) fn redacted(answer: &Answer, limits: &Limits) -> Answer {
    let object = |object: &JsonObject<'_>| {
        let mut out = String::new();
        if let Ok(json) = Json::parse(object.as_str().as_bytes()) {
            json.write_with(&mut out, &mut |text, out| out.push_str(&redact(text)));
        }
        JsonObject::parse(out, limits).unwrap_or(JsonObject::EMPTY)
    };
    match answer {
        Answer::Dismissed => Answer::Dismissed,
        Answer::Values(values) => Answer::Values(object(values)),
        Answer::Decisions(decisions) => Answer::Decisions(
            decisions
                .iter()
                .map(|one| Decided {
                    edited_args: one.edited_args.as_ref().map(object),
                    message: one.message.as_ref().map(|message| redact(message).into_owned()),
                    ..one.clone()
                })
                .collect(),
        ),
    }
}

/// What an idempotency key stands for: this answer to this interrupt.
pub(crate) fn hash(answer: &AnswerRun) -> [u8; 32] {
    let mut digest = Sha256::new();
    let revision = answer.revision.to_string();
    let said = written(&answer.answer);
    for part in ["answer", answer.run_id.as_str(), answer.interrupt_id.as_str(), &revision, &said] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use causeway_contract::id::Name;

    use super::*;

    fn object(text: &'static str) -> JsonObject<'static> {
        JsonObject::parse(text, &Limits::DEFAULT).unwrap()
    }

    fn approval(id: &'static str, allowed: &[Decision]) -> ToolApproval<'static> {
        ToolApproval {
            tool_call_id: ToolCallId::new(id).unwrap(),
            tool_name: Name::new("restart").unwrap(),
            tool_args: JsonObject::EMPTY,
            allowed_decisions: allowed.to_vec(),
        }
    }

    fn on(id: &'static str, decision: Decision) -> Decided {
        Decided { tool_call_id: ToolCallId::new(id).unwrap(), decision, edited_args: None, message: None }
    }

    fn said(request: &InterruptRequest<'_>, answer: &Answer) -> String {
        check(request, answer, &Limits::DEFAULT).map_or_else(|misfit| misfit.to_string(), |()| "fits".into())
    }

    #[test]
    fn every_call_is_decided_once_and_as_it_may_be() {
        let request =
            InterruptRequest::Approvals(vec![approval("a", &[]), approval("b", &[Decision::Approve])]);
        let decide = |decisions: Vec<Decided>| said(&request, &Answer::Decisions(decisions));
        let (a, b) = (on("a", Decision::Approve), on("b", Decision::Approve));
        assert_eq!(decide(vec![b.clone(), a.clone()]), "fits", "in any order");
        assert_eq!(decide(vec![a.clone()]), "call b is not decided");
        assert_eq!(decide(vec![]), "call a is not decided");
        assert_eq!(decide(vec![a.clone(), a.clone(), b.clone()]), "call a is decided twice");
        assert_eq!(
            decide(vec![a.clone(), b.clone(), on("c", Decision::Approve)]),
            "the interrupt does not ask about call c"
        );
        assert_eq!(decide(vec![a.clone(), on("b", Decision::Reject)]), "call b does not allow `reject`");
        let edit = on("a", Decision::Edit);
        assert_eq!(
            decide(vec![edit.clone(), b.clone()]),
            "the edit of call a has no arguments to go on with"
        );
        let edit = Decided { edited_args: Some(object(r#"{"n":1}"#)), ..edit };
        assert_eq!(decide(vec![edit.clone(), b.clone()]), "fits");
        let odd = Decided { decision: Decision::Approve, ..edit };
        assert_eq!(decide(vec![odd, b.clone()]), "call a has edited arguments, but is not edited");
        let odd = Decided { message: Some("no".to_owned()), ..a };
        assert_eq!(decide(vec![odd, b.clone()]), "call a has a message, but is not rejected");
        let refusal = Decided { message: Some("no".to_owned()), ..on("a", Decision::Reject) };
        assert_eq!(decide(vec![refusal.clone(), b.clone()]), "fits");
        let long = Decided { message: Some("x".repeat(65_537)), ..refusal };
        assert_eq!(decide(vec![long, b]), "message has 65537 bytes, the limit is 65536");
        assert_eq!(said(&request, &Answer::Dismissed), "the answer is of another kind than the interrupt");
    }

    #[test]
    fn a_form_is_filled_with_what_its_fields_take() {
        let field = |text: &'static str, name: &'static str, required| FormField {
            object: object(text),
            field_name: Name::new(name).unwrap(),
            field_type: Name::new("text").unwrap(),
            required,
        };
        let fields = vec![
            field(r#"{"field_name":"env","field_type":"text","field_values":["dev","prod"]}"#, "env", true),
            field(r#"{"field_name":"n","field_type":"text","field_values":[{"value":2}]}"#, "n", false),
            field(r#"{"field_name":"why","field_type":"text","field_values":[]}"#, "why", false),
        ];
        let mut fields = fields;
        for (name, kind) in [("count", "number"), ("whole", "integer"), ("sure", "boolean")] {
            let named = Name::new(name).unwrap();
            let object = JsonObject::EMPTY;
            fields.push(FormField {
                object,
                field_name: named,
                field_type: Name::new(kind).unwrap(),
                required: false,
            });
        }
        let request = InterruptRequest::Form { prompt: "Where?".into(), fields };
        let fill = |text: &'static str| said(&request, &Answer::Values(object(text)));
        assert_eq!(fill(r#"{"env":"dev"}"#), "fits");
        assert_eq!(fill(r#"{"env":["dev","prod"],"n":2,"why":"so"}"#), "fits");
        assert_eq!(fill(r#"{"env":"dev","n":null,"why":""}"#), "fits", "left empty");
        for blank in [r#"{}"#, r#"{"env":null}"#, r#"{"env":""}"#, r#"{"env":[]}"#] {
            assert_eq!(fill(blank), "the field env has no value", "{blank}");
        }
        assert_eq!(fill(r#"{"env":"moon"}"#), "the field env does not offer this value");
        assert_eq!(fill(r#"{"env":["dev","moon"]}"#), "the field env does not offer this value");
        assert_eq!(fill(r#"{"env":"dev","n":3}"#), "the field n does not offer this value");
        for typed in [
            r#""count":"1.5""#,
            r#""count":3"#,
            r#""whole":"7""#,
            r#""whole":2.0"#,
            r#""sure":"true""#,
            r#""sure":false"#,
        ] {
            let text: &'static str = format!(r#"{{"env":"dev",{typed}}}"#).leak();
            assert_eq!(fill(text), "fits", "{typed}");
        }
        assert_eq!(fill(r#"{"env":"dev","count":"many"}"#), "the field count takes a value of type number");
        assert_eq!(fill(r#"{"env":"dev","count":[1]}"#), "the field count takes a value of type number");
        assert_eq!(fill(r#"{"env":"dev","whole":1.5}"#), "the field whole takes a value of type integer");
        assert_eq!(fill(r#"{"env":"dev","sure":"maybe"}"#), "the field sure takes a value of type boolean");
        assert_eq!(fill(r#"{"env":"dev","x":3}"#), "the form has no field x");
        assert_eq!(said(&request, &Answer::Dismissed), "fits");
        assert_eq!(
            said(&request, &Answer::Decisions(vec![])),
            "the answer is of another kind than the interrupt"
        );
    }

    #[test]
    fn the_record_says_who_when_where_and_what() {
        let refusal = Decided { message: Some("not \"now\"".to_owned()), ..on("a", Decision::Reject) };
        let edit = Decided { edited_args: Some(object(r#"{"n":1.0}"#)), ..on("b", Decision::Edit) };
        let answer = AnswerRun {
            owner: Owner::local(),
            run_id: RunId::new("run-1").unwrap(),
            interrupt_id: InterruptId::new("int-1").unwrap(),
            revision: Revision::new(3),
            answer: Answer::Decisions(vec![refusal, edit]),
            route: "/api/v1/runs/{id}/resume",
            idempotency_key: None,
            traceparent: None,
        };
        let at = Timestamp::parse("2026-08-17T00:00:00Z").unwrap();
        let what = r#""decisions":[{"tool_call_id":"a","decision":"reject","message":"not \"now\""},{"tool_call_id":"b","decision":"edit","edited_args":{"n":1.0}}]"#;
        assert_eq!(
            record_json(&answer.owner, answer.route, &answer.answer, &at),
            format!(
                r#"{{"answered_by":"local","answered_at":"2026-08-17T00:00:00Z","route":"/api/v1/runs/{{id}}/resume",{what}}}"#
            )
        );
        assert_eq!(request_json(&answer.answer), format!("{{{what}}}"));
        let secret = Decided {
            edited_args: Some(object(r#"{"header":"Bearer abcdefghijklmnop0123456789","n":1.0}"#)),
            ..on("a", Decision::Edit)
        };
        assert_eq!(
            request_json(&redacted(&Answer::Decisions(vec![secret]), &Limits::DEFAULT)),
            r#"{"decisions":[{"tool_call_id":"a","decision":"edit","edited_args":{"header":"Bearer [redacted]","n":1.0}}]}"#
        );
        let other = AnswerRun { revision: Revision::new(4), ..answer.clone() };
        assert_eq!(hash(&answer), hash(&answer.clone()));
        assert_ne!(hash(&answer), hash(&other));
    }
}
