//! The adapter for the Claude Agent SDK: the CLI's stream-json lines, or the message objects of the Python SDK.
//!
//! A run is what the CLI does for one message of the user, up to its `result`; a request for permission ends it with an
//! interrupt, and what follows the answer is the next run. The process lives on meanwhile: an approval cannot be answered
//! by another process. Requests that come before the stream is cut (whoever drives the CLI does that once nothing more is
//! said) are one interrupt: their forms are joined, and beside approvals a form is a call whose edit holds `answers`.
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started`; in a resumed run the open calls start again, with the arguments that will run |
//! | `stream_event`: text and thinking of a block | `text.*`, `reasoning.*`: started right before the first character, finished at the block's end |
//! | `assistant`: blocks of a message that was not streamed | the same, whole |
//! | `assistant`: `tool_use`; else the end of its streamed block | `tool.started` with its arguments |
//! | `input_json_delta` | nothing; with `stream_arguments`: `tool.started` at the block's start, `tool.arguments.delta` |
//! | `user`: `tool_result` | `tool.finished`, or `tool.error` (`is_error`, refusals) |
//! | `system/task_started`, the first line with a `parent_tool_use_id` | `namespace.entered`, the path ends with the `Task` call's id |
//! | `system/task_notification` | the subagent's last text, in its namespace |
//! | the `tool_result` of a `Task` call | `namespace.exited`, then the call's end |
//! | `control_request` `can_use_tool`, at the end of the stream | the state, `interrupt.requested`, `run.interrupted` |
//! | the same for `AskUserQuestion` | a form: a field for each question |
//! | `control_cancel_request` | nothing: that request is not asked any more |
//! | `message_delta` | `usage.updated`: the totals so far; `provider.metadata`, what the allowlist admits |
//! | `system/api_retry`, `system/compact_boundary` | `warning` |
//! | `result` | the last `usage.updated`; `provider.metadata`; then the state and `run.finished`, or `run.error`, or `run.cancelled` |
//! | a `result` that says success though a stream broke, a call is open, or the model wanted a tool | `run.error` |
//! | the end after `[Request interrupted by user…]` without a `result`, `{"kind":"cancelled"}` | `run.cancelled` |
//!
//! A subagent whose call is over (it went on in the background) or was never seen gets a call of its own, `node:<id>`.
//!
//! Deliberately dropped: whole blocks of streamed messages and the text of `result`, which repeat; what the CLI writes in
//! the model's place (`<synthetic>`, API errors); prompts and notices in `user` lines; signatures and redacted thinking;
//! `system` lines of other kinds, progress of tasks, hooks, rate limit notices, other control requests and all control
//! responses; an end for a call that is not of this run; everything a provider says that is not on the allowlist.
//!
//! Refused ([`ItemError`]): what is neither of the two forms, and lines of a turn that is over.

mod ask;
pub mod catalogue;
mod lines;
mod native;
mod result;
mod resume;
mod snapshot;
mod standing;
mod turns;
mod waits;
mod watch;

use std::collections::{HashMap, HashSet};

use causeway_contract::event::{NamespaceOutcome, ProviderMetadata};
use causeway_contract::id::{MessageId, Reference};
use causeway_contract::json::JsonNumber;
use causeway_contract::namespace::Namespace;

pub use self::standing::{Standing, parts};
pub use self::turns::Turns;
pub use self::watch::{Seen, Waits, Watch};

use self::native::{Line, Said, kind, owned, read};
use self::result::Outcome;
use self::resume::{Reply, replies};
use self::snapshot::Snapshot;
use self::waits::Waiting;
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::anthropic_messages::failure as provider;
use crate::anthropic_messages::stream::{Broken, Heard, Message};
use crate::calls::Call;
use crate::failure::{self, Failure};
use crate::ids::Ids;
use crate::json::Json;
use crate::messages::Kind;
use crate::metadata::{Admitted, stop_reason};
use crate::scribe::{End, Scribe};
use crate::text;
use crate::turn::{Answer, AnswerError, Edited, Options, Resume, Turn};
use crate::usage::Counts;
use crate::worker;

/// The canonical `harness_id`.
pub const HARNESS: &str = "claude-agent-sdk";

/// Native ids of what was invented for a subagent without an open call start with this.
const NODE: &str = "node:";

/// Translates what the CLI does for one message of the user, or for the answer to a request.
pub struct ClaudeAgentSdk {
    scribe: Scribe,
    /// The root's streamed message, and those of subagents by their call.
    message: Message,
    inner: HashMap<String, Message>,
    /// Messages that were streamed, and those of which whole blocks were shown.
    streamed: HashSet<String>,
    whole: HashSet<String>,
    /// The last text of the message that was shown whole.
    parent: Option<(String, MessageId<'static>)>,
    standing: Standing,
    model: Option<String>,
    /// Subagents by their call: their type, their last text, how they ended.
    agents: HashMap<String, Agent>,
    /// Calls that the permission rules refused.
    denied: HashSet<String>,
    /// What was decided on the calls that the interrupted run asked about.
    verdicts: HashMap<String, Verdict>,
    /// Requests of this run that wait for an answer.
    waiting: Vec<Waiting>,
    /// What was counted before this run, in the same native turn.
    baseline: Counts,
    retries: u64,
    /// What the CLI said of an API error in the model's place.
    error: Option<String>,
    /// The root's last streamed message broke off.
    broken: bool,
    /// The notice that a person interrupted came.
    cut: bool,
}

/// What is known of a subagent.
#[derive(Clone, Debug, Default)]
struct Agent {
    kind: Option<String>,
    said: Option<String>,
    outcome: Option<NamespaceOutcome>,
}

/// What was decided on a call that the interrupted run asked about.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    form: bool,
    /// Whether it was refused; `None` where only the stream can tell.
    refused: Option<bool>,
}

impl std::fmt::Debug for ClaudeAgentSdk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaudeAgentSdk").field("message", &self.message).finish_non_exhaustive()
    }
}

impl ClaudeAgentSdk {
    /// The adapter for a turn.
    pub fn new(turn: Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let mut adapter = Self {
            scribe: Scribe::new(HARNESS, options, ids),
            message: Message::new(Namespace::root(), Broken::Waits),
            inner: HashMap::new(),
            streamed: HashSet::new(),
            whole: HashSet::new(),
            parent: None,
            standing: Standing::default(),
            model: None,
            agents: HashMap::new(),
            denied: HashSet::new(),
            verdicts: HashMap::new(),
            waiting: Vec::new(),
            baseline: Counts::default(),
            retries: 0,
            error: None,
            broken: false,
            cut: false,
        };
        match turn {
            Turn::Start => {}
            Turn::Resume(resume) => adapter.resume(&resume),
        }
        adapter
    }

    /// Starts what was open at the interrupt again: the CLI does not repeat it.
    fn resume(&mut self, resume: &Resume) {
        let snapshot = resume.private.as_deref().and_then(Snapshot::from_json);
        let mut edits: HashMap<&str, String> = HashMap::new();
        if let Some(snapshot) = &snapshot {
            self.baseline = snapshot.counted;
            self.standing = snapshot.head.as_deref().map(Standing::at).unwrap_or_default();
            self.streamed.extend(snapshot.message.clone());
            self.message.rejoin(snapshot.message.clone());
            let replies = resume.answer.as_ref().and_then(|answer| replies(snapshot, answer).ok());
            for (at, asked) in snapshot.asked.iter().enumerate() {
                let reply = replies.as_ref().and_then(|replies| replies.get(at));
                let refused = reply.map(|reply| matches!(reply, Reply::Deny(_)));
                if let Some(Reply::Allow(input)) = reply
                    && *input != asked.input
                {
                    edits.insert(&asked.call, input.clone());
                }
                self.verdicts.insert(asked.call.clone(), Verdict { form: asked.form, refused });
            }
        }
        for call in &resume.open_calls {
            let at = self.scribe.restart(call, edits.get(call.id.as_str()).map(String::as_str));
            if resume.delegations.contains(&call.id) {
                let arguments = Json::parse(call.arguments.as_str().as_bytes()).unwrap_or(Json::Null);
                self.scribe.enter(at, &owned(&arguments, "subagent_type").unwrap_or_default());
            }
        }
    }

    /// Where the lines of a subagent stand. `false`: nowhere of their own, so that its words must not be shown.
    fn place(
        &mut self,
        parent: Option<&str>,
        line: &Json<'_>,
    ) -> Result<(Namespace<'static>, bool), ItemError> {
        let Some(parent) = parent else { return Ok((Namespace::root(), true)) };
        let agent = self.agents.entry(parent.to_owned()).or_default();
        agent.kind = owned(line, "subagent_type").or_else(|| agent.kind.take());
        let given = agent.kind.clone();
        let node = format!("{NODE}{parent}");
        let calls = &self.scribe.calls;
        let (at, around) = match (calls.open_by_native(parent), calls.last_by_native(parent)) {
            (Some(at), _) => (at, Namespace::root()),
            (None, before) => {
                let around = before
                    .and_then(|at| calls.get(at))
                    .map(|call| call.namespace.clone())
                    .unwrap_or_default();
                match calls.open_by_native(&node) {
                    Some(at) => (at, around),
                    None => (self.scribe.start(&node, "graph_node", "{}", &around, None)?, around),
                }
            }
        };
        let kind = given.or_else(|| {
            let call = self.scribe.calls.get(at)?;
            owned(&Json::parse(call.arguments.as_bytes()).ok()?, "subagent_type")
        });
        match self.scribe.enter(at, &kind.unwrap_or_default()) {
            Some(path) => Ok((path, true)),
            None => Ok((self.scribe.calls.get(at).map_or(around, |call| call.namespace.clone()), false)),
        }
    }

    fn stream(&mut self, event: &Json<'_>, line: &Json<'_>) -> Result<(), ItemError> {
        let parent = owned(line, "parent_tool_use_id").filter(|id| !id.is_empty());
        let (namespace, own) = self.place(parent.as_deref(), line)?;
        let message = match &parent {
            None => &mut self.message,
            Some(_) if !own => return Ok(()),
            Some(parent) => {
                self.inner.entry(parent.clone()).or_insert_with(|| Message::new(namespace, Broken::Waits))
            }
        };
        let starts = event.text("type") == Some("message_start");
        if starts && parent.is_none() {
            self.broken = false;
            if self.retries > 0 {
                let retries = self.retries.to_string();
                message.note("retries", &Json::Number(&retries));
                self.retries = 0;
            }
        }
        if let Some(first) = line.get("ttft_ms").filter(|_| starts) {
            message.note("time_to_first_token_ms", first);
        }
        let was_open = message.is_open();
        let heard = message.event(event, &mut self.scribe)?;
        if starts {
            self.streamed.extend(message.id().map(str::to_owned));
            let model = event.get("message").and_then(|message| owned(message, "model"));
            self.model = model.or_else(|| self.model.take());
        }
        if let Heard::Stopped { complete } = heard
            && parent.is_none()
            && was_open
        {
            self.broken = !complete;
        }
        Ok(())
    }

    fn assistant(&mut self, said: Said<'_, '_>) -> Result<(), ItemError> {
        if said.is_error() {
            let kind = owned(said.line, "api_error_type").or_else(|| owned(said.line, "error"));
            self.error = Some(kind.unwrap_or_default());
            return Ok(());
        }
        if said.is_synthetic() {
            return Ok(());
        }
        let parent = said.parent().map(|id| id.lossy().into_owned());
        let (namespace, own) = self.place(parent.as_deref(), said.line)?;
        let id = said.id.map(|id| id.lossy().into_owned()).unwrap_or_default();
        let whole = own && !self.streamed.contains(&id);
        if parent.is_none() {
            self.error = None;
        }
        if whole && self.whole.insert(id.clone()) {
            self.broken &= parent.is_some();
            self.whole_metadata(&said, &namespace);
        }
        for block in said.blocks() {
            match kind(block) {
                "text" if whole => {
                    let Some(text) = block.str("text") else { continue };
                    self.scribe.say(Kind::Text, &namespace, &[text]);
                    if let Some(message) = self.scribe.hush(&namespace) {
                        self.parent = Some((id.clone(), message));
                    }
                    if let Some(agent) = parent.as_ref().and_then(|parent| self.agents.get_mut(parent)) {
                        agent.said = Some(text.lossy().into_owned());
                    }
                }
                "thinking" if whole => {
                    if let Some(text) = block.str("thinking") {
                        self.scribe.say(Kind::Reasoning, &namespace, &[text]);
                        self.scribe.hush(&namespace);
                    }
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                    self.call(block, &id, &namespace, parent.is_none())?;
                }
                other if other.ends_with("tool_result") => self.result_block(block, said.line),
                _ => {}
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        block: &Json<'_>,
        message: &str,
        namespace: &Namespace<'static>,
        root: bool,
    ) -> Result<(), ItemError> {
        let native = owned(block, "id").unwrap_or_default();
        if self.scribe.calls.knows(&native) {
            return self.message.said_whole(&native, &mut self.scribe);
        }
        let streamed = || self.message.parent().filter(|_| root && self.message.id() == Some(message));
        let shown = || self.parent.as_ref().filter(|(id, _)| id == message).map(|(_, text)| text.clone());
        let parent = streamed().or_else(shown);
        let input = block.get("input").map_or_else(|| "{}".to_owned(), Json::to_text);
        self.scribe.start(&native, &owned(block, "name").unwrap_or_default(), &input, namespace, parent)?;
        self.message.said_whole(&native, &mut self.scribe)
    }

    /// What is said about the provider of a message that was not streamed.
    fn whole_metadata(&mut self, said: &Said<'_, '_>, namespace: &Namespace<'static>) {
        let mut metadata = Admitted::default();
        if let Some(id) = said.id {
            metadata.put("response_id", &Json::String(id.clone()));
        }
        if let Some(model) = owned(said.message, "model") {
            self.provider(metadata, &model, namespace.clone());
            self.model = Some(model);
        }
    }

    fn provider(&mut self, metadata: Admitted, model: &str, namespace: Namespace<'static>) {
        let limits = &self.scribe.options.limits;
        let data = ProviderMetadata {
            provider: text::name("anthropic", "anthropic", limits.id_bytes),
            model: text::name(model, "unknown", limits.id_bytes),
            metadata: metadata.into_object(limits),
        };
        self.scribe.draft(namespace, data);
    }

    /// Where the conversation stands.
    fn head(&self) -> Option<Reference<'static>> {
        Reference::bounded(self.standing.head()?, self.scribe.options.limits.id_bytes).ok()
    }

    fn account(&mut self, cost: Option<JsonNumber<'static>>) {
        self.message.settle_usage(&mut self.scribe);
        for message in self.inner.values_mut() {
            message.settle_usage(&mut self.scribe);
        }
        self.scribe.last_usage(cost);
    }

    fn result(&mut self, line: &Json<'_>) {
        self.message.settle_usage(&mut self.scribe);
        let native = result::usage(line, !self.agents.is_empty()).minus(self.baseline);
        let counts = native.max(self.scribe.totals.counts());
        self.scribe.totals.set(counts);
        let mut metadata = Admitted::default();
        if let Some(latency) = line.get("duration_api_ms") {
            metadata.put("latency_ms", latency);
        }
        if let Some(model) = self.model.take() {
            self.provider(metadata, &model, Namespace::root());
        }
        self.account(result::cost(line));
        match result::outcome(line, self.error.as_deref()) {
            Outcome::Aborted => {
                let head = self.head();
                self.scribe.cancel(head);
            }
            Outcome::Failed(failure) => self.scribe.fail(failure, None),
            Outcome::Success => match self.disbelieve(line) {
                Some(failure) => self.scribe.fail(failure, None),
                None => {
                    let reason = line.text("stop_reason").or(self.message.stop_reason()).map(str::to_owned);
                    let head = self.head();
                    self.scribe.succeed(stop_reason(reason.as_deref()), head);
                }
            },
        }
    }

    /// What a success hides (decisions §6: success flags are not believed).
    fn disbelieve(&mut self, line: &Json<'_>) -> Option<Failure> {
        if let Some(error) = &self.error {
            return Some(provider::of(None, Some(error), None).unwrap_or(failure::FAILED));
        }
        if self.broken || self.message.is_open() {
            return Some(failure::STREAM_BROKEN);
        }
        let wanted = [line.text("stop_reason"), self.message.stop_reason()].contains(&Some("tool_use"));
        // A subagent in the background, with its calls, goes on when the turn is over: that hides nothing.
        let is_detached = |call: &Call| {
            call.native.starts_with(NODE)
                || call.namespace.path().iter().any(|id| id.as_str().starts_with(NODE))
        };
        let others = self.scribe.calls.open().any(|(_, call)| !is_detached(call));
        if wanted || others {
            return Some(failure::INCOMPLETE);
        }
        let detached: Vec<usize> = self.scribe.calls.open().map(|(at, _)| at).collect();
        for at in detached.into_iter().rev() {
            let end = End::Failed("tool_detached", "The subagent went on after the end of this run.");
            self.scribe.finish_as(at, end, NamespaceOutcome::Cancelled);
        }
        None
    }

    /// The stream is over without a `result`.
    fn over(&mut self) {
        if self.cut && !self.scribe.has_ended() {
            self.account(None);
            let head = self.head();
            self.scribe.cancel(head);
        }
        self.scribe.end();
    }

    fn error(&mut self, line: &Json<'_>) {
        if self.scribe.has_ended() {
            return;
        }
        self.account(None);
        self.scribe.fail(
            match line.text("error_type").unwrap_or_default() {
                "CLINotFoundError" | "CLIConnectionError" => failure::HARNESS_UNAVAILABLE,
                other => failure::of(other),
            },
            None,
        );
    }
}

impl Adapter for ClaudeAgentSdk {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        if item.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let json = worker::parse_line(item)?;
        let line =
            read(&json).ok_or(ItemError::Shape { what: "a line of stream-json or a message of the SDK" })?;
        if self.scribe.has_ended() {
            let kind = match line {
                Line::Stream(..) => "stream_event",
                Line::Assistant(_) => "assistant",
                Line::User(_) => "user",
                Line::Result(_) => "result",
                Line::Control(..) => "control_request",
                Line::System(..)
                | Line::Withdrawn(_)
                | Line::End
                | Line::Cancelled
                | Line::Error(_)
                | Line::Other => return Ok(()),
            };
            return Err(ItemError::OutOfOrder { kind, what: "the turn is over" });
        }
        self.standing.see(&json);
        match line {
            Line::System(subtype, line) => self.system(subtype, line),
            Line::Stream(event, line) => self.stream(event, line),
            Line::Assistant(said) => self.assistant(said),
            Line::User(said) => {
                self.user(said);
                Ok(())
            }
            Line::Result(line) => {
                self.result(line);
                Ok(())
            }
            Line::Control(id, request) => self.control(id, request),
            Line::Withdrawn(id) => {
                self.withdrawn(id);
                Ok(())
            }
            Line::End => {
                self.over();
                Ok(())
            }
            Line::Cancelled => {
                self.cut = true;
                self.over();
                Ok(())
            }
            Line::Error(line) => {
                self.error(line);
                Ok(())
            }
            Line::Other => Ok(()),
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    fn close(&mut self, how: Close) {
        match how {
            Close::End => self.ask(),
            // Nobody is left to be answered.
            Close::Broken => {}
        }
        self.over();
    }
}

/// The control response for an answer (a list, where several requests wait), from the private part of the interrupted
/// run's state; for the process that asked.
///
/// # Errors
/// The answer does not fit, or the private part is not one of this adapter.
pub fn resume_value(private: &str, answer: &Answer) -> Result<String, AnswerError> {
    let snapshot = Snapshot::from_json(private).ok_or(AnswerError::Unreadable)?;
    resume::resume_value(&snapshot, answer)
}

/// What the edits of an answer make of their calls.
pub fn edits(private: &str, answer: &Answer) -> Vec<Edited> {
    Snapshot::from_json(private).map(|snapshot| resume::edits(&snapshot, answer)).unwrap_or_default()
}

/// The answer behind a control response; `None` where it cannot be told.
pub fn answer_of(private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
    let snapshot = Snapshot::from_json(private)?;
    resume::answer_of(&snapshot, &Json::parse(resume_value).ok()?, &options.limits)
}
