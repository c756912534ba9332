//! Runs of the real Claude Code CLI against a model that plays a script. Skipped, and said so, where the CLI cannot be had.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests"
)]

#[path = "support/cli.rs"]
mod cli;
#[path = "support/harness.rs"]
mod harness;
#[path = "support/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_contract::event::Decision;
use causeway_contract::id::{ConversationId, Name, RunId, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_engine::answer::{Answer, Decided};
use causeway_engine::config::{Driver, ProcessConfig};
use causeway_engine::engine::StartRun;
use causeway_engine::{AgentConfig, Engine, Settings};
use causeway_store::model::Owner;
use causeway_store::{MemoryStore, Record};
use serde_json::{Value, json};
use tempfile::TempDir;

use harness::story;
use runs::{checked, last, resume, text, until};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(90);

/// An engine with one agent, the CLI, and the model that it asks.
struct Rig {
    dir: TempDir,
    model: cli::Model,
    store: Arc<MemoryStore>,
    config: ProcessConfig,
    engine: Engine,
}

impl Rig {
    /// With the plays of a script, and words for the CLI's command. `None` where the CLI is missing.
    async fn new(plays: impl FnOnce(&Path) -> Value, arguments: &[&str]) -> Option<Self> {
        let program = cli::program()?;
        let dir = tempfile::tempdir().unwrap();
        let plays = plays(dir.path());
        let model = cli::Model::new(dir.path(), &json!({ "plays": plays }));
        for folder in ["work", "home", "other"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let work = dir.path().join("work");
        let begin = ["sh", "-c", "cd \"$0\" && exec \"$@\"", work.to_str().unwrap(), program];
        let end = ["--setting-sources", "", "--model", "claude-sonnet-4-5"];
        let command = begin.iter().chain(arguments).chain(&end).map(|&word| word.to_owned()).collect();
        let mut config = ProcessConfig::new(command);
        config.start_timeout = PATIENCE; // the machine may be busy with other tests
        config.cancel_grace = Duration::from_secs(30);
        let home = dir.path().join("home");
        for (name, value) in [
            ("HOME", home.to_str().unwrap()),
            ("ANTHROPIC_BASE_URL", &model.address),
            ("ANTHROPIC_API_KEY", "no-key"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
            ("DISABLE_AUTOUPDATER", "1"),
        ] {
            config.env.insert(name.to_owned(), value.to_owned());
        }
        let store = Arc::new(MemoryStore::new());
        let engine = open(&dir, &config, &store).await;
        Some(Self { dir, model, store, config, engine })
    }

    /// The same gateway, started again.
    async fn restarted(&mut self) {
        self.engine.shutdown(Duration::from_secs(5)).await;
        self.engine = open(&self.dir, &self.config, &self.store).await;
    }

    async fn start(&self, message: &str) -> RunId<'static> {
        let request = StartRun::new(Owner::local(), Name::new("coder").unwrap(), conversation(), message);
        self.engine.start(request).await.unwrap().run_id
    }

    async fn play(&self, message: &str) -> Vec<Record> {
        let run_id = self.start(message).await;
        self.follow(&run_id).await
    }

    async fn follow(&self, run_id: &RunId<'_>) -> Vec<Record> {
        checked(&self.engine, run_id, &conversation()).await
    }

    /// Plays a run that ends with an interrupt; its request.
    async fn asks(&self, message: &str) -> (RunId<'static>, Value) {
        let run_id = self.start(message).await;
        let request = asked(&self.follow(&run_id).await);
        (run_id, request)
    }

    async fn answer(&self, run_id: &RunId<'static>, answer: Answer) -> (RunId<'static>, Vec<Record>) {
        let resumed = resume(&self.engine, run_id, answer).await;
        let records = self.follow(&resumed).await;
        (resumed, records)
    }

    /// Kills the CLI, whose pid is in its record (so is that of one that is about to leave), and waits until it is gone.
    async fn kill(&self) {
        let workers = self.dir.path().join("workers");
        let killed = records(&workers);
        assert!(!killed.is_empty(), "no process runs");
        for record in &killed {
            let Ok(text) = std::fs::read_to_string(record) else { continue };
            let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
            let _ = std::process::Command::new("kill").args(["-9", pid]).status().unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        while records(&workers).iter().any(|left| killed.contains(left)) {
            assert!(Instant::now() < deadline, "the death of the process is not seen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }
}

/// A call that writes a file of the working folder.
fn write(dir: &Path, id: &str, name: &str) -> Value {
    let file = dir.join("work").join(name);
    json!({"tool": {"id": id, "name": "Write", "input": {"file_path": file, "content": "x\n"}}})
}

async fn open(dir: &TempDir, config: &ProcessConfig, store: &Arc<MemoryStore>) -> Engine {
    let driver = Driver::Process(config.clone());
    let agent = AgentConfig::new(Name::new("coder").unwrap(), "claude-agent-sdk", driver);
    let store: Arc<dyn causeway_store::Store> = Arc::clone(store) as _;
    Engine::open(Settings::new(dir.path()), vec![agent], store).await.unwrap()
}

fn records(workers: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(workers) else { return Vec::new() };
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "pid"));
    all
}

fn conversation() -> ConversationId<'static> {
    ConversationId::new("c").unwrap()
}

fn data(record: &Record) -> Value {
    serde_json::from_str(record.data.as_str()).unwrap()
}

/// The calls and how they ended.
fn calls(records: &[Record]) -> Vec<String> {
    let told = records.iter().filter_map(|record| {
        let data = data(record);
        let id = data["tool_call_id"].as_str().unwrap_or_default().to_owned();
        match record.event_type.as_str() {
            "tool.started" => Some(format!("{id} started")),
            "tool.finished" => Some(format!("{id} finished")),
            "tool.error" => Some(format!("{id} {}: {}", data["code"].as_str()?, data["message"].as_str()?)),
            _other => None,
        }
    });
    told.collect()
}

fn asked(records: &[Record]) -> Value {
    assert_eq!(last(records), "run.interrupted", "{}", story(records));
    let request = records.iter().find(|record| record.event_type.as_str() == "interrupt.requested");
    data(request.unwrap())
}

fn decide(call: &str, decision: Decision) -> Decided {
    let tool_call_id = ToolCallId::new(call.to_owned()).unwrap();
    Decided { tool_call_id, decision, edited_args: None, message: None }
}

fn object(value: &Value) -> JsonObject<'static> {
    JsonObject::parse(value.to_string(), &Limits::DEFAULT).unwrap()
}

fn says(text: &str) -> Value {
    json!([{ "text": text }])
}

#[tokio::test]
async fn a_conversation_goes_on_in_its_process_and_in_another_one() {
    let plays = json!([
        {"when": "first", "answers": [[{"thinking": "Let me see."}, {"text": "One."}]]},
        {"when": "second", "answers": [says("Two.")]},
        {"when": "third", "answers": [says("Three.")]},
    ]);
    let Some(mut rig) = Rig::new(|_| plays, &[]).await else { return };
    let first = rig.play("the first").await;
    assert_eq!((text(&first).as_str(), last(&first).as_str()), ("One.", "run.finished"));
    assert!(story(&first).contains("reasoning.started"), "{}", story(&first));
    let process = records(&rig.dir.path().join("workers"));
    assert_eq!(text(&rig.play("the second").await), "Two.");
    assert_eq!(records(&rig.dir.path().join("workers")), process, "the same process");
    rig.restarted().await;
    assert!(records(&rig.dir.path().join("workers")).is_empty());
    let third = rig.play("the third").await;
    assert_eq!((text(&third).as_str(), last(&third).as_str()), ("Three.", "run.finished"));
    assert_eq!(
        rig.model.last_request(),
        r#"[["user", ["the first"]], ["assistant", ["One."]], ["user", ["the second"]], ["assistant", ["Two."]], ["user", ["the third"]]]"#
    );
}

#[tokio::test]
async fn what_was_never_committed_is_in_no_later_run() {
    let plays = json!([
        {"when": "first", "answers": [says("One.")]},
        {"when": "limited", "answers": [[{"status": 429, "type": "rate_limit_error", "message": "slow down, sk-ant-secret"}]]},
        {"when": "locked", "answers": [[{"status": 401, "type": "authentication_error", "message": "bad key"}]]},
        {"when": "story", "answers": [[{"text": "never to be heard of ".repeat(30), "gap": 0.05}]]},
        {"when": "go on", "answers": [says("Still here.")]},
    ]);
    let Some(rig) = Rig::new(|_| plays, &[]).await else { return };
    rig.play("the first").await;
    let limited = rig.play("limited").await;
    assert_eq!(last(&limited), "run.error provider_rate_limited");
    assert!(!limited.iter().any(|record| record.data.as_str().contains("sk-ant-secret")));
    assert_eq!(last(&rig.play("locked").await), "run.error provider_access_denied");
    let run_id = rig.start("a story").await;
    until(&rig.engine, &run_id, "text.delta").await;
    rig.kill().await;
    let died = rig.follow(&run_id).await;
    assert_eq!(last(&died), "run.error provider_stream_closed");
    let next = rig.play("go on").await;
    assert_eq!((text(&next).as_str(), last(&next).as_str()), ("Still here.", "run.finished"));
    assert_eq!(
        rig.model.last_request(),
        r#"[["user", ["the first"]], ["assistant", ["One."]], ["user", ["go on"]]]"#
    );
}

#[tokio::test]
async fn a_call_is_approved_edited_or_refused_with_a_reason() {
    let plays = |dir: &Path| {
        let play = |word: &str| json!({"when": word, "answers": [[{"text": "Writing. "}, write(dir, word, word)], says("Done.")]});
        json!(["approve", "edit", "refuse"].map(play))
    };
    let Some(rig) = Rig::new(plays, &[]).await else { return };

    let (run_id, request) = rig.asks("approve").await;
    let args = json!({"file_path": rig.file("approve"), "content": "x\n"});
    let approval = json!([{"tool_call_id": "approve", "tool_name": "Write", "tool_args": args, "allowed_decisions": ["approve", "edit", "reject"]}]);
    assert_eq!(request["tool_approvals"], approval);
    assert!(!rig.file("approve").exists());
    let (_, records) =
        rig.answer(&run_id, Answer::Decisions(vec![decide("approve", Decision::Approve)])).await;
    assert_eq!(calls(&records), ["approve started", "approve finished"]);
    assert_eq!((text(&records).as_str(), last(&records).as_str()), ("Done.", "run.finished"));
    assert_eq!(std::fs::read_to_string(rig.file("approve")).unwrap(), "x\n");

    let (run_id, _) = rig.asks("edit").await;
    let edited = json!({"file_path": rig.file("elsewhere"), "content": "y\n"});
    let edit = Decided { edited_args: Some(object(&edited)), ..decide("edit", Decision::Edit) };
    let (_, records) = rig.answer(&run_id, Answer::Decisions(vec![edit])).await;
    assert_eq!(calls(&records), ["edit started", "edit finished"]);
    let started = records.iter().find(|record| record.event_type.as_str() == "tool.started").unwrap();
    assert_eq!(data(started)["arguments"], edited, "what runs is what is told");
    assert_eq!(std::fs::read_to_string(rig.file("elsewhere")).unwrap(), "y\n");
    assert!(!rig.file("edit").exists());

    let (run_id, _) = rig.asks("refuse").await;
    let reason = Some("not today".to_owned());
    let refusal = Decided { message: reason, ..decide("refuse", Decision::Reject) };
    let (_, records) = rig.answer(&run_id, Answer::Decisions(vec![refusal])).await;
    assert_eq!(calls(&records), ["refuse started", "refuse tool_rejected: not today"]);
    assert_eq!(last(&records), "run.finished");
    assert!(!rig.file("refuse").exists());
}

#[tokio::test]
async fn calls_that_ask_together_are_one_interrupt_and_questions_are_forms() {
    let question = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}]}]});
    let plays = |dir: &Path| {
        let read = |name: &str| json!({"tool": {"id": name, "name": "Read", "input": {"file_path": dir.join("other").join(name)}}});
        json!([
            {"when": "read", "answers": [[read("r1"), read("r2")], says("Read.")]},
            {"when": "ask", "answers": [[{"tool": {"id": "q1", "name": "AskUserQuestion", "input": question.clone()}}], says("Blue it is.")]},
        ])
    };
    let Some(rig) = Rig::new(plays, &[]).await else { return };
    for name in ["r1", "r2"] {
        std::fs::write(rig.dir.path().join("other").join(name), "text\n").unwrap();
    }
    let (mut run_id, request) = rig.asks("read both").await;
    let approvals = |request: &Value| -> Vec<String> {
        let all = request["tool_approvals"].as_array().unwrap();
        all.iter().map(|one| one["tool_call_id"].as_str().unwrap().to_owned()).collect()
    };
    let mut waiting = approvals(&request);
    let mut ends = Vec::new();
    let records = loop {
        let decisions = waiting
            .iter()
            .map(|id| decide(id, if id == "r1" { Decision::Approve } else { Decision::Reject }));
        let (resumed, records) = rig.answer(&run_id, Answer::Decisions(decisions.collect())).await;
        ends.extend(calls(&records).into_iter().filter(|call| !call.ends_with(" started")));
        if last(&records) != "run.interrupted" {
            break records;
        }
        // A machine that is very busy: the second request came after the first had been asked about.
        (run_id, waiting) = (resumed, approvals(&asked(&records)));
    };
    ends.sort();
    assert_eq!(ends[0], "r1 finished");
    assert!(ends[1].starts_with("r2 tool_rejected: "), "{ends:?}");
    assert_eq!((text(&records).as_str(), last(&records).as_str()), ("Read.", "run.finished"));

    let (run_id, request) = rig.asks("ask me").await;
    assert_eq!(
        (&request["interrupt_type"], &request["prompt"]),
        (&json!("form_input"), &json!("Which colour?"))
    );
    let field = &request["fields"][0];
    assert_eq!(
        (&field["field_name"], &field["field_values"]),
        (&json!("Which colour?"), &json!(["Red", "Blue"]))
    );
    let (_, records) = rig.answer(&run_id, Answer::Values(object(&json!({"Which colour?": "Blue"})))).await;
    assert_eq!(calls(&records), ["q1 started", "q1 finished"]);
    assert_eq!((text(&records).as_str(), last(&records).as_str()), ("Blue it is.", "run.finished"));
}

