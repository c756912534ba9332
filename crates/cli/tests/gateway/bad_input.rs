//! Clients that post garbage, too much, to the wrong place or from the wrong place.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gateway::{Gateway, recorded_agents};
use crate::http::{Client, Response};
use crate::runs::{self, value};

const START: &str = "/api/v1/chat/stream/start";
const INVOKE: &str = "/api/v1/chat/invoke";
const CANCEL: &str = "/api/v1/chat/stream/cancel";
const RUNS: &str = "/api/v1/runs";

fn gateway(dir: &std::path::Path) -> Gateway {
    Gateway::start(dir, &recorded_agents(&[("tour", "text_plain", "fast", "")]))
}

fn good() -> Value {
    json!({"agent_id": "tour", "conversation_id": "c", "message": "hello"})
}

fn with(key: &str, to: Value) -> String {
    let mut body = good();
    body[key] = to;
    body.to_string()
}

/// Refused with this status, in the shape of the route, as JSON; and nothing was started.
fn refused(response: Response, status: u16, what: &str) -> Value {
    assert_eq!(response.status, status, "{what}");
    assert_eq!(response.header("content-type"), Some("application/json"), "{what}");
    assert!(response.header("x-request-id").is_some(), "{what}");
    value(response)
}

fn nothing_was_started(client: &Client) {
    assert_eq!(client.get(RUNS).text(), r#"{"runs":[],"next":null}"#);
}

#[test]
fn garbage_is_refused_in_the_shape_of_the_route() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let bodies = [
        "",
        "nonsense",
        "[]",
        "{",
        "{\"agent_id\":",
        "\u{feff}{}",
        "null",
        "{\"agent_id\":\"tour\"}",
        "{}",
        "{\"agent_id\":\"tour\",\"conversation_id\":\"c\",\"message\":\"\\ud800\"}",
        "{\"agent_id\":\"tour\",\"conversation_id\":\"\",\"message\":\"x\"}",
        "{\"agent_id\":\"tour\",\"conversation_id\":\" c\",\"message\":\"x\"}",
        "{\"agent_id\":\"tour\",\"conversation_id\":\"c\",\"message\":7}",
    ];
    for body in bodies {
        for path in [START, INVOKE] {
            let answer = refused(gateway.client.post(path, body), 422, body);
            assert!(
                answer["detail"][0]["loc"][0] == "body" && answer["detail"][0]["msg"].is_string(),
                "{answer}"
            );
        }
        let answer = refused(gateway.client.post(RUNS, body), 422, body);
        assert_eq!(answer["error"]["code"], "invalid_request", "{answer}");
        assert!(answer["error"]["message"].is_string() && answer["error"]["request_id"].is_string());
    }
    refused(gateway.client.post(CANCEL, "{}"), 422, "cancel without ids");
    let binary: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let json = [("content-type", "application/json")];
    refused(gateway.client.send("POST", START, &json, Some(&binary)), 422, "binary");
    refused(
        gateway.client.post(RUNS, &with("messages", json!("typo"))),
        422,
        "an unknown field of a new route",
    );
    nothing_was_started(&gateway.client);
    let log = gateway.log();
    assert!(!log.contains("nonsense"), "the log holds what was posted");
}

#[test]
fn a_body_of_ten_megabytes_is_refused_whether_declared_or_chunked() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let huge = with("message", json!("x".repeat(10 << 20)));
    for path in [START, INVOKE, CANCEL, RUNS, "/api/v1/runs/any/cancel"] {
        refused(gateway.client.post(path, &huge), 413, path);
    }
    let mut chunked = format!(
        "POST {RUNS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for piece in huge.as_bytes().chunks(1 << 16) {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    refused(gateway.client.raw(&chunked).unwrap(), 413, "chunked");
    nothing_was_started(&gateway.client);
    assert_eq!(gateway.client.post(START, &good().to_string()).status, 200, "it serves on");
}

#[test]
fn a_wrong_protocol_is_a_validation_failure() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    for wrong in [json!("canonical"), json!("AGUI"), json!(""), json!(null), json!(1), json!("ag-ui")] {
        let answer =
            refused(gateway.client.post(START, &with("protocol", wrong.clone())), 422, &wrong.to_string());
        assert_eq!(answer["detail"][0]["loc"], json!(["body", "protocol"]));
    }
    nothing_was_started(&gateway.client);
}

#[test]
fn an_unknown_agent_is_not_found_and_a_forbidden_override_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    for path in [START, INVOKE, CANCEL] {
        let answer = refused(gateway.client.post(path, &with("agent_id", json!("nobody"))), 404, path);
        assert!(answer["detail"].is_string(), "{answer}");
    }
    let answer = refused(gateway.client.post(RUNS, &with("agent_id", json!("nobody"))), 404, RUNS);
    assert_eq!(answer["error"]["code"], "agent_not_found");
    for (key, to) in [("config_override", json!({"model": "x"})), ("files", json!({"/a": "b"}))] {
        let answer = refused(gateway.client.post(START, &with(key, to)), 400, key);
        assert!(answer["detail"].is_string(), "{answer}");
    }
    for key in ["files", "client_context"] {
        refused(gateway.client.post(START, &with(key, json!([1]))), 422, key);
    }
    nothing_was_started(&gateway.client);
    let fine = with("client_context", json!({"page": 1}));
    assert_eq!(gateway.client.post(START, &fine).status, 200);
}

