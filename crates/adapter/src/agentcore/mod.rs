//! The adapter for Bedrock AgentCore: the streams of InvokeHarness and the bodies of InvokeAgentRuntime, one a run.
//!
//! An item is a piece of a binary event stream, of any size, or a line: of SSE, a JSON body, a bare event of a harness, or
//! `{"kind":"event","event":{…}}` with an event, `{"line": "data: …"}` or `{"body": …}` in it. Which of the two services
//! speaks is told by what comes first. A JSON body stands in one line.
//!
//! | native | canonical |
//! |---|---|
//! | (construction) | `run.started` |
//! | InvokeHarness: events | as in [`bedrock_converse`](crate::bedrock_converse), message after message; tools of type `tool_use` are the caller's, others the harness's |
//! | `metadata` | `usage.updated`, `provider.metadata` |
//! | the end (`end`, or that of a stream that had no `begin`) after a stop | the last `usage.updated`, the state, `run.finished` (`tool_use` with the caller's calls open) |
//! | the same with a call of the harness open, a block open, or a stop at a limit | `run.error` |
//! | runtime: a JSON string, `result`, `response`, `output`, `data`, `text` of an object | `text.started`, `text.delta` |
//! | runtime: `{"event": {…}}`, as Strands agents yield it | as an event of a harness; all tools are the agent's |
//! | runtime: `{"message": {…}}` of Strands | `tool.finished`, `tool.error`; `tool.started` and text where no events told them |
//! | runtime: a JSON body of another shape | its JSON as text |
//! | runtime: `error`, `status` error, `force_stop`, HTTP status | `run.error` |
//! | the regular end of a runtime's body | the state, `run.finished`; `run.error` with a call or message open |
//! | exception and error frames, `{"kind":"error"}` | `run.error`, typed by name, words and status |
//! | `{"kind":"cancelled"}` | `run.cancelled` |
//!
//! Deliberately dropped: what `bedrock_converse` drops; strings that are the Python repr of an event, and all strings once
//! events came (they say the same again); objects of a stream that are none of these; SSE comments and fields but `data`.
//!
//! Refused ([`ItemError`]): damaged frames, lines that are none of these forms, and what follows the end.

pub mod catalogue;
mod runtime;

use causeway_contract::id::Reference;
use causeway_contract::json::JsonNumber;

use self::runtime::{Place, Runtime};
use crate::adapter::{Adapter, Close, ItemError, Output};
use crate::bedrock_converse::failure;
use crate::bedrock_converse::reported;
use crate::bedrock_converse::stream::{Heard, Messages, Tools};
use crate::eventstream::{Frames, Said, is_binary};
use crate::failure::{Failure, STREAM_BROKEN};
use crate::ids::Ids;
use crate::json::Json;
use crate::scribe::Scribe;
use crate::turn::{Answer, AnswerError, Options, Turn};
use crate::usage::Counts;
use crate::worker::{self, MAX_LINE};

/// The canonical `harness_id`.
pub const HARNESS: &str = "agentcore";

/// The head where the service does not name its session.
const HEAD: &str = "session";

/// Translates one invocation.
pub struct AgentCore {
    scribe: Scribe,
    service: Service,
    frames: Frames,
    /// Whether the items are pieces of a binary stream; told by the first of them.
    binary: Option<bool>,
    /// Whether a `begin` promised an `end`.
    begun: bool,
    /// Data lines of an SSE event that is not complete.
    data: Vec<u8>,
    session: Option<String>,
}

/// Who speaks.
#[derive(Debug)]
enum Service {
    Unknown,
    Harness(Messages),
    Runtime(Runtime),
}

impl std::fmt::Debug for AgentCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentCore").field("service", &self.service).finish_non_exhaustive()
    }
}