#[tokio::test]
async fn a_subagent_asks_in_the_name_of_its_call_and_goes_on_in_its_namespace() {
    let plays = |dir: &Path| {
        let task = json!({"tool": {"id": "k1", "name": "Task", "input": {"description": "Write", "prompt": "please do the errand", "subagent_type": "general-purpose"}}});
        json!([
            {"when": "errand", "answers": [[write(dir, "w1", "out")], says("The errand is done.")]},
            {"when": "delegate", "answers": [[{"text": "Delegating. "}, task], says("All done.")]},
        ])
    };
    let Some(rig) = Rig::new(plays, &[]).await else { return };
    let (run_id, request) = rig.asks("delegate it").await;
    assert_eq!(request["tool_approvals"][0]["tool_call_id"], "w1");
    let (_, records) = rig.answer(&run_id, Answer::Decisions(vec![decide("w1", Decision::Approve)])).await;
    assert_eq!(calls(&records), ["k1 started", "w1 started", "w1 finished", "k1 finished"]);
    let inside = records.iter().find(|record| record.data.as_str().contains("\"w1\"")).unwrap();
    assert_eq!(&*inside.namespace, "[\"k1\"]");
    assert_eq!((text(&records).as_str(), last(&records).as_str()), ("All done.", "run.finished"));
    assert!(rig.file("out").exists());
}

