//! One worker process: started with a bound, ended for sure.
//!
//! Refuses to be forgotten: a `Worker` that is dropped kills its process group. The leader is never reaped before its
//! group was killed, so the group's number cannot be anyone else's by then.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use causeway_adapter::registry::stream_json::Watch;
use causeway_adapter::worker::{MAX_LINE, WorkerLine};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::admission::Ticket;
use super::desk::Place;
use super::lines::{Lines, Read};
use super::record::{self, Record};
use super::{Demand, proc};
use crate::failpoint::{self, hit};

/// Why a worker could not be started. For the operator's log; clients are told a sentence of ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(
        "the program {program:?} cannot be run: {source}; see that it exists and is executable, and so is the interpreter that it names (for the example agents, run examples/deepagents/setup.sh or examples/claude/setup.sh)"
    )]
    Spawn { program: OsString, source: io::Error },
    #[error("its record cannot be written, so it could not be found again after a crash: {0}")]
    Record(io::Error),
    #[error("it did not say hello within {0:?}; see start_timeout")]
    Silent(Duration),
    #[error("it left before it said hello")]
    Died,
    #[error("its first line is not a hello of the worker protocol")]
    NoHello,
    #[error("it speaks version {0:?} of the worker protocol, not 1")]
    Version(Option<u64>),
    #[error("it runs the harness {said:?}, not {wanted}")]
    Harness { said: String, wanted: String },
    #[error("it cannot restore states, so it cannot serve a durable agent; set thread = \"ephemeral\"")]
    NoRestore,
    #[error("it does not know the state that the turn begins with")]
    StateLost,
}

/// How a process is started and greeted.
#[async_trait]
pub(crate) trait Greeting: Sync {
    /// What the command gets besides its own arguments.
    fn arguments(&self) -> Vec<String>;

    /// Variables that it needs, where its configuration names no value of its own.
    fn environment(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Waits until it is up; the caller bounds the wait.
    async fn greet(&self, worker: &mut Worker, demand: &Demand) -> Result<(), StartError>;

    /// Whether an idle process may write this line.
    fn is_harmless(&self) -> fn(&[u8]) -> bool;
}

/// The greeting of worker protocol 1: the worker speaks first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello;

#[async_trait]
impl Greeting for Hello {
    fn arguments(&self) -> Vec<String> {
        Vec::new()
    }

    async fn greet(&self, worker: &mut Worker, demand: &Demand) -> Result<(), StartError> {
        worker.hello(demand).await
    }

    fn is_harmless(&self) -> fn(&[u8]) -> bool {
        // An answer to a line it could not read closes nothing.
        is_nobodys_error
    }
}

/// Where a process that holds a conversation itself stands, for the next turn to judge.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stand {
    /// The state that it would go on from.
    pub head: String,
    /// Requests of its own that wait for an answer.
    pub asked: Vec<String>,
    /// What its lines told so far: an answer goes on from there.
    pub watch: Watch,
}

/// A process that was greeted.
pub(crate) struct Worker {
    child: Child,
    /// The number of its process group, which is its own pid; `None` once the group was killed and the leader reaped.
    group: Option<i32>,
    pub stdin: Stdin,
    pub lines: Lines<ChildStdout>,
    record: Option<Record>,
    /// Whether it takes `forget`.
    pub forgets: bool,
    /// Whether it was kept after a turn.
    pub served: bool,
    /// Whether it may ask for tools.
    pub asks: bool,
    /// Where it stands, if it holds a conversation itself.
    pub stand: Option<Stand>,
    /// What it may write while it is idle.
    is_harmless: fn(&[u8]) -> bool,
    stderr: Arc<Stderr>,
    /// Given back when the process is gone.
    place: Arc<Place>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("group", &self.group)
            .field("forgets", &self.forgets)
            .finish_non_exhaustive()
    }
}

/// Where requests go; closed once the worker was asked to leave.
pub(crate) struct Stdin(Option<ChildStdin>);

