//! What every backend refuses, decided without touching storage.
//!
//! Refuses to look anything up: the caller brings the run's state.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::{EventType, Sequence};
use causeway_contract::receipt::CommitReceipt;
use serde::Deserialize;

use crate::error::{Error, Misuse, Refusal};
use crate::model::{
    Bound, ConsumeInterrupt, Final, Generation, HeadMove, Interrupt, InterruptCommit, InterruptStatus,
    OpenRun, OverQuota, Owner, Revision, Run, Status, Thread, Whose,
};
use crate::record::{Payload, Record};

/// How long an idempotency key stands for its request.
pub(crate) const KEY_MILLIS: i64 = 24 * 60 * 60 * 1000;
/// The time over which begun runs are counted.
pub(crate) const START_MILLIS: i64 = 60 * 1000;
/// The most bytes of records in one page.
pub(crate) const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// The largest tool result that is kept whole.
pub const RESULT_BYTES: usize = 64 * 1024 * 1024;

/// What deciding about a write takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RunState {
    pub(crate) generation: Generation,
    pub(crate) status: Status,
    pub(crate) thread: Thread,
    /// The number of the last record; a run has at least `run.started`.
    pub(crate) last: Sequence,
}

/// What a terminal says about its run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Ending {
    pub(crate) status: Status,
    pub(crate) error: Option<Payload>,
}

pub(crate) fn check_open(open: &OpenRun) -> Result<(), Misuse> {
    let first = &open.started;
    let fits = first.event_type == EventType::RunStarted && first.sequence == Sequence::ZERO;
    if fits { Ok(()) } else { Err(Misuse::FirstRecord) }
}

pub(crate) fn check_append(records: &[Record]) -> Result<(), Misuse> {
    contiguous(records)?;
    if records.iter().any(|record| record.event_type.is_terminal()) {
        return Err(Misuse::TerminalInAppend);
    }
    not_restarted(records)
}

/// Checks the end of a run as far as it can be seen without the run.
pub(crate) fn check_end(verb: &'static str, end: &Final) -> Result<Ending, Misuse> {
    let terminal = check_tail(&end.tail)?;
    let status = match (terminal.event_type, verb) {
        (EventType::RunFinished, COMMIT_FINAL) => Status::Finished,
        (EventType::RunCancelled, _) => Status::Cancelled,
        (EventType::RunError, _) => {
            if end.head.is_some() {
                return Err(Misuse::HeadForbidden);
            }
            let code: ErrorCode<'_> = parse(terminal)?;
            let status = if code.code == UNCERTAIN { Status::Uncertain } else { Status::Error };
            return Ok(Ending { status, error: Some(terminal.data.clone()) });
        }
        (other, _) => return Err(Misuse::TerminalKind { verb, terminal: other.as_str() }),
    };
    if let (Status::Finished, Some(head)) = (status, &end.head) {
        let finished: FinishedState<'_> = parse(terminal)?;
        let named = finished.thread_state.ok_or(Misuse::HeadDiffers)?;
        if named.durable_revision != head.revision().value() || named.head_ref != head.head_ref.as_str() {
            return Err(Misuse::HeadDiffers);
        }
    }
    Ok(Ending { status, error: None })
}

/// R13, once the run is known: who moves the head, and who must not.
pub(crate) fn check_head(thread: Thread, status: Status, head: Option<&HeadMove>) -> Result<(), Misuse> {
    match (thread, head) {
        (Thread::Durable, None) if status == Status::Finished => Err(Misuse::HeadMissing),
        (Thread::Ephemeral, Some(_)) => Err(Misuse::HeadForbidden),
        (Thread::Durable | Thread::Ephemeral, _) => Ok(()),
    }
}

pub(crate) fn check_interrupt(interrupt: &InterruptCommit) -> Result<(), Misuse> {
    match check_tail(&interrupt.tail)?.event_type {
        EventType::RunInterrupted => Ok(()),
        other => Err(Misuse::TerminalKind { verb: "commit_interrupt", terminal: other.as_str() }),
    }
}

/// Whether this writer may add these records to the log.
pub(crate) fn admit(state: RunState, writer: Option<Generation>, records: &[Record]) -> Result<(), Refusal> {
    if let Some(given) = writer
        && given != state.generation
    {
        return Err(Refusal::Fenced { given, current: state.generation });
    }
    if state.status.is_terminal() {
        return Err(Refusal::Ended { status: state.status });
    }
    let expected = state.last.next().unwrap_or(Sequence::MAX);
    match records.first() {
        Some(first) if first.sequence != expected => {
            Err(Refusal::NotContiguous { expected, found: first.sequence })
        }
        Some(_) | None => Ok(()),
    }
}

/// The compare of the head's compare-and-set.
pub(crate) fn compare_head(found: Revision, head: &HeadMove) -> Result<(), Refusal> {
    if found == head.expected { Ok(()) } else { Err(Refusal::HeadMoved { expected: head.expected, found }) }
}

/// Whether the resumed run fits the interrupted one. Another owner's run is not told from none.
pub(crate) fn check_resumed(answer: &ConsumeInterrupt, run: &Run) -> Result<(), Error> {
    if run.owner != answer.open.owner {
        return Err(Refusal::UnknownRun.into());
    }
    let open = &answer.open;
    if run.conversation_id != open.conversation_id
        || run.agent_id != open.agent_id
        || run.thread != open.thread
    {
        return Err(Misuse::Stranger.into());
    }
    Ok(())
}

