//! What the catalogue says of this harness: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::AgentCore;
use crate::eventstream;
use crate::registry::{Capability, Harness, Level, can, no_edits};

/// Amazon Bedrock AgentCore.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "Amazon Bedrock AgentCore",
    aliases: &["bedrock-agentcore"],
    capabilities: AGENTCORE,
    make: |turn, options, ids| Box::new(AgentCore::new(&turn, options, ids)),
    resume: super::resume_value,
    answer: |_, _, _| None,
    edits: no_edits,
    split: || Box::new(eventstream::Turns::default()),
};

const AGENTCORE: &[Capability] = &[
    can("text", Level::Native, "Text streams from a managed harness; from a runtime as its agent yields it.").shown_by("bedrock/harness_text.jsonl"),
    can("reasoning", Level::Native, "Reasoning streams where the agent passes the model's events on.").shown_by("bedrock/harness_tool.jsonl"),
    can(
        "tools",
        Level::Native,
        "A managed harness tells calls and results; a runtime only where its agent yields Converse or Strands events.",
    ).shown_by("bedrock/harness_tool.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.").shown_by("bedrock/harness_tool.jsonl"),
    can(
        "subagents",
        Level::Unavailable,
        "What agents nest in a runtime's events is not translated by this build.",
    ),
    can(
        "tool_approval",
        Level::Unavailable,
        "Interrupts inside a runtime are not translated; such a run is an error.",
    ),
    can(
        "form_input",
        Level::Unavailable,
        "Interrupts inside a runtime are not translated; such a run is an error.",
    ),
    can(
        "resume",
        Level::Unavailable,
        "A client tool's result is the next request; this build has no driver for it.",
    ),
    can(
        "restore",
        Level::Unavailable,
        "The service keeps sessions; this build has no driver that goes back in one.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the reading; the service says nothing about it.",
    ),
    can(
        "usage",
        Level::Emulated,
        "Counts come per model call, where at all; Causeway adds them up for the run.",
    ).shown_by("bedrock/harness_tool.jsonl"),
    can("cost", Level::Unsupported, "The service does not tell prices in its streams."),
];
