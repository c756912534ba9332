//! A gateway that is told to read its settings again (SIGHUP): nothing that runs is lost, and a fault changes nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_encode::Protocol;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::http::{Client, Response};
use crate::metrics::scrape;
use crate::runs::{check_whole, create, ended, offline, stored, try_create, value};

/// The settings of a gateway that runs, and how often it was told of others.
struct Told<'a> {
    gateway: &'a Gateway,
    file: PathBuf,
    reloads: usize,
}

impl<'a> Told<'a> {
    fn new(dir: &Path, gateway: &'a Gateway) -> Self {
        Self { gateway, file: dir.join("causeway.toml"), reloads: 0 }
    }

    /// Has it read these; the last line that it says about it.
    fn read(&mut self, settings: &str) -> Value {
        std::fs::write(&self.file, settings).unwrap();
        self.again()
    }

    /// Has it read what is there.
    fn again(&mut self) -> Value {
        let pid = self.gateway.pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        self.reloads += 1;
        eventually("a line about the reload", || {
            let log = self.gateway.log();
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let told: Vec<Value> = lines.filter(is_outcome).collect();
            (told.len() == self.reloads).then(|| told.last().cloned()).flatten()
        })
    }
}

fn is_outcome(line: &Value) -> bool {
    let said = line["message"].as_str().unwrap_or_default();
    said == "the configuration was reloaded" || said.starts_with("the configuration was not reloaded")
}

fn changes(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("data/audit.log")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["action"] == "config_changed" || line["action"] == "gateway_started").collect()
}

fn agents(client: &Client, headers: &[(&str, &str)]) -> Vec<String> {
    let response = client.get_with("/api/v1/agents", headers);
    assert_eq!(response.status, 200);
    let agents = value(response)["agents"].as_array().unwrap().clone();
    agents.iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect()
}

fn named(dir: &Path, agent: &str, says: &str) -> String {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/workers/named.py");
    let command = [Path::new("python3"), &worker, Path::new(says), &dir.join("go")];
    format!(
        "[agents.{agent}]\nharness = \"canonical\"\nthread = \"ephemeral\"\n[agents.{agent}.driver.process]\ncommand = {command:?}\n"
    )
}

fn said(client: &Client, run: &str) -> String {
    assert_eq!(ended(client, run)["status"], "finished");
    let events = stored(client, run);
    let delta = events.iter().find(|event| event.contains("text.delta")).unwrap();
    serde_json::from_str::<Value>(delta).unwrap()["data"]["delta"].as_str().unwrap().to_owned()
}

