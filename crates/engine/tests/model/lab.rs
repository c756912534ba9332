//! The real code of the model: coordinators and logs, each kept once under a number, and what they do, looked up.
//!
//! A pure machine does the same thing twice when it is told the same thing twice, so every step of a
//! [`Coordinator`] and every write to a [`Memory`] is computed once, by the machine itself, and remembered. That, and
//! not a simplified copy of them, is what makes millions of worlds affordable.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::{Mutex, RwLock};

use causeway_contract::event::Event;
use causeway_contract::id::{Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use causeway_engine::coordinator::{
    Closing, Coordinator, Crash, Effect, Head, Input, Outcome, Run, Signal, Stage,
};
use causeway_lifecycle::Thread;
use causeway_store::Record;
use causeway_store::memory::core::Memory;

use crate::guard::Guards;
use crate::log;
use crate::scene::{RUNS, Scene, WORDS};
use crate::support::{at, run as known, signal};
use crate::world::{Answer, Bits, Facts, LENGTH, List, Rec, Verb};

/// What a coordinator can be told, as a number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Sig {
    Word(u8),
    State(Bits),
    Closed,
    Cancel,
    Opened { revision: u8 },
    Appended { through: u8 },
    AppendFailed,
    Committed,
    Receipt { revision: u8, state: Bits },
    CommitRefused,
    CommitUnknown,
    Outcome(Outcome),
}

/// What a coordinator made of it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub coordinator: u32,
    pub effects: List,
    pub over: bool,
}

/// What an effect asks for, as far as the model looks into it.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Open(Rec),
    Append(Rec),
    Commit { tail: List, from: u8, head: Option<Bits>, interrupt: bool },
    ReadOutcome,
    Deliver { through: u8 },
    StopHarness,
    Close(Closing),
    Other,
}

pub struct Lab {
    pub without: Guards,
    steps: Memo<(u32, Sig), Step>,
    writes: Memo<(u32, Verb, bool), (u32, Answer)>,
    facts: RwLock<Vec<Facts>>,
    acts: RwLock<Vec<Act>>,
    fresh: [[u32; RUNS]; 2],
    shelf: Mutex<Shelf>,
}

/// The values behind the numbers.
#[derive(Default)]
pub struct Shelf {
    coordinators: Numbered<String, Coordinator>,
    effects: Numbered<String, Effect>,
    pub records: Numbered<(u64, &'static str, String), Record>,
    stores: Numbered<Vec<u8>, log::Stored>,
    /// Logs that were validated.
    pub valid: HashMap<(bool, List), bool>,
}

impl Lab {
    pub fn new(without: Guards) -> Self {
        let mut shelf = Shelf::default();
        let fresh = [Thread::Durable, Thread::Ephemeral].map(|thread| {
            std::array::from_fn(|number| {
                let coordinator = Coordinator::new(about(number as u8, thread));
                shelf.coordinators.number(format!("{coordinator:?}"), || coordinator)
            })
        });
        Self {
            without,
            steps: Memo::new(),
            writes: Memo::new(),
            facts: RwLock::default(),
            acts: RwLock::default(),
            fresh,
            shelf: Mutex::new(shelf),
        }
    }

    /// The number of the log with which a scene begins.
    pub fn empty(&self, number: u8, scene: &Scene) -> (u32, Facts) {
        let mut shelf = self.shelf.lock().unwrap();
        self.shelve(&mut shelf, log::Stored::new(number, scene))
    }

    /// The coordinator of a run of which nothing has happened.
    pub fn fresh(&self, run: u8, thread: Thread) -> u32 {
        self.fresh[usize::from(thread == Thread::Ephemeral)][usize::from(run)]
    }

    pub fn act(&self, effect: u16) -> Act {
        self.acts.read().unwrap()[usize::from(effect)]
    }

    pub fn facts(&self, store: u32) -> Facts {
        self.facts.read().unwrap()[store as usize]
    }

    /// Tells a coordinator something.
    pub fn tell(&self, coordinator: u32, told: Sig) -> Step {
        self.steps.get((coordinator, told), || {
            let mut shelf = self.shelf.lock().unwrap();
            let mut next = shelf.coordinators.values[coordinator as usize].clone();
            let mut effects = Vec::new();
            next.apply(Input::new(at(0), told.signal()), &mut effects);
            let effects: Vec<u16> =
                effects.into_iter().map(|effect| self.effect(&mut shelf, effect)).collect();
            let over = matches!(next.stage(), Stage::Ended(_));
            let coordinator = shelf.coordinators.number(format!("{next:?}"), || next);
            Step { coordinator, effects: List::of(&effects), over }
        })
    }

