//! The adapters for OpenAI's Responses API and chat completions against their recordings, damaged ones, and secrets
//! planted in errors.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

mod apis;
#[path = "../damage/mod.rs"]
mod damage;
mod damaged;
#[path = "../anthropic/expected.rs"]
mod expected;
#[path = "../anthropic/support.rs"]
mod support;

use causeway_adapter::adapter::Adapter;
use causeway_adapter::ids::SeededIds;
use causeway_adapter::openai::chat::{self, OpenAiChat};
use causeway_adapter::openai::responses::{self, OpenAiResponses};
use causeway_adapter::turn::{Options, Turn};

/// Folder, the harness's name in its index, our name.
const SOURCES: &[(&str, &str, &str)] = &[
    ("recordings/openai-anthropic", "responses", responses::HARNESS),
    ("recordings/openai-anthropic", "chat", chat::HARNESS),
];

const RECORDINGS: usize = 3 + 1;

/// What a line holds that may end a run as finished.
const ENDS: &[&str] = &["\"response.completed\"", "\"kind\": \"end\"}"];

#[allow(clippy::needless_pass_by_value)] // the shape the shared support calls
fn adapter(harness: &str, turn: Turn, options: Options) -> Box<dyn Adapter> {
    let ids = Box::new(SeededIds::new(1));
    match harness {
        responses::HARNESS => Box::new(OpenAiResponses::new(&turn, options, ids)),
        _ => Box::new(OpenAiChat::new(&turn, options, ids)),
    }
}

/// Words that mean something to the adapters; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"response.created\"",
    "\"response.output_item.added\"",
    "\"response.output_item.done\"",
    "\"response.output_text.delta\"",
    "\"response.reasoning_summary_text.delta\"",
    "\"response.refusal.delta\"",
    "\"response.function_call_arguments.delta\"",
    "\"response.completed\"",
    "\"response.incomplete\"",
    "\"response.failed\"",
    "\"message\"",
    "\"function_call\"",
    "\"custom_tool_call\"",
    "\"mcp_call\"",
    "\"shell_call_output\"",
    "\"reasoning\"",
    "\"call_a\"",
    "\"call_b\"",
    "\"output_index\": 2",
    "\"output_index\": 3",
    "\"index\": 0",
    "\"index\": 1",
    "\"tool_calls\"",
    "\"stop\"",
    "\"length\"",
    "\"content\"",
    "\"refusal\"",
    "\"delta\"",
    "\"arguments\"",
    "\"finish_reason\"",
    "\"usage\"",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\ude00x\"",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "1e999",
    "\"\"",
    "true",
    "\"error\"",
    "\"event\"",
    "\"end\"",
];
