//! The effective settings as TOML (`causeway config show`); what stands for a secret stays a reference.

use std::fmt::Write as _;

use causeway_contract::Limits;
use causeway_engine::gate::Approval;
use causeway_engine::quota::Bounds;

use super::tools::{Invoke, Schema, Tool};
use super::units::{show_duration, show_size};
use super::{
    Agent, Auth, AuthMode, Config, Driver, EnvValue, Http, JwtAuth, KeySource, Pace, Postgres, Process,
    StoreKind, read,
};

pub(super) fn show(config: &Config) -> String {
    let mut out = String::new();
    let server = &config.server;
    let kind = match config.store.kind {
        StoreKind::Sqlite => "sqlite",
        StoreKind::Postgres => "postgres",
        StoreKind::Memory => "memory",
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "[server]\nlisten = {}\nhosts = {}\norigins = {}\nmax_body = {}\nmax_head = {}\nheader_timeout = {}\nbody_timeout = {}\n\
         idle_timeout = {}\nwrite_timeout = {}\nkeep_alive = {}\nshutdown_grace = {}\nmax_connections = {}\ninspector = {}\n\n[store]\nkind = {}\npath = {}\n",
        quoted(&server.listen.to_string()),
        list(&server.hosts),
        list(&server.origins),
        quoted(&show_size(server.max_body)),
        quoted(&show_size(server.max_head)),
        quoted(&show_duration(server.header_timeout)),
        quoted(&show_duration(server.body_timeout)),
        quoted(&show_duration(server.idle_timeout)),
        quoted(&show_duration(server.write_timeout)),
        quoted(&show_duration(server.keep_alive)),
        quoted(&show_duration(server.shutdown_grace)),
        server.max_connections,
        server.inspector,
        quoted(kind),
        quoted(&config.store.path.display().to_string()),
    );
    if let Some(postgres) = &config.store.postgres {
        show_postgres(&mut out, postgres);
    }
    show_auth(&mut out, &config.auth);
    let _ = writeln!(
        out,
        "\n[audit]\nenabled = {}\nrotate_at = {}",
        config.audit.enabled,
        quoted(&show_size(config.audit.rotate_at))
    );
    let retention = &config.retention;
    let _ = writeln!(out, "\n[retention]\npack_after = {}", quoted(&show_duration(retention.pack_after)));
    if let Some(delete_after) = retention.delete_after {
        let _ = writeln!(out, "delete_after = {}", quoted(&show_duration(delete_after)));
    }
    let _ = writeln!(out, "interval = {}", quoted(&show_duration(retention.interval)));
    let _ = writeln!(out, "\n[tracing]");
    if let Some(endpoint) = &config.tracing.endpoint {
        let _ = writeln!(out, "endpoint = {}", quoted(&endpoint.to_string()));
    }
    let _ = writeln!(out, "timeout = {}", quoted(&show_duration(config.tracing.timeout)));
    show_bounds(&mut out, "quotas", &config.quotas.subject);
    for (name, bounds) in &config.quotas.subjects {
        show_bounds(&mut out, &format!("quotas.subjects.{}", key(name)), bounds);
    }
    for (name, agent) in &config.agents {
        show_agent(&mut out, &format!("agents.{}", key(name)), agent);
    }
    out
}

fn show_auth(out: &mut String, auth: &Auth) {
    let _ = writeln!(out, "[auth]\nmode = {}", quoted(auth.mode.as_str()));
    if auth.mode == AuthMode::None {
        return;
    }
    let metrics = if auth.open_metrics { "open" } else { "token" };
    let unlisted = if auth.closed { "closed" } else { "open" };
    let _ = writeln!(out, "metrics = {}\nunlisted_agents = {}", quoted(metrics), quoted(unlisted));
    match &auth.mode {
        AuthMode::None => {}
        AuthMode::Service(service) => {
            let _ = writeln!(out, "subject_header = {}", quoted(&service.subject_header));
            for (name, value) in &service.tokens {
                let _ = writeln!(out, "tokens.{} = {}", key(name), reference(value));
            }
        }
        AuthMode::Jwt(jwt) => show_jwt(out, jwt),
    }
    for (agent, callers) in &auth.agents {
        let _ = writeln!(out, "\n[auth.agents.{}]", key(agent));
        for (name, list_of) in
            [("subjects", &callers.subjects), ("groups", &callers.groups), ("tokens", &callers.tokens)]
        {
            if !list_of.is_empty() {
                let _ = writeln!(out, "{name} = {}", list(list_of));
            }
        }
    }
}

fn show_jwt(out: &mut String, jwt: &JwtAuth) {
    let algorithms: Vec<String> = jwt.algorithms.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        out,
        "\n[auth.jwt]\nissuer = {}\naudience = {}\nalgorithms = {}\nleeway = {}\ngroups_claim = {}\nrefresh = {}\n\
         keep = {}\ntimeout = {}",
        quoted(&jwt.issuer),
        list(&jwt.audience),
        list(&algorithms),
        quoted(&show_duration(jwt.leeway)),
        quoted(&jwt.groups_claim),
        quoted(&show_duration(jwt.refresh)),
        quoted(&show_duration(jwt.keep)),
        quoted(&show_duration(jwt.timeout)),
    );
    match &jwt.keys {
        KeySource::File(file) => {
            let _ = writeln!(out, "jwks_file = {}", quoted(&file.display().to_string()));
        }
        KeySource::Url { url, ca_file } => {
            let _ = writeln!(out, "jwks_url = {}", quoted(&url.to_string()));
            if let Some(file) = ca_file {
                let _ = writeln!(out, "ca_file = {}", quoted(&file.display().to_string()));
            }
        }
    }
}

