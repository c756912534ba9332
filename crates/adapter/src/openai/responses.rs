//! The adapter for OpenAI's Responses API: one streamed response a run, as SSE text or as recorded lines.
//!
//! An item is a line: `data: {…}` (or a whole SSE frame), the bare event, or `{"kind":"event","event":{…}}` between
//! `begin` and `end`. The tools are the caller's, so a stop for tool use ends the run with its calls open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started` |
//! | `response.output_text.delta`, `response.refusal.delta` | `text.started` right before the first character, `text.delta` |
//! | `response.reasoning_summary_text.delta`, `response.reasoning_text.delta` | `reasoning.started`, `reasoning.delta` |
//! | the next part or item, `response.output_item.done` | `text.finished`, `reasoning.finished`; texts that were not streamed |
//! | `output_item.added` of a `function_call`, its argument deltas | nothing; with `stream_arguments`: `tool.started`, `tool.arguments.delta` |
//! | `output_item.done` of a `function_call` | `tool.started` with its arguments; `tool.error` if they are no JSON object |
//! | the same of a `custom_tool_call`, `computer_call`, `local_shell_call`, `shell_call`, `apply_patch_call`, `mcp_approval_request` | `tool.started`: what it asks for under the key the API uses |
//! | the same of the provider's own tools (`web_search_call`, `code_interpreter_call`, `mcp_call`, …) | `tool.started` with `tool.finished` or `tool.error` |
//! | `output_item.done` of a `shell_call_output` and its kin | `tool.finished`: the provider ran the call after all |
//! | `response.completed`, `response.incomplete` | items that were not seen, `provider.metadata`, the last `usage.updated`, the state (its head is the response's id), `run.finished` |
//! | the same with a call whose arguments are not complete | `run.error` |
//! | `response.failed`, `error`, an error body, `{"kind":"error"}` | `run.error`, typed by status, code, type and words |
//! | `response.cancelled`, `{"kind":"cancelled"}` | `run.cancelled` |
//!
//! Deliberately dropped: `…done` events of parts, whose content came in pieces; annotations and log probabilities;
//! encrypted reasoning; progress of the provider's tools; images and audio; `mcp_list_tools`; everything a provider says
//! that is not on the allowlist; all words of errors; unknown events.
//!
//! Refused ([`ItemError`]): what is none of these forms, and events after the end of the response.

use std::collections::HashSet;

use causeway_contract::id::MessageId;
use causeway_contract::namespace::Namespace;

use super::fragments::Fragments;
use super::wire::{Item, Wire};
use super::{Answered, failure, sentences};
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::failure::Failure;
use crate::ids::Ids;
use crate::json::{Json, JsonStr, write_string};
use crate::messages::Kind;
use crate::metadata::stop_reason;
use crate::scribe::{End, Scribe};
use crate::text;
use crate::turn::{Answer, AnswerError, Options, Turn};
use crate::usage::Counts;

/// The canonical `harness_id`.
pub const HARNESS: &str = "openai-responses";

/// Translates one streamed response.
pub struct OpenAiResponses {
    scribe: Scribe,
    wire: Wire,
    response: Response,
}

impl std::fmt::Debug for OpenAiResponses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiResponses").field("response", &self.response).finish_non_exhaustive()
    }
}

impl OpenAiResponses {
    /// The adapter for a turn. The API has no pauses, so a resumed turn is like any other.
    pub fn new(_turn: &Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let scribe = Scribe::new(HARNESS, options, ids);
        Self { scribe, wire: Wire::default(), response: Response::default() }
    }
}

/// The response so far.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) answered: Answered,
    /// Where its events stand.
    pub(super) namespace: Namespace<'static>,
    /// The part that speaks: kind, item and part.
    speaking: Option<(Kind, u64, u64)>,
    /// Items of which text was streamed, and items that are over.
    spoken: HashSet<(Kind, u64)>,
    done: HashSet<u64>,
    /// The last text, which calls belong to.
    text: Option<MessageId<'static>>,
    arriving: Vec<Fragments>,
    refused: bool,
    /// One of many of an agent's run, whose end is told elsewhere.
    part: bool,
    /// Why the last one failed, in such a run.
    pub(super) failed: Option<Failure>,
}

