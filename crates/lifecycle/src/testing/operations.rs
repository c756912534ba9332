//! Arbitrary operations from bytes: events with ids from a small set, so that they meet, in any order.
//!
//! Most such streams break a rule soon; [`agree`] says whether the validator refuses each event that the reference
//! checker refuses, and no other.

use causeway_contract::event::{
    Event, EventType, InterruptReason, NamespaceOutcome, ReasoningDelta, ReasoningFinished,
};
use causeway_contract::event::{ReasoningStarted, RunInterrupted, TextFinished, TextStarted};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::testing::choices::Choices;
use crate::testing::{event, reference, script};
use crate::validator::{Boundary, Thread, Validator};

/// Small limits, so that sums are exceeded soon.
pub fn small_limits() -> Limits {
    Limits {
        message_text_bytes: 12,
        run_text_bytes: 20,
        arguments_bytes: 12,
        open_namespaces: 2,
        tool_calls: 4,
        messages: 4,
        run_events: 60,
        ..Limits::DEFAULT
    }
}

/// A list of events.
pub fn operations(bytes: &[u8]) -> Vec<Event<'static>> {
    let mut choices = Choices::new(bytes);
    let mut events = vec![event(0, Namespace::root(), script::run_started())];
    let mut sequence = 1;
    while !choices.is_empty() && events.len() < LONGEST {
        events.push(operation(&mut choices, sequence));
        sequence = if choices.once_in(24) { sequence.saturating_sub(1) } else { sequence + 1 };
    }
    events
}

fn operation(choices: &mut Choices<'_>, sequence: u64) -> Event<'static> {
    let kind = *choices.one_of(FREQUENT).unwrap();
    let message = *choices.one_of(&["a", "b", "c"]).unwrap();
    let call = *choices.one_of(&["s", "t", "u"]).unwrap();
    let agent = *choices.one_of(&["x", "x", "x", "y"]).unwrap();
    let namespace = match choices.below(12) {
        0..=5 => Namespace::root(),
        6..=8 => script::path("s"),
        9 => script::path("s/t"),
        10 => script::path("u/t"),
        _ => script::path("t"),
    };
    let message_id = script::message_id(message);
    let data = match kind {
        EventType::RunStarted => script::run_started(),
        EventType::RunFinished => {
            script::run_finished(choices.one_of(&["committed", "bare", "failed"]).unwrap())
        }
        EventType::RunInterrupted => RunInterrupted {
            interrupt_id: script::interrupt_id(choices.one_of(&["i", "i", "j"]).unwrap()),
            reason: *choices.one_of(InterruptReason::ALL).unwrap(),
        }
        .into(),
        EventType::RunCancelled => script::run_cancelled(),
        EventType::RunError => {
            let code = *choices.one_of(&["harness_timeout", "thread_durability_uncertain"]).unwrap();
            script::run_error(code, choices.once_in(2))
        }
        EventType::TextStarted => TextStarted { message_id }.into(),
        EventType::TextDelta => {
            script::text_delta(message, choices.one_of(&["four", "", "seven77"]).unwrap())
        }
        EventType::TextFinished => TextFinished { message_id }.into(),
        EventType::ReasoningStarted => ReasoningStarted { message_id, role: false }.into(),
        EventType::ReasoningDelta => ReasoningDelta { message_id, delta: "four".into() }.into(),
        EventType::ReasoningFinished => ReasoningFinished { message_id }.into(),
        EventType::ToolStarted => {
            let tool = *choices.one_of(&["tool", "other"]).unwrap();
            script::tool_started(call, tool, choices.one_of(&["{}", " { } ", r#"{"k":1}"#]).unwrap())
        }
        EventType::ToolArgumentsDelta => {
            script::tool_arguments(call, choices.one_of(&["{", "}", "", "{}", "\"k\":1", "[]"]).unwrap())
        }
        EventType::ToolFinished => script::tool_finished(call, "done"),
        EventType::ToolError => script::tool_error(call),
        EventType::InterruptRequested => match choices.below(3) {
            0 => script::form("i"),
            1 => script::approvals("i", &[call]),
            _ => script::approvals("i", &["s", "t:other"]),
        },
        EventType::NamespaceEntered => script::entered(agent, call),
        EventType::NamespaceExited => script::exited(agent, call, NamespaceOutcome::Success),
        EventType::Warning => script::warning(),
        EventType::UsageUpdated => script::usage(3, false),
        EventType::ProviderMetadata => script::metadata(),
    };
    event(sequence, namespace, data)
}

/// Feeds the events one by one, refused ones skipped, to the validator and to the reference checker.
///
/// # Panics
/// When the two disagree, or a refusal changed the validator.
pub fn agree(events: &[Event<'static>], boundary: Boundary, thread: Thread, limits: &Limits) {
    let mut validator = Validator::new(boundary, thread, limits.clone()).offline();
    let mut accepted: Vec<Event<'static>> = Vec::new();
    for event in events {
        let before = format!("{validator:?}");
        let verdict = validator.accept(event, 100);
        let legal = reference::is_legal_next(&accepted, event, boundary, thread, limits);
        assert_eq!(verdict.is_ok(), legal, "{verdict:?}\nfor {event:?}\nafter {accepted:#?}");
        match verdict {
            Ok(()) => accepted.push(event.clone()),
            Err(_) => {
                assert_eq!(format!("{validator:?}"), before, "a refusal of {event:?} changed the state");
            }
        }
        assert_eq!(validator.finish().is_ok(), reference::has_ended(&accepted));
    }
}

/// The reference checker is slow; longer lists find nothing more.
const LONGEST: usize = 120;

/// Types in proportion to how much there is to them.
const FREQUENT: &[EventType] = &[
    EventType::TextStarted,
    EventType::TextDelta,
    EventType::TextDelta,
    EventType::TextFinished,
    EventType::ReasoningStarted,
    EventType::ReasoningDelta,
    EventType::ReasoningFinished,
    EventType::ToolStarted,
    EventType::ToolStarted,
    EventType::ToolStarted,
    EventType::ToolArgumentsDelta,
    EventType::ToolArgumentsDelta,
    EventType::ToolFinished,
    EventType::ToolFinished,
    EventType::ToolError,
    EventType::NamespaceEntered,
    EventType::NamespaceEntered,
    EventType::NamespaceEntered,
    EventType::NamespaceExited,
    EventType::NamespaceExited,
    EventType::InterruptRequested,
    EventType::RunInterrupted,
    EventType::RunFinished,
    EventType::RunCancelled,
    EventType::RunError,
    EventType::RunStarted,
    EventType::Warning,
    EventType::UsageUpdated,
    EventType::ProviderMetadata,
];
