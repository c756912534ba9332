//! What becomes of runs that ended long ago.
//!
//! Refuses to touch a run that somebody may still look back at.

use causeway_contract::timestamp::Timestamp;

use crate::memory::core::{Memory, Row};
use crate::model::{Expired, ExpiredRun, InterruptStatus};
use crate::record::Payload;
use crate::rules;

impl Memory {
    /// See [`Store::expire`](crate::Store::expire).
    pub fn expire(&mut self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Expired {
        let keys = self.expirable(before.unix_millis());
        let mut done = Expired::default();
        for key in keys.iter().take(limit) {
            let Some(row) = self.runs.get_mut(key) else { continue };
            row.expire(at.clone().into_owned());
            let (owner, conversation_id) = row.place();
            done.runs.push(ExpiredRun { owner, run_id: row.run.run_id.clone(), conversation_id });
        }
        let oldest = self.expirable(before.unix_millis()).into_iter().next();
        done.oldest_left = oldest.and_then(|key| self.runs.get(&key)).and_then(Row::ended);
        done
    }

    /// Runs that are due, the oldest end first.
    fn expirable(&self, before: i64) -> Vec<u64> {
        let due = |row: &Row| {
            let waits = row.interrupt.as_ref().is_some_and(|i| i.summary.status == InterruptStatus::Pending);
            let after = row.run.resumed_by.as_ref().and_then(|id| self.row(id).ok());
            row.run.expired_at.is_none() && !waits && after.is_none_or(|row| row.run.expired_at.is_some())
        };
        let mut ended: Vec<_> = self
            .runs
            .iter()
            .filter_map(|(key, row)| Some((row.ended()?, *key)).filter(|(end, _)| *end < before && due(row)))
            .collect();
        ended.sort_unstable();
        ended.into_iter().map(|(_, key)| key).collect()
    }
}

impl Row {
    fn expire(&mut self, at: Timestamp<'static>) {
        self.log.clear();
        self.results.clear();
        self.run.request = Payload::from(rules::NO_CONTENT);
        self.run.seed = None;
        self.opened_bytes = 0;
        self.run.expired_at = Some(at);
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.request = Payload::from(rules::NO_CONTENT);
            interrupt.snapshot = Payload::from(rules::NO_CONTENT);
            interrupt.summary.decision = None;
        }
    }
}
