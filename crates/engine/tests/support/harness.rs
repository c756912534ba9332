//! A harness whose every word a test decides, and an engine around it.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_engine::config::Driver;
use causeway_engine::engine::{StartRun, Started};
use causeway_engine::harness::{Ask, Claim, Harness, Item, NoRoom, Session, Turn, TurnEnd};
use causeway_engine::{AgentConfig, Engine, Error, Settings};
use causeway_store::model::Owner;
use causeway_store::{Record, Store};

/// What a scripted turn does next.
#[derive(Clone, Debug)]
pub enum Step {
    Line(String),
    Pause(Duration),
    Hang,
    /// The same line for ever, as fast as it is read.
    Flood(String),
    End(TurnEnd),
    /// A fault of the driver itself.
    Panic,
}

/// How a turn answers a cancel.
#[derive(Clone, Debug, Default)]
pub enum OnCancel {
    /// It says these words, then ends.
    Say(Vec<String>),
    /// It does not care.
    #[default]
    Ignore,
}

#[derive(Default)]
pub struct Scripted {
    turns: Mutex<VecDeque<Vec<Step>>>,
    pub on_cancel: Mutex<OnCancel>,
    pub begun: Mutex<Vec<Turn>>,
    pub read: Arc<AtomicUsize>,
    pub stopped: Arc<AtomicUsize>,
    pub reaped: AtomicUsize,
    pub forgets: AtomicBool,
    pub full: AtomicBool,
    /// Whether the driver panics when a turn begins.
    pub breaks: AtomicBool,
}

impl Scripted {
    pub fn new(turns: impl IntoIterator<Item = Vec<Step>>) -> Arc<Self> {
        Arc::new(Self { turns: Mutex::new(turns.into_iter().collect()), ..Self::default() })
    }

    pub fn add(&self, turn: Vec<Step>) {
        self.turns.lock().unwrap().push_back(turn);
    }

    pub fn forget_turns(&self) {
        self.turns.lock().unwrap().clear();
    }

    pub fn says_when_cancelled(&self, words: Vec<String>) {
        *self.on_cancel.lock().unwrap() = OnCancel::Say(words);
    }
}

#[async_trait]
impl Harness for Scripted {
    async fn reap(&self) -> Result<(), String> {
        self.reaped.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn begin(&self, turn: Turn) -> Box<dyn Session> {
        assert!(!self.breaks.swap(false, Ordering::SeqCst), "a fault of the driver");
        self.begun.lock().unwrap().push(turn);
        let steps = self.turns.lock().unwrap().pop_front().unwrap_or_default();
        Box::new(Playing {
            steps: steps.into(),
            on_cancel: self.on_cancel.lock().unwrap().clone(),
            read: Arc::clone(&self.read),
            stopped: Arc::clone(&self.stopped),
            forgets: self.forgets.load(Ordering::SeqCst),
            pause: None,
        })
    }

    fn admit(&self, _ask: &Ask<'_>) -> Result<Claim, NoRoom> {
        if self.full.load(Ordering::SeqCst) { Err(NoRoom::Busy) } else { Ok(Claim::default()) }
    }

    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(2)
    }
}

struct Playing {
    steps: VecDeque<Step>,
    on_cancel: OnCancel,
    read: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
    forgets: bool,
    pause: Option<tokio::time::Instant>,
}

#[async_trait]
impl Session for Playing {
    async fn next(&mut self) -> Item {
        loop {
            match self.steps.front().cloned() {
                Some(Step::Line(line)) => {
                    self.steps.pop_front();
                    self.read.fetch_add(1, Ordering::SeqCst);
                    return Item::Line(line.into_bytes());
                }
                Some(Step::Pause(pause)) => {
                    let until = *self.pause.get_or_insert_with(|| tokio::time::Instant::now() + pause);
                    tokio::time::sleep_until(until).await;
                    self.pause = None;
                    self.steps.pop_front();
                }
                Some(Step::Hang) => std::future::pending::<()>().await,
                Some(Step::Flood(line)) => {
                    self.read.fetch_add(1, Ordering::SeqCst);
                    return Item::Line(line.into_bytes());
                }
                Some(Step::Panic) => panic!("a fault of the driver"),
                Some(Step::End(end)) => {
                    self.steps.pop_front();
                    return Item::End(end);
                }
                None => return Item::End(TurnEnd::Regular),
            }
        }
    }

