//! The established AG-UI SSE format, byte for byte (goldens §5).
//!
//! Refuses to invent: it closes text that is still open before `RUN_FINISHED`, as the format demands, and nothing
//! else; it returns to no namespace by itself.

use std::sync::Arc;

use causeway_contract::event::{
    Event, EventData, InterruptRequest, InterruptRequested, RunError, RunInterrupted, ToolStarted,
};
use causeway_contract::id::{MessageId, ToolCallId};
use causeway_contract::timestamp::Timestamp;

use crate::encoder::Encoder;
use crate::frame::open;
use crate::interrupt::{put_approval_list, put_fields, put_first_approval};
use crate::json::string::{Nested, Raw, escape};
use crate::json::{put, put_namespace, put_object, put_string};
use crate::namespace::Announced;
use crate::seed::{Hidden, Seed};
use crate::timestamp::UnixSeconds;
use crate::tool_end::EndText;

/// Codes that stay off the wire, because the service this format comes from never sent them (goldens §9.5).
const INTERNAL_CODES: [&str; 3] = ["agent_execution_failed", "runtime_capacity", "llm_config_invalid"];

/// Encodes one run.
#[derive(Clone, Debug, Default)]
pub struct AguiSse {
    hidden: Hidden,
    announced: Announced,
    /// Text messages that have started and not finished, in the order of their starts.
    open_text: Vec<Arc<str>>,
    /// The payload of the interrupt that was requested, written out; empty before one was.
    payload: Vec<u8>,
    clock: UnixSeconds,
}

impl AguiSse {
    /// For a run that is not a resumed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a resumed run: calls of the seed that the client has already seen are not shown again.
    pub fn resumed(seed: &Seed) -> Self {
        Self { hidden: Hidden::new(seed), ..Self::default() }
    }

