//! Interrupts of AG-UI as one canonical request, and an answer as the `resume` that AG-UI takes.
//!
//! An interrupt about a call is an approval; any other is a form, with the fields of its schema, or a plain pause where it has
//! none (decisions §6). What a client of the established format answers is built too, where that is what asked.
//!
//! It is one piece: what asks and what answers have to agree on the same snapshot.

use std::collections::HashSet;

use causeway_contract::event::{Decision, InterruptRequest, ToolApproval};
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::adapter::ItemError;
use crate::calls;
use crate::deepagents::interrupt::{answer, form_field, question};
use crate::json::{Json, write_string};
use crate::project;
use crate::scribe::Scribe;
use crate::text;
use crate::turn::{Answer, AnswerError, Decided, Edited, Options};

/// What kind of interrupt one is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Approval,
    Form,
    Pause,
}

impl Kind {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Approval, "approval"), (Self::Form, "form"), (Self::Pause, "pause")];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }
}

/// One interrupt that waits.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Pause {
    /// Its native id.
    interrupt: String,
    kind: Kind,
    /// What the names of its fields start with.
    prefix: String,
    /// The call it is about, by its canonical id.
    call: Option<String>,
    /// The arguments of that call, with nothing hidden.
    arguments: String,
    tool: String,
}

/// What an interrupted run leaves for its answer. Stored with the interrupt and never shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Snapshot {
    /// Whether the established format asked.
    established: bool,
    /// In the server's order.
    pauses: Vec<Pause>,
    /// Native ids of open calls whose canonical id differs, with that.
    pub aliases: Vec<(String, String)>,
}

