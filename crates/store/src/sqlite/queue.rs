//! The writer's thread: takes what waits in the queue into one transaction, and answers when it has landed.
//!
//! Refuses to answer early: no caller hears yes before the transaction that holds its write is on the disk. The queue
//! is bounded; a full one makes callers wait. A write that SQLite cannot do takes nobody else's with it: the
//! transaction is rolled back and every write of it tried again alone.

use std::path::Path;

use rusqlite::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Cause, Error, Unavailable};
use crate::failpoint::{self, hit, strikes};
use crate::sqlite::fault::{self, Trouble};
use crate::sqlite::open;
use crate::sqlite::write::Writer;

/// The most writes in one transaction.
const MAX_BATCH: usize = 512;

/// A write that waits, runs and is answered.
pub(crate) trait Job: Send {
    /// Does the work in the current transaction and keeps the answer; may be called again after a rollback.
    ///
    /// # Errors
    /// SQLite failed: the transaction has to be rolled back.
    fn run(&mut self, writer: &mut Writer) -> Result<(), rusqlite::Error>;

    /// Sends the kept answer.
    fn landed(self: Box<Self>);

    /// Sends this error instead.
    fn failed(self: Box<Self>, error: Error);
}

/// A job made of a closure and the channel of its caller.
pub(crate) struct Call<T, W> {
    work: W,
    answer: Option<Result<T, Error>>,
    caller: oneshot::Sender<Result<T, Error>>,
}

impl<T, W> Call<T, W> {
    pub(crate) fn new(work: W) -> (Self, oneshot::Receiver<Result<T, Error>>) {
        let (caller, answered) = oneshot::channel();
        (Self { work, answer: None, caller }, answered)
    }
}