#[tokio::test]
async fn an_answer_whose_process_is_gone_does_nothing_and_says_so() {
    let plays = |dir: &Path| {
        json!([
            {"when": "write", "answers": [[{"text": "Writing. "}, write(dir, "w1", "out")], says("Done.")]},
            {"when": "go on", "answers": [says("Still here.")]},
        ])
    };
    let Some(mut rig) = Rig::new(plays, &[]).await else { return };
    let (run_id, _) = rig.asks("write it").await;
    assert!(rig.engine.cancel_run(&Owner::local(), &run_id).await.unwrap().interrupt_voided);
    let next = rig.play("go on").await;
    assert_eq!((text(&next).as_str(), last(&next).as_str()), ("Still here.", "run.finished"), "no answer");
    for how in ["the process dies", "the gateway starts again"] {
        let (run_id, _) = rig.asks("write it").await;
        if how == "the process dies" {
            rig.kill().await;
        } else {
            rig.restarted().await;
        }
        let asked = rig.model.requests();
        let (_, records) =
            rig.answer(&run_id, Answer::Decisions(vec![decide("w1", Decision::Approve)])).await;
        assert_eq!(story(&records), "run.started; run.error answer_lost", "{how}");
        assert!(!rig.file("out").exists() && rig.model.requests() == asked, "{how}: nothing was done");
        let next = rig.play("go on").await;
        assert_eq!((text(&next).as_str(), last(&next).as_str()), ("Still here.", "run.finished"), "{how}");
        assert_eq!(calls(&next), [""; 0], "{how}");
        assert!(!rig.file("out").exists(), "{how}");
    }
    assert!(
        rig.model.last_request().contains("write it"),
        "the head is where it asked: {}",
        rig.model.last_request()
    );
}

