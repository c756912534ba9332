//! The reads, on any connection: the readers' and, for `outcome`, the writer's.
//!
//! Refuses to write. What belongs together is read in one snapshot.

use std::sync::Arc;

use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_contract::timestamp::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::columns::column_of;
use crate::error::Refusal;
use crate::model::{
    Cursor, DeletedRun, ExpiredRun, Head, HeadMove, Interrupt, InterruptStatus, Orphan, Outcome, Owner, Page,
    Revision, Run, RunFilter, RunPage, StaleThread, Whose,
};
use crate::record::Record;
use crate::rules;
use crate::sqlite::fault::{Trouble, damaged};
use crate::sqlite::pack;
use crate::sqlite::row::{Columns, interrupt_number, status_number, stored};

/// What the reads answer.
pub(crate) type Read<T> = Result<T, Trouble>;

/// Runs `work` in one snapshot.
pub(crate) fn snapshot<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Read<T>) -> Read<T> {
    let transaction = connection.unchecked_transaction()?;
    let answer = work(&transaction);
    // Nothing was written: ending it can fail only together with the connection.
    drop(transaction);
    answer
}

/// See [`Store::stored_bytes`](crate::Store::stored_bytes).
pub(crate) fn stored_bytes(connection: &Connection, whose: Whose, name: &str) -> Read<u64> {
    let sql = format!("SELECT coalesce(sum(content_bytes), 0) FROM run WHERE {} = ?1", column_of(whose));
    Ok(one(connection, &sql, [name], |columns| Ok(columns.number()?))?.unwrap_or_default())
}

/// The runs without a terminal of an owner or an agent.
pub(crate) fn open_runs(connection: &Connection, whose: Whose, name: &str) -> Read<u64> {
    let sql = format!("SELECT count(*) FROM run WHERE {} = ?1 AND status = 0", column_of(whose));
    Ok(one(connection, &sql, [name], |columns| Ok(columns.number()?))?.unwrap_or_default())
}

/// Bytes of a run's records in the log.
pub(crate) fn logged_bytes(connection: &Connection, key: i64) -> Read<u64> {
    let sql = "SELECT coalesce(sum(octet_length(data)), 0) FROM log WHERE run_key = ?1";
    Ok(one(connection, sql, [key], |columns| Ok(columns.number()?))?.unwrap_or_default())
}

/// When the `nth` newest of the runs begun after `since` was begun, if there are so many; the first is 0.
pub(crate) fn nth_begun(
    connection: &Connection,
    whose: Whose,
    name: &str,
    since: i64,
    nth: u64,
) -> Read<Option<i64>> {
    let sql = format!(
        "SELECT at_ms FROM begun WHERE {} = ?1 AND at_ms > ?2 ORDER BY at_ms DESC LIMIT 1 OFFSET ?3",
        column_of(whose)
    );
    one(connection, &sql, params![name, since, stored(nth)], |columns| Ok(columns.int()?))
}

/// The one row of a query, if there is one.
pub(crate) fn one<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl FnOnce(&mut Columns<'_, '_>) -> Read<T>,
) -> Read<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    rows.next()?.map(|row| read(&mut Columns::new(row))).transpose()
}

/// Every row of a query, while `read` says so.
fn every<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    mut read: impl FnMut(&mut Columns<'_, '_>) -> Read<T>,
) -> Read<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(&mut Columns::new(row))?);
    }
    Ok(all)
}

/// A run that ended keeps its last number; of one that runs, the log knows it.
pub(crate) const LAST_SEQUENCE: &str =
    "coalesce(r.last_sequence, (SELECT max(l.sequence) FROM log l WHERE l.run_key = r.run_key))";

const RUN: &str = "
SELECT r.run_key, r.owner, r.run_id, c.conversation_id, r.epoch, r.agent_id, r.harness_id, r.thread, r.status,
    r.generation, r.created_at, r.ended_at,
    coalesce(r.last_sequence, (SELECT max(l.sequence) FROM log l WHERE l.run_key = r.run_key)),
    r.request, r.error, r.cause, r.resumed_from, r.resumed_by, r.seed,
    CASE r.status WHEN 0 THEN (SELECT l.data FROM log l WHERE l.run_key = r.run_key AND l.type = 19
        ORDER BY l.sequence DESC LIMIT 1) ELSE r.usage END,
    r.worker_thread, r.expired_at,
    i.interrupt_id, i.reason, i.revision, i.status, i.expires_at, i.decision
