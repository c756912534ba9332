//! The store on PostgreSQL: many gateways, one truth.
//!
//! Refuses a schema of a newer version or of another program, a server that does not store UTF-8, and every write of a
//! gateway that does not hold its lease. `docs/shared-mode.md` says what is durable when, and what a crash loses.

mod fault;
#[cfg(feature = "sqlite")]
mod import;
mod lease;
mod options;
mod pack;
mod read;
mod readers;
mod schema;
mod session;
mod tls;
mod watch;
mod write;
mod writer;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc as blocking;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use tokio::sync::{mpsc, oneshot};

#[cfg(feature = "sqlite")]
pub use self::import::{ImportError, Imported, import};
use self::lease::Lease;
pub use self::options::{Options, Tls};
use self::readers::{Read, Readers};
use self::session::Session;
use self::tls::MakeTls;
use self::watch::Watch;
use self::writer::{Call, Job, Verb, Writer};
use crate::error::{Cause, Error, Unavailable};
use crate::failpoint::{self, strikes};
use crate::follow::{Figures, Follow};
use crate::model::{
    Archived, ConsumeInterrupt, Cursor, Deleted, Epoch, Expired, Fenced, Final, Generation, Head, Health,
    Interrupt, InterruptCommit, OpenRun, Opened, Orphan, Outcome, Owner, Page, Run, RunFilter, RunPage,
    StaleThread, Whose, Withdrawal,
};
use crate::record::Record;
use crate::store::{Result, Store};

/// A schema that is open. Clones share it; the last one that goes gives the lease back.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    options: Arc<Options>,
    /// `None` when opened for reading only.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    readers: Readers,
    instance: Arc<AtomicI64>,
    watch: Arc<Watch>,
    /// The thread of the runtime, and what lets it go where there is no writer to wait for.
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// What is there once the store is open.
struct Ready {
    readers: Readers,
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    instance: Arc<AtomicI64>,
    watch: Arc<Watch>,
}

impl PostgresStore {
    /// Opens a schema, made or brought up to date where that is needed, and takes a lease. Blocks until it is there.
    ///
    /// # Errors
    /// `Unreachable`, `Denied`, `Missing`, `NewerSchema`, `OlderSchema`, `OlderGateways`, `Corrupted`, `ReadOnly`.
    pub fn open(options: Options) -> std::result::Result<Self, Unavailable> {
        Self::start(options, true)
    }

    /// Opens a schema for reading, beside whoever writes it. Every write is refused as `ReadOnly`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_read_only(options: Options) -> std::result::Result<Self, Unavailable> {
        Self::start(options.migrate(false), false)
    }

    /// The version of the schema (0 where there is none) and the newest that this program knows, and nothing changed.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn version(options: &Options) -> std::result::Result<(usize, usize), Unavailable> {
        let tls = MakeTls::new(options)?;
        runtime(options)?.block_on(async {
            let session = Session::connect(options, &tls).await?;
            let version = schema::version(&session, options).await?;
            Ok((version.found, version.newest))
        })
    }

    /// Brings the schema up to date; its version before and after.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn migrate(options: &Options) -> std::result::Result<(usize, usize), Unavailable> {
        let options = options.clone().migrate(true);
        let tls = MakeTls::new(&options)?;
        runtime(&options)?.block_on(async {
            let session = Session::connect(&options, &tls).await?;
            let version = schema::prepare(&session, &options).await?;
            Ok((version.found, version.newest))
        })
    }

    /// The statements of the steps from this version on.
    pub fn migrations(from: usize) -> impl Iterator<Item = &'static str> {
        schema::MIGRATIONS.iter().skip(from).copied()
    }

    fn start(mut options: Options, writes: bool) -> std::result::Result<Self, Unavailable> {
        if strikes(failpoint::CARELESS) {
            // The control of the chaos rig: wrong on purpose, and only where it was built in and asked for.
            options.careless = true;
            options.idle_timeout = Duration::from_secs(60);
        }
        let options = Arc::new(options);
        let tls = MakeTls::new(&options)?;
        let runtime = runtime(&options)?;
        let (told, opened) = blocking::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let theirs = Arc::clone(&options);
        let thread = Builder::new().name("store-postgres".to_owned()).spawn(move || {
            let handle = runtime.handle().clone();
            runtime.block_on(async move {
                let readers = Readers::new(Arc::clone(&theirs), tls.clone(), handle);
                let (queue, jobs) = mpsc::channel(theirs.queue);
                match begin(Arc::clone(&theirs), tls.clone(), writes).await {
                    Err(trouble) => drop(told.send(Err(trouble))),
                    Ok(Some(writer)) => {
                        let (instance, watch) = (Arc::clone(&writer.instance), Arc::clone(&writer.watch));
                        // It ends with the runtime.
                        tokio::spawn(watch::serve(Arc::clone(&watch), theirs, tls, Arc::clone(&instance)));
                        let _ = told.send(Ok(Ready { readers, queue: Some(queue), instance, watch }));
                        // On a worker of the runtime, where it does not wake this thread for every answer.
                        let _ = tokio::spawn(writer::serve(writer, jobs)).await;
                    }
                    Ok(None) => {
                        let (instance, watch) = (Arc::default(), Arc::default());
                        let _ = told.send(Ok(Ready { readers, queue: None, instance, watch }));
                        let _ = stopped.await;
                    }
                }
            });
            // A read that still goes on answers nobody.
            runtime.shutdown_timeout(Duration::from_millis(100));
        });
        let thread = thread.map_err(|_| Unavailable::new(Cause::Io, options.place(), "no thread"))?;
        let Ready { readers, queue, instance, watch } =
            opened.recv().unwrap_or_else(|_| Err(writer::closed(&options)))?;
        let shared =
            Shared { options, queue, readers, instance, watch, thread: Some(thread), stop: Some(stop) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The number of this gateway among those that ever opened the schema.
    pub fn instance(&self) -> i64 {
        self.shared.instance.load(Ordering::Acquire)
    }

    async fn write<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        arguments: A,
        verb: Verb<A, T>,
    ) -> Result<T> {
        let options = &self.shared.options;
        let Some(queue) = &self.shared.queue else {
            return Err(Unavailable::new(Cause::ReadOnly, options.place(), "opened for reading only").into());
        };
        let (call, answered) = Call::new(arguments, verb);
        queue.send(Box::new(call)).await.map_err(|_| writer::closed(options))?;
        answered.await.map_err(|_| Error::Unknown(writer::closed(options)))?
    }

    async fn read<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        arguments: A,
        read: Read<A, T>,
    ) -> Result<T> {
        self.shared.readers.read(arguments, read).await
    }
}

