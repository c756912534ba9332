//! A gateway from its configuration: store, engine, listener, routes; and its orderly end.
//!
//! Refuses to start half: whatever is wrong is told with cause and remedy before the first connection is taken.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::Name;
use causeway_engine::Engine;
use causeway_engine::audit::{self, Act, Action};
use causeway_engine::config::{
    AgentConfig, Driver, OnDisconnect, Pace, ProcessConfig, RecordingConfig, Scope, Settings, Thread,
};
use causeway_engine::gate::{Invoke, Tool, command};
use causeway_engine::http::config::{self as http, Secret};
use causeway_engine::trace;
use causeway_store::postgres::{self, Tls};
use causeway_store::sqlite::Options;
use causeway_store::{MemoryStore, PostgresStore, SqliteStore, Store};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::app::App;
use crate::auth::{Auth, system_clock};
use crate::config::{self, Config, EnvValue, StoreKind, secret};
use crate::failpoint::{self, hit};
use crate::listen;
use crate::reload::Reloader;
use crate::wire::Patience;

/// How long the collector of traces gets for the last spans.
const TRACE_GRACE: Duration = Duration::from_secs(2);

/// How long open connections get once every run has ended.
const CONNECTION_GRACE: Duration = Duration::from_secs(3);

/// A gateway that is ready to serve.
pub struct Gateway {
    engine: Engine,
    listener: TcpListener,
    address: SocketAddr,
    settings: config::Server,
    auth: Arc<Auth>,
    app: App,
    /// What it was told.
    config: Config,
}

/// Why a gateway does not start.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be had.
    #[error("cannot listen on {address}; free it, or choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] causeway_store::Unavailable),
    /// The engine cannot be opened.
    #[error(transparent)]
    Engine(#[from] causeway_engine::OpenError),
    /// Tokens or keys cannot be read.
    #[error("{0}")]
    Auth(String),
    /// A secret cannot be read.
    #[error("agents.{agent}.driver.{key}: {what}")]
    Secret {
        /// The agent.
        agent: String,
        /// Where it is asked for, below the driver.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// Shared mode was asked for, and not said where, or its password cannot be read.
    #[error("store.postgres: {0}")]
    Postgres(String),
    /// The declaration of a tool cannot be used.
    #[error("agents.{agent}.{key}: {what}")]
    Tool {
        /// The agent.
        agent: String,
        /// Where it stands, below the agent.
        key: String,
        /// What is wrong, and where.
        what: String,
    },
    /// A name that passed the configuration's check and not the engine's.
    #[error("agents.{agent}: {fault}")]
    Name {
        /// The agent.
        agent: String,
        /// What is wrong.
        fault: causeway_contract::id::IdFault,
    },
}

impl Gateway {
    /// Opens store and engine (which recovers what a killed gateway left) and takes the address.
    ///
    /// # Errors
    /// [`OpenError`], naming cause and remedy.
    pub async fn open(config: &Config) -> Result<Self, OpenError> {
        let clock = system_clock();
        let auth = Auth::open(&config.auth, Arc::clone(&clock)).await.map_err(OpenError::Auth)?;
        let auth = Arc::new(auth);
        let store: Arc<dyn Store> = match config.store.kind {
            StoreKind::Memory => Arc::new(MemoryStore::new()),
            StoreKind::Sqlite => Arc::new(SqliteStore::open(Options::new(&config.store.path))?),
            StoreKind::Postgres => Arc::new(PostgresStore::open(postgres_options(config)?)?),
        };
        hit(failpoint::STORE);
        let address = config.server.listen;
        let listen = |source| OpenError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let mut settings = Settings::new(&config.store.path);
        if config.audit.enabled {
            let audit = audit::Settings::new(&config.store.path);
            settings.audit = Some(audit::Settings { rotate_at: config.audit.rotate_at, ..audit });
        }
        settings.quotas = config.quotas.clone();
        settings.trace = config.tracing.endpoint.clone().map(|endpoint| trace::Settings {
            timeout: config.tracing.timeout,
            ..trace::Settings::new(endpoint)
        });
        settings.retention = config.retention.clone();
        let engine = Engine::open(settings, agents(config)?, store).await?;
        if let Some(audit) = engine.audit() {
            let started = Act::new(Action::GatewayStarted).code(env!("CARGO_PKG_VERSION"));
            // Where it cannot be written there will be no runs, and `/readyz` says so.
            let _ = audit.record(started.config(&settings_hash(config))).await;
        }
        let app = App::new(engine.clone(), config.server.clone()).auth(Arc::clone(&auth));
        app.metrics.loaded(clock());
        hit(failpoint::READY);
        let (settings, config) = (config.server.clone(), config.clone());
        Ok(Self { engine, listener, address, settings, auth, app, config })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Who may call.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// What replaces its configuration while it serves.
    pub fn reloader(&self) -> Reloader {
        Reloader {
            engine: self.engine.clone(),
            auth: Arc::clone(&self.auth),
            metrics: Arc::clone(&self.app.metrics),
            clock: system_clock(),
            running: Mutex::new(self.config.clone()),
        }
    }

    /// Serves until `stop` resolves; then no new runs are taken, active ones get their terminal, streams end behind
    /// it, and connections are closed.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let limits = listen::Limits {
            patience: Patience {
                head: self.settings.header_timeout,
                idle: self.settings.idle_timeout,
                write: self.settings.write_timeout,
            },
            max_head: usize::try_from(self.settings.max_head).unwrap_or(usize::MAX),
            max_connections: self.settings.max_connections,
            grace: CONNECTION_GRACE,
        };
        let grace = self.settings.shutdown_grace;
        let (metrics, router) = (Arc::clone(&self.app.metrics), self.app.router());
        let stop = async {
            stop.await;
            tracing::info!("shutting down: no new runs, active ones are ended");
            self.engine.shutdown(grace).await;
        };
        listen::serve(self.listener, router, metrics, limits, stop).await;
        self.engine.tracer().flush(TRACE_GRACE).await;
        if let Some(audit) = self.engine.audit() {
            audit.note(Act::new(Action::GatewayStopped));
            audit.close();
        }
        hit(failpoint::STOPPED);
        tracing::info!("stopped");
    }
}

