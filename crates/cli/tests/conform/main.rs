//! `causeway conform` from the outside: workers that keep the rules, and workers that each break one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

#[path = "../../../engine/tests/support/python.rs"]
#[allow(dead_code, reason = "every test file uses its own part")]
mod python;

#[path = "../../../engine/tests/support/cli.rs"]
mod cli;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn conform(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(["--log-level", "error", "conform"]).args(args).current_dir(root());
    command.output().unwrap()
}

/// The verdicts as JSON.
fn verdicts(args: &[&str]) -> (Option<i32>, Value) {
    let output = conform(&[args, &["--format", "json"]].concat());
    let told = serde_json::from_slice(&output.stdout);
    let told = told.unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), told)
}

fn of(told: &Value, verdict: &str) -> Vec<Value> {
    let checks = told["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["verdict"] == verdict).cloned().collect()
}

const TEMPLATE: &str = "python3 examples/template-python/worker.py --db {data_dir}/{conversation}.sqlite";
const SCENARIO: &str = "examples/template-python/scenario.toml";

#[test]
fn the_template_worker_keeps_every_rule() {
    let (status, told) =
        verdicts(&["--command", TEMPLATE, "--scenario", SCENARIO, "--timeout", "2m", "--grace", "1m"]);
    assert_eq!(of(&told, "FAIL"), [] as [Value; 0]);
    assert_eq!(status, Some(0));
    let skipped: Vec<String> = of(&told, "skip").iter().map(|check| check["id"].to_string()).collect();
    assert_eq!(skipped, ["\"heads.no_restore\""], "it restores");
    assert!(told["passed"].as_u64().unwrap() >= 40, "{told}");
}

#[test]
fn the_template_worker_in_rust_keeps_every_rule() {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package", "template-worker", "--message-format", "json"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let told = String::from_utf8(built.stdout).unwrap();
    let mut artifacts = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let worker = artifacts.find_map(|one| one["executable"].as_str().map(str::to_owned)).unwrap();
    let command = format!("{worker} --data {{data_dir}}/{{conversation}}");
    let (status, told) =
        verdicts(&["--command", &command, "--scenario", SCENARIO, "--timeout", "2m", "--grace", "1m"]);
    assert_eq!((status, of(&told, "FAIL")), (Some(0), Vec::new()));
    let skipped: Vec<String> = of(&told, "skip").iter().map(|check| check["id"].to_string()).collect();
    assert_eq!(
        skipped,
        ["\"heads.no_restore\"", "\"heads.forget\"", "\"gate.asked\""],
        "it restores, keeps everything, and runs its tools itself"
    );
}

#[test]
fn the_template_worker_without_storage_keeps_the_rules_that_are_left() {
    let command = "python3 examples/template-python/worker.py";
    let (status, told) = verdicts(&["--command", command, "--timeout", "2m", "--grace", "1m"]);
    assert_eq!((status, of(&told, "FAIL")), (Some(0), Vec::new()));
    let skipped = of(&told, "skip");
    assert!(skipped.iter().any(|check| check["id"] == "heads.rewind"), "{told}");
    assert!(skipped.iter().all(|check| !check["reason"].as_str().unwrap().is_empty()), "{told}");
}

/// The checks that see the lines of a worker.
const LINES: &[&str] = &[
    "worker.",
    "lifecycle.one",
    "faults.invalid",
    "faults.unreadable",
    "faults.repeated",
    "heads.unknown",
    "heads.no_restore",
    "heads.rewind",
    "interrupts.restored",
    "cancel.before",
    "cancel.after",
];
/// Those that see its processes.
const PROCESSES: &[&str] = &["leaving.", "leaks."];
/// Those that see its events.
const EVENTS: &[&str] = &["lifecycle.text", "ordering.", "tools."];

/// The mode of the broken worker, the rule that it breaks, and the checks that are made.
const BROKEN: &[(&str, &str, &[&str])] = &[
    ("stays", "W7", PROCESSES),
    ("deaf", "W6", &["cancel.before", "cancel.during", "cancel.state", "lifecycle.one_turn"]),
    ("prints", "W0", LINES),
    ("two_endings", "W1", LINES),
    ("late", "W1", LINES),
    ("never_busy", "W2", LINES),
    ("any_head", "W3", LINES),
    ("writes_to_its_base", "W4", &["worker.", "lifecycle.one", "heads.rewind"]),
    ("long_head", "W4", LINES),
    ("new_pauses", "W5", LINES),
    ("half_restore", "W9", LINES),
    ("leaves_a_child", "W7", PROCESSES),
    ("grows", "W7", PROCESSES),
    ("delta_first", "R05", EVENTS),
    ("started_twice", "R06", EVENTS),
    ("finish_and_error", "R07", EVENTS),
    ("asks_for_nothing", "R08", EVENTS),
    ("crossed_exits", "R09", EVENTS),
    ("open_namespace", "R10", EVENTS),
    ("stray_child", "R10", EVENTS),
    ("unknown_event", "envelope", EVENTS),
    ("spoilt_name", "text", EVENTS),
    ("long_delta", "bounds", EVENTS),
];

#[test]
fn a_broken_worker_is_told_the_rule_it_breaks() {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((mode, rule, only)) = BROKEN.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = broken(mode, only);
                    if found.is_empty() || found != BTreeSet::from([(*rule).to_owned()]) {
                        wrong.lock().unwrap().push(format!("{mode}: {found:?}, not {rule}"));
                    }
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), [] as [String; 0]);
}

