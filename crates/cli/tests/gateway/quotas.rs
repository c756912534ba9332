//! What one owner and one agent may take up, through the binary: every bound, its refusal on every kind of route, and the
//! room that comes back.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::http::Response;

/// A gateway with one service token and these quotas; `slow` says nothing for an hour after its first line.
fn gateway(dir: &Path, quotas: &str, of_slow: &str) -> Gateway {
    let digest = Sha256::digest("canary-web");
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(dir.join("web"), hex).unwrap();
    let agents = recorded_agents(&[
        ("tour", "text_plain", "fast", ""),
        ("slow", "text_plain", "1h", "idle_timeout = \"2h\"\ndeadline = \"2h\""),
    ]);
    let settings = format!(
        "[auth]\nmode = \"service\"\ntokens = {{ web = {{ file = {:?} }} }}\n{quotas}\n{agents}\n{of_slow}\n",
        dir.join("web"),
    );
    Gateway::start(dir, &settings)
}

fn send(gateway: &Gateway, who: &str, method: &str, path: &str, body: &Value) -> Response {
    let headers = [
        ("content-type", "application/json"),
        ("authorization", "Bearer canary-web"),
        ("x-causeway-subject", who),
    ];
    let body = body.to_string();
    gateway.client.send(method, path, &headers, (method != "GET").then_some(body.as_bytes()))
}

fn start(gateway: &Gateway, who: &str, agent: &str, conversation: &str) -> Response {
    let body = json!({"agent_id": agent, "conversation_id": conversation, "message": "hi"});
    send(gateway, who, "POST", "/api/v1/runs", &body)
}

fn started(gateway: &Gateway, who: &str, agent: &str, conversation: &str) -> String {
    let response = start(gateway, who, agent, conversation);
    assert_eq!(response.status, 202);
    let run: Value = serde_json::from_str(&response.text()).unwrap();
    run["run_id"].as_str().unwrap().to_owned()
}

/// Status, code, and the seconds to wait.
fn refused(response: Response) -> (u16, String, u64) {
    let wait = response.header("retry-after").expect("retry-after").parse().unwrap();
    let (status, body) = (response.status, serde_json::from_str::<Value>(&response.text()).unwrap());
    let code = body["error"]["code"].as_str().or(body["detail"]["code"].as_str());
    (status, code.unwrap_or_else(|| panic!("{body}")).to_owned(), wait)
}

fn quota_exceeded() -> (u16, String, u64) {
    (429, "quota_exceeded".to_owned(), 1)
}

#[test]
fn an_owner_at_its_bound_of_open_runs_is_refused_on_every_route_that_starts_one() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = "[quotas]\nopen_runs = 1\n[quotas.subjects.ann]\nopen_runs = 2";
    let gateway = gateway(dir.path(), quotas, "");
    let run = started(&gateway, "bob", "slow", "c");
    assert_eq!(refused(start(&gateway, "bob", "tour", "d")), quota_exceeded());
    let chat = json!({"agent_id": "tour", "conversation_id": "d", "message": "hi"});
    for path in ["/api/v1/chat/stream/start", "/api/v1/chat/invoke"] {
        assert_eq!(refused(send(&gateway, "bob", "POST", path, &chat)), quota_exceeded(), "{path}");
    }
    let agui = json!({"threadId": "d", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hi"}],
        "tools": [], "context": [], "state": {}, "forwardedProps": {}});
    assert_eq!(refused(send(&gateway, "bob", "POST", "/agui/tour", &agui)), quota_exceeded());
    let chat = json!({"id": "d", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]});
    assert_eq!(refused(send(&gateway, "bob", "POST", "/ui-message/tour", &chat)), quota_exceeded());
    // Its own bound for one, the common one for everybody else.
    started(&gateway, "ann", "slow", "c");
    started(&gateway, "ann", "slow", "d");
    assert_eq!(refused(start(&gateway, "ann", "tour", "e")), quota_exceeded());
    started(&gateway, "cleo", "tour", "c");

    let cancel = send(&gateway, "bob", "POST", &format!("/api/v1/runs/{run}/cancel"), &json!({}));
    assert_eq!(cancel.status, 200);
    started(&gateway, "bob", "tour", "d");
    let metrics = send(&gateway, "bob", "GET", "/metrics", &Value::Null).text();
    let counted = "causeway_quota_refusals_total{whose=\"owner\",bound=\"open_runs\"} 6";
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn an_agent_at_its_bound_is_busy_for_everybody_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "", "[agents.slow.quotas]\nopen_runs = 1");
    started(&gateway, "bob", "slow", "c");
    let busy = (503, "agent_quota_exceeded".to_owned(), 1);
    assert_eq!(refused(start(&gateway, "ann", "slow", "c")), busy);
    started(&gateway, "ann", "tour", "c");
    // Clients of the established stream know a full service as a frame.
    let body = json!({"agent_id": "slow", "conversation_id": "d", "message": "hi"});
    let stream = send(&gateway, "ann", "POST", "/api/v1/chat/stream/start", &body);
    assert_eq!((stream.status, stream.header("x-causeway-run-id")), (200, None));
    assert!(stream.text().contains("at capacity"));
}

