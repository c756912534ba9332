//! What other gateways write, noticed: a connection that gives and hears hints, and looks for what has moved.
//!
//! Refuses to carry news in a hint. One says that there is something to look at, and is given after the commit, outside
//! its transaction and never two at once; so it holds up nobody, and many writes share one. A look asks for every run
//! that is followed here at once, and comes after a hint, for a new follower, and every now and then, so that a hint
//! that was lost costs time and nothing else. What a follower reads is found by its cursor.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::RunId;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::follow::{Figures, Follow};
use crate::postgres::fault::Trouble;
use crate::postgres::options::Options;
use crate::postgres::read;
use crate::postgres::session::{Session, Sql, quoted};
use crate::postgres::tls::MakeTls;

/// The least time between two hints of a gateway, and between two looks.
const GAP: Duration = Duration::from_millis(8);
/// How soon a connection that was lost is made again.
const AGAIN: Duration = Duration::from_millis(250);
/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the parts of a store tell each other about other gateways.
#[derive(Default)]
pub(crate) struct Watch {
    followed: Mutex<HashMap<RunId<'static>, Followed>>,
    /// Something was written here.
    hint: Notify,
    /// A look is due.
    look: Notify,
    /// Something was taken from this gateway.
    taken: Notify,
    renewed: Mutex<Option<Instant>>,
    others: AtomicU64,
    /// Whether there is nobody to give a hint to.
    alone: AtomicBool,
    pub(crate) leases_lost: AtomicU64,
    pub(crate) leases_ended: AtomicU64,
    pub(crate) runs_taken: AtomicU64,
    runs_lost: AtomicU64,
    hints_sent: AtomicU64,
    hints_received: AtomicU64,
    looks: AtomicU64,
}

struct Followed {
    followers: usize,
    mark: watch::Sender<Mark>,
}

/// How far a run is known to have come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Mark {
    pub(crate) last: Option<Sequence>,
    /// It has its terminal, or is gone.
    pub(crate) over: bool,
    /// How many looks have failed.
    failed: u64,
}

/// What the row of an instance said at a look: number, fences, whether it was ended.
type Own = (i64, i64, i64);

impl Watch {
    /// Something was written that others may wait for.
    pub(crate) fn wrote(&self) {
        if !self.alone.load(Ordering::Relaxed) {
            self.hint.notify_one();
        }
    }

    /// A run that others write was ended here: who follows it here hears no hint of it.
    pub(crate) fn ended(&self) {
        self.look.notify_one();
    }

    /// A lease was begun, beside so many others. They are told of everything until the first renewal says who is left.
    pub(crate) fn began(&self, sent: Instant, others: u64) {
        self.renewed(sent, others);
        self.alone.store(false, Ordering::Relaxed);
    }

    /// The lease was renewed, and so many other gateways there are.
    pub(crate) fn renewed(&self, sent: Instant, others: u64) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
        self.others.store(others, Ordering::Relaxed);
        self.alone.store(others == 0, Ordering::Relaxed);
    }

    /// Returns once something was taken from this gateway; what happened before the call counts.
    pub(crate) async fn taken(&self) {
        self.taken.notified().await;
    }

    pub(crate) fn figures(&self) -> Figures {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        Figures {
            lease_age: renewed.map_or(Duration::ZERO, |renewed| renewed.elapsed()),
            others: count(&self.others),
            leases_lost: count(&self.leases_lost),
            leases_ended: count(&self.leases_ended),
            runs_taken: count(&self.runs_taken),
            runs_lost: count(&self.runs_lost),
            hints_sent: count(&self.hints_sent),
            hints_received: count(&self.hints_received),
            looks: count(&self.looks),
            followed: u64::try_from(self.table().len()).unwrap_or(u64::MAX),
        }
    }

    /// Begins to follow a run, which brings a look at it.
    pub(crate) fn follow(self: &Arc<Self>, run_id: &RunId<'_>) -> Following {
        let run_id = run_id.clone().into_owned();
        let mark = {
            let mut table = self.table();
            let fresh = || Followed { followers: 0, mark: watch::Sender::new(Mark::default()) };
            let followed = table.entry(run_id.clone()).or_insert_with(fresh);
            followed.followers += 1;
            followed.mark.subscribe()
        };
        let failed = mark.borrow().failed;
        self.look.notify_one();
        Following { watch: Arc::clone(self), run_id, mark, failed }
    }

    fn table(&self) -> std::sync::MutexGuard<'_, HashMap<RunId<'static>, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing can be seen: every follower is to find out for itself.
    fn blind(&self) {
        for followed in self.table().values() {
            followed.mark.send_modify(|mark| mark.failed += 1);
        }
    }

    /// Looks once at everything that is followed, and at what this gateway holds.
    async fn look(&self, session: &Session, instance: &AtomicI64, own: &mut Own) -> Sql<()> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let runs: Vec<RunId<'static>> = self.table().keys().cloned().collect();
        let now = read::instance(session, instance.load(Ordering::Acquire)).await?;
        if *own != now {
            let (of, fences, _) = *own;
            let lost = if of == now.0 { now.1 - fences } else { 0 };
            self.runs_lost.fetch_add(u64::try_from(lost).unwrap_or(0), Ordering::Relaxed);
            self.taken.notify_one();
        }
        *own = now;
        if runs.is_empty() {
            return Ok(());
        }
        let mut found = read::marks(session, &runs).await?;
        let table = self.table();
        for run_id in &runs {
            let Some(followed) = table.get(run_id) else { continue };
            let (last, over) = found.remove(run_id).unwrap_or((None, true));
            followed.mark.send_if_modified(|mark| {
                let next = Mark { last, over, ..*mark };
                std::mem::replace(mark, next) != next
            });
        }
        Ok(())
    }
}

