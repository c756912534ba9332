//! The gate of one run: a pure machine from what is asked and what happens to what is to be done.
//!
//! Refuses to invoke anything that is not written down first; see [`Gate`] for the states of a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_adapter::adapter::{Told, WholeResult};
use causeway_adapter::json::write_string;
use causeway_adapter::project;
use causeway_adapter::turn::Options;
use causeway_adapter::worker::ToolLine;
use causeway_contract::event::{EventData, EventDraft, ToolStarted, Warning};
use causeway_contract::id::{Code, InvocationId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::namespace::Namespace;
use causeway_lifecycle::ToolSchemas as _;

use super::arguments::{self, Arguments, Fault, Print};
use super::invoke::{Call as Invocation, Failed, Returned};
use super::tools::Tools;
use super::verdicts::{self, Verdict};
use super::{
    APPROVAL_MISMATCH, ARGUMENTS_UNFIT, CALL_REPEATED, INVALID_ARGUMENTS, NOT_RECORDED, REJECTED, RUN_OVER,
    STALE, UNGATED, UNKNOWN_TOOL,
};

/// Decides about the calls of one run.
///
/// ```text
///                told by the worker                       Asked: bad, unknown, rejected
///   (nothing) ─────────────────────▶ Told ─────────────────────────────────────────────▶ Over ◀──────┐
///       │                             │                                                    ▲         │ ended by the
///       │ Asked                 Asked │                                                    │         │ worker: Abort
///       └──────────────┬──────────────┘                                          Returned: │         │
///                      ├── needs a person ──▶ Waits ── (the run ends; the next one decides)│  ┌──────┘
///                      ▼                                                                   │  │
///                   Recording ── Recorded: Invoke ──▶ Running ─────────────────────────────┴──┤
///                      └──────── Lost ──────────────────────────────────────────────────▶ Over
/// ```
///
/// * A call is invoked on `Recorded` only: its start is in the log, and the run is still this gateway's.
/// * After [`Input::Left`] nothing is invoked any more, whatever is asked.
#[derive(Debug)]
pub struct Gate {
    run_id: String,
    tools: Arc<Tools>,
    options: Options,
    /// The writer's number that the run was opened with.
    generation: u64,
    calls: BTreeMap<String, Call>,
    verdicts: BTreeMap<String, Verdict>,
    left: bool,
}

#[derive(Debug)]
struct Call {
    name: String,
    namespace: Namespace<'static>,
    /// The arguments that were told, as they are shown; streamed ones joined.
    shown: String,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The worker told of it and did not ask.
    Told,
    /// A person is to be asked.
    Waits(Print),
    /// Its start is on its way to the log.
    Recording(Arguments),
    /// It is being run.
    Running,
    /// It has ended, or never will be run.
    Over,
}

/// What happens.
#[derive(Debug)]
pub enum Input {
    /// The worker asks.
    Asked(ToolLine),
    /// The start of this call is durable, and nobody else writes the run.
    Recorded(String),
    /// It is not, or somebody else does.
    Lost(String, Loss),
    /// The invocation is over.
    Returned(String, Returned),
    /// The run is being left, or has ended.
    Left,
}

/// Why a call is not run although nothing is wrong with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// The start did not get into the log.
    NotRecorded,
    /// Somebody else has the run.
    Stale,
    /// The run is being left.
    Left,
}

/// What is to be done, in order.
#[derive(Debug)]
pub enum Effect {
    /// Tell the adapter, which yields it.
    Tell(Told),
    /// Keep a whole result.
    Keep(WholeResult),
    /// Make everything that was told durable, and look whether the run is still ours; then [`Input::Recorded`] or
    /// [`Input::Lost`].
    Record(String),
    /// Run it; then [`Input::Returned`].
    Invoke(Invocation),
    /// End its invocation.
    Abort(String),
    /// A line for the worker.
    Reply(Vec<u8>),
}

