//! Views on the native JSON: messages, steps, tasks. Nothing is decided here.

use crate::json::{Json, JsonStr};
use crate::usage::Counts;

/// The tool that delegates to a subagent.
pub(super) const TASK: &str = "task";
/// The tool whose approval is a form.
pub(super) const FORM: &str = "request_user_input";
/// What a failed tool's text starts with when a wrapper caught the failure.
pub(super) const ERROR_PREFIX: &str = "ERROR: ";

/// Whether a message is the model's.
pub(super) fn is_model(message: &Json<'_>) -> bool {
    matches!(message.text("type"), Some("AIMessage" | "AIMessageChunk" | "ai"))
}

/// Whether a message is a piece of a streamed one.
pub(super) fn is_piece(message: &Json<'_>) -> bool {
    message.text("type") == Some("AIMessageChunk")
}

/// Whether a message is a tool's answer.
pub(super) fn is_tool(message: &Json<'_>) -> bool {
    matches!(message.text("type"), Some("ToolMessage" | "ToolMessageChunk" | "tool"))
}

/// Whether it belongs to the summary of a long history.
pub(super) fn is_summary(message: &Json<'_>, metadata: Option<&Json<'_>>) -> bool {
    let marked = |value: Option<&Json<'_>>| value.and_then(|v| v.text("lc_source")) == Some("summarization");
    marked(metadata) || marked(message.get("additional_kwargs"))
}

/// Whether a message carries tool calls or pieces of one; its text is not shown then (goldens §9.1).
pub(super) fn has_calls(message: &Json<'_>) -> bool {
    !message.list("tool_calls").is_empty() || !message.list("tool_call_chunks").is_empty()
}

/// The text of a message: a string, or the `text` of its blocks and bare strings in their order.
pub(super) fn text_pieces<'j, 'a>(message: &'j Json<'a>) -> Vec<&'j JsonStr<'a>> {
    match message.get("content") {
        Some(Json::String(text)) => vec![text],
        Some(Json::Array(blocks)) => blocks
            .iter()
            .filter_map(|block| match block {
                Json::String(text) => Some(text),
                Json::Object(_) if !is_reasoning(block) => block.str("text"),
                _ => None,
            })
            .collect(),
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => Vec::new(),
    }
}

fn is_reasoning(block: &Json<'_>) -> bool {
    matches!(block.text("type"), Some("thinking" | "redacted_thinking" | "reasoning" | "reasoning_content"))
}

