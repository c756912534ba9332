//! `causeway check`: are these streams legal?
//!
//! Refuses to change or repair anything; reading, judging (`lifecycle::check`) and printing are apart.

mod json;
mod junit;
mod lines;
mod sarif;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_lifecycle::check::{Checker, Options, Report, Runs};
use causeway_lifecycle::lint::Lint;
use causeway_lifecycle::validator::{Boundary, Thread};
use clap::ValueEnum;

use crate::commands::check::lines::Line;
use crate::exit::Exit;

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  causeway check run.jsonl\n  causeway check --multi --format json - < log.jsonl\n  \
    causeway check --deny-warnings --off L08 runs/*.jsonl\n\n`causeway explain R07` explains a rule."
)]
pub struct Args {
    /// Files of canonical JSONL; `-` or none is standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Lines of several runs may stand in a file, in sequence or interleaved.
    #[arg(long)]
    multi: bool,

    /// Which boundary the events passed.
    #[arg(long, value_enum, default_value_t = BoundaryArg::Commit)]
    boundary: BoundaryArg,

    /// Whether the thread is durable (R13).
    #[arg(long, value_enum, default_value_t = ThreadArg::Durable)]
    thread: ThreadArg,

    /// Form of the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Warnings count as findings.
    #[arg(long)]
    deny_warnings: bool,

    /// Silence a lint (L01 to L09); may be repeated.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = lint)]
    off: Vec<Lint>,

    /// Print one line per rule with a count instead of the findings (text and json only).
    #[arg(long)]
    group: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BoundaryArg {
    /// What stands in the log.
    Commit,
    /// What an adapter yields.
    Yield,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ThreadArg {
    /// Its state outlives the run.
    Durable,
    /// It does not.
    Ephemeral,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object a file (or a run), one a line.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for CI.
    Junit,
}

/// The reports of one file.
struct Checked {
    /// The name as it was given; `-` for standard input.
    file: String,
    reports: Vec<Report>,
}

/// Checks every file.
///
/// # Errors
/// A file cannot be read, or the result cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.group && !matches!(args.format, Format::Text | Format::Json) {
        anyhow::bail!("--group goes with --format text or json only");
    }
    let stdin = [PathBuf::from("-")];
    let files: &[PathBuf] = if args.files.is_empty() { &stdin } else { &args.files };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut all = Vec::new();
    let mut exit = Exit::Clean;
    for path in files {
        let checked = check_file(path, args)?;
        if checked.reports.iter().any(|report| is_finding(report, args)) {
            exit = Exit::Findings;
        }
        match (args.format, args.group) {
            (Format::Text, false) => text::write(&mut out, &checked, args.multi)?,
            (Format::Text, true) => {} // one table of all files, at the end
            (Format::Json, false) => json::write(&mut out, &checked, args.multi)?,
            (Format::Json, true) => json::write_groups(&mut out, &checked, args.multi)?,
            (Format::Sarif | Format::Junit, _) => {} // one document of all files, at the end
        }
        if args.group || matches!(args.format, Format::Sarif | Format::Junit) {
            all.push(checked);
        }
    }
    match args.format {
        Format::Text if args.group => text::write_groups(&mut out, &all)?,
        Format::Sarif => sarif::write(&mut out, &all)?,
        Format::Junit => junit::write(&mut out, &all, args.deny_warnings)?,
        Format::Text | Format::Json => {}
    }
    out.flush()?;
    Ok(exit)
}

fn is_finding(report: &Report, args: &Args) -> bool {
    !report.is_valid() || (args.deny_warnings && report.has_warnings())
}

fn check_file(path: &Path, args: &Args) -> anyhow::Result<Checked> {
    let options = Options {
        boundary: match args.boundary {
            BoundaryArg::Commit => Boundary::Commit,
            BoundaryArg::Yield => Boundary::Yield,
        },
        thread: match args.thread {
            ThreadArg::Durable => Thread::Durable,
            ThreadArg::Ephemeral => Thread::Ephemeral,
        },
        runs: if args.multi { Runs::Many } else { Runs::One },
        off: args.off.clone(),
        ..Options::default()
    };
    let mut checker = Checker::new(options);
    let file = path.to_string_lossy().into_owned();
    let each = |line: Line<'_>| match line {
        Line::Whole(line) => checker.line(line),
        Line::Oversized { start, bytes } => checker.oversized(start, bytes),
    };
    if file == "-" {
        lines::read(io::stdin().lock(), each).context("cannot read standard input")?;
    } else {
        let opened = std::fs::File::open(path).with_context(|| format!("cannot open {file}"))?;
        lines::read(opened, each).with_context(|| format!("cannot read {file}"))?;
    }
    Ok(Checked { file, reports: checker.finish() })
}

fn lint(text: &str) -> Result<Lint, String> {
    Lint::parse(&text.to_ascii_uppercase()).ok_or_else(|| "lints are L01 to L09".to_owned())
}
