//! The writer: one connection and one lease a gateway. It takes what waits in the queue into one transaction, and answers
//! when it has landed.
//!
//! Refuses to answer early, and to write without holding the row of its lease: whoever takes its runs away waits for that
//! row, so that nothing of this writer can land afterwards. `COMMIT` is sent only once the server has said that the row is
//! held. After a connection was lost, the row is taken alone before anything else is done or looked up: the lost
//! transaction has then ended one way or the other.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use causeway_contract::id::RunId;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Cause, Error, Unavailable};
use crate::postgres::fault::Trouble;
use crate::postgres::lease::Lease;
use crate::postgres::options::Options;
use crate::postgres::schema;
use crate::postgres::session::{Session, Sql};
use crate::postgres::tls::MakeTls;
use crate::postgres::watch::Watch;
use crate::postgres::write::Known;
use crate::record::Record;

/// The most writes in one transaction.
const MAX_BATCH: usize = 512;
/// How often a write that lost a race is tried again.
const MAX_RACES: u32 = 10;
/// How often the house is kept.
const HOUSE: Duration = Duration::from_secs(600);

/// A future that borrows the writer.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = Sql<T>> + Send + 'a>>;

/// The one that writes.
pub(crate) struct Writer {
    pub(crate) options: Arc<Options>,
    pub(crate) tls: MakeTls,
    pub(crate) place: PathBuf,
    /// `None` after it was lost.
    pub(crate) session: Option<Session>,
    pub(crate) lease: Lease,
    /// The instance, for the readers.
    pub(crate) instance: Arc<AtomicI64>,
    /// The week, by the server's clock.
    pub(crate) bucket: i64,
    /// Runs that are written here.
    pub(crate) known: HashMap<RunId<'static>, Known>,
    /// Records of this transaction that are not sent yet, with week and run.
    pub(crate) pending: Vec<(i64, i64, Record)>,
    pub(crate) house_kept: Instant,
    pub(crate) watch: Arc<Watch>,
    /// Whether others may wait for what this transaction wrote.
    pub(crate) wrote: bool,
    /// Whether it ended a run that may be followed here as another gateway's.
    pub(crate) ended: bool,
}

/// A write that waits, runs and is answered.
pub(crate) trait Job: Send {
    /// Does the work in the current transaction and keeps the answer; may be called again after a rollback.
    fn run<'a>(&'a mut self, writer: &'a mut Writer) -> Work<'a, ()>;

    /// Sends the kept answer.
    fn landed(self: Box<Self>);

    /// Sends this error instead.
    fn failed(self: Box<Self>, error: Error);
}

/// What a verb does with its arguments.
pub(crate) type Verb<A, T> = for<'a> fn(&'a mut Writer, &'a A) -> Work<'a, T>;

/// A job made of a verb, its arguments and the channel of its caller.
pub(crate) struct Call<A, T> {
    arguments: A,
    verb: Verb<A, T>,
    answer: Option<Result<T, Error>>,
    caller: oneshot::Sender<Result<T, Error>>,
}

impl<A, T> Call<A, T> {
    pub(crate) fn new(arguments: A, verb: Verb<A, T>) -> (Self, oneshot::Receiver<Result<T, Error>>) {
        let (caller, answered) = oneshot::channel();
        (Self { arguments, verb, answer: None, caller }, answered)
    }
}

impl<A: Send + Sync, T: Send> Job for Call<A, T> {
    fn run<'a>(&'a mut self, writer: &'a mut Writer) -> Work<'a, ()> {
        Box::pin(async move {
            self.answer = Some(match (self.verb)(writer, &self.arguments).await {
                Ok(value) => Ok(value),
                Err(Trouble::Answer(error)) => Err(error),
                Err(trouble) => return Err(trouble),
            });
            Ok(())
        })
    }

    fn landed(self: Box<Self>) {
        let Self { answer, caller, .. } = *self;
        if let Some(answer) = answer {
            // A caller that no longer waits asks for the outcome when it needs it.
            let _ = caller.send(answer);
        }
    }

    fn failed(self: Box<Self>, error: Error) {
        let _ = self.caller.send(Err(error));
    }
}