impl<T: Send, W: FnMut(&mut Writer) -> Result<T, Trouble> + Send> Job for Call<T, W> {
    fn run(&mut self, writer: &mut Writer) -> Result<(), rusqlite::Error> {
        self.answer = Some(match (self.work)(writer) {
            Ok(value) => Ok(value),
            Err(Trouble::Answer(error)) => Err(error),
            Err(Trouble::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn landed(self: Box<Self>) {
        let Self { answer, caller, .. } = *self;
        if let Some(answer) = answer {
            // A caller that no longer waits asks for the outcome when it needs it.
            let _ = caller.send(answer);
        }
    }

    fn failed(self: Box<Self>, error: Error) {
        let _ = self.caller.send(Err(error));
    }
}

/// Serves until every sender is gone and the queue is empty.
pub(crate) fn serve(mut writer: Writer, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    while let Some(first) = queue.blocking_recv() {
        let mut jobs = vec![first];
        match transaction(&mut writer, &mut jobs, Some(&mut queue)) {
            Ok(()) => {
                jobs.into_iter().for_each(Job::landed);
                hit(failpoint::TOLD);
            }
            Err(failure) => retry(&mut writer, jobs, failure),
        }
    }
    hit(failpoint::CHECKPOINT);
    // A clean end leaves a file without a log beside it; a failure to do so costs the next start a moment.
    let _ = writer.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
}

enum Failure {
    /// Nothing of the transaction is in the file.
    RolledBack(rusqlite::Error),
    /// It may be, or not.
    Unknown(rusqlite::Error),
}

/// Runs the jobs, and those that come meanwhile, in one transaction.
fn transaction(
    writer: &mut Writer,
    jobs: &mut Vec<Box<dyn Job>>,
    mut queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
) -> Result<(), Failure> {
    hit(failpoint::BEGIN);
    writer.connection.execute_batch("BEGIN IMMEDIATE").map_err(Failure::RolledBack)?;
    let mut at = 0;
    while let Some(job) = jobs.get_mut(at) {
        if let Err(error) = job.run(writer) {
            return Err(roll_back(writer, error));
        }
        hit(failpoint::STATEMENTS);
        at += 1;
        if at == jobs.len() && at < MAX_BATCH {
            jobs.extend(queue.as_mut().and_then(|queue| queue.try_recv().ok()));
        }
    }
    hit(failpoint::COMMIT);
    if strikes(failpoint::DROPPED) {
        return roll_back(writer, disk_full()).into_unknown(writer);
    }
    if strikes(failpoint::REFUSED) {
        return Err(roll_back(writer, disk_full()));
    }
    match writer.connection.execute_batch("COMMIT") {
        Ok(()) => {
            hit(failpoint::COMMITTED);
            if strikes(failpoint::LOST) { Err(Failure::Unknown(disk_full())) } else { Ok(()) }
        }
        // The log was too small for the frames of this transaction: its last one, which makes it valid, is missing.
        Err(error) if fault::unavailable(&error, Path::new("")).cause == Cause::DiskFull => {
            Err(roll_back(writer, error))
        }
        Err(error) => roll_back(writer, error).into_unknown(writer),
    }
}

fn roll_back(writer: &mut Writer, error: rusqlite::Error) -> Failure {
    writer.rolled_back();
    // SQLite may have ended the transaction by itself.
    if !writer.connection.is_autocommit() && writer.connection.execute_batch("ROLLBACK").is_err() {
        reopen(writer);
    }
    Failure::RolledBack(error)
}

impl Failure {
    /// A commit that failed on its way to the disk may have left its frames there; a fresh connection reads what the
    /// file says now, and the next commit is written over them.
    fn into_unknown(self, writer: &mut Writer) -> Result<(), Self> {
        reopen(writer);
        match self {
            Self::RolledBack(error) | Self::Unknown(error) => Err(Self::Unknown(error)),
        }
    }
}

/// The error of an injected fault.
fn disk_full() -> rusqlite::Error {
    let failure =
        rusqlite::ffi::Error { code: ErrorCode::DiskFull, extended_code: rusqlite::ffi::SQLITE_FULL };
    rusqlite::Error::SqliteFailure(failure, None)
}

fn reopen(writer: &mut Writer) {
    // Another file at the path is none of ours; the old connection fails or serves, as long as it lasts.
    if writer.file.check(&writer.dir).is_err() {
        return;
    }
    if let Ok(connection) = open::writer(&writer.dir, writer.max_pages) {
        writer.connection = connection;
    }
}

fn retry(writer: &mut Writer, jobs: Vec<Box<dyn Job>>, failure: Failure) {
    let file = writer.dir.join(open::FILE);
    let error = match failure {
        Failure::Unknown(error) => {
            let trouble = fault::unavailable(&error, &file);
            return jobs.into_iter().for_each(|job| job.failed(Error::Unknown(trouble.clone())));
        }
        Failure::RolledBack(error) => error,
    };
    if jobs.len() == 1 {
        let trouble = fault::unavailable(&error, &file);
        return jobs.into_iter().for_each(|job| job.failed(trouble.clone().into()));
    }
    for job in jobs {
        let mut alone = vec![job];
        match transaction(writer, &mut alone, None) {
            Ok(()) => alone.into_iter().for_each(Job::landed),
            Err(failure) => retry(writer, alone, failure),
        }
    }
}

/// What a caller hears whose job was lost with the thread.
pub(crate) fn closed(dir: &Path) -> Unavailable {
    Unavailable::new(Cause::Closed, dir, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit that fails by itself: a reference to nothing, checked at the end of the transaction only.
    fn dangle(writer: &mut Writer) -> Result<i64, Trouble> {
        writer.connection.execute_batch(
            "PRAGMA defer_foreign_keys = ON;
             INSERT INTO head VALUES (77, 'agent', 1, 'head', 77);",
        )?;
        count(writer)
    }

    fn count(writer: &mut Writer) -> Result<i64, Trouble> {
        Ok(writer.connection.query_row("SELECT count(*) FROM head", [], |row| row.get(0))?)
    }

    #[test]
    fn a_commit_that_fails_is_unknown_to_its_callers_and_the_next_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let connection = open::writer(dir.path(), None).unwrap();
        let file = open::Identity::of(dir.path()).unwrap();
        let writer = Writer::new(connection, file, dir.path().to_owned(), None, 0);
        let (queue, jobs) = mpsc::channel::<Box<dyn Job>>(8);
        let (lost, lost_answer) = Call::new(dangle);
        let (bystander, bystander_answer) = Call::new(count);
        queue.try_send(Box::new(lost)).ok().unwrap();
        queue.try_send(Box::new(bystander)).ok().unwrap();
        let thread = std::thread::spawn(move || serve(writer, jobs));
        let unknown = |answer: Result<i64, Error>| matches!(answer, Err(Error::Unknown(_)));
        assert!(unknown(lost_answer.blocking_recv().unwrap()));
        assert!(unknown(bystander_answer.blocking_recv().unwrap()), "it shared the transaction");
        let (next, next_answer) = Call::new(count);
        queue.try_send(Box::new(next)).ok().unwrap();
        assert_eq!(next_answer.blocking_recv().unwrap(), Ok(0));
        drop(queue);
        thread.join().unwrap();
    }
}
