//! The writes, inside the writer's transaction, which holds the row of the lease.
//!
//! Refuses before it changes anything: a write that answers no has written nothing, so that it can share a transaction
//! with others. What another gateway may change meanwhile is locked before it is looked at; a run is not, since only who
//! holds the row of its instance may write it. A run's state is kept in memory while it is written here. It is one piece,
//! since every verb stands on the same few helpers.

use causeway_contract::id::{ConversationId, Reference, RunId};
use causeway_contract::receipt::CommitReceipt;

use crate::columns::{
    Damaged, ROOT, interrupt_number, reason_number, status_number, stored, thread_number, type_number,
};
use crate::error::Refusal;
use crate::model::interrupt::expired;
use crate::model::{
    Archived, Bound, ConsumeInterrupt, Deleted, Epoch, ExpiredRun, Fenced, Final, Generation, HeadMove,
    InterruptCommit, InterruptStatus, Open, OpenRun, Opened, Orphan, Outcome, Owner, Revision, Status,
    Withdrawal,
};
use crate::postgres::fault::Trouble;
use crate::postgres::pack;
use crate::postgres::read::{self, Conversation, LAST_SEQUENCE};
use crate::postgres::session::Sql;
use crate::postgres::writer::Writer;
use crate::record::Record;
use crate::rules::{self, Ending, RunState};

/// The most runs whose state is kept in memory.
const MAX_KNOWN: usize = 16_384;

/// A run that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    key: i64,
    bucket: i64,
    conversation: i64,
    agent_id: String,
    state: RunState,
    /// Whether another instance, which lives, writes it.
    foreign: bool,
    /// Bytes of its records in the log, where all of them went through here.
    logged: Option<u64>,
}

impl Known {
    /// Whether this writer may add these records.
    fn admit(&self, writer: Option<Generation>, records: &[Record]) -> Result<(), Refusal> {
        rules::admit(self.state, writer, records)?;
        match writer {
            Some(given) if self.foreign => Err(Refusal::Fenced { given, current: self.state.generation }),
            Some(_) | None => Ok(()),
        }
    }
}

impl Writer {
    pub(crate) async fn open_run(&mut self, open: &OpenRun) -> Sql<Opened> {
        rules::check_open(open)?;
        self.flush().await?;
        if let Some(replayed) = self.replayed(open).await? {
            return Ok(replayed);
        }
        let conversation = match self.check_new(open).await {
            Err(Trouble::Answer(busy)) if open.idempotency.is_some() => {
                // Another gateway may have opened it for the same request while we waited.
                return self.replayed(open).await?.ok_or(Trouble::Answer(busy));
            }
            checked => checked?,
        };
        let mut voided = None;
        if let Some(key) = conversation.as_ref().and_then(|found| found.pending) {
            let pending = read::interrupt_by_key(self.session()?, key).await?.ok_or(Damaged)?;
            if !expired(pending.summary.expires_at.as_ref(), open.started.timestamp.unix_millis()) {
                return Err(Refusal::InterruptPending {
                    run_id: pending.run_id,
                    interrupt_id: pending.summary.interrupt_id,
                }
                .into());
            }
            voided = Some(key);
        }
        self.check_quota(open).await?;
        if let Some(key) = voided {
            self.withdraw(key, InterruptStatus::Expired).await?;
        }
        Ok(Opened::New(self.insert(open, conversation, None).await?))
    }

    pub(crate) async fn append(
        &mut self,
        run_id: &RunId<'static>,
        generation: Generation,
        records: &[Record],
    ) -> Sql<()> {
        rules::check_append(records)?;
        let known = self.known(run_id, false).await?;
        known.admit(Some(generation), records)?;
        self.log(known.bucket, known.key, records);
        if let (Some(known), Some(last)) = (self.known.get_mut(run_id), records.last()) {
            known.state.last = last.sequence;
            known.logged = known.logged.map(|bytes| bytes + rules::record_bytes(records));
        }
        Ok(())
    }

    pub(crate) async fn commit_final(
        &mut self,
        run_id: &RunId<'static>,
        generation: Generation,
        end: &Final,
    ) -> Sql<()> {
        let ending = rules::check_end(rules::COMMIT_FINAL, end)?;
        self.end(run_id, Some(generation), &ending, &end.tail, end.head.as_ref()).await?;
        Ok(())
    }

