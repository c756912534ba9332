//! A data directory of SQLite brought into an empty schema: every table, row by row, in one transaction.
//!
//! Refuses a schema that holds runs or that a gateway is using, a directory that a gateway is using, and a table or a
//! column that it has no place for. Refuses to keep what it did not find again: before the commit every row is read back,
//! and its hash compared with that of the row that was read. Whatever stops it leaves the schema empty.

mod column;

use std::path::Path;

use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use self::column::{Buffer, Column, Kind};
use crate::columns::Damaged;
use crate::error::Unavailable;
use crate::postgres::fault::Trouble;
use crate::postgres::options::Options;
use crate::postgres::schema;
use crate::postgres::session::{Session, Sql, quoted};
use crate::postgres::tls::MakeTls;
use crate::sqlite::mark::Mark;
use crate::sqlite::{fault, open};

/// Rows that go over at once, unless their bytes are many.
const ROWS: usize = 1_000;
const BYTES: usize = 4 << 20;

/// The week in which a run was opened, by its own stamp: that of its partition.
const WEEK: &str = "max(r.created_ms, 0) / 604800000";

/// A table, and what is to be known of it besides its columns.
struct Table {
    name: &'static str,
    /// Where its rows come from; `t` is the table, `r` the run of each row.
    from: &'static str,
    /// What tells its rows apart, and whether that is text.
    key: &'static [(&'static str, bool)],
    /// Columns of the schema that are made here: by this expression over the source.
    made: &'static [(&'static str, &'static str)],
    /// Columns of the source that have no place in the schema.
    left: &'static [&'static str],
}

/// Every table, in an order in which they may be written.
const TABLES: &[Table] = &[
    Table {
        name: "conversation",
        from: "conversation t",
        key: &[("conversation_key", false)],
        made: &[],
        left: &[],
    },
    Table {
        name: "run",
        from: "run r JOIN run t USING (run_key)",
        key: &[("run_key", false)],
        made: &[("bucket", WEEK), ("instance", INSTANCE)],
        left: &["instance"],
    },
    Table {
        name: "head",
        from: "head t",
        key: &[("conversation_key", false), ("agent_id", true)],
        made: &[],
        left: &[],
    },
    Table {
        name: "interrupt",
        from: "interrupt t",
        key: &[("run_key", false)],
        made: &[("expires_ms", "t.expires_at")],
        left: &[],
    },
    Table {
        name: "idempotency",
        from: "idempotency t",
        key: &[("owner", true), ("key", true)],
        made: &[],
        left: &[],
    },
    Table {
        name: "result",
        from: "result t",
        key: &[("run_key", false), ("reference", true)],
        made: &[],
        left: &["result_key"],
    },
    Table {
        name: "pack",
        from: "pack t",
        key: &[("run_key", false), ("first_sequence", false)],
        made: &[],
        left: &["pack_key"],
    },
    Table {
        name: "log",
        from: "log t JOIN run r USING (run_key)",
        key: &[("run_key", false), ("sequence", false)],
        made: &[("bucket", WEEK)],
        left: &["position"],
    },
];

/// Stands for the number of the instance that the runs are put down to, which is dead from the start.
const INSTANCE: &str = "?instance";

/// What belongs to one file alone.
const OWN_TABLES: &[&str] = &["meta", "begun"];

/// Why nothing was imported.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The directory cannot be read.
    #[error("the directory cannot be read: {0}")]
    Source(Unavailable),
    /// The database cannot be written.
    #[error("the database cannot be written: {0}")]
    Target(Unavailable),
    /// The same, at this table.
    #[error("table {table} cannot be written: {trouble}")]
    Table {
        /// The table.
        table: &'static str,
        /// What the database says.
        trouble: Unavailable,
    },
    /// There is something in the schema already.
    #[error("the schema is not empty: {runs} runs in {conversations} conversations; import into a new one")]
    NotEmpty {
        /// Conversations there.
        conversations: u64,
        /// Runs there.
        runs: u64,
    },
    /// A gateway uses the schema.
    #[error("{gateways} gateways use the schema, or did within the last seconds; stop them first")]
    Shared {
        /// Their number.
        gateways: u64,
    },
    /// The directory holds something that this version does not know where to put.
    #[error("there is no place in the schema for {0}")]
    NoPlace(String),
    /// What was read back is not what was read.
    #[error(
        "table {table}: {read} rows were read and {found} are there, or they are others; nothing was kept"
    )]
    Differs {
        /// The table.
        table: &'static str,
        /// Rows of the directory.
        read: u64,
        /// Rows of the schema.
        found: u64,
    },
}

