//! The proof that a store has committed an interrupt (R14).
//!
//! Refuses to be made by anybody but a store backend: `cargo xtask tidy` checks who calls `issued_by_store`.

use crate::id::Reference;

/// Says that the interrupt's snapshot and the harness's resumable state are durable under this revision and head.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommitReceipt {
    revision: u64,
    head: Reference<'static>,
}

impl CommitReceipt {
    /// The receipt for a commit that has landed. Only store backends call this, after the transaction.
    pub fn issued_by_store(revision: u64, head: Reference<'static>) -> Self {
        Self { revision, head }
    }

    /// The revision of the thread head that the commit made current.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The head that the commit made current.
    pub fn head(&self) -> &Reference<'static> {
        &self.head
    }
}
