//! The 21 events of the contract, as an exhaustive enum: a 22nd is a new contract version and stops the build
//! in every encoder.
//!
//! All types borrow from the decoded line where they can; `into_owned` cuts the tie. Optional fields may be
//! absent or null on the wire (decisions §3); here both are `None`.

use crate::id::{
    Code, ConversationId, HarnessId, InterruptId, MessageId, Name, Reference, RunId, ToolCallId,
};
use crate::json::{JsonNumber, JsonObject};
use crate::namespace::Namespace;
use crate::text::Text;
use crate::timestamp::Timestamp;

/// The number of an event in its run: strictly increasing (R01), from 0 to 2^53-1.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Sequence(u64);

impl Sequence {
    /// The first number of a run (R02).
    pub const ZERO: Self = Self(0);
    /// The largest number: 2^53-1.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The sequence number, or `None` above 2^53-1.
    pub fn new(value: u64) -> Option<Self> {
        (value <= Self::MAX.0).then_some(Self(value))
    }

    /// The number.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The number after this one, or `None` at the end.
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One event as it stands in the log and on the wire.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event<'a> {
    /// The run it belongs to.
    pub run_id: RunId<'a>,
    /// The conversation of the run.
    pub conversation_id: ConversationId<'a>,
    /// Its number in the run.
    pub sequence: Sequence,
    /// When; never used for ordering.
    pub timestamp: Timestamp<'a>,
    /// Subagent path; for `namespace.entered` and `namespace.exited` the child's own.
    pub namespace: Namespace<'a>,
    /// Type and payload.
    pub data: EventData<'a>,
}

/// What an adapter yields: an event that has no number, no time and no run yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventDraft<'a> {
    /// Subagent path.
    pub namespace: Namespace<'a>,
    /// Type and payload.
    pub data: EventData<'a>,
}

impl<'a> EventDraft<'a> {
    /// A draft in the root namespace.
    pub fn root(data: impl Into<EventData<'a>>) -> Self {
        Self { namespace: Namespace::root(), data: data.into() }
    }

    /// A draft in `namespace`.
    pub fn at(namespace: Namespace<'a>, data: impl Into<EventData<'a>>) -> Self {
        Self { namespace, data: data.into() }
    }

    /// The draft with its envelope.
    pub fn into_event(
        self,
        run_id: RunId<'a>,
        conversation_id: ConversationId<'a>,
        sequence: Sequence,
        timestamp: Timestamp<'a>,
    ) -> Event<'a> {
        Event { run_id, conversation_id, sequence, timestamp, namespace: self.namespace, data: self.data }
    }
}

macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the contract's order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The wire spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value with this wire spelling.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

string_enum!(
    /// What may already have happened outside when a run ended early.
    SideEffectStatus {
        /// No tool had started.
        None = "none",
        /// A started tool had not ended.
        Possible = "possible",
        /// Every started tool had ended.
        Known = "known",
    }
);
string_enum!(
    /// Why a run was interrupted.
    InterruptReason {
        /// A form or a plain pause (`form_input`).
        HumanInput = "human_input",
        /// Tool calls wait for approval.
        ToolApproval = "tool_approval",
    }
);
string_enum!(
    /// Why a run was cancelled.
    CancelReason {
        /// Somebody asked for it.
        ClientRequest = "client_request",
        /// The client went away and the agent's policy is to cancel then.
        Disconnect = "disconnect",
        /// The gateway shut down.
        Shutdown = "shutdown",
        /// The run took longer than the agent allows.
        Deadline = "deadline",
    }
);
string_enum!(
    /// How sure the durable thread state is.
    Durability {
        /// The final state is the thread's head.
        Committed = "committed",
        /// Not yet.
        Pending = "pending",
        /// Nobody knows.
        Uncertain = "uncertain",
        /// It was refused.
        Failed = "failed",
    }
);
string_enum!(
    /// How a subagent ended.
    NamespaceOutcome {
        /// Regularly.
        Success = "success",
        /// It waits for an answer.
        Interrupted = "interrupted",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// It failed.
        Error = "error",
    }
);
string_enum!(
    /// How a reviewer may decide a tool call.
    Decision {
        /// Run it as it is.
        Approve = "approve",
        /// Run it with other arguments.
        Edit = "edit",
        /// Do not run it.
        Reject = "reject",
    }
);

/// `run.started`: sequence 0 of every run (R02).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunStarted<'a> {
    /// The harness that runs the agent.
    pub harness_id: HarnessId<'a>,
    /// The version of the adapter that translates it.
    pub adapter_version: Name<'a>,
    /// The root assistant message, where it is known this early.
    pub message_id: Option<MessageId<'a>>,
    /// The provider's own id of the run.
    pub provider_run_id: Option<Reference<'a>>,
}

/// The projection of the durable thread head in `run.finished` (R13).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ThreadState<'a> {
    /// How sure it is; a finished run of a durable thread says `committed`.
    pub durability: Durability,
    /// The head's revision.
    pub durable_revision: u64,
    /// The head, opaque.
    pub head_ref: Reference<'a>,
}

