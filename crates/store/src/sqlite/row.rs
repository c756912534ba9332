//! From columns to types and back.
//!
//! Refuses a stored value that this code could not have written: the file is damaged then.

use std::sync::Arc;

use causeway_contract::event::{InterruptReason, Sequence};
use causeway_contract::id::{ConversationId, HarnessId, InterruptId, Name, Reference, RunId};
use causeway_contract::text::Str;
use causeway_contract::timestamp::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::model::{Epoch, Generation, InterruptStatus, Owner, Revision, Status, Thread};
use crate::record::{Payload, Record};
use crate::sqlite::fault::{Trouble, damaged};
use crate::sqlite::schema;

/// Reads the columns of a row from left to right.
pub(crate) struct Columns<'r, 's> {
    row: &'r Row<'s>,
    at: usize,
}

impl<'r, 's> Columns<'r, 's> {
    pub(crate) fn new(row: &'r Row<'s>) -> Self {
        Self { row, at: 0 }
    }

    fn value(&mut self) -> Result<ValueRef<'r>, Trouble> {
        let value = self.row.get_ref(self.at)?;
        self.at += 1;
        Ok(value)
    }

    pub(crate) fn text(&mut self) -> Result<&'r str, Trouble> {
        Ok(self.value()?.as_str()?)
    }

    pub(crate) fn text_or_null(&mut self) -> Result<Option<&'r str>, Trouble> {
        Ok(self.value()?.as_str_or_null()?)
    }

    pub(crate) fn blob(&mut self) -> Result<&'r [u8], Trouble> {
        Ok(self.value()?.as_blob()?)
    }

    pub(crate) fn int(&mut self) -> Result<i64, Trouble> {
        Ok(self.value()?.as_i64()?)
    }

    pub(crate) fn int_or_null(&mut self) -> Result<Option<i64>, Trouble> {
        Ok(self.value()?.as_i64_or_null()?)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Trouble> {
        u64::try_from(self.int()?).map_err(|_| damaged())
    }

    pub(crate) fn owner(&mut self) -> Result<Owner, Trouble> {
        Ok(Owner::new(self.text()?))
    }

    pub(crate) fn run_id(&mut self) -> Result<RunId<'static>, Trouble> {
        run_id(self.text()?)
    }

    pub(crate) fn run_id_or_null(&mut self) -> Result<Option<RunId<'static>>, Trouble> {
        self.text_or_null()?.map(run_id).transpose()
    }

    pub(crate) fn conversation_id(&mut self) -> Result<ConversationId<'static>, Trouble> {
        ConversationId::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| damaged())
    }

    pub(crate) fn name(&mut self) -> Result<Name<'static>, Trouble> {
        Name::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| damaged())
    }

    pub(crate) fn harness_id(&mut self) -> Result<HarnessId<'static>, Trouble> {
        HarnessId::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| damaged())
    }

    pub(crate) fn interrupt_id(&mut self) -> Result<InterruptId<'static>, Trouble> {
        InterruptId::bounded(Arc::from(self.text()?), usize::MAX).map_err(|_| damaged())
    }

    pub(crate) fn reference(&mut self) -> Result<Reference<'static>, Trouble> {
        reference(self.text()?)
    }

    pub(crate) fn reference_or_null(&mut self) -> Result<Option<Reference<'static>>, Trouble> {
        self.text_or_null()?.map(reference).transpose()
    }

    pub(crate) fn shared_or_null(&mut self) -> Result<Option<Arc<str>>, Trouble> {
        Ok(self.text_or_null()?.map(Arc::from))
    }

    pub(crate) fn payload(&mut self) -> Result<Payload, Trouble> {
        Ok(Payload::from(self.text()?))
    }

    pub(crate) fn payload_or_null(&mut self) -> Result<Option<Payload>, Trouble> {
        Ok(self.text_or_null()?.map(Payload::from))
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp<'static>, Trouble> {
        timestamp(self.text()?)
    }

    pub(crate) fn timestamp_or_null(&mut self) -> Result<Option<Timestamp<'static>>, Trouble> {
        self.text_or_null()?.map(timestamp).transpose()
    }

    pub(crate) fn sequence(&mut self) -> Result<Sequence, Trouble> {
        Sequence::new(self.number()?).ok_or_else(damaged)
    }

    pub(crate) fn generation(&mut self) -> Result<Generation, Trouble> {
        Ok(Generation::new(self.number()?))
    }

    pub(crate) fn revision(&mut self) -> Result<Revision, Trouble> {
        Ok(Revision::new(self.number()?))
    }

    pub(crate) fn epoch(&mut self) -> Result<Epoch, Trouble> {
        Ok(Epoch::new(self.number()?))
    }

    pub(crate) fn status(&mut self) -> Result<Status, Trouble> {
        listed(Status::ALL, self.int()?)
    }

    pub(crate) fn thread(&mut self) -> Result<Thread, Trouble> {
        listed(&THREADS, self.int()?)
    }

    pub(crate) fn interrupt_status(&mut self) -> Result<InterruptStatus, Trouble> {
        listed(InterruptStatus::ALL, self.int()?)
    }

    pub(crate) fn reason(&mut self) -> Result<InterruptReason, Trouble> {
        listed(InterruptReason::ALL, self.int()?)
    }

    /// The columns `sequence, type, timestamp, namespace, data` of the log.
    pub(crate) fn record(&mut self) -> Result<Record, Trouble> {
        let sequence = self.sequence()?;
        let event_type = schema::numbered_type(self.int()?).ok_or_else(damaged)?;
        let timestamp = self.timestamp()?;
        let namespace = self.text_or_null()?.map_or(Str::Borrowed(ROOT), |path| Str::Shared(Arc::from(path)));
        Ok(Record { sequence, timestamp, event_type, namespace, data: self.payload()? })
    }
}

/// The root namespace, which the log stores as null.
pub(crate) const ROOT: &str = "[]";

const THREADS: [Thread; 2] = [Thread::Durable, Thread::Ephemeral];

/// The number that stands for a status in the file: its place in the list.
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

/// A count as SQLite stores it. Our counts start at 0 or 1 and go up by one: none comes near the end.
pub(crate) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn timestamp(text: &str) -> Result<Timestamp<'static>, Trouble> {
    Timestamp::parse(text).map(Timestamp::into_owned).map_err(|_| damaged())
}

fn run_id(text: &str) -> Result<RunId<'static>, Trouble> {
    RunId::bounded(Arc::from(text), usize::MAX).map_err(|_| damaged())
}

fn reference(text: &str) -> Result<Reference<'static>, Trouble> {
    Reference::bounded(Arc::from(text), usize::MAX).map_err(|_| damaged())
}

fn place<T: Copy + PartialEq>(list: &[T], value: T) -> i64 {
    list.iter().position(|listed| *listed == value).and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

fn listed<T: Copy>(list: &[T], number: i64) -> Result<T, Trouble> {
    usize::try_from(number).ok().and_then(|at| list.get(at)).copied().ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

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
