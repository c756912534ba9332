//! The writes, on the writer's connection and inside its transaction.
//!
//! Refuses before it changes anything: a write that answers no has written nothing, so that it can share a
//! transaction with others. A run's state is kept in memory while it is written; the file is asked only once.
//! It is one piece, since every verb stands on the same few helpers.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use causeway_contract::id::{ConversationId, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;
use rusqlite::{Connection, OptionalExtension, params};

use crate::columns::type_number;
use crate::error::{Cause, Refusal, Unavailable};
use crate::failpoint::{self, hit, strikes};
use crate::model::interrupt::expired;
use crate::model::{
    Archived, Bound, ConsumeInterrupt, Deleted, Epoch, ExpiredRun, Fenced, Final, Generation, HeadMove,
    InterruptCommit, InterruptStatus, Open, OpenRun, Opened, Owner, Revision, Status, Withdrawal,
};
use crate::record::Record;
use crate::rules::{self, Ending, RunState};
use crate::sqlite::condition::Condition;
use crate::sqlite::fault::{Trouble, damaged};
use crate::sqlite::mark::Mark;
use crate::sqlite::read::{self, Conversation, LAST_SEQUENCE, one};
use crate::sqlite::row::{ROOT, interrupt_number, reason_number, status_number, stored, thread_number};
use crate::sqlite::{open, pack};

/// What the writes answer.
pub(crate) type Write<T> = Result<T, Trouble>;

/// The most runs whose state is kept in memory.
const MAX_KNOWN: usize = 4096;

/// The one that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    /// What the connection has open.
    pub(crate) file: open::Identity,
    pub(crate) dir: PathBuf,
    pub(crate) tuning: open::Tuning,
    pub(crate) low_disk_bytes: u64,
    pub(crate) instance: i64,
    /// What is told beside the file about what was acknowledged.
    pub(crate) mark: Mark,
    pub(crate) condition: Arc<Condition>,
    /// Pages in the write-ahead log after the last commit.
    pub(crate) log_pages: Arc<AtomicI32>,
    /// Whether the disk failed under the connection, so that it must not be written through again.
    pub(crate) distrusted: bool,
    /// Whether content was deleted that still stands in the write-ahead log.
    pub(crate) fold_in: bool,
    known: HashMap<RunId<'static>, Known>,
}

