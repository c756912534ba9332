//! What the rules say about runs and about streams that are brought along, and results in whole.

use serde_json::{Value, json};

use crate::gateway::{Gateway, causeway, recorded_agents, recording};
use crate::http::{Client, Response};
use crate::runs::{create, ended, stored, value};

/// A canonical stream whose third event breaks R05 at the yield boundary.
const BROKEN: &str = concat!(
    r#"{"version":1,"type":"run.started","run_id":"r","conversation_id":"c","sequence":0,"timestamp":"2026-01-01T00:00:00Z","namespace":[],"data":{"harness_id":"h","adapter_version":"1"}}"#,
    "\n",
    r#"{"version":1,"type":"text.started","run_id":"r","conversation_id":"c","sequence":1,"timestamp":"2026-01-01T00:00:01Z","namespace":[],"data":{"message_id":"m","role":"assistant"}}"#,
    "\n",
    r#"{"version":1,"type":"text.delta","run_id":"r","conversation_id":"c","sequence":2,"timestamp":"2026-01-01T00:00:02Z","namespace":[],"data":{"message_id":"other","delta":"secret words"}}"#,
    "\n",
);

fn check(client: &Client, query: &str, body: &[u8]) -> Response {
    client.send(
        "POST",
        &format!("/api/v1/check{query}"),
        &[("content-type", "application/x-ndjson")],
        Some(body),
    )
}

#[test]
fn a_stream_that_is_brought_along_is_judged_as_by_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "subagent_one", "fast", "")]));
    let run_id = create(&gateway.client, "tour", "c");
    ended(&gateway.client, &run_id);
    let good = stored(&gateway.client, &run_id).join("\n") + "\n";
    let no_end = good.lines().next().unwrap().to_owned();
    for (stream, valid) in
        [(good.as_str(), true), (BROKEN, false), (no_end.as_str(), false), ("", false), ("{", false)]
    {
        let file = dir.path().join("stream.jsonl");
        std::fs::write(&file, stream).unwrap();
        let command = causeway().args(["check", "--format", "json"]).arg(&file).output().unwrap();
        let mut expected: Value = serde_json::from_slice(&command.stdout).unwrap();
        expected["file"] = json!("-");
        let judged = value(check(&gateway.client, "", stream.as_bytes()));
        assert_eq!(judged, expected);
        assert_eq!(judged["valid"], valid, "{stream}");
    }
    assert_eq!(
        value(check(&gateway.client, "?boundary=yield", good.as_bytes()))["valid"],
        false,
        "thread_state"
    );
    assert_eq!(check(&gateway.client, "?boundary=else", b"").status, 400);
    assert_eq!(gateway.client.post("/api/v1/check", "{}").status, 415, "JSON is not JSONL");
    let json = [("content-type", "application/x-ndjson")];
    assert_eq!(gateway.client.send("POST", "/api/v1/runs", &json, Some(b"{}")).status, 415);
}

#[test]
fn every_rule_and_warning_is_explained_as_by_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "text_plain", "fast", "")]));
    let listed = value(gateway.client.get("/api/v1/rules"));
    let listed = listed["rules"].as_array().unwrap();
    let lines = |one: &Value| format!("{:<9}{}", one["id"].as_str().unwrap(), one["title"].as_str().unwrap());
    let command = causeway().arg("explain").output().unwrap();
    let expected: Vec<String> =
        String::from_utf8(command.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(listed.iter().map(lines).collect::<Vec<_>>(), expected);
    // What is given as accepted is accepted; what is given as rejected breaks that very rule, and a warning warns.
    for one in listed {
        let id = &one["id"];
        let judged =
            |example: &str| value(check(&gateway.client, "", one[example].as_str().unwrap().as_bytes()));
        let accepted = judged("accepted");
        assert_eq!(accepted["valid"], true, "{id}: {accepted}");
        if one["kind"] == "warning" {
            assert!(one["rejected"].is_null(), "{id}");
            assert_eq!(accepted["warnings"][0]["code"], *id);
        } else {
            // Its explanation says why: a recorded stream shows no receipt.
            let seen = if id == "R14" { "R08" } else { id.as_str().unwrap() };
            assert_eq!(judged("rejected")["violations"][0]["rule"], seen);
        }
    }
    assert_eq!(gateway.client.post("/api/v1/rules", "{}").status, 405);
}

