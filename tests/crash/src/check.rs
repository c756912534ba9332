//! The judge: a history of what clients were told, held against what the data directory says.
//!
//! Refuses to know how the gateway works. It is told nothing but the two, and knows the promises of
//! `docs/durability.md`. The load keeps it simple in two ways: no two requests to start a run say the same message
//! unless one repeats the other, and a conversation that somebody asked to delete is never used again.

mod answers;
mod ends;
mod orphans;
mod streams;
mod told;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Run};
use crate::history::Entry;

/// The promise that was broken.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// An acknowledged event or run is gone, or is another one.
    Lost,
    /// A run has no terminal, or two, or one that its status contradicts.
    Terminal,
    /// A head and the terminals do not agree.
    Head,
    /// An answer was executed twice, or lost, or by nobody.
    Answer,
    /// Something comes after a terminal.
    AfterTerminal,
    /// A worker outlived its gateway's restart.
    Worker,
    /// Another acknowledgement is not true.
    Told,
    /// A run whose gateway died was left open for too long.
    Orphan,
}

/// One broken promise.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Violation {
    pub class: Class,
    pub what: String,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Verdict {
    pub kills: u64,
    /// Runs in the directory.
    pub runs: u64,
    /// Events that clients received.
    pub events: u64,
    /// Answers that were accepted.
    pub answers: u64,
    /// Times that a tool noted that it ran.
    pub notes: u64,
    pub violations: Vec<Violation>,
}

/// What came of a request.
#[derive(Clone, Copy, Debug)]
enum Outcome<'a> {
    Accepted(&'a Entry),
    /// For certain.
    Refused(u16, &'a str),
    /// No answer, or one that says that nobody knows.
    Unknown,
}

/// A request and what came of it.
#[derive(Clone, Copy, Debug)]
struct Ask<'a> {
    /// Where in the history it was made, and answered.
    at: usize,
    told_at: usize,
    what: &'a Entry,
    outcome: Outcome<'a>,
}

impl Ask<'_> {
    fn may_have_happened(&self) -> bool {
        !matches!(self.outcome, Outcome::Refused(..))
    }
}

struct Case<'a> {
    history: &'a [Entry],
    facts: &'a Facts,
    runs: BTreeMap<&'a str, &'a Run>,
    asks: BTreeMap<u64, Ask<'a>>,
    /// The conversation of each run that anybody was told of.
    places: BTreeMap<&'a str, &'a str>,
    violations: Vec<Violation>,
}

/// Holds the two against each other.
pub fn check(history: &[Entry], facts: &Facts) -> Verdict {
    let mut case = Case::new(history, facts);
    case.ends();
    case.heads();
    case.streams();
    case.starts();
    case.cancels();
    case.clears();
    case.deletions();
    case.answers();
    case.notes();
    case.workers();
    case.orphans();
    let count = |which: fn(&Entry) -> bool| history.iter().filter(|entry| which(entry)).count() as u64;
    Verdict {
        kills: count(|entry| matches!(entry, Entry::Killed { .. } | Entry::Orphaned { .. })),
        runs: facts.runs.len() as u64,
        events: count(|entry| matches!(entry, Entry::Frames { .. })),
        answers: count(|entry| matches!(entry, Entry::Answered { .. })),
        notes: facts.notes.as_ref().map_or(0, |notes| notes.len() as u64),
        violations: case.violations,
    }
}

impl<'a> Case<'a> {
    fn new(history: &'a [Entry], facts: &'a Facts) -> Self {
        let asks = asks(history);
        let runs: BTreeMap<&str, &Run> = facts.runs.iter().map(|run| (run.run_id.as_str(), run)).collect();
        let mut places: BTreeMap<&str, &str> =
            facts.runs.iter().map(|run| (run.run_id.as_str(), run.conversation.as_str())).collect();
        // In the order in which they were told: an answer's place is that of the run it answers.
        for entry in history {
            let (op, told) = match entry {
                Entry::Started { op, run_id } | Entry::Answered { op, run_id } => (op, run_id.as_str()),
                _ => continue,
            };
            let place = match asks.get(op).map(|ask| ask.what) {
                Some(Entry::Start { conversation, .. }) => Some(conversation.as_str()),
                Some(Entry::Answer { run_id, .. }) => places.get(run_id.as_str()).copied(),
                _ => None,
            };
            if let Some(place) = place {
                places.insert(told, place);
            }
        }
        Self { history, facts, runs, asks, places, violations: Vec::new() }
    }

    fn found(&mut self, class: Class, what: impl Into<String>) {
        self.violations.push(Violation { class, what: what.into() });
    }

    /// Whether a conversation may be gone: somebody asked for it, and was not refused.
    fn may_be_gone(&self, conversation: &str) -> bool {
        self.asks.values().any(|ask| {
            ask.may_have_happened()
                && matches!(ask.what, Entry::Delete { conversation: deleted, .. } if deleted == conversation)
        })
    }

    /// A run that somebody was told of, or `None` where it was deleted since. A run that is missing is a violation.
    fn told_run(&mut self, run_id: &str, of: &str) -> Option<&'a Run> {
        let found = self.runs.get(run_id).copied();
        if found.is_none() && !self.places.get(run_id).is_some_and(|place| self.may_be_gone(place)) {
            self.found(Class::Lost, format!("{of}: run {run_id} is gone"));
        }
        found
    }

    fn workers(&mut self) {
        for entry in self.history {
            if let Entry::Ready { workers } = entry
                && !workers.is_empty()
            {
                self.found(Class::Worker, format!("workers {workers:?} still run after a restart"));
            }
        }
    }
}

fn asks(history: &[Entry]) -> BTreeMap<u64, Ask<'_>> {
    let mut asks = BTreeMap::new();
    for (at, entry) in history.iter().enumerate() {
        match entry {
            Entry::Start { op, .. }
            | Entry::Answer { op, .. }
            | Entry::Cancel { op, .. }
            | Entry::Clear { op, .. }
            | Entry::Delete { op, .. } => {
                asks.insert(*op, Ask { at, told_at: usize::MAX, what: entry, outcome: Outcome::Unknown });
            }
            Entry::Started { op, .. }
            | Entry::Answered { op, .. }
            | Entry::Cancelled { op, .. }
            | Entry::Cleared { op, .. }
            | Entry::Deleted { op } => {
                if let Some(ask) = asks.get_mut(op) {
                    (ask.outcome, ask.told_at) = (Outcome::Accepted(entry), at);
                }
            }
            Entry::Refused { op, status, code } => {
                if let Some(ask) = asks.get_mut(op).filter(|_| *status < 500) {
                    (ask.outcome, ask.told_at) = (Outcome::Refused(*status, code), at);
                }
            }
            Entry::Lost { .. }
            | Entry::Follow { .. }
            | Entry::Frames { .. }
            | Entry::Body { .. }
            | Entry::Ended { .. }
            | Entry::Killed { .. }
            | Entry::Orphaned { .. }
            | Entry::Closed { .. }
            | Entry::Away { .. }
            | Entry::Ready { .. } => {}
        }
    }
    asks
}
