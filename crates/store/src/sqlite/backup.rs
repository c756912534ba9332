//! A copy of a database as it was at one moment, taken while others write it; and what a copy holds.
//!
//! Refuses to hold anybody up: a copy reads one snapshot of the write-ahead log, which neither waits for the gateway nor
//! makes it wait. Refuses to call a copy good that it has not read through.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::{Cause, Unavailable};
use crate::sqlite::mark::{self, Mark};
use crate::sqlite::{fault, open, schema};

/// Pages that are copied between two looks at the progress.
const STEP: i32 = 1024;
/// Between two tries of a step that somebody's lock stopped, and how many there are.
const PAUSE: Duration = Duration::from_millis(50);
const TRIES: u32 = 200;

/// The name of the database in a data directory, and in a backup.
pub const DATABASE: &str = open::FILE;
/// The files beside it that belong to one directory and one gateway: no backup has them.
pub const OWN: &[&str] = &["causeway.db-wal", "causeway.db-shm", open::LOCK, mark::FILE];

/// What a copy holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Contents {
    /// The version of its tables.
    pub schema: u64,
    /// The number of its last write.
    pub commits: u64,
    /// Conversations.
    pub conversations: u64,
    /// Runs, whatever their status.
    pub runs: u64,
    /// Runs without a terminal: a gateway that opens the copy ends them.
    pub open_runs: u64,
}

/// Copies the database of a data directory to a new file, also while a gateway uses it. `progress` is told how many
/// pages are copied, and of how many.
///
/// # Errors
/// `Missing`, `Corrupted`, `Altered`, `NewerSchema`, `DiskFull`, `Io`, as opening it for reading.
pub fn copy(dir: &Path, target: &Path, progress: impl FnMut(u64, u64)) -> Result<Contents, Unavailable> {
    let mark = Mark::peek(dir);
    open::compare(dir, &mark)?;
    let source = open::reader(dir)?;
    copy_all(&source, &dir.join(open::FILE), target, progress)?;
    check(target)
}

/// The same for any SQLite database, such as a worker's.
///
/// # Errors
/// `Missing`, `Corrupted`, `Locked`, `DiskFull`, `Io`.
pub fn copy_any(file: &Path, target: &Path) -> Result<(), Unavailable> {
    let sql = |error: rusqlite::Error| fault::unavailable(&error, file);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(file, flags).map_err(sql)?;
    source.busy_timeout(open::BUSY).map_err(sql)?;
    copy_all(&source, file, target, |_, _| {})?;
    let copy = read_only(target)?;
    sound(&copy, target)
}

/// What is known of a database where it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Examined {
    /// What it holds.
    pub contents: Contents,
    /// When its newest run began, in milliseconds since 1970.
    pub newest: Option<i64>,
}

/// Reads the database of a data directory through, also while a gateway uses it.
///
/// # Errors
/// `Missing`, `Corrupted`, `Altered`, `NewerSchema`, `ReadOnly`, `Io`.
pub fn examine(dir: &Path) -> Result<Examined, Unavailable> {
    let mark = Mark::peek(dir);
    open::compare(dir, &mark)?;
    let file = dir.join(open::FILE);
    let connection = open::reader(dir)?;
    let sql = |error: rusqlite::Error| fault::unavailable(&error, &file);
    let snapshot = connection.unchecked_transaction().map_err(sql)?;
    let contents = contents(&snapshot, &file)?;
    let newest = snapshot
        .query_row("SELECT created_ms FROM run ORDER BY run_key DESC LIMIT 1", [], |row| row.get(0))
        .optional()
        .map_err(sql)?;
    Ok(Examined { contents, newest })
}

/// Bytes that an unprivileged user may still write to the file system of a directory.
///
/// # Errors
/// `Missing`, `Io`.
pub fn free_bytes(dir: &Path) -> Result<u64, Unavailable> {
    open::free_bytes(dir)
}

/// Reads a copy through.
///
/// # Errors
/// `Missing`, `Corrupted`, `NewerSchema`, `Io`.
pub fn check(file: &Path) -> Result<Contents, Unavailable> {
    fs::metadata(file).map_err(|error| fault::io(&error, file))?;
    contents(&read_only(file)?, file)
}

fn contents(connection: &Connection, file: &Path) -> Result<Contents, Unavailable> {
    let found = schema::version(connection, file, schema::MIGRATIONS)?;
    if found == 0 {
        return Err(Unavailable::new(Cause::Missing, file, "the file is empty"));
    }
    sound(connection, file)?;
    let sql = |error: rusqlite::Error| fault::unavailable(&error, file);
    let count = |of: &str| {
        let count =
            connection.query_row(&format!("SELECT count(*) FROM {of}"), [], |row| row.get::<_, i64>(0));
        count.map(|count| u64::try_from(count).unwrap_or(0)).map_err(sql)
    };
    Ok(Contents {
        schema: u64::try_from(found).unwrap_or(u64::MAX),
        commits: open::commits(connection).map_err(sql)?,
        conversations: count("conversation")?,
        runs: count("run")?,
        open_runs: count("run WHERE status = 0")?,
    })
}

