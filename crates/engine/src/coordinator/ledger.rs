//! The run as far as it is decided: the next number, the commit validator, and what is left of the run's budget.
//!
//! Nothing gets a number here that the validator has not accepted; a refused draft changes nothing.

use std::sync::Arc;

use causeway_contract::event::{Event, EventData, EventDraft, EventType, Sequence};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::{Boundary, Rule, Thread, ToolSchemas, Validator, Verdict, Violation};

use super::input::Rejection;

/// Numbers, stamps and validates what enters the log.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    run_id: RunId<'static>,
    conversation_id: ConversationId<'static>,
    limits: Limits,
    validator: Validator,
    next: Sequence,
    events: u64,
    bytes: u64,
    open_namespaces: u64,
    output: bool,
}

/// A terminal that would be accepted, once the store has said yes.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) event: Event<'static>,
    len: usize,
}

/// Room that is kept for what the coordinator itself may have to add at the end: one `namespace.exited` for every open
/// namespace, and a terminal.
const CLOSING_EVENT_BYTES: u64 = 4096;

impl Ledger {
    pub(super) fn new(
        run_id: RunId<'static>,
        conversation_id: ConversationId<'static>,
        thread: Thread,
        limits: Limits,
    ) -> Self {
        let validator = Validator::new(Boundary::Commit, thread, limits.clone());
        Self {
            run_id,
            conversation_id,
            limits,
            validator,
            next: Sequence::ZERO,
            events: 0,
            bytes: 0,
            open_namespaces: 0,
            output: false,
        }
    }

    pub(super) fn know(&mut self, schemas: Arc<dyn ToolSchemas>) {
        self.validator = self.validator.clone().schemas(schemas);
    }

    pub(super) fn validator(&self) -> &Validator {
        &self.validator
    }

    /// The number that the next event will have.
    pub(super) fn next(&self) -> Sequence {
        self.next
    }

    /// Whether any text or tool event was accepted (decisions §6 "Crash").
    pub(super) fn has_output(&self) -> bool {
        self.output
    }

    /// Numbers, checks and accepts one event of the adapter.
    pub(super) fn accept(
        &mut self,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
    ) -> Result<Event<'static>, Box<Rejection>> {
        let Prepared { event, len } = self.check(draft, at)?;
        if let Some(short) = self.reserve_missing(&event, len) {
            return Err(Box::new(short));
        }
        self.validator.accept(&event, len).map_err(|violation| reject(&event, &violation))?;
        self.advance(&event, len);
        Ok(event)
    }

    /// Accepts one event of the coordinator's own, for which room was kept.
    pub(super) fn accept_own(
        &mut self,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
    ) -> Result<Event<'static>, Box<Rejection>> {
        let Prepared { event, len } = self.check(draft, at)?;
        self.validator.accept(&event, len).map_err(|violation| reject(&event, &violation))?;
        self.advance(&event, len);
        Ok(event)
    }

    /// Checks a terminal without accepting it: the store speaks first.
    pub(super) fn prepare(
        &self,
        draft: EventDraft<'static>,
        at: &Timestamp<'static>,
    ) -> Result<Prepared, Box<Rejection>> {
        let prepared = self.check(draft, at)?;
        self.validator
            .would_accept(&prepared.event, prepared.len)
            .map_err(|violation| reject(&prepared.event, &violation))?;
        Ok(prepared)
    }

    /// Accepts a prepared terminal that the store has committed.
    pub(super) fn seal(
        &mut self,
        terminal: &Prepared,
        receipt: Option<&CommitReceipt>,
    ) -> Result<(), Box<Rejection>> {
        let Prepared { event, len } = terminal;
        let accepted = match receipt {
            Some(receipt) => self.validator.accept_committed(event, *len, receipt),
            // The interrupt was read from the store itself, which is what a receipt stands for.
            None if event.data.event_type() == EventType::RunInterrupted => Ok(()),
            None => self.validator.accept(event, *len),
        };
        accepted.map_err(|violation| reject(event, &violation))?;
        self.advance(event, *len);
        Ok(())
    }

    /// Takes an event that is already in the log.
    pub(super) fn replay(&mut self, event: &Event<'_>) -> Result<(), Box<Rejection>> {
        let len = event.encoded_len();
        self.validator.accept(event, len).map_err(|violation| reject(event, &violation))?;
        self.advance(event, len);
        Ok(())
    }

    fn check(&self, draft: EventDraft<'static>, at: &Timestamp<'static>) -> Result<Prepared, Box<Rejection>> {
        if let Err(fault) = draft.check(&self.limits) {
            return Err(Box::new(Rejection {
                sequence: Some(self.next),
                event_type: Some(draft.data.event_type()),
                verdict: Verdict::Check(fault.check()),
                message: fault.to_string(),
            }));
        }
        let event =
            draft.into_event(self.run_id.clone(), self.conversation_id.clone(), self.next, at.clone());
        let len = event.encoded_len();
        Ok(Prepared { event, len })
    }

    /// R11 with room kept for the end: `None` while there is enough.
    fn reserve_missing(&self, event: &Event<'_>, len: usize) -> Option<Rejection> {
        if event.data.is_terminal() {
            return None;
        }
        let entered = u64::from(matches!(event.data, EventData::NamespaceEntered(_)));
        let closing = self.open_namespaces.saturating_add(entered).saturating_add(1);
        let events = self.events.saturating_add(1).saturating_add(closing);
        let bytes =
            self.bytes.saturating_add(len as u64).saturating_add(closing.saturating_mul(CLOSING_EVENT_BYTES));
        let message = if events > self.limits.run_events {
            format!("the run may have {} events, its end included", self.limits.run_events)
        } else if bytes > self.limits.run_bytes {
            format!("the run may have {} bytes, its end included", self.limits.run_bytes)
        } else {
            return None;
        };
        Some(Rejection {
            sequence: Some(event.sequence),
            event_type: Some(event.data.event_type()),
            verdict: Verdict::Rule(Rule::R11Sums),
            message,
        })
    }

    fn advance(&mut self, taken: &Event<'_>, len: usize) {
        match taken.data.event_type() {
            EventType::TextStarted
            | EventType::TextDelta
            | EventType::TextFinished
            | EventType::ToolStarted
            | EventType::ToolArgumentsDelta
            | EventType::ToolFinished
            | EventType::ToolError => self.output = true,
            EventType::NamespaceEntered => self.open_namespaces = self.open_namespaces.saturating_add(1),
            EventType::NamespaceExited => self.open_namespaces = self.open_namespaces.saturating_sub(1),
            EventType::RunStarted
            | EventType::RunFinished
            | EventType::RunInterrupted
            | EventType::RunCancelled
            | EventType::RunError
            | EventType::ReasoningStarted
            | EventType::ReasoningDelta
            | EventType::ReasoningFinished
            | EventType::InterruptRequested
            | EventType::Warning
            | EventType::UsageUpdated
            | EventType::ProviderMetadata => {}
        }
        // A run has at most `run_events` events, far below 2^53.
        self.next = taken.sequence.next().unwrap_or(Sequence::MAX);
        self.events = self.events.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len as u64);
    }
}

fn reject(event: &Event<'_>, violation: &Violation) -> Box<Rejection> {
    Box::new(Rejection {
        sequence: Some(event.sequence),
        event_type: Some(event.data.event_type()),
        verdict: violation.rule(),
        message: violation.to_string(),
    })
}
