//! The live deepagents worker of `examples/deepagents`, over HTTP: bytes, disconnects, cancels, deaths.
//!
//! Skipped, loudly, where its Python environment cannot be had.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually};
use crate::http::{Response, frame_id, frames};
use crate::runs::{self, ESTABLISHED, check_whole, ended, offline, offline_after, say, stored, types};

/// The stacks that the worker is pinned to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stack {
    V07,
    V06,
}

impl Stack {
    /// The folder of its environment under `target`, and the file that pins it.
    fn pins(self) -> (&'static str, &'static str) {
        match self {
            Self::V07 => ("deepagents", "requirements.txt"),
            Self::V06 => ("deepagents-0.6", "requirements-0.6.txt"),
        }
    }
}

/// The interpreter of a stack's environment, which is made once for the checkout; `None`, with the reason on stderr,
/// where it cannot be had.
pub fn python(stack: Stack) -> Option<&'static Path> {
    static NEW: OnceLock<Option<PathBuf>> = OnceLock::new();
    static OLD: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = match stack {
        Stack::V07 => &NEW,
        Stack::V06 => &OLD,
    };
    made.get_or_init(|| {
        let (folder, pins) = stack.pins();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder);
        let setup = [example("setup.sh"), folder, PathBuf::from(pins)];
        let output = Command::new("sh").args(setup).output().expect("sh");
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        let text = String::from_utf8(output.stdout).expect("a path");
        Some(PathBuf::from(text.lines().last().expect("the last line is the path")))
    })
    .as_deref()
}

pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/deepagents").join(name)
}

/// Settings of the agent `live`, or `None`, said loudly.
pub fn settings(more: &str) -> Option<String> {
    settings_on(Stack::V07, more)
}

/// The same on a stack.
pub fn settings_on(stack: Stack, more: &str) -> Option<String> {
    let Some(python) = python(stack) else {
        eprintln!(
            "SKIPPED: the Python environment {stack:?} of examples/deepagents could not be made; no live worker was tested"
        );
        return None;
    };
    let python = python.to_str().expect("a plain path");
    let worker = example("worker.py");
    let script = example("scripts/demo.json");
    Some(format!(
        "[server]\nshutdown_grace = \"15s\"\n[agents.live]\nharness = \"deepagents\"\n{more}\n[agents.live.driver.process]\n\
         command = [{python:?}, {:?}, \"--script\", {:?}, \"--db\", \"{{data_dir}}/workers/{{conversation}}.{{epoch}}.sqlite\"]\n\
         cancel_grace = \"3s\"\n",
        worker.to_str().unwrap(),
        script.to_str().unwrap(),
    ))
}

/// The processes whose command line names `dir`: the workers of a gateway there.
pub fn workers(dir: &Path) -> Vec<u32> {
    let marker = dir.join("data").to_str().unwrap().to_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if line.contains(&marker) && line.contains("worker.py") {
            found.push(pid);
        }
    }
    found
}

fn kill_worker(dir: &Path) {
    let pids = workers(dir);
    assert!(!pids.is_empty(), "no worker is running");
    for pid in pids {
        let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        assert!(status.success());
    }
}

fn start(gateway: &Gateway, conversation: &str, protocol: Protocol, message: &str) -> Response {
    let response = say(&gateway.client, "live", conversation, protocol, message);
    assert_eq!(response.status, 200);
    response
}

/// Reads until `wanted` is in the body.
fn read_until(response: &mut Response, wanted: &str) -> String {
    let mut body = String::new();
    while !body.contains(wanted) {
        let chunk = response.chunk().unwrap().unwrap_or_else(|| panic!("ended without {wanted:?}: {body}"));
        body.push_str(std::str::from_utf8(&chunk.bytes).unwrap());
    }
    body
}

fn terminal(events: &[String]) -> Value {
    serde_json::from_str(events.last().unwrap()).unwrap()
}

fn cancel(gateway: &Gateway, conversation: &str) -> Value {
    let body = json!({"agent_id": "live", "conversation_id": conversation}).to_string();
    runs::value(gateway.client.post("/api/v1/chat/stream/cancel", &body))
}

