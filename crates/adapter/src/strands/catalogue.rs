//! What the catalogue says of this harness: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::Strands;
use crate::recording::Splitter;
use crate::registry::{Capability, Harness, Level, can, no_edits};

/// Strands Agents.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "Strands Agents",
    aliases: &[],
    capabilities: STRANDS,
    make: |turn, options, ids| Box::new(Strands::new(turn, options, ids)),
    resume: super::resume_value,
    answer: super::answer_of,
    edits: no_edits,
    split: || Box::new(Splitter::new()),
};

const STRANDS: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it.").shown_by("strands/text_plain.jsonl"),
    can("reasoning", Level::Native, "Reasoning streams; signatures and what is redacted stay hidden.").shown_by("strands/reasoning.jsonl"),
    can(
        "tools",
        Level::Native,
        "Strands runs the tools; the results of one turn come together, failures told apart.",
    ).shown_by("strands/tool_one.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.").shown_by("strands/tool_one.jsonl"),
    can(
        "subagents",
        Level::Native,
        "Agents as tools and the nodes of a graph or swarm are namespaces, nested and in parallel.",
    ).shown_by("strands/agent_as_tool.jsonl"),
    can(
        "tool_approval",
        Level::Native,
        "A hook's interrupt before a call asks; it is answered `approve` or `reject`, and nothing can be edited.",
    ).shown_by("strands/approve.jsonl"),
    can("form_input", Level::Emulated, "Any other interrupt becomes a form with one field.").shown_by("strands/ask_user.jsonl"),
    can(
        "resume",
        Level::Unavailable,
        "Interrupt responses are built; this build has no driver that hands them to a live agent.",
    ),
    can(
        "restore",
        Level::Unavailable,
        "A session manager could restore an agent; this build has no driver for it.",
    ),
    can("cancel", Level::Native, "A cancelled agent says so in its result.").shown_by("strands/cancel.jsonl"),
    can("usage", Level::Emulated, "Counts come per model call; Causeway adds them up for the run.").shown_by("strands/tool_one.jsonl"),
    can("cost", Level::Unsupported, "The harness does not know prices."),
];
