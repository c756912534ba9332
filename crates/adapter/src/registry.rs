//! The harnesses there are: names and aliases, what each can do, and how its adapter is made.
//!
//! A harness that is not listed as available is named all the same, with the reason: a catalogue that hides what is
//! missing misleads.

use crate::adapter::Adapter;
use crate::agentcore::{self, AgentCore};
use crate::anthropic_messages::{self, AnthropicMessages};
use crate::bedrock_converse::{self, BedrockConverse};
use crate::checked::Checked;
use crate::claude_agent_sdk::{self, ClaudeAgentSdk};
use crate::deepagents::{self, DeepAgents};
use crate::eventstream;
use crate::ids::Ids;
use crate::openai::agents::{self, OpenAiAgents};
use crate::openai::chat::{self, OpenAiChat};
use crate::openai::responses::{self, OpenAiResponses};
use crate::recording::{Split, Splitter};
use crate::strands::{self, Strands};
use crate::turn::{Answer, AnswerError, Options, Turn};

/// How well a harness does something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// The harness does it itself.
    Native,
    /// Causeway does it for the harness.
    Emulated,
    /// It cannot be done with this harness.
    Unsupported,
    /// It could be done, but this build does not have it.
    Unavailable,
}

impl Level {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
        }
    }
}

/// One thing a harness may be able to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Capability {
    /// What.
    pub name: &'static str,
    /// How well.
    pub level: Level,
    /// A sentence that says how, or why not.
    pub note: &'static str,
}

/// A harness of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Harness {
    /// The canonical `harness_id`.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// What it can do.
    pub capabilities: &'static [Capability],
    make: fn(Turn, Options, Box<dyn Ids>) -> Box<dyn Adapter>,
    resume: fn(&str, &Answer) -> Result<String, AnswerError>,
    answer: fn(&str, &[u8], &Options) -> Option<Answer>,
    split: fn() -> Box<dyn Split>,
}

impl Harness {
    /// An adapter for one turn, behind the yield validator.
    pub fn adapter(&self, turn: Turn, options: Options, ids: Box<dyn Ids>) -> Box<dyn Adapter> {
        let limits = options.limits.clone();
        Box::new(Checked::new((self.make)(turn, options, ids), limits))
    }

    /// The value that makes the harness go on, as JSON; `private` is that of the interrupted run's state.
    ///
    /// # Errors
    /// The answer does not fit what the interrupt asked.
    pub fn resume_value(&self, private: &str, answer: &Answer) -> Result<String, AnswerError> {
        (self.resume)(private, answer)
    }

    /// The answer behind a resume value that a recording repeats; `None` where it cannot be told.
    pub fn answer_of(&self, private: &str, resume_value: &[u8], options: &Options) -> Option<Answer> {
        (self.answer)(private, resume_value, options)
    }

    /// Cuts a recording of it into turns.
    pub fn splitter(&self) -> Box<dyn Split> {
        (self.split)()
    }

    /// What it does of that name.
    pub fn capability(&self, name: &str) -> Option<&'static Capability> {
        self.capabilities.iter().find(|capability| capability.name == name)
    }
}

