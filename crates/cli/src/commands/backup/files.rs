//! The files beside the database: what workers keep, and whatever else stands in the data directory.
//!
//! Refuses to follow links, and to copy a SQLite database as bytes: its last writes may stand in the log beside it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_store::sqlite::backup as database;

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Where workers are written down while they run: of no use to anybody else.
const RECORDS: [&str; 2] = ["pid", "new"];

/// What was copied.
#[derive(Debug, Default)]
pub struct Copied {
    /// Relative to the directory.
    pub files: Vec<PathBuf>,
    /// The same of what was left out.
    pub skipped: Vec<PathBuf>,
}

/// Copies what stands in a data directory beside its own database.
///
/// # Errors
/// Something cannot be read, is a damaged database, or cannot be written.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<Copied> {
    let mut copied = Copied::default();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(from.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| place(from, &folder)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.with_context(|| place(from, &folder))?.file_name());
        }
        names.sort();
        for name in names {
            let file = folder.join(&name);
            let text = name.to_string_lossy();
            let top = folder.as_os_str().is_empty();
            // The copies that migrations made are older databases: also not part of what is.
            if top && (text.starts_with(database::DATABASE) || database::OWN.contains(&&*text)) {
                continue;
            }
            let Ok(meta) = fs::symlink_metadata(from.join(&file)) else { continue };
            if meta.is_dir() {
                folders.push(file);
            } else if !meta.is_file() {
                copied.skipped.push(file);
            } else if !is_record(&file) && !is_companion(from, &file) {
                match copy_file(from, to, &file) {
                    Ok(()) => copied.files.push(file),
                    // A worker's file may go at any time.
                    Err(_) if !from.join(&file).exists() => copied.skipped.push(file),
                    Err(error) => return Err(error),
                }
            }
        }
    }
    copied.files.sort();
    Ok(copied)
}

fn copy_file(from: &Path, to: &Path, file: &Path) -> anyhow::Result<()> {
    let (source, target) = (from.join(file), to.join(file));
    make_folders(to, file)?;
    if is_database(&source)? {
        database::copy_any(&source, &target)?;
        return Ok(());
    }
    plain(&source, &target)
}

/// Puts one file of a backup into another directory.
///
/// # Errors
/// It cannot be read, or not be written.
pub fn put(from: &Path, to: &Path, file: &Path) -> anyhow::Result<()> {
    make_folders(to, file)?;
    plain(&from.join(file), &to.join(file))
}

fn plain(source: &Path, target: &Path) -> anyhow::Result<()> {
    let told = || format!("cannot copy {} to {}", source.display(), target.display());
    let mut reader = File::open(source).with_context(told)?;
    let mode = if is_executable(&reader)? { 0o700 } else { 0o600 };
    let mut writer =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(target).with_context(told)?;
    std::io::copy(&mut reader, &mut writer).with_context(told)?;
    writer.sync_all().with_context(told)
}

fn is_executable(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode() & 0o100 != 0)
}

fn make_folders(to: &Path, file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let folder = to.join(folder);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))
}

fn is_database(file: &Path) -> anyhow::Result<bool> {
    let mut begin = Vec::with_capacity(MAGIC.len());
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    opened.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == MAGIC)
}

fn is_record(file: &Path) -> bool {
    let in_workers = file.parent() == Some(Path::new("workers"));
    in_workers && file.extension().is_some_and(|end| RECORDS.iter().any(|record| end == *record))
}

/// Whether a file is one that SQLite keeps beside a database.
fn is_companion(from: &Path, file: &Path) -> bool {
    let text = file.to_string_lossy();
    COMPANIONS.iter().filter_map(|end| text.strip_suffix(end)).any(|database| {
        let beside = from.join(database);
        beside.is_file() && is_database(&beside).unwrap_or(false)
    })
}

fn place(from: &Path, folder: &Path) -> String {
    format!("cannot look into {}", from.join(folder).display())
}

/// Makes the names in a directory durable.
///
/// # Errors
/// The disk does not take it.
pub fn sync_directory(dir: &Path) -> anyhow::Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if error.kind() != ErrorKind::InvalidInput => {
            Err(error).with_context(|| format!("cannot sync {}", dir.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The same of a directory and all below it.
///
/// # Errors
/// As [`sync_directory`].
pub fn sync_tree(dir: &Path) -> anyhow::Result<()> {
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot look into {}", folder.display()))?
        {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
        sync_directory(&folder)?;
    }
    Ok(())
}
