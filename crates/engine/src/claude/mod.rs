//! The driver of `claude-agent-sdk`: a harness is a process of the Claude Code CLI that speaks stream-json on its pipes.
//!
//! Refuses translation (the adapter reads the same lines) and repetition: what a process that is gone was asked to
//! permit is never answered to another one, which would have to ask the model again.
//!
//! ```text
//!            spawn, initialize            user line                `result`
//!   (none) ───────────────────▶ process ───────────▶ a turn has it ─────────▶ idle, at a head
//!                                                        │    ▲                 │ the next turn begins elsewhere: killed,
//!                                     all it may ask was │    │ control         ▼ a new process resumes at the base
//!                                     asked, all said    ▼    │ responses     (none)
//!                                                      waits for answers ──▶ it died, or made room: the answer is lost
//! ```
//! | the turn | the process |
//! |---|---|
//! | a message; the idle process stands at the base | that one |
//! | a message; anything else | a new one, `--resume SESSION --resume-session-at ENTRY --fork-session`: what came after the base stays in a session that nobody reads again |
//! | an answer; the process waits for it and stands at the base | that one |
//! | an answer; anything else | none: [`Failure::AnswerLost`](crate::failure::Failure::AnswerLost) |
//!
//! A process whose turn left no exact head (it failed before it said anything) is let go: it holds words of a run that
//! was never committed. Groups, records, room, idle ones and their end are those of [`crate::process`].

mod speech;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::config::ProcessConfig;
use crate::harness::{Harness, Session, Turn};
use crate::process::pool::Pool;
use crate::process::running::Running;
use crate::process::{CommandFault, Demand};

/// Runs the turns of one agent in processes of the CLI.
#[derive(Debug)]
pub struct Claude {
    pool: Arc<Pool>,
    cancel_grace: Duration,
}

impl Claude {
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
        Ok(Self { pool: Pool::open(demand, config, data_dir.into())?, cancel_grace })
    }

    /// Processes that exist now: starting, at work, idle, waiting for answers or about to leave.
    pub fn workers(&self) -> usize {
        self.pool.workers()
    }
}

#[async_trait]
impl Harness for Claude {
    async fn reap(&self) -> Result<(), String> {
        self.pool.reap().await
    }

    fn begin(&self, turn: Turn) -> Box<dyn Session> {
        Box::new(Running::begin(Arc::clone(&self.pool), turn, turn::play))
    }

    fn has_room(&self) -> bool {
        self.pool.has_room()
    }

    fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    /// The CLI keeps its sessions as it is configured to; only the process of the conversation is let go.
    async fn forget(&self, turn: Turn) -> bool {
        if let Some(worker) = self.pool.kept(&turn).await {
            self.pool.farewell(worker);
        }
        false
    }

    async fn shutdown(&self, grace: Duration) {
        self.pool.shutdown(grace).await;
    }
}
