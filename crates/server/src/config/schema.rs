//! Every known key of `causeway.toml`, once: the reader, the suggestions and the example's test go by this table.
//!
//! Refuses unknown keys, each with the nearest known one.

use super::Finding;
use super::tree::{Node, Tree, Value};

/// What may stand at a key.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One value; its own reader checks it.
    Leaf,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table whose keys are names the user chooses, each holding such a table.
    Named(&'static [Key]),
    /// A table whose keys are names the user chooses, each holding a value.
    Free,
}

/// A known key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

const fn leaf(name: &'static str) -> Key {
    Key { name, kind: Kind::Leaf }
}

const fn table(name: &'static str, keys: &'static [Key]) -> Key {
    Key { name, kind: Kind::Table(keys) }
}

/// The keys of the whole file.
pub const ROOT: &[Key] = &[
    table("server", SERVER),
    table("store", &[leaf("kind"), leaf("path"), table("postgres", POSTGRES)]),
    table("auth", AUTH),
    table("audit", &[leaf("enabled"), leaf("rotate_at")]),
    table("retention", &[leaf("pack_after"), leaf("delete_after"), leaf("interval")]),
    table("tracing", &[leaf("endpoint"), leaf("timeout")]),
    table(
        "quotas",
        &[
            leaf("open_runs"),
            leaf("starts_per_minute"),
            leaf("open_streams"),
            leaf("stored_bytes"),
            Key { name: "subjects", kind: Kind::Named(BOUNDS) },
        ],
    ),
    Key { name: "agents", kind: Kind::Named(AGENT) },
];

const BOUNDS: &[Key] =
    &[leaf("open_runs"), leaf("starts_per_minute"), leaf("open_streams"), leaf("stored_bytes")];

const SERVER: &[Key] = &[
    leaf("listen"),
    leaf("hosts"),
    leaf("origins"),
    leaf("max_body"),
    leaf("max_head"),
    leaf("header_timeout"),
    leaf("body_timeout"),
    leaf("idle_timeout"),
    leaf("write_timeout"),
    leaf("keep_alive"),
    leaf("shutdown_grace"),
    leaf("max_connections"),
    leaf("inspector"),
];

const AUTH: &[Key] = &[
    leaf("mode"),
    leaf("subject_header"),
    Key { name: "tokens", kind: Kind::Free },
    table("jwt", JWT),
    leaf("metrics"),
    leaf("unlisted_agents"),
    Key { name: "agents", kind: Kind::Named(&[leaf("subjects"), leaf("groups"), leaf("tokens")]) },
];

const JWT: &[Key] = &[
    leaf("issuer"),
    leaf("audience"),
    leaf("algorithms"),
    leaf("jwks_url"),
    leaf("jwks_file"),
    leaf("ca_file"),
    leaf("leeway"),
    leaf("groups_claim"),
    leaf("refresh"),
    leaf("keep"),
    leaf("timeout"),
];

const POSTGRES: &[Key] = &[
    leaf("host"),
    leaf("port"),
    leaf("user"),
    leaf("password"),
    leaf("database"),
    leaf("schema"),
    leaf("tls"),
    leaf("ca_file"),
    leaf("application_name"),
    leaf("readers"),
    leaf("connect_timeout"),
    leaf("statement_timeout"),
    leaf("lock_timeout"),
    leaf("migrate"),
    leaf("notify"),
];

const AGENT: &[Key] = &[
    leaf("name"),
    leaf("harness"),
    leaf("thread"),
    leaf("deadline"),
    leaf("idle_timeout"),
    leaf("on_disconnect"),
    leaf("stream_arguments"),
    leaf("terminal_escapes"),
    leaf("redact_content"),
    leaf("interrupt_expiry"),
    leaf("allow_files"),
    leaf("allow_config_override"),
    table("limits", LIMITS),
    table("quotas", BOUNDS),
    leaf("tools_from"),
    Key { name: "tools", kind: Kind::Named(TOOL) },
    table("driver", &[table("process", PROCESS), table("http", HTTP), table("recording", RECORDING)]),
];

