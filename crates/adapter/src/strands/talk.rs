//! What one agent is saying: the blocks of its model's message, and the calls that it makes.
//!
//! The whole message decides what runs: Strands replaces arguments that are no JSON by none.

use causeway_contract::id::MessageId;
use causeway_contract::json::check_object;
use causeway_contract::namespace::Namespace;

use super::lossy;
use crate::adapter::ItemError;
use crate::json::{Json, JsonStr};
use crate::messages::Kind;
use crate::scribe::Scribe;
use crate::text::Stream;

/// A call whose arguments are streamed.
#[derive(Debug)]
struct Streamed {
    index: Option<u64>,
    native: String,
    at: usize,
    text: String,
    stream: Stream,
}

/// One agent's message.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// The last text, which calls belong to.
    text: Option<MessageId<'static>>,
    streamed: Vec<Streamed>,
}

impl Talk {
    /// Takes an event of the model's stream.
    pub(super) fn raw(&mut self, raw: &Json<'_>, here: &Namespace<'static>, scribe: &mut Scribe) {
        if raw.get("messageStart").is_some() {
            self.quiet(here, scribe);
            self.text = None;
            self.streamed.clear();
        }
        if let Some(start) = raw.get("contentBlockStart") {
            self.quiet(here, scribe);
            let call = start.get("start").and_then(|start| start.get("toolUse"));
            if let Some(call) = call.filter(|_| scribe.options.stream_arguments) {
                let (native, name) = (lossy(call, "toolUseId"), lossy(call, "name"));
                if !native.is_empty() && self.open(&native, here, scribe).is_none() {
                    let at = scribe.start_streamed(&native, &name, here, self.text.clone());
                    let index = index(start);
                    self.streamed.push(Streamed {
                        index,
                        native,
                        at,
                        text: String::new(),
                        stream: Stream::default(),
                    });
                }
            }
        }
        if let Some(block) = raw.get("contentBlockDelta") {
            let delta = block.get("delta").unwrap_or(&Json::Null);
            if let Some(piece) = delta.str("text") {
                scribe.say(Kind::Text, here, &[piece]);
            }
            if let Some(piece) = delta.get("reasoningContent").and_then(|reasoning| reasoning.str("text")) {
                scribe.say(Kind::Reasoning, here, &[piece]);
            }
            if let Some(piece) = delta.get("toolUse").and_then(|call| call.str("input")) {
                self.argument(index(block), piece, scribe);
            }
        }
        if raw.get("contentBlockStop").is_some() || raw.get("messageStop").is_some() {
            self.quiet(here, scribe);
        }
    }

    fn argument(&mut self, index: Option<u64>, piece: &JsonStr<'_>, scribe: &mut Scribe) {
        let Some(one) = self.streamed.iter_mut().rev().find(|one| one.index == index) else { return };
        let piece = one.stream.push(piece, &scribe.options);
        if one.text.len().saturating_add(piece.len())
            > scribe.options.limits.arguments_bytes.saturating_mul(2)
        {
            return; // far beyond what the contract allows; the call stays broken
        }
        one.text.push_str(&piece);
        scribe.argument_delta(one.at, &piece);
    }

    fn quiet(&mut self, here: &Namespace<'static>, scribe: &mut Scribe) {
        if let Some(text) = scribe.hush(here) {
            self.text = Some(text);
        }
    }

    fn open(&self, native: &str, here: &Namespace<'static>, scribe: &Scribe) -> Option<usize> {
        let at = scribe.calls.open_in(native, here)?;
        scribe.calls.get(at).filter(|call| call.namespace == *here).map(|_| at)
    }

    /// A call of the whole message: it starts, or what was streamed of it is complete.
    ///
    /// # Errors
    /// Its arguments cannot stand in an event.
    pub(super) fn called(
        &mut self,
        call: &Json<'_>,
        here: &Namespace<'static>,
        scribe: &mut Scribe,
    ) -> Result<(), ItemError> {
        self.quiet(here, scribe);
        let native = lossy(call, "toolUseId");
        if let Some(place) = self.streamed.iter().position(|one| one.native == native) {
            let one = self.streamed.remove(place);
            if one.text.trim().is_empty() {
                scribe.argument_delta(one.at, "{}");
            }
            let text = if one.text.trim().is_empty() { "{}" } else { &one.text };
            let valid = check_object(text, &scribe.options.limits).is_ok();
            if let Some(started) = scribe.calls.get_mut(one.at).filter(|_| valid) {
                started.broken = false;
                started.arguments = text.to_owned();
            }
            return Ok(());
        }
        if native.is_empty() || self.open(&native, here, scribe).is_some() {
            return Ok(());
        }
        let input = call.get("input").filter(|input| input.is_object()).map(Json::to_text);
        let input = input.as_deref().unwrap_or("{}");
        scribe.start(&native, &lossy(call, "name"), input, here, self.text.clone())?;
        Ok(())
    }
}

fn index(block: &Json<'_>) -> Option<u64> {
    block.get("contentBlockIndex").and_then(Json::as_u64)
}
