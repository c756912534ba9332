//! The example worker behind the gate, live: the real deepagents, a scripted model, a tool that the gateway runs. Skipped, and
//! said so, where its Python environment cannot be had.
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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::Decision;
use causeway_contract::id::{ConversationId, Name, RunId, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_engine::answer::{Answer, Decided};
use causeway_engine::config::{Driver, ProcessConfig};
use causeway_engine::engine::StartRun;
use causeway_engine::gate::{Approval, Invoke, Tool, command};
use causeway_engine::schema::ToolSchema;
use causeway_engine::{AgentConfig, Engine, Settings};
use causeway_store::model::Owner;
use causeway_store::{MemoryStore, Record};
use serde_json::{Value, json};
use tempfile::TempDir;

use runs::{checked, last, resume, text};

struct Rig {
    dir: TempDir,
    engine: Engine,
}

impl Rig {
    /// `interrupt_on` asks the harness itself to pause.
    async fn new(approval: Approval, script: Value) -> Option<Self> {
        let python = python::interpreter()?;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script.json");
        std::fs::write(&file, script.to_string()).unwrap();
        let example = python::example();
        let place = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let words = [
            python.to_owned(),
            place(example.join("worker.py")),
            "--db".to_owned(),
            "{data_dir}/workers/{conversation}.sqlite".to_owned(),
            "--script".to_owned(),
            place(file),
        ];
        let mut config = ProcessConfig::new(words.to_vec());
        config.start_timeout = Duration::from_secs(120);
        let driver = Driver::Process(config);
        let mut agent = AgentConfig::new(Name::new("helper").unwrap(), "deepagents", driver);
        let schema = std::fs::read_to_string(example.join("schemas/greet.json")).unwrap();
        agent.schemas = [("greet".to_owned(), ToolSchema::compile(&schema).unwrap())].into_iter().collect();
        let argv = vec![python.to_owned(), place(example.join("greet.py"))];
        let env = BTreeMap::from([("GREETINGS".to_owned(), place(dir.path().join("greetings")))]);
        let mut tool = Tool::new(Invoke::Command(command::Config { argv, env }));
        (tool.approval, tool.timeout) = (approval, Duration::from_secs(120));
        agent.tools.insert("greet".to_owned(), tool);
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(Settings::new(dir.path()), vec![agent], store).await.unwrap();
        Some(Self { dir, engine })
    }

    async fn play(&self) -> (RunId<'static>, Vec<Record>) {
        let request = StartRun::new(Owner::local(), Name::new("helper").unwrap(), conversation(), "go");
        let run_id = self.engine.start(request).await.unwrap().run_id;
        let records = checked(&self.engine, &run_id, &conversation()).await;
        (run_id, records)
    }

    async fn answer(&self, run_id: &RunId<'static>, decided: Vec<Decided>) -> Vec<Record> {
        let resumed = resume(&self.engine, run_id, Answer::Decisions(decided)).await;
        checked(&self.engine, &resumed, &conversation()).await
    }

    /// Who was greeted, in the order of their names.
    fn greeted(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("greetings")).unwrap_or_default();
        let mut names: Vec<String> =
            text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
        names.sort();
        names
    }
}

fn conversation() -> ConversationId<'static> {
    ConversationId::new("c").unwrap()
}

fn greets(names: &[(&str, Value)], more: &Value) -> Value {
    let mut steps: Vec<Value> = vec![json!({"text": "Let me. "})];
    steps.extend(names.iter().map(|(id, args)| json!({"tool": {"id": id, "name": "greet", "args": args}})));
    let mut script = json!({"gated": ["greet"], "script": {"root": [steps, [{"text": "Done."}]]}});
    for (key, value) in more.as_object().unwrap() {
        script[key] = value.clone();
    }
    script
}

fn decide(id: &'static str, decision: Decision, edited: Option<&'static str>) -> Decided {
    let edited_args = edited.map(|text| JsonObject::parse(text, &Limits::DEFAULT).unwrap());
    Decided { tool_call_id: ToolCallId::new(id).unwrap(), decision, edited_args, message: None }
}

