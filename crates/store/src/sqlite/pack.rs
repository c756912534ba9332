//! The archive: the records of a run that ended, packed in pieces. A replay gives the same bytes.
//!
//! Refuses runs without a terminal: a piece never changes once it is written.

use rusqlite::{Connection, params};

use crate::failpoint::{self, hit};
use crate::model::Archived;
use crate::piece::{Packed, Piece, Unpacking};
use crate::record::Record;
use crate::sqlite::fault::Trouble;
use crate::sqlite::read::Read;
use crate::sqlite::row::{Columns, stored};

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
        if piece.is_full() {
            store(connection, key, piece.pack()?, &mut done)?;
        }
        piece.push(&record)?;
    }
    store(connection, key, piece.pack()?, &mut done)?;
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
    let mut unpacking = Unpacking::new(after, limit);
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new(row);
        let (first, raw) = (columns.sequence()?, columns.number()?);
        if unpacking.take(first, raw, columns.blob()?)? {
            break;
        }
    }
    Ok(unpacking.records)
}

fn store(
    connection: &Connection,
    key: i64,
    packed: Option<Packed>,
    done: &mut Archived,
) -> Result<(), Trouble> {
    let Some(packed) = packed else { return Ok(()) };
    packed.count(done);
    connection
        .prepare_cached(
            "INSERT INTO pack (run_key, first_sequence, last_sequence, raw_bytes, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            key,
            stored(packed.first.value()),
            stored(packed.last.value()),
            packed.raw_bytes,
            packed.bytes
        ])?;
    Ok(())
}
