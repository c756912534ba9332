//! Which adapter translates an agent's harness.
//!
//! Refuses harnesses that the adapter registry does not know.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_adapter::recording::Split;
use causeway_adapter::registry::{self, Harness};
use causeway_adapter::turn::{Answer, AnswerError, Edited, Options};
use causeway_adapter::{Adapter, Output, Turn};
use causeway_contract::event::{EventData, EventDraft, RunStarted};
use causeway_contract::id::HarnessId;
use causeway_lifecycle::ToolSchemas;

use crate::clock::UuidIds;
use crate::config::AgentConfig;
use crate::error::{Error, OpenError};
use crate::gate::verdicts::{self, Verdict};

/// Makes the adapters of one agent.
pub(crate) struct Translator {
    harness: &'static Harness,
    harness_id: HarnessId<'static>,
    options: Options,
    /// For streamed arguments.
    schemas: Option<Arc<dyn ToolSchemas>>,
}

/// An adapter, and its first word.
pub(crate) struct Opening {
    pub adapter: Box<dyn Adapter>,
    pub draft: EventDraft<'static>,
    pub started: RunStarted<'static>,
}

impl Translator {
    /// The translator of an agent.
    ///
    /// # Errors
    /// No adapter knows its harness.
    pub(crate) fn of(agent: &AgentConfig) -> Result<Self, OpenError> {
        let unknown = || OpenError::UnknownHarness {
            agent: agent.id.to_string(),
            harness: agent.harness.clone(),
            known: registry::HARNESSES.iter().map(|harness| harness.id).collect::<Vec<_>>().join(", "),
        };
        let harness = registry::find(&agent.harness).ok_or_else(unknown)?;
        let harness_id = HarnessId::new(harness.id).map_err(|_| unknown())?;
        let name = agent.name.clone().unwrap_or_else(|| agent.id.clone());
        let options = Options::new(name)
            .stream_arguments(agent.stream_arguments)
            .strip_escapes(agent.strip_escapes)
            .redact_content(agent.redact_content)
            .limits(agent.limits.clone());
        // What is shown may differ from what runs where secrets or escapes are taken out: then it proves nothing.
        let as_it_runs = !agent.redact_content && !agent.strip_escapes && !agent.schemas.is_empty();
        let schemas = as_it_runs.then(|| Arc::new(agent.schemas.clone()) as Arc<dyn ToolSchemas>);
        Ok(Self { harness, harness_id, options, schemas })
    }

    /// The canonical name of the harness.
    pub(crate) fn harness_id(&self) -> HarnessId<'static> {
        self.harness_id.clone()
    }

    /// What cuts a recording of the harness into turns.
    pub(crate) fn splitter(&self) -> Box<dyn Split> {
        self.harness.splitter()
    }

    /// The native value that makes the harness go on with an answer; `private` is that of the interrupted run.
    ///
    /// # Errors
    /// The answer does not fit what the harness asked.
    pub(crate) fn resume_value(&self, private: &str, answer: &Answer) -> Result<String, AnswerError> {
        self.harness.resume_value(private, answer)
    }

    /// What the edits of an answer make of their calls.
    pub(crate) fn edits(&self, private: &str, answer: &Answer) -> Vec<Edited> {
        self.harness.edits(private, answer)
    }

    /// What the projections of the adapter go by.
    pub(crate) fn options(&self) -> Options {
        self.options.clone()
    }

    /// What an answer decides about calls that the gate may be asked for.
    pub(crate) fn verdicts(&self, turn: &Turn) -> BTreeMap<String, Verdict> {
        let Turn::Resume(resume) = turn else { return BTreeMap::new() };
        let edits = match (&resume.answer, &resume.private) {
            (Some(answer), Some(private)) => self.harness.edits(private, answer),
            (Some(_) | None, _) => Vec::new(),
        };
        verdicts::of(resume, &edits)
    }

    /// The schemas that streamed arguments must satisfy.
    pub(crate) fn schemas(&self) -> Option<Arc<dyn ToolSchemas>> {
        self.schemas.clone()
    }

    /// An adapter for one turn behind the yield check, with the `run.started` that it begins with.
    ///
    /// # Errors
    /// The adapter begins with something else: its fault.
    pub(crate) fn open(&self, turn: Turn) -> Result<Opening, Error> {
        let mut adapter = self.harness.informed_adapter(
            turn,
            self.options.clone(),
            Box::new(UuidIds),
            self.schemas.clone(),
        );
        match adapter.poll() {
            Some(Output::Draft(draft)) => match &draft.data {
                EventData::RunStarted(started) => {
                    let started = started.clone();
                    Ok(Opening { adapter, draft, started })
                }
                other => Err(Error::Fault(format!("an adapter began with {}", other.event_type()))),
            },
            Some(Output::State(_) | Output::Result(_)) | None => {
                Err(Error::Fault("an adapter began without run.started".to_owned()))
            }
        }
    }
}