/// Every harness with an adapter.
pub const HARNESSES: &[Harness] = &[
    Harness {
        id: deepagents::HARNESS,
        title: "deepagents (LangGraph)",
        aliases: &["langgraph"],
        capabilities: DEEPAGENTS,
        make: |turn, options, ids| Box::new(DeepAgents::new(turn, options, ids)),
        resume: deepagents::resume_value,
        answer: deepagents::answer_of,
        split: || Box::new(Splitter::new()),
    },
    Harness {
        id: claude_agent_sdk::HARNESS,
        title: "Claude Agent SDK",
        aliases: &[],
        capabilities: CLAUDE_AGENT_SDK,
        make: |turn, options, ids| Box::new(ClaudeAgentSdk::new(turn, options, ids)),
        resume: claude_agent_sdk::resume_value,
        answer: claude_agent_sdk::answer_of,
        split: || Box::new(claude_agent_sdk::Turns::default()),
    },
    Harness {
        id: strands::HARNESS,
        title: "Strands Agents",
        aliases: &[],
        capabilities: STRANDS,
        make: |turn, options, ids| Box::new(Strands::new(turn, options, ids)),
        resume: strands::resume_value,
        answer: strands::answer_of,
        split: || Box::new(Splitter::new()),
    },
    Harness {
        id: anthropic_messages::HARNESS,
        title: "Anthropic Messages API",
        aliases: &[],
        capabilities: ANTHROPIC_MESSAGES,
        make: |turn, options, ids| Box::new(AnthropicMessages::new(&turn, options, ids)),
        resume: anthropic_messages::resume_value,
        answer: |_, _, _| None,
        split: || Box::new(Splitter::new()),
    },
    Harness {
        id: bedrock_converse::HARNESS,
        title: "Amazon Bedrock Converse API",
        aliases: &["bedrock"],
        capabilities: BEDROCK_CONVERSE,
        make: |turn, options, ids| Box::new(BedrockConverse::new(&turn, options, ids)),
        resume: bedrock_converse::resume_value,
        answer: |_, _, _| None,
        split: || Box::new(eventstream::Turns::default()),
    },
    Harness {
        id: agentcore::HARNESS,
        title: "Amazon Bedrock AgentCore",
        aliases: &["bedrock-agentcore"],
        capabilities: AGENTCORE,
        make: |turn, options, ids| Box::new(AgentCore::new(&turn, options, ids)),
        resume: agentcore::resume_value,
        answer: |_, _, _| None,
        split: || Box::new(eventstream::Turns::default()),
    },
    Harness {
        id: responses::HARNESS,
        title: "OpenAI Responses API",
        aliases: &[],
        capabilities: OPENAI_RESPONSES,
        make: |turn, options, ids| Box::new(OpenAiResponses::new(&turn, options, ids)),
        resume: responses::resume_value,
        answer: |_, _, _| None,
        split: || Box::new(Splitter::new()),
    },
    Harness {
        id: chat::HARNESS,
        title: "OpenAI chat completions",
        aliases: &[],
        capabilities: OPENAI_CHAT,
        make: |turn, options, ids| Box::new(OpenAiChat::new(&turn, options, ids)),
        resume: chat::resume_value,
        answer: |_, _, _| None,
        split: || Box::new(Splitter::new()),
    },
    Harness {
        id: agents::HARNESS,
        title: "OpenAI Agents SDK",
        aliases: &[],
        capabilities: OPENAI_AGENTS,
        make: |turn, options, ids| Box::new(OpenAiAgents::new(turn, options, ids)),
        resume: agents::resume_value,
        answer: |_, _, _| None,
        split: || Box::new(Splitter::new()),
    },
];

/// The harness with this name or alias.
pub fn find(name: &str) -> Option<&'static Harness> {
    HARNESSES.iter().find(|harness| harness.id == name || harness.aliases.contains(&name))
}

/// The value that makes a harness go on.
///
/// # Errors
/// There is no such harness, or the answer does not fit what the interrupt asked.
pub fn resume_value(harness: &str, private: &str, answer: &Answer) -> Result<String, AnswerError> {
    let found = find(harness).ok_or_else(|| AnswerError::NoAnswers { harness: harness.to_owned() })?;
    found.resume_value(private, answer)
}

const fn can(name: &'static str, level: Level, note: &'static str) -> Capability {
    Capability { name, level, note }
}

const DEEPAGENTS: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it."),
    can("reasoning", Level::Native, "Thinking blocks of Anthropic, OpenAI and others stream as reasoning."),
    can("tools", Level::Native, "Calls and results come with each step of the graph."),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can("subagents", Level::Native, "Each delegation is a namespace, nested and in parallel."),
    can("tool_approval", Level::Native, "Gated calls wait durably and are answered in any later process."),
    can("form_input", Level::Native, "Forms are a gated tool; plain pauses become a form with one field."),
    can("resume", Level::Native, "A pause is answered from the stored state."),
    can("restore", Level::Native, "Every turn starts from the committed state of the conversation."),
    can("cancel", Level::Native, "A turn is left at once, in the middle of a tool too."),
    can("usage", Level::Emulated, "Counts come per model call; Causeway adds them up for the run."),
    can("cost", Level::Unsupported, "The harness does not know prices."),
];

const CLAUDE_AGENT_SDK: &[Capability] = &[
    can(
        "text",
        Level::Native,
        "Text streams with partial messages, and comes whole without; subagents give only their last.",
    ),
    can(
        "reasoning",
        Level::Native,
        "Thinking blocks stream as reasoning; what the provider redacts stays hidden.",
    ),
    can("tools", Level::Native, "The CLI runs the tools; calls, results and failures are told apart."),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can(
        "subagents",
        Level::Native,
        "Each Task call is a namespace with its calls, but without streamed text.",
    ),
    can(
        "tool_approval",
        Level::Native,
        "The CLI waits for the answer while it lives; it is lost when the process ends.",
    ),
    can("form_input", Level::Native, "AskUserQuestion becomes a form with a field for each question."),
    can("resume", Level::Native, "A pause is answered in the process that asked, and in no other."),
    can(
        "restore",
        Level::Unavailable,
        "The CLI can go on with a session in a new process; this build has no driver for it.",
    ),
    can(
        "cancel",
        Level::Native,
        "An interrupt ends the turn, in the middle of a tool too, and is reported as such.",
    ),
    can(
        "usage",
        Level::Native,
        "The CLI's totals of the turn; with subagents where it counts them by model.",
    ),
    can("cost", Level::Native, "The CLI's own estimate in US dollars from list prices."),
];