    /// The event that a coordinator would make of a word, and that it holds back.
    pub fn held(&self, coordinator: u32, run: u8, word: u8) -> Rec {
        let mut shelf = self.shelf.lock().unwrap();
        let sequence = shelf.coordinators.values[coordinator as usize].next_sequence();
        let Signal::Draft(draft) = Sig::Word(word).signal() else { panic!("no draft") };
        let event = draft.into_event(run_id(run), log::conversation(), sequence, at(0));
        shelf.record(&event)
    }

    /// Writes to a log, as if nothing else did. `lax` makes no checks: those of its transaction were made before.
    pub fn write(&self, store: u32, verb: Verb, lax: bool) -> (u32, Answer) {
        self.writes.get((store, verb, lax), || {
            let mut shelf = self.shelf.lock().unwrap();
            let mut next = shelf.stores.values[store as usize].clone();
            let answer = next.write(verb, lax, self.without, &shelf);
            if matches!(answer, Answer::Refused(_) | Answer::Replayed { .. }) {
                return (store, answer);
            }
            (self.shelve(&mut shelf, next).0, answer)
        })
    }

    fn shelve(&self, shelf: &mut Shelf, stored: log::Stored) -> (u32, Facts) {
        let facts = stored.facts(shelf);
        let number = shelf.stores.number(stored.key(&facts), || stored);
        let mut all = self.facts.write().unwrap();
        if number as usize == all.len() {
            all.push(facts);
        }
        (number, facts)
    }

    fn effect(&self, shelf: &mut Shelf, effect: Effect) -> u16 {
        let act = match &effect {
            Effect::Open(event) => Act::Open(shelf.record(event)),
            Effect::Append(event) => Act::Append(shelf.record(event)),
            Effect::Commit(commit) => {
                let tail: Vec<Rec> = commit.events.iter().map(|event| shelf.record(event)).collect();
                let head = commit.head.as_ref();
                Act::Commit {
                    tail: List::of(&tail),
                    from: head.map_or(0, |head| head.from as u8),
                    head: head.map(|head| state_of(&head.head.reference)),
                    interrupt: commit.interrupt.is_some(),
                }
            }
            Effect::ReadOutcome => Act::ReadOutcome,
            Effect::Deliver { through } => Act::Deliver { through: through.value() as u8 },
            Effect::StopHarness => Act::StopHarness,
            Effect::Close(how) => Act::Close(*how),
            Effect::CancelHarness(_) | Effect::Reject(_) | Effect::Late(_) => Act::Other,
        };
        let number = shelf.effects.number(format!("{effect:?}"), || effect);
        let mut acts = self.acts.write().unwrap();
        if number as usize == acts.len() {
            acts.push(act);
        }
        number as u16
    }

    /// How many coordinators, effects, records and logs there are.
    pub fn sizes(&self) -> [usize; 4] {
        let shelf = self.shelf.lock().unwrap();
        let Shelf { coordinators, effects, records, stores, .. } = &*shelf;
        [coordinators.values.len(), effects.values.len(), records.values.len(), stores.values.len()]
    }

    /// Records in words.
    pub fn spell(&self, list: &List) -> String {
        let shelf = self.shelf.lock().unwrap();
        let names = list.as_slice().iter().map(|record| shelf.at(*record).event_type.as_str());
        names.collect::<Vec<_>>().join(" ")
    }
}

impl Shelf {
    pub fn record(&mut self, event: &Event<'_>) -> Rec {
        self.file(&Record::from_event(event))
    }

    pub fn file(&mut self, record: &Record) -> Rec {
        let sequence = record.sequence.value();
        let text = format!("{}{}", record.namespace, record.data.as_str());
        let key = (sequence, record.event_type.as_str(), text);
        let name = self.records.number(key, || record.clone());
        assert!(sequence < 32 && name < 2048, "records fit into their numbers");
        (sequence as u16) << 11 | name as u16
    }

    pub fn at(&self, record: Rec) -> &Record {
        &self.records.values[usize::from(record & 2047)]
    }