const TOOL: &[Key] = &[
    leaf("schema"),
    leaf("schema_json"),
    leaf("approval"),
    leaf("sensitive"),
    leaf("timeout"),
    leaf("max_output"),
    table("invoke", &[table("command", TOOL_COMMAND), table("http", TOOL_HTTP)]),
];

const TOOL_COMMAND: &[Key] = &[leaf("argv"), Key { name: "env", kind: Kind::Free }];

const TOOL_HTTP: &[Key] = &[
    leaf("url"),
    leaf("bearer"),
    Key { name: "headers", kind: Kind::Free },
    leaf("ca_file"),
    leaf("plaintext"),
    leaf("connect_timeout"),
    leaf("response_timeout"),
];

const PROCESS: &[Key] = &[
    leaf("command"),
    leaf("scope"),
    leaf("idle_exit"),
    leaf("start_timeout"),
    leaf("cancel_grace"),
    leaf("max_workers"),
    leaf("max_queue"),
    leaf("queue_timeout"),
    leaf("circuit_failures"),
    leaf("circuit_open"),
    Key { name: "env", kind: Kind::Free },
];

const HTTP: &[Key] = &[
    leaf("url"),
    leaf("request"),
    leaf("body"),
    leaf("bearer"),
    Key { name: "headers", kind: Kind::Free },
    leaf("ca_file"),
    leaf("keeps_threads"),
    leaf("plaintext"),
    leaf("connect_timeout"),
    leaf("response_timeout"),
    leaf("idle_timeout"),
    leaf("total_timeout"),
    leaf("max_body"),
];

const RECORDING: &[Key] = &[leaf("file"), leaf("pace")];

const LIMITS: &[Key] = &[
    leaf("id_bytes"),
    leaf("message_bytes"),
    leaf("prompt_bytes"),
    leaf("tool_error_bytes"),
    leaf("delta_bytes"),
    leaf("message_text_bytes"),
    leaf("run_text_bytes"),
    leaf("arguments_bytes"),
    leaf("result_bytes"),
    leaf("details_bytes"),
    leaf("details_keys"),
    leaf("details_depth"),
    leaf("form_fields"),
    leaf("namespace_depth"),
    leaf("open_namespaces"),
    leaf("tool_calls"),
    leaf("messages"),
    leaf("approvals"),
    leaf("event_bytes"),
    leaf("interrupt_bytes"),
    leaf("run_events"),
    leaf("run_bytes"),
    leaf("json_depth"),
];

/// Adds a finding for every key of `tree` that is not known.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    check_table(tree, ROOT, "", findings);
}

/// Every known path, names the user chooses written `*`.
pub fn paths() -> Vec<String> {
    let mut all = Vec::new();
    collect(ROOT, "", &mut all);
    all
}

/// How `segment` of an environment variable is spelled in the file, below `path`.
pub fn spelling(tree: &Tree, path: &[String], segment: &str) -> String {
    let lower = segment.to_lowercase();
    let mut keys = Some(ROOT);
    let mut here = Some(tree);
    let mut chosen = false;
    for part in path {
        here = here.and_then(|table| match table.get(part).map(|node| &node.value) {
            Some(Value::Table(inner)) => Some(inner),
            _ => None,
        });
        if chosen {
            chosen = false;
            continue;
        }
        match keys.and_then(|keys| keys.iter().find(|key| key.name == part)).map(|key| key.kind) {
            Some(Kind::Table(inner)) => keys = Some(inner),
            Some(Kind::Named(inner)) => {
                keys = Some(inner);
                chosen = true;
            }
            Some(Kind::Free) => return segment.to_owned(), // names of environment variables keep their case
            Some(Kind::Leaf) | None => keys = None,
        }
    }
    if chosen && let Some(table) = here {
        let same = |name: &&String| name.to_lowercase().replace('-', "_") == lower;
        if let Some(name) = table.keys().find(same) {
            return name.clone();
        }
    }
    lower
}

