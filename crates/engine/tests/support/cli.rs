//! The Claude Code CLI and a model that plays a script: found or installed once for the checkout.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The folder of the example.
pub fn example() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/claude"))
}

/// The CLI, or `None` where it cannot be had: then the test says `SKIPPED` and why.
pub fn program() -> Option<&'static str> {
    static MADE: OnceLock<Option<String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/claude");
        let done =
            Command::new("sh").arg(example().join("setup.sh")).arg(folder).output().expect("there is a sh");
        if !done.status.success() {
            skipped(&format!("no Claude Code CLI: {}", String::from_utf8_lossy(&done.stderr)));
            return None;
        }
        String::from_utf8_lossy(&done.stdout).lines().last().map(str::to_owned)
    });
    if made.is_none() {
        skipped("a test that needs the Claude Code CLI");
    }
    made.as_deref()
}

/// Says so past the test runner, which hides what passing tests print.
fn skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

/// A model that plays a script, for as long as it is kept.
pub struct Model {
    child: Child,
    pub address: String,
    log: PathBuf,
}

impl Model {
    pub fn new(dir: &Path, script: &serde_json::Value) -> Self {
        let (file, log) = (dir.join("script.json"), dir.join("requests.jsonl"));
        std::fs::write(&file, script.to_string()).unwrap();
        let mut child = Command::new("python3")
            .arg(example().join("fake_model.py"))
            .arg(&file)
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need python3");
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned(), log }
    }

    /// What the model was shown last: who said what.
    pub fn last_request(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap();
        log.lines().last().expect("the model was asked").to_owned()
    }

    /// How often it was asked.
    pub fn requests(&self) -> usize {
        std::fs::read_to_string(&self.log).map_or(0, |log| log.lines().count())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
