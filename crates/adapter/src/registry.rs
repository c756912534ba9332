//! The harnesses there are: names and aliases, what each can do, and how its adapter is made.
//!
//! A harness that is not listed as available is named all the same, with the reason: a catalogue that hides what is
//! missing misleads.

use std::sync::Arc;

use causeway_contract::event::Decision;
use causeway_lifecycle::ToolSchemas;

use crate::adapter::Adapter;
use crate::checked::Checked;
use crate::ids::Ids;
use crate::recording::Split;
use crate::turn::{Answer, AnswerError, Decided, Edited, Options, Turn};

/// The one harness whose processes the engine talks to in their own words.
pub use crate::claude_agent_sdk::catalogue::stream_json;

/// How well a harness does something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// The harness does it itself.
    Native,
    /// Causeway does it for the harness.
    Emulated,
    /// It cannot be done with this harness.
    Unsupported,
    /// It could be done, but this build does not have it.
    Unavailable,
}

impl Level {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
        }
    }
}

/// One thing a harness may be able to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Capability {
    /// What.
    pub name: &'static str,
    /// How well.
    pub level: Level,
    /// A sentence that says how, or why not.
    pub note: &'static str,
    /// The recording that shows it, under `tests/data/recordings`.
    pub proof: Option<&'static str>,
}

impl Capability {
    /// The same with the recording that shows it.
    pub(crate) const fn shown_by(mut self, recording: &'static str) -> Self {
        self.proof = Some(recording);
        self
    }
}

/// A harness of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Harness {
    /// The canonical `harness_id`.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// What it can do.
    pub capabilities: &'static [Capability],
    pub(crate) make: fn(Turn, Options, Box<dyn Ids>) -> Box<dyn Adapter>,
    pub(crate) resume: fn(&str, &Answer) -> Result<String, AnswerError>,
    pub(crate) answer: fn(&str, &[u8], &Options) -> Option<Answer>,
    pub(crate) edits: fn(&str, &Answer) -> Vec<Edited>,
    pub(crate) split: fn() -> Box<dyn Split>,
}

impl Harness {
    /// An adapter for one turn, behind the yield validator.
    pub fn adapter(&self, turn: Turn, options: Options, ids: Box<dyn Ids>) -> Box<dyn Adapter> {
        self.informed_adapter(turn, options, ids, None)
    }

    /// The same, where the schemas of tools are known.
    pub fn informed_adapter(
        &self,
        turn: Turn,
        options: Options,
        ids: Box<dyn Ids>,
        schemas: Option<Arc<dyn ToolSchemas>>,
    ) -> Box<dyn Adapter> {
        let limits = options.limits.clone();
        Box::new(Checked::new((self.make)(turn, options, ids), limits).schemas(schemas))
    }

    /// What the edits of an answer make of their calls; `private` is that of the interrupted run's state.
    pub fn edits(&self, private: &str, answer: &Answer) -> Vec<Edited> {
        (self.edits)(private, answer)
    }

    /// The value that makes the harness go on, as JSON; `private` is that of the interrupted run's state.
    ///
    /// # Errors
    /// The answer does not fit what the interrupt asked.
    pub fn resume_value(&self, private: &str, answer: &Answer) -> Result<String, AnswerError> {
        (self.resume)(private, answer)
    }

    /// The answer behind a resume value that a recording repeats; `None` where it cannot be told.
    pub fn answer_of(&self, private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
        (self.answer)(private, resume_value, options)
    }

    /// Cuts a recording of it into turns.
    pub fn splitter(&self) -> Box<dyn Split> {
        (self.split)()
    }

    /// What it does of that name.
    pub fn capability(&self, name: &str) -> Option<&'static Capability> {
        self.capabilities.iter().find(|capability| capability.name == name)
    }
}

/// For harnesses whose calls cannot be edited.
pub(crate) fn no_edits(_private: &str, _answer: &Answer) -> Vec<Edited> {
    Vec::new()
}

/// For harnesses that take edited arguments as they are given.
pub(crate) fn edits_as_given(_private: &str, answer: &Answer) -> Vec<Edited> {
    let Answer::Decisions(decisions) = answer else { return Vec::new() };
    let edited = |one: &Decided| {
        let arguments = one.edited_args.as_ref().filter(|_| one.decision == Decision::Edit)?;
        Some(Edited::Arguments {
            tool_call_id: one.tool_call_id.clone(),
            arguments: arguments.as_str().to_owned(),
        })
    };
    decisions.iter().filter_map(edited).collect()
}

/// Every harness with an adapter: a line for each.
pub const HARNESSES: &[Harness] = &[
    crate::deepagents::catalogue::ENTRY,
    crate::claude_agent_sdk::catalogue::ENTRY,
    crate::strands::catalogue::ENTRY,
    crate::anthropic_messages::catalogue::ENTRY,
    crate::bedrock_converse::catalogue::ENTRY,
    crate::agentcore::catalogue::ENTRY,
    crate::openai::catalogue::RESPONSES,
    crate::openai::catalogue::CHAT,
    crate::openai::catalogue::AGENTS,
    crate::agui::catalogue::ENTRY,
    crate::canonical::catalogue::ENTRY,
];

/// The harness with this name or alias.
pub fn find(name: &str) -> Option<&'static Harness> {
    HARNESSES.iter().find(|harness| harness.id == name || harness.aliases.contains(&name))
}

/// The value that makes a harness go on.
///
/// # Errors
/// There is no such harness, or the answer does not fit what the interrupt asked.
pub fn resume_value(harness: &str, private: &str, answer: &Answer) -> Result<String, AnswerError> {
    let found = find(harness).ok_or_else(|| AnswerError::NoAnswers { harness: harness.to_owned() })?;
    found.resume_value(private, answer)
}

/// One line of a harness's catalogue.
pub(crate) const fn can(name: &'static str, level: Level, note: &'static str) -> Capability {
    Capability { name, level, note, proof: None }
}

#[cfg(test)]
mod tests {
    use causeway_contract::id::Name;

    use super::*;
    use crate::ids::SeededIds;

    #[test]
    fn a_harness_is_found_by_its_id_and_its_alias() {
        for name in ["deepagents", "langgraph"] {
            let harness = find(name).unwrap();
            assert_eq!(harness.id, "deepagents");
            let options = Options::new(Name::new("agent").unwrap());
            let mut adapter = harness.adapter(Turn::Start, options, Box::new(SeededIds::new(1)));
            assert!(adapter.poll().is_some(), "run.started waits");
        }
        assert!(find("Deepagents").is_none());
        assert_eq!(find("deepagents").unwrap().capability("cost").unwrap().level, Level::Unsupported);
    }
}
