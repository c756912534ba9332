//! One turn with a worker: the request out, checked lines in, an end for certain.
//!
//! Refuses a line that breaks the protocol, whatever it says: another run's, a second `begin`, a chunk before it, a
//! line that cannot be read. The turn fails then and the worker is killed; what a line means is the adapter's business.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use causeway_adapter::worker::{Op, WorkerLine};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::lines::Read;
use super::pool::{NoWorker, Pool};
use super::request;
use super::worker::{Stderr, Worker};
use crate::failure::Failure;
use crate::harness::{Item, Session, Trouble, Turn, TurnEnd, TurnInput};

/// Items that wait for the engine. Each may be a line of 8 MiB, so there are few.
const AHEAD: usize = 2;
/// How long a worker may leave a request in its pipe.
const TAKES_REQUEST: Duration = Duration::from_secs(10);
/// The same for a `forget`, which may as well be sent after a later run.
const TAKES_FORGET: Duration = Duration::from_secs(2);

/// What the engine wants of the turn. Later wishes are stronger.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
enum Wish {
    Go,
    Cancel,
    Stop,
}

/// The engine's end of a turn; the other end is a task that holds the worker.
#[derive(Debug)]
pub(super) struct Running {
    items: mpsc::Receiver<Item>,
    wish: watch::Sender<Wish>,
    told: Arc<Told>,
    pool: Arc<Pool>,
    task: Option<JoinHandle<()>>,
}

/// What the task tells of its turn besides the items.
#[derive(Debug, Default)]
struct Told {
    forgot: AtomicBool,
    /// The name of the worker's own error.
    error_type: OnceLock<String>,
    /// What the worker of this turn writes to stderr.
    stderr: OnceLock<Arc<Stderr>>,
}

impl Running {
    pub fn begin(pool: Arc<Pool>, turn: Turn) -> Self {
        let (out, items) = mpsc::channel(AHEAD);
        let (wish, wishes) = watch::channel(Wish::Go);
        let told = Arc::new(Told::default());
        let (shared, ours) = (Arc::clone(&told), Arc::clone(&pool));
        let task = tokio::spawn(async move {
            let end = run(&ours, &turn, &out, wishes, &shared).await;
            let _ = out.send(Item::End(end)).await; // nobody listens any more: nobody is told
        });
        Self { items, wish, told, pool, task: Some(task) }
    }
}

#[async_trait]
impl Session for Running {
    async fn next(&mut self) -> Item {
        self.items.recv().await.unwrap_or(Item::End(TurnEnd::Broken))
    }

    fn cancel(&mut self) {
        self.wish.send_if_modified(|wish| {
            let first = *wish < Wish::Cancel;
            *wish = if first { Wish::Cancel } else { *wish };
            first
        });
    }

    async fn stop(&mut self) {
        self.wish.send_replace(Wish::Stop);
        self.items.close();
        if let Some(task) = &mut self.task {
            let _ = task.await; // a task that panicked has dropped, and so killed, its worker
            self.task = None;
        }
    }

    fn forgot(&self) -> bool {
        self.told.forgot.load(Ordering::SeqCst)
    }

    async fn trouble(&mut self) -> Trouble {
        let stderr = match self.told.stderr.get() {
            Some(stderr) => stderr.save(&self.pool.records_dir(), &self.pool.demand).await,
            None => None,
        };
        Trouble { error_type: self.told.error_type.get().cloned(), stderr }
    }
}

/// Resolves when at least `least` is wished; a turn that was dropped is to be stopped.
async fn wished(wishes: &mut watch::Receiver<Wish>, least: Wish) -> Wish {
    match wishes.wait_for(|wish| *wish >= least).await {
        Ok(wish) => *wish,
        Err(_dropped) => Wish::Stop,
    }
}

async fn run(
    pool: &Arc<Pool>,
    turn: &Turn,
    out: &mpsc::Sender<Item>,
    mut wishes: watch::Receiver<Wish>,
    told: &Told,
) -> TurnEnd {
    let log = |what: &dyn std::fmt::Display| {
        tracing::warn!(agent = %pool.demand.agent_id, run_id = turn.run_id.as_str(), "worker: {what}");
    };
    let Some(request) = request::turn(turn) else {
        log(&"the request does not fit into a line of the protocol");
        return TurnEnd::Failed(Failure::RequestRefused);
    };
    let acquired = tokio::select! {
        biased;
        // Nothing was begun, so there is nothing to be left: a worker that was about to start is ended with the wait.
        _ = wished(&mut wishes, Wish::Cancel) => return TurnEnd::Regular,
        acquired = pool.acquire(turn) => acquired,
    };
    let worker = match acquired {
        Ok(worker) => worker,
        Err(error) => {
            log(&error);
            return TurnEnd::Failed(match error {
                NoWorker::Full(_) => Failure::Capacity,
                NoWorker::Closing | NoWorker::Start(_) => Failure::HarnessUnavailable,
            });
        }
    };
    let _ = told.stderr.set(worker.stderr()); // a turn has one worker
    let mut talk = Talk { turn, told, worker, begun: false, outbox: request, since: Instant::now() };
    let verdict = talk.on(out, &mut wishes).await;
    let mut worker = talk.worker;
    match verdict {
        Verdict::Closed(end) => {
            if worker.forgets && !turn.forget.is_empty() {
                match worker.stdin.write(&request::forget(turn), TAKES_FORGET).await {
                    Ok(()) => told.forgot.store(true, Ordering::SeqCst),
                    Err(error) => {
                        log(&format_args!("it does not take a forget: {error}"));
                        worker.kill().await; // half a line may be in its pipe
                        return end;
                    }
                }
            }
            pool.release(turn, worker);
            end
        }
        Verdict::Kill(end, why) => {
            if let Some(why) = why {
                log(&why);
            }
            worker.kill().await;
            end
        }
    }
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
    pool.dismiss(worker).await;
    told
}

