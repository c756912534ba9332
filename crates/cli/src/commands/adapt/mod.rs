//! `causeway adapt`: the native stream of a harness to canonical JSONL, through the real coordinator.
//!
//! Refuses to be more lenient than the gateway: the same adapter, validator, coordinator and store decide, only clock and
//! ids are given. A run whose events break a rule ends as it would there, and the exit status is 1.

mod canonical;
mod live;
mod native;
mod resume;
mod session;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, bail};
use causeway_adapter::registry;
use causeway_adapter::worker::WorkerLine;
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::timestamp::Timestamp;

use self::session::{Clock, Session};
use crate::exit::Exit;

/// Options of `adapt`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  causeway adapt --from deepagents recording.jsonl
  causeway adapt --from deepagents --seeds-out seeds.jsonl recording.jsonl > runs.jsonl
  causeway encode --to agui --multi --seeds seeds.jsonl runs.jsonl
  causeway adapt --from claude-agent-sdk --sidecar approve.stdin.jsonl approve.jsonl
  causeway adapt --from canonical --fail-commit final run.jsonl")]
pub struct Args {
    /// The harness that wrote the stream, or `canonical` to play canonical events through the coordinator.
    #[arg(long, value_name = "HARNESS")]
    from: String,

    /// The native stream; `-` or none is standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print what the adapter yields, before the coordinator.
    #[arg(long = "yield")]
    yielded: bool,

    /// The id of the first run; the next ones are called ID-2, ID-3 and so on.
    #[arg(long, value_name = "ID", value_parser = parse_run_id)]
    run_id: Option<RunId<'static>>,

    /// The id of the first native thread's conversation; the next ones are called ID-2 and so on.
    #[arg(long, value_name = "ID", value_parser = parse_conversation_id)]
    conversation_id: Option<ConversationId<'static>>,

    /// The agent's id or display name, for its interrupts.
    #[arg(long, value_name = "ID", value_parser = parse_name, default_value = "agent")]
    agent_id: Name<'static>,

    /// Whether the runs' state outlives them (R13).
    #[arg(long, value_enum, default_value_t = ThreadKind::Durable)]
    thread: ThreadKind,

    /// Give the pieces of streamed tool arguments instead of collecting them.
    #[arg(long)]
    stream_arguments: bool,

    /// The time of every event, instead of the system's clock.
    #[arg(long, value_name = "RFC3339", value_parser = parse_timestamp)]
    clock: Option<Timestamp<'static>>,

    /// What the ids of messages and interrupts are made from.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// The first turn resumes this: {"open_calls":[…],"delegations":[…],"interrupt_id":…,"decisions":[…]}, or with
    /// "values":{…} or "dismissed":true in the place of the decisions.
    #[arg(long, value_name = "FILE")]
    resume_from: Option<PathBuf>,

    /// What was sent to the harness, where answers are not in its stream (claude-agent-sdk); NAME.stdin.jsonl beside
    /// NAME.jsonl is found by itself.
    #[arg(long, value_name = "FILE")]
    sidecar: Option<PathBuf>,

    /// Write the encoder seeds of resumed runs there, one line a run, for `encode --seeds`.
    #[arg(long, value_name = "FILE")]
    seeds_out: Option<PathBuf>,

    /// Let the store refuse this commit (R15).
    #[arg(long, value_name = "COMMIT", value_enum, conflicts_with = "yielded")]
    fail_commit: Option<FailCommit>,
}

/// Whether a thread has a durable state.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum ThreadKind {
    Durable,
    Ephemeral,
}

/// A commit that the store refuses.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum FailCommit {
    /// That of `run.finished`.
    Final,
    /// That of `run.interrupted`.
    Interrupt,
}

fn parse_run_id(text: &str) -> Result<RunId<'static>, String> {
    RunId::new(text.to_owned()).map_err(|fault| format!("the run id {fault}"))
}

fn parse_conversation_id(text: &str) -> Result<ConversationId<'static>, String> {
    ConversationId::new(text.to_owned()).map_err(|fault| format!("the conversation id {fault}"))
}

fn parse_name(text: &str) -> Result<Name<'static>, String> {
    Name::new(text.to_owned()).map_err(|fault| format!("the agent id {fault}"))
}

fn parse_timestamp(text: &str) -> Result<Timestamp<'static>, String> {
    match Timestamp::parse(text) {
        Ok(time) => Ok(time.into_owned()),
        Err(fault) => Err(format!("the time {fault}")),
    }
}

/// The longest line that is read; an adapter refuses shorter ones already.
const MAX_LINE: u64 = 64 << 20;

