//! The world of the model: a gateway's half that may vanish, a harness with a script, a log, and its readers.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use causeway_contract::event::EventData;
use causeway_contract::id::{ConversationId, HarnessId, Name, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::receipt::CommitReceipt;
use causeway_engine::coordinator::{Commit, Coordinator, Crash, Effect, Input, Signal, Stage};
use causeway_lifecycle::Thread;
use causeway_store::Record;
use causeway_store::memory::core::Memory;
use causeway_store::model::{
    self, Final, Generation, HeadMove, InterruptCommit, OpenRun, Owner, Revision, Status,
};
use causeway_store::record::Payload;
use causeway_store::store::Result;

use crate::support::{at, run};

/// What the harness would say if nothing came in between.
pub const SCRIPTS: &[&[&str]] = &[
    &["started", "text+ m", "text m Hi", "text- m", "state h", "finished"],
    &["started", "warn", "tool+ c", "text+ m", "state h", "ask c", "text- m", "interrupted"],
    &["started", "tool+ c", "enter c", "tool+ d", "exit c", "tool- c", "error"],
    &["started", "text+ m", "text- m", "text m late", "state h", "finished"],
];

#[derive(Clone)]
pub struct World {
    pub memory: Memory,
    /// The gateway's half, while it lives.
    pub driver: Option<Driver>,
    pub script: usize,
    pub thread: Thread,
    pub said: usize,
    pub harness_lives: bool,
    /// A write whose answer was lost: it may land at any time.
    pub adrift: Option<(Generation, Write)>,
    /// What readers were shown: number and type.
    pub told: Vec<(u64, &'static str)>,
    pub cancels: u8,
    pub crashes: u8,
    pub faults: u8,
    /// A hash of all of it.
    pub mark: u128,
}

#[derive(Clone)]
pub struct Driver {
    pub coordinator: Coordinator,
    pub effects: VecDeque<Effect>,
    pub generation: Generation,
}

#[derive(Clone, Debug)]
pub enum Write {
    Append(Vec<Record>),
    Commit(Box<Commit>),
}

impl World {
    pub fn new(script: usize, thread: Thread) -> Self {
        let mut world = Self {
            memory: Memory::new(),
            driver: Some(Driver {
                coordinator: Coordinator::new(run(thread)),
                effects: VecDeque::new(),
                generation: Generation::new(1),
            }),
            script,
            thread,
            said: 0,
            harness_lives: true,
            adrift: None,
            told: Vec::new(),
            cancels: 1,
            crashes: 2,
            faults: 2,
            mark: 0,
        };
        world.remember();
        world
    }

    /// Takes the hash of everything that makes two worlds different.
    pub fn remember(&mut self) {
        let text = self.fingerprint();
        let half = |salt: u8| {
            let mut hasher = std::hash::DefaultHasher::new();
            (salt, &text).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        self.mark = half(0) << 64 | half(1);
    }

    pub fn words(&self) -> &'static [&'static str] {
        SCRIPTS[self.script]
    }

    pub fn log(&self) -> Vec<Record> {
        self.memory.read_after(&run_id(), None, usize::MAX).map(|page| page.records).unwrap_or_default()
    }

    pub fn status(&self) -> Option<Status> {
        self.memory.run(&owner(), &run_id()).ok().map(|run| run.status)
    }

    pub fn head(&self) -> u64 {
        let head = self.memory.load_head(&owner(), &conversation(), &agent());
        head.map_or(0, |head| head.revision.value())
    }

    pub fn tell(&mut self, signal: Signal) {
        let Some(driver) = &mut self.driver else { return };
        let mut effects = Vec::new();
        driver.coordinator.apply(Input::new(at(0), signal), &mut effects);
        driver.effects.extend(effects);
    }

    pub fn next_effect(&self) -> Option<&Effect> {
        self.driver.as_ref().and_then(|driver| driver.effects.front())
    }

    /// Whether the run is over for this gateway.
    pub fn is_over(&self) -> bool {
        self.driver.as_ref().is_none_or(|driver| {
            driver.effects.is_empty() && matches!(driver.coordinator.stage(), Stage::Ended(_))
        })
    }

    /// Everything that makes two worlds different.
    pub fn fingerprint(&self) -> String {
        let driver = self.driver.as_ref().map(|driver| {
            format!("{:?}|{:?}|{}", driver.coordinator, driver.effects, driver.generation.value())
        });
        let log: Vec<_> =
            self.log().iter().map(|record| (record.event_type, record.data.as_str().to_owned())).collect();
        let outcome = self.memory.outcome(&run_id());
        let orphans = self.memory.list_orphans().len();
        format!(
            "{driver:?} {log:?} {outcome:?} {orphans} {} {} {:?} {} {} {:?} {:?} {} {} {}",
            self.head(),
            self.script,
            self.thread,
            self.said,
            self.harness_lives,
            self.adrift,
            self.told,
            self.cancels,
            self.crashes,
            self.faults
        )
    }
}

pub fn write(world: &mut World, write: &Write) -> Result<Option<CommitReceipt>> {
    let generation = world.driver.as_ref().map_or(Generation::new(1), |driver| driver.generation);
    apply(&mut world.memory, generation, write)
}

pub fn apply(memory: &mut Memory, generation: Generation, write: &Write) -> Result<Option<CommitReceipt>> {
    match write {
        Write::Append(records) => memory.append(&run_id(), generation, records.clone()).map(|()| None),
        Write::Commit(commit) => {
            let tail: Vec<Record> = commit.events.iter().map(Record::from_event).collect();
            let head = commit.head.as_ref().map(|head| HeadMove {
                expected: Revision::new(head.from),
                head_ref: head.head.reference.clone(),
            });
            match (&commit.interrupt, head) {
                (Some(interrupt_id), Some(head)) => {
                    let Some(EventData::RunInterrupted(ended)) =
                        commit.terminal().map(|terminal| &terminal.data)
                    else {
                        panic!("an interrupt is committed with its terminal")
                    };
                    let interrupt = InterruptCommit {
                        reason: ended.reason,
                        tail,
                        head,
                        interrupt_id: interrupt_id.clone(),
                        request: Payload::from("{}"),
                        snapshot: Payload::from("{}"),
                        expires_at: None,
                    };
                    memory.commit_interrupt(&run_id(), generation, interrupt).map(Some)
                }
                (_, head) => memory.commit_final(&run_id(), generation, Final { tail, head }).map(|()| None),
            }
        }
    }
}

pub fn recover(world: &mut World) {
    for orphan in world.memory.list_orphans() {
        let mut coordinator = Coordinator::recovering(run(world.thread));
        for record in world.log() {
            let event = record.decode(&orphan.run_id, &orphan.conversation_id, &Limits::DEFAULT).unwrap();
            coordinator.replay(&event).unwrap();
        }
        let mut effects = Vec::new();
        coordinator.apply(Input::new(at(9), Signal::Crashed(Crash::Restart)), &mut effects);
        for effect in effects {
            if let Effect::Commit(commit) = effect {
                let tail = commit.events.iter().map(Record::from_event).collect();
                world.memory.close_run(&orphan.run_id, tail).unwrap();
            }
        }
    }
}

/// A coordinator that has nothing left to do.
pub fn ended() -> Coordinator {
    let mut coordinator = Coordinator::new(run(Thread::Durable));
    let mut effects = Vec::new();
    coordinator.apply(Input::new(at(0), Signal::AppendFailed), &mut effects);
    coordinator
}

pub fn owner() -> Owner {
    Owner::local()
}

pub fn run_id() -> RunId<'static> {
    RunId::new("run-1").unwrap()
}

pub fn conversation() -> ConversationId<'static> {
    ConversationId::new("conversation-1").unwrap()
}

pub fn agent() -> Name<'static> {
    Name::new("helper").unwrap()
}

pub fn open(thread: Thread, started: Record) -> OpenRun {
    OpenRun {
        owner: owner(),
        run_id: run_id(),
        conversation_id: conversation(),
        agent_id: agent(),
        harness_id: HarnessId::new("deepagents").unwrap(),
        thread: match thread {
            Thread::Durable => model::Thread::Durable,
            Thread::Ephemeral => model::Thread::Ephemeral,
        },
        worker_thread: Some(Arc::from("t")),
        request: Payload::from("{}"),
        seed: None,
        idempotency: None,
        started,
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mark.hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.mark == other.mark
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log: Vec<_> = self.log().iter().map(|record| record.event_type.as_str()).collect();
        let stage = self.driver.as_ref().map(|driver| driver.coordinator.stage());
        write!(
            f,
            "{stage:?} status {:?} head {} log {log:?} told {:?}",
            self.status(),
            self.head(),
            self.told
        )
    }
}