FROM run r JOIN conversation c USING (conversation_key) LEFT JOIN interrupt i USING (run_key)";

/// A run and its key, whoever owns it.
pub(crate) fn run(connection: &Connection, run_id: &RunId<'_>) -> Read<(u64, Run)> {
    let sql = format!("{RUN} WHERE r.run_id = ?1");
    one(connection, &sql, [run_id.as_str()], |columns| Ok(columns.run()?))?
        .ok_or_else(|| Refusal::UnknownRun.into())
}

/// A run of this owner.
pub(crate) fn run_of(connection: &Connection, owner: &Owner, run_id: &RunId<'_>) -> Read<Run> {
    let sql = format!("{RUN} WHERE r.run_id = ?1 AND r.owner = ?2");
    let found = one(connection, &sql, [run_id.as_str(), owner.as_str()], |columns| Ok(columns.run()?))?;
    found.map(|(_, run)| run).ok_or_else(|| Refusal::UnknownRun.into())
}

pub(crate) fn run_by_key(connection: &Connection, key: i64) -> Read<Run> {
    let sql = format!("{RUN} WHERE r.run_key = ?1");
    Ok(one(connection, &sql, [key], |columns| Ok(columns.run()?))?.ok_or_else(damaged)?.1)
}

pub(crate) fn runs(
    connection: &Connection,
    owner: &Owner,
    filter: &RunFilter,
    limit: usize,
    cursor: Option<Cursor>,
) -> Read<RunPage> {
    let mut sql = format!("{RUN} WHERE r.owner = ?");
    let mut parameters = vec![Value::from(owner.as_str().to_owned())];
    let mut also = |condition: &str, value: Value| {
        sql.push_str(condition);
        parameters.push(value);
    };
    if let Some(status) = filter.status {
        also(" AND r.status = ?", status_number(status).into());
    }
    if let Some(agent_id) = &filter.agent_id {
        also(" AND r.agent_id = ?", agent_id.as_str().to_owned().into());
    }
    if let Some(conversation_id) = &filter.conversation_id {
        // The owner again, so that the conversation is found by its index.
        also(" AND c.owner = ?", owner.as_str().to_owned().into());
        also(" AND c.conversation_id = ?", conversation_id.as_str().to_owned().into());
    }
    if let Some(since) = filter.since {
        also(" AND r.created_ms >= ?", since.into());
    }
    if let Some(until) = filter.until {
        also(" AND r.created_ms < ?", until.into());
    }
    if let Some(Cursor(below)) = cursor {
        also(" AND r.run_key < ?", stored(below).into());
    }
    // One more than asked for tells whether there is a next page.
    let most = i64::try_from(limit).unwrap_or(i64::MAX - 1).saturating_add(1);
    also(" ORDER BY r.run_key DESC LIMIT ?", most.into());
    let mut rows = every(connection, &sql, params_from_iter(parameters), |columns| Ok(columns.run()?))?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|(key, _)| Cursor(*key));
    Ok(RunPage { runs: rows.into_iter().map(|(_, run)| run).collect(), next })
}

/// Records of a run; of this owner's, where one is named.
pub(crate) fn read_after(
    connection: &Connection,
    owner: Option<&Owner>,
    run_id: &RunId<'_>,
    after: Option<Sequence>,
    limit: usize,
) -> Read<Page> {
    let sql = format!(
        "SELECT r.run_key, r.status, r.archived, {LAST_SEQUENCE}, r.expired_at FROM run r
         WHERE r.run_id = ?1 AND (?2 IS NULL OR r.owner = ?2)"
    );
    let found = one(connection, &sql, params![run_id.as_str(), owner.map(Owner::as_str)], |columns| {
        let (key, status, archived) = (columns.int()?, columns.status()?, columns.int()? != 0);
        Ok((key, status, archived, columns.sequence()?, columns.text_or_null()?.is_some()))
    })?;
    let (key, status, archived, last_sequence, expired) = found.ok_or(Refusal::UnknownRun)?;
    if expired {
        not_expired(connection, key)?;
    }
    let after = after.map_or(-1, |after| stored(after.value()));
    let records = if archived {
        pack::read(connection, key, after, limit)?
    } else {
        read_log(connection, key, after, limit)?
    };
    Ok(Page { records, status, last_sequence })
}

