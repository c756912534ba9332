//! Configuration: `causeway.toml`, then the environment, then flags; what is left out has a default.
//!
//! Refuses unknown keys (with the nearest known one), secrets in plain text, and settings this build cannot honour:
//! a setting that is accepted is obeyed.

pub mod auth;
mod read;
pub mod schema;
pub mod secret;
mod show;
pub mod tools;
pub mod tree;
pub mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use causeway_contract::Limits;
pub use causeway_engine::config::Retention;
use causeway_engine::http::config::{self as http, Secret, Shape, Url};
use causeway_engine::quota::{Bounds, Quotas};
use hyper::header::HeaderName;

pub use auth::{Algorithm, AllowedCallers, Auth, AuthMode, JwtAuth, KeySource, SUBJECT_HEADER, ServiceAuth};
use tree::{Node, Origin, Tree, Value};

/// Everything a gateway is told.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[store]`
    pub store: Store,
    /// `[auth]`
    pub auth: Auth,
    /// `[audit]`
    pub audit: Audit,
    /// `[retention]`
    pub retention: Retention,
    /// `[tracing]`
    pub tracing: Tracing,
    /// `[quotas]`
    pub quotas: Quotas,
    /// `[agents.NAME]`
    pub agents: BTreeMap<String, Agent>,
}

/// `[server]`: where and how to listen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Server {
    /// The address; loopback only while `auth.mode` is `none`. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names besides the loopback ones that a `Host` header may give.
    pub hosts: Vec<String>,
    /// Origins besides the gateway's own that may call from a browser.
    pub origins: Vec<String>,
    /// The largest request body.
    pub max_body: u64,
    /// The largest request head, in bytes.
    pub max_head: u64,
    /// How long a client may take to send its request head.
    pub header_timeout: Duration,
    /// How long a client may take to send its request body.
    pub body_timeout: Duration,
    /// How long a connection is kept without a request.
    pub idle_timeout: Duration,
    /// How long a client may take none of the bytes that it is sent.
    pub write_timeout: Duration,
    /// The pause after which a quiet stream gets a comment.
    pub keep_alive: Duration,
    /// How long running turns get to end when the gateway is asked to stop.
    pub shutdown_grace: Duration,
    /// Connections at once; more wait in the system's queue.
    pub max_connections: usize,
    /// Whether the inspector is served at `/`.
    pub inspector: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body: 2 << 20,
            max_head: 64 << 10,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(10),
            max_connections: 4096,
            inspector: true,
        }
    }
}

/// `[store]`: where runs are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Store {
    /// What keeps them.
    pub kind: StoreKind,
    /// The data directory; worker state lives in it with either kind.
    pub path: PathBuf,
    /// Where the database of shared mode is; there with the kind `postgres` only.
    pub postgres: Option<Postgres>,
}

/// `[store.postgres]`: the database that several gateways share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Postgres {
    /// Its host, or the directory of its socket.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Who the gateway is to it.
    pub user: String,
    /// A reference to the password, where one is asked for.
    pub password: Option<EnvValue>,
    /// The database.
    pub database: String,
    /// The schema of this deployment.
    pub schema: String,
    /// `verify-full`, `require` or `disable`.
    pub tls: String,
    /// The certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// What the server shows of this gateway.
    pub application_name: String,
    /// Connections that read; one more writes.
    pub readers: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How long waiting for another gateway's write may take.
    pub lock_timeout: Duration,
    /// Whether an older schema, or none, is brought up to date at the start.
    pub migrate: bool,
    /// Whether gateways tell each other by `NOTIFY` what they wrote.
    pub notify: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self { kind: StoreKind::Sqlite, path: PathBuf::from("data"), postgres: None }
    }
}

/// What keeps the runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoreKind {
    /// One SQLite file in the data directory.
    Sqlite,
    /// A PostgreSQL database that several gateways share.
    Postgres,
    /// Nothing outlives the process.
    Memory,
}

