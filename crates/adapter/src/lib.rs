//! Adapters: the native stream of a harness in, drafts of canonical events out.
//!
//! Refuses: sockets, clocks, stores, randomness. An adapter is fed bytes and polled; ids are passed in ([`ids::Ids`]),
//! sequence numbers, times and the durable state belong to the coordinator. An adapter never talks to a client.

pub mod adapter;
pub mod agentcore;
pub mod agui;
pub mod anthropic_messages;
pub mod bedrock_converse;
mod calls;
pub mod canonical;
pub mod checked;
pub mod claude_agent_sdk;
pub mod deepagents;
mod eventstream;
mod failure;
pub mod gated;
pub mod ids;
pub mod json;
mod messages;
mod metadata;
pub mod openai;
pub mod project;
pub mod recording;
pub mod redact;
pub mod registry;
mod scribe;
mod spaces;
pub mod strands;
pub mod tally;
pub mod text;
pub mod turn;
pub mod usage;
pub mod worker;

pub use adapter::{Adapter, Close, ItemError, Output};
pub use failure::codes as failure_codes;
pub use turn::{Answer, Options, Turn};
