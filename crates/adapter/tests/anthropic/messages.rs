//! The Anthropic Messages API: SSE text, truncated arguments, errors in every form.

use causeway_adapter::anthropic_messages::HARNESS;
use causeway_adapter::json::Json;
use causeway_adapter::turn::Turn;
use causeway_contract::event::EventData;

use crate::support::{Run, options, play, recordings};

fn run(items: &[&str]) -> Run {
    let mut run = Run::new(HARNESS, Turn::Start, options());
    for item in items {
        run.line(item.as_bytes()).unwrap();
    }
    run.close()
}

#[test]
fn sse_text_gives_the_events_of_the_recorded_lines() {
    for recording in recordings().iter().filter(|recording| recording.harness == HARNESS) {
        let mut sse = String::from(": comment\nretry: 3\n");
        for line in recording.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = Json::parse(line).unwrap();
            match line.text("kind") {
                Some("event") => {
                    let event = line.get("event").unwrap();
                    sse.push_str(&format!("event: {}\r\ndata: {}\r\n\r\n", event.text("type").unwrap(), event.to_text()));
                }
                Some("error") => sse.push_str(
                    "event: error\ndata: {\"type\":\"error\",\ndata: \"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n",
                ),
                _ => sse.push_str("event: ping\ndata: {\"type\":\"ping\"}\n\n"),
            }
        }
        let whole = run(&[&sse]).text();
        let lines: Vec<&str> = sse.split('\n').collect();
        assert_eq!(run(&lines).text(), whole, "{}", recording.name);
        let without_blanks: Vec<&str> = sse.split('\n').filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(run(&without_blanks).text(), whole, "{}", recording.name);
        let recorded = play(HARNESS, &recording.lines, b"", &options());
        assert_eq!(recorded[0].text(), whole, "{}", recording.name);
    }
}

const START: &str =
    r#"{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":3}}}"#;
const TOOL: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#;
const CUT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\": \"b"}}"#;
const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const DELTA: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":4}}"#;
const END: &str = r#"{"type":"message_stop"}"#;

#[test]
fn arguments_that_were_cut_never_make_a_call_that_could_run() {
    for streamed in [false, true] {
        let mut run = Run::new(HARNESS, Turn::Start, options().stream_arguments(streamed));
        for line in [START, TOOL, CUT, STOP, DELTA, END] {
            run.line(line.as_bytes()).unwrap();
        }
        let code = run.drafts.iter().find_map(|draft| match &draft.data {
            EventData::ToolError(end) => Some(end.code.as_str()),
            _ => None,
        });
        assert_eq!(code, Some("tool_arguments_invalid"));
        let Some(EventData::RunFinished(end)) = run.terminal() else { panic!("{}", run.text()) };
        assert_eq!(end.stop_reason.as_deref(), Some("max_tokens"));
    }
}

#[test]
fn a_message_without_its_end_is_not_finished() {
    assert_eq!(run(&[START, TOOL, STOP, DELTA]).terminal(), None);
    assert_eq!(run(&[START, TOOL, STOP, END]).code(), Some("provider_stream_broken"));
    assert_eq!(run(&[START, TOOL, DELTA, END]).code(), Some("provider_stream_broken"), "a block is open");
    assert_eq!(run(&[DELTA, END]).code(), Some("provider_stream_broken"));
    let wants = DELTA.replace("max_tokens", "tool_use");
    assert_eq!(run(&[START, &wants, END]).code(), Some("agent_execution_failed"), "no tool was called");
}

#[test]
fn errors_of_every_form_are_typed_and_keep_the_delay() {
    let failed = |line: &str| {
        let run = run(&[START, line]);
        let Some(EventData::RunError(error)) = run.terminal() else { panic!("{}", run.text()) };
        let delay = error.retry_after_seconds.as_ref().map(|delay| delay.as_str().to_owned());
        (error.code.as_str().to_owned(), error.retryable, delay)
    };
    let limited = r#"{"kind":"error","status":429,"error_type":"RateLimitError","message":"x","headers":{"Retry-After":"7"}}"#;
    assert_eq!(failed(limited), ("provider_rate_limited".to_owned(), true, Some("7".to_owned())));
    let body =
        r#"data: {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    assert_eq!(failed(body), ("provider_access_denied".to_owned(), false, None));
    let long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens"}}"#;
    assert_eq!(failed(long), ("context_too_long".to_owned(), false, None));
    assert_eq!(failed(r#"{"kind":"error","error_type":"APITimeoutError"}"#).0, "provider_timeout");
    assert_eq!(failed(r#"{"kind":"error","error_type":"Strange"}"#).0, "agent_execution_failed");
}

#[test]
fn the_providers_own_tools_end_with_their_results() {
    let lines = [
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}"#,
        STOP,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"u"}]}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        &DELTA.replace("max_tokens", "end_turn"),
        END,
    ];
    let run = run(&lines);
    let result = run.drafts.iter().find_map(|draft| match &draft.data {
        EventData::ToolFinished(end) => Some(end.result.to_string()),
        _ => None,
    });
    assert_eq!(result.as_deref(), Some(r#"{"type":"web_search_result","url":"u"}"#));
    assert!(matches!(run.terminal(), Some(EventData::RunFinished(_))));
}
