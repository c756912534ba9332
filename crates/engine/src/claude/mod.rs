//! What [`crate::process`] speaks with `claude-agent-sdk`: a process of the Claude Code CLI, in stream-json on its pipes.
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
//! was never committed. Groups, records, room, idle ones and their end are those of every process.

mod speech;
mod turn;

use std::sync::Arc;

use crate::harness::Turn;
use crate::process::pool::Pool;

pub(crate) use turn::play;

/// The CLI keeps its sessions as it is configured to; only the process of the conversation is let go.
pub(crate) async fn forget(pool: &Arc<Pool>, turn: &Turn) -> bool {
    if let Some(worker) = pool.kept(turn).await {
        pool.farewell(worker);
    }
    false
}
