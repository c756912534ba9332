//! Runs of the example worker: real processes, the real harness, a scripted model. Skipped, and said so, where its
//! Python environment cannot be had.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests"
)]

#[path = "support/harness.rs"]
mod harness;
#[path = "support/python.rs"]
mod python;
#[path = "support/runs.rs"]
mod runs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{Answer, Decided, Options, Resume};
use causeway_adapter::{Adapter, Close, Output, Turn as Translate, registry};
use causeway_contract::event::{Decision, EventData};
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_engine::config::{Driver, ProcessConfig};
use causeway_engine::engine::StartRun;
use causeway_engine::harness::{Harness, Item, Turn, TurnEnd, TurnInput};
use causeway_engine::process::{Demand, Process};
use causeway_engine::{AgentConfig, Engine, Settings};
use causeway_store::model::Owner;
use causeway_store::{MemoryStore, Record};
use tempfile::TempDir;

use harness::story;
use runs::{checked, last, text, until};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a cancelled worker gets; generous, since the machine may be busy with other tests.
const CANCEL_GRACE: Duration = Duration::from_secs(30);

/// An engine with one agent, a live worker that plays a script.
struct Rig {
    dir: TempDir,
    engine: Engine,
}

impl Rig {
    /// With the script; with the demo's where there is none. `None` where Python is missing.
    async fn new(script: Option<serde_json::Value>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let config = worker(&dir, script)?;
        let agent = AgentConfig::new(Name::new("helper").unwrap(), "deepagents", Driver::Process(config));
        let engine =
            Engine::open(Settings::new(dir.path()), vec![agent], Arc::new(MemoryStore::new())).await.unwrap();
        Some(Self { dir, engine })
    }

    async fn start(&self, message: &str) -> RunId<'static> {
        let request = StartRun::new(Owner::local(), Name::new("helper").unwrap(), conversation(), message);
        self.engine.start(request).await.unwrap().run_id
    }

    async fn play(&self, message: &str) -> Vec<Record> {
        let run_id = self.start(message).await;
        self.follow(&run_id).await
    }

    async fn follow(&self, run_id: &RunId<'_>) -> Vec<Record> {
        checked(&self.engine, run_id, &conversation()).await
    }

    async fn until(&self, run_id: &RunId<'_>, kind: &str) {
        until(&self.engine, run_id, kind).await;
    }

    async fn cancel(&self, run_id: &RunId<'_>) {
        let begun = Instant::now();
        assert!(self.engine.cancel_run(&Owner::local(), run_id).await.unwrap().cancelled);
        assert!(begun.elapsed() < CANCEL_GRACE, "within the grace: {:?}", begun.elapsed());
    }

    /// Kills the worker, whose pid is in its record.
    fn kill_worker(&self) {
        let entries = std::fs::read_dir(self.dir.path().join("workers")).unwrap();
        let records: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        let record = records.iter().find(|path| path.extension().is_some_and(|ext| ext == "pid")).unwrap();
        let text = std::fs::read_to_string(record).unwrap();
        let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap().to_owned();
        assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    }
}

fn conversation() -> ConversationId<'static> {
    ConversationId::new("c").unwrap()
}

fn worker(dir: &TempDir, script: Option<serde_json::Value>) -> Option<ProcessConfig> {
    let python = python::interpreter()?;
    let program = python::example().join("worker.py");
    let mut command = vec![
        python.to_owned(),
        program.to_str().unwrap().to_owned(),
        "--db".to_owned(),
        "{data_dir}/workers/{conversation}.sqlite".to_owned(),
    ];
    if let Some(script) = script {
        let file = dir.path().join("script.json");
        std::fs::write(&file, script.to_string()).unwrap();
        command.extend(["--script".to_owned(), file.to_str().unwrap().to_owned()]);
    }
    let mut config = ProcessConfig::new(command);
    config.start_timeout = PATIENCE; // the machine may be busy with other tests
    config.cancel_grace = CANCEL_GRACE;
    Some(config)
}

/// A script whose answers follow each other whatever is said.
fn answers(answers: &serde_json::Value) -> Option<serde_json::Value> {
    Some(serde_json::json!({"tools": ["slow_lookup"], "script": {"root": answers}}))
}

