//! The state of the model: small, without pointers, compared and copied as it is.
//!
//! The coordinator of a run and the log are numbers here: the values themselves, which are the real ones, are kept
//! once, in the [`Lab`](crate::lab::Lab).

use std::hash::{Hash, Hasher};

use causeway_store::model::{InterruptStatus, Status};

use crate::scene::{RUNS, Scene, Trouble};

/// The most records of a run, and the most effects that wait.
pub const LENGTH: usize = 12;

/// A record, by number: the low 11 bits name it, the rest is its sequence.
pub type Rec = u16;

/// The sequence of a record.
pub fn sequence(record: Rec) -> u8 {
    (record >> 11) as u8
}

/// A short list of numbers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct List {
    len: u8,
    at: [u16; LENGTH],
}

impl List {
    pub fn of(items: &[u16]) -> Self {
        let mut list = Self::default();
        items.iter().for_each(|item| list.push(*item));
        list
    }

    pub fn as_slice(&self) -> &[u16] {
        &self.at[..usize::from(self.len)]
    }

    pub fn push(&mut self, item: u16) {
        self.at[usize::from(self.len)] = item;
        self.len += 1;
    }

    pub fn pop_front(&mut self) -> Option<u16> {
        let first = self.as_slice().first().copied()?;
        self.at.rotate_left(1);
        self.at[LENGTH - 1] = 0;
        self.len -= 1;
        Some(first)
    }

    pub fn push_front(&mut self, item: u16) {
        self.at.rotate_right(1);
        self.at[0] = item;
        self.len += 1;
    }

    pub fn extend(&mut self, other: &Self) {
        other.as_slice().iter().for_each(|item| self.push(*item));
    }

    pub fn keep(&mut self, wanted: impl Fn(u16) -> bool) {
        let kept: Vec<u16> = self.as_slice().iter().copied().filter(|item| wanted(*item)).collect();
        *self = Self::of(&kept);
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }
}

/// Runs, as a set of bits: also what a state of the harness is made of.
pub type Bits = u8;

/// The set of one run.
pub fn bit(run: u8) -> Bits {
    1 << run
}

/// A write to the store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verb {
    Open { run: u8, first: Rec, late: bool },
    Consume { run: u8, first: Rec, late: bool },
    Append { run: u8, generation: u8, record: Rec },
    Commit { run: u8, generation: u8, effect: u16 },
    Fence { run: u8 },
    Close { run: u8, seen: u8, lost: bool },
    Void { run: u8, expired: bool },
    Clear,
}

impl Verb {
    /// The run that it writes to.
    pub fn run(self) -> Option<u8> {
        match self {
            Self::Open { run, .. }
            | Self::Consume { run, .. }
            | Self::Append { run, .. }
            | Self::Commit { run, .. }
            | Self::Fence { run }
            | Self::Close { run, .. }
            | Self::Void { run, .. } => Some(run),
            Self::Clear => None,
        }
    }
}

/// Why a write was refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum No {
    Busy,
    Pending,
    Consumed { by: u8 },
    Closed,
    Revision,
    KeyReused,
    Fenced,
    Ended,
    NotContiguous { expected: u8 },
    Other,
}

/// What the store answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Answer {
    Opened { generation: u8, revision: u8, base: Bits },
    Replayed { run: u8 },
    Done,
    Receipt { revision: u8, state: Bits },
    Fenced { generation: u8, last: u8 },
    Withdrawn(bool),
    Refused(No),
}

/// A write whose answer was lost: it may land yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Adrift {
    pub verb: Verb,
    /// The epoch of the lease that its gateway believed in.
    pub epoch: u8,
    /// Its transaction has made its checks; it will be committed.
    pub begun: bool,
}

/// A gateway.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Gateway {
    pub lives: bool,
    /// The epoch of its lease as it knows it.
    pub epoch: u8,
    /// The run that it drives.
    pub drive: Option<Drive>,
    /// Runs that it handed to its repair.
    pub lost: Bits,
}

/// A run that is driven.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Drive {
    pub run: u8,
    /// Its coordinator.
    pub coordinator: u32,
    /// What the coordinator wants done.
    pub effects: List,
    /// The coordinator has come to an end.
    pub over: bool,
    pub generation: u8,
    /// How much its harness has said.
    pub said: u8,
    /// Whether its harness lives.
    pub speaks: bool,
    /// What the store was given, or is about to be, and readers were not.
    pub unshown: List,
}

