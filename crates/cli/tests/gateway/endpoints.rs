//! Agents behind HTTP endpoints, through the gateway: each shape of request, answers, failures, a cancel.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::runs::{self, check_whole, create, ended, show, stored, text, types};

const RECORDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings");

/// What an endpoint answers to a request.
type Script = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// A request: its head in lower case, and its body.
#[derive(Clone, Debug)]
struct Asked {
    head: String,
    body: Value,
}

#[derive(Clone, Debug)]
enum Answer {
    Stream(&'static str, Vec<u8>),
    /// A stream that goes on, and says no more.
    Stalls(&'static str, Vec<u8>),
    Status(&'static str, &'static str),
}

/// A fake endpoint on a port of its own.
struct Endpoint {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    left: Arc<Mutex<usize>>,
}

impl Endpoint {
    fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/run", listener.local_addr().unwrap());
        let (asked, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (all, gone) = (Arc::clone(&asked), Arc::clone(&left));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, all, gone) = (Arc::clone(&script), Arc::clone(&all), Arc::clone(&gone));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
                    let Some(request) = read(&mut stream) else { return };
                    let answer = script(&request);
                    all.lock().unwrap().push(request);
                    serve(&mut stream, answer);
                    // A client that is still there closes when it likes.
                    let _ = stream.read(&mut [0; 64]);
                    *gone.lock().unwrap() += 1;
                });
            }
        });
        Self { url, asked, left }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
        if bytes.len() >= end + 4 + length {
            return Some(Asked { head, body: serde_json::from_slice(&bytes[end + 4..]).unwrap() });
        }
    }
}

fn serve(stream: &mut TcpStream, answer: Answer) {
    let (kind, body, ends) = match answer {
        Answer::Status(line, headers) => {
            let body = "{\"message\":\"canary of the endpoint\"}";
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 {line}\r\n{headers}content-length: {length}\r\n\r\n{body}");
            return;
        }
        Answer::Stream(kind, body) => (kind, body, true),
        Answer::Stalls(kind, body) => (kind, body, false),
    };
    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in body.chunks(1000) {
        let _ = write!(stream, "{:x}\r\n", piece.len());
        let _ = stream.write_all(piece);
        let _ = stream.write_all(b"\r\n");
    }
    if ends {
        let _ = stream.write_all(b"0\r\n\r\n");
    }
    let _ = stream.flush();
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(RECORDINGS).join(name)).unwrap()
}

fn agent(harness: &str, thread: &str, driver: &str) -> String {
    format!(
        "[agents.far]\nharness = \"{harness}\"\nthread = \"{thread}\"\n[agents.far.driver.http]\n{driver}\n"
    )
}

/// Runs one turn against an endpoint; the run, its events, and what the endpoint was asked.
fn one(harness: &str, thread: &str, more: &str, script: Script) -> (Value, Vec<String>, Vec<Asked>) {
    let endpoint = Endpoint::new(script);
    let dir = tempfile::tempdir().unwrap();
    let gateway =
        Gateway::start(dir.path(), &agent(harness, thread, &format!("url = \"{}\"\n{more}", endpoint.url)));
    let run_id = create(&gateway.client, "far", "c1");
    let run = ended(&gateway.client, &run_id);
    let events = stored(&gateway.client, &run_id);
    check_whole(&events);
    (run, events, endpoint.asked())
}

fn said(events: &[String]) -> String {
    let events = events.iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
    events.filter(|event| event["type"] == "text.delta").map(|event| text(&event["data"], "delta")).collect()
}

fn always(answer: Answer) -> Script {
    Arc::new(move |_| answer.clone())
}