#[tokio::test]
async fn a_cancel_is_taken_in_the_middle_of_anything_and_the_conversation_goes_on() {
    let sleep = json!({"tool": {"id": "b1", "name": "Bash", "input": {"command": "python3 -c 'import time; time.sleep(120)'"}}});
    let plays = json!([
        {"when": "story", "answers": [[{"text": "Once upon a time ".repeat(40), "gap": 0.05}]]},
        {"when": "run it", "answers": [[{"text": "Running. "}, sleep], says("It ran.")]},
        {"when": "go on", "answers": [says("Still here.")]},
    ]);
    let Some(mut rig) = Rig::new(|_| plays, &["--allowedTools", "Bash"]).await else { return };
    let run_id = rig.start("a story").await;
    assert!(rig.engine.cancel_run(&Owner::local(), &run_id).await.unwrap().cancelled);
    assert_eq!(last(&rig.follow(&run_id).await), "run.cancelled client_request", "before it begins");
    for (message, sign) in [("a story again", "text.delta"), ("run it", "tool.started")] {
        let run_id = rig.start(message).await;
        until(&rig.engine, &run_id, sign).await;
        assert!(rig.engine.cancel_run(&Owner::local(), &run_id).await.unwrap().cancelled);
        assert_eq!(last(&rig.follow(&run_id).await), "run.cancelled client_request", "{message}");
        let next = rig.play("go on").await;
        assert_eq!(
            (text(&next).as_str(), last(&next).as_str()),
            ("Still here.", "run.finished"),
            "{message}"
        );
        assert!(rig.model.last_request().contains("Request interrupted by user"), "{message}");
    }
    rig.restarted().await;
    assert_eq!(text(&rig.play("go on").await), "Still here.");
    assert!(rig.model.last_request().contains("Request interrupted by user"));
}
