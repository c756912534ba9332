//! The adapter for Bedrock's ConverseStream: one streamed message a run, as event-stream bytes or as recorded lines.
//!
//! An item is a piece of the binary stream, of any size, or a line: the bare event (`{"messageStart": {…}}`), or
//! `{"kind":"event","event":{…}}` between `begin` and `end`. The tools are the caller's, so a stop for tool use ends the
//! run with its calls open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started` |
//! | `contentBlockDelta` with `text` | `text.started` right before the first character, `text.delta` |
//! | the same with `reasoningContent.text` | `reasoning.started`, `reasoning.delta` |
//! | `contentBlockStop` | `text.finished`, `reasoning.finished` |
//! | the same of a `toolUse` block | `tool.started` with its arguments (none at all are `{}`); `tool.error` if they are no JSON object |
//! | `toolUse.input` | nothing; with `stream_arguments`: `tool.started` at the block's start, `tool.arguments.delta` |
//! | `toolResult` blocks (tools that the service runs) | `tool.finished` or `tool.error` |
//! | `metadata` | `provider.metadata` (what the allowlist admits; the model is `unknown` unless a router names it) |
//! | `metadata` after `messageStop`; without it `end`, or the end of a stream that had no `begin` | the last `usage.updated`, the state, `run.finished` |
//! | the same with a block open, or without a `messageStart` | `run.error` |
//! | exception and error frames, `{"kind":"error"}`, `…Exception` events | `run.error`, typed by name, words and status |
//! | `{"kind":"cancelled"}` | `run.cancelled` |
//! | the stream's end without `messageStop`, a frame cut in two | nothing (R12); `run.error` for the cut frame |
//!
//! Deliberately dropped: signatures, redacted reasoning, citations, images; guardrail traces and other fields of
//! `messageStop` and `metadata` that are not on the allowlist; all words of errors; events and members of later versions
//! in recorded lines and frames.
//!
//! Refused ([`ItemError`]): frames with a wrong checksum, what is none of these forms, and events after the end.

pub mod catalogue;
pub(crate) mod failure;
pub(crate) mod stream;

use causeway_contract::id::Reference;

use self::stream::{Heard, Messages, Tools};
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::anthropic_messages::retry_after;
use crate::eventstream::{Frames, Said, is_binary};
use crate::failure::{self as sentences, Failure};
use crate::ids::Ids;
use crate::json::Json;
use crate::scribe::Scribe;
use crate::turn::{Answer, AnswerError, Options, Turn};
use crate::worker::{self, MAX_LINE};

/// The canonical `harness_id`.
pub const HARNESS: &str = "bedrock-converse";

/// The head of every run: the API keeps no state, so there is only one.
const HEAD: &str = "stateless";

/// Translates one streamed message.
pub struct BedrockConverse {
    scribe: Scribe,
    messages: Messages,
    frames: Frames,
    /// Whether the items are pieces of a binary stream; told by the first of them.
    binary: Option<bool>,
    /// Whether a `begin` promised an `end`.
    begun: bool,
}

impl std::fmt::Debug for BedrockConverse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BedrockConverse").field("messages", &self.messages).finish_non_exhaustive()
    }
}

