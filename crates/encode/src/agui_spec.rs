//! AG-UI 1.0, in frames that the 0.0.59 clients read too: compact JSON, `data:` lines, whole milliseconds.
//!
//! Refuses to leave anything open before `RUN_FINISHED`, and to announce a call twice in a conversation: of a call
//! that the interrupted run announced, only the result is shown.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_contract::event::{
    Event, EventData, InterruptRequested, NamespaceEntered, NamespaceExited, NamespaceOutcome, RunCancelled,
    RunError, RunFinished, ToolArgumentsDelta, ToolError, ToolFinished, ToolStarted, Warning,
};
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::timestamp::Timestamp;

use crate::agui_interrupt::put_interrupts;
use crate::compact::{begin, end, list, members, number, object, put_key, raw, stamp, string, text, text_if};
use crate::encoder::Encoder;
use crate::json::put;
use crate::json::string::{Raw, escape};
use crate::open::{Arguments, Call, Open, owner};
use crate::options::Options;
use crate::seed::Seed;

/// Text and reasoning messages are separate id spaces; here all messages of a conversation share one.
const REASONING: &str = "reasoning:";
const RUN_CANCELLED: &str = "The run was cancelled.";
const SUBAGENT_CANCELLED: &str = "The subagent was cancelled.";
const SUBAGENT_FAILED: &str = "The subagent failed.";

/// Encodes one run.
#[derive(Clone, Debug, Default)]
pub struct AguiSpecSse {
    options: Options,
    open: Open,
    /// Who said each text message of this run: a call may only name one of its own agent as its parent.
    authors: HashMap<Arc<str>, Option<Arc<str>>>,
    /// The interrupts that were requested, written out; empty before there were any.
    interrupts: Vec<u8>,
}

impl AguiSpecSse {
    /// For a run that is not a resumed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a resumed run: what its client has already seen of open calls is not shown again.
    pub fn resumed(seed: &Seed) -> Self {
        Self { open: Open::resumed(seed), ..Self::default() }
    }

    /// The same for a client that said something about itself.
    pub fn options(self, options: &Options) -> Self {
        Self { options: options.clone(), ..self }
    }

    /// The frames of a request that came to no run, for a client whose ids are known.
    pub fn failure(thread: &str, run: &str, code: &str, message: &str, at: &Timestamp<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        failure(Some((thread, run)), Some(code), message, at, &mut out);
        out
    }