impl Response {
    /// Responses of which an agent's run has many.
    pub(super) fn of_agent() -> Self {
        Self { part: true, ..Self::default() }
    }

    /// Whether a call's arguments never became whole.
    pub(super) fn is_torn(&self) -> bool {
        !self.arriving.is_empty()
    }

    /// The end of one response of many.
    fn part_ended(&mut self, response: &Json<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        for (at, item) in (0..).zip(response.list("output")) {
            self.item_done(at, item, scribe)?;
        }
        self.note_end(response);
        self.answered.settle(scribe);
        self.failed = None;
        self.done.clear();
        self.spoken.clear();
        Ok(())
    }

    fn item(&mut self, item: Item<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let line = match item {
            Item::Done => return Ok(()), // services that copy this API send it; the response says its own end
            Item::Value(line) if line.is_object() => line,
            Item::Value(_) => return Err(ItemError::Shape { what: "an object" }),
        };
        match line.text("kind") {
            Some("event") => self.event(line.get("event").unwrap_or(&Json::Null), scribe)?,
            Some("hello" | "begin") => {}
            // Without the response's own end nothing is recognised: R12.
            Some("end") => scribe.end(),
            Some("cancelled") => self.cancelled(scribe),
            Some("error") => self.answered.fail(line, scribe),
            Some(_) => {
                return Err(ItemError::Shape { what: "`kind` hello, begin, event, end, cancelled or error" });
            }
            None => self.event(line, scribe)?,
        }
        Ok(())
    }

    pub(super) fn event(&mut self, event: &Json<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let kind = match event.text("type") {
            Some(kind) => kind,
            None if event.get("error").is_some() => "error",
            None => return Err(ItemError::Shape { what: "an event with a `type`" }),
        };
        if scribe.has_ended() {
            return Err(ItemError::OutOfOrder { kind: "event", what: "the response is over" });
        }
        let response = event.get("response").unwrap_or(&Json::Null);
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => self.answered.note(response),
            "response.output_text.delta" => self.say(Kind::Text, event, scribe),
            "response.refusal.delta" => {
                self.refused = true;
                self.say(Kind::Text, event, scribe);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.say(Kind::Reasoning, event, scribe);
            }
            "response.output_item.added" => {
                self.quiet(scribe);
                self.added(index(event), event.get("item").unwrap_or(&Json::Null), scribe);
            }
            "response.function_call_arguments.delta" => {
                let at = index(event);
                if let (Some(one), Some(piece)) =
                    (self.arriving.iter_mut().find(|one| one.index == at), event.str("delta"))
                {
                    one.push(piece, scribe);
                }
            }
            "response.output_item.done" => {
                self.item_done(index(event), event.get("item").unwrap_or(&Json::Null), scribe)?;
            }
            "response.completed" | "response.incomplete" if self.part => self.part_ended(response, scribe)?,
            "response.completed" | "response.incomplete" => self.ended(response, scribe)?,
            "response.failed" | "error" | "response.cancelled" if self.part => {
                self.note_end(response);
                self.failed = failure::of(event);
                self.answered.settle(scribe);
            }
            "response.failed" | "error" => {
                self.note_end(response);
                self.answered.fail(event, scribe);
            }
            "response.cancelled" => {
                self.note_end(response);
                self.cancelled(scribe);
            }
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, kind: Kind, event: &Json<'_>, scribe: &mut Scribe) {
        let Some(piece) = event.str("delta").filter(|piece| !piece.is_empty()) else { return };
        let part = ["content_index", "summary_index"].iter().find_map(|key| event.get(key)?.as_u64());
        let now = (kind, index(event), part.unwrap_or(0));
        if self.speaking != Some(now) {
            self.quiet(scribe);
            self.speaking = Some(now);
        }
        self.spoken.insert((kind, now.1));
        scribe.say(kind, &self.namespace, &[piece]);
    }

