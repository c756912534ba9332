//! The driver of the Claude Code CLI against recordings of it, played both ways by `workers/fake_cli.py`: what the CLI is
//! told must be what was sent when the recording was made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/harness.rs"]
mod harness;
#[path = "support/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use causeway_adapter::claude_agent_sdk;
use causeway_adapter::turn::Options;
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_engine::answer::Answer;
use causeway_engine::config::{Driver, ProcessConfig, Scope};
use causeway_engine::engine::StartRun;
use causeway_engine::{AgentConfig, Engine, Settings};
use causeway_store::model::Owner;
use causeway_store::{MemoryStore, Record, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

use harness::{follow, story};
use runs::{last, resume, until};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(90);

const RECORDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings/claude-agent-sdk");

/// An engine whose agent plays a recording.
struct Rig {
    dir: TempDir,
    config: ProcessConfig,
    store: Arc<MemoryStore>,
    engine: Engine,
    /// What was sent when the recording was made.
    sent: Vec<Value>,
}

impl Rig {
    async fn new(recording: &Path, change: impl FnOnce(&mut ProcessConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/fake_cli.py");
        let faults = dir.path().join("faults");
        let command = ["python3", script, recording.to_str().unwrap(), faults.to_str().unwrap()];
        let mut config = ProcessConfig::new(command.map(str::to_owned).to_vec());
        config.start_timeout = PATIENCE;
        config.cancel_grace = PATIENCE;
        change(&mut config);
        let sent = std::fs::read_to_string(recording.with_extension("stdin.jsonl")).unwrap();
        let sent = sent.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let store = Arc::new(MemoryStore::new());
        let engine = open(&dir, &config, &store).await;
        Self { dir, config, store, engine, sent }
    }

    async fn restarted(&mut self) {
        self.engine.shutdown(Duration::from_secs(10)).await;
        self.engine = open(&self.dir, &self.config, &self.store).await;
    }

    async fn start(&self, conversation: &str, message: &str) -> RunId<'static> {
        let conversation = ConversationId::new(conversation.to_owned()).unwrap();
        let request = StartRun::new(Owner::local(), Name::new("coder").unwrap(), conversation, message);
        self.engine.start(request).await.unwrap().run_id
    }

    async fn follow(&self, run_id: &RunId<'_>) -> Vec<Record> {
        follow(&self.engine, run_id, None).await.unwrap()
    }

    /// The terminal of a run with this message.
    async fn end_of(&self, conversation: &str, message: &str) -> String {
        last(&self.follow(&self.start(conversation, message).await).await)
    }

    async fn answer(&self, run_id: &RunId<'static>) -> RunId<'static> {
        let interrupt = self.engine.interrupt(&Owner::local(), run_id).await.unwrap();
        resume(&self.engine, run_id, self.recorded_answer(interrupt.snapshot.as_str())).await
    }

    /// What was answered when the recording was made.
    fn recorded_answer(&self, private: &str) -> Answer {
        let lines = self.sent.iter().map(|entry| &entry["line"]);
        let responses: Value = lines.filter(|line| line["type"] == "control_response").cloned().collect();
        let options = Options::new(Name::new("coder").unwrap());
        claude_agent_sdk::answer_of(private, responses.to_string().as_bytes(), &options).unwrap()
    }

    fn messages(&self) -> Vec<String> {
        let content = |entry: &Value| Some(entry["line"]["message"]["content"].as_str()?.to_owned());
        self.sent.iter().filter_map(content).collect()
    }

    fn faults(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("faults")).unwrap_or_default()
    }
}

async fn open(dir: &TempDir, config: &ProcessConfig, store: &Arc<MemoryStore>) -> Engine {
    let driver = Driver::Process(config.clone());
    let agent = AgentConfig::new(Name::new("coder").unwrap(), "claude-agent-sdk", driver);
    let store: Arc<dyn Store> = Arc::clone(store) as _;
    Engine::open(Settings::new(dir.path()), vec![agent], store).await.unwrap()
}

fn said(records: &[Record], kind: &str, key: &str) -> Vec<String> {
    let of_kind = records.iter().filter(|record| record.event_type.as_str() == kind);
    let value = |record: &Record| {
        let data: Value = serde_json::from_str(record.data.as_str()).unwrap();
        data[key].as_str().unwrap().to_owned()
    };
    of_kind.map(value).collect()
}

/// All that the CLI was recorded with, but for the messages of the Python SDK.
fn recordings() -> Vec<(PathBuf, Value)> {
    let index = std::fs::read_to_string(Path::new(RECORDINGS).join("index.json")).unwrap();
    let index: Vec<Value> = serde_json::from_str(&index).unwrap();
    let live = index.into_iter().filter(|entry| entry["sidecars"].is_array());
    live.map(|entry| (Path::new(RECORDINGS).join(entry["file"].as_str().unwrap()), entry["expected"].clone()))
        .collect()
}

#[tokio::test]
async fn every_recording_is_told_what_was_sent_and_ends_as_expected() {
    let all = recordings();
    assert_eq!(all.len(), 17);
    for (file, expected) in all {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut rig = Rig::new(&file, |_| {}).await;
        let mut ends = Vec::new();
        let mut text = String::new();
        for (n, message) in rig.messages().iter().enumerate() {
            if n > 0 && name == "resume_new_process" {
                rig.restarted().await;
            }
            let mut run_id = rig.start("c", message).await;
            if name == "cancel_interrupt" {
                until(&rig.engine, &run_id, "text.delta").await;
                rig.engine.cancel_run(&Owner::local(), &run_id).await.unwrap();
            }
            loop {
                let records = rig.follow(&run_id).await;
                text = said(&records, "text.delta", "delta").concat();
                ends.push(last(&records));
                if last(&records) != "run.interrupted" {
                    break;
                }
                run_id = rig.answer(&run_id).await;
            }
        }
        rig.engine.shutdown(Duration::from_secs(10)).await; // the end of stdin, which the recording ends with
        assert_eq!(rig.faults(), "", "{name}");
        let turns = expected.get("turns").cloned().unwrap_or_else(|| json!([expected["terminal"]]));
        let wanted = turns.as_array().unwrap().iter().map(|turn| match turn.as_str().unwrap() {
            "success" => "run.finished",
            "interrupt" => "run.interrupted",
            "cancelled" => "run.cancelled client_request",
            _error => "run.error",
        });
        assert_eq!(ends.len(), wanted.len(), "{name}: {ends:?}");
        for (end, wanted) in ends.iter().zip(wanted) {
            assert!(end.starts_with(wanted), "{name}: {end}");
        }
        let wanted = expected["final_text"].as_str().unwrap();
        assert!(wanted.ends_with('*') || text.ends_with(wanted), "{name}: {text}");
    }
}

fn parallel() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../adapter/tests/streams/claude/parallel_asks.jsonl"))
}

