//! A gateway under test: the binary itself, on a free port, with its log in a file and a bound on every wait.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::http::Client;

/// How long a gateway may take to start or to stop.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running gateway; killed when dropped.
pub struct Gateway {
    child: Child,
    pub url: String,
    pub client: Client,
    log: PathBuf,
}

/// A recorded stream of the test data.
pub fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/recordings/deepagents")
        .join(format!("{name}.jsonl"))
}

/// Settings text with one agent for each `(agent, recording, pace, more settings)`.
pub fn recorded_agents(agents: &[(&str, &str, &str, &str)]) -> String {
    let mut text = String::new();
    for (agent, name, pace, more) in agents {
        write!(
            text,
            "[agents.{agent}]\nharness = \"deepagents\"\n{more}\n[agents.{agent}.driver.recording]\nfile = {:?}\npace = \"{pace}\"\n",
            recording(name).to_str().expect("a plain path"),
        )
        .expect("a string");
    }
    text
}

/// The `causeway` command with nothing of this environment's settings.
pub fn causeway() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CAUSEWAY_") {
            command.env_remove(name);
        }
    }
    command
}

impl Gateway {
    /// Starts a gateway on `dir`, which holds its settings, data and log.
    pub fn start(dir: &Path, settings: &str) -> Self {
        match Self::try_start(dir, settings, &[]) {
            Ok(gateway) => gateway,
            Err((status, log)) => panic!("the gateway did not start ({status}):\n{log}"),
        }
    }

    /// The same with more arguments; where it does not start, its exit status and its log.
    pub fn try_start(dir: &Path, settings: &str, more: &[&str]) -> Result<Self, (ExitStatus, String)> {
        let config = dir.join("causeway.toml");
        std::fs::write(&config, settings).expect("settings");
        let log = dir.join("gateway.log");
        let stderr = File::options().create(true).append(true).open(&log).expect("a log");
        let from = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        let mut command = causeway();
        command.args(["--log", "json", "serve", "--config"]).arg(&config);
        if !more.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !more.contains(&"--data") {
            command.arg("--data").arg(dir.join("data"));
        }
        command.args(more).stdout(Stdio::piped()).stderr(stderr).stdin(Stdio::null()).process_group(0);
        let mut child = command.spawn().expect("the binary");
        let stdout = child.stdout.take().expect("a pipe");
        let (send, receive) = mpsc::channel();
        // Ends with the pipe, that is with the child.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(line) => {
                let url = line
                    .strip_prefix("listening on ")
                    .unwrap_or_else(|| panic!("unexpected {line:?}"))
                    .to_owned();
                Ok(Self { child, client: Client::from_url(&url), url, log })
            }
            Err(_) => {
                let status = wait(&mut child).unwrap_or_else(|| {
                    let _gone = child.kill();
                    panic!("the gateway neither started nor ended")
                });
                let text = std::fs::read(&log).unwrap_or_default();
                let text = text.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
                Err((status, String::from_utf8_lossy(text).into_owned()))
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has logged so far, earlier gateways of the same directory included.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// SIGKILL: no chance to write anything.
    pub fn kill(mut self) {
        self.child.kill().expect("a kill");
        wait(&mut self.child).expect("a killed process ends");
    }

    /// The exit status of one that was told to stop before.
    pub fn stop_again(mut self) -> ExitStatus {
        wait(&mut self.child).expect("the gateway ends in time")
    }

    /// SIGTERM, and the exit status.
    pub fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        wait(&mut self.child).expect("the gateway ends in time")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The exit status, or `None` when it takes too long.
pub fn wait(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Asks again until `done` says yes, within a bound.
pub fn eventually<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(Instant::now() < until, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