#[test]
fn agents_are_replaced_while_streams_go_on_and_a_broken_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let tour = recorded_agents(&[("tour", "text_plain", "fast", "")]);
    let settings = |says: &str| format!("{tour}{}", named(dir.path(), "works", says));
    let gateway = Gateway::start(dir.path(), &settings("old"));
    let client = gateway.client;
    let mut told = Told::new(dir.path(), &gateway);
    let body = r#"{"agent_id":"works","conversation_id":"c","message":"wait"}"#;
    let mut stream = client.post("/api/v1/chat/stream/start", body);
    assert_eq!(stream.status, 200);
    let run = stream.run_id();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("old ") {
        seen.extend(stream.chunk().unwrap().expect("the stream goes on").bytes);
    }

    let more = recorded_agents(&[("extra", "text_plain", "fast", "")]);
    let line = told.read(&format!("[server]\nmax_connections = 99\n{}{more}", settings("new")));
    assert_eq!(
        (&line["added"], &line["changed"], &line["removed"], &line["kept"]),
        (&json!("extra"), &json!("works"), &json!(""), &json!(1)),
        "{line}"
    );
    assert!(gateway.log().contains("\"settings\":\"server.max_connections\""), "{}", gateway.log());
    assert_eq!(agents(&client, &[]), ["extra", "tour", "works"]);
    assert_eq!(ended(&client, &create(&client, "extra", "e"))["status"], "finished");
    assert!(said(&client, &create(&client, "works", "d")).starts_with("new "));

    // What is wrong, in the file or around it, is told and changes nothing.
    let faults = [
        ("[agents.works\n".to_owned(), "causeway.toml"),
        (format!("[agents.gone]\nharness = \"deepagent\"\n{tour}"), "agents.gone"),
        (settings("new").replace("python3", "/nowhere/python3"), "/nowhere/python3"),
        (format!("{}env.KEY = {{ file = \"/nowhere/key\" }}\n", settings("new")), "/nowhere/key"),
        (format!("[auth]\nmode = \"service\"\ntokens.web.file = \"/nowhere/web\"\n{tour}"), "auth.mode"),
    ];
    for (broken, named) in &faults {
        let line = told.read(broken);
        assert_eq!(line["level"], "ERROR", "{line}");
        assert!(line["error"].as_str().unwrap().contains(named), "{line}");
        assert_eq!(agents(&client, &[]), ["extra", "tour", "works"], "{line}");
    }
    std::fs::remove_file(&told.file).unwrap();
    assert_eq!(told.again()["level"], "ERROR", "a file that is gone is not one without agents");
    assert!(said(&client, &create(&client, "works", "d")).starts_with("new "));

    let line = told.read(&settings("new"));
    assert_eq!(line["removed"], "extra", "{line}");
    let refused = try_create(&client, "extra", "f", "hello").unwrap();
    assert_eq!(refused.status, 404);
    let runs = value(client.get("/api/v1/runs"));
    assert_eq!(runs["runs"].as_array().unwrap().len(), 4, "those of an agent that is gone are still there");

    std::fs::write(dir.path().join("go"), "").unwrap();
    seen.extend(stream.bytes());
    let events = stored(&client, &run);
    check_whole(&events);
    assert_eq!(String::from_utf8(seen).unwrap(), offline(&events, Protocol::Custom));
    assert!(said(&client, &run).starts_with("old "));

    let page = scrape(&client);
    let reloads = |outcome| page.sum("causeway_config_reloads_total", &[("outcome", outcome)]);
    assert!((reloads("applied") - 2.0).abs() < 0.5 && (reloads("refused") - 6.0).abs() < 0.5);
    assert!(page.sum("causeway_config_loaded_timestamp_seconds", &[]) > 1_700_000_000.0);
    assert!((page.sum("causeway_worker_starts_total", &[("agent", "works")]) - 2.0).abs() < 0.5);
    assert!(gateway.stop().success());
    let changes = changes(dir.path());
    let outcomes: Vec<&str> = changes.iter().filter_map(|line| line["outcome"].as_str()).collect();
    assert_eq!(outcomes, [vec!["applied"], vec!["refused"; 6], vec!["applied"]].concat());
    let hashes: Vec<&str> = changes.iter().map(|line| line["config"].as_str().unwrap()).collect();
    assert!(hashes[0] != hashes[1] && hashes[1..8].iter().all(|hash| *hash == hashes[1]), "{hashes:?}");
    assert_ne!(hashes[8], hashes[7]);
}

