//! A worker at the end of two pipes, spoken to line by line: what the engine would say, and what it never would.
//!
//! Refuses to wait without end: every line is waited for within the bounds of the launch, and the process group is killed when
//! the worker is dropped.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use causeway_adapter::worker::MAX_LINE;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::{Value, json};

use super::launch::{Hello, Launch};
use super::report::{Stop, broke, fail};

/// What a worker's stdout gave.
#[derive(Debug)]
enum Said {
    Line(Vec<u8>),
    TooLong,
    End,
}

/// A worker.
#[derive(Debug)]
pub struct Raw {
    child: Child,
    group: Option<Pid>,
    requests: Option<Sender<Vec<u8>>>,
    said: Receiver<Said>,
    ended: bool,
    /// What it said of itself.
    pub hello: Hello,
    timeout: Duration,
    grace: Duration,
    requested: usize,
    /// Runs that have their closing line.
    closed: HashSet<String>,
    /// What the ids of its turns begin with.
    name: String,
}

/// A turn, from its request to its closing line.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Its run.
    pub run_id: String,
    /// Its thread.
    pub thread_id: String,
    /// All its lines, the closing one included.
    pub lines: Vec<Vec<u8>>,
    /// The closing line.
    pub closing: Value,
    /// Its native events.
    pub chunks: usize,
    /// The tools it asked for.
    pub asked: Vec<Value>,
}

impl Turn {
    /// The kind of its closing line.
    pub fn kind(&self) -> &str {
        self.closing["kind"].as_str().unwrap_or_default()
    }

    /// The word of its `error`.
    pub fn error_type(&self) -> &str {
        self.closing["error_type"].as_str().unwrap_or_default()
    }

    /// The head it reported.
    pub fn head(&self) -> Option<String> {
        self.closing["state"]["head"].as_str().map(str::to_owned)
    }

    /// Whether it paused.
    pub fn paused(&self) -> bool {
        self.closing["state"]["interrupts"].as_array().is_some_and(|pauses| !pauses.is_empty())
    }

    /// What ended it, for a reason.
    pub fn told(&self) -> String {
        match self.kind() {
            "error" => format!("error `{}`", self.error_type()),
            other => format!("`{other}`"),
        }
    }
}

