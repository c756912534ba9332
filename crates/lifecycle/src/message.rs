//! R05: a text or reasoning id starts before its deltas and finishes at most once. The two kinds are separate id
//! spaces. Not finishing is legal; lint L01 says so.

use std::fmt;

use causeway_contract::event::{EventData, EventType, ReasoningStarted, TextStarted};

use crate::budget::Budget;
use crate::table::{Slot, Table};
use crate::violation::Violation;

/// Which of the two id spaces a message belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MessageKind {
    /// `text.*`
    Text,
    /// `reasoning.*`
    Reasoning,
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
        })
    }
}

/// The life of one message:
///
/// ```text
///            started          finished
/// (unused) ──────────▶ Open ────────────▶ Finished
///                      │  ▲
///                      └──┘ delta
/// ```
#[derive(Clone, Copy, Debug)]
enum Message {
    Open {
        /// Bytes of all deltas so far (R11).
        bytes: usize,
    },
    Finished,
}

/// What an accepted event does to the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Start,
    Delta { slot: Slot, added: usize },
    Finish { slot: Slot },
}

/// Every message of the run.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    text: Table<Message>,
    reasoning: Table<Message>,
}

impl Messages {
    pub(crate) fn new() -> Self {
        Self { text: Table::new(), reasoning: Table::new() }
    }

    pub(crate) fn check_start(
        &self,
        kind: MessageKind,
        id: &str,
        budget: &Budget,
    ) -> Result<Step, Violation> {
        if self.space(kind).find(id).is_some() {
            return Err(Violation::MessageReused { kind, id: id.to_owned() });
        }
        budget.check_messages(self.text.len().saturating_add(self.reasoning.len()))?;
        Ok(Step::Start)
    }

    pub(crate) fn check_delta(
        &self,
        kind: MessageKind,
        id: &str,
        delta: &str,
        budget: &Budget,
    ) -> Result<Step, Violation> {
        let (slot, bytes) = self.open(kind, id, delta_type(kind))?;
        budget.check_text(kind, id, bytes, delta.len())?;
        Ok(Step::Delta { slot, added: delta.len() })
    }

    pub(crate) fn check_finish(&self, kind: MessageKind, id: &str) -> Result<Step, Violation> {
        let (slot, _) = self.open(kind, id, finish_type(kind))?;
        Ok(Step::Finish { slot })
    }

    pub(crate) fn apply(&mut self, kind: MessageKind, step: Step, data: &EventData<'_>, budget: &mut Budget) {
        let space = match kind {
            MessageKind::Text => &mut self.text,
            MessageKind::Reasoning => &mut self.reasoning,
        };
        match step {
            Step::Start => {
                if let EventData::TextStarted(TextStarted { message_id })
                | EventData::ReasoningStarted(ReasoningStarted { message_id, .. }) = data
                {
                    space.insert(message_id.clone().into_shared(), Message::Open { bytes: 0 });
                }
            }
            Step::Delta { slot, added } => {
                if let Some(Message::Open { bytes }) = space.touch(slot) {
                    *bytes = bytes.saturating_add(added);
                }
                budget.apply_text(added);
            }
            Step::Finish { slot } => {
                if let Some(message) = space.touch(slot) {
                    *message = Message::Finished;
                }
            }
        }
    }

    /// Messages that have started and not finished: text in order of their start, then reasoning.
    pub(crate) fn iter_open(&self) -> impl Iterator<Item = (MessageKind, &str)> {
        let open = |kind: MessageKind| {
            self.space(kind).iter().filter_map(move |(id, message)| match message {
                Message::Open { .. } => Some((kind, id)),
                Message::Finished => None,
            })
        };
        open(MessageKind::Text).chain(open(MessageKind::Reasoning))
    }

    fn open(&self, kind: MessageKind, id: &str, event: EventType) -> Result<(Slot, usize), Violation> {
        match self.space(kind).lookup(id) {
            Some((slot, Message::Open { bytes })) => Ok((slot, *bytes)),
            Some((_, Message::Finished)) => {
                Err(Violation::MessageFinished { kind, id: id.to_owned(), event })
            }
            None => Err(Violation::MessageNotStarted { kind, id: id.to_owned(), event }),
        }
    }

    fn space(&self, kind: MessageKind) -> &Table<Message> {
        match kind {
            MessageKind::Text => &self.text,
            MessageKind::Reasoning => &self.reasoning,
        }
    }
}

fn delta_type(kind: MessageKind) -> EventType {
    match kind {
        MessageKind::Text => EventType::TextDelta,
        MessageKind::Reasoning => EventType::ReasoningDelta,
    }
}

fn finish_type(kind: MessageKind) -> EventType {
    match kind {
        MessageKind::Text => EventType::TextFinished,
        MessageKind::Reasoning => EventType::ReasoningFinished,
    }
}