impl Gate {
    /// The gate of a run that was opened under `generation`.
    pub fn new(run_id: &str, tools: Arc<Tools>, options: Options, generation: u64) -> Self {
        Self {
            run_id: run_id.to_owned(),
            tools,
            options,
            generation,
            calls: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            left: false,
        }
    }

    /// The same where an answer has decided about calls.
    #[must_use]
    pub fn decided(mut self, verdicts: BTreeMap<String, Verdict>) -> Self {
        self.verdicts = verdicts;
        self
    }

    /// Takes in what the adapter yields. Gives a warning where a harness runs a tool by itself that it should not run so, and
    /// what follows where the worker gives up a call of the gate.
    pub fn see(&mut self, draft: &EventDraft<'static>, effects: &mut Vec<Effect>) {
        match &draft.data {
            EventData::ToolStarted(start) => {
                let id = start.tool_call_id.as_str();
                if self.calls.contains_key(id) {
                    return; // the gate's own
                }
                let (name, shown) =
                    (start.tool_name.as_str().to_owned(), start.arguments.as_str().to_owned());
                let call = Call { name, namespace: draft.namespace.clone(), shown, phase: Phase::Told };
                self.calls.insert(id.to_owned(), call);
                effects.extend(self.unfit(draft, start).map(Effect::Tell));
            }
            EventData::ToolArgumentsDelta(delta) => {
                if let Some(call) = self.calls.get_mut(delta.tool_call_id.as_str()) {
                    if call.shown == "{}" {
                        call.shown.clear();
                    }
                    call.shown.push_str(&delta.delta);
                }
            }
            EventData::ToolFinished(end) => {
                let id = end.tool_call_id.as_str();
                let by_itself = self.calls.get(id).filter(|call| matches!(call.phase, Phase::Told));
                if let Some(call) = by_itself.filter(|call| self.tools.get(&call.name).is_some()) {
                    let message = "A tool that the gateway is there to run was run by the worker itself.";
                    let warned = warning(UNGATED, message, id, &call.name, None);
                    effects.extend(warned.map(|data| Effect::Tell(Told::Event(EventDraft::root(data)))));
                }
                self.ended(id, effects);
            }
            EventData::ToolError(end) => self.ended(end.tool_call_id.as_str(), effects),
            _other => {}
        }
    }

    fn ended(&mut self, id: &str, effects: &mut Vec<Effect>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.shown = String::new();
        if matches!(std::mem::replace(&mut call.phase, Phase::Over), Phase::Running) {
            effects.push(Effect::Abort(id.to_owned()));
        }
    }

    /// What is said of arguments that a harness runs a tool with by itself. Where the gate runs it, the gate says it.
    fn unfit(&self, draft: &EventDraft<'static>, start: &ToolStarted<'static>) -> Option<Told> {
        let name = start.tool_name.as_str();
        // What is shown may differ from what runs; and streamed arguments are still to come.
        let unsure = self.options.redact_content || self.options.strip_escapes;
        let to_come = self.options.stream_arguments && start.arguments.is_empty();
        if unsure || to_come || self.tools.get(name).is_some() {
            return None;
        }
        let mismatch = self.tools.schemas().check(name, start.arguments.as_str()).err()?;
        let message = "The harness ran a tool with arguments that do not satisfy the schema of the tool.";
        let data = warning(
            ARGUMENTS_UNFIT,
            message,
            start.tool_call_id.as_str(),
            name,
            Some((&mismatch.pointer, &mismatch.rule)),
        )?;
        Some(Told::Event(EventDraft::at(draft.namespace.clone(), data)))
    }

    /// The state that the adapter reports, with what the gate needs of it after an answer.
    pub fn remember(&self, private: String) -> String {
        let waiting = self.calls.iter().filter_map(|(id, call)| match &call.phase {
            Phase::Waits(print) => Some((id.as_str(), print)),
            Phase::Told | Phase::Recording(_) | Phase::Running | Phase::Over => None,
        });
        verdicts::stored(private, waiting)
    }

