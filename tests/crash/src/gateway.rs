//! A gateway as a child process: started with what is armed in it, and seen to die.
//!
//! Refuses to wait for ever: every wait has an end, and what does not end by itself is killed when it is dropped.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use causeway_store::failpoint::When;

use crate::http::Client;
use crate::plan;

/// How long a gateway may take to start or to stop on a machine that has other work.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A directory with settings, data, log and trace, and the programs that are run on it.
#[derive(Clone, Debug)]
pub struct Place {
    pub dir: PathBuf,
    /// `causeway`, built with the failpoints.
    pub causeway: PathBuf,
    /// `crash-archive`, built with the failpoints.
    pub archive: PathBuf,
    /// `crash-check`.
    pub check: PathBuf,
    /// Whether tools of the agents note that they ran.
    pub notes: bool,
    /// What else a gateway finds in its environment.
    pub environment: Vec<(String, String)>,
}

impl Place {
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn notes_file(&self) -> PathBuf {
        self.dir.join("notes")
    }

    pub fn history(&self) -> PathBuf {
        self.dir.join("history.jsonl")
    }

    pub fn trace(&self) -> PathBuf {
        self.dir.join("trace")
    }

    fn log(&self) -> std::io::Result<File> {
        File::options().create(true).append(true).open(self.dir.join("gateway.log"))
    }

    fn command(&self, program: &Path, armed: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CAUSEWAY_") {
                command.env_remove(name);
            }
        }
        if !armed.is_empty() {
            command.env("CAUSEWAY_FAILPOINT", armed);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("CAUSEWAY_FAILPOINT_TRACE", self.trace()).stdin(Stdio::null());
        command
    }

    /// Packs what has ended, as a gateway that is not running cannot. Returns whether it died at that.
    ///
    /// # Errors
    /// It neither did it nor died.
    pub fn archive(&self, armed: &str) -> anyhow::Result<bool> {
        let mut command = self.command(&self.archive, armed);
        command.arg(self.data()).stdout(Stdio::null()).stderr(self.log()?);
        let mut child = Running(command.spawn()?);
        let status = child.wait(PATIENCE)?.context("crash-archive does not end")?;
        ensure!(status.success() || status.code().is_none(), "crash-archive ended with {status}");
        Ok(status.code().is_none())
    }

    /// The processes that carry the mark of this place's workers.
    pub fn workers(&self) -> Vec<u32> {
        let mark = format!("CAUSEWAY_WORKERS={}", self.data().join("workers").display());
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        pids.filter(marked).collect()
    }
}

/// A child that is killed when it is dropped.
#[derive(Debug)]
struct Running(Child);

impl Running {
    /// Its end, or `None` if that takes longer.
    fn wait(&mut self, patience: Duration) -> anyhow::Result<Option<std::process::ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A gateway that serves.
#[derive(Debug)]
pub struct Gateway {
    child: Running,
    pub client: Client,
}

/// How a start went.
#[derive(Debug)]
pub enum Start {
    Serves(Gateway),
    /// It was killed before it served.
    Died,
    /// It ended by itself, because the store failed it as it was told to.
    Refused,
}

/// Whether the store is told to fail now and then: recovery may come to that, and says so.
fn fails(armed: &str) -> bool {
    let faults = plan::points().filter(|point| point.when == When::Fault);
    faults.into_iter().any(|fault| armed.contains(fault.name))
}

/// How a gateway ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// By SIGKILL: at a failpoint, or from here.
    Killed,
    /// In good order.
    Stopped,
}

impl Gateway {
    /// Starts a gateway with these failpoints armed.
    ///
    /// # Errors
    /// It ended otherwise than by a kill, or said nothing.
    pub fn start(place: &Place, armed: &str) -> anyhow::Result<Start> {
        let mut command = place.command(&place.causeway, armed);
        command.args(["--log", "json", "serve", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(place.dir.join("causeway.toml")).arg("--data").arg(place.data());
        command.stdout(Stdio::piped()).stderr(place.log()?);
        let mut child = Running(command.spawn().with_context(|| place.causeway.display().to_string())?);
        let stdout = child.0.stdout.take().context("no stdout")?;
        let (send, receive) = mpsc::channel();
        // Ends with the pipe, that is with the child.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(line) => {
                let url =
                    line.strip_prefix("listening on ").with_context(|| format!("unexpected {line:?}"))?;
                Ok(Start::Serves(Self { child, client: Client::from_url(url) }))
            }
            Err(_) => match child.wait(PATIENCE)? {
                Some(status) if status.code().is_none() => Ok(Start::Died),
                Some(status) if status.code() == Some(2) && fails(armed) => Ok(Start::Refused),
                Some(status) => {
                    bail!("the gateway did not start: {status}; see {}/gateway.log", place.dir.display())
                }
                None => bail!("the gateway neither started nor ended"),
            },
        }
    }

    /// Whether it is gone, after at most `patience`.
    ///
    /// # Errors
    /// It ended otherwise than by a kill.
    pub fn gone(&mut self, patience: Duration) -> anyhow::Result<bool> {
        match self.child.wait(patience)? {
            None => Ok(false),
            Some(status) if status.code().is_none() => Ok(true),
            Some(status) => bail!("the gateway ended by itself: {status}"),
        }
    }

    /// SIGKILL, from here.
    ///
    /// # Errors
    /// It does not die.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.0.kill()?;
        self.child.wait(PATIENCE)?.context("a killed gateway does not die")?;
        Ok(())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.child.0.id().to_string();
        ensure!(Command::new("kill").args([&format!("-{name}"), &pid]).status()?.success(), "no SIG{name}");
        Ok(())
    }

    /// SIGTERM, and how it ended.
    ///
    /// # Errors
    /// It does not end, or with an error.
    pub fn stop(mut self) -> anyhow::Result<End> {
        self.signal("TERM")?;
        let status = self.child.wait(PATIENCE)?.context("the gateway does not stop")?;
        match status.code() {
            None => Ok(End::Killed),
            Some(0) => Ok(End::Stopped),
            Some(_) => bail!("the gateway stopped with {status}"),
        }
    }
}
