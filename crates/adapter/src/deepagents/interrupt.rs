//! Native interrupts to one canonical request (decisions §4, R08), and the snapshot that its answer needs.
//!
//! Every interrupt that waits is asked about; none is answered here by a default.

use std::collections::HashSet;

use causeway_contract::event::{Decision, FormField, InterruptRequest, ToolApproval};
use causeway_contract::id::Name;
use causeway_contract::namespace::Namespace;

use super::native::FORM;
use super::snapshot::{Kind, Pause, Snapshot};
use crate::adapter::ItemError;
use crate::calls::Calls;
use crate::json::{Json, write_string};
use crate::project;
use crate::text::{self, whole};
use crate::turn::Options;

/// Where an interrupt was raised, as the items before the end told.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The native interrupt.
    pub interrupt: String,
    /// The innermost namespace that reported it.
    pub namespace: Namespace<'static>,
    /// The call whose tool raised it.
    pub call: Option<usize>,
}

/// A call that has to be started before it can be asked about.
#[derive(Clone, Debug)]
pub(super) struct Missing<'j, 'a> {
    /// Its native id.
    pub native: String,
    /// Its tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Option<&'j Json<'a>>,
}

/// One thing that waits, with the call it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Waiting<'j, 'a> {
    interrupt: String,
    kind: Kind,
    call: Option<usize>,
    /// The action request, or the value of a plain pause.
    value: &'j Json<'a>,
    allowed: Vec<Decision>,
}

/// Reads the interrupts of a state and finds the calls they are about; `start` makes those that were never started.
pub(super) fn waiting<'j, 'a>(
    interrupts: &'j [Json<'a>],
    places: &[Place],
    calls: &mut Calls,
    start: &mut dyn FnMut(&mut Calls, Missing<'j, 'a>) -> Result<usize, ItemError>,
) -> Result<Vec<Waiting<'j, 'a>>, ItemError> {
    const NULL: &Json<'static> = &Json::Null;
    let mut all = Vec::new();
    let mut taken = HashSet::new();
    let approving = interrupts
        .iter()
        .any(|one| one.get("value").is_some_and(|v| v.list("action_requests").iter().any(is_gate)));
    for one in interrupts {
        let interrupt = one.str("id").map(|id| id.lossy().into_owned()).unwrap_or_default();
        let place = places.iter().find(|place| place.interrupt == interrupt);
        let value = one.get("value").unwrap_or(NULL);
        let requests = value.list("action_requests");
        if requests.is_empty() {
            let mut call = place.and_then(|place| place.call).filter(|at| !taken.contains(at));
            if approving && call.is_none() {
                let native = format!("node:{interrupt}");
                call =
                    Some(start(calls, Missing { native, name: "graph_node".to_owned(), arguments: None })?);
            }
            taken.extend(call);
            all.push(Waiting { interrupt, kind: Kind::Pause, call, value, allowed: Vec::new() });
            continue;
        }
        for (n, request) in requests.iter().enumerate() {
            let name = request.str("name").map(|name| name.lossy().into_owned()).unwrap_or_default();
            let found = find(calls, &taken, place, &name, request.get("args"));
            let call = match found {
                Some(call) => call,
                None => {
                    let native = format!("node:{interrupt}:{n}");
                    start(calls, Missing { native, name: name.clone(), arguments: request.get("args") })?
                }
            };
            taken.insert(call);
            let kind = if name == FORM { Kind::Form } else { Kind::Approval };
            let allowed = allowed(value, &name, n);
            all.push(Waiting {
                interrupt: interrupt.clone(),
                kind,
                call: Some(call),
                value: request,
                allowed,
            });
        }
    }
    Ok(all)
}

fn is_gate(request: &Json<'_>) -> bool {
    request.text("name") != Some(FORM)
}

/// The open call of a request: the harness gives no id, so by place, order, name and arguments.
fn find(
    calls: &Calls,
    taken: &HashSet<usize>,
    place: Option<&Place>,
    name: &str,
    arguments: Option<&Json<'_>>,
) -> Option<usize> {
    let by = |here: bool, exact: bool| {
        calls
            .open()
            .find(|(at, call)| {
                !taken.contains(at)
                    && call.name == *name
                    && (!here || place.is_none_or(|place| place.namespace == call.namespace))
                    && (!exact || arguments.is_none_or(|args| call.has_arguments(args)))
            })
            .map(|(at, _)| at)
    };
    by(true, true).or_else(|| by(true, false)).or_else(|| by(false, true)).or_else(|| by(false, false))
}

/// The decisions that the review configuration allows for this action; those we do not know are left out.
fn allowed(value: &Json<'_>, name: &str, n: usize) -> Vec<Decision> {
    let configs = value.list("review_configs");
    let named = configs.iter().find(|config| config.str("action_name").is_some_and(|action| action == name));
    let Some(config) = named.or_else(|| configs.get(n)) else { return Vec::new() };
    let given = config.list("allowed_decisions");
    let mut known = Vec::new();
    for decision in given.iter().filter_map(|word| word.as_str()?.as_plain()).filter_map(Decision::parse) {
        if !known.contains(&decision) {
            known.push(decision);
        }
    }
    if known.is_empty() && !given.is_empty() {
        known.push(Decision::Reject); // an empty list would allow all three
    }
    known
}