/// A table that was imported.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Imported {
    /// Its name.
    pub table: &'static str,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 over all of them, in hexadecimal digits.
    pub sha256: String,
}

/// Imports a data directory. `progress` is told of each table how many rows are over. Blocks until it is done.
///
/// # Errors
/// See [`ImportError`]; the schema is as empty as before then.
pub fn import(
    dir: &Path,
    options: &Options,
    progress: impl FnMut(&'static str, u64),
) -> Result<Vec<Imported>, ImportError> {
    open::compare(dir, &Mark::peek(dir)).map_err(ImportError::Source)?;
    // No gateway begins there before this is over.
    let _held = open::lock(dir).map_err(ImportError::Source)?;
    let source = open::reader(dir).map_err(ImportError::Source)?;
    let file = dir.join(open::FILE);
    let sick = |error: rusqlite::Error| ImportError::Source(fault::unavailable(&error, &file));
    // One snapshot, from the first look to the last row.
    let snapshot = source.unchecked_transaction().map_err(sick)?;
    all_known(&snapshot).map_err(sick)??;
    let tls = MakeTls::new(options).map_err(ImportError::Target)?;
    let runtime = super::runtime(options).map_err(ImportError::Target)?;
    runtime.block_on(async {
        let session = Session::connect(options, &tls).await.map_err(ImportError::Target)?;
        schema::prepare(&session, options).await.map_err(ImportError::Target)?;
        let importing = Importing { source: &snapshot, file: &file, session: &session, options, progress };
        importing.run().await
    })
}

/// Refuses tables that this version knows nothing of.
fn all_known(source: &Connection) -> rusqlite::Result<Result<(), ImportError>> {
    let mut names =
        source.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let known =
        |name: &String| TABLES.iter().any(|table| table.name == name) || OWN_TABLES.contains(&name.as_str());
    Ok(match names.into_iter().find(|name| !known(name)) {
        Some(name) => Err(ImportError::NoPlace(format!("table {name}"))),
        None => Ok(()),
    })
}

struct Importing<'a, P> {
    source: &'a Connection,
    file: &'a Path,
    session: &'a Session,
    options: &'a Options,
    progress: P,
}

