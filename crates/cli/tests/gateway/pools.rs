//! Agents whose workers are few, or do not start, over HTTP: what waits, what is refused, and what the page of metrics says.

use std::path::Path;

use causeway_encode::Protocol;

use crate::gateway::{Gateway, eventually};
use crate::http::Response;
use crate::metrics::scrape;
use crate::runs::{self, ended, say, stored, try_create, value};

fn code_of(refused: Response) -> (u16, String, u64) {
    let after = refused.header("retry-after").expect("when to come again").parse().unwrap();
    let status = refused.status;
    (status, value(refused)["error"]["code"].as_str().unwrap().to_owned(), after)
}

#[test]
fn a_run_waits_for_a_worker_or_is_refused_and_an_agent_whose_workers_do_not_start_troubles_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workers/stubborn.py");
    let go = dir.path().join("go");
    let gateway = Gateway::start(
        dir.path(),
        &format!(
            "[agents.few]\nharness = \"canonical\"\nthread = \"ephemeral\"\n[agents.few.driver.process]\n\
             command = [\"python3\", {worker:?}, {go:?}]\nmax_workers = 1\nmax_queue = 1\nqueue_timeout = \"5m\"\n\
             [agents.sick]\nharness = \"canonical\"\n[agents.sick.driver.process]\ncommand = [\"/nowhere/worker\"]\n\
             circuit_failures = 2\ncircuit_open = \"1h\"\n"
        ),
    );
    let client = gateway.client;
    let create = |agent: &str, conversation: &str| try_create(&client, agent, conversation, "hello").unwrap();
    let begun = |agent: &str, conversation: &str| runs::create(&client, agent, conversation);

    let first = begun("few", "a");
    let waits = begun("few", "b");
    for conversation in ["a", "b"].map(|name| format!("sick-{name}")) {
        let run_id = begun("sick", &conversation);
        ended(&client, &run_id);
        assert!(stored(&client, &run_id).last().unwrap().contains("\"harness_unavailable\""));
    }

    assert_eq!(code_of(create("few", "c")), (503, "at_capacity".to_owned(), 1));
    let (status, code, after) = code_of(create("sick", "c"));
    assert_eq!((status, code.as_str()), (503, "harness_unavailable"));
    assert!((60..=3_600).contains(&after), "{after}");
    for (protocol, frame) in [
        (Protocol::Custom, "event: error\ndata: {\"error\": \"The agent could not be started."),
        (Protocol::Agui, "event: RUN_ERROR\n"),
    ] {
        let refused = say(&client, "sick", "c", protocol, "hello");
        assert_eq!((refused.status, refused.header("x-causeway-run-id")), (200, None));
        let body = refused.text();
        assert!(body.starts_with(frame), "{body}");
    }
    let invoked = r#"{"agent_id": "sick", "conversation_id": "c", "message": "hello"}"#;
    assert_eq!(client.post("/api/v1/chat/invoke", invoked).status, 503);
    let body = r#"{"threadId":"c","runId":"r","messages":[{"id":"m","role":"user","content":"hello"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}"#;
    assert!(client.post("/agui/sick", body).text().contains("\"harness_unavailable\""));

    let page = eventually("the second run waits", || {
        let page = scrape(&client);
        (page.sum("causeway_worker_queue_turns", &[("agent", "few")]) > 0.0).then_some(page)
    });
    let refusals = |agent: &str, reason: &str| {
        page.sum("causeway_worker_refusals_total", &[("agent", agent), ("reason", reason)])
    };
    assert_eq!([refusals("few", "full"), refusals("sick", "unavailable")], [1.0, 5.0]);
    let circuit = |agent: &str| page.sum("causeway_worker_circuit", &[("agent", agent)]);
    assert_eq!([circuit("few"), circuit("sick")], [0.0, 2.0]);
    assert_eq!(value(client.get("/api/v1/runs"))["runs"].as_array().unwrap().len(), 4, "no other run");

    std::fs::write(&go, "").unwrap();
    for run_id in [&first, &waits] {
        ended(&client, run_id);
        assert!(stored(&client, run_id).iter().any(|event| event.contains("I am busy.")));
    }
}