/// `[audit]`: who did what, one line each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Audit {
    /// Whether it is recorded.
    pub enabled: bool,
    /// The size above which `audit.log` is closed under a number and the next one begun.
    pub rotate_at: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, rotate_at: 64 << 20 }
    }
}

/// `[tracing]`: where traces are sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tracing {
    /// The address of an OpenTelemetry collector that takes OTLP/HTTP, with its path; nowhere when absent.
    pub endpoint: Option<Url>,
    /// How long it may take to accept a batch of spans.
    pub timeout: Duration,
}

impl Default for Tracing {
    fn default() -> Self {
        Self { endpoint: None, timeout: Duration::from_secs(10) }
    }
}

/// `[agents.NAME]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agent {
    /// The display name that clients see in interrupts; the agent's key when absent.
    pub name: Option<String>,
    /// The harness whose native stream the driver delivers.
    pub harness: String,
    /// Whether the conversation's state outlives a run.
    pub durable: bool,
    /// The longest a run may be active.
    pub deadline: Duration,
    /// The longest a harness may be silent.
    pub idle_timeout: Duration,
    /// Whether a run ends when the client that started it goes away.
    pub cancel_on_disconnect: bool,
    /// Whether tool arguments are streamed as they are written.
    pub stream_arguments: bool,
    /// Whether terminal escape sequences are removed from content.
    pub strip_escapes: bool,
    /// Whether known shapes of secrets in tool arguments and results are replaced.
    pub redact_content: bool,
    /// How long an interrupt can be answered.
    pub interrupt_expiry: Option<Duration>,
    /// Whether a start may carry `files`.
    pub allow_files: bool,
    /// Bounds of one run.
    pub limits: Limits,
    /// What its runs may take up together.
    pub quotas: Bounds,
    /// `tools_from`: the snapshot of an MCP server's `tools/list`.
    pub tools_from: Option<PathBuf>,
    /// `tools.NAME`, by tool name.
    pub tools: BTreeMap<String, tools::Tool>,
    /// Where the native stream comes from.
    pub driver: Driver,
}

/// `[agents.NAME.driver.…]`: exactly one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Driver {
    /// A worker process that speaks worker protocol 1.
    Process(Process),
    /// An endpoint that answers with the stream of a turn.
    Http(Box<Http>),
    /// A recorded native stream, played again.
    Recording(Recording),
}

/// `[agents.NAME.driver.http]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Http {
    /// Where the endpoint is.
    pub url: Url,
    /// What a request looks like; by the harness where absent.
    pub shape: Option<Shape>,
    /// Members of the request's body besides the driver's own: a JSON object, as text.
    pub body: Option<String>,
    /// Headers besides the driver's own; never plain text.
    pub headers: BTreeMap<String, EnvValue>,
    /// The token of `authorization: Bearer`; never plain text.
    pub bearer: Option<EnvValue>,
    /// Certificate authorities in PEM, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the endpoint keeps the thread of a conversation.
    pub keeps_threads: bool,
    /// Whether secrets may go over plain HTTP to another machine.
    pub plaintext: bool,
    /// How long to connect.
    pub connect_timeout: Duration,
    /// How long until status and headers are there.
    pub response_timeout: Duration,
    /// How long the answer may be silent.
    pub idle_timeout: Duration,
    /// How long a turn may take.
    pub total_timeout: Duration,
    /// The largest answer.
    pub max_body: u64,
}

/// `[agents.NAME.driver.process]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Process {
    /// Program and arguments, with placeholders.
    pub command: Vec<String>,
    /// Whether a worker serves one run (else one conversation).
    pub per_run: bool,
    /// How long an idle worker is kept.
    pub idle_exit: Duration,
    /// How long a worker may take to say hello.
    pub start_timeout: Duration,
    /// How long a cancelled turn gets before its worker is killed.
    pub cancel_grace: Duration,
    /// Workers of this agent at once.
    pub max_workers: usize,
    /// Turns that may wait for a worker.
    pub max_queue: usize,
    /// How long a turn waits for a worker.
    pub queue_timeout: Duration,
    /// Failed starts of workers in a row after which none is tried for a while.
    pub circuit_failures: u32,
    /// For how long none is tried.
    pub circuit_open: Duration,
    /// What the environment holds besides `PATH`, `HOME` and `LANG`.
    pub env: BTreeMap<String, EnvValue>,
}

