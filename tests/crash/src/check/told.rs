//! Acknowledgements: starts, cancels, clears and deletions that clients were told of are as they were told.

use std::collections::BTreeMap;

use super::{Case, Class, Outcome};
use crate::history::Entry;

impl Case<'_> {
    pub(super) fn starts(&mut self) {
        let mut by_message: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for run in &self.facts.runs {
            if let Some(message) = run.request["message"].as_str() {
                by_message.entry(message).or_default().push(&run.run_id);
            }
        }
        for (message, runs) in &by_message {
            if runs.len() > 1 {
                self.found(
                    Class::Told,
                    format!("the message {message:?} was run {} times: {runs:?}", runs.len()),
                );
            }
        }
        let mut asked: BTreeMap<&str, bool> = BTreeMap::new();
        for ask in self.asks.clone().into_values() {
            let Entry::Start { message, conversation, agent, .. } = ask.what else { continue };
            *asked.entry(message).or_default() |= ask.may_have_happened();
            let Outcome::Accepted(Entry::Started { run_id, .. }) = ask.outcome else { continue };
            let Some(run) = self.told_run(run_id, "an accepted start") else { continue };
            let told = (conversation.as_str(), agent.as_str(), Some(message.as_str()));
            if told != (run.conversation.as_str(), run.agent.as_str(), run.request["message"].as_str()) {
                self.found(Class::Told, format!("run {run_id} is not the one that was asked for"));
            }
        }
        for (message, runs) in by_message {
            if asked.get(message) != Some(&true) {
                self.found(
                    Class::Told,
                    format!("runs {runs:?} were started by nobody, or by a refused request"),
                );
            }
        }
    }

    pub(super) fn cancels(&mut self) {
        for ask in self.asks.clone().into_values() {
            let (Entry::Cancel { run_id, .. }, Outcome::Accepted(Entry::Cancelled { cancelled, voided, .. })) =
                (ask.what, ask.outcome)
            else {
                continue;
            };
            let Some(run) = self.told_run(run_id, "a cancel") else { continue };
            if *cancelled && run.status != "cancelled" {
                self.found(
                    Class::Told,
                    format!("run {run_id} was told to be cancelled and is {}", run.status),
                );
            }
            if *voided && run.interrupt.as_ref().is_none_or(|interrupt| interrupt.status != "voided") {
                self.found(Class::Told, format!("the interrupt of run {run_id} was told to be taken back"));
            }
        }
    }

    pub(super) fn clears(&mut self) {
        for ask in self.asks.clone().into_values() {
            let (Entry::Clear { conversation, .. }, Outcome::Accepted(Entry::Cleared { epoch, .. })) =
                (ask.what, ask.outcome)
            else {
                continue;
            };
            for started in self.asks.clone().into_values().filter(|started| started.at > ask.told_at) {
                let Outcome::Accepted(Entry::Started { run_id, .. }) = started.outcome else { continue };
                // A start that was repeated may have begun its run long before.
                let Entry::Start { conversation: place, key: None, .. } = started.what else { continue };
                let Some(run) = self.runs.get(run_id.as_str()).filter(|_| place == conversation) else {
                    continue;
                };
                if run.epoch < *epoch {
                    let what =
                        format!("run {run_id} began in epoch {} after {conversation} was cleared", run.epoch);
                    self.found(Class::Told, what);
                }
            }
        }
    }

    pub(super) fn deletions(&mut self) {
        for ask in self.asks.clone().into_values() {
            let Entry::Delete { conversation, .. } = ask.what else { continue };
            let left = self.facts.runs.iter().filter(|run| run.conversation == *conversation).count();
            match ask.outcome {
                Outcome::Accepted(_) if left > 0 => {
                    self.found(Class::Told, format!("{conversation} was deleted and has {left} runs"));
                }
                Outcome::Unknown if left > 0 => {
                    // All or nothing: a run of it that somebody was told of may not be missing alone.
                    let told: Vec<&str> = self
                        .places
                        .iter()
                        .filter(|(_, place)| *place == conversation)
                        .map(|(run, _)| *run)
                        .collect();
                    for run_id in
                        told.into_iter().filter(|run| !self.runs.contains_key(run)).collect::<Vec<_>>()
                    {
                        self.found(
                            Class::Lost,
                            format!("run {run_id} of {conversation} is gone, others are not"),
                        );
                    }
                }
                Outcome::Accepted(_) | Outcome::Unknown | Outcome::Refused(..) => {}
            }
        }
    }
}
