//! The archive: the records of a run that ended, packed in pieces. A replay gives the same bytes.
//!
//! Refuses runs without a terminal. The log keeps its copy until the partition with it goes: one `DROP` instead of as
//! many `DELETE`s as there were records.

use crate::columns::{Columns, Damaged, stored};
use crate::model::Archived;
use crate::piece::{Packed, Piece};
use crate::postgres::session::{Session, Sql};

/// Records that are fetched at once.
const CHUNK: i64 = 2048;

/// Packs one run, in the writer's transaction; nothing where it is packed already, or somebody else is at it.
pub(crate) async fn pack(session: &Session, key: i64) -> Sql<Archived> {
    let locked = session
        .one(
            "SELECT bucket FROM run WHERE run_key = $1 AND status <> 0 AND archived = 0 FOR UPDATE SKIP LOCKED",
            &[&key],
            |columns| columns.int(),
        )
        .await?;
    let Some(bucket) = locked else { return Ok(Archived::default()) };
    let mut done = Archived { runs: 1, ..Archived::default() };
    let (mut piece, mut after) = (Piece::default(), -1);
    loop {
        let rows = session
            .rows(
                "SELECT sequence, type, timestamp, namespace, data FROM log
                 WHERE bucket = $1 AND run_key = $2 AND sequence > $3 ORDER BY sequence LIMIT $4",
                &[&bucket, &key, &after, &CHUNK],
            )
            .await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let record = Columns::new(row).record()?;
            after = stored(record.sequence.value());
            if piece.is_full() {
                store(session, key, piece.pack()?.ok_or(Damaged)?, &mut done).await?;
            }
            piece.push(&record)?;
        }
    }
    if let Some(last) = piece.pack()? {
        store(session, key, last, &mut done).await?;
    }
    session.execute("UPDATE run SET archived = 1 WHERE run_key = $1", &[&key]).await?;
    Ok(done)
}

async fn store(session: &Session, key: i64, packed: Packed, done: &mut Archived) -> Sql<()> {
    packed.count(done);
    session
        .execute(
            "INSERT INTO pack (run_key, first_sequence, last_sequence, raw_bytes, bytes) VALUES ($1, $2, $3, $4, $5)",
            &[
                &key,
                &stored(packed.first.value()),
                &stored(packed.last.value()),
                &packed.raw_bytes,
                &packed.bytes,
            ],
        )
        .await?;
    Ok(())
}
