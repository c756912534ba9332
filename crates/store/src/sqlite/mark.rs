//! The mark beside the database: how many writes were acknowledged, and what the file was when it was last left.
//!
//! Refuses to be ahead of the truth. It is written after the sync of the write-ahead log that it speaks of and is not
//! synced itself, so whatever it says has been on the disk; after a power cut it may say less. A mark that cannot be read
//! says nothing, and one that cannot be written goes on saying less: it costs a warning, never data.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Cause, Unavailable};
use crate::sqlite::fault;

/// The file in the data directory.
pub(crate) const FILE: &str = "causeway.mark";
/// Its length, whatever it says: writing it again takes no new space on the disk, and stays within one sector.
const BYTES: usize = 128;
/// Larger databases are not summed up: neither closing nor opening is to take seconds for it.
const SUM_BYTES: u64 = 1024 * 1024 * 1024;

/// What the mark says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Said {
    /// The number of the last write that was acknowledged.
    commits: u64,
    /// Length and checksum of the database, said by a gateway that left in good order.
    left: Option<(u64, u32)>,
}

/// The mark of a data directory.
#[derive(Debug)]
pub(crate) struct Mark {
    path: PathBuf,
    /// `None` when it was opened for reading and is not there.
    file: Option<File>,
    said: Said,
}

impl Mark {
    /// Opens the mark, and makes an empty one where there is none.
    ///
    /// # Errors
    /// `ReadOnly`, `DiskFull`, `Io`.
    pub(crate) fn open(dir: &Path) -> Result<Self, Unavailable> {
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| fault::io(&error, &path))?;
        let said = read(&file);
        Ok(Self { path, file: Some(file), said })
    }

    /// What a mark says, for somebody who must not write.
    pub(crate) fn peek(dir: &Path) -> Self {
        let path = dir.join(FILE);
        let said = File::open(&path).map_or_else(|_| Said::default(), |file| read(&file));
        Self { path, file: None, said }
    }

    /// Whether the database is byte for byte what a gateway left in good order; `None` where that cannot be told.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn vouches_for(&self, database: &Path) -> Result<Option<bool>, Unavailable> {
        // A log beside it means that somebody has it open, or did not leave in good order.
        let Some(left) = self.said.left.filter(|_| !log_of(database).exists()) else { return Ok(None) };
        match sum(database) {
            Ok(Some(found)) => Ok(Some(found == left)),
            Ok(None) => Ok(None),
            Err(error) => Err(fault::io(&error, database)),
        }
    }

    /// Whether the database has every write that was acknowledged.
    ///
    /// # Errors
    /// `Altered`.
    pub(crate) fn check(&self, database: &Path, commits: u64) -> Result<(), Unavailable> {
        let expected = self.said.commits;
        if commits >= expected {
            return Ok(());
        }
        let detail = if commits == 0 {
            format!("it holds no writes, but {expected} were acknowledged")
        } else {
            format!("its last write is number {commits}, but number {expected} was acknowledged")
        };
        Err(Unavailable::new(Cause::Altered, database, detail))
    }

    /// Says, before the database is changed, that nobody vouches for its bytes any more.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub(crate) fn begin(&mut self) -> Result<(), Unavailable> {
        self.said.left = None;
        self.write(true)
    }

    /// Notes a write that is on the disk and about to be acknowledged.
    pub(crate) fn acknowledged(&mut self, commits: u64) {
        self.said.commits = commits;
        // One that fails leaves a mark that says less.
        let _ = self.write(false);
    }

    /// Vouches for a database that was left in good order: nobody has it open, and no log is beside it.
    ///
    /// # Errors
    /// The database cannot be read, or the mark not written. The next start then checks the file instead.
    pub(crate) fn leave(&mut self, database: &Path) -> Result<(), Unavailable> {
        if !log_of(database).exists() {
            self.said.left = sum(database).map_err(|error| fault::io(&error, database))?;
        }
        self.write(true)
    }

    fn write(&self, sync: bool) -> Result<(), Unavailable> {
        let Some(file) = &self.file else { return Ok(()) };
        let done = file.write_all_at(&spell(self.said), 0);
        let done = if sync { done.and_then(|()| file.sync_all()) } else { done };
        done.map_err(|error| fault::io(&error, &self.path))
    }
}

