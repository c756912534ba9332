//! The page of metrics: a legal exposition, exact counts, and no label that a client or a harness can choose.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use causeway_encode::Protocol;
use causeway_server::metrics::catalogue;
use serde_json::json;

use crate::exposition::Page;
use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::http::Client;
use crate::runs::{create, ended, say, stored, types};

pub fn scrape(client: &Client) -> Page {
    let accept = [("accept", "application/openmetrics-text; version=1.0.0")];
    let response = client.get_with("/metrics", &accept);
    assert_eq!(response.status, 200);
    assert_eq!(
        response.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    Page::read(&response.text())
}

/// A native stream of the harness `canonical` whose tool call says a secret in its arguments.
fn canonical(dir: &std::path::Path, name: &str, events: &[serde_json::Value]) -> String {
    let file = dir.join(format!("{name}.jsonl"));
    let mut text = format!("{}\n", json!({"kind": "begin", "run_id": "r", "op": "run"}));
    for event in events {
        writeln!(text, "{}", json!({"kind": "chunk", "run_id": "r", "event": event})).unwrap();
    }
    std::fs::write(&file, text).unwrap();
    format!(
        "[agents.{name}]\nharness = \"canonical\"\nredact_content = true\nterminal_escapes = \"strip\"\n\
         [agents.{name}.driver.recording]\nfile = {:?}\n",
        file.to_str().unwrap()
    )
}

fn failing(code: &str) -> serde_json::Value {
    json!({"type": "run.error", "data": {"code": code, "message": "m", "retryable": false, "side_effect_status": "none"}})
}

#[test]
fn the_counts_are_those_of_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let tool = [
        json!({"type": "tool.started", "data": {"tool_call_id": "t", "tool_name": "send", "arguments": {"token": "token=abcdefgh"}}}),
        json!({"type": "tool.finished", "data": {"tool_call_id": "t", "result": "a\u{1b}[31mb"}}),
        failing("run_of_its_own"),
    ];
    let broken = [json!({"type": "text.delta", "data": {"message_id": "m", "delta": "x"}})];
    let settings = recorded_agents(&[
        ("plain", "text_plain", "fast", ""),
        ("tools", "tools_parallel", "fast", ""),
        ("asks", "approve", "fast", ""),
    ]) + &canonical(dir.path(), "own", &tool)
        + &canonical(dir.path(), "broken", &broken);
    let gateway = Gateway::start(dir.path(), &settings);
    let client = &gateway.client;
    let before = scrape(client);
    assert_eq!(before.sum("causeway_runs_started_total", &[]), 0.0);
    assert_eq!(before.sum("causeway_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    let mut events = 0;
    let mut calls = 0;
    for agent in ["plain", "plain", "tools", "asks", "own", "broken"] {
        let run_id = create(client, agent, &format!("c{events}"));
        ended(client, &run_id);
        let stored = stored(client, &run_id);
        events += stored.len();
        calls +=
            types(&stored).iter().filter(|name| *name == "tool.finished" || *name == "tool.error").count();
    }
    assert!(calls > 2, "{calls}");
    assert_eq!(client.get("/api/v1/runs/no-such-run").status, 404);
    assert_eq!(client.post("/api/v1/runs", "{").status, 422);
    let page = eventually("the last run over", || {
        let page = scrape(client);
        (page.sum("causeway_runs_ended_total", &[]) == 6.0 && page.sum("causeway_runs_active", &[]) == 0.0)
            .then_some(page)
    });
    let is = |name: &str, labels: &[(&str, &str)], expected: usize| {
        assert_eq!(page.sum(name, labels), expected as f64, "{name} {labels:?}");
    };
    is("causeway_runs_started_total", &[], 6);
    is("causeway_runs_started_total", &[("agent", "plain"), ("harness", "deepagents")], 2);
    for (agent, outcome, code, runs) in [
        ("plain", "finished", "none", 2),
        ("tools", "finished", "none", 1),
        ("asks", "interrupted", "none", 1),
        ("own", "error", "agent_execution_failed", 1),
        ("broken", "error", "harness_event_invalid", 1),
    ] {
        let labels = [("agent", agent), ("outcome", outcome), ("code", code)];
        is("causeway_runs_ended_total", &labels, runs);
        is("causeway_run_duration_seconds_count", &[("agent", agent), ("outcome", outcome)], runs);
        is("causeway_run_first_event_seconds_count", &[("agent", agent)], runs);
    }
    is("causeway_events_total", &[], events);
    is("causeway_tool_duration_seconds_count", &[], calls);
    is("causeway_events_rejected_total", &[("rule", "R05")], 1);
    is("causeway_redactions_total", &[], 1);
    is("causeway_characters_stripped_total", &[], 5);
    is("causeway_store_write_seconds_count", &[("operation", "open")], 6);
    is("causeway_store_write_seconds_count", &[("operation", "commit")], 5);
    is("causeway_store_write_seconds_count", &[("operation", "interrupt")], 1);
    is("causeway_store_append_retries_total", &[], 0);
    let batches = page.sum("causeway_store_appends_total", &[]);
    assert_eq!(page.sum("causeway_store_batch_events_count", &[]), batches);
    assert_eq!(page.sum("causeway_store_write_seconds_count", &[("operation", "append")]), batches);
    is("causeway_http_refusals_total", &[("code", "run_not_found")], 1);
    is("causeway_http_refusals_total", &[("code", "invalid_request")], 1);
    is(
        "causeway_http_requests_total",
        &[("method", "POST"), ("route", "/api/v1/runs"), ("status", "202")],
        6,
    );
    is("causeway_subscribers", &[], 0);
    is("causeway_store_up", &[], 1);
    assert!(page.sum("causeway_store_used_bytes", &[]) > 0.0);
    assert!(gateway.stop().success());
}

#[test]
fn readers_and_replays_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("slow", "text_plain", "300ms", "")]));
    let client = &gateway.client;
    let mut stream = say(client, "slow", "c", Protocol::Custom, "hello");
    let run_id = stream.run_id();
    stream.at_least(1);
    assert_eq!(scrape(client).sum("causeway_subscribers", &[]), 1.0);
    let replay = client.get(&format!("/api/v1/runs/{run_id}/stream"));
    assert_eq!(replay.status, 200);
    stream.bytes();
    replay.bytes();
    let page = eventually("no readers", || {
        let page = scrape(client);
        (page.sum("causeway_subscribers", &[]) == 0.0).then_some(page)
    });
    assert_eq!(page.sum("causeway_replays_total", &[]), 1.0);
    assert!(page.sum("causeway_subscriber_lag_events_count", &[]) >= 2.0);
}

