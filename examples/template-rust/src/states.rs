//! What conversations remember, by head: a JSON file for each state, which is never written again.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// The states of a worker.
pub struct States {
    directory: Option<PathBuf>,
    numbers: AtomicU64,
}

impl States {
    /// Opens a directory, making it if need be.
    pub fn open(directory: Option<PathBuf>) -> io::Result<Self> {
        if let Some(directory) = &directory {
            std::fs::create_dir_all(directory)?;
        }
        Ok(Self { directory, numbers: AtomicU64::new(0) })
    }

    /// Whether a run can start from another.
    pub fn restores(&self) -> bool {
        self.directory.is_some()
    }

    /// The state of a head that was reported.
    pub fn load(&self, head: &str) -> Option<Map<String, Value>> {
        // Heads are file names, so nothing that could be a path is looked up.
        if !head.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') || head.len() > 100 {
            return None;
        }
        let text = std::fs::read_to_string(self.directory.as_ref()?.join(head)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps a state under a new head: whole or not at all.
    pub fn save(&self, state: &Map<String, Value>) -> io::Result<String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let head = format!("s-{}-{}-{number}", since.as_nanos(), std::process::id());
        if let Some(directory) = &self.directory {
            let new = directory.join(format!("{head}.new"));
            std::fs::write(&new, Value::Object(state.clone()).to_string())?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(new, directory.join(&head))?;
        }
        Ok(head)
    }
}
