//! An engine of its own around the subject: the real driver, adapter, coordinator and encoders, on a store in memory.
//!
//! Refuses to wait without end: a run that has no terminal in time is a failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use causeway_contract::event::{Event, EventData};
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::limits::Limits;
use causeway_encode::{Protocol, Seed};
use causeway_engine::answer::{Answer, AnswerRun};
use causeway_engine::config::{AgentConfig, Driver, ProcessConfig, Settings, Thread};
use causeway_engine::coordinator::Rejection;
use causeway_engine::engine::StartRun;
use causeway_engine::http::Http;
use causeway_engine::{Engine, Subscription};
use causeway_lifecycle::{Boundary, Validator};
use causeway_server::config::{Config, Finding, Overrides};
use causeway_server::gateway;
use causeway_store::MemoryStore;
use causeway_store::model::{Interrupt, Owner};

use super::launch::Launch;
use super::report::{Stop, broke, fail};
use super::scenario::{Scenario, mark};

/// What an engine is made of.
pub struct Bench<'a> {
    agent: AgentConfig,
    directory: PathBuf,
    /// For each answer.
    pub timeout: Duration,
    /// For leaving a turn.
    pub grace: Duration,
    /// What to say.
    pub scenario: &'a Scenario,
}

/// An engine at work.
pub struct Rig<'a> {
    bench: &'a Bench<'a>,
    /// The engine.
    pub engine: Engine,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Ran {
    /// Its id.
    pub run_id: RunId<'static>,
    /// Its events, as they were committed.
    pub events: Vec<Event<'static>>,
    findings: Vec<Rejection>,
}

impl<'a> Bench<'a> {
    /// For a worker of this harness.
    pub fn of_command(launch: &Launch, harness: &str, restore: bool, scenario: &'a Scenario) -> Self {
        let process = ProcessConfig {
            env: launch.env.clone(),
            start_timeout: launch.timeout,
            cancel_grace: launch.grace,
            ..ProcessConfig::new(launch.words.clone())
        };
        let mut agent = AgentConfig::new(AGENT.clone(), harness, Driver::Process(process));
        agent.thread = if restore { Thread::Durable } else { Thread::Ephemeral };
        let (directory, timeout, grace) = (launch.directory.clone(), launch.timeout, launch.grace);
        Self { agent, directory, timeout, grace, scenario }
    }

    /// For an agent of a gateway's settings.
    ///
    /// # Errors
    /// The settings are not valid, or have no such agent.
    pub fn of_config(
        file: &Path,
        agent: &str,
        timeout: Duration,
        grace: Duration,
        scenario: &'a Scenario,
    ) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let config = Config::load(&text, std::env::vars(), &Overrides::default())
            .map_err(|findings| anyhow::anyhow!("{}: {}", file.display(), told(&findings)))?;
        let Some(found) = gateway::agents(&config)?.into_iter().find(|one| one.id.as_str() == agent) else {
            bail!("{} has no agent `{agent}`", file.display());
        };
        let directory = config.store.path.clone();
        Ok(Self { agent: found, directory, timeout, grace, scenario })
    }

    /// For an endpoint: durable where the endpoint can name the states it starts from.
    ///
    /// # Errors
    /// The URL is none.
    pub fn of_url(
        url: &str,
        harness: &str,
        directory: &Path,
        timeout: Duration,
        grace: Duration,
        scenario: &'a Scenario,
    ) -> anyhow::Result<Self> {
        let settings = |thread: &str| {
            format!(
                "[agents.conform]\nharness = {harness:?}\nthread = \"{thread}\"\n\
                 [agents.conform.driver.http]\nurl = {url:?}\nplaintext = true\n"
            )
        };
        let load = |thread| {
            let config = Config::load(&settings(thread), [], &Overrides::default());
            let config = config.map_err(|findings| anyhow::anyhow!("--url: {}", told(&findings)))?;
            gateway::agents(&config)?.into_iter().next().context("an agent")
        };
        let durable = load("durable")?;
        let names_states = match &durable.driver {
            Driver::Http(http) => {
                Http::new(durable.id.as_str(), harness, Thread::Durable, (**http).clone()).is_ok()
            }
            Driver::Process(_) | Driver::Recording(_) | Driver::Custom(_) => false,
        };
        let agent = if names_states { durable } else { load("ephemeral")? };
        let directory = directory.to_path_buf();
        Ok(Self { agent, directory, timeout, grace, scenario })
    }

    /// Whether the agent's state outlives its runs.
    pub fn is_durable(&self) -> bool {
        self.agent.thread == Thread::Durable
    }

    /// Opens an engine.
    ///
    /// # Errors
    /// The agent cannot be set up.
    pub async fn open(&'a self) -> anyhow::Result<Rig<'a>> {
        let settings = Settings::new(&self.directory);
        let engine = Engine::open(settings, vec![self.agent.clone()], Arc::new(MemoryStore::new())).await?;
        Ok(Rig { bench: self, engine })
    }
}