const ANTHROPIC_MESSAGES: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it."),
    can(
        "reasoning",
        Level::Native,
        "Thinking blocks stream as reasoning; what the provider redacts stays hidden.",
    ),
    can(
        "tools",
        Level::Native,
        "Calls of the caller's tools end the run open; the provider's own tools end with results.",
    ),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can("subagents", Level::Unsupported, "The API is one model call and knows no subagents."),
    can("tool_approval", Level::Unsupported, "The API does not run the caller's tools, so it asks nobody."),
    can("form_input", Level::Unsupported, "The API has no forms."),
    can("resume", Level::Unsupported, "The API has no pauses."),
    can(
        "restore",
        Level::Unsupported,
        "The API keeps no state; the caller sends the conversation each time.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the call; the service says nothing about it.",
    ),
    can(
        "usage",
        Level::Native,
        "Input tokens come at the start, output tokens at the end; cached input is counted apart.",
    ),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];

const BEDROCK_CONVERSE: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it."),
    can(
        "reasoning",
        Level::Native,
        "Reasoning streams; signatures and what the provider redacts stay hidden.",
    ),
    can(
        "tools",
        Level::Native,
        "Calls of the caller's tools end the run open; the service's own end with results.",
    ),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can("subagents", Level::Unsupported, "The API is one model call and knows no subagents."),
    can("tool_approval", Level::Unsupported, "The API does not run the caller's tools, so it asks nobody."),
    can("form_input", Level::Unsupported, "The API has no forms."),
    can("resume", Level::Unsupported, "The API has no pauses."),
    can(
        "restore",
        Level::Unsupported,
        "The API keeps no state; the caller sends the conversation each time.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the call; the service says nothing about it.",
    ),
    can("usage", Level::Native, "Counts come after the message's end; a stream cut before them has none."),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];

const AGENTCORE: &[Capability] = &[
    can("text", Level::Native, "Text streams from a managed harness; from a runtime as its agent yields it."),
    can("reasoning", Level::Native, "Reasoning streams where the agent passes the model's events on."),
    can(
        "tools",
        Level::Native,
        "A managed harness tells calls and results; a runtime only where its agent yields Converse or Strands events.",
    ),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can(
        "subagents",
        Level::Unavailable,
        "What agents nest in a runtime's events is not translated by this build.",
    ),
    can(
        "tool_approval",
        Level::Unavailable,
        "Interrupts inside a runtime are not translated; such a run is an error.",
    ),
    can(
        "form_input",
        Level::Unavailable,
        "Interrupts inside a runtime are not translated; such a run is an error.",
    ),
    can(
        "resume",
        Level::Unavailable,
        "A client tool's result is the next request; this build has no driver for it.",
    ),
    can(
        "restore",
        Level::Unavailable,
        "The service keeps sessions; this build has no driver that goes back in one.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the reading; the service says nothing about it.",
    ),
    can(
        "usage",
        Level::Emulated,
        "Counts come per model call, where at all; Causeway adds them up for the run.",
    ),
    can("cost", Level::Unsupported, "The service does not tell prices in its streams."),
];

const STRANDS: &[Capability] = &[
    can("text", Level::Native, "Text streams as the model gives it."),
    can("reasoning", Level::Native, "Reasoning streams; signatures and what is redacted stay hidden."),
    can(
        "tools",
        Level::Native,
        "Strands runs the tools; the results of one turn come together, failures told apart.",
    ),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can(
        "subagents",
        Level::Native,
        "Agents as tools and the nodes of a graph or swarm are namespaces, nested and in parallel.",
    ),
    can(
        "tool_approval",
        Level::Native,
        "A hook's interrupt before a call asks; it is answered `approve` or `reject`, and nothing can be edited.",
    ),
    can("form_input", Level::Emulated, "Any other interrupt becomes a form with one field."),
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
    can("cancel", Level::Native, "A cancelled agent says so in its result."),
    can("usage", Level::Emulated, "Counts come per model call; Causeway adds them up for the run."),
    can("cost", Level::Unsupported, "The harness does not know prices."),
];