#[test]
fn agentcore_runtimes_and_harnesses_are_asked_in_their_sessions() {
    let sse = always(Answer::Stream("text/event-stream", file("bedrock/runtime_app_text.sse")));
    let (run, events, asked) = one("agentcore", "ephemeral", "", sse);
    assert_eq!(run["status"], "finished", "{run}");
    assert!(!said(&events).is_empty());
    assert_eq!(asked[0].body, json!({"prompt": "hello"}));
    assert!(
        asked[0].head.contains("\r\nx-amzn-bedrock-agentcore-runtime-session-id: causeway-"),
        "{asked:?}"
    );

    let json = always(Answer::Stream("application/json", file("bedrock/runtime_app_json.sse")));
    let (run, _, _) = one("agentcore", "ephemeral", "", json);
    assert_eq!(run["status"], "finished", "{run}");

    let frames =
        always(Answer::Stream("application/vnd.amazon.eventstream", file("bedrock/harness_tool.0.bin")));
    let (run, events, asked) = one("agentcore", "ephemeral", "request = \"agentcore-harness\"", frames);
    assert_eq!(run["status"], "finished", "{run}");
    assert!(types(&events).contains(&"tool.finished".to_owned()));
    assert_eq!(asked[0].body, json!({"messages": [{"role": "user", "content": [{"text": "hello"}]}]}));

    let cut = file("bedrock/harness_tool.0.bin");
    let cut = always(Answer::Stream("application/vnd.amazon.eventstream", cut[..cut.len() - 40].to_vec()));
    let (run, _, _) = one("agentcore", "ephemeral", "request = \"agentcore-harness\"", cut);
    assert_eq!(run["status"], "error", "{run}");
}

#[test]
fn a_model_api_is_asked_with_the_members_that_the_configuration_adds() {
    let chat = concat!(
        "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hi\"}}]}\n\n",
        "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n"
    );
    let stream = always(Answer::Stream("text/event-stream", chat.as_bytes().to_vec()));
    let (run, events, asked) = one("openai-chat", "ephemeral", "body = '{\"model\":\"m\"}'", stream);
    assert_eq!((run["status"].as_str(), said(&events)), (Some("finished"), "Hi".to_owned()), "{run}");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": true});
    assert_eq!(asked[0].body, body);
}

#[test]
fn a_worker_behind_an_endpoint_names_its_heads_and_is_asked_from_them() {
    let script: Script = Arc::new(|asked: &Asked| {
        let run = asked.body["run_id"].as_str().unwrap();
        let lines = [
            json!({"kind": "begin", "run_id": run, "op": "run"}),
            json!({"kind": "chunk", "run_id": run, "event": {"type": "text.started", "namespace": [], "data": {"message_id": "m", "role": "assistant"}}}),
            json!({"kind": "chunk", "run_id": run, "event": {"type": "text.delta", "namespace": [], "data": {"message_id": "m", "delta": "Here."}}}),
            json!({"kind": "chunk", "run_id": run, "event": {"type": "text.finished", "namespace": [], "data": {"message_id": "m"}}}),
            json!({"kind": "end", "run_id": run, "state": {"head": format!("head-of-{run}"), "interrupts": []}}),
        ];
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Answer::Stream("application/x-ndjson", body.into_bytes())
    });
    let endpoint = Endpoint::new(script);
    let dir = tempfile::tempdir().unwrap();
    let driver = format!("url = \"{}\"", endpoint.url);
    let gateway = Gateway::start(dir.path(), &agent("canonical", "durable", &driver));
    let mut before = Value::Null;
    for turn in 0..2 {
        let run_id = create(&gateway.client, "far", "c1");
        let run = ended(&gateway.client, &run_id);
        assert_eq!(
            (run["status"].as_str(), said(&stored(&gateway.client, &run_id))),
            (Some("finished"), "Here.".to_owned()),
            "{run}"
        );
        let asked = endpoint.asked();
        assert_eq!(asked[turn].body["base"], before, "turn {turn}");
        assert_eq!(asked[turn].body["input"], json!({"text": "hello"}));
        before = json!(format!("head-of-{run_id}"));
    }
}

