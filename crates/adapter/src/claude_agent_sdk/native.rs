//! Views on the native lines: the CLI's stream-json, and the Python SDK's message objects. Nothing is decided here.

use crate::json::{Json, JsonStr};

/// The tool that asks the person a question.
pub(super) const ASK: &str = "AskUserQuestion";

/// Whether this tool delegates to a subagent.
pub(super) fn delegates(name: &str) -> bool {
    matches!(name, "Task" | "Agent")
}

/// One line, in the words of the CLI.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line<'j, 'a> {
    /// `system`: its subtype, and the object with its members.
    System(&'j str, &'j Json<'a>),
    /// `stream_event`: the event of the API, and the line around it.
    Stream(&'j Json<'a>, &'j Json<'a>),
    /// `assistant`: whole blocks.
    Assistant(Said<'j, 'a>),
    /// `user`: results of tools, prompts, notices.
    User(Said<'j, 'a>),
    /// `result`: the end of a user's turn.
    Result(&'j Json<'a>),
    /// `control_request`: its id and the request.
    Control(&'j Json<'a>, &'j Json<'a>),
    /// `control_cancel_request`: a request that needs no answer any more, by its id.
    Withdrawn(&'j Json<'a>),
    /// The SDK's iterator ended.
    End,
    /// The turn was left after a cancel.
    Cancelled,
    /// The SDK raised an exception.
    Error(&'j Json<'a>),
    /// Anything that says nothing about the run.
    Other,
}

/// A message of the conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'j, 'a> {
    /// The object with the members of the line.
    pub line: &'j Json<'a>,
    /// The object with `content` and `model`.
    pub message: &'j Json<'a>,
    /// The id of the API's message.
    pub id: Option<&'j JsonStr<'a>>,
}

impl<'j, 'a> Said<'j, 'a> {
    /// The blocks; none where the content is a string.
    pub(super) fn blocks(&self) -> &'j [Json<'a>] {
        self.message.list("content")
    }

    /// The delegating call it belongs to.
    pub(super) fn parent(&self) -> Option<&'j JsonStr<'a>> {
        self.line.str("parent_tool_use_id").filter(|id| !id.is_empty())
    }

    /// What kind of API error the CLI speaks of in place of the model.
    pub(super) fn is_error(&self) -> bool {
        self.line.get("error").is_some() || self.line.get("is_api_error_message") == Some(&Json::Bool(true))
    }

    /// Whether the CLI wrote it and not a model.
    pub(super) fn is_synthetic(&self) -> bool {
        self.message.text("model") == Some("<synthetic>")
    }
}

/// Reads a line; `None` if it is none of this harness.
pub(super) fn read<'j, 'a>(line: &'j Json<'a>) -> Option<Line<'j, 'a>> {
    if let Some(kind) = line.text("type") {
        return Some(match kind {
            "system" => Line::System(line.text("subtype").unwrap_or_default(), line),
            "stream_event" => Line::Stream(line.get("event")?, line),
            "assistant" | "user" => {
                let message = line.get("message")?;
                let said = Said { line, message, id: message.str("id") };
                if kind == "user" { Line::User(said) } else { Line::Assistant(said) }
            }
            "result" => Line::Result(line),
            "control_request" => Line::Control(line.get("request_id")?, line.get("request")?),
            "control_cancel_request" => Line::Withdrawn(line.get("request_id")?),
            _ => Line::Other,
        });
    }
    match line.text("kind")? {
        "hello" | "begin" => Some(Line::Other),
        "end" => Some(Line::End),
        "cancelled" => Some(Line::Cancelled),
        "error" => Some(Line::Error(line)),
        "event" => {
            let event = line.get("event")?;
            Some(match line.text("class").unwrap_or_default() {
                "StreamEvent" => Line::Stream(event.get("event")?, event),
                "AssistantMessage" => {
                    Line::Assistant(Said { line: event, message: event, id: event.str("message_id") })
                }
                "UserMessage" => Line::User(Said { line: event, message: event, id: None }),
                "ResultMessage" => Line::Result(event),
                // `SystemMessage`, `TaskStartedMessage`, …: the CLI's own line is in `data`.
                _ => match event.get("data") {
                    Some(data) => Line::System(event.text("subtype").unwrap_or_default(), data),
                    None => Line::Other,
                },
            })
        }
        _ => None,
    }
}

/// What a block is, by the name of the API.
pub(super) fn kind<'j>(block: &'j Json<'_>) -> &'j str {
    match block.text("type").or_else(|| block.text("class")).unwrap_or_default() {
        "TextBlock" => "text",
        "ThinkingBlock" => "thinking",
        "ToolUseBlock" => "tool_use",
        "ToolResultBlock" => "tool_result",
        "ServerToolUseBlock" => "server_tool_use",
        "ServerToolResultBlock" => "server_tool_result",
        other => other,
    }
}

/// The id of a control request.
pub(super) fn request_id(id: &Json<'_>) -> String {
    id.as_str().map_or_else(|| id.to_text(), |id| id.lossy().into_owned())
}

/// A member under either of its two spellings.
pub(super) fn either<'j, 'a>(json: &'j Json<'a>, cli: &str, sdk: &str) -> Option<&'j Json<'a>> {
    json.get(cli).or_else(|| json.get(sdk))
}

/// An id or a name, lone surrogates replaced.
pub(super) fn owned(json: &Json<'_>, key: &str) -> Option<String> {
    json.str(key).map(|text| text.lossy().into_owned())
}
