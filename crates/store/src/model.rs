//! What goes into a store and what comes out of it, besides records.
//!
//! Refuses behaviour: plain data with public fields. Times are those of records, so nothing here reads a clock.

pub mod interrupt;
pub mod quota;

use std::sync::Arc;

use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, HarnessId, Name, Reference, RunId};
use causeway_contract::timestamp::Timestamp;

pub use self::interrupt::{
    ConsumeInterrupt, Interrupt, InterruptCommit, InterruptStatus, InterruptSummary, Withdrawal,
};
pub use self::quota::{Bound, OpenBounds, OverQuota, Quota, Whose};
use crate::record::{Payload, Record};
use crate::rules;

/// Whose data it is. `local` where the gateway runs without authentication.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(Arc<str>);

impl Owner {
    /// An owner of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The owner of a gateway without authentication.
    pub fn local() -> Self {
        Self::new("local")
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(u64);

        impl $name {
            /// This number.
            pub fn new(value: u64) -> Self {
                Self(value)
            }

            /// The number.
            pub fn value(self) -> u64 {
                self.0
            }

            /// The number after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Who may write a run: 1 for the writer that opened it, one more for each fence.
    Generation
);
number!(
    /// The number of a durable head: 0 is the empty state, each commit adds one.
    Revision
);
number!(
    /// The life of a conversation: `clear` begins the next one, which starts from the empty state.
    Epoch
);

/// How a run stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Status {
    /// It has no terminal yet.
    Running,
    /// `run.finished`.
    Finished,
    /// `run.interrupted`, whatever became of the interrupt.
    Interrupted,
    /// `run.cancelled`.
    Cancelled,
    /// `run.error` with any other code.
    Error,
    /// `run.error` with the code `thread_durability_uncertain` (R15).
    Uncertain,
}

impl Status {
    /// Every status.
    pub const ALL: &[Self] =
        &[Self::Running, Self::Finished, Self::Interrupted, Self::Cancelled, Self::Error, Self::Uncertain];

    /// The spelling of the HTTP API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
            Self::Uncertain => "uncertain",
        }
    }

    /// The status with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.as_str() == text)
    }

    /// Whether the run has its terminal.
    pub fn is_terminal(self) -> bool {
        self != Self::Running
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a run's thread state outlives it (R13).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Thread {
    /// `run.finished` needs a new head.
    Durable,
    /// There is no head.
    Ephemeral,
}

/// A client's key for "the same request again": per owner, kept 24 h.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Idempotency {
    /// The key.
    pub key: Arc<str>,
    /// A hash of the request that the key stands for.
    pub body_hash: [u8; 32],
}

/// A run to be inserted, with its first record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenRun {
    /// Whose run.
    pub owner: Owner,
    /// The new run.
    pub run_id: RunId<'static>,
    /// Its conversation, made if it is new.
    pub conversation_id: ConversationId<'static>,
    /// Its agent. Heads are kept per conversation and agent.
    pub agent_id: Name<'static>,
    /// The agent's harness.
    pub harness_id: HarnessId<'static>,
    /// Whether it needs a head to finish.
    pub thread: Thread,
    /// The worker's thread that this run writes to, to be forgotten one day.
    pub worker_thread: Option<Arc<str>>,
    /// What was asked: `{"message":…}` or `{"decisions":…}`.
    pub request: Payload,
    /// What encoders of a resumed run are seeded with.
    pub seed: Option<Payload>,
    /// The client's key, if it gave one.
    pub idempotency: Option<Idempotency>,
    /// What bounds the runs of its owner and its agent.
    pub quota: Quota,
    /// `run.started`, sequence 0. Its timestamp is the run's `created_at`.
    pub started: Record,
}

impl OpenRun {
    /// Who has a quota for this run.
    pub(crate) fn name_of(&self, whose: Whose) -> &str {
        match whose {
            Whose::Owner => self.owner.as_str(),
            Whose::Agent => self.agent_id.as_str(),
        }
    }
}

/// The answer to a run that was, or had been, opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opened {
    /// The run is in the log, and this caller writes it.
    New(Open),
    /// The same request came before; this is its run.
    Replayed(Box<Run>),
}

/// What the writer of a new run needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Open {
    /// To be named in every write.
    pub generation: Generation,
    /// The conversation's epoch.
    pub epoch: Epoch,
    /// The state to start from; `None` is the empty one at revision 0.
    pub base: Option<Head>,
}

impl Open {
    /// The revision that this run's commit builds on.
    pub fn base_revision(&self) -> Revision {
        self.base.as_ref().map_or(Revision::new(0), |head| head.revision)
    }
}

