//! Every way a v1 event can stand in the wrong place: one variant each, with the rule it breaks and the place of the
//! fault in the event.
//!
//! Refuses to carry payloads: ids, names of events and limits only.

use std::borrow::Cow;

use causeway_contract::error::Check;
use causeway_contract::event::{Durability, EventType, InterruptReason};

use crate::message::MessageKind;
use crate::rule::{Rule, Verdict};
use crate::schemas::Mismatch;

/// A v1 event in the wrong place, or a stream that ends too early.
#[allow(missing_docs, reason = "the text of each variant names its fields")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Violation {
    /// `envelope`
    #[error("the run id is {found}, this run is {expected}")]
    OtherRun { expected: String, found: String },
    /// `envelope`
    #[error("the conversation id is {found}, this run belongs to {expected}")]
    OtherConversation { expected: String, found: String },

    /// R01
    #[error("sequence {sequence} does not follow {previous}")]
    NotIncreasing { sequence: u64, previous: u64 },
    /// R01
    #[error("no sequence is left after {previous}")]
    SequenceExhausted { previous: u64 },

    /// R02
    #[error("{event} comes before run.started")]
    NotStarted { event: EventType },
    /// R02
    #[error("run.started has sequence {sequence}, not 0")]
    StartedLate { sequence: u64 },
    /// R02
    #[error("run.started stands in a subagent's namespace")]
    StartedInNamespace,
    /// R02
    #[error("run.started comes again at {sequence}")]
    StartedTwice { sequence: u64 },

    /// R03
    #[error("{event} is a second terminal after {first} at {at}")]
    SecondTerminal { event: EventType, first: EventType, at: u64 },
    /// R04
    #[error("event {sequence} follows the terminal at {terminal}")]
    EventAfterTerminal { sequence: u64, terminal: u64 },

    /// R05
    #[error("{kind} message {id} was started before")]
    MessageReused { kind: MessageKind, id: String },
    /// R05
    #[error("{event} for {kind} message {id}, which was never started")]
    MessageNotStarted { kind: MessageKind, id: String, event: EventType },
    /// R05
    #[error("{event} for {kind} message {id}, which already finished")]
    MessageFinished { kind: MessageKind, id: String, event: EventType },

    /// R06
    #[error("tool call {id} was started before")]
    CallReused { id: String },
    /// R06
    #[error("{event} for tool call {id}, which was never started")]
    CallNotStarted { id: String, event: EventType },
    /// R06
    #[error("{event} for tool call {id}, which already ended with {first}")]
    CallEnded { id: String, first: EventType, event: EventType },
    /// R07
    #[error("tool call {id} already ended with {first}")]
    ToolFinishedAndFailed { id: String, first: EventType },
    /// `payload`
    #[error("tool call {id} was started with arguments and is now streamed others")]
    ArgumentsGivenTwice { id: String },
    /// `payload`
    #[error("the streamed arguments of tool call {id} are not one JSON object")]
    ArgumentsNotJson { id: String },
    /// `payload`
    #[error("the streamed arguments of tool call {id} do not satisfy the schema of its tool {mismatch}")]
    ArgumentsNotOfSchema { id: String, mismatch: Mismatch },

    /// R08
    #[error("interrupt {id} is the second of this run")]
    SecondInterrupt { id: String },
    /// R08
    #[error("{event} may not follow the request of interrupt {interrupt_id}")]
    NotAfterInterrupt { event: EventType, interrupt_id: String },
    /// R08
    #[error("run.interrupted without an interrupt.requested before it")]
    InterruptNotRequested,
    /// R08
    #[error("run.interrupted names interrupt {found}, {requested} was requested")]
    OtherInterrupt { requested: String, found: String },
    /// R08
    #[error("run.interrupted gives the reason {found}, the request asks for {expected}")]
    OtherReason { expected: InterruptReason, found: InterruptReason },
    /// R08
    #[error("the approval of tool call {id} names no open call")]
    ApprovalOfNoOpenCall { index: usize, id: String },
    /// R08
    #[error("the approval of tool call {id} names another tool than the call's start")]
    ApprovalOfOtherTool { index: usize, id: String },

    /// R09
    #[error("namespaces are open at the terminal: {open}, the last entered {latest}")]
    NamespaceOpen { open: usize, latest: String },
    /// R09
    #[error("the root namespace is never exited")]
    RootExited,
    /// R09
    #[error("namespace {path} is exited and is not open")]
    ExitWithoutEntry { path: String },
    /// R09
    #[error("namespace {invocation} is exited before one inside it")]
    InnerNamespaceOpen { invocation: String },

    /// R10
    #[error("namespace {path} is not active")]
    NamespaceNotActive { path: String },
    /// R10
    #[error("namespace.entered names no child path")]
    RootEntered,
    /// R10
    #[error("invocation {invocation} was entered before")]
    InvocationReused { invocation: String, depth: usize },
    /// R10
    #[error("the delegation call {id} is not open")]
    DelegationNotOpen { id: String },
    /// R10
    #[error("the delegation call {id} ends while its namespace is open")]
    DelegationEndedTooEarly { id: String },
    /// R10
    #[error("namespace {invocation} is exited with another agent id than it was entered with")]
    ExitNamesOtherAgent { invocation: String },
    /// R10
    #[error("namespace {invocation} is exited with another parent call than it was entered with")]
    ExitNamesOtherCall { invocation: String },

    /// R11
    #[error("the run has more than {limit} events")]
    TooManyEvents { limit: u64 },
    /// R11
    #[error("the run has more than {limit} bytes")]
    TooManyRunBytes { limit: u64 },
    /// R11
    #[error("{kind} message {id} has more than {limit} bytes")]
    TooMuchMessageText { kind: MessageKind, id: String, limit: usize },
    /// R11
    #[error("the run has more than {limit} bytes of text")]
    TooMuchRunText { limit: usize },
    /// R11
    #[error("the run has more than {limit} messages")]
    TooManyMessages { limit: usize },
    /// R11
    #[error("the run has more than {limit} tool calls")]
    TooManyCalls { limit: usize },
    /// R11
    #[error("more than {limit} namespaces are open")]
    TooManyOpenNamespaces { limit: usize },
    /// R11
    #[error("the streamed arguments of tool call {id} have more than {limit} bytes")]
    TooManyArgumentBytes { id: String, limit: usize },

    /// R12
    #[error("the stream ends without a terminal")]
    ClosedWithoutTerminal,

    /// `payload`
    #[error("an adapter cannot claim a thread state")]
    DurabilityClaimed,
    /// R13
    #[error("run.finished of a durable thread has no thread state")]
    ThreadStateMissing,
    /// R13
    #[error("run.finished of a durable thread says {durability}, not committed")]
    NotCommitted { durability: Durability },
    /// R13
    #[error("run.finished names revision {revision} and its head, the store committed another")]
    OtherHead { revision: u64 },
    /// R14
    #[error("interrupt {id} is not committed")]
    InterruptNotCommitted { id: String },
    /// R15
    #[error("thread_durability_uncertain says that it may be retried")]
    UncertainYetRetryable,
}

