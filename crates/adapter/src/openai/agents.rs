//! The adapter for the OpenAI Agents SDK: what `Runner.run_streamed()` yields.
//!
//! An item is a line: the bare event, or `{"kind":"event","event":{…}}` between `begin` and `end`. The end record is the
//! worker's `end` with `final_output` and `interruptions`. The SDK runs the tools, so its success is not believed while a
//! call is open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started`; in a resumed run the open calls again, with their namespaces |
//! | `raw_response_event` | as [`responses`](super::responses), but for its end: `provider.metadata`, `usage.updated` |
//! | `run_item_stream_event` `tool_called`, `handoff_requested` | `tool.started`, if the raw events did not tell it |
//! | `tool_output`, `handoff_occured` | `tool.finished`: the SDK does not tell a tool that raised from one that answered |
//! | the same of a call that a person refused | `tool.error` |
//! | `agent_updated_stream_event` to another agent | `tool.started` of `node:<agent>` (`handoff`) and its namespace, until the next one or the end |
//! | `end` with `interruptions` | the state, `interrupt.requested`, `run.interrupted` |
//! | `end` with a `final_output` | the last `usage.updated`, the state, `run.finished`; `run.error` where a call is open |
//! | `end` without either | `run.error` |
//! | `{"kind":"cancelled"}` | `run.cancelled` |
//! | `{"kind":"error"}` | `run.error`, typed by the exception's name, its words, or the response that failed before it |
//!
//! The state's head is the one a worker reports at `end`; without one it is the id of the last response.
//!
//! Deliberately dropped: items that the raw events told already; `final_output`, which repeats the text; lists of MCP
//! tools; all words of errors.
//!
//! Refused ([`ItemError`]): what is no object of these forms.

use std::collections::HashMap;

use causeway_contract::event::{Decision, InterruptRequest, ToolApproval};
use causeway_contract::id::Reference;
use causeway_contract::namespace::Namespace;

use super::responses::Response;
use super::{failure, sentences};
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::failure::Failure;
use crate::ids::Ids;
use crate::json::{Json, write_string};
use crate::project;
use crate::scribe::{End, Scribe};
use crate::text;
use crate::turn::{Answer, AnswerError, Decided, Options, Turn};
use crate::worker;

/// The canonical `harness_id`.
pub const HARNESS: &str = "openai-agents";

/// Translates one run of an agent.
pub struct OpenAiAgents {
    scribe: Scribe,
    response: Response,
    /// The agent that began, and the one that works with its hand-off's call.
    first: Option<String>,
    works: Option<(String, usize)>,
    /// Calls that a person refused, by their canonical ids.
    refused: Vec<String>,
    /// Canonical ids of calls of the interrupted run, by their native ones.
    aliases: HashMap<String, String>,
}

impl std::fmt::Debug for OpenAiAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiAgents").field("first", &self.first).finish_non_exhaustive()
    }
}

impl OpenAiAgents {
    /// The adapter for a turn.
    pub fn new(turn: Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let mut adapter = Self {
            scribe: Scribe::new(HARNESS, options, ids),
            response: Response::of_agent(),
            first: None,
            works: None,
            refused: Vec::new(),
            aliases: HashMap::new(),
        };
        let Turn::Resume(resume) = turn else { return adapter };
        for asked in resume.private.as_deref().and_then(asked).unwrap_or_default() {
            adapter.aliases.insert(asked.native, asked.call);
        }
        if let Some(Answer::Decisions(decisions)) = &resume.answer {
            let refused = decisions.iter().filter(|one| one.decision == Decision::Reject);
            adapter.refused = refused.map(|one| one.tool_call_id.as_str().to_owned()).collect();
        }
        for call in &resume.open_calls {
            let at = adapter.scribe.restart(call, None);
            let agent = call.id.as_str().strip_prefix("node:");
            let agent = agent.map(|agent| agent.split('#').next().unwrap_or(agent).to_owned());
            if let (Some(agent), true) = (agent, resume.delegations.contains(&call.id)) {
                if let Some(inside) = adapter.scribe.enter(at, &agent) {
                    adapter.response.namespace = inside;
                }
                adapter.works = Some((agent, at));
            }
        }
        adapter
    }

