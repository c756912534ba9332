//! A notation for streams: events separated by `;`, each a type and a few words.
//!
//! ```text
//! run.started; tool.started t1; @t1 namespace.entered a t1; @t1 text.started m1; …; #9 run.finished
//! ```
//!
//! `@a/b` before the type is the namespace, `#9` the sequence (else the one before plus one), `!r` the run id. A full
//! stop at the end says that the stream ends there; it changes no event.

use causeway_contract::event::{
    CancelReason, Decision, Durability, Event, EventData, EventType, FormField, InterruptReason,
    InterruptRequest, InterruptRequested, NamespaceEntered, NamespaceExited, NamespaceOutcome,
    ProviderMetadata, ReasoningDelta, ReasoningFinished, ReasoningStarted, RunCancelled, RunError,
    RunFinished, RunInterrupted, RunStarted, SideEffectStatus, TextDelta, TextFinished, TextStarted,
    ThreadState, ToolApproval, ToolArgumentsDelta, ToolError, ToolFinished, ToolStarted, UsageUpdated,
    Warning,
};
use causeway_contract::id::{
    Code, HarnessId, InterruptId, InvocationId, MessageId, Name, Reference, RunId, ToolCallId,
};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::testing::event;

/// The events of a script.
///
/// # Panics
/// On notation it does not know.
pub fn script(text: &str) -> Vec<Event<'static>> {
    let mut next = 0;
    let mut events = Vec::new();
    for part in text.trim_end_matches('.').split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (mut namespace, mut run_id) = (Namespace::root(), None);
        let mut words = part.split_whitespace().peekable();
        while let Some(word) = words.next_if(|word| word.starts_with(['@', '#', '!'])) {
            let (sigil, rest) = word.split_at(1);
            match sigil {
                "@" => namespace = path(rest),
                "#" => next = rest.parse().expect("a sequence"),
                _ => run_id = Some(RunId::new(rest.to_owned()).unwrap()),
            }
        }
        let kind = words.next().expect("an event type");
        let words: Vec<&str> = words.collect();
        let kind = EventType::parse(kind).unwrap_or_else(|| panic!("no event type: {kind}"));
        let mut made = event(next, namespace, data(kind, &words));
        made.run_id = run_id.unwrap_or(made.run_id);
        events.push(made);
        next += 1;
    }
    events
}

/// The path `a/b`.
pub fn path(text: &str) -> Namespace<'static> {
    text.split('/').map(|id| InvocationId::new(id.to_owned()).unwrap()).collect()
}

fn data(kind: EventType, words: &[&str]) -> EventData<'static> {
    let word = |at: usize| words.get(at).copied();
    let first = || word(0).unwrap_or_else(|| panic!("{kind} needs an id"));
    match kind {
        EventType::RunStarted => run_started(),
        EventType::RunFinished => run_finished(word(0).unwrap_or("committed")),
        EventType::RunInterrupted => RunInterrupted {
            interrupt_id: interrupt_id(first()),
            reason: InterruptReason::parse(word(1).unwrap_or("tool_approval")).expect("a reason"),
        }
        .into(),
        EventType::RunCancelled => run_cancelled(),
        EventType::RunError => {
            run_error(word(0).unwrap_or("agent_execution_failed"), word(1) == Some("retry"))
        }
        EventType::TextStarted => TextStarted { message_id: message_id(first()) }.into(),
        EventType::TextDelta => text_delta(first(), &rest(words)),
        EventType::TextFinished => TextFinished { message_id: message_id(first()) }.into(),
        EventType::ReasoningStarted => {
            ReasoningStarted { message_id: message_id(first()), role: false }.into()
        }
        EventType::ReasoningDelta => {
            ReasoningDelta { message_id: message_id(first()), delta: rest(words).into() }.into()
        }
        EventType::ReasoningFinished => ReasoningFinished { message_id: message_id(first()) }.into(),
        EventType::ToolStarted => {
            let (id, tool) = first().split_once(':').unwrap_or((first(), "tool"));
            let arguments = rest(words);
            tool_started(id, tool, if arguments.is_empty() { "{}" } else { &arguments })
        }
        EventType::ToolArgumentsDelta => tool_arguments(first(), &rest(words)),
        EventType::ToolFinished => tool_finished(first(), &rest(words)),
        EventType::ToolError => tool_error(first()),
        EventType::InterruptRequested if word(1) == Some("form") => form(first()),
        EventType::InterruptRequested => approvals(first(), words.get(1..).unwrap_or_default()),
        EventType::NamespaceEntered => entered(first(), word(1).expect("a call")),
        EventType::NamespaceExited => exited(first(), word(1).expect("a call"), NamespaceOutcome::Success),
        EventType::Warning => warning(),
        EventType::UsageUpdated => usage(1, word(0) == Some("final")),
        EventType::ProviderMetadata => metadata(),
    }
}

fn rest(words: &[&str]) -> String {
    words.get(1..).unwrap_or_default().join(" ")
}

/// `run.started` of deepagents.
pub fn run_started() -> EventData<'static> {
    let harness_id = HarnessId::new("deepagents").unwrap();
    RunStarted { harness_id, adapter_version: name("1.0.0"), message_id: None, provider_run_id: None }.into()
}