#[test]
fn no_label_can_be_chosen_by_a_client_or_a_harness_and_the_page_stays_as_long_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = recorded_agents(&[("plain", "text_plain", "fast", "")]);
    for number in 0..20 {
        settings += &canonical(dir.path(), &format!("own{number}"), &[failing(&format!("hostile_{number}"))]);
    }
    let gateway = Gateway::start(dir.path(), &settings);
    let client = &gateway.client;
    let round = |number: usize| {
        let h = format!("hostile{number}");
        for path in [
            format!("/{h}"),
            format!("/api/v1/runs/{h}"),
            format!("/api/v1/runs/{h}/stream?protocol={h}"),
            format!("/api/v1/runs/{h}/results/{h}"),
            format!("/api/v1/conversations/{h}/interrupt-state"),
            format!("/metrics?{h}"),
        ] {
            client.get_with(&path, &[("x-hostile", &h), ("traceparent", &h), ("accept", &h)]).bytes();
        }
        client.send(&format!("HOSTILE{number}"), "/metrics", &[], None).bytes();
        client.get_with("/api/v1/agents", &[("host", &format!("{h}.example"))]).bytes();
        client
            .post("/api/v1/runs", &json!({"agent_id": h, "conversation_id": h, "message": h}).to_string())
            .bytes();
        client.post(&format!("/agui/{h}"), "{}").bytes();
        client
            .post(
                "/api/v1/chat/stream/start",
                &json!({"agent_id": "plain", "conversation_id": h, "message": h, "protocol": h}).to_string(),
            )
            .bytes();
        let run_id = create(client, &format!("own{}", number % 20), &h);
        assert_eq!(ended(client, &run_id)["status"], "error");
        ended(client, &create(client, "plain", &format!("c-{h}")));
    };
    (0..20).for_each(round);
    let over = |runs: f64| {
        eventually("all runs over", || {
            let page = scrape(client);
            (page.sum("causeway_runs_ended_total", &[]) == runs).then_some(page)
        })
    };
    let before = over(40.0);
    (20..60).for_each(round);
    let after = over(120.0);
    assert_eq!(after.series(), before.series(), "more load, not more series");
    let chosen: Vec<&str> =
        after.label_values().into_iter().filter(|value| value.to_lowercase().contains("hostile")).collect();
    assert_eq!(chosen, [] as [&str; 0]);
    assert_eq!(after.sum("causeway_runs_ended_total", &[("code", "agent_execution_failed")]), 60.0);
    assert_eq!(after.sum("causeway_http_requests_total", &[("method", "other")]), 60.0);
}

#[test]
fn every_family_of_the_page_is_in_the_catalogue_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tools", "tools_parallel", "fast", "")]));
    let run_id = create(&gateway.client, "tools", "c");
    ended(&gateway.client, &run_id);
    for (name, family) in scrape(&gateway.client).0 {
        let full = if family.kind == "counter" { format!("{name}_total") } else { name };
        let listed =
            catalogue().find(|one| one.name == full).unwrap_or_else(|| panic!("{full} is not listed"));
        assert_eq!(
            (listed.kind.as_str(), listed.unit),
            (family.kind.as_str(), family.unit.as_str()),
            "{full}"
        );
        assert_eq!(format!("{}.", listed.help), family.help, "{full}");
        let mut labels: BTreeSet<&str> = listed.labels.iter().map(|(name, _)| *name).collect();
        if family.kind == "histogram" {
            labels.insert("le");
        }
        for sample in &family.samples {
            for label in sample.labels.keys() {
                assert!(labels.contains(label.as_str()), "{full} has the label {label}");
            }
        }
    }
    let text = gateway.client.get("/metrics");
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(text.text().contains("# TYPE causeway_runs_started_total counter\n"));
}
