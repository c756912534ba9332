//! From the raw tree to typed settings: every value is checked here and each fault is told with its remedy.
//!
//! Refuses to stop at the first fault: a file is read to its end so that all of them are told at once.

mod auth;
mod http;
mod postgres;
mod quotas;
mod retention;
mod tools;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway_contract::Limits;
use causeway_contract::id::check_id;

use causeway_engine::http::config::Url;
use causeway_engine::quota::Bounds;

use super::tree::{Node, Origin, Tree, Value};
use super::units;
use super::{
    Agent, Audit, AuthMode, Config, Driver, EnvValue, Finding, Pace, Process, Recording, Server, Store,
    StoreKind, Tracing,
};

/// The settings in `tree`; faults are added to `findings` and replaced by defaults.
pub(super) fn config(tree: &Tree, findings: &mut Vec<Finding>) -> Config {
    let mut config = Config::default();
    let mut root = Section { path: String::new(), tree: Some(tree), findings };
    root.table("server", |section| config.server = server(section));
    root.table("store", |section| config.store = store(section));
    root.table("auth", |section| config.auth = auth::auth(section));
    root.table("audit", |section| config.audit = audit(section));
    root.table("retention", |section| config.retention = retention::retention(section));
    root.table("tracing", |section| config.tracing = tracing(section));
    root.table("quotas", |section| config.quotas = quotas::quotas(section));
    root.each("agents", |name, section| {
        if let Some(agent) = agent(name, section) {
            config.agents.insert(name.to_owned(), agent);
        }
    });
    auth::check_agents(&config.auth, config.agents.keys(), &mut root);
    let Server { listen, .. } = &config.server;
    if asks_nobody(tree) && !listen.ip().is_loopback() {
        root.find(
            "server.listen",
            origin_of(tree, "server", "listen"),
            format!(
                "{listen} can be reached from other machines and auth.mode is \"none\"; listen on 127.0.0.1, \
                 or set auth.mode to \"service\" or \"jwt\""
            ),
        );
    }
    config
}

fn server(section: &mut Section<'_, '_>) -> Server {
    let default = Server::default();
    let mut server = Server {
        hosts: section.words("hosts").unwrap_or_default(),
        origins: section.words("origins").unwrap_or_default(),
        max_body: section.size("max_body", 1024..=64 << 20).unwrap_or(default.max_body),
        max_head: section.size("max_head", 8 << 10..=1 << 20).unwrap_or(default.max_head),
        header_timeout: section.duration("header_timeout", true).unwrap_or(default.header_timeout),
        body_timeout: section.duration("body_timeout", true).unwrap_or(default.body_timeout),
        idle_timeout: section.duration("idle_timeout", true).unwrap_or(default.idle_timeout),
        write_timeout: section.duration("write_timeout", true).unwrap_or(default.write_timeout),
        keep_alive: section.duration("keep_alive", true).unwrap_or(default.keep_alive),
        shutdown_grace: section.duration("shutdown_grace", false).unwrap_or(default.shutdown_grace),
        max_connections: section.count("max_connections", 1..=1 << 20).unwrap_or(default.max_connections),
        inspector: section.flag("inspector").unwrap_or(default.inspector),
        listen: default.listen,
    };
    if let Some(text) = section.text("listen") {
        match listen_address(&text) {
            Some(address) => server.listen = address,
            None => section.fault(
                "listen",
                format!("`{}` is no address; write IP:PORT, e.g. 127.0.0.1:8787", printable(&text)),
            ),
        }
    }
    for host in &server.hosts {
        if host.is_empty() || host.contains(['/', ' ', '@', '*']) {
            let message = format!("`{}` is no host name; write e.g. \"agents.example\"", printable(host));
            section.fault("hosts", message);
        }
    }
    for origin in &server.origins {
        let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.contains(['/', ' ', '*'])) {
            let message =
                format!("`{}` is no origin; write SCHEME://HOST[:PORT] without a path", printable(origin));
            section.fault("origins", message);
        }
    }
    server
}

fn listen_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