/// A run that is being written.
#[derive(Clone, Debug)]
struct Known {
    key: i64,
    conversation: i64,
    agent_id: String,
    state: RunState,
    /// Bytes of its records in the log, where all of them went through here.
    logged: Option<u64>,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        file: open::Identity,
        dir: PathBuf,
        tuning: open::Tuning,
        low_disk_bytes: u64,
        mark: Mark,
        condition: Arc<Condition>,
    ) -> rusqlite::Result<Self> {
        let mut writer = Self {
            connection,
            file,
            dir,
            tuning,
            low_disk_bytes,
            instance: 0,
            mark,
            condition,
            log_pages: Arc::default(),
            distrusted: false,
            fold_in: false,
            known: HashMap::new(),
        };
        writer.watch_log()?;
        Ok(writer)
    }

    /// Forgets what was read or written in a transaction that did not land.
    pub(crate) fn rolled_back(&mut self) {
        self.known.clear();
    }

    pub(crate) fn open_run(&mut self, open: &OpenRun) -> Write<Opened> {
        rules::check_open(open)?;
        if let Some(replayed) = self.replayed(open)? {
            return Ok(replayed);
        }
        let conversation = self.check_new(open)?;
        let mut voided = None;
        if let Some(key) = conversation.as_ref().and_then(|found| found.pending) {
            let pending = read::interrupt_by_key(&self.connection, key)?.ok_or_else(damaged)?;
            if !expired(pending.summary.expires_at.as_ref(), open.started.timestamp.unix_millis()) {
                return Err(Refusal::InterruptPending {
                    run_id: pending.run_id,
                    interrupt_id: pending.summary.interrupt_id,
                }
                .into());
            }
            voided = Some(key);
        }
        self.check_quota(open)?;
        self.check_place()?;
        if let Some(key) = voided {
            self.withdraw(key, InterruptStatus::Expired)?;
        }
        Ok(Opened::New(self.insert(open, conversation, None)?))
    }

    pub(crate) fn append(
        &mut self,
        run_id: &RunId<'static>,
        generation: Generation,
        records: &[Record],
    ) -> Write<()> {
        rules::check_append(records)?;
        let known = self.known(run_id)?;
        rules::admit(known.state, Some(generation), records)?;
        let key = known.key;
        self.log(key, records)?;
        hit(failpoint::APPEND);
        if let (Some(known), Some(last)) = (self.known.get_mut(run_id), records.last()) {
            known.state.last = last.sequence;
            known.logged = known.logged.map(|bytes| bytes + rules::record_bytes(records));
        }
        Ok(())
    }

    pub(crate) fn commit_final(
        &mut self,
        run_id: &RunId<'static>,
        generation: Generation,
        end: &Final,
    ) -> Write<()> {
        let ending = rules::check_end(rules::COMMIT_FINAL, end)?;
        self.end(run_id, Some(generation), &ending, &end.tail, end.head.as_ref())?;
        Ok(())
    }

    pub(crate) fn close_run(&mut self, run_id: &RunId<'static>, end: &Final) -> Write<()> {
        let ending = rules::check_end(rules::CLOSE_RUN, end)?;
        let key = self.end(run_id, None, &ending, &end.tail, None)?;
        hit(failpoint::CLOSED);
        self.connection
            .prepare_cached("UPDATE run SET generation = generation + 1 WHERE run_key = ?1")?
            .execute([key])?;
        Ok(())
    }

    pub(crate) fn commit_interrupt(
        &mut self,
        run_id: &RunId<'static>,
        generation: Generation,
        interrupt: &InterruptCommit,
    ) -> Write<CommitReceipt> {
        rules::check_interrupt(interrupt)?;
        let ending = Ending { status: Status::Interrupted, error: None };
        let key = self.end(run_id, Some(generation), &ending, &interrupt.tail, Some(&interrupt.head))?;
        hit(failpoint::INTERRUPT);
        self.connection
            .prepare_cached(
                "INSERT INTO interrupt (run_key, interrupt_id, reason, revision, status, expires_at, head_ref, request,
                    snapshot)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                key,
                interrupt.interrupt_id.as_str(),
                reason_number(interrupt.reason),
                stored(interrupt.head.revision().value()),
                interrupt_number(InterruptStatus::Pending),
                interrupt.expires_at.as_ref().map(ToString::to_string),
                interrupt.head.head_ref.as_str(),
                interrupt.request.as_str(),
                interrupt.snapshot.as_str(),
            ])?;
        self.connection
            .prepare_cached(
                "UPDATE conversation SET pending_run = ?1
                 WHERE conversation_key = (SELECT conversation_key FROM run WHERE run_key = ?1)",
            )?
            .execute([key])?;
        Ok(rules::receipt(&interrupt.head))
    }

    pub(crate) fn consume_interrupt(&mut self, answer: &ConsumeInterrupt) -> Write<Opened> {
        rules::check_open(&answer.open)?;
        if let Some(replayed) = self.replayed(&answer.open)? {
            return Ok(replayed);
        }
        let (key, run) = read::run(&self.connection, &answer.interrupted)?;
        rules::check_resumed(answer, &run)?;
        let key = stored(key);
        let interrupt = read::interrupt_by_key(&self.connection, key)?.ok_or(Refusal::NoInterrupt)?;
        rules::check_answer(answer, &interrupt)?;
        let conversation = self.check_new(&answer.open)?;
        self.check_quota(&answer.open)?;
        self.check_place()?;

        self.connection
            .prepare_cached("UPDATE interrupt SET status = ?2, decision = ?3 WHERE run_key = ?1")?
            .execute(params![key, interrupt_number(InterruptStatus::Consumed), answer.decision.as_str()])?;
        self.connection
            .prepare_cached("UPDATE run SET resumed_by = ?2 WHERE run_key = ?1")?
            .execute(params![key, answer.open.run_id.as_str()])?;
        self.not_pending(key)?;
        hit(failpoint::CONSUMED);
        Ok(Opened::New(self.insert(&answer.open, conversation, Some(&answer.interrupted))?))
    }

    pub(crate) fn note_cause(&mut self, run_id: &RunId<'static>, cause: &str) -> Write<()> {
        let key = self.run_key(run_id)?;
        self.connection
            .prepare_cached("UPDATE run SET cause = coalesce(cause, ?2) WHERE run_key = ?1")?
            .execute(params![key, cause])?;
        Ok(())
    }

    pub(crate) fn void_interrupt(&mut self, run_id: &RunId<'static>, why: Withdrawal) -> Write<bool> {
        let key = self.run_key(run_id)?;
        let pending = read::interrupt_by_key(&self.connection, key)?
            .is_some_and(|interrupt| interrupt.summary.status == InterruptStatus::Pending);
        if pending {
            self.withdraw(key, why.into())?;
        }
        Ok(pending)
    }

    pub(crate) fn fence(&mut self, run_id: &RunId<'static>) -> Write<Fenced> {
        let known = self.known(run_id)?;
        rules::admit(known.state, None, &[])?;
        let generation = known.state.generation.next();
        self.connection
            .prepare_cached("UPDATE run SET generation = ?2 WHERE run_key = ?1")?
            .execute(params![known.key, stored(generation.value())])?;
        if let Some(known) = self.known.get_mut(run_id) {
            known.state.generation = generation;
        }
        hit(failpoint::FENCED);
        Ok(Fenced { generation, last_sequence: known.state.last })
    }

    pub(crate) fn put_result(
        &mut self,
        run_id: &RunId<'static>,
        reference: &Reference<'_>,
        bytes: &[u8],
    ) -> Write<()> {
        rules::check_result(bytes)?;
        let key = self.run_key(run_id)?;
        read::not_expired(&self.connection, key)?;
        let kept = one(
            &self.connection,
            "SELECT bytes FROM result WHERE run_key = ?1 AND reference = ?2",
            params![key, reference.as_str()],
            |columns| Ok(columns.blob()? == bytes),
        )?;
        match kept {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::ResultExists.into()),
            None => {
                self.connection
                    .prepare_cached("INSERT INTO result (run_key, reference, bytes) VALUES (?1, ?2, ?3)")?
                    .execute(params![key, reference.as_str(), bytes])?;
                self.connection
                    .prepare_cached("UPDATE run SET content_bytes = content_bytes + ?2 WHERE run_key = ?1")?
                    .execute([key, stored(bytes.len() as u64)])?;
                hit(failpoint::RESULT);
                Ok(())
            }
        }
    }

    pub(crate) fn clear_conversation(&mut self, owner: &Owner, id: &ConversationId<'_>) -> Write<Epoch> {
        let conversation = self.idle(owner, id)?;
        if let Some(key) = conversation.pending {
            self.withdraw(key, InterruptStatus::Voided)?;
        }
        self.connection
            .prepare_cached("UPDATE conversation SET epoch = epoch + 1 WHERE conversation_key = ?1")?
            .execute([conversation.key])?;
        hit(failpoint::CLEARED);
        self.connection
            .prepare_cached("DELETE FROM head WHERE conversation_key = ?1")?
            .execute([conversation.key])?;
        Ok(Epoch::new(u64::try_from(conversation.epoch).map_err(|_| damaged())?).next())
    }

    pub(crate) fn delete_conversation(&mut self, owner: &Owner, id: &ConversationId<'_>) -> Write<Deleted> {
        let key = self.idle(owner, id)?.key;
        let threads = read::threads_left(&self.connection, key)?;
        let runs = read::runs_left(&self.connection, key)?;
        for table in ["log", "pack", "result", "interrupt", "idempotency"] {
            let sql = format!(
                "DELETE FROM {table} WHERE run_key IN (SELECT run_key FROM run WHERE conversation_key = ?1)"
            );
            self.connection.execute(&sql, [key])?;
        }
        hit(failpoint::DELETED);
        self.connection.execute("DELETE FROM head WHERE conversation_key = ?1", [key])?;
        self.connection.execute("DELETE FROM run WHERE conversation_key = ?1", [key])?;
        self.connection.execute("DELETE FROM conversation WHERE conversation_key = ?1", [key])?;
        self.fold_in = true;
        // Conversation keys may be used again, and a run id too.
        self.known.clear();
        Ok(Deleted { runs, threads })
    }

    /// Deletes the content of a run; nothing where it is not due any more.
    pub(crate) fn expire(&mut self, key: i64, before: i64, at: &str) -> Write<Option<ExpiredRun>> {
        let Some(run) = read::expirable_run(&self.connection, before, key)? else { return Ok(None) };
        for table in ["log", "pack", "result"] {
            let sql = format!("DELETE FROM {table} WHERE run_key = ?1");
            self.connection.prepare_cached(&sql)?.execute([key])?;
        }
        self.connection
            .prepare_cached(
                "UPDATE interrupt SET request = ?2, snapshot = ?2, decision = NULL WHERE run_key = ?1",
            )?
            .execute(params![key, rules::NO_CONTENT])?;
        self.connection
            .prepare_cached(
                "UPDATE run SET request = ?2, seed = NULL, archived = 1, expired_at = ?3, content_bytes = 0
                 WHERE run_key = ?1",
            )?
            .execute(params![key, rules::NO_CONTENT, at])?;
        Ok(Some(run))
    }

    /// Has the log folded into the file after this transaction, so that what was deleted is in neither.
    // A verb of the writer, as the others are.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn fold_in(&mut self) -> Write<()> {
        self.fold_in = true;
        Ok(())
    }

    pub(crate) fn threads_forgotten(&mut self, runs: &[RunId<'static>]) -> Write<()> {
        let mut update = self.connection.prepare_cached("UPDATE run SET forgotten = 1 WHERE run_id = ?1")?;
        for run_id in runs {
            update.execute([run_id.as_str()])?;
        }
        hit(failpoint::FORGOTTEN);
        Ok(())
    }

    pub(crate) fn pack(&mut self, key: i64) -> Write<Archived> {
        let packable: bool = self
            .connection
            .prepare_cached("SELECT count(*) FROM run WHERE run_key = ?1 AND status <> 0 AND archived = 0")?
            .query_row([key], |row| row.get(0))?;
        if packable { pack::pack(&self.connection, key) } else { Ok(Archived::default()) }
    }

    fn replayed(&self, open: &OpenRun) -> Write<Option<Opened>> {
        let Some(given) = &open.idempotency else { return Ok(None) };
        let found = one(
            &self.connection,
            "SELECT body_hash, run_key, created_ms FROM idempotency WHERE owner = ?1 AND key = ?2",
            params![open.owner.as_str(), &*given.key],
            |columns| Ok((columns.blob()? == given.body_hash, columns.int()?, columns.int()?)),
        )?;
        let Some((same, key, created)) = found else { return Ok(None) };
        if open.started.timestamp.unix_millis() - created >= rules::KEY_MILLIS {
            return Ok(None);
        }
        let run = read::run_by_key(&self.connection, key)?;
        if same {
            Ok(Some(Opened::Replayed(Box::new(run))))
        } else {
            Err(Refusal::KeyReused { run_id: run.run_id }.into())
        }
    }

    fn check_new(&self, open: &OpenRun) -> Write<Option<Conversation>> {
        let exists = self
            .connection
            .prepare_cached("SELECT 1 FROM run WHERE run_id = ?1")?
            .exists([open.run_id.as_str()])?;
        if exists {
            return Err(Refusal::RunExists { run_id: open.run_id.clone() }.into());
        }
        let conversation = read::conversation(&self.connection, &open.owner, &open.conversation_id)?;
        match conversation {
            Some(Conversation { active: Some(run_id), .. }) => {
                Err(Refusal::ConversationBusy { run_id }.into())
            }
            conversation => Ok(conversation),
        }
    }

    fn check_quota(&self, open: &OpenRun) -> Write<()> {
        let now = open.started.timestamp.unix_millis();
        open.quota.check_reached().map_err(Refusal::from)?;
        for (whose, bound, limit) in open.quota.bounds() {
            let name = open.name_of(whose);
            if bound == Bound::OpenRuns {
                rules::check_open_runs(whose, limit, read::open_runs(&self.connection, whose, name)?)?;
            } else {
                let since = now - rules::START_MILLIS;
                let nth = match limit.checked_sub(1) {
                    Some(nth) => read::nth_begun(&self.connection, whose, name, since, nth)?,
                    None => None,
                };
                rules::check_starts(whose, limit, nth, now)?;
            }
        }
        Ok(())
    }

    /// Refuses new runs while running ones can still end.
    fn check_place(&self) -> Write<()> {
        let trouble = |trouble: Unavailable| Trouble::Answer(trouble.into());
        self.file.check(&self.dir).map_err(trouble)?;
        let free = open::free_bytes(&self.dir).map_err(trouble)?;
        if free >= self.low_disk_bytes {
            return Ok(());
        }
        let detail = format!("{free} bytes are free, the limit is {}", self.low_disk_bytes);
        Err(trouble(Unavailable::new(Cause::LowDisk, &self.dir, detail)))
    }

    fn insert(
        &mut self,
        open: &OpenRun,
        conversation: Option<Conversation>,
        resumed_from: Option<&RunId<'static>>,
    ) -> Write<Open> {
        let (conversation, epoch) = match conversation {
            Some(found) => (found.key, found.epoch),
            None => {
                self.connection
                    .prepare_cached(
                        "INSERT INTO conversation (owner, conversation_id, epoch) VALUES (?1, ?2, 1)",
                    )?
                    .execute([open.owner.as_str(), open.conversation_id.as_str()])?;
                (self.connection.last_insert_rowid(), 1)
            }
        };
        let created = open.started.timestamp.unix_millis();
        self.connection
            .prepare_cached(
                "INSERT INTO run (run_id, conversation_key, owner, epoch, agent_id, harness_id, thread, instance,
                    generation, status, created_ms, created_at, worker_thread, resumed_from, seed, request, content_bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 0, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )?
            .execute(params![
                open.run_id.as_str(),
                conversation,
                open.owner.as_str(),
                epoch,
                open.agent_id.as_str(),
                open.harness_id.as_str(),
                thread_number(open.thread),
                self.instance,
                created,
                open.started.timestamp.to_string(),
                open.worker_thread.as_deref(),
                resumed_from.map(RunId::as_str),
                open.seed.as_ref().map(|seed| seed.as_str()),
                open.request.as_str(),
                stored(rules::opened_bytes(open)),
            ])?;
        let key = self.connection.last_insert_rowid();
        hit(failpoint::OPEN_RUN);
        self.connection
            .prepare_cached("UPDATE conversation SET active_run = ?2 WHERE conversation_key = ?1")?
            .execute([conversation, key])?;
        if open.quota.counts_starts() {
            self.connection
                .prepare_cached("DELETE FROM begun WHERE at_ms <= ?1")?
                .execute([created - rules::START_MILLIS])?;
            self.connection
                .prepare_cached("INSERT INTO begun (at_ms, owner, agent_id) VALUES (?1, ?2, ?3)")?
                .execute(params![created, open.owner.as_str(), open.agent_id.as_str()])?;
        }
        if let Some(given) = &open.idempotency {
            self.connection
                .prepare_cached("DELETE FROM idempotency WHERE created_ms <= ?1")?
                .execute([created - rules::KEY_MILLIS])?;
            self.connection
                .prepare_cached("INSERT OR REPLACE INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![
                    open.owner.as_str(),
                    &*given.key,
                    given.body_hash.as_slice(),
                    key,
                    created
                ])?;
        }
        self.log(key, std::slice::from_ref(&open.started))?;
        let base = read::head(&self.connection, conversation, &open.agent_id)?;
        let generation = Generation::new(1);
        let state = RunState {
            generation,
            status: Status::Running,
            thread: open.thread,
            last: open.started.sequence,
        };
        self.remember(
            open.run_id.clone(),
            Known {
                key,
                conversation,
                agent_id: open.agent_id.as_str().to_owned(),
                state,
                logged: Some(rules::record_bytes(std::slice::from_ref(&open.started))),
            },
        );
        Ok(Open { generation, epoch: Epoch::new(u64::try_from(epoch).map_err(|_| damaged())?), base })
    }

    /// Tail, head, status: what all ends of a run have in common. Gives the run's key.
    fn end(
        &mut self,
        run_id: &RunId<'static>,
        writer: Option<Generation>,
        ending: &Ending,
        tail: &[Record],
        head: Option<&HeadMove>,
    ) -> Write<i64> {
        let known = self.known(run_id)?;
        rules::admit(known.state, writer, tail)?;
        rules::check_head(known.state.thread, ending.status, head)?;
        let terminal = tail.last().ok_or_else(damaged)?;
        if let Some(head) = head {
            let found = self.head_revision(&known)?;
            rules::compare_head(found, head)?;
            self.connection
                .prepare_cached("INSERT OR REPLACE INTO head VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![
                    known.conversation,
                    known.agent_id,
                    stored(head.revision().value()),
                    head.head_ref.as_str(),
                    known.key
                ])?;
            hit(failpoint::END_HEAD);
            if strikes(failpoint::SPLIT) {
                // The control of the crash rig: wrong on purpose, and only where it was built in and asked for.
                self.connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
                hit(failpoint::BETWEEN);
            }
        }
        self.log(known.key, tail)?;
        hit(failpoint::END_LOGGED);
        let bytes = match known.logged {
            Some(bytes) => bytes + rules::record_bytes(tail),
            None => read::logged_bytes(&self.connection, known.key)?,
        };
        self.connection
            .prepare_cached("UPDATE conversation SET active_run = NULL WHERE conversation_key = ?1")?
            .execute([known.conversation])?;
        self.connection
            .prepare_cached(
                "UPDATE run SET status = ?2, ended_at = ?3, ended_ms = ?4, last_sequence = ?5, error = ?6,
                    head_revision = ?7, head_ref = ?8, content_bytes = content_bytes + ?9,
                    usage = (SELECT l.data FROM log l WHERE l.run_key = ?1 AND l.type = 19
                             ORDER BY l.sequence DESC LIMIT 1)
                 WHERE run_key = ?1",
            )?
            .execute(params![
                known.key,
                status_number(ending.status),
                terminal.timestamp.to_string(),
                terminal.timestamp.unix_millis(),
                stored(terminal.sequence.value()),
                ending.error.as_ref().map(|error| error.as_str()),
                head.map(|head| stored(head.revision().value())),
                head.map(|head| head.head_ref.as_str()),
                stored(bytes),
            ])?;
        self.known.remove(run_id);
        Ok(known.key)
    }

    fn head_revision(&self, known: &Known) -> Write<Revision> {
        let found = one(
            &self.connection,
            "SELECT revision FROM head WHERE conversation_key = ?1 AND agent_id = ?2",
            params![known.conversation, known.agent_id],
            |columns| Ok(columns.revision()?),
        )?;
        Ok(found.unwrap_or_default())
    }

    fn log(&self, key: i64, records: &[Record]) -> Write<()> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO log (run_key, sequence, type, timestamp, namespace, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for record in records {
            let namespace = Some(&*record.namespace).filter(|path| *path != ROOT);
            insert.execute(params![
                key,
                stored(record.sequence.value()),
                type_number(record.event_type),
                record.timestamp.to_string(),
                namespace,
                record.data.as_str(),
            ])?;
        }
        Ok(())
    }

    fn withdraw(&self, key: i64, status: InterruptStatus) -> Write<()> {
        self.connection
            .prepare_cached("UPDATE interrupt SET status = ?2 WHERE run_key = ?1")?
            .execute([key, interrupt_number(status)])?;
        hit(failpoint::WITHDRAWN);
        self.not_pending(key)
    }

    fn not_pending(&self, key: i64) -> Write<()> {
        self.connection
            .prepare_cached(
                "UPDATE conversation SET pending_run = NULL
                 WHERE conversation_key = (SELECT conversation_key FROM run WHERE run_key = ?1) AND pending_run = ?1",
            )?
            .execute([key])?;
        Ok(())
    }

    fn idle(&self, owner: &Owner, id: &ConversationId<'_>) -> Write<Conversation> {
        let conversation =
            read::conversation(&self.connection, owner, id)?.ok_or(Refusal::UnknownConversation)?;
        match &conversation.active {
            Some(run_id) => Err(Refusal::ConversationBusy { run_id: run_id.clone() }.into()),
            None => Ok(conversation),
        }
    }

    fn run_key(&self, run_id: &RunId<'_>) -> Write<i64> {
        let found = self
            .connection
            .prepare_cached("SELECT run_key FROM run WHERE run_id = ?1")?
            .query_row([run_id.as_str()], |row| row.get(0))
            .optional()?;
        found.ok_or_else(|| Refusal::UnknownRun.into())
    }

    fn known(&mut self, run_id: &RunId<'static>) -> Write<Known> {
        if let Some(known) = self.known.get(run_id) {
            return Ok(known.clone());
        }
        let sql = format!(
            "SELECT r.run_key, r.conversation_key, r.agent_id, r.generation, r.status, r.thread, {LAST_SEQUENCE}
             FROM run r WHERE r.run_id = ?1"
        );
        let found = one(&self.connection, &sql, [run_id.as_str()], |columns| {
            let (key, conversation, agent_id) = (columns.int()?, columns.int()?, columns.text()?.to_owned());
            let (generation, status, thread) = (columns.generation()?, columns.status()?, columns.thread()?);
            let state = RunState { generation, status, thread, last: columns.sequence()? };
            Ok(Known { key, conversation, agent_id, state, logged: None })
        })?;
        let known = found.ok_or(Refusal::UnknownRun)?;
        if !known.state.status.is_terminal() {
            self.remember(run_id.clone(), known.clone());
        }
        Ok(known)
    }

    fn remember(&mut self, run_id: RunId<'static>, known: Known) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(run_id, known);
    }
}