impl<P: FnMut(&'static str, u64)> Importing<'_, P> {
    async fn run(mut self) -> Result<Vec<Imported>, ImportError> {
        self.session.batch("BEGIN").await.map_err(|trouble| self.target(&trouble))?;
        let done = self.all().await;
        match done {
            Ok(imported) => {
                self.session.batch("COMMIT").await.map_err(|trouble| self.target(&trouble))?;
                // The planner has not seen any of it; it would find out by itself in a while.
                let _ = self.session.batch("ANALYZE").await;
                Ok(imported)
            }
            Err(error) => {
                // The session ends, and its transaction with it, whatever this answers.
                let _ = self.session.batch("ROLLBACK").await;
                Err(error)
            }
        }
    }

    fn target(&self, trouble: &Trouble) -> ImportError {
        ImportError::Target(trouble.unavailable(&self.options.place()))
    }

    fn at(&self, table: &'static str, trouble: &Trouble) -> ImportError {
        ImportError::Table { table, trouble: trouble.unavailable(&self.options.place()) }
    }

    fn sick(&self, error: &rusqlite::Error) -> ImportError {
        ImportError::Source(fault::unavailable(error, self.file))
    }

    async fn all(&mut self) -> Result<Vec<Imported>, ImportError> {
        let instance = self.take_possession().await.map_err(|trouble| self.target(&trouble))?;
        let instance = instance?;
        self.make_partitions().await?;
        let mut imported = Vec::new();
        for table in TABLES {
            let columns = self.columns(table, instance).await?;
            let (rows, hash) = self.copy(table, &columns).await?;
            let found =
                self.read_back(table, &columns).await.map_err(|trouble| self.at(table.name, &trouble))?;
            if found != (rows, hash) {
                return Err(ImportError::Differs { table: table.name, read: rows, found: found.0 });
            }
            let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            imported.push(Imported { table: table.name, rows, sha256 });
        }
        for (table, key) in [("conversation", "conversation_key"), ("run", "run_key")] {
            let sql = format!(
                "SELECT setval(pg_get_serial_sequence('{table}', '{key}'), (SELECT coalesce(max({key}), 0) + 1 FROM {table}), false)"
            );
            self.session.rows(&sql, &[]).await.map_err(|trouble| self.at(table, &trouble))?;
        }
        Ok(imported)
    }

    /// Sees that nobody is there and nobody comes, and puts a dead instance down, whose runs the first gateway ends.
    async fn take_possession(&self) -> Sql<Result<i64, ImportError>> {
        let session = self.session;
        session.batch("LOCK TABLE instance, conversation, run IN EXCLUSIVE MODE").await?;
        let gateways = session
            .one(
                "SELECT count(*) FROM instance WHERE fenced = 0 AND expires_at > clock_timestamp()",
                &[],
                |columns| columns.number(),
            )
            .await?
            .unwrap_or(0);
        if gateways > 0 {
            return Ok(Err(ImportError::Shared { gateways }));
        }
        let (conversations, runs) = session
            .one("SELECT (SELECT count(*) FROM conversation), (SELECT count(*) FROM run)", &[], |columns| {
                Ok((columns.number()?, columns.number()?))
            })
            .await?
            .unwrap_or((0, 0));
        if (conversations, runs) != (0, 0) {
            return Ok(Err(ImportError::NotEmpty { conversations, runs }));
        }
        let instance = session
            .one(
                "INSERT INTO instance (name, epoch, fences, fenced, started_at, renewed_at, expires_at)
                 VALUES ('import', 1, 0, 1, clock_timestamp(), clock_timestamp(), clock_timestamp())
                 RETURNING instance",
                &[],
                |columns| columns.int(),
            )
            .await?;
        Ok(Ok(instance.ok_or(Damaged)?))
    }

    /// Partitions for the weeks of runs that are not packed.
    async fn make_partitions(&self) -> Result<(), ImportError> {
        let weeks = self.weeks().map_err(|error| self.sick(&error))?;
        let made = async {
            schema::make_partitions(self.session, self.options, &weeks).await?;
            // From here on it takes as long as it takes.
            self.session
                .batch("SET LOCAL statement_timeout TO 0; SET LOCAL idle_in_transaction_session_timeout TO 0")
                .await
        };
        made.await.map_err(|trouble| self.at("log", &trouble))
    }

    fn weeks(&self) -> rusqlite::Result<Vec<i64>> {
        let sql = format!("SELECT DISTINCT {WEEK} FROM run r WHERE r.archived = 0 ORDER BY 1");
        let mut weeks = self.source.prepare(&sql)?;
        let weeks = weeks.query_map([], |row| row.get(0))?;
        weeks.collect()
    }

    /// The columns of a table on both sides.
    async fn columns(&self, table: &Table, instance: i64) -> Result<Vec<Column>, ImportError> {
        let mut theirs = column::of_file(self.source, table.name).map_err(|error| self.sick(&error))?;
        theirs.retain(|name| !table.left.contains(&name.as_str()));
        let ours = column::of_schema(self.session, &self.options.schema, table.name)
            .await
            .map_err(|trouble| self.at(table.name, &trouble))?;
        let mut columns = Vec::new();
        for place in ours {
            let made = table.made.iter().find(|(name, _)| *name == place.name).map(|(_, source)| *source);
            let source = match made {
                Some(INSTANCE) => instance.to_string(),
                Some(source) => source.to_owned(),
                None if theirs.contains(&place.name) => format!("t.\"{}\"", place.name),
                // It has a value of its own, which is right for a row that comes from elsewhere.
                None if place.optional || place.kind == Kind::Time => continue,
                None => {
                    return Err(ImportError::NoPlace(format!(
                        "rows of {} without {}",
                        table.name, place.name
                    )));
                }
            };
            theirs.retain(|name| *name != place.name);
            columns.push(Column { name: place.name, kind: place.kind, source });
        }
        match theirs.first() {
            Some(name) => Err(ImportError::NoPlace(format!("column {name} of table {}", table.name))),
            None => Ok(columns),
        }
    }

    async fn copy(&mut self, table: &Table, columns: &[Column]) -> Result<(u64, [u8; 32]), ImportError> {
        let key: Vec<_> = table.key.iter().map(|(name, _)| format!("t.{name}")).collect();
        let named: Vec<_> = columns.iter().map(|column| column.source.as_str()).collect();
        let sql = format!("SELECT {} FROM {} ORDER BY {}", named.join(", "), table.from, key.join(", "));
        let source = self.source;
        let mut select = source.prepare(&sql).map_err(|error| self.sick(&error))?;
        let mut rows = select.query([]).map_err(|error| self.sick(&error))?;
        let insert = insert(table, columns);
        let (mut buffers, mut count, mut hash) = (Buffer::of(columns), 0, Sha256::new());
        let (mut waiting, mut bytes) = (0, 0);
        loop {
            let row = rows.next().map_err(|error| self.sick(&error))?;
            if let Some(row) = row {
                for (at, buffer) in buffers.iter_mut().enumerate() {
                    bytes += buffer.push_from_file(row, at, &mut hash).map_err(|error| self.sick(&error))?;
                }
                waiting += 1;
                count += 1;
            }
            if waiting > 0 && (row.is_none() || waiting >= ROWS || bytes >= BYTES) {
                let parameters: Vec<_> = buffers.iter().map(Buffer::parameter).collect();
                self.session
                    .execute(&insert, &parameters)
                    .await
                    .map_err(|trouble| self.at(table.name, &trouble))?;
                buffers.iter_mut().for_each(Buffer::clear);
                (waiting, bytes) = (0, 0);
                (self.progress)(table.name, count);
            }
            if row.is_none() {
                return Ok((count, hash.finalize().into()));
            }
        }
    }

    /// Reads a table of the schema from end to end, as it was written.
    async fn read_back(&self, table: &Table, columns: &[Column]) -> Sql<(u64, [u8; 32])> {
        let key: Vec<_> = table
            .key
            .iter()
            .map(|(name, text)| format!("\"{name}\"{}", if *text { " COLLATE \"C\"" } else { "" }))
            .collect();
        let names: Vec<_> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        self.session
            .batch(&format!(
                "DECLARE back NO SCROLL CURSOR FOR SELECT {} FROM {} ORDER BY {}",
                names.join(", "),
                quoted(table.name),
                key.join(", ")
            ))
            .await?;
        let (mut count, mut hash) = (0, Sha256::new());
        loop {
            let rows = self.session.rows_unprepared("FETCH 500 FROM back").await?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                for (at, column) in columns.iter().enumerate() {
                    column.hash_of_schema(row, at, &mut hash)?;
                }
                count += 1;
            }
        }
        self.session.batch("CLOSE back").await?;
        Ok((count, hash.finalize().into()))
    }
}

fn insert(table: &Table, columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let arrays: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| format!("${}::{}[]", at + 1, column.kind.as_str()))
        .collect();
    // The only column that no row brings: since when a key is kept.
    let (noted, now) =
        if table.name == "idempotency" { (", noted_at", ", clock_timestamp()") } else { ("", "") };
    format!(
        "INSERT INTO {} ({}{noted}) SELECT u.*{now} FROM unnest({}) AS u",
        quoted(table.name),
        names.join(", "),
        arrays.join(", ")
    )
}