    pub(super) fn quiet(&mut self, scribe: &mut Scribe) {
        self.speaking = None;
        if let Some(text) = scribe.hush(&self.namespace) {
            self.text = Some(text);
        }
    }

    fn added(&mut self, at: u64, item: &Json<'_>, scribe: &mut Scribe) {
        if item.text("type") != Some("function_call") {
            return;
        }
        let Some(native) = native(item) else { return };
        if scribe.calls.knows(&native) || self.arriving.iter().any(|one| one.index == at) {
            return;
        }
        let name = lossy(item, "name").unwrap_or_default();
        self.arriving.push(Fragments::new(at, native, name, self.text.clone(), &self.namespace, scribe));
    }

    /// An item is complete: what of it was not told yet is told now.
    pub(super) fn item_done(
        &mut self,
        at: u64,
        item: &Json<'_>,
        scribe: &mut Scribe,
    ) -> Result<(), ItemError> {
        self.quiet(scribe);
        if !self.done.insert(at) {
            return Ok(());
        }
        match item.text("type") {
            Some("message") if !self.spoken.contains(&(Kind::Text, at)) => {
                for part in item.list("content") {
                    self.refused |= part.str("refusal").is_some();
                    self.whole(Kind::Text, part.str("text").or_else(|| part.str("refusal")), scribe);
                }
            }
            Some("reasoning") if !self.spoken.contains(&(Kind::Reasoning, at)) => {
                for part in item.list("summary").iter().chain(item.list("content")) {
                    self.whole(Kind::Reasoning, part.str("text"), scribe);
                }
            }
            Some("message" | "reasoning") | None => {}
            Some("function_call") => {
                self.added(at, item, scribe);
                if let Some(place) = self.arriving.iter().position(|one| one.index == at) {
                    let one = self.arriving.remove(place);
                    one.settle(item.str("arguments"), self.text.clone(), scribe)?;
                }
            }
            Some(kind) if kind.ends_with("_call_output") => {
                if let Some(at) = native(item).and_then(|native| scribe.calls.open_by_native(&native)) {
                    let result = shown(item.get("output"), scribe);
                    scribe.finish(at, End::Finished(&result));
                }
            }
            Some(kind) => self.other_call(kind, item, scribe)?,
        }
        Ok(())
    }

    fn whole(&mut self, kind: Kind, text: Option<&JsonStr<'_>>, scribe: &mut Scribe) {
        if let Some(text) = text {
            scribe.say(kind, &self.namespace, &[text]);
            self.quiet(scribe);
        }
    }

    /// A call of another kind than a function; unknown items are no calls.
    fn other_call(&mut self, kind: &str, item: &Json<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let key = match kind {
            "custom_tool_call" => "input",
            "computer_call" | "local_shell_call" | "shell_call" | "web_search_call" => "action",
            "apply_patch_call" => "operation",
            "file_search_call" => "queries",
            "code_interpreter_call" => "code",
            "mcp_call" | "mcp_approval_request" => "arguments",
            "image_generation_call" => "revised_prompt",
            _ => return Ok(()),
        };
        let Some(native) = native(item).filter(|native| !scribe.calls.knows(native)) else { return Ok(()) };
        let name = lossy(item, "name").unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
        let given = item.get(key);
        let parsed = given.and_then(Json::as_str).filter(|_| key == "arguments").map(|text| text.lossy());
        let parsed = parsed.as_ref().and_then(|text| Json::parse(text.as_bytes()).ok());
        let arguments = match (parsed, given) {
            (Some(object), _) if object.is_object() => object.to_text(),
            (_, Some(value)) => {
                let mut object = String::from("{");
                write_string(key, &mut object);
                object.push(':');
                value.write(&mut object);
                object.push('}');
                object
            }
            (_, None) => "{}".to_owned(),
        };
        let at = scribe.start(&native, &name, &arguments, &self.namespace, self.text.clone())?;
        let result = match kind {
            "mcp_call" => item.get("output"),
            "code_interpreter_call" => item.get("outputs"),
            "file_search_call" => item.get("results"),
            "web_search_call" | "image_generation_call" => None,
            _ => return Ok(()), // the caller's
        };
        if item.text("status").is_some_and(|status| status == "failed") || item.get("error").is_some() {
            scribe.finish(at, End::Failed("tool_error", "The provider's tool failed."));
        } else {
            let result = shown(result, scribe);
            scribe.finish(at, End::Finished(&result));
        }
        Ok(())
    }

