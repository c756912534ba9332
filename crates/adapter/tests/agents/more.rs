//! What the recordings of the Agents SDK do not show: refusals, lies, exceptions, hand-backs, secrets.

use causeway_adapter::openai::agents::{HARNESS, resume_value};
use causeway_adapter::turn::{Answer, AnswerError, Decided, Turn};
use causeway_contract::event::{Decision, EventData};
use causeway_contract::id::ToolCallId;

use crate::support::{Run, options, play, recording};

fn run(lines: &[&str]) -> Run {
    let mut run = Run::new(HARNESS, Turn::Start, options());
    for line in lines {
        run.line(line.as_bytes()).unwrap();
    }
    run.close()
}

/// Types of the events with their namespace's depth, and the codes of ends.
fn gist(run: &Run) -> Vec<String> {
    run.drafts
        .iter()
        .map(|draft| {
            let more = match &draft.data {
                EventData::ToolStarted(call) => call.tool_call_id.as_str(),
                EventData::ToolError(call) => call.code.as_str(),
                EventData::NamespaceExited(exit) => exit.outcome.as_str(),
                EventData::RunError(error) => error.code.as_str(),
                _ => "",
            };
            let depth = ">".repeat(draft.namespace.depth());
            format!("{depth}{} {more}", draft.data.event_type().as_str()).trim().to_owned()
        })
        .filter(|line| {
            !["usage.updated", "provider.metadata", "text."].iter().any(|word| line.contains(word))
        })
        .collect()
}

const CALL: &str = r#"{"type":"run_item_stream_event","item":{"type":"tool_call_item","raw_item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}}"#;
const DONE: &str = r#"{"type":"run_item_stream_event","item":{"type":"tool_call_output_item","raw_item":{"call_id":"c"},"output":"ok"}}"#;
const END: &str = r#"{"kind":"end","final_output":"x","interruptions":[]}"#;

#[test]
fn a_success_with_an_open_call_or_without_an_output_is_an_error() {
    let last = |lines: &[&str]| gist(&run(lines)).pop().unwrap();
    assert_eq!(last(&[CALL, DONE, END]), "run.finished");
    assert_eq!(last(&[CALL, END]), "run.error agent_execution_failed");
    assert_eq!(last(&[CALL, DONE, r#"{"kind":"end"}"#]), "run.error agent_execution_failed");
    assert_eq!(run(&[CALL, DONE]).terminal(), None, "a stream that just stops is R12");
}

#[test]
fn exceptions_are_typed_and_their_words_stay_inside() {
    let words = "sk-test-CANARY-7f3a /opt/app/secret/runner.py Traceback CANARY-pw 10.0.0.7";
    for (kind, code) in [
        ("RateLimitError", "provider_rate_limited"),
        ("MaxTurnsExceeded", "agent_step_limit"),
        ("APITimeoutError", "provider_timeout"),
        ("ModelBehaviorError", "agent_execution_failed"),
        (words, "agent_execution_failed"),
    ] {
        let run = run(&[&format!(r#"{{"kind":"error","error_type":"{kind}","message":"{words}"}}"#)]);
        assert_eq!(run.code(), Some(code));
        for canary in words.split(' ') {
            assert!(!run.text().contains(canary), "{canary}: {}", run.text());
        }
    }
    let failed = format!(
        r#"{{"type":"raw_response_event","data":{{"type":"response.failed","response":{{"error":{{"code":"server_error","message":"{words}"}}}}}}}}"#
    );
    let run = run(&[&failed, r#"{"kind":"error","error_type":"ModelBehaviorError"}"#]);
    assert_eq!(run.code(), Some("provider_unavailable"), "the response said why");
    assert!(!run.text().contains("CANARY"));
    for line in ["CANARY", "[\"CANARY\"]", "{\"kind\":\"CANARY\"}", "\"CANARY\""] {
        let error = Run::new(HARNESS, Turn::Start, options()).line(line.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("CANARY"), "{error}");
    }
}

#[test]
fn a_refused_call_is_told_as_a_refusal() {
    let recording = recording("agents_approve");
    let mut left = play(HARNESS, &recording.lines, b"", &options())[0].left();
    let private = left.private.clone().unwrap();
    let decide = |id: &str, decision| {
        let tool_call_id = ToolCallId::new(id.to_owned()).unwrap();
        Answer::Decisions(vec![Decided { tool_call_id, decision, edited_args: None, message: None }])
    };
    let reject = decide("call_h1", Decision::Reject);
    let expected = r#"{"decisions":[{"call_id":"call_h1","type":"reject"}]}"#;
    assert_eq!(resume_value(&private, &reject).as_deref(), Ok(expected));
    let edit = resume_value(&private, &decide("call_h1", Decision::Edit));
    assert!(matches!(edit, Err(AnswerError::NotAllowed { .. })));
    assert!(matches!(
        resume_value(&private, &decide("x", Decision::Reject)),
        Err(AnswerError::Unknown { .. })
    ));
    left.answer = Some(reject);
    let mut run = Run::new(HARNESS, Turn::Resume(left), options());
    let text = String::from_utf8(recording.lines).unwrap();
    for line in text.split("\"resume\"}\n").nth(1).unwrap().lines() {
        run.line(line.as_bytes()).unwrap();
    }
    let expected = ["run.started", "tool.started call_h1", "tool.error tool_rejected", "run.finished"];
    assert_eq!(gist(&run.close()), expected);
}

#[test]
fn a_hand_off_is_a_namespace_until_the_first_agent_is_back() {
    let agent = |name: &str| format!(r#"{{"type":"agent_updated_stream_event","new_agent":"{name}"}}"#);
    let lines =
        [agent("a"), agent("b"), agent("c"), CALL.to_owned(), DONE.to_owned(), agent("a"), END.to_owned()];
    assert_eq!(
        gist(&run(&lines.iter().map(String::as_str).collect::<Vec<_>>())),
        [
            "run.started",
            "tool.started node:b",
            ">namespace.entered",
            ">namespace.exited success",
            "tool.finished",
            "tool.started node:c",
            ">namespace.entered",
            ">tool.started c",
            ">tool.finished",
            ">namespace.exited success",
            "tool.finished",
            "run.finished"
        ]
    );
}

#[test]
fn totals_add_up_over_the_responses_of_a_run() {
    let runs = play(HARNESS, &recording("agents_tool").lines, b"", &options());
    let native: (u64, u64) = {
        let text = String::from_utf8(recording("agents_tool").lines).unwrap();
        let sum = |key: &str| {
            let ends = text.lines().filter(|line| line.contains("\"response.completed\""));
            ends.map(|line| {
                line.split(key).nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap()
            })
            .sum()
        };
        (sum("\"input_tokens\": "), sum("\"output_tokens\": "))
    };
    let last = runs[0].drafts.iter().rev().find_map(|draft| match &draft.data {
        EventData::UsageUpdated(usage) if usage.is_final => usage.input_tokens.zip(usage.output_tokens),
        _ => None,
    });
    assert_eq!(last, Some(native));
}
