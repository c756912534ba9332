//! The store on SQLite: one file, one writer, a few readers. The default of the gateway.
//!
//! Refuses a directory that another gateway uses, a file of a newer version, and a damaged one. What is durable when,
//! and what a crash loses, stands in the crate's README.

pub mod backup;
mod condition;
pub(crate) mod fault;
pub(crate) mod mark;
pub(crate) mod open;
mod pack;
mod queue;
mod read;
mod readers;
mod row;
mod schema;
mod trust;
mod write;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use async_trait::async_trait;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;
use tokio::sync::mpsc;

use self::condition::Condition;
use self::fault::Trouble;
use self::mark::Mark;
use self::queue::{Call, Job};
use self::readers::Readers;
use self::write::Writer;
use crate::error::{Cause, Error, Unavailable};
use crate::failpoint::{self, hit};
use crate::model::{
    Archived, ConsumeInterrupt, Cursor, Deleted, Epoch, Expired, Fenced, Final, Generation, Head, Health,
    Interrupt, InterruptCommit, OpenRun, Opened, Orphan, Outcome, Owner, Page, Run, RunFilter, RunPage,
    StaleThread, Whose, Withdrawal,
};
use crate::record::Record;
use crate::store::{Result, Store};

/// How to open a data directory.
#[derive(Clone, Debug)]
pub struct Options {
    dir: PathBuf,
    readers: usize,
    queue: usize,
    low_disk_bytes: u64,
    tuning: open::Tuning,
}

impl Options {
    /// The defaults, for this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            readers: 2,
            queue: 1024,
            low_disk_bytes: 256 * 1024 * 1024,
            tuning: open::Tuning { max_pages: None, sync: true, checkpoint_pages: 1000 },
        }
    }

    /// How many reads go on at once (2).
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// How many writes may wait before callers do (1024).
    #[must_use]
    pub fn queue(mut self, writes: usize) -> Self {
        self.queue = writes.max(1);
        self
    }

    /// Below how many free bytes new runs are refused (256 MiB).
    #[must_use]
    pub fn low_disk_bytes(mut self, bytes: u64) -> Self {
        self.low_disk_bytes = bytes;
        self
    }

    /// The largest file, in pages of 4 KiB; a full one behaves like a full disk.
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.tuning.max_pages = Some(pages);
        self
    }

    /// How many pages the write-ahead log may have before it is copied into the file (1000).
    #[must_use]
    pub fn checkpoint_pages(mut self, pages: i32) -> Self {
        self.tuning.checkpoint_pages = pages.max(1);
        self
    }

    /// Breaks the promise of the crate: nothing is synced. The control of the tests that look for syncs.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.tuning.sync = false;
        self
    }
}

/// A data directory that is open. Clones share it; the last one that goes closes it.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` when opened for reading only.
    writer: Option<mpsc::Sender<Box<dyn Job>>>,
    readers: Option<Readers>,
    /// The readers' threads, then the writer's.
    threads: Vec<JoinHandle<()>>,
    dir: PathBuf,
    /// What is open.
    file: open::Identity,
    low_disk_bytes: u64,
    instance: i64,
    condition: Arc<Condition>,
    /// The lock of the directory, held until the writer has left.
    lock: Option<File>,
}