/// Serves until every sender is gone and the queue is empty; then gives the lease back.
pub(crate) async fn serve(mut writer: Writer, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    loop {
        let due = writer.lease.due();
        let first = tokio::select! {
            biased;
            job = queue.recv() => match job {
                Some(job) => Some(job),
                None => break,
            },
            () = tokio::time::sleep_until(due.into()) => None,
        };
        if Instant::now() >= due {
            writer.renew_in_background().await;
        }
        if let Some(first) = first {
            let mut jobs = vec![first];
            writer.work_off(&mut jobs, Some(&mut queue)).await;
        }
    }
    writer.leave().await;
}

/// Why a transaction is over without having landed for certain.
enum Failure {
    /// It could not even be begun.
    NotBegun(Trouble),
    /// Nothing of it is in the database.
    RolledBack(Trouble),
    /// It may be, or not.
    Unknown(Unavailable),
}

impl Writer {
    /// Does these jobs, and those that come meanwhile, and answers them.
    async fn work_off(
        &mut self,
        jobs: &mut Vec<Box<dyn Job>>,
        queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
    ) {
        let done = match self.attempt(jobs, queue).await {
            // The connection was found dead, or the lease gone, before anything was written: once more, anew.
            Err(Failure::NotBegun(trouble) | Failure::RolledBack(trouble)) if trouble.is_stale() => {
                self.attempt(jobs, None).await
            }
            other => other,
        };
        match done {
            Ok(()) => jobs.drain(..).for_each(Job::landed),
            Err(Failure::Unknown(trouble)) => fail(jobs, &Error::Unknown(trouble)),
            Err(Failure::NotBegun(trouble)) => fail(jobs, &trouble.unavailable(&self.place).into()),
            Err(Failure::RolledBack(trouble)) if trouble.is_stale() => {
                fail(jobs, &trouble.unavailable(&self.place).into());
            }
            // One of them cannot be done, or met another gateway: each is tried alone.
            Err(Failure::RolledBack(_)) => {
                for job in std::mem::take(jobs) {
                    self.alone(job).await;
                }
            }
        }
    }

