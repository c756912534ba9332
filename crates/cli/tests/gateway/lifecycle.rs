//! Runs as resources: idempotent starts, listing, long polls, cancelling, invoking, shutting down.

use std::time::{Duration, Instant};

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::http::Client;
use crate::runs::{self, ESTABLISHED, check_whole, create, ended, offline, show, stored, types, value};

fn terminal(events: &[String]) -> Value {
    serde_json::from_str(events.last().unwrap()).unwrap()
}

#[test]
fn the_same_key_and_body_start_one_run_and_another_body_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "text_plain", "20ms", "")]));
    let body = |message: &str, key: &str| {
        json!({"agent_id": "tour", "conversation_id": "c", "message": message, "idempotency_key": key})
            .to_string()
    };
    let send = |body: String| {
        let client: Client = gateway.client;
        std::thread::spawn(move || client.post("/api/v1/runs", &body))
    };
    let at_once: Vec<_> = (0..8).map(|_| send(body("hello", "k1"))).collect();
    let ids: Vec<String> = at_once
        .into_iter()
        .map(|sent| {
            let response = sent.join().unwrap();
            assert_eq!(response.status, 202);
            runs::text(&value(response), "run_id")
        })
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    ended(&gateway.client, &ids[0]);
    let again = value(gateway.client.post("/api/v1/runs", &body("hello", "k1")));
    assert_eq!((runs::text(&again, "run_id"), again["status"].as_str()), (ids[0].clone(), Some("finished")));
    let other = gateway.client.post("/api/v1/runs", &body("other", "k1"));
    assert_eq!(other.status, 422);
    assert_eq!(value(other)["error"]["code"], "idempotency_key_reused");
    // The key may come as a header too, but not as two different keys.
    let with_header = |body: String, key: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        gateway.client.send("POST", "/api/v1/runs", &headers, Some(body.as_bytes()))
    };
    let plain = json!({"agent_id": "tour", "conversation_id": "c", "message": "hello"}).to_string();
    for body in [plain.clone(), body("hello", "k1")] {
        let again = with_header(body, "k1");
        assert_eq!((again.status, runs::text(&value(again), "run_id")), (202, ids[0].clone()));
    }
    for (body, key) in [(body("hello", "k1"), "k2"), (plain, " ")] {
        let refused = with_header(body, key);
        assert_eq!(refused.status, 422);
        assert_eq!(value(refused)["error"]["code"], "invalid_request");
    }
    let list = value(gateway.client.get("/api/v1/runs"));
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);

    let data = dir.path().to_owned();
    gateway.kill();
    let gateway = Gateway::start(&data, &recorded_agents(&[("tour", "text_plain", "fast", "")]));
    let after_restart = value(gateway.client.post("/api/v1/runs", &body("hello", "k1")));
    assert_eq!(runs::text(&after_restart, "run_id"), ids[0], "a key outlives the gateway");
}

