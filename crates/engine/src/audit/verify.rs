//! Whether an audit log is whole: every line hashed again, every link followed, across its files.
//!
//! Refuses to vouch for what cannot be seen: lines that were cut off the end leave a whole chain behind, and whoever
//! can write the files can write a new chain. An [`Anchor`] kept elsewhere shows both.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use super::chain::{self, Anchor};

/// The file that is written now.
pub(super) const CURRENT: &str = "audit.log";

/// What was found whole.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// Lines.
    pub lines: u64,
    /// Before the first of them.
    pub from: Anchor,
    /// The last of them.
    pub head: Anchor,
}

/// Where it is not whole.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{file}:{line}: {what}", file = file.display())]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// The files of a log, oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut older = Vec::new();
    let mut current = None;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == CURRENT {
            current = Some(entry.path());
        } else if name
            .strip_prefix("audit-")
            .and_then(|rest| rest.strip_suffix(".log"))
            .is_some_and(is_number)
        {
            older.push(entry.path());
        }
    }
    older.sort();
    older.extend(current);
    Ok(older)
}

fn is_number(text: &str) -> bool {
    text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks these files, oldest first. `whole` says that the first line must be the first there ever was; `anchors`
/// must be in the chain.
///
/// # Errors
/// The outer one: a file cannot be read. The inner one: the first place that is not as it was written.
pub fn verify(files: &[PathBuf], whole: bool, anchors: &[Anchor]) -> std::io::Result<Result<Report, Broken>> {
    let mut report: Option<Report> = None;
    let mut last_place = (PathBuf::new(), 0);
    for file in files {
        let mut reader = BufReader::new(File::open(file)?);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let broken = |what: String| Broken { file: file.clone(), line: number, what };
            let Some(text) = line.strip_suffix(b"\n") else {
                return Ok(Err(broken("is cut off; a gateway that opens the log mends this".to_owned())));
            };
            let link = match std::str::from_utf8(text).map_err(|_| "is no text").and_then(chain::read) {
                Ok(link) => link,
                Err(what) => return Ok(Err(broken(what.to_owned()))),
            };
            let before = match &report {
                Some(report) => report.head.clone(),
                None if whole => Anchor::genesis(),
                None => Anchor { sequence: link.at.sequence.saturating_sub(1), hash: link.previous.clone() },
            };
            let other = |anchor: &&Anchor| {
                report.is_none() && anchor.sequence == before.sequence && **anchor != before
            };
            if anchors.iter().any(|anchor| other(&anchor)) {
                return Ok(Err(broken("does not follow the line that the anchor names".to_owned())));
            }
            if let Err(what) = follows(&link, &before) {
                return Ok(Err(broken(what)));
            }
            if let Some(anchor) = anchors.iter().find(|anchor| anchor.sequence == link.at.sequence)
                && *anchor != link.at
            {
                return Ok(Err(broken(
                    "is not the line that the anchor names: this is another chain".to_owned(),
                )));
            }
            let from = report.as_ref().map_or(before, |report| report.from.clone());
            let lines = report.as_ref().map_or(0, |report| report.lines) + 1;
            report = Some(Report { lines, from, head: link.at });
            last_place = (file.clone(), number);
        }
    }
    let report =
        report.unwrap_or_else(|| Report { lines: 0, from: Anchor::genesis(), head: Anchor::genesis() });
    let beyond = anchors.iter().find(|anchor| anchor.sequence > report.head.sequence);
    if let Some(anchor) = beyond {
        let (file, line) = last_place;
        let what = format!("is the last line; line {} of the chain is missing behind it", anchor.sequence);
        return Ok(Err(Broken { file, line, what }));
    }
    Ok(Ok(report))
}

fn follows(link: &chain::Link, before: &Anchor) -> Result<(), String> {
    let expected = before.sequence.saturating_add(1);
    if link.at.sequence != expected {
        return Err(format!("is line {} of the chain, where {expected} belongs", link.at.sequence));
    }
    if link.previous != before.hash {
        return Err("does not follow the line before it".to_owned());
    }
    Ok(())
}
