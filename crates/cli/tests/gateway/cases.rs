//! The `http` cases of `tests/data/cases`: B33, B37, B55.

use std::time::Duration;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::runs::{self, ESTABLISHED, check_whole, create, ended, offline, stored, types};

const START: &str = "/api/v1/chat/stream/start";

fn message(agent: &str, conversation: &str) -> String {
    json!({"agent_id": agent, "conversation_id": conversation, "message": "second"}).to_string()
}

fn revision(events: &[String]) -> u64 {
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    last["data"]["thread_state"]["durable_revision"]
        .as_u64()
        .unwrap_or_else(|| panic!("no revision in {last}"))
}

#[test]
fn b33_a_second_run_on_a_busy_conversation_is_refused_and_disturbs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        recorded_agents(&[("slow", "text_plain", "300ms", ""), ("fast", "text_plain", "fast", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    let first = runs::start(&gateway.client, "slow", "C", Protocol::Agui);
    let run_1 = first.run_id();
    for path in [START, "/api/v1/chat/invoke"] {
        let refused = gateway.client.post(path, &message("slow", "C"));
        assert_eq!(refused.status, 409, "{path}");
        assert_eq!(refused.header("content-type"), Some("application/json"));
        let detail = &runs::value(refused)["detail"];
        assert_eq!(
            (detail["success"].as_bool(), detail["code"].as_str()),
            (Some(false), Some("conversation_busy"))
        );
        assert!(detail["error"].is_string() && detail["reason"].is_string() && detail["action"].is_string());
    }
    let refused = gateway.client.post("/api/v1/runs", &message("slow", "C"));
    assert_eq!(refused.status, 409);
    assert_eq!(runs::value(refused)["error"]["code"], "conversation_busy");

    let body = first.text();
    let events_1 = stored(&gateway.client, &run_1);
    check_whole(&events_1);
    assert_eq!(body, offline(&events_1, Protocol::Agui), "the first run is not disturbed");
    let alone = create(&gateway.client, "fast", "D");
    ended(&gateway.client, &alone);
    assert_eq!(types(&events_1), types(&stored(&gateway.client, &alone)), "same events as alone");

    let third = gateway.client.post("/api/v1/runs", &message("slow", "C"));
    assert_eq!(third.status, 202, "the same message is taken once the first run has ended");
    let run_3 = runs::text(&runs::value(third), "run_id");
    ended(&gateway.client, &run_3);
    assert_eq!(
        (revision(&events_1), revision(&stored(&gateway.client, &run_3))),
        (1, 2),
        "one revision a run"
    );
    let list = runs::value(gateway.client.get("/api/v1/runs?conversation_id=C"));
    let ids: Vec<&str> =
        list["runs"].as_array().unwrap().iter().filter_map(|run| run["run_id"].as_str()).collect();
    assert_eq!(ids, [run_3.as_str(), run_1.as_str()], "nothing was stored for the refused ones");
}

#[test]
fn b37_a_client_that_disconnects_in_mid_run_does_not_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("slow", "text_unicode", "60ms", "")]));
    let mut response = runs::start(&gateway.client, "slow", "C", Protocol::Custom);
    let run_id = response.run_id();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(response.chunk().unwrap().unwrap().bytes);
    }
    drop(response);
    let run = ended(&gateway.client, &run_id);
    assert_eq!(run["status"], "finished");
    let events = stored(&gateway.client, &run_id);
    check_whole(&events);
    let seen = String::from_utf8(seen).unwrap();
    assert!(offline(&events, Protocol::Custom).starts_with(&seen), "what was seen is what is stored");
    assert_eq!(runs::start(&gateway.client, "slow", "C", Protocol::Custom).status, 200, "C is not locked");
}

#[test]
fn b37_an_agent_may_ask_that_a_disconnect_cancels_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "tool_one", "150ms", "on_disconnect = \"cancel\"")]);
    let gateway = Gateway::start(dir.path(), &settings);
    let mut response = runs::start(&gateway.client, "slow", "C", Protocol::Custom);
    let run_id = response.run_id();
    response.chunk().unwrap().unwrap();
    drop(response);
    let run = ended(&gateway.client, &run_id);
    assert_eq!(run["status"], "cancelled");
    let events = stored(&gateway.client, &run_id);
    check_whole(&events);
    let terminal: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(terminal["data"]["reason"], "disconnect");
    let tool_started = types(&events).iter().any(|name| name == "tool.started");
    assert_eq!(terminal["data"]["side_effect_status"] == "none", !tool_started);
    assert_eq!(runs::start(&gateway.client, "slow", "C", Protocol::Custom).status, 200, "C is not locked");
}

#[test]
fn b55_no_stream_is_held_back() {
    let dir = tempfile::tempdir().unwrap();
    // A reader that gets no processor sees frames together that came apart, but not every time.
    let seen: Vec<_> = (0..5).map_while(|round| frames_that_came_together(dir.path(), round)).collect();
    assert!(seen.len() < 5, "frames came together: {seen:?}");
}

/// Streams of all kinds, read at once, and those whose first frames came together; `None` if there is at most one.
fn frames_that_came_together(dir: &std::path::Path, round: usize) -> Option<Vec<(String, Duration)>> {
    let pause = Duration::from_millis(1500);
    let gateway = Gateway::start(dir, &recorded_agents(&[("slow", "text_plain", "1500ms", "")]));
    let mut streams = Vec::new();
    for protocol in ESTABLISHED {
        streams.push((
            format!("start {protocol}"),
            runs::start(&gateway.client, "slow", &format!("c-{round}-{protocol}"), protocol),
        ));
    }
    for protocol in Protocol::ALL {
        let run_id = create(&gateway.client, "slow", &format!("replay-{round}-{protocol}"));
        let path = format!("/api/v1/runs/{run_id}/stream?protocol={protocol}");
        streams.push((format!("replay {protocol}"), gateway.client.get(&path)));
    }
    for (name, response) in &streams {
        assert_eq!(response.status, 200, "{name}");
        assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"), "{name}");
        assert_eq!(response.header("cache-control"), Some("no-cache"), "{name}");
        assert_eq!(response.header("connection"), Some("keep-alive"), "{name}");
        assert_eq!(response.header("x-accel-buffering"), Some("no"), "{name}");
        assert_eq!(response.header("transfer-encoding"), Some("chunked"), "{name}");
        assert_eq!(
            (response.header("content-encoding"), response.header("content-length")),
            (None, None),
            "{name}"
        );
    }
    // Read together: each stream's frames must come one by one, at the pace of the harness.
    let readers: Vec<_> = streams
        .into_iter()
        .map(|(name, mut response)| {
            std::thread::spawn(move || {
                let first = response.chunk().unwrap().unwrap().at;
                let second = response.chunk().unwrap().unwrap();
                (name, first, second.at)
            })
        })
        .collect();
    let mut gaps = Vec::new();
    for reader in readers {
        let (name, first, second) = reader.join().unwrap();
        gaps.push((name, second.duration_since(first)));
    }
    // AG-UI and canonical start with run.started, which precedes the first native line; custom with the first text.
    gaps.retain(|(_, gap)| *gap < pause / 4);
    (gaps.len() > 1).then_some(gaps)
}

#[test]
fn a_stream_ends_right_behind_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "text_plain", "fast", "")]));
    let response = runs::start(&gateway.client, "tour", "c", Protocol::Custom);
    assert!(response.text().ends_with("event: done\ndata: {}\n\n"));
    eventually("readiness", || (gateway.client.get("/readyz").status == 200).then_some(()));
}
