//! What the recordings do not show: other spellings, broken orders, failures by their codes, answers of every kind.

use causeway_adapter::turn::{Answer, Turn};
use causeway_contract::event::{Decision, EventData, InterruptRequest};

use crate::support::{Run, options, play, recording};

const START: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISH: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;

fn run(lines: &[&str]) -> Run {
    let mut run = Run::new("agui", Turn::Start, options());
    for line in lines {
        run.line(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    run.close()
}

fn refused(lines: &[&str]) -> bool {
    let mut run = Run::new("agui", Turn::Start, options());
    lines.iter().any(|line| run.line(line.as_bytes()).is_err())
}

#[test]
fn snake_case_bare_events_and_fractions_of_milliseconds_are_read_too() {
    let run = run(&[
        r#"{"type":"RUN_STARTED","thread_id":"t","run_id":"r","timestamp":1786924800000.25}"#,
        r#"data:{"type":"TOOL_CALL_START","tool_call_id":"c","tool_call_name":"look"}"#,
        r#"{"kind":"event","event":{"type":"TOOL_CALL_ARGS","tool_call_id":"c","delta":"{}"}}"#,
        r#"{"type":"TOOL_CALL_END","tool_call_id":"c"}"#,
        r#"{"type":"TOOL_CALL_RESULT","tool_call_id":"c","message_id":"m","content":[{"type":"text","text":"a"},{"type":"image"}]}"#,
        r#"{"type":"RUN_FINISHED","thread_id":"t","run_id":"r","usage":[{"input_tokens":3},{"input_tokens":4,"output_tokens":1}]}"#,
    ]);
    assert!(run.text().contains("result: \"a\\n[image]\""), "{}", run.text());
    let usage = run.drafts.iter().find_map(|draft| match &draft.data {
        EventData::UsageUpdated(usage) => Some((usage.input_tokens, usage.output_tokens, usage.is_final)),
        _ => None,
    });
    assert_eq!(usage, Some((Some(7), Some(1), true)));
    assert_eq!(run.states[0].head.as_str(), "t/r");
    assert!(matches!(run.terminal(), Some(EventData::RunFinished(_))));
}

#[test]
fn a_failure_is_typed_by_its_code_and_its_words_go_nowhere() {
    for (code, expected) in [
        ("provider_timeout", "provider_timeout"),
        ("RATE_LIMIT_EXCEEDED", "provider_rate_limited"),
        ("OverloadedError", "provider_unavailable"),
        ("UNAUTHORIZED", "provider_access_denied"),
        ("context_length_exceeded", "context_too_long"),
        ("content_filter", "content_filtered"),
        ("canary /srv/app.py", "agent_execution_failed"),
    ] {
        let error =
            format!(r#"{{"type":"RUN_ERROR","message":"canary sk-live-0123456789","code":"{code}"}}"#);
        for lines in [&[START, error.as_str()][..], &[error.as_str()]] {
            let run = run(lines);
            assert_eq!(run.code(), Some(expected), "{code}");
            assert!(!run.text().contains("canary"), "{}", run.text());
        }
    }
    let delayed = r#"{"type":"RUN_ERROR","message":"x","code":"provider_rate_limited","metadata":{"causeway":{"retryAfterSeconds":7}}}"#;
    assert!(run(&[START, delayed]).text().contains("retry_after_seconds: Some(JsonNumber(\"7\"))"));
    assert!(matches!(
        run(&[START, r#"{"type":"RUN_ERROR","message":"x","code":"cancelled"}"#]).terminal(),
        Some(EventData::RunCancelled(_))
    ));
}

#[test]
fn words_of_errors_and_secrets_of_recordings_go_nowhere() {
    for name in ["error", "reasoning", "subagent_alone"] {
        let recording = recording(name);
        assert!(String::from_utf8_lossy(&recording.lines).contains("canary"), "{name}");
        for run in play(recording.harness, &recording.lines, b"", &options()) {
            assert!(!run.text().contains("canary"), "{name}");
        }
    }
}

#[test]
fn what_no_client_would_take_is_refused() {
    let message = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look"}"#;
    let args = r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}"#;
    for lines in [
        &["[]"][..],
        &[r#"{"no":"type"}"#],
        &[message],
        &[START, START],
        &[START, message],
        &[START, args],
        &[START, call, call],
        &[START, call, args, args],
        &[START, FINISH, message],
        &[START, r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}"#],
        &[START, r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[]}}"#],
        &[START, r#"{"type":"RUN_FINISHED","outcome":{"type":"perhaps"}}"#],
    ] {
        assert!(refused(lines), "{lines:?}");
    }
}

#[test]
fn arguments_that_are_no_object_end_their_call_as_an_error() {
    let run = run(&[
        START,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\":"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        r#"{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"m","content":"ok"}"#,
        FINISH,
    ]);
    assert!(run.text().contains("tool_arguments_invalid"), "{}", run.text());
}

#[test]
fn a_pause_that_only_old_servers_know_is_an_error_and_no_success() {
    let run = run(&[START, r#"{"type":"CUSTOM","name":"on_interrupt","value":"{}"}"#, FINISH]);
    assert_eq!(run.code(), Some("agent_execution_failed"));
}

#[test]
fn an_interrupt_without_a_schema_is_a_plain_pause_and_beside_approvals_an_entry() {
    let plain = r#"{"id":"p","reason":"input_required","message":"Which?"}"#;
    let gate = r#"{"id":"g","reason":"tool_call","toolCallId":"late","metadata":{"causeway":{"toolName":"rm","toolArgs":{"a":1}}}}"#;
    let asked = |interrupts: &str| {
        let end = format!(
            r#"{{"type":"RUN_FINISHED","outcome":{{"type":"interrupt","interrupts":[{interrupts}]}}}}"#
        );
        let run = run(&[START, &end]);
        run.drafts.iter().find_map(|draft| match &draft.data {
            EventData::InterruptRequested(asked) => Some(asked.request.clone()),
            _ => None,
        })
    };
    let Some(InterruptRequest::Form { prompt, fields }) = asked(plain) else { panic!() };
    assert_eq!((&*prompt, fields[0].field_name.as_str(), fields.len()), ("Which?", "answer", 1));
    let Some(InterruptRequest::Approvals(both)) = asked(&format!("{gate},{plain}")) else { panic!() };
    let gist: Vec<_> = both
        .iter()
        .map(|one| {
            (
                one.tool_call_id.as_str(),
                one.tool_name.as_str(),
                one.tool_args.as_str(),
                &*one.allowed_decisions,
            )
        })
        .collect();
    assert_eq!(
        gist,
        [
            ("late", "rm", r#"{"a":1}"#, &[Decision::Approve, Decision::Reject][..]),
            ("node:p", "graph_node", "{}", &[Decision::Edit, Decision::Reject][..])
        ]
    );
}

#[test]
fn a_refusal_that_the_server_does_not_mention_is_told_all_the_same() {
    let approval = recording("approval");
    let text = String::from_utf8_lossy(&approval.lines).into_owned();
    let silent: String =
        text.split_inclusive('\n').filter(|line| !line.contains("The user refused.")).collect();
    let runs = play("agui", silent.as_bytes(), b"", &options());
    let told = runs[1].drafts.iter().find_map(|draft| match &draft.data {
        EventData::ToolError(error) => Some((error.tool_call_id.as_str(), error.code.as_str())),
        _ => None,
    });
    assert_eq!(told, Some(("c2", "tool_rejected")));
    assert!(matches!(runs[1].terminal(), Some(EventData::RunFinished(_))));
}

#[test]
fn an_answer_is_found_again_in_the_input_that_a_server_repeats() {
    let approval = recording("approval");
    let runs = play("agui", &approval.lines, b"", &options());
    let private = &runs[0].states[0].private;
    let resume = br#"[{"interruptId":"i1","status":"resolved","payload":{"approved":true}},{"interruptId":"i2","status":"cancelled"}]"#;
    let Some(Answer::Decisions(decisions)) = causeway_adapter::agui::answer_of(private, resume, &options())
    else {
        panic!()
    };
    let given: Vec<_> = decisions.iter().map(|one| (one.tool_call_id.as_str(), one.decision)).collect();
    assert_eq!(given, [("c1", Decision::Approve), ("c2", Decision::Reject)]);
}