/// Vouches for the database that was put into `dir`, as a gateway that left in good order does: the mark of another
/// directory would speak of writes that this file never had.
///
/// # Errors
/// The file cannot be read, or the mark not written.
pub fn vouch(dir: &Path) -> Result<(), Unavailable> {
    let file = dir.join(open::FILE);
    let commits = open::commits(&read_only(&file)?).map_err(|error| fault::unavailable(&error, &file))?;
    let mut mark = Mark::open(dir)?;
    mark.acknowledged(commits);
    mark.leave(&file)?;
    mark::sync_directory(dir)
}

/// Whether a gateway has the directory locked now.
///
/// # Errors
/// The lock cannot be looked at.
pub fn in_use(dir: &Path) -> Result<bool, Unavailable> {
    let path = dir.join(open::LOCK);
    match File::open(&path) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(error)) => Err(fault::io(&error, &path)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(fault::io(&error, &path)),
    }
}

fn copy_all(
    source: &Connection,
    file: &Path,
    target: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Unavailable> {
    let from = |error: rusqlite::Error| fault::unavailable(&error, file);
    let to = |error: rusqlite::Error| fault::unavailable(&error, target);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
    drop(made.map_err(|error| fault::io(&error, target))?);
    let mut copy = Connection::open(target).map_err(to)?;
    // Held from its first read to the end: without it every write of somebody else would begin the copy anew.
    let snapshot = source.unchecked_transaction().map_err(from)?;
    snapshot.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(())).map_err(from)?;
    let backup = Backup::new(source, &mut copy).map_err(to)?;
    let mut tries = 0;
    loop {
        let step = backup.step(STEP).map_err(to)?;
        let pages = backup.progress();
        let all = u64::try_from(pages.pagecount).unwrap_or(0);
        progress(all.saturating_sub(u64::try_from(pages.remaining).unwrap_or(0)), all);
        match step {
            StepResult::Done => break,
            StepResult::More => tries = 0,
            _ if tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            _ => return Err(Unavailable::new(Cause::Locked, file, "")),
        }
    }
    drop(backup);
    drop(snapshot);
    // One file and nothing beside it.
    let mode: String =
        copy.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0)).map_err(to)?;
    if mode != "delete" {
        return Err(Unavailable::new(Cause::Io, target, "the copy keeps its write-ahead log"));
    }
    drop(copy);
    File::open(target).and_then(|copy| copy.sync_all()).map_err(|error| fault::io(&error, target))
}

/// Opens a file that nobody writes, without leaving anything beside it.
fn read_only(file: &Path) -> Result<Connection, Unavailable> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("{}?immutable=1", open::file_uri(file)?);
    Connection::open_with_flags(uri, flags).map_err(|error| fault::unavailable(&error, file))
}

fn sound(connection: &Connection, file: &Path) -> Result<(), Unavailable> {
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| fault::unavailable(&error, file))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(Unavailable::new(Cause::Corrupted, file, "integrity_check failed"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn rows(file: &Path) -> i64 {
        read_only(file).unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_copy_is_the_snapshot_of_its_beginning_while_somebody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let (file, target) = (dir.path().join("a.sqlite"), dir.path().join("copy"));
        let writer = Connection::open(&file).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        for _ in 0..3000 {
            writer.execute("INSERT INTO t VALUES (randomblob(4000))", []).unwrap();
        }
        let source = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut looks = 0;
        copy_all(&source, &file, &target, |done, all| {
            looks += 1;
            assert!(done <= all);
            writer.execute("INSERT INTO t VALUES (randomblob(4000))", []).unwrap();
        })
        .unwrap();
        assert!(looks > 2, "it was copied in one piece: {looks}");
        assert_eq!(rows(&target), 3000);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        let beside = |end: &str| dir.path().join(format!("copy{end}")).exists();
        assert!(!beside("-wal") && !beside("-shm") && !beside("-journal"));
        let again = copy_any(&file, &target).unwrap_err();
        assert_eq!(again.path, target, "a copy never replaces a file");
    }

    #[test]
    fn a_damaged_copy_is_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (file, target) = (dir.path().join("a.sqlite"), dir.path().join("copy"));
        let writer = Connection::open(&file).unwrap();
        writer.execute_batch("CREATE TABLE t (x UNIQUE)").unwrap();
        for at in 0..2000 {
            writer.execute("INSERT INTO t VALUES (?1)", [at]).unwrap();
        }
        drop(writer);
        let mut bytes = fs::read(&file).unwrap();
        let at = bytes.len() - 3000;
        bytes[at..at + 2000].fill(0xa5);
        fs::write(&file, bytes).unwrap();
        assert_eq!(copy_any(&file, &target).unwrap_err().cause, Cause::Corrupted);
        assert_eq!(check(&dir.path().join("none")).unwrap_err().cause, Cause::Missing);
    }
}