fn store(section: &mut Section<'_, '_>) -> Store {
    let mut store = Store::default();
    match section.text("kind").as_deref() {
        None | Some("sqlite") => {}
        Some("memory") => store.kind = StoreKind::Memory,
        Some("postgres") => store.kind = StoreKind::Postgres,
        Some(other) => {
            let message =
                format!("`{}` is unknown; use \"sqlite\", \"postgres\" or \"memory\"", printable(other));
            section.fault("kind", message);
        }
    }
    if let Some(path) = section.path("path") {
        store.path = path;
    }
    let shared = store.kind == StoreKind::Postgres;
    section.table("postgres", |section| {
        let postgres = postgres::read(section);
        store.postgres = Some(postgres).filter(|_| shared);
    });
    if shared && store.postgres.is_none() {
        section.fault("kind", "\"postgres\" needs a [store.postgres] with host, user and database");
    }
    store
}

/// Whether `auth.mode` is none; a mode whose settings are wrong asks all the same.
fn asks_nobody(tree: &Tree) -> bool {
    let mode = match tree.get("auth").map(|node| &node.value) {
        Some(Value::Table(auth)) => auth.get("mode").map(|node| &node.value),
        _ => None,
    };
    !matches!(mode, Some(Value::Text(mode)) if mode != AuthMode::None.as_str())
}

fn audit(section: &mut Section<'_, '_>) -> Audit {
    let default = Audit::default();
    Audit {
        enabled: section.flag("enabled").unwrap_or(default.enabled),
        rotate_at: section.size("rotate_at", 4096..=1 << 40).unwrap_or(default.rotate_at),
    }
}

fn tracing(section: &mut Section<'_, '_>) -> Tracing {
    let default = Tracing::default();
    let endpoint = section.text("endpoint").and_then(|text| match Url::parse(&text) {
        Ok(url) => Some(url),
        Err(what) => {
            section.fault("endpoint", what);
            None
        }
    });
    Tracing { endpoint, timeout: section.duration("timeout", true).unwrap_or(default.timeout) }
}

fn agent(name: &str, section: &mut Section<'_, '_>) -> Option<Agent> {
    if check_id(name, Limits::DEFAULT.id_bytes).is_err() {
        section.here("an agent's name is not empty, has at most 256 bytes, no control characters and no space at either end");
    }
    let harness = section.text("harness");
    if harness.is_none() && !section.has("harness") {
        section.here(
            "`harness` is missing; name the harness whose stream the driver delivers, e.g. \"deepagents\"",
        );
    }
    if section.flag("allow_config_override") == Some(true) {
        section.fault("allow_config_override", "is not part of this build; leave it out or set it to false");
    }
    let tools = tools::tools(section);
    let display = section.text("name");
    if let Some(display) = &display
        && check_id(display, Limits::DEFAULT.id_bytes).is_err()
    {
        section.fault("name", "is empty, longer than 256 bytes, or holds control characters or outer spaces");
    }
    let mut limits = Limits::DEFAULT;
    section.table("limits", |section| read_limits(section, &mut limits));
    let mut quotas = Bounds::default();
    section.table("quotas", |section| quotas = quotas::bounds(section));
    let mut drivers: Vec<Driver> = Vec::new();
    let mut given = 0;
    section.table("driver", |section| {
        section.table("process", |section| {
            given += 1;
            drivers.extend(process(section).map(Driver::Process));
        });
        section.table("recording", |section| {
            given += 1;
            drivers.extend(recording(section).map(Driver::Recording));
        });
        section.table("http", |section| {
            given += 1;
            drivers.extend(http::http(section).map(|http| Driver::Http(Box::new(http))));
        });
    });
    if given != 1 {
        section.here("exactly one driver is needed: `driver.process`, `driver.http` or `driver.recording`");
    }
    Some(Agent {
        name: display,
        harness: harness?,
        durable: section.choice("thread", &["durable", "ephemeral"]) != Some("ephemeral"),
        deadline: section.duration("deadline", true).unwrap_or(Duration::from_secs(15 * 60)),
        idle_timeout: section.duration("idle_timeout", true).unwrap_or(Duration::from_secs(5 * 60)),
        cancel_on_disconnect: section.choice("on_disconnect", &["continue", "cancel"]) == Some("cancel"),
        stream_arguments: section.flag("stream_arguments").unwrap_or(false),
        strip_escapes: section.choice("terminal_escapes", &["keep", "strip"]) == Some("strip"),
        redact_content: section.flag("redact_content").unwrap_or(false),
        interrupt_expiry: section.duration("interrupt_expiry", true),
        allow_files: section.flag("allow_files").unwrap_or(false),
        limits,
        quotas,
        tools_from: section.path("tools_from"),
        tools,
        driver: drivers.into_iter().next()?,
    })
}