impl Violation {
    /// What forbids this; `causeway explain R07` prints its text.
    pub fn rule(&self) -> Verdict {
        match self {
            Self::OtherRun { .. } | Self::OtherConversation { .. } => Verdict::Check(Check::Envelope),
            Self::NotIncreasing { .. } | Self::SequenceExhausted { .. } => Rule::R01Order.into(),
            Self::NotStarted { .. }
            | Self::StartedLate { .. }
            | Self::StartedInNamespace
            | Self::StartedTwice { .. } => Rule::R02StartedOnce.into(),
            Self::SecondTerminal { .. } => Rule::R03OneTerminal.into(),
            Self::EventAfterTerminal { .. } => Rule::R04TerminalIsLast.into(),
            Self::MessageReused { .. } | Self::MessageNotStarted { .. } | Self::MessageFinished { .. } => {
                Rule::R05MessageOrder.into()
            }
            Self::CallReused { .. } | Self::CallNotStarted { .. } | Self::CallEnded { .. } => {
                Rule::R06ToolOrder.into()
            }
            Self::ToolFinishedAndFailed { .. } => Rule::R07FinishXorError.into(),
            Self::ArgumentsGivenTwice { .. }
            | Self::ArgumentsNotJson { .. }
            | Self::ArgumentsNotOfSchema { .. }
            | Self::DurabilityClaimed => Verdict::Check(Check::Payload),
            Self::SecondInterrupt { .. }
            | Self::NotAfterInterrupt { .. }
            | Self::InterruptNotRequested
            | Self::OtherInterrupt { .. }
            | Self::OtherReason { .. }
            | Self::ApprovalOfNoOpenCall { .. }
            | Self::ApprovalOfOtherTool { .. } => Rule::R08OneInterrupt.into(),
            Self::NamespaceOpen { .. }
            | Self::RootExited
            | Self::ExitWithoutEntry { .. }
            | Self::InnerNamespaceOpen { .. } => Rule::R09NamespacesBalance.into(),
            Self::NamespaceNotActive { .. }
            | Self::RootEntered
            | Self::InvocationReused { .. }
            | Self::DelegationNotOpen { .. }
            | Self::DelegationEndedTooEarly { .. }
            | Self::ExitNamesOtherAgent { .. }
            | Self::ExitNamesOtherCall { .. } => Rule::R10ActiveNamespace.into(),
            Self::TooManyEvents { .. }
            | Self::TooManyRunBytes { .. }
            | Self::TooMuchMessageText { .. }
            | Self::TooMuchRunText { .. }
            | Self::TooManyMessages { .. }
            | Self::TooManyCalls { .. }
            | Self::TooManyOpenNamespaces { .. }
            | Self::TooManyArgumentBytes { .. } => Rule::R11Sums.into(),
            Self::ClosedWithoutTerminal => Rule::R12ClosedWithoutTerminal.into(),
            Self::ThreadStateMissing | Self::NotCommitted { .. } | Self::OtherHead { .. } => {
                Rule::R13CommittedFinish.into()
            }
            Self::InterruptNotCommitted { .. } => Rule::R14CommittedInterrupt.into(),
            Self::UncertainYetRetryable => Rule::R15UncertainCommit.into(),
        }
    }

