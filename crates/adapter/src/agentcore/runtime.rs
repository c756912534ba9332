//! What the agent inside an AgentCore runtime yields: strings, objects, or events of Strands and Converse.
//!
//! Nothing is guessed from a stream that says nothing: an object of an unknown shape is passed over.

use causeway_contract::namespace::Namespace;

use crate::adapter::ItemError;
use crate::bedrock_converse::failure;
use crate::bedrock_converse::stream::{Heard, Messages, Tools, finish, result_part};
use crate::failure::{FAILED, Failure, INCOMPLETE, STREAM_BROKEN};
use crate::json::{Json, JsonStr};
use crate::messages::Kind;
use crate::scribe::Scribe;
use crate::usage::Counts;

/// The names of a Converse stream's events.
const EVENTS: &[&str] = &[
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
];

/// The members of an object that hold an answer.
const ANSWERS: &[&str] = &["result", "response", "output", "data", "text"];

/// Whether an object is an event of a Converse stream.
pub(super) fn is_event(json: &Json<'_>) -> bool {
    let of_service =
        |name: &str| EVENTS.contains(&name) || name.ends_with("Exception") || name == "runtimeClientError";
    matches!(json.members(), [(name, body)] if of_service(&name.lossy()) && body.is_object())
}

/// Where a value stood.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// It is one of a stream.
    Stream,
    /// It is the body.
    Body,
}

/// A runtime's answer so far.
#[derive(Debug)]
pub(super) struct Runtime {
    messages: Messages,
    /// Events of a Converse stream came: what else is said repeats them.
    structured: bool,
    /// Something was said at all, and since the last whole message.
    spoke: bool,
    fresh: bool,
}

impl Runtime {
    pub(super) fn new() -> Self {
        Self { messages: Messages::new(Tools::Agent), structured: false, spoke: false, fresh: false }
    }

    /// Takes what the agent yielded; gives the failure that it tells.
    pub(super) fn value(
        &mut self,
        value: &Json<'_>,
        place: Place,
        scribe: &mut Scribe,
    ) -> Result<Option<Failure>, ItemError> {
        match value {
            Json::Null => {}
            Json::String(text) => {
                if !self.structured && !is_repr(text) {
                    self.say(text, scribe);
                }
            }
            Json::Object(_) => return self.object(value, place, scribe),
            Json::Bool(_) | Json::Number(_) | Json::Array(_) => self.unknown(value, place, scribe),
        }
        Ok(None)
    }

    fn object(
        &mut self,
        object: &Json<'_>,
        place: Place,
        scribe: &mut Scribe,
    ) -> Result<Option<Failure>, ItemError> {
        if let Some(failure) = told(object) {
            return Ok(Some(failure));
        }
        let event = object.get("event").filter(|event| is_event(event));
        // An agent may call anything `metadata`.
        let bare = Some(object).filter(|object| self.structured || object.get("metadata").is_none());
        if let Some(event) = event.or(bare).filter(|event| is_event(event)) {
            return self.event(event, scribe);
        }
        if let Some(message) = object.get("message").filter(|message| message.get("content").is_some()) {
            self.message(message, scribe)?;
            return Ok(None);
        }
        if self.structured {
            return Ok(None);
        }
        for key in ANSWERS {
            match object.get(key) {
                // A result after text says it again.
                Some(Json::String(_)) if *key == "result" && self.spoke => return Ok(None),
                Some(Json::String(text)) => {
                    self.say(text, scribe);
                    return Ok(None);
                }
                Some(message) if !message.list("content").is_empty() => {
                    self.message(message, scribe)?;
                    return Ok(None);
                }
                Some(_) | None => {}
            }
        }
        self.unknown(object, place, scribe);
        Ok(None)
    }

    /// A body is the answer, whatever its shape; of a stream it may be anything.
    fn unknown(&mut self, value: &Json<'_>, place: Place, scribe: &mut Scribe) {
        if place == Place::Body && !self.structured {
            self.say(&JsonStr::plain(value.to_text()), scribe);
        }
    }