    /// Decides; performs nothing.
    pub fn apply(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Asked(line) => self.asked(&line, effects),
            Input::Recorded(id) => self.recorded(&id, effects),
            Input::Lost(id, loss) => self.lost(&id, loss, effects),
            Input::Returned(id, returned) => self.returned(&id, returned, effects),
            Input::Left => self.leave(effects),
        }
    }

    fn asked(&mut self, line: &ToolLine, effects: &mut Vec<Effect>) {
        let refuse = |code| Effect::Reply(refusal(&self.run_id, &line.call_id, code));
        if self.left {
            return effects.push(refuse(RUN_OVER));
        }
        if line.generation != Some(self.generation) {
            return effects.push(refuse(STALE));
        }
        let max = self.options.limits.id_bytes;
        let (Ok(id), Ok(name)) =
            (ToolCallId::bounded(line.call_id.clone(), max), Name::bounded(line.name.clone(), max))
        else {
            // It cannot be told, so it cannot be.
            return effects.push(refuse(NOT_RECORDED));
        };
        match self.calls.get(id.as_str()).map(|call| &call.phase) {
            Some(Phase::Recording(_) | Phase::Running | Phase::Over) => {
                return effects.push(refuse(CALL_REPEATED));
            }
            Some(Phase::Told | Phase::Waits(_)) | None => {}
        }
        effects.push(Effect::Tell(Told::Claim(id.clone())));
        match self.judge(&id, &name, line) {
            Judged::Run(arguments) => {
                self.start(&id, &name, line, Some(&arguments.text), effects);
                self.set(&id, Phase::Recording(arguments));
                effects.push(Effect::Record(id.as_str().to_owned()));
            }
            Judged::Ask(arguments) => {
                self.start(&id, &name, line, Some(&arguments.text), effects);
                effects.push(Effect::Reply(approval_required(&self.run_id, &id, &arguments)));
                self.set(&id, Phase::Waits(arguments.print));
            }
            Judged::Fail(failed) => {
                self.start(&id, &name, line, line.arguments.as_deref(), effects);
                self.fail(&id, failed, effects);
            }
        }
    }

    fn judge(&mut self, id: &ToolCallId<'static>, name: &Name<'static>, line: &ToolLine) -> Judged {
        let Some(tool) = self.tools.get(name.as_str()) else {
            return Judged::Fail(Failed::new(UNKNOWN_TOOL, "The gateway runs no tool of this name."));
        };
        let read = arguments::read(line.arguments.as_deref(), &tool.schema, &self.options.limits);
        let told = self.calls.get(id.as_str());
        let read = read.and_then(|arguments| match told {
            Some(call) if !self.is_told(call, name, &arguments) => Err(Fault::Differ),
            Some(_) | None => Ok(arguments),
        });
        let arguments = match read {
            Ok(arguments) => arguments,
            Err(fault) => return Judged::Fail(Failed::new(INVALID_ARGUMENTS, fault.to_string())),
        };
        let asks = tool.asks;
        // Used up here, whatever becomes of it: a decision lets one call through, once.
        match self.verdicts.remove(id.as_str()) {
            Some(Verdict::Rejected) => Judged::Fail(Failed::new(REJECTED, "A person refused this call.")),
            Some(Verdict::Exactly(print)) if print == arguments.print => Judged::Run(arguments),
            Some(Verdict::ShownAs(print)) if self.shown(&arguments.text).as_ref() == Some(&print) => {
                Judged::Run(arguments)
            }
            Some(Verdict::Exactly(_) | Verdict::ShownAs(_)) => Judged::Fail(Failed::new(
                APPROVAL_MISMATCH,
                "The arguments are not those that a person approved.",
            )),
            None if asks => Judged::Ask(arguments),
            None => Judged::Run(arguments),
        }
    }

    /// Whether the call was told with this name and what these arguments look like.
    fn is_told(&self, call: &Call, name: &Name<'static>, arguments: &Arguments) -> bool {
        call.name == name.as_str()
            && Print::of(&call.shown).is_some_and(|told| self.shown(&arguments.text) == Some(told))
    }

    fn shown(&self, text: &str) -> Option<Print> {
        Print::of(project::arguments(text, &self.options).ok()?.as_str())
    }

    /// Tells of a call that nobody told of before. What cannot be shown is shown as no arguments.
    fn start(
        &mut self,
        id: &ToolCallId<'static>,
        name: &Name<'static>,
        line: &ToolLine,
        arguments: Option<&str>,
        effects: &mut Vec<Effect>,
    ) {
        if self.calls.contains_key(id.as_str()) {
            return;
        }
        let fits = arguments.filter(|text| text.len() <= self.options.limits.arguments_bytes);
        let arguments =
            fits.and_then(|text| project::arguments(text, &self.options).ok()).unwrap_or(JsonObject::EMPTY);
        let mut namespace = Namespace::root();
        for element in &line.namespace {
            if let Ok(element) = InvocationId::bounded(element.clone(), self.options.limits.id_bytes) {
                namespace.push(element);
            }
        }
        let call = Call {
            name: name.as_str().to_owned(),
            namespace: namespace.clone(),
            shown: arguments.as_str().to_owned(),
            phase: Phase::Told,
        };
        self.calls.insert(id.as_str().to_owned(), call);
        let data = ToolStarted {
            tool_call_id: id.clone(),
            tool_name: name.clone(),
            arguments,
            parent_message_id: None,
        };
        effects.push(Effect::Tell(Told::Event(EventDraft::at(namespace, data))));
    }

    fn set(&mut self, id: &ToolCallId<'static>, phase: Phase) {
        if let Some(call) = self.calls.get_mut(id.as_str()) {
            call.phase = phase;
        }
    }

    fn recorded(&mut self, id: &str, effects: &mut Vec<Effect>) {
        if self.left {
            return self.lost(id, Loss::Left, effects);
        }
        let Some(call) = self.calls.get_mut(id) else { return };
        match std::mem::replace(&mut call.phase, Phase::Running) {
            Phase::Recording(arguments) => {
                let (timeout, max_output) = self
                    .tools
                    .get(&call.name)
                    .map(|tool| (tool.timeout, tool.max_output))
                    .unwrap_or_default();
                effects.push(Effect::Invoke(Invocation {
                    run_id: self.run_id.clone(),
                    call_id: id.to_owned(),
                    tool: call.name.clone(),
                    arguments: arguments.text,
                    timeout,
                    max_output,
                }));
            }
            // Late: whatever it is now, it is not to be run.
            other @ (Phase::Told | Phase::Waits(_) | Phase::Running | Phase::Over) => call.phase = other,
        }
    }

    /// It is not run. Nothing is told of it: it stays open, and who has the run now says how that ends.
    fn lost(&mut self, id: &str, loss: Loss, effects: &mut Vec<Effect>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        match call.phase {
            Phase::Recording(_) | Phase::Running => {
                call.phase = Phase::Over;
                let code = match loss {
                    Loss::NotRecorded => NOT_RECORDED,
                    Loss::Stale => STALE,
                    Loss::Left => RUN_OVER,
                };
                effects.push(Effect::Reply(refusal(&self.run_id, id, code)));
            }
            Phase::Told | Phase::Waits(_) | Phase::Over => {}
        }
    }

    fn returned(&mut self, id: &str, returned: Returned, effects: &mut Vec<Effect>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        match call.phase {
            Phase::Running => {}
            // Late: the worker gave it up, or the run was left.
            Phase::Told | Phase::Waits(_) | Phase::Recording(_) | Phase::Over => return,
        }
        let Ok(call_id) = ToolCallId::bounded(id.to_owned(), self.options.limits.id_bytes) else { return };
        match returned {
            Returned::Failed(failed) => self.fail(&call_id, failed, effects),
            Returned::Said(text) => {
                call.phase = Phase::Over;
                let namespace = call.namespace.clone();
                let (whole, data) =
                    project::finished(call_id.clone(), &shown(&text, &self.options), &self.options);
                effects.extend(whole.map(Effect::Keep));
                effects.push(Effect::Tell(Told::Event(EventDraft::at(namespace, data))));
                effects.push(Effect::Reply(said(&self.run_id, id, &text)));
            }
        }
    }

    fn fail(&mut self, id: &ToolCallId<'static>, failed: Failed, effects: &mut Vec<Effect>) {
        let Some(call) = self.calls.get_mut(id.as_str()) else { return };
        call.phase = Phase::Over;
        let Failed { code, message, output, why: _ } = failed;
        let data = project::failed(id.clone(), code, &message, &self.options);
        effects.push(Effect::Tell(Told::Event(EventDraft::at(call.namespace.clone(), data))));
        effects.push(Effect::Reply(error(&self.run_id, id.as_str(), code, &message, output.as_deref())));
    }

    /// Whatever runs is ended, and stays open: what it did is not known.
    fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.left = true;
        let running: Vec<String> = self
            .calls
            .iter()
            .filter(|(_, call)| matches!(call.phase, Phase::Running | Phase::Recording(_)))
            .map(|(id, _)| id.clone())
            .collect();
        for id in running {
            effects.push(Effect::Abort(id.clone()));
            self.lost(&id, Loss::Left, effects);
        }
    }
}

