//! The adapter for AG-UI: 1.0, the 0.0.x servers before it, and the established `agui` format of this gateway read back.
//!
//! An item is a line: of SSE, the bare event, or `{"kind":"event","event":{…}}` between `begin` and `end`. Keys are read in camel
//! and in snake case. A server that stamps seconds speaks the established format; all others stamp milliseconds.
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started`; in a resumed run the open calls again, with edited arguments where a person edited them, and their namespaces |
//! | `RUN_STARTED` | nothing; thread and run become the state's head |
//! | `TEXT_MESSAGE_START`, `…_CONTENT`, `…_END`, `…_CHUNK` of the assistant | `text.started` right before the first character, `text.delta`, `text.finished` |
//! | `REASONING_MESSAGE_*`, `THINKING_TEXT_MESSAGE_*` | `reasoning.started`, `reasoning.delta`, `reasoning.finished` |
//! | `TOOL_CALL_START`, `…_ARGS`, `…_CHUNK`, and the end of the arguments | `tool.started`; with `stream_arguments` at once, then `tool.arguments.delta` |
//! | `TOOL_CALL_RESULT` | `tool.finished`; `tool.error` where the metadata of a gateway say so, or a person refused |
//! | `SUBAGENT_STARTED` | `namespace.entered` under its call; without one under `node:<id>` (`graph_node`) |
//! | `SUBAGENT_FINISHED`, `SUBAGENT_ERROR` | `namespace.exited`, with the end of that call |
//! | `CUSTOM` `WARNING`, `causeway.warning` | `warning` with a sentence of ours |
//! | `RUN_FINISHED`: success, or without outcome | the last `usage.updated`, the state, `run.finished` (`tool_use` with calls of the client open) |
//! | `RUN_FINISHED`: interrupt | the last `usage.updated`, the state, `interrupt.requested`, `run.interrupted` |
//! | `RUN_FINISHED`: cancelled, `RUN_ERROR` `cancelled`, `{"kind":"cancelled"}` | `run.cancelled` |
//! | `RUN_ERROR`, `{"kind":"error"}` | `run.error`, typed by its code |
//! | established: `CUSTOM` `NAMESPACE_CONTEXT` | `namespace.entered` under the calls that it names |
//! | established: results that begin with `ERROR: ` | `tool.error` |
//! | established: `TOOL_CALL_END` without a result | `tool.finished` with an empty one |
//!
//! Deliberately dropped: `STEP_*`, `STATE_*`, `MESSAGES_SNAPSHOT`, `ACTIVITY_*`, `RAW` and other `CUSTOM` events (a client's view of the
//! same run); messages of other roles; encrypted reasoning; results of calls that this run did not make; times; all words
//! of errors and warnings; unknown types.
//!
//! Refused ([`ItemError`]): what is no event, pieces of what was not started, a call started twice, and what follows the end.
//! An interrupt that an old server only tells in a `CUSTOM` `on_interrupt` cannot be answered: its run is an error.
//!
//! It is one piece: every event of the protocol reads and changes the same few tables.

mod args;
pub mod catalogue;
mod ending;
mod pauses;
mod turns;

use std::collections::{HashMap, HashSet};

use causeway_contract::event::{Decision, NamespaceOutcome, Warning};
use causeway_contract::id::{Code, InvocationId, MessageId};
use causeway_contract::json::JsonObject;
use causeway_contract::namespace::Namespace;

use self::args::Args;
use self::pauses::Snapshot;
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::failure as sentences;
use crate::ids::Ids;
use crate::json::Json;
use crate::messages::Kind;
use crate::openai::wire::{Item, Wire};
use crate::scribe::{End, Scribe};
use crate::text;
use crate::turn::{Answer, AnswerError, Edited, Options, Resume, Turn};
use crate::worker;

/// The canonical `harness_id`.
pub const HARNESS: &str = "agui";

/// Longer native ids belong to no message or call: what a run remembers of them is bounded.
const LONGEST_NATIVE_ID: usize = 4096;

/// Seconds since 1970 stay below this for a long time, milliseconds have left it behind for as long.
const SECONDS_END: f64 = 1e11;

const WARNING: &str = "The agent gave a warning.";
/// Translates one run.
pub struct Agui {
    scribe: Scribe,
    wire: Wire,
    begun: bool,
    established: bool,
    thread: String,
    run: String,
    /// Calls whose arguments are arriving, by native id.
    arriving: Vec<(String, Args)>,
    /// Messages that were started: whether they are shown, and where.
    messages: HashMap<String, (bool, Namespace<'static>)>,
    /// The native message that is open, by outermost namespace.
    speaking: HashMap<(Option<InvocationId<'static>>, Kind), String>,
    /// The events' ids of texts that have ended.
    said: HashMap<String, MessageId<'static>>,
    /// What a chunk without an id goes on with.
    chunk: Option<(Chunk, String)>,
    /// Subagents by their native run.
    subagents: HashMap<String, Subagent>,
    /// The path that the established format announced last.
    announced: Vec<String>,
    /// Calls of the interrupted run that were refused, with the code that tells it.
    refused: HashMap<String, &'static str>,
    /// Native ids of calls that the resumed run has started again.
    again: HashSet<String>,
    /// Canonical ids of calls of the interrupted run, by their native ones.
    aliases: HashMap<String, String>,
    /// A pause that cannot be answered.
    unanswerable: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Chunk {
    Text,
    Reasoning,
    Tool,
}

#[derive(Clone, Copy, Debug)]
struct Subagent {
    /// The call it is under.
    call: usize,
    /// Whether that call was made up for it.
    made_up: bool,
    outcome: NamespaceOutcome,
}

impl std::fmt::Debug for Agui {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agui").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl Agui {
    /// The adapter for a turn.
    pub fn new(turn: Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let mut adapter = Self {
            scribe: Scribe::new(HARNESS, options, ids),
            wire: Wire::default(),
            begun: false,
            established: false,
            thread: String::new(),
            run: String::new(),
            arriving: Vec::new(),
            messages: HashMap::new(),
            speaking: HashMap::new(),
            said: HashMap::new(),
            chunk: None,
            subagents: HashMap::new(),
            announced: Vec::new(),
            refused: HashMap::new(),
            again: HashSet::new(),
            aliases: HashMap::new(),
            unanswerable: false,
        };
        if let Turn::Resume(resume) = turn {
            adapter.resume(&resume);
        }
        adapter
    }

    fn resume(&mut self, resume: &Resume) {
        let snapshot = resume.private.as_deref().and_then(Snapshot::from_json).unwrap_or_default();
        self.aliases = snapshot.aliases.iter().cloned().collect();
        for call in &resume.open_calls {
            let id = call.id.as_str();
            let decided = match &resume.answer {
                Some(Answer::Decisions(all)) => all.iter().find(|one| one.tool_call_id == call.id),
                Some(Answer::Values(_) | Answer::Dismissed) | None => None,
            };
            let edited = decided.and_then(|one| one.edited_args.as_ref()).map(JsonObject::as_str);
            let at = self.scribe.restart(call, edited);
            if decided.is_some_and(|one| one.decision == Decision::Reject) {
                let approval = snapshot.asked(id).unwrap_or(true);
                self.refused
                    .insert(id.to_owned(), if approval { "tool_rejected" } else { "tool_status_error" });
            }
            self.again.insert(id.to_owned());
            let native = snapshot.aliases.iter().find(|(_, alias)| alias == id).map(|(native, _)| native);
            self.again.extend(native.cloned());
            if resume.delegations.contains(&call.id) {
                self.scribe.enter(at, call.name.as_str());
            }
        }
    }

    fn json(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        match line.text("kind") {
            Some("event") => self.event(line.get("event").unwrap_or(&Json::Null)),
            Some("hello" | "begin") => Ok(()),
            Some("end") => {
                // Without a terminal event nothing is recognised: R12.
                self.scribe.end();
                Ok(())
            }
            Some("cancelled") => {
                self.cancelled();
                Ok(())
            }
            Some("error") => {
                self.scribe.fail(sentences::of(line.text("error_type").unwrap_or_default()), None);
                Ok(())
            }
            Some(_) => Err(ItemError::Shape { what: "`kind` hello, begin, event, end, cancelled or error" }),
            None => self.event(line),
        }
    }

    fn event(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let Some(kind) = event.text("type") else {
            return Err(ItemError::Shape { what: "an event with a `type`" });
        };
        if self.scribe.has_ended() {
            return Err(ItemError::OutOfOrder { kind: "event", what: "the run is over" });
        }
        if kind == "RUN_STARTED" {
            return self.started(event);
        }
        // A request that failed before it became a run has no start.
        if !self.begun && kind != "RUN_ERROR" {
            return Err(ItemError::OutOfOrder { kind: "event", what: "the run has not started" });
        }
        if !kind.ends_with("_CHUNK") && !matches!(kind, "RAW" | "REASONING_ENCRYPTED_VALUE") {
            self.end_chunk()?;
        }
        match kind {
            "TEXT_MESSAGE_START" => self.message(event),
            "TEXT_MESSAGE_CONTENT" => self.speak(Kind::Text, &message_id(event), event),
            "TEXT_MESSAGE_END" => {
                self.fall_silent(Kind::Text, &message_id(event));
                Ok(())
            }
            "TEXT_MESSAGE_CHUNK" => self.chunk(Chunk::Text, event),
            "REASONING_MESSAGE_START" => {
                self.open_message(Kind::Reasoning, &message_id(event), true, event);
                Ok(())
            }
            "REASONING_MESSAGE_CONTENT" => self.speak(Kind::Reasoning, &message_id(event), event),
            "REASONING_MESSAGE_END" => {
                self.fall_silent(Kind::Reasoning, &message_id(event));
                Ok(())
            }
            "REASONING_MESSAGE_CHUNK" => self.chunk(Chunk::Reasoning, event),
            "THINKING_TEXT_MESSAGE_START" => {
                self.open_message(Kind::Reasoning, "", true, event);
                Ok(())
            }
            "THINKING_TEXT_MESSAGE_CONTENT" => self.speak(Kind::Reasoning, "", event),
            "THINKING_TEXT_MESSAGE_END" => {
                self.fall_silent(Kind::Reasoning, "");
                Ok(())
            }
            "TOOL_CALL_START" => self.call(&call_id(event), event),
            "TOOL_CALL_ARGS" => self.arguments(&call_id(event), event),
            "TOOL_CALL_END" => self.call_end(&call_id(event)),
            "TOOL_CALL_CHUNK" => self.chunk(Chunk::Tool, event),
            "TOOL_CALL_RESULT" => self.result(event),
            "SUBAGENT_STARTED" => self.subagent(event),
            "SUBAGENT_FINISHED" => {
                self.subagent_end(event, NamespaceOutcome::Success);
                Ok(())
            }
            "SUBAGENT_ERROR" => {
                self.subagent_end(event, NamespaceOutcome::Error);
                Ok(())
            }
            "CUSTOM" => self.custom(event),
            "RUN_FINISHED" => self.finished(event),
            "RUN_ERROR" => {
                self.run_error(event);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn started(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        if std::mem::replace(&mut self.begun, true) {
            return Err(ItemError::OutOfOrder { kind: "RUN_STARTED", what: "the run has started" });
        }
        self.thread = lossy(event, "threadId", "thread_id");
        self.run = lossy(event, "runId", "run_id");
        let stamp = match event.get("timestamp") {
            Some(Json::Number(text)) => text.parse::<f64>().ok(),
            _ => None,
        };
        self.established = stamp.is_some_and(|stamp| stamp > 0.0 && stamp < SECONDS_END);
        Ok(())
    }

    /// Where the events of an event's agent stand.
    fn here(&self, event: &Json<'_>) -> Namespace<'static> {
        let run = lossy(event, "subagentRunId", "subagent_run_id");
        let of = |run: &str| self.subagents.get(run).and_then(|one| self.scribe.inside(one.call));
        if !run.is_empty() {
            return of(&run).unwrap_or_else(Namespace::root);
        }
        self.announced.iter().rev().find_map(|element| of(element)).unwrap_or_else(Namespace::root)
    }

    fn message(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let shown = matches!(event.text("role"), None | Some("assistant"));
        self.open_message(Kind::Text, &message_id(event), shown, event);
        Ok(())
    }

    fn open_message(&mut self, kind: Kind, id: &str, shown: bool, event: &Json<'_>) {
        // More than a run may hold are not remembered: what they say is refused as content without a start.
        let limits = &self.scribe.options.limits;
        if self.messages.len() >= limits.messages || id.len() > LONGEST_NATIVE_ID {
            return;
        }
        let here = self.here(event);
        self.messages.insert(message_key(kind, id), (shown, here));
    }

    fn speak(&mut self, kind: Kind, id: &str, event: &Json<'_>) -> Result<(), ItemError> {
        let Some((shown, here)) = self.messages.get(&message_key(kind, id)).cloned() else {
            return Err(ItemError::OutOfOrder { kind: "content", what: "its message has not started" });
        };
        let Some(delta) = event.str("delta").filter(|_| shown) else { return Ok(()) };
        // Its subagent may have ended before it.
        let here = self.scribe.innermost(&here);
        let key = (here.path().first().cloned(), kind);
        if self.speaking.get(&key).is_some_and(|other| other != id) {
            self.hush(&here);
        }
        self.speaking.insert(key, id.to_owned());
        self.scribe.say(kind, &here, &[delta]);
        Ok(())
    }

    fn fall_silent(&mut self, kind: Kind, id: &str) {
        let Some((_, here)) = self.messages.remove(&message_key(kind, id)) else { return };
        let key = (here.path().first().cloned(), kind);
        if self.speaking.get(&key).is_some_and(|open| open == id) {
            self.hush(&here);
        }
    }

    fn hush(&mut self, here: &Namespace<'static>) {
        let key = here.path().first().cloned();
        self.speaking.remove(&(key.clone(), Kind::Reasoning));
        let native = self.speaking.remove(&(key, Kind::Text));
        if let (Some(id), Some(native)) = (self.scribe.hush(here), native) {
            self.said.insert(native, id);
        }
    }

    /// A chunk is a start where its id is new, a piece, and, with what follows it, an end.
    fn chunk(&mut self, kind: Chunk, event: &Json<'_>) -> Result<(), ItemError> {
        let named = if kind == Chunk::Tool { call_id(event) } else { message_id(event) };
        let going_on = self.chunk.take_if(|(open, id)| *open == kind && (named.is_empty() || *id == named));
        let id = match going_on {
            Some((_, id)) => id,
            None => {
                self.end_chunk()?;
                if named.is_empty() {
                    return Err(ItemError::Shape { what: "an id in the first chunk of a message or call" });
                }
                match kind {
                    Chunk::Text => self.message(event)?,
                    Chunk::Reasoning => self.open_message(Kind::Reasoning, &named, true, event),
                    Chunk::Tool => self.call(&named, event)?,
                }
                named
            }
        };
        match kind {
            Chunk::Text => self.speak(Kind::Text, &id, event)?,
            Chunk::Reasoning => self.speak(Kind::Reasoning, &id, event)?,
            Chunk::Tool => self.arguments(&id, event)?,
        }
        self.chunk = Some((kind, id));
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), ItemError> {
        match self.chunk.take() {
            Some((Chunk::Text, id)) => self.fall_silent(Kind::Text, &id),
            Some((Chunk::Reasoning, id)) => self.fall_silent(Kind::Reasoning, &id),
            Some((Chunk::Tool, id)) => self.settle(&id)?,
            None => {}
        }
        Ok(())
    }

    fn call(&mut self, native: &str, event: &Json<'_>) -> Result<(), ItemError> {
        if self.again.contains(native) && self.open(native).is_some() {
            return Ok(());
        }
        if native.is_empty()
            || self.open(native).is_some()
            || self.arriving.iter().any(|(id, _)| id == native)
        {
            return Err(ItemError::OutOfOrder {
                kind: "TOOL_CALL_START",
                what: "the call has no id, or is open",
            });
        }
        if self.arriving.len() >= self.scribe.options.limits.tool_calls || native.len() > LONGEST_NATIVE_ID {
            return Err(ItemError::OutOfOrder {
                kind: "TOOL_CALL_START",
                what: "more calls are under way than a run may hold, or the id has no bound",
            });
        }
        let here = self.here(event);
        let parent = self.said.get(&lossy(event, "parentMessageId", "parent_message_id")).cloned();
        let name = lossy(event, "toolCallName", "tool_call_name");
        let args = Args::new(native, name, &here, parent, &mut self.scribe);
        self.arriving.push((native.to_owned(), args));
        Ok(())
    }

    fn arguments(&mut self, native: &str, event: &Json<'_>) -> Result<(), ItemError> {
        let Some(delta) = event.str("delta") else { return Ok(()) };
        if let Some((_, args)) = self.arriving.iter_mut().find(|(id, _)| id == native) {
            let complete = args.push(delta, &mut self.scribe);
            return if complete { self.settle(native) } else { Ok(()) };
        }
        if self.again.contains(native) || delta.lossy().trim().is_empty() {
            return Ok(());
        }
        Err(ItemError::OutOfOrder { kind: "TOOL_CALL_ARGS", what: "no call waits for arguments" })
    }

    /// No more arguments follow.
    fn settle(&mut self, native: &str) -> Result<(), ItemError> {
        let Some(at) = self.arriving.iter().position(|(id, _)| id == native) else { return Ok(()) };
        let (native, args) = self.arriving.remove(at);
        args.settle(&native, &mut self.scribe)
    }

    fn settle_all(&mut self) -> Result<(), ItemError> {
        for (native, args) in std::mem::take(&mut self.arriving) {
            args.settle(&native, &mut self.scribe)?;
        }
        Ok(())
    }

    /// The open call with this native id.
    fn open(&self, native: &str) -> Option<usize> {
        let alias = self.aliases.get(native).map_or(native, String::as_str);
        self.scribe.calls.open_by_native(native).or_else(|| self.scribe.calls.open_by_native(alias))
    }

    fn call_end(&mut self, native: &str) -> Result<(), ItemError> {
        if self.arriving.iter().any(|(id, _)| id == native) {
            return self.settle(native);
        }
        if self.established
            && let Some(at) = self.open(native)
        {
            self.end_call(at, "", None);
        }
        Ok(())
    }

    fn result(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let native = call_id(event);
        self.settle(&native)?;
        let Some(at) = self.open(&native) else { return Ok(()) };
        let content = event.get("content").unwrap_or(&Json::Null);
        let content = match content {
            Json::String(text) => text::whole([text], &self.scribe.options),
            Json::Array(parts) => {
                let parts: Vec<String> =
                    parts.iter().map(|part| part_text(part, &self.scribe.options)).collect();
                parts.join("\n")
            }
            Json::Null => String::new(),
            Json::Bool(_) | Json::Number(_) | Json::Object(_) => content.to_text(),
        };
        let told = ours(event).and_then(|ours| ours.get("error"));
        match (told, content.strip_prefix("ERROR: ").filter(|_| self.established)) {
            (Some(error), _) => self.end_call(at, &content, Some(tool_code(error.text("code")))),
            (None, Some(message)) => self.end_call(at, message, Some("tool_error")),
            (None, None) => self.end_call(at, &content, None),
        }
        Ok(())
    }

    fn end_call(&mut self, at: usize, content: &str, error: Option<&'static str>) {
        let id = self.scribe.calls.get(at).map(|call| call.id.as_str().to_owned()).unwrap_or_default();
        let outcome = self.subagents.values().find(|one| one.call == at).map(|one| one.outcome);
        let end = match self.refused.remove(&id).or(error) {
            Some(code) => End::Failed(code, content),
            None => End::Finished(content),
        };
        match outcome {
            Some(outcome @ (NamespaceOutcome::Error | NamespaceOutcome::Cancelled)) => {
                self.scribe.finish_as(at, end, outcome);
            }
            Some(NamespaceOutcome::Success | NamespaceOutcome::Interrupted) | None => {
                self.scribe.finish(at, end);
            }
        }
    }

    fn subagent(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let run = lossy(event, "subagentRunId", "subagent_run_id");
        let parent_call = lossy(event, "parentToolCallId", "parent_tool_call_id");
        self.settle(&parent_call)?;
        let parent = self.subagents.get(&lossy(event, "parentSubagentRunId", "parent_subagent_run_id"));
        let here = parent.and_then(|one| self.scribe.inside(one.call)).unwrap_or_else(Namespace::root);
        let name = lossy(event, "name", "name");
        self.enter(&run, &parent_call, &name, &here)
    }

    /// Enters the namespace of a subagent, under its call if that is open and free, else under one that is made up.
    fn enter(
        &mut self,
        run: &str,
        parent_call: &str,
        name: &str,
        here: &Namespace<'static>,
    ) -> Result<(), ItemError> {
        if self.subagents.get(run).is_some_and(|one| self.scribe.inside(one.call).is_some()) {
            return Ok(());
        }
        let free = |at: &usize| !self.subagents.values().any(|one| one.call == *at);
        let (call, made_up) = match self.open(parent_call).filter(free) {
            Some(at) => (at, false),
            None => (self.scribe.start(&format!("node:{run}"), "graph_node", "{}", here, None)?, true),
        };
        self.scribe.enter(call, name);
        self.subagents.insert(run.to_owned(), Subagent { call, made_up, outcome: NamespaceOutcome::Success });
        Ok(())
    }

    fn subagent_end(&mut self, event: &Json<'_>, outcome: NamespaceOutcome) {
        let run = lossy(event, "subagentRunId", "subagent_run_id");
        let suspended = event.get("outcome").and_then(|outcome| outcome.text("type")) == Some("suspended");
        let cancelled = event.text("code") == Some("cancelled");
        let Some(one) = self.subagents.get_mut(&run) else { return };
        if suspended {
            return; // it goes on in the next run
        }
        one.outcome = if cancelled { NamespaceOutcome::Cancelled } else { outcome };
        let one = *one;
        if let Some(inside) = self.scribe.inside(one.call) {
            self.hush(&inside);
        }
        if one.made_up {
            let failed = outcome == NamespaceOutcome::Error;
            self.end_call(
                one.call,
                if failed { "The subagent failed." } else { "" },
                failed.then_some("tool_error"),
            );
        }
    }

    fn custom(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let value = event.get("value").unwrap_or(&Json::Null);
        match event.text("name") {
            Some("NAMESPACE_CONTEXT") => {
                let path: Vec<String> = value
                    .list("namespace")
                    .iter()
                    .filter_map(Json::as_str)
                    .map(|id| id.lossy().into_owned())
                    .collect();
                let mut here = Namespace::root();
                for element in &path {
                    self.settle(element)?;
                    let name = self.open(element).and_then(|at| self.scribe.calls.get(at)).map(agent_of);
                    self.enter(element, element, &name.unwrap_or_default(), &here)?;
                    let inside = self.subagents.get(element).and_then(|one| self.scribe.inside(one.call));
                    here = inside.unwrap_or(here);
                }
                self.announced = path;
            }
            Some("WARNING" | "causeway.warning") => {
                let code = value.text("code").and_then(|code| Code::new(code.to_owned()).ok());
                let code = match code {
                    Some(code) => code,
                    None => Code::new("agent_warning")
                        .unwrap_or_else(|_| unreachable!("a constant that is a code")),
                };
                let warning = Warning { code, message: WARNING.into(), details: None };
                self.scribe.draft(Namespace::root(), warning);
            }
            Some("on_interrupt" | "OnInterrupt") => self.unanswerable = true,
            Some(_) | None => {}
        }
        Ok(())
    }
}

/// A code that a gateway of our own gave a failed call, as a constant.
fn tool_code(code: Option<&str>) -> &'static str {
    const KNOWN: &[&str] = &["tool_error", "tool_status_error", "tool_rejected", "tool_arguments_invalid"];
    KNOWN.iter().find(|known| Some(**known) == code).copied().unwrap_or("tool_error")
}

/// The agent that a delegating call names.
fn agent_of(call: &crate::calls::Call) -> String {
    let arguments = Json::parse(call.arguments.as_bytes()).ok();
    let named = arguments.as_ref().and_then(|args| args.str("subagent_type"));
    named.map_or_else(|| call.name.as_str().to_owned(), |named| named.lossy().into_owned())
}

/// A part of a result; what is no text is named by its kind.
fn part_text(part: &Json<'_>, options: &Options) -> String {
    match part.str("text") {
        Some(text) => text::whole([text], options),
        None => format!("[{}]", part.text("type").filter(|kind| kind.len() < 32).unwrap_or("part")),
    }
}

/// What a gateway of our own says beside AG-UI.
fn ours<'j, 'a>(event: &'j Json<'a>) -> Option<&'j Json<'a>> {
    event.get("metadata").and_then(|metadata| metadata.get("causeway"))
}

fn lossy(event: &Json<'_>, camel: &str, snake: &str) -> String {
    let text = event.str(camel).or_else(|| event.str(snake));
    text.map(|text| text.lossy().into_owned()).unwrap_or_default()
}

fn message_id(event: &Json<'_>) -> String {
    lossy(event, "messageId", "message_id")
}

fn call_id(event: &Json<'_>) -> String {
    lossy(event, "toolCallId", "tool_call_id")
}

/// Text and reasoning messages may share an id.
fn message_key(kind: Kind, id: &str) -> String {
    match kind {
        Kind::Text => format!("text:{id}"),
        Kind::Reasoning => format!("reasoning:{id}"),
    }
}

impl Adapter for Agui {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        let mut wire = std::mem::take(&mut self.wire);
        let taken = wire.lines(item, &mut |item| match item {
            Item::Value(value) => self.json(value),
            Item::Done => Ok(()),
        });
        self.wire = wire;
        taken
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    /// A run ends with an event of its own; without it nothing is recognised: R12.
    fn close(&mut self, _how: Close) {
        self.scribe.end();
    }
}

/// What goes back to the server: `resume` of `RunAgentInput`, or `resume_data` where the established format asked.
///
/// # Errors
/// The state cannot be read, or the answer does not fit what was asked.
pub fn resume_value(private: &str, answer: &Answer) -> Result<String, AnswerError> {
    pauses::resume_value(&Snapshot::from_json(private).ok_or(AnswerError::Unreadable)?, answer)
}

/// What the edits of an answer make of their calls.
pub fn edits(private: &str, answer: &Answer) -> Vec<Edited> {
    Snapshot::from_json(private).map(|snapshot| pauses::edits(&snapshot, answer)).unwrap_or_default()
}

/// The answer behind a `resume`; `None` where it cannot be told.
pub fn answer_of(private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
    let value = worker::parse_line(resume_value).ok()?;
    pauses::answer_of(&Snapshot::from_json(private)?, &value, &options.limits)
}
