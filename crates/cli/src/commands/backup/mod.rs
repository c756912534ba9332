//! `causeway backup` and `causeway restore`: a data directory as it was at one moment, and back.
//!
//! Refuses half a backup: it is made under another name, read through, synced, and then renamed. The database comes
//! first and what workers keep after it: a state that a head names never changes once it was reported, so whatever the
//! copy of the database names is in the copy of the workers' files; what came after it is surplus that nobody names.

mod files;
mod manifest;

use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use causeway_server::config::{Config, Overrides, StoreKind};
use causeway_store::sqlite::backup as database;

use self::files::sync_directory;
use self::manifest::Manifest;
use crate::commands::config::{Loaded, load};
use crate::exit::Exit;
use crate::terminal::escaped;

/// Options of `backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway backup --data data /backups/causeway-monday\n\n\
The gateway may go on: runs that are written meanwhile are in the backup as far as they were when it began. The backup is a \
directory, readable by you alone; it holds what users said, and what workers keep.")]
pub struct Args {
    /// The data directory [default: that of the settings]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// The settings that name it [default: causeway.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The backup; must not be there yet
    #[arg(value_name = "OUT")]
    out: PathBuf,
}

/// Options of `restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway restore /backups/causeway-monday --data data\n\n\
Every file is compared with what the backup says of it. Runs that were active when the backup began end as uncertain, or as \
interrupted by a restart, when a gateway is started on what was restored.")]
pub struct RestoreArgs {
    /// The backup
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// The data directory; made, or empty
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Backs up.
///
/// # Errors
/// No data directory of SQLite, a backup that is there already, or a disk that does not take it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let data = data_directory(args)?;
    if fs::symlink_metadata(&args.out).is_ok() {
        bail!("{} is there already; a backup replaces nothing", args.out.display());
    }
    let part = beside(&args.out)?;
    private(&part)?;
    let made = make(&data, &part);
    let (manifest, skipped) = match made {
        Ok(made) => made,
        Err(error) => {
            // Half a backup must not be taken for one.
            let _gone = fs::remove_dir_all(&part);
            return Err(error);
        }
    };
    fs::rename(&part, &args.out).with_context(|| format!("cannot name it {}", args.out.display()))?;
    sync_directory(parent(&args.out))?;
    for file in skipped {
        tracing::warn!(file = %file.display(), "not in the backup: no plain file, or gone meanwhile");
    }
    let held = manifest.contents;
    say(&format!(
        "{}: {} runs in {} conversations ({} of them active), {} files, {} bytes",
        args.out.display(),
        held.runs,
        held.conversations,
        held.open_runs,
        manifest.files.len(),
        manifest.files.iter().map(|file| file.bytes).sum::<u64>()
    ))?;
    Ok(Exit::Clean)
}

fn make(data: &Path, part: &Path) -> anyhow::Result<(Manifest, Vec<PathBuf>)> {
    let mut told = 0;
    let progress = |done: u64, all: u64| {
        let tenth = done.saturating_mul(10).checked_div(all).unwrap_or(0);
        if tenth > told {
            told = tenth;
            tracing::info!(pages = done, of = all, "copying the database");
        }
    };
    let contents = database::copy(data, &part.join(database::DATABASE), progress)?;
    let copied = files::copy(data, part)?;
    let mut files = vec![manifest::File::of(part, Path::new(database::DATABASE))?];
    for file in &copied.files {
        files.push(manifest::File::of(part, file)?);
    }
    let manifest = Manifest::new(contents.into(), files);
    manifest.write(part)?;
    files::sync_tree(part)?;
    Ok((manifest, copied.skipped))
}

/// Restores.
///
/// # Errors
/// A damaged backup, one of a newer version, or a directory that is in use or not empty.
pub fn restore(args: &RestoreArgs) -> anyhow::Result<Exit> {
    let manifest = Manifest::read(&args.from)?;
    let empty = is_empty(&args.data)?;
    manifest.check_files(&args.from)?;
    let part = beside(&args.data)?;
    private(&part)?;
    let put = put_back(&manifest, &args.from, &part);
    if let Err(error) = put {
        let _gone = fs::remove_dir_all(&part);
        return Err(error);
    }
    if empty {
        fs::remove_dir(&args.data).with_context(|| format!("cannot replace {}", args.data.display()))?;
    }
    fs::rename(&part, &args.data).with_context(|| format!("cannot name it {}", args.data.display()))?;
    sync_directory(parent(&args.data))?;
    let held = manifest.contents;
    say(&format!(
        "{}: {} runs in {} conversations, as of {}",
        args.data.display(),
        held.runs,
        held.conversations,
        manifest.created_at
    ))?;
    if held.open_runs > 0 {
        say(&format!("{} runs were active; they are ended when a gateway starts here", held.open_runs))?;
    }
    Ok(Exit::Clean)
}

fn put_back(manifest: &Manifest, from: &Path, part: &Path) -> anyhow::Result<()> {
    for file in &manifest.files {
        files::put(from, part, Path::new(&file.path))?;
    }
    let found = database::check(&part.join(database::DATABASE))?;
    if manifest::Contents::from(found) != manifest.contents {
        bail!("{}: the database does not hold what the backup says of it", from.display());
    }
    // What was copied once more is compared once more.
    manifest.check_files(part)?;
    database::vouch(part)?;
    files::sync_tree(part)
}

/// Whether the directory is there; what is there must be empty.
fn is_empty(dir: &Path) -> anyhow::Result<bool> {
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).with_context(|| format!("cannot look into {}", dir.display())),
    };
    if entries.next().is_none() {
        return Ok(true);
    }
    if database::in_use(dir).unwrap_or(false) {
        bail!("{} is in use by a gateway; stop it, and restore into a new directory", dir.display());
    }
    bail!("{} is not empty; move it away, or restore into a new directory", dir.display());
}

fn data_directory(args: &Args) -> anyhow::Result<PathBuf> {
    if let (Some(data), None) = (&args.data, &args.config) {
        return Ok(PathBuf::from(data));
    }
    let flags = Overrides { data: args.data.clone(), ..Overrides::default() };
    let (Loaded::File(config) | Loaded::Defaults(config)) = load(args.config.as_deref(), &flags)?;
    let Config { store, .. } = config;
    match store.kind {
        StoreKind::Sqlite => Ok(store.path),
        StoreKind::Memory => bail!("a store in memory has nothing to back up"),
        StoreKind::Postgres => {
            bail!("a PostgreSQL store is backed up with its own tools; see docs/shared-mode.md")
        }
    }
}

/// A name beside the real one, for what is not whole yet.
fn beside(path: &Path) -> anyhow::Result<PathBuf> {
    let name = path.file_name().with_context(|| format!("{} has no name", path.display()))?;
    let mut part = name.to_owned();
    part.push(format!(".part-{}", std::process::id()));
    Ok(path.with_file_name(part))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn private(dir: &Path) -> anyhow::Result<()> {
    DirBuilder::new().mode(0o700).create(dir).with_context(|| format!("cannot make {}", dir.display()))
}

fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", escaped(line))?;
    Ok(())
}
