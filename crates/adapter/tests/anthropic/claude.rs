//! What the recordings of the CLI do not show: refusals, parallel lines, background subagents, lies, cancels, cases.

use causeway_adapter::claude_agent_sdk::HARNESS;
use causeway_adapter::turn::{Answer, Turn};
use causeway_contract::event::EventData;

use crate::expected::terminal;
use crate::support::{Run, options, play, recording};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1","model":"m"}"#;
const SUCCESS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn","session_id":"s1"}"#;

fn run(lines: &[&str]) -> Run {
    let mut run = Run::new(HARNESS, Turn::Start, options());
    for line in lines {
        run.line(line.as_bytes()).unwrap();
    }
    run.close()
}

fn tool(id: &str, name: &str, parent: Option<&str>) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"m-{id}","model":"m","content":[{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}]}}}}"#
    )
}

fn result(id: &str, error: bool) -> String {
    format!(
        r#"{{"type":"user","parent_tool_use_id":null,"message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"done","is_error":{error}}}]}}}}"#
    )
}

/// Types of the events with their namespace's depth, and the ids of calls.
fn gist(run: &Run) -> Vec<String> {
    run.drafts
        .iter()
        .map(|draft| {
            let id = match &draft.data {
                EventData::ToolStarted(call) => call.tool_call_id.as_str(),
                EventData::ToolFinished(call) => call.tool_call_id.as_str(),
                EventData::ToolError(call) => call.code.as_str(),
                EventData::NamespaceExited(exit) => exit.outcome.as_str(),
                _ => "",
            };
            format!("{}{} {id}", ">".repeat(draft.namespace.depth()), draft.data.event_type().as_str())
                .trim()
                .to_owned()
        })
        .filter(|line| !line.contains("provider.metadata") && !line.contains("usage.updated"))
        .collect()
}

#[test]
fn a_success_with_an_open_call_a_wanted_tool_or_an_api_error_is_an_error() {
    let call = tool("t1", "Read", None);
    assert_eq!(run(&[INIT, &call, SUCCESS]).code(), Some("agent_execution_failed"));
    let wanted = SUCCESS.replace("end_turn", "tool_use");
    assert_eq!(run(&[INIT, &call, &result("t1", false), &wanted]).code(), Some("agent_execution_failed"));
    let api = r#"{"type":"assistant","error":"rate_limit","message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}}"#;
    assert_eq!(run(&[INIT, api, SUCCESS]).code(), Some("provider_rate_limited"));
    assert_eq!(terminal(&run(&[INIT, &call, &result("t1", false), SUCCESS])), "success");
}

