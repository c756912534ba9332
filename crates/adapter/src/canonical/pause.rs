//! What is remembered of a worker's interrupt: its own id, what it asked, and the namespaces to enter again.
//!
//! Refuses answers that leave a call undecided or decide one that was not asked.

use causeway_contract::event::{Decision, InterruptRequest, InterruptRequested, NamespaceEntered};
use causeway_contract::id::{InvocationId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::json::{Json, write_string};
use crate::turn::{Answer, AnswerError, Decided};

/// The private part of the state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Snapshot {
    /// The worker's own id of the interrupt; `None` where nothing was asked.
    interrupt: Option<String>,
    /// The calls that have to be decided, with the decisions allowed; none for a form.
    calls: Vec<(String, Vec<Decision>)>,
    /// By their calls: path, agent id, agent name.
    spaces: Vec<(String, Vec<String>, String, String)>,
}

impl Snapshot {
    /// What is to be remembered of a request.
    pub(super) fn of(
        asked: &InterruptRequested<'_>,
        entered: &[(Namespace<'static>, NamespaceEntered<'static>)],
    ) -> Self {
        let calls = match &asked.request {
            InterruptRequest::Approvals(approvals) => approvals
                .iter()
                .map(|one| (one.tool_call_id.as_str().to_owned(), one.allowed_decisions.clone()))
                .collect(),
            InterruptRequest::Form { .. } => Vec::new(),
        };
        let spaces = entered
            .iter()
            .map(|(path, entered)| {
                let path = path.path().iter().map(|id| id.as_str().to_owned()).collect();
                let call = entered.parent_tool_call_id.as_str().to_owned();
                (call, path, entered.agent_id.as_str().to_owned(), entered.agent_name.as_str().to_owned())
            })
            .collect();
        Self { interrupt: Some(asked.interrupt_id.as_str().to_owned()), calls, spaces }
    }

    /// The namespace under a call.
    pub(super) fn space_of(
        &self,
        call: &ToolCallId<'static>,
        limits: &Limits,
    ) -> Option<(Namespace<'static>, NamespaceEntered<'static>)> {
        let (_, path, agent_id, agent_name) = self.spaces.iter().rev().find(|one| one.0 == call.as_str())?;
        let mut namespace = Namespace::root();
        for element in path {
            namespace.push(InvocationId::bounded(element.clone(), limits.id_bytes).ok()?);
        }
        let name = |text: &String| Name::bounded(text.clone(), limits.id_bytes).ok();
        let data = NamespaceEntered {
            agent_id: name(agent_id)?,
            agent_name: name(agent_name)?,
            parent_tool_call_id: call.clone(),
        };
        Some((namespace, data))
    }

