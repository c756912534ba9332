//! Secrets, paths, stack traces and sentences of providers, planted in what every harness says of its errors: they are in no
//! event, no frame of any encoder, no answer, no log and no byte of the database.

use std::fmt::Write as _;
use std::path::Path;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::runs::{check_whole, say, show, stored};

/// What must appear nowhere, in a form that any part of it would be found by.
const CANARIES: &[&str] = &[
    "sk-proj-CANARY01aaaaaaaaaaaaaaaaaaaa",
    "AKIACANARY02AAAAAAAA",
    "ghp_CANARY03aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "xoxb-CANARY04-aaaaaaaaaa",
    "AIzaCANARY05aaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "eyJCANARY06aaaa.eyJCANARY06bbbb.CANARY06cc",
    "Bearer CANARY07aaaaaaaaaaaa",
    "password=CANARY08",
    "https://user:CANARY09@llm.internal.example/v1",
    "-----BEGIN PRIVATE KEY----- CANARY10",
    "/opt/app/CANARY11/runner.py",
    "/home/alice/.aws/CANARY12",
    "C:\\Users\\alice\\CANARY13.env",
    "Traceback (most recent call last): CANARY14",
    "File \"CANARY15.py\", line 3, in handler",
    "at Object.<anonymous> (CANARY16.js:10:5)",
    "thread 'main' panicked at src/CANARY17.rs:1:2",
    "Your prompt CANARY18 was flagged as odd by our systems",
    "You exceeded your current quota CANARY19, please check your plan and billing details",
    "upstream connect error CANARY20 10.0.0.7:8443",
];

fn words() -> String {
    assert_eq!(CANARIES.len(), 20);
    CANARIES.join(" \n ")
}

/// Streams that fail, by harness: every place where a harness or a provider puts words about it.
fn planted() -> Vec<(&'static str, Vec<Value>)> {
    let w = words();
    let begin = json!({"kind": "begin", "run_id": "r", "op": "run"});
    let error = json!({"kind": "error", "run_id": "r", "error_type": w, "message": w, "status": 500, "headers": {"retry-after": w}});
    let event = |event: Value| json!({"kind": "event", "event": event});
    let chunk = |event: Value| json!({"kind": "chunk", "run_id": "r", "event": event});
    let api = json!({"type": "error", "error": {"type": w, "message": w, "code": w, "param": w}});
    vec![
        ("deepagents", vec![begin.clone(), error.clone()]),
        (
            "deepagents",
            vec![begin.clone(), json!({"kind": "chunk", "run_id": "r", "ns": [], "mode": w, "data": w})],
        ),
        (
            "claude-agent-sdk",
            vec![
                json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": w}),
                json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error": w, "error_status": 529}),
                json!({"type": "assistant", "error": w, "message": {"id": "e", "model": "<synthetic>", "content": [{"type": "text", "text": w}]}}),
                json!({"type": "assistant", "is_api_error_message": true, "api_error_type": w, "message": {"id": "e", "model": "m", "content": [{"type": "text", "text": w}]}}),
                json!({"type": "system", "subtype": "permission_denied", "tool_use_id": "t", "message": w}),
                json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "result": w, "errors": [w], "terminal_reason": w, "stop_reason": w}),
            ],
        ),
        (
            "strands",
            vec![begin.clone(), event(json!({"force_stop": true, "force_stop_reason": w})), error.clone()],
        ),
        ("strands", vec![event(json!({"result": {"stop_reason": w, "message": w}})), error.clone()]),
        ("bedrock-converse", vec![begin.clone(), error.clone()]),
        ("bedrock-converse", vec![json!({"throttlingException": {"message": w}})]),
        (
            "bedrock-converse",
            vec![
                json!({"modelStreamErrorException": {"message": w, "originalMessage": w, "originalStatusCode": 500}}),
            ],
        ),
        ("agentcore", vec![begin.clone(), error.clone()]),
        ("agentcore", vec![json!({"runtimeClientError": {"message": w}})]),
        (
            "agentcore",
            vec![
                json!({"kind": "line", "line": format!("data: {}", json!({"error": w, "error_type": w, "message": w}))}),
                error.clone(),
            ],
        ),
        ("anthropic-messages", vec![api.clone()]),
        ("anthropic-messages", vec![error.clone()]),
        ("openai-responses", vec![json!({"type": "error", "code": w, "message": w, "param": w})]),
        (
            "openai-responses",
            vec![
                json!({"type": "response.failed", "response": {"id": "x", "model": "m", "status": "failed", "error": {"code": w, "message": w}}}),
            ],
        ),
        ("openai-chat", vec![api.clone()]),
        ("openai-chat", vec![error.clone()]),
        ("openai-agents", vec![begin.clone(), error.clone()]),
        (
            "canonical",
            vec![
                begin.clone(),
                chunk(
                    json!({"type": "warning", "data": {"code": "odd", "message": w.replace('\n', " "), "details": {"words": w}}}),
                ),
                chunk(
                    json!({"type": "run.error", "data": {"code": "odd", "message": w.replace('\n', " "), "retryable": false, "side_effect_status": "none"}}),
                ),
            ],
        ),
        ("canonical", vec![begin.clone(), error.clone()]),
        ("canonical", vec![begin, chunk(json!({"type": w, "data": {"message_id": w}}))]),
    ]
}

