//! The published endpoints over HTTP: `/agui/{agent}` and `/ui-message/{agent}`, what they take, refuse and warn about.
//!
//! That the official clients read them is tested with those clients, in `tests/clients`.

#![allow(clippy::needless_pass_by_value, reason = "bodies are written in place")]

use causeway_encode::{Options, Protocol, Seed};
use serde_json::{Value, json};

use crate::gateway::{Gateway, recorded_agents};
use crate::http::Response;
use crate::runs::{ended, show, stored, types, value};

fn gateway(dir: &std::path::Path) -> Gateway {
    let agents = ["tour", "approve", "form_submit", "edit", "gated_and_free", "crash_continue"];
    let recording = |agent: &str| if agent == "tour" { "subagents_parallel" } else { agent }.to_owned();
    let named: Vec<(&str, String)> = agents.iter().map(|agent| (*agent, recording(agent))).collect();
    let mut all: Vec<_> = named.iter().map(|(agent, file)| (*agent, file.as_str(), "fast", "")).collect();
    all.push(("slow", "subagents_parallel", "15ms", ""));
    Gateway::start(dir, &recorded_agents(&all))
}

fn input(thread: &str, run: &str, more: Value) -> Value {
    let mut body = json!({
        "threadId": thread, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "u1", "role": "user", "content": "hello"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn agui(gateway: &Gateway, agent: &str, body: &Value) -> Response {
    gateway.client.post(&format!("/agui/{agent}"), &body.to_string())
}

/// The frames of a stream, each one `data:` line.
fn data(body: &str) -> Vec<Value> {
    let frames = body.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap());
    frames.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn refused(response: Response) -> (u16, String) {
    let status = response.status;
    let value = value(response);
    (status, value["error"]["code"].as_str().unwrap_or_else(|| panic!("{value}")).to_owned())
}

fn offline(events: &[String], protocol: Protocol, seed: &Seed, options: &Options) -> String {
    let mut encoder = protocol.encoder_for(seed, options);
    let mut out = Vec::new();
    for line in events {
        let event =
            causeway_contract::decode::decode_line(line.as_bytes(), &causeway_contract::Limits::DEFAULT)
                .unwrap();
        encoder.encode(&event, &mut out);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn an_agui_client_gets_the_stream_under_its_own_names_and_can_have_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let body = input("thread 1", "its/run", json!({"protocolVersion": "1.0"}));
    let response = agui(&gateway, "tour", &body);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-cache"));
    assert_eq!(response.header("x-causeway-warning"), None);
    let (run_id, again) = (response.run_id(), response.header("content-location").unwrap().to_owned());
    let stream = response.text();
    let events = stored(&gateway.client, &run_id);
    let options = Options::new().run_id("its/run").agui_version("1.0");
    assert_eq!(stream, offline(&events, Protocol::AguiSpec, &Seed::new(), &options));
    let frames = data(&stream);
    assert_eq!((&frames[0]["threadId"], &frames[0]["runId"]), (&json!("thread 1"), &json!("its/run")));
    assert_eq!(frames[0]["metadata"]["causeway"]["runId"], run_id.as_str());
    assert_eq!(
        again,
        format!("/api/v1/runs/{run_id}/stream?protocol=agui-spec&client_run_id=its%2Frun&agui_version=1.0")
    );
    let replay = gateway.client.get(&again).text();
    let unnumbered: Vec<&str> = replay.split('\n').filter(|line| !line.starts_with("id: ")).collect();
    assert_eq!(unnumbered.join("\n"), stream);
    assert_eq!(show(&gateway.client, &run_id)["conversation_id"], "thread 1");
}

#[test]
fn input_that_is_no_run_agent_input_is_refused_before_any_stream() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let code = |body: &Value| refused(agui(&gateway, "tour", body));
    let without = |name: &str| {
        let mut body = input("t", "r", json!({}));
        body.as_object_mut().unwrap().remove(name);
        body
    };
    for body in [
        without("threadId"),
        without("runId"),
        without("messages"),
        input("t", "r", json!({"messages": {}})),
        input("t", "r", json!({"messages": []})),
        input("t", "r", json!({"messages": [{"id": "a", "role": "assistant", "content": "x"}]})),
        input("t", "r", json!({"messages": [{"id": "a", "role": "user", "content": ""}]})),
        input("t", "r", json!({"resume": {}})),
        input("t", "r", json!({"resume": [{"interruptId": "i", "status": "maybe"}]})),
        input("t", "r", json!({"context": {}})),
        input("", "r", json!({})),
    ] {
        assert_eq!(code(&body), (422, "invalid_request".to_owned()), "{body}");
    }
    assert_eq!(refused(gateway.client.post("/agui/tour", "[]")), (422, "invalid_request".to_owned()));
    assert_eq!(
        refused(agui(&gateway, "nobody", &input("t", "r", json!({})))),
        (404, "agent_not_found".to_owned())
    );
    let listed = value(gateway.client.get("/api/v1/runs"));
    assert_eq!(listed["runs"], json!([]), "nothing was started");
}

#[test]
fn what_is_not_known_is_passed_over_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let content = json!([{"type": "text", "text": "hel"}, {"type": "image"}, {"type": "text", "text": "lo"}]);
    let mut body =
        input("t", "r", json!({"zebra": 1, "messages": [{"id": "u", "role": "user", "content": content}]}));
    body.as_object_mut().unwrap().remove("tools");
    body.as_object_mut().unwrap().remove("context");
    let response = agui(&gateway, "tour", &body);
    assert_eq!(response.status, 200);
    let warning = response.header("x-causeway-warning").unwrap().to_owned();
    assert_eq!(warning, "unknown members: zebra; parts that are no text: image");
    let run_id = response.run_id();
    response.text();
    assert_eq!(show(&gateway.client, &run_id)["request"], json!({"message": "hello"}));
}

#[test]
fn every_pending_interrupt_must_be_answered_and_an_answer_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let asked = agui(&gateway, "approve", &input("t", "r1", json!({}))).text();
    let interrupt = data(&asked).pop().unwrap()["outcome"]["interrupts"][0].clone();
    let entry =
        |id: &Value, payload: Value| json!({"interruptId": id, "status": "resolved", "payload": payload});
    let answer = |entries: Value| agui(&gateway, "approve", &input("t", "r2", json!({"resume": entries})));

    // A message without an answer: the run of this request starts and fails.
    let pending = data(&agui(&gateway, "approve", &input("t", "r2", json!({}))).text());
    assert_eq!(pending.len(), 2);
    assert_eq!((&pending[0]["type"], &pending[0]["runId"]), (&json!("RUN_STARTED"), &json!("r2")));
    assert_eq!(
        (&pending[1]["type"], &pending[1]["code"]),
        (&json!("RUN_ERROR"), &json!("interrupt_pending"))
    );

    let other = entry(&json!("int-other"), json!({"approved": true}));
    assert_eq!(refused(answer(json!([other]))), (422, "interrupts_uncovered".to_owned()));
    let twice = json!([entry(&interrupt["id"], json!(true)), entry(&interrupt["id"], json!(false))]);
    assert_eq!(refused(answer(twice)), (422, "invalid_request".to_owned()));
    assert_eq!(
        refused(answer(json!([entry(&interrupt["id"], json!({}))]))),
        (422, "invalid_request".to_owned())
    );

    let response = answer(json!([other, entry(&interrupt["id"], json!({"approved": true}))]));
    assert_eq!(response.header("x-causeway-warning"), Some("unknown interrupts: int-other"));
    let run_id = response.run_id();
    let frames = data(&response.text());
    let kinds: Vec<&str> = frames.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert!(!kinds.contains(&"TOOL_CALL_START"), "a call is announced once in a conversation: {kinds:?}");
    assert!(kinds.contains(&"TOOL_CALL_RESULT"));
    assert_eq!(frames.last().unwrap()["outcome"], json!({"type": "success"}));
    assert!(types(&stored(&gateway.client, &run_id)).contains(&"tool.started".to_owned()));
    let again = data(&answer(json!([entry(&interrupt["id"], json!({"approved": true}))])).text());
    assert_eq!(again.last().unwrap()["code"], "interrupt_consumed");
}

#[test]
fn an_answer_that_was_given_up_refuses_the_call_or_dismisses_the_form() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    for (agent, decision) in [("approve", "reject"), ("form_submit", "reject")] {
        let asked = agui(&gateway, agent, &input(agent, "r1", json!({})));
        let asked_id = asked.run_id();
        let interrupts = data(&asked.text()).pop().unwrap()["outcome"]["interrupts"].clone();
        let entries: Vec<Value> = interrupts
            .as_array()
            .unwrap()
            .iter()
            .map(|one| json!({"interruptId": one["id"], "status": "cancelled"}))
            .collect();
        let response = agui(&gateway, agent, &input(agent, "r2", json!({"resume": entries})));
        assert_eq!(response.status, 200, "{agent}");
        response.text();
        let interrupt = show(&gateway.client, &asked_id)["interrupt"].clone();
        assert_eq!(interrupt["status"], "consumed");
        let text = interrupt["decision"].to_string();
        assert!(text.contains(decision) || text.contains("dismissed"), "{agent}: {text}");
        assert_eq!(interrupt["decision"]["route"], "/agui/{agent_id}");
    }
}

