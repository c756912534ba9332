//! What several test files share: the corpus of lines.

#![allow(dead_code)] // each test file uses its own part

use std::fs;
use std::path::PathBuf;

use causeway_contract::{DecodeError, Event};
use serde_json::Value;

/// A folder of the shared test data.
pub fn data_dir(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data")).join(name)
}

/// The JSON files of a folder, by name.
pub fn json_files(name: &str) -> Vec<(String, Value)> {
    let mut files: Vec<_> = fs::read_dir(data_dir(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            (path.file_name().unwrap().to_string_lossy().into_owned(), value)
        })
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

/// Every event of the goldens, with its place.
pub fn golden_events() -> Vec<(String, Value)> {
    let mut events = Vec::new();
    for (name, golden) in json_files("goldens") {
        for (index, event) in golden["canonical_events"].as_array().unwrap().iter().enumerate() {
            events.push((format!("{name}[{index}]"), event.clone()));
        }
    }
    events
}

/// One legal line of every event type, and of both kinds of interrupt, with every optional field given.
pub fn one_line_each() -> Vec<String> {
    let payloads = [
        (
            "run.started",
            r#"{"message_id":"m","harness_id":"deep-agents","adapter_version":"1.0.0","provider_run_id":"p"}"#,
        ),
        (
            "run.finished",
            r#"{"outcome":"success","stop_reason":"end_turn","thread_state":{"durability":"committed","durable_revision":8,"head_ref":"h"}}"#,
        ),
        ("run.interrupted", r#"{"interrupt_id":"i","reason":"human_input"}"#),
        ("run.cancelled", r#"{"reason":"client_request","side_effect_status":"none"}"#),
        (
            "run.error",
            r#"{"code":"engine_restarted","message":"The gateway was restarted.","retryable":true,"retry_after_seconds":2.50,"side_effect_status":"possible"}"#,
        ),
        ("text.started", r#"{"message_id":"m","role":"assistant"}"#),
        ("text.delta", r#"{"message_id":"m","delta":"größe 😀 \"q\" \\ \n\u001b"}"#),
        ("text.finished", r#"{"message_id":"m"}"#),
        ("reasoning.started", r#"{"message_id":"m","role":"assistant"}"#),
        ("reasoning.delta", r#"{"message_id":"m","delta":"hm"}"#),
        ("reasoning.finished", r#"{"message_id":"m"}"#),
        (
            "tool.started",
            r#"{"tool_call_id":"t","tool_name":"search docs","arguments":{"q":"x","n":[1,2.0,-3E+2,true,null],"n":{}},"parent_message_id":"m"}"#,
        ),
        ("tool.arguments.delta", r#"{"tool_call_id":"t","delta":"{\"q\":"}"#),
        ("tool.finished", r#"{"tool_call_id":"t","result":"ok","result_ref":"r"}"#),
        ("tool.error", r#"{"tool_call_id":"t","code":"tool_error","message":"it broke","retryable":false}"#),
        (
            "interrupt.requested",
            r#"{"interrupt_id":"i","interrupt_type":"form_input","agent_id":"a","prompt":"Fill in","fields":[{"field_name":"n","field_type":"text","required":true,"options":["a"],"options":["b"]},{"field_type":"text","field_name":"o"}]}"#,
        ),
        (
            "interrupt.requested",
            r#"{"interrupt_id":"i","interrupt_type":"tool_approval","agent_id":"a","tool_approvals":[{"tool_call_id":"t","tool_name":"drop","tool_args":{"db":"x"},"allowed_decisions":["approve","reject"]},{"tool_call_id":"u","tool_name":"drop","tool_args":{},"allowed_decisions":[]}]}"#,
        ),
        ("namespace.entered", r#"{"agent_id":"c","agent_name":"Child","parent_tool_call_id":"t"}"#),
        ("namespace.exited", r#"{"agent_id":"c","parent_tool_call_id":"t","outcome":"success"}"#),
        (
            "warning",
            r#"{"code":"mcp_server_unavailable","message":"A tool server did not answer","details":{"server":"docs"}}"#,
        ),
        (
            "usage.updated",
            r#"{"input_tokens":10,"output_tokens":5,"cached_input_tokens":0,"cost":0.10,"currency":"EUR","final":false}"#,
        ),
        (
            "provider.metadata",
            r#"{"provider":"example","model":"example-model","metadata":{"region":"eu-1","attempt":1,"x":null}}"#,
        ),
    ];
    payloads.iter().map(|(event_type, data)| line(event_type, data)).collect()
}

/// A legal envelope around a payload.
pub fn line(event_type: &str, data: &str) -> String {
    format!(
        r#"{{"version":1,"type":"{event_type}","run_id":"run-1","conversation_id":"conv-1","sequence":3,"timestamp":"2026-08-17T00:00:00.120Z","namespace":["t0","t1"],"data":{data}}}"#
    )
}

/// The canonical form.
pub fn to_json(event: &Event<'_>) -> String {
    let mut out = Vec::new();
    event.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

/// A legal `text.delta` whose delta is this JSON.
pub fn delta(json: &str) -> String {
    line("text.delta", &format!(r#"{{"message_id":"m","delta":{json}}}"#))
}

/// `check pointer: sentence`; a line that does not parse has no pointer.
pub fn verdict(result: Result<(), DecodeError>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => {
            let pointer = error.pointer().map_or("-".to_owned(), |pointer| format!("{:?}", pointer.as_str()));
            format!("{} {pointer}: {error}", error.check())
        }
    }
}
