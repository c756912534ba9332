//! The engine's end of a turn; the other end is a task that holds the process.
//!
//! Decides nothing: what the engine wishes goes in, items come out, and the last of them is an end for certain.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::pool::Pool;
use super::talk::{Manners, Talk, Verdict};
use super::worker::{Stderr, Worker};
use crate::failure::Failure;
use crate::harness::{Item, Session, Trouble, Turn, TurnEnd};

/// Items that wait for the engine. Each may be a line of 8 MiB, so there are few.
const AHEAD: usize = 2;

/// What the engine wants of the turn. Later wishes are stronger.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(crate) enum Wish {
    /// It goes on.
    Go,
    /// It is to be left.
    Cancel,
    /// It is to end by force.
    Stop,
}

/// A turn that is played by a task.
#[derive(Debug)]
pub(crate) struct Running {
    items: mpsc::Receiver<Item>,
    wish: watch::Sender<Wish>,
    /// What the engine says about tools; as many as calls run at once.
    replies: mpsc::UnboundedSender<Vec<u8>>,
    told: Arc<Told>,
    pool: Arc<Pool>,
    task: Option<JoinHandle<()>>,
}

/// What the task is given: its pool, its turn, and its lines to the engine.
#[derive(Debug)]
pub(crate) struct Play {
    pub pool: Arc<Pool>,
    pub turn: Turn,
    pub out: mpsc::Sender<Item>,
    pub wishes: watch::Receiver<Wish>,
    pub replies: mpsc::UnboundedReceiver<Vec<u8>>,
    pub told: Arc<Told>,
}

impl Play {
    /// The process for the turn, as `acquire` finds it; else how the turn ends without one. Nothing was begun before
    /// there is one, so a cancelled turn has nothing to leave: a process that was about to start is ended with the wait.
    pub async fn process<F>(&mut self, acquire: impl FnOnce(Arc<Pool>, Turn) -> F) -> Result<Worker, TurnEnd>
    where
        F: Future<Output = Result<Worker, (Failure, String)>>,
    {
        let acquired = tokio::select! {
            biased;
            _ = wished(&mut self.wishes, Wish::Cancel) => return Err(TurnEnd::Regular),
            acquired = acquire(Arc::clone(&self.pool), self.turn.clone()) => acquired,
        };
        match acquired {
            Ok(worker) => {
                *self.told.stderr() = Some(worker.stderr());
                Ok(worker)
            }
            Err((failure, why)) => {
                self.log(&why);
                Err(TurnEnd::Failed(failure))
            }
        }
    }

    /// Talks until the turn is over. `None` for the process: it did not survive the turn.
    pub async fn talk<M: Manners>(
        &mut self,
        worker: Worker,
        manners: M,
        request: Vec<u8>,
    ) -> (TurnEnd, M, Option<Worker>) {
        let mut talk = Talk::new(worker, manners, request);
        match talk.on(&self.out, &mut self.wishes, &mut self.replies).await {
            Verdict::Closed(end) => (end, talk.manners, Some(talk.worker)),
            Verdict::Kill(end, why) => {
                if let Some(why) = why {
                    self.log(&why);
                }
                talk.worker.kill().await;
                (end, talk.manners, None)
            }
        }
    }

    /// Says something to the operator.
    pub fn log(&self, what: &dyn std::fmt::Display) {
        let agent = &self.pool.demand.agent_id;
        tracing::warn!(agent = %agent, run_id = self.turn.run_id.as_str(), "worker: {what}");
    }
}

/// What the task tells of its turn besides the items.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub forgot: AtomicBool,
    /// The name of the worker's own error.
    pub error_type: OnceLock<String>,
    /// What the worker of this turn, or the last of them, writes to stderr.
    stderr: Mutex<Option<Arc<Stderr>>>,
}

impl Told {
    fn stderr(&self) -> MutexGuard<'_, Option<Arc<Stderr>>> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Begins a turn; `play` plays it and says how it ended.
    pub fn begin<F>(pool: Arc<Pool>, turn: Turn, play: impl FnOnce(Play) -> F) -> Self
    where
        F: Future<Output = TurnEnd> + Send + 'static,
    {
        let (out, items) = mpsc::channel(AHEAD);
        let (wish, wishes) = watch::channel(Wish::Go);
        let (replies, replied) = mpsc::unbounded_channel();
        let told = Arc::new(Told::default());
        let (pool_, told_, last) = (Arc::clone(&pool), Arc::clone(&told), out.clone());
        let played = play(Play { pool: pool_, turn, out, wishes, replies: replied, told: told_ });
        let task = tokio::spawn(async move {
            let end = played.await;
            let _ = last.send(Item::End(end)).await; // nobody listens any more: nobody is told
        });
        Self { items, wish, replies, told, pool, task: Some(task) }
    }
}

#[async_trait]
impl Session for Running {
    async fn next(&mut self) -> Item {
        self.items.recv().await.unwrap_or(Item::End(TurnEnd::Broken))
    }

    fn cancel(&mut self) {
        ask(&self.wish, Wish::Cancel);
    }

    fn reply(&mut self, line: Vec<u8>) {
        let _ = self.replies.send(line); // a worker that is gone need not know
    }

    async fn stop(&mut self) {
        ask(&self.wish, Wish::Stop);
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
        let stderr = self.told.stderr().clone();
        let stderr = match stderr {
            Some(stderr) => stderr.save(&self.pool.records_dir(), &self.pool.demand).await,
            None => None,
        };
        Trouble { error_type: self.told.error_type.get().cloned(), stderr }
    }
}

/// Wishes this, unless something as strong was wished before.
pub(crate) fn ask(wish: &watch::Sender<Wish>, wanted: Wish) {
    wish.send_if_modified(|wish| {
        let stronger = *wish < wanted;
        *wish = if stronger { wanted } else { *wish };
        stronger
    });
}

/// Resolves when at least `least` is wished; a turn that was dropped is to be stopped.
pub(crate) async fn wished(wishes: &mut watch::Receiver<Wish>, least: Wish) -> Wish {
    match wishes.wait_for(|wish| *wish >= least).await {
        Ok(wish) => *wish,
        Err(_dropped) => Wish::Stop,
    }
}