#[test]
fn a_call_that_a_crash_left_open_is_not_announced_again() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let first = data(&agui(&gateway, "crash_continue", &input("t", "r1", json!({}))).text());
    let second = agui(&gateway, "crash_continue", &input("t", "r2", json!({})));
    let (again, run_id) = (second.header("content-location").unwrap().to_owned(), second.run_id());
    let second = second.text();
    let calls = |frames: &[Value]| -> Vec<String> {
        let starts = frames.iter().filter(|frame| frame["type"] == "TOOL_CALL_START");
        starts.map(|frame| frame["toolCallId"].as_str().unwrap().to_owned()).collect()
    };
    let (before, after) = (calls(&first), calls(&data(&second)));
    assert!(!before.is_empty() && !after.iter().any(|call| before.contains(call)), "{before:?} {after:?}");
    let replay = gateway.client.get(&again).text();
    let unnumbered: Vec<&str> = replay.split('\n').filter(|line| !line.starts_with("id: ")).collect();
    assert_eq!(unnumbered.join("\n"), second);
    // To the AI SDK each run is a message of its own: there the call must stand in it.
    let ui = gateway.client.get(&format!("/api/v1/runs/{run_id}/stream?protocol=ui-message")).text();
    assert!(ui.contains("tool-input-available"));
}

