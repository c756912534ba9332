//! The archive: the records of a run that ended, packed in pieces by zstd. A replay gives the same bytes.
//!
//! Refuses runs without a terminal: a piece never changes once it is written.

use causeway_contract::event::Sequence;
use causeway_contract::text::Str;
use rusqlite::{Connection, params};

use crate::failpoint::{self, hit};
use crate::model::Archived;
use crate::record::{Payload, Record};
use crate::rules;
use crate::sqlite::fault::{Trouble, damaged};
use crate::sqlite::read::Read;
use crate::sqlite::row::{self, Columns, ROOT, stored};
use crate::sqlite::schema;

/// Records in one piece at most: a reader that resumes in the middle unpacks no more than this in vain.
const PIECE_RECORDS: usize = 512;
/// Bytes in one piece before packing, but for a single larger record.
const PIECE_BYTES: usize = 1024 * 1024;
const LEVEL: i32 = 6;

/// Packs one run and removes its records from the log, in the writer's transaction.
pub(crate) fn pack(connection: &Connection, key: i64) -> Read<Archived> {
    let mut done = Archived { runs: 1, ..Archived::default() };
    let mut select = connection.prepare_cached(
        "SELECT sequence, type, timestamp, namespace, data FROM log WHERE run_key = ?1 ORDER BY sequence",
    )?;
    let mut rows = select.query([key])?;
    let mut piece = Piece::default();
    while let Some(row) = rows.next()? {
        let record = Columns::new(row).record()?;
        if piece.records == PIECE_RECORDS || piece.raw.len() >= PIECE_BYTES {
            piece.store(connection, key, &mut done)?;
        }
        piece.push(&record)?;
    }
    piece.store(connection, key, &mut done)?;
    hit(failpoint::PACKED);
    connection.prepare_cached("DELETE FROM log WHERE run_key = ?1")?.execute([key])?;
    hit(failpoint::UNLOGGED);
    connection.prepare_cached("UPDATE run SET archived = 1 WHERE run_key = ?1")?.execute([key])?;
    Ok(done)
}

/// Records of a packed run.
pub(crate) fn read(connection: &Connection, key: i64, after: i64, limit: usize) -> Read<Vec<Record>> {
    let mut select = connection.prepare_cached(
        "SELECT first_sequence, raw_bytes, bytes FROM pack WHERE run_key = ?1 AND last_sequence > ?2
         ORDER BY first_sequence",
    )?;
    let mut rows = select.query(params![key, after])?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new(row);
        let (mut sequence, raw) = (columns.sequence()?, columns.number()?);
        let raw = usize::try_from(raw).map_err(|_| damaged())?;
        let raw = zstd::bulk::decompress(columns.blob()?, raw).map_err(|_| damaged())?;
        let mut rest = raw.as_slice();
        while !rest.is_empty() {
            let record = unpack(&mut rest, sequence)?;
            sequence = sequence.next().ok_or_else(damaged)?;
            if stored(record.sequence.value()) <= after {
                continue;
            }
            if records.len() == limit || !rules::page_takes(&records, &mut bytes, &record) {
                return Ok(records);
            }
            records.push(record);
        }
    }
    Ok(records)
}

#[derive(Default)]
struct Piece {
    raw: Vec<u8>,
    first: Option<Sequence>,
    last: Sequence,
    records: usize,
}

impl Piece {
    /// A record is its type (one byte), then time, namespace and payload, each after its length (four bytes).
    fn push(&mut self, record: &Record) -> Read<()> {
        self.first.get_or_insert(record.sequence);
        self.last = record.sequence;
        self.records += 1;
        self.raw.push(u8::try_from(schema::type_number(record.event_type)).map_err(|_| damaged())?);
        for part in [record.timestamp.to_string().as_str(), &record.namespace, record.data.as_str()] {
            self.raw.extend_from_slice(&u32::try_from(part.len()).map_err(|_| damaged())?.to_le_bytes());
            self.raw.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }

    fn store(&mut self, connection: &Connection, key: i64, done: &mut Archived) -> Read<()> {
        let Some(first) = self.first.take() else { return Ok(()) };
        let packed = zstd::bulk::compress(&self.raw, LEVEL).map_err(|_| damaged())?;
        done.bytes_before += u64::try_from(self.raw.len()).unwrap_or(u64::MAX);
        done.bytes_after += u64::try_from(packed.len()).unwrap_or(u64::MAX);
        connection
            .prepare_cached(
                "INSERT INTO pack (run_key, first_sequence, last_sequence, raw_bytes, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                key,
                stored(first.value()),
                stored(self.last.value()),
                i64::try_from(self.raw.len()).map_err(|_| damaged())?,
                packed
            ])?;
        self.raw.clear();
        self.records = 0;
        Ok(())
    }
}

fn unpack(rest: &mut &[u8], sequence: Sequence) -> Result<Record, Trouble> {
    let (number, tail) = rest.split_first().ok_or_else(damaged)?;
    *rest = tail;
    let event_type = schema::numbered_type(i64::from(*number)).ok_or_else(damaged)?;
    let timestamp = row::timestamp(text(rest)?)?;
    let namespace = match text(rest)? {
        ROOT => Str::Borrowed(ROOT),
        path => Str::from(path.to_owned()),
    };
    Ok(Record { sequence, timestamp, event_type, namespace, data: Payload::from(text(rest)?) })
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Trouble> {
    let (len, tail) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| damaged())?;
    let (text, tail) = tail.split_at_checked(len).ok_or_else(damaged)?;
    *rest = tail;
    std::str::from_utf8(text).map_err(|_| damaged())
}
