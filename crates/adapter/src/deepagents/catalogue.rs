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
    split: || Box::new(Splitter::new()),
};

const DEEPAGENTS: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it."),
    can("reasoning", Level::Native, "Thinking blocks of Anthropic, OpenAI and others stream as reasoning."),
    can("tools", Level::Native, "Calls and results come with each step of the graph."),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can("subagents", Level::Native, "Each delegation is a namespace, nested and in parallel."),
    can("tool_approval", Level::Native, "Gated calls wait durably and are answered in any later process."),
    can("form_input", Level::Native, "Forms are a gated tool; plain pauses become a form with one field."),
    can("resume", Level::Native, "A pause is answered from the stored state."),
    can("restore", Level::Native, "Every turn starts from the committed state of the conversation."),
    can("cancel", Level::Native, "A turn is left at once, in the middle of a tool too."),
    can("usage", Level::Emulated, "Counts come per model call; Causeway adds them up for the run."),
    can("cost", Level::Unsupported, "The harness does not know prices."),
];