impl Rig<'_> {
    /// A conversation that nobody has used.
    pub fn conversation(&self) -> ConversationId<'static> {
        ConversationId::new(format!("run-{}", mark()))
            .unwrap_or_else(|_| unreachable!("letters and digits are an id"))
    }

    /// Starts a run with a word of the vocabulary; gives its mark too.
    pub async fn start(
        &self,
        conversation: &ConversationId<'static>,
        word: &str,
    ) -> Result<(RunId<'static>, String), Stop> {
        let mark = mark();
        let message = self.bench.scenario.say(word, &mark)?;
        let request =
            StartRun::new(Owner::local(), self.bench.agent.id.clone(), conversation.clone(), message);
        match self.engine.start(request).await {
            Ok(started) => Ok((started.run_id, mark)),
            Err(error) => fail(format!("the run `{word}` was not started: {error}")),
        }
    }

    /// Starts a run and follows it to its end.
    pub async fn play(
        &self,
        conversation: &ConversationId<'static>,
        word: &str,
    ) -> Result<(Ran, String), Stop> {
        let (run_id, mark) = self.start(conversation, word).await?;
        Ok((self.end(run_id).await?, mark))
    }

    /// Follows a run from its start.
    pub async fn follow(&self, run_id: &RunId<'static>) -> Result<Subscription, Stop> {
        match self.engine.subscribe(&Owner::local(), run_id, None).await {
            Ok(subscription) => Ok(subscription),
            Err(error) => fail(format!("the run cannot be followed: {error}")),
        }
    }

    /// The next event of a run; `None` behind its terminal.
    pub async fn next(&self, follow: &mut Subscription) -> Result<Option<Event<'static>>, Stop> {
        let patience = self.bench.timeout + self.bench.grace;
        match tokio::time::timeout(patience, follow.next()).await {
            Err(_) => fail(format!("a run said nothing for {} ms and did not end", patience.as_millis())),
            Ok(Err(error)) => fail(format!("a run cannot be read: {error}")),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(record))) => {
                let conversation = ConversationId::new("conversation")
                    .map_err(|fault| Stop::Fail(None, fault.to_string()))?;
                match record.decode(follow.run_id(), &conversation, &Limits::DEFAULT) {
                    Ok(event) => Ok(Some(event.into_owned())),
                    Err(error) => broke(error.check().as_str(), error.to_string()),
                }
            }
        }
    }

    /// Follows a run to its end and holds it against the contract.
    pub async fn end(&self, run_id: RunId<'static>) -> Result<Ran, Stop> {
        let mut follow = self.follow(&run_id).await?;
        let mut events = Vec::new();
        while let Some(event) = self.next(&mut follow).await? {
            events.push(event);
        }
        let findings = self.engine.findings(&Owner::local(), &run_id).await;
        let findings = findings.map_or(Vec::new(), |findings| findings.refused);
        let ran = Ran { run_id, events, findings };
        ran.is_legal(self.bench.agent.thread)?;
        Ok(ran)
    }

    /// Answers the interrupt of a run and follows the run that goes on.
    pub async fn answer(&self, interrupt: &Interrupt, answer: Answer) -> Result<Ran, Stop> {
        let request = AnswerRun {
            owner: Owner::local(),
            run_id: interrupt.run_id.clone(),
            interrupt_id: interrupt.summary.interrupt_id.clone(),
            revision: interrupt.summary.revision,
            answer,
            route: "conform",
            idempotency_key: None,
            traceparent: None,
        };
        match self.engine.resume(request).await {
            Ok(started) => self.end(started.run_id).await,
            Err(error) => fail(format!("the answer was not taken: {error}")),
        }
    }
}