    /// The place of the fault in the event, as an RFC 6901 pointer; `None` where no single value is at fault.
    pub fn pointer(&self) -> Option<Cow<'static, str>> {
        let place = match self {
            Self::OtherRun { .. } => "/run_id",
            Self::OtherConversation { .. } => "/conversation_id",
            Self::NotIncreasing { .. } | Self::SequenceExhausted { .. } | Self::StartedLate { .. } => {
                "/sequence"
            }
            Self::NotStarted { .. }
            | Self::StartedTwice { .. }
            | Self::SecondTerminal { .. }
            | Self::EventAfterTerminal { .. }
            | Self::SecondInterrupt { .. }
            | Self::NotAfterInterrupt { .. }
            | Self::InterruptNotRequested
            | Self::NamespaceOpen { .. }
            | Self::InterruptNotCommitted { .. } => "/type",
            Self::MessageReused { .. } | Self::MessageNotStarted { .. } | Self::MessageFinished { .. } => {
                "/data/message_id"
            }
            Self::CallReused { .. }
            | Self::CallNotStarted { .. }
            | Self::CallEnded { .. }
            | Self::ToolFinishedAndFailed { .. }
            | Self::ArgumentsNotJson { .. }
            | Self::ArgumentsNotOfSchema { .. }
            | Self::DelegationEndedTooEarly { .. } => "/data/tool_call_id",
            Self::ArgumentsGivenTwice { .. }
            | Self::TooMuchMessageText { .. }
            | Self::TooMuchRunText { .. }
            | Self::TooManyArgumentBytes { .. } => "/data/delta",
            Self::OtherInterrupt { .. } => "/data/interrupt_id",
            Self::OtherReason { .. } => "/data/reason",
            Self::ApprovalOfNoOpenCall { index, .. } => {
                return Some(Cow::Owned(format!("/data/tool_approvals/{index}/tool_call_id")));
            }
            Self::ApprovalOfOtherTool { index, .. } => {
                return Some(Cow::Owned(format!("/data/tool_approvals/{index}/tool_name")));
            }
            Self::StartedInNamespace
            | Self::RootExited
            | Self::ExitWithoutEntry { .. }
            | Self::InnerNamespaceOpen { .. }
            | Self::NamespaceNotActive { .. }
            | Self::RootEntered => "/namespace",
            Self::InvocationReused { depth, .. } => return Some(Cow::Owned(format!("/namespace/{depth}"))),
            Self::DelegationNotOpen { .. } | Self::ExitNamesOtherCall { .. } => "/data/parent_tool_call_id",
            Self::ExitNamesOtherAgent { .. } => "/data/agent_id",
            Self::DurabilityClaimed | Self::OtherHead { .. } => "/data/thread_state",
            Self::ThreadStateMissing => "/data",
            Self::NotCommitted { .. } => "/data/thread_state/durability",
            Self::UncertainYetRetryable => "/data/retryable",
            Self::TooManyEvents { .. }
            | Self::TooManyRunBytes { .. }
            | Self::TooManyMessages { .. }
            | Self::TooManyCalls { .. }
            | Self::TooManyOpenNamespaces { .. }
            | Self::ClosedWithoutTerminal => return None,
        };
        Some(Cow::Borrowed(place))
    }
}