/// A worker of protocol 1 that fails in the words that its stdin has no part in.
const WORKER: &str = r#"
import json, sys
words = open(sys.argv[2]).read()
say = lambda **keys: print(json.dumps(keys), flush=True)
say(kind="hello", protocol=1, harness=sys.argv[1], versions={}, restore=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] in ("run", "resume"):
        run = request["run_id"]
        say(kind="begin", run_id=run, op=request["op"])
        say(kind="error", run_id=run, error_type=words, message=words, state={"head": words[:100]})
"#;

fn contains(place: &[u8], what: &str) -> Option<String> {
    let found = |word: &str| place.windows(word.len()).any(|part| part == word.as_bytes());
    let spoilt = [
        "CANARY",
        "alice",
        "internal.example",
        "10.0.0.7",
        "Traceback",
        "panicked at",
        "billing details",
        "flagged as odd",
    ];
    spoilt.iter().find(|word| found(word)).map(|word| format!("{what} holds `{word}`"))
}

fn files(folder: &Path, all: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, all) } else { all.push(path) }
    }
}

#[test]
fn nothing_that_a_harness_says_of_its_errors_is_seen_by_anybody() {
    for canary in CANARIES {
        assert!(contains(canary.as_bytes(), "").is_some(), "{canary} would not be found");
    }
    let dir = tempfile::tempdir().unwrap();
    let input = tempfile::tempdir().unwrap(); // apart, so that only what the gateway wrote is searched
    let mut settings = String::new();
    let mut agents = Vec::new();
    for (number, (harness, lines)) in planted().into_iter().enumerate() {
        let file = input.path().join(format!("{number}.jsonl"));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, text).unwrap();
        write!(
            settings,
            "[agents.a{number}]\nharness = \"{harness}\"\n[agents.a{number}.driver.recording]\nfile = {:?}\n",
            file.to_str().unwrap()
        )
        .unwrap();
        agents.push((format!("a{number}"), harness));
    }
    let (worker, words_file) = (input.path().join("worker.py"), input.path().join("words"));
    std::fs::write(&worker, WORKER).unwrap();
    std::fs::write(&words_file, words()).unwrap();
    for harness in ["deepagents", "strands", "canonical", "openai-agents"] {
        let command = ["python3", worker.to_str().unwrap(), harness, words_file.to_str().unwrap()];
        write!(
            settings,
            "[agents.live-{harness}]\nharness = \"{harness}\"\n[agents.live-{harness}.driver.process]\ncommand = {command:?}\n"
        )
        .unwrap();
        agents.push((format!("live-{harness}"), harness));
    }
    let gateway = Gateway::start(dir.path(), &settings);
    let mut leaks = Vec::new();
    for (agent, harness) in &agents {
        for protocol in [Protocol::Custom, Protocol::Agui] {
            let conversation = format!("c-{agent}-{}", protocol.as_str());
            let response = say(&gateway.client, agent, &conversation, protocol, "hello");
            let run_id = response.run_id();
            leaks.extend(contains(
                &response.bytes(),
                &format!("{agent} ({harness}): the {} stream", protocol.as_str()),
            ));
            let run = show(&gateway.client, &run_id);
            assert_eq!(run["status"], "error", "{agent} ({harness}): {run}");
            check_whole(&stored(&gateway.client, &run_id));
            for path in [
                "",
                "/events",
                "/findings",
                "/stream",
                "/stream?protocol=agui-spec",
                "/stream?protocol=ui-message",
            ] {
                let answer = gateway.client.get(&format!("/api/v1/runs/{run_id}{path}")).bytes();
                leaks.extend(contains(&answer, &format!("{agent} ({harness}): {path}")));
            }
        }
    }
    leaks.extend(contains(&gateway.client.get("/metrics").bytes(), "/metrics"));
    leaks.extend(contains(gateway.log().as_bytes(), "the log"));
    assert!(gateway.stop().success());
    let mut written = Vec::new();
    files(&dir.path().join("data"), &mut written);
    assert!(written.iter().any(|file| file.ends_with("causeway.db")), "{written:?}");
    for file in written {
        leaks.extend(contains(&std::fs::read(&file).unwrap(), &file.display().to_string()));
    }
    assert_eq!(leaks, [] as [String; 0]);
}