#[test]
fn failures_are_typed_and_say_whether_to_try_again() {
    let failed = |extra: &str| {
        let line = format!(
            r#"{{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error",{extra}}}"#
        );
        let run = run(&[INIT, &line]);
        let Some(EventData::RunError(error)) = run.terminal() else { panic!("{}", run.text()) };
        (error.code.as_str().to_owned(), error.retryable)
    };
    let expected = |code: &str, retryable| (code.to_owned(), retryable);
    assert_eq!(failed(r#""api_error_status":429"#), expected("provider_rate_limited", true));
    assert_eq!(
        failed(r#""api_error_status":529,"api_error_type":"overloaded_error""#),
        expected("provider_unavailable", true)
    );
    assert_eq!(failed(r#""api_error_status":401"#), expected("provider_access_denied", false));
    assert_eq!(
        failed(r#""api_error_status":400,"result":"API Error: prompt is too long: 1 > 0""#),
        expected("context_too_long", false)
    );
    assert_eq!(failed(r#""api_error_type":"timeout_error""#), expected("provider_timeout", true));
    assert_eq!(failed(r#""x":1"#), expected("agent_execution_failed", false));
    let broken = play(HARNESS, &recording("sse_error_mid_text").lines, b"", &options());
    assert_eq!(broken[0].code(), Some("provider_stream_broken"));
    let turns = play(HARNESS, &recording("max_turns").lines, b"", &options());
    assert_eq!(turns[0].code(), Some("agent_step_limit"));
    let refused = play(HARNESS, &recording("api_400").lines, b"", &options());
    assert_eq!(refused[0].code(), Some("provider_request_refused"));
}

#[test]
fn a_refused_call_is_told_as_a_refusal_and_a_closed_form_as_a_status() {
    for (name, code) in [("approve", "tool_rejected"), ("ask_user_question", "tool_status_error")] {
        let recording = recording(name);
        let text = String::from_utf8(recording.sent).unwrap();
        let sent: String = text.lines().map(|line| {
            if !line.contains("can_use_tool") && line.contains("\"behavior\"") {
                let request = line.split("\"request_id\": \"").nth(1).unwrap().split('"').next().unwrap();
                format!("{{\"line\":{{\"type\":\"control_response\",\"response\":{{\"request_id\":\"{request}\",\"response\":{{\"behavior\":\"deny\",\"message\":\"no\"}}}}}}}}\n")
            } else {
                format!("{line}\n")
            }
        }).collect();
        let lines = String::from_utf8(recording.lines).unwrap();
        let denied =
            lines.replace("\"type\": \"tool_result\",", "\"type\": \"tool_result\", \"is_error\": true,");
        let runs = play(HARNESS, denied.as_bytes(), sent.as_bytes(), &options());
        assert_eq!(runs.len(), 2, "{name}");
        assert!(gist(&runs[1]).contains(&format!("tool.error {code}")), "{name}: {:?}", gist(&runs[1]));
    }
}

#[test]
fn without_what_was_sent_the_stream_itself_tells_of_a_refusal() {
    let ask = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Write","input":{},"tool_use_id":"t1"}}"#;
    let end = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true}]},"tool_result_meta":[{"id":"t1","permission_decision":{"decision":"reject","source":"user_reject"}}]}"#;
    let lines = [INIT, &tool("t1", "Write", None), ask, end, SUCCESS].join("\n");
    let runs = play(HARNESS, lines.as_bytes(), b"", &options());
    assert_eq!(gist(&runs[0]), ["run.started", "tool.started t1", "interrupt.requested", "run.interrupted"]);
    assert_eq!(
        gist(&runs[1]),
        ["run.started", "tool.started t1", "tool.error tool_rejected", "run.finished"]
    );
}

#[test]
fn a_request_inside_a_subagent_leaves_its_namespace_and_enters_it_again() {
    let ask = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Write","input":{},"tool_use_id":"t1"}}"#;
    let (task, inner) = (tool("k1", "Task", None), tool("t1", "Write", Some("k1")));
    let lines = [INIT, &task, &inner, ask, &result("t1", false), &result("k1", false), SUCCESS].join("\n");
    let runs = play(HARNESS, lines.as_bytes(), b"", &options());
    assert_eq!(
        gist(&runs[0]),
        [
            "run.started",
            "tool.started k1",
            ">namespace.entered",
            ">tool.started t1",
            ">namespace.exited interrupted",
            "interrupt.requested",
            "run.interrupted"
        ]
    );
    assert_eq!(
        gist(&runs[1]),
        [
            "run.started",
            "tool.started k1",
            ">namespace.entered",
            ">tool.started t1",
            ">tool.finished t1",
            ">namespace.exited success",
            "tool.finished k1",
            "run.finished"
        ]
    );
}

#[test]
fn nested_subagents_have_nested_namespaces() {
    let lines = [
        INIT,
        &tool("k1", "Task", None),
        &tool("k2", "Task", Some("k1")),
        &tool("t1", "Read", Some("k2")),
        &result("t1", false),
        &result("k2", true),
        &result("k1", false),
        SUCCESS,
    ];
    assert_eq!(
        gist(&run(&lines)),
        [
            "run.started",
            "tool.started k1",
            ">namespace.entered",
            ">tool.started k2",
            ">>namespace.entered",
            ">>tool.started t1",
            ">>tool.finished t1",
            ">>namespace.exited error",
            ">tool.error tool_error",
            ">namespace.exited success",
            "tool.finished k1",
            "run.finished"
        ]
    );
}

#[test]
fn a_subagent_in_the_background_never_speaks_in_the_root() {
    let said = r#"{"type":"assistant","parent_tool_use_id":"k1","message":{"id":"b","model":"m","content":[{"type":"text","text":"inner"}]}}"#;
    let done = r#"{"type":"system","subtype":"task_notification","tool_use_id":"k1","status":"completed","summary":"inner"}"#;
    let lines = [INIT, &tool("k1", "Task", None), &result("k1", false), said, done, SUCCESS];
    let expected = [
        "run.started",
        "tool.started k1",
        "tool.finished k1",
        "tool.started node:k1",
        ">namespace.entered",
        ">text.started",
        ">text.delta",
        ">text.finished",
        ">namespace.exited success",
        "tool.finished node:k1",
        "run.finished",
    ];
    assert_eq!(gist(&run(&lines)), expected);
    let open = run(&[INIT, &tool("k1", "Task", None), &result("k1", false), said, SUCCESS]);
    assert_eq!(gist(&open)[8..], [">namespace.exited cancelled", "tool.error tool_detached", "run.finished"]);
    let call = tool("t1", "Write", Some("k1"));
    let busy = run(&[INIT, &tool("k1", "Task", None), &result("k1", false), &call, SUCCESS]);
    let ends = [
        ">tool.error tool_detached",
        ">namespace.exited cancelled",
        "tool.error tool_detached",
        "run.finished",
    ];
    assert_eq!(gist(&busy)[6..], ends, "with a call of its own");
}

#[test]
fn an_interrupt_of_the_user_is_a_cancel_with_or_without_a_result() {
    let notice = r#"{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}}"#;
    let stopped = run(&[INIT, &tool("t1", "Bash", None), &result("t1", true), notice]);
    assert_eq!(gist(&stopped), ["run.started", "tool.started t1", "tool.error tool_error", "run.cancelled"]);
    let aborted = SUCCESS
        .replace("success", "error_during_execution")
        .replace("false", "true,\"terminal_reason\":\"aborted_tools\"");
    assert_eq!(terminal(&run(&[INIT, &tool("t1", "Bash", None), &aborted])), "cancelled");
    assert_eq!(run(&[INIT, &tool("t1", "Bash", None)]).terminal(), None, "a stream that just stops is R12");
}

#[test]
fn full_text_after_the_streamed_pieces_is_not_shown_again() {
    let case =
        include_str!("../../../../tests/data/cases/B10-full-text-repeated-after-the-streamed-pieces.json");
    let case = causeway_adapter::json::Json::parse(case.as_bytes()).unwrap();
    let lines: Vec<String> = case.list("input").iter().map(|line| line.to_text()).collect();
    let run = run(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let mut text = String::new();
    for draft in &run.drafts {
        if let EventData::TextDelta(piece) = &draft.data {
            text.push_str(&piece.delta);
        }
    }
    assert_eq!(text, "The pod is healthy.");
    let types: Vec<String> = gist(&run);
    assert_eq!(
        types,
        ["run.started", "text.started", "text.delta", "text.delta", "text.finished", "run.finished"]
    );
}

#[test]
fn a_resumed_run_without_anything_known_still_begins() {
    let turn = Turn::Resume(causeway_adapter::turn::Resume {
        answer: Some(Answer::Dismissed),
        ..Default::default()
    });
    let mut run = Run::new(HARNESS, turn, options());
    run.line(SUCCESS.as_bytes()).unwrap();
    assert_eq!(terminal(&run), "success");
    assert!(run.line(SUCCESS.as_bytes()).is_err(), "the turn is over");
}
