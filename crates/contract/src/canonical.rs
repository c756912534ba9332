//! The canonical JSON form: compact, fields in the contract's order, absent optionals left out.
//!
//! Refuses to reword: free-form JSON loses its white space and nothing else, numbers keep their spelling.

use crate::event::{
    Event, EventData, FormField, InterruptRequest, InterruptRequested, ProviderMetadata, RunError,
    RunFinished, RunStarted, ToolApproval, ToolError, ToolFinished, ToolStarted, UsageUpdated, Warning,
};
use crate::json::string::plain_run;
use crate::namespace::Namespace;
use crate::timestamp::Timestamp;

/// Where bytes go: into a buffer, or only into a count.
trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn text(&mut self, text: &str) {
        self.put(text.as_bytes());
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts bytes.
struct Length(usize);

impl Sink for Length {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

impl Event<'_> {
    /// Appends the event as canonical JSON, without a line end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        event(self, out);
    }

    /// The bytes that [`Event::write_json`] appends.
    pub fn encoded_len(&self) -> usize {
        let mut length = Length(0);
        event(self, &mut length);
        length.0
    }
}

impl EventData<'_> {
    /// Appends the payload alone (the value of `data`) as canonical JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        data(self, out);
    }

    /// The bytes that [`EventData::write_json`] appends.
    pub fn encoded_len(&self) -> usize {
        let mut length = Length(0);
        data(self, &mut length);
        length.0
    }
}

impl Namespace<'_> {
    /// Appends the path as a JSON array of strings.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        namespace(self, out);
    }
}

/// Appends `text` as a JSON string: quotes, backslashes and C0 controls escaped, everything else as it is.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    string(text, out);
}

/// Appends accepted JSON text without the white space between its tokens.
pub fn write_minified(json: &str, out: &mut Vec<u8>) {
    minified(json, out);
}

fn string(text: &str, out: &mut impl Sink) {
    out.put(b"\"");
    let mut rest = text.as_bytes();
    loop {
        let plain = plain_run(rest);
        let (run, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.put(run);
        let Some((&special, tail)) = tail.split_first() else { break };
        match special {
            b'"' => out.put(b"\\\""),
            b'\\' => out.put(b"\\\\"),
            0x08 => out.put(b"\\b"),
            b'\t' => out.put(b"\\t"),
            b'\n' => out.put(b"\\n"),
            0x0c => out.put(b"\\f"),
            b'\r' => out.put(b"\\r"),
            control => {
                let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + (nibble - 10) };
                out.put(&[b'\\', b'u', b'0', b'0', digit(control >> 4), digit(control & 15)]);
            }
        }
        rest = tail;
    }
    out.put(b"\"");
}

fn minified(json: &str, out: &mut impl Sink) {
    let bytes = json.as_bytes();
    let mut start = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.put(bytes.get(start..at).unwrap_or(&[]));
                at += 1;
                start = at;
            }
            _ => at += 1,
        }
    }
    out.put(bytes.get(start..).unwrap_or(&[]));
}

/// The offset after the string literal that starts at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    loop {
        match memchr::memchr2(b'"', b'\\', bytes.get(end..).unwrap_or(&[])) {
            None => return bytes.len(),
            Some(offset) if bytes.get(end + offset) == Some(&b'"') => return end + offset + 1,
            Some(offset) => end += offset + 2,
        }
    }
}

fn number(value: u64, out: &mut impl Sink) {
    let mut digits = [0u8; 20];
    let mut rest = value;
    let mut used = 0;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (rest % 10) as u8;
        used += 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.put(digits.get(digits.len() - used..).unwrap_or(&[]));
}

/// Writes the members of one object.
struct Members<'o, S: Sink> {
    out: &'o mut S,
    first: bool,
}

impl<'o, S: Sink> Members<'o, S> {
    fn open(out: &'o mut S) -> Self {
        out.put(b"{");
        Self { out, first: true }
    }

    fn close(self) {
        self.out.put(b"}");
    }

    fn key(&mut self, key: &'static str) -> &mut S {
        self.out.put(if self.first { b"\"" } else { b",\"" });
        self.first = false;
        self.out.text(key);
        self.out.put(b"\":");
        self.out
    }

    fn text(&mut self, key: &'static str, value: &str) -> &mut Self {
        string(value, self.key(key));
        self
    }

    fn optional_text(&mut self, key: &'static str, value: Option<&str>) -> &mut Self {
        if let Some(value) = value {
            self.text(key, value);
        }
        self
    }

    /// A value that needs no escape.
    fn word(&mut self, key: &'static str, value: &str) -> &mut Self {
        let out = self.key(key);
        out.put(b"\"");
        out.text(value);
        out.put(b"\"");
        self
    }

