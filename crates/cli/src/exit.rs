//! How a command ends when it could do its work.

use std::io;
use std::process::ExitCode;

/// The status of a command that did its work; one that could not returns an error (status 2).
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// Nothing found: 0.
    Clean,
    /// Something found: 1.
    Findings,
}

/// The status of a command that could not do its work.
pub const COULD_NOT: u8 = 2;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Clean => Self::SUCCESS,
            Exit::Findings => Self::FAILURE,
        }
    }
}

/// Whether the reader of our output went away, as `head` does: no fault of ours, and nobody to tell.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(broken))
}