/// `run.finished`; `bare` has no thread state.
pub fn run_finished(durability: &str) -> EventData<'static> {
    let thread_state = (durability != "bare").then(|| ThreadState {
        durability: Durability::parse(durability).expect("a durability"),
        durable_revision: 8,
        head_ref: Reference::new("head-8").unwrap(),
    });
    RunFinished { stop_reason: Some("end_turn".into()), thread_state }.into()
}

/// `run.cancelled`.
pub fn run_cancelled() -> EventData<'static> {
    let side_effect_status = SideEffectStatus::Possible;
    EventData::from(RunCancelled { reason: CancelReason::ClientRequest, side_effect_status })
}

/// `run.error`.
pub fn run_error(code: &str, retryable: bool) -> EventData<'static> {
    RunError {
        code: Code::new(code.to_owned()).unwrap(),
        message: "The run could not be completed.".into(),
        retryable,
        retry_after_seconds: None,
        side_effect_status: SideEffectStatus::None,
    }
    .into()
}

/// `text.delta`.
pub fn text_delta(id: &str, delta: &str) -> EventData<'static> {
    TextDelta { message_id: message_id(id), delta: delta.to_owned().into() }.into()
}

/// `tool.started`.
pub fn tool_started(id: &str, tool: &str, arguments: &str) -> EventData<'static> {
    let arguments =
        JsonObject::parse(arguments.to_owned(), &Limits::DEFAULT).expect("arguments are an object");
    ToolStarted { tool_call_id: call_id(id), tool_name: name(tool), arguments, parent_message_id: None }
        .into()
}

/// `tool.arguments.delta`.
pub fn tool_arguments(id: &str, delta: &str) -> EventData<'static> {
    ToolArgumentsDelta { tool_call_id: call_id(id), delta: delta.to_owned().into() }.into()
}

/// `tool.finished`.
pub fn tool_finished(id: &str, result: &str) -> EventData<'static> {
    ToolFinished { tool_call_id: call_id(id), result: result.to_owned().into(), result_ref: None }.into()
}

/// `tool.error`.
pub fn tool_error(id: &str) -> EventData<'static> {
    let (code, message) = (Code::new("tool_error").unwrap(), "it failed".into());
    ToolError { tool_call_id: call_id(id), code, message, retryable: false }.into()
}

/// `interrupt.requested` of a form.
pub fn form(id: &str) -> EventData<'static> {
    let object = r#"{"field_name":"answer","field_type":"text","required":true}"#;
    let field = FormField {
        object: JsonObject::parse(object, &Limits::DEFAULT).unwrap(),
        field_name: name("answer"),
        field_type: name("text"),
        required: true,
    };
    let request = InterruptRequest::Form { prompt: "Which region?".into(), fields: vec![field] };
    InterruptRequested { interrupt_id: interrupt_id(id), agent_id: name("helper"), request }.into()
}

/// `interrupt.requested` of approvals of `call` or `call:tool`.
pub fn approvals(id: &str, calls: &[&str]) -> EventData<'static> {
    let approval = |call: &&str| {
        let (id, tool) = call.split_once(':').unwrap_or((call, "tool"));
        let allowed_decisions = vec![Decision::Approve, Decision::Reject];
        ToolApproval {
            tool_call_id: call_id(id),
            tool_name: name(tool),
            tool_args: JsonObject::EMPTY,
            allowed_decisions,
        }
    };
    let request = InterruptRequest::Approvals(calls.iter().map(approval).collect());
    InterruptRequested { interrupt_id: interrupt_id(id), agent_id: name("helper"), request }.into()
}

/// `namespace.entered`.
pub fn entered(agent: &str, call: &str) -> EventData<'static> {
    let parent_tool_call_id = call_id(call);
    NamespaceEntered { agent_id: name(agent), agent_name: name(agent), parent_tool_call_id }.into()
}

/// `namespace.exited`.
pub fn exited(agent: &str, call: &str, outcome: NamespaceOutcome) -> EventData<'static> {
    NamespaceExited { agent_id: name(agent), parent_tool_call_id: call_id(call), outcome }.into()
}

/// `warning`.
pub fn warning() -> EventData<'static> {
    let details = Some(JsonObject::parse(r#"{"attempt":2}"#, &Limits::DEFAULT).unwrap());
    Warning { code: Code::new("slow_provider").unwrap(), message: "The provider is slow.".into(), details }
        .into()
}

/// `usage.updated`.
pub fn usage(tokens: u64, is_final: bool) -> EventData<'static> {
    UsageUpdated {
        input_tokens: Some(tokens),
        output_tokens: Some(tokens),
        is_final,
        ..UsageUpdated::default()
    }
    .into()
}

/// `provider.metadata`.
pub fn metadata() -> EventData<'static> {
    let metadata = JsonObject::parse(r#"{"region":"eu-1","retries":0}"#, &Limits::DEFAULT).unwrap();
    ProviderMetadata { provider: name("example"), model: name("example-model"), metadata }.into()
}

/// A message id.
pub fn message_id(id: &str) -> MessageId<'static> {
    MessageId::new(id.to_owned()).unwrap()
}

/// A call id.
pub fn call_id(id: &str) -> ToolCallId<'static> {
    ToolCallId::new(id.to_owned()).unwrap()
}

/// An interrupt id.
pub fn interrupt_id(id: &str) -> InterruptId<'static> {
    InterruptId::new(id.to_owned()).unwrap()
}

/// A name.
pub fn name(text: &str) -> Name<'static> {
    Name::new(text.to_owned()).unwrap()
}
