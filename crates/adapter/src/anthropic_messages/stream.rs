//! One streamed message of the Anthropic API: `message_start` to `message_stop`. Shared by all harnesses that pass its
//! events on.
//!
//! Tolerates the loss of events, since a harness may be joined in the middle of a message; whether a message was complete
//! is told to the caller, who judges.

use causeway_contract::event::ProviderMetadata;
use causeway_contract::id::MessageId;
use causeway_contract::json::check_object;
use causeway_contract::namespace::Namespace;

use crate::adapter::ItemError;
use crate::json::{Json, JsonStr};
use crate::messages::Kind;
use crate::metadata::Admitted;
use crate::project::INVALID_ARGUMENTS;
use crate::scribe::{End, Scribe};
use crate::text::{self, Stream};
use crate::usage::Counts;

/// A tool block whose arguments are arriving.
#[derive(Debug)]
struct Arriving {
    index: Option<u64>,
    native: String,
    name: String,
    /// Its place, once started.
    call: Option<usize>,
    /// The fragments so far; native JSON text.
    text: String,
    stream: Stream,
}

/// What an event meant for the message as a whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// It goes on.
    Going,
    /// It is over.
    Stopped {
        /// It began here, said why it stopped, and left no block open.
        complete: bool,
    },
}

/// What to do with a call whose arguments are no JSON object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Broken {
    /// Nobody will run it: its end is told at once.
    Fails,
    /// The harness decides; what it did follows.
    Waits,
}

/// The message that is streamed.
#[derive(Debug)]
pub(crate) struct Message {
    namespace: Namespace<'static>,
    broken: Broken,
    /// Its id, model and token counts.
    id: Option<String>,
    model: Option<String>,
    counts: Counts,
    /// What `provider.metadata` will say.
    metadata: Admitted,
    /// It started and has not stopped.
    open: bool,
    stop_reason: Option<String>,
    /// The last text of the message.
    text: Option<MessageId<'static>>,
    arriving: Vec<Arriving>,
}

impl Message {
    /// No message yet; `namespace` is where its events will stand.
    pub(crate) fn new(namespace: Namespace<'static>, broken: Broken) -> Self {
        Self {
            namespace,
            broken,
            id: None,
            model: None,
            counts: Counts::default(),
            metadata: Admitted::default(),
            open: false,
            stop_reason: None,
            text: None,
            arriving: Vec::new(),
        }
    }

    /// The id of the current or last message.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Goes on with a message that began before.
    pub(crate) fn rejoin(&mut self, id: Option<String>) {
        self.id = id;
    }

