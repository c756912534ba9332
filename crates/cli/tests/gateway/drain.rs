//! A gateway that is asked to stop while streams are open.

use std::path::Path;
use std::process::Command;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually};
use crate::runs::{check_whole, offline, start, stored, try_create, value};

#[test]
fn a_gateway_that_drains_refuses_new_runs_is_not_ready_and_ends_its_streams_truthfully() {
    let dir = tempfile::tempdir().unwrap();
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workers/stubborn.py");
    let go = dir.path().join("go");
    let settings = format!(
        "[server]\nshutdown_grace = \"5m\"\n[agents.slow]\nharness = \"canonical\"\nthread = \"ephemeral\"\n\
         [agents.slow.driver.process]\ncommand = [\"python3\", {worker:?}, {go:?}]\ncancel_grace = \"4m\"\n"
    );
    let gateway = Gateway::start(dir.path(), &settings);
    let client = gateway.client;
    let mut stream = start(&client, "slow", "c", Protocol::Custom);
    assert_eq!(stream.status, 200);
    let run_id = stream.run_id();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("I am busy.") {
        seen.extend(stream.chunk().unwrap().expect("the stream goes on").bytes);
    }
    let pid = gateway.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    // The worker holds the turn until it is let: all of this is while the gateway drains.
    let ready = eventually("the gateway is not ready", || {
        let ready = client.get("/readyz");
        (ready.status == 503).then(|| value(ready))
    });
    assert_eq!(ready["failed"][0]["code"], "shutting_down", "{ready}");
    assert_eq!(client.get("/healthz").status, 200, "alive to the end");
    let refused = try_create(&client, "slow", "d", "hello").unwrap();
    assert_eq!(refused.status, 503);
    let after = refused.header("retry-after").map(str::to_owned);
    assert!(after.is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0));
    assert_eq!(value(refused)["error"]["code"], "shutting_down");
    // What was stored can still be read.
    let run: Value = value(client.get(&format!("/api/v1/runs/{run_id}")));
    assert_eq!(run["status"], "running");
    std::fs::write(&go, "").unwrap();
    let rest = stream.bytes();
    seen.extend(rest);
    let status = gateway.stop_again();
    assert!(status.success(), "{status}");

    let gateway = Gateway::start(dir.path(), &settings);
    let events = stored(&gateway.client, &run_id);
    check_whole(&events);
    let terminal: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(
        (&terminal["type"], &terminal["data"]["reason"]),
        (&json!("run.cancelled"), &json!("shutdown"))
    );
    assert_eq!(String::from_utf8(seen).unwrap(), offline(&events, Protocol::Custom));
    let mut runs = value(gateway.client.get("/api/v1/runs"));
    assert_eq!(runs["runs"].as_array_mut().unwrap().len(), 1, "the refused start left nothing");
}
