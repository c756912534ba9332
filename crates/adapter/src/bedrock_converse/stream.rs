//! The messages of a Converse stream: `messageStart` to `messageStop` and `metadata`. Shared by all services that speak it.
//!
//! Tolerates the loss of events; whether a message was complete is told to the caller, who judges.

use causeway_contract::event::ProviderMetadata;
use causeway_contract::id::MessageId;
use causeway_contract::json::check_object;
use causeway_contract::namespace::Namespace;

use crate::adapter::ItemError;
use crate::failure::{BUDGET_LIMIT, Failure, INCOMPLETE, STEP_LIMIT, STREAM_BROKEN, TIME_LIMIT};
use crate::json::{Json, JsonStr};
use crate::messages::Kind;
use crate::metadata::{Admitted, stop_reason};
use crate::project::INVALID_ARGUMENTS;
use crate::scribe::{End, Scribe};
use crate::text::{self, Stream};
use crate::usage::Counts;

/// What an event meant for the stream as a whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// It goes on.
    Going,
    /// A message is over.
    Stopped,
    /// The counts of a model call came.
    Counted,
    /// An exception of this name.
    Failed,
    /// No event of this stream.
    Unknown,
}

/// Who runs the tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tools {
    /// The caller, unless a block says that the service does.
    Caller,
    /// The agent.
    Agent,
}

/// A tool block whose arguments are arriving.
#[derive(Debug)]
struct Arriving {
    index: Option<u64>,
    native: String,
    name: String,
    /// Whether the service runs it.
    own: bool,
    /// Its place, once started.
    call: Option<usize>,
    text: String,
    stream: Stream,
}

/// A tool result that is arriving.
#[derive(Debug)]
struct Outcome {
    index: Option<u64>,
    native: String,
    failed: bool,
    parts: Vec<String>,
}

/// The messages so far.
#[derive(Debug)]
pub(crate) struct Messages {
    tools: Tools,
    /// What `provider.metadata` will say, and of which model.
    metadata: Admitted,
    model: Option<String>,
    /// A message started and has not stopped.
    open: bool,
    /// Something of a message is missing.
    torn: bool,
    stop_reason: Option<String>,
    /// The block of the last text or reasoning.
    block: Option<u64>,
    /// The last text of the message.
    text: Option<MessageId<'static>>,
    arriving: Vec<Arriving>,
    results: Vec<Outcome>,
    /// Calls that the service runs.
    own: Vec<usize>,
    /// Whether the last message asked for a tool.
    called: bool,
}

impl Messages {
    /// No message yet.
    pub(crate) fn new(tools: Tools) -> Self {
        Self {
            tools,
            metadata: Admitted::default(),
            model: None,
            open: false,
            torn: false,
            stop_reason: None,
            block: None,
            text: None,
            arriving: Vec::new(),
            results: Vec::new(),
            own: Vec::new(),
            called: false,
        }
    }

    /// Names the model, which the stream itself does not.
    pub(crate) fn set_model(&mut self, model: &JsonStr<'_>) {
        self.model = Some(model.lossy().into_owned());
    }