const OPENAI_RESPONSES: &[Capability] = &[
    can(
        "text",
        Level::Native,
        "Text and refusals stream as the model gives them; images and audio are not shown.",
    ),
    can("reasoning", Level::Native, "Summaries and open reasoning stream; what is encrypted stays hidden."),
    can(
        "tools",
        Level::Native,
        "Calls of the caller's tools end the run open; the provider's own tools come whole, with results.",
    ),
    can(
        "tool_arguments_stream",
        Level::Native,
        "Pieces of a function's arguments stream when the agent asks for it; other calls come whole.",
    ),
    can("subagents", Level::Unsupported, "The API is one model call and knows no subagents."),
    can(
        "tool_approval",
        Level::Unsupported,
        "A request to approve an MCP call is shown as an open call; answering it is the caller's.",
    ),
    can("form_input", Level::Unsupported, "The API has no forms."),
    can("resume", Level::Unsupported, "The API has no pauses."),
    can(
        "restore",
        Level::Unavailable,
        "The service can go on from a stored response; this build has no driver for it.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the call; a cancelled response is told as such.",
    ),
    can("usage", Level::Native, "Tokens come with the response's end, cached input and reasoning apart."),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];

const OPENAI_CHAT: &[Capability] = &[
    can("text", Level::Native, "Text and refusals of the first choice stream as the model gives them."),
    can(
        "reasoning",
        Level::Unsupported,
        "OpenAI does not show it here; other services' reasoning fields stream where they send them.",
    ),
    can("tools", Level::Native, "Calls are the caller's, so they end the run open."),
    can("tool_arguments_stream", Level::Native, "Pieces of arguments stream when the agent asks for it."),
    can("subagents", Level::Unsupported, "The API is one model call and knows no subagents."),
    can("tool_approval", Level::Unsupported, "The API does not run the caller's tools, so it asks nobody."),
    can("form_input", Level::Unsupported, "The API has no forms."),
    can("resume", Level::Unsupported, "The API has no pauses."),
    can(
        "restore",
        Level::Unsupported,
        "The API keeps no state; the caller sends the conversation each time.",
    ),
    can(
        "cancel",
        Level::Emulated,
        "Closing the connection stops the call; the service says nothing about it.",
    ),
    can("usage", Level::Native, "Totals come in a last chunk, when the request asks for them."),
    can("cost", Level::Unsupported, "The API does not tell prices."),
];

const OPENAI_AGENTS: &[Capability] = &[
    can("text", Level::Native, "Text and refusals stream as the model gives them."),
    can("reasoning", Level::Native, "Summaries and open reasoning stream; what is encrypted stays hidden."),
    can(
        "tools",
        Level::Native,
        "The SDK runs the tools; a tool that raised looks like any other output, so it is told as a result.",
    ),
    can(
        "tool_arguments_stream",
        Level::Native,
        "Pieces of a function's arguments stream when the agent asks for it.",
    ),
    can(
        "subagents",
        Level::Native,
        "The agent after a hand-off is a namespace; what agents used as tools do is not in the stream.",
    ),
    can(
        "tool_approval",
        Level::Native,
        "Gated calls wait and are approved or rejected; nothing can be edited.",
    ),
    can("form_input", Level::Unsupported, "The SDK has no forms."),
    can(
        "resume",
        Level::Unavailable,
        "The decisions are built; this build has no driver that hands them to a live run.",
    ),
    can("restore", Level::Unavailable, "A run's state could be stored; this build has no driver for it."),
    can("cancel", Level::Native, "A cancelled run is told as such."),
    can("usage", Level::Emulated, "Tokens come per model call; Causeway adds them up for the run."),
    can("cost", Level::Unsupported, "The SDK does not know prices."),
];

#[cfg(test)]
mod tests {
    use causeway_contract::id::Name;

    use super::*;
    use crate::ids::SeededIds;

    #[test]
    fn a_harness_is_found_by_its_id_and_its_alias() {
        for name in ["deepagents", "langgraph"] {
            let harness = find(name).unwrap();
            assert_eq!(harness.id, "deepagents");
            let options = Options::new(Name::new("agent").unwrap());
            let mut adapter = harness.adapter(Turn::Start, options, Box::new(SeededIds::new(1)));
            assert!(adapter.poll().is_some(), "run.started waits");
        }
        assert!(find("Deepagents").is_none());
        assert_eq!(find("deepagents").unwrap().capability("cost").unwrap().level, Level::Unsupported);
    }
}
