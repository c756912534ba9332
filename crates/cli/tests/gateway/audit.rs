//! The audit log of a gateway: every act a line, no content in any, and nothing new while it cannot be written.

use std::path::Path;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, causeway, eventually, recorded_agents};
use crate::runs::{answer, create, delete, ended, say, show, text, try_create, value};

fn lines(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("data/audit.log")).unwrap_or_default();
    // The last line may be on its way.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn verify(arguments: &[&str]) -> (Option<i32>, String) {
    let output = causeway().args(["audit", "verify"]).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// A line without what differs from day to day.
fn told(line: &Value) -> Value {
    let mut line = line.clone();
    for key in ["seq", "at", "prev", "hash", "request_id", "config", "run_id", "interrupt_id"] {
        line.as_object_mut().unwrap().remove(key);
    }
    line
}

#[test]
fn every_act_has_a_line_that_says_who_what_and_by_which_request() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[
        ("plain", "text_plain", "fast", ""),
        ("asks", "approve", "fast", ""),
        ("slow", "text_plain", "5s", ""),
    ]);
    let gateway = Gateway::start(dir.path(), &settings);
    let client = &gateway.client;
    let plain = create(client, "plain", "c1");
    ended(client, &plain);
    let asked = say(client, "asks", "c2", Protocol::Custom, "a secret sentence");
    let asked_run = asked.run_id();
    asked.bytes();
    assert_eq!(show(client, &asked_run)["status"], "interrupted");
    let resumed = answer(
        client,
        "asks",
        "c2",
        Protocol::Custom,
        &json!({"type": "tool_approval", "decisions": [{"decision": "approve"}]}),
    );
    let request_id = resumed.header("x-request-id").unwrap().to_owned();
    let resumed_run = resumed.run_id();
    resumed.bytes();
    ended(client, &resumed_run);
    let slow = say(client, "slow", "c3", Protocol::Custom, "hello");
    let slow_run = slow.run_id();
    let path = format!("/api/v1/runs/{slow_run}/cancel");
    assert_eq!(client.post(&path, "{}").status, 200);
    assert_eq!(client.post("/api/v1/conversations/c1/clear", "{}").status, 200);
    assert_eq!(delete(client, "c1").status, 200);
    assert_eq!(client.get_with("/api/v1/runs", &[("host", "evil.example")]).status, 403);
    assert_eq!(client.get("/api/v1/runs/unknown").status, 404, "not an act");
    assert!(gateway.stop().success());
    let lines = lines(dir.path());
    let start = |agent: &str, conversation: &str, route: &str| json!({"action": "run_started", "subject": "local", "route": route, "agent": agent, "conversation_id": conversation});
    let end = |agent: &str, conversation: &str, outcome: &str| json!({"action": "run_ended", "subject": "local", "agent": agent, "conversation_id": conversation, "outcome": outcome});
    let stream = "/api/v1/chat/stream/start";
    let expected = [
        json!({"action": "gateway_started", "code": env!("CARGO_PKG_VERSION")}),
        start("plain", "c1", "/api/v1/runs"),
        end("plain", "c1", "finished"),
        start("asks", "c2", stream),
        end("asks", "c2", "interrupted"),
        json!({"action": "interrupt_answered", "subject": "local", "route": "/api/v1/chat/stream/resume", "agent": "asks", "conversation_id": "c2", "outcome": "approve 1"}),
        end("asks", "c2", "finished"),
        start("slow", "c3", stream),
        json!({"action": "cancel_asked", "subject": "local", "route": "/api/v1/runs/{id}/cancel", "conversation_id": "c3"}),
        end("slow", "c3", "cancelled"),
        json!({"action": "conversation_cleared", "subject": "local", "route": "/api/v1/conversations/{id}/clear", "conversation_id": "c1"}),
        json!({"action": "conversation_deleted", "subject": "local", "route": "/api/v1/conversations/{id}", "conversation_id": "c1"}),
        json!({"action": "access_refused", "route": "/api/v1/runs", "code": "host_not_allowed"}),
        json!({"action": "gateway_stopped"}),
    ];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(lines[1]["run_id"], plain.as_str());
    assert_eq!((&lines[5]["run_id"], &lines[5]["request_id"]), (&resumed_run.into(), &request_id.into()));
    assert!(lines[5]["interrupt_id"].is_string());
    assert!(lines[0]["config"].as_str().unwrap().len() == 64);
    let text = std::fs::read_to_string(dir.path().join("data/audit.log")).unwrap();
    assert!(!text.contains("secret") && !text.contains("hello"), "content: {text}");

    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    let last = &lines[lines.len() - 1];
    let head = format!("{}:{}", last["seq"], last["hash"].as_str().unwrap());
    let whole = (Some(0), format!("whole: {} lines, head {head}\n", lines.len()));
    assert_eq!(verify(&["--data", data]), whole);
    assert_eq!(verify(&["--data", data, "--anchor", &head]), whole);
    let file = dir.path().join("data/audit.log");
    std::fs::write(&file, text.replace("\"outcome\":\"approve 1\"", "\"outcome\":\"reject 1\"")).unwrap();
    let (status, said) = verify(&["--data", data]);
    assert_eq!(status, Some(1));
    assert_eq!(said, format!("{}:6: was changed: its hash is another\n", file.display()));
    assert_eq!(verify(&["--data", "/nowhere"]).0, Some(2));
    assert_eq!(verify(&["/nowhere/audit.log"]).0, Some(2));
    assert_eq!(verify(&["--data", data, "--anchor", "12"]).0, Some(2));
}

#[test]
fn a_killed_gateway_leaves_a_log_that_is_gone_on_with_and_tells_what_became_of_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "text_plain", "5s", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    let run_id = create(&gateway.client, "slow", "c");
    gateway.kill();
    let gateway = Gateway::start(dir.path(), &settings);
    ended(&gateway.client, &run_id);
    let lines = lines(dir.path());
    let of_run: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["run_id"] == *run_id)
        .map(|line| (line["action"].as_str().unwrap(), line["code"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(of_run, [("run_started", ""), ("run_ended", "recovered")]);
    assert!(gateway.stop().success());
    assert_eq!(verify(&["--data", dir.path().join("data").to_str().unwrap()]).0, Some(0));
}

#[test]
fn nothing_new_is_begun_while_the_audit_log_cannot_be_written() {
    use std::os::unix::fs::DirBuilderExt as _;

    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
    std::os::unix::fs::symlink("/dev/full", data.join("audit.log")).unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("plain", "text_plain", "fast", "")]));
    let client = &gateway.client;
    let refused = try_create(client, "plain", "c", "hello").unwrap();
    assert_eq!(refused.status, 503);
    assert_eq!(value(refused)["error"]["code"], "audit_unavailable");
    let ready = client.get("/readyz");
    assert_eq!(ready.status, 503);
    assert_eq!(value(ready)["failed"][0]["part"], "audit");
    assert_eq!(delete(client, "c").status, 503);
    assert_eq!(client.get("/api/v1/runs").status, 200, "what is there can be read");
    std::fs::remove_file(data.join("audit.log")).unwrap();
    let run_id = eventually("a start", || {
        let response = try_create(client, "plain", "c", "hello").unwrap();
        (response.status == 202).then(|| text(&value(response), "run_id"))
    });
    ended(client, &run_id);
    assert!(gateway.stop().success());
    let actions: Vec<String> = lines(dir.path()).iter().map(|line| text(line, "action")).collect();
    assert_eq!(actions, ["gateway_started", "run_started", "run_ended", "gateway_stopped"]);
    assert_eq!(verify(&["--data", data.to_str().unwrap()]).0, Some(0));
}
