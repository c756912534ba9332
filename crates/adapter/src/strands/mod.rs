//! The adapter for Strands agents: what `stream_async()` of an agent, a graph or a swarm yields.
//!
//! An item is a line: the bare event, or `{"kind":"event","event":{…}}` between `begin` and `end`. Strands runs the tools,
//! so its success is not believed while a call is open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started`; in a resumed run the open calls again, with their namespaces |
//! | `event.contentBlockDelta` with text, with `reasoningContent` | `text.started`, `text.delta`; `reasoning.started`, `reasoning.delta` |
//! | `event.contentBlockStart`, `event.contentBlockStop` | `text.finished`, `reasoning.finished` |
//! | `event.contentBlockStart` and deltas of a `toolUse` | nothing; with `stream_arguments`: `tool.started`, `tool.arguments.delta` |
//! | `message` of the assistant | `tool.started` of its calls, with the arguments that run |
//! | `message` of the user with `toolResult` | `tool.finished`; `tool.error` where the status says so or a person refused |
//! | `event.metadata` | `usage.updated`, subagents included |
//! | `tool_stream_event` with events of an agent | `namespace.entered` under the call, the events inside it, `namespace.exited` before its result |
//! | `multiagent_node_start`, `…_stream`, `…_stop` | `tool.started` of `node:<id>` (`graph_node`), its namespace, its end |
//! | `tool_interrupt_event`, then a `result` that says `interrupt` | the state, `interrupt.requested`, `run.interrupted` |
//! | `result`, `multiagent_result`, at `end` or when the stream is over | the last `usage.updated`, the state, `run.finished`; `run.error` where a call is open or a tool was wanted |
//! | a `result` that says `cancelled`, `{"kind":"cancelled"}` | `run.cancelled` |
//! | `{"kind":"error"}` | `run.error`, typed by the exception's name |
//!
//! The state's head is the one a worker reports at `end`; without one it is the `tracking_id` of the last message.
//!
//! Deliberately dropped: `data`, `reasoningText` and `tool_use_stream`, which repeat the raw pieces; signatures and
//! redacted reasoning; the texts of whole messages; progress that a tool streams; `force_stop` (the error follows);
//! `multiagent_handoff` (the next node's start follows); latencies (no event names the model they belong to); all words
//! of errors.
//!
//! Refused ([`ItemError`]): what is no object, arguments no event can hold, and events after the result.

pub mod catalogue;
mod pauses;
mod talk;

use std::collections::{HashMap, HashSet};

use causeway_contract::id::Reference;
use causeway_contract::namespace::Namespace;

use self::pauses::Snapshot;
use self::talk::Talk;
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::anthropic_messages::stream::result_text;
use crate::failure::{self as sentences, Failure};
use crate::ids::Ids;
use crate::json::Json;
use crate::scribe::{End, Scribe};
use crate::turn::{Answer, AnswerError, Options, Turn};
use crate::usage::Counts;
use crate::worker;

/// The canonical `harness_id`.
pub const HARNESS: &str = "strands";

/// Translates one call of an agent.
pub struct Strands {
    scribe: Scribe,
    /// What each agent is saying, by its namespace.
    talks: HashMap<Namespace<'static>, Talk>,
    /// The call of each node that runs, by where it runs and its id.
    nodes: HashMap<(Namespace<'static>, String), usize>,
    /// Where interrupts were raised: native interrupt, native call, namespace.
    raised: Vec<(String, String, Namespace<'static>)>,
    /// Calls of the interrupted run that a person refused, with the code that tells it.
    refused: HashMap<String, &'static str>,
    /// Canonical ids of calls of the interrupted run, by their native ones.
    aliases: HashMap<String, String>,
    head: Option<Reference<'static>>,
    /// The result, as JSON.
    result: Option<String>,
    /// Messages that were taken.
    seen: HashSet<String>,
}

impl std::fmt::Debug for Strands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strands").field("result", &self.result.is_some()).finish_non_exhaustive()
    }
}

