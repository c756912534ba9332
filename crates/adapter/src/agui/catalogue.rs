//! What the catalogue says of AG-UI servers: names, what they can do and the recordings that show it.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::Agui;
use super::turns::Turns;
use crate::registry::{Capability, Harness, Level, can};

/// AG-UI servers.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "AG-UI servers",
    aliases: &["ag-ui"],
    capabilities: AGUI,
    make: |turn, options, ids| Box::new(Agui::new(turn, options, ids)),
    resume: super::resume_value,
    answer: super::answer_of,
    edits: super::edits,
    split: || Box::new(Turns::default()),
};

const AGUI: &[Capability] = &[
    can(
        "text",
        Level::Native,
        "Text streams message by message; chunks are read like starts, pieces and ends.",
    )
    .shown_by("agui/text.sse"),
    can(
        "reasoning",
        Level::Native,
        "Reasoning streams, of today's servers and of older ones; what is encrypted stays hidden.",
    )
    .shown_by("agui/reasoning.sse"),
    can(
        "tools",
        Level::Native,
        "Calls of the server come with results; calls of the client end the run open.",
    )
    .shown_by("agui/tools.sse"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.")
        .shown_by("agui/tools.sse"),
    can(
        "subagents",
        Level::Native,
        "Subagents are namespaces, under the call that started them where one did.",
    )
    .shown_by("agui/subagents.sse"),
    can(
        "tool_approval",
        Level::Native,
        "An interrupt about a call asks; the answer says approved, edited or not.",
    )
    .shown_by("agui/approval.sse"),
    can(
        "form_input",
        Level::Native,
        "Any other interrupt is a form with the fields of its schema, or with one field.",
    )
    .shown_by("agui/form.sse"),
    can(
        "resume",
        Level::Native,
        "The next request to the server carries the answers; open calls are started again.",
    )
    .shown_by("agui/approval.sse"),
    can(
        "restore",
        Level::Emulated,
        "The driver names thread and parent run; whether a server goes back to that run is up to it.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the reading; what the server does then is not seen.",
    ),
    can("usage", Level::Native, "Totals come with the end of the run, where the server counts.")
        .shown_by("agui/text.sse"),
    can("cost", Level::Unsupported, "The protocol does not tell prices."),
];
