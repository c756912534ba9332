//! The reads of the log in memory.
//!
//! Refuses to change anything.

use std::sync::Arc;

use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::timestamp::Timestamp;

use crate::error::Refusal;
use crate::memory::core::{Memory, Row, place};
use crate::model::{
    Cursor, Head, Interrupt, InterruptStatus, Orphan, Outcome, Owner, Page, Run, RunFilter, RunPage,
    StaleThread, Whose,
};
use crate::rules;
use crate::store::Result;

impl Memory {
    /// See [`Store::outcome`](crate::Store::outcome).
    pub fn outcome(&self, run_id: &RunId<'_>) -> Outcome {
        let Ok(row) = self.row(run_id) else { return Outcome::Missing };
        let status = row.run.status;
        match row.log.last() {
            Some(terminal) if status.is_terminal() => {
                Outcome::Ended { status, terminal: terminal.clone(), head: row.head.clone() }
            }
            Some(_) | None => {
                Outcome::Running { generation: row.run.generation, last_sequence: row.run.last_sequence }
            }
        }
    }

    /// See [`Store::stored_bytes`](crate::Store::stored_bytes).
    pub fn stored_bytes(&self, whose: Whose, name: &str) -> u64 {
        let of = |row: &&Row| match whose {
            Whose::Owner => row.run.owner.as_str() == name,
            Whose::Agent => row.run.agent_id.as_str() == name,
        };
        self.runs.values().filter(of).map(Row::stored_bytes).sum()
    }

    /// Refuses where the content of the run was deleted.
    ///
    /// # Errors
    /// `Expired`.
    pub(crate) fn not_expired(&self, run_id: &RunId<'_>) -> Result<()> {
        Ok(self.row(run_id).map_or(Ok(()), |row| rules::not_expired(&row.run))?)
    }

    /// See [`Store::load_head`](crate::Store::load_head).
    pub fn load_head(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: &Name<'_>,
    ) -> Option<Head> {
        self.conversation(owner, conversation_id)?.heads.get(agent_id.as_str()).cloned()
    }

