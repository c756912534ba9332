//! `causeway conform`: does a worker, an endpoint or a recording keep the rules?
//!
//! Refuses to guess: what a worker does not offer is skipped with the reason, and counted apart from what it passes. A check
//! that fails names the rule that was broken: `R01`…`R15` or a check of the contract, `W0`…`W9` of the worker protocol.

mod bench;
mod launch;
mod play;
mod protocol;
mod raw;
pub mod recording;
mod report;
mod runs;
mod scenario;
mod tools;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use causeway_adapter::registry;

use self::bench::Bench;
use self::launch::Launch;
use self::report::Report;
use self::scenario::Scenario;
use crate::exit::Exit;

/// Options of `conform`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  causeway conform --command 'python3 worker.py --db {data_dir}/{conversation}.sqlite'
  causeway conform --command './my-worker' --scenario my-worker.toml --format junit
  causeway conform --config causeway.toml --agent helper
  causeway conform --url http://127.0.0.1:8080/turns --harness canonical
  causeway conform --recording run.jsonl --from deepagents")]
pub struct Args {
    /// The worker's command, as in `driver.process.command`: {data_dir} and {conversation} are filled in.
    #[arg(long, value_name = "COMMAND", group = "subject")]
    command: Option<String>,

    /// The settings of a gateway, one of whose agents is put to the test (whatever its driver).
    #[arg(long, value_name = "FILE", group = "subject", requires = "agent")]
    config: Option<PathBuf>,

    /// The agent of those settings.
    #[arg(long, value_name = "ID", requires = "config")]
    agent: Option<String>,

    /// An HTTP endpoint that answers in the lines of worker protocol 1, or in the stream of `--harness`.
    #[arg(long, value_name = "URL", group = "subject")]
    url: Option<String>,

    /// A recorded native stream.
    #[arg(long, value_name = "FILE", group = "subject", requires = "from")]
    recording: Option<PathBuf>,

    /// The harness of the recording.
    #[arg(long, value_name = "HARNESS", requires = "recording")]
    from: Option<String>,

    /// What the worker's lines hold; the harness that its `hello` names where absent.
    #[arg(long, value_name = "HARNESS")]
    harness: Option<String>,

    /// What to say to the worker to see what (TOML); without it `kit:text`, `kit:tool` and so on.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,

    /// A variable for the worker's environment, which is otherwise empty but for PATH, HOME and LANG.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_env)]
    env: Vec<(String, String)>,

    /// How long each answer of the worker is waited for.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,

    /// How long it may take to leave a turn or to leave at all.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    grace: Duration,

    /// Only checks whose id begins so; may be given several times.
    #[arg(long, value_name = "ID")]
    only: Vec<String>,

    /// Form of the verdicts.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Junit,
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("NAME=VALUE is wanted".to_owned()),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let found = causeway_server::config::units::duration(text);
    found.ok_or_else(|| "a duration such as 500ms, 5s or 2m is wanted".to_owned())
}

/// Puts it to the test.
///
/// # Errors
/// There is nothing to test, a file cannot be read, the harness is not known, or the worker cannot be started at all.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new(args.only.clone());
    let scenario = args.scenario.as_deref().map_or_else(|| Ok(Scenario::default()), Scenario::read)?;
    if let (Some(file), Some(from)) = (&args.recording, &args.from) {
        let harness = harness(from)?;
        let lines = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let sidecar = std::fs::read(file.with_extension("stdin.jsonl")).unwrap_or_default();
        recording::check_all(harness, &lines, &sidecar, &mut report);
    } else if let Some(command) = &args.command {
        let directory = tempfile::tempdir().context("no directory for the worker's state")?;
        let env: BTreeMap<String, String> = args.env.iter().cloned().collect();
        let launch = Launch::new(command, env, directory.path(), args.timeout, args.grace)?;
        let hello = launch.hello()?;
        let name = args.harness.clone().or_else(|| scenario.harness.clone()).unwrap_or(hello.harness);
        let harness = harness(&name)?;
        protocol::hold(&launch, harness, &scenario, &mut report);
        let bench = Bench::of_command(&launch, harness.id, hello.restore, &scenario);
        runs::check_all(&bench, &mut report)?;
    } else if let Some(url) = &args.url {
        let name = args.harness.clone().or_else(|| scenario.harness.clone());
        let harness = harness(name.as_deref().unwrap_or("canonical"))?;
        let directory = tempfile::tempdir().context("no directory for the engine")?;
        let bench = Bench::of_url(url, harness.id, directory.path(), args.timeout, args.grace, &scenario)?;
        runs::check_all(&bench, &mut report)?;
    } else if let (Some(file), Some(agent)) = (&args.config, &args.agent) {
        let bench = Bench::of_config(file, agent, args.timeout, args.grace, &scenario)?;
        runs::check_all(&bench, &mut report)?;
    } else {
        bail!("nothing to test: give --command, --url, --config with --agent, or --recording with --from");
    }
    let mut out = std::io::stdout().lock();
    match args.format {
        Format::Text => report.write_text(&mut out)?,
        Format::Json => report.write_json(&mut out)?,
        Format::Junit => report.write_junit(&mut out)?,
    }
    out.flush()?;
    if report.is_empty() {
        bail!("no check begins with {}", args.only.join(" or "));
    }
    Ok(if report.failures() == 0 { Exit::Clean } else { Exit::Findings })
}

fn harness(name: &str) -> anyhow::Result<&'static registry::Harness> {
    let known = || registry::HARNESSES.iter().map(|harness| harness.id).collect::<Vec<_>>().join(", ");
    registry::find(name).with_context(|| format!("no adapter for `{name}` in this build; known: {}", known()))
}