impl SqliteStore {
    /// Opens a data directory, made if it is missing, for this process alone. Blocks while it checks the file.
    ///
    /// # Errors
    /// `InUse`, `ReadOnly`, `DiskFull`, `Corrupted`, `Altered`, `NewerSchema`, `Io`.
    pub fn open(options: Options) -> std::result::Result<Self, Unavailable> {
        let Options { dir, readers, queue, low_disk_bytes, tuning } = options;
        let lock = open::lock(&dir)?;
        hit(failpoint::LOCKED);
        let mut mark = Mark::open(&dir)?;
        let connection = open::writer(&dir, tuning, &mut mark)?;
        let file = open::Identity::of(&dir)?;
        let condition = Arc::<Condition>::default();
        let sick = |error: rusqlite::Error| fault::unavailable(&error, &dir.join(open::FILE));
        let mut writer =
            Writer::new(connection, file, dir.clone(), tuning, low_disk_bytes, mark, Arc::clone(&condition))
                .map_err(sick)?;
        let instance = writer.begin_instance().map_err(|trouble| match trouble {
            Trouble::Sql(error) => sick(error),
            Trouble::Answer(_) => Unavailable::new(Cause::Io, &dir, "no instance"),
        })?;
        hit(failpoint::INSTANCE);
        let (readers, mut threads) = Readers::start(dir.clone(), readers)?;
        let (sender, jobs) = mpsc::channel(queue);
        let thread = Builder::new().name("store-write".to_owned()).spawn(move || queue::serve(writer, jobs));
        threads.push(thread.map_err(|error| fault::io(&error, &dir))?);
        Ok(Self {
            shared: Arc::new(Shared {
                writer: Some(sender),
                readers: Some(readers),
                threads,
                dir,
                file,
                low_disk_bytes,
                instance,
                condition,
                lock: Some(lock),
            }),
        })
    }

    /// Opens a data directory for reading, also while a gateway uses it. Every write is refused as `ReadOnly`.
    ///
    /// # Errors
    /// `Missing`, `Corrupted`, `Altered`, `NewerSchema`, `Io`.
    pub fn open_read_only(dir: impl Into<PathBuf>) -> std::result::Result<Self, Unavailable> {
        let dir = dir.into();
        // Read first: a gateway that writes meanwhile only makes the file newer than this.
        let mark = Mark::peek(&dir);
        open::compare(&dir, &mark)?;
        let (readers, threads) = Readers::start(dir.clone(), 1)?;
        let file = open::Identity::of(&dir)?;
        Ok(Self {
            shared: Arc::new(Shared {
                writer: None,
                readers: Some(readers),
                threads,
                dir,
                file,
                low_disk_bytes: 0,
                instance: 0,
                condition: Arc::default(),
                lock: None,
            }),
        })
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Writer) -> std::result::Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        let dir = &self.shared.dir;
        let Some(writer) = &self.shared.writer else {
            return Err(Unavailable::new(Cause::ReadOnly, dir, "opened for reading only").into());
        };
        let (call, answered) = Call::new(work);
        writer.send(Box::new(call)).await.map_err(|_| queue::closed(dir))?;
        answered.await.map_err(|_| Error::Unknown(queue::closed(dir)))?
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> std::result::Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        match &self.shared.readers {
            Some(readers) => readers.read(work).await,
            None => Err(queue::closed(&self.shared.dir).into()),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without senders the threads finish what waits and leave: first the readers, for whoever closes the file last
        // copies the log into it and removes it, which takes the writer; and the lock goes last of all.
        let writer = self.writer.as_ref().and_then(|_| self.threads.pop());
        self.readers = None;
        for reader in self.threads.drain(..) {
            // A thread that panicked has already failed its callers.
            let _ = reader.join();
        }
        self.writer = None;
        let _ = writer.map(JoinHandle::join);
        if self.lock.is_some() && self.file.check(&self.dir).is_ok() {
            // Where nobody vouches for the file, the next start reads it through.
            let _ = Mark::open(&self.dir).and_then(|mut mark| mark.leave(&self.dir.join(open::FILE)));
        }
        self.lock = None;
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn open_run(&self, open: OpenRun) -> Result<Opened> {
        self.write(move |writer| writer.open_run(&open)).await
    }

    async fn append(&self, run_id: &RunId<'_>, generation: Generation, records: Vec<Record>) -> Result<()> {
        let run_id = run_id.clone().into_owned();
        self.write(move |writer| writer.append(&run_id, generation, &records)).await
    }

    async fn commit_final(&self, run_id: &RunId<'_>, generation: Generation, end: Final) -> Result<()> {
        let run_id = run_id.clone().into_owned();
        self.write(move |writer| writer.commit_final(&run_id, generation, &end)).await
    }

    async fn commit_interrupt(
        &self,
        run_id: &RunId<'_>,
        generation: Generation,
        interrupt: InterruptCommit,
    ) -> Result<CommitReceipt> {
        let run_id = run_id.clone().into_owned();
        self.write(move |writer| writer.commit_interrupt(&run_id, generation, &interrupt)).await
    }

    async fn consume_interrupt(&self, answer: ConsumeInterrupt) -> Result<Opened> {
        self.write(move |writer| writer.consume_interrupt(&answer)).await
    }

    async fn void_interrupt(&self, run_id: &RunId<'_>, why: Withdrawal) -> Result<bool> {
        let run_id = run_id.clone().into_owned();
        self.write(move |writer| writer.void_interrupt(&run_id, why)).await
    }

    async fn note_cause(&self, run_id: &RunId<'_>, cause: &str) -> Result<()> {
        let (run_id, cause) = (run_id.clone().into_owned(), cause.to_owned());
        self.write(move |writer| writer.note_cause(&run_id, &cause)).await
    }

    async fn fence(&self, run_id: &RunId<'_>) -> Result<Fenced> {
        let run_id = run_id.clone().into_owned();
        self.write(move |writer| writer.fence(&run_id)).await
    }

    async fn close_run(&self, run_id: &RunId<'_>, tail: Vec<Record>) -> Result<()> {
        let (run_id, end) = (run_id.clone().into_owned(), Final { tail, head: None });
        self.write(move |writer| writer.close_run(&run_id, &end)).await
    }

    async fn put_result(&self, run_id: &RunId<'_>, reference: &Reference<'_>, bytes: Vec<u8>) -> Result<()> {
        let (run_id, reference) = (run_id.clone().into_owned(), reference.clone().into_owned());
        self.write(move |writer| writer.put_result(&run_id, &reference, &bytes)).await
    }

    async fn outcome(&self, run_id: &RunId<'_>) -> Result<Outcome> {
        let run_id = run_id.clone().into_owned();
        if self.shared.writer.is_none() {
            return self.read(move |connection| read::outcome(connection, &run_id)).await;
        }
        // In the writer's queue, behind the write whose answer was lost.
        self.write(move |writer| read::outcome(&writer.connection, &run_id)).await
    }

    async fn load_head(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: &Name<'_>,
    ) -> Result<Option<Head>> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        let agent_id = agent_id.clone().into_owned();
        self.read(move |connection| match read::conversation(connection, &owner, &id)? {
            Some(conversation) => read::head(connection, conversation.key, &agent_id),
            None => Ok(None),
        })
        .await
    }

