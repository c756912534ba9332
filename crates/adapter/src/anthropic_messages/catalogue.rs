//! What the catalogue says of this harness: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::AnthropicMessages;
use crate::recording::Splitter;
use crate::registry::{Capability, Harness, Level, can, no_edits};

/// Anthropic Messages API.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "Anthropic Messages API",
    aliases: &[],
    capabilities: ANTHROPIC_MESSAGES,
    make: |turn, options, ids| Box::new(AnthropicMessages::new(&turn, options, ids)),
    resume: super::resume_value,
    answer: |_, _, _| None,
    edits: no_edits,
    split: || Box::new(Splitter::new()),
};

const ANTHROPIC_MESSAGES: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it.")
        .shown_by("openai-anthropic/messages_text.jsonl"),
    can(
        "reasoning",
        Level::Native,
        "Thinking blocks stream as reasoning; what the provider redacts stays hidden.",
    )
    .shown_by("openai-anthropic/messages_thinking_tools.jsonl"),
    can(
        "tools",
        Level::Native,
        "Calls of the caller's tools end the run open; the provider's own tools end with results.",
    )
    .shown_by("openai-anthropic/messages_thinking_tools.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.")
        .shown_by("openai-anthropic/messages_thinking_tools.jsonl"),
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
    can(
        "usage",
        Level::Native,
        "Input tokens come at the start, output tokens at the end; cached input is counted apart.",
    )
    .shown_by("openai-anthropic/messages_text.jsonl"),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];
