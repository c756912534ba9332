//! A program of this machine as a tool: arguments in on stdin, what it says out, its process group ended for sure.
//!
//! Refuses a shell: the words of the command are given to the system as they stand. Nothing of the gateway's environment gets
//! in but `PATH`, `HOME` and `LANG`, and what it writes to stderr goes nowhere.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::invoke::{Call, Failed, Invoker, Returned, no_text, timed_out, too_much};
use super::{FAILED, UNAVAILABLE};
use crate::process::{Record, clean_command, file_name, kill_group, make_dir, workers_dir};

/// A program and what it gets besides the arguments.
#[derive(Clone, Eq, PartialEq)]
pub struct Config {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What the environment holds besides `PATH`, `HOME` and `LANG`; may hold secrets.
    pub env: BTreeMap<String, String>,
}

/// Names of variables only: values may be secrets.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("program", &self.argv.first())
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// Runs a program for each call.
#[derive(Debug)]
pub struct Command {
    config: Config,
    agent_id: String,
    data_dir: PathBuf,
}

/// How long a killed program may take to be gone, and what it said to be read.
const DYING: Duration = Duration::from_secs(5);
/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

impl Command {
    /// A tool of an agent. Starts nothing yet.
    ///
    /// # Errors
    /// A command that cannot be right.
    pub fn new(config: Config, agent_id: &str, data_dir: &Path) -> Result<Self, &'static str> {
        if config.argv.first().is_none_or(String::is_empty) {
            return Err("the command is empty");
        }
        let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf());
        Ok(Self { config, agent_id: agent_id.to_owned(), data_dir })
    }

    async fn start(&self, call: &Call) -> io::Result<Program> {
        let mut words = self.config.argv.iter();
        let program = words.next().map_or("", String::as_str);
        let mut command = clean_command(program, words, &self.config.env, &self.data_dir);
        command.env("CAUSEWAY_RUN_ID", &call.run_id);
        command.env("CAUSEWAY_CALL_ID", &call.call_id);
        command.env("CAUSEWAY_TOOL", &call.tool);
        command.env("CAUSEWAY_IDEMPOTENCY_KEY", call.idempotency_key());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0).kill_on_drop(true);
        let dir = workers_dir(&self.data_dir);
        make_dir(&dir)?;
        let mut child = command.spawn()?;
        let missing = || io::Error::other("it has no pipes");
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(missing)?;
        let stdin = child.stdin.take().ok_or_else(missing);
        let stdout = child.stdout.take().ok_or_else(missing);
        let mut program = Program { child, group: Some(pid), record: None, pipes: None };
        program.pipes = Some((stdin?, stdout?));
        let name = file_name(&format!("{}.tool", self.agent_id));
        // Before it gets its arguments, so that the next gateway finds it if this one dies.
        let written = tokio::task::spawn_blocking(move || Record::write(&dir, &name, pid)).await;
        program.record = Some(written.unwrap_or_else(|panic| Err(io::Error::other(panic)))?);
        Ok(program)
    }
}

#[async_trait]
impl Invoker for Command {
    async fn invoke(&self, call: &Call) -> Returned {
        let mut program = match self.start(call).await {
            Ok(program) => program,
            Err(error) => {
                let failed = Failed::new(UNAVAILABLE, "The tool could not be started.");
                return failed.because(error.to_string()).into();
            }
        };
        let said = timeout(call.timeout, program.talk(&call.arguments, call.max_output)).await;
        let status = program.end().await;
        let said = match said {
            Err(_elapsed) => return timed_out(call.timeout).into(),
            Ok(Err(failed)) => return failed.into(),
            Ok(Ok(said)) => said,
        };
        let text = String::from_utf8(said);
        match status {
            Some(status) if status.success() => match text {
                Ok(text) => Returned::Said(text),
                Err(_) => no_text().into(),
            },
            ended => {
                let message = match ended.and_then(|status| status.code()) {
                    Some(code) => format!("The tool ended with exit status {code}."),
                    None => "The tool was ended by a signal.".to_owned(),
                };
                Failed { output: text.ok(), ..Failed::new(FAILED, message) }.into()
            }
        }
    }
}

/// A program that runs. Dropping it kills its group.
struct Program {
    child: Child,
    /// The number of its process group; `None` once the group was killed and the leader reaped.
    group: Option<i32>,
    record: Option<Record>,
    pipes: Option<(ChildStdin, ChildStdout)>,
}

impl Program {
    /// Gives it the arguments and hears it out. Returns when it has left; children may still run.
    async fn talk(&mut self, arguments: &str, max: usize) -> Result<Vec<u8>, Failed> {
        let Some((mut stdin, mut stdout)) = self.pipes.take() else { return Ok(Vec::new()) };
        let leader = self.group.and_then(Pid::from_raw);
        // Looked at without being reaped: until then its group's number is its own.
        let gone = tokio::task::spawn_blocking(move || {
            leader.map(|pid| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT))
        });
        let write = async {
            let _ = stdin.write_all(arguments.as_bytes()).await; // who does not want them need not read them
            drop(stdin);
        };
        let mut said = Vec::new();
        let group = self.group;
        {
            let listen = async {
                let mut gone = std::pin::pin!(gone);
                tokio::select! {
                    heard = hear(&mut stdout, &mut said, max) => {
                        heard?;
                        let _ = gone.await; // it said all that it will, and may still be at work
                        return Ok(());
                    }
                    _left = &mut gone => {}
                }
                // Its children hold the pipe. What is in it still counts, they do not.
                if let Some(group) = group {
                    let _ = kill_group(group);
                }
                timeout(DYING, hear(&mut stdout, &mut said, max)).await.unwrap_or(Ok(()))
            };
            let (mut write, mut listen) = (std::pin::pin!(write), std::pin::pin!(listen));
            let mut written = false;
            loop {
                tokio::select! {
                    heard = &mut listen => break heard?,
                    () = &mut write, if !written => written = true,
                }
            }
        }
        Ok(said)
    }

    /// Ends the group and reaps the leader.
    async fn end(mut self) -> Option<ExitStatus> {
        if let Some(group) = self.group {
            let _ = kill_group(group); // that there is none left is what we want
        }
        let status = timeout(DYING, self.child.wait()).await.ok().and_then(Result::ok);
        if status.is_some() {
            self.group = None;
            if let Some(record) = self.record.take() {
                record.remove();
            }
        }
        status
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_group(group); // the leader is reaped by the runtime
            if let Some(record) = self.record.take() {
                record.remove();
            }
        }
    }
}

/// Reads to the end, but no more than `max` bytes.
async fn hear(from: &mut (impl AsyncRead + Unpin), said: &mut Vec<u8>, max: usize) -> Result<(), Failed> {
    loop {
        said.reserve(CHUNK);
        match from.read_buf(said).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) if said.len() > max => return Err(too_much(max)),
            Ok(_) => {}
        }
    }
}