impl BedrockConverse {
    /// The adapter for a turn. The API has no pauses, so a resumed turn is like any other.
    pub fn new(_turn: &Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        Self {
            scribe: Scribe::new(HARNESS, options, ids),
            messages: Messages::new(Tools::Caller),
            frames: Frames::default(),
            binary: None,
            begun: false,
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), ItemError> {
        self.frames.push(bytes);
        while let Some(frame) = self.frames.next()? {
            match frame.said()? {
                Said::Event(name, body) => {
                    self.event(name, &body)?;
                }
                Said::Failed(name, words) => {
                    self.fail(failure::any(Some(name), None, None, words.as_deref()), None)?;
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ItemError> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let line = &worker::parse_line(line)?;
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        match line.text("kind") {
            Some("event") => {
                self.union(line.get("event").unwrap_or(&Json::Null))?;
            }
            Some(kind @ ("hello" | "begin" | "response")) => {
                self.begun |= kind == "begin";
                if let Some(model) = line.str("modelId") {
                    self.messages.set_model(model);
                }
            }
            Some("end") => self.over(),
            Some("cancelled") => {
                self.scribe.last_usage(None);
                self.scribe.cancel(None);
            }
            Some("error") => {
                let (failure, delay) = reported(line);
                self.fail(failure, delay)?;
            }
            Some(_) => {
                return Err(ItemError::Shape {
                    what: "`kind` hello, begin, response, event, end, cancelled or error",
                });
            }
            None if self.union(line)? => {}
            None => return Err(ItemError::Shape { what: "an event of the service" }),
        }
        Ok(())
    }

    /// An event as the service's clients give it: an object with one member. Gives whether there was one we know.
    fn union(&mut self, event: &Json<'_>) -> Result<bool, ItemError> {
        let mut known = false;
        for (name, body) in event.members() {
            known |= self.event(&name.lossy(), body)?;
        }
        Ok(known)
    }

    fn event(&mut self, name: &str, body: &Json<'_>) -> Result<bool, ItemError> {
        let what = "the message is over";
        if self.scribe.has_ended() || (self.messages.stop_reason().is_some() && name == "messageStart") {
            return Err(ItemError::OutOfOrder { kind: "event", what });
        }
        match self.messages.event(name, body, &mut self.scribe)? {
            Heard::Unknown => return Ok(false),
            Heard::Counted if self.messages.stop_reason().is_some() => self.over(),
            Heard::Failed => {
                let words = body.str("message").map(|words| words.lossy().into_owned());
                self.fail(failure::any(Some(name), None, None, words.as_deref()), None)?;
            }
            Heard::Going | Heard::Stopped | Heard::Counted => {}
        }
        Ok(true)
    }

    fn fail(
        &mut self,
        failure: Failure,
        delay: Option<causeway_contract::json::JsonNumber<'static>>,
    ) -> Result<(), ItemError> {
        if self.scribe.has_ended() {
            return Err(ItemError::OutOfOrder { kind: "error", what: "the message is over" });
        }
        self.scribe.last_usage(None);
        self.scribe.fail(failure, delay);
        Ok(())
    }

    /// Nothing more will come.
    fn over(&mut self) {
        if self.scribe.has_ended() {
            return;
        }
        let judged = match self.messages.judge(&self.scribe) {
            _ if !self.frames.is_between() => Some(Err(sentences::STREAM_BROKEN)),
            judged => judged,
        };
        let head = || Reference::bounded(HEAD, usize::MAX).ok();
        match judged {
            // A message that has not stopped is recognised as nothing: R12.
            None => self.scribe.end(),
            Some(Ok(reason)) => {
                self.scribe.hush_all();
                self.scribe.last_usage(None);
                self.scribe.succeed(reason, head());
            }
            Some(Err(failure)) => {
                self.scribe.last_usage(None);
                self.scribe.fail(failure, None);
            }
        }
    }
}

/// The failure that a line of `kind` error reports, and after how many seconds to try again.
pub(crate) fn reported(line: &Json<'_>) -> (Failure, Option<causeway_contract::json::JsonNumber<'static>>) {
    let words = line.str("message").map(|words| words.lossy().into_owned());
    let status = line.get("status").and_then(Json::as_u64);
    let failure = failure::any(line.text("code"), line.text("error_type"), status, words.as_deref());
    (failure, retry_after(line))
}

impl Adapter for BedrockConverse {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        if item.len() > MAX_LINE {
            return Err(ItemError::Oversized { len: item.len(), max: MAX_LINE });
        }
        if !item.is_empty() && self.binary.is_none() {
            self.binary = Some(is_binary(item));
        }
        if self.binary == Some(true) { self.bytes(item) } else { self.line(item) }
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    /// The end of a stream that had no `begin` is regular; what a `begin` promised must come as `end`: R12.
    fn close(&mut self, how: Close) {
        match how {
            Close::End if !self.begun => self.over(),
            Close::End | Close::Broken => self.scribe.end(),
        }
    }
}

/// There is nothing to answer.
///
/// # Errors
/// Always.
pub fn resume_value(_private: &str, _answer: &Answer) -> Result<String, AnswerError> {
    Err(AnswerError::NoAnswers { harness: HARNESS.to_owned() })
}
