//! The reads, on any session: the readers' and, inside the writer's transaction, the writer's.
//!
//! Refuses to write. What belongs together is read by one statement, and so from one snapshot; what follows it looks at
//! nothing that can change under it.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::timestamp::Timestamp;
use tokio_postgres::types::ToSql;

use crate::columns::{Columns, Damaged, column_of, interrupt_number, status_number, stored};
use crate::error::Refusal;
use crate::model::{
    Cursor, DeletedRun, ExpiredRun, Head, HeadMove, Interrupt, InterruptStatus, Orphan, Outcome, Owner, Page,
    Revision, Run, RunFilter, RunPage, StaleThread, Whose,
};
use crate::piece::Unpacking;
use crate::postgres::session::{Session, Sql};
use crate::record::Record;
use crate::rules;

/// Records that one statement of a page brings at most.
const CHUNK: i64 = 1024;

/// A run that ended keeps its last number; of one that runs, the log knows it.
pub(crate) const LAST_SEQUENCE: &str = "coalesce(r.last_sequence, (SELECT max(l.sequence) FROM log l WHERE l.bucket = r.bucket AND l.run_key = r.run_key))";

const RUN: &str = "
SELECT r.run_key, r.owner, r.run_id, c.conversation_id, r.epoch, r.agent_id, r.harness_id, r.thread, r.status,
    r.generation, r.created_at, r.ended_at,
    coalesce(r.last_sequence, (SELECT max(l.sequence) FROM log l WHERE l.bucket = r.bucket AND l.run_key = r.run_key)),
    r.request, r.error, r.cause, r.resumed_from, r.resumed_by, r.seed,
    CASE r.status WHEN 0 THEN (SELECT l.data FROM log l WHERE l.bucket = r.bucket AND l.run_key = r.run_key
        AND l.type = 19 ORDER BY l.sequence DESC LIMIT 1) ELSE r.usage END,
    r.worker_thread, r.expired_at,
    i.interrupt_id, i.reason, i.revision, i.status, i.expires_at, i.decision
FROM run r JOIN conversation c USING (conversation_key) LEFT JOIN interrupt i USING (run_key)";

const INTERRUPT: &str = "
SELECT r.owner, r.run_id, c.conversation_id, r.agent_id, i.request, i.snapshot, i.head_ref, r.resumed_by,
    i.interrupt_id, i.reason, i.revision, i.status, i.expires_at, i.decision
FROM interrupt i JOIN run r USING (run_key) JOIN conversation c USING (conversation_key)";

/// A limit as SQL takes it.
fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A run and its key, whoever owns it.
pub(crate) async fn run(session: &Session, run_id: &RunId<'_>) -> Sql<(u64, Run)> {
    let found = session
        .one(&format!("{RUN} WHERE r.run_id = $1"), &[&run_id.as_str()], |columns| columns.run())
        .await?;
    found.ok_or_else(|| Refusal::UnknownRun.into())
}

pub(crate) async fn run_by_key(session: &Session, key: i64) -> Sql<Option<Run>> {
    let found = session.one(&format!("{RUN} WHERE r.run_key = $1"), &[&key], |columns| columns.run()).await?;
    Ok(found.map(|(_, run)| run))
}

