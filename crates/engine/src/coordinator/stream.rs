//! From `run.started` to the terminal: every event of the adapter is numbered, checked and appended.
//!
//! Refuses to repair: an event that breaks a rule ends the run. Only empty deltas are dropped.

use causeway_contract::event::{
    EventData, EventDraft, EventType, InterruptRequested, RunCancelled, RunError,
};
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::Thread;

use super::effect::{Effect, Late};
use super::{Coordinator, End, Held, Phase, Wish};
use crate::failure::Failure;

impl Coordinator {
    /// Makes `run.started` of what is known about the run.
    pub(super) fn open(&mut self, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        let started = EventDraft::root(self.run.started.clone());
        match self.ledger.accept_own(started, at) {
            Ok(event) => {
                effects.push(Effect::Open(Box::new(event)));
                self.phase = Phase::Streaming;
            }
            Err(rejection) => {
                effects.push(Effect::Reject(*rejection));
                self.end_without_terminal(effects);
            }
        }
    }

    pub(super) fn draft(
        &mut self,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        if is_empty_delta(&draft.data) {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Ended(End::Unknown)) {
            Phase::Fresh => self.first(draft, at, effects),
            Phase::Streaming => {
                self.phase = Phase::Streaming;
                self.stream(draft, at, effects);
            }
            Phase::Holding(held) => self.hold(held, draft, at, effects),
            Phase::Cancelling(wish) => {
                self.phase = Phase::Cancelling(wish);
                self.wind_down(wish, draft, at, effects);
            }
            phase @ (Phase::Committing(_) | Phase::Asking(_) | Phase::Ended(_)) => {
                self.phase = phase;
                effects.push(Effect::Late(Late::Event(draft.data.event_type())));
            }
        }
    }

    /// The first event of a run that the adapter starts itself.
    fn first(&mut self, draft: EventDraft<'static>, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        self.phase = Phase::Fresh;
        match self.ledger.accept(draft, at) {
            Ok(event) => {
                effects.push(Effect::Open(Box::new(event)));
                self.phase = Phase::Streaming;
            }
            Err(rejection) => self.reject(*rejection, at, effects),
        }
    }

    fn stream(&mut self, draft: EventDraft<'static>, at: &Timestamp<'static>, effects: &mut Vec<Effect>) {
        match draft.data {
            EventData::RunFinished(finished) => self.finish(finished, at, effects),
            EventData::RunError(error) => {
                let error =
                    RunError { side_effect_status: self.ledger.validator().side_effect_status(), ..error };
                self.end_as_yielded(EventDraft::at(draft.namespace, error), at, effects);
            }
            EventData::RunCancelled(RunCancelled { reason, .. }) => {
                // The harness says so by itself: a recording, or a turn that was left by other means.
                self.end_cancelled(Wish { reason, paused: false }, at, effects);
            }
            // R14 needs a state to resume from, and such a thread has none: said at once, before anybody is asked.
            EventData::InterruptRequested(_) if self.run.thread == Thread::Ephemeral => {
                effects.push(Effect::StopHarness);
                self.fail(Failure::NothingToResume, at, effects);
            }
            EventData::InterruptRequested(InterruptRequested { ref interrupt_id, .. }) => {
                let interrupt_id = interrupt_id.clone();
                let before = self.ledger.clone();
                match self.ledger.accept(draft, at) {
                    Ok(event) => {
                        let events = vec![event];
                        self.phase = Phase::Holding(Box::new(Held { before, events, interrupt_id }));
                    }
                    Err(rejection) => self.reject(*rejection, at, effects),
                }
            }
            EventData::RunStarted(_)
            | EventData::RunInterrupted(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolStarted(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::ToolFinished(_)
            | EventData::ToolError(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => match self.ledger.accept(draft, at) {
                Ok(event) => effects.push(Effect::Append(Box::new(event))),
                Err(rejection) => self.reject(*rejection, at, effects),
            },
        }
    }

    /// R14: everything from `interrupt.requested` on waits for the one transaction.
    fn hold(
        &mut self,
        mut held: Box<Held>,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        if draft.data.event_type() == EventType::RunInterrupted {
            match self.ledger.prepare(draft, at) {
                Ok(terminal) if self.state.is_some() => {
                    let Held { before, events, interrupt_id } = *held;
                    self.commit(before, events, terminal, self.state.clone(), Some(interrupt_id), effects);
                }
                // A pause without a state cannot be resumed: the turn did not end regularly (R12).
                Ok(_) => {
                    self.phase = Phase::Holding(held);
                    self.fail(Failure::StreamClosed, at, effects);
                }
                Err(rejection) => {
                    self.phase = Phase::Holding(held);
                    self.reject(*rejection, at, effects);
                }
            }
            return;
        }
        match self.ledger.accept(draft, at) {
            Ok(event) => {
                held.events.push(event);
                self.phase = Phase::Holding(held);
            }
            Err(rejection) => {
                self.phase = Phase::Holding(held);
                self.reject(*rejection, at, effects);
            }
        }
    }

    /// What a harness still says after it was asked to leave is true all the same; only the end is not its own.
    fn wind_down(
        &mut self,
        wish: Wish,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
        effects: &mut Vec<Effect>,
    ) {
        if wish.paused {
            if draft.data.event_type() == EventType::RunInterrupted {
                self.end_cancelled(wish, at, effects);
            } else {
                effects.push(Effect::Late(Late::Event(draft.data.event_type())));
            }
            return;
        }
        match draft.data {
            EventData::InterruptRequested(_) => {
                effects.push(Effect::Late(Late::Event(EventType::InterruptRequested)));
                self.phase = Phase::Cancelling(Wish { paused: true, ..wish });
            }
            EventData::RunCancelled(_) => self.end_cancelled(wish, at, effects),
            EventData::RunStarted(_)
            | EventData::RunFinished(_)
            | EventData::RunInterrupted(_)
            | EventData::RunError(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolStarted(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::ToolFinished(_)
            | EventData::ToolError(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => self.stream(draft, at, effects),
        }
    }
}

/// Empty deltas are dropped before they get a number (decisions §6).
fn is_empty_delta(data: &EventData<'_>) -> bool {
    match data {
        EventData::TextDelta(delta) => delta.delta.is_empty(),
        EventData::ReasoningDelta(delta) => delta.delta.is_empty(),
        EventData::ToolArgumentsDelta(delta) => delta.delta.is_empty(),
        EventData::RunStarted(_)
        | EventData::RunFinished(_)
        | EventData::RunInterrupted(_)
        | EventData::RunCancelled(_)
        | EventData::RunError(_)
        | EventData::TextStarted(_)
        | EventData::TextFinished(_)
        | EventData::ReasoningStarted(_)
        | EventData::ReasoningFinished(_)
        | EventData::ToolStarted(_)
        | EventData::ToolFinished(_)
        | EventData::ToolError(_)
        | EventData::InterruptRequested(_)
        | EventData::NamespaceEntered(_)
        | EventData::NamespaceExited(_)
        | EventData::Warning(_)
        | EventData::UsageUpdated(_)
        | EventData::ProviderMetadata(_) => false,
    }
}