    fn line(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        match line.text("kind") {
            Some("event") => self.event(line.get("event").unwrap_or(&Json::Null))?,
            Some("hello" | "begin") => {}
            Some("end") => {
                if !self.scribe.has_ended() {
                    self.conclude(line)?;
                }
            }
            Some("cancelled") => {
                self.scribe.last_usage(None);
                self.scribe.cancel(None);
            }
            Some("error") => {
                let known = self.response.failed.take().or_else(|| failure::of(line));
                self.scribe.last_usage(None);
                let failure = named(line.text("error_type").unwrap_or_default());
                self.scribe.fail(failure.or(known).unwrap_or(sentences::FAILED), super::retry_after(line));
            }
            Some(_) => {
                return Err(ItemError::Shape { what: "`kind` hello, begin, event, end, cancelled or error" });
            }
            None => self.event(line)?,
        }
        Ok(())
    }

    fn event(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let Some(kind) = event.text("type") else {
            return Err(ItemError::Shape { what: "an event with a `type`" });
        };
        if self.scribe.has_ended() {
            return Err(ItemError::OutOfOrder { kind: "event", what: "the run is over" });
        }
        match kind {
            "raw_response_event" => {
                self.response.event(event.get("data").unwrap_or(&Json::Null), &mut self.scribe)?;
            }
            "agent_updated_stream_event" => self.updated(&lossy(event, "new_agent"))?,
            "run_item_stream_event" => {
                let item = event.get("item").unwrap_or(&Json::Null);
                let raw = item.get("raw_item").unwrap_or(&Json::Null);
                match item.text("type") {
                    Some("tool_call_item" | "handoff_call_item") => {
                        let native = lossy(raw, "call_id");
                        if raw.text("type") == Some("function_call")
                            && !native.is_empty()
                            && !self.scribe.calls.knows(&native)
                        {
                            let arguments = lossy(raw, "arguments");
                            let arguments = if arguments.trim().is_empty() { "{}" } else { &arguments };
                            let here = self.response.namespace.clone();
                            self.response.quiet(&mut self.scribe);
                            self.scribe.start(&native, &lossy(raw, "name"), arguments, &here, None)?;
                        }
                    }
                    Some("tool_call_output_item" | "handoff_output_item") => self.output(item, raw),
                    Some(_) | None => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn output(&mut self, item: &Json<'_>, raw: &Json<'_>) {
        let native = lossy(raw, "call_id");
        let alias = self.aliases.get(&native).unwrap_or(&native);
        let calls = &self.scribe.calls;
        let Some(at) = calls.open_by_native(&native).or_else(|| calls.open_by_native(alias)) else { return };
        let text = match item.get("output").or_else(|| raw.get("output")) {
            None => String::new(),
            Some(Json::String(output)) => text::whole([output], &self.scribe.options),
            Some(other) => text::content(&other.to_text(), &self.scribe.options).into_owned(),
        };
        let call = self.scribe.calls.get(at).map(|call| call.id.as_str().to_owned()).unwrap_or_default();
        if self.refused.contains(&call) {
            self.scribe.finish(at, End::Failed("tool_rejected", &text));
        } else {
            self.scribe.finish(at, End::Finished(&text));
        }
    }

    /// Another agent goes on, or the first one says who it is.
    fn updated(&mut self, agent: &str) -> Result<(), ItemError> {
        self.response.quiet(&mut self.scribe);
        if self.works.as_ref().is_some_and(|(works, _)| works == agent) {
            return Ok(());
        }
        let first = self.first.get_or_insert_with(|| agent.to_owned());
        let back = first == agent;
        self.hand_back();
        if !back {
            let root = Namespace::root();
            let at = self.scribe.start(&format!("node:{agent}"), "handoff", "{}", &root, None)?;
            if let Some(inside) = self.scribe.enter(at, agent) {
                self.response.namespace = inside;
            }
            self.works = Some((agent.to_owned(), at));
        }
        Ok(())
    }

    /// Ends the hand-off that is under way.
    fn hand_back(&mut self) {
        self.response.quiet(&mut self.scribe);
        if let Some((_, at)) = self.works.take() {
            self.scribe.finish(at, End::Finished(""));
        }
        self.response.namespace = Namespace::root();
    }

    /// Ends the run as its end record says, as far as that can be believed.
    fn conclude(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        let max = self.scribe.options.limits.id_bytes;
        let head = worker::head(line).and_then(|head| Reference::bounded(head, max).ok());
        let head = head.or_else(|| self.response.answered.head(&self.scribe));
        let interruptions = line.list("interruptions");
        if !interruptions.is_empty() {
            return self.interrupt(interruptions, head);
        }
        self.scribe.last_usage(None);
        let inner = self.works.as_ref().map(|(_, at)| *at);
        let open = self.scribe.calls.open().any(|(at, _)| Some(at) != inner);
        if open || self.response.is_torn() || line.get("final_output").is_none() {
            self.scribe.fail(sentences::INCOMPLETE, None);
        } else {
            self.hand_back();
            self.scribe.succeed("end_turn", head);
        }
        Ok(())
    }

    fn interrupt(
        &mut self,
        interruptions: &[Json<'_>],
        head: Option<Reference<'static>>,
    ) -> Result<(), ItemError> {
        let mut approvals = Vec::new();
        let mut private = String::from("{\"asked\":[");
        for one in interruptions {
            let native = lossy(one, "call_id");
            let alias = self.aliases.get(&native).unwrap_or(&native);
            let calls = &self.scribe.calls;
            let at = calls.open_by_native(&native).or_else(|| calls.open_by_native(alias));
            let Some(call) = at.and_then(|at| calls.get(at)) else {
                return Err(ItemError::Shape { what: "interruptions that belong to open calls" });
            };
            if approvals.iter().any(|other: &ToolApproval<'_>| other.tool_call_id == call.id) {
                continue;
            }
            private.push_str(if approvals.is_empty() { "[" } else { ",[" });
            write_string(&native, &mut private);
            private.push(',');
            write_string(call.id.as_str(), &mut private);
            private.push(']');
            approvals.push(ToolApproval {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                tool_args: project::arguments(&call.arguments, &self.scribe.options)?,
                allowed_decisions: vec![Decision::Approve, Decision::Reject],
            });
        }
        private.push_str("]}");
        self.scribe.last_usage(None);
        self.scribe.interrupt(InterruptRequest::Approvals(approvals), head, private);
        Ok(())
    }
}

/// A call that was asked about.
struct Asked {
    native: String,
    call: String,
}

/// The calls that an interrupted run asked about; `None` if that cannot be read.
fn asked(private: &str) -> Option<Vec<Asked>> {
    let json = Json::parse(private.as_bytes()).ok()?;
    let pair = |pair: &Json<'_>| {
        let text = |at: usize| Some(pair.items().get(at)?.as_str()?.lossy().into_owned());
        Some(Asked { native: text(0)?, call: text(1)? })
    };
    json.list("asked").iter().map(pair).collect()
}

/// The failure behind an exception of the SDK.
fn named(error_type: &str) -> Option<Failure> {
    match error_type.rsplit('.').next().unwrap_or(error_type) {
        "MaxTurnsExceeded" => Some(sentences::STEP_LIMIT),
        "ModelBehaviorError" => None,
        _ => Some(sentences::of(error_type)).filter(|failure| *failure != sentences::FAILED),
    }
}

fn lossy(object: &Json<'_>, key: &str) -> String {
    object.str(key).map(|text| text.lossy().into_owned()).unwrap_or_default()
}

impl Adapter for OpenAiAgents {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        let line = item.strip_suffix(b"\r").unwrap_or(item);
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.line(&worker::parse_line(line)?)
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    /// A run without its end record is recognised as nothing: R12.
    fn close(&mut self, _how: Close) {
        self.scribe.end();
    }
}

/// The decisions in the SDK's order, each with its call: what a worker approves or rejects in the run's state.
///
/// # Errors
/// The state cannot be read, or the answer does not fit what was asked.
pub fn resume_value(private: &str, answer: &Answer) -> Result<String, AnswerError> {
    let asked = asked(private).ok_or(AnswerError::Unreadable)?;
    let Answer::Decisions(decisions) = answer else { return Err(AnswerError::WrongKind) };
    if asked.is_empty() {
        return Err(AnswerError::NothingAsked);
    }
    let of = |one: &Asked, decided: &Decided| decided.tool_call_id.as_str() == one.call;
    if let Some(other) = decisions.iter().find(|decided| !asked.iter().any(|one| of(one, decided))) {
        return Err(AnswerError::Unknown { tool_call_id: other.tool_call_id.clone() });
    }
    let mut out = String::from("{\"decisions\":[");
    for (n, one) in asked.iter().enumerate() {
        let decided = decisions
            .iter()
            .find(|decided| of(one, decided))
            .ok_or_else(|| AnswerError::Undecided { tool_call_id: one.call.clone() })?;
        if decided.decision == Decision::Edit {
            let tool_call_id = decided.tool_call_id.clone();
            return Err(AnswerError::NotAllowed { tool_call_id, decision: decided.decision });
        }
        out.push_str(if n > 0 { ",{\"call_id\":" } else { "{\"call_id\":" });
        write_string(&one.native, &mut out);
        out.push_str(",\"type\":\"");
        out.push_str(decided.decision.as_str());
        out.push('"');
        if let Some(message) = &decided.message {
            out.push_str(",\"message\":");
            write_string(message, &mut out);
        }
        out.push('}');
    }
    out.push_str("]}");
    Ok(out)
}