/// The one request for everything that waits, and what its answer needs.
pub(super) fn merged(
    waiting: &[Waiting<'_, '_>],
    calls: &Calls,
    options: &Options,
) -> Result<(InterruptRequest<'static>, Snapshot), ItemError> {
    let approving = waiting.iter().any(|one| one.kind == Kind::Approval);
    let mut snapshot = Snapshot::default();
    let (mut approvals, mut prompts, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    for one in waiting {
        let call = one.call.and_then(|at| calls.get(at));
        let mut prefix = String::new();
        if approving {
            let Some(call) = call else {
                return Err(ItemError::Shape { what: "an interrupt that belongs to a call" });
            };
            let allowed = if one.kind == Kind::Approval {
                one.allowed.clone()
            } else {
                vec![Decision::Edit, Decision::Reject]
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
            let (prompt, own) = match one.kind {
                Kind::Form => form(one.value, &prefix, options)?,
                Kind::Approval | Kind::Pause => {
                    (question(one.value, options), vec![answer(&prefix, options)?])
                }
            };
            prompts.push(prompt);
            fields.extend(own);
        }
        snapshot.pauses.push(Pause {
            interrupt: one.interrupt.clone(),
            kind: one.kind,
            prefix,
            call: call.map(|call| call.id.as_str().to_owned()),
            name: call.map_or_else(String::new, |call| call.name.as_str().to_owned()),
            arguments: call.map_or_else(|| "{}".to_owned(), |call| call.arguments.clone()),
        });
    }
    for (_, call) in calls.open() {
        if call.native != call.id.as_str() {
            snapshot.aliases.push((call.native.clone(), call.id.as_str().to_owned()));
        }
    }
    if approving {
        return Ok((InterruptRequest::Approvals(approvals), snapshot));
    }
    let prompt = text::cut(&prompts.join("\n\n"), options.limits.prompt_bytes).into_owned();
    Ok((InterruptRequest::Form { prompt: prompt.into(), fields }, snapshot))
}

/// Prompt and fields of a form.
fn form(
    request: &Json<'_>,
    prefix: &str,
    options: &Options,
) -> Result<(String, Vec<FormField<'static>>), ItemError> {
    let arguments = request.get("args");
    let prompt = arguments.and_then(|args| args.str("prompt")).map(|prompt| whole([prompt], options));
    let fields = arguments.map_or(&[][..], |args| args.list("fields"));
    let fields = fields.iter().enumerate().map(|(n, field)| form_field(field, n, prefix, options));
    Ok((prompt.unwrap_or_default(), fields.collect::<Result<_, _>>()?))
}

/// The fields of a form, from the arguments of its call.
pub(super) fn asked_for(arguments: &str, prefix: &str) -> Option<Vec<FormField<'static>>> {
    let arguments = Json::parse(arguments.as_bytes()).ok()?;
    let options = Options::new(name_of("form").ok()?);
    let fields = arguments.list("fields").iter().enumerate();
    fields.map(|(n, field)| form_field(field, n, prefix, &options).ok()).collect()
}

/// The name of the n-th field, made up where the harness gives none.
pub(super) fn field_name(field: &Json<'_>, n: usize) -> String {
    let native = field.str("field_name").or_else(|| field.as_str()).map(|name| name.lossy().into_owned());
    let made_up = format!("field_{}", n + 1);
    match text::call_id(&native.unwrap_or_default(), 200) {
        Some(clean) => clean.as_str().to_owned(),
        None => made_up,
    }
}

/// A field passed through whole; only what the contract fixes is put right.
pub(crate) fn form_field(
    field: &Json<'_>,
    n: usize,
    prefix: &str,
    options: &Options,
) -> Result<FormField<'static>, ItemError> {
    let name = format!("{prefix}{}", field_name(field, n));
    let kind = text::name(&field.str("field_type").map(|kind| kind.lossy()).unwrap_or_default(), "text", 256);
    let required = match field.get("required") {
        Some(Json::Bool(required)) => *required,
        Some(Json::String(text)) => text == "true",
        Some(Json::Null | Json::Number(_) | Json::Array(_) | Json::Object(_)) | None => false,
    };
    let mut out = String::from("{");
    let put = |key: &str, out: &mut String| {
        if out.len() > 1 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
    };
    let (mut named, mut typed) = (false, false);
    for (key, value) in field.members() {
        put(&key.lossy(), &mut out);
        if key == "field_name" {
            named = true;
            write_string(&name, &mut out);
        } else if key == "field_type" {
            typed = true;
            write_string(kind.as_str(), &mut out);
        } else if key == "required" && *value != Json::Null {
            out.push_str(if required { "true" } else { "false" });
        } else {
            value.write_with(&mut out, &mut |text, out| out.push_str(&text::content(text, options)));
        }
    }
    for (key, value) in
        [("field_name", (!named).then_some(&*name)), ("field_type", (!typed).then_some(kind.as_str()))]
    {
        if let Some(value) = value {
            put(key, &mut out);
            write_string(value, &mut out);
        }
    }
    out.push('}');
    Ok(FormField {
        object: project::checked(out, "a form field", &options.limits)?,
        field_name: name_of(&name)?,
        field_type: kind,
        required,
    })
}

/// The one field of a plain pause.
pub(crate) fn answer(prefix: &str, options: &Options) -> Result<FormField<'static>, ItemError> {
    let name = format!("{prefix}answer");
    let object = format!("{{\"field_name\":\"{name}\",\"field_type\":\"text\",\"required\":true}}");
    Ok(FormField {
        object: project::checked(object, "a form field", &options.limits)?,
        field_name: name_of(&name)?,
        field_type: name_of("text")?,
        required: true,
    })
}

fn name_of(text: &str) -> Result<Name<'static>, ItemError> {
    Name::new(text.to_owned())
        .map_err(|fault| ItemError::Value { what: "a field name", why: fault.to_string() })
}

/// What a plain pause asks.
pub(crate) fn question(value: &Json<'_>, options: &Options) -> String {
    let named = ["question", "prompt", "message"].iter().find_map(|key| value.str(key));
    match named {
        Some(question) => whole([question], options),
        None => text::content(&value.to_text(), options).into_owned(),
    }
}
