//! Opening a data directory: made if missing, locked against a second gateway, checked, migrated.
//!
//! Refuses to repair anything.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use rustix::fs::Access;

use crate::error::{Cause, Unavailable};
use crate::failpoint::{self, hit};
use crate::sqlite::mark::{self, Mark, log_of};
use crate::sqlite::{fault, schema};

/// The file in the data directory.
pub(crate) const FILE: &str = "causeway.db";
/// The file whose lock says that a gateway uses the directory.
pub(crate) const LOCK: &str = "causeway.lock";
/// Larger files are not read through at every start.
const QUICK_CHECK_BYTES: u64 = 256 * 1024 * 1024;
/// How long to wait for another program's lock.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Makes the directory, readable by its owner only, if it is missing, and takes its lock.
///
/// # Errors
/// `InUse`, `ReadOnly`, `DiskFull`, `Io`.
pub(crate) fn lock(dir: &Path) -> Result<File, Unavailable> {
    // Made, and then made to last: the first new directory is an entry of the one above it, and so on down.
    let missing =
        dir.ancestors().take_while(|place| !place.as_os_str().is_empty() && !place.exists()).count();
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| fault::io(&error, dir))?;
    for place in dir.ancestors().skip(1).take(missing) {
        mark::sync_directory(if place.as_os_str().is_empty() { Path::new(".") } else { place })?;
    }
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| fault::io(&error, dir))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who holds it is a courtesy; the answer does not depend on it.
            let _ = (&file).take(20).read_to_string(&mut holder);
            let holder: String = holder.chars().filter(char::is_ascii_digit).collect();
            let detail = if holder.is_empty() { holder } else { format!("process {holder}") };
            return Err(Unavailable::new(Cause::InUse, dir, detail));
        }
        Err(TryLockError::Error(error)) => return Err(fault::io(&error, &path)),
    }
    file.set_len(0)
        .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
        .map_err(|error| fault::io(&error, dir))?;
    Ok(file)
}

/// How the writer's connection is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The largest file, in pages.
    pub(crate) max_pages: Option<u32>,
    /// Whether every commit is synced: always, but for the control of a test.
    pub(crate) sync: bool,
    /// The length of the log from which on it is copied into the file.
    pub(crate) checkpoint_pages: i32,
}

/// Opens the file for the writer, checks it, and brings it to the newest version.
///
/// # Errors
/// `Corrupted`, `Altered`, `NewerSchema`, `ReadOnly`, `DiskFull`, `Io`.
pub(crate) fn writer(dir: &Path, tuning: Tuning, mark: &mut Mark) -> Result<Connection, Unavailable> {
    let path = dir.join(FILE);
    if fs::metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        // A new file would hide that the old one is gone.
        mark.check(&path, 0)?;
    }
    // SQLite would make it readable for everybody; its companions take over the mode of the file.
    // A file that is there is not opened here: closing it would end the locks that SQLite has on it in this process.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(fault::io(&error, &path)),
        Ok(_) | Err(_) => {}
    }
    mark::sync_directory(dir)?;
    a_file(&path)?;
    let untouched = mark.vouches_for(&path)?;
    let sql = |error: rusqlite::Error| fault::unavailable(&error, &path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(sql)?;
    connection.busy_timeout(BUSY).map_err(sql)?;
    // Else every new value of a parameter has its statement planned anew, which takes longer than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sql)?;
    schema::version(&connection, &path, schema::MIGRATIONS)?;
    match untouched {
        Some(true) => {}
        Some(false) => {
            // Damage that can be named is called that.
            quick_check(&connection, &path)?;
            let detail = "its checksum is not the one that it was left with";
            return Err(Unavailable::new(Cause::Altered, path, detail));
        }
        None => quick_check(&connection, &path)?,
    }
    hit(failpoint::CHECKED);
    mark.begin()?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sql)?;
    if mode != "wal" {
        return Err(Unavailable::new(Cause::Io, path, "the file system does not allow a write-ahead log"));
    }
    connection.pragma_update(None, "synchronous", if tuning.sync { "FULL" } else { "OFF" }).map_err(sql)?;
    // What was deleted is not to be found in the file any more.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).map_err(sql)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(sql)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024).map_err(sql)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(sql)?;
    connection.pragma_update(None, "cache_size", -16 * 1024).map_err(sql)?;
    if let Some(pages) = tuning.max_pages {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).map_err(sql)?;
    }
    connection.set_prepared_statement_cache_capacity(96);
    schema::migrate(&mut connection, &path, schema::MIGRATIONS)?;
    mark.check(&path, commits(&connection).map_err(sql)?)?;
    Ok(connection)
}

/// Whether the file, opened for reading, has every write that the mark speaks of.
///
/// # Errors
/// As [`reader`], and `Altered`.
pub(crate) fn compare(dir: &Path, mark: &Mark) -> Result<(), Unavailable> {
    let path = dir.join(FILE);
    let connection = reader(dir)?;
    let commits = commits(&connection).map_err(|error| fault::unavailable(&error, &path))?;
    mark.check(&path, commits)
}