pub(crate) async fn runs(
    session: &Session,
    owner: &Owner,
    filter: &RunFilter,
    limit: usize,
    cursor: Option<Cursor>,
) -> Sql<RunPage> {
    let mut sql = format!("{RUN} WHERE r.owner = $1 AND c.owner = $1");
    let owner = owner.as_str();
    let status = filter.status.map(status_number);
    let agent = filter.agent_id.as_ref().map(Name::as_str);
    let conversation = filter.conversation_id.as_ref().map(ConversationId::as_str);
    let below = cursor.map(|Cursor(below)| stored(below));
    // One more than asked for tells whether there is a next page.
    let most = i64::try_from(limit).unwrap_or(i64::MAX - 1).saturating_add(1);
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&owner];
    let mut also = |condition: &str, value| {
        parameters.push(value);
        sql.push_str(&condition.replace('?', &format!("${}", parameters.len())));
    };
    if let Some(status) = &status {
        also(" AND r.status = ?", status);
    }
    if let Some(agent) = &agent {
        also(" AND r.agent_id = ?", agent);
    }
    if let Some(conversation) = &conversation {
        also(" AND c.conversation_id = ?", conversation);
    }
    if let Some(since) = &filter.since {
        also(" AND r.created_ms >= ?", since);
    }
    if let Some(until) = &filter.until {
        also(" AND r.created_ms < ?", until);
    }
    if let Some(below) = &below {
        also(" AND r.run_key < ?", below);
    }
    also(" ORDER BY r.run_key DESC LIMIT ?", &most);
    let mut rows = session.every(&sql, &parameters, |columns| columns.run()).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|(key, _)| Cursor(*key));
    Ok(RunPage { runs: rows.into_iter().map(|(_, run)| run).collect(), next })
}

/// A run of this owner.
pub(crate) async fn run_of(session: &Session, owner: &Owner, run_id: &RunId<'_>) -> Sql<Run> {
    let sql = format!("{RUN} WHERE r.run_id = $1 AND r.owner = $2");
    let found = session.one(&sql, &[&run_id.as_str(), &owner.as_str()], |columns| columns.run()).await?;
    found.map(|(_, run)| run).ok_or_else(|| Refusal::UnknownRun.into())
}

/// A page of a run, of this owner's where one is named, from one snapshot: the run's row and its first records come by one statement, and what is fetched after that
/// stood in the log already.
pub(crate) async fn read_after(
    session: &Session,
    owner: Option<&Owner>,
    run_id: &RunId<'_>,
    after: Option<Sequence>,
    limit: usize,
) -> Sql<Page> {
    let sql = format!(
        "SELECT r.run_key, r.bucket, r.status, r.archived, {LAST_SEQUENCE}, r.expired_at,
             p.sequence, p.type, p.timestamp, p.namespace, p.data
         FROM run r LEFT JOIN LATERAL (
             SELECT l.sequence, l.type, l.timestamp, l.namespace, l.data FROM log l
             WHERE r.archived = 0 AND l.bucket = r.bucket AND l.run_key = r.run_key AND l.sequence > $2
             ORDER BY l.sequence LIMIT $3
         ) p ON true
         WHERE r.run_id = $1 AND ($4::text IS NULL OR r.owner = $4) ORDER BY p.sequence"
    );
    let after = after.map_or(-1, |after| stored(after.value()));
    let chunk = most(limit).min(CHUNK);
    let owner = owner.map(Owner::as_str);
    let rows = session.rows(&sql, &[&run_id.as_str(), &after, &chunk, &owner]).await?;
    let first = rows.first().ok_or(Refusal::UnknownRun)?;
    let mut columns = Columns::new(first);
    let (key, bucket) = (columns.int()?, columns.int()?);
    let (status, archived, last_sequence) = (columns.status()?, columns.int()? != 0, columns.sequence()?);
    if columns.text_or_null()?.is_some() {
        not_expired(session, key).await?;
    }
    if archived {
        let records = read_pack(session, key, after, limit).await?;
        if records.is_empty() && after < stored(last_sequence.value()) {
            // It went between the two looks.
            not_expired(session, key).await?;
        }
        return Ok(Page { records, status, last_sequence });
    }
    let mut page = Filling { records: Vec::new(), bytes: 0 };
    let mut full = false;
    for row in &rows {
        let mut columns = Columns::new(row);
        for _ in 0..6 {
            columns.skip();
        }
        if let Some(record) = columns.record_or_null()? {
            full = full || !page.takes(record);
        }
    }
    let asked_for = |page: &Filling| page.records.len() >= limit;
    while !full && !asked_for(&page) && i64::try_from(page.records.len()).is_ok_and(|len| len % CHUNK == 0) {
        let Some(reached) = page.records.last().map(|record| record.sequence) else { break };
        let chunk = most(limit - page.records.len()).min(CHUNK);
        let more = session
            .every(
                "SELECT sequence, type, timestamp, namespace, data FROM log
                 WHERE bucket = $1 AND run_key = $2 AND sequence > $3 AND sequence <= $4 ORDER BY sequence LIMIT $5",
                &[&bucket, &key, &stored(reached.value()), &stored(last_sequence.value()), &chunk],
                |columns| columns.record(),
            )
            .await?;
        if more.is_empty() {
            break;
        }
        for record in more {
            full = full || !page.takes(record);
        }
    }
    Ok(Page { records: page.records, status, last_sequence })
}

