//! What a non-streaming answer consists of (goldens §8).

use causeway_contract::event::{Event, EventData};

use crate::seed::{Hidden, Seed};

/// Collects the text of one run: what follows the last tool start is the answer, what came before it the thinking.
#[derive(Clone, Debug, Default)]
pub struct Accumulated {
    text: String,
    /// Where the answer starts.
    mark: usize,
    hidden: Hidden,
}

impl Accumulated {
    /// For a run that is not a resumed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a resumed run: a start that the seed hides is none.
    pub fn resumed(seed: &Seed) -> Self {
        Self { hidden: Hidden::new(seed), ..Self::default() }
    }

    /// Takes the next event of the run.
    pub fn observe(&mut self, event: &Event<'_>) {
        match &event.data {
            EventData::TextDelta(data) => self.text.push_str(&data.delta),
            EventData::ToolStarted(data) => {
                if !self.hidden.start(&data.tool_call_id) {
                    self.mark = self.text.len();
                }
            }
            EventData::RunStarted(_)
            | EventData::RunFinished(_)
            | EventData::RunInterrupted(_)
            | EventData::RunCancelled(_)
            | EventData::RunError(_)
            | EventData::TextStarted(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::ToolFinished(_)
            | EventData::ToolError(_)
            | EventData::InterruptRequested(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => {}
        }
    }

    /// The text after the last tool start.
    pub fn content(&self) -> &str {
        self.text.get(self.mark..).unwrap_or("")
    }

    /// The text before it, or `None` if there is none.
    pub fn thinking(&self) -> Option<&str> {
        self.text.get(..self.mark).filter(|text| !text.is_empty())
    }
}