fn digest(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ask(client: &Client, token: &str, path: &str) -> Response {
    client.get_with(path, &[("authorization", &format!("Bearer {token}"))])
}

#[test]
fn a_token_is_rotated_without_a_restart_and_streams_of_one_that_was_taken_out_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("web");
    let tokens = |tokens: &[&str]| {
        let lines: Vec<String> = tokens.iter().map(|token| digest(token)).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
    };
    tokens(&["canary-old"]);
    let slow = recorded_agents(&[("slow", "text_plain", "1h", "idle_timeout = \"2h\"")]);
    let auth = format!("[auth]\nmode = \"service\"\ntokens = {{ web = {{ file = {file:?} }} }}\n");
    let gateway = Gateway::start(dir.path(), &format!("{auth}{slow}"));
    let client = gateway.client;
    let mut told = Told::new(dir.path(), &gateway);
    let opened = |token: &str, conversation: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = json!({"agent_id": "slow", "conversation_id": conversation, "message": "hi"}).to_string();
        let stream = client.send("POST", "/api/v1/chat/stream/start", &headers, Some(body.as_bytes()));
        assert_eq!(stream.status, 200);
        stream
    };
    let old = opened("canary-old", "c1");
    tokens(&["canary-old", "canary-new"]);
    assert_eq!(ask(&client, "canary-new", "/api/v1/runs").status, 401);
    told.again();
    assert_eq!(ask(&client, "canary-new", "/api/v1/runs").status, 200);
    assert_eq!(ask(&client, "canary-old", "/api/v1/runs").status, 200, "both, while it is rotated");
    let run = old.run_id();
    let stream = format!("/api/v1/runs/{}/stream?protocol=canonical", opened("canary-new", "c2").run_id());
    let new = ask(&client, "canary-new", &stream);

    // A digest that is none leaves both as they are.
    std::fs::write(&file, "canary-old").unwrap();
    assert!(told.again()["error"].as_str().unwrap().contains("auth.tokens.web"));
    assert_eq!(ask(&client, "canary-old", "/api/v1/runs").status, 200);

    tokens(&["canary-new"]);
    let listed = format!("{auth}agents.slow.subjects = [\"nobody\"]\n{slow}");
    assert_eq!(told.read(&listed)["kept"], 1);
    old.bytes(); // it ends regularly, in time
    assert_eq!(ask(&client, "canary-old", "/api/v1/runs").status, 401);
    let path = format!("/api/v1/runs/{run}");
    assert_eq!(value(ask(&client, "canary-new", &path))["status"], "running", "the run goes on");
    assert_eq!(
        agents(&client, &[("authorization", "Bearer canary-new")]),
        Vec::<String>::new(),
        "not theirs any more"
    );

    // The other stream is still there: it ends with the gateway, behind its terminal.
    let pid = gateway.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let rest = String::from_utf8(new.bytes()).unwrap();
    assert!(rest.contains("run.cancelled"), "{rest}");
    let log = gateway.log();
    assert!(gateway.stop_again().success());
    assert!(!log.contains("canary"), "a token is in the log");
}

/// Runs the words behind it at a terminal of their own, prints what that shows, and closes it when told to.
const TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
while b"listening on" not in shown:
    shown += os.read(terminal, 4096)
os.kill(child, 1)
while b"the configuration was reloaded" not in shown:
    shown += os.read(terminal, 4096)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn who_closes_the_terminal_ends_the_gateway_and_who_signals_it_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("causeway.toml");
    std::fs::write(&settings, recorded_agents(&[("tour", "text_plain", "fast", "")])).unwrap();
    let mut at_terminal = Command::new("timeout");
    at_terminal.args(["120", "python3", "-c", TERMINAL, env!("CARGO_BIN_EXE_causeway"), "serve"]);
    at_terminal.args(["--listen", "127.0.0.1:0", "--config"]).arg(&settings);
    at_terminal.arg("--data").arg(dir.path().join("data"));
    let done = at_terminal.output().unwrap();
    let (said, erred) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(said.trim(), "0", "{erred}");
}

#[test]
fn quotas_of_owners_are_raised_while_the_gateway_runs() {
    let dir = tempfile::tempdir().unwrap();
    let slow = recorded_agents(&[("slow", "text_plain", "1h", "idle_timeout = \"2h\"\ndeadline = \"2h\"")]);
    let settings = |most: u64| format!("[quotas]\nopen_runs = {most}\n{slow}");
    let gateway = Gateway::start(dir.path(), &settings(1));
    let mut told = Told::new(dir.path(), &gateway);
    let start =
        |conversation: &str| try_create(&gateway.client, "slow", conversation, "hello").unwrap().status;
    assert_eq!((start("a"), start("b")), (202, 429));
    assert_eq!(told.read(&settings(2))["kept"], 1);
    assert!(!gateway.log().contains("need a restart"), "{}", gateway.log());
    assert_eq!((start("b"), start("c")), (202, 429));
    // A lower one stops nothing that runs.
    told.read(&settings(1));
    assert_eq!(start("c"), 429);
    let running = gateway.client.get("/api/v1/runs?status=running");
    assert_eq!(value(running)["runs"].as_array().unwrap().len(), 2);
}
