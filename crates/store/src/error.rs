//! What a store may answer instead of yes.
//!
//! Refuses to carry payloads: errors name ids, numbers and paths only.

use std::path::PathBuf;

use causeway_contract::event::Sequence;
use causeway_contract::id::{InterruptId, RunId};

use crate::model::{Generation, OverQuota, Remains, Revision, Status};

/// What a store may answer instead of yes.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The store understood and said no. Nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The answer was lost: it may have been written, or not. Read [`Store::outcome`](crate::Store::outcome), and
    /// write the terminal only once that write, too, was acknowledged: it then stands before or instead of the lost one.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(Unavailable),
    /// The store cannot do it now. Nothing was written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The caller's bug. Nothing was written.
    #[error("store misused: {0}")]
    Misuse(#[from] Misuse),
}

impl Error {
    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unknown(_) | Self::Unavailable(_) | Self::Misuse(_) => None,
        }
    }

    /// Whether it is certain that nothing was written.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// Why the store said no.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No such run, or another owner's.
    #[error("no such run")]
    UnknownRun,
    /// No such conversation, or another owner's.
    #[error("no such conversation")]
    UnknownConversation,
    /// No such result, or another owner's.
    #[error("no such result")]
    UnknownResult,
    /// A run of this conversation is active.
    #[error("run {run_id} of this conversation is still running")]
    ConversationBusy {
        /// The active run.
        run_id: RunId<'static>,
    },
    /// An interrupt of this conversation waits for its answer.
    #[error("interrupt {interrupt_id} of run {run_id} waits for an answer")]
    InterruptPending {
        /// The interrupted run.
        run_id: RunId<'static>,
        /// The pending interrupt.
        interrupt_id: InterruptId<'static>,
    },
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request, which started run {run_id}")]
    KeyReused {
        /// The run of that request.
        run_id: RunId<'static>,
    },
    /// The owner or the agent has as much as it may have.
    #[error(transparent)]
    OverQuota(#[from] OverQuota),
    /// The run id is taken.
    #[error("run {run_id} exists already")]
    RunExists {
        /// The id.
        run_id: RunId<'static>,
    },
    /// Somebody else took the run over; this writer must stop.
    #[error("generation {given} of the run was fenced off, {current} is current")]
    Fenced {
        /// The writer's generation.
        given: Generation,
        /// The one that may write.
        current: Generation,
    },
    /// The run has its terminal (R03, R04).
    #[error("the run ended as {status}")]
    Ended {
        /// How it ended.
        status: Status,
    },
    /// The records do not continue the log.
    #[error("the log goes on with event {expected}, not {found}")]
    NotContiguous {
        /// The next number of the log.
        expected: Sequence,
        /// The number given.
        found: Sequence,
    },
    /// The durable head is not the one this commit builds on (R13).
    #[error("the head is at revision {found}, the commit builds on {expected}")]
    HeadMoved {
        /// The revision the commit builds on.
        expected: Revision,
        /// The revision of the head.
        found: Revision,
    },
    /// The run has no such interrupt.
    #[error("the run has no such interrupt")]
    NoInterrupt,
    /// The interrupt was answered.
    #[error("the interrupt was answered by run {resumed_by}")]
    InterruptConsumed {
        /// The run that the answer started.
        resumed_by: RunId<'static>,
    },
    /// The interrupt was taken back.
    #[error("the interrupt was taken back")]
    InterruptClosed,
    /// The time of the interrupt was over.
    #[error("the interrupt has expired")]
    InterruptExpired,
    /// The answer names another revision than the interrupt's.
    #[error("the interrupt has revision {expected}, the answer names {found}")]
    RevisionMismatch {
        /// The interrupt's revision.
        expected: Revision,
        /// The answer's.
        found: Revision,
    },
    /// The content of the run was deleted, as its time had come.
    #[error("the content of run {} was deleted at {}", remains.run_id, remains.expired_at)]
    Expired {
        /// What is left.
        remains: Box<Remains>,
    },
    /// A result with this reference exists and has other bytes.
    #[error("a result with this reference exists already")]
    ResultExists,
    /// The result is larger than the store keeps.
    #[error("the result has {bytes} bytes, the limit is {limit}")]
    ResultTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// A call that breaks the protocol of the trait, whatever the store holds.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Misuse {
    /// R02.
    #[error("the first record of a run must be run.started with sequence 0")]
    FirstRecord,
    /// A second `run.started` (R02).
    #[error("run.started is written by open_run only")]
    Restarted,
    /// A terminal outside the commit verbs (R13, R14).
    #[error("a terminal is written by commit_final, commit_interrupt or close_run only")]
    TerminalInAppend,
    /// No terminal at the end of a commit's records, or one before the end (R03, R04).
    #[error("the last record of a commit, and only that, must be a terminal")]
    TerminalPlace,
    /// The terminal does not belong to this verb.
    #[error("{verb} does not write {terminal}")]
    TerminalKind {
        /// The verb.
        verb: &'static str,
        /// The terminal.
        terminal: &'static str,
    },
    /// R13.
    #[error("run.finished of a durable thread needs a new head")]
    HeadMissing,
    /// R15, or an ephemeral thread.
    #[error("this terminal does not move the head")]
    HeadForbidden,
    /// `run.finished` names another head than the commit moves to (R13).
    #[error("thread_state of run.finished is not the head that is committed")]
    HeadDiffers,
    /// Numbers inside the call have a gap.
    #[error("the records of one call must be numbered without gaps")]
    Gap,
    /// Nothing to write.
    #[error("a write needs at least one record")]
    Empty,
    /// A terminal whose payload cannot be read.
    #[error("the payload of the terminal is not readable")]
    Terminal,
    /// An answer to an interrupt of another conversation.
    #[error("a resumed run belongs to the owner, the conversation and the agent of the interrupted one")]
    Stranger,
}