/// Whether the interrupt takes this answer.
pub(crate) fn check_answer(answer: &ConsumeInterrupt, interrupt: &Interrupt) -> Result<(), Refusal> {
    let summary = &interrupt.summary;
    if summary.interrupt_id != answer.interrupt_id {
        return Err(Refusal::NoInterrupt);
    }
    if summary.revision != answer.revision {
        return Err(Refusal::RevisionMismatch { expected: summary.revision, found: answer.revision });
    }
    match (summary.status, &interrupt.resumed_by) {
        (InterruptStatus::Consumed, Some(resumed_by)) => {
            Err(Refusal::InterruptConsumed { resumed_by: resumed_by.clone() })
        }
        (InterruptStatus::Pending, _) if summary.is_open_at(answer.open.started.timestamp.unix_millis()) => {
            Ok(())
        }
        (InterruptStatus::Pending | InterruptStatus::Expired, _) => Err(Refusal::InterruptExpired),
        (InterruptStatus::Consumed | InterruptStatus::Voided, _) => Err(Refusal::InterruptClosed),
    }
}

/// Whether one more run may be open beside these.
pub(crate) fn check_open_runs(whose: Whose, limit: u64, open: u64) -> Result<(), Refusal> {
    if open < limit { Ok(()) } else { Err(OverQuota::new(whose, Bound::OpenRuns, limit).into()) }
}

/// Whether one more run may be begun at `now`, given when the newest but `limit - 1` was, if it was after
/// `now - START_MILLIS`.
pub(crate) fn check_starts(whose: Whose, limit: u64, nth: Option<i64>, now: i64) -> Result<(), Refusal> {
    let wait = match nth {
        Some(at) => at.saturating_add(START_MILLIS).saturating_sub(now),
        None if limit == 0 => START_MILLIS,
        None => return Ok(()),
    };
    let retry_after = Duration::from_millis(u64::try_from(wait).unwrap_or_default());
    Err(OverQuota { retry_after, ..OverQuota::new(whose, Bound::Starts, limit) }.into())
}

/// The bytes that a run begins with in the count of what is stored.
pub(crate) fn opened_bytes(open: &OpenRun) -> u64 {
    let seed = open.seed.as_ref().map_or(0, |seed| seed.as_str().len());
    (open.request.as_str().len() + seed) as u64
}

/// The bytes that records add to it.
pub(crate) fn record_bytes(records: &[Record]) -> u64 {
    records.iter().map(|record| record.data.as_str().len() as u64).sum()
}

pub(crate) fn check_owner(run: Run, owner: &Owner) -> Result<Run, Refusal> {
    if run.owner == *owner { Ok(run) } else { Err(Refusal::UnknownRun) }
}

pub(crate) fn check_result(bytes: &[u8]) -> Result<(), Refusal> {
    if bytes.len() <= RESULT_BYTES {
        Ok(())
    } else {
        Err(Refusal::ResultTooLarge { bytes: bytes.len(), limit: RESULT_BYTES })
    }
}

/// The proof that R14's transaction is done. The only place in this crate that makes one.
pub(crate) fn receipt(head: &HeadMove) -> CommitReceipt {
    CommitReceipt::issued_by_store(head.revision().value(), head.head_ref.clone())
}

/// Whether a page takes one more record.
pub(crate) fn page_takes(page: &[Record], bytes: &mut usize, record: &Record) -> bool {
    *bytes = bytes.saturating_add(record.stored_len());
    page.is_empty() || *bytes <= PAGE_BYTES
}

/// The code in the payload of a `run.error`.
pub(crate) fn error_code(payload: &Payload) -> Option<Arc<str>> {
    serde_json::from_str::<ErrorCode<'_>>(payload.as_str()).ok().map(|error| Arc::from(error.code))
}

/// Refuses where the content of the run was deleted.
pub(crate) fn not_expired(run: &Run) -> Result<(), Refusal> {
    run.remains().map_or(Ok(()), |remains| Err(Refusal::Expired { remains: Box::new(remains) }))
}

/// What stands where content was that a row cannot be without.
pub(crate) const NO_CONTENT: &str = "{}";

/// The verb that may write `run.finished`.
pub(crate) const COMMIT_FINAL: &str = "commit_final";
/// The verb that may not.
pub(crate) const CLOSE_RUN: &str = "close_run";

const UNCERTAIN: &str = "thread_durability_uncertain";

fn check_tail(tail: &[Record]) -> Result<&Record, Misuse> {
    contiguous(tail)?;
    let (terminal, before) = tail.split_last().ok_or(Misuse::Empty)?;
    if !terminal.event_type.is_terminal() || before.iter().any(|record| record.event_type.is_terminal()) {
        return Err(Misuse::TerminalPlace);
    }
    not_restarted(tail)?;
    Ok(terminal)
}

fn contiguous(records: &[Record]) -> Result<(), Misuse> {
    let mut expected = records.first().ok_or(Misuse::Empty)?.sequence;
    for record in records.iter().skip(1) {
        expected = expected.next().filter(|next| *next == record.sequence).ok_or(Misuse::Gap)?;
    }
    Ok(())
}

fn not_restarted(records: &[Record]) -> Result<(), Misuse> {
    if records.iter().any(|record| record.event_type == EventType::RunStarted) {
        return Err(Misuse::Restarted);
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(terminal: &'a Record) -> Result<T, Misuse> {
    serde_json::from_str(terminal.data.as_str()).map_err(|_| Misuse::Terminal)
}

#[derive(Deserialize)]
struct ErrorCode<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
}

#[derive(Deserialize)]
struct FinishedState<'a> {
    #[serde(borrow)]
    thread_state: Option<NamedHead<'a>>,
}

#[derive(Deserialize)]
struct NamedHead<'a> {
    durable_revision: u64,
    #[serde(borrow)]
    head_ref: Cow<'a, str>,
}
