//! Shapes that no recording has: halves of characters, missing counts, broken arguments, bodies of agents.

use causeway_adapter::adapter::Close;
use causeway_adapter::json::Json;
use causeway_contract::event::{EventData, SideEffectStatus};

use crate::support::{AGENTCORE, CONVERSE, Run, options, run};

fn case(text: &str) -> Run {
    let case = Json::parse(text.as_bytes()).unwrap();
    run(
        AGENTCORE,
        case.list("input")
            .iter()
            .map(|line| line.as_str().map_or_else(|| line.to_text(), |line| line.lossy().into_owned())),
    )
}

#[test]
fn an_emoji_split_over_two_pieces_is_joined() {
    let run =
        case(include_str!("../../../../tests/data/cases/B39-emoji-split-over-two-provider-pieces.json"));
    assert_eq!(run.said(), "Well done \u{1f600}!");
    assert!(!run.text().contains('\u{fffd}'));
    assert_eq!(run.end().as_deref(), Some("success end_turn"));
    let strings = ["data: \"Well done \\ud83d\"", "data: \"\\ude00!\""];
    assert_eq!(self::run(AGENTCORE, strings).said(), "Well done \u{1f600}!");
}

#[test]
fn missing_token_counts_are_not_zero() {
    let run = case(include_str!("../../../../tests/data/cases/B51-missing-token-counts-are-not-zero.json"));
    let last = run.drafts.iter().rev().find_map(|draft| match &draft.data {
        EventData::UsageUpdated(usage) => Some(usage),
        _ => None,
    });
    let usage = last.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens),
        (None, Some(2), Some(0))
    );
    assert!(usage.is_final && usage.cost.is_none() && usage.currency.is_none());
}

const START: &str = r#"{"messageStart":{"role":"assistant"}}"#;
const TOOL: &str =
    r#"{"contentBlockStart":{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t1","name":"f"}}}}"#;
const CUT: &str =
    r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"a\": \"b"}}}}"#;
const CLOSE: &str = r#"{"contentBlockStop":{"contentBlockIndex":0}}"#;