/// The durable state of a conversation with one agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// Its number.
    pub revision: Revision,
    /// What the worker calls it.
    pub head_ref: Reference<'static>,
    /// The run that committed it.
    pub run_id: RunId<'static>,
}

/// The next head: compare with `expected`, set to `expected + 1`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeadMove {
    /// The revision that it builds on, 0 for the empty state.
    pub expected: Revision,
    /// What the worker calls the new state.
    pub head_ref: Reference<'static>,
}

impl HeadMove {
    /// The revision of the new head.
    pub fn revision(&self) -> Revision {
        self.expected.next()
    }
}

/// The end of a run that does not wait for an answer: all of it, or nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Final {
    /// The last records; the last of them, and only that, is `run.finished`, `run.cancelled` or `run.error`.
    pub tail: Vec<Record>,
    /// The new head: needed by `run.finished` of a durable thread (R13), allowed for `run.cancelled`, forbidden
    /// for `run.error` (R15) and on an ephemeral thread.
    pub head: Option<HeadMove>,
}

/// A run as its reader sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Run {
    /// Whose.
    pub owner: Owner,
    /// Its id.
    pub run_id: RunId<'static>,
    /// Its conversation.
    pub conversation_id: ConversationId<'static>,
    /// The conversation's epoch when it started.
    pub epoch: Epoch,
    /// Its agent.
    pub agent_id: Name<'static>,
    /// The agent's harness.
    pub harness_id: HarnessId<'static>,
    /// Whether its state outlives it.
    pub thread: Thread,
    /// How it stands.
    pub status: Status,
    /// Who may write it.
    pub generation: Generation,
    /// The time of its first record.
    pub created_at: Timestamp<'static>,
    /// The time of its terminal.
    pub ended_at: Option<Timestamp<'static>>,
    /// The number of its last record.
    pub last_sequence: Sequence,
    /// What was asked.
    pub request: Payload,
    /// The payload of its `run.error`.
    pub error: Option<Payload>,
    /// Why it is uncertain, as its writer noted.
    pub cause: Option<Arc<str>>,
    /// Its interrupt.
    pub interrupt: Option<InterruptSummary>,
    /// The run whose interrupt it answers.
    pub resumed_from: Option<RunId<'static>>,
    /// The run that answers its interrupt.
    pub resumed_by: Option<RunId<'static>>,
    /// What its encoders are seeded with.
    pub seed: Option<Payload>,
    /// The payload of its last `usage.updated`.
    pub usage: Option<Payload>,
    /// The worker's thread it wrote to.
    pub worker_thread: Option<Arc<str>>,
    /// When its content was deleted: `request` is `{}` then, the seed is gone, and its records cannot be read.
    pub expired_at: Option<Timestamp<'static>>,
}

impl Run {
    /// What is left to tell of it, where its content was deleted.
    pub fn remains(&self) -> Option<Remains> {
        Some(Remains {
            run_id: self.run_id.clone(),
            status: self.status,
            created_at: self.created_at.clone(),
            ended_at: self.ended_at.clone(),
            last_sequence: self.last_sequence,
            error_code: self.error.as_ref().and_then(rules::error_code),
            expired_at: self.expired_at.clone()?,
        })
    }
}

/// What is told of a run whose content was deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remains {
    /// The run.
    pub run_id: RunId<'static>,
    /// How it ended.
    pub status: Status,
    /// The time of its first record.
    pub created_at: Timestamp<'static>,
    /// The time of its terminal.
    pub ended_at: Option<Timestamp<'static>>,
    /// The number of its terminal.
    pub last_sequence: Sequence,
    /// The code of its `run.error`.
    pub error_code: Option<Arc<str>>,
    /// When its content was deleted.
    pub expired_at: Timestamp<'static>,
}

/// Which runs to list; everything given must fit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RunFilter {
    /// How it stands.
    pub status: Option<Status>,
    /// Its agent.
    pub agent_id: Option<Name<'static>>,
    /// Its conversation.
    pub conversation_id: Option<ConversationId<'static>>,
    /// Created at or after, in Unix milliseconds.
    pub since: Option<i64>,
    /// Created before, in Unix milliseconds.
    pub until: Option<i64>,
}

/// Where a listing goes on. Opaque to clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cursor(pub(crate) u64);

impl Cursor {
    /// The cursor with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 36).ok().map(Self)
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut digits = [0u8; 13];
        let (mut rest, mut from) = (self.0, digits.len());
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            let value = u8::try_from(rest % 36).unwrap_or(0);
            *digit = if value < 10 { b'0' + value } else { b'a' + (value - 10) };
            rest /= 36;
            from = at;
            if rest == 0 {
                break;
            }
        }
        f.write_str(digits.get(from..).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("0"))
    }
}

