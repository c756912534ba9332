//! The adapter for workers that speak canonical events themselves: the shortest way to a harness of your own.
//!
//! An item is a line of the worker protocol whose `chunk` has one key of its own, `event`: an object with `type`, `data` and
//! `namespace` (absent: the root). A whole envelope may stand there, or on a line of its own; what else it holds (`run_id`,
//! `sequence`, `timestamp`) is the engine's to say, and ignored. The worker runs the tools, so its success is not believed
//! while a call is open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started`; in a resumed run the calls that were open again, with edited arguments where a person edited them, and their namespaces; `tool.error` of those that were refused |
//! | `text.*`, `reasoning.*`, `namespace.*`, `usage.updated`, `tool.started`, `tool.arguments.delta`, `tool.finished` | the same; a long result is cut and kept whole |
//! | `tool.error` | the same, its message redacted |
//! | `provider.metadata` | the same, less what is not on the allowlist |
//! | `warning` | the same code with a sentence of ours, without details |
//! | `interrupt.requested`, then `end` with `interrupts` | the state, `interrupt.requested` with an id of ours, `run.interrupted` |
//! | `run.finished`, `end` | the state, `run.finished`; `run.error` where a call is open |
//! | `run.error` | `run.error` with the sentence of its code, `agent_execution_failed` where the code is none of ours |
//! | `run.cancelled`, `{"kind":"cancelled"}` | namespaces exited, the state, `run.cancelled` |
//! | `{"kind":"error"}` | namespaces exited, `run.error`, typed by the word or the exception's name |
//!
//! Deliberately dropped: a `run.started` at the beginning (the engine has said it), the start of a call that the resumed run
//! has started again, `run.interrupted` (it follows from `end`), all words of errors and warnings.
//!
//! Refused: whatever breaks the contract, by the check or rule it breaks.

pub mod catalogue;
mod pause;

use std::borrow::Cow;
use std::collections::VecDeque;

use causeway_contract::decode::{decode_data, decode_namespace};
use causeway_contract::error::DecodeError;
use causeway_contract::event::{
    CancelReason, Decision, EventData, EventDraft, EventType, InterruptRequested, NamespaceEntered,
    NamespaceExited, NamespaceOutcome, ProviderMetadata, RunCancelled, RunError, RunFinished, RunInterrupted,
    RunStarted, SideEffectStatus, ToolStarted, Warning,
};
use causeway_contract::id::{Code, HarnessId, Name, Reference, ToolCallId};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;
use causeway_contract::text::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::pause::Snapshot;
use crate::adapter::{Adapter, Close, ItemError, Output, State, Told};
use crate::failure::{self, Failure};
use crate::gated;
use crate::ids::Ids;
use crate::json::Json;
use crate::metadata::Admitted;
use crate::project;
use crate::text;
use crate::turn::{Answer, AnswerError, Options, Resume, Turn};
use crate::worker::{self, MAX_LINE};

/// The canonical `harness_id`.
pub const HARNESS: &str = "canonical";

/// What is said of every warning: its code says which one it is.
const WARNING: &str = "The agent's worker gave a warning.";

/// Translates one turn of a worker.
pub struct Canonical {
    options: Options,
    /// Bounds of what a worker may write: as the contract's, but for results, which are cut here.
    native: Limits,
    ids: Box<dyn Ids>,
    out: VecDeque<Output>,
    /// Calls that were started and have not ended.
    open: Vec<ToolCallId<'static>>,
    /// A tool was started.
    tools: bool,
    started: bool,
    /// Calls that the resumed run has started again.
    again: Vec<ToolCallId<'static>>,
    /// Namespaces that are open, outermost first in each path.
    spaces: Vec<(Namespace<'static>, NamespaceEntered<'static>)>,
    /// Every namespace that was entered.
    entered: Vec<(Namespace<'static>, NamespaceEntered<'static>)>,
    asked: Option<InterruptRequested<'static>>,
    /// `run.finished` was said: its stop reason.
    finished: Option<Option<Text<'static>>>,
    head: Option<Reference<'static>>,
    heard: bool,
    ended: bool,
}

