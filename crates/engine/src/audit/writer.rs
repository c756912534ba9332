//! The thread that writes the audit log: what waits becomes one write and one sync, then its askers are told.
//!
//! Refuses to leave half a line behind: a write that failed is cut off again before the next try.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::chain::{self, Anchor};
use super::verify::{CURRENT, files};
use super::{Act, Action, Health, Settings};

/// Acts that may wait for the thread, and as many again for the disk.
const WAITING: usize = 16_384;
/// Acts of one write.
const BATCH: usize = 512;
/// The pause between two tries of a write that failed.
const AGAIN: Duration = Duration::from_millis(200);

/// An act to be written.
#[derive(Debug)]
pub(super) struct Wanted {
    pub act: Act,
    /// Told whether it is on the disk.
    pub done: Option<tokio::sync::oneshot::Sender<bool>>,
}

/// Why an audit log cannot be opened.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The system says no.
    #[error("cannot open {path}: {what}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        what: String,
    },
    /// Another gateway writes it.
    #[error("{path} is written by another gateway")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It ends with something else.
    #[error(
        "{path} does not end with a line of an audit log; look at it with `causeway audit verify`, then move it away"
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> OpenError + '_ {
    |error| OpenError::Io { path: path.to_owned(), what: error.to_string() }
}

/// Opens the log and begins to write.
pub(super) fn spawn(
    settings: &Settings,
    health: Arc<Health>,
) -> Result<(SyncSender<Wanted>, JoinHandle<()>), OpenError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&settings.directory);
    made.map_err(io(&settings.directory))?;
    let (writer, torn) = Writer::open(settings.clone(), health)?;
    let (sender, wanted) = sync_channel(WAITING);
    let path = settings.directory.join(CURRENT);
    let thread =
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.serve(torn, &wanted));
    Ok((sender, thread.map_err(io(&path))?))
}

struct Writer {
    settings: Settings,
    health: Arc<Health>,
    file: File,
    /// Bytes of the file that are whole lines.
    length: u64,
    last: Anchor,
}

/// The end of a file that was no whole line.
struct Torn {
    bytes: u64,
    hash: String,
}

impl Writer {
    fn open(settings: Settings, health: Arc<Health>) -> Result<(Self, Option<Torn>), OpenError> {
        let path = settings.directory.join(CURRENT);
        let mut file = open(&path).map_err(io(&path))?;
        if file.try_lock().is_err() {
            return Err(OpenError::Locked { path });
        }
        let end = end_of(&mut file).map_err(io(&path))?;
        let mut last = end.last;
        if last.is_none() {
            // Just begun, or none yet: the chain goes on from the file before.
            let before = files(&settings.directory).map_err(io(&settings.directory))?;
            if let Some(older) = before.iter().rev().find(|older| !older.ends_with(CURRENT)) {
                let mut older_file = File::open(older).map_err(io(older))?;
                last = end_of(&mut older_file).map_err(io(older))?.last;
                if last.is_none() {
                    return Err(OpenError::NotOurs { path: older.clone() });
                }
            }
        }
        let last = match last {
            None => Anchor::genesis(),
            Some(line) => chain::read(&line).map_err(|_| OpenError::NotOurs { path: path.clone() })?.at,
        };
        if end.torn.is_some() {
            file.set_len(end.whole).and_then(|()| file.sync_all()).map_err(io(&path))?;
        }
        let writer = Self { settings, health, file, length: end.whole, last };
        writer.tell();
        Ok((writer, end.torn))
    }

