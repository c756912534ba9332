//! What the catalogue says of these harnesses: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::agents::{self, OpenAiAgents};
use super::chat::{self, OpenAiChat};
use super::responses::{self, OpenAiResponses};
use crate::recording::Splitter;
use crate::registry::{Capability, Harness, Level, can, no_edits};

/// OpenAI Responses API.
pub const RESPONSES: Harness = Harness {
    id: responses::HARNESS,
    title: "OpenAI Responses API",
    aliases: &[],
    capabilities: OPENAI_RESPONSES,
    make: |turn, options, ids| Box::new(OpenAiResponses::new(&turn, options, ids)),
    resume: responses::resume_value,
    answer: |_, _, _| None,
    edits: no_edits,
    split: || Box::new(Splitter::new()),
};

/// OpenAI chat completions.
pub const CHAT: Harness = Harness {
    id: chat::HARNESS,
    title: "OpenAI chat completions",
    aliases: &[],
    capabilities: OPENAI_CHAT,
    make: |turn, options, ids| Box::new(OpenAiChat::new(&turn, options, ids)),
    resume: chat::resume_value,
    answer: |_, _, _| None,
    edits: no_edits,
    split: || Box::new(Splitter::new()),
};

/// OpenAI Agents SDK.
pub const AGENTS: Harness = Harness {
    id: agents::HARNESS,
    title: "OpenAI Agents SDK",
    aliases: &[],
    capabilities: OPENAI_AGENTS,
    make: |turn, options, ids| Box::new(OpenAiAgents::new(turn, options, ids)),
    resume: agents::resume_value,
    answer: |_, _, _| None,
    edits: no_edits,
    split: || Box::new(Splitter::new()),
};

const OPENAI_RESPONSES: &[Capability] = &[
    can(
        "text",
        Level::Native,
        "Text and refusals stream as the model gives them; images and audio are not shown.",
    )
    .shown_by("openai-anthropic/responses_text.jsonl"),
    can("reasoning", Level::Native, "Summaries and open reasoning stream; what is encrypted stays hidden.")
        .shown_by("openai-anthropic/responses_reasoning_tools.jsonl"),
    can(
        "tools",
        Level::Native,
        "Calls of the caller's tools end the run open; the provider's own tools come whole, with results.",
    )
    .shown_by("openai-anthropic/responses_reasoning_tools.jsonl"),
    can(
        "tool_arguments_stream",
        Level::Native,
        "Pieces of a function's arguments stream when the agent asks for it; other calls come whole.",
    )
    .shown_by("openai-anthropic/responses_reasoning_tools.jsonl"),
    can("subagents", Level::Unsupported, "The API is one model call and knows no subagents."),
    can(
        "tool_approval",
        Level::Unsupported,
        "A request to approve an MCP call is shown as an open call; answering it is the caller's.",
    ),
    can("form_input", Level::Unsupported, "The API has no forms."),
    can("resume", Level::Unsupported, "The API has no pauses."),
    can(
        "restore",
        Level::Unavailable,
        "The service can go on from a stored response; this build has no driver for it.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the call; a cancelled response is told as such.",
    ),
    can("usage", Level::Native, "Tokens come with the response's end, cached input and reasoning apart.")
        .shown_by("openai-anthropic/responses_text.jsonl"),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];

const OPENAI_CHAT: &[Capability] = &[
    can("text", Level::Native, "Text and refusals of the first choice stream as the model gives them.")
        .shown_by("openai-anthropic/chat_tools.jsonl"),
    can(
        "reasoning",
        Level::Unsupported,
        "OpenAI does not show it here; other services' reasoning fields stream where they send them.",
    ),
    can("tools", Level::Native, "Calls are the caller's, so they end the run open.")
        .shown_by("openai-anthropic/chat_tools.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.")
        .shown_by("openai-anthropic/chat_tools.jsonl"),
    can("subagents", Level::Unsupported, "The API is one model call and knows no subagents."),
    can("tool_approval", Level::Unsupported, "The API does not run the caller's tools, so it asks nobody."),
    can("form_input", Level::Unsupported, "The API has no forms."),
    can("resume", Level::Unsupported, "The API has no pauses."),
    can(
        "restore",
        Level::Unsupported,
        "The API keeps no state; the caller sends the conversation each time.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the call; the service says nothing about it.",
    ),
    can("usage", Level::Native, "Totals come in a last chunk, when the request asks for them.")
        .shown_by("openai-anthropic/chat_tools.jsonl"),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];

const OPENAI_AGENTS: &[Capability] = &[
    can("text", Level::Native, "Text and refusals stream as the model gives them.")
        .shown_by("openai-anthropic/agents_approve.jsonl"),
    can("reasoning", Level::Native, "Summaries and open reasoning stream; what is encrypted stays hidden."),
    can(
        "tools",
        Level::Native,
        "The SDK runs the tools; a tool that raised looks like any other output, so it is told as a result.",
    )
    .shown_by("openai-anthropic/agents_tool.jsonl"),
    can(
        "tool_arguments_stream",
        Level::Native,
        "Pieces of a function's arguments stream when the agent asks for it.",
    )
    .shown_by("openai-anthropic/agents_tool.jsonl"),
    can(
        "subagents",
        Level::Native,
        "The agent after a hand-off is a namespace; what agents used as tools do is not in the stream.",
    )
    .shown_by("openai-anthropic/agents_handoff.jsonl"),
    can(
        "tool_approval",
        Level::Native,
        "Gated calls wait and are approved or rejected; nothing can be edited.",
    )
    .shown_by("openai-anthropic/agents_approve.jsonl"),
    can("form_input", Level::Unsupported, "The SDK has no forms."),
    can(
        "resume",
        Level::Unavailable,
        "The decisions are built; this build has no driver that hands them to a live run.",
    ),
    can("restore", Level::Unavailable, "A run's state could be stored; this build has no driver for it."),
    can("cancel", Level::Native, "A cancelled run is told as such.")
        .shown_by("openai-anthropic/agents_cancel.jsonl"),
    can("usage", Level::Emulated, "Tokens come per model call; Causeway adds them up for the run.")
        .shown_by("openai-anthropic/agents_approve.jsonl"),
    can("cost", Level::Unsupported, "The SDK does not know prices."),
];
