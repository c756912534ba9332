//! What the catalogue says of workers that speak canonical events: names, what they can do and the recordings that show it.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::Canonical;
use crate::recording::Splitter;
use crate::registry::{Capability, Harness, Level, can, edits_as_given};

/// Workers that speak canonical events.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "Canonical events from a worker of your own",
    aliases: &[],
    capabilities: CANONICAL,
    make: |turn, options, ids| Box::new(Canonical::new(&turn, options, ids)),
    resume: super::resume_value,
    answer: super::answer_of,
    edits: edits_as_given,
    split: || Box::new(Splitter::new()),
};

const RECORDING: &str = "canonical/template.jsonl";

const CANONICAL: &[Capability] = &[
    can("text", Level::Native, "As the worker says it.").shown_by(RECORDING),
    can("reasoning", Level::Native, "As the worker says it.").shown_by(RECORDING),
    can("tools", Level::Native, "As the worker says it; a success with an open call is an error.")
        .shown_by(RECORDING),
    can("tool_arguments_stream", Level::Native, "The worker gives arguments whole or in pieces.")
        .shown_by(RECORDING),
    can("subagents", Level::Native, "The worker enters and leaves namespaces.").shown_by(RECORDING),
    can(
        "tool_approval",
        Level::Native,
        "The worker asks at the end of its turn and is answered in a later one.",
    )
    .shown_by(RECORDING),
    can(
        "form_input",
        Level::Native,
        "The worker asks at the end of its turn and is answered in a later one.",
    )
    .shown_by(RECORDING),
    can("resume", Level::Native, "Open calls are started again; the worker goes on from the stored state.")
        .shown_by(RECORDING),
    can("restore", Level::Native, "Every turn starts from the head that the worker reported.")
        .shown_by(RECORDING),
    can("cancel", Level::Native, "As the worker says it.").shown_by(RECORDING),
    can("usage", Level::Native, "Totals of the run, as the worker says them.").shown_by(RECORDING),
    can("cost", Level::Native, "As the worker says it.").shown_by(RECORDING),
];
