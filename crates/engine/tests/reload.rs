//! Agents replaced while runs go on: who ends under what, whose workers stay, and what a fault changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/harness.rs"]
mod harness;
#[path = "support/runs.rs"]
mod runs;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_engine::answer::Answer;
use causeway_engine::config::{Driver, Pace, ProcessConfig, RecordingConfig, Thread};
use causeway_engine::engine::StartRun;
use causeway_engine::{AgentConfig, AnswerRun, Engine, Error, OpenError, Reloaded, Settings};
use causeway_store::MemoryStore;
use causeway_store::model::{Owner, Status};
use tempfile::TempDir;

use harness::{Scripted, Step, agent, answer, begin, engine, follow, question, settings, start, story};
use runs::{text, until};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(120);

fn id(name: &str) -> Name<'static> {
    Name::new(name.to_owned()).unwrap()
}

/// An agent whose worker says `says` and its process; `change` tells it more.
fn named(dir: &Path, agent: &str, says: &str, change: impl FnOnce(&mut ProcessConfig)) -> AgentConfig {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/named.py");
    let go = dir.join("go");
    let command = ["python3", script, says, go.to_str().unwrap()];
    let mut process = ProcessConfig::new(command.map(str::to_owned).to_vec());
    change(&mut process);
    let thread = Thread::Ephemeral;
    AgentConfig { thread, ..AgentConfig::new(id(agent), "canonical", Driver::Process(process)) }
}

async fn open(dir: &TempDir, agents: Vec<AgentConfig>) -> Engine {
    let settings = Settings::new(dir.path().join("data"));
    Engine::open(settings, agents, Arc::new(MemoryStore::new())).await.unwrap()
}

async fn begun(
    engine: &Engine,
    agent: &str,
    conversation: &str,
    message: &str,
) -> Result<RunId<'static>, Error> {
    let conversation = ConversationId::new(conversation.to_owned()).unwrap();
    let start = StartRun::new(Owner::local(), id(agent), conversation, message);
    Ok(engine.start(start).await?.run_id)
}

/// What the worker of a whole run called itself, and its process.
async fn told(engine: &Engine, run: &RunId<'_>) -> (String, u32) {
    let records = follow(engine, run, None).await.unwrap();
    assert!(story(&records).ends_with("run.finished"), "{}", story(&records));
    let said = text(&records);
    let (name, pid) = said.split_once(' ').unwrap();
    (name.to_owned(), pid.parse().unwrap())
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that nobody has waited for yet is gone all the same.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

async fn eventually(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn names(reloaded: &Reloaded) -> [Vec<&str>; 4] {
    let Reloaded { added, changed, removed, kept } = reloaded;
    [added, changed, removed, kept].map(|list| list.iter().map(String::as_str).collect())
}

#[tokio::test]
async fn runs_end_under_the_agent_they_began_with_and_its_workers_leave_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let agent = |says: &str| named(dir.path(), "a", says, |_| {});
    let engine = open(&dir, vec![agent("old")]).await;
    let idle = begun(&engine, "a", "idle", "hello").await.unwrap();
    let (_, idle) = told(&engine, &idle).await;
    let waits = begun(&engine, "a", "waits", "wait").await.unwrap();
    until(&engine, &waits, "text.delta").await;

    let reloaded = engine.reload(vec![agent("new")]).await.unwrap();
    assert_eq!(names(&reloaded), [vec![], vec!["a"], vec![], vec![]]);
    eventually("the idle worker of the old agent leaves", || !lives(idle)).await;
    let (name, new) = told(&engine, &begun(&engine, "a", "idle", "hello").await.unwrap()).await;
    assert_eq!(name, "new", "the next run of a conversation is the new agent's");

    assert_eq!(engine.run(&Owner::local(), &waits).await.unwrap().status, Status::Running);
    std::fs::write(dir.path().join("go"), "").unwrap();
    let (name, old) = told(&engine, &waits).await;
    assert_eq!(name, "old");
    eventually("the worker of the old agent leaves behind its run", || !lives(old)).await;
    assert!(lives(new), "that of the new one stays");
    engine.shutdown(Duration::from_secs(5)).await;
    assert!(!lives(new));
}

#[tokio::test]
async fn an_agent_that_is_as_it_was_keeps_its_idle_worker_and_one_with_another_secret_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let agents = |secret: &str| {
        let kept = named(dir.path(), "kept", "kept", |_| {});
        let slower = named(dir.path(), "slower", "slower", |_| {});
        let secret = |process: &mut ProcessConfig| drop(process.env.insert("KEY".into(), secret.into()));
        vec![kept, slower, named(dir.path(), "secret", "secret", secret)]
    };
    let engine = open(&dir, agents("one")).await;
    let mut before = Vec::new();
    for agent in ["kept", "slower", "secret"] {
        before.push(told(&engine, &begun(&engine, agent, agent, "hello").await.unwrap()).await.1);
    }
    let mut next = agents("two");
    next[1].deadline = Duration::from_secs(77);
    let reloaded = engine.reload(next).await.unwrap();
    assert_eq!(names(&reloaded), [vec![], vec!["secret", "slower"], vec![], vec!["kept"]]);
    assert!(!format!("{:?}", engine.agents()).contains("two"), "a secret is not printed");
    let mut after = Vec::new();
    for agent in ["kept", "slower", "secret"] {
        after.push(told(&engine, &begun(&engine, agent, agent, "hello").await.unwrap()).await.1);
    }
    assert_eq!(after[..2], before[..2], "another deadline is no reason for another worker");
    assert_ne!(after[2], before[2]);
    eventually("the worker with the old secret leaves", || !lives(before[2])).await;
    engine.shutdown(Duration::from_secs(5)).await;
    assert!(after.iter().all(|pid| !lives(*pid)));
}

