//! Answers over HTTP, on recorded streams: bytes, refusals, records, races, clearing and deleting.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, causeway, eventually, recorded_agents};
use crate::http::Response;
use crate::runs::{
    self, ESTABLISHED, answer, check_whole, ended, offline_seeded, offline_seeded_numbered, show, stored,
    types, value, waiting,
};

/// Recordings that wait for an answer, and the answer that was given.
fn recorded() -> Vec<(&'static str, Value)> {
    let approve = json!({"type": "tool_approval", "decision": "approve"});
    let edited = json!({"name": "api-canary", "force": true});
    vec![
        ("approve", approve.clone()),
        ("resume_new_process", approve.clone()),
        ("gated_and_free", approve.clone()),
        ("subagent_approve", json!({"type": "tool_approval", "decisions": [{"decision": "approve"}]})),
        ("edit", json!({"type": "tool_approval", "decision": "edit", "edited_args": edited})),
        ("reject", json!({"type": "tool_approval", "decision": "reject"})),
        ("form_submit", json!({"type": "form_input", "values": {"environment": "dev", "replicas": "3"}})),
        ("raw_interrupt", json!({"type": "form_input", "values": {"answer": "blue", "more": 1}})),
    ]
}

fn all_recorded() -> String {
    let all = recorded();
    recorded_agents(&all.iter().map(|(name, _)| (*name, *name, "fast", "")).collect::<Vec<_>>())
}

/// Plays a recording up to its interrupt; the interrupted run.
fn interrupted(gateway: &Gateway, agent: &str, conversation: &str) -> Value {
    let run_id = runs::create(&gateway.client, agent, conversation);
    let run = ended(&gateway.client, &run_id);
    assert_eq!(run["status"], "interrupted", "{run}");
    run
}

fn code(response: Response) -> (u16, String) {
    let status = response.status;
    let value = value(response);
    let code = value["detail"]["code"].as_str().or_else(|| value["error"]["code"].as_str());
    (status, code.unwrap_or("-").to_owned())
}

fn resume(gateway: &Gateway, run: &Value, body: &Value) -> Response {
    gateway.client.post(&format!("/api/v1/runs/{}/resume", runs::text(run, "run_id")), &body.to_string())
}

/// The body of an answer to this run's interrupt.
fn to(run: &Value, key: &str, answer: &Value) -> Value {
    let mut body = json!({
        "interrupt_id": run["interrupt"]["interrupt_id"], "revision": run["interrupt"]["revision"],
        "idempotency_key": key,
    });
    for (name, value) in answer.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn approve(call: &str) -> Value {
    json!({"decisions": [{"tool_call_id": call, "decision": "approve"}]})
}

#[test]
fn an_answered_run_streams_the_seeded_bytes_live_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &all_recorded());
    for (agent, data) in recorded() {
        for protocol in ESTABLISHED {
            let conversation = format!("{agent}-{protocol}");
            let asked = runs::start(&gateway.client, agent, &conversation, protocol);
            let asked_id = asked.run_id();
            asked.bytes();
            let state = waiting(&gateway.client, &conversation);
            let asked_run = show(&gateway.client, &asked_id);
            assert_eq!(state["pending"], true, "{agent}");
            assert_eq!(state["run_id"], asked_id.as_str());
            assert_eq!(state["revision"], asked_run["interrupt"]["revision"]);
            assert_eq!(state["expires_at"], Value::Null);
            assert_eq!(state["interrupt"]["interrupt_id"], asked_run["interrupt"]["interrupt_id"]);

            let response = answer(&gateway.client, agent, &conversation, protocol, &data);
            assert_eq!(response.status, 200, "{agent}");
            for (name, expected) in [
                ("cache-control", "no-cache"),
                ("x-accel-buffering", "no"),
                ("content-type", "text/event-stream; charset=utf-8"),
            ] {
                assert_eq!(response.header(name), Some(expected));
            }
            let run_id = response.run_id();
            let body = response.text();
            let (run, events) = (show(&gateway.client, &run_id), stored(&gateway.client, &run_id));
            check_whole(&events);
            assert_eq!(run["status"], "finished", "{agent}: {run}");
            assert_eq!(body, offline_seeded(&events, protocol, &run), "{agent} in {protocol}");
            let replay = gateway.client.get(&format!("/api/v1/runs/{run_id}/stream?protocol={protocol}"));
            assert_eq!(replay.text(), offline_seeded_numbered(&events, protocol, &run), "{agent}");
            assert_eq!(
                (&run["resumed_from"], &run["conversation_id"]),
                (&json!(asked_id), &json!(conversation))
            );
            let asked_run = show(&gateway.client, &asked_id);
            assert_eq!(asked_run["resumed_by"], run_id.as_str());
            let decision = &asked_run["interrupt"]["decision"];
            assert_eq!(asked_run["interrupt"]["status"], "consumed");
            assert_eq!(decision["answered_by"], "local");
            assert_eq!(decision["route"], "/api/v1/chat/stream/resume");
            assert_eq!(decision["answered_at"], run["created_at"]);
            assert_eq!(waiting(&gateway.client, &conversation), json!({"pending": false}));
            let again = answer(&gateway.client, agent, &conversation, protocol, &data);
            assert_eq!(code(again), (409, "interrupt_consumed".to_owned()), "{agent}");
            match agent {
                "reject" => {
                    assert!(!body.contains("restart_service"), "a refused call is hidden: {body}");
                    assert!(types(&events).contains(&"tool.error".to_owned()));
                    assert!(!types(&events).contains(&"tool.finished".to_owned()));
                }
                "edit" => assert!(body.contains("api-canary"), "the arguments that ran: {body}"),
                "subagent_approve" => {
                    assert_eq!(run["seed"]["delegations"], json!(["call_k1"]));
                    assert!(
                        !body.contains("\"subagent_type\""),
                        "the delegation is not started again: {body}"
                    );
                }
                _ => {}
            }
        }
    }
}