/// Refuses where the content of a run was deleted.
pub(crate) fn not_expired(connection: &Connection, key: i64) -> Read<()> {
    Ok(rules::not_expired(&run_by_key(connection, key)?)?)
}

fn read_log(connection: &Connection, key: i64, after: i64, limit: usize) -> Read<Vec<Record>> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, type, timestamp, namespace, data FROM log
         WHERE run_key = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3",
    )?;
    let mut rows = statement.query(params![key, after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let record = Columns::new(row).record()?;
        if !rules::page_takes(&records, &mut bytes, &record) {
            break;
        }
        records.push(record);
    }
    Ok(records)
}

pub(crate) fn outcome(connection: &Connection, run_id: &RunId<'_>) -> Read<Outcome> {
    let sql = format!(
        "SELECT r.status, r.generation, {LAST_SEQUENCE}, r.head_revision, r.head_ref FROM run r WHERE r.run_id = ?1"
    );
    let found = one(connection, &sql, [run_id.as_str()], |columns| {
        let (status, generation, last) = (columns.status()?, columns.generation()?, columns.sequence()?);
        let head = (columns.int_or_null()?, columns.reference_or_null()?);
        Ok((status, generation, last, head))
    })?;
    let Some((status, generation, last_sequence, head)) = found else { return Ok(Outcome::Missing) };
    if !status.is_terminal() {
        return Ok(Outcome::Running { generation, last_sequence });
    }
    let before = last_sequence.value().checked_sub(1).and_then(Sequence::new);
    let page = read_after(connection, None, run_id, before, 1)?;
    let terminal = page.records.into_iter().next().ok_or_else(damaged)?;
    let head = match head {
        (Some(revision), Some(head_ref)) => {
            let expected = u64::try_from(revision).ok().and_then(|revision| revision.checked_sub(1));
            Some(HeadMove { expected: Revision::new(expected.ok_or_else(damaged)?), head_ref })
        }
        (Some(_) | None, _) => None,
    };
    Ok(Outcome::Ended { status, terminal, head })
}

pub(crate) fn head(connection: &Connection, conversation: i64, agent_id: &Name<'_>) -> Read<Option<Head>> {
    one(
        connection,
        "SELECT h.revision, h.head_ref, r.run_id FROM head h JOIN run r USING (run_key)
         WHERE h.conversation_key = ?1 AND h.agent_id = ?2",
        params![conversation, agent_id.as_str()],
        |columns| {
            let revision = columns.revision()?;
            Ok(Head { revision, head_ref: columns.reference()?, run_id: columns.run_id()? })
        },
    )
}

/// A conversation as its row says.
pub(crate) struct Conversation {
    pub(crate) key: i64,
    pub(crate) epoch: i64,
    pub(crate) active: Option<RunId<'static>>,
    pub(crate) pending: Option<i64>,
}

pub(crate) fn conversation(
    connection: &Connection,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
) -> Read<Option<Conversation>> {
    one(
        connection,
        "SELECT c.conversation_key, c.epoch, r.run_id, c.pending_run
         FROM conversation c LEFT JOIN run r ON r.run_key = c.active_run
         WHERE c.owner = ?1 AND c.conversation_id = ?2",
        params![owner.as_str(), conversation_id.as_str()],
        |columns| {
            let (key, epoch) = (columns.int()?, columns.int()?);
            Ok(Conversation {
                key,
                epoch,
                active: columns.run_id_or_null()?,
                pending: columns.int_or_null()?,
            })
        },
    )
}

const INTERRUPT: &str = "
SELECT r.owner, r.run_id, c.conversation_id, r.agent_id, i.request, i.snapshot, i.head_ref, r.resumed_by,
    i.interrupt_id, i.reason, i.revision, i.status, i.expires_at, i.decision
