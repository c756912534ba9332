//! What the engine is told about itself and about every agent.
//!
//! Refuses to read files or environment: whoever embeds the engine fills these structs. Secrets are not printed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::Name;
use causeway_contract::limits::Limits;
pub use causeway_lifecycle::Thread;

use crate::audit;
use crate::gate::Tool;
use crate::harness::Harness;
use crate::http::config as http;
use crate::quota::{Bounds, Quotas};
use crate::schema::Schemas;
use crate::trace;

/// What the engine is told about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Where worker state lives; made when a worker needs it.
    pub data_dir: PathBuf,
    /// How long a write is tried again while the store says that it cannot, before the run is left to recovery.
    pub store_patience: Duration,
    /// How long a run that lost its store waits between two tries to give it its terminal.
    pub repair_interval: Duration,
    /// Events that may wait for the store before the harness is no longer read.
    pub max_unwritten_events: usize,
    /// The same in bytes.
    pub max_unwritten_bytes: usize,
    /// Events of an active run that are kept in memory for its readers; older ones are read from the store.
    pub tail_events: usize,
    /// The same in bytes.
    pub tail_bytes: usize,
    /// What each owner may take up.
    pub quotas: Quotas,
    /// Where who did what is recorded, if it is.
    pub audit: Option<audit::Settings>,
    /// Where traces are sent, if they are.
    pub trace: Option<trace::Settings>,
    /// How long runs are kept, and how.
    pub retention: Retention,
}

/// How long runs that have ended are kept, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Retention {
    /// The age from which on a run is packed; its replay stays the same.
    pub pack_after: Duration,
    /// The age from which on a run has no content any more, only a summary; never where absent.
    pub delete_after: Option<Duration>,
    /// How often it is looked for what is due.
    pub interval: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            pack_after: Duration::from_secs(24 * 60 * 60),
            delete_after: None,
            interval: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// The defaults, with worker state under `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            store_patience: Duration::from_secs(5),
            repair_interval: Duration::from_secs(1),
            max_unwritten_events: 512,
            max_unwritten_bytes: 1 << 20,
            tail_events: 256,
            tail_bytes: 128 << 10,
            quotas: Quotas::default(),
            audit: None,
            trace: None,
            retention: Retention::default(),
        }
    }
}

/// One agent: a harness, how it is driven, and the bounds of its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The id that requests name.
    pub id: Name<'static>,
    /// The display name that interrupts show; the id where absent.
    pub name: Option<Name<'static>>,
    /// The harness, canonical name or alias, as the adapter registry knows it.
    pub harness: String,
    /// Whether the conversation's state outlives a run (R13).
    pub thread: Thread,
    /// The longest a run may be active.
    pub deadline: Duration,
    /// The longest a harness may be silent.
    pub idle_timeout: Duration,
    /// What happens to a run whose client goes away.
    pub on_disconnect: OnDisconnect,
    /// Yield the pieces of streamed tool arguments.
    pub stream_arguments: bool,
    /// Remove terminal escape sequences from content.
    pub strip_escapes: bool,
    /// Replace known shapes of secrets in tool arguments and results.
    pub redact_content: bool,
    /// Whether a start may carry files for the harness.
    pub allow_files: bool,
    /// How long an interrupt may be answered; `None` is for ever.
    pub interrupt_expiry: Option<Duration>,
    /// The bounds of a run's events.
    pub limits: Limits,
    /// What its runs may take up, whoever calls it.
    pub quotas: Bounds,
    /// The schemas of tools, where they are declared: edited arguments must satisfy them, and streamed ones too.
    pub schemas: Schemas,
    /// The tools that the engine runs for the worker, by name; each has a schema.
    pub tools: BTreeMap<String, Tool>,
    /// Where the native stream comes from.
    pub driver: Driver,
}

impl AgentConfig {
    /// An agent with the defaults of `causeway.toml`.
    pub fn new(id: Name<'static>, harness: impl Into<String>, driver: Driver) -> Self {
        Self {
            id,
            name: None,
            harness: harness.into(),
            thread: Thread::Durable,
            deadline: Duration::from_secs(15 * 60),
            idle_timeout: Duration::from_secs(5 * 60),
            on_disconnect: OnDisconnect::Continue,
            stream_arguments: false,
            strip_escapes: false,
            redact_content: false,
            allow_files: false,
            interrupt_expiry: None,
            limits: Limits::DEFAULT,
            quotas: Bounds::default(),
            schemas: Schemas::default(),
            tools: BTreeMap::new(),
            driver,
        }
    }
}