#[test]
fn an_established_answer_that_cannot_be_taken_is_refused_before_any_stream() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &all_recorded());
    let send = |agent: &str, conversation: &str, data: Value| {
        code(answer(&gateway.client, agent, conversation, Protocol::Custom, &data))
    };
    let one = |decision: &str| json!({"type": "tool_approval", "decision": decision});
    assert_eq!(send("approve", "new", one("approve")), (409, "no_interrupt".to_owned()));
    assert_eq!(send("nobody", "new", one("approve")), (404, "-".to_owned()));
    interrupted(&gateway, "approve", "c");
    interrupted(&gateway, "form_submit", "f");
    let refused = answer(
        &gateway.client,
        "approve",
        "c",
        Protocol::Agui,
        &json!({"type": "tool_approval", "decisions": [{"decision": "approve"}, {"decision": "approve"}]}),
    );
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.text(),
        r#"{"detail":"2 decisions for 1 tool calls; send one for each, in their order"}"#
    );
    let named = |name: &str| json!({"type": "tool_approval", "decisions": [{"decision": "approve", "tool_name": name}]});
    for (agent, conversation, data) in [
        ("approve", "c", json!({"type": "other"})),
        ("approve", "c", one("maybe")),
        ("approve", "c", one("edit")),
        ("approve", "c", named("another_tool")),
        ("approve", "c", json!({"type": "form_input", "values": {}})),
        ("approve", "c", json!({"type": "form_input", "dismissed": true})),
        ("form_submit", "f", one("approve")),
        ("form_submit", "f", json!({"type": "form_input", "values": {"replicas": "3"}})),
        ("form_submit", "f", json!({"type": "form_input", "values": {"environment": "moon"}})),
    ] {
        let refused = answer(&gateway.client, agent, conversation, Protocol::Custom, &data);
        assert_eq!(refused.status, 422, "{data}");
        let detail = &value(refused)["detail"];
        assert!(detail[0]["msg"].is_string() && detail[0]["loc"][0] == "body", "{data}: {detail}");
    }
    for body in [
        "{}",
        r#"{"agent_id":"approve","conversation_id":"c"}"#,
        r#"{"agent_id":"approve","conversation_id":"c","resume_data":{}}"#,
    ] {
        assert_eq!(gateway.client.post("/api/v1/chat/stream/resume", body).status, 422, "{body}");
    }
    // Nothing of this was taken for an answer; a start and an invoke are still refused.
    assert_eq!(waiting(&gateway.client, "c")["pending"], true);
    assert_eq!(
        code(runs::start(&gateway.client, "approve", "c", Protocol::Custom)),
        (409, "interrupt_pending".to_owned())
    );
    let body = json!({"agent_id": "approve", "conversation_id": "c", "message": "hi"}).to_string();
    assert_eq!(
        code(gateway.client.post("/api/v1/chat/invoke", &body)),
        (409, "interrupt_pending".to_owned())
    );
    let body = json!({"agent_id": "approve", "conversation_id": "i", "message": "hi"}).to_string();
    let invoked = gateway.client.post("/api/v1/chat/invoke", &body);
    assert_eq!((invoked.status, value(invoked)["interrupt_type"].as_str()), (400, Some("tool_approval")));
    assert!(
        answer(&gateway.client, "approve", "c", Protocol::Custom, &named("restart_service"))
            .text()
            .ends_with("event: done\ndata: {}\n\n")
    );
}