#[test]
fn a_live_body_is_the_offline_encoding_of_the_stored_events() {
    let Some(settings) = settings("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings);
    for protocol in ESTABLISHED {
        let conversation = format!("c-{protocol}");
        for message in ["hello wörld 😀", "weather please", "compare Oslo and Rome", "restart the api"] {
            let response = start(&gateway, &conversation, protocol, message);
            let run_id = response.run_id();
            let body = response.text();
            let events = stored(&gateway.client, &run_id);
            check_whole(&events);
            assert_eq!(body, offline(&events, protocol), "{message} in {protocol}");
            let expected = if message.starts_with("restart") { "run.interrupted" } else { "run.finished" };
            assert_eq!(terminal(&events)["type"], expected, "{message}");
        }
        let busy = say(&gateway.client, "live", &conversation, protocol, "hello");
        assert_eq!(busy.status, 409, "an interrupt is pending");
    }
    // Each conversation has a worker, and remembers: the second turn of a conversation follows the first.
    assert_eq!(workers(dir.path()).len(), 2);
    assert!(gateway.stop().success());
    eventually("the workers' end", || workers(dir.path()).is_empty().then_some(()));
}

#[test]
fn a_reconnect_in_mid_run_and_between_two_frames_of_an_event_leaves_no_gap() {
    let Some(settings) = settings("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings);
    for protocol in ESTABLISHED {
        let mut first = start(&gateway, &format!("c-{protocol}"), protocol, "compare both");
        let run_id = first.run_id();
        read_until(&mut first, "researcher");
        drop(first); // the client goes away in mid-run
        let path = format!("/api/v1/runs/{run_id}/stream?protocol={protocol}");
        let mut got = String::new();
        let mut last = None;
        for take in [1, 1, 2, 3, usize::MAX] {
            let headers: Vec<(&str, String)> =
                last.iter().map(|id: &u64| ("last-event-id", id.to_string())).collect();
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, id)| (*name, id.as_str())).collect();
            let mut response = gateway.client.get_with(&path, &headers);
            for _ in 0..take {
                let Some(chunk) = response.chunk().unwrap() else { break };
                let chunk = String::from_utf8(chunk.bytes).unwrap();
                last = frames(&chunk).into_iter().filter_map(frame_id).next_back().or(last);
                got.push_str(&chunk);
            }
        }
        ended(&gateway.client, &run_id);
        let events = stored(&gateway.client, &run_id);
        check_whole(&events);
        let full = offline_after(&events, protocol, None);
        assert_eq!(got, full, "{protocol}");
        // Cut at every frame: what is joined again is the whole.
        let all = frames(&full);
        for cut in 0..all.len() {
            let whole = all[..cut].iter().rposition(|frame| frame_id(frame).is_some()).map_or(0, |at| at + 1);
            let rest = match all[..whole].last().and_then(|frame| frame_id(frame)) {
                Some(last) => gateway.client.get_with(&path, &[("last-event-id", &last.to_string())]).text(),
                None => gateway.client.get(&path).text(),
            };
            assert_eq!(all[..whole].concat() + &rest, full, "{protocol} cut after {cut} frames");
        }
    }
}