/// `run.finished`, the terminal of success (its `outcome` is always `success`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RunFinished<'a> {
    /// Why the model stopped, as the provider says it.
    pub stop_reason: Option<Text<'a>>,
    /// Absent at the yield boundary; required at commit on a durable thread (R13).
    pub thread_state: Option<ThreadState<'a>>,
}

/// `run.interrupted`, the terminal of a run that waits for an answer (R08, R14).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunInterrupted<'a> {
    /// The id of the request before it.
    pub interrupt_id: InterruptId<'a>,
    /// What kind of answer is awaited.
    pub reason: InterruptReason,
}

/// `run.cancelled`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunCancelled {
    /// Why.
    pub reason: CancelReason,
    /// What tools may have done.
    pub side_effect_status: SideEffectStatus,
}

/// `run.error`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunError<'a> {
    /// Stable machine code.
    pub code: Code<'a>,
    /// A sentence of ours for people; never provider text.
    pub message: Text<'a>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Seconds to wait before that, where known.
    pub retry_after_seconds: Option<JsonNumber<'a>>,
    /// What tools may have done.
    pub side_effect_status: SideEffectStatus,
}

/// `text.started` (its `role` is always `assistant`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextStarted<'a> {
    /// The message.
    pub message_id: MessageId<'a>,
}

/// `text.delta`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextDelta<'a> {
    /// The message.
    pub message_id: MessageId<'a>,
    /// The next piece of its text.
    pub delta: Text<'a>,
}

/// `text.finished`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextFinished<'a> {
    /// The message.
    pub message_id: MessageId<'a>,
}

/// `reasoning.started`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReasoningStarted<'a> {
    /// The message.
    pub message_id: MessageId<'a>,
    /// Whether `role: assistant` was given.
    pub role: bool,
}

/// `reasoning.delta`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReasoningDelta<'a> {
    /// The message.
    pub message_id: MessageId<'a>,
    /// The next piece of its text.
    pub delta: Text<'a>,
}

/// `reasoning.finished`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReasoningFinished<'a> {
    /// The message.
    pub message_id: MessageId<'a>,
}

/// `tool.started`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolStarted<'a> {
    /// The call.
    pub tool_call_id: ToolCallId<'a>,
    /// The tool.
    pub tool_name: Name<'a>,
    /// Its arguments; empty when they are streamed afterwards.
    pub arguments: JsonObject<'a>,
    /// The message that asked for it.
    pub parent_message_id: Option<MessageId<'a>>,
}

/// `tool.arguments.delta`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolArgumentsDelta<'a> {
    /// The call.
    pub tool_call_id: ToolCallId<'a>,
    /// The next piece of the arguments' JSON text.
    pub delta: Text<'a>,
}

/// `tool.finished`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolFinished<'a> {
    /// The call.
    pub tool_call_id: ToolCallId<'a>,
    /// A bounded projection of the result for display.
    pub result: Text<'a>,
    /// Where the whole result is kept.
    pub result_ref: Option<Reference<'a>>,
}

/// `tool.error`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolError<'a> {
    /// The call.
    pub tool_call_id: ToolCallId<'a>,
    /// Stable machine code.
    pub code: Code<'a>,
    /// What went wrong.
    pub message: Text<'a>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// One field of a form: an object that is passed through whole.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FormField<'a> {
    /// The field as given, every key in its order, the named ones below included.
    pub object: JsonObject<'a>,
    /// `field_name`.
    pub field_name: Name<'a>,
    /// `field_type`.
    pub field_type: Name<'a>,
    /// `required`; absent means false.
    pub required: bool,
}

/// One call that waits for approval.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolApproval<'a> {
    /// The open call.
    pub tool_call_id: ToolCallId<'a>,
    /// Its tool.
    pub tool_name: Name<'a>,
    /// Its arguments as proposed.
    pub tool_args: JsonObject<'a>,
    /// What may be decided, in the order given; empty means all three.
    pub allowed_decisions: Vec<Decision>,
}

impl ToolApproval<'_> {
    /// Whether a reviewer may decide so.
    pub fn allows(&self, decision: Decision) -> bool {
        self.allowed_decisions.is_empty() || self.allowed_decisions.contains(&decision)
    }
}

/// What an interrupt asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InterruptRequest<'a> {
    /// `form_input`.
    Form {
        /// What to tell the person.
        prompt: Text<'a>,
        /// The fields to fill in.
        fields: Vec<FormField<'a>>,
    },
    /// `tool_approval`, at least one.
    Approvals(Vec<ToolApproval<'a>>),
}

impl InterruptRequest<'_> {
    /// The wire spelling of `interrupt_type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Form { .. } => "form_input",
            Self::Approvals(_) => "tool_approval",
        }
    }

    /// The reason that `run.interrupted` must give.
    pub fn reason(&self) -> InterruptReason {
        match self {
            Self::Form { .. } => InterruptReason::HumanInput,
            Self::Approvals(_) => InterruptReason::ToolApproval,
        }
    }
}