/// A page of runs, newest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<Run>,
    /// Where the next page starts; `None` after the last.
    pub next: Option<Cursor>,
}

/// A page of a run's records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// The records in order; fewer than asked for where they are large, none where nothing came after the cursor.
    pub records: Vec<Record>,
    /// How the run stands, read in the same snapshot.
    pub status: Status,
    /// The number of the run's last record, read in the same snapshot.
    pub last_sequence: Sequence,
}

impl Page {
    /// Whether nothing can come after this page, which was read after `after`.
    pub fn is_done(&self, after: Option<Sequence>) -> bool {
        let reached = self.records.last().map(|record| record.sequence).or(after);
        self.status.is_terminal() && reached.is_some_and(|reached| reached >= self.last_sequence)
    }
}

/// What became of a run's last write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The run is not in the log.
    Missing,
    /// It has no terminal.
    Running {
        /// Who may write it.
        generation: Generation,
        /// The number of its last record.
        last_sequence: Sequence,
    },
    /// It has its terminal.
    Ended {
        /// How.
        status: Status,
        /// The terminal.
        terminal: Record,
        /// The head it committed, if it moved it.
        head: Option<HeadMove>,
    },
}

/// A run that was taken from its writer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fenced {
    /// The generation that may write now.
    pub generation: Generation,
    /// The number of the last record; nothing of the old writer can come after it.
    pub last_sequence: Sequence,
}

/// A run without a terminal whose writer is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Orphan {
    /// Whose.
    pub owner: Owner,
    /// The run.
    pub run_id: RunId<'static>,
    /// Its conversation.
    pub conversation_id: ConversationId<'static>,
    /// The conversation's epoch.
    pub epoch: Epoch,
    /// Its agent.
    pub agent_id: Name<'static>,
    /// The agent's harness.
    pub harness_id: HarnessId<'static>,
    /// Whether its state outlives it.
    pub thread: Thread,
    /// The number of its last record.
    pub last_sequence: Sequence,
    /// The worker's thread it wrote to.
    pub worker_thread: Option<Arc<str>>,
}

/// A worker's thread that nothing will start from again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StaleThread {
    /// The run that wrote to it.
    pub run_id: RunId<'static>,
    /// The agent whose worker keeps it.
    pub agent_id: Name<'static>,
    /// The conversation's epoch when the run started.
    pub epoch: Epoch,
    /// The thread.
    pub worker_thread: Arc<str>,
}

/// What a deleted conversation leaves to be done outside.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Deleted {
    /// The runs that were deleted, in the order in which they were opened.
    pub runs: Vec<DeletedRun>,
    /// The worker threads that were not forgotten yet.
    pub threads: Vec<StaleThread>,
}

/// A run that was deleted with its conversation: what files of its worker may be named after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeletedRun {
    /// The run.
    pub run_id: RunId<'static>,
    /// Its agent.
    pub agent_id: Name<'static>,
    /// The conversation's epoch when it started.
    pub epoch: Epoch,
}

/// What an archive pass did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Archived {
    /// Runs that were packed.
    pub runs: u64,
    /// Bytes of their records before.
    pub bytes_before: u64,
    /// Bytes after.
    pub bytes_after: u64,
    /// When the oldest run ended that is due and was left for another pass, in Unix milliseconds.
    pub oldest_left: Option<i64>,
}

/// What a pass did that deletes the content of old runs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Expired {
    /// The runs, the oldest end first.
    pub runs: Vec<ExpiredRun>,
    /// When the oldest run ended that is due and was left for another pass, in Unix milliseconds.
    pub oldest_left: Option<i64>,
}

/// A run whose content was deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExpiredRun {
    /// Whose.
    pub owner: Owner,
    /// The run.
    pub run_id: RunId<'static>,
    /// Its conversation.
    pub conversation_id: ConversationId<'static>,
}

/// How the store feels.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Health {
    /// `memory`, `sqlite` or `postgres`.
    pub backend: &'static str,
    /// Bytes left on the disk, where there is one.
    pub free_bytes: Option<u64>,
    /// Bytes of the database files, where there are some.
    pub used_bytes: Option<u64>,
    /// Writes that wait.
    pub queued: usize,
    /// Whether new runs are refused for lack of space.
    pub low_disk: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_from_its_spelling() {
        for number in [0, 1, 35, 36, 123_456_789, u64::MAX] {
            assert_eq!(Cursor::parse(&Cursor(number).to_string()), Some(Cursor(number)), "{number}");
        }
        assert_eq!(Cursor::parse("no cursor"), None);
    }

    #[test]
    fn a_status_reads_back_from_its_spelling() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(*status));
        }
    }
}
