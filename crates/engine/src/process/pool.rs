//! The workers of one agent: how many there may be, who is idle, who must go.
//!
//! Refuses to exceed its bound for even a moment: a worker counts from before its start until its process is gone.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};

use super::worker::{Greeting, Hello, StartError, Worker};
use super::{Demand, command, record};
use crate::config::{ProcessConfig, Scope};
use crate::failpoint::{self, hit};
use crate::failure::Failure;
use crate::harness::{Turn, Workers};

/// Why there is no worker for a turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorker {
    #[error("all {0} workers are busy; see max_workers")]
    Full(usize),
    #[error("the gateway is shutting down")]
    Closing,
    #[error(transparent)]
    Start(#[from] StartError),
}

impl NoWorker {
    /// What the run is told.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Full(_) => Failure::Capacity,
            Self::Start(StartError::StateLost) => Failure::StateLost,
            Self::Closing | Self::Start(_) => Failure::HarnessUnavailable,
        }
    }
}

/// How long a process that waits for an answer is kept at least: what it asked about is lost with it.
const WAITS: Duration = Duration::from_secs(60 * 60);

/// How many conversations are remembered whose worker was lost.
const SERVED: usize = 4_096;

/// How long a worker gets to leave by itself (worker protocol, rule 7).
const LEAVING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Pool {
    pub demand: Demand,
    config: ProcessConfig,
    data_dir: PathBuf,
    room: Arc<Room>,
    idle: Mutex<HashMap<Key, Idle>>,
    /// Told to workers that leave: do not wait any longer.
    hurry: watch::Sender<bool>,
    leaving: AtomicUsize,
    tickets: AtomicU64,
    retired: AtomicBool,
    /// Whom a worker was started for that has not been let go in good order.
    served: Mutex<HashSet<Key>>,
    started: AtomicU64,
    restarted: AtomicU64,
}

/// Whom a worker serves: an owner's conversation, in one epoch.
type Key = (String, String, u64);

/// An idle worker, held by a task that watches it.
#[derive(Debug)]
struct Idle {
    ticket: u64,
    /// Whether it waits for an answer: it makes room only when nobody else can.
    waits: bool,
    since: Instant,
    /// Asks for the worker. Dropping it tells the worker to leave.
    take: oneshot::Sender<oneshot::Sender<Worker>>,
}

impl Pool {
    /// A pool without workers.
    ///
    /// # Errors
    /// A command that cannot be right.
    pub fn open(
        demand: Demand,
        config: ProcessConfig,
        data_dir: PathBuf,
    ) -> Result<Arc<Self>, command::Fault> {
        // Workers may change their directory, and pid files must be found from anywhere.
        let data_dir = std::path::absolute(&data_dir).unwrap_or(data_dir);
        command::check(&config)?;
        let room = Arc::new(Room::new(config.max_workers));
        Ok(Arc::new(Self {
            demand,
            config,
            data_dir,
            room,
            idle: Mutex::default(),
            hurry: watch::Sender::new(false),
            leaving: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            served: Mutex::default(),
            started: AtomicU64::new(0),
            restarted: AtomicU64::new(0),
        }))
    }

