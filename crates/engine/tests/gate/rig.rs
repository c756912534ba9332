//! Engines whose tools leave a trace, around a worker that is a process or a puppet.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use causeway_adapter::worker::WorkerLine;
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_engine::config::{Driver, ProcessConfig};
use causeway_engine::engine::StartRun;
use causeway_engine::gate::invoke::{Call, Invoker, Returned};
use causeway_engine::gate::{Approval, Invoke, Tool, command};
use causeway_engine::harness::{Harness, Item, Session, Turn, TurnEnd};
use causeway_engine::schema::{Schemas, ToolSchema};
use causeway_engine::{AgentConfig, Engine, Settings};
use causeway_store::model::Owner;
use causeway_store::{MemoryStore, Record, Store};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, Semaphore, mpsc};

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub const SCHEMA: &str = r#"{"type":"object","required":["name"],"additionalProperties":false,"properties":{
    "name":{"type":"string","pattern":"^[a-z]{1,20}$"},
    "count":{"type":"integer","minimum":0,"maximum":9},
    "tags":{"type":"array","maxItems":3,"items":{"type":"string"}},
    "where":{"type":"object","properties":{"x":{"type":"number"}}}}}"#;

/// An engine with one agent.
pub struct Rig {
    /// Removed with the rig.
    _dir: TempDir,
    pub engine: Engine,
    pub store: Arc<dyn Store>,
}

impl Rig {
    /// A worker process with these tools; every tool has the same schema.
    pub async fn process(tools: &[(&str, Tool)], change: impl FnOnce(&mut AgentConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/asker.py");
        let config = ProcessConfig::new(vec!["python3".to_owned(), script.to_owned()]);
        Self::open(dir, Driver::Process(config), tools, Arc::new(MemoryStore::new()), change).await
    }

    pub async fn open(
        dir: TempDir,
        driver: Driver,
        tools: &[(&str, Tool)],
        store: Arc<dyn Store>,
        change: impl FnOnce(&mut AgentConfig),
    ) -> Self {
        let mut agent = AgentConfig::new(Name::new("helper").unwrap(), "canonical", driver);
        let schema = |(name, _): &(&str, Tool)| ((*name).to_owned(), ToolSchema::compile(SCHEMA).unwrap());
        agent.schemas = tools.iter().map(schema).collect::<Schemas>();
        agent.tools = tools.iter().map(|(name, tool)| ((*name).to_owned(), tool.clone())).collect();
        change(&mut agent);
        let engine = Engine::open(Settings::new(dir.path()), vec![agent], Arc::clone(&store)).await.unwrap();
        Self { _dir: dir, engine, store }
    }

    /// Puppets instead of processes, and one tool.
    pub async fn puppets(tool: &Arc<Counter>, store: Arc<dyn Store>) -> (Self, Turns) {
        let (driver, turns) = Puppet::driver();
        let tools = [("restart", tool.tool())];
        (Self::open(tempfile::tempdir().unwrap(), driver, &tools, store, |_| {}).await, turns)
    }

    pub async fn start(&self, text: &str) -> RunId<'static> {
        self.start_in(ConversationId::new(format!("c-{}", number())).unwrap(), text).await
    }