/// `interrupt.requested` (R08).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InterruptRequested<'a> {
    /// Minted by the engine.
    pub interrupt_id: InterruptId<'a>,
    /// The agent's display name or id.
    pub agent_id: Name<'a>,
    /// What is asked.
    pub request: InterruptRequest<'a>,
}

/// `namespace.entered` (R09, R10); the envelope carries the child's own path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceEntered<'a> {
    /// The child agent.
    pub agent_id: Name<'a>,
    /// Its name for people.
    pub agent_name: Name<'a>,
    /// The open call that delegates to it.
    pub parent_tool_call_id: ToolCallId<'a>,
}

/// `namespace.exited` (R09, R10); the envelope carries the child's own path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceExited<'a> {
    /// As at the entry.
    pub agent_id: Name<'a>,
    /// As at the entry.
    pub parent_tool_call_id: ToolCallId<'a>,
    /// How the child ended.
    pub outcome: NamespaceOutcome,
}

/// `warning`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning<'a> {
    /// Stable machine code.
    pub code: Code<'a>,
    /// A sentence of ours for people.
    pub message: Text<'a>,
    /// Bounded details.
    pub details: Option<JsonObject<'a>>,
}

/// `usage.updated`: totals of the run so far; unknown is `None`, never zero.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UsageUpdated<'a> {
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Input tokens read from a cache.
    pub cached_input_tokens: Option<u64>,
    /// Cost in `currency`.
    pub cost: Option<JsonNumber<'a>>,
    /// Three capital letters.
    pub currency: Option<Text<'a>>,
    /// Whether these are the run's last totals.
    pub is_final: bool,
}

/// `provider.metadata`: internal, never on a public wire.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProviderMetadata<'a> {
    /// The provider.
    pub provider: Name<'a>,
    /// The model.
    pub model: Name<'a>,
    /// Scalars on the allowlist of decisions §6.
    pub metadata: JsonObject<'a>,
}

macro_rules! event_data {
    ($($(#[$doc:meta])* $variant:ident($payload:ty) = $text:literal),+ $(,)?) => {
        /// Type and payload of an event.
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub enum EventData<'a> { $($(#[$doc])* $variant($payload)),+ }

        /// The type of an event, without its payload.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum EventType { $($(#[$doc])* $variant),+ }

        impl EventType {
            /// All 21 types, in the contract's order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The wire spelling, e.g. `text.delta`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The type with this wire spelling.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl EventData<'_> {
            /// The type.
            pub fn event_type(&self) -> EventType {
                match self { $(Self::$variant(_) => EventType::$variant),+ }
            }
        }

        $(impl<'a> From<$payload> for EventData<'a> {
            fn from(payload: $payload) -> Self { Self::$variant(payload) }
        })+
    };
}

event_data!(
    /// `run.started`
    RunStarted(RunStarted<'a>) = "run.started",
    /// `run.finished`
    RunFinished(RunFinished<'a>) = "run.finished",
    /// `run.interrupted`
    RunInterrupted(RunInterrupted<'a>) = "run.interrupted",
    /// `run.cancelled`
    RunCancelled(RunCancelled) = "run.cancelled",
    /// `run.error`
    RunError(RunError<'a>) = "run.error",
    /// `text.started`
    TextStarted(TextStarted<'a>) = "text.started",
    /// `text.delta`
    TextDelta(TextDelta<'a>) = "text.delta",
    /// `text.finished`
    TextFinished(TextFinished<'a>) = "text.finished",
    /// `reasoning.started`
    ReasoningStarted(ReasoningStarted<'a>) = "reasoning.started",
    /// `reasoning.delta`
    ReasoningDelta(ReasoningDelta<'a>) = "reasoning.delta",
    /// `reasoning.finished`
    ReasoningFinished(ReasoningFinished<'a>) = "reasoning.finished",
    /// `tool.started`
    ToolStarted(ToolStarted<'a>) = "tool.started",
    /// `tool.arguments.delta`
    ToolArgumentsDelta(ToolArgumentsDelta<'a>) = "tool.arguments.delta",
    /// `tool.finished`
    ToolFinished(ToolFinished<'a>) = "tool.finished",
    /// `tool.error`
    ToolError(ToolError<'a>) = "tool.error",
    /// `interrupt.requested`
    InterruptRequested(InterruptRequested<'a>) = "interrupt.requested",
    /// `namespace.entered`
    NamespaceEntered(NamespaceEntered<'a>) = "namespace.entered",
    /// `namespace.exited`
    NamespaceExited(NamespaceExited<'a>) = "namespace.exited",
    /// `warning`
    Warning(Warning<'a>) = "warning",
    /// `usage.updated`
    UsageUpdated(UsageUpdated<'a>) = "usage.updated",
    /// `provider.metadata`
    ProviderMetadata(ProviderMetadata<'a>) = "provider.metadata",
);

impl EventType {
    /// Whether it ends a run (R03).
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::RunFinished | Self::RunInterrupted | Self::RunCancelled | Self::RunError)
    }
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl EventData<'_> {
    /// Whether it ends a run (R03).
    pub fn is_terminal(&self) -> bool {
        self.event_type().is_terminal()
    }
}
