//! Calls whose arguments arrive in pieces, under way between their start and the end of their JSON.
//!
//! Decides nothing about ends of calls: AG-UI has servers that end the arguments with `TOOL_CALL_END`, and some that end
//! the call with it. The arguments are complete when their object is.

use causeway_contract::id::MessageId;
use causeway_contract::json::check_object;
use causeway_contract::namespace::Namespace;

use crate::adapter::ItemError;
use crate::json::JsonStr;
use crate::scribe::Scribe;
use crate::text::Stream;

/// A call whose arguments are arriving.
#[derive(Debug)]
pub(super) struct Args {
    name: String,
    here: Namespace<'static>,
    parent: Option<MessageId<'static>>,
    /// Its place, once started.
    call: Option<usize>,
    text: String,
    stream: Stream,
    scan: Scan,
}

impl Args {
    pub(super) fn new(
        native: &str,
        name: String,
        here: &Namespace<'static>,
        parent: Option<MessageId<'static>>,
        scribe: &mut Scribe,
    ) -> Self {
        let streamed = scribe.options.stream_arguments;
        let call = streamed.then(|| scribe.start_streamed(native, &name, here, parent.clone()));
        let here = here.clone();
        Self {
            name,
            here,
            parent,
            call,
            text: String::new(),
            stream: Stream::default(),
            scan: Scan::default(),
        }
    }

    /// Takes a piece; says whether the object is complete.
    pub(super) fn push(&mut self, piece: &JsonStr<'_>, scribe: &mut Scribe) -> bool {
        let piece = self.stream.push(piece, &scribe.options);
        self.add(&piece, scribe);
        self.scan.is_complete()
    }

    fn add(&mut self, piece: &str, scribe: &mut Scribe) {
        if self.text.len().saturating_add(piece.len())
            > scribe.options.limits.arguments_bytes.saturating_mul(2)
        {
            return; // far beyond what the contract allows; it fails when it is complete
        }
        self.scan.see(piece);
        self.text.push_str(piece);
        if let Some(call) = self.call {
            scribe.argument_delta(call, piece);
        }
    }

    /// No piece will follow: the call is started, if it was not. What is no object leaves it broken, so that it cannot end
    /// well.
    ///
    /// # Errors
    /// The arguments cannot stand in an event.
    pub(super) fn settle(mut self, native: &str, scribe: &mut Scribe) -> Result<(), ItemError> {
        let rest = self.stream.end().unwrap_or_default();
        self.add(rest, scribe);
        let whole = if self.text.trim().is_empty() { "{}" } else { self.text.as_str() };
        let is_object = check_object(whole, &scribe.options.limits).is_ok();
        match self.call {
            Some(at) => {
                if self.text.is_empty() {
                    scribe.argument_delta(at, "{}");
                }
                if let Some(call) = scribe.calls.get_mut(at) {
                    call.arguments = if is_object { whole.to_owned() } else { "{}".to_owned() };
                    call.broken = !is_object;
                }
            }
            None if is_object => {
                scribe.start(native, &self.name, whole, &self.here, self.parent)?;
            }
            None => {
                let at = scribe.start(native, &self.name, "{}", &self.here, self.parent)?;
                if let Some(call) = scribe.calls.get_mut(at) {
                    call.broken = true;
                }
            }
        }
        Ok(())
    }
}

/// Finds the end of a JSON object without reading anything twice.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    complete: bool,
}

impl Scan {
    fn see(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.complete |= self.depth == 0;
                }
                _ => {}
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_complete_with_its_last_brace() {
        let text = r#" {"a":"}\"}","b":[{"c":{}}]}"#;
        let last = text.len() - 1;
        for at in 0..=text.len() {
            let mut scan = Scan::default();
            scan.see(&text[..at]);
            assert_eq!(scan.is_complete(), at > last, "{at}");
        }
    }
}
