//! The last refusals by run.
//!
//! Refuses content: names of rules and types only, in bounded memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use causeway_contract::id::RunId;

use crate::coordinator::Rejection;

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