#[test]
fn edited_arguments_that_break_the_schema_of_their_tool_are_refused_with_call_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("restart.json");
    let text = r#"{"properties":{"name":{"enum":["api","api-canary"]}},"required":["name"]}"#;
    std::fs::write(&schema, text).unwrap();
    let tools = format!("tools.restart_service.schema = {schema:?}");
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("edit", "edit", "fast", &tools)]));
    let run = interrupted(&gateway, "edit", "c");
    let call = waiting(&gateway.client, "c")["interrupt"]["tool_approvals"][0]["tool_call_id"].clone();
    let edit = |name: &str| json!({"name": name, "force": true});
    let given = json!({"type": "tool_approval", "decision": "edit", "edited_args": edit("hunter2")});
    let why = format!(
        "the edited arguments of call {} do not satisfy the schema of its tool at \"/name\" (schema: \"/properties/name/enum\")",
        call.as_str().unwrap()
    );
    let refused = answer(&gateway.client, "edit", "c", Protocol::Custom, &given);
    assert_eq!((refused.status, value(refused)), (400, json!({"detail": why})));
    let decisions = |name: &str| json!({"decisions": [{"tool_call_id": call, "decision": "edit", "edited_args": edit(name)}]});
    let refused = resume(&gateway, &run, &to(&run, "k", &decisions("hunter2")));
    assert_eq!(refused.status, 422);
    let error = value(refused)["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!("answer_does_not_fit"), &json!(why)));
    assert_eq!(waiting(&gateway.client, "c")["pending"], true);
    let taken = resume(&gateway, &run, &to(&run, "k", &decisions("api-canary")));
    assert_eq!(taken.status, 202);
    assert_eq!(ended(&gateway.client, &runs::text(&value(taken), "run_id"))["status"], "finished");
}