/// The number of the last write in the file.
pub(crate) fn commits(connection: &Connection) -> rusqlite::Result<u64> {
    let found = connection.query_row("SELECT value FROM meta WHERE name = 'commits'", [], |row| row.get(0));
    Ok(found.optional()?.and_then(|commits: i64| u64::try_from(commits).ok()).unwrap_or(0))
}

/// Which file is at a path: the same name may come to lead to another one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of the database in `dir` as it is now.
    ///
    /// # Errors
    /// `Missing`, `IsADirectory`, `Io`.
    pub(crate) fn of(dir: &Path) -> Result<Self, Unavailable> {
        let meta = a_file(&dir.join(FILE))?;
        Ok(Self { device: meta.dev(), inode: meta.ino() })
    }

    /// Whether `dir` still leads to this file. What is written to any other is lost with the next restart.
    ///
    /// # Errors
    /// `Replaced`, `Io`.
    pub(crate) fn check(self, dir: &Path) -> Result<(), Unavailable> {
        let replaced = |detail| Err(Unavailable::new(Cause::Replaced, dir.join(FILE), detail));
        match Self::of(dir) {
            Ok(found) if found == self => Ok(()),
            Ok(_) => replaced("another file is there"),
            Err(trouble) => match trouble.cause {
                Cause::Missing | Cause::NotADirectory | Cause::IsADirectory => {
                    replaced("no such file is there")
                }
                _ => Err(trouble),
            },
        }
    }
}

fn a_file(path: &Path) -> Result<fs::Metadata, Unavailable> {
    let meta = fs::metadata(path).map_err(|error| fault::io(&error, path))?;
    if meta.is_dir() { Err(Unavailable::new(Cause::IsADirectory, path, "")) } else { Ok(meta) }
}

/// Opens the file for reading only; the directory may be one that cannot be written, or that a gateway uses.
///
/// # Errors
/// `Missing`, `NotADirectory`, `IsADirectory`, `Corrupted`, `NewerSchema`, `ReadOnly`, `Io`.
pub(crate) fn reader(dir: &Path) -> Result<Connection, Unavailable> {
    let path = dir.join(FILE);
    a_file(&path)?;
    let sql = |error: rusqlite::Error| fault::unavailable(&error, &path);
    let open = |uri: String| -> Result<_, Unavailable> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri, flags).map_err(sql)?;
        connection.busy_timeout(BUSY).map_err(sql)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sql)?;
        // The first look at the file: whatever keeps it from being read shows here.
        let found = schema::version(&connection, &path, schema::MIGRATIONS)?;
        connection.pragma_update(None, "cache_size", -4 * 1024).map_err(sql)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok((connection, found))
    };
    let uri = file_uri(&path)?;
    let (connection, found) = match open(format!("{uri}?mode=ro")) {
        // A directory that cannot be written has no room for the shared memory of the write-ahead log. Where neither
        // is left, nobody has the file open, and it alone is the whole truth.
        Err(trouble) if matches!(trouble.cause, Cause::Io | Cause::ReadOnly) && !may_write(dir) => {
            if has_log(&path) {
                let detail = "a gateway left a write-ahead log there, which takes write permission to read";
                return Err(Unavailable::new(Cause::ReadOnly, path, detail));
            }
            if path.with_extension("db-shm").exists() {
                return Err(trouble);
            }
            open(format!("{uri}?immutable=1"))?
        }
        opened => opened?,
    };
    match found {
        0 => Err(Unavailable::new(Cause::Missing, path, "the file is empty")),
        found => {
            schema::read_as_newest(&connection, found).map_err(|error| fault::unavailable(&error, &path))?;
            Ok(connection)
        }
    }
}

/// Bytes that an unprivileged user may still write to this file system.
///
/// # Errors
/// `Missing`, `Io`.
pub(crate) fn free_bytes(dir: &Path) -> Result<u64, Unavailable> {
    let space = rustix::fs::statvfs(dir)
        .map_err(|error| fault::io(&std::io::Error::from_raw_os_error(error.raw_os_error()), dir))?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Bytes of the database and its write-ahead log.
pub(crate) fn used_bytes(dir: &Path) -> u64 {
    let files = [dir.join(FILE), log_of(&dir.join(FILE))];
    files.iter().filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).sum()
}

fn quick_check(connection: &Connection, path: &Path) -> Result<(), Unavailable> {
    if fs::metadata(path).map_or(0, |meta| meta.len()) > QUICK_CHECK_BYTES {
        return Ok(());
    }
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| fault::unavailable(&error, path))?;
    if verdict == "ok" { Ok(()) } else { Err(Unavailable::new(Cause::Corrupted, path, "quick_check failed")) }
}

fn may_write(dir: &Path) -> bool {
    rustix::fs::access(dir, Access::WRITE_OK).is_ok()
}

fn has_log(path: &Path) -> bool {
    fs::metadata(log_of(path)).is_ok_and(|meta| meta.len() > 0)
}

/// A path as SQLite's URI takes it: everything but the plain characters is escaped.
pub(crate) fn file_uri(path: &Path) -> Result<String, Unavailable> {
    let absolute = std::path::absolute(path).map_err(|error| fault::io(&error, path))?;
    let text = absolute.to_str().ok_or_else(|| Unavailable::new(Cause::Io, path, "the path is not UTF-8"))?;
    let mut uri = String::from("file:");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(uri)
}