impl Strands {
    /// The adapter for a turn.
    pub fn new(turn: Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let mut adapter = Self {
            scribe: Scribe::new(HARNESS, options, ids),
            talks: HashMap::new(),
            nodes: HashMap::new(),
            raised: Vec::new(),
            refused: HashMap::new(),
            aliases: HashMap::new(),
            head: None,
            result: None,
            seen: HashSet::new(),
        };
        let Turn::Resume(resume) = turn else { return adapter };
        let snapshot = resume.private.as_deref().and_then(Snapshot::from_json).unwrap_or_default();
        adapter.aliases = snapshot.aliases.iter().cloned().collect();
        for pause in &snapshot.pauses {
            let Some(call) = pause.call.clone() else { continue };
            let code = match &resume.answer {
                Some(Answer::Dismissed) => Some("tool_status_error"),
                Some(Answer::Decisions(decisions)) => decisions
                    .iter()
                    .find(|one| one.tool_call_id.as_str() == call)
                    .filter(|one| one.decision == causeway_contract::event::Decision::Reject)
                    .map(|_| if pause.approval { "tool_rejected" } else { "tool_status_error" }),
                Some(Answer::Values(_)) | None => None,
            };
            if let Some(code) = code {
                adapter.refused.insert(call, code);
            }
        }
        for call in &resume.open_calls {
            let at = adapter.scribe.restart(call, None);
            let node = call.id.as_str().strip_prefix("node:");
            if resume.delegations.contains(&call.id) {
                let agent = node.map_or(call.name.as_str(), |node| node.split('#').next().unwrap_or(node));
                adapter.scribe.enter(at, agent);
            }
            if let Some(node) = node {
                let node = node.split('#').next().unwrap_or(node).to_owned();
                adapter.nodes.insert((call.namespace.clone(), node), at);
            }
        }
        adapter
    }

    fn line(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        match line.text("kind") {
            Some("event") => self.root_event(line.get("event").unwrap_or(&Json::Null))?,
            Some("hello" | "begin") => {}
            Some("end") => {
                let max = self.scribe.options.limits.id_bytes;
                let head = worker::head(line).and_then(|head| Reference::bounded(head, max).ok());
                self.head = head.or_else(|| self.head.take());
                self.conclude()?;
                // Without a result nothing is recognised: R12.
                self.scribe.end();
            }
            Some("cancelled") => {
                self.scribe.last_usage(None);
                self.scribe.cancel(worker::head(line).and_then(|head| Reference::new(head).ok()));
            }
            Some("error") => {
                self.scribe.last_usage(None);
                self.scribe.fail(failure(line.text("error_type").unwrap_or_default()), None);
            }
            Some(_) => {
                return Err(ItemError::Shape { what: "`kind` hello, begin, event, end, cancelled or error" });
            }
            None => self.root_event(line)?,
        }
        Ok(())
    }

    fn root_event(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        if !event.is_object() {
            return Err(ItemError::Shape { what: "an event that is an object" });
        }
        if self.scribe.has_ended() || self.result.is_some() {
            return Err(ItemError::OutOfOrder { kind: "event", what: "the agent has given its result" });
        }
        self.event(event, &Namespace::root())
    }

    /// Takes an event of the agent whose events stand in this namespace.
    fn event(&mut self, event: &Json<'_>, here: &Namespace<'static>) -> Result<(), ItemError> {
        if let Some(kind) = event.text("type").filter(|kind| kind.starts_with("multiagent_")) {
            return self.node(kind, event, here);
        }
        if let Some(raw) = event.get("event") {
            self.raw(raw, here);
        } else if let Some(message) = event.get("message") {
            self.message(message, here)?;
        } else if let Some(streamed) = event.get("tool_stream_event") {
            self.inner(streamed, here)?;
        } else if let Some(raised) = event.get("tool_interrupt_event") {
            let native = lossy(raised.get("tool_use").unwrap_or(&Json::Null), "toolUseId");
            for one in raised.list("interrupts") {
                self.raised.push((lossy(one, "id"), native.clone(), here.clone()));
            }
        } else if let Some(result) = event.get("result").filter(|_| here.is_root()) {
            self.result = Some(result.to_text());
        }
        Ok(())
    }

