//! The house rules of ARCHITECTURE.md, each a function from the tree's text to findings.
//!
//! Refuses to run or build anything: it reads tracked text, so a rule can be tested on a tree made in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::logs;

/// Where the generated schema stands.
pub const SCHEMA: &str = "contract/canonical-events-v1.schema.json";

/// Crates that do no IO, and every dependency they may name.
const CORE: &[(&str, &[&str])] = &[
    ("contract", &["foldhash", "memchr", "ryu", "serde", "serde_json", "simdutf8", "smallvec", "thiserror"]),
    (
        "lifecycle",
        &["causeway-contract", "foldhash", "memchr", "proptest", "rustc-hash", "smallvec", "thiserror"],
    ),
    ("encode", &["causeway-contract", "memchr", "ryu", "serde_json", "thiserror"]),
    (
        "adapter",
        &[
            "causeway-contract",
            "causeway-lifecycle",
            "crc32fast",
            "memchr",
            "regex-lite",
            "serde",
            "serde_json",
            "thiserror",
        ],
    ),
];

/// The crates of this workspace that a crate may import.
const DIRECTION: &[(&str, &[&str])] = &[
    ("contract", &[]),
    ("lifecycle", &["contract"]),
    ("encode", &["contract"]),
    ("store", &["contract"]),
    ("adapter", &["contract", "lifecycle"]),
    ("engine", &["contract", "lifecycle", "adapter", "store"]),
    ("server", &["contract", "encode", "store", "engine"]),
    ("cli", &["contract", "lifecycle", "encode", "store", "adapter", "engine", "server"]),
];

/// Words that mean IO, time, randomness or the environment.
const OUTSIDE: &[&str] = &[
    "tokio::",
    "SystemTime::now",
    "Instant::now",
    "std::env::",
    "std::fs::",
    "std::net::",
    "std::process::",
    "Uuid::",
];

/// A file past this many lines says in its header why it is one piece.
const LONG: usize = 600;
/// No file passes this many lines.
const TOO_LONG: usize = 1000;

/// One broken rule.
#[derive(Debug, Eq, PartialEq)]
pub struct Finding {
    file: String,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.rule, self.message)
    }
}

/// The text of every file of the checkout that git tracks or would track.
#[derive(Default)]
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads the checkout at `root`.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("cannot run git")?;
        ensure!(listed.status.success(), "git ls-files failed in {}", root.display());
        let names = String::from_utf8(listed.stdout).context("a file name is not UTF-8")?;
        let mut files = BTreeMap::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // A file that git still lists but that is gone has no rules; of one that is no text only its name counts.
            match std::fs::read_to_string(root.join(name)) {
                Ok(text) => drop(files.insert(name.to_owned(), text)),
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    files.insert(name.to_owned(), String::new());
                }
                Err(_) => {}
            }
        }
        Ok(Self(files))
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(name, _)| name.ends_with(".rs"))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Every finding of every rule.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree, &mut Vec<Finding>); 12] = [
        dependency_direction,
        core_dependencies,
        core_does_no_io,
        core_clippy_is_one_text,
        file_length,
        unfinished,
        receipts_come_from_stores,
        rule_coverage,
        harnesses_stay_in_their_folders,
        schema_is_fresh,
        links_lead_somewhere,
        logs_hold_no_content,
    ];
    let mut findings = Vec::new();
    for rule in rules {
        rule(tree, &mut findings);
    }
    findings
}

/// The schema as `cargo xtask bless schema` writes it.
pub fn schema_text() -> String {
    causeway_contract::schema::json_schema_text()
}

fn found(findings: &mut Vec<Finding>, file: &str, rule: &'static str, message: impl Into<String>) {
    findings.push(Finding { file: file.to_owned(), rule, message: message.into() });
}

/// The dependency names in a manifest, `[dev-dependencies]` and `[build-dependencies]` left out.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = section.starts_with("dependencies") || section.ends_with(".dependencies]");
            if let Some(name) = section.strip_prefix("dependencies.") {
                names.push(name.trim_end_matches(']'));
            }
        } else if inside && !line.starts_with('#') && line.contains('=') {
            names.extend(line.split(['=', '.', ' ']).next());
        }
    }
    names
}

