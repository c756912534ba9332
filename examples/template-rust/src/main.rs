//! A worker to start from: worker protocol 1 with canonical events. `std` and `serde_json` only.
//!
//! ```text
//! template-worker --data DIR     # states live there; a later process goes on from them
//! template-worker                # no run starts from another
//! ```
//! Put your agent in the place of [`agent`]. The rest is the protocol: one turn at a time, one closing line each, a cancel
//! taken at once, every state kept under a head of its own. `causeway conform` tells whether it still is.

mod agent;
mod states;

use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::states::States;

/// Bytes of a line, in both directions.
const LINE_LIMIT: usize = 8 * 1024 * 1024;
/// After the end of stdin; the protocol grants 5 s.
const LEAVE_WITHIN: Duration = Duration::from_secs(4);

/// Why a turn is left before its end.
pub enum Left {
    /// The engine asked for it.
    Cancelled,
    /// The agent failed; the word is the `error_type`, the sentence for logs: clients see neither.
    Failed(&'static str, String),
}

/// A request at work.
pub struct Turn {
    run_id: String,
    thread_id: String,
    /// What the user said.
    pub text: String,
    /// The answer to a pause, in a turn of its own.
    pub answer: Option<Value>,
    /// What the conversation remembers.
    pub state: Map<String, Value>,
    pauses: Vec<Value>,
    numbers: u64,
    shared: Arc<Shared>,
    cancel: Arc<Cancel>,
}

/// Set once, waited for.
#[derive(Default)]
struct Cancel {
    asked: Mutex<bool>,
    changed: Condvar,
}

/// What the reader and the turn share.
struct Shared {
    /// The turn that runs; whoever holds this may write a closing line.
    running: Mutex<Running>,
    over: Condvar,
    out: Mutex<io::Stdout>,
}

#[derive(Default)]
struct Running {
    turn: Option<(String, Arc<Cancel>)>,
    leaving: bool,
}

impl Turn {
    /// An id that no other turn of the conversation uses.
    pub fn new_id(&mut self, what: &str) -> String {
        self.numbers += 1;
        let short: String =
            self.thread_id.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
        format!("{what}-{short}-{}", self.numbers)
    }

    /// Says one canonical event.
    pub fn say(&mut self, kind: &str, namespace: &[&str], data: Value) -> Result<(), Left> {
        self.wait(Duration::ZERO)?;
        if kind == "interrupt.requested" {
            self.pauses.push(json!({"id": data["interrupt_id"], "value": data}));
        }
        let event = json!({"type": kind, "namespace": namespace, "data": data});
        if self.shared.write(&json!({"kind": "chunk", "run_id": self.run_id, "event": event})) {
            Ok(())
        } else {
            Err(Left::Failed("line_too_long", "a chunk is longer than a line may be".to_owned()))
        }
    }

