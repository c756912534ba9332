//! The agents of an engine, and how they are replaced while runs go on.
//!
//! Refuses half a change: every agent is ready before the first is replaced. A run keeps the agent that it began with.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use causeway_adapter::registry::stream_json;
use causeway_lifecycle::Thread;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedMutexGuard, watch};

use crate::config::{AgentConfig, Driver, Settings};
use crate::engine::{Engine, Inner};
use crate::error::{Error, OpenError};
use crate::gate::{Invoke, Tools};
use crate::harness::{Harness, Workers};
use crate::http::Http;
use crate::process::{self, Process};
use crate::recording::Recording;
use crate::translate::Translator;

/// How long the workers of an agent that was replaced get to leave once its last run is over.
const LEAVING: Duration = Duration::from_secs(10);

/// Bytes of a file that are read at a time.
const PIECE: usize = 64 << 10;

/// An agent, ready to run.
pub(crate) struct Agent {
    pub config: Arc<AgentConfig>,
    pub harness: Arc<dyn Harness>,
    pub translator: Translator,
    pub tools: Arc<Tools>,
    /// What the files held that it was made of.
    files: [u8; 32],
    /// Goes with the last agent that has the harness, and so with the last run that uses it.
    used: Arc<watch::Sender<()>>,
}

/// Agents by their ids.
pub(crate) type Roster = BTreeMap<String, Arc<Agent>>;

impl Agent {
    /// Makes an agent ready. Where the driver is as it was, the harness of `before` goes on, with its workers.
    fn new(
        config: AgentConfig,
        files: [u8; 32],
        settings: &Settings,
        before: Option<&Self>,
    ) -> Result<Self, OpenError> {
        let id = || config.id.as_str().to_owned();
        let translator = Translator::of(&config)?;
        let kept = before.filter(|before| {
            before.config.driver == config.driver
                && before.config.thread == config.thread
                && before.translator.harness_id() == translator.harness_id()
                && before.files == files
        });
        let harness: Arc<dyn Harness> = match (kept, &config.driver) {
            (Some(before), _) => Arc::clone(&before.harness),
            (None, Driver::Process(process)) => {
                let demand = process::Demand {
                    agent_id: id(),
                    harness_id: translator.harness_id().to_string(),
                    restore: config.thread == Thread::Durable,
                };
                let driver = Process::new(demand, process.clone(), settings.data_dir.clone());
                Arc::new(driver.map_err(|fault| OpenError::Driver { agent: id(), what: fault.to_string() })?)
            }
            (None, Driver::Recording(recording)) => {
                let recording = Recording::load(recording, &mut *translator.splitter());
                Arc::new(recording.map_err(|what| OpenError::Driver { agent: id(), what })?)
            }
            (None, Driver::Http(endpoint)) => {
                let harness = translator.harness_id();
                let driver =
                    Http::new(config.id.as_str(), harness.as_str(), config.thread, (**endpoint).clone());
                Arc::new(driver.map_err(|fault| OpenError::Driver { agent: id(), what: fault.to_string() })?)
            }
            (None, Driver::Custom(harness)) => Arc::clone(harness),
        };
        let tools = Tools::open(&config.tools, &config.schemas, config.id.as_str(), &settings.data_dir)
            .map_err(|what| OpenError::Driver { agent: id(), what })?;
        let asks = match &config.driver {
            Driver::Process(_) => translator.harness_id().as_str() != stream_json::HARNESS,
            Driver::Custom(_) => true,
            Driver::Recording(_) | Driver::Http(_) => false,
        };
        if !asks && !tools.is_empty() {
            let what = "tools with `invoke` need a worker of the worker protocol (driver.process), which asks for them";
            return Err(OpenError::Driver { agent: id(), what: what.to_owned() });
        }
        let used = kept.map_or_else(|| Arc::new(watch::Sender::new(())), |before| Arc::clone(&before.used));
        Ok(Self { config: Arc::new(config), harness, translator, tools: Arc::new(tools), files, used })
    }
}