/// A value of a worker's environment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EnvValue {
    /// As it stands.
    Plain(String),
    /// The text of a file, without the line break at its end.
    File(PathBuf),
    /// The value of a variable of the gateway's own environment.
    Env(String),
}

impl Http {
    /// The same for the engine; `secret` finds what a reference means, given the key below `driver.http`.
    ///
    /// # Errors
    /// Those of `secret`.
    pub fn endpoint<E>(
        &self,
        mut secret: impl FnMut(&str, &EnvValue) -> Result<Secret, E>,
    ) -> Result<http::Config, E> {
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            // A name that was read is one.
            let Ok(known) = HeaderName::from_bytes(name.as_bytes()) else { continue };
            headers.push((known, secret(&format!("headers.{name}"), value)?));
        }
        let bearer = self.bearer.as_ref().map(|value| secret("bearer", value)).transpose()?;
        Ok(http::Config {
            url: self.url.clone(),
            shape: self.shape,
            body: self.body.clone(),
            headers,
            bearer,
            ca_file: self.ca_file.clone(),
            keeps_threads: self.keeps_threads,
            plaintext: self.plaintext,
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            idle_timeout: self.idle_timeout,
            total_timeout: self.total_timeout,
            max_body: self.max_body,
        })
    }
}

/// `[agents.NAME.driver.recording]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recording {
    /// The file of native lines.
    pub file: PathBuf,
    /// The pause between two lines.
    pub pace: Pace,
}

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// As fast as it is read.
    Fast,
    /// At the engine's own steady pace: recordings hold no times.
    Recorded,
    /// One line every so often.
    Every(Duration),
}

/// Something wrong with a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The dotted path of the key; empty for the file as a whole.
    pub path: String,
    /// Where it was written.
    pub origin: Option<Origin>,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    fn new(path: &str, origin: Option<&Origin>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), origin: origin.cloned(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Flags that outrank file and environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overrides {
    /// `--listen`
    pub listen: Option<String>,
    /// `--data`
    pub data: Option<String>,
}

impl Config {
    /// Reads the text of a file (empty for none), lays the environment and the flags over it and checks the whole.
    ///
    /// # Errors
    /// Every [`Finding`], in the order of the keys.
    pub fn load(
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &Overrides,
    ) -> Result<Self, Vec<Finding>> {
        let mut tree = tree::parse(text).map_err(|error| {
            vec![Finding::new("", Some(&Origin::Line(error.line)), format!("not TOML: {}", error.message))]
        })?;
        tree::overlay_env(&mut tree, environment, schema::spelling);
        overlay_flags(&mut tree, flags);
        let mut findings = Vec::new();
        schema::check(&tree, &mut findings);
        let config = read::config(&tree, &mut findings);
        if findings.is_empty() { Ok(config) } else { Err(findings) }
    }

    /// The effective settings as TOML that [`Config::load`] reads back; secrets stay references.
    pub fn show(&self) -> String {
        show::show(self)
    }
}

fn overlay_flags(tree: &mut Tree, flags: &Overrides) {
    for (flag, value, path) in
        [("--listen", &flags.listen, ["server", "listen"]), ("--data", &flags.data, ["store", "path"])]
    {
        if let Some(value) = value {
            let node = Node { value: Value::Text(value.clone()), origin: Origin::Flag(flag) };
            tree::insert(tree, &path.map(str::to_owned), node);
        }
    }
}

#[cfg(test)]
mod tests;
