//! What a backup says of itself: what it holds, and the checksum of every file, itself included.
//!
//! Refuses a manifest that was changed, names that lead out of the backup, and versions that it does not know.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use causeway_contract::timestamp::Timestamp;
use causeway_store::sqlite::backup as database;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Its file.
const FILE: &str = "manifest.json";
/// The version of this form.
const VERSION: u32 = 1;
/// No manifest is larger.
const MAX: u64 = 256 << 20;

/// What a backup says of itself.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    causeway_backup: u32,
    /// When it was made.
    pub created_at: String,
    /// What made it.
    version: String,
    commit: String,
    /// What its database holds.
    pub contents: Contents,
    /// Its files.
    pub files: Vec<File>,
}

/// What a database holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// The version of its tables.
    pub schema: u64,
    /// The number of its last write.
    pub commits: u64,
    /// Conversations.
    pub conversations: u64,
    /// Runs.
    pub runs: u64,
    /// Runs that were active.
    pub open_runs: u64,
}

impl From<database::Contents> for Contents {
    fn from(found: database::Contents) -> Self {
        let database::Contents { schema, commits, conversations, runs, open_runs } = found;
        Self { schema, commits, conversations, runs, open_runs }
    }
}

/// A file of a backup.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where it is, from the backup on.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    sha256: String,
}

/// The form on the disk: the manifest as text, and its checksum.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Sealed<'a> {
    #[serde(borrow)]
    manifest: &'a RawValue,
    sha256: String,
}

impl File {
    /// A file as it is.
    ///
    /// # Errors
    /// It cannot be read, or its name is not UTF-8.
    pub fn of(dir: &Path, file: &Path) -> anyhow::Result<Self> {
        let path = file.to_str().with_context(|| format!("the name {} is not UTF-8", file.display()))?;
        let (bytes, sha256) = sum(&dir.join(file))?;
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }
}

impl Manifest {
    /// A manifest of now.
    pub fn new(contents: Contents, files: Vec<File>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_unix(i64::try_from(since.as_secs()).unwrap_or(0), 0);
        Self {
            causeway_backup: VERSION,
            created_at: now.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("CAUSEWAY_COMMIT").to_owned(),
            contents,
            files,
        }
    }

    /// Writes it into the backup, last of all.
    ///
    /// # Errors
    /// The disk does not take it.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let manifest = serde_json::value::to_raw_value(self)?;
        let sha256 = hex(&Sha256::digest(manifest.get().as_bytes()));
        let text = serde_json::to_string(&Sealed { manifest: &manifest, sha256 })?;
        let path = dir.join(FILE);
        let told = || format!("cannot write {}", path.display());
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).with_context(told)?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).with_context(told)?;
        file.sync_all().with_context(told)
    }

    /// Reads the one of a backup.
    ///
    /// # Errors
    /// There is none, it was changed, or it is of another version.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(FILE);
        let told = || format!("{} is no backup, or not a whole one", dir.display());
        let length = fs::metadata(&path).with_context(told)?.len();
        if length > MAX {
            bail!("{}: too large for a manifest", path.display());
        }
        let text = fs::read_to_string(&path).with_context(told)?;
        let sealed: Sealed<'_> = serde_json::from_str(&text).with_context(told)?;
        if hex(&Sha256::digest(sealed.manifest.get().as_bytes())) != sealed.sha256 {
            bail!("{}: damaged: its checksum is another", path.display());
        }
        let version: Version = serde_json::from_str(sealed.manifest.get()).with_context(told)?;
        if version.causeway_backup != VERSION {
            bail!("{}: made by another version of causeway; restore it with that", dir.display());
        }
        let manifest: Self = serde_json::from_str(sealed.manifest.get()).with_context(told)?;
        let database = manifest.files.iter().any(|file| file.path == database::DATABASE);
        let inside = |file: &File| {
            let mut parts = Path::new(&file.path).components();
            !file.path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        if !database || !manifest.files.iter().all(inside) {
            bail!("{}: it names files that no backup holds", path.display());
        }
        Ok(manifest)
    }

    /// Compares every file of `dir` with what is said of it.
    ///
    /// # Errors
    /// One is missing or was changed.
    pub fn check_files(&self, dir: &Path) -> anyhow::Result<()> {
        for file in &self.files {
            let path = dir.join(&file.path);
            let found = sum(&path)?;
            if found != (file.bytes, file.sha256.clone()) {
                bail!("{}: damaged: it is not the file that was backed up", path.display());
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Version {
    causeway_backup: u32,
}

fn sum(path: &Path) -> anyhow::Result<(u64, String)> {
    let told = || format!("cannot read {}", path.display());
    let mut file = fs::File::open(path).with_context(told)?;
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 256 << 10]);
    loop {
        let count = file.read(&mut buffer).with_context(told)?;
        if count == 0 {
            return Ok((bytes, hex(&digest.finalize())));
        }
        digest.update(buffer.get(..count).unwrap_or_default());
        bytes += count as u64;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