/// Makes agents ready; one that is as in `before`, its files included, is that one.
///
/// # Errors
/// Two of one id, or one that cannot be set up.
pub(crate) fn ready(
    agents: Vec<AgentConfig>,
    settings: &Settings,
    before: &Roster,
) -> Result<Roster, OpenError> {
    let mut ready = Roster::new();
    for config in agents {
        let id = config.id.as_str().to_owned();
        let before = before.get(&id);
        let files = files(&config);
        let agent = match before {
            Some(same) if *same.config == config && same.files == files => Arc::clone(same),
            _ => Arc::new(Agent::new(config, files, settings, before.map(Arc::as_ref))?),
        };
        if ready.insert(id.clone(), agent).is_some() {
            return Err(OpenError::AgentTwice { id });
        }
    }
    Ok(ready)
}

/// SHA-256 of what the files hold that are read when an agent is made ready, and not again. One that cannot be read is told
/// of by whoever needs it.
fn files(config: &AgentConfig) -> [u8; 32] {
    let mut all: Vec<&Path> = Vec::new();
    match &config.driver {
        Driver::Recording(recording) => all.push(&recording.file),
        Driver::Http(endpoint) => all.extend(endpoint.ca_file.as_deref()),
        Driver::Process(_) | Driver::Custom(_) => {}
    }
    for tool in config.tools.values() {
        match &tool.invoke {
            Invoke::Http(endpoint) => all.extend(endpoint.ca_file.as_deref()),
            Invoke::Command(_) | Invoke::Custom(_) => {}
        }
    }
    let mut digest = Sha256::new();
    for path in all {
        digest.update(digest_of(path).unwrap_or_default());
    }
    digest.finalize().into()
}

fn digest_of(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut file = std::fs::File::open(path)?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece)?;
        match piece.get(..read) {
            None | Some([]) => return Ok(digest.finalize().into()),
            Some(bytes) => digest.update(bytes),
        }
    }
}

/// Those that are there now, and those that were and whose workers may not have left yet.
pub(crate) struct Agents {
    now: RwLock<Arc<Roster>>,
    leaving: Mutex<Leaving>,
    /// One change at a time.
    changing: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Leaving {
    harnesses: Vec<(String, Arc<dyn Harness>)>,
    /// What those counted that have left.
    left: BTreeMap<String, Workers>,
}

impl Agents {
    pub(crate) fn new(agents: Roster) -> Self {
        Self { now: RwLock::new(Arc::new(agents)), leaving: Mutex::default(), changing: Arc::default() }
    }

    /// Those of this moment.
    pub(crate) fn now(&self) -> Arc<Roster> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// One of them.
    pub(crate) fn agent(&self, id: &str) -> Result<Arc<Agent>, Error> {
        self.now().get(id).cloned().ok_or_else(|| Error::UnknownAgent { id: id.to_owned() })
    }

    /// The harnesses that may have workers.
    pub(crate) fn harnesses(&self) -> Vec<Arc<dyn Harness>> {
        let leaving = self.leaving();
        let now = self.now();
        let old = leaving.harnesses.iter().map(|(_, harness)| harness);
        now.values().map(|agent| &agent.harness).chain(old).cloned().collect()
    }

    /// The workers of every agent that there is or was; what is counted does not go back when an agent is replaced.
    pub(crate) fn workers(&self) -> BTreeMap<String, Workers> {
        let leaving = self.leaving();
        let mut all = leaving.left.clone();
        let now = self.now();
        let here = now.iter().map(|(id, agent)| (id, &agent.harness));
        for (id, harness) in leaving.harnesses.iter().map(|(id, harness)| (id, harness)).chain(here) {
            let one = all.entry(id.clone()).or_default();
            *one = one.and(harness.workers());
        }
        all
    }

    fn set(&self, agents: Roster) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
    }