    /// Takes an event of the model's own stream.
    fn raw(&mut self, raw: &Json<'_>, here: &Namespace<'static>) {
        if let Some(told) = raw.get("metadata").and_then(|metadata| metadata.get("usage")) {
            let number = |key| told.get(key).and_then(Json::as_u64);
            let counts = Counts {
                input: number("inputTokens"),
                output: number("outputTokens"),
                cached_input: number("cacheReadInputTokens"),
            };
            if !counts.is_unknown() {
                self.scribe.totals.add(counts);
                self.scribe.usage(Counts::default());
            }
        }
        self.talks.entry(here.clone()).or_default().raw(raw, here, &mut self.scribe);
    }

    fn message(&mut self, message: &Json<'_>, here: &Namespace<'static>) -> Result<(), ItemError> {
        let id = lossy(message, "tracking_id");
        if !id.is_empty() {
            if !self.seen.insert(id.clone()) {
                return Ok(());
            }
            if here.is_root() {
                self.head = Reference::bounded(id, self.scribe.options.limits.id_bytes).ok();
            }
        }
        for block in message.list("content") {
            if let Some(call) = block.get("toolUse") {
                let talk = self.talks.entry(here.clone()).or_default();
                talk.called(call, here, &mut self.scribe)?;
            }
            if let Some(result) = block.get("toolResult") {
                self.tool_result(result, here);
            }
        }
        Ok(())
    }

    /// The open call with this native id.
    fn open(&self, native: &str, here: &Namespace<'static>) -> Option<usize> {
        let alias = self.aliases.get(native).map_or(native, String::as_str);
        self.scribe.calls.open_in(native, here).or_else(|| self.scribe.calls.open_in(alias, here))
    }

    fn tool_result(&mut self, result: &Json<'_>, here: &Namespace<'static>) {
        let Some(at) = self.open(&lossy(result, "toolUseId"), here) else { return };
        let text = result_text(result.get("content"), &self.scribe);
        let call = self.scribe.calls.get(at).map(|call| call.id.as_str().to_owned()).unwrap_or_default();
        match self.refused.remove(&call) {
            Some(code) => self.scribe.finish(at, End::Failed(code, &text)),
            None if result.text("status") == Some("error") => {
                self.scribe.finish(at, End::Failed("tool_error", &text));
            }
            None => self.scribe.finish(at, End::Finished(&text)),
        }
    }

