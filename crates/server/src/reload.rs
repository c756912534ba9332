//! The configuration of a running gateway, replaced: agents, tokens and keys, and who may use which agent.
//!
//! Refuses half a change: everything is read and checked before anything is replaced, and a fault leaves all as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_engine::audit::{Act, Action};
use causeway_engine::quota::Quotas;
use causeway_engine::{Engine, Reloaded};
use tokio::sync::Mutex;

use crate::auth::{Auth, Clock};
use crate::config::Config;
use crate::gateway::{OpenError, agents, settings_hash};
use crate::metrics::Metrics;

/// What replaces the configuration of a gateway.
pub struct Reloader {
    pub(crate) engine: Engine,
    pub(crate) auth: Arc<Auth>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    /// The configuration that holds.
    pub(crate) running: Mutex<Config>,
}

/// What a reload did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Applied {
    /// What became of the agents.
    pub agents: Reloaded,
    /// Settings that are told something else than what holds, by their keys: they need a restart.
    pub waiting: Vec<String>,
}

/// Why a configuration was not taken. Nothing was changed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It cannot be read, or is not valid.
    #[error("{0}")]
    Settings(String),
    /// Another way to say who calls. What the lists of the one say of agents means nothing under the other.
    #[error("auth.mode is `{running}` in this gateway and cannot become `{told}` before a restart")]
    Mode {
        /// The one that holds.
        running: &'static str,
        /// The one that was told.
        told: &'static str,
    },
    /// An agent, a token or a secret cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Reloader {
    /// Puts a configuration in place of the one that holds: agents, quotas, tokens, keys and lists. Runs that go on end under the agent
    /// that they began with; streams of tokens that are not listed any more end. What it did, or why it did nothing,
    /// stands in the log, the audit log and the metrics.
    ///
    /// # Errors
    /// [`Refused`]; `read` is that already where it could not be read.
    pub async fn reload(&self, read: Result<Config, String>) -> Result<Applied, Refused> {
        let mut running = self.running.lock().await;
        let outcome = match read {
            Ok(config) => self.change(&mut running, config).await,
            Err(what) => Err(Refused::Settings(what)),
        };
        match &outcome {
            Ok(applied) => self.tell(applied),
            Err(error) => tracing::error!(
                %error,
                "the configuration was not reloaded and the one from before holds: correct it, try it with \
                 `causeway config check`, and send SIGHUP again"
            ),
        }
        let word = if outcome.is_ok() { APPLIED } else { REFUSED };
        self.metrics.reloaded(word, outcome.is_ok().then(|| (self.clock)()));
        if let Some(audit) = self.engine.audit() {
            let changed = Act::new(Action::ConfigChanged).outcome(word).config(&settings_hash(&running));
            // What was changed is changed. The line is kept until it can be written.
            let _ = audit.record(changed).await;
        }
        outcome
    }

    async fn change(&self, running: &mut Config, config: Config) -> Result<Applied, Refused> {
        let (holds, told) = (running.auth.mode.as_str(), config.auth.mode.as_str());
        if holds != told {
            return Err(Refused::Mode { running: holds, told });
        }
        let checked = self.auth.check(&config.auth).await.map_err(OpenError::Auth)?;
        let prepared = self.engine.prepare(agents(&config)?).await.map_err(OpenError::Engine)?;
        let waiting = waiting(running, &config);
        let agents = prepared.apply(|| {
            self.auth.take(checked);
            self.engine.set_quotas(config.quotas.clone());
        });
        let Config { agents: told, auth, quotas, .. } = config;
        *running = Config { agents: told, auth, quotas, ..std::mem::take(running) };
        Ok(Applied { agents, waiting })
    }

    fn tell(&self, applied: &Applied) {
        let Applied { agents: Reloaded { added, changed, removed, kept }, waiting } = applied;
        tracing::info!(
            added = added.join(", "),
            changed = changed.join(", "),
            removed = removed.join(", "),
            kept = kept.len(),
            "the configuration was reloaded"
        );
        if !waiting.is_empty() {
            tracing::warn!(
                settings = waiting.join(", "),
                "settings that changed need a restart; they do not hold yet"
            );
        }
    }
}

/// The settings in which two configurations differ and that hold from the start of a gateway to its end.
fn waiting(running: &Config, told: &Config) -> Vec<String> {
    let (running, told) = (fixed(running), fixed(told));
    let mut keys: Vec<String> = running.keys().chain(told.keys()).cloned().collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| running.get(key) != told.get(key));
    keys
}

/// What a reload does not touch, by key, as `causeway config show` has it.
fn fixed(config: &Config) -> BTreeMap<String, String> {
    let rest = Config {
        agents: BTreeMap::new(),
        auth: crate::config::Auth::default(),
        quotas: Quotas::default(),
        ..config.clone()
    };
    let mut section = String::new();
    let mut all = BTreeMap::new();
    for line in rest.show().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once(" = ") {
            all.insert(format!("{section}.{key}"), value.to_owned());
        }
    }
    all
}

/// The outcomes, as the metric and the audit log have them.
pub(crate) const APPLIED: &str = "applied";
pub(crate) const REFUSED: &str = "refused";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;

    fn read(text: &str) -> Config {
        Config::load(text, [], &Overrides::default()).unwrap()
    }

    #[test]
    fn what_needs_a_restart_is_named_and_agents_and_tokens_are_not() {
        let running = read("[server]\nlisten = \"127.0.0.1:1\"\nmax_connections = 7\n");
        let told = read(
            "[server]\nlisten = \"127.0.0.1:2\"\nmax_connections = 7\n[store]\nkind = \"memory\"\n[audit]\nenabled = false\n\
             [tracing]\nendpoint = \"http://127.0.0.1:9/v1/traces\"\n\
             [agents.a]\nharness = \"canonical\"\ndriver.process.command = [\"worker\"]\n",
        );
        assert_eq!(
            waiting(&running, &told),
            ["audit.enabled", "server.listen", "store.kind", "tracing.endpoint"]
        );
        assert_eq!(waiting(&told, &told), Vec::<String>::new());
        let tokens = read("[auth]\nmode = \"service\"\ntokens.web.file = \"web\"\n");
        let others = read("[auth]\nmode = \"service\"\ntokens.app.file = \"app\"\n");
        assert_eq!(waiting(&tokens, &others), Vec::<String>::new());
    }
}
