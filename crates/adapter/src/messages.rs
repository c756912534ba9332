//! Open text and reasoning messages, keyed by the first element of the namespace (goldens §9.1 and §9.2).
//!
//! A message starts right before its first character and never earlier; nothing is closed on failure or cancel.

use std::collections::VecDeque;

use causeway_contract::event::{
    EventDraft, ReasoningDelta, ReasoningFinished, ReasoningStarted, TextDelta, TextFinished, TextStarted,
};
use causeway_contract::id::{InvocationId, MessageId};
use causeway_contract::namespace::Namespace;

use crate::adapter::Output;
use crate::ids::Ids;
use crate::json::JsonStr;
use crate::text::{Stream, split};
use crate::turn::Options;

/// Which of the two id spaces a message belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    /// `text.*`
    Text,
    /// `reasoning.*`
    Reasoning,
}

#[derive(Debug)]
struct Open {
    id: MessageId<'static>,
    namespace: Namespace<'static>,
}

#[derive(Debug, Default)]
struct Slot {
    open: Option<Open>,
    stream: Stream,
}

/// The messages of one outermost namespace; the root's have no key.
#[derive(Debug, Default)]
struct Line {
    key: Option<InvocationId<'static>>,
    text: Slot,
    reasoning: Slot,
}

/// All open messages, in the order in which their keys first opened one.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    lines: Vec<Line>,
}

impl Messages {
    /// Adds pieces to the message of that kind which is open for the namespace's key, opening one if need be.
    pub(crate) fn push(
        &mut self,
        kind: Kind,
        namespace: &Namespace<'static>,
        pieces: &[&JsonStr<'_>],
        options: &Options,
        ids: &mut dyn Ids,
        out: &mut VecDeque<Output>,
    ) {
        let line = self.line(namespace);
        let slot = if kind == Kind::Text { &mut line.text } else { &mut line.reasoning };
        let delta: String = pieces.iter().map(|piece| slot.stream.push(piece, options)).collect();
        if delta.is_empty() {
            return;
        }
        if kind == Kind::Text {
            line.reasoning.close(Kind::Reasoning, out);
        }
        let slot = if kind == Kind::Text { &mut line.text } else { &mut line.reasoning };
        let id = match &slot.open {
            Some(open) => open.id.clone(),
            None => {
                let id = ids.next_message();
                slot.open = Some(Open { id: id.clone(), namespace: namespace.clone() });
                out.push_back(Output::Draft(started(kind, &id, namespace)));
                id
            }
        };
        for piece in split(&delta, options.limits.delta_bytes) {
            out.push_back(Output::Draft(delta_of(kind, &id, namespace, piece)));
        }
    }

    /// Closes what is open for the namespace's key; gives the id of the text message that was.
    pub(crate) fn close(
        &mut self,
        namespace: &Namespace<'static>,
        out: &mut VecDeque<Output>,
    ) -> Option<MessageId<'static>> {
        let key = namespace.path().first();
        let line = self.lines.iter_mut().find(|line| line.key.as_ref() == key)?;
        line.reasoning.close(Kind::Reasoning, out);
        line.text.close(Kind::Text, out)
    }

    /// The id of the open text message of the namespace's key.
    pub(crate) fn open_text(&self, namespace: &Namespace<'static>) -> Option<MessageId<'static>> {
        let key = namespace.path().first();
        let line = self.lines.iter().find(|line| line.key.as_ref() == key)?;
        line.text.open.as_ref().map(|open| open.id.clone())
    }

    /// Closes the messages that were started in exactly this namespace.
    pub(crate) fn close_started_in(&mut self, namespace: &Namespace<'static>, out: &mut VecDeque<Output>) {
        for line in &mut self.lines {
            let inside = |slot: &Slot| slot.open.as_ref().is_some_and(|open| open.namespace == *namespace);
            if inside(&line.reasoning) {
                line.reasoning.close(Kind::Reasoning, out);
            }
            if inside(&line.text) {
                line.text.close(Kind::Text, out);
            }
        }
    }

    /// Closes everything, in the order in which the keys first opened a message.
    pub(crate) fn close_all(&mut self, out: &mut VecDeque<Output>) {
        for line in &mut self.lines {
            line.reasoning.close(Kind::Reasoning, out);
            line.text.close(Kind::Text, out);
        }
    }

    fn line(&mut self, namespace: &Namespace<'static>) -> &mut Line {
        let key = namespace.path().first();
        let at = match self.lines.iter().position(|line| line.key.as_ref() == key) {
            Some(at) => at,
            None => {
                self.lines.push(Line { key: key.cloned(), ..Line::default() });
                self.lines.len() - 1
            }
        };
        &mut self.lines[at]
    }
}

impl Slot {
    fn close(&mut self, kind: Kind, out: &mut VecDeque<Output>) -> Option<MessageId<'static>> {
        let rest = self.stream.end();
        self.stream = Stream::default();
        let Open { id, namespace } = self.open.take()?;
        if let Some(rest) = rest {
            out.push_back(Output::Draft(delta_of(kind, &id, &namespace, rest)));
        }
        out.push_back(Output::Draft(match kind {
            Kind::Text => EventDraft::at(namespace, TextFinished { message_id: id.clone() }),
            Kind::Reasoning => EventDraft::at(namespace, ReasoningFinished { message_id: id.clone() }),
        }));
        Some(id)
    }
}

fn started(kind: Kind, id: &MessageId<'static>, namespace: &Namespace<'static>) -> EventDraft<'static> {
    match kind {
        Kind::Text => EventDraft::at(namespace.clone(), TextStarted { message_id: id.clone() }),
        Kind::Reasoning => {
            EventDraft::at(namespace.clone(), ReasoningStarted { message_id: id.clone(), role: true })
        }
    }
}

fn delta_of(
    kind: Kind,
    id: &MessageId<'static>,
    namespace: &Namespace<'static>,
    delta: &str,
) -> EventDraft<'static> {
    let (message_id, delta) = (id.clone(), delta.to_owned().into());
    match kind {
        Kind::Text => EventDraft::at(namespace.clone(), TextDelta { message_id, delta }),
        Kind::Reasoning => EventDraft::at(namespace.clone(), ReasoningDelta { message_id, delta }),
    }
}
