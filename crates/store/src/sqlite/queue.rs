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
use crate::sqlite::fault::Trouble;
use crate::sqlite::trust;
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
        writer.checkpoint_if_due();
    }
    hit(failpoint::CHECKPOINT);
    if !writer.distrusted {
        // A clean end leaves a file without a log beside it; a failure to do so costs the next start a moment.
        let _ = writer.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

enum Failure {
    /// Nothing of the transaction is in the file.
    RolledBack(Unavailable),
    /// It may be, or not.
    Unknown(Unavailable),
}

/// Runs the jobs, and those that come meanwhile, in one transaction.
fn transaction(
    writer: &mut Writer,
    jobs: &mut Vec<Box<dyn Job>>,
    mut queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
) -> Result<(), Failure> {
    hit(failpoint::BEGIN);
    writer.ready().map_err(Failure::RolledBack)?;
    let before = writer.connection.total_changes();
    if let Err(error) = writer.connection.execute_batch("BEGIN IMMEDIATE") {
        return Err(roll_back(writer, &error));
    }
    let mut at = 0;
    while let Some(job) = jobs.get_mut(at) {
        if let Err(error) = job.run(writer) {
            return Err(roll_back(writer, &error));
        }
        hit(failpoint::STATEMENTS);
        at += 1;
        if at == jobs.len() && at < MAX_BATCH {
            jobs.extend(queue.as_mut().and_then(|queue| queue.try_recv().ok()));
        }
    }
    // Looking something up is no write.
    let number = if writer.connection.total_changes() == before {
        Ok(None)
    } else {
        trust::count(&writer.connection).map(Some)
    };
    let number = match number {
        Ok(number) => number,
        Err(error) => return Err(roll_back(writer, &error)),
    };
    hit(failpoint::COMMIT);
    if strikes(failpoint::DROPPED) {
        return Err(unknown(writer, &disk_full()));
    }
    if strikes(failpoint::REFUSED) {
        return Err(roll_back(writer, &disk_full()));
    }
    match writer.connection.execute_batch("COMMIT") {
        Ok(()) => {
            hit(failpoint::COMMITTED);
            if let Some(number) = number {
                writer.mark.acknowledged(number);
            }
            if strikes(failpoint::LOST) {
                return Err(Failure::Unknown(writer.unavailable(&disk_full())));
            }
            Ok(())
        }
        // The log was too small for the frames of this transaction: its last one, which makes it valid, is missing.
        Err(error) if writer.unavailable(&error).cause == Cause::DiskFull => Err(roll_back(writer, &error)),
        Err(error) => Err(unknown(writer, &error)),
    }
}

fn roll_back(writer: &mut Writer, error: &rusqlite::Error) -> Failure {
    writer.rolled_back();
    let trouble = writer.unavailable(error);
    // SQLite may have ended the transaction by itself.
    let stuck = !writer.connection.is_autocommit() && writer.connection.execute_batch("ROLLBACK").is_err();
    if stuck || matches!(trouble.cause, Cause::Io | Cause::Corrupted) {
        writer.distrust(trouble.clone());
    }
    Failure::RolledBack(trouble)
}

/// A commit that failed on its way to the disk may have left its frames there, and a sync that failed may be called a
/// success when it is tried again. So nothing more is written through this connection: a fresh one reads what the file
/// says, and the next commit is written over those frames.
fn unknown(writer: &mut Writer, error: &rusqlite::Error) -> Failure {
    let trouble = writer.unavailable(error);
    writer.distrust(trouble.clone());
    let (Failure::RolledBack(_) | Failure::Unknown(_)) = roll_back(writer, error);
    Failure::Unknown(trouble)
}

/// The error of an injected fault.
fn disk_full() -> rusqlite::Error {
    let failure =
        rusqlite::ffi::Error { code: ErrorCode::DiskFull, extended_code: rusqlite::ffi::SQLITE_FULL };
    rusqlite::Error::SqliteFailure(failure, None)
}

fn retry(writer: &mut Writer, jobs: Vec<Box<dyn Job>>, failure: Failure) {
    let trouble = match failure {
        Failure::Unknown(trouble) => {
            return jobs.into_iter().for_each(|job| job.failed(Error::Unknown(trouble.clone())));
        }
        Failure::RolledBack(trouble) => trouble,
    };
    if jobs.len() == 1 {
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
    use std::sync::Arc;

    use super::*;
    use crate::sqlite::mark::Mark;
    use crate::sqlite::open;

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
        let tuning = open::Tuning { max_pages: None, sync: true, checkpoint_pages: 1000 };
        let mut mark = Mark::open(dir.path()).unwrap();
        let connection = open::writer(dir.path(), tuning, &mut mark).unwrap();
        let file = open::Identity::of(dir.path()).unwrap();
        let place = dir.path().to_owned();
        let mut writer = Writer::new(connection, file, place, tuning, 0, mark, Arc::default()).unwrap();
        writer.begin_instance().unwrap();
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