    /// Lets time pass, but not past a cancel.
    pub fn wait(&self, time: Duration) -> Result<(), Left> {
        let end = Instant::now() + time;
        let mut asked = lock(&self.cancel.asked);
        while !*asked {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            asked = self.cancel.changed.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Err(Left::Cancelled)
    }

    /// Plays the turn and writes its closing line, whatever happens.
    fn play(mut self, op: &str, states: &States) {
        let mut begin = json!({"kind": "begin", "run_id": self.run_id, "op": op});
        if let Some(answer) = &self.answer {
            begin["resume"] = answer.clone();
        }
        let begun = if self.shared.write(&begin) {
            Ok(())
        } else {
            Err(Left::Failed("line_too_long", "the answer does not fit into a line".to_owned()))
        };
        let outcome = begun.and_then(|()| agent::agent(&mut self)).and_then(|()| {
            states.save(&self.state).map_err(|error| Left::Failed("StorageError", error.to_string()))
        });
        let closing = match outcome {
            Ok(head) => {
                let state = json!({"head": head, "interrupts": self.pauses});
                json!({"kind": "end", "run_id": self.run_id, "state": state})
            }
            Err(Left::Cancelled) => json!({"kind": "cancelled", "run_id": self.run_id, "state": {}}),
            Err(Left::Failed(word, why)) => {
                json!({"kind": "error", "run_id": self.run_id, "error_type": word, "message": why})
            }
        };
        // Over before the engine can know it: its next request must not find us busy.
        let mut running = lock(&self.shared.running);
        running.turn = None;
        if !self.shared.write(&closing) {
            self.shared.write(&json!({"kind": "error", "run_id": self.run_id, "error_type": "line_too_long", "message": ""}));
        }
        if running.leaving {
            std::process::exit(0);
        }
        self.shared.over.notify_all();
    }
}

impl Shared {
    /// Writes a line; `false` for one that is too long, of which nothing is written.
    fn write(&self, line: &Value) -> bool {
        let mut bytes = line.to_string().into_bytes();
        if bytes.len() >= LINE_LIMIT {
            return false;
        }
        bytes.push(b'\n');
        let mut out = lock(&self.out);
        if out.write_all(&bytes).and_then(|()| out.flush()).is_err() {
            std::process::exit(1); // nobody will ever read
        }
        true
    }
}

/// A request that is turned down: a word of the protocol, and a sentence for logs.
struct Refusal(&'static str, &'static str);

/// What the reader remembers.
struct Worker {
    shared: Arc<Shared>,
    states: Arc<States>,
    accepted: std::collections::HashSet<String>,
    early_cancels: std::collections::HashSet<String>,
}

impl Worker {
    /// A line of the engine. What cannot be served is answered here; what can is begun.
    fn take(&mut self, line: &[u8]) {
        let mut answer_to = Value::Null; // where the answer must not be taken for the closing line of a run
        if let Err(Refusal(word, why)) = self.serve(line, &mut answer_to) {
            self.shared
                .write(&json!({"kind": "error", "run_id": answer_to, "error_type": word, "message": why}));
        }
    }

    fn serve(&mut self, line: &[u8], answer_to: &mut Value) -> Result<(), Refusal> {
        let request: Value =
            serde_json::from_slice(line).map_err(|_| Refusal("bad_request", "the line is not JSON"))?;
        let run_id = request["run_id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        match (request["op"].as_str(), run_id) {
            (Some("exit"), _) => {
                let mut running = lock(&self.shared.running);
                running.leaving = true;
                if running.turn.is_none() {
                    std::process::exit(0);
                }
            }
            (Some("cancel"), Some(run_id)) => self.cancel(run_id),
            (_, None) => return Err(Refusal("bad_request", "a request needs a run_id")),
            (_, Some(run_id)) if self.accepted.contains(&run_id) => {
                return Err(Refusal("bad_request", "the run_id is not new"));
            }
            (Some(op @ ("run" | "resume")), Some(run_id)) => {
                *answer_to = json!(run_id);
                self.begin(op, run_id, &request)?;
            }
            (_, Some(run_id)) => {
                *answer_to = json!(run_id);
                return Err(Refusal("bad_request", "the op is not known"));
            }
        }
        Ok(())
    }

