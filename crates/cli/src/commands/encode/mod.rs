//! `causeway encode`: canonical JSONL to the bytes a client sees.
//!
//! Refuses to show what the rules forbid: the frames of the accepted events are written, then the violation is named
//! and the exit status is 1. Whatever has been read is written before more is waited for, so it works as a filter.

mod lines;
mod output;
mod stream;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use causeway_contract::decode::decode_line;
use causeway_contract::error::DecodeError;
use causeway_contract::event::Event;
use causeway_contract::id::RunId;
use causeway_contract::limits::Limits;
use causeway_encode::{Options, Protocol, Seed};
use causeway_lifecycle::{Boundary, Thread, Validator};

use crate::commands::encode::lines::{Line, Lines};
use crate::commands::encode::output::Output;
use crate::commands::encode::stream::{Stop, Stream};
use crate::exit::Exit;
use crate::terminal::escaped;

/// Options of `encode`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  causeway encode --to agui run.jsonl
  causeway adapt --from deepagents recording.jsonl | causeway encode --to custom --multi
  causeway encode --to ui-message --sdk 6 run.jsonl
  causeway encode --to custom --resume '{\"open_tool_calls\":[\"c1\"],\"delegations\":[],\"rejected\":[\"c1\"]}' resumed.jsonl")]
pub struct Args {
    /// The client format.
    #[arg(long, value_name = "FORMAT", value_parser = parse_protocol)]
    to: Protocol,

    /// Canonical JSONL; `-` or none is standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// The input holds several runs, in sequence or interleaved; they are written in order of their first line.
    #[arg(long)]
    multi: bool,

    /// What the client of a resumed run has already seen: {"open_tool_calls":[…],"delegations":[…],"rejected":[…]}.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["multi", "seeds"])]
    resume: Option<String>,

    /// The same for several runs: one such object a line, with its `run_id`.
    #[arg(long, value_name = "FILE")]
    seeds: Option<PathBuf>,

    /// Encode without checking the rules. Lines that are no events are still refused.
    #[arg(long)]
    no_validate: bool,

    /// Whether the runs' state outlives them (R13).
    #[arg(long, value_enum, default_value_t = ThreadKind::Durable)]
    thread: ThreadKind,

    /// The AG-UI version that the client of `agui-spec` declares, e.g. 1.0: it knows cancelled runs as an outcome.
    #[arg(long, value_name = "VERSION")]
    agui_version: Option<String>,

    /// The major of the AI SDK that reads `ui-message`; 6 and 7 know approvals.
    #[arg(long, value_name = "MAJOR", value_parser = clap::value_parser!(u32).range(5..=7))]
    sdk: Option<u32>,

    /// Write one file a run into this directory, named after the run.
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum ThreadKind {
    Durable,
    Ephemeral,
}

fn parse_protocol(name: &str) -> Result<Protocol, String> {
    Protocol::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.as_str()).collect();
        format!("known formats are {}", known.join(", "))
    })
}

/// Encodes.
///
/// # Errors
/// A file or the seed cannot be read, or the output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let name = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let input: Box<dyn Read> = match name {
        Some(path) => Box::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?),
        None => Box::new(io::stdin().lock()),
    };
    let seeds = match (&args.resume, &args.seeds) {
        (Some(json), _) => Seeds::One(Seed::from_json(json).context("the value of --resume")?),
        (None, Some(path)) => Seeds::ByRun(read_seeds(path)?),
        (None, None) => Seeds::One(Seed::new()),
    };
    let output = match &args.out_dir {
        Some(directory) => Output::directory(directory)?,
        None => Output::stdout(),
    };
    let name = name.map_or_else(|| "-".into(), |path| path.display().to_string());
    let mut encoding = Encoding {
        name,
        args,
        seeds,
        output,
        streams: Vec::new(),
        by_run: HashMap::new(),
        current: 0,
        last_line: 0,
        exit: Exit::Clean,
        limits: Limits::DEFAULT,
    };
    encoding.all(Lines::new(input))?;
    Ok(encoding.exit)
}

fn read_seeds(path: &Path) -> anyhow::Result<HashMap<RunId<'static>, Seed>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut seeds = HashMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("line {} of {}", at + 1, path.display());
        let (run, seed) = Seed::from_line(line).with_context(place)?;
        if seeds.insert(run.clone(), seed).is_some() {
            bail!("{}: there is a seed for run {run} already", place());
        }
    }
    Ok(seeds)
}

enum Seeds {
    One(Seed),
    ByRun(HashMap<RunId<'static>, Seed>),
}

struct Encoding<'a> {
    name: String,
    args: &'a Args,
    seeds: Seeds,
    output: Output,
    /// The runs in order of their first line; just one without `--multi`.
    streams: Vec<Stream>,
    by_run: HashMap<RunId<'static>, usize>,
    /// The run of the event before.
    current: usize,
    last_line: u64,
    exit: Exit,
    limits: Limits,
}