impl Stdin {
    /// Writes as much as the pipe takes now. Safe to drop: then nothing was written.
    pub async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(pipe) => pipe.write(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Writes all of it, or fails.
    pub async fn write(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        match &mut self.0 {
            Some(pipe) => timeout(patience, pipe.write_all(bytes)).await?,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// How long a leader may take to be gone after its group was killed.
const DYING: Duration = Duration::from_secs(5);

impl Worker {
    /// Starts a process and greets it.
    pub async fn start(
        mut command: Command,
        greeting: &(dyn Greeting + Send),
        demand: &Demand,
        start_timeout: Duration,
        records: &Path,
        place: Arc<Place>,
    ) -> Result<Self, StartError> {
        command.args(greeting.arguments());
        for (name, value) in greeting.environment() {
            if !command.as_std().get_envs().any(|(given, _)| given == *name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        record::make_dir(records).map_err(StartError::Record)?; // workers like to keep their states there too
        hit(failpoint::SPAWN);
        let mut child = command.spawn().map_err(|source| StartError::Spawn {
            program: command.as_std().get_program().to_owned(),
            source,
        })?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(StartError::Died)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartError::Died); // all three were asked for
        };
        let mut worker = Self {
            child,
            group: Some(pid),
            stdin: Stdin(Some(stdin)),
            lines: Lines::new(stdout, MAX_LINE),
            record: None,
            forgets: false,
            served: false,
            asks: false,
            stand: None,
            is_harmless: greeting.is_harmless(),
            stderr: Stderr::drain(stderr),
            place,
        };
        hit(failpoint::SPAWNED);
        let name = super::command::file_name(&demand.agent_id);
        let dir = records.to_path_buf();
        let written = tokio::task::spawn_blocking(move || Record::write(&dir, &name, pid)).await;
        worker.record =
            Some(written.unwrap_or_else(|panic| Err(io::Error::other(panic))).map_err(StartError::Record)?);
        hit(failpoint::RECORDED);
        let greeted = timeout(start_timeout, greeting.greet(&mut worker, demand)).await;
        match greeted.unwrap_or(Err(StartError::Silent(start_timeout))) {
            Ok(()) => {
                hit(failpoint::HELLO);
                Ok(worker)
            }
            Err(error) => {
                let stderr = worker.stderr();
                worker.kill().await;
                stderr.explain(records, demand).await;
                Err(error)
            }
        }
    }

    async fn hello(&mut self, demand: &Demand) -> Result<(), StartError> {
        let line = match self.lines.next().await {
            Read::Line(line) => line,
            Read::TooLong => return Err(StartError::NoHello),
            Read::End | Read::Broken => return Err(StartError::Died),
        };
        let Ok(WorkerLine::Hello(hello)) = WorkerLine::parse(&line) else { return Err(StartError::NoHello) };
        if hello.protocol != Some(1) {
            return Err(StartError::Version(hello.protocol));
        }
        if hello.harness != demand.harness_id {
            let said = hello.harness.chars().take(64).collect();
            return Err(StartError::Harness { said, wanted: demand.harness_id.clone() });
        }
        if demand.restore && !hello.restore {
            return Err(StartError::NoRestore);
        }
        self.forgets = hello.forget;
        self.asks = hello.tools;
        Ok(())
    }

    /// Returns when the worker does what it may not do while it is idle: speak, or leave.
    pub async fn stirs(&mut self) -> &'static str {
        let leader = self.leader();
        if self.waits() {
            // What it says belongs to the turn that brings the answer.
            leader.gone().await;
            return "it left";
        }
        loop {
            let read = tokio::select! {
                biased;
                read = self.lines.next() => read,
                () = leader.gone() => return "it left",
            };
            match read {
                Read::Line(line) if (self.is_harmless)(&line) => {}
                Read::Line(_) | Read::TooLong => return "it wrote outside of a turn",
                Read::End | Read::Broken => return "it left",
            }
        }
    }

    /// Whether it waits for an answer.
    pub fn waits(&self) -> bool {
        self.stand.as_ref().is_some_and(|stand| !stand.asked.is_empty())
    }

    /// The same worker, at work for the turn of this claim.
    pub fn serve(self, claim: &Place) -> Self {
        self.place.serve(claim);
        self
    }

    /// Its turn is over; whether it may stay.
    pub fn rest(&self) -> bool {
        self.place.rest(self.waits())
    }

    /// Where it counts.
    pub fn place(&self) -> Ticket {
        self.place.ticket()
    }

    /// What it wrote to stderr, which may be asked for when the worker is gone.
    pub fn stderr(&self) -> Arc<Stderr> {
        Arc::clone(&self.stderr)
    }

    /// What tells whether the leader runs, whoever holds its pipes.
    pub fn leader(&self) -> Leader {
        Leader(self.group.and_then(Pid::from_raw))
    }

    /// Asks the worker to leave, waits, and kills what is left. `hurry` ends the wait.
    pub async fn leave(mut self, patience: Duration, mut hurry: watch::Receiver<bool>) {
        hit(failpoint::LEAVE);
        self.stdin = Stdin(None); // the end of stdin means: leave
        let deadline = Instant::now() + patience;
        let hurried = async move {
            let _ = hurry.wait_for(|&hurried| hurried).await; // the pool is gone: hurry as well
        };
        tokio::select! {
            () = hurried => {}
            () = self.exited(deadline) => {}
        }
        self.kill().await;
    }

    /// Waits for the leader's exit. What it still writes is read, or it could not leave.
    async fn exited(&mut self, deadline: Instant) {
        let leader = self.leader();
        let mut open = true;
        while leader.runs() && Instant::now() < deadline {
            tokio::select! {
                more = self.lines.discard(), if open => open = more,
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
    }

    /// Kills the whole group and waits until nothing of it runs.
    pub async fn kill(mut self) {
        if let Some(group) = self.group {
            hit(failpoint::KILL);
            let _ = record::kill_group(group); // that there is none left is what we want
            let deadline = Instant::now() + DYING;
            while !proc::members(group).is_empty() && Instant::now() < deadline {
                sleep(Duration::from_millis(5)).await;
            }
            hit(failpoint::KILL_DONE);
            let reaped = timeout(DYING, self.child.wait()).await;
            self.group = None;
            if !matches!(reaped, Ok(Ok(_))) {
                tracing::warn!(pid = group, "a worker that was killed is not gone yet");
                return; // its record stays, for the next start
            }
            tracing::debug!(pid = group, stderr_bytes = self.stderr.bytes(), "worker gone");
        }
        if let Some(record) = self.record.take() {
            record.remove();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = record::kill_group(group); // the leader is reaped by the runtime
            if let Some(record) = self.record.take() {
                record.remove();
            }
        }
    }
}

/// The process that leads a worker's group, looked at without being reaped: until then its number is its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leader(Option<Pid>);

impl Leader {
    /// Returns some time after the leader's exit: what it wrote can be read first. The end of its stdout does not
    /// tell, since a child may hold it.
    pub async fn gone(self) {
        while self.runs() {
            sleep(LOOK).await;
        }
        sleep(LOOK).await;
    }

    /// Whether it runs at this moment.
    pub fn runs(self) -> bool {
        let Some(pid) = self.0 else { return false };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(pid), look), Ok(None))
    }
}

/// How often it is looked whether a leader still runs.
const LOOK: Duration = Duration::from_millis(200);

fn is_nobodys_error(line: &[u8]) -> bool {
    match WorkerLine::parse(line) {
        Ok(WorkerLine::Error { run_id, .. }) => run_id.is_none(),
        Ok(
            WorkerLine::Hello(_)
            | WorkerLine::Begin { .. }
            | WorkerLine::Chunk { .. }
            | WorkerLine::Tool(_)
            | WorkerLine::End { .. }
            | WorkerLine::Cancelled { .. },
        )
        | Err(_) => false,
    }
}

/// What a worker writes to stderr: counted and thrown away, but for the end of it, which is kept to explain a failed start or turn.
#[derive(Debug, Default)]
pub(crate) struct Stderr {
    seen: Mutex<(u64, Vec<u8>)>,
}

/// How much of stderr is kept.
const STDERR_TAIL: usize = 16 * 1024;

impl Stderr {
    fn drain(mut pipe: ChildStderr) -> Arc<Self> {
        let stderr = Arc::new(Self::default());
        let shared = Arc::clone(&stderr);
        tokio::spawn(async move {
            let mut chunk = vec![0; 8 * 1024];
            while let Ok(len @ 1..) = pipe.read(&mut chunk).await {
                shared.keep(chunk.get(..len).unwrap_or_default());
            }
        });
        stderr
    }

    fn keep(&self, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.0 = seen.0.saturating_add(bytes.len() as u64);
        seen.1.extend_from_slice(bytes);
        let surplus = seen.1.len().saturating_sub(STDERR_TAIL);
        seen.1.drain(..surplus);
    }

    fn bytes(&self) -> u64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Keeps the end of stderr, and logs where: for what is no run's failure.
    pub async fn explain(&self, dir: &Path, demand: &Demand) {
        if let Some(path) = self.save(dir, demand).await {
            tracing::warn!(agent = demand.agent_id, path = %path.display(), "what the worker wrote to stderr is in this file");
        }
    }

    /// Puts the end of stderr into a file of ours beside the workers' states, where an operator finds it: what a worker prints may
    /// be anything, so it never goes into a log. `None`: it wrote nothing, or there is no room for it.
    pub async fn save(&self, dir: &Path, demand: &Demand) -> Option<PathBuf> {
        sleep(Duration::from_millis(20)).await; // the pipe's last bytes
        let tail = self.seen.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
        if tail.is_empty() {
            return None;
        }
        let path = dir.join(format!("{}.stderr", super::command::file_name(&demand.agent_id)));
        match record::write_private(&path, &tail) {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::warn!(agent = demand.agent_id, %error, "what the worker wrote to stderr could not be kept");
                None
            }
        }
    }
}