fn said(id: &str, more: Value) -> Value {
    let mut body = json!({
        "id": id, "trigger": "submit-message",
        "messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn ui(gateway: &Gateway, path: &str, body: &Value) -> Response {
    gateway.client.post(&format!("/ui-message/{path}"), &body.to_string())
}

#[test]
fn a_ui_message_stream_has_its_header_its_end_and_its_reconnect() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    for (agent, sdk) in [("tour?sdk=6", Some(6)), ("tour", None)] {
        let response = ui(&gateway, agent, &said(&format!("chat {}", sdk.unwrap_or(5)), json!({})));
        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-vercel-ai-ui-message-stream"), Some("v1"));
        let run_id = response.run_id();
        let stream = response.text();
        assert!(stream.ends_with("data: [DONE]\n\n"));
        let options = Options { sdk, ..Options::new() };
        let events = stored(&gateway.client, &run_id);
        assert_eq!(stream, offline(&events, Protocol::UiMessage, &Seed::new(), &options));
    }
    let idle = gateway.client.get("/ui-message/tour/chat%206/stream");
    assert_eq!(idle.status, 204);
    assert_eq!(gateway.client.get("/ui-message/tour/unknown/stream").status, 204);

    // On a machine that stalls the run may be over before the second connection: then once more.
    let attempt = |n: usize| {
        let conversation = format!("c{n}");
        let mut live = ui(&gateway, "slow", &said(&conversation, json!({})));
        let run_id = live.run_id();
        live.chunk().unwrap().unwrap();
        drop(live);
        let rejoined = gateway.client.get(&format!("/ui-message/slow/{conversation}/stream?sdk=7"));
        (rejoined.status == 200).then_some((run_id, rejoined))
    };
    let (run_id, rejoined) = (0..10).find_map(attempt).expect("an active run is found");
    assert_eq!(rejoined.run_id(), run_id);
    let stream = rejoined.text();
    let options = Options::new().sdk(7);
    assert_eq!(
        stream,
        offline(&stored(&gateway.client, &run_id), Protocol::UiMessage, &Seed::new(), &options)
    );
    ended(&gateway.client, &run_id);
}

#[test]
fn an_approval_given_in_the_ai_sdk_is_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let asked = data(&ui(&gateway, "approve?sdk=6", &said("c", json!({}))).text());
    let request = asked.iter().find(|frame| frame["type"] == "tool-approval-request").unwrap();
    let part = json!({
        "type": "dynamic-tool", "toolCallId": request["toolCallId"], "state": "approval-responded",
        "approval": {"id": request["approvalId"], "approved": true},
    });
    let messages = json!([
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]},
        {"id": "a1", "role": "assistant", "parts": [part]},
    ]);
    assert_eq!(
        refused(ui(&gateway, "approve", &said("c", json!({})))),
        (409, "interrupt_pending".to_owned())
    );
    let response = ui(&gateway, "approve?sdk=6", &said("c", json!({"messages": messages})));
    assert_eq!(response.status, 200);
    let frames = data(&response.text());
    assert!(frames[0].get("messageId").is_none(), "the message goes on");
    assert!(frames.iter().any(|frame| frame["type"] == "tool-output-available"));
    let again = ui(&gateway, "approve?sdk=6", &said("c", json!({"messages": messages})));
    assert_eq!(refused(again), (409, "interrupt_consumed".to_owned()));

    // A form is answered by `resume` in the body, in any major.
    let asked = data(&ui(&gateway, "form_submit", &said("f", json!({}))).text());
    let form = asked.iter().find(|frame| frame["type"] == "data-interrupt").unwrap()["data"].clone();
    let values = json!({"environment": "dev", "replicas": "3"});
    let resume = json!([{"interruptId": form["interruptId"], "status": "resolved", "payload": values}]);
    let response = ui(&gateway, "form_submit", &said("f", json!({"resume": resume})));
    assert_eq!(response.status, 200);
    assert_eq!(data(&response.text()).last().unwrap()["type"], "finish");
}