/// How the database of shared mode is reached.
///
/// # Errors
/// The configuration names none, or the password cannot be read.
pub fn postgres_options(config: &Config) -> Result<postgres::Options, OpenError> {
    let none = || OpenError::Postgres("is missing; shared mode needs host, user and database".to_owned());
    let at = config.store.postgres.as_ref().ok_or_else(none)?;
    let password = at.password.as_ref().map(secret::resolve).transpose();
    let password = password.map_err(|what| OpenError::Postgres(format!("password: {what}")))?;
    let options = postgres::Options::new(&at.host, at.port, &at.user, &at.database);
    Ok(options
        .schema(&at.schema)
        .password(password)
        .tls(Tls::parse(&at.tls).unwrap_or_default(), at.ca_file.clone())
        .application_name(&at.application_name)
        .name(format!("{} {}", at.application_name, config.server.listen))
        .readers(at.readers)
        .timeouts(at.connect_timeout, at.statement_timeout, at.lock_timeout)
        .migrate(at.migrate)
        .notify(at.notify))
}

/// What tells one configuration from another: SHA-256 of what `causeway config show` prints. Secrets are references
/// there, so a secret that changed behind the same reference is not seen.
pub fn settings_hash(config: &Config) -> String {
    Sha256::digest(config.show().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The agents of a configuration, as an engine wants them.
///
/// # Errors
/// A secret that cannot be read, or a name that the engine does not take.
pub fn agents(config: &Config) -> Result<Vec<AgentConfig>, OpenError> {
    config.agents.iter().map(|(id, agent)| agent_config(id, agent)).collect()
}

fn agent_config(id: &str, agent: &config::Agent) -> Result<AgentConfig, OpenError> {
    let name = |text: &str| {
        Name::new(text.to_owned()).map_err(|fault| OpenError::Name { agent: id.to_owned(), fault })
    };
    let driver = match &agent.driver {
        config::Driver::Process(process) => Driver::Process(process_config(id, process)?),
        config::Driver::Http(http) => Driver::Http(Box::new(http_config(id, http)?)),
        config::Driver::Recording(recording) => Driver::Recording(RecordingConfig {
            file: recording.file.clone(),
            pace: match recording.pace {
                config::Pace::Fast => Pace::Fast,
                config::Pace::Recorded => Pace::RECORDED,
                config::Pace::Every(pause) => Pace::Every(pause),
            },
        }),
    };
    let declared = config::tools::declared(agent).map_err(|faults| {
        let first = faults.into_iter().next();
        let config::tools::Fault { key, what } = first.unwrap_or_else(|| unreachable!("a fault has words"));
        OpenError::Tool { agent: id.to_owned(), key, what }
    })?;
    Ok(AgentConfig {
        tools: gate_tools(id, agent, &declared)?,
        schemas: declared.schemas.into_iter().collect(),
        name: agent.name.as_deref().map(name).transpose()?,
        thread: if agent.durable { Thread::Durable } else { Thread::Ephemeral },
        deadline: agent.deadline,
        idle_timeout: agent.idle_timeout,
        on_disconnect: if agent.cancel_on_disconnect { OnDisconnect::Cancel } else { OnDisconnect::Continue },
        stream_arguments: agent.stream_arguments,
        strip_escapes: agent.strip_escapes,
        redact_content: agent.redact_content,
        allow_files: agent.allow_files,
        interrupt_expiry: agent.interrupt_expiry,
        limits: agent.limits.clone(),
        quotas: agent.quotas,
        ..AgentConfig::new(name(id)?, agent.harness.clone(), driver)
    })
}

/// The tools that the gateway runs.
fn gate_tools(
    id: &str,
    agent: &config::Agent,
    declared: &config::tools::Declared,
) -> Result<BTreeMap<String, Tool>, OpenError> {
    let mut tools = BTreeMap::new();
    for (name, tool) in &agent.tools {
        let at = |key: &str| format!("tools.{name}.invoke.{key}");
        let fault = |key: String, what| OpenError::Tool { agent: id.to_owned(), key, what };
        let invoke = match &tool.invoke {
            None => continue,
            Some(config::tools::Invoke::Command { argv, env }) => {
                let mut given = BTreeMap::new();
                for (variable, value) in env {
                    let value = secret::resolve(value)
                        .map_err(|what| fault(at(&format!("command.env.{variable}")), what))?;
                    given.insert(variable.clone(), value);
                }
                Invoke::Command(command::Config { argv: argv.clone(), env: given })
            }
            Some(config::tools::Invoke::Http(http)) => {
                let endpoint = http.endpoint(|key, value| {
                    header_secret(value).map_err(|what| fault(at(&format!("http.{key}")), what))
                })?;
                Invoke::Http(Box::new(endpoint))
            }
        };
        let ready = Tool {
            approval: tool.approval,
            sensitive: tool.sensitive.or(declared.sensitive.get(name).copied()).unwrap_or(false),
            timeout: tool.timeout,
            max_output: usize::try_from(tool.max_output).unwrap_or(usize::MAX),
            ..Tool::new(invoke)
        };
        tools.insert(name.clone(), ready);
    }
    Ok(tools)
}

fn process_config(agent: &str, process: &config::Process) -> Result<ProcessConfig, OpenError> {
    let mut env = BTreeMap::new();
    for (variable, value) in &process.env {
        let value = secret::resolve(value).map_err(|what| OpenError::Secret {
            agent: agent.to_owned(),
            key: format!("process.env.{variable}"),
            what,
        })?;
        env.insert(variable.clone(), value);
    }
    Ok(ProcessConfig {
        scope: if process.per_run { Scope::Run } else { Scope::Conversation },
        idle_exit: process.idle_exit,
        start_timeout: process.start_timeout,
        cancel_grace: process.cancel_grace,
        max_workers: process.max_workers,
        max_queue: process.max_queue,
        queue_timeout: process.queue_timeout,
        circuit_failures: process.circuit_failures,
        circuit_open: process.circuit_open,
        env,
        ..ProcessConfig::new(process.command.clone())
    })
}

fn http_config(agent: &str, http: &config::Http) -> Result<http::Config, OpenError> {
    http.endpoint(|key, value| {
        let secret = header_secret(value);
        let failed = |what| OpenError::Secret { agent: agent.to_owned(), key: format!("http.{key}"), what };
        secret.map_err(failed)
    })
}

fn header_secret(value: &EnvValue) -> Result<Secret, String> {
    match value {
        // Read again for every request, and now, so that a wrong path shows at the start.
        EnvValue::File(file) => secret::read(file).map(|_text| Secret::File(file.clone())),
        EnvValue::Plain(_) | EnvValue::Env(_) => {
            secret::resolve(value).map(|text| Secret::Value(text.into()))
        }
    }
}