    fn serve(mut self, torn: Option<Torn>, wanted: &Receiver<Wanted>) {
        let mut waiting: Vec<Wanted> = Vec::new();
        if let Some(torn) = torn {
            tracing::warn!(bytes = torn.bytes, "the audit log ended inside a line, which was cut off");
            let act = Act::new(Action::TornLine).count(torn.bytes).code(&torn.hash);
            waiting.push(Wanted { act, done: None });
        }
        tracing::info!(head = %self.last, "audit log opened");
        let mut lost_told = 0;
        loop {
            let failing = self.health.failing.load(Ordering::Acquire);
            let received = match (waiting.is_empty(), failing) {
                (true, _) => wanted.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (false, true) => wanted.recv_timeout(AGAIN),
                (false, false) => wanted.recv_timeout(Duration::ZERO),
            };
            let over = matches!(received, Err(RecvTimeoutError::Disconnected));
            waiting.extend(received.ok());
            while waiting.len() < BATCH
                && let Ok(more) = wanted.try_recv()
            {
                waiting.push(more);
            }
            // During an outage more are taken in, so that whoever waits is told, but not without bound.
            if waiting.len() > WAITING {
                let beyond = waiting.split_off(WAITING);
                self.health.lost.inc_by(beyond.len() as u64);
            }
            let lost = self.health.lost.get();
            if lost > lost_told && !waiting.is_empty() {
                let act = Act::new(Action::NotRecorded).count(lost - lost_told);
                waiting.push(Wanted { act, done: None });
                lost_told = lost;
            }
            match self.write(&waiting) {
                Ok(()) => {
                    self.health.failing.store(false, Ordering::Release);
                    for done in waiting.drain(..).filter_map(|wanted| wanted.done) {
                        let _ = done.send(true); // who no longer waits need not know
                    }
                }
                Err(error) => {
                    self.health.failures.inc();
                    if !self.health.failing.swap(true, Ordering::AcqRel) {
                        tracing::error!(%error, "the audit log cannot be written: no new runs until it can");
                    }
                    for done in waiting.iter_mut().filter_map(|wanted| wanted.done.take()) {
                        let _ = done.send(false);
                    }
                }
            }
            if over {
                if !waiting.is_empty() {
                    tracing::error!(lines = waiting.len(), "these lines of the audit log were never written");
                }
                tracing::info!(head = %self.last, "audit log closed");
                return;
            }
        }
    }

    fn write(&mut self, waiting: &[Wanted]) -> std::io::Result<()> {
        if waiting.is_empty() {
            return Ok(());
        }
        if self.health.failing.load(Ordering::Acquire) {
            self.reopen()?;
        }
        if self.length >= self.settings.rotate_at {
            self.rotate()?;
        }
        let mut last = self.last.clone();
        let mut text = String::new();
        for wanted in waiting {
            let (line, at) = chain::seal(&wanted.act, &last);
            text.push_str(&line);
            last = at;
        }
        if let Err(error) = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data()) {
            // Nobody was told of it, so it is not in the log; where it cannot be cut off, the next try opens anew.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += text.len() as u64;
        self.last = last;
        self.tell();
        Ok(())
    }

    /// The file as it is now, which may be another one than before; it must end where this one did.
    fn reopen(&mut self) -> std::io::Result<()> {
        let path = self.settings.directory.join(CURRENT);
        let mut file = open(&path)?;
        let end = end_of(&mut file)?;
        if end.whole < self.length {
            // Moved away meanwhile: what follows stands in a new file, and the chain goes on.
            tracing::warn!(head = %self.last, "the audit log was moved away; it goes on in a new file");
        }
        self.length = end.whole.min(self.length);
        if file.metadata()?.is_file() {
            file.set_len(self.length)?;
        }
        self.file = file;
        Ok(())
    }

    /// Closes this file under the number of its last line, and begins the next.
    fn rotate(&mut self) -> std::io::Result<()> {
        let path = self.settings.directory.join(CURRENT);
        let name = format!("audit-{:020}.log", self.last.sequence);
        std::fs::rename(&path, self.settings.directory.join(name))?;
        self.file = open(&path)?;
        let _ = self.file.try_lock(); // the directory was ours before
        self.length = 0;
        File::open(&self.settings.directory)?.sync_all()?;
        tracing::info!(head = %self.last, "audit log rotated");
        Ok(())
    }

    fn tell(&self) {
        self.health.records.set(i64::try_from(self.last.sequence).unwrap_or(i64::MAX));
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// How a file ends.
struct End {
    /// Its last whole line, without the line break.
    last: Option<String>,
    /// Bytes up to the end of that line.
    whole: u64,
    torn: Option<Torn>,
}

/// The longest line there can be, with room: ids are bounded.
const LINE: u64 = 64 << 10;

fn end_of(file: &mut File) -> std::io::Result<End> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(End { last: None, whole: 0, torn: None });
    }
    let from = meta.len().saturating_sub(2 * LINE);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (lines, rest) = bytes.split_at(whole);
    let torn = (!rest.is_empty())
        .then(|| Torn { bytes: rest.len() as u64, hash: chain::hex(&Sha256::digest(rest)) });
    let last = lines.strip_suffix(b"\n").map(|lines| {
        let at = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        String::from_utf8_lossy(lines.get(at..).unwrap_or_default()).into_owned()
    });
    Ok(End { last, whole: from + whole as u64, torn })
}