/// What a request came to.
enum Judged {
    Run(Arguments),
    Ask(Arguments),
    Fail(Failed),
}

/// A result as events may show it.
fn shown(text: &str, options: &Options) -> String {
    let plain = Options { redact_content: false, ..options.clone() };
    causeway_adapter::text::content(text, &plain).into_owned()
}

fn warning(
    code: &'static str,
    message: &'static str,
    call_id: &str,
    tool: &str,
    place: Option<(&str, &str)>,
) -> Option<EventData<'static>> {
    let mut details = format!("{{\"tool_call_id\":{},\"tool_name\":{}", quoted(call_id), quoted(tool));
    if let Some((pointer, rule)) = place {
        details.push_str(&format!(",\"pointer\":{},\"schema\":{}", quoted(pointer), quoted(rule)));
    }
    details.push('}');
    let details = JsonObject::parse(details, &causeway_contract::Limits::DEFAULT).ok();
    Some(Warning { code: Code::new(code).ok()?, message: message.into(), details }.into())
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_string(text, &mut out);
    out
}

fn reply(run_id: &str, call_id: &str, status: &str, members: &str) -> Vec<u8> {
    format!(
        "{{\"op\":\"tool_result\",\"run_id\":{},\"call_id\":{},\"status\":\"{status}\"{members}}}\n",
        quoted(run_id),
        quoted(call_id)
    )
    .into_bytes()
}

