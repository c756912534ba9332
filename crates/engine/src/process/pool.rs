//! The workers of one agent: how many there may be, who is idle, who must go.
//!
//! Refuses to exceed its bound for even a moment: a worker counts from before its start until its process is gone.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_contract::id::ConversationId;
use causeway_contract::id::RunId;
use causeway_store::model::Owner;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};

use super::admission::{Bounds, Ticket, Turned};
use super::desk::{Desk, Figures, Place};
use super::worker::{Greeting, Hello, StartError, Worker};
use super::{Demand, command, record};
use crate::config::{ProcessConfig, Scope};
use crate::failpoint::{self, hit};
use crate::failure::Failure;
use crate::harness::{Ask, Claim, Turn, Workers};

/// Why there is no worker for a turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorker {
    #[error(transparent)]
    Turned(#[from] Turned),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl NoWorker {
    /// What the run is told.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Turned(Turned::Full | Turned::Late) => Failure::Capacity,
            Self::Start(StartError::StateLost) => Failure::StateLost,
            Self::Turned(Turned::Unavailable { .. } | Turned::Closing) | Self::Start(_) => {
                Failure::HarnessUnavailable
            }
        }
    }
}

/// How long a process that waits for an answer is kept at least: what it asked about is lost with it.
const WAITS: Duration = Duration::from_secs(60 * 60);

/// How many conversations are remembered whose worker was lost.
const SERVED: usize = 4_096;

/// How long a worker gets to leave by itself (worker protocol, rule 7).
const LEAVING: Duration = Duration::from_secs(5);

