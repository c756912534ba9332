//! From columns to types and back, whatever the database.
//!
//! Refuses a stored value that this code could not have written: the data are damaged then.

use std::sync::Arc;

use causeway_contract::event::{EventType, InterruptReason, Sequence};
use causeway_contract::id::{ConversationId, HarnessId, InterruptId, Name, Reference, RunId};
use causeway_contract::text::Str;
use causeway_contract::timestamp::Timestamp;

use crate::model::{
    DeletedRun, Epoch, ExpiredRun, Generation, Interrupt, InterruptStatus, InterruptSummary, Orphan, Owner,
    Revision, Run, StaleThread, Status, Thread, Whose,
};
use crate::record::{Payload, Record};

/// A stored value that this code could not have written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a stored value is not readable")]
pub(crate) struct Damaged;

/// What reading columns answers.
pub(crate) type Cell<T> = Result<T, Damaged>;

/// A row of a database: text, integers and bytes, or null.
pub(crate) trait Cells {
    fn text(&self, at: usize) -> Cell<Option<&str>>;
    fn int(&self, at: usize) -> Cell<Option<i64>>;
    fn blob(&self, at: usize) -> Cell<Option<&[u8]>>;
}

/// Reads the columns of a row from left to right.
pub(crate) struct Columns<'r, R> {
    row: &'r R,
    at: usize,
}

impl<'r, R: Cells> Columns<'r, R> {
    pub(crate) fn new(row: &'r R) -> Self {
        Self { row, at: 0 }
    }

    fn next(&mut self) -> usize {
        let at = self.at;
        self.at += 1;
        at
    }

    /// Leaves a column out.
    #[cfg(feature = "postgres")]
    pub(crate) fn skip(&mut self) {
        self.next();
    }

