//! Interrupts: how they are committed, answered and read.
//!
//! Refuses behaviour, as all of the model does.

use causeway_contract::event::InterruptReason;
use causeway_contract::id::{ConversationId, InterruptId, Name, Reference, RunId};
use causeway_contract::timestamp::Timestamp;

use crate::model::{HeadMove, OpenRun, Owner, Revision};
use crate::record::{Payload, Record};

/// The end of a run that waits for an answer (R14): all of it, or nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InterruptCommit {
    /// What was held back; the last record is `run.interrupted`.
    pub tail: Vec<Record>,
    /// The state to resume from.
    pub head: HeadMove,
    /// The interrupt.
    pub interrupt_id: InterruptId<'static>,
    /// What kind of answer it awaits.
    pub reason: InterruptReason,
    /// The payload of `interrupt.requested`.
    pub request: Payload,
    /// What the adapter needs to resume, its private part included; never shown.
    pub snapshot: Payload,
    /// When the interrupt can no longer be answered.
    pub expires_at: Option<Timestamp<'static>>,
}

/// An answer to an interrupt, and the run it starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumeInterrupt {
    /// The interrupted run.
    pub interrupted: RunId<'static>,
    /// Its interrupt.
    pub interrupt_id: InterruptId<'static>,
    /// The interrupt's revision as the answer names it.
    pub revision: Revision,
    /// The decision, for people who read the run later.
    pub decision: Payload,
    /// The resumed run: same owner, conversation and agent.
    pub open: OpenRun,
}

/// Why an interrupt is taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Withdrawal {
    /// Somebody cancelled the interrupted run.
    Voided,
    /// Its time is over.
    Expired,
}

/// What became of an interrupt.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum InterruptStatus {
    /// It waits.
    Pending,
    /// It was answered.
    Consumed,
    /// It was taken back.
    Voided,
    /// Its time was over.
    Expired,
}

impl InterruptStatus {
    /// Every status.
    pub const ALL: &[Self] = &[Self::Pending, Self::Consumed, Self::Voided, Self::Expired];

    /// The spelling of the HTTP API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Consumed => "consumed",
            Self::Voided => "voided",
            Self::Expired => "expired",
        }
    }

    /// The status with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.as_str() == text)
    }
}

impl From<Withdrawal> for InterruptStatus {
    fn from(why: Withdrawal) -> Self {
        match why {
            Withdrawal::Voided => Self::Voided,
            Withdrawal::Expired => Self::Expired,
        }
    }
}

/// The interrupt of a run, as its reader sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InterruptSummary {
    /// Its id.
    pub interrupt_id: InterruptId<'static>,
    /// What kind of answer it awaits.
    pub reason: InterruptReason,
    /// The revision that an answer must name.
    pub revision: Revision,
    /// What became of it.
    pub status: InterruptStatus,
    /// When it can no longer be answered.
    pub expires_at: Option<Timestamp<'static>>,
    /// The answer, once there is one.
    pub decision: Option<Payload>,
}

impl InterruptSummary {
    /// `form_input` or `tool_approval`.
    pub fn interrupt_type(&self) -> &'static str {
        match self.reason {
            InterruptReason::HumanInput => "form_input",
            InterruptReason::ToolApproval => "tool_approval",
        }
    }

    /// Whether an answer would still be taken at `now`.
    pub fn is_open_at(&self, now_millis: i64) -> bool {
        self.status == InterruptStatus::Pending && !expired(self.expires_at.as_ref(), now_millis)
    }
}

/// Whether a time to live is over.
pub(crate) fn expired(expires_at: Option<&Timestamp<'_>>, now_millis: i64) -> bool {
    expires_at.is_some_and(|at| at.unix_millis() <= now_millis)
}

/// An interrupt with everything that resuming it takes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interrupt {
    /// Whose.
    pub owner: Owner,
    /// The interrupted run.
    pub run_id: RunId<'static>,
    /// Its conversation.
    pub conversation_id: ConversationId<'static>,
    /// Its agent.
    pub agent_id: Name<'static>,
    /// What a reader sees.
    pub summary: InterruptSummary,
    /// The payload of `interrupt.requested`.
    pub request: Payload,
    /// The adapter's snapshot, private part included.
    pub snapshot: Payload,
    /// The state to resume from.
    pub head_ref: Reference<'static>,
    /// The run that answered it.
    pub resumed_by: Option<RunId<'static>>,
}
