//! `causeway adapt` for the Claude Agent SDK, whose answers are in a file beside the stream, for the APIs of
//! Anthropic and OpenAI, for Strands and AG-UI.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use causeway_adapter::json::Json;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings");

fn causeway(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _it_may_have_stopped_reading = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Run id and type of every event, and the arguments of started calls.
fn gist(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut all = Vec::new();
    for line in text.lines() {
        let event = Json::parse(line.as_bytes()).unwrap();
        let (run, kind) = (event.text("run_id").unwrap(), event.text("type").unwrap());
        if ["run.", "tool.", "interrupt."].iter().any(|group| kind.starts_with(group)) {
            let arguments = event.get("data").and_then(|data| data.get("arguments"));
            let path = arguments.and_then(|arguments| arguments.text("file_path")).unwrap_or_default();
            all.push(format!("{run} {kind} {}", path.rsplit('/').next().unwrap()).trim().to_owned());
        }
    }
    all
}

fn edited(second: &str) -> Vec<String> {
    [
        "run run.started",
        "run tool.started out.txt",
        "run interrupt.requested",
        "run run.interrupted",
        "run-2 run.started",
        &format!("run-2 tool.started {second}"),
        "run-2 tool.finished",
        "run-2 run.finished",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn what_was_sent_to_the_harness_tells_how_a_request_was_answered() {
    let folder = format!("{DATA}/claude-agent-sdk");
    let (file, sent) = (format!("{folder}/edit.jsonl"), format!("{folder}/edit.stdin.jsonl"));
    let from = ["adapt", "--from", "claude-agent-sdk"];
    let beside = causeway(&[&from[..], &[&file]].concat(), b"");
    assert_eq!(gist(&beside), edited("other.txt"), "it is found beside the stream");
    let lines = std::fs::read(&file).unwrap();
    let named = causeway(&[&from[..], &["--sidecar", &sent]].concat(), &lines);
    assert_eq!(gist(&named), edited("other.txt"));
    let unknown = causeway(&from, &lines);
    assert_eq!(gist(&unknown), edited("out.txt"), "nothing tells of the edit");
    let missing = causeway(&[&from[..], &["--sidecar", "/does/not/exist"]].concat(), b"");
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn every_recording_becomes_a_valid_stream() {
    for (folder, prefix, harness, count) in [
        ("claude-agent-sdk", "", "claude-agent-sdk", 21),
        ("openai-anthropic", "messages_", "anthropic-messages", 3),
        ("openai-anthropic", "responses_", "openai-responses", 3),
        ("openai-anthropic", "chat_", "openai-chat", 1),
        ("openai-anthropic", "agents_", "openai-agents", 4),
        ("strands", "", "strands", 13),
        ("agui", "", "agui", 12),
    ] {
        let mut found = 0;
        for entry in std::fs::read_dir(format!("{DATA}/{folder}")).unwrap() {
            let path = entry.unwrap().path().display().to_string();
            let ours = path.contains(&format!("/{prefix}"));
            let stream = path.ends_with(".jsonl") || path.ends_with(".sse");
            if !ours || !stream || path.ends_with(".stdin.jsonl") {
                continue;
            }
            found += 1;
            let adapted = causeway(&["adapt", "--from", harness, &path], b"");
            assert_eq!(
                adapted.status.code(),
                Some(0),
                "{path}: {}",
                String::from_utf8_lossy(&adapted.stderr)
            );
            let checked = causeway(&["check", "--multi"], &adapted.stdout);
            assert_eq!(
                checked.status.code(),
                Some(0),
                "{path}: {}",
                String::from_utf8_lossy(&checked.stdout)
            );
        }
        assert_eq!(found, count, "{harness}");
    }
}
