//! Items of mode `messages`: text, reasoning, usage, provider metadata, and pieces of arguments where they are wanted.

use causeway_contract::event::{ToolArgumentsDelta, ToolStarted};
use causeway_contract::json::JsonObject;
use causeway_contract::namespace::Namespace;

use super::DeepAgents;
use super::arguments::Arriving;
use super::metadata::Provider;
use super::native::{counts, has_calls, is_model, is_piece, is_summary, reasoning_pieces, text_pieces};
use crate::adapter::ItemError;
use crate::json::{Json, JsonStr};
use crate::messages::Kind;
use crate::text::{Stream, split};

impl DeepAgents {
    pub(super) fn message(
        &mut self,
        source: &[Json<'_>],
        message: &Json<'_>,
        metadata: Option<&Json<'_>>,
    ) -> Result<(), ItemError> {
        if !is_model(message) {
            return Ok(());
        }
        let namespace = self.spaces.resolve(source);
        let summary = is_summary(message, metadata);
        if !summary {
            self.say(Kind::Reasoning, &namespace, &reasoning_pieces(message));
            if has_calls(message) {
                if self.options.stream_arguments && is_piece(message) {
                    self.fragments(source, &namespace, message)?;
                }
            } else {
                self.say(Kind::Text, &namespace, &text_pieces(message));
            }
            if namespace.is_root()
                && let Some(wants) = Provider::wants_tools(message)
            {
                self.promised = wants;
            }
        }
        let root = namespace.is_root() && !summary;
        if let Some(event) = self.provider.learn(message, metadata, root, &self.options.limits) {
            self.draft(namespace.clone(), event);
        }
        let counts = counts(message);
        if !counts.is_unknown() {
            self.totals.add(counts);
            let event = self.totals.event(false);
            self.draft(namespace, event);
        }
        Ok(())
    }

    fn say(&mut self, kind: Kind, namespace: &Namespace<'static>, pieces: &[&JsonStr<'_>]) {
        self.messages.push(kind, namespace, pieces, &self.options, &mut *self.ids, &mut self.out);
    }

    /// Pieces of arguments: only the first names the call, the others have its index.
    fn fragments(
        &mut self,
        source: &[Json<'_>],
        namespace: &Namespace<'static>,
        message: &Json<'_>,
    ) -> Result<(), ItemError> {
        for fragment in message.list("tool_call_chunks") {
            let index = Arriving::index_of(fragment);
            let named = fragment
                .str("id")
                .zip(fragment.str("name"))
                .filter(|(id, name)| !id.is_empty() && !name.is_empty());
            if let Some((id, name)) = named {
                let native = id.lossy().into_owned();
                while let Some(at) = self.arriving.iter().position(|one| one.takes(source, &index)) {
                    let unfinished = self.arriving.remove(at);
                    self.settle_one(unfinished);
                }
                let parent = self.messages.open_text(namespace);
                let call = self.new_call(&native, &name.lossy(), None, namespace, message.text("id"))?;
                self.promised &= !namespace.is_root();
                self.draft(
                    namespace.clone(),
                    ToolStarted {
                        tool_call_id: call.id.clone(),
                        tool_name: call.name.clone(),
                        arguments: JsonObject::EMPTY,
                        parent_message_id: parent,
                    },
                );
                let call = self.calls.add(call);
                let source =
                    source.iter().filter_map(|s| s.as_str()).map(|s| s.lossy().into_owned()).collect();
                let (text, stream) = (String::new(), Stream::default());
                self.arriving.push(Arriving { source, index: index.clone(), native, call, text, stream });
            }
            let Some(piece) = fragment.str("args") else { continue };
            let Some(at) = self.arriving.iter().position(|one| one.takes(source, &index)) else { continue };
            let Some(one) = self.arriving.get_mut(at) else { continue };
            let delta = one.stream.push(piece, &self.options);
            one.text.push_str(&delta);
            let call = one.call;
            self.argument_delta(call, &delta);
        }
        Ok(())
    }

    pub(super) fn argument_delta(&mut self, call: usize, delta: &str) {
        let Some(call) = self.calls.get(call) else { return };
        let (id, namespace) = (call.id.clone(), self.spaces.innermost(&call.namespace));
        for piece in split(delta, self.options.limits.delta_bytes) {
            let data = ToolArgumentsDelta { tool_call_id: id.clone(), delta: piece.to_owned().into() };
            self.draft(namespace.clone(), data);
        }
    }
}