#[test]
fn foreign_hosts_origins_and_content_types_are_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let body = good().to_string();
    let json = ("content-type", "application/json");
    let post = |path: &str, headers: &[(&str, &str)]| {
        gateway.client.send("POST", path, headers, Some(body.as_bytes()))
    };
    for path in [START, RUNS] {
        assert_eq!(post(path, &[json, ("host", "evil.example")]).status, 403, "a rebound name");
        assert_eq!(post(path, &[json, ("origin", "https://evil.example")]).status, 403);
        assert_eq!(post(path, &[json, ("origin", "null")]).status, 403);
        assert_eq!(post(path, &[("content-type", "text/plain")]).status, 415, "what a form may send");
        assert_eq!(post(path, &[]).status, 415);
    }
    assert_eq!(gateway.client.get_with(RUNS, &[("host", "evil.example")]).status, 403, "reading, too");
    let answer = refused(post(START, &[json, ("host", "evil.example")]), 403, "established");
    assert_eq!(
        (&answer["detail"]["code"], &answer["detail"]["success"]),
        (&json!("host_not_allowed"), &json!(false))
    );
    let preflight = gateway.client.send(
        "OPTIONS",
        START,
        &[("origin", "https://evil.example"), ("access-control-request-method", "POST")],
        None,
    );
    assert!(preflight.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "no CORS");
    nothing_was_started(&gateway.client);
    let own = format!("http://{}", gateway.client.address);
    assert_eq!(post(START, &[json, ("origin", &own)]).status, 200);
}

#[test]
fn unknown_routes_methods_and_runs_have_their_answers() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    assert_eq!(
        refused(gateway.client.get("/api/v1/nothing"), 404, "route")["error"]["code"],
        "route_not_found"
    );
    assert_eq!(refused(gateway.client.get("/api/v1/chat/nothing"), 404, "route")["detail"], "Not Found");
    assert_eq!(refused(gateway.client.get(START), 405, "method")["detail"], "Method Not Allowed");
    let long = "x".repeat(300);
    for id in ["unknown", "run-00000000-0000-7000-8000-000000000000", "%00", "..%2f..", long.as_str()] {
        for path in ["", "/events", "/stream"] {
            let answer = refused(gateway.client.get(&format!("/api/v1/runs/{id}{path}")), 404, id);
            assert_eq!(answer["error"]["code"], "run_not_found");
            assert_eq!(answer["error"]["message"], "there is no run with this id");
        }
        refused(gateway.client.post(&format!("/api/v1/runs/{id}/cancel"), "{}"), 404, id);
    }
    for query in
        ["status=odd", "limit=0", "limit=501", "limit=x", "cursor=!", "since=yesterday", "agent_id=%20"]
    {
        refused(gateway.client.get(&format!("{RUNS}?{query}")), 400, query);
    }
    let run_id = runs::create(&gateway.client, "tour", "c");
    for query in ["after=-1", "after=x", "wait=31", "wait=-1", "limit=0", "limit=5001"] {
        refused(gateway.client.get(&format!("{RUNS}/{run_id}/events?{query}")), 400, query);
    }
}

#[test]
fn bytes_that_are_no_http_and_clients_that_stall_or_vanish_hurt_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!(
        "[server]\nheader_timeout = \"500ms\"\nbody_timeout = \"500ms\"\n{}",
        recorded_agents(&[("tour", "text_plain", "fast", "")])
    );
    let gateway = Gateway::start(dir.path(), &settings);
    for request in
        [&b"\x16\x03\x01\x02\x00garbage\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n"]
    {
        if let Ok(response) = gateway.client.raw(request) {
            assert!((400..600).contains(&response.status), "{}", response.status);
        }
    }
    let huge_head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    if let Ok(response) = gateway.client.raw(huge_head.as_bytes()) {
        assert_eq!(response.status, 431);
    }
    // Half a head, then silence: cut off in time.
    let mut stalled = TcpStream::connect(gateway.client.address).unwrap();
    stalled.write_all(b"POST /api/v1/runs HTTP/1.1\r\nhost: local").unwrap();
    stalled.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let began = Instant::now();
    let _answer_or_end = std::io::Read::read_to_end(&mut stalled, &mut Vec::new());
    assert!(began.elapsed() < Duration::from_secs(50), "a stalled head holds a connection");
    // A head whose body never comes.
    let slow = gateway.client.raw(
        b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{",
    );
    assert_eq!(slow.unwrap().status, 408);
    // Clients that vanish in the middle of their request, and right behind it.
    for cut in [1, 40, 120, 200] {
        let body = good().to_string();
        let request = format!(
            "POST {START} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut gone = TcpStream::connect(gateway.client.address).unwrap();
        gone.write_all(&request.as_bytes()[..cut.min(request.len())]).unwrap();
        drop(gone);
    }
    let list = value(gateway.client.get(RUNS));
    for run in list["runs"].as_array().unwrap() {
        runs::ended(&gateway.client, run["run_id"].as_str().unwrap());
    }
    assert_eq!(
        gateway.client.post(START, &with("conversation_id", json!("other"))).status,
        200,
        "it serves on"
    );
}