/// Calls and their ends, and how the run ended.
fn told(records: &[Record]) -> String {
    let calls =
        records.iter().filter(|record| record.event_type.as_str().starts_with("tool.")).map(|record| {
            let data: Value = serde_json::from_str(record.data.as_str()).unwrap();
            let word = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
            [record.event_type.as_str().to_owned(), word("tool_call_id"), word("code") + &word("result")]
                .join(" ")
        });
    let mut all: Vec<String> = calls.map(|told| told.trim_end().to_owned()).collect();
    all.push(last(records));
    all.join("; ")
}

#[tokio::test]
async fn a_gated_tool_runs_once_and_its_result_reaches_the_model() {
    let script = greets(&[("g1", json!({"name": "Ada"}))], &json!({}));
    let Some(rig) = Rig::new(Approval::Never, script).await else { return };
    let (_, records) = rig.play().await;
    assert_eq!(told(&records), "tool.started g1; tool.finished g1 Hello, Ada!; run.finished");
    assert_eq!((text(&records).as_str(), rig.greeted()), ("Let me. Done.", vec!["Ada".to_owned()]));
}

#[tokio::test]
async fn bad_arguments_of_the_model_run_nothing_and_the_model_is_told() {
    let script = greets(&[("g1", json!({"name": "Ada", "loud": true})), ("g2", json!({}))], &json!({}));
    let Some(rig) = Rig::new(Approval::Never, script).await else { return };
    let (_, records) = rig.play().await;
    let told = told(&records);
    for call in ["g1", "g2"] {
        assert!(told.contains(&format!("tool.error {call} invalid_arguments")), "{told}");
    }
    assert!(told.ends_with("run.finished"), "{told}");
    assert_eq!(rig.greeted(), Vec::<String>::new());
}

#[tokio::test]
async fn approvals_that_the_gate_asks_for_run_what_was_decided() {
    let names =
        [("g1", json!({"name": "Ada"})), ("g2", json!({"name": "Bob"})), ("g3", json!({"name": "Eve"}))];
    let Some(rig) = Rig::new(Approval::Always, greets(&names, &json!({}))).await else { return };
    let (run_id, before) = rig.play().await;
    assert_eq!(last(&before), "run.interrupted");
    assert_eq!(rig.greeted(), Vec::<String>::new());
    let decided = vec![
        decide("g1", Decision::Approve, None),
        decide("g2", Decision::Edit, Some(r#"{"name":"Dan"}"#)),
        decide("g3", Decision::Reject, None),
    ];
    let after = rig.answer(&run_id, decided).await;
    let told = told(&after);
    for part in
        ["tool.finished g1 Hello, Ada!", "tool.finished g2 Hello, Dan!", "tool.error g3 tool_rejected"]
    {
        assert_eq!(told.matches(part).count(), 1, "{part}: {told}");
    }
    assert!(told.ends_with("run.finished"), "{told}");
    assert_eq!(rig.greeted(), ["Ada", "Dan"]);
}

#[tokio::test]
async fn an_approval_that_the_harness_asks_for_counts_for_the_gate() {
    let native = json!({"interrupt_on": {"greet": {"allowed_decisions": ["approve", "edit", "reject"]}}});
    for (decision, edited, expected) in [
        (Decision::Approve, None, vec!["Ada"]),
        (Decision::Edit, Some(r#"{"name":"Dan"}"#), vec!["Dan"]),
        (Decision::Reject, None, vec![]),
    ] {
        let script = greets(&[("g1", json!({"name": "Ada"}))], &native);
        let Some(rig) = Rig::new(Approval::Always, script).await else { return };
        let (run_id, before) = rig.play().await;
        assert_eq!(told(&before), "tool.started g1; run.interrupted");
        let after = rig.answer(&run_id, vec![decide("g1", decision, edited)]).await;
        assert_eq!(last(&after), "run.finished", "{}", told(&after));
        assert_eq!(rig.greeted(), expected, "{}", told(&after));
    }
}