#[test]
fn a_gateway_behind_a_gateway_asks_its_people_through_the_outer_one() {
    let (outer_dir, inner_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inner = Gateway::start(
        inner_dir.path(),
        &recorded_agents(&[("approve", "approve", "fast", ""), ("form", "form_submit", "fast", "")]),
    );
    for (name, answer, tool_ends) in
        [("approve", json!({"decision": "approve"}), 1), ("form", json!({"decision": "edit"}), 1)]
    {
        let driver = format!("url = \"{}/agui/{name}\"\nkeeps_threads = true", inner.url);
        let outer_dir = outer_dir.path().join(name);
        std::fs::create_dir(&outer_dir).unwrap();
        let outer = Gateway::start(&outer_dir, &agent("agui", "durable", &driver));
        let asked_id = create(&outer.client, "far", "c1");
        let asked = ended(&outer.client, &asked_id);
        assert_eq!(asked["status"], "interrupted", "{name}: {asked} {}", outer.log());
        let events = stored(&outer.client, &asked_id);
        check_whole(&events);
        let request = events.iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
        let request = request.clone().find(|event| event["type"] == "interrupt.requested").unwrap();
        let data = &request["data"];
        let mut body = json!({
            "interrupt_id": asked["interrupt"]["interrupt_id"], "revision": asked["interrupt"]["revision"],
            "idempotency_key": "k",
        });
        match data["interrupt_type"].as_str().unwrap() {
            "tool_approval" => {
                let mut one = answer.clone();
                one["tool_call_id"] = data["tool_approvals"][0]["tool_call_id"].clone();
                body["decisions"] = json!([one]);
            }
            _ => body["values"] = json!({"environment": "dev", "replicas": "3"}),
        }
        let response = outer.client.post(&format!("/api/v1/runs/{asked_id}/resume"), &body.to_string());
        assert_eq!(response.status, 202, "{name}");
        let run_id = text(&runs::value(response), "run_id");
        let run = ended(&outer.client, &run_id);
        assert_eq!(run["status"], "finished", "{name}: {run} {}", outer.log());
        let events = stored(&outer.client, &run_id);
        check_whole(&events);
        let ends = types(&events).iter().filter(|kind| *kind == "tool.finished").count();
        assert_eq!(ends, tool_ends, "{name}: {events:?}");
        assert!(!said(&events).is_empty(), "{name}");
        // Inside, the same person's answer is recorded.
        let listed = runs::value(inner.client.get(&format!("/api/v1/runs?agent_id={name}")));
        let statuses: Vec<_> =
            listed["runs"].as_array().unwrap().iter().map(|run| run["status"].clone()).collect();
        assert_eq!(statuses, ["finished", "interrupted"], "{name}");
    }
}

#[test]
fn a_refusal_of_the_endpoint_is_typed_and_neither_its_words_nor_our_secrets_are_kept() {
    let endpoint = Endpoint::new(always(Answer::Status("429 Slow Down", "retry-after: 12\r\n")));
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "canary-token-of-ours\n").unwrap();
    let driver = format!("url = \"{}\"\nbearer = {{ file = \"{}\" }}", endpoint.url, token.display());
    let gateway = Gateway::start(dir.path(), &agent("agui", "ephemeral", &driver));
    let run_id = create(&gateway.client, "far", "c1");
    let run = ended(&gateway.client, &run_id);
    let error = json!({"code": "harness_rate_limited", "retryable": true, "retry_after_seconds": 12});
    for (key, value) in error.as_object().unwrap() {
        assert_eq!(&run["error"][key], value, "{run}");
    }
    assert!(endpoint.asked()[0].head.contains("\r\nauthorization: bearer canary-token-of-ours"));
    let kept = stored(&gateway.client, &run_id).join("\n") + &gateway.log();
    assert!(!kept.contains("canary"), "{kept}");
}

#[test]
fn a_cancel_closes_the_connection_and_the_run_says_so() {
    let begun = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                 data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"Half\"}\n\n";
    let endpoint = Endpoint::new(always(Answer::Stalls("text/event-stream", begun.as_bytes().to_vec())));
    let dir = tempfile::tempdir().unwrap();
    let driver = format!("url = \"{}\"", endpoint.url);
    let gateway = Gateway::start(dir.path(), &agent("agui", "ephemeral", &driver));
    let run_id = create(&gateway.client, "far", "c1");
    eventually("the text", || {
        (show(&gateway.client, &run_id)["last_sequence"].as_u64() >= Some(2)).then_some(())
    });
    let cancelled = gateway.client.post(&format!("/api/v1/runs/{run_id}/cancel"), "{}");
    assert_eq!(runs::value(cancelled)["cancelled"], true);
    eventually("the endpoint to be left", || (*endpoint.left.lock().unwrap() > 0).then_some(()));
    let events = stored(&gateway.client, &run_id);
    check_whole(&events);
    assert_eq!(types(&events).last().map(String::as_str), Some("run.cancelled"));
    assert_eq!(said(&events), "Half");
}

#[test]
fn an_endpoint_that_cannot_be_what_its_agent_says_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let settings = agent("agui", "durable", "url = \"http://127.0.0.1:1/\"");
    let Err((status, log)) = Gateway::try_start(dir.path(), &settings, &[]) else { panic!("it started") };
    assert_eq!(status.code(), Some(2));
    assert!(log.contains("keeps_threads = true"), "{log}");
}