#[test]
fn a_run_is_listed_and_shown_with_what_became_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[
        ("text", "text_plain", "fast", ""),
        ("ask", "approve", "fast", ""),
        ("fail", "model_error_mid_text", "fast", ""),
    ]);
    let gateway = Gateway::start(dir.path(), &settings);
    let mut ids = Vec::new();
    for (agent, status) in [("text", "finished"), ("ask", "interrupted"), ("fail", "error")] {
        let run_id = create(&gateway.client, agent, &format!("c-{agent}"));
        let run = ended(&gateway.client, &run_id);
        assert_eq!(run["status"], status, "{run}");
        assert_eq!(run["agent_id"], agent);
        assert_eq!(run["harness_id"], "deepagents");
        assert_eq!(run["request"], json!({"message": "hello"}));
        assert!(run["created_at"].as_str() <= run["ended_at"].as_str());
        let events = stored(&gateway.client, &run_id);
        assert_eq!(run["last_sequence"].as_u64(), Some(events.len() as u64 - 1));
        ids.push(run_id);
    }
    let ask = show(&gateway.client, &ids[1]);
    assert_eq!(ask["interrupt"]["interrupt_type"], "tool_approval", "{ask}");
    assert_eq!(ask["interrupt"]["status"], "pending");
    let fail = show(&gateway.client, &ids[2]);
    assert_eq!(fail["error"]["code"], "agent_execution_failed", "{fail}");

    let listed = |query: &str| -> Vec<String> {
        let list = value(gateway.client.get(&format!("/api/v1/runs{query}")));
        list["runs"].as_array().unwrap().iter().map(|run| runs::text(run, "run_id")).collect()
    };
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(listed(""), newest_first);
    assert_eq!(listed("?status=error"), [ids[2].clone()]);
    assert_eq!(listed("?agent_id=text"), [ids[0].clone()]);
    assert_eq!(listed("?conversation_id=c-ask"), [ids[1].clone()]);
    assert_eq!(listed("?until=2020-01-01T00:00:00Z"), Vec::<String>::new());
    assert_eq!(listed("?since=2020-01-01T00:00:00%2B01:00"), newest_first);
    let mut paged = Vec::new();
    let mut query = "?limit=1".to_owned();
    loop {
        let page = value(gateway.client.get(&format!("/api/v1/runs{query}")));
        paged.extend(page["runs"].as_array().unwrap().iter().map(|run| runs::text(run, "run_id")));
        match page["next"].as_str() {
            Some(next) => query = format!("?limit=1&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, newest_first);

    // A pending interrupt stands in the way of a start, until its run is cancelled.
    let start = |protocol| runs::start(&gateway.client, "ask", "c-ask", protocol);
    let refused = start(Protocol::Agui);
    assert_eq!(refused.status, 409);
    assert_eq!(value(refused)["detail"]["code"], "interrupt_pending");
    let cancel = format!("/api/v1/runs/{}/cancel", ids[1]);
    let first = gateway.client.post(&cancel, "{}").text();
    assert_eq!(first, r#"{"cancelled":false,"interrupt_voided":true}"#);
    assert_eq!(gateway.client.post(&cancel, "").text(), r#"{"cancelled":false}"#, "idempotent");
    assert_eq!(show(&gateway.client, &ids[1])["interrupt"]["status"], "voided");
    assert_eq!(show(&gateway.client, &ids[1])["status"], "interrupted", "its terminal does not change");
    assert_eq!(start(Protocol::Agui).status, 200);
}

#[test]
fn a_long_poll_answers_when_something_comes_and_says_when_nothing_more_will() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("slow", "text_plain", "150ms", "")]));
    let run_id = create(&gateway.client, "slow", "c");
    let path = format!("/api/v1/runs/{run_id}/events");
    let mut after: Option<u64> = None;
    let mut events = 0;
    loop {
        let cursor = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let page = value(gateway.client.get(&format!("{path}?wait=20{cursor}")));
        let numbers: Vec<u64> = page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["sequence"].as_u64().unwrap())
            .collect();
        assert!(!numbers.is_empty(), "a poll came back empty before its time: {page}");
        let expected: Vec<u64> = (after.map_or(0, |after| after + 1)..).take(numbers.len()).collect();
        assert_eq!(numbers, expected);
        events += numbers.len();
        after = page["next_after"].as_u64();
        assert_eq!(after, numbers.last().copied());
        if page["done"].as_bool().unwrap() {
            break;
        }
    }
    assert_eq!(events, stored(&gateway.client, &run_id).len());
    let began = Instant::now();
    let end = gateway.client.get(&format!("{path}?wait=30&after={}", after.unwrap())).text();
    assert_eq!(end, format!(r#"{{"events":[],"next_after":{},"done":true}}"#, after.unwrap()));
    assert!(began.elapsed() < Duration::from_secs(29), "nothing can come: no wait");
}

#[test]
fn a_cancel_ends_the_run_wherever_it_is_and_the_stream_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "subagents_parallel", "30ms", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    // Frames to read before the cancel: none, in the text, between start and end of a tool.
    for (round, frames) in [0usize, 1, 3, 6].into_iter().enumerate() {
        for protocol in ESTABLISHED {
            let conversation = format!("c{round}-{protocol}");
            let mut response = runs::start(&gateway.client, "slow", &conversation, protocol);
            let run_id = response.run_id();
            let mut body = Vec::new();
            for _ in 0..frames {
                let Some(chunk) = response.chunk().unwrap() else { break };
                body.extend(chunk.bytes);
            }
            let cancel = json!({"agent_id": "slow", "conversation_id": conversation}).to_string();
            let answer = gateway.client.post("/api/v1/chat/stream/cancel", &cancel);
            assert_eq!(answer.status, 200);
            let expected = format!(
                r#"{{"success":true,"cancelled":true,"agent_id":"slow","conversation_id":"{conversation}"}}"#
            );
            assert_eq!(answer.text(), expected);
            body.extend(response.bytes());
            let events = stored(&gateway.client, &run_id);
            check_whole(&events);
            let terminal = terminal(&events);
            assert_eq!(
                (&terminal["type"], &terminal["data"]["reason"]),
                (&json!("run.cancelled"), &json!("client_request"))
            );
            assert_eq!(String::from_utf8(body).unwrap(), offline(&events, protocol));
            let started = types(&events).iter().filter(|name| *name == "tool.started").count();
            let over = types(&events)
                .iter()
                .filter(|name| *name == "tool.finished" || *name == "tool.error")
                .count();
            let status = match (started, started == over) {
                (0, _) => "none",
                (_, true) => "known",
                (_, false) => "possible",
            };
            assert_eq!(terminal["data"]["side_effect_status"], status);
            let again = gateway.client.post("/api/v1/chat/stream/cancel", &cancel).text();
            assert_eq!(again, expected.replace("\"cancelled\":true", "\"cancelled\":false"));
            assert_eq!(
                gateway.client.post(&format!("/api/v1/runs/{run_id}/cancel"), "{}").text(),
                r#"{"cancelled":true}"#
            );
            assert_eq!(stored(&gateway.client, &run_id), events, "nothing was added");
        }
    }
}

