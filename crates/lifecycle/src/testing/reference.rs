//! A second opinion: small, slow, and written from the contract's text alone.
//!
//! It keeps no state. Whether an event is legal it finds out by looking through everything before it, rule by rule.
//! It knows no rule numbers: it says yes or no.

use causeway_contract::event::{Event, EventData, EventType, InterruptRequest};
use causeway_contract::id::InvocationId;
use causeway_contract::json;
use causeway_contract::limits::Limits;

use crate::validator::{Boundary, Thread};

/// Where a stream first becomes illegal, if it does.
pub fn first_illegal(
    events: &[Event<'static>],
    boundary: Boundary,
    thread: Thread,
    limits: &Limits,
) -> Option<usize> {
    (0..events.len()).find(|&at| !is_legal_next(&events[..at], &events[at], boundary, thread, limits))
}

/// Whether a stream has its terminal.
pub fn has_ended(before: &[Event<'static>]) -> bool {
    before.iter().any(|event| event.data.is_terminal())
}

/// Whether `event` may follow `before`, which is legal itself.
pub fn is_legal_next(
    before: &[Event<'static>],
    event: &Event<'static>,
    boundary: Boundary,
    thread: Thread,
    limits: &Limits,
) -> bool {
    let kind = event.data.event_type();
    let same_run = before
        .first()
        .is_none_or(|first| first.run_id == event.run_id && first.conversation_id == event.conversation_id);
    let ordered = before.iter().all(|earlier| earlier.sequence < event.sequence);
    let start = kind == EventType::RunStarted;
    let starts_well = if before.is_empty() {
        start && event.sequence.value() == 0 && event.namespace.is_root()
    } else {
        !start
    };
    same_run
        && ordered
        && starts_well
        && !has_ended(before)
        && interrupt_allows(before, &event.data)
        && place_is_right(before, event)
        && payload_is_right(before, event, boundary, thread, limits)
        && within_sums(before, event, limits)
}

fn interrupt_allows(before: &[Event<'static>], data: &EventData<'static>) -> bool {
    let pending = before.iter().find_map(|event| match &event.data {
        EventData::InterruptRequested(requested) => Some(requested),
        _other => None,
    });
    match (pending, data) {
        (None, EventData::RunInterrupted(_)) => false,
        (None, _) => true,
        (Some(requested), EventData::RunInterrupted(end)) => {
            let reason = match requested.request {
                InterruptRequest::Form { .. } => "human_input",
                InterruptRequest::Approvals(_) => "tool_approval",
            };
            end.interrupt_id == requested.interrupt_id && end.reason.as_str() == reason
        }
        (Some(_), data) => matches!(
            data.event_type().as_str(),
            "text.finished" | "reasoning.finished" | "tool.finished" | "tool.error" | "namespace.exited"
        ),
    }
}

/// Whether each step of the path was entered and not exited.
fn is_active(before: &[Event<'static>], path: &[InvocationId<'_>]) -> bool {
    (1..=path.len()).all(|depth| {
        let at = |event: &&Event<'static>| event.namespace.path() == &path[..depth];
        let entered = before.iter().filter(at).any(|e| matches!(e.data, EventData::NamespaceEntered(_)));
        let exited = before.iter().filter(at).any(|e| matches!(e.data, EventData::NamespaceExited(_)));
        entered && !exited
    })
}

fn open_paths<'e>(before: &'e [Event<'static>]) -> impl Iterator<Item = &'e Event<'static>> {
    before.iter().filter(move |event| {
        matches!(event.data, EventData::NamespaceEntered(_)) && is_active(before, event.namespace.path())
    })
}

fn place_is_right(before: &[Event<'static>], event: &Event<'static>) -> bool {
    let path = event.namespace.path();
    match &event.data {
        EventData::NamespaceEntered(entered) => {
            let Some((last, outer)) = path.split_last() else {
                return false;
            };
            let used = before.iter().any(|earlier| {
                matches!(earlier.data, EventData::NamespaceEntered(_))
                    && earlier.namespace.path().contains(last)
            });
            is_active(before, outer) && !used && call_is_open(before, entered.parent_tool_call_id.as_str())
        }
        EventData::NamespaceExited(exited) => {
            let inner_open = open_paths(before)
                .any(|open| open.namespace.depth() > path.len() && open.namespace.path().starts_with(path));
            let repeats = open_paths(before).any(|open| match &open.data {
                EventData::NamespaceEntered(entered) => {
                    open.namespace == event.namespace
                        && entered.agent_id == exited.agent_id
                        && entered.parent_tool_call_id == exited.parent_tool_call_id
                }
                _other => false,
            });
            !path.is_empty() && is_active(before, path) && !inner_open && repeats
        }
        data if data.is_terminal() => path.is_empty() && open_paths(before).next().is_none(),
        _other => is_active(before, path),
    }
}

fn count(before: &[Event<'static>], of: impl Fn(&EventData<'static>) -> bool) -> usize {
    before.iter().filter(|event| of(&event.data)).count()
}

fn message_is_open(before: &[Event<'static>], reasoning: bool, id: &str) -> bool {
    let started = count(before, |data| match data {
        EventData::TextStarted(e) => !reasoning && e.message_id == *id,
        EventData::ReasoningStarted(e) => reasoning && e.message_id == *id,
        _other => false,
    });
    let finished = count(before, |data| match data {
        EventData::TextFinished(e) => !reasoning && e.message_id == *id,
        EventData::ReasoningFinished(e) => reasoning && e.message_id == *id,
        _other => false,
    });
    started == 1 && finished == 0
}

fn message_is_new(before: &[Event<'static>], reasoning: bool, id: &str) -> bool {
    0 == count(before, |data| match data {
        EventData::TextStarted(e) => !reasoning && e.message_id == *id,
        EventData::ReasoningStarted(e) => reasoning && e.message_id == *id,
        _other => false,
    })
}

fn call_starts(before: &[Event<'static>], id: &str) -> usize {
    count(before, |data| matches!(data, EventData::ToolStarted(e) if e.tool_call_id == *id))
}

fn call_is_open(before: &[Event<'static>], id: &str) -> bool {
    let ends = count(before, |data| match data {
        EventData::ToolFinished(e) => e.tool_call_id == *id,
        EventData::ToolError(e) => e.tool_call_id == *id,
        _other => false,
    });
    call_starts(before, id) == 1 && ends == 0
}

fn streamed(before: &[Event<'static>], id: &str) -> String {
    let pieces = before.iter().filter_map(|event| match &event.data {
        EventData::ToolArgumentsDelta(e) if e.tool_call_id == *id => Some(&*e.delta),
        _other => None,
    });
    pieces.collect()
}

fn call_may_end(before: &[Event<'static>], id: &str) -> bool {
    let delegates = open_paths(before)
        .any(|open| matches!(&open.data, EventData::NamespaceEntered(e) if e.parent_tool_call_id == *id));
    call_is_open(before, id) && !delegates
}

fn payload_is_right(
    before: &[Event<'static>],
    event: &Event<'static>,
    boundary: Boundary,
    thread: Thread,
    limits: &Limits,
) -> bool {
    match &event.data {
        EventData::TextStarted(e) => message_is_new(before, false, e.message_id.as_str()),
        EventData::TextDelta(e) => message_is_open(before, false, e.message_id.as_str()),
        EventData::TextFinished(e) => message_is_open(before, false, e.message_id.as_str()),
        EventData::ReasoningStarted(e) => message_is_new(before, true, e.message_id.as_str()),
        EventData::ReasoningDelta(e) => message_is_open(before, true, e.message_id.as_str()),
        EventData::ReasoningFinished(e) => message_is_open(before, true, e.message_id.as_str()),
        EventData::ToolStarted(e) => call_starts(before, e.tool_call_id.as_str()) == 0,
        EventData::ToolArgumentsDelta(e) => {
            let whole = count(before, |data| {
                matches!(data, EventData::ToolStarted(s)
                    if s.tool_call_id == e.tool_call_id && s.arguments.as_str().contains(':'))
            });
            call_is_open(before, e.tool_call_id.as_str()) && (whole == 0 || e.delta.is_empty())
        }
        EventData::ToolFinished(e) => {
            let text = streamed(before, e.tool_call_id.as_str());
            call_may_end(before, e.tool_call_id.as_str())
                && (text.is_empty() || json::check_object(&text, limits).is_ok())
        }
        EventData::ToolError(e) => call_may_end(before, e.tool_call_id.as_str()),
        EventData::InterruptRequested(e) => match &e.request {
            InterruptRequest::Form { .. } => true,
            InterruptRequest::Approvals(approvals) => approvals.iter().all(|approval| {
                let tool = count(before, |data| {
                    matches!(data, EventData::ToolStarted(s)
                        if s.tool_call_id == approval.tool_call_id && s.tool_name == approval.tool_name)
                });
                call_is_open(before, approval.tool_call_id.as_str()) && tool == 1
            }),
        },
        EventData::RunFinished(e) => match (boundary, &e.thread_state) {
            (Boundary::Yield, state) => state.is_none(),
            (Boundary::Commit, state) => {
                let committed = state.as_ref().is_some_and(|state| state.durability.as_str() == "committed");
                committed || thread == Thread::Ephemeral
            }
        },
        EventData::RunError(e) => !(e.retryable && e.code.as_str() == "thread_durability_uncertain"),
        EventData::RunStarted(_)
        | EventData::RunInterrupted(_)
        | EventData::RunCancelled(_)
        | EventData::NamespaceEntered(_)
        | EventData::NamespaceExited(_)
        | EventData::Warning(_)
        | EventData::UsageUpdated(_)
        | EventData::ProviderMetadata(_) => true,
    }
}

fn within_sums(before: &[Event<'static>], event: &Event<'static>, limits: &Limits) -> bool {
    let all = || before.iter().chain([event]);
    let text = |of: &dyn Fn(bool, &str) -> bool| -> usize {
        let len = |event: &Event<'static>| match &event.data {
            EventData::TextDelta(e) if of(false, e.message_id.as_str()) => e.delta.len(),
            EventData::ReasoningDelta(e) if of(true, e.message_id.as_str()) => e.delta.len(),
            _other => 0,
        };
        all().map(len).sum()
    };
    let of_message = match &event.data {
        EventData::TextDelta(e) => text(&|reasoning, id| !reasoning && e.message_id == *id),
        EventData::ReasoningDelta(e) => text(&|reasoning, id| reasoning && e.message_id == *id),
        _other => 0,
    };
    let arguments = match &event.data {
        EventData::ToolArgumentsDelta(e) => streamed(before, e.tool_call_id.as_str()).len() + e.delta.len(),
        _other => 0,
    };
    let is = |kinds: &[EventType]| all().filter(|event| kinds.contains(&event.data.event_type())).count();
    let entering = usize::from(event.data.event_type() == EventType::NamespaceEntered);
    of_message <= limits.message_text_bytes
        && text(&|_, _| true) <= limits.run_text_bytes
        && arguments <= limits.arguments_bytes
        && is(&[EventType::ToolStarted]) <= limits.tool_calls
        && is(&[EventType::TextStarted, EventType::ReasoningStarted]) <= limits.messages
        && open_paths(before).count() + entering <= limits.open_namespaces
        && u64::try_from(all().count()).unwrap() <= limits.run_events
}