#[test]
fn a_run_shows_what_was_refused_in_it_and_what_is_odd() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.jsonl");
    std::fs::write(&file, BROKEN).unwrap();
    let settings = format!(
        "[agents.broken]\nharness = \"canonical\"\n[agents.broken.driver.recording]\nfile = {:?}\n{}",
        file.to_str().unwrap(),
        recorded_agents(&[("tour", "text_plain", "fast", ""), ("slow", "text_plain", "500ms", "")])
    );
    let gateway = Gateway::start(dir.path(), &settings);
    let findings = |run_id: &str| value(gateway.client.get(&format!("/api/v1/runs/{run_id}/findings")));
    let broken = create(&gateway.client, "broken", "c");
    let run = ended(&gateway.client, &broken);
    assert_eq!(run["error"]["code"], "harness_event_invalid");
    let found = findings(&broken);
    let violation = &found["violations"][0];
    assert_eq!(violation["rule"], "R05");
    assert_eq!(violation["type"], "text.delta");
    assert!(!found.to_string().contains("secret"), "never content: {found}");
    let codes: Vec<&str> = found["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["L01", "L08"], "the text was left open; no last usage");
    // A run that goes on has no end to be judged.
    let slow = create(&gateway.client, "slow", "c2");
    assert_eq!(findings(&slow), json!({"violations": [], "warnings": []}));
    let tour = create(&gateway.client, "tour", "c3");
    ended(&gateway.client, &tour);
    assert_eq!(findings(&tour)["violations"], json!([]));
    assert_eq!(gateway.client.get("/api/v1/runs/unknown/findings").status, 404);
}

#[test]
fn a_result_is_there_in_whole_whether_its_event_shows_all_of_it_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let native = std::fs::read_to_string(recording("tool_big_result")).unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("big", "tool_big_result", "fast", "")]));
    let (run_id, shown, reference) = shown_result(&gateway.client, "big");
    assert_eq!(whole_result(&gateway.client, &run_id, &reference), shown, "all of it stands in the event");
    for path in [
        format!("/api/v1/runs/{run_id}/results/other"),
        format!("/api/v1/runs/other/results/{reference}"),
        format!("/api/v1/runs/{run_id}/results/%00"),
    ] {
        assert_eq!(gateway.client.get(&path).status, 404, "{path}");
    }
    gateway.stop();

    // The same with a result that no event can hold.
    let escaped = serde_json::to_string(&shown).unwrap();
    let larger = shown.repeat((100 << 10) / shown.len() + 1);
    let grown =
        native.replace(escaped.trim_matches('"'), serde_json::to_string(&larger).unwrap().trim_matches('"'));
    let file = dir.path().join("larger.jsonl");
    std::fs::write(&file, grown).unwrap();
    let settings = format!(
        "[agents.larger]\nharness = \"deepagents\"\n[agents.larger.driver.recording]\nfile = {:?}\n",
        file.to_str().unwrap()
    );
    let gateway = Gateway::start(dir.path(), &settings);
    let (run_id, shown, reference) = shown_result(&gateway.client, "larger");
    assert!(shown.len() <= 64 << 10, "{}", shown.len());
    assert_eq!(whole_result(&gateway.client, &run_id, &reference), larger);
}

/// A run of the agent, the result that its first `tool.finished` shows, and its reference.
fn shown_result(client: &Client, agent: &str) -> (String, String, String) {
    let run_id = create(client, agent, agent);
    ended(client, &run_id);
    let finished = stored(client, &run_id)
        .iter()
        .map(|event| serde_json::from_str::<Value>(event).unwrap())
        .find(|event| event["type"] == "tool.finished")
        .unwrap();
    let text = |key: &str| finished["data"][key].as_str().unwrap().to_owned();
    (run_id, text("result"), text("result_ref"))
}

fn whole_result(client: &Client, run_id: &str, reference: &str) -> String {
    let whole = client.get(&format!("/api/v1/runs/{run_id}/results/{reference}"));
    assert_eq!(whole.status, 200);
    assert_eq!(whole.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    whole.text()
}
