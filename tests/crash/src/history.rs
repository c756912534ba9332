//! What clients asked and were told, in the order in which the rig learnt it: one JSON object a line, only ever appended.
//!
//! Refuses judgement: an answer that did not come is written down as such, and what it means is the checker's business.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line. `op` ties what was asked to what was told.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A client asks for a run.
    Start { op: u64, agent: String, conversation: String, message: String, key: Option<String> },
    /// It was accepted.
    Started { op: u64, run_id: String },
    /// A client answers an interrupt.
    Answer {
        op: u64,
        run_id: String,
        interrupt_id: String,
        revision: u64,
        key: Option<String>,
        answer: Value,
    },
    /// The answer was accepted; `run_id` is the run that it began.
    Answered { op: u64, run_id: String },
    /// A client cancels a run.
    Cancel { op: u64, run_id: String },
    /// It was told what came of it.
    Cancelled { op: u64, cancelled: bool, voided: bool },
    /// A client clears a conversation.
    Clear { op: u64, conversation: String },
    /// It is cleared, and this is its epoch.
    Cleared { op: u64, epoch: u64 },
    /// A client deletes a conversation.
    Delete { op: u64, conversation: String },
    /// It is deleted.
    Deleted { op: u64 },
    /// The request was refused.
    Refused { op: u64, status: u16, code: String },
    /// No answer came, or not the whole of it.
    Lost { op: u64 },
    /// A client follows a run, from behind the event `after`.
    Follow { op: u64, run_id: String, protocol: String, after: Option<u64> },
    /// It received the frames of one event.
    Frames { op: u64, number: u64, bytes: String },
    /// It received this much of a stream without numbers, in whole frames: that of the request `op` that began the run.
    Body { op: u64, protocol: String, bytes: String },
    /// Its stream ended in good order.
    Ended { op: u64 },
    /// A gateway is gone; `point` is the failpoint it died at, if it was one.
    Killed { point: Option<String> },
    /// A gateway of several is gone, and these runs were its own: it was `at` milliseconds after the history began.
    Orphaned { gateway: usize, at: u64, runs: Vec<String> },
    /// One of those runs has ended.
    Closed { at: u64, run_id: String },
    /// The database that gateways share was away.
    Away { from: u64, until: u64 },
    /// A gateway serves again, and these are the workers of former ones that still run.
    Ready { workers: Vec<u32> },
}

/// A history that is being written.
#[derive(Debug)]
pub struct History {
    file: Mutex<File>,
}

impl History {
    /// Begins or goes on with a history.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: Mutex::new(file.with_context(|| path.display().to_string())?) })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&self, entry: &Entry) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        Ok(self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)?)
    }
}

/// Reads a history.
///
/// # Errors
/// A line that is none of ours.
pub fn read(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut entries = Vec::new();
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let entry = serde_json::from_str(&line?);
        entries.push(entry.with_context(|| format!("{}: line {}", path.display(), at + 1))?);
    }
    Ok(entries)
}
