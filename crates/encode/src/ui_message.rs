//! The UI message stream of the Vercel AI SDK, version 1: chunks that major 5 reads, with the approval chunks of
//! majors 6 and 7 for clients that say so.
//!
//! Refuses what an older major would fail on, and a second announcement of a call that the interrupted run announced.

use std::sync::Arc;

use causeway_contract::event::{
    Decision, Event, EventData, InterruptRequest, InterruptRequested, NamespaceEntered, NamespaceExited,
    NamespaceOutcome, RunError, RunFinished, RunStarted, ToolArgumentsDelta, ToolError, ToolStarted, Warning,
};
use causeway_contract::id::ToolCallId;
use causeway_contract::json::{JsonObject, check_object};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::agui_interrupt::put_decisions;
use crate::agui_spec::boolean;
use crate::compact::{approval_id, begin, end, list, members, number, object, put_key, raw, text, text_if};
use crate::encoder::Encoder;
use crate::json::put;
use crate::open::{Arguments, Call, Open, owner};
use crate::options::Options;
use crate::seed::Seed;

/// Our agents run their tools themselves, and their names are not known to the client's types.
const ON_OUR_SIDE: &str = r#","providerExecuted":true,"dynamic":true"#;
const DONE: &str = "data: [DONE]\n\n";
const BROKEN_ARGUMENTS: &str = "The arguments of this call were not complete.";
/// The code of an error that stands for a reviewer's refusal.
const REFUSED: &str = "tool_rejected";

/// Encodes one run.
#[derive(Clone, Debug, Default)]
pub struct UiMessageSse {
    options: Options,
    open: Open,
    subagents: Vec<Subagent>,
    /// The chunks of the interrupt that was requested, written out; empty before one was.
    interrupt: Vec<u8>,
}

/// What a subagent's data part repeats when its state changes.
#[derive(Clone, Debug)]
struct Subagent {
    id: Arc<str>,
    name: String,
}

impl UiMessageSse {
    /// For a run that is not a resumed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a resumed run: what its client has already seen of open calls is not shown again.
    pub fn resumed(seed: &Seed) -> Self {
        Self {
            open: Open::resumed(seed),
            options: Options::new().resumed(!seed.is_empty()),
            ..Self::default()
        }
    }

    /// The same for a client that said something about itself.
    pub fn options(self, options: &Options) -> Self {
        let resumed = self.options.resumed || options.resumed;
        Self { options: options.clone().resumed(resumed), ..self }
    }

    fn run_started(&self, event: &Event<'_>, _: &RunStarted<'_>, out: &mut Vec<u8>) {
        put(out, begin!("start"));
        // A resumed run goes on with the message that the client has; another id would begin a second one.
        if !self.options.resumed {
            text(out, "messageId", event.run_id.as_str());
        }
        message_metadata(out, |out| text(out, "runId", event.run_id.as_str()));
        end(out);
    }

    fn tool_started(&mut self, event: &Event<'_>, data: &ToolStarted<'_>, out: &mut Vec<u8>) {
        let (id, name) = (data.tool_call_id.as_str(), data.tool_name.as_str());
        let arguments = self.open.start_call(&event.namespace, data);
        match arguments {
            Arguments::Whole => put_input(id, name, owner(&event.namespace), &data.arguments, out),
            Arguments::None => {
                put(out, begin!("tool-input-start"));
                text(out, "toolCallId", id);
                text(out, "toolName", name);
                put(out, ON_OUR_SIDE);
                end(out);
            }
            Arguments::Hidden | Arguments::Pieces => {}
        }
    }

    fn arguments_delta(&mut self, data: &ToolArgumentsDelta<'_>, out: &mut Vec<u8>) {
        let Some(call) = self.open.piece(data) else { return };
        call.text.push_str(&data.delta);
        put(out, begin!("tool-input-delta"));
        text(out, "toolCallId", &call.id);
        text(out, "inputTextDelta", &data.delta);
        end(out);
    }

    fn tool_finished(&mut self, call: &ToolCallId<'_>, result: &str, out: &mut Vec<u8>) {
        // A call that never started is none of a legal stream; the SDK would fail on its end.
        let Some(open) = self.open.calls.finish(call) else { return };
        if !close_call(&open, BROKEN_ARGUMENTS, out) {
            return;
        }
        put(out, begin!("tool-output-available"));
        text(out, "toolCallId", call.as_str());
        text(out, "output", result);
        put(out, ON_OUR_SIDE);
        end(out);
    }

