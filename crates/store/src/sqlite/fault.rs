//! From the errors of SQLite and the system to ours.
//!
//! Refuses to pass on their texts, which may quote data: only codes get through.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::columns::Damaged;
use crate::error::{Cause, Error, Misuse, Refusal, Unavailable};

/// Why a piece of work on the database did not come to an answer of yes.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// An answer of its own; the transaction goes on.
    Answer(Error),
    /// SQLite failed; the transaction is over.
    Sql(rusqlite::Error),
}

impl Trouble {
    pub(crate) fn into_error(self, file: &Path) -> Error {
        match self {
            Self::Answer(error) => error,
            Self::Sql(error) => unavailable(&error, file).into(),
        }
    }
}

/// A stored value that this code could not have written.
pub(crate) fn damaged() -> Trouble {
    Trouble::Sql(rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, Box::new(Damaged)))
}

impl From<Damaged> for Trouble {
    fn from(_: Damaged) -> Self {
        damaged()
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Answer(refusal.into())
    }
}

impl From<Misuse> for Trouble {
    fn from(misuse: Misuse) -> Self {
        Self::Answer(misuse.into())
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

/// What an error of SQLite means for the user.
pub(crate) fn unavailable(error: &rusqlite::Error, file: &Path) -> Unavailable {
    let (cause, detail) = match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            let cause = match failure.code {
                ErrorCode::DiskFull => Cause::DiskFull,
                ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Cause::ReadOnly,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Cause::Locked,
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Cause::Corrupted,
                _ => Cause::Io,
            };
            (cause, format!("sqlite code {}", failure.extended_code))
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::QueryReturnedNoRows
        | rusqlite::Error::Utf8Error(..) => (Cause::Corrupted, "a stored value is not readable".to_owned()),
        _ => (Cause::Io, "sqlite refuses a statement".to_owned()),
    };
    Unavailable::new(cause, file, detail)
}

/// What an error of the file system means for the user.
pub(crate) fn io(error: &io::Error, path: &Path) -> Unavailable {
    let cause = match error.kind() {
        // The path itself, or one of the directories on its way.
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            let file = path.ancestors().find(|place| place.metadata().is_ok_and(|meta| !meta.is_dir()));
            return Unavailable::new(Cause::NotADirectory, file.unwrap_or(path), "");
        }
        io::ErrorKind::IsADirectory => return Unavailable::new(Cause::IsADirectory, path, ""),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Cause::DiskFull,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Cause::ReadOnly,
        io::ErrorKind::NotFound => Cause::Missing,
        _ => Cause::Io,
    };
    let detail =
        error.raw_os_error().map_or_else(|| error.kind().to_string(), |code| format!("system error {code}"));
    Unavailable::new(cause, path, detail)
}