/// Refuses where the content of a run was deleted.
pub(crate) async fn not_expired(session: &Session, key: i64) -> Sql<()> {
    let run = run_by_key(session, key).await?.ok_or(Refusal::UnknownRun)?;
    Ok(rules::not_expired(&run)?)
}

/// A page that is being filled.
struct Filling {
    records: Vec<Record>,
    bytes: usize,
}

impl Filling {
    fn takes(&mut self, record: Record) -> bool {
        let taken = rules::page_takes(&self.records, &mut self.bytes, &record);
        if taken {
            self.records.push(record);
        }
        taken
    }
}

async fn read_pack(session: &Session, key: i64, after: i64, limit: usize) -> Sql<Vec<Record>> {
    let mut unpacking = Unpacking::new(after, limit);
    let mut from = after;
    loop {
        // A piece at a time: a page needs one or two of them.
        let piece = session
            .rows(
                "SELECT first_sequence, raw_bytes, bytes, last_sequence FROM pack
                 WHERE run_key = $1 AND last_sequence > $2 ORDER BY first_sequence LIMIT 1",
                &[&key, &from],
            )
            .await?;
        let Some(row) = piece.first() else { break };
        let mut columns = Columns::new(row);
        let (first, raw, bytes) = (columns.sequence()?, columns.number()?, columns.blob()?);
        if unpacking.take(first, raw, bytes)? {
            break;
        }
        from = columns.int()?;
    }
    Ok(unpacking.records)
}

pub(crate) async fn outcome(session: &Session, run_id: &RunId<'_>) -> Sql<Outcome> {
    let sql = format!(
        "SELECT r.status, r.generation, {LAST_SEQUENCE}, r.head_revision, r.head_ref FROM run r WHERE r.run_id = $1"
    );
    let found = session
        .one(&sql, &[&run_id.as_str()], |columns| {
            let (status, generation, last) = (columns.status()?, columns.generation()?, columns.sequence()?);
            let head = (columns.int_or_null()?, columns.reference_or_null()?);
            Ok((status, generation, last, head))
        })
        .await?;
    let Some((status, generation, last_sequence, head)) = found else { return Ok(Outcome::Missing) };
    if !status.is_terminal() {
        return Ok(Outcome::Running { generation, last_sequence });
    }
    let before = last_sequence.value().checked_sub(1).and_then(Sequence::new);
    let page = read_after(session, None, run_id, before, 1).await?;
    let terminal = page.records.into_iter().next().ok_or(Damaged)?;
    let head = match head {
        (Some(revision), Some(head_ref)) => {
            let expected = u64::try_from(revision).ok().and_then(|revision| revision.checked_sub(1));
            Some(HeadMove { expected: Revision::new(expected.ok_or(Damaged)?), head_ref })
        }
        (Some(_) | None, _) => None,
    };
    Ok(Outcome::Ended { status, terminal, head })
}

pub(crate) async fn head(session: &Session, conversation: i64, agent_id: &Name<'_>) -> Sql<Option<Head>> {
    session
        .one(
            "SELECT h.revision, h.head_ref, r.run_id FROM head h JOIN run r USING (run_key)
             WHERE h.conversation_key = $1 AND h.agent_id = $2",
            &[&conversation, &agent_id.as_str()],
            |columns| {
                let revision = columns.revision()?;
                Ok(Head { revision, head_ref: columns.reference()?, run_id: columns.run_id()? })
            },
        )
        .await
}