    fn begin(&mut self, op: &str, run_id: String, request: &Value) -> Result<(), Refusal> {
        let thread_id = request["thread_id"].as_str().unwrap_or_default().to_owned();
        if thread_id.is_empty() || thread_id.len() > 200 || thread_id.chars().any(char::is_control) {
            return Err(Refusal("bad_request", "thread_id must be printable, 1 to 200 bytes"));
        }
        // A base that was left out must not be taken for the empty one.
        let base = match request.get("base") {
            Some(Value::Null) => None,
            Some(Value::String(base)) => Some(base.as_str()),
            Some(_) | None => return Err(Refusal("bad_request", "base must be null or a head")),
        };
        let text = request["input"]["text"].as_str().map(str::to_owned);
        let answer = request.get("resume").filter(|_| op == "resume").cloned();
        if op == "run" && text.is_none() {
            return Err(Refusal("bad_request", "input.text must be a string"));
        }
        if op == "resume" && (answer.is_none() || base.is_none()) {
            return Err(Refusal("bad_request", "resume needs a base and a resume value"));
        }
        let mut running = lock(&self.shared.running);
        if running.turn.is_some() || running.leaving {
            return Err(Refusal("busy", "a turn is running, or the worker is leaving"));
        }
        let state = match base {
            None => Map::new(),
            Some(head) => self.states.load(head).ok_or(Refusal("unknown_head", "there is no such head"))?,
        };
        self.accepted.insert(run_id.clone());
        if self.early_cancels.remove(&run_id) {
            self.shared.write(&json!({"kind": "cancelled", "run_id": run_id, "state": {}}));
            return Ok(());
        }
        let cancel = Arc::new(Cancel::default());
        running.turn = Some((run_id.clone(), Arc::clone(&cancel)));
        drop(running);
        let (shared, states, op) = (Arc::clone(&self.shared), Arc::clone(&self.states), op.to_owned());
        let text = text.unwrap_or_default();
        let turn =
            Turn { run_id, thread_id, text, answer, state, pauses: Vec::new(), numbers: 0, shared, cancel };
        std::thread::spawn(move || turn.play(&op, &states));
        Ok(())
    }

    fn cancel(&mut self, run_id: String) {
        let running = lock(&self.shared.running);
        match &running.turn {
            Some((id, cancel)) if *id == run_id => cancel.ask(),
            Some(_) | None if !self.accepted.contains(&run_id) => {
                self.early_cancels.insert(run_id);
            }
            Some(_) | None => {}
        }
    }
}

impl Cancel {
    fn ask(&self) {
        *lock(&self.asked) = true;
        self.changed.notify_all();
    }
}

/// A panic elsewhere has not spoilt what is inside.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next line without its break; one that is too long is read to its end and becomes one that is not JSON.
fn next_line(stdin: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    stdin.take(LINE_LIMIT as u64 + 1).read_until(b'\n', &mut line).ok()?;
    let mut too_long = false;
    while line.len() > LINE_LIMIT && line.last() != Some(&b'\n') {
        too_long = true;
        let mut rest = Vec::new();
        if stdin.take(LINE_LIMIT as u64).read_until(b'\n', &mut rest).ok()? == 0
            || rest.last() == Some(&b'\n')
        {
            break;
        }
    }
    match (line.is_empty(), too_long) {
        (true, _) => None,
        (false, true) => Some(b"too long to be read".to_vec()),
        (false, false) => Some(line),
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => None,
        ["--data", directory] => Some(std::path::PathBuf::from(directory)),
        _ => {
            eprintln!("usage: template-worker [--data DIR]");
            std::process::exit(2);
        }
    };
    let states = Arc::new(States::open(directory)?);
    let shared =
        Arc::new(Shared { running: Mutex::default(), over: Condvar::new(), out: Mutex::new(io::stdout()) });
    let restore = states.restores();
    let hello =
        json!({"kind": "hello", "protocol": 1, "harness": "canonical", "versions": {}, "restore": restore});
    shared.write(&hello);
    let mut worker = Worker {
        shared: Arc::clone(&shared),
        states,
        accepted: std::collections::HashSet::new(),
        early_cancels: std::collections::HashSet::new(),
    };
    let mut stdin = io::stdin().lock();
    while let Some(line) = next_line(&mut stdin) {
        if !line.iter().all(u8::is_ascii_whitespace) {
            worker.take(&line);
        }
    }
    let running = lock(&shared.running);
    if let Some((_, cancel)) = &running.turn {
        cancel.ask();
    }
    let _left = shared.over.wait_timeout_while(running, LEAVE_WITHIN, |running| running.turn.is_some());
    std::process::exit(0) // whatever still runs
}
