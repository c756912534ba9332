//! The established custom SSE format, byte for byte (goldens §4).
//!
//! Refuses to close or repeat anything: a cancelled run simply stops, an interrupted or failed one has no `done`.

use causeway_contract::event::{
    Event, EventData, InterruptRequest, InterruptRequested, TextDelta, ToolStarted,
};
use causeway_contract::id::ToolCallId;
use causeway_contract::namespace::Namespace;

use crate::encoder::Encoder;
use crate::frame::open;
use crate::interrupt::{put_approval_list, put_fields, put_first_approval};
use crate::json::string::{Ascii, escape};
use crate::json::{put, put_namespace, put_object, put_string};
use crate::seed::{Hidden, Seed};
use crate::tool_end::EndText;

/// Encodes one run; its only state is the seed.
#[derive(Clone, Debug, Default)]
pub struct CustomSse {
    hidden: Hidden,
}

impl CustomSse {
    /// For a run that is not a resumed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a resumed run: calls of the seed that the client has already seen are not shown again.
    pub fn resumed(seed: &Seed) -> Self {
        Self { hidden: Hidden::new(seed) }
    }

    fn tool_end(
        &self,
        namespace: &Namespace<'_>,
        call: &ToolCallId<'_>,
        text: EndText<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.hidden.end(call) || text.is_suppressed() {
            return;
        }
        put(out, open!("tool_end", r#"{"tool_call_id": "#));
        put_string::<Ascii>(out, call.as_str());
        put(out, r#", "namespace": "#);
        put_namespace::<Ascii>(out, namespace);
        if text.looks_like_an_error() {
            put(out, r#", "error": ""#);
            text.put_whole::<Ascii>(out);
            out.push(b'"');
        } else if !text.is_empty() {
            put(out, r#", "result": ""#);
            text.put_cut::<Ascii>(out);
            out.push(b'"');
        }
        put(out, "}\n\n");
    }
}

impl Encoder for CustomSse {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let namespace = &event.namespace;
        match &event.data {
            EventData::TextDelta(data) => content(namespace, data, out),
            EventData::ToolStarted(data) => {
                if !self.hidden.start(&data.tool_call_id) {
                    tool_start(namespace, data, out);
                }
            }
            EventData::ToolFinished(data) => {
                self.tool_end(namespace, &data.tool_call_id, EndText::finished(data), out);
            }
            EventData::ToolError(data) => {
                self.tool_end(namespace, &data.tool_call_id, EndText::error(data), out);
            }
            EventData::Warning(data) => {
                put(out, open!("warning", r#"{"message": "#));
                put_string::<Ascii>(out, &data.message);
                put(out, ", \"namespace\": []}\n\n");
            }
            EventData::InterruptRequested(data) => input_required(data, out),
            EventData::RunError(data) => failure(&data.message, out),
            EventData::RunFinished(_) => put(out, concat!(open!("done", "{}"), "\n\n")),
            EventData::RunStarted(_)
            | EventData::RunInterrupted(_)
            | EventData::RunCancelled(_)
            | EventData::TextStarted(_)
            | EventData::TextFinished(_)
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

/// Appends the frame of a failure, inside a run or before there is one.
pub(crate) fn failure(message: &str, out: &mut Vec<u8>) {
    put(out, open!("error", r#"{"error": "#));
    put_string::<Ascii>(out, message);
    put(out, "}\n\n");
}

#[inline]
fn content(namespace: &Namespace<'_>, data: &TextDelta<'_>, out: &mut Vec<u8>) {
    if data.delta.is_empty() {
        return;
    }
    put(out, open!("content", r#"{"text": ""#));
    escape::<Ascii>(&data.delta, out);
    if namespace.is_root() {
        return put(out, "\", \"namespace\": []}\n\n");
    }
    put(out, r#"", "namespace": "#);
    put_namespace::<Ascii>(out, namespace);
    put(out, "}\n\n");
}

fn tool_start(namespace: &Namespace<'_>, data: &ToolStarted<'_>, out: &mut Vec<u8>) {
    put(out, open!("tool_start", r#"{"tool_name": "#));
    put_string::<Ascii>(out, data.tool_name.as_str());
    put(out, r#", "tool_call_id": "#);
    put_string::<Ascii>(out, data.tool_call_id.as_str());
    put(out, r#", "args": "#);
    put_object::<Ascii>(out, &data.arguments);
    put(out, r#", "namespace": "#);
    put_namespace::<Ascii>(out, namespace);
    put(out, "}\n\n");
}

fn input_required(data: &InterruptRequested<'_>, out: &mut Vec<u8>) {
    put(out, open!("input_required", r#"{"type": ""#));
    put(out, data.request.kind());
    put(out, r#"", "interrupt_id": "#);
    put_string::<Ascii>(out, data.interrupt_id.as_str());
    put(out, r#", "agent": "#);
    put_string::<Ascii>(out, data.agent_id.as_str());
    match &data.request {
        InterruptRequest::Form { prompt, fields } => {
            put(out, r#", "prompt": "#);
            put_string::<Ascii>(out, prompt);
            put(out, ", ");
            put_fields::<Ascii>(fields, out);
        }
        InterruptRequest::Approvals(approvals) => {
            put(out, ", ");
            put_first_approval::<Ascii>(approvals, out);
            put_approval_list::<Ascii>(approvals, out);
        }
    }
    put(out, "}\n\n");
}