#[test]
fn an_answer_by_run_is_a_run_once_and_a_refusal_ever_after() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &all_recorded());
    let run = interrupted(&gateway, "approve", "c");
    for (body, expected) in [
        (json!({}), (422, "invalid_request")),
        (to(&run, "k", &json!({})), (422, "invalid_request")),
        (to(&run, "k", &json!({"dismissed": false})), (422, "invalid_request")),
        (to(&run, "k", &json!({"decisions": [], "dismissed": true})), (422, "invalid_request")),
        (to(&run, "k", &json!({"decisions": {}})), (422, "invalid_request")),
        (to(&run, "k", &json!({"decisions": [{"tool_call_id": "call_h1"}]})), (422, "invalid_request")),
        (to(&run, "k", &json!({"extra": 1, "dismissed": true})), (422, "invalid_request")),
        (to(&run, "k", &json!({"decisions": []})), (422, "answer_does_not_fit")),
        (to(&run, "k", &approve("call_h2")), (422, "answer_does_not_fit")),
        (to(&run, "k", &json!({"values": {}})), (422, "answer_does_not_fit")),
        (to(&run, "k", &json!({"dismissed": true})), (422, "answer_does_not_fit")),
        (
            to(&run, "k", &json!({"decisions": [{"tool_call_id": "call_h1", "decision": "edit"}]})),
            (422, "answer_does_not_fit"),
        ),
        (to(&run, "k", &json!({"interrupt_id": "int-other", "decisions": []})), (409, "no_interrupt")),
        (to(&run, "k", &json!({"revision": 99, "decisions": []})), (409, "revision_mismatch")),
    ] {
        let (status, code) = code(resume(&gateway, &run, &body));
        assert_eq!((status, code.as_str()), expected, "{body}");
    }
    let nobody =
        gateway.client.post("/api/v1/runs/run-none/resume", &to(&run, "k", &approve("call_h1")).to_string());
    assert_eq!(code(nobody), (404, "run_not_found".to_owned()));

    let taken = resume(&gateway, &run, &to(&run, "k", &approve("call_h1")));
    assert_eq!(taken.status, 202);
    let taken = value(taken);
    let run_id = runs::text(&taken, "run_id");
    assert_eq!(taken["request"], approve("call_h1"));
    assert_eq!(taken["seed"], json!({"open_tool_calls": ["call_h1"], "delegations": [], "rejected": []}));
    assert_eq!(ended(&gateway.client, &run_id)["status"], "finished");
    let again = resume(&gateway, &run, &to(&run, "k", &approve("call_h1")));
    assert_eq!((again.status, runs::text(&value(again), "run_id")), (202, run_id.clone()));
    let mut by_header = to(&run, "k", &approve("call_h1"));
    by_header.as_object_mut().unwrap().remove("idempotency_key");
    let path = format!("/api/v1/runs/{}/resume", runs::text(&run, "run_id"));
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let again = gateway.client.send("POST", &path, &headers, Some(by_header.to_string().as_bytes()));
    assert_eq!((again.status, runs::text(&value(again), "run_id")), (202, run_id.clone()));
    let differs = to(&run, "k2", &approve("call_h1")).to_string();
    let differs = gateway.client.send("POST", &path, &headers, Some(differs.as_bytes()));
    assert_eq!(code(differs), (422, "invalid_request".to_owned()));
    let reject = json!({"decisions": [{"tool_call_id": "call_h1", "decision": "reject"}]});
    let other = resume(&gateway, &run, &to(&run, "k", &reject));
    assert_eq!(code(other), (422, "idempotency_key_reused".to_owned()));
    let other = resume(&gateway, &run, &to(&run, "k2", &approve("call_h1")));
    assert_eq!(code(other), (409, "interrupt_consumed".to_owned()));

    let data = dir.path().to_owned();
    gateway.kill();
    let gateway = Gateway::start(&data, &all_recorded());
    let again = resume(&gateway, &run, &to(&run, "k", &approve("call_h1")));
    assert_eq!(runs::text(&value(again), "run_id"), run_id, "a key outlives the gateway");
    // The record, for whoever reads the run later.
    for place in [
        ["--url".to_owned(), gateway.url.clone()],
        ["--data".to_owned(), data.join("data").to_str().unwrap().to_owned()],
    ] {
        let asked_id = runs::text(&run, "run_id");
        let shown = causeway().args(["runs", "show", &asked_id]).args(&place).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        for part in [
            "\"answered_by\":\"local\"",
            "\"route\":\"/api/v1/runs/{id}/resume\"",
            "\"decision\":\"approve\"",
            &run_id,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn of_64_clients_at_once_one_gets_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &all_recorded());
    for round in 0..20 {
        let conversation = format!("c{round}");
        let asked = interrupted(&gateway, "approve", &conversation);
        let gate = Arc::new(Barrier::new(64));
        let clients: Vec<_> = (0..64)
            .map(|n| {
                let (client, gate, conversation, asked) =
                    (gateway.client, Arc::clone(&gate), conversation.clone(), asked.clone());
                std::thread::spawn(move || {
                    let decision = if n % 4 < 2 { "approve" } else { "reject" };
                    gate.wait();
                    if n % 2 == 0 {
                        let data = json!({"type": "tool_approval", "decision": decision});
                        let response = answer(&client, "approve", &conversation, Protocol::Agui, &data);
                        return (response.status, response.text());
                    }
                    let decisions = json!({"decisions": [{"tool_call_id": "call_h1", "decision": decision}]});
                    let path = format!("/api/v1/runs/{}/resume", runs::text(&asked, "run_id"));
                    let body = to(&asked, &format!("{round}-{n}"), &decisions).to_string();
                    let response = client.post(&path, &body);
                    (response.status, response.text())
                })
            })
            .collect();
        let answers: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let won = answers.iter().filter(|(status, _)| matches!(status, 200 | 202)).count();
        assert_eq!(won, 1, "round {round}: {answers:?}");
        let refused = |(status, text): &&(u16, String)| *status == 409 && text.contains("interrupt_consumed");
        assert_eq!(answers.iter().filter(refused).count(), 63, "round {round}: {answers:?}");
        let list = value(gateway.client.get(&format!("/api/v1/runs?conversation_id={conversation}")));
        assert_eq!(list["runs"].as_array().unwrap().len(), 2, "round {round}");
        ended(&gateway.client, list["runs"][0]["run_id"].as_str().unwrap());
    }
}

