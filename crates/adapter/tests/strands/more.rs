//! What the recordings of Strands do not show: refusals, lies, exceptions, streamed arguments that were cut, secrets.

use causeway_adapter::strands::{HARNESS, answer_of, resume_value};
use causeway_adapter::turn::{Answer, Decided, Turn};
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
                EventData::ToolError(call) => call.code.as_str(),
                EventData::NamespaceExited(exit) => exit.outcome.as_str(),
                EventData::RunError(error) => error.code.as_str(),
                EventData::RunFinished(end) => end.stop_reason.as_deref().unwrap_or_default(),
                _ => "",
            };
            let depth = ">".repeat(draft.namespace.depth());
            format!("{depth}{} {more}", draft.data.event_type().as_str()).trim().to_owned()
        })
        .filter(|line| !line.contains("usage.updated"))
        .collect()
}

const CALL: &str =
    r#"{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f","input":{}}}]}}"#;
const DONE: &str = r#"{"message":{"role":"user","content":[{"toolResult":{"toolUseId":"t","status":"success","content":[{"text":"ok"}]}}]}}"#;

fn result(stop: &str) -> String {
    format!(r#"{{"result":{{"stop_reason":"{stop}","interrupts":[]}}}}"#)
}

#[test]
fn a_success_with_an_open_call_or_a_wanted_tool_is_an_error() {
    let last = |lines: &[&str]| gist(&run(lines)).pop().unwrap();
    assert_eq!(last(&[CALL, DONE, &result("end_turn")]), "run.finished end_turn");
    assert_eq!(last(&[CALL, &result("end_turn")]), "run.error agent_execution_failed");
    assert_eq!(last(&[CALL, DONE, &result("tool_use")]), "run.error agent_execution_failed");
    assert_eq!(last(&[&result("interrupt")]), "run.error agent_execution_failed");
    assert_eq!(last(&[&result("guardrail_intervened")]), "run.finished refusal");
    assert_eq!(
        last(&[r#"{"type":"multiagent_result","result":{"status":"failed"}}"#]),
        "run.error agent_execution_failed"
    );
    assert_eq!(run(&[CALL, DONE]).terminal(), None, "a stream that just stops is R12");
    assert_eq!(run(&[CALL, DONE, r#"{"kind":"end"}"#]).terminal(), None);
}

#[test]
fn exceptions_are_typed_and_their_words_stay_inside() {
    let words = "sk-test-CANARY-7f3a /opt/app/secret/runner.py Traceback CANARY-pw 10.0.0.7";
    for (kind, code) in [
        ("ModelThrottledException", "provider_rate_limited"),
        ("strands.types.exceptions.ContextWindowOverflowException", "context_too_long"),
        ("MaxTokensReachedException", "agent_execution_failed"),
        ("ReadTimeout", "provider_timeout"),
        (words, "agent_execution_failed"),
    ] {
        let stop = format!(r#"{{"force_stop":true,"force_stop_reason":"{words}"}}"#);
        let error = format!(r#"{{"kind":"error","error_type":"{kind}","message":"{words}"}}"#);
        let run = run(&[&stop, &error]);
        assert_eq!(run.code(), Some(code));
        for canary in words.split(' ') {
            assert!(!run.text().contains(canary), "{canary}: {}", run.text());
        }
    }
    for line in ["CANARY", "[\"CANARY\"]", "{\"kind\":\"CANARY\"}", "\"CANARY\""] {
        let error = Run::new(HARNESS, Turn::Start, options()).line(line.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("CANARY"), "{error}");
    }
}

#[test]
fn a_refused_call_is_told_as_a_refusal_and_a_closed_form_as_a_status() {
    for (name, code) in [("approve", "tool_rejected"), ("ask_user", "tool_status_error")] {
        let recording = recording(name);
        let runs = play(HARNESS, &recording.lines, b"", &options());
        let mut left = runs[0].left();
        let private = left.private.clone().unwrap();
        let answer = if name == "approve" {
            let tool_call_id = ToolCallId::new("tu_h1").unwrap();
            let decision = Decision::Reject;
            Answer::Decisions(vec![Decided { tool_call_id, decision, edited_args: None, message: None }])
        } else {
            Answer::Dismissed
        };
        let value = resume_value(&private, &answer).unwrap();
        assert_eq!(answer_of(&private, value.as_bytes(), &options()), Some(answer.clone()), "{value}");
        left.answer = Some(answer);
        let mut run = Run::new(HARNESS, Turn::Resume(left), options());
        let text = String::from_utf8(recording.lines).unwrap();
        for line in text.split("\"resume\"}\n").nth(1).unwrap().lines() {
            run.line(line.as_bytes()).unwrap();
        }
        let gist = gist(&run.close());
        assert_eq!(gist[..3], ["run.started", "tool.started", &format!("tool.error {code}")], "{name}");
        assert_eq!(gist.last().unwrap(), "run.finished end_turn", "{name}");
    }
}

#[test]
fn a_subagent_is_left_before_its_call_ends_and_progress_opens_nothing() {
    let whole = play(HARNESS, &recording("agent_as_tool").lines, b"", &options());
    let spaces: Vec<String> = gist(&whole[0]).into_iter().filter(|line| !line.contains("delta")).collect();
    assert_eq!(
        spaces,
        [
            "run.started",
            "text.started",
            "text.finished",
            "tool.started",
            ">namespace.entered",
            ">text.started",
            ">text.finished",
            ">tool.started",
            ">tool.finished",
            ">text.started",
            ">text.finished",
            ">namespace.exited success",
            "tool.finished",
            "text.started",
            "text.finished",
            "run.finished end_turn"
        ]
    );
    let progress = play(HARNESS, &recording("tool_progress").lines, b"", &options());
    assert!(!gist(&progress[0]).iter().any(|line| line.contains("namespace")));
}

#[test]
fn totals_are_of_the_run_with_all_its_agents() {
    let totals = |name: &str| -> Vec<_> {
        let runs = play(HARNESS, &recording(name).lines, b"", &options());
        let last = |run: &Run| {
            run.drafts.iter().rev().find_map(|draft| match &draft.data {
                EventData::UsageUpdated(usage) if usage.is_final => {
                    Some((usage.input_tokens, usage.output_tokens))
                }
                _ => None,
            })
        };
        runs.iter().map(last).collect()
    };
    assert_eq!(totals("graph"), [Some((Some(50), Some(25)))]);
    assert_eq!(totals("tool_one"), [Some((Some(40), Some(9)))]);
    assert_eq!(totals("agent_as_tool"), [Some((Some(40), Some(20)))], "the helper's too");
    assert_eq!(totals("two_turns"), [Some((Some(10), Some(5))), Some((Some(10), Some(5)))], "of each run");
    assert_eq!(totals("cancel"), [None], "what is not known is not said");
}

#[test]
fn streamed_arguments_that_were_cut_end_as_an_error() {
    let start = r#"{"event":{"contentBlockStart":{"start":{"toolUse":{"toolUseId":"t","name":"f"}},"contentBlockIndex":0}}}"#;
    let cut =
        r#"{"event":{"contentBlockDelta":{"delta":{"toolUse":{"input":"{\"a\""}},"contentBlockIndex":0}}}"#;
    let mut run = Run::new(HARNESS, Turn::Start, options().stream_arguments(true));
    for line in [start, cut, CALL, DONE, &result("end_turn")] {
        run.line(line.as_bytes()).unwrap();
    }
    assert_eq!(
        gist(&run.close()),
        [
            "run.started",
            "tool.started",
            "tool.arguments.delta",
            "tool.error tool_arguments_invalid",
            "run.finished end_turn"
        ]
    );
}