    pub async fn start_in(&self, conversation: ConversationId<'static>, text: &str) -> RunId<'static> {
        let request = StartRun::new(Owner::local(), Name::new("helper").unwrap(), conversation, text);
        self.engine.start(request).await.unwrap().run_id
    }

    /// Plays a script to its end.
    pub async fn play(&self, steps: &[Value]) -> Vec<Record> {
        let run_id = self.start(&Value::from(steps.to_vec()).to_string()).await;
        self.records(&run_id).await
    }

    /// The whole run, which obeys every rule.
    pub async fn records(&self, run_id: &RunId<'static>) -> Vec<Record> {
        let run = self.engine.run(&Owner::local(), run_id).await.unwrap();
        crate::runs::checked(&self.engine, run_id, &run.conversation_id).await
    }
}

fn number() -> usize {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A call of a tool that is invoked by itself.
pub fn call(call_id: &str) -> Call {
    Call {
        run_id: "run-1".to_owned(),
        call_id: call_id.to_owned(),
        tool: "t".to_owned(),
        arguments: r#"{"name":"api"}"#.to_owned(),
        timeout: PATIENCE,
        max_output: 1 << 20,
    }
}

/// A program as a tool.
pub fn program(argv: &[&str]) -> Tool {
    let argv = argv.iter().map(|&word| word.to_owned()).collect();
    let mut tool = Tool::new(Invoke::Command(command::Config { argv, env: BTreeMap::new() }));
    tool.timeout = PATIENCE;
    tool
}

/// A program that leaves a file behind for every time that it is run.
pub fn tracing(dir: &std::path::Path) -> (Tool, PathBuf) {
    let traces = dir.join("traces");
    std::fs::create_dir_all(&traces).unwrap();
    let script = format!("cat > '{}'/$$ && echo done", traces.display());
    (program(&["/bin/sh", "-c", &script]), traces)
}

/// The arguments that a tracing program was run with, in no order.
pub fn traces(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

/// A tool that counts its calls and answers when it is let.
pub struct Counter {
    pub calls: std::sync::Mutex<Vec<Call>>,
    pub begun: Semaphore,
    pub lets: Semaphore,
}

impl Counter {
    pub fn new(lets: usize) -> Arc<Self> {
        let calls = std::sync::Mutex::default();
        Arc::new(Self { calls, begun: Semaphore::new(0), lets: Semaphore::new(lets) })
    }

    pub fn tool(self: &Arc<Self>) -> Tool {
        Tool { approval: Approval::Never, ..Tool::new(Invoke::Custom(Arc::clone(self) as Arc<dyn Invoker>)) }
    }

    pub fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Waits until so many calls have begun.
    pub async fn has_begun(&self, calls: u32) {
        tokio::time::timeout(PATIENCE, self.begun.acquire_many(calls)).await.unwrap().unwrap().forget();
    }
}

#[async_trait]
impl Invoker for Counter {
    async fn invoke(&self, call: &Call) -> Returned {
        self.calls.lock().unwrap().push(call.clone());
        self.begun.add_permits(1);
        self.lets.acquire().await.unwrap().forget();
        Returned::Said(format!("call {}", call.call_id))
    }
}

/// A harness whose turns the test holds by their strings.
pub struct Puppet {
    begun: mpsc::UnboundedSender<Strings>,
}

/// The strings of one turn.
pub struct Strings {
    pub turn: Turn,
    items: mpsc::UnboundedSender<Item>,
    replies: mpsc::UnboundedReceiver<Vec<u8>>,
}

pub struct Turns(Mutex<mpsc::UnboundedReceiver<Strings>>);

impl Puppet {
    pub fn driver() -> (Driver, Turns) {
        let (begun, turns) = mpsc::unbounded_channel();
        (Driver::Custom(Arc::new(Self { begun })), Turns(Mutex::new(turns)))
    }
}

impl Turns {
    pub async fn next(&self) -> Strings {
        let next = async { self.0.lock().await.recv().await };
        tokio::time::timeout(PATIENCE, next).await.unwrap().unwrap()
    }
}

impl Strings {
    pub fn line(&self, line: &str) {
        let _ = self.items.send(Item::Line(line.as_bytes().to_vec()));
    }

    pub fn begin(&self) {
        self.line(r#"{"kind":"begin","run_id":"r","op":"run"}"#);
    }

    pub fn end(&self) {
        self.line(r#"{"kind":"end","run_id":"r","state":{"head":"h","interrupts":[]}}"#);
        let _ = self.items.send(Item::End(TurnEnd::Regular));
    }

    pub fn ask(&self, call: &str, tool: &str, arguments: &str) {
        self.ask_as(self.turn.tools.as_ref().map_or(0, |offer| offer.generation), call, tool, arguments);
    }

    pub fn ask_as(&self, generation: u64, call: &str, tool: &str, arguments: &str) {
        let line = serde_json::json!({"kind": "tool", "run_id": "r", "call_id": call, "name": tool,
            "arguments": arguments, "generation": generation});
        match WorkerLine::parse(line.to_string().as_bytes()).unwrap() {
            WorkerLine::Tool(line) => drop(self.items.send(Item::Tool(line))),
            other => panic!("{other:?}"),
        }
    }

    /// What the gate says next: call, status and code.
    pub async fn reply(&mut self) -> String {
        let reply = tokio::time::timeout(PATIENCE, self.replies.recv()).await.expect("no reply").unwrap();
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        let word = |key: &str| reply[key].as_str().unwrap_or_default().to_owned();
        [word("call_id"), word("status"), word("code")].join(" ").trim_end().to_owned()
    }
}

#[async_trait]
impl Harness for Puppet {
    fn begin(&self, turn: Turn) -> Box<dyn Session> {
        let (items, heard) = mpsc::unbounded_channel();
        let (say, replies) = mpsc::unbounded_channel();
        let _ = self.begun.send(Strings { turn, items, replies });
        Box::new(Held { heard, say })
    }

    fn cancel_grace(&self) -> Duration {
        PATIENCE
    }
}

struct Held {
    heard: mpsc::UnboundedReceiver<Item>,
    say: mpsc::UnboundedSender<Vec<u8>>,
}

#[async_trait]
impl Session for Held {
    async fn next(&mut self) -> Item {
        self.heard.recv().await.unwrap_or(Item::End(TurnEnd::Broken))
    }

    fn cancel(&mut self) {}

    fn reply(&mut self, line: Vec<u8>) {
        let _ = self.say.send(line);
    }

    async fn stop(&mut self) {
        self.heard.close();
    }
}

/// What the log tells of calls: start, end and code, call by call as they came.
pub fn calls(records: &[Record]) -> String {
    let told =
        records.iter().filter(|record| record.event_type.as_str().starts_with("tool.")).map(|record| {
            let data: Value = serde_json::from_str(record.data.as_str()).unwrap();
            let code =
                data.get("code").and_then(Value::as_str).map(|code| format!(" {code}")).unwrap_or_default();
            format!("{} {}{code}", record.event_type.as_str(), data["tool_call_id"].as_str().unwrap())
        });
    told.collect::<Vec<_>>().join("; ")
}

/// The data of the events of one type.
pub fn data(records: &[Record], kind: &str) -> Vec<Value> {
    let of_kind = records.iter().filter(|record| record.event_type.as_str() == kind);
    of_kind.map(|record| serde_json::from_str(record.data.as_str()).unwrap()).collect()
}