    fn cancel(&mut self) {
        if let OnCancel::Say(words) = &self.on_cancel {
            self.steps = words.iter().cloned().map(Step::Line).collect();
            self.pause = None;
        }
    }

    async fn stop(&mut self) {
        self.stopped.fetch_add(1, Ordering::SeqCst);
        self.steps.clear();
    }

    fn forgot(&self) -> bool {
        self.forgets
    }
}

pub fn begin() -> Step {
    Step::Line(r#"{"kind":"begin","run_id":"r","op":"run"}"#.to_owned())
}

pub fn text(message: &str, piece: &str) -> Step {
    Step::Line(text_line(message, piece))
}

pub fn text_line(message: &str, piece: &str) -> String {
    format!(
        r#"{{"kind":"chunk","run_id":"r","ns":[],"mode":"messages","data":[{{"type":"AIMessageChunk","id":"{message}","content":"{piece}"}},{{"langgraph_node":"model"}}]}}"#
    )
}

pub fn end(head: &str) -> Step {
    Step::Line(end_line(head))
}

pub fn end_line(head: &str) -> String {
    format!(r#"{{"kind":"end","run_id":"r","state":{{"head":"{head}","interrupts":[]}}}}"#)
}

/// A turn that pauses with a plain question.
pub fn question(head: &str) -> Step {
    Step::Line(format!(
        r#"{{"kind":"end","run_id":"r","state":{{"head":"{head}","interrupts":[{{"type":"Interrupt","id":"i1","value":"Which city?"}}]}}}}"#
    ))
}

pub fn cancelled_line(head: &str) -> String {
    format!(r#"{{"kind":"cancelled","run_id":"r","state":{{"head":"{head}"}}}}"#)
}

/// begin, some text, a regular end.
pub fn answer(head: &str) -> Vec<Step> {
    vec![begin(), text("m", "Hello"), text("m", " there"), end(head)]
}

pub fn agent(harness: &Arc<Scripted>) -> AgentConfig {
    let driver = Driver::Custom(Arc::clone(harness) as Arc<dyn Harness>);
    AgentConfig::new(Name::new("helper").unwrap(), "deepagents", driver)
}

pub fn settings() -> Settings {
    Settings::new("/nonexistent")
}

pub async fn engine(agent: AgentConfig, store: Arc<dyn Store>) -> Engine {
    Engine::open(settings(), vec![agent], store).await.unwrap()
}

pub fn request(conversation: &str) -> StartRun {
    let conversation = ConversationId::new(conversation.to_owned()).unwrap();
    StartRun::new(Owner::local(), Name::new("helper").unwrap(), conversation, "Hi")
}

pub async fn start(engine: &Engine, conversation: &str) -> RunId<'static> {
    let Started { run_id, replayed } = engine.start(request(conversation)).await.unwrap();
    assert!(!replayed);
    run_id
}

/// Follows a run from `after` to its end.
pub async fn follow(
    engine: &Engine,
    run_id: &RunId<'_>,
    after: Option<Sequence>,
) -> Result<Vec<Record>, Error> {
    let mut subscription = engine.subscribe(&Owner::local(), run_id, after).await?;
    let mut records = Vec::new();
    let all = async {
        while let Some(record) = subscription.next().await? {
            records.push(record);
        }
        Ok::<(), Error>(())
    };
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("the run ends")?;
    Ok(records)
}

/// Types of events, and what terminals say.
pub fn story(records: &[Record]) -> String {
    let words = records.iter().map(|record| {
        let data = record.data.as_str();
        let value = |key: &str| {
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            data.get(key).and_then(|value| value.as_str()).unwrap_or("-").to_owned()
        };
        match record.event_type.as_str() {
            "run.error" => format!("run.error {}", value("code")),
            "run.cancelled" => format!("run.cancelled {}", value("reason")),
            other => other.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join("; ")
}
