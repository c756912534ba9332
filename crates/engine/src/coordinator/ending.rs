//! How a run ends: one transaction, what happens when it is refused or its outcome is unknown, and what the
//! coordinator itself has to add (R09, R12–R15).
//!
//! Refuses to guess: where the store cannot be read, readers are sent away without a terminal.

use causeway_contract::error::Check;
use causeway_contract::event::{
    Durability, Event, EventDraft, EventType, NamespaceExited, NamespaceOutcome, RunCancelled, RunFinished,
    Sequence, ThreadState,
};
use causeway_contract::id::InterruptId;
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::{Rule, Thread, Verdict};

use super::effect::{Closing, Commit, Effect, Late, NewHead, Status};
use super::input::{Head, Outcome, Rejection};
use super::ledger::{Ledger, Prepared};
use super::{Attempt, Coordinator, End, Phase, Wish};
use crate::failure::Failure;

impl Coordinator {
    /// R13: a durable thread's success is its state, saved.
    pub(super) fn finish(
        &mut self,
        finished: RunFinished<'static>,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        if finished.thread_state.is_some() {
            let rejection = Rejection {
                sequence: Some(self.ledger.next()),
                event_type: Some(EventType::RunFinished),
                verdict: Verdict::Check(Check::Payload),
                message: "an adapter cannot claim durability".to_owned(),
            };
            self.reject(rejection, at, effects);
            return;
        }
        let head = match self.run.thread {
            Thread::Ephemeral => None,
            Thread::Durable => match self.state.clone() {
                Some(head) => Some(head),
                None => {
                    effects.push(Effect::StopHarness);
                    self.fail(Failure::StreamClosed, at, effects);
                    return;
                }
            },
        };
        let thread_state = head.as_ref().map(|head| ThreadState {
            durability: Durability::Committed,
            durable_revision: self.base_revision.saturating_add(1),
            head_ref: head.reference.clone(),
        });
        let draft = EventDraft::root(RunFinished { thread_state, ..finished });
        match self.ledger.prepare(draft, at) {
            Ok(terminal) => self.commit(self.ledger.clone(), Vec::new(), terminal, head, None, effects),
            Err(rejection) => self.reject(*rejection, at, effects),
        }
    }

    /// A failure that the adapter recognised.
    pub(super) fn end_as_yielded(
        &mut self,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        match self.ledger.prepare(draft, at) {
            Ok(terminal) => self.commit(self.ledger.clone(), Vec::new(), terminal, None, None, effects),
            Err(rejection) => self.reject(*rejection, at, effects),
        }
    }

    /// `run.cancelled`, with the head if the harness handed over a state that is no pause.
    pub(super) fn end_cancelled(&mut self, wish: Wish, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        let head = match self.run.thread {
            Thread::Durable if !wish.paused => self.state.clone(),
            Thread::Durable | Thread::Ephemeral => None,
        };
        let cancelled = RunCancelled {
            reason: wish.reason,
            side_effect_status: self.ledger.validator().side_effect_status(),
        };
        self.close_up(EventDraft::root(cancelled), NamespaceOutcome::Cancelled, head, at, effects);
    }

    /// Logs a refused event and ends the run for it; the harness is stopped.
    pub(super) fn reject(
        &mut self,
        rejection: Rejection,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        let failure = if rejection.verdict == Verdict::Rule(Rule::R13CommittedFinish) {
            Failure::DurabilityUncertain
        } else {
            Failure::EventInvalid
        };
        effects.push(Effect::Reject(rejection));
        effects.push(Effect::StopHarness);
        self.fail(failure, at, effects);
    }

    /// Ends the run with an error of the engine's own; an interrupt on its way is dropped.
    pub(super) fn fail(&mut self, failure: Failure, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Streaming) {
            Phase::Holding(held) => self.ledger = held.before,
            Phase::Fresh => {
                self.open(at, effects);
                if matches!(self.phase, Phase::Ended(_)) {
                    return;
                }
            }
            Phase::Streaming
            | Phase::Cancelling(_)
            | Phase::Committing(_)
            | Phase::Asking(_)
            | Phase::Ended(_) => {}
        }
        let error = failure.run_error(self.ledger.validator().side_effect_status());
        self.close_up(EventDraft::root(error), NamespaceOutcome::Error, None, at, effects);
    }

    /// R09: a terminal of our own is preceded by the exits it needs, inner first. Nothing else is invented.
    fn close_up(
        &mut self,
        terminal: EventDraft<'static>,
        outcome: NamespaceOutcome,
        head: Option<Head>,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        let before = self.ledger.clone();
        match self.exits_and(terminal, outcome, at) {
            Ok((exits, terminal)) => self.commit(before, exits, terminal, head, None, effects),
            Err(rejection) => {
                // Room was kept and every exit is due, so this is a fault of ours: say nothing rather than a lie.
                self.ledger = before;
                effects.push(Effect::Reject(*rejection));
                self.end_without_terminal(effects);
            }
        }
    }

    fn exits_and(
        &mut self,
        terminal: EventDraft<'static>,
        outcome: NamespaceOutcome,
        at: &Timestamp<'static>,
    ) -> Result<(Vec<Event<'static>>, Prepared), Box<Rejection>> {
        let mut due: Vec<EventDraft<'static>> = self
            .ledger
            .validator()
            .open_namespaces()
            .map(|open| {
                let exited = NamespaceExited {
                    agent_id: open.agent_id.clone(),
                    parent_tool_call_id: open.parent_tool_call_id.clone(),
                    outcome,
                };
                EventDraft::at(open.path.clone(), exited)
            })
            .collect();
        // In entry order a child always follows its parent.
        due.reverse();
        let exits = due.into_iter().map(|exit| self.ledger.accept_own(exit, at)).collect::<Result<_, _>>()?;
        Ok((exits, self.ledger.prepare(terminal, at)?))
    }

    /// Starts the one transaction. `before` is what to go back to when it is refused.
    pub(super) fn commit(
        &mut self,
        before: Ledger,
        mut events: Vec<Event<'static>>,
        terminal: Prepared,
        head: Option<Head>,
        interrupt: Option<InterruptId<'static>>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(status) = Status::of(&terminal.event.data) else {
            // Only terminals are prepared.
            self.end_without_terminal(effects);
            return;
        };
        let from = self.base_revision;
        let head = head.map(|head| NewHead { from, to: from.saturating_add(1), head });
        let attempt = Attempt {
            before,
            terminal: terminal.clone(),
            moves_head: head.is_some(),
            interrupt: interrupt.is_some(),
        };
        events.push(terminal.event);
        self.phase = Phase::Committing(Box::new(attempt));
        effects.push(Effect::Commit(Box::new(Commit { events, status, head, interrupt })));
    }

    pub(super) fn committed(&mut self, receipt: Option<&CommitReceipt>, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Ended(End::Unknown)) {
            // R14: without the receipt it is not known to be committed.
            Phase::Committing(attempt) if attempt.interrupt && receipt.is_none() => {
                self.phase = Phase::Asking(attempt);
                effects.push(Effect::ReadOutcome);
            }
            Phase::Committing(attempt) => self.seal(&attempt, receipt, effects),
            phase @ (Phase::Fresh
            | Phase::Asking(_)
            | Phase::Streaming
            | Phase::Holding(_)
            | Phase::Cancelling(_)
            | Phase::Ended(_)) => {
                self.phase = phase;
                effects.push(Effect::Late(Late::Answer));
            }
        }
    }

    fn seal(&mut self, attempt: &Attempt, receipt: Option<&CommitReceipt>, effects: &mut Vec<Effect>) {
        if let Err(rejection) = self.ledger.seal(&attempt.terminal, receipt) {
            // It was prepared, and nothing happened in between: a fault of ours, but the store has the last word.
            effects.push(Effect::Reject(*rejection));
        }
        let terminal = &attempt.terminal.event;
        self.phase = Phase::Ended(End::Terminal(terminal.data.event_type()));
        self.deliver(terminal.sequence, effects);
        effects.push(Effect::Close(Closing::Terminal));
    }

    /// R15: the commit can no longer land. The prior head stays.
    pub(super) fn refused(&mut self, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Ended(End::Unknown)) {
            Phase::Committing(attempt) => self.refuse(*attempt, at, effects),
            phase @ (Phase::Fresh
            | Phase::Streaming
            | Phase::Holding(_)
            | Phase::Cancelling(_)
            | Phase::Asking(_)
            | Phase::Ended(_)) => {
                self.phase = phase;
                effects.push(Effect::Late(Late::Answer));
            }
        }
    }

    fn refuse(&mut self, attempt: Attempt, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        self.ledger = attempt.before;
        self.phase = Phase::Streaming;
        if attempt.moves_head || attempt.interrupt {
            effects.push(Effect::StopHarness);
            self.fail(Failure::DurabilityUncertain, at, effects);
        } else {
            // Not even an error can be written. Recovery will write one.
            self.end_without_terminal(effects);
        }
    }

    pub(super) fn unknown(&mut self, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Ended(End::Unknown)) {
            Phase::Committing(attempt) => {
                self.phase = Phase::Asking(attempt);
                effects.push(Effect::ReadOutcome);
            }
            phase @ (Phase::Fresh
            | Phase::Streaming
            | Phase::Holding(_)
            | Phase::Cancelling(_)
            | Phase::Asking(_)
            | Phase::Ended(_)) => {
                self.phase = phase;
                effects.push(Effect::Late(Late::Answer));
            }
        }
    }

    pub(super) fn learned(&mut self, outcome: Outcome, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Ended(End::Unknown)) {
            Phase::Asking(attempt) => match outcome {
                Outcome::Committed => self.seal(&attempt, None, effects),
                Outcome::NotCommitted => self.refuse(*attempt, at, effects),
                Outcome::Unreachable => self.end_without_terminal(effects),
            },
            phase @ (Phase::Fresh
            | Phase::Streaming
            | Phase::Holding(_)
            | Phase::Cancelling(_)
            | Phase::Committing(_)
            | Phase::Ended(_)) => {
                self.phase = phase;
                effects.push(Effect::Late(Late::Answer));
            }
        }
    }

    /// Deliver after durable: never before the log has it, never twice.
    pub(super) fn deliver(&mut self, through: Sequence, effects: &mut Vec<Effect>) {
        if self.delivered.is_none_or(|delivered| delivered < through) && through < self.ledger.next() {
            self.delivered = Some(through);
            effects.push(Effect::Deliver { through });
        }
    }

    pub(super) fn lose(&mut self, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Ended(_) => effects.push(Effect::Late(Late::Answer)),
            Phase::Fresh
            | Phase::Streaming
            | Phase::Holding(_)
            | Phase::Cancelling(_)
            | Phase::Committing(_)
            | Phase::Asking(_) => self.end_without_terminal(effects),
        }
    }

    /// Never guess: readers are sent away without a terminal and read the truth later.
    pub(super) fn end_without_terminal(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Ended(End::Unknown);
        effects.push(Effect::StopHarness);
        effects.push(Effect::Close(Closing::WithoutTerminal));
    }
}
