//! The columns of both sides, and cells on their way from one to the other.
//!
//! Refuses to guess a type: a column of the schema is a number, text, bytes or a time, and a cell that is something else is
//! damage.

use causeway_contract::timestamp::Timestamp;
use rusqlite::Connection;
use rusqlite::types::{FromSqlError, Type};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::columns::Damaged;
use crate::postgres::session::{Session, Sql};

/// What a cell holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Int,
    Text,
    Bytes,
    /// By the database's clock; never brought from elsewhere.
    Time,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Int => "bigint",
            Self::Text => "text",
            Self::Bytes => "bytea",
            Self::Time => "timestamptz",
        }
    }
}

/// A column of the schema.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Whether a row may come without it.
    pub(super) optional: bool,
}

/// A column of both.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// What is selected for it.
    pub(super) source: String,
}

pub(super) fn of_file(source: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut names = source.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = names.query_map([table], |row| row.get(0))?;
    names.collect()
}

pub(super) async fn of_schema(session: &Session, schema: &str, table: &str) -> Sql<Vec<Place>> {
    let found = session
        .every(
            "SELECT column_name::text, data_type::text,
                 (is_nullable = 'YES' OR column_default IS NOT NULL)::int::bigint
             FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position",
            &[&schema, &table],
            |columns| {
                let name = columns.text()?.to_owned();
                let kind = match columns.text()? {
                    "bigint" => Kind::Int,
                    "text" => Kind::Text,
                    "bytea" => Kind::Bytes,
                    "timestamp with time zone" => Kind::Time,
                    _ => return Err(Damaged),
                };
                Ok(Place { name, kind, optional: columns.int()? != 0 })
            },
        )
        .await?;
    if found.is_empty() { Err(Damaged.into()) } else { Ok(found) }
}

/// Cells of one column that go over together.
pub(super) enum Buffer {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Buffer {
    pub(super) fn of(columns: &[Column]) -> Vec<Self> {
        columns
            .iter()
            .map(|column| match column.kind {
                Kind::Int => Self::Int(Vec::new()),
                Kind::Text | Kind::Time => Self::Text(Vec::new()),
                Kind::Bytes => Self::Bytes(Vec::new()),
            })
            .collect()
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Int(cells) => cells.clear(),
            Self::Text(cells) => cells.clear(),
            Self::Bytes(cells) => cells.clear(),
        }
    }

    pub(super) fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(cells) => cells,
            Self::Text(cells) => cells,
            Self::Bytes(cells) => cells,
        }
    }

    /// Takes a cell of the file; its length.
    pub(super) fn push_from_file(
        &mut self,
        row: &rusqlite::Row<'_>,
        at: usize,
        hash: &mut Sha256,
    ) -> rusqlite::Result<usize> {
        let bytes = match self {
            Self::Int(cells) => {
                let cell = match row.get_ref(at)? {
                    // A time that the schema keeps as a number, too.
                    rusqlite::types::ValueRef::Text(text) => Some(millis(text, at)?),
                    other => other.as_i64_or_null().map_err(|error| wrong(error, at, Type::Integer))?,
                };
                feed(hash, cell.map(i64::to_be_bytes).as_ref().map(|bytes| bytes.as_slice()));
                cells.push(cell);
                8
            }
            Self::Text(cells) => {
                let cell: Option<String> = row.get(at)?;
                feed(hash, cell.as_deref().map(str::as_bytes));
                let bytes = cell.as_ref().map_or(0, String::len);
                cells.push(cell);
                bytes
            }
            Self::Bytes(cells) => {
                let cell: Option<Vec<u8>> = row.get(at)?;
                feed(hash, cell.as_deref());
                let bytes = cell.as_ref().map_or(0, Vec::len);
                cells.push(cell);
                bytes
            }
        };
        Ok(bytes)
    }
}

fn wrong(error: FromSqlError, at: usize, kind: Type) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, kind, Box::new(error))
}

fn millis(text: &[u8], at: usize) -> rusqlite::Result<i64> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| Timestamp::parse(text).ok());
    parsed.map(|time| time.unix_millis()).ok_or_else(|| wrong(FromSqlError::InvalidType, at, Type::Text))
}

impl Column {
    /// Takes a cell of the schema.
    pub(super) fn hash_of_schema(&self, row: &Row, at: usize, hash: &mut Sha256) -> Sql<()> {
        match self.kind {
            Kind::Int => {
                let cell: Option<i64> = row.try_get(at)?;
                feed(hash, cell.map(i64::to_be_bytes).as_ref().map(|bytes| bytes.as_slice()));
            }
            Kind::Text | Kind::Time => feed(hash, row.try_get::<_, Option<&str>>(at)?.map(str::as_bytes)),
            Kind::Bytes => feed(hash, row.try_get::<_, Option<&[u8]>>(at)?),
        }
        Ok(())
    }
}

/// A cell as the hash sees it: whether there is one, its length, its bytes.
fn feed(hash: &mut Sha256, cell: Option<&[u8]>) {
    match cell {
        None => hash.update([0]),
        Some(bytes) => {
            hash.update([1]);
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        }
    }
}
