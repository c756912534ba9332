//! Pieces of an archive: some records of one run, packed by zstd.
//!
//! Refuses to decide what is packed: a backend gives it the records of a run that ended, in order.

use causeway_contract::event::Sequence;
use causeway_contract::text::Str;

use crate::columns::{Cell, Damaged, ROOT, numbered_type, stored, timestamp, type_number};
use crate::model::Archived;
use crate::record::{Payload, Record};
use crate::rules;

/// Records in one piece at most: a reader that resumes in the middle unpacks no more than this in vain.
const PIECE_RECORDS: usize = 512;
/// Bytes in one piece before packing, but for a single larger record.
const PIECE_BYTES: usize = 1024 * 1024;
const LEVEL: i32 = 6;

/// A piece that is being filled.
#[derive(Default)]
pub(crate) struct Piece {
    raw: Vec<u8>,
    first: Option<Sequence>,
    last: Sequence,
    records: usize,
}

/// A piece as it is stored.
pub(crate) struct Packed {
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
    pub(crate) raw_bytes: i64,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    pub(crate) fn is_full(&self) -> bool {
        self.records == PIECE_RECORDS || self.raw.len() >= PIECE_BYTES
    }

    /// A record is its type (one byte), then time, namespace and payload, each after its length (four bytes).
    pub(crate) fn push(&mut self, record: &Record) -> Cell<()> {
        self.first.get_or_insert(record.sequence);
        self.last = record.sequence;
        self.records += 1;
        self.raw.push(u8::try_from(type_number(record.event_type)).map_err(|_| Damaged)?);
        for part in [record.timestamp.to_string().as_str(), &record.namespace, record.data.as_str()] {
            self.raw.extend_from_slice(&u32::try_from(part.len()).map_err(|_| Damaged)?.to_le_bytes());
            self.raw.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }

    /// Packs what was pushed and begins anew; `None` if nothing was.
    pub(crate) fn pack(&mut self) -> Cell<Option<Packed>> {
        let Some(first) = self.first.take() else { return Ok(None) };
        let bytes = zstd::bulk::compress(&self.raw, LEVEL).map_err(|_| Damaged)?;
        let raw_bytes = i64::try_from(self.raw.len()).map_err(|_| Damaged)?;
        self.raw.clear();
        self.records = 0;
        Ok(Some(Packed { first, last: self.last, raw_bytes, bytes }))
    }
}

impl Packed {
    /// Adds this piece to what was done.
    pub(crate) fn count(&self, done: &mut Archived) {
        done.bytes_before += u64::try_from(self.raw_bytes).unwrap_or(u64::MAX);
        done.bytes_after += u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
    }
}

/// A page of records that is being unpacked.
pub(crate) struct Unpacking {
    pub(crate) records: Vec<Record>,
    bytes: usize,
    after: i64,
    limit: usize,
}

impl Unpacking {
    /// At most `limit` records with a number above `after`.
    pub(crate) fn new(after: i64, limit: usize) -> Self {
        Self { records: Vec::new(), bytes: 0, after, limit }
    }

    /// Takes the next piece in; true once the page is full.
    pub(crate) fn take(&mut self, first: Sequence, raw_bytes: u64, packed: &[u8]) -> Cell<bool> {
        let mut sequence = first;
        let raw = usize::try_from(raw_bytes).map_err(|_| Damaged)?;
        let raw = zstd::bulk::decompress(packed, raw).map_err(|_| Damaged)?;
        let mut rest = raw.as_slice();
        while !rest.is_empty() {
            let record = unpack(&mut rest, sequence)?;
            sequence = sequence.next().ok_or(Damaged)?;
            if stored(record.sequence.value()) <= self.after {
                continue;
            }
            if self.records.len() == self.limit || !rules::page_takes(&self.records, &mut self.bytes, &record)
            {
                return Ok(true);
            }
            self.records.push(record);
        }
        Ok(false)
    }
}

fn unpack(rest: &mut &[u8], sequence: Sequence) -> Cell<Record> {
    let (number, tail) = rest.split_first().ok_or(Damaged)?;
    *rest = tail;
    let event_type = numbered_type(i64::from(*number)).ok_or(Damaged)?;
    let timestamp = timestamp(text(rest)?)?;
    let namespace = match text(rest)? {
        ROOT => Str::Borrowed(ROOT),
        path => Str::from(path.to_owned()),
    };
    Ok(Record { sequence, timestamp, event_type, namespace, data: Payload::from(text(rest)?) })
}

fn text<'a>(rest: &mut &'a [u8]) -> Cell<&'a str> {
    let (len, tail) = rest.split_first_chunk::<4>().ok_or(Damaged)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| Damaged)?;
    let (text, tail) = tail.split_at_checked(len).ok_or(Damaged)?;
    *rest = tail;
    std::str::from_utf8(text).map_err(|_| Damaged)
}
