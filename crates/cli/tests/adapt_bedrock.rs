//! `causeway adapt` for Bedrock Converse and AgentCore: recorded lines, and the raw bytes they were recorded from.

#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::process::{Command, Output, Stdio};

use causeway_adapter::json::Json;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings/bedrock");

/// Runs `adapt` on a file, then `check` on what came out.
fn adapted(harness: &str, name: &str) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["adapt", "--from", harness, "--clock", "2026-01-01T00:00:00Z", &format!("{DATA}/{name}")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &output.stdout).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["check", "--multi"])
        .arg(file.path())
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&checked.stdout));
    output
}

#[test]
fn recorded_lines_and_raw_bytes_become_valid_streams_with_the_expected_end() {
    let index = std::fs::read(format!("{DATA}/index.json")).unwrap();
    let index = Json::parse(&index).unwrap();
    assert_eq!(index.items().len(), 17);
    for entry in index.items() {
        let harness =
            if entry.text("harness") == Some("converse_stream") { "bedrock-converse" } else { "agentcore" };
        let raw: Vec<String> =
            entry.list("sidecars").iter().map(|name| name.as_str().unwrap().lossy().into_owned()).collect();
        let lines = adapted(harness, entry.text("file").unwrap());
        let raws: Vec<Output> = raw.iter().map(|name| adapted(harness, name)).collect();
        let success = entry.get("expected").unwrap().text("terminal") == Some("success");
        let wanted = if success { "\"run.finished\"" } else { "\"run.error\"" };
        for output in std::iter::once(&lines).chain(raws.last()) {
            let text = String::from_utf8(output.stdout.clone()).unwrap();
            assert!(text.lines().last().unwrap().contains(wanted), "{raw:?}: {text}");
        }
        if success && raws.len() == 1 {
            assert_eq!(lines.stdout, raws[0].stdout, "{raw:?}");
        }
    }
}