    /// See [`Store::read_after`](crate::Store::read_after).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page> {
        let row = self.row(run_id)?;
        rules::not_expired(&row.run)?;
        let from = row.log.partition_point(|record| after.is_some_and(|after| record.sequence <= after));
        let (mut records, mut bytes) = (Vec::new(), 0);
        for record in row.log.iter().skip(from).take(limit) {
            if !rules::page_takes(&records, &mut bytes, record) {
                break;
            }
            records.push(record.clone());
        }
        Ok(Page { records, status: row.run.status, last_sequence: row.run.last_sequence })
    }

    /// See [`Store::run`](crate::Store::run).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run> {
        Ok(rules::check_owner(self.row(run_id)?.view(), owner)?)
    }

    /// See [`Store::runs`](crate::Store::runs).
    pub fn runs(&self, owner: &Owner, filter: &RunFilter, limit: usize, cursor: Option<Cursor>) -> RunPage {
        let below = cursor.map_or(u64::MAX, |cursor| cursor.0);
        let mut found = self.runs.range(..below).rev().filter(|(_, row)| row.fits(owner, filter));
        let rows: Vec<_> = found.by_ref().take(limit).collect();
        let next = match (rows.last(), found.next()) {
            (Some((key, _)), Some(_)) => Some(Cursor(**key)),
            (Some(_) | None, None) | (None, Some(_)) => None,
        };
        RunPage { runs: rows.into_iter().map(|(_, row)| row.view()).collect(), next }
    }

    /// See [`Store::active_run`](crate::Store::active_run).
    pub fn active_run(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Option<RunId<'static>> {
        let key = self.conversation(owner, conversation_id)?.active?;
        Some(self.runs.get(&key)?.run.run_id.clone())
    }

    /// See [`Store::pending_interrupt`](crate::Store::pending_interrupt).
    pub fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Option<Interrupt> {
        self.pending_of(owner, conversation_id).cloned()
    }

    /// See [`Store::pending_interrupts`](crate::Store::pending_interrupts).
    pub fn pending_interrupts(&self, owner: &Owner, limit: usize) -> Vec<Interrupt> {
        let interrupts = self.runs.values().rev().filter_map(|row| row.interrupt.as_ref());
        let pending =
            interrupts.filter(|i| i.owner == *owner && i.summary.status == InterruptStatus::Pending);
        pending.take(limit).cloned().collect()
    }

    /// See [`Store::expiring_interrupts`](crate::Store::expiring_interrupts).
    pub fn expiring_interrupts(&self, limit: usize) -> Vec<(RunId<'static>, Timestamp<'static>)> {
        let interrupts = self.runs.values().filter_map(|row| row.interrupt.as_ref());
        let mut due: Vec<_> = interrupts
            .filter(|i| i.summary.status == InterruptStatus::Pending)
            .filter_map(|i| Some((i.run_id.clone(), i.summary.expires_at.clone()?)))
            .collect();
        due.sort_by_key(|(_, at)| at.unix_millis());
        due.truncate(limit);
        due
    }

    /// See [`Store::interrupt`](crate::Store::interrupt).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt> {
        let row = self.row(run_id)?;
        if row.run.owner != *owner {
            return Err(Refusal::UnknownRun.into());
        }
        rules::not_expired(&row.run)?;
        Ok(row.interrupt.clone().ok_or(Refusal::NoInterrupt)?)
    }

    /// See [`Store::result`](crate::Store::result).
    ///
    /// # Errors
    /// As the trait's verb.
    pub fn result(&self, owner: &Owner, run_id: &RunId<'_>, reference: &Reference<'_>) -> Result<Arc<[u8]>> {
        let row = self.row(run_id)?;
        if row.run.owner != *owner {
            return Err(Refusal::UnknownRun.into());
        }
        Ok(row.results.get(reference.as_str()).cloned().ok_or(Refusal::UnknownResult)?)
    }

    /// See [`Store::stale_threads`](crate::Store::stale_threads).
    pub fn stale_threads(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        limit: usize,
    ) -> Vec<StaleThread> {
        let Some(conversation) = self.conversation(owner, conversation_id) else { return Vec::new() };
        let place = place(owner, conversation_id);
        let current = |row: &Row| conversation.heads.values().any(|head| head.run_id == row.run.run_id);
        let rows = self.runs.values().filter(|row| row.run.status.is_terminal() && row.place() == place);
        rows.filter(|row| !current(row)).filter_map(Row::thread_left).take(limit).collect()
    }

    /// See [`Store::list_orphans`](crate::Store::list_orphans).
    pub fn list_orphans(&self) -> Vec<Orphan> {
        let rows =
            self.runs.values().filter(|row| !row.run.status.is_terminal() && row.instance != self.instance);
        rows.map(|Row { run, .. }| Orphan {
            owner: run.owner.clone(),
            run_id: run.run_id.clone(),
            conversation_id: run.conversation_id.clone(),
            epoch: run.epoch,
            agent_id: run.agent_id.clone(),
            harness_id: run.harness_id.clone(),
            thread: run.thread,
            last_sequence: run.last_sequence,
            worker_thread: run.worker_thread.clone(),
        })
        .collect()
    }
}

impl Row {
    fn fits(&self, owner: &Owner, filter: &RunFilter) -> bool {
        let run = &self.run;
        let created = run.created_at.unix_millis();
        run.owner == *owner
            && filter.status.is_none_or(|status| status == run.status)
            && filter.agent_id.as_ref().is_none_or(|agent_id| *agent_id == run.agent_id)
            && filter.conversation_id.as_ref().is_none_or(|id| *id == run.conversation_id)
            && filter.since.is_none_or(|since| created >= since)
            && filter.until.is_none_or(|until| created < until)
    }
}
