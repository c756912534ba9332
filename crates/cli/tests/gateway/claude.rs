//! The driver of the Claude Code CLI behind the gateway, with a recording that is played both ways in place of the CLI:
//! bytes of answered runs, and a gateway that is killed while the CLI waits for an answer.

use std::path::{Path, PathBuf};

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::runs::{
    ESTABLISHED, answer, check_whole, offline, offline_seeded, say, show, stored, types, waiting,
};

fn settings(dir: &Path) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cli = tests.join("engine/tests/workers/fake_cli.py");
    let recording = tests.join("adapter/tests/streams/claude/parallel_asks.jsonl");
    let command =
        ["python3".into(), cli, recording, dir.join("faults")].map(|path: PathBuf| path.into_os_string());
    format!(
        "[agents.coder]\nharness = \"claude-agent-sdk\"\n[agents.coder.driver.process]\ncommand = {:?}\n",
        command.map(|word| word.into_string().unwrap())
    )
}

/// What was answered when the recording was made.
fn decisions() -> Value {
    json!({"type": "tool_approval", "decisions": [{"decision": "approve"}, {"decision": "reject", "message": "not that one"}]})
}

/// A run that waits for answers, whose body is the offline encoding of its events.
fn asked(gateway: &Gateway, conversation: &str, protocol: Protocol) {
    let response = say(&gateway.client, "coder", conversation, protocol, "Read both");
    let run_id = response.run_id();
    let body = response.text();
    assert_eq!(show(&gateway.client, &run_id)["status"], "interrupted");
    assert_eq!(body, offline(&stored(&gateway.client, &run_id), protocol));
    let pending = waiting(&gateway.client, conversation);
    assert_eq!(pending["interrupt"]["tool_approvals"].as_array().unwrap().len(), 2);
}

#[test]
fn calls_that_wait_together_are_answered_in_every_established_format() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings(dir.path()));
    for protocol in ESTABLISHED {
        let conversation = format!("c-{protocol}");
        asked(&gateway, &conversation, protocol);
        let response = answer(&gateway.client, "coder", &conversation, protocol, &decisions());
        let run_id = response.run_id();
        let body = response.text();
        let (run, events) = (show(&gateway.client, &run_id), stored(&gateway.client, &run_id));
        check_whole(&events);
        assert_eq!(run["status"], "finished", "{run}");
        assert_eq!(body, offline_seeded(&events, protocol, &run));
    }
    assert!(gateway.stop().success());
    assert_eq!(std::fs::read_to_string(dir.path().join("faults")).unwrap_or_default(), "");
}

#[test]
fn a_gateway_that_is_killed_while_the_cli_waits_ends_it_and_the_answer_is_told_as_lost() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let gateway = Gateway::start(dir.path(), &settings);
    asked(&gateway, "c", Protocol::Custom);
    let record = std::fs::read_dir(dir.path().join("data/workers"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "pid"))
        .expect("the waiting process is written down");
    gateway.kill();
    assert!(record.exists());
    let gateway = Gateway::start(dir.path(), &settings);
    assert!(!record.exists(), "the process of the killed gateway was ended");
    assert_eq!(waiting(&gateway.client, "c")["pending"], true, "the question outlives the gateway");
    let response = answer(&gateway.client, "coder", "c", Protocol::Custom, &decisions());
    let run_id = response.run_id();
    response.bytes();
    let run = show(&gateway.client, &run_id);
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("error"), &json!("answer_lost")), "{run}");
    assert_eq!(types(&stored(&gateway.client, &run_id)), ["run.started", "run.error"]);
    assert_eq!(waiting(&gateway.client, "c")["pending"], false);
    assert!(gateway.stop().success());
}
