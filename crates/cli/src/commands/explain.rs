//! `causeway explain RULE`: the rule, why, an accepted and a rejected stream.

use std::io::{self, Write};

use causeway_lifecycle::lint::Lint;
use causeway_lifecycle::rule::Verdict;

use crate::exit::Exit;
use crate::terminal::escaped_json;

/// Options of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway explain R07")]
pub struct Args {
    /// R01 to R15, envelope, payload, bounds, text, or L01 to L09; none lists them all.
    #[arg(value_name = "RULE", value_parser = page)]
    rule: Option<Page>,
}

/// What can be explained.
#[derive(Clone, Copy, Debug)]
enum Page {
    Verdict(Verdict),
    Lint(Lint),
}

/// Prints the page.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.rule {
        None => {
            for verdict in Verdict::all() {
                writeln!(out, "{:<9}{}", verdict.id(), verdict.title())?;
            }
            for lint in Lint::ALL {
                writeln!(out, "{:<9}{}", lint.id(), lint.title())?;
            }
        }
        Some(Page::Verdict(verdict)) => {
            writeln!(out, "{}: {}\n\n{}", verdict.id(), verdict.title(), verdict.explanation())?;
            stream(&mut out, "Accepted:", verdict.accepted())?;
            stream(&mut out, "Rejected:", verdict.rejected())?;
        }
        Some(Page::Lint(lint)) => {
            writeln!(out, "{} (a warning): {}\n\n{}", lint.id(), lint.title(), lint.explanation())?;
            stream(&mut out, "Accepted, with this warning:", lint.example())?;
        }
    }
    out.flush()?;
    Ok(Exit::Clean)
}

/// A stream, shortened where it is long.
fn stream(out: &mut impl Write, heading: &str, stream: &str) -> io::Result<()> {
    writeln!(out, "\n{heading}\n")?;
    let lines: Vec<&str> = stream.lines().collect();
    let cut = lines.len().saturating_sub(SHOWN_LINES);
    for (index, line) in lines.iter().enumerate() {
        match index {
            HEAD_LINES if cut > 0 => writeln!(out, "  … {cut} lines like these …")?,
            _ if cut > 0 && index > HEAD_LINES && index < HEAD_LINES + cut => {}
            _ => shortened(out, line)?,
        }
    }
    Ok(())
}

fn shortened(out: &mut impl Write, line: &str) -> io::Result<()> {
    let line = escaped_json(line);
    match line.char_indices().nth(SHOWN_CHARACTERS) {
        Some((at, _)) => writeln!(out, "  {}… ({} bytes)", line.get(..at).unwrap_or(""), line.len()),
        None => writeln!(out, "  {line}"),
    }
}

fn page(text: &str) -> Result<Page, String> {
    let verdict =
        Verdict::parse(&text.to_ascii_uppercase()).or_else(|| Verdict::parse(&text.to_ascii_lowercase()));
    let lint = || Lint::parse(&text.to_ascii_uppercase());
    verdict
        .map(Page::Verdict)
        .or_else(|| lint().map(Page::Lint))
        .ok_or_else(|| "rules are R01 to R15, envelope, payload, bounds, text, and L01 to L09".to_owned())
}

const HEAD_LINES: usize = 4;
const SHOWN_LINES: usize = 16;
const SHOWN_CHARACTERS: usize = 600;