/// One who follows a run.
pub(crate) struct Following {
    watch: Arc<Watch>,
    run_id: RunId<'static>,
    mark: watch::Receiver<Mark>,
    /// How many failed looks it knows of.
    failed: u64,
}

#[async_trait]
impl Follow for Following {
    async fn moved(&mut self, seen: Option<Sequence>) {
        let known = self.failed;
        let news = |mark: &Mark| mark.last > seen || mark.over || mark.failed != known;
        // The sender lives as long as this is in the table.
        if let Ok(mark) = self.mark.wait_for(news).await {
            self.failed = mark.failed;
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut table = self.watch.table();
        if let Some(followed) = table.get_mut(&self.run_id) {
            followed.followers = followed.followers.saturating_sub(1);
            if followed.followers == 0 {
                table.remove(&self.run_id);
            }
        }
    }
}

/// The connection of the hints.
struct Line {
    session: Session,
    driver: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Watches until the task is aborted.
pub(crate) async fn serve(watch: Arc<Watch>, options: Arc<Options>, tls: MakeTls, instance: Arc<AtomicI64>) {
    // What was last known of this gateway's row outlives the connection: what changed meanwhile is seen. A new one begins
    // with no fences, so what changes before the first look is seen, too.
    let mut own = (instance.load(Ordering::Acquire), 0, 0);
    loop {
        if let Ok(mut line) = connect(&watch, &options, &tls).await {
            let Line { session, driver } = &mut line;
            // Whichever ends first: the connection is of no use any more.
            tokio::select! {
                _ = looks(&watch, session, &options, &instance, &mut own) => {}
                _ = hints(&watch, session, &options) => {}
                _ = driver => {}
            }
        }
        watch.blind();
        tokio::time::sleep(AGAIN).await;
    }
}

async fn looks(
    watch: &Watch,
    session: &Session,
    options: &Options,
    instance: &AtomicI64,
    own: &mut Own,
) -> Sql<()> {
    loop {
        let begun = tokio::time::Instant::now();
        let look = watch.look(session, instance, own);
        tokio::time::timeout(PATIENCE, look).await.unwrap_or(Err(Trouble::Silent))?;
        tokio::time::sleep_until(begun + GAP).await;
        // A hint that is lost is made up for by the time.
        let _ = tokio::time::timeout_at(begun + options.look, watch.look.notified()).await;
    }
}

/// Tells others; at once where nothing was told for a moment, and otherwise for all that came in that moment.
async fn hints(watch: &Watch, session: &Session, options: &Options) -> Sql<()> {
    if !options.notify {
        std::future::pending::<()>().await;
    }
    let sql = format!("NOTIFY {}", quoted(&options.schema));
    loop {
        // The first says that there is one more to tell.
        session.batch(&sql).await?;
        watch.hints_sent.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(GAP).await;
        watch.hint.notified().await;
    }
}

async fn connect(watch: &Arc<Watch>, options: &Options, tls: &MakeTls) -> Sql<Line> {
    let own = Arc::new(AtomicI32::new(0));
    let hears = {
        let (watch, own) = (Arc::clone(watch), Arc::clone(&own));
        move |pid| {
            if pid != own.load(Ordering::Relaxed) {
                watch.hints_received.fetch_add(1, Ordering::Relaxed);
                // Somebody is there, whatever the last renewal said.
                watch.others.fetch_max(1, Ordering::Relaxed);
                watch.alone.store(false, Ordering::Relaxed);
                watch.look.notify_one();
            }
        }
    };
    let (session, driver) = Session::connect_hearing(options, tls, hears).await.map_err(Trouble::Away)?;
    let line = Line { session, driver };
    if options.notify {
        let pid = line.session.rows("SELECT pg_backend_pid()", &[]).await?;
        own.store(pid.first().map_or(Ok(0), |row| row.try_get(0))?, Ordering::Relaxed);
        // A hint needs not outlive a crash of the server.
        let sql = format!("SET synchronous_commit TO off; LISTEN {}", quoted(&options.schema));
        line.session.batch(&sql).await?;
    }
    Ok(line)
}
