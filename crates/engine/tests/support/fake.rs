//! A driver `process` over the fake worker (`workers/fake.py`), and turns for it.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_engine::config::ProcessConfig;
use causeway_engine::harness::{Harness, Item, Session, Turn, TurnEnd, TurnInput};
use causeway_engine::process::{Demand, Process};
use causeway_store::model::Owner;
use tempfile::TempDir;

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A driver over the fake worker, and its folder.
pub struct Rig {
    pub dir: TempDir,
    pub process: Process,
}

impl Rig {
    pub fn new(start: &str) -> Self {
        Self::with(start, |_| {})
    }

    pub fn with(start: &str, change: impl FnOnce(&mut ProcessConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = driver(dir.path(), start, change);
        Self { dir, process }
    }

    pub async fn play(&self, turn: Turn) -> (Vec<String>, TurnEnd) {
        let mut session = self.process.begin(turn);
        drain(session.as_mut()).await
    }

    pub async fn end_of(&self, text: &str) -> TurnEnd {
        self.play(message("c", text)).await.1
    }

    pub fn records(&self) -> Vec<PathBuf> {
        files(self.dir.path(), "pid")
    }
}

pub fn driver(dir: &Path, start: &str, change: impl FnOnce(&mut ProcessConfig)) -> Process {
    driver_of(dir, start, true, change)
}

pub fn driver_of(dir: &Path, start: &str, restore: bool, change: impl FnOnce(&mut ProcessConfig)) -> Process {
    let mut config = config(dir, start);
    change(&mut config);
    let demand = Demand { agent_id: "helper".to_owned(), harness_id: "deepagents".to_owned(), restore };
    Process::new(demand, config, dir).unwrap()
}

/// The fake worker, told how it starts.
pub fn config(dir: &Path, start: &str) -> ProcessConfig {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/fake.py");
    let command = [python(), script, start, "{data_dir}/{agent}/{conversation}.{epoch}"];
    let mut config = ProcessConfig::new(command.map(str::to_owned).to_vec());
    config.env.insert("REQUESTS".to_owned(), dir.join("requests").to_str().unwrap().to_owned());
    config.env.insert("FLOODED".to_owned(), dir.join("flooded").to_str().unwrap().to_owned());
    config
}

/// The interpreter itself: `python3` may be a script that finds it and changes the environment.
pub fn python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let ask = ["-c", "import sys; print(sys.executable)"];
        let answer =
            std::process::Command::new("python3").args(ask).output().expect("these tests need python3");
        String::from_utf8(answer.stdout).unwrap().trim().to_owned()
    })
}

pub fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir.join("workers")) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found
}

fn next_number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

pub fn message(conversation: &str, text: &str) -> Turn {
    let number = next_number();
    Turn {
        owner: Owner::local(),
        agent_id: Name::new("helper".to_owned()).unwrap(),
        conversation_id: ConversationId::new(conversation.to_owned()).unwrap(),
        epoch: 1,
        run_id: RunId::new(format!("run-{number}")).unwrap(),
        thread_id: format!("thread-{number}").into(),
        base: None,
        input: TurnInput::Message { text: text.to_owned(), context: None, files: None },
        traceparent: None,
        forget: Vec::new(),
        tools: None,
    }
}

pub async fn next(session: &mut dyn Session) -> Item {
    tokio::time::timeout(PATIENCE, session.next()).await.expect("the turn hangs")
}

pub async fn line(session: &mut dyn Session) -> serde_json::Value {
    match next(session).await {
        Item::Line(line) => serde_json::from_slice(&line).unwrap(),
        Item::Tool(call) => panic!("nobody offered {}", call.name),
        Item::End(end) => panic!("ended early: {end:?}"),
    }
}

/// The kinds of the lines, and how it ended.
pub async fn drain(session: &mut dyn Session) -> (Vec<String>, TurnEnd) {
    let mut kinds = Vec::new();
    loop {
        match next(session).await {
            Item::Line(line) => {
                let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
                kinds.push(line["kind"].as_str().unwrap().to_owned());
            }
            Item::Tool(call) => panic!("nobody offered {}", call.name),
            Item::End(end) => return (kinds, end),
        }
    }
}

pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