    fn event(&mut self, event: &Json<'_>, scribe: &mut Scribe) -> Result<Option<Failure>, ItemError> {
        self.structured = true;
        for (name, body) in event.members() {
            match self.messages.event(&name.lossy(), body, scribe)? {
                Heard::Failed => {
                    let words = body.str("message").map(|words| words.lossy().into_owned());
                    return Ok(Some(failure::any(Some(&name.lossy()), None, None, words.as_deref())));
                }
                Heard::Counted => scribe.usage(Counts::default()),
                Heard::Going | Heard::Stopped | Heard::Unknown => {}
            }
        }
        Ok(None)
    }

    /// A whole message: results, and what was not streamed.
    fn message(&mut self, message: &Json<'_>, scribe: &mut Scribe) -> Result<(), ItemError> {
        let root = Namespace::root();
        let streamed = self.structured || self.fresh;
        let from_agent = message.text("role") != Some("user");
        for block in message.list("content") {
            if let Some(result) = block.get("toolResult") {
                let native = result.str("toolUseId").map(|id| id.lossy().into_owned()).unwrap_or_default();
                let parts: Vec<String> =
                    result.list("content").iter().map(|part| result_part(part, scribe)).collect();
                finish(&native, result.text("status") == Some("error"), &parts.join("\n"), scribe);
            } else if let Some(call) = block.get("toolUse").filter(|_| from_agent) {
                let lossy = |key| call.str(key).map(|text: &JsonStr<'_>| text.lossy().into_owned());
                let Some(native) = lossy("toolUseId").filter(|id| !id.is_empty()) else { continue };
                if scribe.calls.knows(&native) {
                    continue;
                }
                let input = call.get("input").map_or_else(|| "{}".to_owned(), Json::to_text);
                let parent = scribe.hush(&root);
                scribe.start(&native, &lossy("name").unwrap_or_default(), &input, &root, parent)?;
            } else if from_agent && !streamed {
                let reasoning = block.get("reasoningContent").and_then(|it| it.get("reasoningText"));
                if let Some(text) = block.str("text") {
                    self.say(text, scribe);
                } else if let Some(text) = reasoning.and_then(|it| it.str("text")) {
                    scribe.say(Kind::Reasoning, &root, &[text]);
                }
            }
        }
        if from_agent && !self.structured {
            scribe.hush(&root);
        }
        self.fresh = false;
        Ok(())
    }

    fn say(&mut self, text: &JsonStr<'_>, scribe: &mut Scribe) {
        self.spoke = true;
        self.fresh = true;
        scribe.say(Kind::Text, &Namespace::root(), &[text]);
    }

    /// What the regular end of the body means. There is no end record.
    pub(super) fn judge(&self, scribe: &Scribe) -> Result<&'static str, Failure> {
        match self.messages.judge(scribe) {
            Some(Ok(_)) | None if scribe.calls.open().next().is_some() => Err(INCOMPLETE),
            Some(judged) => judged,
            None if self.structured => Err(STREAM_BROKEN),
            None => Ok("end_turn"),
        }
    }
}

/// Whether a string is what a server makes of an event that is not JSON: the repr of a Python dict with objects in it.
fn is_repr(text: &JsonStr<'_>) -> bool {
    let text = text.lossy();
    let holds = [" object at 0x", "UUID('", "AgentResult("].iter().any(|sign| text.contains(sign));
    text.starts_with("{'") && text.ends_with('}') && holds
}

/// The failure that an object tells.
fn told(object: &Json<'_>) -> Option<Failure> {
    let error = object.get("error").filter(|error| **error != Json::Bool(false));
    let failed =
        object.text("status") == Some("error") || object.get("force_stop") == Some(&Json::Bool(true));
    if error.is_none() && !failed {
        return None;
    }
    let class = object.text("error_type").or_else(|| error.and_then(|error| error.text("type")));
    let words = error.and_then(Json::as_str).map(|words| words.lossy().into_owned());
    Some(class.map_or(FAILED, |class| failure::any(None, Some(class), None, words.as_deref())))
}
