//! The tables, their versions, and the way from one version to the next.
//!
//! Refuses a file of a newer version, and a file that is somebody else's.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use crate::error::{Cause, Unavailable};
use crate::failpoint::{self, hit};
use crate::sqlite::{fault, mark};

/// One step: the statements that make the next version out of the one before.
pub(crate) type Migration = &'static str;

/// Every step from an empty file. The version of a file (`user_version`) is the number of steps it has seen.
pub(crate) const MIGRATIONS: &[Migration] = &[V1, V2, V3, EXPIRY];

/// `application_id` of our files: "CWY1".
const APPLICATION_ID: i32 = 0x4357_5931;

/// Ids are stored once: everything else refers to a run or a conversation by its integer key. The log has a running
/// number as its key, so that records are appended at the end of the table whatever run they belong to; an index finds
/// them by run and number. With (run, number) as the key itself the writes of many runs are spread over the file.
/// `run` keeps its number of records and its usage only once it has ended: an append touches the log alone.
const V1: Migration = "
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('instance', 0);

CREATE TABLE conversation (
    conversation_key INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    active_run INTEGER,
    pending_run INTEGER,
    UNIQUE (owner, conversation_id)
) STRICT;

CREATE TABLE run (
    run_key INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    conversation_key INTEGER NOT NULL REFERENCES conversation,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    harness_id TEXT NOT NULL,
    thread INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    status INTEGER NOT NULL,
    forgotten INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    last_sequence INTEGER,
    head_revision INTEGER,
    created_at TEXT NOT NULL,
    ended_at TEXT,
    head_ref TEXT,
    worker_thread TEXT,
    resumed_from TEXT,
    resumed_by TEXT,
    error TEXT,
    usage TEXT,
    seed TEXT,
    request TEXT NOT NULL
) STRICT;
CREATE INDEX run_owner ON run (owner, run_key);
CREATE INDEX run_conversation ON run (conversation_key, run_key);
CREATE INDEX run_active ON run (run_key) WHERE status = 0;
CREATE INDEX run_packable ON run (ended_ms) WHERE archived = 0 AND ended_ms IS NOT NULL;