impl AgentCore {
    /// The adapter for a turn. The service has no pauses of its own, so a resumed turn is like any other.
    pub fn new(_turn: &Turn, options: Options, ids: Box<dyn Ids>) -> Self {
        Self {
            scribe: Scribe::new(HARNESS, options, ids),
            service: Service::Unknown,
            frames: Frames::default(),
            binary: None,
            begun: false,
            data: Vec::new(),
            session: None,
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
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
        if line.iter().all(u8::is_ascii_whitespace) || fields.iter().any(|field| line.starts_with(field)) {
            return self.sse(line);
        }
        let json = &worker::parse_line(line)?;
        match json.text("kind") {
            Some("event") => self.recorded(json.get("event").unwrap_or(&Json::Null)),
            Some(kind @ ("hello" | "begin")) => {
                self.begun |= kind == "begin";
                Ok(())
            }
            Some("response") => self.response(json),
            Some("end") => {
                self.over();
                Ok(())
            }
            Some("cancelled") => {
                self.scribe.last_usage(None);
                self.scribe.cancel(None);
                Ok(())
            }
            Some("error") => {
                let (failure, delay) = reported(json);
                self.fail(failure, delay)
            }
            Some(_) => Err(ItemError::Shape {
                what: "`kind` hello, begin, response, event, end, cancelled or error",
            }),
            None if runtime::is_event(json) && !matches!(self.service, Service::Runtime(_)) => {
                self.union(json)
            }
            None => self.value(json, Place::Body),
        }
    }

    fn recorded(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        if let Some(line) = event.str("line") {
            let line = line.lossy();
            line.split('\n').try_for_each(|line| self.sse(line.as_bytes()))
        } else if let Some(body) = event.get("body") {
            self.value(body, Place::Body)
        } else if event.is_object() {
            self.union(event)
        } else {
            Err(ItemError::Shape { what: "an event, a `line` or a `body`" })
        }
    }

    /// What is known of the HTTP response.
    fn response(&mut self, line: &Json<'_>) -> Result<(), ItemError> {
        if let Some(session) = line.str("runtimeSessionId") {
            self.session = Some(session.lossy().into_owned());
        }
        match line.get("statusCode").and_then(Json::as_u64).filter(|status| *status >= 400) {
            Some(status) => self.fail(failure::any(None, None, Some(status), None), None),
            None if line.text("contentType").is_some_and(|kind| kind.contains("vnd.amazon.eventstream")) => {
                Ok(())
            }
            None => self.runtime().map(|_| ()),
        }
    }

    /// A line of SSE.
    fn sse(&mut self, line: &[u8]) -> Result<(), ItemError> {
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = data.strip_prefix(b" ").unwrap_or(data);
            if self.data.is_empty()
                && let Ok(value) = Json::parse(data)
            {
                return self.value(&value, Place::Stream);
            }
            self.runtime()?;
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data);
            if self.data.len() > MAX_LINE {
                return Err(ItemError::Oversized { len: self.data.len(), max: MAX_LINE });
            }
            let whole = std::mem::take(&mut self.data);
            if let Ok(value) = Json::parse(&whole) {
                return self.value(&value, Place::Stream);
            }
            self.data = whole;
            return Ok(());
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            let whole = std::mem::take(&mut self.data);
            return if whole.is_empty() { Ok(()) } else { self.value(&Json::parse(&whole)?, Place::Stream) };
        }
        Ok(())
    }

    fn runtime(&mut self) -> Result<&mut Runtime, ItemError> {
        if matches!(self.service, Service::Unknown) {
            self.service = Service::Runtime(Runtime::new());
        }
        match &mut self.service {
            Service::Runtime(runtime) => Ok(runtime),
            Service::Unknown | Service::Harness(_) => Err(ItemError::Shape { what: "an event of a harness" }),
        }
    }

    /// What the agent of a runtime yielded.
    fn value(&mut self, value: &Json<'_>, place: Place) -> Result<(), ItemError> {
        self.may_come()?;
        self.runtime()?;
        let Service::Runtime(runtime) = &mut self.service else { return Ok(()) };
        match runtime.value(value, place, &mut self.scribe)? {
            None => Ok(()),
            Some(failure) => self.fail(failure, None),
        }
    }

    fn union(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        event.members().iter().try_for_each(|(name, body)| self.event(&name.lossy(), body))
    }

    /// An event of a harness.
    fn event(&mut self, name: &str, body: &Json<'_>) -> Result<(), ItemError> {
        self.may_come()?;
        if matches!(self.service, Service::Unknown) {
            self.service = Service::Harness(Messages::new(Tools::Caller));
        }
        let Service::Harness(messages) = &mut self.service else {
            return Err(ItemError::Shape { what: "a line of a runtime's body" });
        };
        match messages.event(name, body, &mut self.scribe)? {
            Heard::Failed => {
                let words = body.str("message").map(|words| words.lossy().into_owned());
                self.fail(failure::any(Some(name), None, None, words.as_deref()), None)
            }
            Heard::Counted => {
                self.scribe.usage(Counts::default());
                Ok(())
            }
            Heard::Going | Heard::Stopped | Heard::Unknown => Ok(()),
        }
    }

    fn may_come(&self) -> Result<(), ItemError> {
        let what = "the invocation is over";
        if self.scribe.has_ended() { Err(ItemError::OutOfOrder { kind: "event", what }) } else { Ok(()) }
    }

    fn fail(&mut self, failure: Failure, delay: Option<JsonNumber<'static>>) -> Result<(), ItemError> {
        self.may_come()?;
        self.scribe.last_usage(None);
        self.scribe.fail(failure, delay);
        Ok(())
    }

    /// Nothing more will come.
    fn over(&mut self) {
        if self.scribe.has_ended() {
            return;
        }
        let judged = match &self.service {
            _ if !self.frames.is_between() || !self.data.is_empty() => Some(Err(STREAM_BROKEN)),
            Service::Unknown => None,
            Service::Harness(messages) => messages.judge(&self.scribe),
            Service::Runtime(runtime) => Some(runtime.judge(&self.scribe)),
        };
        match judged {
            // What has not stopped is recognised as nothing: R12.
            None => self.scribe.end(),
            Some(Ok(reason)) => {
                let head = self.session.clone().unwrap_or_else(|| HEAD.to_owned());
                let head = Reference::bounded(head, self.scribe.options.limits.id_bytes).ok();
                self.scribe.hush_all();
                self.scribe.last_usage(None);
                self.scribe.succeed(reason, head);
            }
            Some(Err(failure)) => {
                self.scribe.last_usage(None);
                self.scribe.fail(failure, None);
            }
        }
    }
}

impl Adapter for AgentCore {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        if item.len() > MAX_LINE {
            return Err(ItemError::Oversized { len: item.len(), max: MAX_LINE });
        }
        if !item.is_empty() && self.binary.is_none() {
            self.binary = Some(is_binary(item));
        }
        if self.binary == Some(true) {
            return self.bytes(item);
        }
        item.split(|byte| *byte == b'\n').try_for_each(|line| self.line(line))
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