    async fn alone(&mut self, job: Box<dyn Job>) {
        let mut jobs = vec![job];
        let mut tries = 0;
        loop {
            match self.attempt(&mut jobs, None).await {
                Ok(()) => return jobs.into_iter().for_each(Job::landed),
                Err(Failure::Unknown(trouble)) => return fail(&mut jobs, &Error::Unknown(trouble)),
                Err(Failure::RolledBack(trouble)) if trouble.is_race() && tries < MAX_RACES => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(5 << tries.min(5))).await;
                }
                Err(Failure::NotBegun(trouble) | Failure::RolledBack(trouble)) => {
                    return fail(&mut jobs, &trouble.unavailable(&self.place).into());
                }
            }
        }
    }

    /// One transaction.
    async fn attempt(
        &mut self,
        jobs: &mut Vec<Box<dyn Job>>,
        queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
    ) -> Result<(), Failure> {
        let bound = self.patience();
        let begun = tokio::time::timeout(bound, self.begin()).await.unwrap_or(Err(Trouble::Silent));
        if let Err(trouble) = begun {
            self.roll_back(&trouble).await;
            return Err(Failure::NotBegun(trouble));
        }
        let work = tokio::time::timeout(bound, self.fill(jobs, queue)).await.unwrap_or(Err(Trouble::Silent));
        if let Err(trouble) = work {
            self.roll_back(&trouble).await;
            return Err(Failure::RolledBack(trouble));
        }
        let commit = async { self.session()?.batch("COMMIT").await };
        match tokio::time::timeout(bound, commit).await.unwrap_or(Err(Trouble::Silent)) {
            Ok(()) => {
                if std::mem::take(&mut self.wrote) {
                    self.watch.wrote();
                }
                if std::mem::take(&mut self.ended) {
                    self.watch.ended();
                }
                Ok(())
            }
            Err(trouble) => {
                // It may have landed.
                self.watch.wrote();
                self.watch.ended();
                let unknown = trouble.unavailable(&self.place);
                self.forget_all();
                // Whatever became of it, it is over once another session holds the row of the lease.
                self.session = None;
                Err(Failure::Unknown(unknown))
            }
        }
    }

    /// What stands between the beginning of a transaction and its end.
    async fn fill(
        &mut self,
        jobs: &mut Vec<Box<dyn Job>>,
        mut queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
    ) -> Sql<()> {
        let mut at = 0;
        while let Some(job) = jobs.get_mut(at) {
            job.run(self).await?;
            at += 1;
            if at == jobs.len() && at < MAX_BATCH {
                jobs.extend(queue.as_mut().and_then(|queue| queue.try_recv().ok()));
            }
        }
        self.flush().await
    }

    /// Begins a transaction that holds the row of the lease, on a connection that is made anew if it was lost.
    async fn begin(&mut self) -> Sql<()> {
        self.ready().await?;
        let session = self.session()?;
        session.batch("BEGIN").await?;
        let held = self.lease.hold(session, self.options.careless).await?;
        if held.fences != self.lease.fences {
            self.known.clear();
            self.lease.fences = held.fences;
        }
        self.bucket = held.bucket;
        Ok(())
    }

    async fn roll_back(&mut self, trouble: &Trouble) {
        self.forget_all();
        let undone = async { self.session()?.batch("ROLLBACK").await };
        let undone = tokio::time::timeout(self.options.connect_timeout, undone).await;
        if trouble.is_connection() || !matches!(undone, Ok(Ok(()))) {
            self.session = None;
        }
        if matches!(trouble, Trouble::Lost) {
            self.lease.lost = true;
        }
    }

    /// Forgets what was read or written in a transaction that did not land.
    fn forget_all(&mut self) {
        self.known.clear();
        self.pending.clear();
        (self.wrote, self.ended) = (false, false);
    }

    pub(crate) fn session(&self) -> Sql<&Session> {
        self.session.as_ref().ok_or(Trouble::Silent)
    }

    /// How long a transaction may take here, whatever the server does.
    fn patience(&self) -> Duration {
        self.options.statement_timeout.saturating_add(self.options.lock_timeout).saturating_mul(2)
    }

    /// Sees to it that there are a connection and a lease.
    async fn ready(&mut self) -> Sql<()> {
        if self.session.as_ref().is_some_and(Session::is_closed) {
            self.session = None;
        }
        if self.session.is_none() {
            let session = Session::connect(&self.options, &self.tls).await.map_err(Trouble::Away)?;
            // Waits for the end of whatever the last session had begun.
            if !self.lease.lost && !self.lease.take_back(&session).await? {
                self.lease.lost = true;
            }
            self.session = Some(session);
        }
        if self.lease.lost {
            self.lease = Lease::begin(self.session()?, &self.options, &self.watch).await?;
            self.watch.leases_lost.fetch_add(1, Ordering::Relaxed);
            self.known.clear();
            self.instance.store(self.lease.instance, Ordering::Release);
        }
        if self.lease.is_over() {
            self.renew().await?;
        }
        Ok(())
    }

    async fn renew(&mut self) -> Sql<()> {
        let session = self.session.as_ref().ok_or(Trouble::Silent)?;
        if self.lease.renew(session).await? { Ok(()) } else { Err(Trouble::Lost) }
    }

    /// Renews the lease while nobody waits; what fails is tried again before the next write.
    async fn renew_in_background(&mut self) {
        let bound = self.patience();
        let renewed = tokio::time::timeout(bound, async {
            self.ready().await?;
            self.renew().await
        });
        match renewed.await.unwrap_or(Err(Trouble::Silent)) {
            Ok(()) => {}
            Err(Trouble::Lost) => self.lease.lost = true,
            Err(trouble) => {
                if trouble.is_connection() {
                    self.session = None;
                }
                self.lease.later();
            }
        }
        if self.house_kept.elapsed() >= HOUSE
            && let Some(session) = &self.session
        {
            self.house_kept = Instant::now();
            // It is tried again in a while.
            let _ = schema::ensure_partitions(session, &self.options).await;
            let _ = self.lease.tidy(session).await;
        }
    }

    /// Gives the lease back, so that nobody has to wait for its end.
    async fn leave(mut self) {
        let bound = self.options.connect_timeout;
        if let Some(session) = self.session.take()
            && !self.lease.lost
        {
            // Where it fails the lease runs out by itself.
            let _ = tokio::time::timeout(bound, self.lease.give_back(&session)).await;
        }
    }
}

fn fail(jobs: &mut Vec<Box<dyn Job>>, error: &Error) {
    jobs.drain(..).for_each(|job| job.failed(error.clone()));
}

/// What a caller hears whose job was lost with the writer.
pub(crate) fn closed(options: &Options) -> Unavailable {
    Unavailable::new(Cause::Closed, options.place(), "")
}
