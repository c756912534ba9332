//! The durable log of runs: one trait, its backends, and the suite that every backend must pass.
//!
//! Refuses: judging events (that is `causeway-lifecycle`), reading a clock (every time comes in with a record),
//! and guessing (an answer that was lost is [`Error::Unknown`], never success or failure).
//!
//! Promises every backend keeps, each tested by the suite `conformance` (feature `testing`):
//! - what was acknowledged is in every later read, once, under the same number, with the same bytes;
//! - a run has at most one terminal, and nothing comes after it (R03, R04);
//! - head, status and terminal change in one transaction (R13, R14), and an error never moves the head (R15);
//! - a writer whose run was fenced writes nothing more;
//! - an interrupt is consumed by one answer.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod columns;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod error;
pub mod failpoint;
#[cfg(feature = "testing")]
pub mod faulty;
pub mod follow;
pub mod memory;
pub mod model;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod piece;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod record;
mod rules;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;

pub use error::{Error, Refusal, Unavailable};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use record::Record;
pub use rules::RESULT_BYTES;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::Store;
