//! The adapter for the OpenAI Agents SDK against its recordings, damaged ones, and what they do not show.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

#[path = "../damage/mod.rs"]
mod damage;
#[path = "../openai/damaged.rs"]
mod damaged;
#[path = "../anthropic/expected.rs"]
mod expected;
mod more;
#[path = "../anthropic/support.rs"]
mod support;

use causeway_adapter::adapter::Adapter;
use causeway_adapter::ids::SeededIds;
use causeway_adapter::openai::agents::{self, OpenAiAgents};
use causeway_adapter::turn::{Options, Turn};

/// Folder, the harness's name in its index, our name.
const SOURCES: &[(&str, &str, &str)] = &[("recordings/openai-anthropic", "agents", agents::HARNESS)];

const RECORDINGS: usize = 4;

/// What a line holds that may end a run as finished.
const ENDS: &[&str] = &["\"kind\": \"end\""];

fn adapter(_harness: &str, turn: Turn, options: Options) -> Box<dyn Adapter> {
    Box::new(OpenAiAgents::new(turn, options, Box::new(SeededIds::new(1))))
}

/// Words that mean something to the adapter; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"raw_response_event\"",
    "\"run_item_stream_event\"",
    "\"agent_updated_stream_event\"",
    "\"tool_call_item\"",
    "\"tool_call_output_item\"",
    "\"handoff_call_item\"",
    "\"handoff_output_item\"",
    "\"response.output_item.added\"",
    "\"response.output_item.done\"",
    "\"response.output_text.delta\"",
    "\"response.function_call_arguments.delta\"",
    "\"response.completed\"",
    "\"response.failed\"",
    "\"message\"",
    "\"function_call\"",
    "\"function_call_output\"",
    "\"call_h1\"",
    "\"call_x1\"",
    "\"call_w1\"",
    "\"front\"",
    "\"expert\"",
    "\"root\"",
    "\"interruptions\"",
    "\"final_output\"",
    "\"arguments\"",
    "\"output\"",
    "\"delta\"",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "\"\"",
    "\"error\"",
    "\"event\"",
    "\"end\"",
    "\"cancelled\"",
];