/// SQLite's write-ahead log of a database.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Length and checksum of a file that is not too long for it.
fn sum(path: &Path) -> std::io::Result<Option<(u64, u32)>> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > SUM_BYTES {
        return Ok(None);
    }
    let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 256 * 1024]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some((bytes, hasher.finalize()))),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// One line of text, ended by its own checksum, filled up with spaces.
fn spell(said: Said) -> [u8; BYTES] {
    let left = said.left.map_or_else(|| "open".to_owned(), |(bytes, sum)| format!("left {bytes} {sum:08x}"));
    let text = format!("causeway mark 1 commits {} {left} check ", said.commits);
    let text = format!("{text}{:08x}\n", crc32fast::hash(text.as_bytes()));
    let mut line = [b' '; BYTES];
    for (to, from) in line.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    line
}

/// What the file says; nothing if it cannot be read.
fn read(file: &File) -> Said {
    let mut line = [0; BYTES];
    if file.read_exact_at(&mut line, 0).is_err() {
        return Said::default();
    }
    std::str::from_utf8(&line).ok().and_then(parse).unwrap_or_default()
}

fn parse(line: &str) -> Option<Said> {
    let text = line.trim_end_matches(' ').strip_suffix('\n')?;
    let (text, check) = text.split_at_checked(text.len().checked_sub(8)?)?;
    if u32::from_str_radix(check, 16).ok()? != crc32fast::hash(text.as_bytes()) {
        return None;
    }
    let words: Vec<_> = text.split(' ').collect();
    let (commits, left) = match words.as_slice() {
        ["causeway", "mark", "1", "commits", commits, "open", "check", ""] => (commits, None),
        ["causeway", "mark", "1", "commits", commits, "left", bytes, sum, "check", ""] => {
            (commits, Some((bytes.parse().ok()?, u32::from_str_radix(sum, 16).ok()?)))
        }
        _ => return None,
    };
    Some(Said { commits: commits.parse().ok()?, left })
}

/// Makes the entries of a directory durable: a new file is lost in a power cut without it.
///
/// # Errors
/// The disk does not take it. Where a file system has no such sync, there is nothing to do.
pub(crate) fn sync_directory(dir: &Path) -> Result<(), Unavailable> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if error.kind() != ErrorKind::InvalidInput => Err(fault::io(&error, dir)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_mark_reads_back_and_a_damaged_one_says_nothing() {
        for said in [
            Said::default(),
            Said { commits: 12, left: None },
            Said { commits: u64::MAX, left: Some((u64::MAX, u32::MAX)) },
        ] {
            let line = spell(said);
            assert_eq!(parse(std::str::from_utf8(&line).unwrap()), Some(said));
            let text = line.iter().position(|byte| *byte == b'\n').unwrap();
            for at in 0..text {
                let mut damaged = line;
                damaged[at] ^= 1;
                assert_eq!(std::str::from_utf8(&damaged).ok().and_then(parse), None, "byte {at}");
            }
        }
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_mark_vouches_for_a_file_until_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("causeway.db");
        fs::write(&database, "bytes").unwrap();
        let mut mark = Mark::open(dir.path()).unwrap();
        mark.acknowledged(7);
        assert_eq!(mark.vouches_for(&database), Ok(None));
        mark.leave(&database).unwrap();
        let again = Mark::open(dir.path()).unwrap();
        assert_eq!(again.vouches_for(&database), Ok(Some(true)));
        fs::write(&database, "bites").unwrap();
        assert_eq!(again.vouches_for(&database), Ok(Some(false)));
        assert_eq!(again.check(&database, 7), Ok(()));
        let detail = "its last write is number 6, but number 7 was acknowledged";
        assert_eq!(again.check(&database, 6), Err(Unavailable::new(Cause::Altered, &database, detail)));
        mark.begin().unwrap();
        assert_eq!(Mark::peek(dir.path()).vouches_for(&database), Ok(None));
    }
}
