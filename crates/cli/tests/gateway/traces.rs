//! Traces at a collector of our own: the spans of a run as a tree, the context in and out, and a collector that is of no use.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::metrics::scrape;
use crate::runs::{create, ended, stored, types};

/// What a collector answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    Takes,
    Fails,
    Hangs,
}

/// A collector; what it took comes out of the channel, batch by batch.
pub fn collector(answer: Answer) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (send, receive) = channel();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            match answer {
                Answer::Hangs => held.push(stream),
                Answer::Takes | Answer::Fails => serve(&stream, answer, &send),
            }
        }
    });
    (endpoint, receive)
}

fn serve(stream: &TcpStream, answer: Answer, send: &Sender<Value>) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let status = if answer == Answer::Takes { "200 OK" } else { "503 Service Unavailable" };
    let _ = write!(
        &mut &*stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    let _ = send.send(serde_json::from_slice(&body).unwrap());
}

pub fn settings(endpoint: &str, agents: &str) -> String {
    format!("[tracing]\nendpoint = {endpoint:?}\ntimeout = \"1s\"\n{agents}")
}

/// The spans of what has come, until one of each of these names is there.
fn spans(received: &Receiver<Value>, names: &[&str]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while !names.iter().all(|name| all.iter().any(|span| span["name"] == *name)) {
        let left = until.saturating_duration_since(Instant::now());
        let batch = received.recv_timeout(left).unwrap_or_else(|_| panic!("only these came: {all:#?}"));
        let resource = &batch["resourceSpans"][0];
        let service = json!({"key": "service.name", "value": {"stringValue": "causeway"}});
        assert_eq!(resource["resource"]["attributes"][0], service);
        all.extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    all
}

/// The spans as a tree of names; commits of batches, of which there may be any number, once.
fn tree(spans: &[Value], parent: &str) -> Vec<Value> {
    let mut children: Vec<Value> = spans
        .iter()
        .filter(|span| span["parentSpanId"] == parent)
        .map(|span| {
            let below = tree(spans, span["spanId"].as_str().unwrap());
            let name = span["name"].as_str().unwrap();
            if below.is_empty() { json!(name) } else { json!({name: below}) }
        })
        .collect();
    children.sort_by_key(ToString::to_string);
    let batches = |one: &Value| *one == json!("commit append");
    children.dedup_by(|one, other| batches(one) && batches(other));
    children
}

fn attribute(span: &Value, key: &str) -> Value {
    let found = span["attributes"].as_array().unwrap().iter().find(|one| one["key"] == key);
    found.map_or(Value::Null, |one| one["value"].clone())
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn a_run_is_one_trace_from_its_request_to_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, received) = collector(Answer::Takes);
    let agents = recorded_agents(&[("sub", "subagent_one", "fast", "")]);
    let gateway = Gateway::start(dir.path(), &settings(&endpoint, &agents));
    let body = json!({"agent_id": "sub", "conversation_id": "c", "message": "a secret sentence", "protocol": "custom"});
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let response = gateway.client.send(
        "POST",
        "/api/v1/chat/stream/start",
        &[
            ("content-type", "application/json"),
            ("traceparent", &parent),
            ("tracestate", "vendor=secret"),
            ("baggage", "user=secret"),
        ],
        Some(body.to_string().as_bytes()),
    );
    let (run_id, request_id) = (response.run_id(), response.header("x-request-id").unwrap().to_owned());
    response.bytes();
    let request = "POST /api/v1/chat/stream/start";
    let all = spans(&received, &[request, "run", "stream custom"]);
    let of_trace: Vec<Value> = all.iter().filter(|span| span["traceId"] == TRACE).cloned().collect();
    // What the tree must be follows from the events.
    let events: Vec<Value> =
        stored(&gateway.client, &run_id).iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let mut below: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in &events {
        let namespace = event["namespace"].as_array().unwrap();
        match event["type"].as_str().unwrap() {
            "tool.started" => below.entry(json!(namespace).to_string()).or_default().push("tool".to_owned()),
            "namespace.entered" => {
                let above = json!(namespace[..namespace.len() - 1]).to_string();
                below.entry(above).or_default().push(json!(namespace).to_string());
            }
            _ => {}
        }
    }
    fn expected(below: &BTreeMap<String, Vec<String>>, path: &str) -> Vec<Value> {
        let mut all: Vec<Value> = below
            .get(path)
            .into_iter()
            .flatten()
            .map(|one| match one.as_str() {
                "tool" => json!("tool"),
                path => match expected(below, path) {
                    inner if inner.is_empty() => json!("subagent"),
                    inner => json!({"subagent": inner}),
                },
            })
            .collect();
        all.sort_by_key(ToString::to_string);
        all
    }
    let worker = json!({"worker": expected(&below, "[]")});
    assert!(worker.to_string().contains("subagent"), "{worker}");
    let run = json!({"run": ["commit append", "commit final", "commit open", worker]});
    let mut whole = vec![json!("stream custom"), run];
    whole.sort_by_key(ToString::to_string);
    assert_eq!(tree(&of_trace, "00f067aa0ba902b7"), [json!({request: whole})]);
    let named = |name: &str| of_trace.iter().find(|span| span["name"] == name).unwrap();
    assert_eq!(attribute(named("run"), "causeway.run_id"), json!({"stringValue": run_id}));
    assert_eq!(attribute(named("run"), "causeway.outcome"), json!({"stringValue": "finished"}));
    assert_eq!(attribute(named(request), "causeway.request_id"), json!({"stringValue": request_id}));
    assert_eq!(attribute(named(request), "http.response.status_code"), json!({"intValue": "200"}));
    assert_eq!(named(request)["kind"], 2);
    for span in &of_trace {
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(
            time("startTimeUnixNano") <= time("endTimeUnixNano") && time("startTimeUnixNano") > 0,
            "{span}"
        );
    }
    assert!(!json!(all).to_string().contains("secret"), "no content, no state of others");
    assert!(gateway.log().contains(&format!("\"trace_id\":\"{TRACE}\"")));
}

