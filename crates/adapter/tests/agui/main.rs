//! The adapter for AG-UI against its recordings, damaged ones, our own formats read back, and what they do not show.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

#[path = "../damage/mod.rs"]
mod damage;
#[path = "../openai/damaged.rs"]
mod damaged;
#[path = "../anthropic/expected.rs"]
mod expected;
mod goldens;
mod more;
#[path = "../anthropic/support.rs"]
mod support;

use causeway_adapter::adapter::Adapter;
use causeway_adapter::agui::{self, Agui};
use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{Options, Turn};

/// Folder, the harness's name in its index, our name.
const SOURCES: &[(&str, &str, &str)] = &[("recordings/agui", "agui", agui::HARNESS)];

const RECORDINGS: usize = 12;

/// What a line holds that may end a run as finished.
const ENDS: &[&str] = &["RUN_FINISHED"];

fn adapter(_harness: &str, turn: Turn, options: Options) -> Box<dyn Adapter> {
    Box::new(Agui::new(turn, options, Box::new(SeededIds::new(1))))
}

/// Words that mean something to the adapter; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TEXT_MESSAGE_CHUNK",
    "REASONING_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_CHUNK",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_CHUNK",
    "TOOL_CALL_RESULT",
    "SUBAGENT_STARTED",
    "SUBAGENT_FINISHED",
    "SUBAGENT_ERROR",
    "CUSTOM",
    "\"interrupt\"",
    "\"success\"",
    "\"cancelled\"",
    "\"tool_call\"",
    "\"input_required\"",
    "\"c1\"",
    "\"c2\"",
    "\"d1\"",
    "\"s1\"",
    "\"inner\"",
    "\"m1\"",
    "\"q1\"",
    "1786924800005",
    "17869248.5",
    "\"toolCallId\"",
    "\"messageId\"",
    "\"subagentRunId\"",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "\"\"",
    "true",
];