    fn run_started(&self, event: &Event<'_>, out: &mut Vec<u8>) {
        put(out, begin!("RUN_STARTED"));
        self.thread_and_run(event, out);
        put(out, r#","protocolVersion":"1.0""#);
        if self.options.run_id.is_some() {
            // The client's own name is echoed; ours is what the other routes take.
            metadata(out, |out| text(out, "runId", event.run_id.as_str()));
        }
        stamp(event, out);
    }

    fn thread_and_run(&self, event: &Event<'_>, out: &mut Vec<u8>) {
        text(out, "threadId", event.conversation_id.as_str());
        text(out, "runId", self.options.run_id.as_deref().unwrap_or(event.run_id.as_str()));
    }

    fn tool_started(&mut self, event: &Event<'_>, data: &ToolStarted<'_>, out: &mut Vec<u8>) {
        let arguments = self.open.start_call(&event.namespace, data);
        let id = data.tool_call_id.as_str();
        if arguments == Arguments::Hidden {
            return;
        }
        let by = owner(&event.namespace);
        put(out, begin!("TOOL_CALL_START"));
        text(out, "toolCallId", id);
        text(out, "toolCallName", data.tool_name.as_str());
        let parent = data
            .parent_message_id
            .as_ref()
            .filter(|parent| self.authors.get(parent.as_str()).is_some_and(|author| author.as_deref() == by));
        text_if(out, "parentMessageId", parent.map(|parent| parent.as_str()));
        text_if(out, "subagentRunId", by);
        stamp(event, out);
        if arguments == Arguments::Whole {
            put_arguments(event, id, by, &data.arguments, out);
            put_call_end(event, id, by, out);
        }
    }

    fn arguments_delta(&mut self, event: &Event<'_>, data: &ToolArgumentsDelta<'_>, out: &mut Vec<u8>) {
        let Some(call) = self.open.piece(data) else { return };
        put(out, begin!("TOOL_CALL_ARGS"));
        text(out, "toolCallId", &call.id);
        text(out, "delta", &data.delta);
        text_if(out, "subagentRunId", call.owner.as_deref());
        stamp(event, out);
    }

    fn tool_finished(&mut self, event: &Event<'_>, data: &ToolFinished<'_>, out: &mut Vec<u8>) {
        self.result(event, &data.tool_call_id, &data.result, out);
        if let Some(reference) = &data.result_ref {
            metadata(out, |out| text(out, "resultRef", reference.as_str()));
        }
        stamp(event, out);
    }

    fn tool_error(&mut self, event: &Event<'_>, data: &ToolError<'_>, out: &mut Vec<u8>) {
        self.result(event, &data.tool_call_id, &data.message, out);
        metadata(out, |out| {
            put_key(out, "error");
            members(out, |out| {
                text(out, "code", data.code.as_str());
                raw(out, "retryable", boolean(data.retryable));
            });
        });
        stamp(event, out);
    }

    /// Closes the call and appends its result up to what is known beside the text.
    fn result(&mut self, event: &Event<'_>, call: &ToolCallId<'_>, content: &str, out: &mut Vec<u8>) {
        if let Some(call) = self.open.calls.finish(call) {
            close_call(event, &call, out);
        }
        put(out, begin!("TOOL_CALL_RESULT"));
        // A message of its own, under the same name in every replay and in no other run.
        put(out, r#","messageId":"result:"#);
        escape::<Raw>(event.run_id.as_str(), out);
        out.push(b':');
        escape::<Raw>(call.as_str(), out);
        out.push(b'"');
        text(out, "toolCallId", call.as_str());
        text(out, "content", content);
        put(out, r#","role":"tool""#);
        text_if(out, "subagentRunId", owner(&event.namespace));
    }

    /// Closes everything, as `RUN_FINISHED` demands.
    fn close_all(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        for message in self.open.texts.take() {
            put_text_end(event, &message.id, message.owner.as_deref(), out);
        }
        for message in self.open.reasonings.take() {
            put_reasoning_end(event, &message.id, message.owner.as_deref(), out);
        }
        for call in self.open.calls.take() {
            close_call(event, &call, out);
        }
    }

    /// Closes everything and appends `RUN_FINISHED` up to its outcome.
    fn run_finished(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.close_all(event, out);
        put(out, begin!("RUN_FINISHED"));
        self.thread_and_run(event, out);
    }

    fn success(&mut self, event: &Event<'_>, data: &RunFinished<'_>, out: &mut Vec<u8>) {
        // The older clients know no such member and refuse it.
        let pending: Vec<Arc<str>> = self.open.calls.ids().filter(|_| self.speaks_1_0()).collect();
        self.run_finished(event, out);
        put(out, r#","outcome":{"type":"success""#);
        if !pending.is_empty() {
            put_key(out, "pendingToolCallIds");
            list(out, &pending, |out, id| string(out, id));
        }
        out.push(b'}');
        self.put_usage(out);
        metadata(out, |out| {
            text_if(out, "stopReason", data.stop_reason.as_deref());
            self.put_cost(out);
        });
        stamp(event, out);
    }

    fn interrupted(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.run_finished(event, out);
        put(out, r#","outcome":{"type":"interrupt","interrupts":["#);
        out.append(&mut self.interrupts);
        put(out, "]}");
        self.put_usage(out);
        metadata(out, |out| self.put_cost(out));
        stamp(event, out);
    }

    fn cancelled(&mut self, event: &Event<'_>, data: &RunCancelled, out: &mut Vec<u8>) {
        if self.speaks_1_0() {
            self.run_finished(event, out);
            put(out, r#","outcome":{"type":"cancelled"}"#);
        } else {
            put(out, begin!("RUN_ERROR"));
            text(out, "message", RUN_CANCELLED);
            text(out, "code", "cancelled");
        }
        self.put_usage(out);
        metadata(out, |out| {
            text(out, "reason", data.reason.as_str());
            text(out, "sideEffectStatus", data.side_effect_status.as_str());
            self.put_cost(out);
        });
        stamp(event, out);
    }

    fn failed(&self, event: &Event<'_>, data: &RunError<'_>, out: &mut Vec<u8>) {
        put(out, begin!("RUN_ERROR"));
        text(out, "message", &data.message);
        text(out, "code", data.code.as_str());
        self.put_usage(out);
        metadata(out, |out| {
            raw(out, "retryable", boolean(data.retryable));
            if let Some(seconds) = &data.retry_after_seconds {
                raw(out, "retryAfterSeconds", seconds.as_str());
            }
            text(out, "sideEffectStatus", data.side_effect_status.as_str());
            self.put_cost(out);
        });
        stamp(event, out);
    }

    fn put_usage(&self, out: &mut Vec<u8>) {
        if self.open.usage.counts().next().is_none() {
            return;
        }
        put_key(out, "usage");
        out.push(b'[');
        members(out, |out| {
            for (name, count) in self.open.usage.counts() {
                number(out, name, i64::try_from(count).unwrap_or(i64::MAX));
            }
        });
        out.push(b']');
    }

    fn put_cost(&self, out: &mut Vec<u8>) {
        if let Some(cost) = &self.open.usage.cost {
            raw(out, "cost", cost);
            text_if(out, "currency", self.open.usage.currency.as_deref());
        }
    }

    fn speaks_1_0(&self) -> bool {
        self.options.agui_version >= Some((1, 0))
    }
}

impl Encoder for AguiSpecSse {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match &event.data {
            EventData::RunStarted(_) => self.run_started(event, out),
            EventData::TextStarted(data) => {
                let (id, by) = (data.message_id.as_str(), owner(&event.namespace));
                self.open.texts.start(id, &event.namespace);
                self.authors.insert(Arc::from(id), by.map(Arc::from));
                put(out, begin!("TEXT_MESSAGE_START"));
                text(out, "messageId", id);
                put(out, r#","role":"assistant""#);
                text_if(out, "subagentRunId", by);
                stamp(event, out);
            }
            EventData::TextDelta(data) => {
                let Some(message) = self.open.texts.find(data.message_id.as_str()) else { return };
                if data.delta.is_empty() {
                    return;
                }
                put(out, begin!("TEXT_MESSAGE_CONTENT"));
                text(out, "messageId", &message.id);
                text(out, "delta", &data.delta);
                text_if(out, "subagentRunId", message.owner.as_deref());
                stamp(event, out);
            }
            EventData::TextFinished(data) => {
                if let Some(message) = self.open.texts.finish(data.message_id.as_str()) {
                    put_text_end(event, &message.id, message.owner.as_deref(), out);
                }
            }
            EventData::ReasoningStarted(data) => {
                let (id, by) = (data.message_id.as_str(), owner(&event.namespace));
                self.open.reasonings.start(id, &event.namespace);
                put(out, begin!("REASONING_START"));
                put_reasoning(event, id, "", by, out);
                put(out, begin!("REASONING_MESSAGE_START"));
                put_reasoning(event, id, r#","role":"reasoning""#, by, out);
            }
            EventData::ReasoningDelta(data) => {
                let Some(message) = self.open.reasonings.find(data.message_id.as_str()) else { return };
                if data.delta.is_empty() {
                    return;
                }
                put(out, begin!("REASONING_MESSAGE_CONTENT"));
                put_reasoning_id(&message.id, out);
                text(out, "delta", &data.delta);
                text_if(out, "subagentRunId", message.owner.as_deref());
                stamp(event, out);
            }
            EventData::ReasoningFinished(data) => {
                if let Some(message) = self.open.reasonings.finish(data.message_id.as_str()) {
                    put_reasoning_end(event, &message.id, message.owner.as_deref(), out);
                }
            }
            EventData::ToolStarted(data) => self.tool_started(event, data, out),
            EventData::ToolArgumentsDelta(data) => self.arguments_delta(event, data, out),
            EventData::ToolFinished(data) => self.tool_finished(event, data, out),
            EventData::ToolError(data) => self.tool_error(event, data, out),
            EventData::NamespaceEntered(data) => subagent_started(event, data, out),
            EventData::NamespaceExited(data) => subagent_ended(event, data, out),
            EventData::Warning(data) => put_warning(event, data, out),
            EventData::UsageUpdated(data) => self.open.usage.update(data),
            EventData::InterruptRequested(data) => self.remember(data),
            EventData::RunFinished(data) => self.success(event, data, out),
            EventData::RunInterrupted(_) => self.interrupted(event, out),
            EventData::RunCancelled(data) => self.cancelled(event, data, out),
            EventData::RunError(data) => self.failed(event, data, out),
            EventData::ProviderMetadata(_) => {}
        }
    }
}

impl AguiSpecSse {
    fn remember(&mut self, data: &InterruptRequested<'_>) {
        let calls = &self.open.calls;
        self.interrupts.clear();
        put_interrupts(
            data,
            |call| calls.find(call).and_then(|call| call.owner.clone()),
            &mut self.interrupts,
        );
    }
}

/// Appends the frames of a failure before there is a run: `RUN_STARTED` where the client's ids are known, `RUN_ERROR`.
pub(crate) fn failure(
    ids: Option<(&str, &str)>,
    code: Option<&str>,
    message: &str,
    at: &Timestamp<'_>,
    out: &mut Vec<u8>,
) {
    if let Some((thread, run)) = ids {
        put(out, begin!("RUN_STARTED"));
        text(out, "threadId", thread);
        text(out, "runId", run);
        put(out, r#","protocolVersion":"1.0""#);
        number(out, "timestamp", at.unix_millis());
        end(out);
    }
    put(out, begin!("RUN_ERROR"));
    text(out, "message", message);
    text_if(out, "code", code);
    number(out, "timestamp", at.unix_millis());
    end(out);
}

fn put_text_end(event: &Event<'_>, id: &str, by: Option<&str>, out: &mut Vec<u8>) {
    put(out, begin!("TEXT_MESSAGE_END"));
    text(out, "messageId", id);
    text_if(out, "subagentRunId", by);
    stamp(event, out);
}

fn put_reasoning_end(event: &Event<'_>, id: &str, by: Option<&str>, out: &mut Vec<u8>) {
    put(out, begin!("REASONING_MESSAGE_END"));
    put_reasoning(event, id, "", by, out);
    put(out, begin!("REASONING_END"));
    put_reasoning(event, id, "", by, out);
}

fn put_reasoning(event: &Event<'_>, id: &str, more: &str, by: Option<&str>, out: &mut Vec<u8>) {
    put_reasoning_id(id, out);
    put(out, more);
    text_if(out, "subagentRunId", by);
    stamp(event, out);
}

fn put_reasoning_id(id: &str, out: &mut Vec<u8>) {
    put_key(out, "messageId");
    out.push(b'"');
    put(out, REASONING);
    escape::<Raw>(id, out);
    out.push(b'"');
}

fn put_arguments(
    event: &Event<'_>,
    id: &str,
    by: Option<&str>,
    arguments: &JsonObject<'_>,
    out: &mut Vec<u8>,
) {
    let mut compact = Vec::new();
    causeway_contract::canonical::write_minified(arguments.as_str(), &mut compact);
    put(out, begin!("TOOL_CALL_ARGS"));
    text(out, "toolCallId", id);
    text(out, "delta", std::str::from_utf8(&compact).unwrap_or("{}"));
    text_if(out, "subagentRunId", by);
    stamp(event, out);
}

fn put_call_end(event: &Event<'_>, id: &str, by: Option<&str>, out: &mut Vec<u8>) {
    put(out, begin!("TOOL_CALL_END"));
    text(out, "toolCallId", id);
    text_if(out, "subagentRunId", by);
    stamp(event, out);
}

/// Ends the announcement of a call whose arguments may still have been on their way.
fn close_call(event: &Event<'_>, call: &Call, out: &mut Vec<u8>) {
    let by = call.owner.as_deref();
    match call.arguments {
        Arguments::Whole | Arguments::Hidden => {}
        Arguments::None => {
            put_arguments(event, &call.id, by, &JsonObject::EMPTY, out);
            put_call_end(event, &call.id, by, out);
        }
        Arguments::Pieces => put_call_end(event, &call.id, by, out),
    }
}

fn subagent_started(event: &Event<'_>, data: &NamespaceEntered<'_>, out: &mut Vec<u8>) {
    let Some((invocation, parents)) = event.namespace.split_last() else { return };
    put(out, begin!("SUBAGENT_STARTED"));
    text(out, "subagentRunId", invocation.as_str());
    text(out, "name", data.agent_id.as_str());
    text_if(out, "parentSubagentRunId", parents.last().map(|parent| parent.as_str()));
    text(out, "parentToolCallId", data.parent_tool_call_id.as_str());
    metadata(out, |out| text(out, "agentName", data.agent_name.as_str()));
    stamp(event, out);
}

fn subagent_ended(event: &Event<'_>, data: &NamespaceExited<'_>, out: &mut Vec<u8>) {
    let Some(invocation) = owner(&event.namespace) else { return };
    let mut finished = |outcome: &str| {
        put(out, begin!("SUBAGENT_FINISHED"));
        text(out, "subagentRunId", invocation);
        raw(out, "outcome", outcome);
    };
    match data.outcome {
        NamespaceOutcome::Success => finished(r#"{"type":"success"}"#),
        NamespaceOutcome::Interrupted => finished(r#"{"type":"suspended"}"#),
        NamespaceOutcome::Cancelled | NamespaceOutcome::Error => {
            let cancelled = data.outcome == NamespaceOutcome::Cancelled;
            put(out, begin!("SUBAGENT_ERROR"));
            text(out, "subagentRunId", invocation);
            text(out, "message", if cancelled { SUBAGENT_CANCELLED } else { SUBAGENT_FAILED });
            text(out, "code", if cancelled { "cancelled" } else { "subagent_failed" });
        }
    }
    stamp(event, out);
}

fn put_warning(event: &Event<'_>, data: &Warning<'_>, out: &mut Vec<u8>) {
    put(out, begin!("CUSTOM"));
    text(out, "name", "causeway.warning");
    put_key(out, "value");
    members(out, |out| {
        text(out, "code", data.code.as_str());
        text(out, "message", &data.message);
        if let Some(details) = &data.details {
            object(out, "details", details);
        }
    });
    text_if(out, "subagentRunId", owner(&event.namespace));
    stamp(event, out);
}

/// Appends `,"metadata":{"causeway":{…}}`, or nothing where there are no members.
pub(crate) fn metadata(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_key(out, "metadata");
    put(out, r#"{"causeway":"#);
    let inner = out.len();
    write(out);
    if out.len() == inner {
        return out.truncate(start);
    }
    if let Some(first) = out.get_mut(inner) {
        *first = b'{';
    }
    put(out, "}}");
}

pub(crate) fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
