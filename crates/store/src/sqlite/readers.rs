//! The readers: a few threads with a connection each, so that a long read holds up neither the writer nor the caller's
//! runtime.
//!
//! Refuses nothing by itself; its queue is bounded, and a full one makes callers wait.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Unavailable};
use crate::sqlite::fault::Trouble;
use crate::sqlite::{fault, open, queue, read};

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Reads that wait for each reader at most.
const QUEUE: usize = 64;

/// The threads' one handle.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: mpsc::Sender<Job>,
    dir: PathBuf,
}

impl Readers {
    /// Starts `count` readers.
    ///
    /// # Errors
    /// As opening the file for reading.
    pub(crate) fn start(dir: PathBuf, count: usize) -> Result<(Self, Vec<JoinHandle<()>>), Unavailable> {
        let count = count.max(1);
        let (queue, jobs) = mpsc::channel(QUEUE.saturating_mul(count));
        let jobs = Arc::new(Mutex::new(jobs));
        let mut threads = Vec::new();
        for number in 0..count {
            let (connection, jobs) = (open::reader(&dir)?, Arc::clone(&jobs));
            let thread =
                Builder::new().name(format!("store-read-{number}")).spawn(move || serve(&connection, &jobs));
            threads.push(thread.map_err(|error| fault::io(&error, &dir))?);
        }
        Ok((Self { queue, dir }, threads))
    }

    /// Reads in one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Error> {
        let (caller, answered) = oneshot::channel();
        let file = self.dir.join(open::FILE);
        let job: Job = Box::new(move |connection| {
            let answer = read::snapshot(connection, work).map_err(|trouble| trouble.into_error(&file));
            // Nobody may wait for it any more.
            let _ = caller.send(answer);
        });
        self.queue.send(job).await.map_err(|_| queue::closed(&self.dir))?;
        answered.await.map_err(|_| queue::closed(&self.dir))?
    }
}

fn serve(connection: &Connection, jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // One reader waits for the next job, the others wait for it to have got one.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match job {
            Some(job) => job(connection),
            None => return,
        }
    }
}
