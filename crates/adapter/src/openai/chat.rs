//! The adapter for OpenAI's chat completions, and for the many services that speak the same: one streamed answer a run,
//! as SSE text or as recorded lines.
//!
//! An item is a line: `data: {…}` (or a whole SSE frame), the bare chunk, or `{"kind":"event","event":{…}}` between
//! `begin` and `end`. The tools are the caller's, so a stop for tool use ends the run with its calls open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started` |
//! | `delta.content`, `delta.refusal` of choice 0 | `text.started` right before the first character, `text.delta` |
//! | `delta.reasoning_content`, `delta.reasoning` (other services) | `reasoning.started`, `reasoning.delta` |
//! | `delta.tool_calls` | nothing; with `stream_arguments`: `tool.started`, `tool.arguments.delta` |
//! | `finish_reason` | `text.finished`, `reasoning.finished`; `tool.started` with whole arguments, `tool.error` if they are no JSON object |
//! | `usage`, in a chunk with or without choices | `usage.updated` |
//! | `[DONE]`, or `end` of a recording | `provider.metadata`, the last `usage.updated`, the state (its head is the answer's id), `run.finished` |
//! | the same without a `finish_reason` | `[DONE]`: `run.error`; `end`: nothing (R12) |
//! | `error` bodies in the stream, `{"kind":"error"}` | `run.error`, typed by status, code, type and words |
//! | `{"kind":"cancelled"}` | `run.cancelled` |
//!
//! Deliberately dropped: choices beyond the first; log probabilities and annotations; audio; the legacy `function_call`;
//! everything a provider says that is not on the allowlist; all words of errors.
//!
//! Refused ([`ItemError`]): what is none of these forms, and chunks after the end of the answer.

use causeway_contract::id::MessageId;
use causeway_contract::namespace::Namespace;

use super::fragments::Fragments;
use super::wire::{Item, Wire};
use super::{Answered, sentences};
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::ids::Ids;
use crate::json::{Json, JsonStr};
use crate::messages::Kind;
use crate::metadata::stop_reason;
use crate::scribe::Scribe;
use crate::turn::{Answer, AnswerError, Options, Turn};
use crate::usage::Counts;

/// The canonical `harness_id`.
pub const HARNESS: &str = "openai-chat";

/// Translates one streamed answer.
pub struct OpenAiChat {
    scribe: Scribe,
    wire: Wire,
    answer: Chat,
}

impl std::fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiChat").field("answer", &self.answer).finish_non_exhaustive()
    }
}

impl OpenAiChat {
    /// The adapter for a turn. The API has no pauses, so a resumed turn is like any other.
    pub fn new(_turn: &Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let scribe = Scribe::new(HARNESS, options, ids);
        Self { scribe, wire: Wire::default(), answer: Chat::default() }
    }
}

/// The answer so far.
#[derive(Debug, Default)]
struct Chat {
    answered: Answered,
    /// Why it stopped, as the provider says it.
    finish: Option<String>,
    /// The last text, which calls belong to.
    text: Option<MessageId<'static>>,
    arriving: Vec<Fragments>,
    /// The beginning of a call is missing.
    torn: bool,
    /// Tokens of reasoning.
    thought: Option<u64>,
    refused: bool,
}