#[tokio::test]
async fn requests_that_wait_together_are_asked_and_answered_together() {
    for scope in [Scope::Conversation, Scope::Run] {
        let rig = Rig::new(&parallel(), |config| config.scope = scope).await;
        let run_id = rig.start("c", "Read both").await;
        let asked = rig.follow(&run_id).await;
        assert_eq!(last(&asked), "run.interrupted");
        let approvals =
            asked.iter().find(|record| record.event_type.as_str() == "interrupt.requested").unwrap();
        assert_eq!(approvals.data.as_str().matches("\"tool_call_id\"").count(), 2);
        let records = rig.follow(&rig.answer(&run_id).await).await;
        assert_eq!(last(&records), "run.finished");
        assert_eq!(said(&records, "tool.finished", "tool_call_id"), ["toolu_r1"]);
        assert_eq!(said(&records, "tool.error", "message"), ["not that one"]);
        rig.engine.shutdown(Duration::from_secs(10)).await;
        assert_eq!(rig.faults(), "");
    }
}

#[tokio::test]
async fn a_process_that_waits_gives_way_last_and_its_answer_then_says_that_it_was_lost() {
    let rig = Rig::new(&parallel(), |config| config.max_workers = 1).await;
    let first = rig.start("a", "Read both").await;
    assert_eq!(last(&rig.follow(&first).await), "run.interrupted");
    assert_eq!(
        rig.end_of("b", "Read both").await,
        "run.interrupted",
        "there is room for another conversation"
    );
    let records = rig.follow(&rig.answer(&first).await).await;
    assert_eq!(story(&records), "run.started; run.error answer_lost");
    rig.engine.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_session_that_is_not_there_any_more_is_told_as_lost_state() {
    let mut rig = Rig::new(&Path::new(RECORDINGS).join("text_plain.jsonl"), |_| {}).await;
    let message = rig.messages().remove(0);
    assert_eq!(rig.end_of("c", &message).await, "run.finished");
    rig.restarted().await;
    assert_eq!(rig.end_of("c", "again").await, "run.error thread_state_unavailable");
    rig.engine.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_process_that_does_not_speak_stream_json_is_stopped() {
    let greeting = r#"read line; id=causeway-initialize; echo '{"type":"control_response","response":{"subtype":"success","request_id":"'$id'"}}'; read line; "#;
    for (script, end) in [
        ("sleep 60", "run.error harness_unavailable"),
        ("echo hello; sleep 60", "run.error harness_unavailable"),
        ("exit 3", "run.error harness_unavailable"),
        (&*format!("{greeting} echo hello; sleep 60"), "run.error harness_output_invalid"),
        (&*format!("{greeting} head -c 9000000 /dev/zero; sleep 60"), "run.error harness_output_too_large"),
        (&*format!("{greeting} exit 0"), "run.error provider_stream_closed"),
    ] {
        let wait = if script == "sleep 60" { Duration::from_millis(500) } else { PATIENCE };
        let rig = Rig::new(&parallel(), |config| {
            config.command = ["sh", "-c", script].map(str::to_owned).to_vec();
            config.start_timeout = wait;
        })
        .await;
        assert_eq!(rig.end_of("c", "hi").await, end, "{script}");
        rig.engine.shutdown(Duration::from_secs(10)).await;
    }
}
