//! What the catalogue says of this harness: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::DeepAgents;
use crate::recording::Splitter;
use crate::registry::{Capability, Harness, Level, can};

/// deepagents (LangGraph).
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "deepagents (LangGraph)",
    aliases: &["langgraph"],
    capabilities: DEEPAGENTS,
    make: |turn, options, ids| Box::new(DeepAgents::new(turn, options, ids)),
    resume: super::resume_value,
    answer: super::answer_of,
    edits: super::edits,
    split: || Box::new(Splitter::new()),
};

const DEEPAGENTS: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it.").shown_by("deepagents/text_plain.jsonl"),
    can("reasoning", Level::Native, "Thinking blocks of Anthropic, OpenAI and others stream as reasoning.")
        .shown_by("deepagents/reasoning_blocks.jsonl"),
    can("tools", Level::Native, "Calls and results come with each step of the graph.")
        .shown_by("deepagents/tool_one.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.")
        .shown_by("deepagents/tool_one.jsonl"),
    can("subagents", Level::Native, "Each delegation is a namespace, nested and in parallel.")
        .shown_by("deepagents/subagents_parallel.jsonl"),
    can("tool_approval", Level::Native, "Gated calls wait durably and are answered in any later process.")
        .shown_by("deepagents/approve.jsonl"),
    can("form_input", Level::Native, "Forms are a gated tool; plain pauses become a form with one field.")
        .shown_by("deepagents/form_submit.jsonl"),
    can("resume", Level::Native, "A pause is answered from the stored state.")
        .shown_by("deepagents/resume_new_process.jsonl"),
    can("restore", Level::Native, "Every turn starts from the committed state of the conversation.")
        .shown_by("deepagents/resume_new_process.jsonl"),
    can("cancel", Level::Native, "A turn is left at once, in the middle of a tool too.")
        .shown_by("deepagents/cancel_mid_text.jsonl"),
    can("usage", Level::Emulated, "Counts come per model call; Causeway adds them up for the run.")
        .shown_by("deepagents/tool_one.jsonl"),
    can("cost", Level::Unsupported, "The harness does not know prices."),
];