#[tokio::test]
async fn a_shutdown_ends_workers_of_agents_that_were_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir, vec![named(dir.path(), "a", "old", |_| {})]).await;
    let waits = begun(&engine, "a", "c", "wait").await.unwrap();
    until(&engine, &waits, "text.delta").await;
    let reloaded = engine.reload(Vec::new()).await.unwrap();
    assert_eq!(names(&reloaded), [vec![], vec![], vec!["a"], vec![]]);
    engine.shutdown(Duration::from_secs(5)).await;
    let records = follow(&engine, &waits, None).await.unwrap();
    assert!(story(&records).contains("run.cancelled"), "{}", story(&records));
    let pid: u32 = text(&records).split_once(' ').unwrap().1.parse().unwrap();
    assert!(!lives(pid));
    assert!(matches!(engine.reload(Vec::new()).await, Err(OpenError::ShuttingDown)));
}

#[tokio::test]
async fn runs_of_an_agent_that_was_removed_are_read_and_its_question_waits_until_it_is_back() {
    let harness = Scripted::new([vec![begin(), question("h1")], answer("h2")]);
    let engine = engine(agent(&harness), Arc::new(MemoryStore::new())).await;
    let asked = start(&engine, "c").await;
    let records = follow(&engine, &asked, None).await.unwrap();
    assert!(story(&records).ends_with("run.interrupted"), "{}", story(&records));
    let interrupt = engine.interrupt(&Owner::local(), &asked).await.unwrap();
    let reply = || AnswerRun {
        owner: Owner::local(),
        run_id: asked.clone(),
        interrupt_id: interrupt.summary.interrupt_id.clone(),
        revision: interrupt.summary.revision,
        answer: Answer::Values(JsonObject::parse(r#"{"answer":"Oslo"}"#, &Limits::DEFAULT).unwrap()),
        route: "test",
        idempotency_key: None,
        traceparent: None,
    };
    engine.reload(Vec::new()).await.unwrap();
    let unknown = Error::UnknownAgent { id: "helper".to_owned() };
    assert_eq!(engine.start(harness::request("d")).await.unwrap_err(), unknown);
    assert_eq!(engine.resume(reply()).await.unwrap_err(), unknown);
    assert_eq!(follow(&engine, &asked, None).await.unwrap(), records);
    assert!(engine.findings(&Owner::local(), &asked).await.unwrap().refused.is_empty());
    assert_eq!(engine.pending_interrupts(&Owner::local()).await.unwrap().len(), 1);

    let back = Scripted::new([answer("h2")]);
    let reloaded = engine.reload(vec![agent(&back)]).await.unwrap();
    assert_eq!(names(&reloaded), [vec!["helper"], vec![], vec![], vec![]]);
    let resumed = engine.resume(reply()).await.unwrap().run_id;
    let records = follow(&engine, &resumed, None).await.unwrap();
    assert!(story(&records).ends_with("run.finished"), "{}", story(&records));
    assert_eq!(back.begun.lock().unwrap().len(), 1);
    assert_eq!(back.reaped.load(Ordering::SeqCst), 0, "nothing is reaped while runs may go on");
}

#[tokio::test]
async fn a_fault_in_one_agent_changes_none() {
    let dir = tempfile::tempdir().unwrap();
    let harness = Scripted::new([answer("h1"), vec![begin(), Step::Hang]]);
    harness.says_when_cancelled(vec![]);
    let engine = Engine::open(settings(), vec![agent(&harness)], Arc::new(MemoryStore::new())).await.unwrap();
    let nowhere = RecordingConfig { file: dir.path().join("nowhere"), pace: Pace::Fast };
    let faulty = AgentConfig::new(id("faulty"), "deepagents", Driver::Recording(nowhere));
    let mut other = agent(&harness);
    other.deadline = Duration::from_secs(1);
    let refused = engine.reload(vec![other, faulty]).await.unwrap_err();
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    let twice = engine.reload(vec![agent(&harness), agent(&harness)]).await.unwrap_err();
    assert_eq!(twice, OpenError::AgentTwice { id: "helper".to_owned() });
    let agents = engine.agents();
    assert_eq!((agents.len(), agents[0].deadline), (1, agent(&harness).deadline));
    let run = start(&engine, "c").await;
    assert!(story(&follow(&engine, &run, None).await.unwrap()).ends_with("run.finished"));
}

#[tokio::test]
async fn what_is_between_sees_neither_those_that_go_nor_those_that_come() {
    let harness = Scripted::new([]);
    let [gone, stays, comes] =
        ["gone", "stays", "comes"].map(|name| AgentConfig { id: id(name), ..agent(&harness) });
    let engine =
        Engine::open(settings(), vec![gone, stays.clone()], Arc::new(MemoryStore::new())).await.unwrap();
    let all = || -> Vec<String> { engine.agents().iter().map(|agent| agent.id.to_string()).collect() };
    let mut between = Vec::new();
    let reloaded = engine.prepare(vec![stays, comes]).await.unwrap().apply(|| between = all());
    assert_eq!(between, ["stays"]);
    assert_eq!(all(), ["comes", "stays"]);
    assert_eq!(names(&reloaded), [vec!["comes"], vec![], vec!["gone"], vec!["stays"]]);
}

#[tokio::test]
async fn a_recording_that_holds_something_else_is_another_agent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("recording.jsonl");
    let lines = |says: &str| {
        let step = |step: Step| match step {
            Step::Line(line) => line,
            _ => unreachable!("lines only"),
        };
        [begin(), harness::text("m", says), harness::end("h")].map(step).join("\n")
    };
    std::fs::write(&file, lines("one")).unwrap();
    let config = || {
        let recording = RecordingConfig { file: file.clone(), pace: Pace::Fast };
        AgentConfig::new(id("helper"), "deepagents", Driver::Recording(recording))
    };
    let engine = engine(config(), Arc::new(MemoryStore::new())).await;
    assert_eq!(names(&engine.reload(vec![config()]).await.unwrap())[3], ["helper"]);
    std::fs::write(&file, lines("two")).unwrap();
    assert_eq!(names(&engine.reload(vec![config()]).await.unwrap())[1], ["helper"]);
    let run = start(&engine, "c").await;
    assert_eq!(text(&follow(&engine, &run, None).await.unwrap()), "two");
}
