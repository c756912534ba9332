//! The adapter for the Anthropic Messages API: one streamed message a run, as SSE text or as recorded lines.
//!
//! An item is a line: `data: {…}` (or a whole SSE frame), the bare event, or `{"kind":"event","event":{…}}` between
//! `begin` and `end`. The tools are the caller's, so a stop for tool use ends the run with its calls open (decisions §6).
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started` |
//! | `content_block_start`, `content_block_delta` of a text | `text.started` right before the first character, `text.delta` |
//! | the same of a `thinking` block | `reasoning.started`, `reasoning.delta` |
//! | `content_block_stop` | `text.finished`, `reasoning.finished` |
//! | the same of `tool_use`, `server_tool_use`, `mcp_tool_use` | `tool.started` with its arguments; `tool.error` if they are no JSON object |
//! | `input_json_delta` | nothing; with `stream_arguments`: `tool.started` at the block's start, `tool.arguments.delta` |
//! | blocks `…_tool_result` (the provider's own tools) | `tool.finished` or `tool.error` |
//! | `message_delta` | `usage.updated`, `provider.metadata` (what the allowlist admits) |
//! | `message_stop` | the last `usage.updated`, the state (its head is the message's id), `run.finished` |
//! | `message_stop` without a stop reason, or with a block open | `run.error` |
//! | `error` events, `{"kind":"error"}`, an error body | `run.error`, typed by status, type and words |
//! | `{"kind":"cancelled"}` | `run.cancelled` |
//!
//! Deliberately dropped: `ping`; signatures, redacted thinking and citations; event names (each event names itself);
//! everything a provider says that is not on the allowlist; all words of errors; unknown events, which the API announces.
//!
//! Refused ([`ItemError`]): what is none of these forms, and events after the end of the message.

pub mod catalogue;
pub(crate) mod failure;
pub(crate) mod stream;

use causeway_contract::id::Reference;
use causeway_contract::json::JsonNumber;
use causeway_contract::namespace::Namespace;

use self::stream::{Broken, Heard, Message};
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::failure::{self as sentences, Failure};
use crate::ids::Ids;
use crate::json::Json;
use crate::metadata::stop_reason;
use crate::scribe::Scribe;
use crate::turn::{Answer, AnswerError, Options, Turn};
use crate::worker::{self, MAX_LINE};

/// The canonical `harness_id`.
pub const HARNESS: &str = "anthropic-messages";

/// Translates one streamed message.
pub struct AnthropicMessages {
    scribe: Scribe,
    message: Message,
    /// Data lines of an SSE event that is not complete.
    data: Vec<u8>,
}

impl std::fmt::Debug for AnthropicMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnthropicMessages").field("message", &self.message).finish_non_exhaustive()
    }
}

impl AnthropicMessages {
    /// The adapter for a turn. The API has no pauses, so a resumed turn is like any other.
    pub fn new(_turn: &Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        let message = Message::new(Namespace::root(), Broken::Fails);
        Self { scribe: Scribe::new(HARNESS, options, ids), message, data: Vec::new() }
    }

    /// Takes a line of SSE or of JSON.
    fn line(&mut self, line: &[u8]) -> Result<(), ItemError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(data) = line.strip_prefix(b"data:") {
            return self.data(data.strip_prefix(b" ").unwrap_or(data));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return self.frame_over();
        }
        if line.starts_with(b":")
            || [&b"event:"[..], b"id:", b"retry:"].iter().any(|field| line.starts_with(field))
        {
            return if line.starts_with(b"event:") { self.frame_over() } else { Ok(()) };
        }
        self.json(&worker::parse_line(line)?)
    }

    /// A data line; an event that is spread over several is taken once it is complete.
    fn data(&mut self, data: &[u8]) -> Result<(), ItemError> {
        if self.data.is_empty()
            && let Ok(event) = worker::parse_line(data)
        {
            return self.json(&event);
        }
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        if self.data.len() > MAX_LINE {
            return Err(ItemError::Oversized { len: self.data.len(), max: MAX_LINE });
        }
        let whole = std::mem::take(&mut self.data);
        match Json::parse(&whole) {
            Ok(event) => self.json(&event),
            Err(_) => {
                self.data = whole;
                Ok(())
            }
        }
    }

    fn frame_over(&mut self) -> Result<(), ItemError> {
        let data = std::mem::take(&mut self.data);
        if data.is_empty() { Ok(()) } else { self.json(&Json::parse(&data)?) }
    }

    fn json(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        match line.text("kind") {
            Some("event") => self.event(line.get("event").unwrap_or(&Json::Null)),
            Some("hello" | "begin") => Ok(()),
            Some("end") => {
                // Without a `message_stop` nothing is recognised: R12.
                self.scribe.end();
                Ok(())
            }
            Some("cancelled") => {
                self.account();
                self.scribe.cancel(None);
                Ok(())
            }
            Some("error") => {
                self.error(line);
                Ok(())
            }
            Some(_) => Err(ItemError::Shape { what: "`kind` hello, begin, event, end, cancelled or error" }),
            None => self.event(line),
        }
    }

    fn event(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        let Some(kind) = event.text("type") else {
            return Err(ItemError::Shape { what: "an event with a `type`" });
        };
        if self.scribe.has_ended() {
            let what = "the message is over";
            return if kind == "ping" { Ok(()) } else { Err(ItemError::OutOfOrder { kind: "event", what }) };
        }
        if kind == "error" {
            self.error(event);
            return Ok(());
        }
        match self.message.event(event, &mut self.scribe)? {
            Heard::Going => {}
            Heard::Stopped { complete } => self.stopped(complete),
        }
        Ok(())
    }

    fn stopped(&mut self, complete: bool) {
        let reason = self.message.stop_reason();
        let wants_tools = reason == Some("tool_use");
        let reason = match reason {
            Some("tool_use") => "tool_use",
            Some("pause_turn") => "pause_turn",
            Some("model_context_window_exceeded") => "max_tokens",
            other => stop_reason(other),
        };
        self.scribe.last_usage(None);
        if !complete {
            self.scribe.fail(sentences::STREAM_BROKEN, None);
        } else if wants_tools && self.scribe.calls.is_empty() {
            self.scribe.fail(sentences::INCOMPLETE, None);
        } else {
            let max = self.scribe.options.limits.id_bytes;
            let head = self.message.id().and_then(|id| Reference::bounded(id.to_owned(), max).ok());
            self.scribe.succeed(reason, head);
        }
    }

    /// An error, in any of its forms: the API's body, or an exception of the client.
    fn error(&mut self, line: &Json<'_>) {
        let body = line.get("error");
        let status = line.get("status").and_then(Json::as_u64);
        let words = body.and_then(|body| body.str("message")).or_else(|| line.str("message"));
        let words = words.map(|words| words.lossy().into_owned());
        let kind = body.and_then(|body| body.text("type")).or_else(|| failure::named_in(words.as_deref()?));
        let failure: Failure = failure::of(status, kind, words.as_deref())
            .unwrap_or_else(|| sentences::of(line.text("error_type").unwrap_or_default()));
        let retry_after = retry_after(line);
        self.account();
        self.scribe.fail(failure, retry_after);
    }

    fn account(&mut self) {
        self.message.settle_usage(&mut self.scribe);
        self.scribe.last_usage(None);
    }
}

/// The seconds after which a service says a request may be sent again; a date is not understood.
pub(crate) fn retry_after(line: &Json<'_>) -> Option<JsonNumber<'static>> {
    let headers = line.get("headers");
    let given = headers
        .and_then(|headers| {
            headers.members().iter().find(|(name, _)| name.lossy().eq_ignore_ascii_case("retry-after"))
        })
        .map(|(_, value)| value)
        .or_else(|| line.get("retry_after"))?;
    let text = match given {
        Json::Number(number) => (*number).to_owned(),
        Json::String(text) => text.lossy().trim().to_owned(),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => return None,
    };
    let plain = !text.is_empty() && text.len() < 16 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { JsonNumber::parse(text).ok() } else { None }
}

impl Adapter for AnthropicMessages {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        if item.len() > MAX_LINE {
            return Err(ItemError::Oversized { len: item.len(), max: MAX_LINE });
        }
        item.split(|byte| *byte == b'\n').try_for_each(|line| self.line(line))
    }

    fn poll(&mut self) -> Option<Output> {
        self.scribe.next()
    }

    /// A message that has not stopped is recognised as nothing: R12.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(line: &str) -> Option<String> {
        retry_after(&Json::parse(line.as_bytes()).unwrap()).map(|number| number.as_str().to_owned())
    }

    #[test]
    fn only_a_plain_number_of_seconds_is_passed_on() {
        assert_eq!(seconds(r#"{"headers":{"Retry-After":"12"}}"#), Some("12".to_owned()));
        assert_eq!(seconds(r#"{"retry_after":1.5}"#), Some("1.5".to_owned()));
        for line in [
            r#"{"headers":{"retry-after":"Wed, 21 Oct"}}"#,
            r#"{"retry_after":-1}"#,
            r#"{"retry_after":"."}"#,
            "{}",
        ] {
            assert_eq!(seconds(line), None, "{line}");
        }
    }
}
