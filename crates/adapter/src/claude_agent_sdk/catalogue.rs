//! What the catalogue says of this harness: names, what it can do and the recordings that show it, how its adapter is made.
//!
//! Refuses to claim what no recording shows: a test plays each of them.

use super::ClaudeAgentSdk;
use crate::registry::{Capability, Harness, Level, can};

/// Claude Agent SDK.
pub const ENTRY: Harness = Harness {
    id: super::HARNESS,
    title: "Claude Agent SDK",
    aliases: &[],
    capabilities: CLAUDE_AGENT_SDK,
    make: |turn, options, ids| Box::new(ClaudeAgentSdk::new(turn, options, ids)),
    resume: super::resume_value,
    answer: super::answer_of,
    edits: super::edits,
    split: || Box::new(super::Turns::default()),
};

/// What a driver of the Claude Code CLI needs to know of its lines; the registry hands it on.
pub mod stream_json {
    pub use crate::claude_agent_sdk::{HARNESS, Seen, Waits, Watch, parts};
}

const CLAUDE_AGENT_SDK: &[Capability] = &[
    can(
        "text",
        Level::Native,
        "Text streams with partial messages, and comes whole without; subagents give only their last.",
    ).shown_by("claude-agent-sdk/text_plain.jsonl"),
    can(
        "reasoning",
        Level::Native,
        "Thinking blocks stream as reasoning; what the provider redacts stays hidden.",
    ).shown_by("claude-agent-sdk/thinking.jsonl"),
    can("tools", Level::Native, "The CLI runs the tools; calls, results and failures are told apart.").shown_by("claude-agent-sdk/sdk_tool_read.jsonl"),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it.").shown_by("claude-agent-sdk/sdk_tool_read.jsonl"),
    can(
        "subagents",
        Level::Native,
        "Each Task call is a namespace with its calls, but without streamed text.",
    ).shown_by("claude-agent-sdk/subagent.jsonl"),
    can(
        "tool_approval",
        Level::Native,
        "The CLI asks and waits for the answer while it lives; requests that wait together are one interrupt.",
    ).shown_by("claude-agent-sdk/approve.jsonl"),
    can("form_input", Level::Native, "AskUserQuestion becomes a form with a field for each question.").shown_by("claude-agent-sdk/ask_user_question.jsonl"),
    can(
        "resume",
        Level::Native,
        "A pause is answered in the process that asked, and in no other: after its end an answer does nothing, and its run fails with answer_lost.",
    ).shown_by("claude-agent-sdk/approve.jsonl"),
    can(
        "restore",
        Level::Native,
        "A new process resumes the session at the committed entry, in a fork: what came after it is left behind.",
    ).shown_by("claude-agent-sdk/resume_new_process.jsonl"),
    can(
        "cancel",
        Level::Native,
        "An interrupt ends the turn, in the middle of a tool too, and is reported as such.",
    ).shown_by("claude-agent-sdk/cancel_interrupt.jsonl"),
    can(
        "usage",
        Level::Native,
        "The CLI's totals of the turn; with subagents where it counts them by model.",
    ).shown_by("claude-agent-sdk/sdk_tool_read.jsonl"),
    can("cost", Level::Native, "The CLI's own estimate in US dollars from list prices.").shown_by("claude-agent-sdk/sdk_tool_read.jsonl"),
];
