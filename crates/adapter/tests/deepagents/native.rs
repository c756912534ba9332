//! Small native streams, written by hand, and what came of them in one line an event.

use causeway_adapter::turn::{Options, Turn};
use causeway_contract::event::EventData;

use crate::support::{Run, options};

/// `type [namespace] what matters`, without the start of the run.
pub fn shown(run: &Run) -> Vec<String> {
    let describe = |data: &EventData<'static>| match data {
        EventData::TextDelta(e) => format!("{:?}", e.delta),
        EventData::ReasoningDelta(e) => format!("{:?}", e.delta),
        EventData::ToolStarted(e) => format!("{} {} {}", e.tool_call_id, e.tool_name, e.arguments.as_str()),
        EventData::ToolArgumentsDelta(e) => format!("{} {}", e.tool_call_id, e.delta),
        EventData::ToolFinished(e) => format!("{} {:?}", e.tool_call_id, e.result),
        EventData::ToolError(e) => format!("{} {} {:?}", e.tool_call_id, e.code, e.message),
        EventData::NamespaceEntered(e) => format!("{} {}", e.agent_id, e.parent_tool_call_id),
        EventData::NamespaceExited(e) => format!("{} {}", e.parent_tool_call_id, e.outcome),
        EventData::RunError(e) => format!("{} {} {}", e.code, e.retryable, e.side_effect_status),
        EventData::RunCancelled(e) => format!("{} {}", e.reason, e.side_effect_status),
        EventData::RunFinished(e) => e.stop_reason.clone().unwrap_or_default().into_owned(),
        EventData::RunInterrupted(e) => e.reason.to_string(),
        EventData::UsageUpdated(e) => {
            format!("{:?} {:?} {:?}", e.input_tokens, e.output_tokens, e.cached_input_tokens)
        }
        EventData::InterruptRequested(_) => {
            let mut json = Vec::new();
            data.write_json(&mut json);
            let json = String::from_utf8(json).unwrap();
            json.split_once("\"agent_id\":\"agent\",").unwrap().1.trim_end_matches('}').to_owned()
        }
        _ => String::new(),
    };
    let drafts = run.drafts.iter().skip(1);
    let lines = drafts.map(|d| format!("{} {:?} {}", d.data.event_type(), d.namespace, describe(&d.data)));
    lines.map(|line| line.replace(" [] ", " ").trim_end().to_owned()).collect()
}

pub fn chunk(ns: &str, mode: &str, data: &str) -> String {
    format!(r#"{{"kind":"chunk","run_id":"r","ns":{ns},"mode":"{mode}","data":{data}}}"#)
}

pub fn says(content: &str) -> String {
    chunk(
        "[]",
        "messages",
        &format!(r#"[{{"type":"AIMessageChunk","content":{content}}},{{"langgraph_node":"model"}}]"#),
    )
}

pub fn step(ns: &str, node: &str, messages: &str) -> String {
    chunk(ns, "updates", &format!(r#"{{"{node}":{{"messages":[{messages}]}}}}"#))
}

/// A model message with calls `id name args`.
pub fn calls(message: &str, calls: &[(&str, &str, &str)]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|(id, name, args)| format!(r#"{{"id":"{id}","name":"{name}","args":{args}}}"#))
        .collect();
    format!(r#"{{"type":"AIMessage","id":"{message}","content":"","tool_calls":[{}]}}"#, calls.join(","))
}

pub fn result(id: &str, content: &str) -> String {
    format!(r#"{{"type":"ToolMessage","tool_call_id":"{id}","content":"{content}","status":"success"}}"#)
}

pub fn task(ns: &str, task: &str, id: &str, name: &str, args: &str) -> String {
    chunk(
        ns,
        "tasks",
        &format!(
            r#"{{"id":"{task}","name":"tools","input":[{{"id":"{id}","name":"{name}","args":{args}}}]}}"#
        ),
    )
}

pub fn end(interrupts: &str) -> String {
    format!(r#"{{"kind":"end","run_id":"r","state":{{"head":"h","interrupts":{interrupts}}}}}"#)
}

pub fn play_with(turn: Turn, options: Options, lines: &[String]) -> Run {
    let mut run = Run::new(turn, options, 1);
    for line in lines {
        run.line(line.as_bytes()).unwrap();
    }
    run
}

pub fn play(lines: &[String]) -> Run {
    play_with(Turn::Start, options(), lines)
}