fn show_postgres(out: &mut String, postgres: &Postgres) {
    let _ = writeln!(
        out,
        "[store.postgres]\nhost = {}\nport = {}\nuser = {}\ndatabase = {}\nschema = {}\ntls = {}\n\
         application_name = {}\nreaders = {}\nconnect_timeout = {}\nstatement_timeout = {}\nlock_timeout = {}\n\
         migrate = {}\nnotify = {}",
        quoted(&postgres.host),
        postgres.port,
        quoted(&postgres.user),
        quoted(&postgres.database),
        quoted(&postgres.schema),
        quoted(&postgres.tls),
        quoted(&postgres.application_name),
        postgres.readers,
        quoted(&show_duration(postgres.connect_timeout)),
        quoted(&show_duration(postgres.statement_timeout)),
        quoted(&show_duration(postgres.lock_timeout)),
        postgres.migrate,
        postgres.notify,
    );
    if let Some(file) = &postgres.ca_file {
        let _ = writeln!(out, "ca_file = {}", quoted(&file.display().to_string()));
    }
    if let Some(password) = &postgres.password {
        let _ = writeln!(out, "password = {}", reference(password));
    }
    out.push('\n');
}

fn show_agent(out: &mut String, path: &str, agent: &Agent) {
    let _ = writeln!(out, "\n[{path}]");
    if let Some(name) = &agent.name {
        let _ = writeln!(out, "name = {}", quoted(name));
    }
    let _ = writeln!(
        out,
        "harness = {}\nthread = {}\ndeadline = {}\nidle_timeout = {}\non_disconnect = {}\nstream_arguments = {}\n\
         terminal_escapes = {}\nredact_content = {}\nallow_files = {}",
        quoted(&agent.harness),
        quoted(if agent.durable { "durable" } else { "ephemeral" }),
        quoted(&show_duration(agent.deadline)),
        quoted(&show_duration(agent.idle_timeout)),
        quoted(if agent.cancel_on_disconnect { "cancel" } else { "continue" }),
        agent.stream_arguments,
        quoted(if agent.strip_escapes { "strip" } else { "keep" }),
        agent.redact_content,
        agent.allow_files,
    );
    if let Some(expiry) = agent.interrupt_expiry {
        let _ = writeln!(out, "interrupt_expiry = {}", quoted(&show_duration(expiry)));
    }
    if let Some(file) = &agent.tools_from {
        let _ = writeln!(out, "tools_from = {}", quoted(&file.display().to_string()));
    }
    for (name, tool) in &agent.tools {
        show_tool(out, &format!("tools.{}", key(name)), tool);
    }
    show_limits(out, path, &agent.limits);
    show_bounds(out, &format!("{path}.quotas"), &agent.quotas);
    match &agent.driver {
        Driver::Process(process) => show_process(out, path, process),
        Driver::Http(http) => show_http(out, path, http),
        Driver::Recording(recording) => {
            let pace = match recording.pace {
                Pace::Fast => "fast".to_owned(),
                Pace::Recorded => "recorded".to_owned(),
                Pace::Every(pause) => show_duration(pause),
            };
            let file = quoted(&recording.file.display().to_string());
            let _ = writeln!(out, "\n[{path}.driver.recording]\nfile = {file}\npace = {}", quoted(&pace));
        }
    }
}

fn show_tool(out: &mut String, path: &str, tool: &Tool) {
    match &tool.schema {
        Some(Schema::File(file)) => {
            let _ = writeln!(out, "{path}.schema = {}", quoted(&file.display().to_string()));
        }
        Some(Schema::Text(text)) => {
            let _ = writeln!(out, "{path}.schema_json = {}", quoted(text));
        }
        None => {}
    }
    let Some(invoke) = &tool.invoke else { return };
    let approval = match tool.approval {
        Approval::Never => "never",
        Approval::Sensitive => "sensitive",
        Approval::Always => "always",
    };
    let _ = writeln!(
        out,
        "{path}.approval = {}\n{path}.timeout = {}\n{path}.max_output = {}",
        quoted(approval),
        quoted(&show_duration(tool.timeout)),
        quoted(&show_size(tool.max_output)),
    );
    if let Some(sensitive) = tool.sensitive {
        let _ = writeln!(out, "{path}.sensitive = {sensitive}");
    }
    match invoke {
        Invoke::Command { argv, env } => {
            let _ = writeln!(out, "{path}.invoke.command.argv = {}", list(argv));
            for (name, value) in env {
                let _ = writeln!(out, "{path}.invoke.command.env.{} = {}", key(name), reference(value));
            }
        }
        Invoke::Http(http) => {
            let path = format!("{path}.invoke.http");
            let _ = writeln!(out, "{path}.url = {}", quoted(&http.url.to_string()));
            if let Some(bearer) = &http.bearer {
                let _ = writeln!(out, "{path}.bearer = {}", reference(bearer));
            }
            if let Some(file) = &http.ca_file {
                let _ = writeln!(out, "{path}.ca_file = {}", quoted(&file.display().to_string()));
            }
            let _ = writeln!(
                out,
                "{path}.plaintext = {}\n{path}.connect_timeout = {}\n{path}.response_timeout = {}",
                http.plaintext,
                quoted(&show_duration(http.connect_timeout)),
                quoted(&show_duration(http.response_timeout)),
            );
            for (name, value) in &http.headers {
                let _ = writeln!(out, "{path}.headers.{} = {}", key(name), reference(value));
            }
        }
    }
}