#[test]
fn invoke_answers_with_what_the_run_said() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[
        ("tools", "tools_parallel", "fast", ""),
        ("ask", "approve", "fast", ""),
        ("form", "form_submit", "fast", ""),
        ("fail", "model_error_mid_text", "fast", ""),
    ]);
    let gateway = Gateway::start(dir.path(), &settings);
    let invoke = |agent: &str, trace: Option<&str>| {
        let mut body = json!({"agent_id": agent, "conversation_id": agent, "message": "hello"});
        if let Some(trace) = trace {
            body["trace_id"] = json!(trace);
        }
        gateway.client.post("/api/v1/chat/invoke", &body.to_string())
    };
    let answer = invoke("tools", Some("t-1"));
    assert_eq!(answer.status, 200);
    let run_id = answer.run_id();
    let text = answer.text();
    let mut accumulated = causeway_encode::Accumulated::new();
    for line in stored(&gateway.client, &run_id) {
        accumulated.observe(
            &causeway_contract::decode::decode_line(line.as_bytes(), &causeway_contract::Limits::DEFAULT)
                .unwrap(),
        );
    }
    let content = serde_json::to_string(accumulated.content()).unwrap();
    let thinking = serde_json::to_string(&accumulated.thinking()).unwrap();
    assert_ne!(content, "\"\"");
    assert_eq!(
        text,
        format!(
            r#"{{"success":true,"content":{content},"thinking":{thinking},"agent_id":"tools","conversation_id":"tools","trace_id":"t-1"}}"#
        )
    );
    for (agent, kind) in [("ask", "tool_approval"), ("form", "form_input")] {
        let answer = invoke(agent, None);
        assert_eq!(answer.status, 400);
        let answer = value(answer);
        assert_eq!((&answer["success"], &answer["interrupt_type"]), (&json!(false), &json!(kind)));
        let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["success", "error", "interrupt_type", "agent_id", "conversation_id", "trace_id"]);
    }
    let failed = invoke("fail", None);
    assert_eq!(failed.status, 500);
    let failed = value(failed);
    assert_eq!((&failed["success"], &failed["trace_id"]), (&json!(false), &json!(null)));
    let keys: Vec<&str> = failed.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["success", "error", "agent_id", "conversation_id", "trace_id"]);
}