impl Snapshot {
    pub(super) fn to_json(&self) -> String {
        let mut out = format!("{{\"established\":{},\"pauses\":[", self.established);
        for (n, pause) in self.pauses.iter().enumerate() {
            out.push_str(if n > 0 { ",{\"kind\":" } else { "{\"kind\":" });
            write_string(pause.kind.as_str(), &mut out);
            for (key, value) in [
                ("interrupt", Some(&pause.interrupt)),
                ("prefix", Some(&pause.prefix)),
                ("call", pause.call.as_ref()),
                ("arguments", Some(&pause.arguments)),
                ("tool", Some(&pause.tool)),
            ] {
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
        let mut snapshot =
            Self { established: json.get("established") == Some(&Json::Bool(true)), ..Self::default() };
        for pause in json.list("pauses") {
            snapshot.pauses.push(Pause {
                interrupt: owned(pause, "interrupt")?,
                kind: Kind::parse(pause.text("kind")?)?,
                prefix: owned(pause, "prefix")?,
                call: owned(pause, "call"),
                arguments: owned(pause, "arguments")?,
                tool: owned(pause, "tool")?,
            });
        }
        snapshot.aliases = calls::read_aliases(json.list("aliases"))?;
        Some(snapshot)
    }

    fn approving(&self) -> bool {
        self.pauses.iter().any(|pause| pause.kind == Kind::Approval)
    }

    /// The call of an interrupt, and whether a rejection of it is that of an approval.
    pub(super) fn asked(&self, call: &str) -> Option<bool> {
        let asks = |pause: &&Pause| pause.call.as_deref() == Some(call);
        self.pauses.iter().find(asks).map(|pause| pause.kind == Kind::Approval)
    }
}

/// One interrupt as both formats tell it.
struct Asked<'j, 'a> {
    id: String,
    kind: Kind,
    call: Option<usize>,
    allowed: Vec<Decision>,
    prompt: Option<&'j Json<'a>>,
    fields: Vec<FieldOf<'j, 'a>>,
}

/// A field: given as an object, or made of a property of a schema.
enum FieldOf<'j, 'a> {
    Given(&'j Json<'a>),
    Made(String),
}

/// The request behind the `interrupts` of an outcome.
///
/// # Errors
/// A value cannot stand in an event.
pub(super) fn request(
    interrupts: &[Json<'_>],
    scribe: &mut Scribe,
) -> Result<(InterruptRequest<'static>, Snapshot), ItemError> {
    let is_about_call = |one: &Json<'_>| {
        one.text("reason") == Some("tool_call") || one.text("reason") == Some("tool_approval")
    };
    let approving = interrupts.iter().any(is_about_call);
    let mut taken = HashSet::new();
    let mut asked = Vec::new();
    for one in interrupts {
        let id = lossy(one, "id");
        let ours = one.get("metadata").and_then(|metadata| metadata.get("causeway"));
        let native = one.str("toolCallId").or_else(|| one.str("tool_call_id"));
        let native = native.map(|native| native.lossy().into_owned());
        let mut call = native.as_deref().and_then(|native| scribe.calls.open_by_native(native));
        call = call.filter(|at| taken.insert(*at));
        if approving && call.is_none() {
            // The server asks first, or about no call: one is started for it.
            let name = ours.map(|ours| lossy(ours, "toolName")).filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| "graph_node".to_owned());
            let arguments = ours.and_then(|ours| ours.get("toolArgs")).filter(|args| args.is_object());
            let arguments = arguments.map_or_else(|| "{}".to_owned(), Json::to_text);
            let native = native.unwrap_or_else(|| format!("node:{id}"));
            let at = scribe.start(&native, &name, &arguments, &Namespace::root(), None)?;
            taken.insert(at);
            call = Some(at);
        }
        let kind = if is_about_call(one) { Kind::Approval } else { Kind::Form };
        let fields = fields(one, ours);
        let kind = if kind == Kind::Form && fields.is_empty() { Kind::Pause } else { kind };
        asked.push(Asked { id, kind, call, allowed: allowed(one, ours), prompt: Some(one), fields });
    }
    merged(asked, false, scribe)
}

/// The request behind the `interrupt` object of the established format.
///
/// # Errors
/// As [`request`].
pub(super) fn established(
    interrupt: &Json<'_>,
    scribe: &mut Scribe,
) -> Result<(InterruptRequest<'static>, Snapshot), ItemError> {
    let payload = interrupt.get("payload").unwrap_or(&Json::Null);
    let id = lossy(interrupt, "id");
    let mut asked = Vec::new();
    if interrupt.text("reason") == Some("tool_approval") {
        let several = payload.list("tool_approvals");
        let entries = if several.is_empty() { std::slice::from_ref(payload) } else { several };
        let mut taken = HashSet::new();
        for (n, entry) in entries.iter().enumerate() {
            let name = lossy(entry, "tool_name");
            let named = entry.str("tool_call_id").map(|native| native.lossy().into_owned());
            let args = entry.get("tool_args").filter(|args| args.is_object());
            let of = |exact: bool| {
                let fits = |call: &calls::Call| {
                    call.name == *name.as_str()
                        && (!exact || args.is_none_or(|args| call.has_arguments(args)))
                };
                scribe.calls.open().find(|(at, call)| !taken.contains(at) && fits(call)).map(|(at, _)| at)
            };
            let found = named.as_deref().and_then(|native| scribe.calls.open_by_native(native));
            let call = match found.filter(|at| !taken.contains(at)).or_else(|| of(true)).or_else(|| of(false))
            {
                Some(at) => at,
                None => {
                    let native = named.unwrap_or_else(|| format!("node:{id}:{n}"));
                    let arguments = args.map_or_else(|| "{}".to_owned(), Json::to_text);
                    scribe.start(&native, &name, &arguments, &Namespace::root(), None)?
                }
            };
            taken.insert(call);
            let allowed = decisions(entry.list("allowed_decisions"));
            let (kind, id) = (Kind::Approval, id.clone());
            asked.push(Asked { id, kind, call: Some(call), allowed, prompt: None, fields: Vec::new() });
        }
    } else {
        let fields = payload.list("fields").iter().map(FieldOf::Given).collect();
        let (kind, allowed, prompt) = (Kind::Form, Vec::new(), Some(payload));
        asked.push(Asked { id, kind, call: None, allowed, prompt, fields });
    }
    merged(asked, true, scribe)
}

fn merged(
    asked: Vec<Asked<'_, '_>>,
    established: bool,
    scribe: &Scribe,
) -> Result<(InterruptRequest<'static>, Snapshot), ItemError> {
    let options = &scribe.options;
    let approving = asked.iter().any(|one| one.kind == Kind::Approval);
    let mut snapshot = Snapshot { established, ..Snapshot::default() };
    let (mut approvals, mut prompts, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    for one in asked {
        let call = one.call.and_then(|at| scribe.calls.get(at));
        let mut prefix = String::new();
        if approving {
            let Some(call) = call else {
                return Err(ItemError::Shape { what: "an interrupt that belongs to a call" });
            };
            let allowed = match one.kind {
                Kind::Approval => one.allowed,
                Kind::Form | Kind::Pause => vec![Decision::Edit, Decision::Reject],
            };
            approvals.push(ToolApproval {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                tool_args: project::arguments(&call.arguments, options)?,
                allowed_decisions: allowed,
            });
        } else {
            if !prompts.is_empty() {
                prefix = format!("{}.", prompts.len() + 1);
            }
            prompts.push(one.prompt.map(|prompt| asks(prompt, options)).unwrap_or_default());
            for (n, field) in one.fields.iter().enumerate() {
                fields.push(match field {
                    FieldOf::Given(field) => form_field(field, n, &prefix, options)?,
                    FieldOf::Made(text) => form_field(&Json::parse(text.as_bytes())?, n, &prefix, options)?,
                });
            }
            if one.kind == Kind::Pause {
                fields.push(answer(&prefix, options)?);
            }
        }
        snapshot.pauses.push(Pause {
            interrupt: one.id,
            kind: one.kind,
            prefix,
            call: call.map(|call| call.id.as_str().to_owned()),
            arguments: call.map_or_else(|| "{}".to_owned(), |call| call.arguments.clone()),
            tool: call.map_or_else(String::new, |call| call.name.as_str().to_owned()),
        });
    }
    let renamed = scribe.calls.open().filter(|(_, call)| call.native != call.id.as_str());
    snapshot.aliases = renamed.map(|(_, call)| (call.native.clone(), call.id.as_str().to_owned())).collect();
    if approving {
        return Ok((InterruptRequest::Approvals(approvals), snapshot));
    }
    let prompt = text::cut(&prompts.join("\n\n"), options.limits.prompt_bytes).into_owned();
    Ok((InterruptRequest::Form { prompt: prompt.into(), fields }, snapshot))
}

/// What an interrupt says to people; its id, reason and schema are not for them.
fn asks(interrupt: &Json<'_>, options: &Options) -> String {
    let words = ["message", "prompt"].iter().any(|key| interrupt.str(key).is_some());
    if words { question(interrupt, options) } else { String::new() }
}

/// The fields of a form: those that a gateway of our own names, or the properties of the schema.
fn fields<'j, 'a>(interrupt: &'j Json<'a>, ours: Option<&'j Json<'a>>) -> Vec<FieldOf<'j, 'a>> {
    let given = ours.map_or(&[][..], |ours| ours.list("fields"));
    if !given.is_empty() {
        return given.iter().map(FieldOf::Given).collect();
    }
    let schema = interrupt.get("responseSchema").or_else(|| interrupt.get("response_schema"));
    let Some(schema) = schema else { return Vec::new() };
    let required =
        |name: &str| schema.list("required").iter().any(|one| one.as_str().is_some_and(|one| one == name));
    let properties = schema.get("properties").map_or(&[][..], Json::members);
    let made = properties.iter().map(|(name, property)| {
        let name = name.lossy();
        let options = property.list("enum");
        let kind = match property.text("type") {
            _ if !options.is_empty() => "select",
            Some("number" | "integer") => "number",
            Some("boolean") => "boolean",
            Some(_) | None => "text",
        };
        let mut out = String::from("{\"field_name\":");
        write_string(&name, &mut out);
        out.push_str(&format!(",\"field_type\":\"{kind}\",\"required\":{}", required(&name)));
        for (key, value) in
            [("title", "field_label"), ("description", "field_description"), ("enum", "field_values")]
        {
            if let Some(told) = property.get(key) {
                out.push_str(&format!(",\"{value}\":"));
                told.write(&mut out);
            }
        }
        out.push('}');
        FieldOf::Made(out)
    });
    made.collect()
}

/// The decisions that an interrupt takes: what a gateway of our own says, else what the schema leaves.
fn allowed(interrupt: &Json<'_>, ours: Option<&Json<'_>>) -> Vec<Decision> {
    if let Some(given) = ours.and_then(|ours| ours.get("allowedDecisions")) {
        return decisions(given.items());
    }
    let schema = interrupt.get("responseSchema").or_else(|| interrupt.get("response_schema"));
    let properties = schema.and_then(|schema| schema.get("properties"));
    let edits = properties.is_some_and(|properties| properties.get("editedArgs").is_some());
    let mut allowed = vec![Decision::Approve, Decision::Reject];
    if edits {
        allowed.insert(1, Decision::Edit);
    }
    allowed
}

/// The decisions that we know; an empty list stands for all of them, so one of unknown words only allows to reject.
fn decisions(words: &[Json<'_>]) -> Vec<Decision> {
    let mut known = Vec::new();
    for decision in words.iter().filter_map(|word| word.as_str()?.as_plain()).filter_map(Decision::parse) {
        if !known.contains(&decision) {
            known.push(decision);
        }
    }
    if known.is_empty() && !words.is_empty() {
        known.push(Decision::Reject);
    }
    known
}

/// What goes back to the server.
///
/// # Errors
/// The answer does not fit what was asked.
pub(super) fn resume_value(snapshot: &Snapshot, answer: &Answer) -> Result<String, AnswerError> {
    if snapshot.pauses.is_empty() {
        return Err(AnswerError::NothingAsked);
    }
    if let Answer::Decisions(decisions) = answer {
        let asked = |decided: &Decided| snapshot.asked(decided.tool_call_id.as_str()).is_some();
        if let Some(other) = decisions.iter().find(|decided| !asked(decided)) {
            return Err(AnswerError::Unknown { tool_call_id: other.tool_call_id.clone() });
        }
    }
    let approving = snapshot.approving();
    let mut replies = Vec::new();
    for pause in &snapshot.pauses {
        replies.push(match (approving, answer) {
            (true, Answer::Decisions(decisions)) => decided(pause, decisions)?,
            (false, Answer::Values(values)) => {
                Reply { values: Some(own(pause, values)?), ..Reply::default() }
            }
            (false, Answer::Dismissed) => Reply::default(),
            (true, Answer::Values(_) | Answer::Dismissed) | (false, Answer::Decisions(_)) => {
                return Err(AnswerError::WrongKind);
            }
        });
    }
    let both = snapshot.pauses.iter().zip(&replies);
    Ok(if snapshot.established { told(approving, both) } else { resolved(both) })
}

/// What the edits of an answer make of their calls; forms are filled as the server asked.
pub(super) fn edits(snapshot: &Snapshot, answer: &Answer) -> Vec<Edited> {
    let Answer::Decisions(decisions) = answer else { return Vec::new() };
    let of = |pause: &Pause| {
        let reply = decided(pause, decisions).ok()?;
        let arguments = reply.values.filter(|_| reply.decision == Some(Decision::Edit))?;
        Some(Edited::Arguments { tool_call_id: ToolCallId::new(pause.call.clone()?).ok()?, arguments })
    };
    snapshot.pauses.iter().filter(|pause| pause.kind == Kind::Approval).filter_map(of).collect()
}

/// The answer to one interrupt; without anything in it, none was given.
#[derive(Debug, Default)]
struct Reply {
    decision: Option<Decision>,
    /// Edited arguments, or what was filled in, as JSON.
    values: Option<String>,
    message: Option<String>,
}

fn decided(pause: &Pause, decisions: &[Decided]) -> Result<Reply, AnswerError> {
    let found = decisions.iter().find(|one| Some(one.tool_call_id.as_str()) == pause.call.as_deref());
    let Some(one) = found else {
        return Err(AnswerError::Undecided { tool_call_id: pause.call.clone().unwrap_or_default() });
    };
    let values = match one.decision {
        Decision::Edit => {
            let missing = || AnswerError::NoArguments { tool_call_id: one.tool_call_id.clone() };
            let edited = one.edited_args.as_ref().ok_or_else(missing)?;
            let edited = Json::parse(edited.as_str().as_bytes()).map_err(|_| missing())?;
            if pause.kind == Kind::Pause {
                Some(edited.get("answer").ok_or_else(missing)?.to_text())
            } else {
                let original = Json::parse(pause.arguments.as_bytes()).ok();
                let mut out = String::new();
                project::restored(&edited, original.as_ref(), &mut out);
                Some(out)
            }
        }
        Decision::Approve | Decision::Reject => None,
    };
    if pause.kind != Kind::Approval && one.decision == Decision::Approve {
        return Err(AnswerError::NotAllowed {
            tool_call_id: one.tool_call_id.clone(),
            decision: one.decision,
        });
    }
    Ok(Reply { decision: Some(one.decision), values, message: one.message.clone() })
}

/// What of a form's values is this interrupt's, without its prefix.
fn own(pause: &Pause, values: &JsonObject<'_>) -> Result<String, AnswerError> {
    let values = Json::parse(values.as_str().as_bytes()).map_err(|_| AnswerError::Unreadable)?;
    if pause.kind == Kind::Pause {
        let field_name = format!("{}answer", pause.prefix);
        let answer = values.get(&field_name).map(Json::to_text);
        return answer.ok_or(AnswerError::MissingField { field_name });
    }
    let mut out = String::from("{");
    for (key, value) in values.members() {
        let key = key.lossy();
        let numbered = |key: &str| key.split_once('.').is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let mine = if pause.prefix.is_empty() {
            (!numbered(&key)).then_some(&*key)
        } else {
            key.strip_prefix(&*pause.prefix)
        };
        let Some(mine) = mine else { continue };
        out.push_str(if out.len() > 1 { "," } else { "" });
        write_string(mine, &mut out);
        out.push(':');
        value.write(&mut out);
    }
    out.push('}');
    Ok(out)
}

/// `resume` of `RunAgentInput`.
fn resolved<'r>(both: impl Iterator<Item = (&'r Pause, &'r Reply)>) -> String {
    let mut out = String::from("[");
    for (pause, reply) in both {
        out.push_str(if out.len() > 1 { ",{\"interruptId\":" } else { "{\"interruptId\":" });
        write_string(&pause.interrupt, &mut out);
        let payload = match (pause.kind, reply.decision, &reply.values) {
            (Kind::Approval, Some(Decision::Approve), _) => Some("{\"approved\":true}".to_owned()),
            (Kind::Approval, Some(Decision::Edit), Some(edited)) => {
                Some(format!("{{\"approved\":true,\"editedArgs\":{edited}}}"))
            }
            (Kind::Approval, _, _) => {
                let mut payload = String::from("{\"approved\":false");
                if let Some(message) = &reply.message {
                    payload.push_str(",\"message\":");
                    write_string(message, &mut payload);
                }
                payload.push('}');
                Some(payload)
            }
            (Kind::Form | Kind::Pause, _, values) => values.clone(),
        };
        match payload {
            Some(payload) => out.push_str(&format!(",\"status\":\"resolved\",\"payload\":{payload}}}")),
            None => out.push_str(",\"status\":\"cancelled\"}"),
        }
    }
    out.push(']');
    out
}

/// `resume_data` of the established route.
fn told<'r>(approving: bool, both: impl Iterator<Item = (&'r Pause, &'r Reply)>) -> String {
    if !approving {
        let values = both.filter_map(|(_, reply)| reply.values.as_deref()).next();
        return values.map_or_else(
            || "{\"type\":\"form_input\",\"dismissed\":true}".to_owned(),
            |values| format!("{{\"type\":\"form_input\",\"values\":{values}}}"),
        );
    }
    let mut out = String::from("{\"type\":\"tool_approval\",\"decisions\":[");
    for (n, (pause, reply)) in both.enumerate() {
        out.push_str(if n > 0 { ",{\"decision\":\"" } else { "{\"decision\":\"" });
        out.push_str(reply.decision.unwrap_or(Decision::Reject).as_str());
        out.push_str("\",\"tool_name\":");
        write_string(&pause.tool, &mut out);
        if let Some(edited) = &reply.values {
            out.push_str(&format!(",\"edited_args\":{edited}"));
        }
        if let Some(message) = &reply.message {
            out.push_str(",\"message\":");
            write_string(message, &mut out);
        }
        out.push('}');
    }
    out.push_str("]}");
    out
}

/// The answer behind a `resume`; `None` where it cannot be told.
pub(super) fn answer_of(snapshot: &Snapshot, value: &Json<'_>, limits: &Limits) -> Option<Answer> {
    let approving = snapshot.approving();
    let (mut decisions, mut values) = (Vec::new(), String::from("{"));
    for pause in &snapshot.pauses {
        let of = |one: &&Json<'_>| one.str("interruptId").is_some_and(|id| *id == *pause.interrupt.as_str());
        let reply = value.items().iter().find(of)?;
        let payload = reply.get("payload").filter(|_| reply.text("status") == Some("resolved"));
        if approving {
            let edited = match (pause.kind, payload) {
                (Kind::Approval, Some(payload)) => payload.get("editedArgs").map(Json::to_text),
                (Kind::Form, Some(payload)) => Some(payload.to_text()),
                (Kind::Pause, Some(payload)) => Some(format!("{{\"answer\":{}}}", payload.to_text())),
                (Kind::Approval | Kind::Form | Kind::Pause, None) => None,
            };
            let approved = payload.is_some_and(|payload| payload.get("approved") == Some(&Json::Bool(true)));
            let decision = match (pause.kind, &edited) {
                (Kind::Approval, _) if !approved => Decision::Reject,
                (_, Some(_)) => Decision::Edit,
                (Kind::Approval, None) => Decision::Approve,
                (Kind::Form | Kind::Pause, None) => Decision::Reject,
            };
            let edited = edited.filter(|_| decision == Decision::Edit);
            decisions.push(Decided {
                tool_call_id: ToolCallId::new(pause.call.clone()?).ok()?,
                decision,
                edited_args: match edited {
                    Some(edited) => Some(JsonObject::parse(edited, limits).ok()?),
                    None => None,
                },
                message: payload.and_then(|payload| Some(payload.str("message")?.lossy().into_owned())),
            });
            continue;
        }
        let Some(payload) = payload else { return Some(Answer::Dismissed) };
        let whole;
        let members: Vec<(String, &Json<'_>)> = if pause.kind == Kind::Pause {
            whole = payload;
            vec![(format!("{}answer", pause.prefix), whole)]
        } else {
            payload
                .members()
                .iter()
                .map(|(key, value)| (format!("{}{}", pause.prefix, key.lossy()), value))
                .collect()
        };
        for (key, value) in members {
            values.push_str(if values.len() > 1 { "," } else { "" });
            write_string(&key, &mut values);
            values.push(':');
            value.write(&mut values);
        }
    }
    if approving {
        return Some(Answer::Decisions(decisions));
    }
    values.push('}');
    Some(Answer::Values(JsonObject::parse(values, limits).ok()?))
}

fn lossy(object: &Json<'_>, key: &str) -> String {
    object.str(key).map(|text| text.lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(kind: Kind, prefix: &str, call: Option<&str>) -> Pause {
        Pause {
            interrupt: format!("i{prefix}{}", call.unwrap_or_default()),
            kind,
            prefix: prefix.to_owned(),
            call: call.map(str::to_owned),
            arguments: "{\"key\":\"secret\"}".to_owned(),
            tool: "t".to_owned(),
        }
    }

    fn decide(call: &'static str, decision: Decision, edited: Option<&str>) -> Decided {
        Decided {
            tool_call_id: ToolCallId::new(call).unwrap(),
            decision,
            edited_args: edited.map(|text| JsonObject::parse(text.to_owned(), &Limits::DEFAULT).unwrap()),
            message: None,
        }
    }

    fn round(snapshot: &Snapshot, answer: &Answer) -> (String, Option<Answer>) {
        let value = resume_value(snapshot, answer).unwrap();
        let json = Json::parse(value.as_bytes()).unwrap();
        let back = answer_of(snapshot, &json, &Limits::DEFAULT);
        (value, back)
    }

    #[test]
    fn a_snapshot_reads_back() {
        let snapshot = Snapshot {
            established: true,
            pauses: vec![pause(Kind::Approval, "", Some("c")), pause(Kind::Pause, "2.", None)],
            aliases: vec![("c".to_owned(), "c#2".to_owned())],
        };
        assert_eq!(Snapshot::from_json(&snapshot.to_json()), Some(snapshot));
        assert_eq!(Snapshot::from_json("{"), None);
    }

    #[test]
    fn decisions_become_resume_entries_and_read_back() {
        let pauses = vec![
            pause(Kind::Approval, "", Some("a")),
            pause(Kind::Approval, "", Some("b")),
            pause(Kind::Approval, "", Some("c")),
            pause(Kind::Pause, "", Some("d")),
        ];
        let snapshot = Snapshot { pauses, ..Snapshot::default() };
        let answer = Answer::Decisions(vec![
            decide("a", Decision::Approve, None),
            decide("b", Decision::Edit, Some(r#"{"n":1}"#)),
            decide("c", Decision::Reject, None),
            decide("d", Decision::Edit, Some(r#"{"answer":"x"}"#)),
        ]);
        let expected = concat!(
            r#"[{"interruptId":"ia","status":"resolved","payload":{"approved":true}},"#,
            r#"{"interruptId":"ib","status":"resolved","payload":{"approved":true,"editedArgs":{"n":1}}},"#,
            r#"{"interruptId":"ic","status":"resolved","payload":{"approved":false}},"#,
            r#"{"interruptId":"id","status":"resolved","payload":"x"}]"#
        );
        assert_eq!(round(&snapshot, &answer), (expected.to_owned(), Some(answer)));
    }

    #[test]
    fn a_hidden_value_that_an_edit_repeats_is_the_original_again() {
        let snapshot = Snapshot { pauses: vec![pause(Kind::Approval, "", Some("a"))], ..Snapshot::default() };
        let edit = Answer::Decisions(vec![decide("a", Decision::Edit, Some(r#"{"key":"[redacted]"}"#))]);
        assert!(resume_value(&snapshot, &edit).unwrap().contains(r#""editedArgs":{"key":"secret"}"#));
    }

    #[test]
    fn forms_take_their_own_values() {
        let pauses = vec![pause(Kind::Form, "", None), pause(Kind::Pause, "2.", None)];
        let snapshot = Snapshot { pauses, ..Snapshot::default() };
        let values = JsonObject::parse(r#"{"city":"Oslo","2.answer":"yes"}"#, &Limits::DEFAULT).unwrap();
        let answer = Answer::Values(values);
        let expected = r#"[{"interruptId":"i","status":"resolved","payload":{"city":"Oslo"}},{"interruptId":"i2.","status":"resolved","payload":"yes"}]"#;
        assert_eq!(round(&snapshot, &answer), (expected.to_owned(), Some(answer)));
        let (value, back) = round(&snapshot, &Answer::Dismissed);
        assert!(value.starts_with(r#"[{"interruptId":"i","status":"cancelled"}"#), "{value}");
        assert_eq!(back, Some(Answer::Dismissed));
        let none = Answer::Values(JsonObject::EMPTY);
        let missing = AnswerError::MissingField { field_name: "2.answer".to_owned() };
        assert_eq!(resume_value(&snapshot, &none), Err(missing));
    }

    #[test]
    fn the_established_format_is_answered_in_its_own_words() {
        let of = |kind, call| Snapshot {
            established: true,
            pauses: vec![pause(kind, "", call)],
            aliases: Vec::new(),
        };
        let reject = Answer::Decisions(vec![decide("a", Decision::Reject, None)]);
        assert_eq!(
            resume_value(&of(Kind::Approval, Some("a")), &reject).unwrap(),
            r#"{"type":"tool_approval","decisions":[{"decision":"reject","tool_name":"t"}]}"#
        );
        assert_eq!(
            resume_value(&of(Kind::Form, None), &Answer::Dismissed).unwrap(),
            r#"{"type":"form_input","dismissed":true}"#
        );
        assert_eq!(
            resume_value(&of(Kind::Form, None), &reject),
            Err(AnswerError::Unknown { tool_call_id: ToolCallId::new("a").unwrap() })
        );
        assert_eq!(resume_value(&Snapshot::default(), &reject), Err(AnswerError::NothingAsked));
    }
}