#[test]
fn a_ui_message_request_that_says_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    for body in [
        said("", json!({})),
        said("c", json!({"messages": []})),
        said("c", json!({"messages": {}})),
        said("c", json!({"messages": [{"role": "assistant", "parts": []}]})),
        said("c", json!({"messages": [{"role": "user", "parts": [{"type": "file"}]}]})),
    ] {
        assert_eq!(refused(ui(&gateway, "tour", &body)), (422, "invalid_request".to_owned()), "{body}");
    }
    assert_eq!(
        refused(ui(&gateway, "tour?sdk=4", &said("c", json!({})))),
        (400, "invalid_parameter".to_owned())
    );
    assert_eq!(refused(ui(&gateway, "nobody", &said("c", json!({})))), (404, "agent_not_found".to_owned()));
    // The SDK's `regenerate` asks for the last words of the user again.
    let messages = json!([
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "once more"}]},
        {"id": "a1", "role": "assistant", "parts": []},
    ]);
    let response =
        ui(&gateway, "tour", &said("c", json!({"trigger": "regenerate-message", "messages": messages})));
    assert_eq!(response.status, 200);
    let run_id = response.run_id();
    response.text();
    assert_eq!(show(&gateway.client, &run_id)["request"], json!({"message": "once more"}));
}