    /// Why the last message stopped, if one did and no other has begun.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.as_deref()
    }

    /// What the end of the stream means; `None` if no message had stopped, which is no end at all.
    pub(crate) fn judge(&self, scribe: &Scribe) -> Option<Result<&'static str, Failure>> {
        let reason = self.stop_reason()?;
        Some(if self.open || self.torn {
            Err(STREAM_BROKEN)
        } else {
            match reason {
                "timeout_exceeded" => Err(TIME_LIMIT),
                "max_iterations_exceeded" => Err(STEP_LIMIT),
                "max_output_tokens_exceeded" => Err(BUDGET_LIMIT),
                ""
                | "malformed_model_output"
                | "malformed_tool_use"
                | "tool_result"
                | "interrupted"
                | "partial_turn" => Err(INCOMPLETE),
                _ if scribe.calls.open().any(|(at, _)| self.own.contains(&at)) => Err(INCOMPLETE),
                "tool_use" if self.called && self.tools == Tools::Caller => Ok("tool_use"),
                "tool_use" => Err(INCOMPLETE),
                "model_context_window_exceeded" => Ok("max_tokens"),
                "guardrail_intervened" | "content_filtered" => Ok("refusal"),
                other => Ok(stop_reason(Some(other))),
            }
        })
    }

    /// Takes one event by its name.
    ///
    /// # Errors
    /// The arguments of a call cannot stand in an event.
    pub(crate) fn event(
        &mut self,
        name: &str,
        body: &Json<'_>,
        scribe: &mut Scribe,
    ) -> Result<Heard, ItemError> {
        let index = body.get("contentBlockIndex").and_then(Json::as_u64);
        match name {
            "messageStart" => self.start(scribe),
            "contentBlockStart" => self.block_start(index, body.get("start").unwrap_or(&Json::Null), scribe),
            "contentBlockDelta" => self.delta(index, body.get("delta").unwrap_or(&Json::Null), scribe),
            "contentBlockStop" => self.block_stop(index, scribe)?,
            "messageStop" => {
                self.torn |= !self.open || !self.arriving.is_empty() || !self.results.is_empty();
                self.quiet(scribe);
                self.open = false;
                self.stop_reason = Some(
                    body.str("stopReason").map(|reason| reason.lossy().into_owned()).unwrap_or_default(),
                );
                if let Some(reason) = body.get("stopReason") {
                    self.metadata.put("finish_reason", reason);
                }
                return Ok(Heard::Stopped);
            }
            "metadata" => {
                self.counted(body, scribe);
                return Ok(Heard::Counted);
            }
            "initial-response" | "SDK_UNKNOWN_MEMBER" => {}
            name if name.ends_with("Exception") || name == "runtimeClientError" => return Ok(Heard::Failed),
            _ => return Ok(Heard::Unknown),
        }
        Ok(Heard::Going)
    }

    fn start(&mut self, scribe: &mut Scribe) {
        self.quiet(scribe);
        self.torn |= self.open;
        self.open = true;
        self.stop_reason = None;
        self.block = None;
        self.text = None;
        self.called = false;
        self.arriving.clear();
        self.results.clear();
    }

    fn quiet(&mut self, scribe: &mut Scribe) {
        if let Some(text) = scribe.hush(&Namespace::root()) {
            self.text = Some(text);
        }
    }

    fn block_start(&mut self, index: Option<u64>, start: &Json<'_>, scribe: &mut Scribe) {
        self.torn |= !self.open;
        self.quiet(scribe);
        if let Some(tool) = start.get("toolUse") {
            let lossy = |key| tool.str(key).map(|text: &JsonStr<'_>| text.lossy().into_owned());
            let Some(native) = lossy("toolUseId").filter(|id| !id.is_empty()) else { return };
            let repeated = scribe.calls.open_by_native(&native).is_some();
            if repeated || self.arriving.iter().any(|one| one.native == native) {
                return;
            }
            self.called = true;
            let own = self.tools == Tools::Agent || tool.text("type").is_some_and(|kind| kind != "tool_use");
            let name = lossy("name").unwrap_or_default();
            let call = scribe.options.stream_arguments.then(|| self.begin(&native, &name, own, scribe));
            self.arriving.retain(|other| other.index != index);
            let (text, stream) = (String::new(), Stream::default());
            self.arriving.push(Arriving { index, native, name, own, call, text, stream });
        } else if let Some(result) = start.get("toolResult") {
            let native = result.str("toolUseId").map(|id| id.lossy().into_owned()).unwrap_or_default();
            let failed = result.text("status") == Some("error");
            self.results.retain(|other| other.index != index);
            self.results.push(Outcome { index, native, failed, parts: Vec::new() });
        }
    }

    /// Starts a call whose arguments are not known yet.
    fn begin(&mut self, native: &str, name: &str, own: bool, scribe: &mut Scribe) -> usize {
        let at = scribe.start_streamed(native, name, &Namespace::root(), self.text.clone());
        self.own.extend(own.then_some(at));
        at
    }

    fn delta(&mut self, index: Option<u64>, delta: &Json<'_>, scribe: &mut Scribe) {
        self.torn |= !self.open;
        if let Some(text) = delta.str("text") {
            self.say(Kind::Text, index, text, scribe);
        } else if let Some(text) = delta.get("reasoningContent").and_then(|reasoning| reasoning.str("text")) {
            self.say(Kind::Reasoning, index, text, scribe);
        } else if let Some(piece) = delta.get("toolUse").and_then(|tool| tool.str("input")) {
            let Some(one) = self.arriving.iter_mut().find(|one| one.index == index) else {
                self.torn = true;
                return;
            };
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
        } else if let Some(one) = self.results.iter_mut().find(|one| one.index == index) {
            one.parts.extend(delta.list("toolResult").iter().map(|part| result_part(part, scribe)));
        }
    }

    fn say(&mut self, kind: Kind, index: Option<u64>, piece: &JsonStr<'_>, scribe: &mut Scribe) {
        if self.block != index {
            self.quiet(scribe);
            self.block = index;
        }
        scribe.say(kind, &Namespace::root(), &[piece]);
    }

    fn block_stop(&mut self, index: Option<u64>, scribe: &mut Scribe) -> Result<(), ItemError> {
        if let Some(at) = self.results.iter().position(|one| one.index == index) {
            let Outcome { native, failed, parts, .. } = self.results.remove(at);
            finish(&native, failed, &parts.join("\n"), scribe);
            return Ok(());
        }
        let Some(at) = self.arriving.iter().position(|one| one.index == index) else {
            if self.block == index {
                self.quiet(scribe);
                self.block = None;
            }
            return Ok(());
        };
        let mut one = self.arriving.remove(at);
        one.text.push_str(one.stream.end().unwrap_or_default());
        let empty = one.text.trim().is_empty();
        let valid = empty || check_object(&one.text, &scribe.options.limits).is_ok();
        let arguments = if empty { "{}" } else { one.text.as_str() };
        match one.call {
            None if valid => {
                let at =
                    scribe.start(&one.native, &one.name, arguments, &Namespace::root(), self.text.clone())?;
                self.own.extend(one.own.then_some(at));
            }
            Some(at) if valid => {
                if empty {
                    scribe.argument_delta(at, "{}");
                }
                if let Some(call) = scribe.calls.get_mut(at) {
                    call.broken = false;
                    call.arguments = arguments.to_owned();
                }
            }
            call => {
                let at = call.unwrap_or_else(|| self.begin(&one.native, &one.name, one.own, scribe));
                if !one.own {
                    // Nobody will run it.
                    scribe.finish(at, End::Failed("tool_arguments_invalid", INVALID_ARGUMENTS));
                }
            }
        }
        Ok(())
    }

    fn counted(&mut self, body: &Json<'_>, scribe: &mut Scribe) {
        let usage = body.get("usage");
        let number = |key| usage.and_then(|usage| usage.get(key)).and_then(Json::as_u64);
        scribe.totals.add(Counts {
            input: number("inputTokens"),
            output: number("outputTokens"),
            cached_input: number("cacheReadInputTokens"),
        });
        let routed = body.get("trace").and_then(|trace| trace.get("promptRouter"));
        if let Some(model) = routed.and_then(|router| router.str("invokedModelId")) {
            self.set_model(model);
        }
        let mut put = |key, value: Option<&Json<'_>>| {
            if let Some(value) = value {
                self.metadata.put(key, value);
            }
        };
        let metrics = body.get("metrics");
        put("latency_ms", metrics.and_then(|metrics| metrics.get("latencyMs")));
        put("time_to_first_token_ms", metrics.and_then(|metrics| metrics.get("timeToFirstByteMs")));
        put("service_tier", body.get("serviceTier").and_then(|tier| tier.get("type")));
        put("cache_write_tokens", usage.and_then(|usage| usage.get("cacheWriteInputTokens")));
        let max = scribe.options.limits.id_bytes;
        let data = ProviderMetadata {
            provider: text::name("bedrock", "bedrock", max),
            model: text::name(self.model.as_deref().unwrap_or_default(), "unknown", max),
            metadata: std::mem::take(&mut self.metadata).into_object(&scribe.options.limits),
        };
        scribe.draft(Namespace::root(), data);
    }
}

/// Ends the open call with this native id, if there is one.
pub(crate) fn finish(native: &str, failed: bool, text: &str, scribe: &mut Scribe) {
    if let Some(at) = scribe.calls.open_by_native(native) {
        scribe.finish(at, if failed { End::Failed("tool_error", text) } else { End::Finished(text) });
    }
}

/// One part of a tool's result: its text, its JSON, or the name of what is neither.
pub(crate) fn result_part(part: &Json<'_>, scribe: &Scribe) -> String {
    let options = &scribe.options;
    if let Some(text) = part.str("text") {
        return text::whole([text], options);
    }
    if let Some(json) = part.get("json") {
        return text::content(&json.to_text(), options).into_owned();
    }
    for kind in ["image", "document", "video", "audio"] {
        if part.get(kind).is_some() {
            return format!("[{kind}]");
        }
    }
    text::content(&part.to_text(), options).into_owned()
}
