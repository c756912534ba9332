//! The audit log: who did what and when, one line each, every line holding the hash of the one before.
//!
//! Refuses content: ids, codes and names of ours only. Refuses to forget: a line that cannot be written now is kept
//! and written as soon as it can be, and until then no new run is begun.

mod chain;
mod verify;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_contract::id::{ConversationId, InterruptId, Name, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_store::model::Owner;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::clock;
use crate::metrics::catalogue::register;
use crate::origin::Origin;

pub use chain::{Anchor, GENESIS};
pub use verify::{Broken, Report, files, verify};
pub use writer::OpenError;

use writer::Wanted;

/// Where and how the log is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The directory of `audit.log` and of the files before it.
    pub directory: PathBuf,
    /// The size above which a file is closed and the next one begun.
    pub rotate_at: u64,
}

impl Settings {
    /// The defaults, in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), rotate_at: 64 << 20 }
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// The gateway serves; `config` is the hash of its effective settings.
    GatewayStarted,
    /// It stopped in good order.
    GatewayStopped,
    /// Its settings were changed while it ran.
    ConfigChanged,
    /// A run was opened.
    RunStarted,
    /// A run has its terminal.
    RunEnded,
    /// An interrupt was answered, and the run opened that goes on from it.
    InterruptAnswered,
    /// A run was to be cancelled, or its interrupt taken back.
    CancelAsked,
    /// A conversation's next epoch was begun.
    ConversationCleared,
    /// A conversation was to be deleted.
    ConversationDeleted,
    /// An old run lost its content, as the settings say.
    RunExpired,
    /// A request was refused for what it is or whose.
    AccessRefused,
    /// The end of the file was no whole line when it was opened: it was cut off, and nobody had been told of it.
    TornLine,
    /// So many acts before this line found no room while the log could not be written.
    NotRecorded,
}

impl Action {
    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GatewayStarted => "gateway_started",
            Self::GatewayStopped => "gateway_stopped",
            Self::ConfigChanged => "config_changed",
            Self::RunStarted => "run_started",
            Self::RunEnded => "run_ended",
            Self::InterruptAnswered => "interrupt_answered",
            Self::CancelAsked => "cancel_asked",
            Self::ConversationCleared => "conversation_cleared",
            Self::ConversationDeleted => "conversation_deleted",
            Self::RunExpired => "run_expired",
            Self::AccessRefused => "access_refused",
            Self::TornLine => "torn_line",
            Self::NotRecorded => "not_recorded",
        }
    }
}

/// One act.
#[derive(Clone, Debug)]
pub struct Act {
    at: Timestamp<'static>,
    action: Action,
    origin: Option<Arc<Origin>>,
    words: Vec<(&'static str, String)>,
}

impl Act {
    /// An act of now, by the request that this task works for.
    pub fn new(action: Action) -> Self {
        Self { at: clock::now(), action, origin: Origin::current(), words: Vec::new() }
    }

    /// The same by this request.
    pub fn by(mut self, origin: Option<Arc<Origin>>) -> Self {
        self.origin = origin;
        self
    }

    /// On whose data.
    pub fn owner(self, owner: &Owner) -> Self {
        self.word("subject", owner.as_str())
    }

    /// With which agent.
    pub fn agent(self, agent: &Name<'_>) -> Self {
        self.word("agent", agent.as_str())
    }

    /// In which conversation.
    pub fn conversation(self, id: &ConversationId<'_>) -> Self {
        self.word("conversation_id", id.as_str())
    }

    /// In which run.
    pub fn run(self, id: &RunId<'_>) -> Self {
        self.word("run_id", id.as_str())
    }

    /// On which interrupt.
    pub fn interrupt(self, id: &InterruptId<'_>) -> Self {
        self.word("interrupt_id", id.as_str())
    }

    /// What came of it, in a word of ours.
    pub fn outcome(self, outcome: &str) -> Self {
        self.word("outcome", outcome)
    }

    /// A code.
    pub fn code(self, code: &str) -> Self {
        self.word("code", code)
    }

    /// The hash of the settings.
    pub fn config(self, hash: &str) -> Self {
        self.word("config", hash)
    }

    /// How many it stands for.
    pub fn count(self, count: u64) -> Self {
        self.word("count", &count.to_string())
    }