    /// Announces the namespace of a frame marked [N].
    #[inline]
    fn announce(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.announced.change_to(&event.namespace) {
            put(out, open!(agui "CUSTOM", r#""name": "NAMESPACE_CONTEXT", "value": {"namespace": "#));
            put_namespace::<Raw>(out, &event.namespace);
            out.push(b'}');
            self.stamp(&event.timestamp, out);
        }
    }

    /// Appends the timestamp, which is the last key, and closes the frame.
    #[inline]
    fn stamp(&mut self, at: &Timestamp<'_>, out: &mut Vec<u8>) {
        put(out, r#", "timestamp": "#);
        self.clock.put(at, out);
        put(out, "}\n\n");
    }

    fn tool_started(&mut self, event: &Event<'_>, data: &ToolStarted<'_>, out: &mut Vec<u8>) {
        if self.hidden.start(&data.tool_call_id) {
            return;
        }
        self.announce(event, out);
        put(out, open!(agui "TOOL_CALL_START", r#""toolCallId": "#));
        put_string::<Raw>(out, data.tool_call_id.as_str());
        put(out, r#", "toolCallName": "#);
        put_string::<Raw>(out, data.tool_name.as_str());
        self.stamp(&event.timestamp, out);
        put(out, open!(agui "TOOL_CALL_ARGS", r#""toolCallId": "#));
        put_string::<Raw>(out, data.tool_call_id.as_str());
        put(out, r#", "delta": ""#);
        put_object::<Nested>(out, &data.arguments);
        out.push(b'"');
        self.stamp(&event.timestamp, out);
    }

    fn tool_ended(&mut self, event: &Event<'_>, call: &ToolCallId<'_>, text: EndText<'_>, out: &mut Vec<u8>) {
        if self.hidden.end(call) || text.is_suppressed() {
            return;
        }
        self.announce(event, out);
        if !text.is_empty() {
            put(out, open!(agui "TOOL_CALL_RESULT", r#""message_id": "#));
            put_string::<Raw>(out, call.as_str());
            put(out, r#", "tool_call_id": "#);
            put_string::<Raw>(out, call.as_str());
            put(out, r#", "content": ""#);
            text.put_cut::<Raw>(out);
            put(out, r#"", "role": "tool""#);
            self.stamp(&event.timestamp, out);
        }
        put(out, open!(agui "TOOL_CALL_END", r#""toolCallId": "#));
        put_string::<Raw>(out, call.as_str());
        self.stamp(&event.timestamp, out);
    }

    fn text_end(&mut self, message: &str, at: &Timestamp<'_>, out: &mut Vec<u8>) {
        put(out, open!(agui "TEXT_MESSAGE_END", r#""messageId": "#));
        put_string::<Raw>(out, message);
        self.stamp(at, out);
    }

    fn text_finished(&mut self, event: &Event<'_>, message: &MessageId<'_>, out: &mut Vec<u8>) {
        // The one that finishes is most likely the one that started last.
        if let Some(at) = self.open_text.iter().rposition(|open| **open == *message.as_str()) {
            self.open_text.remove(at);
        }
        self.text_end(message.as_str(), &event.timestamp, out);
    }

    /// Closes open text and appends `RUN_FINISHED` up to its outcome.
    fn run_finished(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        for message in std::mem::take(&mut self.open_text) {
            self.text_end(&message, &event.timestamp, out);
        }
        put(out, open!(agui "RUN_FINISHED", r#""runId": "#));
        self.run_and_thread(event, out);
        put(out, r#", "outcome": "#);
    }

    fn run_and_thread(&self, event: &Event<'_>, out: &mut Vec<u8>) {
        put_string::<Raw>(out, event.run_id.as_str());
        put(out, r#", "threadId": "#);
        put_string::<Raw>(out, event.conversation_id.as_str());
    }

    fn run_interrupted(&mut self, event: &Event<'_>, data: &RunInterrupted<'_>, out: &mut Vec<u8>) {
        self.run_finished(event, out);
        put(out, r#""interrupt", "interrupt": {"id": "#);
        put_string::<Raw>(out, data.interrupt_id.as_str());
        put(out, r#", "reason": ""#);
        put(out, data.reason.as_str());
        put(out, r#"", "payload": {"#);
        out.append(&mut self.payload);
        put(out, "}}");
        self.stamp(&event.timestamp, out);
    }

    fn run_error(&mut self, event: &Event<'_>, data: &RunError<'_>, out: &mut Vec<u8>) {
        put(out, open!(agui "RUN_ERROR", r#""message": "#));
        put_string::<Raw>(out, &data.message);
        put(out, r#", "timestamp": "#);
        self.clock.put(&event.timestamp, out);
        let code = data.code.as_str();
        if !code.is_empty() && !INTERNAL_CODES.contains(&code) {
            put(out, r#", "code": "#);
            put_string::<Raw>(out, code);
        }
        put(out, "}\n\n");
    }
}

impl Encoder for AguiSse {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match &event.data {
            EventData::RunStarted(_) => {
                put(out, open!(agui "RUN_STARTED", r#""runId": "#));
                self.run_and_thread(event, out);
                self.stamp(&event.timestamp, out);
            }
            EventData::TextStarted(data) => {
                self.announce(event, out);
                self.open_text.push(Arc::from(data.message_id.as_str()));
                put(out, open!(agui "TEXT_MESSAGE_START", r#""messageId": "#));
                put_string::<Raw>(out, data.message_id.as_str());
                put(out, r#", "role": "assistant""#);
                self.stamp(&event.timestamp, out);
            }
            EventData::TextDelta(data) => {
                if data.delta.is_empty() {
                    return;
                }
                self.announce(event, out);
                put(out, open!(agui "TEXT_MESSAGE_CONTENT", r#""messageId": ""#));
                escape::<Raw>(data.message_id.as_str(), out);
                put(out, r#"", "delta": ""#);
                escape::<Raw>(&data.delta, out);
                out.push(b'"');
                self.stamp(&event.timestamp, out);
            }
            EventData::TextFinished(data) => self.text_finished(event, &data.message_id, out),
            EventData::ToolStarted(data) => self.tool_started(event, data, out),
            EventData::ToolFinished(data) => {
                self.tool_ended(event, &data.tool_call_id, EndText::finished(data), out);
            }
            EventData::ToolError(data) => {
                self.tool_ended(event, &data.tool_call_id, EndText::error(data), out);
            }
            EventData::Warning(data) => {
                put(out, open!(agui "CUSTOM", r#""name": "WARNING", "value": {"message": "#));
                put_string::<Raw>(out, &data.message);
                put(out, r#", "namespace": []}"#);
                self.stamp(&event.timestamp, out);
            }
            EventData::InterruptRequested(data) => {
                self.payload.clear();
                put_payload(data, &mut self.payload);
            }
            EventData::RunInterrupted(data) => self.run_interrupted(event, data, out),
            EventData::RunFinished(_) => {
                self.run_finished(event, out);
                put(out, r#""success""#);
                self.stamp(&event.timestamp, out);
            }
            EventData::RunError(data) => self.run_error(event, data, out),
            EventData::RunCancelled(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => {}
        }
    }
}

/// Appends the frame of a failure before there is a run.
pub(crate) fn failure(message: &str, at: &Timestamp<'_>, out: &mut Vec<u8>) {
    put(out, open!(agui "RUN_ERROR", r#""message": "#));
    put_string::<Raw>(out, message);
    put(out, r#", "timestamp": "#);
    UnixSeconds::default().put(at, out);
    put(out, "}\n\n");
}

/// Appends the members of an interrupt's payload, without the braces around them.
fn put_payload(data: &InterruptRequested<'_>, out: &mut Vec<u8>) {
    let put_agent = |out: &mut Vec<u8>| {
        put(out, r#", "agent": "#);
        put_string::<Raw>(out, data.agent_id.as_str());
    };
    match &data.request {
        InterruptRequest::Form { prompt, fields } => {
            put(out, r#""prompt": "#);
            put_string::<Raw>(out, prompt);
            put(out, ", ");
            put_fields::<Raw>(fields, out);
            put_agent(out);
        }
        InterruptRequest::Approvals(approvals) => {
            put_first_approval::<Raw>(approvals, out);
            put_agent(out);
            put_approval_list::<Raw>(approvals, out);
        }
    }
}