    fn leaving(&self) -> MutexGuard<'_, Leaving> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self, harness: &Arc<dyn Harness>) {
        let mut leaving = self.leaving();
        let at = leaving.harnesses.iter().position(|(_, one)| Arc::ptr_eq(one, harness));
        let Some(at) = at else { return };
        let (id, harness) = leaving.harnesses.swap_remove(at);
        let one = leaving.left.entry(id).or_default();
        *one = one.and(harness.workers().gone());
    }
}

/// What a change of the agents did, by their ids.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reloaded {
    /// They are new.
    pub added: Vec<String>,
    /// They are told something else than before.
    pub changed: Vec<String>,
    /// They are not there any more.
    pub removed: Vec<String>,
    /// They are as they were, with their workers.
    pub kept: Vec<String>,
}

/// Agents that are ready to take the place of those that are there. Until it is dropped no other change is prepared.
pub struct Prepared {
    inner: Arc<Inner>,
    ready: Roster,
    _changing: OwnedMutexGuard<()>,
}

impl Engine {
    /// Makes agents ready to take the place of those that there are, all of them; nothing changes yet. One that is as it was,
    /// the values of its secrets and what its files hold included, stays with its workers.
    ///
    /// # Errors
    /// Two of one id, one that cannot be set up, or an engine that is shutting down.
    pub async fn prepare(&self, agents: Vec<AgentConfig>) -> Result<Prepared, OpenError> {
        let inner = Arc::clone(&self.inner);
        let _changing = Arc::clone(&inner.agents.changing).lock_owned().await;
        if self.is_draining() {
            return Err(OpenError::ShuttingDown);
        }
        let ready = ready(agents, &inner.settings, &inner.agents.now())?;
        Ok(Prepared { inner, ready, _changing })
    }

    /// Prepares agents and puts them in place.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare); then nothing changed.
    pub async fn reload(&self, agents: Vec<AgentConfig>) -> Result<Reloaded, OpenError> {
        Ok(self.prepare(agents).await?.apply(|| ()))
    }
}

impl Prepared {
    /// Puts the agents in place. Runs that go on end under the agent that they began with; its workers leave behind them.
    /// `between` is done when the agents that go are gone and those that come are not there yet: what says who may use
    /// which changes there, so that no agent is seen under the rules of another configuration.
    pub fn apply(self, between: impl FnOnce()) -> Reloaded {
        let Self { inner, ready, _changing } = self;
        let before = inner.agents.now();
        let stays = |(id, _): &(&String, &Arc<Agent>)| ready.contains_key(*id);
        inner
            .agents
            .set(before.iter().filter(stays).map(|(id, agent)| (id.clone(), Arc::clone(agent))).collect());
        between();
        let mut did = Reloaded::default();
        for (id, agent) in &ready {
            let list = match before.get(id) {
                None => &mut did.added,
                Some(same) if Arc::ptr_eq(same, agent) => &mut did.kept,
                Some(_) => &mut did.changed,
            };
            list.push(id.clone());
        }
        did.removed = before.keys().filter(|id| !ready.contains_key(*id)).cloned().collect();
        let going: Vec<&String> = did.changed.iter().chain(&did.removed).collect();
        for id in going {
            let goes_on = |old: &Agent| ready.values().any(|agent| Arc::ptr_eq(&agent.harness, &old.harness));
            let Some(old) = before.get(id).filter(|old| !goes_on(old)) else { continue };
            let (id, harness, used) = (id.clone(), Arc::clone(&old.harness), old.used.subscribe());
            inner.agents.leaving().harnesses.push((id, Arc::clone(&harness)));
            harness.retire();
            tokio::spawn(see_off(Arc::downgrade(&inner), harness, used));
        }
        inner.agents.set(ready);
        did
    }
}

/// Ends the workers of an agent that was replaced once no run uses it. Its runs have their deadlines, so it comes to an end.
async fn see_off(inner: Weak<Inner>, harness: Arc<dyn Harness>, mut used: watch::Receiver<()>) {
    while used.changed().await.is_ok() {}
    harness.shutdown(LEAVING).await;
    if let Some(inner) = inner.upgrade() {
        inner.agents.left(&harness);
    }
}