impl Raw {
    /// Takes a process that was started, and hears its first line.
    pub fn start(mut child: Child, launch: &Launch) -> Result<Self, Stop> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (requests, to_write) = mpsc::channel::<Vec<u8>>();
        let (heard, said) = mpsc::channel();
        if let Some(mut stdin) = child.stdin.take() {
            std::thread::spawn(move || {
                // A worker that reads no more is found by what it does not answer.
                while let Ok(line) = to_write.recv() {
                    if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
                        return;
                    }
                }
            });
        }
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || read(stdout, &heard));
        }
        let hello = Hello { harness: String::new(), restore: false, forget: false, tools: false };
        let mut raw = Self {
            child,
            group,
            requests: Some(requests),
            said,
            ended: false,
            hello,
            timeout: launch.timeout,
            grace: launch.grace,
            requested: 0,
            closed: HashSet::new(),
            name: super::scenario::mark(),
        };
        let first = raw.object(raw.timeout, "its `hello`")?;
        if first["kind"] != "hello" {
            return broke("W0", "the first line is not `hello`");
        }
        if first["protocol"] != 1 {
            return broke("W0", "`hello` does not name protocol 1");
        }
        let Some(harness) = first["harness"].as_str() else {
            return broke("W0", "`hello` names no harness");
        };
        raw.hello = Hello {
            harness: harness.to_owned(),
            restore: first["restore"] != false,
            forget: first["forget"] == true,
            tools: first["tools"] == true,
        };
        Ok(raw)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How long a line may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Says a line.
    pub fn send(&self, line: &Value) {
        self.send_bytes(format!("{line}\n").into_bytes());
    }

    /// Says bytes.
    pub fn send_bytes(&self, bytes: Vec<u8>) {
        if let Some(requests) = &self.requests {
            let _gone = requests.send(bytes);
        }
    }

    /// No more will be said.
    pub fn close_stdin(&mut self) {
        self.requests = None;
    }

    /// A request with ids of its own.
    pub fn request(&mut self, base: Option<&str>, text: &str) -> Value {
        let (run, thread) = self.ids();
        json!({"op": "run", "run_id": run, "thread_id": thread, "base": base, "input": {"text": text}})
    }

    /// The answer to a pause.
    pub fn resume(&mut self, base: &str, value: &Value) -> Value {
        let (run, thread) = self.ids();
        json!({"op": "resume", "run_id": run, "thread_id": thread, "base": base, "resume": value})
    }

    fn ids(&mut self) -> (String, String) {
        self.requested += 1;
        (format!("run-{}-{}", self.name, self.requested), format!("thread-{}-{}", self.name, self.requested))
    }

    /// Says a request and hears it out.
    pub fn turn(&mut self, request: &Value) -> Result<Turn, Stop> {
        self.send(request);
        self.rest(request, self.timeout)
    }

    /// Hears a turn out.
    pub fn rest(&mut self, request: &Value, each: Duration) -> Result<Turn, Stop> {
        let mut turn = Turn {
            run_id: request["run_id"].as_str().unwrap_or_default().to_owned(),
            thread_id: request["thread_id"].as_str().unwrap_or_default().to_owned(),
            ..Turn::default()
        };
        while !self.hear(&mut turn, each)? {}
        Ok(turn)
    }

    /// Hears one line of a turn; whether it closes the turn.
    pub fn hear(&mut self, turn: &mut Turn, within: Duration) -> Result<bool, Stop> {
        let line = self.line(within, &format!("the closing line of {}", turn.run_id))?;
        let value = self.live(object(&line)?)?;
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        if value["run_id"] != turn.run_id.as_str() {
            return broke("W0", format!("a `{kind}` line in a turn does not carry its run_id"));
        }
        match kind.as_str() {
            "begin" if turn.chunks > 0 => return broke("W1", "`begin` comes after a chunk"),
            "begin" if !turn.lines.is_empty() => return broke("W1", "`begin` comes twice"),
            "begin" | "end" | "cancelled" | "error" => {}
            "chunk" if turn.lines.is_empty() => return broke("W1", "a chunk comes before `begin`"),
            "chunk" => turn.chunks += 1,
            "tool" if turn.lines.is_empty() => return broke("W1", "a tool is asked for before `begin`"),
            "tool" if self.hello.tools => {
                turn.asked.push(value);
                return Ok(false);
            }
            _ => return broke("W0", "a line of a turn is of no kind that the protocol knows"),
        }
        if kind == "end" && value["state"]["head"].as_str().is_none() {
            return broke("W4", "`end` reports no head");
        }
        if let Some(head) = value["state"]["head"].as_str()
            && (head.is_empty() || head.len() > 256)
        {
            return broke("W4", format!("a head has {} bytes, not 1 to 256", head.len()));
        }
        turn.lines.push(line);
        let closes = matches!(kind.as_str(), "end" | "cancelled" | "error");
        if closes {
            self.closed.insert(turn.run_id.clone());
            turn.closing = value;
        }
        Ok(closes)
    }

    /// The next line as an object.
    pub fn object(&mut self, within: Duration, what: &str) -> Result<Value, Stop> {
        let line = self.line(within, what)?;
        self.live(object(&line)?)
    }

    /// A line of a run that is not over.
    fn live(&self, value: Value) -> Result<Value, Stop> {
        match value["run_id"].as_str() {
            Some(run) if self.closed.contains(run) => {
                let kind = value["kind"].as_str().unwrap_or("nameless");
                broke("W1", format!("a `{kind}` line of a run comes after its closing line"))
            }
            Some(_) | None => Ok(value),
        }
    }

    fn line(&mut self, within: Duration, what: &str) -> Result<Vec<u8>, Stop> {
        match self.said.recv_timeout(within) {
            Ok(Said::Line(line)) => Ok(line),
            Ok(Said::TooLong) => broke("W0", "a line is longer than 8 MiB"),
            Ok(Said::End) | Err(RecvTimeoutError::Disconnected) => {
                self.ended = true;
                fail(format!("the worker ended before {what}"))
            }
            Err(RecvTimeoutError::Timeout) => {
                fail(format!("{what} did not come within {} ms", within.as_millis()))
            }
        }
    }

    /// Nothing is said for a while.
    pub fn quiet(&mut self, rule: &str, after: &str) -> Result<(), Stop> {
        match self.said.recv_timeout(QUIET) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(Said::Line(line)) => match object(&line).and_then(|value| self.live(value)) {
                Ok(value) => {
                    let kind = value["kind"].as_str().unwrap_or("nameless");
                    broke(rule, format!("a `{kind}` line comes after {after}"))
                }
                Err(stop) => Err(stop),
            },
            Ok(Said::TooLong) => broke("W0", "a line is longer than 8 MiB"),
            Ok(Said::End) | Err(RecvTimeoutError::Disconnected) => {
                broke("W7", format!("the worker left after {after}, without being asked to"))
            }
        }
    }

    /// Waits until the process has left, at most the grace; what it still says is dropped.
    pub fn left(&mut self) -> Result<(), Stop> {
        let end = Instant::now() + self.grace + LEAVING;
        while Instant::now() < end {
            if let Ok(Some(_status)) = self.child.try_wait() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        broke("W7", format!("the worker has not left after {} s", self.grace.as_secs_f32()))
    }

    /// Whether anything of its process group is alive, once it has left.
    pub fn leaves_children(&self) -> bool {
        let Some(group) = self.group else { return false };
        let end = Instant::now() + CHILDREN;
        while test_kill_process_group(group).is_ok() {
            if Instant::now() > end {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Ends it by force, as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(group) = self.group {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        let _gone = self.child.wait();
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.end();
    }
}

/// How long silence is listened to.
const QUIET: Duration = Duration::from_millis(250);
/// What a busy machine may add to the leaving of a process.
const LEAVING: Duration = Duration::from_secs(1);
/// How long the children of a worker that left may take to follow.
const CHILDREN: Duration = Duration::from_secs(1);

fn object(line: &[u8]) -> Result<Value, Stop> {
    match serde_json::from_slice(line) {
        Ok(value @ Value::Object(_)) => Ok(value),
        // Python writes lone surrogates, which a strict reader refuses and an adapter does not.
        Err(_) if causeway_adapter::json::Json::parse(line).is_ok_and(|json| json.is_object()) => {
            let json =
                causeway_adapter::json::Json::parse(line).map(|json| json.to_text()).unwrap_or_default();
            serde_json::from_str(&json).or_else(|_| broke("W0", "a line of stdout is not a JSON object"))
        }
        Ok(_) | Err(_) => broke("W0", "a line of stdout is not a JSON object"),
    }
}

fn read(stdout: impl std::io::Read, heard: &Sender<Said>) {
    let mut stdout = BufReader::new(stdout);
    let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX) + 1;
    loop {
        let mut line = Vec::new();
        let read = stdout.by_ref().take(limit).read_until(b'\n', &mut line);
        let said = match read {
            Ok(0) | Err(_) => Said::End,
            Ok(_) if line.last() == Some(&b'\n') => {
                line.pop();
                Said::Line(line)
            }
            Ok(read) if read > MAX_LINE => Said::TooLong,
            Ok(_) => Said::End, // a part of a line is no line
        };
        let over = !matches!(said, Said::Line(_));
        if heard.send(said).is_err() || over {
            return;
        }
    }
}