/// The rules that a broken worker is said to break.
fn broken(mode: &str, only: &[&str]) -> BTreeSet<String> {
    let worker = root().join("crates/cli/tests/workers/broken.py");
    let command = format!("python3 {} {mode} --db {{data_dir}}/{{conversation}}.sqlite", worker.display());
    // What does not leave is waited for; the others may take long on a busy machine.
    let grace = if ["deaf", "stays"].contains(&mode) { "3s" } else { "1m" };
    let mut args = vec!["--command", &command, "--scenario", SCENARIO, "--timeout", "2m", "--grace", grace];
    args.extend(only.iter().flat_map(|id| ["--only", id]));
    let (status, told) = verdicts(&args);
    assert_eq!(status, Some(1), "{mode}: {told}");
    of(&told, "FAIL").iter().map(|check| check["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_deepagents_worker_keeps_every_rule_live() {
    let Some(python) = python::interpreter() else { return };
    let folder = python::example();
    let script = folder.join("scripts/conform.json");
    let command = format!(
        "{python} {} --db {{data_dir}}/workers/{{conversation}}.sqlite --script {}",
        folder.join("worker.py").display(),
        script.display()
    );
    let scenario = folder.join("scenario.toml");
    let scenario = scenario.to_str().unwrap();
    let (status, told) =
        verdicts(&["--command", &command, "--scenario", scenario, "--timeout", "2m", "--grace", "1m"]);
    assert_eq!(of(&told, "FAIL"), [] as [Value; 0]);
    assert_eq!(status, Some(0));
    assert!(told["passed"].as_u64().unwrap() >= 35, "{told}");
}

/// Settings with the Claude Code CLI as the agent `coder`, whose model plays a script.
fn claude_settings(dir: &Path, program: &str, model: &cli::Model) -> String {
    let home = dir.join("home");
    std::fs::create_dir(&home).unwrap();
    let command = [
        "sh",
        "-c",
        "mkdir -p \"$0\" && cd \"$0\" && echo 18 degrees > weather.txt && exec \"$@\"",
        "{data_dir}/{conversation}",
        program,
        "--model",
        "claude-sonnet-4-5",
        "--setting-sources",
        "",
    ];
    let env = [
        ("ANTHROPIC_BASE_URL", model.address.as_str()),
        ("HOME", home.to_str().unwrap()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ("DISABLE_AUTOUPDATER", "1"),
    ];
    let mut settings: String = env.iter().map(|(name, value)| format!("{name} = {value:?}\n")).collect();
    let key = dir.join("key");
    std::fs::write(&key, "no-key").unwrap();
    settings.push_str(&format!("ANTHROPIC_API_KEY = {{ file = {key:?} }}\n"));
    format!(
        "[store]\npath = {:?}\n[agents.coder]\nharness = \"claude-agent-sdk\"\n[agents.coder.driver.process]\n\
         command = {command:?}\nstart_timeout = \"2m\"\ncancel_grace = \"1m\"\n[agents.coder.driver.process.env]\n{settings}",
        dir.join("data"),
    )
}

#[test]
fn the_claude_cli_keeps_the_contract_live() {
    let Some(program) = cli::program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = |text: &str| json!({"text": text});
    let call = |id: &str, name: &str, input: Value| json!({"tool": {"id": id, "name": name, "input": input}});
    let question = json!({
        "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}],
    });
    let long = "Once upon a time there was a stream of events, and it had exactly one end. ".repeat(40);
    let plays = json!([
        {"when": "kit:approval", "answers": [
            [text("I will write it down. "), call("toolu_touch", "Bash", json!({"command": "touch noted.txt", "description": "Note it down"}))],
            [text("Noted.")],
        ]},
        {"when": "kit:form", "answers": [
            [text("One question. "), call("toolu_ask", "AskUserQuestion", json!({"questions": [question]}))],
            [text("Thank you.")],
        ]},
        {"when": "kit:tool", "answers": [
            [call("toolu_read", "Read", json!({"file_path": "weather.txt"}))],
            [text("It is mild.")],
        ]},
        {"when": "kit:slow", "answers": [[{"text": long, "gap": 0.1}]]},
        {"when": "kit:error", "answers": [[{"status": 400, "type": "invalid_request_error", "message": "no"}]]},
        {"answers": [[text("Very well.")]]},
    ]);
    let model = cli::Model::new(dir.path(), &json!({"plays": plays}));
    let (config, scenario) = (dir.path().join("causeway.toml"), dir.path().join("scenario.toml"));
    std::fs::write(&config, claude_settings(dir.path(), program, &model)).unwrap();
    let words = ["text", "approval", "form", "tool", "slow", "error"];
    let said: String = words.iter().map(|word| format!("{word} = \"kit:{word}\"\n")).collect();
    std::fs::write(&scenario, format!("[say]\n{said}")).unwrap();
    let (config, scenario) = (config.to_str().unwrap(), scenario.to_str().unwrap());
    let args =
        ["--config", config, "--agent", "coder", "--scenario", scenario, "--timeout", "2m", "--grace", "1m"];
    let (status, told) = verdicts(&args);
    assert_eq!(of(&told, "FAIL"), [] as [Value; 0]);
    assert_eq!(status, Some(0));
    assert!(told["passed"].as_u64().unwrap() >= 12, "{told}");
}

#[test]
fn recordings_are_held_against_the_contract() {
    for (file, from) in [
        ("deepagents/approve.jsonl", "deepagents"),
        ("claude-agent-sdk/approve.jsonl", "claude-agent-sdk"),
        ("bedrock/converse_tool.0.bin", "bedrock-converse"),
        ("canonical/template.jsonl", "canonical"),
    ] {
        let file = format!("tests/data/recordings/{file}");
        let (status, told) = verdicts(&["--recording", &file, "--from", from]);
        assert_eq!((status, of(&told, "FAIL")), (Some(0), Vec::new()), "{file}");
    }
}

#[test]
fn verdicts_come_as_text_and_junit_too_and_what_cannot_be_done_is_status_2() {
    let args = ["--command", TEMPLATE, "--only", "worker.", "--only", "leaving.exit", "--timeout", "2m"];
    let text = conform(&args);
    let shown = String::from_utf8(text.stdout).unwrap();
    assert!(shown.ends_with("2 passed, 0 failed, 0 skipped\n"), "{shown}");
    let junit = conform(&[&args[..], &["--format", "junit"]].concat());
    let shown = String::from_utf8(junit.stdout).unwrap();
    assert!(
        shown.contains("<testsuite name=\"conform\" tests=\"2\" failures=\"0\" skipped=\"0\""),
        "{shown}"
    );
    for args in [
        &["--command", "/nowhere/at/all"][..],
        &[],
        &["--command", TEMPLATE, "--only", "nothing"],
        &["--recording", "/nowhere", "--from", "deepagents"],
        &["--recording", "README.md", "--from", "nobody"],
    ] {
        assert_eq!(conform(args).status.code(), Some(2), "{args:?}");
    }
}
