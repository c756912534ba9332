//! The adapters for the Claude Agent SDK and the Anthropic Messages API against their recordings, damaged ones, and
//! secrets planted in errors.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

mod asks;
mod claude;
#[path = "../damage/mod.rs"]
mod damage;
mod damaged;
mod expected;
mod leaks;
mod messages;
mod support;
mod totals;

use causeway_adapter::adapter::Adapter;
use causeway_adapter::anthropic_messages::{self, AnthropicMessages};
use causeway_adapter::claude_agent_sdk::{self, ClaudeAgentSdk};
use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{Options, Turn};

/// Folder, the harness's name in its index, our name.
const SOURCES: &[(&str, &str, &str)] = &[
    ("recordings/claude-agent-sdk", "claude-agent-sdk", claude_agent_sdk::HARNESS),
    ("recordings/openai-anthropic", "messages", anthropic_messages::HARNESS),
];

const RECORDINGS: usize = 21 + 3;

fn adapter(harness: &str, turn: Turn, options: Options) -> Box<dyn Adapter> {
    let ids = Box::new(SeededIds::new(1));
    match harness {
        claude_agent_sdk::HARNESS => Box::new(ClaudeAgentSdk::new(turn, options, ids)),
        _ => Box::new(AnthropicMessages::new(&turn, options, ids)),
    }
}