fn dependency_direction(tree: &Tree, findings: &mut Vec<Finding>) {
    for (krate, allowed) in DIRECTION {
        let file = format!("crates/{krate}/Cargo.toml");
        for name in tree.text(&file).map(dependencies).unwrap_or_default() {
            if let Some(ours) = name.strip_prefix("causeway-")
                && !allowed.contains(&ours)
            {
                found(findings, &file, "dependency direction", format!("{krate} may not import {ours}"));
            }
        }
    }
}

fn core_dependencies(tree: &Tree, findings: &mut Vec<Finding>) {
    for (krate, allowed) in CORE {
        let file = format!("crates/{krate}/Cargo.toml");
        for name in tree.text(&file).map(dependencies).unwrap_or_default() {
            if !allowed.contains(&name) {
                let message = format!(
                    "{krate} is a core crate; add {name} to the list in xtask/src/tidy.rs if it does no IO"
                );
                found(findings, &file, "core dependencies", message);
            }
        }
    }
}

/// Source text up to its unit tests, which may do what they like.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod ").map_or(text, |(code, _)| code)
}

fn core_does_no_io(tree: &Tree, findings: &mut Vec<Finding>) {
    let core = |name: &str| {
        CORE.iter().any(|(krate, _)| name.starts_with(&format!("crates/{krate}/src/")))
            || name.starts_with("crates/engine/src/coordinator")
    };
    for (name, text) in tree.sources().filter(|(name, _)| core(name)) {
        for (number, line) in without_tests(text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            for word in OUTSIDE.iter().filter(|word| code.contains(**word)) {
                let message = format!("line {}: {word} has no place in the core: pass it in", number + 1);
                found(findings, name, "core does no IO", message);
            }
        }
    }
}

fn core_clippy_is_one_text(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(first) = tree.text("crates/contract/clippy.toml") else {
        return found(findings, "crates/contract/clippy.toml", "core clippy.toml", "is missing");
    };
    for (krate, _) in CORE {
        let file = format!("crates/{krate}/clippy.toml");
        if tree.text(&file) != Some(first) {
            found(findings, &file, "core clippy.toml", "differs from crates/contract/clippy.toml: copy it");
        }
    }
}

fn file_length(tree: &Tree, findings: &mut Vec<Finding>) {
    for (name, text) in tree.sources() {
        let lines = text.lines().count();
        let header: String = text.lines().take_while(|line| line.starts_with("//")).collect();
        if lines > TOO_LONG {
            found(findings, name, "file length", format!("{lines} lines, {TOO_LONG} is the most: split it"));
        } else if lines > LONG && !header.contains("one piece") {
            let message = format!("{lines} lines: split it, or say in the header why it is one piece");
            found(findings, name, "file length", message);
        }
    }
}

fn unfinished(tree: &Tree, findings: &mut Vec<Finding>) {
    // Spelled apart, so that this file does not find itself.
    let words =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    for (name, text) in tree.sources() {
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                found(findings, name, "unfinished", format!("line {}: {word}", number + 1));
            }
            if line.trim_start().starts_with("#[ignore]") {
                found(
                    findings,
                    name,
                    "unfinished",
                    format!("line {}: an ignored test needs its reason", number + 1),
                );
            }
        }
    }
}

fn logs_hold_no_content(tree: &Tree, findings: &mut Vec<Finding>) {
    for (name, text) in
        tree.sources().filter(|(name, _)| name.starts_with("crates/") && name.contains("/src/"))
    {
        for (line, field) in logs::unknown_fields(text) {
            let what =
                format!("line {line} logs `{field}`; if it can hold no content, add it to xtask/src/logs.rs");
            found(findings, name, "log-fields", what);
        }
    }
}

fn receipts_come_from_stores(tree: &Tree, findings: &mut Vec<Finding>) {
    // R14: a commit receipt is a backend's word that the transaction is durable.
    for (name, text) in tree.sources() {
        let may = name.starts_with("crates/store/")
            || name == "crates/contract/src/receipt.rs"
            || name.starts_with("xtask/");
        let is_test = name.contains("/tests/");
        if !may && !is_test && without_tests(text).contains("issued_by_store(") {
            found(findings, name, "R14 receipts", "only store backends construct a CommitReceipt");
        }
    }
}