fn stop(reason: &str) -> String {
    format!(r#"{{"messageStop":{{"stopReason":"{reason}"}}}}"#)
}

#[test]
fn arguments_that_were_cut_never_make_a_call_that_could_run() {
    for harness in [CONVERSE, AGENTCORE] {
        for streamed in [false, true] {
            let mut run = Run::new(harness, options().stream_arguments(streamed));
            for line in [START, TOOL, CUT, CLOSE, &stop("max_tokens")] {
                run.item(line.as_bytes()).unwrap();
            }
            let run = run.close();
            let code = run.drafts.iter().find_map(|draft| match &draft.data {
                EventData::ToolError(end) => Some(end.code.as_str().to_owned()),
                _ => None,
            });
            assert_eq!(code.as_deref(), Some("tool_arguments_invalid"));
            assert_eq!(run.end().as_deref(), Some("success max_tokens"));
        }
    }
}

#[test]
fn a_tool_without_input_has_no_arguments() {
    let run = run(CONVERSE, [START, TOOL, CLOSE, &stop("tool_use")]);
    let Some(EventData::ToolStarted(start)) = run.drafts.get(1).map(|draft| &draft.data) else {
        panic!("{}", run.text())
    };
    assert_eq!(start.arguments.as_str(), "{}");
    assert_eq!(run.end().as_deref(), Some("success tool_use"));
}

#[test]
fn a_message_is_over_only_with_its_stop_and_nothing_of_it_missing() {
    for harness in [CONVERSE, AGENTCORE] {
        let end = |lines: &[&str]| run(harness, lines).end();
        let broken = Some("provider_stream_broken".to_owned());
        assert_eq!(end(&[START, TOOL, CLOSE]), None);
        assert_eq!(end(&[START, TOOL, &stop("tool_use")]), broken, "a block is open");
        assert_eq!(end(&[&stop("end_turn")]), broken, "no start");
        assert_eq!(end(&[START, START, &stop("end_turn")]), broken, "the first has no stop");
        assert_eq!(
            end(&[START, &stop("tool_use")]),
            Some("agent_execution_failed".to_owned()),
            "no tool was called"
        );
        assert_eq!(end(&[START, &stop("malformed_tool_use")]), Some("agent_execution_failed".to_owned()));
        assert_eq!(end(&[START, &stop("guardrail_intervened")]), Some("success refusal".to_owned()));
        assert_eq!(end(&[START, &stop("max_iterations_exceeded")]), Some("agent_step_limit".to_owned()));
    }
    let mut run = Run::new(CONVERSE, options());
    for line in [START, &stop("end_turn")] {
        run.item(line.as_bytes()).unwrap();
    }
    assert_eq!(run.close_as(Close::Broken).end(), None, "the connection broke before the counts");
}

#[test]
fn a_begin_needs_an_end() {
    for (harness, event) in [
        (CONVERSE, format!(r#"{{"kind":"event","event":{}}}"#, stop("end_turn"))),
        (AGENTCORE, r#"{"kind":"event","event":{"line":"data: \"x\""}}"#.to_owned()),
    ] {
        let lines = [
            r#"{"kind":"begin"}"#,
            &format!(r#"{{"kind":"event","event":{START}}}"#),
            &event,
            r#"{"kind":"end"}"#,
        ];
        let lines = if harness == CONVERSE { lines.to_vec() } else { vec![lines[0], lines[2], lines[3]] };
        assert_eq!(run(harness, &lines[..lines.len() - 1]).end(), None);
        assert_eq!(run(harness, &lines).end().as_deref(), Some("success end_turn"));
    }
}

#[test]
fn a_harness_never_succeeds_with_a_call_of_its_own_open() {
    let own = TOOL.replace("\"name\":\"f\"", "\"name\":\"f\",\"type\":\"server_tool_use\"");
    for reason in ["tool_use", "end_turn", "max_tokens"] {
        let run = run(AGENTCORE, [START, &own, CLOSE, &stop(reason)]);
        let Some(EventData::RunError(error)) = run.terminal() else { panic!("{}", run.text()) };
        assert_eq!(error.code.as_str(), "agent_execution_failed");
        assert_eq!(error.side_effect_status, SideEffectStatus::Possible);
    }
}

#[test]
fn a_failed_tool_is_told_from_one_that_gave_a_result() {
    let own = TOOL.replace("\"name\":\"f\"", "\"name\":\"f\",\"type\":\"mcp_tool_use\"");
    let result = r#"{"contentBlockStart":{"contentBlockIndex":0,"start":{"toolResult":{"toolUseId":"t1","status":"error"}}}}"#;
    let words = r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"toolResult":[{"text":"no"},{"json":{"a":1}}]}}}"#;
    let user = r#"{"messageStart":{"role":"user"}}"#;
    let lines = [
        START,
        &own,
        CLOSE,
        &stop("tool_use"),
        user,
        result,
        words,
        CLOSE,
        &stop("tool_result"),
        START,
        &stop("end_turn"),
    ];
    let whole = run(AGENTCORE, lines);
    let told = whole.drafts.iter().find_map(|draft| match &draft.data {
        EventData::ToolError(end) => Some((end.code.as_str(), end.message.as_ref())),
        _ => None,
    });
    assert_eq!(told, Some(("tool_error", "no\n{\"a\":1}")));
    assert_eq!(whole.end().as_deref(), Some("success end_turn"));
    assert_eq!(
        run(AGENTCORE, &lines[..9]).end().as_deref(),
        Some("agent_execution_failed"),
        "no answer followed"
    );
}

#[test]
fn bodies_of_agents_are_read_in_every_shape() {
    let said = |lines: &[&str]| {
        let run = run(AGENTCORE, lines);
        (run.said(), run.end().unwrap())
    };
    let good = |text: &str| (text.to_owned(), "success end_turn".to_owned());
    assert_eq!(said(&["\"x\""]), good("x"));
    assert_eq!(said(&[r#"{"response":"x","status":"success"}"#]), good("x"));
    assert_eq!(said(&[r#"{"result":{"role":"assistant","content":[{"text":"x"}]}}"#]), good("x"));
    assert_eq!(said(&[r#"{"total":3}"#]), good(r#"{"total":3}"#), "a body is the answer, whatever its shape");
    assert_eq!(said(&["data: {\"start\":true}", "data: \"x\""]), good("x"), "of a stream it is not");
    assert_eq!(said(&["data: {\"metadata\":{}}", "data: \"x\""]), good("x"));
    assert_eq!(said(&["data: \"a\"", "data: {\"result\":\"a\"}"]), good("a"), "a result says the text again");
    assert_eq!(said(&["data: {\"data\":", "data: \"a\"}", "", "event: x", "data: \"b\"\r"]), good("ab"));
    assert_eq!(said(&["data: \"{'a': 1}\""]), good("{'a': 1}"), "a text that only looks like a dict");
    let call = r#"data: {"message":{"role":"assistant","content":[{"text":"x"},{"toolUse":{"toolUseId":"t","name":"f","input":{"a":1}}}]}}"#;
    let result = r#"data: {"message":{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"text":"r"}]}}]}}"#;
    assert_eq!(said(&[call, result]), good("x"));
    assert_eq!(said(&[call]).1, "agent_execution_failed", "the call has no result");
    assert_eq!(said(&["data: \"a"]).1, "provider_stream_broken", "cut in a line");
    let event = format!("data: {{\"event\":{START}}}");
    assert_eq!(said(&[&event]).1, "provider_stream_broken", "cut in a message");
    let mut run = Run::new(AGENTCORE, options());
    run.item(b"data: \"x\"").unwrap();
    assert_eq!(run.close_as(Close::Broken).end(), None, "a broken connection is no end");
}

#[test]
fn delays_and_statuses_are_kept() {
    let line = r#"{"kind":"error","status":429,"error_type":"ClientError","code":"ThrottlingException","retry_after":3}"#;
    let run = run(CONVERSE, [line]);
    let Some(EventData::RunError(error)) = run.terminal() else { panic!("{}", run.text()) };
    assert_eq!(error.code.as_str(), "provider_rate_limited");
    assert_eq!(
        error.retry_after_seconds.as_ref().map(|delay| delay.as_str().to_owned()).as_deref(),
        Some("3")
    );
}

#[test]
fn nothing_follows_the_end() {
    for harness in [CONVERSE, AGENTCORE] {
        let mut run = Run::new(harness, options());
        for line in [START, &stop("end_turn"), r#"{"kind":"end"}"#] {
            run.item(line.as_bytes()).unwrap();
        }
        assert!(run.finished() && run.states.len() == 1);
        assert!(run.item(START.as_bytes()).is_err());
        assert!(run.item(br#"{"kind":"end"}"#).is_ok());
    }
}