    /// As it is stored.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{");
        if let Some(interrupt) = &self.interrupt {
            out.push_str("\"interrupt\":");
            write_string(interrupt, &mut out);
            out.push(',');
        }
        out.push_str("\"calls\":");
        list(&mut out, &self.calls, |out, (id, allowed)| {
            out.push_str("{\"id\":");
            write_string(id, out);
            out.push_str(",\"allowed\":");
            list(out, allowed, |out, decision| write_string(decision.as_str(), out));
            out.push('}');
        });
        out.push_str(",\"spaces\":");
        list(&mut out, &self.spaces, |out, (call, path, agent_id, agent_name)| {
            out.push_str("{\"call\":");
            write_string(call, out);
            out.push_str(",\"path\":");
            list(out, path, |out, element| write_string(element, out));
            for (key, value) in [(",\"agent_id\":", agent_id), (",\"agent_name\":", agent_name)] {
                out.push_str(key);
                write_string(value, out);
            }
            out.push('}');
        });
        out.push('}');
        out
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        let owned = |json: &Json<'_>, key: &str| json.text(key).map(str::to_owned);
        let mut snapshot = Self { interrupt: owned(&json, "interrupt"), ..Self::default() };
        for call in json.list("calls") {
            let allowed = call.list("allowed").iter();
            let allowed = allowed.filter_map(|word| Decision::parse(word.as_str()?.as_plain()?));
            snapshot.calls.push((owned(call, "id")?, allowed.collect()));
        }
        for space in json.list("spaces") {
            let path = space.list("path").iter().filter_map(|one| Some(one.as_str()?.as_plain()?.to_owned()));
            let (call, path) = (owned(space, "call")?, path.collect());
            snapshot.spaces.push((call, path, owned(space, "agent_id")?, owned(space, "agent_name")?));
        }
        Some(snapshot)
    }

    /// The value that the worker is given.
    pub(super) fn resume_value(&self, answer: &Answer) -> Result<String, AnswerError> {
        let interrupt = self.interrupt.as_ref().ok_or(AnswerError::NothingAsked)?;
        let mut out = String::from("{\"interrupt_id\":");
        write_string(interrupt, &mut out);
        match (answer, self.calls.is_empty()) {
            (Answer::Values(values), true) => {
                out.push_str(",\"values\":");
                out.push_str(values.as_str());
            }
            (Answer::Dismissed, true) => out.push_str(",\"dismissed\":true"),
            (Answer::Decisions(decisions), false) => {
                let asked =
                    |one: &&Decided| self.calls.iter().any(|(id, _)| *id == one.tool_call_id.as_str());
                if let Some(other) = decisions.iter().find(|one| !asked(one)) {
                    return Err(AnswerError::Unknown { tool_call_id: other.tool_call_id.clone() });
                }
                let mut told = Vec::new();
                for (id, allowed) in &self.calls {
                    let one = decisions.iter().find(|one| one.tool_call_id.as_str() == id);
                    let one = one.ok_or_else(|| AnswerError::Undecided { tool_call_id: id.clone() })?;
                    let (tool_call_id, decision) = (one.tool_call_id.clone(), one.decision);
                    if !allowed.is_empty() && !allowed.contains(&decision) {
                        return Err(AnswerError::NotAllowed { tool_call_id, decision });
                    }
                    if decision == Decision::Edit && one.edited_args.is_none() {
                        return Err(AnswerError::NoArguments { tool_call_id });
                    }
                    told.push(one);
                }
                out.push_str(",\"decisions\":");
                list(&mut out, &told, |out, one| decided(one, out));
            }
            (Answer::Values(_) | Answer::Dismissed, false) | (Answer::Decisions(_), true) => {
                return Err(AnswerError::WrongKind);
            }
        }
        out.push('}');
        Ok(out)
    }

    /// The answer behind such a value.
    pub(super) fn answer_of(&self, value: &[u8], limits: &Limits) -> Option<Answer> {
        let value = Json::parse(value).ok()?;
        let object = |json: &Json<'_>| JsonObject::parse(json.to_text(), limits).ok();
        if let Some(values) = value.get("values") {
            return Some(Answer::Values(object(values)?));
        }
        if value.get("dismissed") == Some(&Json::Bool(true)) {
            return Some(Answer::Dismissed);
        }
        let mut decisions = Vec::new();
        for one in value.list("decisions") {
            decisions.push(Decided {
                tool_call_id: ToolCallId::new(one.text("tool_call_id")?.to_owned()).ok()?,
                decision: Decision::parse(one.text("decision")?)?,
                edited_args: match one.get("edited_args") {
                    Some(edited) => Some(object(edited)?),
                    None => None,
                },
                message: one.text("message").map(str::to_owned),
            });
        }
        (!decisions.is_empty()).then_some(Answer::Decisions(decisions))
    }
}

fn decided(one: &Decided, out: &mut String) {
    out.push_str("{\"tool_call_id\":");
    write_string(one.tool_call_id.as_str(), out);
    out.push_str(",\"decision\":");
    write_string(one.decision.as_str(), out);
    if let Some(edited) = &one.edited_args {
        out.push_str(",\"edited_args\":");
        out.push_str(edited.as_str());
    }
    if let Some(message) = &one.message {
        out.push_str(",\"message\":");
        write_string(message, out);
    }
    out.push('}');
}

fn list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}