fn rule_coverage(tree: &Tree, findings: &mut Vec<Finding>) {
    let tests: String =
        tree.sources().filter(|(name, _)| name.starts_with("crates/")).map(|(_, text)| text).collect();
    let document = tree.text("contract/canonical-events-v1.md").unwrap_or_default();
    for number in 1..=15 {
        let id = format!("R{number:02}");
        let lower = format!("r{number:02}");
        if !tests.contains(&format!("fn {lower}_")) {
            found(findings, "crates", "rule coverage", format!("no test is named after {id} (fn {lower}_…)"));
        }
        if !document.contains(&format!("id=\"{lower}\"")) && !document.contains(&format!("{{#{lower}}}")) {
            let message = format!("{id} has no anchor (<a id=\"{lower}\"></a>)");
            found(findings, "contract/canonical-events-v1.md", "rule coverage", message);
        }
        for kind in ["accepted", "rejected"] {
            let folder = format!("contract/streams/{kind}/");
            let stands = tree.files().any(|(name, _)| {
                name.strip_prefix(&folder).is_some_and(|rest| rest.to_lowercase().starts_with(&lower))
            });
            if !stands {
                found(findings, &folder, "rule coverage", format!("no stream for {id}"));
            }
        }
    }
}

/// A harness is known by one line of the registry: nothing else in the workspace names an adapter's folder.
fn harnesses_stay_in_their_folders(tree: &Tree, findings: &mut Vec<Finding>) {
    let folders: Vec<&str> = tree
        .files()
        .filter_map(|(name, _)| name.strip_prefix(ADAPTERS)?.strip_suffix("/catalogue.rs"))
        .collect();
    for (name, text) in
        tree.sources().filter(|(name, _)| name.starts_with("crates/") && name.contains("/src/"))
    {
        let inside = name.strip_prefix(ADAPTERS).and_then(|rest| rest.split('/').next());
        for (number, line) in without_tests(text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for folder in folders.iter().filter(|folder| inside != Some(**folder)) {
                let listed = inside == Some("registry.rs") && code.contains("::catalogue::");
                let shared = inside.is_some_and(|inside| folders.contains(&inside));
                let named = code.contains(&format!("causeway_adapter::{folder}"))
                    || (inside.is_some() && code.contains(&format!("crate::{folder}::")));
                if named && !listed && !shared {
                    let at = format!("line {} names the adapter `{folder}`; ask the registry", number + 1);
                    found(findings, name, "one-registry-line", at);
                }
            }
        }
    }
}

/// Where the folders of adapters stand.
const ADAPTERS: &str = "crates/adapter/src/";

fn schema_is_fresh(tree: &Tree, findings: &mut Vec<Finding>) {
    if tree.text(SCHEMA) != Some(schema_text().as_str()) {
        found(findings, SCHEMA, "schema", "differs from the types: run `cargo xtask bless schema`");
    }
}