    fn word(mut self, key: &'static str, value: &str) -> Self {
        self.words.push((key, value.to_owned()));
        self
    }
}

/// The log. Cheap to clone; every clone is the same log. It is closed, all of it written, when the last one is gone.
#[derive(Clone, Debug)]
pub struct Audit {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wanted: std::sync::Mutex<Option<std::sync::mpsc::SyncSender<Wanted>>>,
    thread: std::sync::Mutex<Option<std::thread::JoinHandle<()>>>,
    health: Arc<Health>,
    refusals: std::sync::Mutex<Flood>,
}

/// How the log feels.
#[derive(Debug, Default)]
struct Health {
    failing: AtomicBool,
    records: Gauge,
    lost: Counter,
    failures: Counter,
}

/// Acts that cannot be recorded now.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the audit log cannot be written")]
pub struct Unwritable;

impl Audit {
    /// Opens the log, going on from its last line.
    ///
    /// # Errors
    /// It cannot be read or written, or does not end as a log of ours.
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        let health = Arc::new(Health::default());
        let (wanted, thread) = writer::spawn(settings, Arc::clone(&health))?;
        let shared = Shared {
            wanted: std::sync::Mutex::new(Some(wanted)),
            thread: std::sync::Mutex::new(Some(thread)),
            health,
            refusals: std::sync::Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether acts can be recorded, as far as is known.
    ///
    /// # Errors
    /// The last line could not be written.
    pub fn ready(&self) -> Result<(), Unwritable> {
        if self.shared.health.failing.load(Ordering::Acquire) { Err(Unwritable) } else { Ok(()) }
    }

    /// Records an act, and returns once its line is on the disk.
    ///
    /// # Errors
    /// It is not there yet. It is kept and written later, in order.
    pub async fn record(&self, act: Act) -> Result<(), Unwritable> {
        let (done, written) = tokio::sync::oneshot::channel();
        self.send(Wanted { act, done: Some(done) })?;
        if written.await.unwrap_or(false) { Ok(()) } else { Err(Unwritable) }
    }

    /// Records an act without waiting.
    pub fn note(&self, act: Act) {
        // What does not fit is counted; the next line that does says how many.
        let _ = self.send(Wanted { act, done: None });
    }

    /// Records a refused request; of a flood a hundred a second, and then how many more.
    pub fn refused(&self, act: Act) {
        let second = act.at.unix_millis().div_euclid(1_000);
        let more = {
            let mut flood = self.shared.refusals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            flood.take(second)
        };
        match more {
            Taken::Line { before: 0 } => self.note(act),
            Taken::Line { before } => {
                let sum = Act::new(Action::AccessRefused).by(None).outcome("not_listed").count(before);
                self.note(sum);
                self.note(act);
            }
            Taken::Counted => {}
        }
    }

    /// Writes what is left and closes the log. What is recorded afterwards is lost.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Puts the log's metrics into a registry.
    pub(crate) fn register(&self, into: &mut Registry) {
        let health = &self.shared.health;
        register(into, "causeway_audit_head_sequence", health.records.clone());
        register(into, "causeway_audit_failed_writes_total", health.failures.clone());
        register(into, "causeway_audit_lost_acts_total", health.lost.clone());
    }

    fn send(&self, wanted: Wanted) -> Result<(), Unwritable> {
        let sender = self.shared.wanted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sent = sender.as_ref().is_some_and(|sender| sender.try_send(wanted).is_ok());
        if !sent {
            self.shared.health.lost.inc();
        }
        if sent { Ok(()) } else { Err(Unwritable) }
    }
}

impl Shared {
    fn close(&self) {
        drop(self.wanted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It broke down or it did not: there is nothing more to write.
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

/// Refused requests that get a line of their own in one second.
const LISTED: u64 = 100;

/// What is known of the second that refusals come in.
#[derive(Debug, Default)]
struct Flood {
    second: i64,
    listed: u64,
    counted: u64,
}

/// What becomes of a refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Taken {
    /// It gets a line; so many before it got none.
    Line { before: u64 },
    /// It is counted.
    Counted,
}

impl Flood {
    fn take(&mut self, second: i64) -> Taken {
        if second != self.second {
            *self = Self { second, listed: 0, counted: self.counted };
        }
        if self.listed >= LISTED {
            self.counted += 1;
            return Taken::Counted;
        }
        self.listed += 1;
        Taken::Line { before: std::mem::take(&mut self.counted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_a_hundred_a_second_are_listed_and_the_rest_counted() {
        let mut flood = Flood::default();
        let taken: Vec<Taken> = (0..130).map(|_| flood.take(7)).collect();
        assert_eq!(taken.iter().filter(|one| **one == Taken::Counted).count(), 30);
        assert_eq!(flood.take(8), Taken::Line { before: 30 });
        assert_eq!(flood.take(8), Taken::Line { before: 0 });
    }
}