    pub fn effect_at(&self, effect: u16) -> &Effect {
        &self.effects.values[usize::from(effect)]
    }
}

impl Sig {
    fn signal(self) -> Signal {
        match self {
            Self::Word(word) => signal(WORDS[usize::from(word)]),
            Self::State(state) => {
                Signal::State(Head { reference: reference(state), private: Some("{}".to_owned()) })
            }
            Self::Closed => Signal::Closed,
            Self::Cancel => signal("cancel"),
            Self::Opened { revision } => Signal::Opened { base_revision: u64::from(revision) },
            Self::Appended { through } => Signal::Appended { through: number(through) },
            Self::AppendFailed => Signal::AppendFailed,
            Self::Committed => Signal::Committed(None),
            Self::Receipt { revision, state } => {
                Signal::Committed(Some(CommitReceipt::issued_by_store(u64::from(revision), reference(state))))
            }
            Self::CommitRefused => Signal::CommitRefused,
            Self::CommitUnknown => Signal::CommitUnknown,
            Self::Outcome(outcome) => Signal::Outcome(outcome),
        }
    }
}

/// The number of a word.
pub fn word(text: &str) -> u8 {
    WORDS.iter().position(|word| *word == text).unwrap() as u8
}

/// What the worker calls a state: the runs whose effects it holds.
pub fn reference(state: Bits) -> Reference<'static> {
    Reference::new(format!("s{state:x}")).unwrap()
}

pub fn state_of(reference: &Reference<'_>) -> Bits {
    u8::from_str_radix(&reference.as_str()[1..], 16).unwrap()
}

pub fn number(sequence: u8) -> causeway_contract::event::Sequence {
    causeway_contract::event::Sequence::new(u64::from(sequence)).unwrap()
}

pub fn run_id(run: u8) -> RunId<'static> {
    RunId::new(format!("run-{run}")).unwrap()
}

/// What is known about a run before it starts.
pub fn about(run: u8, thread: Thread) -> Run {
    Run { run_id: run_id(run), ..known(thread) }
}

/// What closes a run, made from its log by the coordinator, as the engine's repair does.
pub fn closing_records(records: &[Record], run: u8, thread: Thread, crash: Crash) -> Option<Vec<Record>> {
    let mut coordinator = Coordinator::recovering(about(run, thread));
    let (run_id, conversation) = (run_id(run), log::conversation());
    for record in records {
        let event =
            record.decode(&run_id, &conversation, &causeway_contract::limits::Limits::DEFAULT).unwrap();
        coordinator.replay(&event).ok()?;
    }
    let mut effects = Vec::new();
    coordinator.apply(Input::new(at(0), Signal::Crashed(crash)), &mut effects);
    effects.into_iter().find_map(|effect| match effect {
        Effect::Commit(commit) => Some(commit.events.iter().map(Record::from_event).collect()),
        _other => None,
    })
}

/// Values under running numbers, each once.
pub struct Numbered<K, V> {
    numbers: HashMap<K, u32>,
    pub values: Vec<V>,
}

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<K: Eq + Hash, V> Numbered<K, V> {
    fn number(&mut self, key: K, value: impl FnOnce() -> V) -> u32 {
        let next = self.values.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.values.push(value());
        }
        number
    }
}

/// What was computed once, for several threads.
struct Memo<K, V> {
    parts: Vec<RwLock<HashMap<K, V, Hashing>>>,
}

type Hashing = BuildHasherDefault<DefaultHasher>;

impl<K: Copy + Eq + Hash, V: Copy> Memo<K, V> {
    fn new() -> Self {
        Self { parts: (0..64).map(|_| RwLock::default()).collect() }
    }

    fn get(&self, key: K, compute: impl FnOnce() -> V) -> V {
        let part = &self.parts[Hashing::default().hash_one(key) as usize % self.parts.len()];
        if let Some(known) = part.read().unwrap().get(&key) {
            return *known;
        }
        let value = compute();
        part.write().unwrap().insert(key, value);
        value
    }
}

const _: () = assert!(LENGTH < 16);

/// The log in memory, made lenient for one write.
pub fn lenient(memory: &mut Memory, tolerated: Option<fn(&causeway_store::Refusal) -> bool>) {
    *memory = std::mem::take(memory).tolerating(tolerated);
}
