//! Drives an adapter behind the yield validator, as a coordinator does.

use std::path::{Path, PathBuf};

use causeway_adapter::adapter::{Adapter, Close, ItemError, Output, State};
use causeway_adapter::ids::SeededIds;
use causeway_adapter::json::Json;
use causeway_adapter::recording::turns_with;
use causeway_adapter::registry;
use causeway_adapter::turn::{Options, Turn};
use causeway_contract::event::{EventData, EventDraft};
use causeway_contract::id::Name;
use causeway_contract::limits::Limits;
use causeway_lifecycle::validator::{Boundary, Thread, Validator};

pub const CONVERSE: &str = "bedrock-converse";
pub const AGENTCORE: &str = "agentcore";

/// One recording: harness, name, expectations, lines, raw streams by call.
pub struct Recording {
    pub harness: &'static str,
    pub service: String,
    pub name: String,
    pub expected: String,
    pub lines: Vec<u8>,
    pub raw: Vec<Vec<u8>>,
}

impl Recording {
    /// Whether the end of the body is all there is of an end.
    pub fn is_runtime(&self) -> bool {
        self.service == "invoke_agent_runtime"
    }
}

fn folder() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings/bedrock")).to_owned()
}

/// All of them.
pub fn recordings() -> Vec<Recording> {
    let index = std::fs::read(folder().join("index.json")).unwrap();
    let all: Vec<Recording> = Json::parse(&index)
        .unwrap()
        .items()
        .iter()
        .map(|entry| {
            let read = |name: &str| std::fs::read(folder().join(name)).unwrap();
            let service = entry.text("harness").unwrap();
            Recording {
                harness: if service == "converse_stream" { CONVERSE } else { AGENTCORE },
                service: service.to_owned(),
                name: entry.text("name").unwrap().to_owned(),
                expected: entry.get("expected").unwrap().to_text(),
                lines: read(entry.text("file").unwrap()),
                raw: entry
                    .list("sidecars")
                    .iter()
                    .map(|name| read(&name.as_str().unwrap().lossy()))
                    .collect(),
            }
        })
        .collect();
    assert_eq!(all.len(), 17);
    all
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
    pub fn new(harness: &str, options: Options) -> Self {
        let adapter =
            registry::find(harness).unwrap().adapter(Turn::Start, options, Box::new(SeededIds::new(1)));
        let validator = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT).offline();
        let mut run = Self { adapter, drafts: Vec::new(), states: Vec::new(), validator };
        run.drain();
        run
    }

    /// Feeds an item. An event that breaks a rule is a fault of the adapter, whatever came.
    pub fn item(&mut self, item: &[u8]) -> Result<(), ItemError> {
        let result = self.adapter.handle(item);
        if let Err(error @ ItemError::Refused { .. }) = &result {
            panic!("{error}\n{}", self.text());
        }
        self.drain();
        result
    }

    pub fn close(self) -> Self {
        self.close_as(Close::End)
    }

    pub fn close_as(mut self, how: Close) -> Self {
        self.adapter.close(how);
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

    /// `success` and the stop reason, the code of an error, or nothing.
    pub fn end(&self) -> Option<String> {
        match self.terminal()? {
            EventData::RunError(error) => Some(error.code.as_str().to_owned()),
            EventData::RunFinished(end) => {
                Some(format!("success {}", end.stop_reason.as_deref().unwrap_or_default()))
            }
            EventData::RunCancelled(_) => Some("cancelled".to_owned()),
            other => panic!("{other:?}"),
        }
    }

    pub fn finished(&self) -> bool {
        matches!(self.terminal(), Some(EventData::RunFinished(_)))
    }

    pub fn text(&self) -> String {
        self.drafts.iter().map(|draft| format!("{draft:?}\n")).collect()
    }

    /// The joined text of messages.
    pub fn said(&self) -> String {
        let piece = |draft: &EventDraft<'static>| match &draft.data {
            EventData::TextDelta(piece) => Some(piece.delta.to_string()),
            _ => None,
        };
        self.drafts.iter().filter_map(piece).collect()
    }
}

/// Feeds items to one run and ends the stream.
pub fn run<I: AsRef<[u8]>>(harness: &str, items: impl IntoIterator<Item = I>) -> Run {
    let mut run = Run::new(harness, options());
    for item in items {
        run.item(item.as_ref()).unwrap();
    }
    run.close()
}

/// Plays the turns of recorded lines, or of anything; a refused item ends its run and all.
pub fn play(harness: &str, lines: &[u8], options: &Options) -> (Vec<Run>, Option<ItemError>) {
    let mut splitter = registry::find(harness).unwrap().splitter();
    let items: Vec<&[u8]> =
        if splitter.is_binary(lines) { vec![lines] } else { lines.split(|byte| *byte == b'\n').collect() };
    let mut runs = Vec::new();
    for turn in turns_with(&mut *splitter, items) {
        let mut run = Run::new(harness, options.clone());
        if let Some(error) = turn.lines.iter().find_map(|line| run.item(line).err()) {
            runs.push(run);
            return (runs, Some(error));
        }
        runs.push(run.close());
    }
    (runs, None)
}