    pub(crate) fn text(&mut self) -> Cell<&'r str> {
        self.text_or_null()?.ok_or(Damaged)
    }

    pub(crate) fn text_or_null(&mut self) -> Cell<Option<&'r str>> {
        let at = self.next();
        self.row.text(at)
    }

    pub(crate) fn blob(&mut self) -> Cell<&'r [u8]> {
        let at = self.next();
        self.row.blob(at)?.ok_or(Damaged)
    }

    pub(crate) fn int(&mut self) -> Cell<i64> {
        self.int_or_null()?.ok_or(Damaged)
    }

    pub(crate) fn int_or_null(&mut self) -> Cell<Option<i64>> {
        let at = self.next();
        self.row.int(at)
    }

    pub(crate) fn number(&mut self) -> Cell<u64> {
        u64::try_from(self.int()?).map_err(|_| Damaged)
    }

    pub(crate) fn owner(&mut self) -> Cell<Owner> {
        Ok(Owner::new(self.text()?))
    }

    pub(crate) fn run_id(&mut self) -> Cell<RunId<'static>> {
        run_id(self.text()?)
    }

    pub(crate) fn run_id_or_null(&mut self) -> Cell<Option<RunId<'static>>> {
        self.text_or_null()?.map(run_id).transpose()
    }

    pub(crate) fn conversation_id(&mut self) -> Cell<ConversationId<'static>> {
        ConversationId::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| Damaged)
    }

    pub(crate) fn name(&mut self) -> Cell<Name<'static>> {
        Name::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| Damaged)
    }

    pub(crate) fn harness_id(&mut self) -> Cell<HarnessId<'static>> {
        HarnessId::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| Damaged)
    }

    pub(crate) fn interrupt_id(&mut self) -> Cell<InterruptId<'static>> {
        InterruptId::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| Damaged)
    }

    pub(crate) fn reference(&mut self) -> Cell<Reference<'static>> {
        reference(self.text()?)
    }

    pub(crate) fn reference_or_null(&mut self) -> Cell<Option<Reference<'static>>> {
        self.text_or_null()?.map(reference).transpose()
    }

    pub(crate) fn shared_or_null(&mut self) -> Cell<Option<Arc<str>>> {
        Ok(self.text_or_null()?.map(Arc::from))
    }

    pub(crate) fn payload(&mut self) -> Cell<Payload> {
        Ok(Payload::from(self.text()?))
    }

    pub(crate) fn payload_or_null(&mut self) -> Cell<Option<Payload>> {
        Ok(self.text_or_null()?.map(Payload::from))
    }

    pub(crate) fn timestamp(&mut self) -> Cell<Timestamp<'static>> {
        timestamp(self.text()?)
    }

    pub(crate) fn timestamp_or_null(&mut self) -> Cell<Option<Timestamp<'static>>> {
        self.text_or_null()?.map(timestamp).transpose()
    }

    pub(crate) fn sequence(&mut self) -> Cell<Sequence> {
        Sequence::new(self.number()?).ok_or(Damaged)
    }

    pub(crate) fn generation(&mut self) -> Cell<Generation> {
        Ok(Generation::new(self.number()?))
    }

    pub(crate) fn revision(&mut self) -> Cell<Revision> {
        Ok(Revision::new(self.number()?))
    }

    pub(crate) fn epoch(&mut self) -> Cell<Epoch> {
        Ok(Epoch::new(self.number()?))
    }

    pub(crate) fn status(&mut self) -> Cell<Status> {
        listed(Status::ALL, self.int()?)
    }

    pub(crate) fn thread(&mut self) -> Cell<Thread> {
        listed(&THREADS, self.int()?)
    }

    pub(crate) fn interrupt_status(&mut self) -> Cell<InterruptStatus> {
        listed(InterruptStatus::ALL, self.int()?)
    }

    pub(crate) fn reason(&mut self) -> Cell<InterruptReason> {
        listed(InterruptReason::ALL, self.int()?)
    }

    /// The columns `sequence, type, timestamp, namespace, data` of the log.
    pub(crate) fn record(&mut self) -> Cell<Record> {
        let sequence = self.sequence()?;
        let event_type = numbered_type(self.int()?).ok_or(Damaged)?;
        let timestamp = self.timestamp()?;
        let namespace = self.text_or_null()?.map_or(Str::Borrowed(ROOT), |path| Str::Shared(Arc::from(path)));
        Ok(Record { sequence, timestamp, event_type, namespace, data: self.payload()? })
    }

    /// The same, where an outer join may have found none.
    #[cfg(feature = "postgres")]
    pub(crate) fn record_or_null(&mut self) -> Cell<Option<Record>> {
        match self.row.int(self.at)? {
            Some(_) => self.record().map(Some),
            None => Ok(None),
        }
    }

    /// A run's key and everything of [`Run`], in the order of its query.
    pub(crate) fn run(&mut self) -> Cell<(u64, Run)> {
        let key = self.number()?;
        let mut run = Run {
            owner: self.owner()?,
            run_id: self.run_id()?,
            conversation_id: self.conversation_id()?,
            epoch: self.epoch()?,
            agent_id: self.name()?,
            harness_id: self.harness_id()?,
            thread: self.thread()?,
            status: self.status()?,
            generation: self.generation()?,
            created_at: self.timestamp()?,
            ended_at: self.timestamp_or_null()?,
            last_sequence: self.sequence()?,
            request: self.payload()?,
            error: self.payload_or_null()?,
            cause: self.shared_or_null()?,
            interrupt: None,
            resumed_from: self.run_id_or_null()?,
            resumed_by: self.run_id_or_null()?,
            seed: self.payload_or_null()?,
            usage: self.payload_or_null()?,
            worker_thread: self.shared_or_null()?,
            expired_at: self.timestamp_or_null()?,
        };
        if run.status == Status::Interrupted {
            run.interrupt = Some(self.summary()?);
        }
        Ok((key, run))
    }

    fn summary(&mut self) -> Cell<InterruptSummary> {
        Ok(InterruptSummary {
            interrupt_id: self.interrupt_id()?,
            reason: self.reason()?,
            revision: self.revision()?,
            status: self.interrupt_status()?,
            expires_at: self.timestamp_or_null()?,
            decision: self.payload_or_null()?,
        })
    }

    pub(crate) fn interrupt(&mut self) -> Cell<Interrupt> {
        let (owner, run_id, conversation_id) = (self.owner()?, self.run_id()?, self.conversation_id()?);
        let (agent_id, request, snapshot) = (self.name()?, self.payload()?, self.payload()?);
        let (head_ref, resumed_by) = (self.reference()?, self.run_id_or_null()?);
        let summary = self.summary()?;
        Ok(Interrupt {
            owner,
            run_id,
            conversation_id,
            agent_id,
            summary,
            request,
            snapshot,
            head_ref,
            resumed_by,
        })
    }

    pub(crate) fn orphan(&mut self) -> Cell<Orphan> {
        Ok(Orphan {
            owner: self.owner()?,
            run_id: self.run_id()?,
            conversation_id: self.conversation_id()?,
            epoch: self.epoch()?,
            agent_id: self.name()?,
            harness_id: self.harness_id()?,
            thread: self.thread()?,
            last_sequence: self.sequence()?,
            worker_thread: self.shared_or_null()?,
        })
    }

    pub(crate) fn deleted_run(&mut self) -> Cell<DeletedRun> {
        Ok(DeletedRun { run_id: self.run_id()?, agent_id: self.name()?, epoch: self.epoch()? })
    }

    pub(crate) fn expired_run(&mut self) -> Cell<ExpiredRun> {
        let (owner, run_id) = (self.owner()?, self.run_id()?);
        Ok(ExpiredRun { owner, run_id, conversation_id: self.conversation_id()? })
    }

    pub(crate) fn stale_thread(&mut self) -> Cell<StaleThread> {
        let (run_id, agent_id, epoch) = (self.run_id()?, self.name()?, self.epoch()?);
        Ok(StaleThread { run_id, agent_id, epoch, worker_thread: Arc::from(self.text()?) })
    }
}