/// Why the store cannot serve now, and what to do about it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}: {cause}{} ({})", path.display(), if detail.is_empty() { String::new() } else { format!(": {detail}") }, cause.remedy())]
pub struct Unavailable {
    /// What kind of trouble.
    pub cause: Cause,
    /// The data directory, file or database.
    pub path: PathBuf,
    /// Numbers or an error code of the system; never content.
    pub detail: String,
}

impl Unavailable {
    /// Trouble of this kind at this place.
    pub fn new(cause: Cause, path: impl Into<PathBuf>, detail: impl Into<String>) -> Self {
        Self { cause, path: path.into(), detail: detail.into() }
    }
}

/// The kinds of trouble a store can be in.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cause {
    /// No space is left.
    DiskFull,
    /// Little space is left; new runs are refused so that running ones can end.
    LowDisk,
    /// The place cannot be written.
    ReadOnly,
    /// Another process uses it.
    InUse,
    /// A reader or another program holds a lock for too long.
    Locked,
    /// The file is damaged or not a database of ours.
    Corrupted,
    /// The files are not those that the last gateway left: acknowledged writes are missing, or bytes were changed.
    Altered,
    /// The file was written by a newer version.
    NewerSchema,
    /// The schema is of an older version, and was not to be changed.
    OlderSchema,
    /// The schema is of an older version, and gateways of that version are at work that could not go on with the newer one.
    OlderGateways,
    /// The database server cannot be reached, or does not take us now.
    Unreachable,
    /// The database server refuses who we are or what we want, or we refuse its certificate.
    Denied,
    /// Another gateway found this one's lease run out and took its runs.
    LeaseLost,
    /// There is nothing at the place.
    Missing,
    /// The path no longer leads to the file that is open: the directory was removed, moved or made anew.
    Replaced,
    /// A file stands where a directory is needed.
    NotADirectory,
    /// A directory stands where the database is needed.
    IsADirectory,
    /// The store was closed.
    Closed,
    /// Any other trouble with the disk or the system.
    Io,
}