/// What becomes of a turn and its worker.
#[derive(Debug)]
enum Verdict {
    /// The turn was closed by the worker, which is idle now.
    Closed(TurnEnd),
    /// The turn ended otherwise, and the worker with it.
    Kill(TurnEnd, Option<&'static str>),
}

/// A turn under way.
struct Talk<'a> {
    turn: &'a Turn,
    told: &'a Told,
    worker: Worker,
    begun: bool,
    /// Bytes that the worker has not taken yet.
    outbox: Vec<u8>,
    /// When it last took some.
    since: Instant,
}

impl Talk<'_> {
    async fn on(&mut self, out: &mpsc::Sender<Item>, wishes: &mut watch::Receiver<Wish>) -> Verdict {
        let mut pending: Option<Item> = None;
        let mut closed: Option<Verdict> = None;
        let mut next_wish = Wish::Cancel;
        let leader = self.worker.leader();
        loop {
            if pending.is_none()
                && let Some(verdict) = closed.take()
            {
                return verdict;
            }
            tokio::select! {
                biased;
                wish = wished(wishes, next_wish) => match wish {
                    Wish::Stop => return Verdict::Kill(TurnEnd::Broken, None),
                    Wish::Cancel | Wish::Go => {
                        next_wish = Wish::Stop;
                        self.since = if self.outbox.is_empty() { Instant::now() } else { self.since };
                        self.outbox.extend(request::cancel(self.turn));
                    }
                },
                () = sleep_until(self.since + TAKES_REQUEST), if !self.outbox.is_empty() => {
                    let end = TurnEnd::Failed(Failure::HarnessUnavailable);
                    return Verdict::Kill(end, Some("it does not read its requests"));
                }
                wrote = self.worker.stdin.write_some(&self.outbox), if !self.outbox.is_empty() => match wrote {
                    Ok(taken) => {
                        self.outbox.drain(..taken.min(self.outbox.len()));
                        self.since = Instant::now();
                    }
                    // It is about to die, or it closed its stdin: what it still says is read, the end of stdout decides.
                    Err(_broken) => self.outbox.clear(),
                },
                room = out.reserve(), if pending.is_some() => match (room, pending.take()) {
                    (Ok(room), Some(item)) => room.send(item),
                    (Ok(_), None) => {}
                    (Err(_nobody), _) => return Verdict::Kill(TurnEnd::Broken, None),
                },
                read = self.worker.lines.next(), if pending.is_none() => match self.judge(read) {
                    Step::Pass(line) => pending = Some(Item::Line(line)),
                    Step::Close(line) => {
                        pending = Some(Item::Line(line));
                        closed = Some(Verdict::Closed(TurnEnd::Regular));
                    }
                    Step::Ignore => {}
                    Step::End(verdict) => return verdict,
                },
                () = leader.gone(), if pending.is_none() => return left(),
            }
        }
    }

    fn judge(&mut self, read: Read) -> Step {
        let line = match read {
            Read::Line(line) => line,
            Read::TooLong => return Step::kill(Failure::OutputOversized, "it wrote a line above the limit"),
            // The exit code does not matter (R12).
            Read::End => return Step::End(left()),
            Read::Broken => return Step::End(Verdict::Kill(TurnEnd::Broken, Some("its pipe broke"))),
        };
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
            WorkerLine::Chunk { .. } | WorkerLine::End { .. } if !self.begun => {
                Step::kill(Failure::OutputMalformed, "it went on with a turn that it had not begun")
            }
            WorkerLine::Chunk { .. } => Step::Pass(line),
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

fn left() -> Verdict {
    Verdict::Kill(TurnEnd::Broken, Some("it left in the middle of a turn"))
}

/// What becomes of a line.
#[derive(Debug)]
enum Step {
    /// The engine gets it.
    Pass(Vec<u8>),
    /// The engine gets it, and then the end.
    Close(Vec<u8>),
    /// It says nothing about this turn.
    Ignore,
    /// The turn is over.
    End(Verdict),
}

impl Step {
    fn kill(failure: Failure, why: &'static str) -> Self {
        Self::End(Verdict::Kill(TurnEnd::Failed(failure), Some(why)))
    }

    /// The worker said no in the words of the protocol, and is fine.
    fn refused(failure: Failure) -> Self {
        Self::End(Verdict::Closed(TurnEnd::Failed(failure)))
    }
}