impl Ran {
    /// Its terminal.
    pub fn terminal(&self) -> Option<&EventData<'static>> {
        self.events.last().map(|event| &event.data).filter(|data| data.is_terminal())
    }

    /// What ended it, in a word.
    pub fn told(&self) -> String {
        match self.terminal() {
            None => "no terminal".to_owned(),
            Some(EventData::RunError(error)) => format!("run.error `{}`", error.code),
            Some(other) => other.event_type().as_str().to_owned(),
        }
    }

    /// It ended well.
    pub fn finished(&self) -> Result<(), Stop> {
        match self.terminal() {
            Some(EventData::RunFinished(_)) => Ok(()),
            Some(_) | None => fail(format!("the run ended with {}", self.told())),
        }
    }

    /// How many events there are of which this is true.
    pub fn count(&self, is: impl Fn(&EventData<'static>) -> bool) -> usize {
        self.events.iter().filter(|event| is(&event.data)).count()
    }

    /// All text of the root.
    pub fn text(&self) -> String {
        let deltas = self.events.iter().filter(|event| event.namespace.is_root());
        deltas
            .filter_map(|event| match &event.data {
                EventData::TextDelta(delta) => Some(&*delta.delta),
                _said => None,
            })
            .collect()
    }

    /// Everything that anybody could see of it: its events and the frames of every encoder.
    pub fn seen(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for event in &self.events {
            event.write_json(&mut all);
        }
        for protocol in [Protocol::Canonical, Protocol::Custom, Protocol::Agui] {
            let mut encoder = protocol.encoder(&Seed::default());
            for event in &self.events {
                encoder.encode(event, &mut all);
            }
        }
        all
    }

    fn is_legal(&self, thread: Thread) -> Result<(), Stop> {
        if let Some(found) = self.findings.first() {
            let what = found.event_type.map_or("an event", causeway_contract::EventType::as_str);
            return broke(found.verdict.to_string(), format!("{what}: {}", found.message));
        }
        if let Some(EventData::RunError(error)) = self.terminal() {
            match error.code.as_str() {
                "harness_output_invalid" => return broke("W0", "a line that its adapter cannot read"),
                "harness_output_too_large" => return broke("W0", "a line that is longer than 8 MiB"),
                "harness_timeout" => return broke("R12", "the worker fell silent"),
                _other => {}
            }
        }
        let mut validator = Validator::new(Boundary::Commit, thread, Limits::DEFAULT).offline();
        for event in &self.events {
            let mut line = Vec::new();
            event.write_json(&mut line);
            if let Err(violation) = validator.accept(event, line.len()) {
                return broke(violation.rule().to_string(), violation.to_string());
            }
        }
        match validator.finish() {
            Ok(()) => Ok(()),
            Err(violation) => broke(violation.rule().to_string(), violation.to_string()),
        }
    }
}

fn told(findings: &[Finding]) -> String {
    let all = findings.iter().map(|finding| format!("{}: {}", finding.path, finding.message));
    all.collect::<Vec<_>>().join("; ")
}

static AGENT: std::sync::LazyLock<Name<'static>> =
    std::sync::LazyLock::new(|| Name::new("conform").unwrap_or_else(|_| unreachable!("a word is a name")));
