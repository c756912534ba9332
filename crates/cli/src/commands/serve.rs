//! `causeway serve`: the gateway in the foreground, until SIGTERM or SIGINT; SIGHUP reads the settings again.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_server::config::{Config, Overrides};
use causeway_server::gateway::Gateway;
use causeway_server::reload::Reloader;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::commands::config::ground::survey;
use crate::commands::config::{DEFAULT_FILE, Loaded, load, told};
use crate::exit::Exit;

/// The agent of a gateway that was given no configuration.
const TOUR: &str = "[agents.tour]\nharness = \"deepagents\"\n\
                    driver.recording = { file = \"examples/recordings/subagents.jsonl\", pace = \"recorded\" }\n";
/// Where its recording is, seen from a checkout.
const TOUR_FILE: &str = "examples/recordings/subagents.jsonl";

/// Options of `serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  causeway serve --config causeway.example.toml --listen 127.0.0.1:0 --data /tmp/causeway\n\n\
The first line on stdout is `listening on http://ADDRESS`. SIGTERM and SIGINT end it in good order, a second one at once. SIGHUP reads settings and secrets again: agents, tokens and \
keys are replaced, and no run ends for it."
)]
pub struct Args {
    /// The settings [default: causeway.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The data directory
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
}

/// Serves.
///
/// # Errors
/// The settings are not valid, or store, address or workers cannot be had.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let flags = Overrides { listen: args.listen.clone(), data: args.data.clone() };
    let mut sources = Sources { file: args.config.clone(), flags };
    let (config, hint) = match load(sources.file.as_deref(), &sources.flags)? {
        Loaded::File(config) => {
            // Should it be gone when it is read again, that is a fault and not the wish to have no agents.
            sources.file.get_or_insert_with(|| PathBuf::from(DEFAULT_FILE));
            (config, None)
        }
        Loaded::Defaults(config) => first_steps(config)?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(serve(&config, hint, sources))?;
    // A blocking read of a broken disk must not hold the process back.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    Ok(Exit::Clean)
}

/// Where the settings come from.
#[derive(Clone)]
struct Sources {
    file: Option<PathBuf>,
    flags: Overrides,
}

async fn serve(config: &Config, hint: Option<Hint>, sources: Sources) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let gateway = Gateway::open(config).await?;
    let (left, mut terminal_left) = oneshot::channel();
    let reloading = tokio::spawn(reload(gateway.reloader(), sources, hangup, left));
    {
        let mut out = std::io::stdout().lock();
        // Whoever started us without a stdout wants no line.
        let _unread = writeln!(out, "listening on {}", gateway.url()).and_then(|()| out.flush());
    }
    let agents: Vec<&str> = config.agents.keys().map(String::as_str).collect();
    tracing::info!(url = gateway.url(), agents = agents.join(", "), "serving");
    match hint {
        Some(Hint::Tour) => tracing::warn!(
            "no configuration: the agent `tour` plays the recording of a real run. Try it: curl -N -H 'content-type: \
             application/json' {}/api/v1/chat/stream/start -d '{{\"agent_id\":\"tour\",\"conversation_id\":\"c1\",\
             \"message\":\"hello\"}}'. For agents of your own start from causeway.example.toml",
            gateway.url()
        ),
        Some(Hint::Nothing) => tracing::warn!(
            "no configuration and no agents: write causeway.toml (causeway.example.toml shows every setting), or name a \
             file with --config"
        ),
        None => {}
    }
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            Ok(()) = &mut terminal_left => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::warn!("asked twice: leaving at once; recovery closes what is open");
            std::process::exit(130);
        });
    };
    gateway.serve(stop).await;
    reloading.abort();
    Ok(())
}

/// Reads the settings again whenever it is asked to. The signal has an older meaning: whoever started us at a terminal and
/// closed it wants us gone, and `left` says so.
async fn reload(reloader: Reloader, sources: Sources, mut hangup: Signal, left: oneshot::Sender<()>) {
    let at_terminal = std::io::stdin().is_terminal();
    while hangup.recv().await.is_some() {
        if at_terminal && !std::io::stdin().is_terminal() {
            tracing::info!("the terminal was closed");
            let _stopping = left.send(());
            return;
        }
        tracing::info!("asked to reload the configuration");
        let sources = sources.clone();
        let read = tokio::task::spawn_blocking(move || sources.again().map_err(|error| format!("{error:#}")));
        let read = read.await.unwrap_or_else(|broken| Err(broken.to_string()));
        // Told where it was done.
        let _outcome = reloader.reload(read).await;
    }
}

impl Sources {
    /// The settings as they are now, with what they need around them.
    fn again(&self) -> anyhow::Result<Config> {
        let file = self.file.as_deref();
        if file == Some(Path::new("-")) {
            anyhow::bail!("the settings came from stdin and cannot be read again; name a file with --config");
        }
        let config = match load(file, &self.flags)? {
            Loaded::File(config) => config,
            Loaded::Defaults(config) => first_steps(config)?.0,
        };
        let findings = survey(&config).findings;
        if !findings.is_empty() {
            let place = file.unwrap_or(Path::new("settings"));
            let told: Vec<String> = findings.iter().map(|finding| told(place, finding)).collect();
            anyhow::bail!("{}", told.join("; "));
        }
        Ok(config)
    }
}

/// What to tell somebody who gave no configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hint {
    /// There is something to try.
    Tour,
    /// There is not.
    Nothing,
}

/// What a gateway does that was told nothing: play a recording where there is one.
fn first_steps(config: Config) -> anyhow::Result<(Config, Option<Hint>)> {
    if !config.agents.is_empty() {
        return Ok((config, None)); // from the environment
    }
    if !Path::new(TOUR_FILE).exists() {
        return Ok((config, Some(Hint::Nothing)));
    }
    let tour = Config::load(TOUR, [], &Overrides::default())
        .map_err(|findings| anyhow::anyhow!("the built-in agent: {findings:?}"))?;
    Ok((Config { agents: tour.agents, ..config }, Some(Hint::Tour)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_agent_is_a_valid_setting() {
        let config = Config::load(TOUR, [], &Overrides::default()).unwrap();
        assert_eq!(config.agents.keys().collect::<Vec<_>>(), ["tour"]);
        assert!(TOUR.contains(TOUR_FILE));
    }

    #[test]
    fn what_cannot_be_read_again_is_no_wish_to_have_no_agents() {
        let again = |file: &str| {
            let sources = Sources { file: Some(PathBuf::from(file)), flags: Overrides::default() };
            format!("{:#}", sources.again().unwrap_err())
        };
        assert!(again("-").contains("stdin"));
        assert!(again("/nowhere/causeway.toml").contains("cannot read /nowhere/causeway.toml"));
    }
}
