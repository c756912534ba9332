//! Terminals and heads: every run has one of the first, and the second have moved with them and with nothing else.

use std::collections::BTreeMap;

use causeway_contract::event::EventType;
use serde_json::Value;

use super::{Case, Class, Outcome};
use crate::facts::Run;
use crate::history::Entry;

/// An epoch, and the last head that was committed in it.
type Left<'a> = (u64, Option<(u64, &'a Run)>);

impl Case<'_> {
    pub(super) fn ends(&mut self) {
        for run in &self.facts.runs {
            let id = &run.run_id;
            if run.events.iter().zip(0..).any(|(event, number)| event.number != number) {
                self.found(
                    Class::Lost,
                    format!("run {id}: the numbers of its events have a gap, or one twice"),
                );
            }
            if run.events.first().is_none_or(|event| event.kind != EventType::RunStarted) {
                self.found(Class::Terminal, format!("run {id} does not begin with run.started"));
            }
            let terminals: Vec<_> = run.events.iter().filter(|event| event.kind.is_terminal()).collect();
            let last = run.events.last();
            match terminals.as_slice() {
                [one] if last.is_some_and(|last| last.number == one.number) => {
                    if !fits(&run.status, one.kind) {
                        self.found(
                            Class::Terminal,
                            format!("run {id} is {} and ends in {}", run.status, one.kind.as_str()),
                        );
                    }
                }
                [_one] => self.found(Class::AfterTerminal, format!("run {id} goes on behind its terminal")),
                all => self
                    .found(Class::Terminal, format!("run {id} ({}) has {} terminals", run.status, all.len())),
            }
        }
    }

    pub(super) fn heads(&mut self) {
        // What the last run of each epoch left; runs are in the order in which they were opened, one at a time.
        let mut left: BTreeMap<(&str, &str), Left<'_>> = BTreeMap::new();
        for run in &self.facts.runs {
            let id = &run.run_id;
            let place = left.entry((&run.conversation, &run.agent)).or_insert((run.epoch, None));
            if run.epoch > place.0 {
                *place = (run.epoch, None);
            }
            let must = match run.status.as_str() {
                "finished" | "interrupted" => Some(true),
                "error" | "uncertain" => Some(false),
                _ => None, // a cancelled run may hand over a state
            };
            if must.is_some_and(|must| must != run.head.is_some()) {
                let what = format!("run {id} is {} and its head is {:?}", run.status, run.head);
                self.violations.push(super::Violation { class: Class::Head, what });
            }
            let Some(head) = &run.head else { continue };
            let before = place.1.map_or(0, |(revision, _)| revision);
            if head.revision != before + 1 {
                let what = format!("run {id} committed the head {} after {before}", head.revision);
                self.violations.push(super::Violation { class: Class::Head, what });
            }
            place.1 = Some((head.revision, run));
            if let Some(told) = told_head(run)
                && told != (head.revision, Some(head.reference.clone()))
                && told != (head.revision, None)
            {
                let what = format!("run {id} told of the head {told:?} and committed {head:?}");
                self.violations.push(super::Violation { class: Class::Head, what });
            }
        }
        for ((conversation, agent), (epoch, last)) in left {
            let stored = self.facts.heads.get(&(conversation.to_owned(), agent.to_owned()));
            let cleared = self.cleared(conversation, epoch);
            let agrees = match (stored, last) {
                (None, None) => true,
                (None, Some(_)) => cleared != Some(false),
                (Some(_), None) => false,
                (Some(head), Some((revision, run))) => {
                    let committed = run.head.as_ref();
                    cleared != Some(true)
                        && head.revision == revision
                        && head.run_id.as_ref() == Some(&run.run_id)
                        && committed.is_some_and(|committed| committed.reference == head.reference)
                }
            };
            if !agrees {
                let last = last.map(|(revision, run)| (revision, run.run_id.as_str()));
                let what = format!(
                    "{conversation}/{agent}: the head is {stored:?}, its last terminal left {last:?}"
                );
                self.found(Class::Head, what);
            }
        }
    }

    /// Whether this conversation has left this epoch: for certain, for certain not, or maybe.
    fn cleared(&self, conversation: &str, epoch: u64) -> Option<bool> {
        let mut maybe = Some(false);
        for ask in self.asks.values() {
            if !matches!(ask.what, Entry::Clear { conversation: cleared, .. } if cleared == conversation) {
                continue;
            }
            match ask.outcome {
                Outcome::Accepted(Entry::Cleared { epoch: next, .. }) if *next > epoch => return Some(true),
                Outcome::Unknown => maybe = None,
                Outcome::Accepted(_) | Outcome::Refused(..) => {}
            }
        }
        maybe
    }
}

fn fits(status: &str, terminal: EventType) -> bool {
    match terminal {
        EventType::RunFinished => status == "finished",
        EventType::RunInterrupted => status == "interrupted",
        EventType::RunCancelled => status == "cancelled",
        EventType::RunError => matches!(status, "error" | "uncertain"),
        _ => false,
    }
}

/// The head that a run's own words name: `thread_state` of `run.finished`, the revision of an interrupt.
fn told_head(run: &Run) -> Option<(u64, Option<String>)> {
    if let Some(interrupt) = &run.interrupt {
        return Some((interrupt.revision, None));
    }
    let last: Value = serde_json::from_str(&run.events.last()?.json).ok()?;
    let state = last["data"].get("thread_state")?;
    Some((state["durable_revision"].as_u64()?, Some(state["head_ref"].as_str()?.to_owned())))
}
