//! From the errors of the server and the connection to ours.
//!
//! Refuses to pass on their texts, which may quote data: only SQLSTATE codes get through.

use std::error::Error as _;
use std::io;
use std::path::Path;

use tokio_postgres::error::SqlState;

use crate::columns::Damaged;
use crate::error::{Cause, Error, Misuse, Refusal, Unavailable};

/// Why a piece of work on the database did not come to an answer of yes.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// An answer of its own; the transaction goes on.
    Answer(Error),
    /// The server or the connection failed; the transaction is over.
    Sql(tokio_postgres::Error),
    /// A stored value that this code could not have written.
    Damaged,
    /// Somebody else was quicker; the transaction is to be tried again from the start.
    Raced,
    /// The lease of this instance is gone; the transaction is to be tried again as another.
    Lost,
    /// The server does not answer.
    Silent,
    /// There is no connection to be had.
    Away(Unavailable),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Damaged> for Trouble {
    fn from(_: Damaged) -> Self {
        Self::Damaged
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

impl Trouble {
    /// Whether the same work may succeed when it is done again from the start.
    pub(crate) fn is_race(&self) -> bool {
        let Self::Sql(error) = self else { return matches!(self, Self::Raced) };
        error.code().is_some_and(|code| {
            [SqlState::UNIQUE_VIOLATION, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE]
                .contains(code)
        })
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn is_connection(&self) -> bool {
        match self {
            Self::Sql(error) => is_connection(error),
            Self::Silent | Self::Away(_) => true,
            Self::Answer(_) | Self::Damaged | Self::Raced | Self::Lost => false,
        }
    }

    /// Whether connection or lease were lost, and a new one may do.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Lost) || self.is_connection()
    }

    pub(crate) fn unavailable(&self, place: &Path) -> Unavailable {
        match self {
            Self::Sql(error) => unavailable(error, place),
            Self::Answer(_) | Self::Damaged => {
                Unavailable::new(Cause::Corrupted, place, "a stored value is not readable")
            }
            Self::Raced => Unavailable::new(Cause::Locked, place, "others were quicker every time"),
            Self::Lost => Unavailable::new(Cause::LeaseLost, place, ""),
            Self::Away(trouble) => trouble.clone(),
            Self::Silent => Unavailable::new(Cause::Unreachable, place, "no answer in time"),
        }
    }

    pub(crate) fn into_error(self, place: &Path) -> Error {
        match self {
            Self::Answer(error) => error,
            other => other.unavailable(place).into(),
        }
    }
}

fn is_connection(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error.code().is_none_or(|code| {
            matches!(code.code().get(..2), Some("57" | "08")) && *code != SqlState::QUERY_CANCELED
        })
}

/// What an error of the server or the connection means for the user.
pub(crate) fn unavailable(error: &tokio_postgres::Error, place: &Path) -> Unavailable {
    let Some(code) = error.code() else {
        let system = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let detail = match system {
            Some(error) => error
                .raw_os_error()
                .map_or_else(|| error.kind().to_string(), |code| format!("system error {code}")),
            None if error.is_closed() => "the connection is closed".to_owned(),
            None => "the connection failed".to_owned(),
        };
        let cause = match system.map(io::Error::kind) {
            Some(io::ErrorKind::InvalidData) => Cause::Denied, // what a TLS handshake says
            Some(_) | None => Cause::Unreachable,
        };
        return Unavailable::new(cause, place, detail);
    };
    let cause = match code.code().get(..2).unwrap_or_default() {
        "53" if *code == SqlState::DISK_FULL => Cause::DiskFull,
        "08" | "53" => Cause::Unreachable,
        "57" if *code == SqlState::QUERY_CANCELED => Cause::Locked,
        "57" => Cause::Unreachable,
        "28" => Cause::Denied,
        "42" if *code == SqlState::INSUFFICIENT_PRIVILEGE => Cause::Denied,
        "25" if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Cause::ReadOnly,
        "3D" | "3F" => Cause::Missing,
        "40" | "55" => Cause::Locked,
        "XX" => Cause::Corrupted,
        _ => Cause::Io,
    };
    Unavailable::new(cause, place, format!("sqlstate {}", code.code()))
}