#[tokio::test]
async fn a_conversation_with_tools_and_a_subagent_runs_from_state_to_state() {
    let Some(rig) = Rig::new(None).await else { return };
    let first = rig.play("What is the weather?").await;
    assert!(story(&first).contains("tool.started; tool.finished"), "{}", story(&first));
    assert_eq!(last(&first), "run.finished");
    assert_eq!(text(&first), "Let me look that up. In Paris it is 18 degrees, with light rain. Take a coat.");
    let second = rig.play("compare").await;
    for kind in ["namespace.entered", "namespace.exited", "usage.updated"] {
        assert!(story(&second).contains(kind), "{kind}: {}", story(&second));
    }
    assert!(text(&second).ends_with("no difference today, light rain in both."));
    let paused = rig.play("restart it").await;
    assert_eq!(last(&paused), "run.interrupted");
    rig.engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_cancel_is_told_at_any_moment_and_the_conversation_goes_on() {
    let long = "a long story ".repeat(60);
    let script = serde_json::json!({"plays": [
        {"when": ["story"], "answers": [[{"text": long, "delay": 0.05}]]},
        {"answers": [[{"text": "Still here."}]]},
    ]});
    let Some(rig) = Rig::new(Some(script)).await else { return };
    let run_id = rig.start("a story, please").await;
    rig.cancel(&run_id).await;
    assert_eq!(last(&rig.follow(&run_id).await), "run.cancelled client_request");
    let run_id = rig.start("a story again").await;
    rig.until(&run_id, "text.delta").await;
    rig.cancel(&run_id).await;
    let records = rig.follow(&run_id).await;
    assert_eq!(last(&records), "run.cancelled client_request");
    assert!(!text(&records).is_empty() && text(&records).len() < long.len());
    let next = rig.play("go on").await;
    assert_eq!((text(&next).as_str(), last(&next).as_str()), ("Still here.", "run.finished"));
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_a_tool_is_taken_at_once() {
    let script = answers(&serde_json::json!([
        [{"text": "Looking. "}, {"tool": {"id": "c1", "name": "slow_lookup", "args": {"key": "k", "seconds": 30}}}],
        [{"text": "Still here."}],
        [{"text": "Still here."}],
    ]));
    let Some(rig) = Rig::new(script).await else { return };
    let run_id = rig.start("look it up").await;
    rig.until(&run_id, "tool.started").await;
    rig.cancel(&run_id).await;
    let records = rig.follow(&run_id).await;
    assert_eq!(last(&records), "run.cancelled client_request");
    assert!(records[records.len() - 1].data.as_str().contains("\"side_effect_status\":\"possible\""));
    let next = rig.play("are you there?").await;
    assert_eq!((text(&next).as_str(), last(&next).as_str()), ("Still here.", "run.finished"));
    assert!(!story(&next).contains("tool."), "the repair of the history is not shown: {}", story(&next));
}

#[tokio::test]
async fn a_run_whose_worker_is_killed_leaves_nothing_in_the_next() {
    let slow = |text: &str| serde_json::json!([{"text": format!("{text} "), "delay": 0.01}, {"text": "and so on ".repeat(5), "delay": 0.05}]);
    let script = answers(&serde_json::json!([slow("one"), slow("two"), slow("three")]));
    let Some(rig) = Rig::new(script).await else { return };
    for said in ["one", "two"] {
        let run_id = rig.start("go").await;
        rig.until(&run_id, "text.delta").await;
        rig.kill_worker();
        let died = rig.follow(&run_id).await;
        assert_eq!(last(&died), "run.error provider_stream_closed");
        assert!(said.starts_with(text(&died).split(' ').next().unwrap()));
        let again = rig.play("go").await;
        assert!(
            text(&again).starts_with(&format!("{said} and so on")),
            "from the committed head: {}",
            text(&again)
        );
        assert_eq!(last(&again), "run.finished");
    }
}

#[tokio::test]
async fn superseded_states_are_forgotten() {
    let texts: Vec<_> = (0..12).map(|n| serde_json::json!([{"text": format!("answer {n}")}])).collect();
    let Some(rig) = Rig::new(answers(&texts.into())).await else { return };
    for n in 0..12 {
        assert_eq!(text(&rig.play("go").await), format!("answer {n}"));
    }
    rig.engine.shutdown(Duration::from_secs(5)).await;
    let file = rig.dir.path().join("workers/c.sqlite");
    let count = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM threads').fetchone()[0])";
    let counted = std::process::Command::new(python::interpreter().unwrap())
        .args(["-c", count])
        .arg(&file)
        .output()
        .unwrap();
    let threads: u32 = String::from_utf8(counted.stdout).unwrap().trim().parse().unwrap();
    assert!((1..=3).contains(&threads), "{threads} threads are kept of 12");
}

// ── a pause, answered with what the adapter builds ───────────────────────────

async fn native(process: &Process, turn: Turn) -> Vec<Vec<u8>> {
    let mut session = process.begin(turn);
    let mut lines = Vec::new();
    loop {
        match tokio::time::timeout(PATIENCE, session.next()).await.expect("the turn hangs") {
            Item::Line(line) => lines.push(line),
            Item::Tool(call) => panic!("nobody offered {}", call.name),
            Item::End(end) => {
                assert_eq!(end, TurnEnd::Regular);
                return lines;
            }
        }
    }
}

fn translate(turn: Translate, lines: &[Vec<u8>]) -> Vec<Output> {
    let options = Options::new(Name::new("helper").unwrap());
    let mut adapter =
        registry::find("deepagents").unwrap().adapter(turn, options, Box::new(SeededIds::new(1)));
    let mut outputs = Vec::new();
    for line in lines {
        adapter.handle(line).unwrap();
        while let Some(output) = adapter.poll() {
            outputs.push(output);
        }
    }
    adapter.close(Close::End);
    outputs.extend(std::iter::from_fn(|| adapter.poll()));
    outputs
}

#[tokio::test]
async fn a_pause_is_answered_in_another_process_with_what_the_adapter_builds() {
    for (decision, result) in [
        (Decision::Approve, "tool.finished restarted api (force=False)"),
        (Decision::Reject, "tool.error tool_rejected"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(config) = worker(&dir, None) else { return };
        let demand =
            Demand { agent_id: "helper".to_owned(), harness_id: "deepagents".to_owned(), restore: true };
        let process = Process::new(demand, config, dir.path()).unwrap();
        let mut turn = Turn {
            owner: Owner::local(),
            agent_id: Name::new("helper").unwrap(),
            conversation_id: conversation(),
            epoch: 1,
            run_id: RunId::new("run-1").unwrap(),
            thread_id: "thread-1".into(),
            base: None,
            input: TurnInput::Message { text: "restart it".to_owned(), context: None, files: None },
            traceparent: None,
            forget: Vec::new(),
            tools: None,
        };
        let outputs = translate(Translate::Start, &native(&process, turn.clone()).await);
        let state = outputs.iter().find_map(|output| match output {
            Output::State(state) => Some(state.clone()),
            Output::Draft(_) | Output::Result(_) => None,
        });
        let state = state.expect("the paused run has a state");
        let calls = outputs.iter().find_map(|output| match output {
            Output::Draft(draft) => match &draft.data {
                EventData::ToolStarted(started) => Some((started.clone(), draft.namespace.clone())),
                _other => None,
            },
            Output::State(_) | Output::Result(_) => None,
        });
        let (call, namespace) = calls.expect("the gated call was started");
        let decided =
            Decided { tool_call_id: call.tool_call_id.clone(), decision, edited_args: None, message: None };
        let answer = Answer::Decisions(vec![decided]);
        let value = registry::resume_value("deepagents", &state.private, &answer).unwrap();

        process.shutdown(Duration::from_secs(5)).await; // the pause outlives its process
        let Some(config) = worker(&dir, None) else { return };
        let demand =
            Demand { agent_id: "helper".to_owned(), harness_id: "deepagents".to_owned(), restore: true };
        let process = Process::new(demand, config, dir.path()).unwrap();
        turn.run_id = RunId::new("run-2").unwrap();
        turn.thread_id = "thread-2".into();
        turn.base = Some(Reference::new(state.head.as_str().to_owned()).unwrap());
        turn.input = TurnInput::Resume(value);
        let open = causeway_adapter::turn::OpenCall {
            id: call.tool_call_id.clone(),
            name: call.tool_name.clone(),
            arguments: call.arguments.clone(),
            namespace,
        };
        let resume = Resume {
            open_calls: vec![open],
            delegations: vec![],
            answer: Some(answer),
            private: Some(state.private),
        };
        let outputs = translate(Translate::Resume(resume), &native(&process, turn).await);
        let ends: Vec<String> = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Draft(draft) => match &draft.data {
                    EventData::ToolFinished(end) => Some(format!("tool.finished {}", end.result)),
                    EventData::ToolError(end) => Some(format!("tool.error {}", end.code)),
                    EventData::RunFinished(_) => Some("run.finished".to_owned()),
                    _other => None,
                },
                Output::State(_) | Output::Result(_) => None,
            })
            .collect();
        assert_eq!(ends, [result, "run.finished"]);
    }
}