    fn json(&mut self, key: &'static str, value: &str) -> &mut Self {
        minified(value, self.key(key));
        self
    }

    fn integer(&mut self, key: &'static str, value: u64) -> &mut Self {
        number(value, self.key(key));
        self
    }

    fn optional_integer(&mut self, key: &'static str, value: Option<u64>) -> &mut Self {
        if let Some(value) = value {
            self.integer(key, value);
        }
        self
    }

    fn boolean(&mut self, key: &'static str, value: bool) -> &mut Self {
        self.key(key).text(if value { "true" } else { "false" });
        self
    }
}

fn event(event: &Event<'_>, out: &mut impl Sink) {
    out.put(b"{\"version\":1,\"type\":\"");
    out.text(event.data.event_type().as_str());
    out.put(b"\",\"run_id\":");
    string(event.run_id.as_str(), out);
    out.put(b",\"conversation_id\":");
    string(event.conversation_id.as_str(), out);
    out.put(b",\"sequence\":");
    number(event.sequence.value(), out);
    out.put(b",\"timestamp\":\"");
    timestamp(&event.timestamp, out);
    out.put(b"\",\"namespace\":");
    namespace(&event.namespace, out);
    out.put(b",\"data\":");
    data(&event.data, out);
    out.put(b"}");
}

fn timestamp(timestamp: &Timestamp<'_>, out: &mut impl Sink) {
    out.put(&timestamp.utc_date_time());
    if !timestamp.fraction().is_empty() {
        out.put(b".");
        out.text(timestamp.fraction());
    }
    out.put(b"Z");
}

fn namespace(namespace: &Namespace<'_>, out: &mut impl Sink) {
    list(namespace.path(), out, |element, out| string(element.as_str(), out));
}

fn list<T, S: Sink>(items: &[T], out: &mut S, mut write: impl FnMut(&T, &mut S)) {
    out.put(b"[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.put(b",");
        }
        write(item, out);
    }
    out.put(b"]");
}

fn data<S: Sink>(data: &EventData<'_>, out: &mut S) {
    let mut to = Members::open(out);
    match data {
        EventData::RunStarted(payload) => run_started(payload, &mut to),
        EventData::RunFinished(payload) => run_finished(payload, &mut to),
        EventData::RunInterrupted(payload) => {
            to.text("interrupt_id", payload.interrupt_id.as_str()).word("reason", payload.reason.as_str());
        }
        EventData::RunCancelled(payload) => {
            to.word("reason", payload.reason.as_str())
                .word("side_effect_status", payload.side_effect_status.as_str());
        }
        EventData::RunError(payload) => run_error(payload, &mut to),
        EventData::TextStarted(payload) => {
            to.text("message_id", payload.message_id.as_str()).word("role", "assistant");
        }
        EventData::TextDelta(payload) => {
            to.text("message_id", payload.message_id.as_str()).text("delta", &payload.delta);
        }
        EventData::TextFinished(payload) => {
            to.text("message_id", payload.message_id.as_str());
        }
        EventData::ReasoningStarted(payload) => {
            to.text("message_id", payload.message_id.as_str());
            if payload.role {
                to.word("role", "assistant");
            }
        }
        EventData::ReasoningDelta(payload) => {
            to.text("message_id", payload.message_id.as_str()).text("delta", &payload.delta);
        }
        EventData::ReasoningFinished(payload) => {
            to.text("message_id", payload.message_id.as_str());
        }
        EventData::ToolStarted(payload) => tool_started(payload, &mut to),
        EventData::ToolArgumentsDelta(payload) => {
            to.text("tool_call_id", payload.tool_call_id.as_str()).text("delta", &payload.delta);
        }
        EventData::ToolFinished(payload) => tool_finished(payload, &mut to),
        EventData::ToolError(payload) => tool_error(payload, &mut to),
        EventData::InterruptRequested(payload) => interrupt_requested(payload, &mut to),
        EventData::NamespaceEntered(payload) => {
            to.text("agent_id", payload.agent_id.as_str())
                .text("agent_name", payload.agent_name.as_str())
                .text("parent_tool_call_id", payload.parent_tool_call_id.as_str());
        }
        EventData::NamespaceExited(payload) => {
            to.text("agent_id", payload.agent_id.as_str())
                .text("parent_tool_call_id", payload.parent_tool_call_id.as_str())
                .word("outcome", payload.outcome.as_str());
        }
        EventData::Warning(payload) => warning(payload, &mut to),
        EventData::UsageUpdated(payload) => usage_updated(payload, &mut to),
        EventData::ProviderMetadata(payload) => provider_metadata(payload, &mut to),
    }
    to.close();
}