/// Relative links of the documents; what is behind `#` is not looked at.
fn links_lead_somewhere(tree: &Tree, findings: &mut Vec<Finding>) {
    for (name, text) in
        tree.files().filter(|(name, _)| name.ends_with(".md") && !name.starts_with("tests/data/"))
    {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (_, rest) in text.match_indices("](").map(|(at, mark)| text.split_at(at + mark.len())) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            for part in target.split('/') {
                match part {
                    "." | "" => {}
                    ".." => drop(path.pop()),
                    part => path.push(part),
                }
            }
            let path = path.join("/");
            let stands = tree.0.keys().any(|file| *file == path || file.starts_with(&format!("{path}/")));
            if !stands {
                found(findings, name, "links", format!("{target} does not exist"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    fn run(rule: fn(&Tree, &mut Vec<Finding>), files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        rule(&tree(files), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_may_not_import_upwards() {
        let manifest =
            "[dependencies]\ncauseway-engine.workspace = true\n[dev-dependencies]\ncauseway-cli = \"1\"\n";
        assert_eq!(
            run(dependency_direction, &[("crates/lifecycle/Cargo.toml", manifest)]),
            ["crates/lifecycle/Cargo.toml: dependency direction: lifecycle may not import engine"]
        );
        let manifest = "[dependencies]\ncauseway-contract = { workspace = true }\n";
        assert_eq!(run(dependency_direction, &[("crates/lifecycle/Cargo.toml", manifest)]), [""; 0]);
    }

    #[test]
    fn a_core_crate_names_only_listed_dependencies() {
        let manifest = "[dependencies]\nthiserror.workspace = true\ntokio.workspace = true\n";
        assert_eq!(run(core_dependencies, &[("crates/encode/Cargo.toml", manifest)]).len(), 1);
    }

    #[test]
    fn io_in_the_core_is_found_but_not_in_comments_or_tests() {
        let bad = "use std::fs;\nfn f() { std::fs::read(\"x\"); }\n";
        assert_eq!(run(core_does_no_io, &[("crates/contract/src/a.rs", bad)]).len(), 1);
        assert_eq!(run(core_does_no_io, &[("crates/engine/src/coordinator/a.rs", bad)]).len(), 1);
        let fine =
            "// std::fs::read is not for us\n#[cfg(test)]\nmod tests { fn f() { std::fs::read(\"x\"); } }\n";
        assert_eq!(run(core_does_no_io, &[("crates/contract/src/a.rs", fine)]), [""; 0]);
        assert_eq!(run(core_does_no_io, &[("crates/store/src/a.rs", bad)]), [""; 0]);
    }

    #[test]
    fn a_long_file_says_why_and_a_very_long_one_is_refused() {
        let long = "x\n".repeat(601);
        assert_eq!(run(file_length, &[("a.rs", &long)]).len(), 1);
        assert_eq!(run(file_length, &[("a.rs", &format!("//! It is one piece since …\n{long}"))]), [""; 0]);
        assert_eq!(run(file_length, &[("a.rs", &format!("//! one piece\n{}", "x\n".repeat(1000)))]).len(), 1);
    }

    #[test]
    fn unfinished_work_is_found() {
        let words =
            format!("// {}\n#[ignore]\nfn f() {{ {}) }}\n", concat!("TO", "DO"), concat!("todo", "!("));
        assert_eq!(run(unfinished, &[("a.rs", &words)]).len(), 3);
    }

    #[test]
    fn a_harness_is_named_by_one_line_of_the_registry() {
        let files = [
            ("crates/adapter/src/mine/catalogue.rs", ""),
            ("crates/adapter/src/mine/mod.rs", "use crate::mine::x;\n"),
            ("crates/adapter/src/registry.rs", "const ALL: &[H] = &[crate::mine::catalogue::ENTRY];\n"),
            ("crates/cli/src/a.rs", "use causeway_adapter::mine::Mine;\n"),
            ("crates/adapter/src/scribe.rs", "// crate::mine::x\nuse crate::mine::x;\n"),
        ];
        assert_eq!(
            run(harnesses_stay_in_their_folders, &files),
            [
                "crates/adapter/src/scribe.rs: one-registry-line: line 2 names the adapter `mine`; ask the registry",
                "crates/cli/src/a.rs: one-registry-line: line 1 names the adapter `mine`; ask the registry",
            ]
        );
    }

    #[test]
    fn r14_receipts_are_constructed_by_stores_only() {
        let call = "let r = CommitReceipt::issued_by_store(1, head);";
        assert_eq!(run(receipts_come_from_stores, &[("crates/engine/src/a.rs", call)]).len(), 1);
        assert_eq!(run(receipts_come_from_stores, &[("crates/store/src/sqlite.rs", call)]), [""; 0]);
    }

    #[test]
    fn a_rule_without_test_anchor_and_streams_is_found() {
        assert_eq!(run(rule_coverage, &[]).len(), 15 * 4);
    }

    #[test]
    fn clippy_files_of_the_core_are_one_text() {
        let one = ("crates/contract/clippy.toml", "a");
        assert_eq!(run(core_clippy_is_one_text, &[one]).len(), 3);
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let text = "[a](b.md#x) [c](../README.md) [d](gone.md) [e](https://example.com/x.md)";
        let files = [("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")];
        assert_eq!(run(links_lead_somewhere, &files), ["docs/a.md: links: gone.md does not exist"]);
    }
}