#[test]
fn a_cancel_is_taken_before_the_first_event_in_mid_text_and_in_mid_tool() {
    let Some(settings) = settings("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings);
    for protocol in ESTABLISHED {
        for (place, message, until, status) in [
            ("before", "story", "", "none"),
            ("text", "story", "upon a", "none"),
            ("tool", "slow", "slow_lookup", "possible"),
        ] {
            let conversation = format!("{place}-{protocol}");
            let mut response = start(&gateway, &conversation, protocol, message);
            let run_id = response.run_id();
            let mut body = if until.is_empty() {
                String::new()
            } else if place == "text" {
                // Pieces of nine letters: the first few of them.
                let mut body = String::new();
                for _ in 0..6 {
                    body.push_str(std::str::from_utf8(&response.chunk().unwrap().unwrap().bytes).unwrap());
                }
                body
            } else {
                read_until(&mut response, until)
            };
            assert_eq!(cancel(&gateway, &conversation)["cancelled"], true, "{conversation}");
            body.push_str(&response.text());
            let events = stored(&gateway.client, &run_id);
            check_whole(&events);
            let terminal = terminal(&events);
            assert_eq!(
                (&terminal["type"], &terminal["data"]["reason"], &terminal["data"]["side_effect_status"]),
                (&json!("run.cancelled"), &json!("client_request"), &json!(status)),
                "{conversation}"
            );
            assert_eq!(body, offline(&events, protocol), "{conversation}");
            // The conversation goes on, and what was cancelled is not shown again.
            let next = start(&gateway, &conversation, protocol, "hello");
            let next_id = next.run_id();
            next.bytes();
            let events = stored(&gateway.client, &next_id);
            assert_eq!(self::terminal(&events)["type"], "run.finished", "{conversation}");
            assert!(
                !types(&events).iter().any(|name| name.starts_with("tool.")),
                "{conversation}: {events:?}"
            );
        }
    }
}

#[test]
fn a_worker_killed_in_mid_run_is_told_and_leaves_nothing_in_the_next_run() {
    let Some(settings) = settings("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings);
    for protocol in ESTABLISHED {
        let conversation = format!("c-{protocol}");
        let mut dying = start(&gateway, &conversation, protocol, "slow");
        let run_id = dying.run_id();
        let mut body = read_until(&mut dying, "slow_lookup");
        kill_worker(dir.path());
        body.push_str(&dying.text());
        let events = stored(&gateway.client, &run_id);
        check_whole(&events);
        let terminal = terminal(&events);
        assert_eq!(
            (&terminal["type"], &terminal["data"]["code"]),
            (&json!("run.error"), &json!("provider_stream_closed"))
        );
        assert_eq!(terminal["data"]["side_effect_status"], "possible");
        assert_eq!(body, offline(&events, protocol));

        let next = start(&gateway, &conversation, protocol, "weather");
        let next_id = next.run_id();
        let body = next.text();
        let events = stored(&gateway.client, &next_id);
        check_whole(&events);
        assert_eq!(
            self::terminal(&events)["data"]["thread_state"]["durable_revision"],
            1,
            "the death moved no head"
        );
        assert_eq!(body, offline(&events, protocol));
        // A fresh conversation that is asked the same says the same: nothing of the dead run is left.
        let fresh = start(&gateway, &format!("fresh-{protocol}"), protocol, "weather");
        let fresh_id = fresh.run_id();
        fresh.bytes();
        assert_eq!(said(&events), said(&stored(&gateway.client, &fresh_id)));
    }
}

/// Types, texts, tools and results: what does not differ between two runs that do the same.
fn said(events: &[String]) -> Vec<Value> {
    let mut said = Vec::new();
    for event in events {
        let event: Value = serde_json::from_str(event).unwrap();
        let data = &event["data"];
        said.push(json!([
            event["type"],
            data["delta"],
            data["tool_name"],
            data["arguments"],
            data["result"]
        ]));
    }
    said
}

#[test]
fn where_all_workers_are_busy_a_start_is_one_frame_and_no_run() {
    let Some(settings) = settings("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &format!("{settings}max_workers = 1\nmax_queue = 0\n"));
    let mut first = start(&gateway, "one", Protocol::Custom, "slow");
    read_until(&mut first, "slow_lookup");
    for (protocol, frame) in
        [(Protocol::Custom, "event: error\ndata: {\"error\": "), (Protocol::Agui, "event: RUN_ERROR\n")]
    {
        let second = say(&gateway.client, "live", "two", protocol, "hello");
        assert_eq!((second.status, second.header("x-causeway-run-id")), (200, None));
        let body = second.text();
        assert!(
            body.starts_with(frame) && body.contains("at capacity") && frames(&body).len() == 1,
            "{body}"
        );
        assert_eq!(say(&gateway.client, "live", "one", protocol, "hello").status, 409, "busy, not full");
    }
    let body = json!({"agent_id": "live", "conversation_id": "two", "message": "hello"}).to_string();
    let invoked = gateway.client.post("/api/v1/chat/invoke", &body);
    assert_eq!(invoked.status, 503);
    let keys: Vec<String> = runs::value(invoked).as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["success", "error", "agent_id", "conversation_id", "trace_id"]);
    assert_eq!(gateway.client.post("/api/v1/runs", &body).status, 503);
    let list = runs::value(gateway.client.get("/api/v1/runs"));
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "nothing was stored for the refused ones");
    cancel(&gateway, "one");
    first.bytes();
    // The idle worker of the first conversation makes room.
    assert!(start(&gateway, "two", Protocol::Custom, "hello").text().ends_with("event: done\ndata: {}\n\n"));
}