/// What happens to a run when the last client that follows it goes away.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Continue,
    /// It is cancelled (`run.cancelled`, reason `disconnect`).
    Cancel,
}

/// Where a native stream comes from.
#[derive(Clone)]
pub enum Driver {
    /// A worker process that speaks worker protocol 1.
    Process(ProcessConfig),
    /// A recorded native stream, played again.
    Recording(RecordingConfig),
    /// An endpoint that answers with the stream of a turn.
    Http(Box<http::Config>),
    /// A harness of the embedder's own.
    Custom(Arc<dyn Harness>),
}

/// Told the same, secrets included; a harness of the embedder's own is the same as itself.
impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Process(one), Self::Process(other)) => one == other,
            (Self::Recording(one), Self::Recording(other)) => one == other,
            (Self::Http(one), Self::Http(other)) => one == other,
            (Self::Custom(one), Self::Custom(other)) => Arc::ptr_eq(one, other),
            (Self::Process(_) | Self::Recording(_) | Self::Http(_) | Self::Custom(_), _) => false,
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => process.fmt(f),
            Self::Recording(recording) => recording.fmt(f),
            Self::Http(http) => http.fmt(f),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// A worker process.
#[derive(Clone, Eq, PartialEq)]
pub struct ProcessConfig {
    /// Program and arguments, with the placeholders `{data_dir} {agent} {conversation} {epoch} {run}`.
    pub command: Vec<String>,
    /// What a worker serves.
    pub scope: Scope,
    /// How long an idle worker is kept.
    pub idle_exit: Duration,
    /// How long a worker may take to say hello.
    pub start_timeout: Duration,
    /// How long a cancelled turn gets before its worker is killed.
    pub cancel_grace: Duration,
    /// Workers of this agent at once.
    pub max_workers: usize,
    /// Turns that may wait for a worker while all are busy; 0: none does.
    pub max_queue: usize,
    /// How long a turn waits for a worker.
    pub queue_timeout: Duration,
    /// Failed starts of workers in a row after which none is tried for [`circuit_open`](Self::circuit_open); 0: the next is always tried.
    pub circuit_failures: u32,
    /// For how long none is tried; then one is, and the others wait for how it ends.
    pub circuit_open: Duration,
    /// What the environment holds besides `PATH`, `HOME` and `LANG`; may hold secrets.
    pub env: BTreeMap<String, String>,
}

impl ProcessConfig {
    /// A worker with the defaults of `causeway.toml`.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            scope: Scope::Conversation,
            idle_exit: Duration::from_secs(5 * 60),
            start_timeout: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            max_workers: 16,
            max_queue: 16,
            queue_timeout: Duration::from_secs(30),
            circuit_failures: 5,
            circuit_open: Duration::from_secs(30),
            env: BTreeMap::new(),
        }
    }
}

/// Names of variables only: values may be secrets.
impl fmt::Debug for ProcessConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessConfig")
            .field("program", &self.command.first())
            .field("scope", &self.scope)
            .field("idle_exit", &self.idle_exit)
            .field("start_timeout", &self.start_timeout)
            .field("cancel_grace", &self.cancel_grace)
            .field("max_workers", &self.max_workers)
            .field("max_queue", &self.max_queue)
            .field("queue_timeout", &self.queue_timeout)
            .field("circuit_failures", &self.circuit_failures)
            .field("circuit_open", &self.circuit_open)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// What a worker serves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scope {
    /// All runs of one conversation (and epoch), one after another.
    #[default]
    Conversation,
    /// One run.
    Run,
}

/// A recorded native stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordingConfig {
    /// The file of native lines.
    pub file: PathBuf,
    /// The pause between two lines.
    pub pace: Pace,
}

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Pace {
    /// As fast as it is read.
    #[default]
    Fast,
    /// One line every so often; the files carry no times of their own.
    Every(Duration),
}

impl Pace {
    /// The pace of `pace = "recorded"`: one line every 50 ms.
    pub const RECORDED: Self = Self::Every(Duration::from_millis(50));
}
