//! Words for what can happen to a run, so that a test reads like a story.
#![allow(dead_code, reason = "every test file uses its own part")]

use causeway_contract::event::{
    CancelReason, Decision, Event, EventData, EventDraft, FormField, InterruptReason, InterruptRequest,
    InterruptRequested, NamespaceEntered, NamespaceExited, NamespaceOutcome, RunCancelled, RunError,
    RunFinished, RunInterrupted, RunStarted, SideEffectStatus, TextDelta, TextFinished, TextStarted,
    ToolApproval, ToolError, ToolFinished, ToolStarted, UsageUpdated,
};
use causeway_contract::id::{
    Code, ConversationId, HarnessId, InterruptId, InvocationId, MessageId, Name, Reference, RunId, ToolCallId,
};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;
use causeway_contract::timestamp::Timestamp;
use causeway_engine::coordinator::{Crash, Head, Run, Signal};
use causeway_engine::failure::Failure;
use causeway_lifecycle::Thread;

pub fn at(second: i64) -> Timestamp<'static> {
    Timestamp::from_unix(1_786_924_800 + second, 0)
}

pub fn run(thread: Thread) -> Run {
    Run {
        run_id: RunId::new("run-1").unwrap(),
        conversation_id: ConversationId::new("conversation-1").unwrap(),
        thread,
        started: started(),
        limits: Limits::DEFAULT,
    }
}

pub fn started() -> RunStarted<'static> {
    RunStarted {
        harness_id: HarnessId::new("deepagents").unwrap(),
        adapter_version: Name::new("1.0.0").unwrap(),
        message_id: None,
        provider_run_id: None,
    }
}

/// One signal of a story:
///
/// ```text
/// started · text+ M · text M [TEXT] · text- M · tool+ C · tool- C · tool! C
/// enter C · exit C [success]     a child namespace named after its delegation call, at the root
/// warn · usage · state H · ask C · form · interrupted · finished · error · left
/// closed · failed · rejected · crashed · cancel · deadline · silent · journal
/// ```
pub fn signal(word: &str) -> Signal {
    let mut parts = word.split_whitespace();
    let verb = parts.next().unwrap_or_default();
    let id = parts.next().unwrap_or("x");
    let rest = parts.collect::<Vec<_>>().join(" ");
    match verb {
        "state" => {
            let reference = Reference::new(id.to_owned()).unwrap();
            Signal::State(Head { reference, private: Some("{}".to_owned()) })
        }
        "closed" => Signal::Closed,
        "failed" => Signal::Failed(Failure::OutputMalformed),
        "silent" => Signal::Failed(Failure::HarnessTimeout),
        "crashed" => Signal::Crashed(Crash::Restart),
        "cancel" => Signal::Cancel(CancelReason::ClientRequest),
        "deadline" => Signal::Cancel(CancelReason::Deadline),
        "journal" => Signal::AppendFailed,
        _ => Signal::Draft(draft(verb, id, &rest)),
    }
}

fn draft(verb: &str, id: &str, rest: &str) -> EventDraft<'static> {
    let message = || MessageId::new(id.to_owned()).unwrap();
    let call = || ToolCallId::new(id.to_owned()).unwrap();
    let child = || Namespace::root().child(InvocationId::new(id.to_owned()).unwrap());
    let name = |text: &'static str| Name::new(text).unwrap();
    let data: EventData<'static> = match verb {
        "started" => started().into(),
        "text+" => TextStarted { message_id: message() }.into(),
        "text" => TextDelta { message_id: message(), delta: rest.to_owned().into() }.into(),
        "text-" => TextFinished { message_id: message() }.into(),
        "tool+" => ToolStarted {
            tool_call_id: call(),
            tool_name: name("lookup"),
            arguments: JsonObject::EMPTY,
            parent_message_id: None,
        }
        .into(),
        "tool-" => ToolFinished { tool_call_id: call(), result: "done".into(), result_ref: None }.into(),
        "tool!" => ToolError {
            tool_call_id: call(),
            code: Code::new("tool_error").unwrap(),
            message: "no".into(),
            retryable: false,
        }
        .into(),
        "enter" => {
            let data = NamespaceEntered {
                agent_id: name("child"),
                agent_name: name("Child"),
                parent_tool_call_id: call(),
            };
            return EventDraft::at(child(), data);
        }
        "exit" => {
            let outcome = NamespaceOutcome::parse(rest).unwrap_or(NamespaceOutcome::Success);
            let data = NamespaceExited { agent_id: name("child"), parent_tool_call_id: call(), outcome };
            return EventDraft::at(child(), data);
        }
        "warn" => causeway_contract::event::Warning {
            code: Code::new("odd").unwrap(),
            message: "Something is odd.".into(),
            details: None,
        }
        .into(),
        "usage" => UsageUpdated { input_tokens: Some(3), ..UsageUpdated::default() }.into(),
        "ask" => InterruptRequested {
            interrupt_id: InterruptId::new("interrupt-1").unwrap(),
            agent_id: name("helper"),
            request: InterruptRequest::Approvals(vec![ToolApproval {
                tool_call_id: call(),
                tool_name: name("lookup"),
                tool_args: JsonObject::EMPTY,
                allowed_decisions: vec![Decision::Approve, Decision::Reject],
            }]),
        }
        .into(),
        "form" => InterruptRequested {
            interrupt_id: InterruptId::new("interrupt-1").unwrap(),
            agent_id: name("helper"),
            request: InterruptRequest::Form { prompt: "Well?".into(), fields: Vec::<FormField<'_>>::new() },
        }
        .into(),
        "interrupted" => RunInterrupted {
            interrupt_id: InterruptId::new("interrupt-1").unwrap(),
            reason: if id == "form" { InterruptReason::HumanInput } else { InterruptReason::ToolApproval },
        }
        .into(),
        "finished" => RunFinished::default().into(),
        "error" => RunError {
            code: Code::new("agent_execution_failed").unwrap(),
            message: "The agent failed.".into(),
            retryable: false,
            retry_after_seconds: None,
            side_effect_status: SideEffectStatus::None,
        }
        .into(),
        "left" => {
            RunCancelled { reason: CancelReason::ClientRequest, side_effect_status: SideEffectStatus::None }
                .into()
        }
        other => panic!("no word {other}"),
    };
    EventDraft::root(data)
}

/// A log in the words of a story, terminals with what matters about them.
pub fn tell(log: &[Event<'_>]) -> String {
    let words = log.iter().map(|event| match &event.data {
        EventData::RunFinished(finished) => match &finished.thread_state {
            Some(state) => format!("run.finished {}@{}", state.head_ref, state.durable_revision),
            None => "run.finished".to_owned(),
        },
        EventData::RunError(error) => format!("run.error {} {}", error.code, error.side_effect_status),
        EventData::RunCancelled(left) => format!("run.cancelled {} {}", left.reason, left.side_effect_status),
        EventData::NamespaceExited(exited) => {
            format!("namespace.exited {} {}", exited.parent_tool_call_id, exited.outcome)
        }
        other => other.event_type().as_str().to_owned(),
    });
    words.collect::<Vec<_>>().join("; ")
}