#[test]
fn starts_of_a_minute_are_counted_whatever_became_of_them_and_a_restart_forgets_none() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = "[quotas]\nstarts_per_minute = 2";
    let first = gateway(dir.path(), quotas, "");
    started(&first, "bob", "tour", "c");
    eventually("the run ends", || {
        let gone = send(&first, "bob", "DELETE", "/api/v1/conversations/c", &json!({}));
        (gone.status == 204 || gone.status == 200).then_some(())
    });
    started(&first, "bob", "tour", "c");
    first.stop();
    let second = gateway(dir.path(), quotas, "");
    let (status, code, wait) = refused(start(&second, "bob", "tour", "d"));
    assert_eq!((status, code.as_str()), (429, "quota_exceeded"));
    assert!((1..=60).contains(&wait), "{wait}");
    started(&second, "ann", "tour", "c");
}

#[test]
fn a_stream_beyond_the_bound_is_refused_before_its_run_begins() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "[quotas]\nopen_streams = 1", "");
    let run = started(&gateway, "bob", "slow", "c");
    let path = format!("/api/v1/runs/{run}/stream");
    let mut reading = send(&gateway, "bob", "GET", &path, &Value::Null);
    assert_eq!(reading.status, 200);
    reading.at_least(10);
    assert_eq!(refused(send(&gateway, "bob", "GET", &path, &Value::Null)), quota_exceeded());
    let body = json!({"agent_id": "tour", "conversation_id": "d", "message": "hi"});
    assert_eq!(refused(send(&gateway, "bob", "POST", "/api/v1/chat/stream/start", &body)), quota_exceeded());
    let listed = send(&gateway, "bob", "GET", "/api/v1/runs?conversation_id=d", &Value::Null).text();
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()["runs"], json!([]));
    // Polling needs no stream, and neither does somebody else's.
    let polled = send(&gateway, "bob", "GET", &format!("/api/v1/runs/{run}/events"), &Value::Null);
    assert_eq!(polled.status, 200);
    let other = send(&gateway, "ann", "POST", "/api/v1/chat/stream/start", &body);
    assert_eq!(other.status, 200);
    other.bytes();
    drop(reading);
    eventually("the place is free", || {
        let again = send(&gateway, "bob", "POST", "/api/v1/chat/stream/start", &body);
        (again.status == 200).then_some(())
    });
}

#[test]
fn an_owner_that_has_stored_too_much_begins_nothing_until_it_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "[quotas]\nstored_bytes = \"1KiB\"", "");
    let body = json!({"agent_id": "tour", "conversation_id": "c", "message": "x".repeat(2_000)});
    let keyed = json!({"agent_id": "tour", "conversation_id": "c", "message": "x".repeat(2_000), "idempotency_key": "k"});
    assert_eq!(send(&gateway, "bob", "POST", "/api/v1/runs", &keyed).status, 202);
    eventually("its end counts", || {
        let response = send(&gateway, "bob", "POST", "/api/v1/runs", &body);
        // It runs, or has just ended and is not counted yet.
        if [202, 409].contains(&response.status) {
            return None;
        }
        let (status, code, wait) = refused(response);
        (code == "quota_exceeded").then(|| assert_eq!((status, wait), (429, 60)))
    });
    // The same request finds its run.
    assert_eq!(send(&gateway, "bob", "POST", "/api/v1/runs", &keyed).status, 202);
    started(&gateway, "ann", "tour", "c");
    eventually("the conversation is idle", || {
        let gone = send(&gateway, "bob", "DELETE", "/api/v1/conversations/c", &json!({}));
        (gone.status != 409).then_some(())
    });
    started(&gateway, "bob", "tour", "c");
}