fn run_started<S: Sink>(payload: &RunStarted<'_>, to: &mut Members<'_, S>) {
    to.optional_text("message_id", payload.message_id.as_ref().map(|id| id.as_str()))
        .text("harness_id", payload.harness_id.as_str())
        .text("adapter_version", payload.adapter_version.as_str())
        .optional_text("provider_run_id", payload.provider_run_id.as_ref().map(|id| id.as_str()));
}

fn run_finished<S: Sink>(payload: &RunFinished<'_>, to: &mut Members<'_, S>) {
    to.word("outcome", "success").optional_text("stop_reason", payload.stop_reason.as_deref());
    if let Some(state) = &payload.thread_state {
        let mut inner = Members::open(to.key("thread_state"));
        inner
            .word("durability", state.durability.as_str())
            .integer("durable_revision", state.durable_revision)
            .text("head_ref", state.head_ref.as_str());
        inner.close();
    }
}

fn run_error<S: Sink>(payload: &RunError<'_>, to: &mut Members<'_, S>) {
    to.text("code", payload.code.as_str())
        .text("message", &payload.message)
        .boolean("retryable", payload.retryable);
    if let Some(seconds) = &payload.retry_after_seconds {
        to.json("retry_after_seconds", seconds.as_str());
    }
    to.word("side_effect_status", payload.side_effect_status.as_str());
}

fn tool_started<S: Sink>(payload: &ToolStarted<'_>, to: &mut Members<'_, S>) {
    to.text("tool_call_id", payload.tool_call_id.as_str())
        .text("tool_name", payload.tool_name.as_str())
        .json("arguments", payload.arguments.as_str())
        .optional_text("parent_message_id", payload.parent_message_id.as_ref().map(|id| id.as_str()));
}

fn tool_finished<S: Sink>(payload: &ToolFinished<'_>, to: &mut Members<'_, S>) {
    to.text("tool_call_id", payload.tool_call_id.as_str())
        .text("result", &payload.result)
        .optional_text("result_ref", payload.result_ref.as_ref().map(|id| id.as_str()));
}

fn tool_error<S: Sink>(payload: &ToolError<'_>, to: &mut Members<'_, S>) {
    to.text("tool_call_id", payload.tool_call_id.as_str())
        .text("code", payload.code.as_str())
        .text("message", &payload.message)
        .boolean("retryable", payload.retryable);
}

fn interrupt_requested<S: Sink>(payload: &InterruptRequested<'_>, to: &mut Members<'_, S>) {
    to.text("interrupt_id", payload.interrupt_id.as_str())
        .word("interrupt_type", payload.request.kind())
        .text("agent_id", payload.agent_id.as_str());
    match &payload.request {
        InterruptRequest::Form { prompt, fields } => {
            to.text("prompt", prompt);
            list(fields, to.key("fields"), |field: &FormField<'_>, out| minified(field.object.as_str(), out));
        }
        InterruptRequest::Approvals(approvals) => list(approvals, to.key("tool_approvals"), approval),
    }
}

fn approval<S: Sink>(approval: &ToolApproval<'_>, out: &mut S) {
    let mut to = Members::open(out);
    to.text("tool_call_id", approval.tool_call_id.as_str())
        .text("tool_name", approval.tool_name.as_str())
        .json("tool_args", approval.tool_args.as_str());
    list(&approval.allowed_decisions, to.key("allowed_decisions"), |decision, out| {
        string(decision.as_str(), out);
    });
    to.close();
}

fn warning<S: Sink>(payload: &Warning<'_>, to: &mut Members<'_, S>) {
    to.text("code", payload.code.as_str()).text("message", &payload.message);
    if let Some(details) = &payload.details {
        to.json("details", details.as_str());
    }
}

fn usage_updated<S: Sink>(payload: &UsageUpdated<'_>, to: &mut Members<'_, S>) {
    to.optional_integer("input_tokens", payload.input_tokens)
        .optional_integer("output_tokens", payload.output_tokens)
        .optional_integer("cached_input_tokens", payload.cached_input_tokens);
    if let Some(cost) = &payload.cost {
        to.json("cost", cost.as_str());
    }
    to.optional_text("currency", payload.currency.as_deref()).boolean("final", payload.is_final);
}

fn provider_metadata<S: Sink>(payload: &ProviderMetadata<'_>, to: &mut Members<'_, S>) {
    to.text("provider", payload.provider.as_str())
        .text("model", payload.model.as_str())
        .json("metadata", payload.metadata.as_str());
}
