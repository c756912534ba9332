//! What clients see of a store that fails, hangs or loses answers: the truth, or a stream that breaks off, never a guess.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../tests/support/http.rs"]
mod http;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::Name;
use causeway_engine::Engine;
use causeway_engine::config::{AgentConfig, Driver, Pace, RecordingConfig, Settings};
use causeway_server::app::App;
use causeway_server::wire::Patience;
use causeway_server::{config, listen};
use causeway_store::error::Cause;
use causeway_store::faulty::{Fault, FaultyStore, On};
use causeway_store::{MemoryStore, Refusal};
use http::{Client, Response};
use serde_json::{Value, json};

/// A gateway in this process, on a store that fails on demand.
struct Serving {
    client: Client,
    store: FaultyStore,
    engine: Engine,
    runtime: tokio::runtime::Runtime,
    _data: tempfile::TempDir,
}

impl Serving {
    /// One agent, `tour`, which plays `recording`.
    fn start(recording: &str, pace: Pace) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let data = tempfile::tempdir().unwrap();
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../tests/data/recordings/deepagents/{recording}.jsonl"));
        let driver = Driver::Recording(RecordingConfig { file, pace });
        let agent = AgentConfig::new(Name::new("tour").unwrap(), "deepagents", driver);
        let settings = Settings {
            store_patience: Duration::from_millis(200),
            repair_interval: Duration::from_millis(100),
            ..Settings::new(data.path())
        };
        let shared = Arc::new(store.clone());
        let (engine, address) = runtime.block_on(async {
            let engine = Engine::open(settings, vec![agent], shared).await.unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let app = App::new(engine.clone(), config::Server::default());
            let (metrics, router) = (Arc::clone(&app.metrics), app.router());
            let long = Duration::from_secs(10);
            let limits = listen::Limits {
                patience: Patience { head: long, idle: long, write: long },
                max_head: 64 << 10,
                max_connections: 64,
                grace: Duration::from_secs(1),
            };
            tokio::spawn(listen::serve(listener, router, metrics, limits, std::future::pending()));
            (engine, address)
        });
        Self { client: Client::new(address), store, engine, runtime, _data: data }
    }

    fn chat(&self, route: &str, protocol: &str) -> Response {
        let body = json!({"agent_id": "tour", "conversation_id": "c", "message": "hi", "protocol": protocol});
        self.client.post(&format!("/api/v1/chat/{route}"), &body.to_string())
    }

    fn create(&self) -> Response {
        self.client.post("/api/v1/runs", r#"{"agent_id":"tour","conversation_id":"c","message":"hi"}"#)
    }

    /// The run once it has its terminal.
    fn ended(&self, run_id: &str) -> Value {
        for _ in 0..2400 {
            let run: Value =
                serde_json::from_str(&self.client.get(&format!("/api/v1/runs/{run_id}")).text()).unwrap();
            if run["status"] != "running" {
                return run;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("run {run_id} did not end")
    }
}

#[test]
fn a_start_that_cannot_be_stored_is_one_failure_frame_and_no_run() {
    let serving = Serving::start("text_plain", Pace::Fast);
    for fault in
        [Fault::Unavailable(Cause::DiskFull), Fault::Unavailable(Cause::LowDisk), Fault::UnknownBeforeApply]
    {
        serving.store.fail_always(On::Open, fault.clone());
        let custom = serving.chat("stream/start", "custom");
        assert_eq!(
            (custom.status, custom.header("content-type")),
            (200, Some("text/event-stream; charset=utf-8"))
        );
        assert_eq!(custom.header("x-causeway-run-id"), None);
        assert_eq!(
            custom.text(),
            "event: error\ndata: {\"error\": \"The agent could not be started. Please try again.\"}\n\n"
        );
        let agui = serving.chat("stream/start", "agui").text();
        let start = "event: RUN_ERROR\ndata: {\"type\": \"RUN_ERROR\", \"message\": \
                     \"The agent could not be started. Please try again.\", \"timestamp\": ";
        assert!(agui.starts_with(start) && agui.ends_with("}\n\n"), "{agui}");
        assert_eq!(agui.matches("event: ").count(), 1);
        let invoke = serving.chat("invoke", "custom");
        assert_eq!(invoke.status, 500);
        assert_eq!(
            invoke.text(),
            r#"{"success":false,"error":"The agent could not be started. Please try again.","agent_id":"tour","conversation_id":"c","trace_id":null}"#
        );
        let created = serving.create();
        assert_eq!(created.status, 503, "{fault:?}");
        let answer: Value = serde_json::from_str(&created.text()).unwrap();
        assert!(answer["error"]["message"].is_string(), "{answer}");
        serving.store.heal();
        assert_eq!(serving.client.get("/api/v1/runs").text(), r#"{"runs":[],"next":null}"#, "{fault:?}");
    }
    assert!(serving.chat("stream/start", "custom").text().ends_with("event: done\ndata: {}\n\n"));
}

#[test]
fn nothing_is_shown_before_it_is_durable() {
    let serving = Serving::start("text_plain", Pace::Fast);
    serving.store.hold(On::Append);
    serving.store.hold(On::CommitFinal);
    let mut stream = serving.chat("stream/start", "agui");
    let run_id = stream.run_id();
    let first = String::from_utf8(stream.chunk().unwrap().unwrap().bytes).unwrap();
    assert!(first.starts_with("event: RUN_STARTED\n"), "{first}");
    let reader = std::thread::spawn(move || stream.text());
    std::thread::sleep(Duration::from_millis(300));
    assert!(!reader.is_finished());
    let page = serving.client.get(&format!("/api/v1/runs/{run_id}/events")).text();
    assert!(page.contains("\"run.started\"") && !page.contains("\"text."), "{page}");
    serving.store.release();
    assert!(reader.join().unwrap().contains("\"outcome\": \"success\""));
}

#[test]
fn a_refused_final_commit_is_told_as_uncertain_and_never_as_finished() {
    let serving = Serving::start("text_plain", Pace::Fast);
    for protocol in ["custom", "agui"] {
        serving.store.fail_next(On::CommitFinal, Fault::Refused(Refusal::NoInterrupt));
        let stream = serving.chat("stream/start", protocol);
        let run_id = stream.run_id();
        let body = stream.text();
        assert!(!body.contains("event: done") && !body.contains("success"), "{body}");
        assert!(body.contains(if protocol == "custom" {
            "event: error\n"
        } else {
            "thread_durability_uncertain"
        }));
        let run = serving.ended(&run_id);
        assert_eq!(
            (&run["status"], &run["error"]["code"]),
            (&json!("uncertain"), &json!("thread_durability_uncertain"))
        );
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_told_as_what_it_became() {
    for (fault, status) in [(Fault::UnknownAfterApply, "finished"), (Fault::UnknownBeforeApply, "uncertain")]
    {
        let serving = Serving::start("text_plain", Pace::Fast);
        serving.store.fail_next(On::CommitFinal, fault);
        let stream = serving.chat("stream/start", "custom");
        let run_id = stream.run_id();
        let body = stream.text();
        assert_eq!(serving.ended(&run_id)["status"], status);
        assert_eq!(body.ends_with("event: done\ndata: {}\n\n"), status == "finished", "{body}");
        let replay = serving.client.get(&format!("/api/v1/runs/{run_id}/stream?protocol=custom")).text();
        let without_ids: String =
            replay.lines().filter(|line| !line.starts_with("id: ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(without_ids, body);
    }
}

#[test]
fn a_stream_whose_end_is_not_known_breaks_off_and_the_truth_is_read_later() {
    let serving = Serving::start("text_plain", Pace::Fast);
    serving.store.fail_next(On::CommitFinal, Fault::UnknownAfterApply);
    for on in [On::Outcome, On::Fence, On::Close] {
        serving.store.fail_always(on, Fault::Unavailable(Cause::Io));
    }
    let mut stream = serving.chat("stream/start", "agui");
    let run_id = stream.run_id();
    let mut body = String::new();
    let broken = loop {
        match stream.chunk() {
            Ok(Some(chunk)) => body.push_str(std::str::from_utf8(&chunk.bytes).unwrap()),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(broken, "the body ended as if it were whole: {body}");
    assert!(!body.contains("RUN_FINISHED") && !body.contains("RUN_ERROR"), "a guess: {body}");
    serving.store.heal();
    assert_eq!(serving.ended(&run_id)["status"], "finished", "it had been committed");
    let replay = serving.client.get(&format!("/api/v1/runs/{run_id}/stream?protocol=agui")).text();
    assert!(replay.contains("\"outcome\": \"success\""), "{replay}");
}

#[test]
fn a_replay_waits_for_a_store_that_cannot_be_read_for_a_while() {
    let serving = Serving::start("tools_parallel", Pace::Fast);
    let created: Value = serde_json::from_str(&serving.create().text()).unwrap();
    let run_id = created["run_id"].as_str().unwrap().to_owned();
    serving.ended(&run_id);
    let path = format!("/api/v1/runs/{run_id}/stream?protocol=agui");
    let whole = serving.client.get(&path).text();
    for _ in 0..3 {
        serving.store.fail_next(On::Read, Fault::Unavailable(Cause::Locked));
    }
    assert_eq!(serving.client.get(&path).text(), whole);
    serving.store.fail_next(On::Read, Fault::Unavailable(Cause::Locked));
    let events = serving.client.get(&format!("/api/v1/runs/{run_id}/events"));
    assert_eq!(events.status, 503, "a page is asked for again by its reader");
}

#[test]
fn a_gateway_that_shuts_down_says_so_and_takes_nothing_new() {
    let serving = Serving::start("text_plain", Pace::Fast);
    assert_eq!(serving.client.get("/readyz").status, 200);
    serving.runtime.block_on(serving.engine.shutdown(Duration::from_secs(1)));
    let ready = serving.client.get("/readyz");
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.text(),
        r#"{"ready":false,"failed":[{"part":"gateway","code":"shutting_down","message":"the gateway is shutting down"}]}"#
    );
    assert_eq!(serving.client.get("/healthz").status, 200);
    assert_eq!(
        serving.chat("stream/start", "custom").text(),
        "event: error\ndata: {\"error\": \"The service is at capacity. Please try again in a moment.\"}\n\n"
    );
    assert_eq!(serving.chat("invoke", "custom").status, 503);
    assert_eq!(serving.create().status, 503);
}

#[test]
fn an_answer_that_cannot_be_stored_is_one_failure_frame_and_the_interrupt_waits_on() {
    let serving = Serving::start("approve", Pace::Fast);
    let created: Value = serde_json::from_str(&serving.create().text()).unwrap();
    let run = serving.ended(created["run_id"].as_str().unwrap());
    let data = json!({"type": "tool_approval", "decision": "approve"}).to_string();
    let established = json!({"agent_id": "tour", "conversation_id": "c", "resume_data": data}).to_string();
    let by_run = json!({
        "interrupt_id": run["interrupt"]["interrupt_id"], "revision": run["interrupt"]["revision"],
        "idempotency_key": "k", "decisions": [{"tool_call_id": "call_h1", "decision": "approve"}],
    });
    let path = format!("/api/v1/runs/{}/resume", run["run_id"].as_str().unwrap());
    for (fault, code) in [
        (Fault::Unavailable(Cause::DiskFull), "store_unavailable"),
        (Fault::UnknownBeforeApply, "outcome_unknown"),
    ] {
        serving.store.fail_always(On::Consume, fault.clone());
        let stream = serving.client.post("/api/v1/chat/stream/resume", &established);
        assert_eq!((stream.status, stream.header("x-causeway-run-id")), (200, None));
        assert_eq!(
            stream.text(),
            "event: error\ndata: {\"error\": \"The agent could not be started. Please try again.\"}\n\n"
        );
        let refused = serving.client.post(&path, &by_run.to_string());
        assert_eq!(refused.status, 503, "{fault:?}");
        let answer: Value = serde_json::from_str(&refused.text()).unwrap();
        assert_eq!(answer["error"]["code"], code);
        serving.store.heal();
        let state = serving.client.get("/api/v1/conversations/c/interrupt-state").text();
        assert!(state.starts_with("{\"pending\":true,"), "{state}");
    }
    // The answer is stored, and its acknowledgement lost: the gateway finds out and goes on.
    serving.store.fail_next(On::Consume, Fault::UnknownAfterApply);
    assert_eq!(serving.client.post(&path, &by_run.to_string()).status, 202);
    let found = serving.client.post(&path, &by_run.to_string());
    assert_eq!(found.status, 202);
    let found: Value = serde_json::from_str(&found.text()).unwrap();
    let resumed = serving.ended(found["run_id"].as_str().unwrap());
    assert_eq!(resumed["status"], "finished", "{resumed}");
    assert_eq!(serving.client.get("/api/v1/interrupts").text(), r#"{"interrupts":[]}"#);
}
