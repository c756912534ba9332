//! The adapter for Strands against its recordings, damaged ones, and what they do not show.

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
use causeway_adapter::strands::{self, Strands};
use causeway_adapter::turn::{Options, Turn};

/// Folder, the harness's name in its index, our name.
const SOURCES: &[(&str, &str, &str)] = &[("recordings/strands", "strands", strands::HARNESS)];

const RECORDINGS: usize = 13;

/// What a line holds that may end a run as finished.
const ENDS: &[&str] = &["\"event\": {\"result\":", "\"multiagent_result\""];

fn adapter(_harness: &str, turn: Turn, options: Options) -> Box<dyn Adapter> {
    Box::new(Strands::new(turn, options, Box::new(SeededIds::new(1))))
}

/// Words that mean something to the adapter; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"event\"",
    "\"message\"",
    "\"result\"",
    "\"data\"",
    "\"messageStart\"",
    "\"contentBlockStart\"",
    "\"contentBlockDelta\"",
    "\"contentBlockStop\"",
    "\"messageStop\"",
    "\"metadata\"",
    "\"toolUse\"",
    "\"toolResult\"",
    "\"text\"",
    "\"reasoningContent\"",
    "\"tool_stream_event\"",
    "\"tool_interrupt_event\"",
    "\"init_event_loop\"",
    "\"multiagent_node_start\"",
    "\"multiagent_node_stream\"",
    "\"multiagent_node_stop\"",
    "\"multiagent_result\"",
    "\"tu_k1\"",
    "\"tu_s1\"",
    "\"tu_h1\"",
    "\"tu_w2\"",
    "\"left\"",
    "\"right\"",
    "\"interrupt\"",
    "\"end_turn\"",
    "\"tool_use\"",
    "\"cancelled\"",
    "\"completed\"",
    "\"tracking_id\"",
    "before_tool_call",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "\"\"",
    "true",
    "\"error\"",
    "\"end\"",
];