fn process(section: &mut Section<'_, '_>) -> Option<Process> {
    let command = section.words("command");
    if command.as_ref().is_none_or(Vec::is_empty) {
        section.here("`command` is missing; write it as [\"PROGRAM\", \"ARGUMENT\", …]");
    }
    let per_run = section.choice("scope", &["conversation", "run"]) == Some("run");
    let mut env = BTreeMap::new();
    section.free("env", |name, node, section| {
        if let Some(value) = env_value("env", name, node, section) {
            env.insert(name.to_owned(), value);
        }
    });
    Some(Process {
        command: command?,
        per_run,
        idle_exit: section.duration("idle_exit", false).unwrap_or(Duration::from_secs(5 * 60)),
        start_timeout: section.duration("start_timeout", true).unwrap_or(Duration::from_secs(30)),
        cancel_grace: section.duration("cancel_grace", false).unwrap_or(Duration::from_secs(5)),
        max_workers: section.count("max_workers", 1..=65_536).unwrap_or(16),
        max_queue: section.count("max_queue", 0..=65_536).unwrap_or(16),
        queue_timeout: section.duration("queue_timeout", true).unwrap_or(Duration::from_secs(30)),
        circuit_failures: section
            .count("circuit_failures", 0..=1_000)
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(5),
        circuit_open: section.duration("circuit_open", true).unwrap_or(Duration::from_secs(30)),
        env,
    })
}

fn env_value(table: &str, name: &str, node: &Node, section: &mut Section<'_, '_>) -> Option<EnvValue> {
    let path = if table.is_empty() { section.full(name) } else { section.full(&format!("{table}.{name}")) };
    let origin = Some(&node.origin);
    match &node.value {
        Value::Text(_) | Value::Integer(_) | Value::Flag(_) if looks_secret(name) => {
            let message = "looks like a secret and stands here in plain text; write { env = \"VARIABLE\" } or \
                           { file = \"PATH\" }";
            section.find(&path, origin, message);
            None
        }
        Value::Text(text) => Some(EnvValue::Plain(text.clone())),
        Value::Integer(number) => Some(EnvValue::Plain(number.to_string())),
        Value::Flag(flag) => Some(EnvValue::Plain(flag.to_string())),
        Value::Table(table) => {
            let mut entries = table.iter();
            match (entries.next().map(|(key, node)| (key.as_str(), &node.value)), entries.next()) {
                (Some(("file", Value::Text(file))), None) => Some(EnvValue::File(PathBuf::from(file))),
                (Some(("env", Value::Text(variable))), None) => Some(EnvValue::Env(variable.clone())),
                _ => {
                    section.find(
                        &path,
                        origin,
                        "is no reference; write { env = \"VARIABLE\" } or { file = \"PATH\" }",
                    );
                    None
                }
            }
        }
        other @ (Value::List(_) | Value::Other(_)) => {
            section.find(&path, origin, format!("is {}, but a string is expected here", other.kind()));
            None
        }
    }
}

/// A value that must be a reference.
fn reference(table: &str, name: &str, node: &Node, section: &mut Section<'_, '_>) -> Option<EnvValue> {
    match env_value(table, name, node, section)? {
        EnvValue::Plain(_) => {
            let path =
                if table.is_empty() { section.full(name) } else { section.full(&format!("{table}.{name}")) };
            let message = "stands here in plain text; write { env = \"VARIABLE\" } or { file = \"PATH\" }";
            section.find(&path, Some(&node.origin), message);
            None
        }
        value @ (EnvValue::File(_) | EnvValue::Env(_)) => Some(value),
    }
}

/// Whether a variable of this name usually holds a secret.
fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["SECRET", "PASSWORD", "PASSWD", "TOKEN", "CREDENTIAL", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY"]
        .iter()
        .any(|word| name.contains(word))
        && !["_TOKENS", "TOKENIZER"].iter().any(|word| name.contains(word))
}

fn recording(section: &mut Section<'_, '_>) -> Option<Recording> {
    let file = section.path("file");
    if file.is_none() && !section.has("file") {
        section.here("`file` is missing; name a recorded native stream");
    }
    let pace = match section.text("pace").as_deref() {
        None | Some("fast") => Pace::Fast,
        Some("recorded") => Pace::Recorded,
        Some(text) => match units::duration(text) {
            Some(pause) if pause <= Duration::from_secs(3600) => Pace::Every(pause),
            _ => {
                section
                    .fault("pace", "use \"fast\", \"recorded\" or a pause between two lines, e.g. \"50ms\"");
                Pace::Fast
            }
        },
    };
    Some(Recording { file: file?, pace })
}