fn check_table(tree: &Tree, keys: &'static [Key], path: &str, findings: &mut Vec<Finding>) {
    for (name, node) in tree {
        let full = join(path, name);
        match keys.iter().find(|key| key.name == name).map(|key| key.kind) {
            None => findings.push(Finding::new(&full, Some(&node.origin), unknown(name, keys, path))),
            Some(Kind::Leaf) => {}
            Some(Kind::Table(inner)) => check_inner(node, &full, findings, |tree, findings| {
                check_table(tree, inner, &full, findings);
            }),
            Some(Kind::Named(inner)) => check_inner(node, &full, findings, |tree, findings| {
                for (chosen, node) in tree {
                    let full = join(&full, chosen);
                    check_inner(node, &full, findings, |tree, findings| {
                        check_table(tree, inner, &full, findings);
                    });
                }
            }),
            Some(Kind::Free) => check_inner(node, &full, findings, |_, _| {}),
        }
    }
}

fn check_inner(
    node: &Node,
    path: &str,
    findings: &mut Vec<Finding>,
    inside: impl FnOnce(&Tree, &mut Vec<Finding>),
) {
    match &node.value {
        Value::Table(tree) => inside(tree, findings),
        other => {
            let message = format!("is {}, but a table is expected here", other.kind());
            findings.push(Finding::new(path, Some(&node.origin), message));
        }
    }
}

fn unknown(name: &str, keys: &[Key], path: &str) -> String {
    let near = keys
        .iter()
        .map(|key| (distance(name, key.name), key.name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance * 2 <= known.len().max(2) || name.starts_with(known));
    if let Some((_, known)) = near {
        return format!("is not a known key; did you mean `{}`?", join(path, known));
    }
    let elsewhere = paths().into_iter().find(|known| known.rsplit('.').next() == Some(name));
    if let Some(known) = elsewhere {
        return format!("is not a known key here; did you mean `{known}`?");
    }
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    format!("is not a known key; known here: {}", names.join(", "))
}

fn collect(keys: &[Key], path: &str, all: &mut Vec<String>) {
    for key in keys {
        let full = join(path, key.name);
        match key.kind {
            Kind::Leaf => all.push(full),
            Kind::Table(inner) => collect(inner, &full, all),
            Kind::Named(inner) => collect(inner, &join(&full, "*"), all),
            Kind::Free => all.push(join(&full, "*")),
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Edit distance over characters: insertions, deletions, substitutions.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (b, above) in to.iter().zip(row.iter_mut().skip(1)) {
            let next = (diagonal + usize::from(a != *b)).min(left + 1).min(*above + 1);
            diagonal = std::mem::replace(above, next);
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree;

    fn check_text(text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        check(&tree::parse(text).unwrap(), &mut findings);
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        check_text(
            "[server]\nlisten_adr = \"x\"\nlisen = \"x\"\n",
            &[
                "line 3: server.lisen: is not a known key; did you mean `server.listen`?",
                "line 2: server.listen_adr: is not a known key; did you mean `server.listen`?",
            ],
        );
        check_text(
            "listen = \"127.0.0.1:1\"\n",
            &["line 1: listen: is not a known key here; did you mean `server.listen`?"],
        );
        check_text(
            "[store]\nzzzzzzzzzz = 1\n",
            &["line 2: store.zzzzzzzzzz: is not a known key; known here: kind, path, postgres"],
        );
        check_text(
            "[agents.a.driver.proces]\ncommand = []\n",
            &["line 1: agents.a.driver.proces: is not a known key; did you mean `agents.a.driver.process`?"],
        );
    }

    #[test]
    fn a_value_where_a_table_belongs_is_refused() {
        check_text("server = 1\n", &["line 1: server: is a number, but a table is expected here"]);
    }

    #[test]
    fn an_environment_segment_finds_the_spelling_of_the_file() {
        let tree = tree::parse("[agents.My-Helper]\nharness = \"x\"\n").unwrap();
        let path = vec!["agents".to_owned()];
        assert_eq!(spelling(&tree, &path, "MY_HELPER"), "My-Helper");
        assert_eq!(spelling(&tree, &path, "OTHER"), "other");
        assert_eq!(spelling(&tree, &[], "SERVER"), "server");
        let env = ["agents", "My-Helper", "driver", "process", "env"].map(str::to_owned);
        assert_eq!(spelling(&tree, &env, "LOG_LEVEL"), "LOG_LEVEL");
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("listen", "lisen", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), expected);
        }
    }
}