    fn tool_error(&mut self, data: &ToolError<'_>, out: &mut Vec<u8>) {
        let Some(open) = self.open.calls.finish(&data.tool_call_id) else { return };
        if !close_call(&open, &data.message, out) {
            return;
        }
        if self.approves() && data.code.as_str() == REFUSED {
            put(out, begin!("tool-output-denied"));
            text(out, "toolCallId", data.tool_call_id.as_str());
            return end(out);
        }
        put(out, begin!("tool-output-error"));
        text(out, "toolCallId", data.tool_call_id.as_str());
        text(out, "errorText", &data.message);
        put(out, ON_OUR_SIDE);
        end(out);
    }

    fn entered(&mut self, namespace: &Namespace<'_>, data: &NamespaceEntered<'_>, out: &mut Vec<u8>) {
        let Some(id) = owner(namespace) else { return };
        let name = data.agent_name.as_str();
        self.subagents.push(Subagent { id: Arc::from(id), name: name.to_owned() });
        let (agent, call) = (data.agent_id.as_str(), data.parent_tool_call_id.as_str());
        put_subagent(namespace, agent, name, call, "running", out);
    }

    fn exited(&mut self, namespace: &Namespace<'_>, data: &NamespaceExited<'_>, out: &mut Vec<u8>) {
        let Some(id) = owner(namespace) else { return };
        let at = self.subagents.iter().rposition(|subagent| *subagent.id == *id);
        let name = at.map(|at| self.subagents.remove(at).name);
        let status = match data.outcome {
            NamespaceOutcome::Success => "finished",
            NamespaceOutcome::Interrupted => "suspended",
            NamespaceOutcome::Cancelled => "cancelled",
            NamespaceOutcome::Error => "failed",
        };
        let (agent, call) = (data.agent_id.as_str(), data.parent_tool_call_id.as_str());
        put_subagent(namespace, agent, name.as_deref().unwrap_or(agent), call, status, out);
    }

    /// Closes what is open and appends the last chunks of a run that did not fail.
    fn finish(&mut self, reason: &str, stop_reason: Option<&str>, out: &mut Vec<u8>) {
        self.close_all(out);
        out.append(&mut self.interrupt);
        put(out, begin!("finish"));
        // Early majors 5 refuse a member that they do not know.
        text_if(out, "finishReason", Some(reason).filter(|_| self.approves()));
        if self.open.usage.counts().next().is_some()
            || self.open.usage.cost.is_some()
            || stop_reason.is_some()
        {
            message_metadata(out, |out| {
                text_if(out, "stopReason", stop_reason);
                self.put_usage(out);
            });
        }
        end(out);
        put(out, DONE);
    }

    fn close_all(&mut self, out: &mut Vec<u8>) {
        for message in self.open.texts.take() {
            put_end(begin!("text-end"), &message.id, out);
        }
        for message in self.open.reasonings.take() {
            put_end(begin!("reasoning-end"), &message.id, out);
        }
        for call in self.open.calls.take() {
            close_call(&call, BROKEN_ARGUMENTS, out);
        }
    }

    fn finished(&mut self, data: &RunFinished<'_>, out: &mut Vec<u8>) {
        let waits = data.stop_reason.as_deref() == Some("tool_use");
        self.finish(if waits { "tool-calls" } else { "stop" }, data.stop_reason.as_deref(), out);
    }

    fn failed(&self, data: &RunError<'_>, out: &mut Vec<u8>) {
        put(out, begin!("data-error"));
        put_key(out, "data");
        members(out, |out| {
            text(out, "code", data.code.as_str());
            text(out, "message", &data.message);
            raw(out, "retryable", boolean(data.retryable));
            if let Some(seconds) = &data.retry_after_seconds {
                raw(out, "retryAfterSeconds", seconds.as_str());
            }
            text(out, "sideEffectStatus", data.side_effect_status.as_str());
        });
        end(out);
        failure(&data.message, out);
    }

