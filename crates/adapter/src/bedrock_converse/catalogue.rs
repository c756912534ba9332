//! What the catalogue says of this harness: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::BedrockConverse;
use crate::eventstream;
use crate::registry::{Capability, Harness, Level, can, no_edits};

/// Amazon Bedrock Converse API.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "Amazon Bedrock Converse API",
    aliases: &["bedrock"],
    capabilities: BEDROCK_CONVERSE,
    make: |turn, options, ids| Box::new(BedrockConverse::new(&turn, options, ids)),
    resume: super::resume_value,
    answer: |_, _, _| None,
    edits: no_edits,
    split: || Box::new(eventstream::Turns::default()),
};

const BEDROCK_CONVERSE: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it.").shown_by("bedrock/converse_text.jsonl"),
    can(
        "reasoning",
        Level::Native,
        "Reasoning streams; signatures and what the provider redacts stay hidden.",
    ),
    can(
        "tools",
        Level::Native,
        "Calls of the caller's tools end the run open; the service's own end with results.",
    )
    .shown_by("bedrock/converse_tool.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.")
        .shown_by("bedrock/converse_tool.jsonl"),
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
    can("usage", Level::Native, "Counts come after the message's end; a stream cut before them has none.")
        .shown_by("bedrock/converse_tool.jsonl"),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];