/// The lease row of a gateway (design §6).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Lease {
    pub epoch: u8,
    /// Its time is over, by the clock of the store.
    pub expired: bool,
}

/// What became of a client's request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Asked {
    Not,
    /// It was told: this run.
    Accepted {
        run: u8,
    },
    /// It was told: no, because.
    Refused(No),
    /// It was told that nobody knows.
    Unknown,
}

/// A run that is being closed from its log.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Closing {
    pub by: u8,
    pub run: u8,
    /// How much of the log was read.
    pub seen: u8,
    /// By the repair of the gateway that drove it; else as an orphan.
    pub lost: bool,
}

/// Half of what ends a run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Half {
    Head,
    Terminal,
}

/// The state of the model.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct World {
    pub scene: u8,
    /// The log.
    pub store: u32,
    pub facts: Facts,
    pub gateways: [Gateway; 2],
    pub adrift: [Option<Adrift>; 2],
    pub leases: [Lease; 2],
    /// Which gateway opened a run, and under which lease.
    pub owners: [(u8, u8); RUNS],
    pub closing: Option<Closing>,
    /// What clients were told about their requests.
    pub asked: [Asked; RUNS],
    /// What readers were shown of each run.
    pub told: [List; RUNS],
    /// A reader was shown two events under one number, or none under one.
    pub garbled: bool,
    /// The state that the harness of a run began with.
    pub begun: [Option<Bits>; RUNS],
    /// What the worker's thread holds, where all runs share one.
    pub thread: Bits,
    /// Runs whose harness has run the tool that waited for approval.
    pub ran: Bits,
    /// Runs whose interrupt was reported as taken back.
    pub voided: Bits,
    /// Runs that were there when a client was told that the conversation is cleared.
    pub cleared: Bits,
    /// Where head and terminal are written apart: which of them is not written yet, and by which run.
    pub apart: Option<(Half, u8)>,
    /// The time at which interrupts expire has come.
    pub late: bool,
    /// How much may still go wrong.
    pub left: Trouble,
}

/// What is to be known about the log. It follows from the log, so it makes no two worlds different.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    pub rows: [Row; RUNS],
    /// The state of the head.
    pub head: Option<Bits>,
    /// Which of the laws about a log it breaks.
    pub broken: u16,
}

/// A run in the log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Row {
    pub status: Option<Status>,
    pub generation: u8,
    pub log: List,
    pub interrupt: Option<InterruptStatus>,
    pub resumed_from: Option<u8>,
    pub resumed_by: Option<u8>,
    /// The state that it made the head.
    pub made: Option<Bits>,
    /// It was started after interrupts expire.
    pub late: bool,
}

impl Hash for Facts {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl PartialEq for Facts {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Facts {}

impl World {
    pub fn new(number: u8, scene: &Scene, store: u32, facts: Facts) -> Self {
        let gateway = Gateway { lives: true, epoch: 0, drive: None, lost: 0 };
        Self {
            scene: number,
            store,
            facts,
            gateways: [gateway; 2],
            adrift: [None; 2],
            leases: [Lease { epoch: 0, expired: false }; 2],
            owners: [(0, 0); RUNS],
            closing: None,
            asked: [Asked::Not; RUNS],
            told: [List::default(); RUNS],
            garbled: false,
            begun: [None; RUNS],
            thread: 0,
            ran: 0,
            voided: 0,
            cleared: 0,
            apart: None,
            late: false,
            left: scene.trouble,
        }
    }

    pub fn row(&self, run: u8) -> &Row {
        &self.facts.rows[usize::from(run)]
    }

    /// Whether this gateway lives and still has the lease that it believes in.
    pub fn has_lease(&self, gateway: usize) -> bool {
        self.gateways[gateway].epoch == self.leases[gateway].epoch
    }

    /// Whether the lease that a run was opened under is gone.
    pub fn is_orphan(&self, run: u8) -> bool {
        let (gateway, epoch) = self.owners[usize::from(run)];
        self.row(run).status == Some(Status::Running) && epoch < self.leases[usize::from(gateway)].epoch
    }
}
