//! One turn with a worker of protocol 1: the request out, checked lines in.
//!
//! Refuses a line that breaks the protocol, whatever it says: another run's, a second `begin`, a chunk before it, a
//! line that cannot be read. The turn fails then and the worker is killed; what a line means is the adapter's business.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_adapter::worker::{Op, WorkerLine};

use super::pool::Pool;
use super::request;
use super::running::{Play, Told};
use super::talk::{Manners, Step};
use crate::failpoint::{self, hit};
use crate::failure::Failure;
use crate::harness::{Turn, TurnEnd, TurnInput};

/// How long a worker may leave a `forget` in its pipe, which may as well be sent after a later run.
const TAKES_FORGET: Duration = Duration::from_secs(2);

/// Plays a turn with a worker of its conversation.
pub(super) async fn play(mut play: Play) -> TurnEnd {
    let Some(request) = request::turn(&play.turn) else {
        play.log(&"the request does not fit into a line of the protocol");
        return TurnEnd::Failed(Failure::RequestRefused);
    };
    let plain = request::turn(&Turn { tools: None, ..play.turn.clone() }).unwrap_or_else(|| request.clone());
    let (turn, told) = (play.turn.clone(), Arc::clone(&play.told));
    let mut may_be_kept = true;
    let (end, left) = loop {
        let found = play.process(|pool, turn| async move {
            let found = if may_be_kept { pool.acquire(&turn).await } else { pool.replacement(&turn).await };
            found.map_err(|error| (error.failure(), error.to_string()))
        });
        let worker = match found.await {
            Ok(worker) => worker,
            Err(end) => return end,
        };
        let was_kept = worker.served;
        // Nothing is offered to a worker that would not know what it is.
        let offered = turn.tools.is_some() && worker.asks;
        let request = if offered { request.clone() } else { plain.clone() };
        let manners = Protocol { turn: &turn, told: &told, offered, begun: false };
        let (end, Protocol { begun, .. }, left) = play.talk(worker, manners, request).await;
        // It was dying when it was taken. It began nothing (worker protocol, rule 1), so another one may.
        may_be_kept = false;
        if !(was_kept && !begun && matches!(end, TurnEnd::Broken)) {
            break (end, left);
        }
    };
    let Some(mut worker) = left else { return end };
    if worker.forgets && !turn.forget.is_empty() {
        hit(failpoint::FORGET);
        match worker.stdin.write(&request::forget(&turn), TAKES_FORGET).await {
            Ok(()) => {
                hit(failpoint::FORGET_DONE);
                told.forgot.store(true, Ordering::SeqCst);
            }
            Err(error) => {
                play.log(&format_args!("it does not take a forget: {error}"));
                worker.kill().await; // half a line may be in its pipe
                return end;
            }
        }
    }
    play.pool.release(&turn, worker);
    end
}

/// Tells a worker of the conversation, which is started for this if there is none, to forget threads; then lets it go.
pub(super) async fn forget(pool: &Arc<Pool>, turn: &Turn) -> bool {
    let mut worker = match pool.acquire(turn).await {
        Ok(worker) => worker,
        Err(error) => {
            tracing::warn!(agent = %pool.demand.agent_id, "worker: nothing was forgotten: {error}");
            return false;
        }
    };
    let told = worker.forgets && worker.stdin.write(&request::forget(turn), TAKES_FORGET).await.is_ok();
    pool.dismiss(turn, worker).await;
    told
}

/// Worker protocol 1, in one turn.
struct Protocol<'a> {
    turn: &'a Turn,
    told: &'a Told,
    /// Whether it was offered tools.
    offered: bool,
    begun: bool,
}

impl Manners for Protocol<'_> {
    fn cancel(&mut self) -> Vec<u8> {
        request::cancel(self.turn)
    }

    fn judge(&mut self, line: Vec<u8>) -> Step {
        let run_id = self.turn.run_id.as_str();
        let Ok(parsed) = WorkerLine::parse(&line) else {
            return Step::kill(
                Failure::OutputMalformed,
                "it wrote something that is no line of the protocol",
            );
        };
        if let WorkerLine::Error { run_id: None, .. } = &parsed {
            return if self.begun {
                Step::Ignore // closes nothing
            } else {
                Step::kill(Failure::RequestRefused, "it could not read its request")
            };
        }
        if parsed.run_id() != Some(run_id) {
            return Step::kill(Failure::OutputMalformed, "it wrote a line that does not belong to the run");
        }
        match parsed {
            WorkerLine::Hello(_) => Step::kill(Failure::OutputMalformed, "it said hello twice"),
            WorkerLine::Begin { op, .. } => {
                if self.begun || op != self.op() {
                    return Step::kill(Failure::OutputMalformed, "it began something it was not asked for");
                }
                self.begun = true;
                Step::Pass(line)
            }
            WorkerLine::Chunk { .. } | WorkerLine::Tool(_) | WorkerLine::End { .. } if !self.begun => {
                Step::kill(Failure::OutputMalformed, "it went on with a turn that it had not begun")
            }
            WorkerLine::Chunk { .. } => Step::Pass(line),
            WorkerLine::Tool(_) if !self.offered => {
                Step::kill(Failure::OutputMalformed, "it asked for a tool that nobody offered")
            }
            WorkerLine::Tool(call) => Step::Ask(call),
            WorkerLine::End { .. } | WorkerLine::Cancelled { .. } => Step::Close(line),
            WorkerLine::Error { error_type, .. } => {
                if let Some(name) = identifier(&error_type) {
                    let _ = self.told.error_type.set(name); // the first is the one that closed the turn
                }
                match error_type.as_str() {
                    "busy" => {
                        Step::kill(Failure::RequestRefused, "it says that it is busy, and it should not be")
                    }
                    "bad_request" => Step::refused(Failure::RequestRefused),
                    "unknown_head" => Step::refused(Failure::StateLost),
                    "line_too_long" => Step::refused(Failure::OutputOversized),
                    _exception => Step::Close(line),
                }
            }
        }
    }
}

impl Protocol<'_> {
    fn op(&self) -> Op {
        match self.turn.input {
            TurnInput::Message { .. } => Op::Run,
            TurnInput::Resume(_) => Op::Resume,
        }
    }
}

/// The name of an error if it is one, and not a sentence that may hold anything.
fn identifier(error_type: &str) -> Option<String> {
    let is_name = error_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    (is_name && !error_type.is_empty()).then(|| error_type.chars().take(64).collect())
}
