//! `causeway audit verify`: whether an audit log is as it was written.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_engine::audit::{self, Anchor};
use clap::Subcommand;

use crate::exit::Exit;
use crate::terminal::escaped;

/// Options of `audit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow the chain of hashes from line to line and file to file: names the first line that was changed, left
    /// out or moved. What was cut off the end is seen only against an anchor kept elsewhere.
    #[command(after_help = "Example:\n  causeway audit verify --data data\n\n\
The gateway logs `head=SEQ:HASH` when it opens, closes and rotates the log, and the metric causeway_audit_head_sequence is its SEQ.\n\
Exit status: 0 whole, 1 broken, 2 it cannot be read.")]
    Verify {
        /// The data directory: all files of its log, from the first line there ever was
        #[arg(long, value_name = "DIR", conflicts_with = "files", required_unless_present = "files")]
        data: Option<PathBuf>,
        /// Files of a log, oldest first; the first may begin anywhere in the chain
        files: Vec<PathBuf>,
        /// A line that must be in the chain, as SEQ:HASH
        #[arg(long = "anchor", value_name = "SEQ:HASH", value_parser = anchor)]
        anchors: Vec<Anchor>,
    },
}

fn anchor(text: &str) -> Result<Anchor, String> {
    Anchor::parse(text).ok_or_else(|| "write SEQ:HASH, as the gateway logs it".to_owned())
}

/// Does it.
///
/// # Errors
/// A file cannot be read.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let Command::Verify { data, files, anchors } = &args.command;
    let (files, whole) = match data {
        Some(directory) => (of(directory)?, true),
        None => (files.clone(), false),
    };
    let mut out = std::io::stdout().lock();
    match audit::verify(&files, whole, anchors).context("cannot read the log")? {
        Ok(report) => {
            if report.from.sequence > 0 {
                writeln!(out, "begins behind line {}, which was not looked at", report.from)?;
            }
            writeln!(out, "whole: {} lines, head {}", report.lines, report.head)?;
            Ok(Exit::Clean)
        }
        Err(broken) => {
            writeln!(out, "{}", escaped(&broken.to_string()))?;
            Ok(Exit::Findings)
        }
    }
}

fn of(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = audit::files(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    anyhow::ensure!(!files.is_empty(), "{} holds no audit log", directory.display());
    Ok(files)
}
