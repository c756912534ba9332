//! The adapter for deepagents (alias `langgraph`): lines of its worker, or of the old recordings, to canonical events.
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started` |
//! | `messages`: text of an `AIMessage`(`Chunk`) | `text.started` right before the first character, `text.delta` |
//! | `messages`: thinking and reasoning blocks | `reasoning.started`, `reasoning.delta`, finished when text starts |
//! | `messages`: `usage_metadata` | `usage.updated`: the run's totals so far |
//! | `messages`: `response_metadata` of a last piece | `provider.metadata`, what the allowlist admits |
//! | `messages`: `tool_call_chunks` | nothing; with `stream_arguments`: `tool.started`, `tool.arguments.delta` |
//! | any `updates` object | the open messages of its key are finished, before anything else |
//! | `updates`: `tool_calls` of an `AIMessage` | `tool.started` with the arguments that will run |
//! | `updates`: a `ToolMessage` | `tool.finished`, or `tool.error` (prefix `ERROR: `, status `error`, refusals) |
//! | `tasks`: start of node `tools` | `tool.started` if this run has not started the call; `namespace.entered` of a `task` call |
//! | the `ToolMessage` of a delegating call | its messages finished, `namespace.exited`, then its end |
//! | `end` | messages finished, namespaces left, the state, `run.finished`, or the request and `run.interrupted` |
//! | `cancelled` | namespaces left, the state if it has a head, `run.cancelled` |
//! | `error` | namespaces left, `run.error` |
//!
//! Deliberately dropped: text that rides with tool calls, and of summaries; tool, human, system and remove messages of
//! `messages`; messages of a history that is played again (after a cancel, by a summary); results of `tasks`; calls of
//! messages that were seen already; an end for a call that is not of this run (the cached result of a parallel call on a
//! resume); other stream modes; everything a provider says that is not on the allowlist.
//!
//! Refused ([`ItemError`]): what is no line of the worker protocol, and a line that comes at a moment at which it cannot.

mod arguments;
pub mod catalogue;
pub(crate) mod interrupt;
mod metadata;
mod native;
mod resume;
mod snapshot;
mod spaces;
mod steps;
mod streamed;
mod tasks;

use std::collections::{HashMap, VecDeque};

use causeway_contract::event::{
    CancelReason, EventData, EventDraft, InterruptRequested, NamespaceExited, NamespaceOutcome, RunCancelled,
    RunError, RunFinished, RunInterrupted, RunStarted, SideEffectStatus, ToolStarted,
};
use causeway_contract::id::{Code, HarnessId, MessageId, Name, Reference};
use causeway_contract::json::JsonObject;
use causeway_contract::namespace::Namespace;

use self::arguments::Arriving;
use self::interrupt::{Missing, Place, merged, waiting};
use self::metadata::Provider;
use self::resume::Verdicts;
use self::snapshot::Snapshot;
use self::spaces::Spaces;
use crate::adapter::{Adapter, Close, ItemError, Output, State};
use crate::calls::{Call, Calls};
use crate::failure::{self, Failure};
use crate::ids::Ids;
use crate::json::Json;
use crate::messages::Messages;
use crate::project;
use crate::spaces::Space;
use crate::text;
use crate::turn::{Answer, AnswerError, Edited, Options, Resume, Turn};
use crate::usage::Totals;
use crate::worker::{self, WorkerLine};

/// The canonical `harness_id`.
pub const HARNESS: &str = "deepagents";

/// Where the turn stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Nothing came, or only `hello`.
    Waiting {
        /// Whether it came.
        hello: bool,
    },
    /// `begin` or a first chunk came.
    Running,
    /// A closing line came.
    Ended,
}

/// Translates one turn of a deepagents worker.
pub struct DeepAgents {
    options: Options,
    ids: Box<dyn Ids>,
    out: VecDeque<Output>,
    phase: Phase,
    resume: Option<Resume>,
    verdicts: Verdicts,
    messages: Messages,
    calls: Calls,
    spaces: Spaces,
    totals: Totals,
    provider: Provider,
    arriving: Vec<Arriving>,
    /// Calls that each task of node `tools` runs.
    tasks: HashMap<String, Vec<usize>>,
    places: Vec<Place>,
    /// Steps of the reviewing node whose edits may stand in the next item of their path.
    held: Vec<Held>,
    /// The last root message stopped for tools, and none was started since.
    promised: bool,
}

/// A step that waits for what the next item of its path says.
#[derive(Debug)]
struct Held {
    source: Vec<String>,
    node: String,
    line: Vec<u8>,
}

impl std::fmt::Debug for DeepAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeepAgents").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl DeepAgents {
    /// The adapter for a turn.
    pub fn new(turn: Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let resume = match turn {
            Turn::Start => None,
            Turn::Resume(resume) => Some(resume),
        };
        let mut calls = Calls::default();
        let mut verdicts = Verdicts::default();
        if let Some(resume) = &resume {
            let snapshot = resume.private.as_deref().and_then(Snapshot::from_json).unwrap_or_default();
            verdicts = Verdicts::of(resume, &snapshot);
            for call in &resume.open_calls {
                let alias = snapshot.aliases.iter().find(|(_, id)| call.id == *id.as_str());
                let native = alias.map_or_else(|| call.id.as_str().to_owned(), |(native, _)| native.clone());
                calls.inherit(native, call.namespace.clone(), call.id.clone());
            }
        }
        let mut adapter = Self {
            options,
            ids,
            out: VecDeque::new(),
            phase: Phase::Waiting { hello: false },
            resume,
            verdicts,
            messages: Messages::default(),
            calls,
            spaces: Spaces::default(),
            totals: Totals::default(),
            provider: Provider::default(),
            arriving: Vec::new(),
            tasks: HashMap::new(),
            places: Vec::new(),
            held: Vec::new(),
            promised: false,
        };
        adapter.draft(
            Namespace::root(),
            RunStarted {
                harness_id: HarnessId::new(HARNESS)
                    .unwrap_or_else(|_| unreachable!("a constant that is an id")),
                adapter_version: Name::new(env!("CARGO_PKG_VERSION"))
                    .unwrap_or_else(|_| unreachable!("a version is a name")),
                message_id: None,
                provider_run_id: None,
            },
        );
        adapter
    }

    fn draft(&mut self, namespace: Namespace<'static>, data: impl Into<EventData<'static>>) {
        self.out.push_back(Output::Draft(EventDraft::at(namespace, data)));
    }

    fn chunk(&mut self, line: &Json<'_>, bytes: &[u8]) -> Result<(), ItemError> {
        let Some(source) = line.get("ns").map_or(Some(&[][..]), |ns| match ns {
            Json::Array(path) => Some(path.as_slice()),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
        }) else {
            return Err(ItemError::Shape { what: "`ns`, a list" });
        };
        let mode = line.text("mode").ok_or(ItemError::Shape { what: "`mode`, a string" })?;
        let data = line.get("data").unwrap_or(&Json::Null);
        self.release(source, mode, data)?;
        match mode {
            "messages" => match data.items() {
                [message, metadata @ ..] if message.is_object() => {
                    self.message(source, message, metadata.first())
                }
                _ => Err(ItemError::Shape { what: "`data`, a list of a message and its metadata" }),
            },
            "updates" if data.is_object() => self.step(source, data, bytes),
            "tasks" if data.is_object() => self.task(source, data),
            _ => Ok(()),
        }
    }

    /// Starts a call, with the arguments that will run; gives its place.
    fn start(
        &mut self,
        native: &str,
        name: &str,
        arguments: Option<&Json<'_>>,
        namespace: &Namespace<'static>,
        parent: Option<MessageId<'static>>,
        message: Option<&str>,
    ) -> Result<usize, ItemError> {
        let call = self.new_call(native, name, arguments, namespace, message)?;
        let arguments = project::arguments(&call.arguments, &self.options)?;
        Ok(self.started(call, arguments, parent))
    }

    fn new_call(
        &mut self,
        native: &str,
        name: &str,
        arguments: Option<&Json<'_>>,
        namespace: &Namespace<'static>,
        message: Option<&str>,
    ) -> Result<Call, ItemError> {
        let id = self.calls.new_id_in(native, namespace, self.options.limits.id_bytes);
        let arguments = match (self.verdicts.edits.get(id.as_str()), arguments) {
            (Some(edited), _) => edited.clone(),
            (None, Some(given @ Json::Object(_))) => given.to_text(),
            (None, None | Some(Json::Null)) => "{}".to_owned(),
            (None, Some(Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_))) => {
                return Err(ItemError::Shape { what: "`args`, an object" });
            }
        };
        Ok(Call {
            id,
            native: native.to_owned(),
            name: text::name(name, "tool", self.options.limits.id_bytes),
            arguments,
            namespace: namespace.clone(),
            open: true,
            bound: false,
            message: message.map(str::to_owned),
            broken: false,
        })
    }

    fn started(
        &mut self,
        call: Call,
        arguments: JsonObject<'static>,
        parent: Option<MessageId<'static>>,
    ) -> usize {
        self.promised &= !call.namespace.is_root();
        self.draft(
            call.namespace.clone(),
            ToolStarted {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                arguments,
                parent_message_id: parent,
            },
        );
        self.calls.add(call)
    }

    fn exit(&mut self, space: Space, outcome: NamespaceOutcome) {
        let Space { path, agent_id, call } = space;
        self.draft(path, NamespaceExited { agent_id, parent_tool_call_id: call, outcome });
    }

    fn exit_all(&mut self, outcome: NamespaceOutcome) {
        for space in self.spaces.leave_all() {
            self.exit(space, outcome);
        }
    }

    fn end(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        self.release_all()?;
        let head = self.head(line)?;
        let state = line.get("state").unwrap_or(&Json::Null);
        let interrupts = state.list("interrupts");
        if !interrupts.is_empty() {
            return self.interrupted(interrupts, head);
        }
        // A delegating call whose namespace is open ends with it (goldens: `stream_end_closes_in_first_open_order`).
        let left_open = self.calls.open().any(|(_, call)| !self.spaces.has(&call.id));
        let complete = !left_open && state.list("next").is_empty() && !self.promised;
        self.messages.close_all(&mut self.out);
        self.phase = Phase::Ended;
        if !complete {
            self.exit_all(NamespaceOutcome::Error);
            self.fail(failure::INCOMPLETE);
            return Ok(());
        }
        self.exit_all(NamespaceOutcome::Success);
        self.state(head, "{}".to_owned());
        let stop_reason = self.provider.stop_reason().into();
        self.draft(Namespace::root(), RunFinished { stop_reason: Some(stop_reason), thread_state: None });
        Ok(())
    }

    fn interrupted(
        &mut self,
        interrupts: &[Json<'_>],
        head: Option<Reference<'static>>,
    ) -> Result<(), ItemError> {
        let mut missing = VecDeque::new();
        let limits = self.options.limits.clone();
        let found =
            waiting(interrupts, &self.places, &mut self.calls, &mut |calls, one: Missing<'_, '_>| {
                let call = Call {
                    id: calls.new_id(&one.native, limits.id_bytes),
                    native: one.native,
                    name: text::name(&one.name, "tool", limits.id_bytes),
                    arguments: one.arguments.map_or_else(|| "{}".to_owned(), Json::to_text),
                    namespace: Namespace::root(),
                    open: true,
                    bound: false,
                    message: None,
                    broken: false,
                };
                missing.push_back(call.clone());
                Ok(calls.add(call))
            })?;
        let (request, snapshot) = merged(&found, &self.calls, &self.options)?;
        self.messages.close_all(&mut self.out);
        self.exit_all(NamespaceOutcome::Interrupted);
        for call in missing {
            let arguments = project::arguments(&call.arguments, &self.options)?;
            self.draft(
                Namespace::root(),
                ToolStarted {
                    tool_call_id: call.id,
                    tool_name: call.name,
                    arguments,
                    parent_message_id: None,
                },
            );
        }
        self.state(head, snapshot.to_json());
        let interrupt_id = self.ids.next_interrupt();
        let reason = request.reason();
        let agent_id = self.options.agent_id.clone();
        let requested = InterruptRequested { interrupt_id: interrupt_id.clone(), agent_id, request };
        self.draft(Namespace::root(), requested);
        self.draft(Namespace::root(), RunInterrupted { interrupt_id, reason });
        self.phase = Phase::Ended;
        Ok(())
    }

    fn cancelled(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        self.release_all()?;
        let head = self.head(line)?;
        self.exit_all(NamespaceOutcome::Cancelled);
        self.state(head, "{}".to_owned());
        let side_effect_status = self.calls.side_effects();
        let reason = CancelReason::ClientRequest;
        self.draft(Namespace::root(), RunCancelled { reason, side_effect_status });
        self.phase = Phase::Ended;
        Ok(())
    }

    fn failed(&mut self, error_type: &str) -> Result<(), ItemError> {
        self.release_all()?;
        self.exit_all(NamespaceOutcome::Error);
        self.fail(failure::of(error_type));
        self.phase = Phase::Ended;
        Ok(())
    }

    fn fail(&mut self, failure: Failure) {
        let Failure { code, message, retryable } = failure;
        let side_effect_status: SideEffectStatus = self.calls.side_effects();
        self.draft(
            Namespace::root(),
            RunError {
                code: Code::new(code).unwrap_or_else(|_| unreachable!("the codes of `failure` are codes")),
                message: message.into(),
                retryable,
                retry_after_seconds: None,
                side_effect_status,
            },
        );
    }

    fn head(&self, line: &Json<'_>) -> Result<Option<Reference<'static>>, ItemError> {
        let Some(head) = worker::head(line) else { return Ok(None) };
        match Reference::bounded(head, self.options.limits.id_bytes) {
            Ok(head) => Ok(Some(head)),
            Err(fault) => Err(ItemError::Value { what: "the head", why: fault.to_string() }),
        }
    }

    fn state(&mut self, head: Option<Reference<'static>>, private: String) {
        if let Some(head) = head {
            self.out.push_back(Output::State(State { head, private }));
        }
    }
}

impl Adapter for DeepAgents {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        if item.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let line = worker::parse_line(item)?;
        let kind = WorkerLine::from_json(&line)?;
        let (name, closing) = match &kind {
            WorkerLine::Hello(_) => ("hello", false),
            WorkerLine::Begin { .. } => ("begin", false),
            WorkerLine::Chunk { .. } => ("chunk", false),
            WorkerLine::Tool(_) => ("tool", false),
            WorkerLine::End { .. } => ("end", true),
            WorkerLine::Cancelled { .. } => ("cancelled", true),
            WorkerLine::Error { .. } => ("error", true),
        };
        let out_of_order = |what| Err(ItemError::OutOfOrder { kind: name, what });
        match (self.phase, &kind) {
            (Phase::Ended, _) => out_of_order("the turn has its closing line"),
            (Phase::Waiting { hello: false }, WorkerLine::Hello(_)) => {
                self.phase = Phase::Waiting { hello: true };
                Ok(())
            }
            (Phase::Waiting { hello: true } | Phase::Running, WorkerLine::Hello(_)) => {
                out_of_order("it comes once, first")
            }
            (Phase::Running, WorkerLine::Begin { .. }) => out_of_order("the turn has begun"),
            (Phase::Waiting { .. }, WorkerLine::Begin { .. }) => {
                self.phase = Phase::Running;
                Ok(())
            }
            (Phase::Waiting { .. }, WorkerLine::End { .. }) => out_of_order("the turn has not begun"),
            (Phase::Waiting { .. } | Phase::Running, WorkerLine::Chunk { .. }) => {
                self.phase = Phase::Running;
                self.chunk(&line, item)
            }
            // Its call and its end are told by the chunks, or by the gate.
            (Phase::Waiting { .. } | Phase::Running, WorkerLine::Tool(_)) => Ok(()),
            (Phase::Running, WorkerLine::End { .. }) => self.end(&line),
            (Phase::Waiting { .. } | Phase::Running, WorkerLine::Cancelled { .. }) => self.cancelled(&line),
            (Phase::Waiting { .. } | Phase::Running, WorkerLine::Error { error_type, .. }) => {
                debug_assert!(closing, "only closing lines end a turn");
                self.failed(error_type)
            }
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// A worker always says how a turn ended: without its closing line nothing is recognised.
    fn close(&mut self, _how: Close) {
        if self.phase != Phase::Ended && self.release_all().is_err() {
            self.held.clear();
        }
        self.phase = Phase::Ended;
    }
}

/// The native value for an answer, from the private part of the interrupted run's state.
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

/// The answer behind a native resume value (`begin` repeats it); `None` where it cannot be told.
pub fn answer_of(private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
    let snapshot = Snapshot::from_json(private)?;
    resume::answer_of(&snapshot, &Json::parse(resume_value).ok()?, &options.limits)
}