FROM interrupt i JOIN run r USING (run_key) JOIN conversation c USING (conversation_key)";

pub(crate) fn interrupt_by_key(connection: &Connection, key: i64) -> Read<Option<Interrupt>> {
    one(connection, &format!("{INTERRUPT} WHERE i.run_key = ?1"), [key], |columns| Ok(columns.interrupt()?))
}

pub(crate) fn pending_interrupt(
    connection: &Connection,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
) -> Read<Option<Interrupt>> {
    match conversation(connection, owner, conversation_id)?.and_then(|found| found.pending) {
        Some(key) => interrupt_by_key(connection, key),
        None => Ok(None),
    }
}

pub(crate) fn pending_interrupts(
    connection: &Connection,
    owner: &Owner,
    limit: usize,
) -> Read<Vec<Interrupt>> {
    let pending = interrupt_number(InterruptStatus::Pending);
    let sql =
        format!("{INTERRUPT} WHERE i.status = {pending} AND r.owner = ?1 ORDER BY i.run_key DESC LIMIT ?2");
    every(connection, &sql, params![owner.as_str(), i64::try_from(limit).unwrap_or(i64::MAX)], |columns| {
        Ok(columns.interrupt()?)
    })
}

/// Times are kept as RFC 3339 in UTC: their order as text is right to the second, which is all that the cut needs.
pub(crate) fn expiring_interrupts(
    connection: &Connection,
    limit: usize,
) -> Read<Vec<(RunId<'static>, Timestamp<'static>)>> {
    let pending = interrupt_number(InterruptStatus::Pending);
    let sql = format!(
        "SELECT r.run_id, i.expires_at FROM interrupt i JOIN run r USING (run_key)
         WHERE i.status = {pending} AND i.expires_at IS NOT NULL ORDER BY i.expires_at LIMIT ?1"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut due = every(connection, &sql, [limit], |columns| Ok((columns.run_id()?, columns.timestamp()?)))?;
    due.sort_by_key(|(_, at)| at.unix_millis());
    Ok(due)
}

pub(crate) fn interrupt(connection: &Connection, owner: &Owner, run_id: &RunId<'_>) -> Read<Interrupt> {
    let key = owned_run(connection, owner, run_id)?;
    not_expired(connection, key)?;
    interrupt_by_key(connection, key)?.ok_or_else(|| Refusal::NoInterrupt.into())
}

pub(crate) fn result(
    connection: &Connection,
    owner: &Owner,
    run_id: &RunId<'_>,
    reference: &Reference<'_>,
) -> Read<Arc<[u8]>> {
    let key = owned_run(connection, owner, run_id)?;
    one(
        connection,
        "SELECT bytes FROM result WHERE run_key = ?1 AND reference = ?2",
        params![key, reference.as_str()],
        |columns| Ok(Arc::from(columns.blob()?)),
    )?
    .ok_or_else(|| Refusal::UnknownResult.into())
}

fn owned_run(connection: &Connection, owner: &Owner, run_id: &RunId<'_>) -> Read<i64> {
    let found = connection
        .prepare_cached("SELECT run_key FROM run WHERE run_id = ?1 AND owner = ?2")?
        .query_row([run_id.as_str(), owner.as_str()], |row: &Row<'_>| row.get(0))
        .optional()?;
    found.ok_or_else(|| Refusal::UnknownRun.into())
}

pub(crate) fn stale_threads(
    connection: &Connection,
    conversation: i64,
    limit: usize,
) -> Read<Vec<StaleThread>> {
    every(
        connection,
        "SELECT r.run_id, r.agent_id, r.epoch, r.worker_thread FROM run r
         WHERE r.conversation_key = ?1 AND r.status <> 0 AND r.forgotten = 0 AND r.worker_thread IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM head h WHERE h.run_key = r.run_key)
         ORDER BY r.run_key LIMIT ?2",
        params![conversation, i64::try_from(limit).unwrap_or(i64::MAX)],
        |columns| Ok(columns.stale_thread()?),
    )
}

/// The threads that a conversation leaves behind when it is deleted.
pub(crate) fn threads_left(connection: &Connection, conversation: i64) -> Read<Vec<StaleThread>> {
    every(
        connection,
        "SELECT run_id, agent_id, epoch, worker_thread FROM run
         WHERE conversation_key = ?1 AND forgotten = 0 AND worker_thread IS NOT NULL ORDER BY run_key",
        [conversation],
        |columns| Ok(columns.stale_thread()?),
    )
}

/// The runs of a conversation.
pub(crate) fn runs_left(connection: &Connection, conversation: i64) -> Read<Vec<DeletedRun>> {
    every(
        connection,
        "SELECT run_id, agent_id, epoch FROM run WHERE conversation_key = ?1 ORDER BY run_key",
        [conversation],
        |columns| Ok(columns.deleted_run()?),
    )
}

pub(crate) fn orphans(connection: &Connection, instance: i64) -> Read<Vec<Orphan>> {
    let sql = format!(
        "SELECT r.owner, r.run_id, c.conversation_id, r.epoch, r.agent_id, r.harness_id, r.thread, {LAST_SEQUENCE},
            r.worker_thread
         FROM run r JOIN conversation c USING (conversation_key)
         WHERE r.status = 0 AND r.instance <> ?1 ORDER BY r.run_key"
    );
    every(connection, &sql, [instance], |columns| Ok(columns.orphan()?))
}

/// Runs that ended before a time and are not packed, oldest end first.
pub(crate) fn packable(connection: &Connection, before_millis: i64, limit: usize) -> Read<Vec<i64>> {
    every(
        connection,
        "SELECT run_key FROM run WHERE archived = 0 AND ended_ms IS NOT NULL AND ended_ms < ?1
         ORDER BY ended_ms LIMIT ?2",
        params![before_millis, i64::try_from(limit).unwrap_or(i64::MAX)],
        |columns| Ok(columns.int()?),
    )
}

/// Runs whose content is due for deletion, as of the end `?1`.
const EXPIRABLE: &str = "r.expired_at IS NULL AND r.ended_ms IS NOT NULL AND r.ended_ms < ?1
    AND NOT EXISTS (SELECT 1 FROM interrupt i WHERE i.run_key = r.run_key AND i.status = 0)
    AND NOT EXISTS (SELECT 1 FROM run n WHERE n.run_id = r.resumed_by AND n.expired_at IS NULL)";

/// Runs that ended before a time and whose content may go, oldest end first.
pub(crate) fn expirable(connection: &Connection, before_millis: i64, limit: usize) -> Read<Vec<i64>> {
    let sql =
        format!("SELECT r.run_key FROM run r WHERE {EXPIRABLE} ORDER BY r.ended_ms, r.run_key LIMIT ?2");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    every(connection, &sql, params![before_millis, limit], |columns| Ok(columns.int()?))
}

/// The same of one run; `None` where it is not due.
pub(crate) fn expirable_run(
    connection: &Connection,
    before_millis: i64,
    key: i64,
) -> Read<Option<ExpiredRun>> {
    let sql = format!(
        "SELECT r.owner, r.run_id, c.conversation_id FROM run r JOIN conversation c USING (conversation_key)
         WHERE {EXPIRABLE} AND r.run_key = ?2"
    );
    one(connection, &sql, [before_millis, key], |columns| Ok(columns.expired_run()?))
}

/// When the oldest run ended that may be packed.
pub(crate) fn oldest_packable(connection: &Connection, before_millis: i64) -> Read<Option<i64>> {
    let sql = "SELECT min(ended_ms) FROM run WHERE archived = 0 AND ended_ms IS NOT NULL AND ended_ms < ?1";
    Ok(one(connection, sql, [before_millis], |columns| Ok(columns.int_or_null()?))?.flatten())
}

/// When the oldest run ended whose content may go.
pub(crate) fn oldest_expirable(connection: &Connection, before_millis: i64) -> Read<Option<i64>> {
    let sql = format!("SELECT min(r.ended_ms) FROM run r WHERE {EXPIRABLE}");
    Ok(one(connection, &sql, [before_millis], |columns| Ok(columns.int_or_null()?))?.flatten())
}
