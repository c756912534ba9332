//! `causeway runs list|show|tail|export`: stored runs, of a gateway (`--url`) or of a data directory (`--data`).
//!
//! Refuses to change anything: a data directory is read only, also while a gateway holds it.

mod print;
mod source;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use crate::commands::credential;
use crate::exit::Exit;
use crate::terminal::{escaped, escaped_json};
use source::{List, Source};

/// Options of `runs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Where the runs are.
#[derive(Debug, clap::Args)]
struct From {
    /// A gateway
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8787",
        global = true,
        conflicts_with = "data"
    )]
    url: String,
    /// A data directory instead; it is read only, also while a gateway uses it
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<std::path::PathBuf>,
    /// Whose runs, with --data
    #[arg(long, value_name = "NAME", default_value = "local", global = true, requires = "data")]
    owner: String,
    #[command(flatten)]
    credential: credential::Args,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// JSON: one object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List runs, newest first.
    #[command(after_help = "Example:\n  causeway runs list --data data --status error --limit 5")]
    List {
        #[command(flatten)]
        from: From,
        #[command(flatten)]
        filter: Filter,
        /// Form of the answer
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Show a run.
    #[command(
        after_help = "Example:\n  causeway runs show 0198f2c0-… --url http://127.0.0.1:8787 --token-file token"
    )]
    Show {
        /// The run
        run_id: String,
        #[command(flatten)]
        from: From,
        /// Form of the answer
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Print the events of a run, and go on until it ends.
    #[command(after_help = "Example:\n  causeway runs tail 0198f2c0-… --after 12")]
    Tail {
        /// The run
        run_id: String,
        #[command(flatten)]
        from: From,
        /// Only events after this number
        #[arg(long, value_name = "N")]
        after: Option<u64>,
        /// Form of the events; `json` is canonical JSONL
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Print the stored events of a run as canonical JSONL, for `check` and `encode`.
    #[command(
        after_help = "Example:\n  causeway runs export 0198f2c0-… --data data | causeway encode --to agui"
    )]
    Export {
        /// The run
        run_id: String,
        #[command(flatten)]
        from: From,
    },
}

/// Which runs to list.
#[derive(Debug, clap::Args)]
struct Filter {
    /// running, finished, interrupted, cancelled, error or uncertain
    #[arg(long)]
    status: Option<String>,
    /// Of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Of this conversation
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// Created at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Created before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most so many, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = limit, allow_negative_numbers = true)]
    limit: usize,
}

/// The most runs of one list, as with `GET /api/v1/runs`.
const MAX_LIMIT: usize = 500;

fn limit(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_LIMIT).contains(number));
    number.ok_or_else(|| format!("must be a whole number from 1 to {MAX_LIMIT}"))
}

/// How long `tail` asks a gateway to hold its answer back until there is something new.
const LONG_POLL: Duration = Duration::from_secs(20);

/// Does it.
///
/// # Errors
/// No such run, or the gateway or the directory cannot be read.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List { from, filter, format } => list(&mut open(from)?, filter, *format)?,
        Command::Show { run_id, from, format } => {
            let run = open(from)?.show(run_id)?;
            line(&match format {
                Format::Text => print::run(&run)?,
                Format::Json => shown(&run),
            })?;
        }
        Command::Tail { run_id, from, after, format } => {
            let mut from = open(from)?;
            events(&mut *from, run_id, *after, LONG_POLL, |event| match format {
                Format::Text => line(&print::event(event)?),
                Format::Json => line(&shown(event)),
            })?;
        }
        Command::Export { run_id, from } => {
            let mut from = open(from)?;
            events(&mut *from, run_id, None, Duration::ZERO, |event| line(&shown(event)))?;
        }
    }
    Ok(Exit::Clean)
}

fn open(from: &From) -> anyhow::Result<Box<dyn Source>> {
    match &from.data {
        Some(dir) => Ok(Box::new(source::Directory::open(dir, &from.owner)?)),
        None => Ok(Box::new(source::Gateway::new(&from.url, from.credential.credential(&from.url)?)?)),
    }
}

fn list(from: &mut Box<dyn Source>, filter: &Filter, format: Format) -> anyhow::Result<()> {
    let mut cursor = None;
    let mut left = filter.limit;
    while left > 0 {
        let page = from.list(&List {
            status: filter.status.as_deref(),
            agent_id: filter.agent.as_deref(),
            conversation_id: filter.conversation.as_deref(),
            since: filter.since.as_deref(),
            until: filter.until.as_deref(),
            limit: left,
            cursor: cursor.as_deref(),
        })?;
        // Not before there is an answer: a failure leaves no empty table behind.
        if format == Format::Text && cursor.is_none() {
            line(&print::run_heads())?;
        }
        left = left.saturating_sub(page.runs.len());
        for run in &page.runs {
            line(&match format {
                Format::Text => print::run_line(run)?,
                Format::Json => shown(run),
            })?;
        }
        match page.next {
            Some(next) if !page.runs.is_empty() => cursor = Some(next),
            _ => break,
        }
    }
    Ok(())
}

fn events(
    from: &mut dyn Source,
    run_id: &str,
    mut after: Option<u64>,
    wait: Duration,
    mut each: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let page = from.events(run_id, after, wait)?;
        for event in &page.events {
            each(event)?;
        }
        after = page.next_after;
        // Without waiting, what is there now is all: a run that goes on is exported as far as it is.
        if page.done || (wait.is_zero() && page.events.is_empty()) {
            return Ok(());
        }
    }
}

/// The exact text for a file or a pipe; for a terminal, control characters as JSON escapes.
fn shown(json: &str) -> String {
    if std::io::stdout().is_terminal() { escaped_json(json).into_owned() } else { json.to_owned() }
}

fn line(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?; // `tail` is read while it goes on
    Ok(())
}

/// A value for a person: bounded and without anything that steers a terminal.
fn brief(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    escaped(&short).into_owned()
}