fn read_limits(section: &mut Section<'_, '_>, limits: &mut Limits) {
    for (name, value) in bytes_of(limits) {
        if let Some(size) = section.size(name, 1..=1 << 40) {
            *value = usize::try_from(size).unwrap_or(usize::MAX);
        }
    }
    for (name, value) in counts_of(limits) {
        if let Some(count) = section.count(name, 1..=1 << 30) {
            *value = count;
        }
    }
    if let Some(events) = section.count("run_events", 1..=1 << 40) {
        limits.run_events = events as u64;
    }
    if let Some(bytes) = section.size("run_bytes", 1..=1 << 50) {
        limits.run_bytes = bytes;
    }
}

/// The limits that are sizes, by name.
pub(super) fn bytes_of(limits: &mut Limits) -> [(&'static str, &mut usize); 12] {
    [
        ("id_bytes", &mut limits.id_bytes),
        ("message_bytes", &mut limits.message_bytes),
        ("prompt_bytes", &mut limits.prompt_bytes),
        ("tool_error_bytes", &mut limits.tool_error_bytes),
        ("delta_bytes", &mut limits.delta_bytes),
        ("message_text_bytes", &mut limits.message_text_bytes),
        ("run_text_bytes", &mut limits.run_text_bytes),
        ("arguments_bytes", &mut limits.arguments_bytes),
        ("result_bytes", &mut limits.result_bytes),
        ("details_bytes", &mut limits.details_bytes),
        ("event_bytes", &mut limits.event_bytes),
        ("interrupt_bytes", &mut limits.interrupt_bytes),
    ]
}

/// The limits that are counts, by name.
pub(super) fn counts_of(limits: &mut Limits) -> [(&'static str, &mut usize); 9] {
    [
        ("details_keys", &mut limits.details_keys),
        ("details_depth", &mut limits.details_depth),
        ("form_fields", &mut limits.form_fields),
        ("namespace_depth", &mut limits.namespace_depth),
        ("open_namespaces", &mut limits.open_namespaces),
        ("tool_calls", &mut limits.tool_calls),
        ("messages", &mut limits.messages),
        ("approvals", &mut limits.approvals),
        ("json_depth", &mut limits.json_depth),
    ]
}

fn origin_of<'t>(tree: &'t Tree, table: &str, key: &str) -> Option<&'t Origin> {
    match tree.get(table).map(|node| &node.value) {
        Some(Value::Table(inner)) => inner.get(key).map(|node| &node.origin),
        _ => None,
    }
}

/// A bounded, printable rendering of a value for a message.
fn printable(text: &str) -> String {
    let short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() { format!("{short}…") } else { short }
}

/// One table of the tree and where faults in it go.
struct Section<'t, 'f> {
    path: String,
    tree: Option<&'t Tree>,
    findings: &'f mut Vec<Finding>,
}