impl std::fmt::Debug for Canonical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canonical").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Canonical {
    /// The adapter for a turn.
    pub fn new(turn: &Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let native = Limits { result_bytes: MAX_LINE, event_bytes: MAX_LINE, ..options.limits.clone() };
        let mut adapter = Self {
            options,
            native,
            ids,
            out: VecDeque::new(),
            open: Vec::new(),
            tools: false,
            started: false,
            again: Vec::new(),
            spaces: Vec::new(),
            entered: Vec::new(),
            asked: None,
            finished: None,
            head: None,
            heard: false,
            ended: false,
        };
        adapter.draft(EventDraft::root(RunStarted {
            harness_id: HarnessId::new(HARNESS).unwrap_or_else(|_| unreachable!("a constant that is an id")),
            adapter_version: Name::new(env!("CARGO_PKG_VERSION"))
                .unwrap_or_else(|_| unreachable!("a version is a name")),
            message_id: None,
            provider_run_id: None,
        }));
        if let Turn::Resume(resume) = turn {
            adapter.resume(resume);
        }
        adapter
    }

    /// Starts the open calls of the interrupted run again, and ends those that were refused.
    fn resume(&mut self, resume: &Resume) {
        let snapshot = resume.private.as_deref().and_then(Snapshot::from_json).unwrap_or_default();
        let decisions = match &resume.answer {
            Some(Answer::Decisions(decisions)) => decisions.as_slice(),
            Some(Answer::Values(_) | Answer::Dismissed) | None => &[],
        };
        for call in &resume.open_calls {
            let decided = decisions.iter().find(|one| one.tool_call_id == call.id);
            let edited = decided.and_then(|one| one.edited_args.clone());
            let arguments = edited
                .and_then(|edited| project::arguments(edited.as_str(), &self.options).ok())
                .unwrap_or_else(|| call.arguments.clone());
            let data = ToolStarted {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                arguments,
                parent_message_id: None,
            };
            self.open.push(call.id.clone());
            self.tools = true;
            self.again.push(call.id.clone());
            self.draft(EventDraft::at(call.namespace.clone(), data));
            if decided.is_some_and(|one| one.decision == Decision::Reject) {
                self.open.retain(|id| *id != call.id);
                let data = project::failed(call.id.clone(), "tool_rejected", REJECTED, &self.options);
                self.draft(EventDraft::at(call.namespace.clone(), data));
            } else if resume.delegations.contains(&call.id)
                && let Some(space) = snapshot.space_of(&call.id, &self.options.limits)
            {
                self.spaces.push(space.clone());
                self.entered.push(space.clone());
                self.draft(EventDraft::at(space.0, space.1));
            }
        }
    }

    fn draft(&mut self, draft: EventDraft<'static>) {
        if !self.ended {
            self.ended = draft.data.is_terminal();
            self.out.push_back(Output::Draft(draft));
        }
    }

    fn event(&mut self, event: &Given<'_>) -> Result<(), ItemError> {
        let event_type = EventType::parse(&event.event_type)
            .ok_or_else(|| refused(None, "envelope", "an event type that the contract does not know"))?;
        let namespace = match event.namespace {
            None => Namespace::root(),
            Some(path) => decode_namespace(path.get(), &self.native)
                .map_err(|error| broken(event_type, &error))?
                .into_owned(),
        };
        let data = decode_data(event_type, event.data.get(), &self.native)
            .map_err(|error| broken(event_type, &error))?
            .into_owned();
        if self.finished.is_some() {
            return Err(refused(Some(event_type), "R04", "an event follows run.finished"));
        }
        let first = !std::mem::replace(&mut self.heard, true);
        let closes = matches!(
            data,
            EventData::TextFinished(_)
                | EventData::ReasoningFinished(_)
                | EventData::ToolFinished(_)
                | EventData::ToolError(_)
                | EventData::NamespaceExited(_)
                | EventData::RunInterrupted(_)
        );
        if self.asked.is_some() && !closes {
            return Err(refused(
                Some(event_type),
                "R08",
                "interrupt.requested is followed by more than ends",
            ));
        }
        let data = match data {
            EventData::RunStarted(_) if first && !self.started => {
                self.started = true;
                return Ok(());
            }
            EventData::ToolStarted(start) if self.again.contains(&start.tool_call_id) => {
                self.again.retain(|id| *id != start.tool_call_id);
                return Ok(());
            }
            EventData::InterruptRequested(request) => {
                // Checked by the validator at `end`, when it is yielded.
                self.asked = Some(request);
                return Ok(());
            }
            EventData::RunInterrupted(end) => {
                let same = self.asked.as_ref().is_some_and(|asked| {
                    asked.interrupt_id == end.interrupt_id && asked.request.reason() == end.reason
                });
                return if same {
                    Ok(())
                } else {
                    Err(refused(
                        Some(EventType::RunInterrupted),
                        "R08",
                        "run.interrupted without the interrupt.requested it names",
                    ))
                };
            }
            EventData::RunFinished(end) => {
                // A worker behind the worker protocol says its head at `end`; a stream without that says it here.
                self.head = end.thread_state.map(|state| state.head_ref);
                self.finished = Some(end.stop_reason);
                return Ok(());
            }
            EventData::RunError(error) => {
                let failure = failure::by_code(error.code.as_str()).unwrap_or(failure::FAILED);
                self.leave_all(NamespaceOutcome::Error);
                let retry_after = error.retry_after_seconds;
                self.fail_with(failure, retry_after);
                return Ok(());
            }
            EventData::RunCancelled(_) => {
                self.cancel();
                return Ok(());
            }
            EventData::ToolFinished(end) => {
                self.open.retain(|id| *id != end.tool_call_id);
                let (whole, data) =
                    project::finished(end.tool_call_id, &self.shown(&end.result), &self.options);
                self.out.extend(whole.map(Output::Result));
                data
            }
            EventData::ToolError(mut end) => {
                self.open.retain(|id| *id != end.tool_call_id);
                end.message = crate::redact::redact(&end.message).into_owned().into();
                end.into()
            }
            EventData::Warning(warning) => {
                Warning { code: warning.code, message: WARNING.into(), details: None }.into()
            }
            EventData::ProviderMetadata(told) => ProviderMetadata {
                metadata: Admitted::of(&told.metadata, &self.options.limits),
                provider: told.provider,
                model: told.model,
            }
            .into(),
            EventData::ToolStarted(mut start) => {
                start.arguments = project::arguments(start.arguments.as_str(), &self.options)?;
                self.open.push(start.tool_call_id.clone());
                self.tools = true;
                start.into()
            }
            EventData::NamespaceEntered(entered) => {
                self.spaces.push((namespace.clone(), entered.clone()));
                self.entered.push((namespace.clone(), entered.clone()));
                entered.into()
            }
            EventData::NamespaceExited(exited) => {
                self.spaces.retain(|(path, _)| *path != namespace);
                exited.into()
            }
            EventData::TextDelta(mut delta) => {
                delta.delta = self.shown(&delta.delta);
                delta.into()
            }
            EventData::ReasoningDelta(mut delta) => {
                delta.delta = self.shown(&delta.delta);
                delta.into()
            }
            // Where it cannot stand, the validator says so.
            other @ (EventData::RunStarted(_)
            | EventData::TextStarted(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::UsageUpdated(_)) => other,
        };
        self.draft(EventDraft { namespace, data });
        Ok(())
    }

    fn shown(&self, delta: &Text<'static>) -> Text<'static> {
        let plain = Options { redact_content: false, ..self.options.clone() };
        if plain.strip_escapes { text::content(delta, &plain).into_owned().into() } else { delta.clone() }
    }

    fn side_effects(&self) -> SideEffectStatus {
        match (self.open.is_empty(), self.tools) {
            (false, _) => SideEffectStatus::Possible,
            (true, true) => SideEffectStatus::Known,
            (true, false) => SideEffectStatus::None,
        }
    }

    /// `end`: what the turn came to.
    fn conclude(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        let pauses = !line.get("state").map_or(&[][..], |state| state.list("interrupts")).is_empty();
        match (self.asked.take(), pauses) {
            (Some(asked), true) => self.interrupt(asked),
            (Some(_), false) => {
                return Err(ItemError::OutOfOrder {
                    kind: "end",
                    what: "it names no pause, but interrupt.requested asked for one",
                });
            }
            (None, true) => {
                return Err(ItemError::OutOfOrder {
                    kind: "end",
                    what: "it names a pause that no interrupt.requested asked for",
                });
            }
            (None, false) => self.succeed(),
        }
        Ok(())
    }

    fn succeed(&mut self) {
        if self.open.is_empty() {
            self.state("{}".to_owned());
            let stop_reason = self.finished.take().flatten().or_else(|| Some("end_turn".into()));
            self.draft(EventDraft::root(RunFinished { stop_reason, thread_state: None }));
        } else {
            self.leave_all(NamespaceOutcome::Error);
            self.fail_with(failure::INCOMPLETE, None);
        }
    }

    fn interrupt(&mut self, asked: InterruptRequested<'static>) {
        let snapshot = Snapshot::of(&asked, &self.entered);
        self.state(snapshot.to_json());
        let interrupt_id = self.ids.next_interrupt();
        let reason = asked.request.reason();
        self.draft(EventDraft::root(InterruptRequested {
            interrupt_id: interrupt_id.clone(),
            agent_id: self.options.agent_id.clone(),
            request: asked.request,
        }));
        self.draft(EventDraft::root(RunInterrupted { interrupt_id, reason }));
    }

    fn cancel(&mut self) {
        self.leave_all(NamespaceOutcome::Cancelled);
        self.state("{}".to_owned());
        let side_effect_status = self.side_effects();
        self.draft(EventDraft::root(RunCancelled {
            reason: CancelReason::ClientRequest,
            side_effect_status,
        }));
    }

    fn fail_with(
        &mut self,
        failure: Failure,
        retry_after_seconds: Option<causeway_contract::json::JsonNumber<'static>>,
    ) {
        let Failure { code, message, retryable } = failure;
        let side_effect_status = self.side_effects();
        self.draft(EventDraft::root(RunError {
            code: Code::new(code).unwrap_or_else(|_| unreachable!("the codes of `failure` are codes")),
            message: message.into(),
            retryable,
            retry_after_seconds,
            side_effect_status,
        }));
    }

    fn leave_all(&mut self, outcome: NamespaceOutcome) {
        let mut spaces = std::mem::take(&mut self.spaces);
        spaces.sort_by_key(|(path, _)| std::cmp::Reverse(path.depth()));
        for (path, entered) in spaces {
            let NamespaceEntered { agent_id, parent_tool_call_id, .. } = entered;
            self.draft(EventDraft::at(path, NamespaceExited { agent_id, parent_tool_call_id, outcome }));
        }
    }

    fn state(&mut self, private: String) {
        if let Some(head) = self.head.take()
            && !self.ended
        {
            self.out.push_back(Output::State(State { head, private }));
        }
    }

    fn take_head(&mut self, line: &Json<'_>) {
        let max = self.options.limits.id_bytes;
        if let Some(head) = worker::head(line) {
            self.head = Reference::bounded(head, max).ok();
        }
    }
}

impl Adapter for Canonical {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        if self.ended {
            return Ok(());
        }
        let line = worker::parse_line(item)?;
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        match line.text("kind") {
            // What was asked of the gate is told by the gate.
            Some("hello" | "begin" | "tool") => Ok(()),
            Some("chunk") => {
                let text = utf8(item)?;
                let chunk: Chunk<'_> = serde_json::from_str(text)
                    .map_err(|_| refused(None, "envelope", "a chunk without an event of type and data"))?;
                self.event(&chunk.event)
            }
            Some("end") => {
                self.take_head(&line);
                self.conclude(&line)
            }
            Some("cancelled") => {
                self.head = None;
                self.take_head(&line);
                self.cancel();
                Ok(())
            }
            Some("error") => {
                self.leave_all(NamespaceOutcome::Error);
                self.fail_with(failure::of(line.text("error_type").unwrap_or_default()), None);
                Ok(())
            }
            Some(_) => {
                Err(ItemError::Shape { what: "`kind` hello, begin, chunk, tool, end, cancelled or error" })
            }
            None => {
                let text = utf8(item)?;
                let event: Given<'_> = serde_json::from_str(text)
                    .map_err(|_| refused(None, "envelope", "no event with type and data"))?;
                self.event(&event)
            }
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// A worker need not tell of a call that the gate runs, so it is counted here.
    fn tell(&mut self, told: Told) -> Result<(), ItemError> {
        match told {
            Told::Claim(_) => {}
            Told::Event(EventDraft { data: EventData::ToolStarted(start), .. }) => {
                self.open.push(start.tool_call_id);
                self.tools = true;
            }
            Told::Event(draft) => self.open.retain(|id| Some(id) != gated::ended(&draft.data)),
        }
        Ok(())
    }

    fn close(&mut self, how: Close) {
        match how {
            // A stream of bare events has no `end`: its own terminal is one.
            Close::End if self.finished.is_some() && !self.ended => self.succeed(),
            Close::End | Close::Broken => {}
        }
    }
}

/// The value that makes the worker go on: the answer as the gateway got it, for the worker's own interrupt.
///
/// # Errors
/// The answer does not fit what was asked.
pub fn resume_value(private: &str, answer: &Answer) -> Result<String, AnswerError> {
    Snapshot::from_json(private).ok_or(AnswerError::Unreadable)?.resume_value(answer)
}

/// The answer behind a resume value.
pub fn answer_of(private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
    Snapshot::from_json(private)?.answer_of(resume_value, &options.limits)
}

/// What is said of a call that a person refused.
const REJECTED: &str = "A person refused this call.";

/// A line of a worker.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    event: Given<'a>,
}

/// An event as it was given; its values are read strictly later.
#[derive(Deserialize)]
struct Given<'a> {
    #[serde(rename = "type", borrow)]
    event_type: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    data: &'a RawValue,
}

fn utf8(item: &[u8]) -> Result<&str, ItemError> {
    std::str::from_utf8(item)
        .map_err(|error| ItemError::Malformed { what: "not UTF-8", offset: error.valid_up_to() })
}

fn refused(event_type: Option<EventType>, rule: &str, message: &str) -> ItemError {
    ItemError::Refused { rule: rule.to_owned(), message: message.to_owned(), event_type }
}

fn broken(event_type: EventType, error: &DecodeError) -> ItemError {
    ItemError::Refused {
        rule: error.check().as_str().to_owned(),
        message: error.to_string(),
        event_type: Some(event_type),
    }
}
