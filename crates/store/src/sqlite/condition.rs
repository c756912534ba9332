//! What the writer is in trouble with, for whoever asks how the store feels.
//!
//! Refuses history: only what holds now.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Unavailable;

/// The trouble, if there is any.
#[derive(Debug, Default)]
pub(crate) struct Condition(Mutex<Option<Unavailable>>);

impl Condition {
    pub(crate) fn set(&self, trouble: Unavailable) {
        *self.lock() = Some(trouble);
    }

    pub(crate) fn clear(&self) {
        *self.lock() = None;
    }

    /// # Errors
    /// The trouble.
    pub(crate) fn check(&self) -> Result<(), Unavailable> {
        self.lock().clone().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Unavailable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