/// How soon it is looked again whether workers have left.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Pool {
    pub demand: Demand,
    config: ProcessConfig,
    data_dir: PathBuf,
    desk: Arc<Desk>,
    /// Claims of turns whose runs are being opened.
    admitted: Mutex<HashMap<RunId<'static>, Place>>,
    idle: Mutex<HashMap<Key, Idle>>,
    /// Told to workers that leave: do not wait any longer.
    hurry: watch::Sender<bool>,
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
    place: Ticket,
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
        let desk = Arc::new(Desk::new(Bounds {
            places: config.max_workers,
            queue: config.max_queue,
            patience: config.queue_timeout,
            failures: config.circuit_failures,
            open_for: config.circuit_open,
        }));
        Ok(Arc::new(Self {
            demand,
            config,
            data_dir,
            desk,
            admitted: Mutex::default(),
            idle: Mutex::default(),
            hurry: watch::Sender::new(false),
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

    /// What these give a name to in the directory of workers; see [`command::places`].
    pub(super) fn places(&self, whose: &command::Whose<'_>) -> Vec<PathBuf> {
        command::places(&self.config, &self.demand.agent_id, whose)
    }

    pub fn workers(&self) -> usize {
        self.desk.taken()
    }

    /// The same with how many were started.
    pub fn count(&self) -> Workers {
        let Figures { waiting, refused, circuit } = self.desk.figures();
        Workers {
            running: self.workers(),
            started: self.started.load(Ordering::Relaxed),
            restarted: self.restarted.load(Ordering::Relaxed),
            waiting,
            refused,
            circuit,
        }
    }

    /// A claim for a turn whose run is about to be opened; [`claim`](Self::claim) finds it by the run.
    pub fn admit(self: &Arc<Self>, ask: &Ask<'_>) -> Result<Claim, Turned> {
        let theirs = |(owner, conversation, _): &Key| {
            owner == ask.owner.as_str() && conversation == ask.conversation_id.as_str()
        };
        let kept = self.idle().keys().any(theirs);
        let place = self.desk.claim(kept)?;
        self.admitted().insert(ask.run_id.clone(), place);
        Ok(Claim::new(Admitted { pool: Arc::clone(self), run_id: ask.run_id.clone() }))
    }

    /// The claim of a turn: the one of its admission, or a new one.
    pub fn claim(&self, turn: &Turn) -> Result<Place, NoWorker> {
        let admitted = self.admitted().remove(&turn.run_id);
        match admitted {
            Some(place) => Ok(place),
            None => {
                let kept = self.idle().contains_key(&key(turn));
                Ok(self.desk.claim(kept)?)
            }
        }
    }

    /// A worker for a turn: the idle one of its conversation, or a new one. Dropping the wait leaves nothing running.
    pub async fn acquire(self: &Arc<Self>, turn: &Turn) -> Result<Worker, NoWorker> {
        let claim = self.claim(turn)?;
        match self.kept(turn).await {
            Some(worker) => Ok(worker.serve(&claim)),
            None => self.fresh(claim, turn, &Hello).await,
        }
    }

    /// A new worker for a turn whose kept one was dying: it claims a place like any other.
    pub async fn replacement(self: &Arc<Self>, turn: &Turn) -> Result<Worker, NoWorker> {
        self.fresh(self.claim(turn)?, turn, &Hello).await
    }

    /// The idle worker of a turn's conversation, which is not at work before it serves a claim.
    pub async fn kept(&self, turn: &Turn) -> Option<Worker> {
        let worker = self.take_idle(&key(turn)).await?;
        if worker.leader().runs() {
            hit(failpoint::REUSE);
            return Some(worker);
        }
        // It died a moment ago: a turn must not be lost to that.
        self.bury(worker).await;
        None
    }

    /// A new worker for a turn, once its claim is granted.
    pub async fn fresh(
        self: &Arc<Self>,
        claim: Place,
        turn: &Turn,
        greeting: &(dyn Greeting + Send),
    ) -> Result<Worker, NoWorker> {
        claim.granted(|| self.make_room()).await?;
        let place = Arc::new(claim);
        self.started.fetch_add(1, Ordering::Relaxed);
        if self.serves(key(turn)) {
            self.restarted.fetch_add(1, Ordering::Relaxed);
        }
        let command = command::build(&self.config, &self.data_dir, &self.demand.agent_id, turn);
        let (records, patience) = (self.records_dir(), self.config.start_timeout);
        // Our share of the place is held until the outcome is told: the next in line must know it.
        let held = Arc::clone(&place);
        let started = Worker::start(command, greeting, &self.demand, patience, &records, held).await;
        self.tell(&place, started.as_ref().err());
        Ok(started?)
    }

    /// Tells the circuit how a start ended, and the operator when that changes it.
    fn tell(&self, place: &Place, failed: Option<&StartError>) {
        let agent = &self.demand.agent_id;
        match failed {
            // One that lost a state is up, or it could not say so.
            None | Some(StartError::StateLost) => {
                if place.started() {
                    tracing::info!(%agent, "a worker came up again, so starts are tried as before");
                }
            }
            Some(_) => {
                if place.failed() {
                    tracing::error!(%agent, "workers do not start: none is tried before circuit_open is over");
                }
            }
        }
    }

    /// Takes a worker back after a turn that it closed properly.
    pub fn release(self: &Arc<Self>, turn: &Turn, mut worker: Worker) {
        let one_run = self.is_retired() || (self.config.scope == Scope::Run && !worker.waits());
        if one_run || !worker.rest() {
            self.served_well(&key(turn));
            return self.farewell(worker);
        }
        worker.served = true;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (take, taken) = oneshot::channel();
        // Should there be one already (a second run in one conversation), it leaves: its `take` is dropped.
        let (waits, place) = (worker.waits(), worker.place());
        let left = self.idle().insert(key(turn), Idle { ticket, place, waits, since: Instant::now(), take });
        self.part_with(left);
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

    /// Lets the idle workers of a conversation go, whatever its epoch, and waits until they are gone, and whoever else is
    /// just leaving, but not for long.
    pub async fn let_go(&self, owner: &Owner, conversation_id: &ConversationId<'_>) {
        let theirs = |(of, id, _): &&Key| of == owner.as_str() && id == conversation_id.as_str();
        let keys: Vec<Key> = self.idle().keys().filter(theirs).cloned().collect();
        for key in keys {
            if let Some(worker) = self.take_idle(&key).await {
                self.served_well(&key);
                worker.leave(LEAVING, self.hurry.subscribe()).await;
            }
        }
        // One of theirs may be among those that were let go a moment ago.
        let all_left = async {
            while self.desk.leaving() > 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let _ = timeout(LEAVING, all_left).await;
    }

    /// Lets a worker go, in the background.
    pub fn farewell(self: &Arc<Self>, worker: Worker) {
        let pool = Arc::clone(self);
        self.desk.leave(worker.place());
        tokio::spawn(async move { worker.leave(LEAVING, pool.hurry.subscribe()).await });
    }

    /// Ends all workers: idle ones leave by themselves within `grace`, then the rest is killed.
    pub async fn shutdown(self: &Arc<Self>, grace: Duration) {
        self.desk.close();
        self.idle().clear();
        if timeout(grace, self.desk.empty()).await.is_err() {
            let _ = self.hurry.send_replace(true);
            let _ = timeout(LEAVING, self.desk.empty()).await;
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

    /// Lets idle workers go while somebody waits for their places: the longest idle first.
    fn make_room(&self) {
        while self.desk.wants_room() {
            let Some(oldest) = oldest(&mut self.idle()) else { return };
            self.part_with(Some(oldest));
        }
    }

    async fn take_idle(&self, key: &Key) -> Option<Worker> {
        let idle = self.idle().remove(key)?;
        let (reply, worker) = oneshot::channel();
        idle.take.send(reply).ok()?;
        worker.await.ok()
    }

    /// Its watch sees that nobody will ask for it any more, and bids it farewell.
    fn part_with(&self, idle: Option<Idle>) {
        if let Some(idle) = idle {
            self.desk.leave(idle.place);
        }
    }

    fn admitted(&self) -> MutexGuard<'_, HashMap<RunId<'static>, Place>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Key, Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(turn: &Turn) -> Key {
    (turn.owner.as_str().to_owned(), turn.conversation_id.as_str().to_owned(), turn.epoch)
}

fn oldest(idle: &mut HashMap<Key, Idle>) -> Option<Idle> {
    let key = idle.iter().min_by_key(|(_, idle)| (idle.waits, idle.since))?.0.clone();
    idle.remove(&key)
}

/// Gives a claim back that no turn has taken up.
struct Admitted {
    pool: Arc<Pool>,
    run_id: RunId<'static>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let unused = self.pool.admitted().remove(&self.run_id);
        drop(unused); // not while the others are locked
    }
}
