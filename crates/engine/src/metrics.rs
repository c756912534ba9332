//! Counters of the engine, and the last refusals by run.
//!
//! Refuses content: names of rules and types only, in bounded memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use causeway_contract::id::RunId;

use crate::coordinator::{Rejection, Status};

/// Counters since the engine was opened.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub started: AtomicU64,
    pub finished: AtomicU64,
    pub interrupted: AtomicU64,
    pub cancelled: AtomicU64,
    pub errors: AtomicU64,
    pub uncertain: AtomicU64,
    pub lost: AtomicU64,
    pub recovered: AtomicU64,
    pub events: AtomicU64,
    pub rejected: AtomicU64,
    pub late: AtomicU64,
    pub appends: AtomicU64,
    pub append_retries: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Snapshot {
    /// Runs that are driven now.
    pub active: u64,
    /// Runs that were opened.
    pub started: u64,
    /// Runs that ended with `run.finished`.
    pub finished: u64,
    /// Runs that ended with `run.interrupted`.
    pub interrupted: u64,
    /// Runs that ended with `run.cancelled`.
    pub cancelled: u64,
    /// Runs that ended with any other `run.error`.
    pub errors: u64,
    /// Runs that ended with `thread_durability_uncertain`.
    pub uncertain: u64,
    /// Runs whose readers were sent away without a terminal.
    pub lost: u64,
    /// Runs that recovery gave their terminal.
    pub recovered: u64,
    /// Events made durable and shown.
    pub events: u64,
    /// Events refused by a rule.
    pub rejected: u64,
    /// What came after the end of its run.
    pub late: u64,
    /// Appends to the store.
    pub appends: u64,
    /// Appends that had to be tried again.
    pub append_retries: u64,
}

impl Metrics {
    pub(crate) fn snapshot(&self, active: usize) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            active: active as u64,
            started: read(&self.started),
            finished: read(&self.finished),
            interrupted: read(&self.interrupted),
            cancelled: read(&self.cancelled),
            errors: read(&self.errors),
            uncertain: read(&self.uncertain),
            lost: read(&self.lost),
            recovered: read(&self.recovered),
            events: read(&self.events),
            rejected: read(&self.rejected),
            late: read(&self.late),
            appends: read(&self.appends),
            append_retries: read(&self.append_retries),
        }
    }

    pub(crate) fn ended(&self, status: Status) {
        let counter = match status {
            Status::Finished => &self.finished,
            Status::Interrupted => &self.interrupted,
            Status::Cancelled => &self.cancelled,
            Status::Error => &self.errors,
            Status::Uncertain => &self.uncertain,
        };
        count(counter, 1);
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// The last refusals, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<VecDeque<(RunId<'static>, Rejection)>>);

/// How many refusals are remembered, over all runs.
const REMEMBERED: usize = 1024;

impl Findings {
    pub(crate) fn note(&self, run_id: RunId<'static>, rejection: Rejection) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= REMEMBERED {
            noted.pop_front();
        }
        noted.push_back((run_id, rejection));
    }

    pub(crate) fn of(&self, run_id: &RunId<'_>) -> Vec<Rejection> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_run = noted.iter().filter(|(run, _)| run.as_str() == run_id.as_str());
        of_run.map(|(_, rejection)| rejection.clone()).collect()
    }
}
