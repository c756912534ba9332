//! Too much of everything: starts, nesting, and a worker's line without end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::site::{MIB, peak, resident, serves};

#[test]
fn a_flood_of_starts_is_taken_or_refused_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = "[quotas]\nopen_runs = 40\n";
    let slow = recorded_agents(&[("slow", "text_plain", "1h", "idle_timeout = \"2h\"\ndeadline = \"2h\"")]);
    let gateway = Gateway::start(dir.path(), &format!("{quotas}{slow}"));
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let start = |caller: usize| {
            let client = &gateway.client;
            scope.spawn(move || {
                let one = |at: usize| {
                    let conversation = format!("c{caller}-{at}");
                    let body = json!({"agent_id": "slow", "conversation_id": conversation, "message": "hi"});
                    client.post("/api/v1/runs", &body.to_string()).status
                };
                (0..50).map(one).collect::<Vec<u16>>()
            })
        };
        let callers: Vec<_> = (0..20).map(start).collect();
        serves(&gateway);
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let mut by_status: BTreeMap<u16, usize> = BTreeMap::new();
    for status in answers {
        *by_status.entry(status).or_default() += 1;
    }
    assert_eq!(by_status, BTreeMap::from([(202, 40), (429, 960)]));
    let active = gateway.client.get("/api/v1/runs?status=running&limit=200").text();
    let active: Value = serde_json::from_str(&active).unwrap();
    assert_eq!(active["runs"].as_array().unwrap().len(), 40);
    serves(&gateway);
}

#[test]
fn json_that_is_nothing_but_depth_is_refused_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let agents = recorded_agents(&[("tour", "text_plain", "fast", "")]);
    let gateway = Gateway::start(dir.path(), &agents);
    let before = resident(&gateway);
    let deep = "[".repeat(500_000);
    let objects = "{\"a\":".repeat(200_000);
    let closed = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for nest in [&deep, &objects, &closed] {
        for (route, body) in [
            ("/api/v1/runs", nest.clone()),
            (
                "/api/v1/chat/stream/start",
                format!(
                    r#"{{"agent_id":"tour","conversation_id":"c","message":"m","client_context":{nest}}}"#
                ),
            ),
            (
                "/api/v1/chat/stream/resume",
                format!(r#"{{"agent_id":"tour","conversation_id":"c","resume_data":{nest}}}"#),
            ),
            ("/agui/tour", format!(r#"{{"threadId":"t","runId":"r","messages":{nest}}}"#)),
            ("/ui-message/tour", format!(r#"{{"id":"t","messages":{nest}}}"#)),
            ("/api/v1/runs/none/resume", nest.clone()),
        ] {
            let status = gateway.client.post(route, &body).status;
            assert!([400, 404, 422].contains(&status), "{route}: {status}");
        }
        let headers = [("content-type", "application/x-ndjson")];
        let checked = gateway.client.send("POST", "/api/v1/check", &headers, Some(nest.as_bytes()));
        assert_eq!(checked.status, 200);
        let verdict: Value = serde_json::from_str(&checked.text()).unwrap();
        assert_eq!(verdict["valid"], false);
    }
    assert!(peak(&gateway) < before + 64 * MIB, "{} MiB", peak(&gateway) / MIB);
    serves(&gateway);
}

/// A worker that greets, and then writes a line without end as soon as it is asked for anything.
const ENDLESS: &str = r#"
import sys
sys.stdout.write('{"kind":"hello","protocol":1,"harness":"deepagents","versions":{},"capabilities":[]}\n')
sys.stdout.flush()
sys.stdin.readline()
piece = 'x' * (1 << 20)
for _ in range(1 << 10):
    sys.stdout.write(piece)
sys.stdout.flush()
"#;

#[test]
fn a_worker_that_writes_a_line_of_a_gibibyte_ends_its_run_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = recorded_agents(&[("tour", "text_plain", "fast", "")]);
    write!(
        settings,
        "[agents.endless]\nharness = \"deepagents\"\n[agents.endless.driver.process]\ncommand = [\"python3\", \"-c\", {}]\n",
        json!(ENDLESS),
    )
    .unwrap();
    let gateway = Gateway::start(dir.path(), &settings);
    let before = resident(&gateway);
    let body = json!({"agent_id": "endless", "conversation_id": "c", "message": "hi"}).to_string();
    let started = gateway.client.post("/api/v1/runs", &body);
    assert_eq!(started.status, 202);
    let run: Value = serde_json::from_str(&started.text()).unwrap();
    let path = format!("/api/v1/runs/{}", run["run_id"].as_str().unwrap());
    serves(&gateway);
    let ended = eventually("the run ends", || {
        let run: Value = serde_json::from_str(&gateway.client.get(&path).text()).unwrap();
        (run["status"] != "running").then_some(run)
    });
    assert_eq!(
        (&ended["status"], &ended["error"]["code"]),
        (&json!("error"), &json!("harness_output_too_large"))
    );
    assert!(peak(&gateway) < before + 64 * MIB, "{} MiB", peak(&gateway) / MIB);
    serves(&gateway);
}
