//! The driver `process`: a harness is a process that speaks worker protocol 1 on its pipes, or, for the one harness that
//! has words of its own, those.
//!
//! Refuses translation (the adapter reads what a worker wrote), and refuses to believe a worker: every line is
//! bounded and checked, every wait has an end, and a process group that broke a rule is killed.
//!
//! ```text
//!             spawn, hello                request                 closing line
//!   (none) ───────────────▶ Worker (up) ───────────▶ a turn has it ───────────▶ idle ──▶ next turn of its conversation
//!      │                        │                        │                       │
//!      └─ pid file before use   └─ no hello: killed      ├─ stop, broken rule:   ├─ idle_exit, room needed: asked
//!                                                        │  the group is killed  │  to leave, then killed
//!                                                        └─ died: closed         └─ died or spoke: killed
//! ```
//! Out of reach: a child that a worker puts into a process group of its own. It loses its pipes, not its life.
//!
//! What is protocol 1 stands in `turn` and `request`; the other language in `claude`.
//!
//! Whoever holds a `Worker` owns its process; dropping it kills the group. At any moment one place holds it:
//! a turn, an idle watch, or a farewell.

mod admission;
mod command;
mod desk;
mod erase;
pub(crate) mod lines;
pub(crate) mod pool;
mod proc;
mod record;
pub(crate) mod request;
pub(crate) mod running;
pub(crate) mod talk;
mod turn;
pub(crate) mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use causeway_adapter::registry::stream_json;
use causeway_contract::id::ConversationId;
use causeway_store::model::{DeletedRun, Owner};

use crate::claude;
use crate::config::ProcessConfig;
use crate::harness::{Ask, Claim, Harness, NoRoom, Session, Turn, Workers};

pub use command::Fault as CommandFault;
pub(crate) use command::{clean as clean_command, file_name, workers_dir};
pub use record::ReapError;
pub(crate) use record::{Record, kill_group, make_dir};

use self::admission::Turned;
use self::pool::Pool;
use self::running::Running;

/// Runs the turns of one agent in worker processes.
#[derive(Debug)]
pub struct Process {
    pool: Arc<Pool>,
    speaks: Speaks,
    cancel_grace: Duration,
}

/// Ends what an earlier gateway left running, whichever agent's.
pub(crate) async fn reap(data_dir: &Path) -> Result<(), ReapError> {
    let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf());
    record::reap(&workers_dir(&data_dir)).await
}

/// What a process speaks: its harness says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Speaks {
    /// Worker protocol 1.
    Protocol,
    /// The stream-json of the Claude Code CLI.
    StreamJson,
}

/// What a worker has to be, besides one that speaks the protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Demand {
    /// The agent, for placeholders, files and logs.
    pub agent_id: String,
    /// The harness that its `hello` must name.
    pub harness_id: String,
    /// Whether it must be able to start from an earlier state: so for durable agents.
    pub restore: bool,
}

impl Process {
    /// A driver for one agent. Starts nothing yet.
    ///
    /// # Errors
    /// A command that cannot be right: empty, or with a placeholder that does not exist or does not fit the scope.
    pub fn new(
        demand: Demand,
        config: ProcessConfig,
        data_dir: impl Into<PathBuf>,
    ) -> Result<Self, CommandFault> {
        let cancel_grace = config.cancel_grace;
        let speaks = match demand.harness_id.as_str() {
            stream_json::HARNESS => Speaks::StreamJson,
            _other => Speaks::Protocol,
        };
        Ok(Self { pool: Pool::open(demand, config, data_dir.into())?, speaks, cancel_grace })
    }

    /// Processes that exist now: starting, at work, idle or about to leave.
    pub fn workers(&self) -> usize {
        self.pool.workers()
    }
}

#[async_trait]
impl Harness for Process {
    async fn reap(&self) -> Result<(), String> {
        self.pool.reap().await
    }

    fn begin(&self, turn: Turn) -> Box<dyn Session> {
        let pool = Arc::clone(&self.pool);
        Box::new(match self.speaks {
            Speaks::Protocol => Running::begin(pool, turn, turn::play),
            Speaks::StreamJson => Running::begin(pool, turn, claude::play),
        })
    }

    fn admit(&self, ask: &Ask<'_>) -> Result<Claim, NoRoom> {
        self.pool.admit(ask).map_err(|turned| match turned {
            Turned::Unavailable { retry_after } => NoRoom::Unavailable { retry_after },
            Turned::Full | Turned::Late | Turned::Closing => NoRoom::Busy,
        })
    }

    fn workers(&self) -> Workers {
        self.pool.count()
    }

    fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    async fn forget(&self, turn: Turn) -> bool {
        match self.speaks {
            Speaks::Protocol => turn::forget(&self.pool, &turn).await,
            Speaks::StreamJson => claude::forget(&self.pool, &turn).await,
        }
    }

    async fn erase(&self, owner: &Owner, conversation_id: &ConversationId<'_>, runs: &[DeletedRun]) -> bool {
        erase::erase(&self.pool, owner, conversation_id, runs).await
    }

    fn retire(&self) {
        self.pool.retire();
    }

    async fn shutdown(&self, grace: Duration) {
        self.pool.shutdown(grace).await;
    }
}