/// The root namespace, which the log stores as null.
pub(crate) const ROOT: &str = "[]";

const THREADS: [Thread; 2] = [Thread::Durable, Thread::Ephemeral];

/// The number that stands for a status in the database: its place in the list.
pub(crate) fn status_number(status: Status) -> i64 {
    place(Status::ALL, status)
}

/// The number that stands for a kind of thread.
pub(crate) fn thread_number(thread: Thread) -> i64 {
    place(&THREADS, thread)
}

/// The number that stands for an interrupt's status.
pub(crate) fn interrupt_number(status: InterruptStatus) -> i64 {
    place(InterruptStatus::ALL, status)
}

/// The number that stands for an interrupt's reason.
pub(crate) fn reason_number(reason: InterruptReason) -> i64 {
    place(InterruptReason::ALL, reason)
}

/// Where the name of whoever has a quota stands.
pub(crate) fn column_of(whose: Whose) -> &'static str {
    match whose {
        Whose::Owner => "owner",
        Whose::Agent => "agent_id",
    }
}

/// A count as a database stores it. Our counts start at 0 or 1 and go up by one: none comes near the end.
pub(crate) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn timestamp(text: &str) -> Cell<Timestamp<'static>> {
    Timestamp::parse(text).map(Timestamp::into_owned).map_err(|_| Damaged)
}

fn run_id(text: &str) -> Cell<RunId<'static>> {
    RunId::bounded(Arc::from(text), usize::MAX).map_err(|_| Damaged)
}

fn reference(text: &str) -> Cell<Reference<'static>> {
    Reference::bounded(Arc::from(text), usize::MAX).map_err(|_| Damaged)
}

fn place<T: Copy + PartialEq>(list: &[T], value: T) -> i64 {
    list.iter().position(|listed| *listed == value).and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

fn listed<T: Copy>(list: &[T], number: i64) -> Cell<T> {
    usize::try_from(number).ok().and_then(|at| list.get(at)).copied().ok_or(Damaged)
}

/// The number that stands for a type in the log.
pub(crate) fn type_number(event_type: EventType) -> i64 {
    let at = EventType::ALL.iter().position(|known| *known == event_type);
    at.and_then(|at| i64::try_from(at).ok()).unwrap_or(i64::MAX)
}

/// The type that this number stands for.
pub(crate) fn numbered_type(number: i64) -> Option<EventType> {
    usize::try_from(number).ok().and_then(|at| EventType::ALL.get(at)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_event_types_on_disk_never_change() {
        let names: Vec<_> = EventType::ALL.iter().map(|event_type| event_type.as_str()).collect();
        assert_eq!(
            names,
            [
                "run.started",
                "run.finished",
                "run.interrupted",
                "run.cancelled",
                "run.error",
                "text.started",
                "text.delta",
                "text.finished",
                "reasoning.started",
                "reasoning.delta",
                "reasoning.finished",
                "tool.started",
                "tool.arguments.delta",
                "tool.finished",
                "tool.error",
                "interrupt.requested",
                "namespace.entered",
                "namespace.exited",
                "warning",
                "usage.updated",
                "provider.metadata",
            ]
        );
        for event_type in EventType::ALL {
            assert_eq!(numbered_type(type_number(*event_type)), Some(*event_type));
        }
        assert_eq!(type_number(EventType::UsageUpdated), 19, "the index log_usage names it");
    }

    #[test]
    fn the_numbers_of_enums_on_disk_never_change() {
        let numbers: Vec<_> = Status::ALL.iter().map(|s| (status_number(*s), s.as_str())).collect();
        assert_eq!(
            numbers,
            [
                (0, "running"),
                (1, "finished"),
                (2, "interrupted"),
                (3, "cancelled"),
                (4, "error"),
                (5, "uncertain")
            ]
        );
        let numbers: Vec<_> =
            InterruptStatus::ALL.iter().map(|s| (interrupt_number(*s), s.as_str())).collect();
        assert_eq!(numbers, [(0, "pending"), (1, "consumed"), (2, "voided"), (3, "expired")]);
        let numbers: Vec<_> = InterruptReason::ALL.iter().map(|r| (reason_number(*r), r.as_str())).collect();
        assert_eq!(numbers, [(0, "human_input"), (1, "tool_approval")]);
        assert_eq!((thread_number(Thread::Durable), thread_number(Thread::Ephemeral)), (0, 1));
    }
}
