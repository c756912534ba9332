//! The Python environment of the example worker, made once for the checkout.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the example worker.
pub fn example() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/deepagents"))
}

/// Its interpreter, or `None` where it cannot be had: then the test says `SKIPPED` and why.
pub fn interpreter() -> Option<&'static str> {
    static MADE: OnceLock<Option<String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/deepagents");
        let setup = example().join("setup.sh");
        let done = Command::new("sh").arg(setup).arg(folder).output().expect("there is a sh");
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            skipped(&format!("no environment for the deepagents worker: {why}"));
            return None;
        }
        String::from_utf8_lossy(&done.stdout).lines().last().map(str::to_owned)
    });
    if made.is_none() {
        skipped("a test that needs the deepagents worker");
    }
    made.as_deref()
}

/// Says so past the test runner, which hides what passing tests print.
pub fn skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}
