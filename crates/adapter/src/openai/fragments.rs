//! Calls of the caller's tools whose arguments arrive in pieces.
//!
//! Nobody here runs them: arguments that are no JSON object when they are complete end the call at once.

use causeway_contract::id::MessageId;
use causeway_contract::json::check_object;
use causeway_contract::namespace::Namespace;

use crate::adapter::ItemError;
use crate::json::JsonStr;
use crate::project::INVALID_ARGUMENTS;
use crate::scribe::{End, Scribe};
use crate::text::Stream;

/// A call whose arguments are arriving.
#[derive(Debug)]
pub(super) struct Fragments {
    /// Its index in the answer.
    pub index: u64,
    /// Its id.
    pub native: String,
    name: String,
    namespace: Namespace<'static>,
    /// Its place, once started.
    call: Option<usize>,
    /// The pieces so far; native JSON text.
    text: String,
    stream: Stream,
}

impl Fragments {
    /// A call begins; with `stream_arguments` its start is told at once.
    pub(super) fn new(
        index: u64,
        native: String,
        name: String,
        parent: Option<MessageId<'static>>,
        namespace: &Namespace<'static>,
        scribe: &mut Scribe,
    ) -> Self {
        let streamed = scribe.options.stream_arguments;
        let call = streamed.then(|| scribe.start_streamed(&native, &name, namespace, parent));
        let namespace = namespace.clone();
        Self { index, namespace, native, name, call, text: String::new(), stream: Stream::default() }
    }

    /// Takes a piece.
    pub(super) fn push(&mut self, piece: &JsonStr<'_>, scribe: &mut Scribe) {
        let piece = self.stream.push(piece, &scribe.options);
        self.add(&piece, scribe);
    }

    fn add(&mut self, piece: &str, scribe: &mut Scribe) {
        if self.text.len().saturating_add(piece.len())
            > scribe.options.limits.arguments_bytes.saturating_mul(2)
        {
            return; // far beyond what the contract allows; it fails when it is complete
        }
        self.text.push_str(piece);
        if let Some(call) = self.call {
            scribe.argument_delta(call, piece);
        }
    }

    /// The arguments are complete; `whole` is what the provider says they are, if it does.
    ///
    /// # Errors
    /// They cannot stand in an event.
    pub(super) fn settle(
        mut self,
        whole: Option<&JsonStr<'_>>,
        parent: Option<MessageId<'static>>,
        scribe: &mut Scribe,
    ) -> Result<(), ItemError> {
        let rest = self.stream.end().unwrap_or_default();
        self.add(rest, scribe);
        if let Some(whole) = whole.map(JsonStr::lossy).filter(|whole| !whole.trim().is_empty()) {
            match self.call {
                None => self.text = whole.into_owned(),
                Some(_) if self.text.is_empty() => self.add(&whole, scribe),
                Some(_) => {}
            }
        }
        if self.text.trim().is_empty() {
            self.add("{}", scribe);
        }
        let valid = check_object(&self.text, &scribe.options.limits).is_ok();
        match self.call {
            None if valid => {
                scribe.start(&self.native, &self.name, &self.text, &self.namespace, parent)?;
            }
            None => {
                let at = scribe.start_streamed(&self.native, &self.name, &self.namespace, parent);
                scribe.finish(at, End::Failed("tool_arguments_invalid", INVALID_ARGUMENTS));
            }
            Some(at) if valid => {
                if let Some(call) = scribe.calls.get_mut(at) {
                    call.broken = false;
                    call.arguments = self.text;
                }
            }
            Some(at) => scribe.finish(at, End::Failed("tool_arguments_invalid", INVALID_ARGUMENTS)),
        }
        Ok(())
    }
}