#[test]
fn what_waits_is_listed_until_it_is_answered_voided_or_expired() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = all_recorded();
    settings.push_str(&recorded_agents(&[("brief", "approve", "fast", "interrupt_expiry = \"2s\"")]));
    let gateway = Gateway::start(dir.path(), &settings);
    let listed = || -> Vec<String> {
        let list = value(gateway.client.get("/api/v1/interrupts?status=pending"));
        let all = list["interrupts"].as_array().unwrap();
        all.iter().map(|one| runs::text(one, "conversation_id")).collect()
    };
    let brief = interrupted(&gateway, "brief", "b");
    assert!(brief["interrupt"]["expires_at"].is_string());
    let first = interrupted(&gateway, "approve", "c");
    interrupted(&gateway, "form_submit", "f");
    let list = value(gateway.client.get("/api/v1/interrupts"));
    let newest = &list["interrupts"][0];
    assert_eq!(newest["agent_id"], "form_submit");
    assert_eq!(newest["interrupt"]["interrupt_type"], "form_input");
    assert_eq!(newest["interrupt"]["fields"][0]["field_name"], "environment");
    eventually("the end of its time", || (listed() == ["f", "c"]).then_some(()));
    assert_eq!(waiting(&gateway.client, "b"), json!({"pending": false}));
    assert_eq!(show(&gateway.client, &runs::text(&brief, "run_id"))["interrupt"]["status"], "expired");
    let late = resume(&gateway, &brief, &to(&brief, "k", &approve("call_h1")));
    assert_eq!(code(late), (409, "interrupt_expired".to_owned()));
    let approved = json!({"type": "tool_approval", "decision": "approve"});
    let late = answer(&gateway.client, "brief", "b", Protocol::Custom, &approved);
    assert_eq!(late.status, 409);
    let detail = value(late)["detail"].clone();
    let told = (&detail["code"], &detail["reason"], &detail["action"]);
    assert_eq!(told, (&json!("no_interrupt"), &json!("interrupt_expired"), &json!("start")));
    let cancel = format!("/api/v1/runs/{}/cancel", runs::text(&first, "run_id"));
    assert_eq!(gateway.client.post(&cancel, "{}").text(), r#"{"cancelled":false,"interrupt_voided":true}"#);
    assert_eq!(listed(), ["f"]);
    let late = resume(&gateway, &first, &to(&first, "k", &approve("call_h1")));
    assert_eq!(code(late), (409, "no_interrupt".to_owned()));
    let dismissed = json!({"type": "form_input", "dismissed": true});
    assert_eq!(answer(&gateway.client, "form_submit", "f", Protocol::Custom, &dismissed).status, 200);
    assert_eq!(listed(), Vec::<String>::new());
    assert_eq!(gateway.client.get("/api/v1/interrupts?status=voided").status, 400);
    assert_eq!(runs::start(&gateway.client, "brief", "b", Protocol::Custom).status, 200);
    std::thread::sleep(Duration::from_millis(50)); // the last stream is read by nobody
}

#[test]
fn a_conversation_is_cleared_and_deleted_unless_it_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = all_recorded();
    settings.push_str(&recorded_agents(&[("slow", "text_plain", "200ms", "")]));
    let gateway = Gateway::start(dir.path(), &settings);
    let clear = |id: &str| gateway.client.post(&format!("/api/v1/conversations/{id}/clear"), "{}");
    let delete = |id: &str| runs::delete(&gateway.client, id);
    assert_eq!(code(clear("c")), (404, "conversation_not_found".to_owned()));
    assert_eq!(code(delete("c")), (404, "conversation_not_found".to_owned()));
    let run = interrupted(&gateway, "approve", "c");
    let run_id = runs::text(&run, "run_id");
    let cleared = clear("c");
    assert_eq!((cleared.status, value(cleared)["cleared"].clone()), (200, json!(true)));
    assert_eq!(show(&gateway.client, &run_id)["interrupt"]["status"], "voided");
    assert_eq!(waiting(&gateway.client, "c"), json!({"pending": false}));
    let again = interrupted(&gateway, "approve", "c");
    let events = stored(&gateway.client, &runs::text(&again, "run_id"));
    assert!(events.len() > 3);
    assert_eq!(again["interrupt"]["revision"], run["interrupt"]["revision"], "heads begin anew");

    let slow = runs::create(&gateway.client, "slow", "s");
    assert_eq!(code(clear("s")), (409, "conversation_busy".to_owned()));
    assert_eq!(code(delete("s")), (409, "conversation_busy".to_owned()));
    gateway.client.post(&format!("/api/v1/runs/{slow}/cancel"), "{}");
    assert_eq!(value(delete("c")), json!({"deleted": true, "runs": 2}));
    assert_eq!(gateway.client.get(&format!("/api/v1/runs/{run_id}")).status, 404);
    assert_eq!(code(resume(&gateway, &again, &to(&again, "k", &approve("call_h1")))).0, 404);
    let list = value(gateway.client.get("/api/v1/runs"));
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "only that of the other conversation");
}