    pub(crate) async fn close_run(&mut self, run_id: &RunId<'static>, end: &Final) -> Sql<()> {
        let ending = rules::check_end(rules::CLOSE_RUN, end)?;
        let key = self.end(run_id, None, &ending, &end.tail, None).await?;
        self.ended = true;
        self.session()?
            .execute("UPDATE run SET generation = generation + 1 WHERE run_key = $1", &[&key])
            .await?;
        Ok(())
    }

    pub(crate) async fn commit_interrupt(
        &mut self,
        run_id: &RunId<'static>,
        generation: Generation,
        interrupt: &InterruptCommit,
    ) -> Sql<CommitReceipt> {
        rules::check_interrupt(interrupt)?;
        let ending = Ending { status: Status::Interrupted, error: None };
        let key = self.end(run_id, Some(generation), &ending, &interrupt.tail, Some(&interrupt.head)).await?;
        let session = self.session()?;
        session
            .execute(
                "INSERT INTO interrupt (run_key, interrupt_id, reason, revision, status, expires_ms, expires_at, head_ref,
                     request, snapshot)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &[
                    &key,
                    &interrupt.interrupt_id.as_str(),
                    &reason_number(interrupt.reason),
                    &stored(interrupt.head.revision().value()),
                    &interrupt_number(InterruptStatus::Pending),
                    &interrupt.expires_at.as_ref().map(|at| at.unix_millis()),
                    &interrupt.expires_at.as_ref().map(ToString::to_string),
                    &interrupt.head.head_ref.as_str(),
                    &interrupt.request.as_str(),
                    &interrupt.snapshot.as_str(),
                ],
            )
            .await?;
        session
            .execute(
                "UPDATE conversation SET pending_run = $1
                 WHERE conversation_key = (SELECT conversation_key FROM run WHERE run_key = $1)",
                &[&key],
            )
            .await?;
        Ok(rules::receipt(&interrupt.head))
    }

    pub(crate) async fn consume_interrupt(&mut self, answer: &ConsumeInterrupt) -> Sql<Opened> {
        rules::check_open(&answer.open)?;
        self.flush().await?;
        if let Some(replayed) = self.replayed(&answer.open).await? {
            return Ok(replayed);
        }
        let (key, run) = read::run(self.session()?, &answer.interrupted).await?;
        rules::check_resumed(answer, &run)?;
        // Of many answers at once the others wait here, and then see what the first has done.
        let key = stored(key);
        self.lock_conversation_of(key).await?;
        if let Some(replayed) = self.replayed(&answer.open).await? {
            return Ok(replayed);
        }
        let interrupt = read::interrupt_by_key(self.session()?, key).await?.ok_or(Refusal::NoInterrupt)?;
        rules::check_answer(answer, &interrupt)?;
        let conversation = self.check_new(&answer.open).await?;
        self.check_quota(&answer.open).await?;

        let session = self.session()?;
        session
            .execute(
                "UPDATE interrupt SET status = $2, decision = $3 WHERE run_key = $1",
                &[&key, &interrupt_number(InterruptStatus::Consumed), &answer.decision.as_str()],
            )
            .await?;
        session
            .execute(
                "UPDATE run SET resumed_by = $2 WHERE run_key = $1",
                &[&key, &answer.open.run_id.as_str()],
            )
            .await?;
        self.not_pending(key).await?;
        Ok(Opened::New(self.insert(&answer.open, conversation, Some(&answer.interrupted)).await?))
    }

    pub(crate) async fn note_cause(&mut self, run_id: &RunId<'static>, cause: &str) -> Sql<()> {
        let noted = self
            .session()?
            .execute(
                "UPDATE run SET cause = coalesce(cause, $2) WHERE run_id = $1",
                &[&run_id.as_str(), &cause],
            )
            .await?;
        if noted == 1 { Ok(()) } else { Err(Refusal::UnknownRun.into()) }
    }

    pub(crate) async fn void_interrupt(&mut self, run_id: &RunId<'static>, why: Withdrawal) -> Sql<bool> {
        let key = self.run_key(run_id).await?;
        self.lock_conversation_of(key).await?;
        let pending = read::interrupt_by_key(self.session()?, key)
            .await?
            .is_some_and(|interrupt| interrupt.summary.status == InterruptStatus::Pending);
        if pending {
            self.withdraw(key, why.into()).await?;
        }
        Ok(pending)
    }

    pub(crate) async fn fence(&mut self, run_id: &RunId<'static>) -> Sql<Fenced> {
        let known = self.known(run_id, true).await?;
        known.admit(None, &[])?;
        let generation = known.state.generation.next();
        self.session()?
            .execute(
                "UPDATE run SET generation = $2 WHERE run_key = $1",
                &[&known.key, &stored(generation.value())],
            )
            .await?;
        self.wrote = true;
        if let Some(known) = self.known.get_mut(run_id) {
            known.state.generation = generation;
        }
        Ok(Fenced { generation, last_sequence: known.state.last })
    }

    pub(crate) async fn put_result(
        &mut self,
        run_id: &RunId<'static>,
        reference: &Reference<'_>,
        bytes: &[u8],
    ) -> Sql<()> {
        rules::check_result(bytes)?;
        let key = self.run_key(run_id).await?;
        let session = self.session()?;
        read::not_expired(session, key).await?;
        let inserted = session
            .execute(
                "INSERT INTO result (run_key, reference, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                &[&key, &reference.as_str(), &bytes],
            )
            .await?;
        if inserted == 1 {
            session
                .execute(
                    "UPDATE run SET content_bytes = content_bytes + $2 WHERE run_key = $1",
                    &[&key, &stored(bytes.len() as u64)],
                )
                .await?;
            return Ok(());
        }
        let same = session
            .one(
                "SELECT bytes FROM result WHERE run_key = $1 AND reference = $2",
                &[&key, &reference.as_str()],
                |columns| Ok(columns.blob()? == bytes),
            )
            .await?;
        if same == Some(true) { Ok(()) } else { Err(Refusal::ResultExists.into()) }
    }

    pub(crate) async fn clear_conversation(&mut self, owner: &Owner, id: &ConversationId<'_>) -> Sql<Epoch> {
        let conversation = self.idle(owner, id).await?;
        if let Some(key) = conversation.pending {
            self.withdraw(key, InterruptStatus::Voided).await?;
        }
        let session = self.session()?;
        session
            .execute(
                "UPDATE conversation SET epoch = epoch + 1 WHERE conversation_key = $1",
                &[&conversation.key],
            )
            .await?;
        session.execute("DELETE FROM head WHERE conversation_key = $1", &[&conversation.key]).await?;
        Ok(Epoch::new(u64::try_from(conversation.epoch).map_err(|_| Damaged)?).next())
    }

    pub(crate) async fn delete_conversation(
        &mut self,
        owner: &Owner,
        id: &ConversationId<'_>,
    ) -> Sql<Deleted> {
        self.flush().await?;
        let key = self.idle(owner, id).await?.key;
        let session = self.session()?;
        let threads = read::threads_left(session, key).await?;
        let runs = read::runs_left(session, key).await?;
        session
            .execute(
                "DELETE FROM log l USING run r
                 WHERE r.conversation_key = $1 AND l.bucket = r.bucket AND l.run_key = r.run_key",
                &[&key],
            )
            .await?;
        for table in ["pack", "result", "interrupt", "idempotency"] {
            let sql = format!(
                "DELETE FROM {table} WHERE run_key IN (SELECT run_key FROM run WHERE conversation_key = $1)"
            );
            session.execute(&sql, &[&key]).await?;
        }
        session.execute("DELETE FROM head WHERE conversation_key = $1", &[&key]).await?;
        session.execute("DELETE FROM run WHERE conversation_key = $1", &[&key]).await?;
        session.execute("DELETE FROM conversation WHERE conversation_key = $1", &[&key]).await?;
        // A run id may be used again.
        self.known.clear();
        Ok(Deleted { runs, threads })
    }

    pub(crate) async fn threads_forgotten(&mut self, runs: &[RunId<'static>]) -> Sql<()> {
        let ids: Vec<&str> = runs.iter().map(RunId::as_str).collect();
        self.session()?.execute("UPDATE run SET forgotten = 1 WHERE run_id = ANY($1)", &[&ids]).await?;
        Ok(())
    }

    pub(crate) async fn pack(&mut self, key: i64) -> Sql<Archived> {
        self.flush().await?;
        pack::pack(self.session()?, key).await
    }

    /// Deletes the content of a run; nothing where it is not due any more, or somebody else is at it.
    pub(crate) async fn expire(&mut self, key: i64, before: i64, at: &str) -> Sql<Option<ExpiredRun>> {
        self.flush().await?;
        let session = self.session()?;
        let Some((bucket, run)) = read::expirable_run(session, before, key).await? else { return Ok(None) };
        // A packed run stands in the log as well until its partition goes.
        session.execute("DELETE FROM log WHERE bucket = $1 AND run_key = $2", &[&bucket, &key]).await?;
        for table in ["pack", "result"] {
            session.execute(&format!("DELETE FROM {table} WHERE run_key = $1"), &[&key]).await?;
        }
        session
            .execute(
                "UPDATE interrupt SET request = $2, snapshot = $2, decision = NULL WHERE run_key = $1",
                &[&key, &rules::NO_CONTENT],
            )
            .await?;
        session
            .execute(
                "UPDATE run SET request = $2, seed = NULL, archived = 1, expired_at = $3, content_bytes = 0
                 WHERE run_key = $1",
                &[&key, &rules::NO_CONTENT, &at],
            )
            .await?;
        Ok(Some(run))
    }

    /// In the writer's transaction, behind the write whose answer was lost.
    pub(crate) async fn outcome(&mut self, run_id: &RunId<'static>) -> Sql<Outcome> {
        self.flush().await?;
        read::outcome(self.session()?, run_id).await
    }

    pub(crate) async fn list_orphans(&mut self) -> Sql<Vec<Orphan>> {
        self.flush().await?;
        self.lease.reap(self.session()?).await?;
        read::orphans(self.session()?, self.lease.instance).await
    }

    async fn replayed(&self, open: &OpenRun) -> Sql<Option<Opened>> {
        let Some(given) = &open.idempotency else { return Ok(None) };
        let session = self.session()?;
        let found = session
            .one(
                "SELECT body_hash, run_key, created_ms FROM idempotency WHERE owner = $1 AND key = $2",
                &[&open.owner.as_str(), &&*given.key],
                |columns| Ok((columns.blob()? == given.body_hash, columns.int()?, columns.int()?)),
            )
            .await?;
        let Some((same, key, created)) = found else { return Ok(None) };
        if open.started.timestamp.unix_millis() - created >= rules::KEY_MILLIS {
            return Ok(None);
        }
        // A run that was deleted in between has taken its key with it.
        let run = read::run_by_key(session, key).await?.ok_or(Trouble::Raced)?;
        if same {
            Ok(Some(Opened::Replayed(Box::new(run))))
        } else {
            Err(Refusal::KeyReused { run_id: run.run_id }.into())
        }
    }

    async fn check_new(&self, open: &OpenRun) -> Sql<Option<Conversation>> {
        let exists = self
            .session()?
            .one("SELECT run_key FROM run WHERE run_id = $1", &[&open.run_id.as_str()], |columns| {
                columns.int()
            })
            .await?;
        if exists.is_some() {
            return Err(Refusal::RunExists { run_id: open.run_id.clone() }.into());
        }
        match self.locked_conversation(&open.owner, &open.conversation_id).await? {
            Some(Conversation { active: Some(run_id), .. }) => {
                Err(Refusal::ConversationBusy { run_id }.into())
            }
            conversation => Ok(conversation),
        }
    }

    async fn check_quota(&self, open: &OpenRun) -> Sql<()> {
        let session = self.session()?;
        let now = open.started.timestamp.unix_millis();
        open.quota.check_reached().map_err(Refusal::from)?;
        for (whose, bound, limit) in open.quota.bounds() {
            let name = open.name_of(whose);
            if bound == Bound::OpenRuns {
                rules::check_open_runs(whose, limit, read::open_runs(session, whose, name).await?)?;
            } else {
                let since = now - rules::START_MILLIS;
                let nth = match limit.checked_sub(1) {
                    Some(nth) => read::nth_begun(session, whose, name, since, nth).await?,
                    None => None,
                };
                rules::check_starts(whose, limit, nth, now)?;
            }
        }
        Ok(())
    }

    /// A conversation that nobody else changes until this transaction is over.
    async fn locked_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Sql<Option<Conversation>> {
        let session = self.session()?;
        // Alone, and then the rest: a row that had to be waited for is seen as it is now, what is joined to it is not.
        let locked = session
            .one(
                "SELECT conversation_key FROM conversation WHERE owner = $1 AND conversation_id = $2 FOR UPDATE",
                &[&owner.as_str(), &conversation_id.as_str()],
                |columns| columns.int(),
            )
            .await?;
        match locked {
            Some(_) => read::conversation(session, owner, conversation_id).await,
            None => Ok(None),
        }
    }

    async fn lock_conversation_of(&self, run: i64) -> Sql<()> {
        self.session()?
            .rows(
                "SELECT conversation_key FROM conversation
                 WHERE conversation_key = (SELECT conversation_key FROM run WHERE run_key = $1) FOR UPDATE",
                &[&run],
            )
            .await?;
        Ok(())
    }

    async fn insert(
        &mut self,
        open: &OpenRun,
        conversation: Option<Conversation>,
        resumed_from: Option<&RunId<'static>>,
    ) -> Sql<Open> {
        let session = self.session()?;
        let (conversation, epoch) = match conversation {
            Some(found) => (found.key, found.epoch),
            None => {
                let made = session
                    .one(
                        "INSERT INTO conversation (owner, conversation_id, epoch) VALUES ($1, $2, 1)
                         ON CONFLICT DO NOTHING RETURNING conversation_key",
                        &[&open.owner.as_str(), &open.conversation_id.as_str()],
                        |columns| columns.int(),
                    )
                    .await?;
                (made.ok_or(Trouble::Raced)?, 1)
            }
        };
        let created = open.started.timestamp.unix_millis();
        let key = session
            .one(
                "INSERT INTO run (bucket, run_id, conversation_key, owner, epoch, agent_id, harness_id, thread, instance,
                     generation, status, created_ms, created_at, worker_thread, resumed_from, seed, request,
                     content_bytes)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, 0, $10, $11, $12, $13, $14, $15, $16)
                 ON CONFLICT (run_id) DO NOTHING RETURNING run_key",
                &[
                    &self.bucket,
                    &open.run_id.as_str(),
                    &conversation,
                    &open.owner.as_str(),
                    &epoch,
                    &open.agent_id.as_str(),
                    &open.harness_id.as_str(),
                    &thread_number(open.thread),
                    &self.lease.instance,
                    &created,
                    &open.started.timestamp.to_string(),
                    &open.worker_thread.as_deref(),
                    &resumed_from.map(RunId::as_str),
                    &open.seed.as_ref().map(|seed| seed.as_str()),
                    &open.request.as_str(),
                    &stored(rules::opened_bytes(open)),
                ],
                |columns| columns.int(),
            )
            .await?
            .ok_or(Trouble::Raced)?;
        session
            .execute(
                "UPDATE conversation SET active_run = $2 WHERE conversation_key = $1",
                &[&conversation, &key],
            )
            .await?;
        if open.quota.counts_starts() {
            session
                .execute(
                    "INSERT INTO begun (at_ms, owner, agent_id, noted_at) VALUES ($1, $2, $3, clock_timestamp())",
                    &[&created, &open.owner.as_str(), &open.agent_id.as_str()],
                )
                .await?;
        }
        if let Some(given) = &open.idempotency {
            let noted = session
                .execute(
                    "INSERT INTO idempotency AS i (owner, key, body_hash, run_key, created_ms, noted_at)
                     VALUES ($1, $2, $3, $4, $5, clock_timestamp())
                     ON CONFLICT (owner, key) DO UPDATE SET body_hash = excluded.body_hash, run_key = excluded.run_key,
                         created_ms = excluded.created_ms, noted_at = excluded.noted_at
                     WHERE excluded.created_ms - i.created_ms >= $6",
                    &[
                        &open.owner.as_str(),
                        &&*given.key,
                        &given.body_hash.as_slice(),
                        &key,
                        &created,
                        &rules::KEY_MILLIS,
                    ],
                )
                .await?;
            if noted == 0 {
                return Err(Trouble::Raced);
            }
        }
        let base = read::head(session, conversation, &open.agent_id).await?;
        self.log(self.bucket, key, std::slice::from_ref(&open.started));
        let generation = Generation::new(1);
        let state = RunState {
            generation,
            status: Status::Running,
            thread: open.thread,
            last: open.started.sequence,
        };
        let known = Known {
            key,
            bucket: self.bucket,
            conversation,
            agent_id: open.agent_id.as_str().to_owned(),
            state,
            foreign: false,
            logged: Some(rules::record_bytes(std::slice::from_ref(&open.started))),
        };
        self.remember(open.run_id.clone(), known);
        Ok(Open { generation, epoch: Epoch::new(u64::try_from(epoch).map_err(|_| Damaged)?), base })
    }

    /// Tail, head, status: what all ends of a run have in common. Gives the run's key.
    async fn end(
        &mut self,
        run_id: &RunId<'static>,
        writer: Option<Generation>,
        ending: &Ending,
        tail: &[Record],
        head: Option<&HeadMove>,
    ) -> Sql<i64> {
        let known = self.known(run_id, writer.is_none()).await?;
        known.admit(writer, tail)?;
        rules::check_head(known.state.thread, ending.status, head)?;
        let terminal = tail.last().ok_or(Damaged)?;
        if let Some(head) = head {
            rules::compare_head(self.head_revision(&known).await?, head)?;
        }
        self.log(known.bucket, known.key, tail);
        self.flush().await?;
        let session = self.session()?;
        let bytes = match known.logged {
            Some(bytes) => bytes + rules::record_bytes(tail),
            None => read::logged_bytes(session, known.bucket, known.key).await?,
        };
        if let Some(head) = head {
            let moved = session
                .execute(
                    "INSERT INTO head AS h (conversation_key, agent_id, revision, head_ref, run_key)
                     VALUES ($1, $2, $3, $4, $5)
                     ON CONFLICT (conversation_key, agent_id) DO UPDATE
                         SET revision = excluded.revision, head_ref = excluded.head_ref, run_key = excluded.run_key
                         WHERE h.revision = $6",
                    &[
                        &known.conversation,
                        &known.agent_id,
                        &stored(head.revision().value()),
                        &head.head_ref.as_str(),
                        &known.key,
                        &stored(head.expected.value()),
                    ],
                )
                .await?;
            if moved == 0 {
                return Err(Trouble::Raced);
            }
        }
        session
            .execute(
                "UPDATE conversation SET active_run = NULL WHERE conversation_key = $1",
                &[&known.conversation],
            )
            .await?;
        session
            .execute(
                "UPDATE run r SET status = $2, ended_at = $3, ended_ms = $4, last_sequence = $5, error = $6,
                     head_revision = $7, head_ref = $8, content_bytes = content_bytes + $9,
                     usage = (SELECT l.data FROM log l WHERE l.bucket = r.bucket AND l.run_key = r.run_key
                              AND l.type = 19 ORDER BY l.sequence DESC LIMIT 1)
                 WHERE run_key = $1",
                &[
                    &known.key,
                    &status_number(ending.status),
                    &terminal.timestamp.to_string(),
                    &terminal.timestamp.unix_millis(),
                    &stored(terminal.sequence.value()),
                    &ending.error.as_ref().map(|error| error.as_str()),
                    &head.map(|head| stored(head.revision().value())),
                    &head.map(|head| head.head_ref.as_str()),
                    &stored(bytes),
                ],
            )
            .await?;
        self.known.remove(run_id);
        Ok(known.key)
    }

    async fn head_revision(&self, known: &Known) -> Sql<Revision> {
        let found = self
            .session()?
            .one(
                "SELECT revision FROM head WHERE conversation_key = $1 AND agent_id = $2",
                &[&known.conversation, &known.agent_id],
                |columns| columns.revision(),
            )
            .await?;
        Ok(found.unwrap_or_default())
    }

    /// Takes records in; they are sent together with others, before anything looks at the log.
    fn log(&mut self, bucket: i64, key: i64, records: &[Record]) {
        self.wrote = true;
        self.pending.extend(records.iter().map(|record| (bucket, key, record.clone())));
    }

    /// Sends the records that were taken in.
    pub(crate) async fn flush(&mut self) -> Sql<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let column = |value: fn(&(i64, i64, Record)) -> i64| pending.iter().map(value).collect::<Vec<_>>();
        let times: Vec<_> = pending.iter().map(|(_, _, record)| record.timestamp.to_string()).collect();
        let namespaces: Vec<_> = pending
            .iter()
            .map(|(_, _, record)| Some(&*record.namespace).filter(|path| *path != ROOT))
            .collect();
        let data: Vec<_> = pending.iter().map(|(_, _, record)| record.data.as_str()).collect();
        self.session()?
            .execute(
                "INSERT INTO log (bucket, run_key, sequence, type, timestamp, namespace, data)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
                     $7::text[])",
                &[
                    &column(|(bucket, ..)| *bucket),
                    &column(|(_, key, _)| *key),
                    &column(|(_, _, record)| stored(record.sequence.value())),
                    &column(|(_, _, record)| type_number(record.event_type)),
                    &times,
                    &namespaces,
                    &data,
                ],
            )
            .await?;
        Ok(())
    }

    async fn withdraw(&self, key: i64, status: InterruptStatus) -> Sql<()> {
        self.session()?
            .execute(
                "UPDATE interrupt SET status = $2 WHERE run_key = $1",
                &[&key, &interrupt_number(status)],
            )
            .await?;
        self.not_pending(key).await
    }

    async fn not_pending(&self, key: i64) -> Sql<()> {
        self.session()?
            .execute(
                "UPDATE conversation SET pending_run = NULL
                 WHERE conversation_key = (SELECT conversation_key FROM run WHERE run_key = $1) AND pending_run = $1",
                &[&key],
            )
            .await?;
        Ok(())
    }

    async fn idle(&self, owner: &Owner, id: &ConversationId<'_>) -> Sql<Conversation> {
        let conversation = self.locked_conversation(owner, id).await?.ok_or(Refusal::UnknownConversation)?;
        match &conversation.active {
            Some(run_id) => Err(Refusal::ConversationBusy { run_id: run_id.clone() }.into()),
            None => Ok(conversation),
        }
    }

    async fn run_key(&self, run_id: &RunId<'_>) -> Sql<i64> {
        let found = self
            .session()?
            .one("SELECT run_key FROM run WHERE run_id = $1", &[&run_id.as_str()], |columns| columns.int())
            .await?;
        found.ok_or_else(|| Refusal::UnknownRun.into())
    }

    /// A run's state, from memory or the database. A running one of a dead instance is taken over first; `force` takes it
    /// from a living one, too.
    async fn known(&mut self, run_id: &RunId<'static>, force: bool) -> Sql<Known> {
        if let Some(known) = self.known.get(run_id) {
            return Ok(known.clone());
        }
        let (mut known, instance) = self.load(run_id).await?;
        if known.state.status.is_terminal() {
            return Ok(known);
        }
        if instance != self.lease.instance {
            if !self.lease.adopt(self.session()?, known.key, instance, force).await? {
                return Ok(Known { foreign: true, ..known });
            }
            // Its last writer is done for now: what it wrote while we waited counts.
            (known, _) = self.load(run_id).await?;
        }
        self.remember(run_id.clone(), known.clone());
        Ok(known)
    }

    async fn load(&mut self, run_id: &RunId<'static>) -> Sql<(Known, i64)> {
        self.flush().await?;
        let sql = format!(
            "SELECT r.run_key, r.bucket, r.conversation_key, r.agent_id, r.generation, r.status, r.thread,
                 {LAST_SEQUENCE}, r.instance
             FROM run r WHERE r.run_id = $1"
        );
        let found = self
            .session()?
            .one(&sql, &[&run_id.as_str()], |columns| {
                let (key, bucket, conversation) = (columns.int()?, columns.int()?, columns.int()?);
                let agent_id = columns.text()?.to_owned();
                let (generation, status) = (columns.generation()?, columns.status()?);
                let state =
                    RunState { generation, status, thread: columns.thread()?, last: columns.sequence()? };
                let known =
                    Known { key, bucket, conversation, agent_id, state, foreign: false, logged: None };
                Ok((known, columns.int()?))
            })
            .await?;
        found.ok_or_else(|| Refusal::UnknownRun.into())
    }

    fn remember(&mut self, run_id: RunId<'static>, known: Known) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(run_id, known);
    }
}
