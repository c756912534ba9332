//! Drives an adapter the way a coordinator does: numbers its drafts and holds each against the yield validator.

use std::path::{Path, PathBuf};

use causeway_adapter::adapter::{Adapter, Close, ItemError, Output, State};
use causeway_adapter::deepagents::DeepAgents;
use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{OpenCall, Options, Turn};
use causeway_contract::event::{EventData, EventDraft, NamespaceOutcome};
use causeway_contract::id::{Name, ToolCallId};
use causeway_contract::limits::Limits;
use causeway_lifecycle::validator::{Boundary, Thread, Validator};

/// The folder of the test data.
pub fn data(folder: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data")).join(folder)
}

pub fn options() -> Options {
    Options::new(Name::new("agent").unwrap())
}

/// One run: an adapter and what came out of it.
pub struct Run {
    pub adapter: DeepAgents,
    pub drafts: Vec<EventDraft<'static>>,
    pub states: Vec<State>,
    validator: Validator,
}

impl Run {
    pub fn new(turn: Turn, options: Options, seed: u64) -> Self {
        let adapter = DeepAgents::new(turn, options, Box::new(SeededIds::new(seed)));
        let validator = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT).offline();
        let mut run = Self { adapter, drafts: Vec::new(), states: Vec::new(), validator };
        run.drain();
        run
    }

    /// Takes one line and everything the adapter makes of it.
    pub fn line(&mut self, line: &[u8]) -> Result<(), ItemError> {
        let result = self.adapter.handle(line);
        self.drain();
        result
    }

    pub fn close(&mut self) {
        self.adapter.close(Close::End);
        self.drain();
    }

    /// Puts in an event of the engine.
    pub fn engine(&mut self, draft: EventDraft<'static>) {
        self.accept(draft);
    }

    fn drain(&mut self) {
        while let Some(output) = self.adapter.poll() {
            match output {
                Output::Draft(draft) => self.accept(draft),
                Output::State(state) => self.states.push(state),
                Output::Result(_) => {}
            }
        }
    }

    fn accept(&mut self, draft: EventDraft<'static>) {
        draft.check(&Limits::DEFAULT).unwrap_or_else(|error| panic!("{draft:?}: {error}"));
        let mut json = Vec::new();
        draft.data.write_json(&mut json);
        if let Err(violation) = self.validator.accept_draft(&draft, json.len()) {
            panic!("draft {} {draft:?}: {violation}", self.drafts.len());
        }
        self.drafts.push(draft);
    }

    pub fn terminal(&self) -> Option<&EventData<'static>> {
        self.drafts.last().map(|draft| &draft.data).filter(|data| data.is_terminal())
    }

    /// What a resumed run is told: the calls left open, and those of them that were interrupted inside.
    pub fn left_open(&self) -> (Vec<OpenCall>, Vec<ToolCallId<'static>>) {
        let mut open: Vec<OpenCall> = Vec::new();
        let mut delegations = Vec::new();
        for draft in &self.drafts {
            match &draft.data {
                EventData::ToolStarted(call) => open.push(OpenCall {
                    id: call.tool_call_id.clone(),
                    name: call.tool_name.clone(),
                    arguments: call.arguments.clone(),
                    namespace: draft.namespace.clone(),
                }),
                EventData::ToolFinished(end) => open.retain(|call| call.id != end.tool_call_id),
                EventData::ToolError(end) => open.retain(|call| call.id != end.tool_call_id),
                EventData::NamespaceExited(exit) if exit.outcome == NamespaceOutcome::Interrupted => {
                    delegations.push(exit.parent_tool_call_id.clone());
                }
                _ => {}
            }
        }
        (open, delegations)
    }
}