/// A conversation as its row says.
pub(crate) struct Conversation {
    pub(crate) key: i64,
    pub(crate) epoch: i64,
    pub(crate) active: Option<RunId<'static>>,
    pub(crate) pending: Option<i64>,
}

pub(crate) async fn conversation(
    session: &Session,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
) -> Sql<Option<Conversation>> {
    session
        .one(
            "SELECT c.conversation_key, c.epoch, r.run_id, c.pending_run
             FROM conversation c LEFT JOIN run r ON r.run_key = c.active_run
             WHERE c.owner = $1 AND c.conversation_id = $2",
            &[&owner.as_str(), &conversation_id.as_str()],
            |columns| {
                let (key, epoch) = (columns.int()?, columns.int()?);
                let (active, pending) = (columns.run_id_or_null()?, columns.int_or_null()?);
                Ok(Conversation { key, epoch, active, pending })
            },
        )
        .await
}

pub(crate) async fn interrupt_by_key(session: &Session, key: i64) -> Sql<Option<Interrupt>> {
    session.one(&format!("{INTERRUPT} WHERE i.run_key = $1"), &[&key], |columns| columns.interrupt()).await
}

pub(crate) async fn pending_interrupt(
    session: &Session,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
) -> Sql<Option<Interrupt>> {
    let sql =
        format!("{INTERRUPT} WHERE c.owner = $1 AND c.conversation_id = $2 AND i.run_key = c.pending_run");
    session.one(&sql, &[&owner.as_str(), &conversation_id.as_str()], |columns| columns.interrupt()).await
}

pub(crate) async fn pending_interrupts(
    session: &Session,
    owner: &Owner,
    limit: usize,
) -> Sql<Vec<Interrupt>> {
    let pending = interrupt_number(InterruptStatus::Pending);
    let sql =
        format!("{INTERRUPT} WHERE i.status = {pending} AND r.owner = $1 ORDER BY i.run_key DESC LIMIT $2");
    session.every(&sql, &[&owner.as_str(), &most(limit)], |columns| columns.interrupt()).await
}

pub(crate) async fn expiring_interrupts(
    session: &Session,
    limit: usize,
) -> Sql<Vec<(RunId<'static>, Timestamp<'static>)>> {
    let pending = interrupt_number(InterruptStatus::Pending);
    let sql = format!(
        "SELECT r.run_id, i.expires_at FROM interrupt i JOIN run r USING (run_key)
         WHERE i.status = {pending} AND i.expires_ms IS NOT NULL ORDER BY i.expires_ms, i.run_key LIMIT $1"
    );
    session.every(&sql, &[&most(limit)], |columns| Ok((columns.run_id()?, columns.timestamp()?))).await
}

pub(crate) async fn interrupt(session: &Session, owner: &Owner, run_id: &RunId<'_>) -> Sql<Interrupt> {
    let key = owned_run(session, owner, run_id).await?;
    not_expired(session, key).await?;
    interrupt_by_key(session, key).await?.ok_or_else(|| Refusal::NoInterrupt.into())
}

pub(crate) async fn result(
    session: &Session,
    owner: &Owner,
    run_id: &RunId<'_>,
    reference: &Reference<'_>,
) -> Sql<Arc<[u8]>> {
    let key = owned_run(session, owner, run_id).await?;
    let found = session
        .one(
            "SELECT bytes FROM result WHERE run_key = $1 AND reference = $2",
            &[&key, &reference.as_str()],
            |columns| Ok(Arc::from(columns.blob()?)),
        )
        .await?;
    found.ok_or_else(|| Refusal::UnknownResult.into())
}

async fn owned_run(session: &Session, owner: &Owner, run_id: &RunId<'_>) -> Sql<i64> {
    let found = session
        .one(
            "SELECT run_key FROM run WHERE run_id = $1 AND owner = $2",
            &[&run_id.as_str(), &owner.as_str()],
            |columns| columns.int(),
        )
        .await?;
    found.ok_or_else(|| Refusal::UnknownRun.into())
}