/// A worker that tells which trace context its request had, in the only place that shows: its file.
const WORKER: &str = r#"
import json, sys
say = lambda **keys: print(json.dumps(keys), flush=True)
say(kind="hello", protocol=1, harness="canonical", versions={}, restore=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "run":
        with open(sys.argv[1], "a") as out:
            out.write(request.get("traceparent", "none") + "\n")
        say(kind="begin", run_id=request["run_id"], op="run")
        say(kind="end", run_id=request["run_id"], state={"head": "h" + request["run_id"], "interrupts": []})
"#;

#[test]
fn the_context_reaches_the_worker_and_what_is_malformed_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (script, seen) = (dir.path().join("worker.py"), dir.path().join("seen"));
    std::fs::write(&script, WORKER).unwrap();
    let command = ["python3", script.to_str().unwrap(), seen.to_str().unwrap()];
    let agents =
        format!("[agents.w]\nharness = \"canonical\"\n[agents.w.driver.process]\ncommand = {command:?}\n");
    let (endpoint, received) = collector(Answer::Takes);
    let gateway = Gateway::start(dir.path(), &settings(&endpoint, &agents));
    let bad = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
    for (number, parent) in
        [format!("00-{TRACE}-00f067aa0ba902b7-01"), bad.to_owned(), "secret".to_owned()].iter().enumerate()
    {
        let body =
            json!({"agent_id": "w", "conversation_id": format!("c{number}"), "message": "m"}).to_string();
        let headers = [("content-type", "application/json"), ("traceparent", parent.as_str())];
        let response = gateway.client.send("POST", "/api/v1/runs", &headers, Some(body.as_bytes()));
        assert_eq!(response.status, 202);
        let run_id = crate::runs::text(&crate::runs::value(response), "run_id");
        assert_eq!(ended(&gateway.client, &run_id)["status"], "finished");
    }
    let seen = std::fs::read_to_string(&seen).unwrap();
    let seen: Vec<Vec<&str>> = seen.lines().map(|line| line.split('-').collect()).collect();
    assert_eq!(seen.len(), 3);
    let all = {
        let mut all = Vec::new();
        while all.iter().filter(|span: &&Value| span["name"] == "worker").count() < 3 {
            all.extend(spans(&received, &["worker"]));
        }
        all
    };
    for (number, parts) in seen.iter().enumerate() {
        let worker = all.iter().find(|span| span["name"] == "worker" && span["spanId"] == parts[2]);
        assert_eq!(
            worker.map(|span| &span["traceId"]),
            Some(&json!(parts[1])),
            "its parent is the worker's span"
        );
        assert_eq!(parts[1] == TRACE, number == 0, "what is malformed begins a trace of its own");
        assert!((parts[0], parts[3]) == ("00", "01") && parts[1] != "0".repeat(32));
    }
}

#[test]
fn a_collector_of_no_use_changes_nothing_and_is_counted() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1/traces", listener.local_addr().unwrap())
    };
    let (fails, _failed) = collector(Answer::Fails);
    let (hangs, _hung) = collector(Answer::Hangs);
    for endpoint in [closed, fails, hangs] {
        let dir = tempfile::tempdir().unwrap();
        let agents = recorded_agents(&[("plain", "text_plain", "fast", "")]);
        let gateway = Gateway::start(dir.path(), &settings(&endpoint, &agents));
        for number in 0..5 {
            let run_id = create(&gateway.client, "plain", &format!("c{number}"));
            assert_eq!(ended(&gateway.client, &run_id)["status"], "finished");
            assert_eq!(types(&stored(&gateway.client, &run_id)).last().unwrap(), "run.finished");
        }
        let page = eventually("dropped spans", || {
            let page = scrape(&gateway.client);
            (page.sum("causeway_trace_spans_dropped_total", &[]) >= 20.0).then_some(page)
        });
        assert_eq!(page.sum("causeway_trace_spans_sent_total", &[]), 0.0);
        assert!(gateway.stop().success(), "a collector holds no stop back");
    }
}