    fn requested(&mut self, data: &InterruptRequested<'_>, shown: &mut Vec<u8>) {
        let approves = self.approves();
        if let InterruptRequest::Approvals(approvals) = &data.request {
            // The request holds the arguments whole, whatever came of them so far; an approval needs them shown.
            for approval in approvals {
                let Some(call) = self.open.calls.find_mut(&approval.tool_call_id) else { continue };
                if matches!(call.arguments, Arguments::None | Arguments::Pieces) {
                    call.arguments = Arguments::Whole;
                    put_input(&call.id, &call.name, call.owner.as_deref(), &approval.tool_args, shown);
                }
            }
        }
        let out = &mut self.interrupt;
        out.clear();
        put(out, begin!("data-interrupt"));
        text(out, "id", data.interrupt_id.as_str());
        put_key(out, "data");
        members(out, |out| put_request(data, out));
        end(out);
        if let (true, InterruptRequest::Approvals(approvals)) = (approves, &data.request) {
            // Where a plain yes is not allowed the SDK's buttons are no answer; `data-interrupt` says what is.
            for approval in approvals.iter().filter(|approval| approval.allows(Decision::Approve)) {
                put(out, begin!("tool-approval-request"));
                text(out, "approvalId", &approval_id(&data.interrupt_id, &approval.tool_call_id));
                text(out, "toolCallId", approval.tool_call_id.as_str());
                end(out);
            }
        }
    }

    fn put_usage(&self, out: &mut Vec<u8>) {
        if self.open.usage.counts().next().is_none() && self.open.usage.cost.is_none() {
            return;
        }
        put_key(out, "usage");
        members(out, |out| {
            for (name, count) in self.open.usage.counts() {
                number(out, name, i64::try_from(count).unwrap_or(i64::MAX));
            }
            if let Some(cost) = &self.open.usage.cost {
                raw(out, "cost", cost);
                text_if(out, "currency", self.open.usage.currency.as_deref());
            }
        });
    }

    /// Whether the client knows the chunks that came with major 6.
    fn approves(&self) -> bool {
        self.options.sdk >= Some(6)
    }
}

impl Encoder for UiMessageSse {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match &event.data {
            EventData::RunStarted(data) => self.run_started(event, data, out),
            EventData::TextStarted(data) => {
                self.open.texts.start(data.message_id.as_str(), &event.namespace);
                put_start(begin!("text-start"), data.message_id.as_str(), &event.namespace, out);
            }
            EventData::TextDelta(data) => {
                if !data.delta.is_empty() && self.open.texts.find(data.message_id.as_str()).is_some() {
                    put_delta(begin!("text-delta"), data.message_id.as_str(), &data.delta, out);
                }
            }
            EventData::TextFinished(data) => {
                if let Some(message) = self.open.texts.finish(data.message_id.as_str()) {
                    put_end(begin!("text-end"), &message.id, out);
                }
            }
            EventData::ReasoningStarted(data) => {
                self.open.reasonings.start(data.message_id.as_str(), &event.namespace);
                put_start(begin!("reasoning-start"), data.message_id.as_str(), &event.namespace, out);
            }
            EventData::ReasoningDelta(data) => {
                if !data.delta.is_empty() && self.open.reasonings.find(data.message_id.as_str()).is_some() {
                    put_delta(begin!("reasoning-delta"), data.message_id.as_str(), &data.delta, out);
                }
            }
            EventData::ReasoningFinished(data) => {
                if let Some(message) = self.open.reasonings.finish(data.message_id.as_str()) {
                    put_end(begin!("reasoning-end"), &message.id, out);
                }
            }
            EventData::ToolStarted(data) => self.tool_started(event, data, out),
            EventData::ToolArgumentsDelta(data) => self.arguments_delta(data, out),
            EventData::ToolFinished(data) => self.tool_finished(&data.tool_call_id, &data.result, out),
            EventData::ToolError(data) => self.tool_error(data, out),
            EventData::NamespaceEntered(data) => self.entered(&event.namespace, data, out),
            EventData::NamespaceExited(data) => self.exited(&event.namespace, data, out),
            EventData::Warning(data) => put_warning(event, data, out),
            EventData::UsageUpdated(data) => self.open.usage.update(data),
            EventData::InterruptRequested(data) => self.requested(data, out),
            EventData::RunFinished(data) => self.finished(data, out),
            EventData::RunInterrupted(_) => self.finish("tool-calls", None, out),
            EventData::RunCancelled(_) => {
                put(out, begin!("abort"));
                end(out);
                put(out, DONE);
            }
            EventData::RunError(data) => self.failed(data, out),
            EventData::ProviderMetadata(_) => {}
        }
    }
}

/// Appends the chunks of a failure, inside a run or before there is one.
pub(crate) fn failure(message: &str, out: &mut Vec<u8>) {
    put(out, begin!("error"));
    text(out, "errorText", message);
    end(out);
    put(out, DONE);
}

fn put_start(begin: &str, id: &str, namespace: &Namespace<'_>, out: &mut Vec<u8>) {
    put(out, begin);
    text(out, "id", id);
    provider_metadata(owner(namespace), out);
    end(out);
}

