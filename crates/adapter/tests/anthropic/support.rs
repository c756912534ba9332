//! Drives an adapter the way a coordinator does, and holds every draft against the yield validator.

use std::path::{Path, PathBuf};

use causeway_adapter::adapter::{Adapter, Close, ItemError, Output, State};
use causeway_adapter::json::Json;
use causeway_adapter::recording::turns_with;
use causeway_adapter::registry;
use causeway_adapter::turn::{OpenCall, Options, Resume, Turn};
use causeway_adapter::worker::Op;
use causeway_contract::event::{EventData, EventDraft, NamespaceOutcome};
use causeway_contract::id::{Name, ToolCallId};
use causeway_contract::limits::Limits;
use causeway_lifecycle::validator::{Boundary, Thread, Validator};

/// One recording: harness, name, expectations, lines, what was sent.
pub struct Recording {
    pub harness: &'static str,
    pub name: String,
    pub expected: String,
    pub lines: Vec<u8>,
    pub sent: Vec<u8>,
}

fn data(folder: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data")).join(folder)
}

/// All recordings of this test's harnesses.
pub fn recordings() -> Vec<Recording> {
    let mut all = Vec::new();
    for &(folder, native, harness) in crate::SOURCES {
        let folder = data(folder);
        let index = std::fs::read(folder.join("index.json")).unwrap();
        for entry in Json::parse(&index).unwrap().items() {
            let name = entry.text("name").unwrap();
            if entry.text("harness") != Some(native) {
                continue;
            }
            all.push(Recording {
                harness,
                name: name.to_owned(),
                expected: entry.get("expected").unwrap().to_text(),
                lines: std::fs::read(folder.join(entry.text("file").unwrap())).unwrap(),
                sent: std::fs::read(folder.join(format!("{name}.stdin.jsonl"))).unwrap_or_default(),
            });
        }
    }
    assert_eq!(all.len(), crate::RECORDINGS);
    all
}

/// One recording by its name.
pub fn recording(name: &str) -> Recording {
    recordings().into_iter().find(|recording| recording.name == name).unwrap()
}

pub fn options() -> Options {
    Options::new(Name::new("agent").unwrap())
}

/// One run and what came out of it.
pub struct Run {
    adapter: Box<dyn Adapter>,
    pub drafts: Vec<EventDraft<'static>>,
    pub states: Vec<State>,
    validator: Validator,
}

impl Run {
    pub fn new(harness: &str, turn: Turn, options: Options) -> Self {
        let validator = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT).offline();
        let adapter = crate::adapter(harness, turn, options);
        let mut run = Self { adapter, drafts: Vec::new(), states: Vec::new(), validator };
        run.drain();
        run
    }

    pub fn line(&mut self, line: &[u8]) -> Result<(), ItemError> {
        let result = self.adapter.handle(line);
        self.drain();
        result
    }

    pub fn close(mut self) -> Self {
        self.adapter.close(Close::End);
        self.drain();
        self
    }

    fn drain(&mut self) {
        while let Some(output) = self.adapter.poll() {
            match output {
                Output::Draft(draft) => {
                    draft.check(&Limits::DEFAULT).unwrap_or_else(|error| panic!("{draft:?}: {error}"));
                    if let Err(violation) = self.validator.accept_draft(&draft, draft.data.encoded_len()) {
                        panic!("draft {} {draft:?}: {violation}", self.drafts.len());
                    }
                    self.drafts.push(draft);
                }
                Output::State(state) => self.states.push(state),
                Output::Result(_) => {}
            }
        }
    }

    pub fn terminal(&self) -> Option<&EventData<'static>> {
        self.drafts.last().map(|draft| &draft.data).filter(|data| data.is_terminal())
    }

    /// The code of `run.error`.
    pub fn code(&self) -> Option<&str> {
        match self.terminal()? {
            EventData::RunError(error) => Some(error.code.as_str()),
            _ => None,
        }
    }

    /// Types and the gist of the events, for whole comparisons.
    pub fn text(&self) -> String {
        self.drafts.iter().map(|draft| format!("{draft:?}\n")).collect()
    }

    /// What a resumed run is told.
    pub fn left(&self) -> Resume {
        let mut open: Vec<OpenCall> = Vec::new();
        let mut delegations: Vec<ToolCallId<'static>> = Vec::new();
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
        let private = self.states.last().map(|state| state.private.clone());
        Resume { open_calls: open, delegations, answer: None, private }
    }
}

/// Plays all turns of a recording; a resumed one is told what its run before left, and what was answered.
pub fn play(harness: &str, lines: &[u8], sent: &[u8], options: &Options) -> Vec<Run> {
    let (runs, refused) = try_play(harness, lines, sent, options);
    assert_eq!(refused, None);
    runs
}

/// The same, where a line may be refused: its run ends there.
pub fn try_play(
    harness: &str,
    lines: &[u8],
    sent: &[u8],
    options: &Options,
) -> (Vec<Run>, Option<ItemError>) {
    let found = registry::find(harness).unwrap();
    let mut splitter = found.splitter();
    splitter.sent(sent);
    let mut runs: Vec<Run> = Vec::new();
    for turn in turns_with(&mut *splitter, lines.split(|byte| *byte == b'\n')) {
        let mut start = Turn::Start;
        if turn.head.op == Op::Resume {
            let mut left = runs.last().unwrap().left();
            let given = turn.head.resume.as_ref().zip(left.private.as_ref());
            left.answer =
                given.and_then(|(value, private)| found.answer_of(private, value.as_bytes(), options));
            start = Turn::Resume(left);
        }
        let mut run = Run::new(harness, start, options.clone());
        if let Some(error) = turn.lines.iter().find_map(|line| run.line(line).err()) {
            runs.push(run);
            return (runs, Some(error));
        }
        runs.push(run.close());
    }
    (runs, None)
}