CREATE TABLE head (
    conversation_key INTEGER NOT NULL REFERENCES conversation,
    agent_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    head_ref TEXT NOT NULL,
    run_key INTEGER NOT NULL REFERENCES run,
    PRIMARY KEY (conversation_key, agent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX head_run ON head (run_key);

CREATE TABLE interrupt (
    run_key INTEGER PRIMARY KEY REFERENCES run,
    interrupt_id TEXT NOT NULL,
    reason INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    status INTEGER NOT NULL,
    expires_at TEXT,
    head_ref TEXT NOT NULL,
    decision TEXT,
    request TEXT NOT NULL,
    snapshot TEXT NOT NULL
) STRICT;
CREATE INDEX interrupt_pending ON interrupt (run_key) WHERE status = 0;

CREATE TABLE idempotency (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    run_key INTEGER NOT NULL REFERENCES run,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_ms);
CREATE INDEX idempotency_run ON idempotency (run_key);

CREATE TABLE result (
    result_key INTEGER PRIMARY KEY,
    run_key INTEGER NOT NULL REFERENCES run,
    reference TEXT NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (run_key, reference)
) STRICT;

CREATE TABLE log (
    position INTEGER PRIMARY KEY,
    run_key INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    type INTEGER NOT NULL,
    timestamp TEXT NOT NULL,
    namespace TEXT,
    data TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_run ON log (run_key, sequence);
CREATE INDEX log_usage ON log (run_key, sequence) WHERE type = 19;

CREATE TABLE pack (
    pack_key INTEGER PRIMARY KEY,
    run_key INTEGER NOT NULL REFERENCES run,
    first_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (run_key, first_sequence)
) STRICT;
";

/// Why a run is uncertain, in a word of the engine's.
const V2: Migration = "ALTER TABLE run ADD COLUMN cause TEXT;";

/// What quotas are checked against. `content_bytes` is counted up to the end of a run, not with each append; `begun` holds the
/// starts of the last minute where they are bounded.
const V3: Migration = "
ALTER TABLE run ADD COLUMN content_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE run SET content_bytes = octet_length(request) + coalesce(octet_length(seed), 0)
    + coalesce((SELECT sum(length(bytes)) FROM result WHERE result.run_key = run.run_key), 0)
    + CASE WHEN status = 0 THEN 0 ELSE
        coalesce((SELECT sum(octet_length(data)) FROM log WHERE log.run_key = run.run_key), 0)
        + coalesce((SELECT sum(raw_bytes) FROM pack WHERE pack.run_key = run.run_key), 0) END;
CREATE INDEX run_owner_bytes ON run (owner, content_bytes);
CREATE INDEX run_agent_bytes ON run (agent_id, content_bytes);
CREATE INDEX run_open_owner ON run (owner) WHERE status = 0;
CREATE INDEX run_open_agent ON run (agent_id) WHERE status = 0;

CREATE TABLE begun (
    begun_key INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    owner TEXT NOT NULL,
    agent_id TEXT NOT NULL
) STRICT;
CREATE INDEX begun_owner ON begun (owner, at_ms);
CREATE INDEX begun_agent ON begun (agent_id, at_ms);
CREATE INDEX begun_age ON begun (at_ms);
";

/// When the content of a run was deleted, and the way to those that are next.
const EXPIRY: Migration = "
ALTER TABLE run ADD COLUMN expired_at TEXT;
CREATE INDEX run_expirable ON run (ended_ms) WHERE expired_at IS NULL AND ended_ms IS NOT NULL;
";

/// Columns that a step added to `run`, each with what stands for it in a file that has not seen the step.
const ADDED: &[(usize, &str)] = &[(2, "NULL AS cause"), (3, "0 AS content_bytes"), (4, "NULL AS expired_at")];

/// Lets a file of an older version be read as if it were of the newest, without a change to it: a view of the connection's own
/// stands before the table.
pub(crate) fn read_as_newest(connection: &Connection, found: usize) -> rusqlite::Result<()> {
    let added: Vec<&str> =
        ADDED.iter().filter(|(step, _)| *step > found).map(|(_, column)| *column).collect();
    if added.is_empty() {
        return Ok(());
    }
    let columns = added.join(", ");
    connection.execute_batch(&format!(
        "PRAGMA temp_store = MEMORY; CREATE TEMP VIEW run AS SELECT *, {columns} FROM main.run;"
    ))
}

/// Brings the file to the newest version; copies an older one first, to a file beside it.
///
/// # Errors
/// `NewerSchema`, `Corrupted` for a file of somebody else, and whatever the disk says.
pub(crate) fn migrate(
    connection: &mut Connection,
    file: &Path,
    steps: &[Migration],
) -> Result<(), Unavailable> {
    let sql = |error: rusqlite::Error| fault::unavailable(&error, file);
    let version = version(connection, file, steps)?;
    if version == steps.len() {
        return Ok(());
    }
    if version > 0 {
        back_up(connection, file, version)?;
    }
    let transaction = connection.transaction().map_err(sql)?;
    for step in steps.iter().skip(version) {
        transaction.execute_batch(step).map_err(sql)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
    let newest = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "user_version", newest).map_err(sql)?;
    hit(failpoint::MIGRATING);
    transaction.commit().map_err(sql)?;
    hit(failpoint::MIGRATED);
    Ok(())
}

/// The version of the file, 0 for an empty one.
///
/// # Errors
/// `NewerSchema`, and `Corrupted` for a file of somebody else.
pub(crate) fn version(
    connection: &Connection,
    file: &Path,
    steps: &[Migration],
) -> Result<usize, Unavailable> {
    let sql = |error: rusqlite::Error| fault::unavailable(&error, file);
    let number =
        |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(sql);
    let found = number("user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(sql)?;
    let foreign = || Unavailable::new(Cause::Corrupted, file, "the file is another program's database");
    if tables == 0 && found == 0 {
        return Ok(0);
    }
    if number("application_id")? != i64::from(APPLICATION_ID) {
        return Err(foreign());
    }
    let found = usize::try_from(found).map_err(|_| foreign())?;
    if found > steps.len() {
        let detail = format!("schema {found}, this version reads up to {}", steps.len());
        return Err(Unavailable::new(Cause::NewerSchema, file, detail));
    }
    Ok(found)
}

fn back_up(connection: &Connection, file: &Path, version: usize) -> Result<(), Unavailable> {
    let copy = file.with_extension(format!("db.v{version}.backup"));
    let part = file.with_extension(format!("db.v{version}.part"));
    let io = |error: std::io::Error| fault::io(&error, &part);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        Ok(()) | Err(_) => {}
    }
    let target = part.to_str().ok_or_else(|| Unavailable::new(Cause::Io, &part, "the path is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [target]).map_err(|error| fault::unavailable(&error, &part))?;
    fs::File::open(&part).and_then(|copy| copy.sync_all()).map_err(io)?;
    fs::rename(&part, copy).map_err(io)?;
    file.parent().map_or(Ok(()), mark::sync_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_file_is_copied_and_then_migrated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("causeway.db");
        let mut connection = Connection::open(&file).unwrap();
        let steps: &[Migration] =
            &["CREATE TABLE a (x); INSERT INTO a VALUES (7);", "ALTER TABLE a ADD COLUMN y;"];
        migrate(&mut connection, &file, &steps[..1]).unwrap();
        migrate(&mut connection, &file, steps).unwrap();
        let columns = |connection: &Connection| connection.prepare("SELECT * FROM a").unwrap().column_count();
        assert_eq!(columns(&connection), 2);
        assert_eq!(version(&connection, &file, steps), Ok(2));
        let copy = Connection::open(dir.path().join("causeway.db.v1.backup")).unwrap();
        assert_eq!(columns(&copy), 1);
        assert_eq!(version(&copy, &file, steps), Ok(1));
    }

    #[test]
    fn a_file_of_any_older_version_reads_as_one_of_the_newest() {
        let columns = |connection: &Connection, table: &str| {
            let statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let mut names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            names.sort_unstable();
            names
        };
        let made = |versions: usize| {
            let connection = Connection::open_in_memory().unwrap();
            for step in &MIGRATIONS[..versions] {
                connection.execute_batch(step).unwrap();
            }
            read_as_newest(&connection, versions).unwrap();
            connection
        };
        let newest = made(MIGRATIONS.len());
        for versions in 1..MIGRATIONS.len() {
            let older = made(versions);
            for table in ["run", "conversation", "head", "interrupt", "result", "log", "pack"] {
                assert_eq!(columns(&older, table), columns(&newest, table), "version {versions}, {table}");
            }
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("causeway.db");
        let mut connection = Connection::open(&file).unwrap();
        migrate(&mut connection, &file, &["CREATE TABLE a (x);"]).unwrap();
        migrate(&mut connection, &file, &["", "CREATE TABLE b (x); nonsense;"]).unwrap_err();
        assert_eq!(version(&connection, &file, &["", ""]), Ok(1));
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 1);
    }
}