pub(crate) async fn stale_threads(
    session: &Session,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
    limit: usize,
) -> Sql<Vec<StaleThread>> {
    session
        .every(
            "SELECT r.run_id, r.agent_id, r.epoch, r.worker_thread
             FROM run r JOIN conversation c USING (conversation_key)
             WHERE c.owner = $1 AND c.conversation_id = $2
               AND r.status <> 0 AND r.forgotten = 0 AND r.worker_thread IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM head h WHERE h.run_key = r.run_key)
             ORDER BY r.run_key LIMIT $3",
            &[&owner.as_str(), &conversation_id.as_str(), &most(limit)],
            |columns| columns.stale_thread(),
        )
        .await
}

/// See [`Store::stored_bytes`](crate::Store::stored_bytes).
pub(crate) async fn stored_bytes(session: &Session, whose: Whose, name: &str) -> Sql<u64> {
    let sql =
        format!("SELECT coalesce(sum(content_bytes), 0)::bigint FROM run WHERE {} = $1", column_of(whose));
    Ok(session.one(&sql, &[&name], |columns| columns.number()).await?.unwrap_or_default())
}

/// The runs without a terminal of an owner or an agent.
pub(crate) async fn open_runs(session: &Session, whose: Whose, name: &str) -> Sql<u64> {
    let sql = format!("SELECT count(*) FROM run WHERE {} = $1 AND status = 0", column_of(whose));
    Ok(session.one(&sql, &[&name], |columns| columns.number()).await?.unwrap_or_default())
}

/// When the `nth` newest of the runs begun after `since` was begun, if there are so many; the first is 0.
pub(crate) async fn nth_begun(
    session: &Session,
    whose: Whose,
    name: &str,
    since: i64,
    nth: u64,
) -> Sql<Option<i64>> {
    let sql = format!(
        "SELECT at_ms FROM begun WHERE {} = $1 AND at_ms > $2 ORDER BY at_ms DESC LIMIT 1 OFFSET $3",
        column_of(whose)
    );
    session.one(&sql, &[&name, &since, &stored(nth)], |columns| columns.int()).await
}

/// Bytes of a run's records in the log.
pub(crate) async fn logged_bytes(session: &Session, bucket: i64, key: i64) -> Sql<u64> {
    let sql =
        "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM log WHERE bucket = $1 AND run_key = $2";
    Ok(session.one(sql, &[&bucket, &key], |columns| columns.number()).await?.unwrap_or_default())
}

/// The threads that a conversation leaves behind when it is deleted.
pub(crate) async fn threads_left(session: &Session, conversation: i64) -> Sql<Vec<StaleThread>> {
    session
        .every(
            "SELECT run_id, agent_id, epoch, worker_thread FROM run
             WHERE conversation_key = $1 AND forgotten = 0 AND worker_thread IS NOT NULL ORDER BY run_key",
            &[&conversation],
            |columns| columns.stale_thread(),
        )
        .await
}

/// The runs of a conversation.
pub(crate) async fn runs_left(session: &Session, conversation: i64) -> Sql<Vec<DeletedRun>> {
    session
        .every(
            "SELECT run_id, agent_id, epoch FROM run WHERE conversation_key = $1 ORDER BY run_key",
            &[&conversation],
            |columns| columns.deleted_run(),
        )
        .await
}

/// Runs that this instance took over from dead ones and that have no terminal yet.
pub(crate) async fn orphans(session: &Session, instance: i64) -> Sql<Vec<Orphan>> {
    let sql = format!(
        "SELECT r.owner, r.run_id, c.conversation_id, r.epoch, r.agent_id, r.harness_id, r.thread, {LAST_SEQUENCE},
             r.worker_thread
         FROM run r JOIN conversation c USING (conversation_key)
         WHERE r.status = 0 AND r.instance = $1 AND r.orphan = 1 ORDER BY r.run_key"
    );
    session.every(&sql, &[&instance], |columns| columns.orphan()).await
}

