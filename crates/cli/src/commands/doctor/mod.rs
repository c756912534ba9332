//! `causeway doctor`: whether a gateway could run with these settings on this machine, or how the one that runs does.
//!
//! Refuses to change anything, and to find something without saying what to do about it. Secrets are looked for, never
//! shown.

mod agents;
mod place;
mod wire;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use causeway_server::config::{Config, Overrides, StoreKind};
use clap::ValueEnum;
use serde::Serialize;

use crate::commands::config::{Loaded, ground, load};
use crate::exit::Exit;
use crate::terminal::escaped;

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway doctor --config causeway.toml\n\n\
Exit status: 0 all is well (notes included), 1 something is wrong, 2 the settings cannot be read.")]
pub struct Args {
    /// The settings [default: causeway.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory, instead of that of the settings
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// The address, instead of that of the settings
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// For people, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How it is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// A line for each check.
    Text,
    /// One object.
    Json,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Check {
    /// A word for what was looked at.
    check: &'static str,
    /// How it is.
    level: Level,
    /// What was found.
    what: String,
    /// What to do about it; absent where it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Well.
    Ok,
    /// Not wrong, but worth a look.
    Note,
    /// A gateway would not do what it should.
    Fault,
}

impl Check {
    fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, what: what.into(), remedy: None }
    }

    fn note(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Note, what: what.into(), remedy: Some(remedy.into()) }
    }

    fn fault(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Fault, what: what.into(), remedy: Some(remedy.into()) }
    }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    commit: &'static str,
    faults: usize,
    notes: usize,
    checks: Vec<Check>,
}

/// Looks.
///
/// # Errors
/// The settings cannot be read or are not valid, or stdout cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let flags = Overrides { listen: args.listen.clone(), data: args.data.clone() };
    let (config, mut checks) = match load(args.config.as_deref(), &flags)? {
        Loaded::File(config) => (config, vec![Check::ok("config", "the settings are valid")]),
        Loaded::Defaults(config) => {
            let what = "no settings file: defaults, environment and flags hold";
            (config, vec![Check::note("config", what, "name one with --config, or write causeway.toml")])
        }
    };
    checks.extend(examine(&config));
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let (faults, notes) = (count(Level::Fault), count(Level::Note));
    let mut out = std::io::stdout().lock();
    match args.format {
        Format::Json => {
            let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("CAUSEWAY_COMMIT"));
            let report = Report { version, commit, faults, notes, checks };
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        }
        Format::Text => {
            for Check { check, level, what, remedy } in &checks {
                let word = match level {
                    Level::Ok => "ok   ",
                    Level::Note => "note ",
                    Level::Fault => "FAULT",
                };
                let remedy = remedy.as_ref().map(|remedy| format!(" -> {remedy}")).unwrap_or_default();
                writeln!(out, "{word}  {check}: {}{}", escaped(what), escaped(&remedy))?;
            }
            writeln!(out, "{faults} faults, {notes} notes")?;
        }
    }
    Ok(if faults == 0 { Exit::Clean } else { Exit::Findings })
}

fn examine(config: &Config) -> Vec<Check> {
    let commit = format!("causeway {} (commit {})", env!("CARGO_PKG_VERSION"), env!("CAUSEWAY_COMMIT"));
    let mut checks = vec![Check::ok("version", commit)];
    let found = ground::survey(config);
    checks.extend(found.findings.iter().map(|finding| {
        Check::fault(
            "agents",
            format!("{}: {}", finding.path, finding.message),
            "mend the settings, or put it there",
        )
    }));
    checks.extend(found.notes.iter().map(|finding| {
        Check::note("agents", format!("{}: {}", finding.path, finding.message), "run that script")
    }));
    if found.findings.is_empty() {
        checks.push(Check::ok("agents", format!("{} agents have what they need", config.agents.len())));
    }
    agents::examine(config, &mut checks);
    let mut newest = None;
    let mut in_use = false;
    match config.store.kind {
        StoreKind::Sqlite => in_use = place::examine(&config.store.path, &mut checks, &mut newest),
        StoreKind::Memory => {
            let what = "the store is in memory: nothing outlives the gateway";
            checks.push(Check::note("data", what, "use kind = \"sqlite\""));
        }
        StoreKind::Postgres => {
            let what = "the store is PostgreSQL, which is not looked at here";
            checks.push(Check::note(
                "data",
                what,
                "see docs/shared-mode.md; /readyz of a gateway says how it is",
            ));
        }
    }
    clock(newest, &mut checks);
    wire::examine(&config.server, in_use, &mut checks);
    checks
}

/// No clock is before the time at which this was written; a log from the future was written under another one.
fn clock(newest: Option<i64>, checks: &mut Vec<Check>) {
    const WRITTEN: u64 = 1_780_000_000;
    const AHEAD_MILLIS: i64 = 5 * 60 * 1000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let remedy = "set the clock (timedatectl, chrony): expiries, retention and timestamps go by it";
    if now.as_secs() < WRITTEN {
        checks.push(Check::fault("clock", "the clock is in the past", remedy));
    } else if newest.is_some_and(|newest| newest > millis.saturating_add(AHEAD_MILLIS)) {
        checks.push(Check::fault("clock", "the newest run began more than five minutes from now", remedy));
    } else {
        checks.push(Check::ok("clock", "plausible"));
    }
}