impl Cause {
    /// What somebody can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::DiskFull => "free space on this disk; runs go on by themselves",
            Self::LowDisk => "free space on this disk, or lower the limit",
            Self::ReadOnly => "make the directory writable for this user, or choose another with --data",
            Self::InUse => "stop the other gateway, or choose another directory with --data",
            Self::Locked => "end the program that holds the file open, then try again",
            Self::Corrupted => {
                "put back a backup and remove causeway.mark, or start anew in another directory with --data"
            }
            Self::Altered => {
                "put back every file as the last gateway left it, or a backup; to go on with what is there, remove causeway.mark"
            }
            Self::NewerSchema => "use the newer causeway, or put back the backup made before its migration",
            Self::OlderSchema => "start one gateway with store.postgres.migrate = true",
            Self::OlderGateways => {
                "stop those gateways (they drain), then start this version, or run causeway migrate"
            }
            Self::Unreachable => {
                "see that the database server runs and can be reached; the gateway goes on by itself"
            }
            Self::Denied => {
                "check user, password, certificates, and the user's rights on database and schema"
            }
            Self::LeaseLost => {
                "nothing: the gateway goes on under a new lease, and others end its former runs"
            }
            Self::Missing => "check the path",
            Self::Replaced => {
                "put the directory back where it was, or restart the gateway on what is there now"
            }
            Self::NotADirectory => "name a directory with --data",
            Self::IsADirectory => "move that directory away, or name another with --data",
            Self::Closed => "restart the gateway",
            Self::Io => "check the disk and the system log",
        }
    }

    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::LowDisk => "low_disk",
            Self::ReadOnly => "read_only",
            Self::InUse => "in_use",
            Self::Locked => "locked",
            Self::Corrupted => "corrupted",
            Self::Altered => "altered",
            Self::NewerSchema => "newer_schema",
            Self::OlderSchema => "older_schema",
            Self::OlderGateways => "older_gateways",
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::LeaseLost => "lease_lost",
            Self::Missing => "missing",
            Self::Replaced => "replaced",
            Self::NotADirectory => "not_a_directory",
            Self::IsADirectory => "is_a_directory",
            Self::Closed => "closed",
            Self::Io => "io",
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DiskFull => "the disk is full",
            Self::LowDisk => "too little disk space is left to start a run",
            Self::ReadOnly => "cannot be written",
            Self::InUse => "is already in use by another process",
            Self::Locked => "is locked by another program",
            Self::Corrupted => "is damaged or not a causeway database",
            Self::Altered => "is not what the last gateway left there",
            Self::NewerSchema => "was written by a newer version of causeway",
            Self::OlderSchema => "is of an older version",
            Self::OlderGateways => "is in use by gateways of an older version",
            Self::Unreachable => "cannot be reached",
            Self::Denied => "refuses the connection",
            Self::LeaseLost => "no longer counts this gateway among the living",
            Self::Missing => "does not exist",
            Self::Replaced => "is no longer the file that the gateway has open",
            Self::NotADirectory => "is a file, not a directory",
            Self::IsADirectory => "is a directory, not a database",
            Self::Closed => "was closed",
            Self::Io => "the system reports an error",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_store_says_where_what_and_what_to_do() {
        assert_eq!(
            Unavailable::new(Cause::NewerSchema, "/d/causeway.db", "schema 9, this version reads 1")
                .to_string(),
            "/d/causeway.db: was written by a newer version of causeway: schema 9, this version reads 1 \
             (use the newer causeway, or put back the backup made before its migration)"
        );
        assert_eq!(
            Error::from(Unavailable::new(Cause::InUse, "/d", "")).to_string(),
            "/d: is already in use by another process (stop the other gateway, or choose another directory with --data)"
        );
    }
}
