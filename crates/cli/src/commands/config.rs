//! `causeway config check|show`: whether the settings are valid, and what holds after file, environment and flags.

pub mod ground;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_server::config::{Config, Finding, Overrides};
use clap::Subcommand;

use crate::exit::Exit;
use crate::terminal::escaped;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "causeway.toml";

/// Options of `config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say whether a configuration is valid: unknown keys, bad values, secrets in plain text, harnesses without an
    /// adapter, recordings and programs that are not there.
    #[command(after_help = "Example:\n  causeway config check causeway.toml")]
    Check {
        /// The file; `-` is stdin [default: causeway.toml]
        file: Option<PathBuf>,
    },
    /// Print what holds after file, environment and defaults, as TOML. Secrets stay references.
    #[command(
        after_help = "Example:\n  CAUSEWAY_SERVER__LISTEN=127.0.0.1:9000 causeway config show --config causeway.toml"
    )]
    Show {
        /// The file; `-` is stdin [default: causeway.toml, where there is one]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Does it.
///
/// # Errors
/// The file cannot be read, or stdout cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Check { file } => {
            let file = file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
            match read(&file)? {
                Ok(config) => {
                    let ground = ground::survey(&config);
                    for finding in &ground.findings {
                        say(&told(&file, finding))?;
                    }
                    for note in &ground.notes {
                        say(&format!("{} (a note)", told(&file, note)))?;
                    }
                    if !ground.findings.is_empty() {
                        return Ok(Exit::Findings);
                    }
                    let count = config.agents.len();
                    let agents = if count == 1 { "agent" } else { "agents" };
                    say(&format!("{}: valid, {count} {agents}", file.display()))?;
                    Ok(Exit::Clean)
                }
                Err(findings) => {
                    for finding in &findings {
                        say(&told(&file, finding))?;
                    }
                    Ok(Exit::Findings)
                }
            }
        }
        Command::Show { config } => {
            let config = match load(config.as_deref(), &Overrides::default())? {
                Loaded::File(config) | Loaded::Defaults(config) => config,
            };
            std::io::stdout().lock().write_all(config.show().as_bytes())?;
            Ok(Exit::Clean)
        }
    }
}

/// Settings, and where they are from.
pub enum Loaded {
    /// This file.
    File(Config),
    /// No file was named, and there is no `causeway.toml` here.
    Defaults(Config),
}

/// The settings of the named file, or of `causeway.toml`, or the defaults; environment and flags over them.
///
/// # Errors
/// The file cannot be read, or any finding.
pub fn load(file: Option<&Path>, flags: &Overrides) -> anyhow::Result<Loaded> {
    let default = Path::new(DEFAULT_FILE);
    let file = match file {
        Some(file) => Some(file),
        None => default.exists().then_some(default),
    };
    let text = file.map(read_text).transpose()?.unwrap_or_default();
    let config = Config::load(&text, environment(), flags).map_err(|findings| {
        let place = file.unwrap_or(Path::new("settings"));
        let told: Vec<String> = findings.iter().map(|finding| told(place, finding)).collect();
        anyhow::anyhow!("{}", told.join("; "))
    })?;
    Ok(match file {
        Some(_) => Loaded::File(config),
        None => Loaded::Defaults(config),
    })
}

fn read(file: &Path) -> anyhow::Result<Result<Config, Vec<Finding>>> {
    Ok(Config::load(&read_text(file)?, environment(), &Overrides::default()))
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).context("cannot read stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Variables that are not UTF-8 are no settings of ours.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// A finding, with its file.
pub fn told(file: &Path, finding: &Finding) -> String {
    format!("{}: {finding}", file.display())
}

fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", escaped(line))?;
    Ok(())
}