fn said(run_id: &str, call_id: &str, text: &str) -> Vec<u8> {
    reply(run_id, call_id, "ok", &format!(",\"result\":{}", quoted(text)))
}

fn error(run_id: &str, call_id: &str, code: &str, message: &str, output: Option<&str>) -> Vec<u8> {
    let output = output.map(|output| format!(",\"output\":{}", quoted(output))).unwrap_or_default();
    let members = format!(",\"code\":\"{code}\",\"message\":{}{output}", quoted(message));
    reply(run_id, call_id, "error", &members)
}

fn refusal(run_id: &str, call_id: &str, code: &str) -> Vec<u8> {
    let message = match code {
        STALE => "The run is no longer this worker's. Nothing was run.",
        RUN_OVER => "The run is being left. Nothing more is run.",
        CALL_REPEATED => "This call was asked for before. It is not run again.",
        _not_recorded => "The call could not be written down. Nothing was run.",
    };
    error(run_id, call_id, code, message, None)
}

/// The arguments are one JSON object on one line: line breaks in it stand between tokens.
fn approval_required(run_id: &str, id: &ToolCallId<'static>, arguments: &Arguments) -> Vec<u8> {
    let one_line = arguments.text.replace(['\n', '\r'], " ");
    reply(run_id, id.as_str(), "approval_required", &format!(",\"arguments\":{}", one_line.trim()))
}
