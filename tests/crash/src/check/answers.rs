//! Interrupts and their answers: taken once, by one that was given; never lost; and a tool runs if, and only if, it was
//! let, once.

use std::collections::BTreeMap;

use causeway_contract::event::EventType;
use serde_json::Value;

use super::{Ask, Case, Class, Outcome};
use crate::facts::{Interrupt, Run};
use crate::history::Entry;

/// The tool of the live agent that runs without being asked about; messages that make it run begin with this word.
const UNASKED: &str = "jot";

impl<'a> Case<'a> {
    pub(super) fn answers(&mut self) {
        let mut given: BTreeMap<&str, Vec<Ask<'a>>> = BTreeMap::new();
        for ask in self.asks.values() {
            if let Entry::Answer { run_id, .. } = ask.what {
                given.entry(run_id).or_default().push(*ask);
            }
        }
        let mut begun: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for run in &self.facts.runs {
            if let Some(from) = &run.resumed_from {
                begun.entry(from).or_default().push(&run.run_id);
            }
        }
        for (from, runs) in &begun {
            if runs.len() > 1 {
                self.found(
                    Class::Answer,
                    format!("the interrupt of run {from} was answered {} times", runs.len()),
                );
            }
        }
        for run in &self.facts.runs {
            let Some(interrupt) = &run.interrupt else { continue };
            let given = given.remove(run.run_id.as_str()).unwrap_or_default();
            let begun = begun.remove(run.run_id.as_str()).unwrap_or_default();
            self.interrupt(run, interrupt, &given, begun.first().copied());
        }
        for (run_id, asks) in given {
            for ask in asks {
                if let Outcome::Accepted(Entry::Answered { run_id: begun, .. }) = ask.outcome
                    && self.told_run(begun, "an accepted answer").is_some()
                {
                    self.found(Class::Answer, format!("run {run_id} was answered and has no interrupt"));
                }
            }
        }
        for (from, runs) in begun {
            self.found(Class::Answer, format!("runs {runs:?} answer run {from}, which has no interrupt"));
        }
    }

    fn interrupt(&mut self, run: &Run, interrupt: &Interrupt, given: &[Ask<'_>], begun: Option<&str>) {
        let id = &run.run_id;
        let consumed = interrupt.status == "consumed";
        if consumed != begun.is_some() || run.resumed_by.as_deref() != begun {
            let what = format!(
                "the interrupt of run {id} is {}, resumed by {:?}, and {begun:?} answers it",
                interrupt.status, run.resumed_by
            );
            self.found(Class::Answer, what);
        }
        let mut may_have = false;
        for ask in given {
            let Entry::Answer { answer, interrupt_id, .. } = ask.what else { continue };
            let is_it = interrupt.decision.as_ref().is_some_and(|decision| says(decision, answer));
            match ask.outcome {
                Outcome::Accepted(Entry::Answered { run_id: told, .. }) => {
                    may_have |= is_it;
                    if begun != Some(told) {
                        self.found(
                            Class::Answer,
                            format!("an answer to run {id} began {told}, the log says {begun:?}"),
                        );
                    }
                    if !is_it {
                        let what =
                            format!("an accepted answer to run {id} is not the one on record: {answer}");
                        self.found(Class::Answer, what);
                    }
                }
                Outcome::Refused(status, "interrupt_consumed") if !consumed => {
                    let what = format!(
                        "an answer to run {id} was refused ({status}) as too late, and it is {}",
                        interrupt.status
                    );
                    self.found(Class::Answer, what);
                }
                Outcome::Unknown => may_have |= is_it,
                Outcome::Accepted(_) | Outcome::Refused(..) => {}
            }
            if *interrupt_id != interrupt.interrupt_id {
                self.found(Class::Answer, format!("run {id} was answered for another interrupt"));
            }
        }
        if consumed && !may_have {
            self.found(
                Class::Answer,
                format!("the interrupt of run {id} was answered by nobody who says so"),
            );
        }
        let withdrawn = self.asks.values().any(|ask| {
            ask.may_have_happened()
                && match ask.what {
                    Entry::Cancel { run_id, .. } => run_id == id,
                    Entry::Clear { conversation, .. } => *conversation == run.conversation,
                    _ => false,
                }
        });
        let lost = match interrupt.status.as_str() {
            "voided" => !withdrawn,
            "expired" => !interrupt.expires,
            "pending" | "consumed" => false,
            _ => true,
        };
        if lost {
            let what = format!("the interrupt of run {id} is {}, which nobody asked for", interrupt.status);
            self.found(Class::Answer, what);
        }
    }

    /// What tools of live runs noted, against what they were let do.
    pub(super) fn notes(&mut self) {
        let Some(notes) = &self.facts.notes else { return };
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for note in notes {
            *times.entry(note).or_default() += 1;
        }
        // The least and the most that each line may be there.
        let mut allowed: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for run in &self.facts.runs {
            if let Some(message) = run.request["message"].as_str().filter(|said| said.starts_with(UNASKED)) {
                allowed.insert(message.to_owned(), (u64::from(run.status == "finished"), 1));
            }
            let Some(interrupt) = &run.interrupt else { continue };
            let answered = run.resumed_by.as_deref().and_then(|id| self.runs.get(id)).copied();
            for line in let_run(interrupt) {
                // It must have run where the resumed run came to an end that says so.
                let done = answered.is_some_and(|next| {
                    let noted = format!("noted {line}");
                    next.events
                        .iter()
                        .any(|event| event.kind == EventType::ToolFinished && event.json.contains(&noted))
                });
                allowed.insert(line, (u64::from(done), 1));
            }
        }
        // A deleted conversation is gone, and what its tools did is not.
        let gone: Vec<String> = self
            .asks
            .values()
            .filter_map(|ask| match ask.what {
                Entry::Start { message, conversation, .. } if self.may_be_gone(conversation) => {
                    Some(message.clone())
                }
                _ => None,
            })
            .collect();
        for (line, count) in &times {
            let known = allowed.get(*line).copied();
            let most = known.map_or(u64::from(gone.iter().any(|message| message == line)), |(_, most)| most);
            if *count > most {
                self.found(
                    Class::Answer,
                    format!("the tool ran {count} times for {line:?}, where {most} is the most"),
                );
            }
        }
        for (line, (least, _)) in allowed {
            if times.get(line.as_str()).copied().unwrap_or(0) < least {
                self.found(Class::Answer, format!("the tool for {line:?} is told to have run, and has not"));
            }
        }
    }
}

/// Whether a decision record says what an answer said.
fn says(decision: &Value, answer: &Value) -> bool {
    let said = answer.as_object();
    said.is_some_and(|said| said.iter().all(|(key, value)| decision.get(key) == Some(value)))
}

/// The lines that the decision lets the noting tool write.
fn let_run(interrupt: &Interrupt) -> Vec<String> {
    let line = |arguments: &Value| arguments["line"].as_str().map(str::to_owned);
    let decisions = interrupt.decision.as_ref().and_then(|decision| decision["decisions"].as_array());
    let asked = interrupt.request["tool_approvals"].as_array();
    let (Some(decisions), Some(asked)) = (decisions, asked) else { return Vec::new() };
    let decided = decisions.iter().filter_map(|one| match one["decision"].as_str() {
        Some("approve") => {
            let call = asked.iter().find(|call| call["tool_call_id"] == one["tool_call_id"])?;
            line(&call["tool_args"])
        }
        Some("edit") => line(&one["edited_args"]),
        _ => None,
    });
    decided.collect()
}