impl<'t> Section<'t, '_> {
    fn node(&self, key: &str) -> Option<&'t Node> {
        self.tree.and_then(|tree| tree.get(key))
    }

    fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A fault of the value at `key`.
    fn fault(&mut self, key: &str, message: impl Into<String>) {
        let finding = Finding::new(&self.full(key), self.node(key).map(|node| &node.origin), message);
        self.findings.push(finding);
    }

    /// A fault of this table as a whole.
    fn here(&mut self, message: impl Into<String>) {
        self.findings.push(Finding::new(&self.path.clone(), None, message));
    }

    fn find(&mut self, path: &str, origin: Option<&Origin>, message: impl Into<String>) {
        self.findings.push(Finding::new(path, origin, message));
    }

    fn table(&mut self, key: &str, inside: impl FnOnce(&mut Section<'t, '_>)) {
        if let Some(Node { value: Value::Table(tree), .. }) = self.node(key) {
            let path = self.full(key);
            inside(&mut Section { path, tree: Some(tree), findings: self.findings });
        }
    }

    fn each(&mut self, key: &str, mut inside: impl FnMut(&str, &mut Section<'t, '_>)) {
        if let Some(Node { value: Value::Table(tree), .. }) = self.node(key) {
            for (name, node) in tree {
                if let Value::Table(tree) = &node.value {
                    let path = format!("{}.{name}", self.full(key));
                    inside(name, &mut Section { path, tree: Some(tree), findings: self.findings });
                }
            }
        }
    }

    fn free(&mut self, key: &str, mut inside: impl FnMut(&str, &Node, &mut Self)) {
        if let Some(Node { value: Value::Table(tree), .. }) = self.node(key) {
            for (name, node) in tree {
                inside(name, node, self);
            }
        }
    }

    fn wrong(&mut self, key: &str, value: &Value, expected: &str) {
        self.fault(key, format!("is {}, but {expected} is expected here", value.kind()));
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match &self.node(key)?.value {
            Value::Text(text) => Some(text.clone()),
            other => {
                self.wrong(key, other, "a string");
                None
            }
        }
    }

    fn path(&mut self, key: &str) -> Option<PathBuf> {
        let text = self.text(key)?;
        if text.is_empty() || text.contains('\0') {
            self.fault(key, "is no path");
            return None;
        }
        Some(PathBuf::from(text))
    }

    fn choice(&mut self, key: &str, allowed: &[&'static str]) -> Option<&'static str> {
        let text = self.text(key)?;
        let found = allowed.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            let names: Vec<String> = allowed.iter().map(|choice| format!("\"{choice}\"")).collect();
            self.fault(key, format!("`{}` is unknown; use {}", printable(&text), names.join(" or ")));
        }
        found
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        let node = self.node(key)?;
        match &node.value {
            Value::Flag(flag) => return Some(*flag),
            Value::Text(text) if node.origin.is_text_only() => match text.as_str() {
                "true" | "1" => return Some(true),
                "false" | "0" => return Some(false),
                _ => {}
            },
            Value::Text(_) | Value::Integer(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => {}
        }
        self.wrong(key, &node.value, "true or false");
        None
    }

    fn count(&mut self, key: &str, range: std::ops::RangeInclusive<usize>) -> Option<usize> {
        let node = self.node(key)?;
        let number = match &node.value {
            Value::Integer(number) => Some(*number),
            Value::Text(text) if node.origin.is_text_only() => text.trim().parse().ok(),
            Value::Text(_) | Value::Flag(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => None,
        };
        let Some(number) = number else {
            self.wrong(key, &node.value, "a whole number");
            return None;
        };
        let count = usize::try_from(number).ok().filter(|count| range.contains(count));
        if count.is_none() {
            self.fault(key, format!("{number} is out of range; use {} to {}", range.start(), range.end()));
        }
        count
    }

    fn size(&mut self, key: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let bytes = match &self.node(key)?.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => units::size(text),
            Value::Flag(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => None,
        };
        let bytes = bytes.filter(|bytes| range.contains(bytes));
        if bytes.is_none() {
            let (from, to) = (units::show_size(*range.start()), units::show_size(*range.end()));
            self.fault(key, format!("is no size from {from} to {to}; write e.g. \"2MiB\""));
        }
        bytes
    }

    fn duration(&mut self, key: &str, positive: bool) -> Option<Duration> {
        let duration = match &self.node(key)?.value {
            Value::Text(text) => units::duration(text),
            Value::Integer(_) | Value::Flag(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => None,
        };
        match duration {
            Some(zero) if positive && zero.is_zero() => {
                self.fault(key, "must be longer than nothing");
                None
            }
            Some(duration) => Some(duration),
            None => {
                self.fault(key, "is no duration; write e.g. \"30s\", \"15m\" or \"1h30m\"");
                None
            }
        }
    }

    fn words(&mut self, key: &str) -> Option<Vec<String>> {
        let node = self.node(key)?;
        match &node.value {
            Value::List(items) => {
                let words: Option<Vec<String>> = items
                    .iter()
                    .map(|item| match &item.value {
                        Value::Text(text) => Some(text.clone()),
                        _ => None,
                    })
                    .collect();
                if words.is_none() {
                    self.fault(key, "holds something that is no string");
                }
                words
            }
            Value::Text(text) if node.origin.is_text_only() => Some(
                text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect(),
            ),
            other => {
                self.wrong(key, other, "an array of strings");
                None
            }
        }
    }
}

impl Origin {
    /// Whether values from here can only be text, so that numbers and lists are read out of it.
    fn is_text_only(&self) -> bool {
        match self {
            Self::Line(_) => false,
            Self::Env(_) | Self::Flag(_) => true,
        }
    }
}