/// Adapts.
///
/// # Errors
/// The harness is not known, a file cannot be read, or the output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let name = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let mut input: Box<dyn BufRead> = match name {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(io::stdin().lock()),
    };
    let Some(harness) = registry::find(&args.from) else {
        let known: Vec<&str> = registry::HARNESSES.iter().map(|harness| harness.id).collect();
        bail!("no adapter for `{}` in this build; known: {}", args.from, known.join(", "));
    };
    // A worker's recording is native, also where its chunks hold canonical events.
    let is_log = harness.id == "canonical" && !of_a_worker(&mut *input)?;
    let harness = (!is_log).then_some(harness);
    let resume = args.resume_from.as_deref().map(resume::read).transpose()?;
    let clock = args.clock.clone().map_or(Clock::System, Clock::Fixed);
    let mut session = Session::new(args, clock)?;
    let read = match harness {
        Some(harness) => {
            let mut native = native::Native::new(harness, args, resume);
            if native.sent(&[]) {
                native.sent(&sidecar(args, name)?);
            } else if args.sidecar.is_some() {
                bail!("--sidecar does not go with {}: its answers are in its stream", harness.id);
            }
            let binary = native.is_binary(input.fill_buf().context("cannot read the input")?);
            let each = if binary { each_piece } else { each_line };
            each(&mut *input, &mut |item| native.line(item, &mut session))
                .and_then(|()| native.end(&mut session))
        }
        None if resume.is_some() => bail!("--resume-from does not go with canonical events"),
        None if args.sidecar.is_some() => bail!("--sidecar does not go with canonical events"),
        None => {
            let mut canonical = canonical::Canonical::new(args);
            each_line(&mut *input, &mut |line| canonical.line(line, &mut session))
                .and_then(|()| canonical.end(&mut session))
        }
    };
    session.close()?;
    read?;
    Ok(session.exit())
}

/// The canonical lines of a native stream, through coordinator and store as `adapt` prints them; times and ids are fixed.
///
/// # Errors
/// A run or conversation id became too long.
pub fn captured(
    harness: &'static registry::Harness,
    bytes: &[u8],
    sidecar: &[u8],
    stream_arguments: bool,
) -> anyhow::Result<Vec<u8>> {
    let args = Args {
        from: harness.id.to_owned(),
        file: None,
        yielded: false,
        run_id: None,
        conversation_id: None,
        agent_id: Name::new("agent")?,
        thread: ThreadKind::Durable,
        stream_arguments,
        clock: None,
        seed: 0,
        resume_from: None,
        sidecar: None,
        seeds_out: None,
        fail_commit: None,
    };
    let captured = Captured::default();
    let mut session = Session::new(&args, Clock::Fixed(Timestamp::from_unix(0, 0)))?;
    session.quietly(Box::new(captured.clone()));
    let mut native = native::Native::new(harness, &args, None);
    native.sent(sidecar);
    if native.is_binary(bytes) {
        native.line(bytes, &mut session)?;
    } else {
        for line in bytes.split(|byte| *byte == b'\n') {
            native.line(line, &mut session)?;
        }
    }
    native.end(&mut session)?;
    session.close()?;
    drop(session);
    Ok(captured.take())
}

/// Bytes that two own.
#[derive(Clone, Default)]
struct Captured(Rc<RefCell<Vec<u8>>>);

impl Captured {
    fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the first line is one of the worker protocol.
fn of_a_worker(input: &mut dyn BufRead) -> anyhow::Result<bool> {
    let start = input.fill_buf().context("cannot read the input")?;
    let first = start.split(|byte| *byte == b'\n').find(|line| !line.iter().all(u8::is_ascii_whitespace));
    Ok(first.is_some_and(|line| WorkerLine::parse(line).is_ok()))
}

/// What was sent to the harness: the file that is named, or the one found beside the stream.
fn sidecar(args: &Args, file: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let beside = file.map(|file| file.with_extension("stdin.jsonl")).filter(|path| path.is_file());
    let Some(path) = args.sidecar.clone().or(beside) else { return Ok(Vec::new()) };
    let mut sent = Vec::new();
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    file.take(MAX_LINE).read_to_end(&mut sent).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(sent)
}

/// A binary stream, in pieces as they come.
fn each_piece(
    input: &mut dyn BufRead,
    take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let piece = input.fill_buf().context("cannot read the input")?;
        let read = piece.len();
        if read == 0 {
            return Ok(());
        }
        take(piece)?;
        input.consume(read);
    }
}

fn each_line(
    input: &mut dyn BufRead,
    take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.take(MAX_LINE).read_until(b'\n', &mut line).context("cannot read the input")?;
        if read == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() as u64 >= MAX_LINE {
            bail!("a line of the input is longer than {MAX_LINE} bytes");
        }
        take(line.strip_suffix(b"\n").unwrap_or(&line))?;
    }
}