fn runtime(options: &Options) -> std::result::Result<tokio::runtime::Runtime, Unavailable> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("store-postgres")
        .enable_all()
        .build()
        .map_err(|_| Unavailable::new(Cause::Io, options.place(), "no runtime"))
}

/// Connects, prepares the schema and takes a lease.
async fn begin(
    options: Arc<Options>,
    tls: MakeTls,
    writes: bool,
) -> std::result::Result<Option<Writer>, Unavailable> {
    let place = options.place();
    let session = Session::connect(&options, &tls).await?;
    if !writes {
        let version = schema::version(&session, &options).await?;
        return match version.found {
            0 => Err(Unavailable::new(Cause::Missing, place, "there is no schema of ours")),
            _ => Ok(None),
        };
    }
    schema::prepare(&session, &options).await?;
    let watch = Arc::new(Watch::default());
    let lease =
        Lease::begin(&session, &options, &watch).await.map_err(|trouble| trouble.unavailable(&place))?;
    let instance = Arc::new(AtomicI64::new(lease.instance));
    Ok(Some(Writer {
        options,
        tls,
        place,
        session: Some(session),
        lease,
        instance,
        bucket: 0,
        known: HashMap::new(),
        pending: Vec::new(),
        house_kept: Instant::now(),
        watch,
        wrote: false,
        ended: false,
    }))
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without senders the writer finishes what waits, gives its lease back and leaves, and the runtime with it.
        self.queue = None;
        drop(self.stop.take());
        // A thread that panicked has already failed its callers.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn open_run(&self, open: OpenRun) -> Result<Opened> {
        self.write(open, |writer, open| Box::pin(writer.open_run(open))).await
    }

    async fn append(&self, run_id: &RunId<'_>, generation: Generation, records: Vec<Record>) -> Result<()> {
        let run_id = run_id.clone().into_owned();
        self.write((run_id, generation, records), |writer, (run_id, generation, records)| {
            Box::pin(writer.append(run_id, *generation, records))
        })
        .await
    }

    async fn commit_final(&self, run_id: &RunId<'_>, generation: Generation, end: Final) -> Result<()> {
        let run_id = run_id.clone().into_owned();
        self.write((run_id, generation, end), |writer, (run_id, generation, end)| {
            Box::pin(writer.commit_final(run_id, *generation, end))
        })
        .await
    }

    async fn commit_interrupt(
        &self,
        run_id: &RunId<'_>,
        generation: Generation,
        interrupt: InterruptCommit,
    ) -> Result<CommitReceipt> {
        let run_id = run_id.clone().into_owned();
        self.write((run_id, generation, interrupt), |writer, (run_id, generation, interrupt)| {
            Box::pin(writer.commit_interrupt(run_id, *generation, interrupt))
        })
        .await
    }

    async fn consume_interrupt(&self, answer: ConsumeInterrupt) -> Result<Opened> {
        self.write(answer, |writer, answer| Box::pin(writer.consume_interrupt(answer))).await
    }

    async fn void_interrupt(&self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool> {
        let run_id = run_id.clone().into_owned();
        self.write((run_id, why), |writer, (run_id, why)| Box::pin(writer.void_interrupt(run_id, *why))).await
    }

    async fn note_cause(&self, run_id: &RunId<'_>, cause: &str) -> Result<()> {
        let (run_id, cause) = (run_id.clone().into_owned(), cause.to_owned());
        self.write((run_id, cause), |writer, (run_id, cause)| Box::pin(writer.note_cause(run_id, cause)))
            .await
    }

    async fn fence(&self, run_id: &RunId<'_>) -> Result<Fenced> {
        let run_id = run_id.clone().into_owned();
        self.write(run_id, |writer, run_id| Box::pin(writer.fence(run_id))).await
    }

    async fn close_run(&self, run_id: &RunId<'_>, tail: Vec<Record>) -> Result<()> {
        let (run_id, end) = (run_id.clone().into_owned(), Final { tail, head: None });
        self.write((run_id, end), |writer, (run_id, end)| Box::pin(writer.close_run(run_id, end))).await
    }

    async fn put_result(&self, run_id: &RunId<'_>, reference: &Reference<'_>, bytes: Vec<u8>) -> Result<()> {
        let (run_id, reference) = (run_id.clone().into_owned(), reference.clone().into_owned());
        self.write((run_id, reference, bytes), |writer, (run_id, reference, bytes)| {
            Box::pin(writer.put_result(run_id, reference, bytes))
        })
        .await
    }

    async fn outcome(&self, run_id: &RunId<'_>) -> Result<Outcome> {
        let run_id = run_id.clone().into_owned();
        if self.shared.queue.is_none() {
            return self.read(run_id, |session, run_id| Box::pin(read::outcome(session, run_id))).await;
        }
        // In the writer's queue, behind the write whose answer was lost.
        self.write(run_id, |writer, run_id| Box::pin(writer.outcome(run_id))).await
    }

    async fn load_head(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: &Name<'_>,
    ) -> Result<Option<Head>> {
        let place = (owner.clone(), conversation_id.clone().into_owned());
        let agent_id = agent_id.clone().into_owned();
        self.read((place, agent_id), |session, ((owner, id), agent_id)| {
            Box::pin(async move {
                match read::conversation(session, owner, id).await? {
                    Some(conversation) => read::head(session, conversation.key, agent_id).await,
                    None => Ok(None),
                }
            })
        })
        .await
    }

    async fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page> {
        let run_id = run_id.clone().into_owned();
        self.read((run_id, after, limit), |session, (run_id, after, limit)| {
            Box::pin(read::read_after(session, None, run_id, *after, *limit))
        })
        .await
    }

    async fn read_owned(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
    ) -> Result<Page> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        self.read((owner, run_id, after, limit), |session, (owner, run_id, after, limit)| {
            Box::pin(read::read_after(session, Some(owner), run_id, *after, *limit))
        })
        .await
    }

    async fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        self.read((owner, run_id), |session, (owner, run_id)| Box::pin(read::run_of(session, owner, run_id)))
            .await
    }

    async fn runs(
        &self,
        owner: &Owner,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage> {
        let (owner, filter) = (owner.clone(), filter.clone());
        self.read((owner, filter, limit, cursor), |session, (owner, filter, limit, cursor)| {
            Box::pin(read::runs(session, owner, filter, *limit, *cursor))
        })
        .await
    }

    async fn active_run(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<RunId<'static>>> {
        let place = (owner.clone(), conversation_id.clone().into_owned());
        self.read(place, |session, (owner, id)| {
            Box::pin(async move {
                Ok(read::conversation(session, owner, id).await?.and_then(|found| found.active))
            })
        })
        .await
    }

    async fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<Interrupt>> {
        let place = (owner.clone(), conversation_id.clone().into_owned());
        self.read(place, |session, (owner, id)| Box::pin(read::pending_interrupt(session, owner, id))).await
    }

    async fn pending_interrupts(&self, owner: &Owner, limit: usize) -> Result<Vec<Interrupt>> {
        self.read((owner.clone(), limit), |session, (owner, limit)| {
            Box::pin(read::pending_interrupts(session, owner, *limit))
        })
        .await
    }

    async fn expiring_interrupts(&self, limit: usize) -> Result<Vec<(RunId<'static>, Timestamp<'static>)>> {
        self.read(limit, |session, limit| Box::pin(read::expiring_interrupts(session, *limit))).await
    }

    async fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        self.read((owner, run_id), |session, (owner, run_id)| {
            Box::pin(read::interrupt(session, owner, run_id))
        })
        .await
    }

    async fn result(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        reference: &Reference<'_>,
    ) -> Result<Arc<[u8]>> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        let reference = reference.clone().into_owned();
        self.read((owner, run_id, reference), |session, (owner, run_id, reference)| {
            Box::pin(read::result(session, owner, run_id, reference))
        })
        .await
    }

    async fn clear_conversation(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<Epoch> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.write((owner, id), |writer, (owner, id)| Box::pin(writer.clear_conversation(owner, id))).await
    }

    async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.write((owner, id), |writer, (owner, id)| Box::pin(writer.delete_conversation(owner, id))).await
    }

    async fn stored_bytes(&self, whose: Whose, name: &str) -> Result<u64> {
        self.read((whose, name.to_owned()), |session, (whose, name)| {
            Box::pin(read::stored_bytes(session, *whose, name))
        })
        .await
    }

    async fn stale_threads(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        limit: usize,
    ) -> Result<Vec<StaleThread>> {
        let place = (owner.clone(), conversation_id.clone().into_owned());
        self.read((place, limit), |session, ((owner, id), limit)| {
            Box::pin(read::stale_threads(session, owner, id, *limit))
        })
        .await
    }

    async fn threads_forgotten(&self, runs: &[RunId<'static>]) -> Result<()> {
        let runs = runs.to_vec();
        self.write(runs, |writer, runs| Box::pin(writer.threads_forgotten(runs))).await
    }

    async fn list_orphans(&self) -> Result<Vec<Orphan>> {
        self.write((), |writer, ()| Box::pin(writer.list_orphans())).await
    }

    fn shared(&self) -> Option<Duration> {
        Some(self.shared.options.renew)
    }

    fn follow(&self, run_id: &RunId<'_>) -> Option<Box<dyn Follow>> {
        // Who only reads has nobody to tell it.
        self.shared.queue.as_ref()?;
        Some(Box::new(self.shared.watch.follow(run_id)))
    }

    async fn disturbed(&self) {
        self.shared.watch.taken().await;
    }

    fn figures(&self) -> Option<Figures> {
        Some(self.shared.watch.figures())
    }

    /// A write that changes nothing takes the lease as any other does, and renews it where that is due.
    async fn renew_lease(&self) -> Result<()> {
        self.write((), |_, ()| Box::pin(async { Ok(()) })).await
    }

    async fn archive(&self, before: &Timestamp<'_>, limit: usize) -> Result<Archived> {
        let before = before.unix_millis();
        let keys = self
            .read((before, limit), |session, (before, limit)| {
                Box::pin(read::packable(session, *before, *limit))
            })
            .await?;
        let mut total = Archived::default();
        // One at a time: other writes get their turn in between.
        for key in keys {
            let done = self.write(key, |writer, key| Box::pin(writer.pack(*key))).await?;
            total.runs += done.runs;
            total.bytes_before += done.bytes_before;
            total.bytes_after += done.bytes_after;
        }
        let options = Arc::clone(&self.shared.options);
        self.read(options, |session, options| Box::pin(schema::drop_partitions(session, options))).await?;
        total.oldest_left =
            self.read(before, |session, before| Box::pin(read::oldest_packable(session, *before))).await?;
        Ok(total)
    }

    async fn expire(&self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Result<Expired> {
        let (before, at) = (before.unix_millis(), at.to_string());
        let keys = self
            .read((before, limit), |session, (before, limit)| {
                Box::pin(read::expirable(session, *before, *limit))
            })
            .await?;
        let mut total = Expired::default();
        // One at a time: other writes get their turn in between.
        for key in keys {
            let due = (key, before, at.clone());
            let done =
                self.write(due, |writer, (key, before, at)| Box::pin(writer.expire(*key, *before, at)));
            total.runs.extend(done.await?);
        }
        total.oldest_left =
            self.read(before, |session, before| Box::pin(read::oldest_expirable(session, *before))).await?;
        Ok(total)
    }

    async fn health(&self) -> Result<Health> {
        self.read((), |session, ()| Box::pin(session.batch("SELECT 1"))).await?;
        let queued = self.shared.queue.as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity());
        if self.shared.queue.as_ref().is_some_and(mpsc::Sender::is_closed) {
            return Err(writer::closed(&self.shared.options).into());
        }
        Ok(Health { backend: "postgres", queued, ..Health::default() })
    }
}