    /// Ends what an earlier gateway left running.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn reap(&self) -> Result<(), String> {
        record::reap(&self.records_dir()).await.map_err(|error| error.to_string())
    }

    /// Where workers are written down, and where they keep their states if their command says so.
    pub fn records_dir(&self) -> PathBuf {
        command::workers_dir(&self.data_dir)
    }

    pub fn workers(&self) -> usize {
        self.room.taken()
    }

    /// The same with how many were started.
    pub fn count(&self) -> Workers {
        Workers {
            running: self.workers(),
            started: self.started.load(Ordering::Relaxed),
            restarted: self.restarted.load(Ordering::Relaxed),
        }
    }

    /// Whether a turn that began now would find a worker: a free place, or an idle or leaving worker that makes one.
    pub fn has_room(&self) -> bool {
        self.room.taken() < self.config.max_workers
            || !self.idle().is_empty()
            || self.leaving.load(Ordering::SeqCst) > 0
    }

    /// A worker for a turn: the idle one of its conversation, or a new one. Dropping the wait leaves nothing running.
    pub async fn acquire(self: &Arc<Self>, turn: &Turn) -> Result<Worker, NoWorker> {
        match self.kept(turn).await {
            Some(worker) => Ok(worker),
            None => self.fresh(turn, &Hello).await,
        }
    }

    /// The idle worker of a turn's conversation.
    pub async fn kept(&self, turn: &Turn) -> Option<Worker> {
        let worker = self.take_idle(|idle| idle.remove(&key(turn))).await?;
        if worker.leader().runs() {
            hit(failpoint::REUSE);
            return Some(worker);
        }
        // It died a moment ago: a turn must not be lost to that.
        self.bury(worker).await;
        None
    }

    /// A new worker for a turn.
    pub async fn fresh(
        self: &Arc<Self>,
        turn: &Turn,
        greeting: &(dyn Greeting + Send),
    ) -> Result<Worker, NoWorker> {
        let place = self.place().await?;
        self.started.fetch_add(1, Ordering::Relaxed);
        if self.serves(key(turn)) {
            self.restarted.fetch_add(1, Ordering::Relaxed);
        }
        let command = command::build(&self.config, &self.data_dir, &self.demand.agent_id, turn);
        let (records, patience) = (self.records_dir(), self.config.start_timeout);
        Ok(Worker::start(command, greeting, &self.demand, patience, &records, place).await?)
    }

    /// Takes a worker back after a turn that it closed properly.
    pub fn release(self: &Arc<Self>, turn: &Turn, mut worker: Worker) {
        let one_run = self.is_retired() || (self.config.scope == Scope::Run && !worker.waits());
        if one_run || self.room.is_closed() {
            self.served_well(&key(turn));
            return self.farewell(worker);
        }
        worker.served = true;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (take, taken) = oneshot::channel();
        // Should there be one already (a second run in one conversation), it leaves: its `take` is dropped.
        let waits = worker.waits();
        self.idle().insert(key(turn), Idle { ticket, waits, since: Instant::now(), take });
        hit(failpoint::IDLE);
        tokio::spawn(Arc::clone(self).watch(key(turn), ticket, worker, taken));
        if self.is_retired() {
            self.retire(); // it was not yet when this one was asked to stay
        }
    }

    /// Keeps no worker behind its turn any more.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
        self.idle().clear();
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Lets a worker go, and waits until it is gone.
    pub async fn dismiss(&self, turn: &Turn, worker: Worker) {
        self.served_well(&key(turn));
        worker.leave(LEAVING, self.hurry.subscribe()).await;
    }

    /// Lets a worker go, in the background.
    pub fn farewell(self: &Arc<Self>, worker: Worker) {
        let pool = Arc::clone(self);
        self.leaving.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            worker.leave(LEAVING, pool.hurry.subscribe()).await;
            pool.leaving.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// Ends all workers: idle ones leave by themselves within `grace`, then the rest is killed.
    pub async fn shutdown(self: &Arc<Self>, grace: Duration) {
        self.room.close();
        self.idle().clear();
        if timeout(grace, self.room.empty()).await.is_err() {
            let _ = self.hurry.send_replace(true);
            let _ = timeout(LEAVING, self.room.empty()).await;
        }
    }

    async fn watch(
        self: Arc<Self>,
        key: Key,
        ticket: u64,
        mut worker: Worker,
        taken: oneshot::Receiver<oneshot::Sender<Worker>>,
    ) {
        let idle_exit = self.config.idle_exit;
        let patience = if worker.waits() { idle_exit.max(WAITS) } else { idle_exit };
        tokio::select! {
            biased; // what it wrote after its closing line is seen before anyone gets it
            why = worker.stirs() => {
                tracing::debug!(agent = self.demand.agent_id, why, "an idle worker is ended");
                self.forget_idle(&key, ticket);
                self.bury(worker).await;
            }
            asked = taken => match asked {
                Ok(reply) => {
                    if let Err(unclaimed) = reply.send(worker) {
                        self.served_well(&key);
                        self.farewell(unclaimed);
                    }
                }
                Err(_dropped) => {
                    self.served_well(&key);
                    self.farewell(worker);
                }
            },
            () = tokio::time::sleep(patience) => {
                self.served_well(&key);
                self.forget_idle(&key, ticket);
                self.farewell(worker);
            }
        }
    }

    /// Ends a worker that did what it may not do, and keeps its last words.
    async fn bury(&self, worker: Worker) {
        let stderr = worker.stderr();
        worker.kill().await;
        stderr.explain(&self.records_dir(), &self.demand).await;
    }

    /// Notes that a worker is started for somebody. Whether the one before was never let go: it died, or was ended.
    fn serves(&self, key: Key) -> bool {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.len() >= SERVED {
            served.clear();
        }
        !served.insert(key)
    }

    fn served_well(&self, key: &Key) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn forget_idle(&self, key: &Key, ticket: u64) {
        let mut idle = self.idle();
        if idle.get(key).is_some_and(|idle| idle.ticket == ticket) {
            idle.remove(key);
        }
    }

    async fn take_idle(
        &self,
        choose: impl FnOnce(&mut HashMap<Key, Idle>) -> Option<Idle>,
    ) -> Option<Worker> {
        let chosen = choose(&mut self.idle())?;
        let (reply, worker) = oneshot::channel();
        chosen.take.send(reply).ok()?;
        worker.await.ok()
    }

    /// Room for one more process. An idle worker of another conversation makes room, the longest idle first.
    async fn place(self: &Arc<Self>) -> Result<Place, NoWorker> {
        loop {
            if self.room.is_closed() {
                return Err(NoWorker::Closing);
            }
            if let Some(place) = self.room.enter() {
                return Ok(place);
            }
            let none_idle = self.idle().is_empty();
            let mut gone = None;
            let choose = |idle: &mut HashMap<Key, Idle>| {
                let (key, chosen) = oldest(idle)?;
                gone = Some(key);
                Some(chosen)
            };
            if let Some(worker) = self.take_idle(choose).await {
                if let Some(key) = gone {
                    self.served_well(&key);
                }
                self.farewell(worker);
            } else if none_idle && self.leaving.load(Ordering::SeqCst) == 0 {
                return Err(NoWorker::Full(self.config.max_workers));
            }
            let _ = timeout(LEAVING + LEAVING, self.room.has_room()).await;
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Key, Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(turn: &Turn) -> Key {
    (turn.owner.as_str().to_owned(), turn.conversation_id.as_str().to_owned(), turn.epoch)
}

fn oldest(idle: &mut HashMap<Key, Idle>) -> Option<(Key, Idle)> {
    let key = idle.iter().min_by_key(|(_, idle)| (idle.waits, idle.since))?.0.clone();
    idle.remove_entry(&key)
}

/// How many processes there are and may be.
#[derive(Debug)]
struct Room {
    max: usize,
    taken: watch::Sender<usize>,
    closed: AtomicBool,
}

/// One process's share of the room, from before its start until it is gone.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
}

impl Room {
    fn new(max: usize) -> Self {
        Self { max, taken: watch::Sender::new(0), closed: AtomicBool::new(false) }
    }

    fn taken(&self) -> usize {
        *self.taken.borrow()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        let entered = self.taken.send_if_modified(|taken| {
            let free = *taken < self.max;
            *taken += usize::from(free);
            free
        });
        entered.then(|| Place { room: Arc::clone(self) })
    }

    async fn has_room(&self) {
        let _ = self.taken.subscribe().wait_for(|&taken| taken < self.max).await; // we hold the sender
    }

    async fn empty(&self) {
        let _ = self.taken.subscribe().wait_for(|&taken| taken == 0).await; // we hold the sender
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.taken.send_modify(|taken| *taken = taken.saturating_sub(1));
    }
}
