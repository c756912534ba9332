//! One turn with the CLI: the right process, the request out, lines in, until the `result` or until it waits for answers.
//!
//! Refuses to give an answer to a process that did not ask, and a message to one that stands elsewhere.

use std::sync::Arc;
use std::time::Duration;

use causeway_adapter::registry::stream_json::{Seen, Waits, Watch};
use tokio::time::Instant;

use super::speech::{self, StandAt};
use crate::failure::Failure;
use crate::harness::{Turn, TurnEnd, TurnInput};
use crate::process::pool::{NoWorker, Pool};
use crate::process::running::Play;
use crate::process::talk::{Manners, Step};
use crate::process::worker::{Stand, Worker};

/// How long the CLI is quiet before nothing more is asked: once everything open was asked about, and else. Something
/// that is asked later is an interrupt of its own.
const SETTLED: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(1);

/// Plays a turn.
pub(crate) async fn play(mut play: Play) -> TurnEnd {
    let Some(request) = speech::request(&play.turn) else {
        play.log(&"the CLI cannot be told this: it takes no files, and no line above the limit");
        return TurnEnd::Failed(Failure::RequestRefused);
    };
    let worker = match play.process(acquire).await {
        Ok(worker) => worker,
        Err(end) => {
            if matches!(play.turn.input, TurnInput::Resume(_))
                && let Some(worker) = play.pool.kept(&play.turn).await
            {
                worker.kill().await; // cancelled: its answer will never come
            }
            return end;
        }
    };
    let manners = Cli::new(&play.turn, worker.stand.as_ref());
    let (end, Cli { watch, .. }, left) = play.talk(worker, manners, request).await;
    let Some(mut worker) = left else { return end };
    worker.stand = watch.head().map(|head| Stand { head, asked: watch.asked(), watch });
    if worker.stand.is_some() {
        play.pool.release(&play.turn, worker);
    } else {
        play.pool.farewell(worker);
    }
    end
}

/// The process that stands where the turn begins, and for an answer: that waits for it.
async fn acquire(pool: Arc<Pool>, turn: Turn) -> Result<Worker, (Failure, String)> {
    let base = turn.base.as_ref().map(|head| head.as_str());
    let asked = match &turn.input {
        TurnInput::Message { .. } => Vec::new(),
        TurnInput::Resume(value) => speech::answered(value),
    };
    let refused = |error: NoWorker| (error.failure(), error.to_string());
    let claim = pool.claim(&turn).map_err(refused)?;
    if let Some(worker) = pool.kept(&turn).await {
        let fits = |stand: &Stand| base == Some(stand.head.as_str()) && stand.asked == asked;
        if worker.stand.as_ref().is_some_and(fits) {
            return Ok(worker.serve(&claim));
        }
        // What it knows is in its session, as far as it was committed.
        worker.kill().await;
    }
    match &turn.input {
        TurnInput::Message { .. } => pool.fresh(claim, &turn, &StandAt(base)).await.map_err(refused),
        TurnInput::Resume(_) => {
            Err((Failure::AnswerLost, "the process that waited for this answer is gone".to_owned()))
        }
    }
}

/// Stream-json, in one turn.
struct Cli {
    watch: Watch,
    /// Whether the turn is under way: before, there is nothing that could be interrupted.
    begun: bool,
    /// Whether it is to be left, and what has to be sent for that.
    leaving: bool,
    reply: Vec<u8>,
    heard: Instant,
}

impl Cli {
    fn new(turn: &Turn, stand: Option<&Stand>) -> Self {
        let (begun, watch) = match turn.input {
            TurnInput::Message { .. } => (false, Watch::default()),
            TurnInput::Resume(_) => {
                (true, stand.map(|stand| stand.watch.clone().answered()).unwrap_or_default())
            }
        };
        Self { watch, begun, leaving: false, reply: Vec::new(), heard: Instant::now() }
    }
}

impl Manners for Cli {
    fn judge(&mut self, line: Vec<u8>) -> Step {
        self.heard = Instant::now();
        let Ok(seen) = self.watch.see(&line) else {
            return Step::kill(Failure::OutputMalformed, "it wrote something that is no line of stream-json");
        };
        match seen {
            Seen::Begun => {
                if self.leaving && !self.begun {
                    self.reply = speech::INTERRUPT.into();
                }
                self.begun = true;
                Step::Pass(line)
            }
            Seen::Over => Step::Close(line),
            Seen::Said | Seen::Aside => Step::Pass(line),
            Seen::Response(..) => Step::Ignore,
        }
    }

    fn cancel(&mut self) -> Vec<u8> {
        self.leaving = true;
        if self.begun { speech::INTERRUPT.into() } else { Vec::new() }
    }

    fn reply(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.reply)
    }

    fn settles(&self) -> Option<Instant> {
        if self.leaving {
            return None; // it withdraws what it asked
        }
        match self.watch.waits() {
            Waits::No => None,
            Waits::Perhaps => Some(self.heard + QUIET),
            Waits::Surely => Some(self.heard + SETTLED),
        }
    }
}
