//! Runs seen from outside: started, read back, and encoded offline from their stored events.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;
use causeway_encode::{Protocol, Seed, with_event_id};
use serde_json::{Value, json};

use super::gateway::eventually;
use super::http::{Client, Response};

/// Both established formats.
pub const ESTABLISHED: [Protocol; 2] = [Protocol::Custom, Protocol::Agui];

/// `POST /api/v1/chat/stream/start`
pub fn start(client: &Client, agent: &str, conversation: &str, protocol: Protocol) -> Response {
    say(client, agent, conversation, protocol, "hello")
}

/// The same with a message.
pub fn say(client: &Client, agent: &str, conversation: &str, protocol: Protocol, message: &str) -> Response {
    let body = json!({
        "agent_id": agent, "conversation_id": conversation, "message": message, "protocol": protocol.as_str(),
    });
    client.post("/api/v1/chat/stream/start", &body.to_string())
}

/// `POST /api/v1/chat/stream/resume` with this `resume_data`.
pub fn answer(
    client: &Client,
    agent: &str,
    conversation: &str,
    protocol: Protocol,
    resume_data: &Value,
) -> Response {
    let body = json!({
        "agent_id": agent, "conversation_id": conversation, "resume_data": resume_data.to_string(),
        "protocol": protocol.as_str(),
    });
    client.post("/api/v1/chat/stream/resume", &body.to_string())
}

/// `GET /api/v1/conversations/{id}/interrupt-state`
pub fn waiting(client: &Client, conversation: &str) -> Value {
    let response = client.get(&format!("/api/v1/conversations/{conversation}/interrupt-state"));
    assert_eq!(response.status, 200, "conversation {conversation}");
    value(response)
}

/// `DELETE /api/v1/conversations/{id}`
pub fn delete(client: &Client, conversation: &str) -> Response {
    let path = format!("/api/v1/conversations/{conversation}");
    client.send("DELETE", &path, &[("content-type", "application/json")], None)
}

/// `POST /api/v1/runs`, to the run's id.
pub fn create(client: &Client, agent: &str, conversation: &str) -> String {
    let response = try_create(client, agent, conversation, "hello").expect("an answer");
    assert_eq!(response.status, 202);
    text(&value(response), "run_id")
}

/// The same, of a gateway that may be gone.
pub fn try_create(
    client: &Client,
    agent: &str,
    conversation: &str,
    message: &str,
) -> std::io::Result<Response> {
    let body = json!({"agent_id": agent, "conversation_id": conversation, "message": message}).to_string();
    client.try_send("POST", "/api/v1/runs", &[("content-type", "application/json")], Some(body.as_bytes()))
}

/// `GET /api/v1/runs/{id}`
pub fn show(client: &Client, run_id: &str) -> Value {
    let response = client.get(&format!("/api/v1/runs/{run_id}"));
    assert_eq!(response.status, 200, "run {run_id}");
    value(response)
}

/// The run once it has ended.
pub fn ended(client: &Client, run_id: &str) -> Value {
    eventually(&format!("the end of run {run_id}"), || {
        let run = show(client, run_id);
        (run["status"] != "running").then_some(run)
    })
}

/// Every stored event, each as the text it was sent as.
pub fn stored(client: &Client, run_id: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let response = client.get(&format!("/api/v1/runs/{run_id}/events?limit=7{after}"));
        assert_eq!(response.status, 200, "events of {run_id}");
        let text = response.text();
        let page: Page<'_> = serde_json::from_str(&text).expect("a page of events");
        all.extend(page.events.iter().map(|event| event.get().to_owned()));
        if page.done || page.events.is_empty() {
            return all;
        }
        after = format!("&after={}", page.next_after.expect("a cursor"));
    }
}

#[derive(serde::Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a serde_json::value::RawValue>,
    next_after: Option<u64>,
    done: bool,
}

/// The body that these events must give, from the first to the last.
pub fn offline(events: &[String], protocol: Protocol) -> String {
    encode(events, protocol, None, &Seed::default())
}

/// The same for a resumed run, whose seed its row shows.
pub fn offline_seeded(events: &[String], protocol: Protocol, run: &Value) -> String {
    encode(events, protocol, None, &seed(run))
}

/// The same with event numbers.
pub fn offline_seeded_numbered(events: &[String], protocol: Protocol, run: &Value) -> String {
    encode(events, protocol, Some(None), &seed(run))
}

fn seed(run: &Value) -> Seed {
    Seed::from_json(&run["seed"].to_string()).expect("the seed of a resumed run")
}

/// The same with event numbers, behind the event `after`.
pub fn offline_after(events: &[String], protocol: Protocol, after: Option<u64>) -> String {
    encode(events, protocol, Some(after), &Seed::default())
}

fn encode(events: &[String], protocol: Protocol, numbered: Option<Option<u64>>, seed: &Seed) -> String {
    let mut encoder = protocol.encoder(seed);
    let mut out = Vec::new();
    for line in events {
        let event = decode_line(line.as_bytes(), &Limits::DEFAULT).expect("a canonical event");
        let mut frames = Vec::new();
        encoder.encode(&event, &mut frames);
        match numbered {
            None => out.extend_from_slice(&frames),
            Some(after) if after < Some(event.sequence.value()) => {
                with_event_id(&frames, event.sequence, &mut out);
            }
            Some(_) => {}
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

/// The types of these events.
pub fn types(events: &[String]) -> Vec<String> {
    events.iter().map(|event| text(&serde_json::from_str(event).expect("JSON"), "type")).collect()
}

/// Numbered 0, 1, 2, … with one terminal, the last.
pub fn check_whole(events: &[String]) {
    let mut terminals = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let event = decode_line(event.as_bytes(), &Limits::DEFAULT).expect("a canonical event");
        assert_eq!(event.sequence.value(), index as u64, "a gap or a repetition");
        if event.data.is_terminal() {
            terminals.push(index);
        }
    }
    assert_eq!(terminals, [events.len() - 1], "exactly one terminal, at the end");
}

pub fn value(response: Response) -> Value {
    let text = response.text();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}")).to_owned()
}