    /// Whether a message began and is not over.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Why the last message stopped, as the provider says it.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.as_deref()
    }

    /// The message that calls without a text of their own belong to.
    pub(crate) fn parent(&self) -> Option<MessageId<'static>> {
        self.text.clone()
    }

    /// Adds the counts of the current message to the totals.
    pub(crate) fn settle_usage(&mut self, scribe: &mut Scribe) {
        scribe.totals.add(std::mem::take(&mut self.counts));
    }

    /// Notes something for the message's `provider.metadata`.
    pub(crate) fn note(&mut self, key: &'static str, value: &Json<'_>) {
        self.metadata.put(key, value);
    }

    /// Takes one event.
    ///
    /// # Errors
    /// The arguments of a call cannot stand in an event.
    pub(crate) fn event(&mut self, event: &Json<'_>, scribe: &mut Scribe) -> Result<Heard, ItemError> {
        let index = event.get("index").and_then(Json::as_u64);
        match event.text("type") {
            Some("message_start") => self.start(event.get("message").unwrap_or(&Json::Null), scribe),
            Some("content_block_start") => {
                self.block_start(index, event.get("content_block").unwrap_or(&Json::Null), scribe)?;
            }
            Some("content_block_delta") => {
                self.delta(index, event.get("delta").unwrap_or(&Json::Null), scribe);
            }
            Some("content_block_stop") => self.block_stop(index, scribe)?,
            Some("message_delta") => self.message_delta(event, scribe),
            Some("message_stop") => {
                let complete = self.open && self.stop_reason.is_some() && self.arriving.is_empty();
                self.quiet(scribe);
                self.open = false;
                self.arriving.clear();
                self.settle_usage(scribe);
                return Ok(Heard::Stopped { complete });
            }
            Some(_) | None => {}
        }
        Ok(Heard::Going)
    }

    fn start(&mut self, message: &Json<'_>, scribe: &mut Scribe) {
        self.quiet(scribe);
        self.settle_usage(scribe);
        self.arriving.clear();
        self.open = true;
        self.stop_reason = None;
        self.text = None;
        self.id = message.str("id").map(|id| id.lossy().into_owned());
        self.model = message.str("model").map(|model| model.lossy().into_owned());
        if let Some(id) = message.get("id") {
            self.metadata.put("response_id", id);
        }
        let usage = message.get("usage");
        if let Some(tier) = usage.and_then(|usage| usage.get("service_tier")) {
            self.metadata.put("service_tier", tier);
        }
        if let Some(written) = usage.and_then(|usage| usage.get("cache_creation_input_tokens")) {
            self.metadata.put("cache_write_tokens", written);
        }
        // The output count of a start is that of its first piece, not of the message.
        self.counts = Counts { output: None, ..counts(usage) };
    }

    fn quiet(&mut self, scribe: &mut Scribe) {
        if let Some(text) = scribe.hush(&self.namespace) {
            self.text = Some(text);
        }
    }

    fn block_start(
        &mut self,
        index: Option<u64>,
        block: &Json<'_>,
        scribe: &mut Scribe,
    ) -> Result<(), ItemError> {
        self.quiet(scribe);
        match block.text("type") {
            Some("text") => self.say(Kind::Text, block.str("text"), scribe),
            Some("thinking") => self.say(Kind::Reasoning, block.str("thinking"), scribe),
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let lossy = |key| block.str(key).map(|text: &JsonStr<'_>| text.lossy().into_owned());
                let Some(native) = lossy("id").filter(|id| !id.is_empty()) else { return Ok(()) };
                if scribe.calls.knows(&native) {
                    return Ok(());
                }
                let name = lossy("name").unwrap_or_default();
                if let Some(input) = block.get("input").filter(|input| !input.members().is_empty()) {
                    scribe.start(&native, &name, &input.to_text(), &self.namespace, self.parent())?;
                    return Ok(());
                }
                let streamed = scribe.options.stream_arguments;
                let call =
                    streamed.then(|| scribe.start_streamed(&native, &name, &self.namespace, self.parent()));
                let one =
                    Arriving { index, native, name, call, text: String::new(), stream: Stream::default() };
                self.arriving.retain(|other| other.index != index);
                self.arriving.push(one);
            }
            Some(kind) if kind.ends_with("tool_result") => self.server_result(block, scribe),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// The result of a tool that the provider itself ran.
    fn server_result(&mut self, block: &Json<'_>, scribe: &mut Scribe) {
        let native = block.str("tool_use_id").map(|id| id.lossy().into_owned()).unwrap_or_default();
        let Some(at) = scribe.calls.open_by_native(&native) else { return };
        let content = block.get("content");
        let failed = block.get("is_error") == Some(&Json::Bool(true))
            || content.and_then(|content| content.text("type")).is_some_and(|kind| kind.ends_with("_error"));
        if failed {
            scribe.finish(at, End::Failed("tool_error", "The provider's tool failed."));
        } else {
            let text = result_text(content, scribe);
            scribe.finish(at, End::Finished(&text));
        }
    }

    fn delta(&mut self, index: Option<u64>, delta: &Json<'_>, scribe: &mut Scribe) {
        match delta.text("type") {
            Some("text_delta") => self.say(Kind::Text, delta.str("text"), scribe),
            Some("thinking_delta") => self.say(Kind::Reasoning, delta.str("thinking"), scribe),
            Some("input_json_delta") => {
                let Some(piece) = delta.str("partial_json") else { return };
                let Some(one) = self.arriving.iter_mut().find(|one| one.index == index) else { return };
                let piece = one.stream.push(piece, &scribe.options);
                if one.text.len().saturating_add(piece.len())
                    > scribe.options.limits.arguments_bytes.saturating_mul(2)
                {
                    return; // far beyond what the contract allows; it fails when it is complete
                }
                one.text.push_str(&piece);
                if let Some(call) = one.call {
                    scribe.argument_delta(call, &piece);
                }
            }
            Some(_) | None => {}
        }
    }

    fn say(&self, kind: Kind, piece: Option<&JsonStr<'_>>, scribe: &mut Scribe) {
        if let Some(piece) = piece {
            scribe.say(kind, &self.namespace, &[piece]);
        }
    }

    fn block_stop(&mut self, index: Option<u64>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let Some(at) = self.arriving.iter().position(|one| one.index == index) else {
            self.quiet(scribe);
            return Ok(());
        };
        let one = self.arriving.remove(at);
        self.settle(one, scribe)
    }

    /// Starts a collected call, or holds a streamed one against the contract.
    fn settle(&mut self, mut one: Arriving, scribe: &mut Scribe) -> Result<(), ItemError> {
        one.text.push_str(one.stream.end().unwrap_or_default());
        let empty = one.text.trim().is_empty();
        let valid = empty || check_object(&one.text, &scribe.options.limits).is_ok();
        match one.call {
            // The harness has said it whole meanwhile.
            None if scribe.calls.knows(&one.native) => {}
            None if valid => {
                let arguments = if empty { "{}" } else { one.text.as_str() };
                scribe.start(&one.native, &one.name, arguments, &self.namespace, self.parent())?;
            }
            None if self.broken == Broken::Waits => {}
            None => {
                let at = scribe.start_streamed(&one.native, &one.name, &self.namespace, self.parent());
                scribe.finish(at, End::Failed("tool_arguments_invalid", INVALID_ARGUMENTS));
            }
            Some(at) if valid => {
                if empty {
                    scribe.argument_delta(at, "{}");
                }
                if let Some(call) = scribe.calls.get_mut(at) {
                    call.broken = false;
                    call.arguments = if empty { "{}".to_owned() } else { one.text };
                }
            }
            Some(at) if self.broken == Broken::Fails => {
                scribe.finish(at, End::Failed("tool_arguments_invalid", INVALID_ARGUMENTS));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Completes a call that the harness has said whole: its block needs no end any more.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub(crate) fn said_whole(&mut self, native: &str, scribe: &mut Scribe) -> Result<(), ItemError> {
        let Some(at) = self.arriving.iter().position(|one| one.native == native) else { return Ok(()) };
        let one = self.arriving.remove(at);
        self.settle(one, scribe)
    }

    fn message_delta(&mut self, event: &Json<'_>, scribe: &mut Scribe) {
        let usage = event.get("usage");
        let told = counts(usage);
        if !told.is_unknown() {
            self.counts = told.or(self.counts);
            scribe.usage(self.counts);
        }
        let reason = event.get("delta").and_then(|delta| delta.get("stop_reason"));
        let Some(reason) = reason else { return };
        self.stop_reason = reason.as_str().map(|reason| reason.lossy().into_owned());
        self.metadata.put("finish_reason", reason);
        if let Some(thinking) =
            usage.and_then(|u| u.get("output_tokens_details")).and_then(|d| d.get("thinking_tokens"))
        {
            self.metadata.put("reasoning_tokens", thinking);
        }
        if let Some(model) = &self.model {
            let max = scribe.options.limits.id_bytes;
            let data = ProviderMetadata {
                provider: text::name("anthropic", "anthropic", max),
                model: text::name(model, "unknown", max),
                metadata: std::mem::take(&mut self.metadata).into_object(&scribe.options.limits),
            };
            scribe.draft(self.namespace.clone(), data);
        }
    }
}

/// The counts of a `usage` object.
pub(crate) fn counts(usage: Option<&Json<'_>>) -> Counts {
    let number = |key| usage.and_then(|usage| usage.get(key)).and_then(Json::as_u64);
    Counts {
        input: number("input_tokens"),
        output: number("output_tokens"),
        cached_input: number("cache_read_input_tokens"),
    }
}

/// The text of a tool's result: a string, or the texts of its blocks, one a line; what is no text is named.
pub(crate) fn result_text(content: Option<&Json<'_>>, scribe: &Scribe) -> String {
    let options = &scribe.options;
    match content {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text::whole([text], options),
        Some(Json::Array(blocks)) => {
            let texts: Vec<String> = blocks
                .iter()
                .map(|block| match (block, block.str("text")) {
                    (Json::String(text), _) | (Json::Object(_), Some(text)) => text::whole([text], options),
                    (Json::Object(_), None) if block.text("type") == Some("image") => "[image]".to_owned(),
                    _ => text::content(&block.to_text(), options).into_owned(),
                })
                .collect();
            texts.join("\n")
        }
        Some(other) => text::content(&other.to_text(), options).into_owned(),
    }
}