/// All of them: a default is a bound like any other.
fn show_limits(out: &mut String, path: &str, limits: &Limits) {
    let mut limits = limits.clone();
    let _ = writeln!(out, "\n[{path}.limits]");
    for (name, value) in read::bytes_of(&mut limits) {
        let _ = writeln!(out, "{name} = {}", quoted(&show_size(*value as u64)));
    }
    for (name, value) in read::counts_of(&mut limits) {
        let _ = writeln!(out, "{name} = {value}");
    }
    let run = quoted(&show_size(limits.run_bytes));
    let _ = writeln!(out, "run_events = {}\nrun_bytes = {run}", limits.run_events);
}

/// Nothing for what has no bound: there is no word for "any amount".
fn show_bounds(out: &mut String, path: &str, bounds: &Bounds) {
    let count = |count: Option<u64>| count.map(|count| count.to_string());
    let lines = [
        ("open_runs", count(bounds.open_runs)),
        ("starts_per_minute", count(bounds.starts_per_minute)),
        ("open_streams", count(bounds.open_streams)),
        ("stored_bytes", bounds.stored_bytes.map(|bytes| quoted(&show_size(bytes)))),
    ];
    let mut lines = lines.into_iter().filter_map(|(name, value)| Some((name, value?))).peekable();
    if lines.peek().is_some() {
        let _ = writeln!(out, "\n[{path}]");
    }
    for (name, value) in lines {
        let _ = writeln!(out, "{name} = {value}");
    }
}

fn show_process(out: &mut String, path: &str, process: &Process) {
    let _ = writeln!(
        out,
        "\n[{path}.driver.process]\ncommand = {}\nscope = {}\nidle_exit = {}\nstart_timeout = {}\n\
         cancel_grace = {}\nmax_workers = {}\nmax_queue = {}\nqueue_timeout = {}\n\
         circuit_failures = {}\ncircuit_open = {}",
        list(&process.command),
        quoted(if process.per_run { "run" } else { "conversation" }),
        quoted(&show_duration(process.idle_exit)),
        quoted(&show_duration(process.start_timeout)),
        quoted(&show_duration(process.cancel_grace)),
        process.max_workers,
        process.max_queue,
        quoted(&show_duration(process.queue_timeout)),
        process.circuit_failures,
        quoted(&show_duration(process.circuit_open)),
    );
    for (name, value) in &process.env {
        let _ = writeln!(out, "env.{} = {}", key(name), reference(value));
    }
}

fn show_http(out: &mut String, path: &str, http: &Http) {
    let _ = writeln!(out, "\n[{path}.driver.http]\nurl = {}", quoted(&http.url.to_string()));
    if let Some(shape) = http.shape {
        let _ = writeln!(out, "request = {}", quoted(shape.as_str()));
    }
    if let Some(body) = &http.body {
        let _ = writeln!(out, "body = {}", quoted(body));
    }
    if let Some(bearer) = &http.bearer {
        let _ = writeln!(out, "bearer = {}", reference(bearer));
    }
    if let Some(file) = &http.ca_file {
        let _ = writeln!(out, "ca_file = {}", quoted(&file.display().to_string()));
    }
    let _ = writeln!(
        out,
        "keeps_threads = {}\nplaintext = {}\nconnect_timeout = {}\nresponse_timeout = {}\nidle_timeout = {}\n\
         total_timeout = {}\nmax_body = {}",
        http.keeps_threads,
        http.plaintext,
        quoted(&show_duration(http.connect_timeout)),
        quoted(&show_duration(http.response_timeout)),
        quoted(&show_duration(http.idle_timeout)),
        quoted(&show_duration(http.total_timeout)),
        quoted(&show_size(http.max_body)),
    );
    for (name, value) in &http.headers {
        let _ = writeln!(out, "headers.{} = {}", key(name), reference(value));
    }
}

fn reference(value: &EnvValue) -> String {
    match value {
        EnvValue::Plain(text) => quoted(text),
        EnvValue::File(file) => format!("{{ file = {} }}", quoted(&file.display().to_string())),
        EnvValue::Env(variable) => format!("{{ env = {} }}", quoted(variable)),
    }
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_owned() } else { quoted(name) }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