/// The reasoning of a message, as the provider classes of LangChain give it.
pub(super) fn reasoning_pieces<'j, 'a>(message: &'j Json<'a>) -> Vec<&'j JsonStr<'a>> {
    let mut pieces = Vec::new();
    for block in message.list("content").iter().filter(|block| is_reasoning(block)) {
        for key in ["thinking", "reasoning", "reasoning_content", "text"] {
            match block.get(key) {
                Some(Json::String(text)) => pieces.push(text),
                Some(inner @ Json::Object(_)) => pieces.extend(inner.str("text")),
                Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_)) | None => {}
            }
        }
        for key in ["summary", "content"] {
            pieces.extend(block.list(key).iter().filter_map(|part| part.str("text")));
        }
    }
    if let Some(kwargs) = message.get("additional_kwargs") {
        pieces.extend(kwargs.str("reasoning_content"));
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// The token counts of a message.
pub(super) fn counts(message: &Json<'_>) -> Counts {
    let Some(usage) = message.get("usage_metadata") else { return Counts::default() };
    let number = |value: &Json<'_>, key: &str| value.get(key).and_then(Json::as_u64);
    Counts {
        input: number(usage, "input_tokens"),
        output: number(usage, "output_tokens"),
        cached_input: usage.get("input_token_details").and_then(|details| number(details, "cache_read")),
    }
}

/// What one node of a step reports.
pub(super) struct Report<'j, 'a> {
    /// The node.
    pub node: &'j str,
    /// The messages it adds, in order; none if it rewrites the history.
    pub messages: Vec<&'j Json<'a>>,
    /// The calls a reviewer changed, by native call id; the key is there on 0.7 only.
    pub edits: Option<&'j Json<'a>>,
}

/// What the nodes of an `updates` item report.
pub(super) fn reports<'j, 'a>(data: &'j Json<'a>) -> Vec<Report<'j, 'a>> {
    let mut all = Vec::new();
    for (node, value) in data.members() {
        let Some(node) = node.as_plain() else { continue };
        if node != "__interrupt__" && node != "__metadata__" {
            let mut report = Report { node, messages: Vec::new(), edits: None };
            collect(value, &mut report, 0);
            all.push(report);
        }
    }
    all
}

/// A node reports a map of channels, a command with such a map, or a list of these.
fn collect<'j, 'a>(value: &'j Json<'a>, report: &mut Report<'j, 'a>, depth: usize) {
    if depth > 4 {
        return;
    }
    match value {
        Json::Array(items) => items.iter().for_each(|item| collect(item, report, depth + 1)),
        Json::Object(_) if value.text("type") == Some("Command") => {
            if let Some(update) = value.get("update") {
                collect(update, report, depth + 1);
            }
        }
        Json::Object(_) => {
            if let Some(edits) = value.get("hitl_edited_tool_calls") {
                report.edits = Some(edits);
            }
            match value.get("messages") {
                // A list that removes everything first, or replaces the channel, is the history played again.
                Some(Json::Array(messages)) if !messages.iter().any(removes_all) => {
                    report.messages.extend(messages);
                }
                Some(message @ Json::Object(_)) if message.text("type") != Some("Overwrite") => {
                    report.messages.push(message);
                }
                Some(_) | None => {}
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn removes_all(message: &Json<'_>) -> bool {
    message.text("type") == Some("RemoveMessage") && message.text("id") == Some("__remove_all__")
}

/// The tool calls that a task of node `tools` runs: a list of calls, one call, or the older object with `tool_call`.
pub(super) fn task_calls<'j, 'a>(input: &'j Json<'a>) -> Vec<&'j Json<'a>> {
    let is_call = |value: &&'j Json<'a>| value.str("name").is_some() && value.str("id").is_some();
    match input {
        Json::Array(items) => items.iter().filter(is_call).collect(),
        Json::Object(_) => match input.get("tool_call") {
            Some(call) => Some(call).filter(is_call).into_iter().collect(),
            None => Some(input).filter(is_call).into_iter().collect(),
        },
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    }
}

/// Whether the node is the one that asks for approvals and carries out the decisions.
pub(super) fn is_review(node: &str) -> bool {
    node.starts_with("HumanInTheLoopMiddleware")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&JsonStr<'_>]) -> String {
        pieces.iter().map(|piece| piece.lossy()).collect()
    }

    #[test]
    fn reasoning_of_every_provider_is_found_and_never_taken_for_text() {
        for content in [
            r#"[{"type":"thinking","thinking":"why"},{"type":"text","text":"so"}]"#,
            r#"[{"type":"reasoning","summary":[{"type":"summary_text","text":"why"}]},"so"]"#,
            r#"[{"type":"reasoning","reasoning":"why"},{"type":"text","text":"so"}]"#,
            r#"[{"type":"reasoning_content","reasoning_content":{"type":"text","text":"why"}},{"text":"so"}]"#,
        ] {
            let line = format!(r#"{{"type":"AIMessageChunk","content":{content}}}"#);
            let message = Json::parse(line.as_bytes()).unwrap();
            assert_eq!(
                (joined(&reasoning_pieces(&message)), joined(&text_pieces(&message))),
                ("why".into(), "so".into())
            );
        }
    }

    #[test]
    fn a_history_that_is_played_again_reports_no_message() {
        let line = br#"{"A":{"messages":[{"type":"RemoveMessage","id":"__remove_all__"},{"type":"AIMessage"}]},
            "B":{"messages":{"type":"Overwrite","value":[{"type":"AIMessage"}]}},"C":null,
            "D":[{"messages":[{"type":"AIMessage"}]},{"type":"Command","update":{"messages":[{"type":"ToolMessage"}]}}]}"#;
        let data = Json::parse(line).unwrap();
        let found: Vec<_> =
            reports(&data).iter().map(|report| (report.node, report.messages.len())).collect();
        assert_eq!(found, [("A", 0), ("B", 0), ("C", 0), ("D", 2)]);
    }
}