#[test]
fn a_shutdown_gives_every_run_its_terminal_and_every_stream_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "text_unicode", "1s", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    let streams: Vec<_> =
        (0..4).map(|n| runs::start(&gateway.client, "slow", &format!("c{n}"), ESTABLISHED[n % 2])).collect();
    let ids: Vec<String> = streams.iter().map(crate::http::Response::run_id).collect();
    let readers: Vec<_> =
        streams.into_iter().map(|stream| std::thread::spawn(move || stream.text())).collect();
    std::thread::sleep(Duration::from_millis(500));
    let status = gateway.stop();
    assert!(status.success(), "{status}");
    let bodies: Vec<String> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    let gateway = Gateway::start(dir.path(), &settings);
    for (n, (run_id, body)) in ids.iter().zip(&bodies).enumerate() {
        let events = stored(&gateway.client, run_id);
        check_whole(&events);
        assert_eq!(terminal(&events)["data"]["reason"], "shutdown");
        assert_eq!(*body, offline(&events, ESTABLISHED[n % 2]), "what was seen is what is stored");
    }
}

#[test]
fn the_catalogues_and_the_probes_answer() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[
        ("a", "text_plain", "fast", "name = \"Ägent\""),
        ("b", "text_plain", "fast", "thread = \"ephemeral\""),
    ]);
    let gateway = Gateway::start(dir.path(), &settings);
    let agents = value(gateway.client.get("/api/v1/agents"));
    let agents: Vec<_> = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| (runs::text(agent, "agent_id"), runs::text(agent, "name"), runs::text(agent, "thread")))
        .collect();
    let expected = [("a", "Ägent", "durable"), ("b", "b", "ephemeral")]
        .map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(agents, expected);
    let harnesses = value(gateway.client.get("/api/v1/harnesses"));
    let deepagents = &harnesses["harnesses"][0];
    assert_eq!(deepagents["harness_id"], "deepagents");
    for (name, level) in deepagents["capabilities"].as_object().unwrap() {
        let levels = ["native", "emulated", "unsupported", "unavailable"];
        assert!(levels.contains(&level.as_str().unwrap()), "{name}: {level}");
    }
    assert_eq!(gateway.client.get("/healthz").text(), r#"{"status":"ok"}"#);
    assert_eq!(
        gateway.client.get_with("/healthz", &[("host", "10.1.2.3:80")]).status,
        200,
        "a prober's host"
    );
    eventually("readiness", || {
        (gateway.client.get("/readyz").text() == r#"{"ready":true,"failed":[]}"#).then_some(())
    });
}

#[test]
fn the_log_names_requests_and_runs_and_never_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("tour", "tool_one", "fast", "")]);
    let gateway = Gateway::try_start(dir.path(), &settings, &["--log-level", "trace"])
        .unwrap_or_else(|_| panic!("no start"));
    let body = json!({
        "agent_id": "tour", "conversation_id": "c", "message": "CANARY-message", "trace_id": "t",
        "client_context": {"key": "CANARY-context"},
    });
    let response = gateway.client.post("/api/v1/chat/stream/start", &body.to_string());
    let run_id = response.run_id();
    let request_id = response.header("x-request-id").unwrap().to_owned();
    response.bytes();
    let mut said = vec!["CANARY".to_owned()];
    for event in stored(&gateway.client, &run_id) {
        let event: Value = serde_json::from_str(&event).unwrap();
        for key in ["delta", "result", "arguments"] {
            let text = match &event["data"][key] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            said.extend((text.len() > 5).then_some(text));
        }
    }
    assert!(said.len() > 3, "{said:?}");
    gateway.client.get("/api/v1/runs?agent_id=CANARY-query");
    gateway.client.get("/CANARY-path");
    let log = gateway.log();
    for text in said {
        assert!(!log.contains(&text), "the log holds {text:?}");
    }
    // What was begun for it names it too.
    let mut lines = log.lines().filter(|line| line.contains(&request_id));
    let line = lines.find(|line| line.contains("\"route\"")).expect("a line for the request");
    let line: Value = serde_json::from_str(line).expect("a JSON line");
    assert_eq!(
        (&line["route"], &line["status"], &line["run_id"], &line["method"]),
        (&json!("/api/v1/chat/stream/start"), &json!(200), &json!(run_id), &json!("POST"))
    );
    assert!(line["duration_ms"].is_u64());
}
