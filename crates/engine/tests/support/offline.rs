//! A run without clock, tasks or disk: the coordinator on a log in memory that answers at once.
//!
//! Refuses to be a store: what it holds is gone with it.
#![allow(dead_code, reason = "every test file uses its own part")]

use causeway_contract::event::{Event, Sequence};
use causeway_contract::timestamp::Timestamp;

use causeway_engine::coordinator::{
    Closing, Commit, Coordinator, Effect, End, Input, Late, NewHead, Outcome, Rejection, Run, Signal, Stage,
};

/// How the log answers the final transaction.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Answer {
    /// It is committed.
    #[default]
    Commit,
    /// It is refused, and can no longer land.
    Refuse,
    /// Nobody knows; this is what reading tells afterwards.
    Unknown(Outcome),
}

/// One run, from its first signal to its end.
#[derive(Clone, Debug)]
pub struct Offline {
    coordinator: Coordinator,
    answer_finish: Answer,
    answer_interrupt: Answer,
    log: Vec<Event<'static>>,
    shown: usize,
    head: Option<NewHead>,
    in_doubt: Option<Commit>,
    rejections: Vec<Rejection>,
    late: Vec<Late>,
    stopped: bool,
    closed: Option<Closing>,
}

impl Offline {
    /// A run of which nothing has happened, on a log that accepts everything.
    pub fn new(run: Run) -> Self {
        Self {
            coordinator: Coordinator::new(run),
            answer_finish: Answer::Commit,
            answer_interrupt: Answer::Commit,
            log: Vec::new(),
            shown: 0,
            head: None,
            in_doubt: None,
            rejections: Vec::new(),
            late: Vec::new(),
            stopped: false,
            closed: None,
        }
    }

    /// The same, with another answer to a commit that moves the head without an interrupt.
    pub fn answer_finish(mut self, answer: Answer) -> Self {
        self.answer_finish = answer;
        self
    }

    /// The same, with another answer to the commit of an interrupt.
    pub fn answer_interrupt(mut self, answer: Answer) -> Self {
        self.answer_interrupt = answer;
        self
    }

    /// Tells the coordinator what happened, and does what it wants.
    pub fn feed(&mut self, at: &Timestamp<'static>, signal: Signal) {
        let mut due = std::collections::VecDeque::from([signal]);
        while let Some(signal) = due.pop_front() {
            let mut effects = Vec::new();
            self.coordinator.apply(Input::new(at.clone(), signal), &mut effects);
            for effect in effects {
                due.extend(self.perform(effect));
            }
        }
    }

    /// The log.
    pub fn log(&self) -> &[Event<'static>] {
        &self.log
    }

    /// The part of the log that readers were shown.
    pub fn shown(&self) -> &[Event<'static>] {
        self.log.get(..self.shown).unwrap_or_default()
    }

    /// The head that the run committed.
    pub fn head(&self) -> Option<&NewHead> {
        self.head.as_ref()
    }

    /// What was refused.
    pub fn rejections(&self) -> &[Rejection] {
        &self.rejections
    }

    /// What came after the end.
    pub fn late(&self) -> &[Late] {
        &self.late
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<End> {
        match self.coordinator.stage() {
            Stage::Ended(end) => Some(end),
            Stage::Fresh
            | Stage::Streaming
            | Stage::Holding
            | Stage::Cancelling
            | Stage::Committing
            | Stage::Asking => None,
        }
    }

    /// Where it stands.
    pub fn stage(&self) -> Stage {
        self.coordinator.stage()
    }

    /// Whether the harness was stopped or asked to leave.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How readers were sent away, once they were.
    pub fn closed(&self) -> Option<Closing> {
        self.closed
    }

    fn perform(&mut self, effect: Effect) -> Option<Signal> {
        match effect {
            Effect::Open(event) => {
                self.log.push(*event);
                Some(Signal::Opened { base_revision: 0 })
            }
            Effect::Append(event) => {
                let through = event.sequence;
                self.log.push(*event);
                Some(Signal::Appended { through })
            }
            Effect::Commit(commit) => Some(self.commit(*commit)),
            Effect::ReadOutcome => {
                let commit = self.in_doubt.take();
                let answer = commit.as_ref().map_or(Answer::Commit, |commit| self.answer_to(commit));
                match (answer, commit) {
                    // An interrupt is committed without a receipt here, so it is asked for.
                    (Answer::Commit | Answer::Unknown(Outcome::Committed), Some(commit)) => {
                        self.land(commit);
                        Some(Signal::Outcome(Outcome::Committed))
                    }
                    (Answer::Commit | Answer::Unknown(Outcome::Committed), None) => {
                        Some(Signal::Outcome(Outcome::Committed))
                    }
                    (Answer::Refuse, _) => Some(Signal::Outcome(Outcome::NotCommitted)),
                    (Answer::Unknown(outcome), _) => Some(Signal::Outcome(outcome)),
                }
            }
            Effect::Deliver { through } => {
                self.shown = self.log.iter().take_while(|event| event.sequence <= through).count();
                None
            }
            Effect::CancelHarness(_) | Effect::StopHarness => {
                self.stopped = true;
                None
            }
            Effect::Reject(rejection) => {
                self.rejections.push(rejection);
                None
            }
            Effect::Late(late) => {
                self.late.push(late);
                None
            }
            Effect::Close(how) => {
                self.closed = Some(how);
                None
            }
        }
    }

    fn answer_to(&self, commit: &Commit) -> Answer {
        if commit.interrupt.is_some() {
            self.answer_interrupt
        } else if commit.head.is_some() {
            self.answer_finish
        } else {
            Answer::Commit
        }
    }

    fn commit(&mut self, commit: Commit) -> Signal {
        match self.answer_to(&commit) {
            Answer::Commit if commit.interrupt.is_some() => {
                self.in_doubt = Some(commit);
                Signal::CommitUnknown
            }
            Answer::Commit => {
                self.land(commit);
                Signal::Committed(None)
            }
            Answer::Refuse => Signal::CommitRefused,
            Answer::Unknown(_) => {
                self.in_doubt = Some(commit);
                Signal::CommitUnknown
            }
        }
    }

    fn land(&mut self, commit: Commit) {
        self.log.extend(commit.events);
        if commit.head.is_some() {
            self.head = commit.head;
        }
    }

    /// The number of the next event.
    pub fn next_sequence(&self) -> Sequence {
        self.coordinator.next_sequence()
    }
}