    fn note_end(&mut self, response: &Json<'_>) {
        self.answered.note(response);
        if let Some(id) = response.get("id") {
            self.answered.metadata.put("response_id", id);
        }
        let reason = response.get("incomplete_details").and_then(|details| details.get("reason"));
        if let Some(reason) = reason.or_else(|| response.get("status")) {
            self.answered.metadata.put("finish_reason", reason);
        }
        if let Some(tier) = response.get("service_tier") {
            self.answered.metadata.put("service_tier", tier);
        }
        let usage = response.get("usage");
        let detail = |of, key| usage.and_then(|usage| usage.get(of)).and_then(|details| details.get(key));
        if let Some(thought) = detail("output_tokens_details", "reasoning_tokens") {
            self.answered.metadata.put("reasoning_tokens", thought);
        }
        let number = |key| usage.and_then(|usage| usage.get(key)).and_then(Json::as_u64);
        self.answered.counts = Counts {
            input: number("input_tokens"),
            output: number("output_tokens"),
            cached_input: detail("input_tokens_details", "cached_tokens").and_then(Json::as_u64),
        };
    }

    fn ended(&mut self, response: &Json<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        for (at, item) in (0..).zip(response.list("output")) {
            self.item_done(at, item, scribe)?;
        }
        self.quiet(scribe);
        self.note_end(response);
        self.answered.account(scribe);
        let head = self.answered.head(scribe);
        let reason = response.get("incomplete_details").and_then(|details| details.text("reason"));
        let called = scribe.calls.open().next().is_some();
        match (response.text("status"), stop_reason(reason)) {
            // An end record that calls itself unfinished, or a call that never became whole.
            (Some("in_progress" | "queued" | "failed" | "cancelled") | None, _) => {
                scribe.fail(sentences::STREAM_BROKEN, None);
            }
            _ if !self.arriving.is_empty() => scribe.fail(sentences::STREAM_BROKEN, None),
            (Some("incomplete"), "end_turn") => scribe.fail(sentences::INCOMPLETE, None),
            (_, "end_turn") if called => scribe.succeed("tool_use", head),
            (_, "end_turn") if self.refused => scribe.succeed("refusal", head),
            (_, reason) => scribe.succeed(reason, head),
        }
        Ok(())
    }

    fn cancelled(&mut self, scribe: &mut Scribe) {
        self.answered.account(scribe);
        scribe.cancel(None);
    }
}

fn index(event: &Json<'_>) -> u64 {
    event.get("output_index").and_then(Json::as_u64).unwrap_or(u64::MAX)
}

fn lossy(item: &Json<'_>, key: &str) -> Option<String> {
    item.str(key).map(|text| text.lossy().into_owned()).filter(|text| !text.is_empty())
}

/// A result of the provider's own tool.
fn shown(result: Option<&Json<'_>>, scribe: &Scribe) -> String {
    match result {
        None => String::new(),
        Some(Json::String(result)) => text::whole([result], &scribe.options),
        Some(other) => text::content(&other.to_text(), &scribe.options).into_owned(),
    }
}

/// The id that results name: that of the call, or of the item where the provider runs it.
fn native(item: &Json<'_>) -> Option<String> {
    lossy(item, "call_id").or_else(|| lossy(item, "id"))
}

impl Adapter for OpenAiResponses {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        let Self { scribe, wire, response } = self;
        wire.lines(item, &mut |item| response.item(item, scribe))
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    /// A response without its end record is recognised as nothing: R12.
    fn close(&mut self, _how: Close) {
        self.scribe.end();
    }
}

/// There is nothing to answer.
///
/// # Errors
/// Always.
pub fn resume_value(_private: &str, _answer: &Answer) -> Result<String, AnswerError> {
    Err(AnswerError::NoAnswers { harness: HARNESS.to_owned() })
}
