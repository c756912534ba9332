//! A row of SQLite, for whoever reads columns.
//!
//! Refuses conversions: a value of another type than was written is damage.

use rusqlite::Row;

use crate::columns::{Cell, Cells, Damaged};

pub(crate) use crate::columns::{
    ROOT, interrupt_number, reason_number, status_number, stored, thread_number,
};

/// Reads the columns of a row of SQLite.
pub(crate) type Columns<'r, 's> = crate::columns::Columns<'r, Row<'s>>;

impl Cells for Row<'_> {
    fn text(&self, at: usize) -> Cell<Option<&str>> {
        self.get_ref(at).ok().and_then(|value| value.as_str_or_null().ok()).ok_or(Damaged)
    }

    fn int(&self, at: usize) -> Cell<Option<i64>> {
        self.get_ref(at).ok().and_then(|value| value.as_i64_or_null().ok()).ok_or(Damaged)
    }

    fn blob(&self, at: usize) -> Cell<Option<&[u8]>> {
        self.get_ref(at).ok().and_then(|value| value.as_blob_or_null().ok()).ok_or(Damaged)
    }
}