    /// What a tool streams while it runs: the events of an agent, or progress in a shape of its own.
    fn inner(&mut self, streamed: &Json<'_>, here: &Namespace<'static>) -> Result<(), ItemError> {
        let call = streamed.get("tool_use").unwrap_or(&Json::Null);
        let data = streamed.get("data").unwrap_or(&Json::Null);
        let Some(at) = self.open(&lossy(call, "toolUseId"), here) else { return Ok(()) };
        let starts = data.get("init_event_loop") == Some(&Json::Bool(true))
            || data.text("type").is_some_and(|kind| kind.starts_with("multiagent_"));
        let inside = match self.scribe.inside(at) {
            Some(inside) => inside,
            None if starts => match self.scribe.enter(at, &lossy(call, "name")) {
                Some(inside) => inside,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        self.event(data, &inside)
    }

    fn node(&mut self, kind: &str, event: &Json<'_>, here: &Namespace<'static>) -> Result<(), ItemError> {
        let node = lossy(event, "node_id");
        let key = (here.clone(), node.clone());
        match kind {
            "multiagent_node_start" if !self.nodes.contains_key(&key) => {
                let at = self.scribe.start(&format!("node:{node}"), "graph_node", "{}", here, None)?;
                self.scribe.enter(at, &node);
                self.nodes.insert(key, at);
            }
            "multiagent_node_stream" => {
                let Some(inside) = self.nodes.get(&key).and_then(|at| self.scribe.inside(*at)) else {
                    return Ok(());
                };
                self.event(event.get("event").unwrap_or(&Json::Null), &inside)?;
            }
            "multiagent_node_stop" => {
                let result = event.get("node_result").unwrap_or(&Json::Null);
                // A node that waits goes on in the next run.
                if result.text("status") == Some("interrupted") {
                    return Ok(());
                }
                let Some(at) = self.nodes.remove(&key) else { return Ok(()) };
                if result.text("status") == Some("completed") {
                    self.scribe.finish(at, End::Finished(""));
                } else {
                    self.scribe.finish(at, End::Failed("tool_error", "The node failed."));
                }
            }
            "multiagent_result" if here.is_root() => {
                self.result = event.get("result").map(Json::to_text);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the run as its result says, as far as that can be believed.
    fn conclude(&mut self) -> Result<(), ItemError> {
        let Some(result) = self.result.take().filter(|_| !self.scribe.has_ended()) else { return Ok(()) };
        let result = Json::parse(result.as_bytes())?;
        let head = self.head.take();
        let interrupts = result.list("interrupts");
        self.scribe.last_usage(None);
        let reason = match result.text("stop_reason").or_else(|| result.text("status")) {
            Some("interrupt" | "interrupted") if !interrupts.is_empty() => {
                let asked = pauses::request(
                    interrupts,
                    &self.scribe.calls,
                    &|id| self.call_of(id),
                    &self.scribe.options,
                );
                let (request, snapshot) = asked?;
                self.scribe.interrupt(request, head, snapshot.to_json());
                return Ok(());
            }
            Some("cancelled") => {
                self.scribe.cancel(head);
                return Ok(());
            }
            Some("end_turn" | "stop_sequence" | "completed") => "end_turn",
            Some("max_tokens") => "max_tokens",
            Some("content_filtered" | "guardrail_intervened" | "refusal") => "refusal",
            Some("failed") => {
                self.scribe.fail(sentences::FAILED, None);
                return Ok(());
            }
            Some(_) | None => {
                self.scribe.fail(sentences::INCOMPLETE, None);
                return Ok(());
            }
        };
        if self.scribe.calls.open().next().is_some() {
            self.scribe.fail(sentences::INCOMPLETE, None);
        } else {
            self.scribe.succeed(reason, head);
        }
        Ok(())
    }

    /// The call that an interrupt is about: that of the event that raised it, or the one its id names.
    fn call_of(&self, interrupt: &str) -> Option<usize> {
        let raised = self.raised.iter().find(|(id, _, _)| id == interrupt);
        match raised {
            Some((_, native, here)) => self.open(native, here),
            None => self.open(interrupt.split(':').nth(2)?, &Namespace::root()),
        }
    }
}

/// The failure behind an exception of Strands or of a model's client.
fn failure(error_type: &str) -> Failure {
    match error_type.rsplit('.').next().unwrap_or(error_type) {
        "ModelThrottledException" => sentences::RATE_LIMITED,
        "ContextWindowOverflowException" => sentences::CONTEXT_TOO_LONG,
        "MaxTokensReachedException" => sentences::INCOMPLETE,
        _ => sentences::of(error_type),
    }
}

fn lossy(object: &Json<'_>, key: &str) -> String {
    object.str(key).map(|text| text.lossy().into_owned()).unwrap_or_default()
}

impl Adapter for Strands {
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

    /// A stream that gave its result is over; any other is recognised as nothing: R12.
    fn close(&mut self, _how: Close) {
        if self.conclude().is_err() {
            self.scribe.fail(sentences::FAILED, None);
        }
        self.scribe.end();
    }
}

/// The list of interrupt responses for an answer.
///
/// # Errors
/// The state cannot be read, or the answer does not fit what was asked.
pub fn resume_value(private: &str, answer: &Answer) -> Result<String, AnswerError> {
    pauses::resume_value(&Snapshot::from_json(private).ok_or(AnswerError::Unreadable)?, answer)
}

/// The answer behind a list of interrupt responses; `None` where it cannot be told.
pub fn answer_of(private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
    let value = Json::parse(resume_value).ok()?;
    pauses::answer_of(&Snapshot::from_json(private)?, &value, &options.limits)
}