impl Encoding<'_> {
    fn all<R: Read>(&mut self, mut lines: Lines<R>) -> anyhow::Result<()> {
        'reading: loop {
            while let Some(line) = lines.buffered() {
                self.last_line = line.number;
                if !line.is_blank() && !self.line(line)? {
                    break 'reading;
                }
            }
            self.output.flush()?;
            match lines.fill() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.say(&format!("bounds: {error}"));
                    break;
                }
                Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.name)),
            }
        }
        self.finish()
    }

    /// Takes one line; false if nothing after it can be shown.
    fn line(&mut self, line: Line<'_>) -> anyhow::Result<bool> {
        match decode_line(line.bytes, &self.limits) {
            Ok(event) => {
                let at = self.stream_of(&event)?;
                let (Some(stream), Some(out)) = (self.streams.get_mut(at), self.output.buffer(at)) else {
                    return Ok(true);
                };
                let stop = stream.event(&event, line, out);
                self.settle(at, line.number, stop)
            }
            Err(error) => self.not_an_event(line, &error),
        }
    }

    /// The stream an event belongs to, a new one if it is the first of its run.
    fn stream_of(&mut self, event: &Event<'_>) -> anyhow::Result<usize> {
        if let Some(current) = self.streams.get(self.current) {
            if !self.args.multi || *current.run_id() == event.run_id {
                return Ok(self.current);
            }
            if let Some(&at) = self.by_run.get(event.run_id.as_str()) {
                self.current = at;
                return Ok(at);
            }
        }
        let run = event.run_id.clone().into_owned();
        let none = Seed::new();
        let seed = match &self.seeds {
            Seeds::One(seed) => seed,
            Seeds::ByRun(seeds) => seeds.get(&run).unwrap_or(&none),
        };
        let thread = match self.args.thread {
            ThreadKind::Durable => Thread::Durable,
            ThreadKind::Ephemeral => Thread::Ephemeral,
        };
        let validator = (!self.args.no_validate)
            .then(|| Validator::new(Boundary::Commit, thread, self.limits.clone()).offline());
        self.output.open(&run)?;
        self.streams.push(Stream::new(
            run.clone(),
            self.args.to.encoder_for(seed, &self.options()),
            validator,
        ));
        self.current = self.streams.len() - 1;
        self.by_run.insert(run, self.current);
        Ok(self.current)
    }

    fn options(&self) -> Options {
        let options = Options::new().agui_version(self.args.agui_version.as_deref().unwrap_or_default());
        Options { sdk: self.args.sdk, ..options }
    }

    /// Acts on what became of an event; false if nothing after it can be shown.
    fn settle(&mut self, at: usize, line: u64, stop: Option<Stop>) -> anyhow::Result<bool> {
        match stop {
            None => {
                self.output.grown(at)?;
                Ok(true)
            }
            Some(Stop::Ended) => {
                self.output.ended(at)?;
                Ok(true)
            }
            Some(Stop::Violation(violation)) => {
                let rule = violation.rule();
                self.say(&format!("line {line}: {}: {violation}", rule.id()));
                self.output.ended(at)?;
                Ok(self.args.multi)
            }
            Some(Stop::Before) => Ok(self.args.multi),
        }
    }

    /// A line that is no event ends its run where the run can be told, and everything where it cannot.
    fn not_an_event(&mut self, line: Line<'_>, error: &DecodeError) -> anyhow::Result<bool> {
        self.say(&format!("line {}: {}: {error}", line.number, error.check()));
        if !self.args.multi {
            return Ok(false);
        }
        let value: Option<serde_json::Value> = serde_json::from_slice(line.bytes).ok();
        let run = value.as_ref().and_then(|value| value.get("run_id")?.as_str());
        let Some(&at) = run.and_then(|run| self.by_run.get(run)) else { return Ok(false) };
        if let Some(stream) = self.streams.get_mut(at) {
            stream.stop();
        }
        self.output.ended(at)?;
        Ok(true)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.output.flush()?;
        let open: Vec<String> = self
            .streams
            .iter()
            .filter_map(|stream| {
                let violation = stream.finish()?;
                let rule = violation.rule();
                let place =
                    if self.args.multi { format!("run {}: ", stream.run_id()) } else { String::new() };
                Some(format!("{place}end of input: {}: {violation}", rule.id()))
            })
            .collect();
        open.iter().for_each(|text| self.say(text));
        self.output.close()
    }

    /// Names a finding on stderr.
    fn say(&mut self, text: &str) {
        self.exit = Exit::Findings;
        // What was accepted stands before the reason why nothing follows.
        let _reported_at_the_end = self.output.flush();
        let text = format!("causeway encode: {}: {text}", self.name);
        let _nobody_listens = writeln!(io::stderr(), "{}", escaped(&text));
    }
}