    async fn read_after(&self, run_id: &RunId<'_>, after: Option<Sequence>, limit: usize) -> Result<Page> {
        let run_id = run_id.clone().into_owned();
        self.read(move |connection| read::read_after(connection, None, &run_id, after, limit)).await
    }

    async fn read_owned(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
    ) -> Result<Page> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        self.read(move |connection| read::read_after(connection, Some(&owner), &run_id, after, limit)).await
    }

    async fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        self.read(move |connection| read::run_of(connection, &owner, &run_id)).await
    }

    async fn runs(
        &self,
        owner: &Owner,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage> {
        let (owner, filter) = (owner.clone(), filter.clone());
        self.read(move |connection| read::runs(connection, &owner, &filter, limit, cursor)).await
    }

    async fn active_run(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<RunId<'static>>> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.read(move |connection| {
            Ok(read::conversation(connection, &owner, &id)?.and_then(|found| found.active))
        })
        .await
    }

    async fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Option<Interrupt>> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.read(move |connection| read::pending_interrupt(connection, &owner, &id)).await
    }

    async fn pending_interrupts(&self, owner: &Owner, limit: usize) -> Result<Vec<Interrupt>> {
        let owner = owner.clone();
        self.read(move |connection| read::pending_interrupts(connection, &owner, limit)).await
    }

    async fn expiring_interrupts(&self, limit: usize) -> Result<Vec<(RunId<'static>, Timestamp<'static>)>> {
        self.read(move |connection| read::expiring_interrupts(connection, limit)).await
    }

    async fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        self.read(move |connection| read::interrupt(connection, &owner, &run_id)).await
    }

    async fn result(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        reference: &Reference<'_>,
    ) -> Result<Arc<[u8]>> {
        let (owner, run_id) = (owner.clone(), run_id.clone().into_owned());
        let reference = reference.clone().into_owned();
        self.read(move |connection| read::result(connection, &owner, &run_id, &reference)).await
    }

    async fn clear_conversation(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<Epoch> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.write(move |writer| writer.clear_conversation(&owner, &id)).await
    }

    async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.write(move |writer| writer.delete_conversation(&owner, &id)).await
    }

    async fn stored_bytes(&self, whose: Whose, name: &str) -> Result<u64> {
        let name = name.to_owned();
        self.read(move |connection| read::stored_bytes(connection, whose, &name)).await
    }

    async fn stale_threads(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        limit: usize,
    ) -> Result<Vec<StaleThread>> {
        let (owner, id) = (owner.clone(), conversation_id.clone().into_owned());
        self.read(move |connection| match read::conversation(connection, &owner, &id)? {
            Some(conversation) => read::stale_threads(connection, conversation.key, limit),
            None => Ok(Vec::new()),
        })
        .await
    }

    async fn threads_forgotten(&self, runs: &[RunId<'static>]) -> Result<()> {
        let runs = runs.to_vec();
        self.write(move |writer| writer.threads_forgotten(&runs)).await
    }

    async fn list_orphans(&self) -> Result<Vec<Orphan>> {
        let instance = self.shared.instance;
        self.read(move |connection| read::orphans(connection, instance)).await
    }

    /// The lease is the lock of the directory, which the system holds for us; what can be lost is the directory.
    async fn renew_lease(&self) -> Result<()> {
        Ok(self.shared.file.check(&self.shared.dir)?)
    }

    async fn archive(&self, before: &Timestamp<'_>, limit: usize) -> Result<Archived> {
        let before = before.unix_millis();
        let keys = self.read(move |connection| read::packable(connection, before, limit)).await?;
        let mut total = Archived::default();
        // One transaction a run: other writes get their turn in between.
        for key in keys {
            let done = self.write(move |writer| writer.pack(key)).await?;
            total.runs += done.runs;
            total.bytes_before += done.bytes_before;
            total.bytes_after += done.bytes_after;
        }
        total.oldest_left = self.read(move |connection| read::oldest_packable(connection, before)).await?;
        Ok(total)
    }

    async fn expire(&self, before: &Timestamp<'_>, at: &Timestamp<'_>, limit: usize) -> Result<Expired> {
        let (before, at) = (before.unix_millis(), at.to_string());
        let keys = self.read(move |connection| read::expirable(connection, before, limit)).await?;
        let mut total = Expired::default();
        // One transaction a run: other writes get their turn in between.
        for key in keys {
            let at = at.clone();
            total.runs.extend(self.write(move |writer| writer.expire(key, before, &at)).await?);
        }
        total.oldest_left = self.read(move |connection| read::oldest_expirable(connection, before)).await?;
        if !total.runs.is_empty() {
            // Last: a reader would be in its way.
            self.write(|writer| writer.fold_in()).await?;
        }
        Ok(total)
    }

    async fn health(&self) -> Result<Health> {
        self.shared.file.check(&self.shared.dir)?;
        self.shared.condition.check()?;
        let free = open::free_bytes(&self.shared.dir)?;
        self.read(|connection| Ok(connection.query_row("SELECT 1 FROM meta", [], |_| Ok(()))?)).await?;
        let queued = self.shared.writer.as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity());
        if self.shared.writer.as_ref().is_some_and(mpsc::Sender::is_closed) {
            return Err(queue::closed(&self.shared.dir).into());
        }
        Ok(Health {
            backend: "sqlite",
            free_bytes: Some(free),
            used_bytes: Some(open::used_bytes(&self.shared.dir)),
            queued,
            low_disk: free < self.shared.low_disk_bytes,
        })
    }
}