impl Chat {
    fn item(&mut self, item: Item<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let line = match item {
            Item::Done => {
                if self.finish.is_none() && !scribe.has_ended() {
                    self.answered.account(scribe);
                    scribe.fail(sentences::STREAM_BROKEN, None);
                }
                self.over(scribe);
                return Ok(());
            }
            Item::Value(line) if line.is_object() => line,
            Item::Value(_) => return Err(ItemError::Shape { what: "an object" }),
        };
        match line.text("kind") {
            Some("event") => self.chunk(line.get("event").unwrap_or(&Json::Null), scribe)?,
            Some("hello" | "begin") => {}
            Some("end") => {
                // Without a `finish_reason` nothing is recognised: R12.
                self.over(scribe);
                scribe.end();
            }
            Some("cancelled") => {
                self.answered.account(scribe);
                scribe.cancel(None);
            }
            Some("error") => self.answered.fail(line, scribe),
            Some(_) => {
                return Err(ItemError::Shape { what: "`kind` hello, begin, event, end, cancelled or error" });
            }
            None => self.chunk(line, scribe)?,
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: &Json<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let is_error = chunk.get("error").is_some();
        if !is_error && !matches!(chunk.get("choices"), Some(Json::Array(_))) {
            return Err(ItemError::Shape { what: "a chunk with `choices`" });
        }
        if scribe.has_ended() {
            return Err(ItemError::OutOfOrder { kind: "chunk", what: "the answer is over" });
        }
        if is_error {
            self.answered.fail(chunk, scribe);
            return Ok(());
        }
        self.answered.note(chunk);
        let first = |choice: &&Json<'_>| choice.get("index").and_then(Json::as_u64).unwrap_or(0) == 0;
        for choice in chunk.list("choices").iter().filter(first) {
            if let Some(delta) = choice.get("delta") {
                self.delta(delta, scribe);
            }
            if let Some(reason) = choice.get("finish_reason").filter(|_| self.finish.is_none()) {
                self.answered.metadata.put("finish_reason", reason);
                if let Some(id) = chunk.get("id") {
                    self.answered.metadata.put("response_id", id);
                }
                self.finish = reason.as_str().map(|reason| reason.lossy().into_owned());
                self.quiet(scribe);
                for one in std::mem::take(&mut self.arriving) {
                    one.settle(None, self.text.clone(), scribe)?;
                }
                for key in ["service_tier", "system_fingerprint"] {
                    if let Some(value) = chunk.get(key) {
                        self.answered.metadata.put(key, value);
                    }
                }
            }
        }
        let told = counts(chunk.get("usage"));
        if !told.is_unknown() && told != self.answered.counts {
            self.answered.counts = told.or(self.answered.counts);
            scribe.usage(self.answered.counts);
            let details = chunk.get("usage").and_then(|usage| usage.get("completion_tokens_details"));
            let thought = details.and_then(|details| details.get("reasoning_tokens")).and_then(Json::as_u64);
            self.thought = thought.or(self.thought);
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Json<'_>, scribe: &mut Scribe) {
        let root = Namespace::root();
        for key in ["reasoning_content", "reasoning"] {
            if let Some(piece) = delta.str(key).filter(|piece| !piece.is_empty()) {
                scribe.say(Kind::Reasoning, &root, &[piece]);
                break; // some services say it under both keys
            }
        }
        if let Some(piece) = delta.str("content") {
            scribe.say(Kind::Text, &root, &[piece]);
        }
        if let Some(piece) = delta.str("refusal").filter(|piece| !piece.is_empty()) {
            self.refused = true;
            scribe.say(Kind::Text, &root, &[piece]);
        }
        for call in delta.list("tool_calls") {
            self.fragment(call, scribe);
        }
    }

    fn fragment(&mut self, call: &Json<'_>, scribe: &mut Scribe) {
        let index = call.get("index").and_then(Json::as_u64).unwrap_or(0);
        let function = call.get("function");
        let lossy = |text: Option<&JsonStr<'_>>| {
            text.map(|text| text.lossy().into_owned()).filter(|text| !text.is_empty())
        };
        let (id, name) = (lossy(call.str("id")), lossy(function.and_then(|function| function.str("name"))));
        // Some services give several calls one index, each with its id.
        let here = self
            .arriving
            .iter()
            .rposition(|one| one.index == index && id.as_ref().is_none_or(|id| *id == one.native));
        let at = match (here, id, name) {
            (Some(at), _, _) => at,
            (None, Some(id), Some(name)) if !scribe.calls.knows(&id) => {
                self.quiet(scribe);
                self.arriving.push(Fragments::new(
                    index,
                    id,
                    name,
                    self.text.clone(),
                    &Namespace::root(),
                    scribe,
                ));
                self.arriving.len() - 1
            }
            (None, _, _) => {
                self.torn = true;
                return;
            }
        };
        if let (Some(piece), Some(one)) =
            (function.and_then(|function| function.str("arguments")), self.arriving.get_mut(at))
        {
            one.push(piece, scribe);
        }
    }

    fn quiet(&mut self, scribe: &mut Scribe) {
        if let Some(text) = scribe.hush(&Namespace::root()) {
            self.text = Some(text);
        }
    }

    /// The stream is over; the answer is if it said why it stopped.
    fn over(&mut self, scribe: &mut Scribe) {
        let Some(reason) = self.finish.take().filter(|_| !scribe.has_ended()) else { return };
        if let Some(thought) = self.thought.map(|thought| thought.to_string()) {
            self.answered.metadata.put("reasoning_tokens", &Json::Number(&thought));
        }
        self.answered.account(scribe);
        let called = scribe.calls.open().next().is_some();
        match stop_reason(Some(&reason)) {
            _ if self.torn || !self.arriving.is_empty() => scribe.fail(sentences::STREAM_BROKEN, None),
            "end_turn" if called => scribe.succeed("tool_use", self.answered.head(scribe)),
            "end_turn"
                if ["tool_calls", "function_call"].contains(&reason.as_str()) && scribe.calls.is_empty() =>
            {
                scribe.fail(sentences::INCOMPLETE, None);
            }
            "end_turn" if self.refused => scribe.succeed("refusal", self.answered.head(scribe)),
            other => scribe.succeed(other, self.answered.head(scribe)),
        }
    }
}

/// The counts of a `usage` object.
fn counts(usage: Option<&Json<'_>>) -> Counts {
    let number = |usage: &Json<'_>, key| usage.get(key).and_then(Json::as_u64);
    let details = usage.and_then(|usage| usage.get("prompt_tokens_details"));
    Counts {
        input: usage.and_then(|usage| number(usage, "prompt_tokens")),
        output: usage.and_then(|usage| number(usage, "completion_tokens")),
        cached_input: details.and_then(|details| number(details, "cached_tokens")),
    }
}

impl Adapter for OpenAiChat {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        let Self { scribe, wire, answer } = self;
        wire.lines(item, &mut |item| answer.item(item, scribe))
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    /// An answer without its end record is recognised as nothing: R12.
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