/// How far runs have come, and whether they are over; those that are not there are left out.
pub(crate) async fn marks(
    session: &Session,
    runs: &[RunId<'static>],
) -> Sql<HashMap<RunId<'static>, (Option<Sequence>, bool)>> {
    let ids: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    let sql = format!("SELECT r.run_id, r.status, {LAST_SEQUENCE} FROM run r WHERE r.run_id = ANY($1)");
    let found = session
        .every(&sql, &[&ids], |columns| {
            let (run_id, status) = (columns.run_id()?, columns.status()?);
            Ok((run_id, (Some(columns.sequence()?), status.is_terminal())))
        })
        .await?;
    Ok(found.into_iter().collect())
}

/// What stands in an instance's row: its number, how often runs were taken from it, whether it was ended.
pub(crate) async fn instance(session: &Session, instance: i64) -> Sql<(i64, i64, i64)> {
    let found = session
        .one("SELECT fences, fenced FROM instance WHERE instance = $1", &[&instance], |columns| {
            Ok((columns.int()?, columns.int()?))
        })
        .await?;
    let (fences, fenced) = found.unwrap_or((0, 1));
    Ok((instance, fences, fenced))
}

/// Runs that ended before a time and are not packed, oldest end first.
pub(crate) async fn packable(session: &Session, before_millis: i64, limit: usize) -> Sql<Vec<i64>> {
    session
        .every(
            "SELECT run_key FROM run WHERE archived = 0 AND ended_ms IS NOT NULL AND ended_ms < $1
             ORDER BY ended_ms, run_key LIMIT $2",
            &[&before_millis, &most(limit)],
            |columns| columns.int(),
        )
        .await
}

/// Runs whose content is due for deletion, as of the end `$1`.
const EXPIRABLE: &str = "r.expired_at IS NULL AND r.ended_ms IS NOT NULL AND r.ended_ms < $1
    AND NOT EXISTS (SELECT 1 FROM interrupt i WHERE i.run_key = r.run_key AND i.status = 0)
    AND NOT EXISTS (SELECT 1 FROM run n WHERE n.run_id = r.resumed_by AND n.expired_at IS NULL)";

/// Runs that ended before a time and whose content may go, oldest end first.
pub(crate) async fn expirable(session: &Session, before_millis: i64, limit: usize) -> Sql<Vec<i64>> {
    let sql =
        format!("SELECT r.run_key FROM run r WHERE {EXPIRABLE} ORDER BY r.ended_ms, r.run_key LIMIT $2");
    session.every(&sql, &[&before_millis, &most(limit)], |columns| columns.int()).await
}

/// The same of one run, with its partition, kept from everybody else until this transaction is over; `None` where it is not
/// due, or somebody else is at it.
pub(crate) async fn expirable_run(
    session: &Session,
    before_millis: i64,
    key: i64,
) -> Sql<Option<(i64, ExpiredRun)>> {
    let sql = format!(
        "SELECT r.bucket, r.owner, r.run_id, c.conversation_id FROM run r JOIN conversation c USING (conversation_key)
         WHERE {EXPIRABLE} AND r.run_key = $2 FOR UPDATE OF r SKIP LOCKED"
    );
    session.one(&sql, &[&before_millis, &key], |columns| Ok((columns.int()?, columns.expired_run()?))).await
}

/// When the oldest run ended that may be packed.
pub(crate) async fn oldest_packable(session: &Session, before_millis: i64) -> Sql<Option<i64>> {
    let sql = "SELECT min(ended_ms) FROM run WHERE archived = 0 AND ended_ms IS NOT NULL AND ended_ms < $1";
    Ok(session.one(sql, &[&before_millis], |columns| columns.int_or_null()).await?.flatten())
}

/// When the oldest run ended whose content may go.
pub(crate) async fn oldest_expirable(session: &Session, before_millis: i64) -> Sql<Option<i64>> {
    let sql = format!("SELECT min(r.ended_ms) FROM run r WHERE {EXPIRABLE}");
    Ok(session.one(&sql, &[&before_millis], |columns| columns.int_or_null()).await?.flatten())
}