#[inline]
fn put_delta(begin: &str, id: &str, delta: &str, out: &mut Vec<u8>) {
    put(out, begin);
    text(out, "id", id);
    text(out, "delta", delta);
    end(out);
}

fn put_end(begin: &str, id: &str, out: &mut Vec<u8>) {
    put(out, begin);
    text(out, "id", id);
    end(out);
}

fn put_input(id: &str, name: &str, by: Option<&str>, input: &JsonObject<'_>, out: &mut Vec<u8>) {
    put(out, begin!("tool-input-available"));
    text(out, "toolCallId", id);
    text(out, "toolName", name);
    object(out, "input", input);
    put(out, ON_OUR_SIDE);
    provider_metadata(by, out);
    end(out);
}

/// Completes the announcement of a call; false if its arguments can not be shown, which is told instead of its end.
fn close_call(call: &Call, otherwise: &str, out: &mut Vec<u8>) -> bool {
    let by = call.owner.as_deref();
    match call.arguments {
        Arguments::Whole | Arguments::Hidden => true,
        Arguments::None => {
            put_input(&call.id, &call.name, by, &JsonObject::EMPTY, out);
            true
        }
        Arguments::Pieces => {
            if check_object(&call.text, &Limits::DEFAULT).is_ok()
                && let Ok(input) = JsonObject::parse(call.text.as_str(), &Limits::DEFAULT)
            {
                put_input(&call.id, &call.name, by, &input, out);
                return true;
            }
            put(out, begin!("tool-input-error"));
            text(out, "toolCallId", &call.id);
            text(out, "toolName", &call.name);
            text(out, "input", &call.text);
            put(out, ON_OUR_SIDE);
            text(out, "errorText", otherwise);
            end(out);
            false
        }
    }
}

fn put_subagent(
    namespace: &Namespace<'_>,
    agent: &str,
    name: &str,
    call: &str,
    status: &str,
    out: &mut Vec<u8>,
) {
    let Some((id, parents)) = namespace.split_last() else { return };
    put(out, begin!("data-subagent"));
    text(out, "id", id.as_str());
    put_key(out, "data");
    members(out, |out| {
        text(out, "subagentRunId", id.as_str());
        text_if(out, "parentSubagentRunId", parents.last().map(|parent| parent.as_str()));
        text(out, "parentToolCallId", call);
        text(out, "agentId", agent);
        text(out, "agentName", name);
        text(out, "status", status);
    });
    end(out);
}

fn put_warning(event: &Event<'_>, data: &Warning<'_>, out: &mut Vec<u8>) {
    put(out, begin!("data-warning"));
    put_key(out, "data");
    members(out, |out| {
        text(out, "code", data.code.as_str());
        text(out, "message", &data.message);
        if let Some(details) = &data.details {
            object(out, "details", details);
        }
        text_if(out, "subagentRunId", owner(&event.namespace));
    });
    end(out);
}

fn put_request(data: &InterruptRequested<'_>, out: &mut Vec<u8>) {
    text(out, "interruptId", data.interrupt_id.as_str());
    text(out, "interruptType", data.request.kind());
    text(out, "agentId", data.agent_id.as_str());
    match &data.request {
        InterruptRequest::Form { prompt, fields } => {
            text(out, "prompt", prompt);
            put_key(out, "fields");
            list(out, fields, |out, field| {
                causeway_contract::canonical::write_minified(field.object.as_str(), out);
            });
        }
        InterruptRequest::Approvals(approvals) => {
            put_key(out, "approvals");
            list(out, approvals, |out, approval| {
                members(out, |out| {
                    text(out, "approvalId", &approval_id(&data.interrupt_id, &approval.tool_call_id));
                    text(out, "toolCallId", approval.tool_call_id.as_str());
                    text(out, "toolName", approval.tool_name.as_str());
                    object(out, "toolArgs", &approval.tool_args);
                    put_key(out, "allowedDecisions");
                    put_decisions(approval, out);
                });
            });
        }
    }
}

/// Appends `,"messageMetadata":{"causeway":{…}}`.
fn message_metadata(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_key(out, "messageMetadata");
    put(out, r#"{"causeway":"#);
    members(out, write);
    out.push(b'}');
}

/// Appends `,"providerMetadata":{"causeway":{"subagentRunId":…}}` for what a subagent says.
fn provider_metadata(by: Option<&str>, out: &mut Vec<u8>) {
    if let Some(by) = by {
        put_key(out, "providerMetadata");
        put(out, r#"{"causeway":"#);
        members(out, |out| text(out, "subagentRunId", by));
        out.push(b'}');
    }
}
