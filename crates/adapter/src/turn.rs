//! What an adapter is made with: a fresh turn, or the answer to a pause; and the options of its agent.
//!
//! Nothing here is checked against a harness: that an answer fits its interrupt is the engine's rule.

use causeway_contract::event::{Decision, FormField};
use causeway_contract::id::{Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

/// The turn that an adapter translates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Turn {
    /// A message of the user.
    Start,
    /// The answer to an interrupt.
    Resume(Resume),
}

/// The answer to an interrupt, and what the interrupted run left.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Resume {
    /// The calls that were open at the interrupt, in the order of their starts.
    pub open_calls: Vec<OpenCall>,
    /// Those of them whose namespace exited `interrupted`.
    pub delegations: Vec<ToolCallId<'static>>,
    /// What was answered; `None` when only the stream can tell (old recordings).
    pub answer: Option<Answer>,
    /// [`State::private`](crate::adapter::State::private) of the interrupted run, where it is known.
    pub private: Option<String>,
}

/// A call that was open when a run was interrupted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenCall {
    /// Its id.
    pub id: ToolCallId<'static>,
    /// Its tool.
    pub name: Name<'static>,
    /// Its arguments as started.
    pub arguments: JsonObject<'static>,
    /// Where it was started.
    pub namespace: Namespace<'static>,
}

/// What people answer to an interrupt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// One decision for every entry of `tool_approvals`.
    Decisions(Vec<Decided>),
    /// The values of a form, by `field_name`.
    Values(JsonObject<'static>),
    /// The form was closed without an answer.
    Dismissed,
}

/// The decision on one call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decided {
    /// The call.
    pub tool_call_id: ToolCallId<'static>,
    /// What was decided.
    pub decision: Decision,
    /// The arguments to run instead; with [`Decision::Edit`] only.
    pub edited_args: Option<JsonObject<'static>>,
    /// What the reviewer says to the model; with [`Decision::Reject`] only.
    pub message: Option<String>,
}

/// What an edit makes of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edited {
    /// The tool runs with these arguments: as edited, with the original values where secrets were hidden.
    Arguments {
        /// The call.
        tool_call_id: ToolCallId<'static>,
        /// One JSON object.
        arguments: String,
    },
    /// A form among approvals is filled with these values.
    Form {
        /// What it asks for.
        fields: Vec<FormField<'static>>,
        /// What was given.
        values: JsonObject<'static>,
    },
}

/// The settings of an agent that its adapter obeys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The agent's display name or id, for `interrupt.requested`.
    pub agent_id: Name<'static>,
    /// Yield the pieces of streamed tool arguments instead of collecting them.
    pub stream_arguments: bool,
    /// Remove terminal escape sequences and control characters from content.
    pub strip_escapes: bool,
    /// Replace known shapes of secrets in arguments and results too, not only in messages.
    pub redact_content: bool,
    /// The bounds that projections keep to.
    pub limits: Limits,
}

impl Options {
    /// The defaults for an agent of this name.
    pub fn new(agent_id: Name<'static>) -> Self {
        Self {
            agent_id,
            stream_arguments: false,
            strip_escapes: false,
            redact_content: false,
            limits: Limits::DEFAULT,
        }
    }

    /// The same with streamed tool arguments.
    pub fn stream_arguments(mut self, yes: bool) -> Self {
        self.stream_arguments = yes;
        self
    }

    /// The same with escape sequences removed.
    pub fn strip_escapes(mut self, yes: bool) -> Self {
        self.strip_escapes = yes;
        self
    }

    /// The same with secrets hidden in content.
    pub fn redact_content(mut self, yes: bool) -> Self {
        self.redact_content = yes;
        self
    }

    /// The same with other bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// Why an answer does not fit its interrupt.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// A decision names a call that the interrupt does not ask about.
    #[error("the interrupt does not ask about call {tool_call_id}")]
    Unknown {
        /// The call.
        tool_call_id: ToolCallId<'static>,
    },
    /// A call of the interrupt is not decided.
    #[error("call {tool_call_id} is not decided")]
    Undecided {
        /// The call.
        tool_call_id: String,
    },
    /// The decision is not one of those allowed for the call.
    #[error("call {tool_call_id} does not allow `{decision}`")]
    NotAllowed {
        /// The call.
        tool_call_id: ToolCallId<'static>,
        /// The decision.
        decision: Decision,
    },
    /// An edit without the arguments (or the answer) to go on with.
    #[error("the edit of call {tool_call_id} has no arguments to go on with")]
    NoArguments {
        /// The call.
        tool_call_id: ToolCallId<'static>,
    },
    /// A field that has to be filled is not.
    #[error("the field {field_name} has no value")]
    MissingField {
        /// The field.
        field_name: String,
    },
    /// Values for an approval, or decisions for a form.
    #[error("the answer is of another kind than the interrupt")]
    WrongKind,
    /// The stored state asks nothing.
    #[error("nothing was asked")]
    NothingAsked,
    /// The stored state cannot be read.
    #[error("the stored state of the interrupt cannot be read")]
    Unreadable,
    /// No such harness, or one that cannot be resumed.
    #[error("the harness {harness} takes no answers")]
    NoAnswers {
        /// Its name.
        harness: String,
    },
}
