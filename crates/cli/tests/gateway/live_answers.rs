//! Answers to the live deepagents worker: every kind, in both formats; after restarts and kills; and the tool that is
//! asked about appends to a file, so that what really ran is counted.
//!
//! Skipped, loudly, where its Python environment cannot be had.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_encode::Protocol;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::{Gateway, eventually};
use crate::live::{Stack, example, python, settings_on, workers};
use crate::runs::{
    self, ESTABLISHED, answer, check_whole, ended, offline_seeded, say, show, stored, types, value, waiting,
};

/// A directory with a script whose agent asks before it writes notes, and the settings for it.
struct Scene {
    dir: TempDir,
    settings: String,
}

impl Scene {
    fn new(stack: Stack) -> Option<Self> {
        let settings = settings_on(stack, "")?;
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script.json");
        std::fs::write(&script, script_for(&dir.path().join("notes")).to_string()).unwrap();
        let demo = example("scripts/demo.json");
        let settings = settings.replace(demo.to_str().unwrap(), script.to_str().unwrap());
        assert!(settings.contains(script.to_str().unwrap()));
        Some(Self { dir, settings })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn start(&self) -> Gateway {
        Gateway::start(self.path(), &self.settings)
    }

    /// What was noted since the last look.
    fn notes(&self) -> Vec<String> {
        let file: PathBuf = self.path().join("notes");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _gone = std::fs::remove_file(&file);
        text.lines().map(str::to_owned).collect()
    }
}

fn script_for(notes: &Path) -> Value {
    let note = |id: &str, line: &str, seconds: f64| json!({"tool": {"id": format!("{id}_{{n}}"), "name": "note", "args": {"path": notes, "line": line, "seconds": seconds}}});
    let all = json!({"allowed_decisions": ["approve", "edit", "reject"]});
    let fields = json!([
        {"field_name": "environment", "field_type": "select", "field_values": ["dev", "prod"], "required": true},
        {"field_name": "replicas", "field_type": "number"},
    ]);
    let done = json!([{"text": "Done."}]);
    json!({
        "name": "approvals", "agent_name": "helper", "delay": 0.005, "piece": 40,
        "tools": ["note", "request_user_input", "ask_user", "ask_twice"],
        "interrupt_on": {"note": all, "request_user_input": all},
        "subagents": [{"name": "writer", "description": "Writes", "tools": ["note"], "interrupt_on": {"note": all}}],
        "script": {"writer": [[note("call_w", "delegated", 0.0)], [{"text": "Written."}]]},
        "plays": [
            {"when": ["batch"], "answers": [[note("call_a", "one", 0.0), note("call_b", "two", 0.0)], done]},
            {"when": ["slow"], "answers": [[note("call_s", "slow", 4.0)], done]},
            {"when": ["note"], "answers": [[{"text": "May I? "}, note("call_n", "noted", 0.0)], done]},
            {"when": ["form"], "answers": [[{"tool": {"id": "call_f_{n}", "name": "request_user_input", "args": {"prompt": "Where?", "fields": fields}}}], done]},
            {"when": ["question"], "answers": [[{"tool": {"id": "call_q_{n}", "name": "ask_user", "args": {"question": "Which?"}}}], done]},
            {"when": ["mixture"], "answers": [[note("call_x", "mixed", 0.0), {"tool": {"id": "call_y_{n}", "name": "request_user_input", "args": {"prompt": "Where?", "fields": fields}}}], done]},
            {"when": ["two pauses"], "answers": [[
                {"tool": {"id": "call_p_{n}", "name": "ask_user", "args": {"question": "First?"}}},
                {"tool": {"id": "call_r_{n}", "name": "ask_user", "args": {"question": "Second?"}}}], done]},
            {"when": ["twice"], "answers": [[{"tool": {"id": "call_t_{n}", "name": "ask_twice", "args": {"first": "One?", "second": "Two?"}}}], done]},
            {"when": ["again"], "answers": [[note("call_g", "first", 0.0)], [note("call_h", "second", 0.0)], done]},
            {"when": ["delegate"], "answers": [[{"tool": {"id": "call_d_{n}", "name": "task", "args": {"description": "Write it", "subagent_type": "writer"}}}], done]},
            {"answers": [[{"text": "You said: {message}"}]]},
        ],
    })
}

/// Says something that makes the agent wait; the interrupted run.
fn interrupted(gateway: &Gateway, conversation: &str, protocol: Protocol, message: &str) -> Value {
    let response = say(&gateway.client, "live", conversation, protocol, message);
    assert_eq!(response.status, 200, "{message}");
    let run_id = response.run_id();
    response.bytes();
    let run = show(&gateway.client, &run_id);
    assert_eq!(run["status"], "interrupted", "{message}: {run}");
    run
}

/// Answers, and checks everything that holds for every answered run. Its events.
fn answered(gateway: &Gateway, conversation: &str, protocol: Protocol, data: &Value) -> Vec<Value> {
    let response = answer(&gateway.client, "live", conversation, protocol, data);
    assert_eq!(response.status, 200, "{data}");
    let run_id = response.run_id();
    let body = response.text();
    let (run, events) = (show(&gateway.client, &run_id), stored(&gateway.client, &run_id));
    check_whole(&events);
    assert_eq!(run["status"], "finished", "{data}: {run}\n{events:#?}");
    assert_eq!(body, offline_seeded(&events, protocol, &run), "{data} in {protocol}");
    let events: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let calls = |kinds: &[&str]| -> Vec<String> {
        let mut calls: Vec<String> = events
            .iter()
            .filter(|event| kinds.contains(&event["type"].as_str().unwrap()))
            .map(|event| runs::text(&event["data"], "tool_call_id"))
            .collect();
        calls.sort();
        calls
    };
    assert_eq!(calls(&["tool.started"]), calls(&["tool.finished", "tool.error"]), "every call has an end");
    for open in run["seed"]["open_tool_calls"].as_array().unwrap() {
        assert!(calls(&["tool.started"]).contains(&open.as_str().unwrap().to_owned()), "{open} goes on");
    }
    events
}

/// The ends of calls: `finished` with the result, or the code of the error.
fn ends(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match event["type"].as_str().unwrap() {
            "tool.finished" => Some(format!("finished {}", runs::text(&event["data"], "result"))),
            "tool.error" => Some(runs::text(&event["data"], "code")),
            _ => None,
        })
        .collect()
}

/// Every test below, on the newest stack and on the one that existing deployments pin.
macro_rules! on_both_stacks {
    ($($name:ident),+ $(,)?) => {
        mod on_deepagents_0_7 {
            $(#[test] fn $name() { super::$name(super::Stack::V07); })+
        }
        mod on_deepagents_0_6 {
            $(#[test] fn $name() { super::$name(super::Stack::V06); })+
        }
    };
}

on_both_stacks!(
    every_kind_of_answer_reaches_the_harness_and_every_client_sees_its_end,
    several_pauses_at_once_are_one_question_and_one_after_another_are_several,
    b23_of_windows_that_approve_at_the_same_moment_one_makes_the_tool_run,
    an_interrupt_outlives_a_restart_and_its_tool_runs_once,
    what_an_answer_that_was_never_committed_began_does_not_go_on,
    a_cleared_or_deleted_conversation_is_forgotten_by_its_worker_too,
);

/// Whether a process is gone, or only waits for its parent to take note.
fn is_dead(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

fn kill(pids: Vec<u32>) {
    for pid in pids {
        let _gone = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
}

fn one(decision: &str) -> Value {
    json!({"type": "tool_approval", "decision": decision})
}

fn every_kind_of_answer_reaches_the_harness_and_every_client_sees_its_end(stack: Stack) {
    let Some(scene) = Scene::new(stack) else { return };
    let gateway = scene.start();
    for protocol in ESTABLISHED {
        let c = |name: &str| format!("{name}-{protocol}");
        let ask = |name: &str, message: &str| interrupted(&gateway, &c(name), protocol, message);
        let tell = |name: &str, data: Value| answered(&gateway, &c(name), protocol, &data);

        ask("approve", "note it");
        assert_eq!(scene.notes(), Vec::<String>::new(), "nothing runs before it is approved");
        assert_eq!(ends(&tell("approve", one("approve"))), ["finished noted noted"]);
        assert_eq!(scene.notes(), ["noted"]);

        ask("edit", "note it");
        let notes = scene.path().join("notes");
        let edited = json!({"path": notes, "line": "edited"});
        let events =
            tell("edit", json!({"type": "tool_approval", "decision": "edit", "edited_args": edited}));
        let started = events.iter().find(|event| event["type"] == "tool.started").unwrap();
        assert_eq!(started["data"]["arguments"], edited, "the arguments that run are shown");
        assert_eq!(scene.notes(), ["edited"]);

        for (name, data) in [
            ("reject", one("reject")),
            (
                "worded",
                json!({"type": "tool_approval", "decisions": [{"decision": "reject", "message": "Not on a Monday."}]}),
            ),
        ] {
            ask(name, "note it");
            let events = tell(name, data);
            assert_eq!(ends(&events), ["tool_rejected"], "{name}");
            assert_eq!(scene.notes(), Vec::<String>::new(), "{name}");
        }

        let run = ask("batch", "a batch");
        let approvals = waiting(&gateway.client, &c("batch"))["interrupt"]["tool_approvals"].clone();
        assert_eq!(approvals.as_array().unwrap().len(), 2);
        let events = tell(
            "batch",
            json!({"type": "tool_approval", "decisions": [{"decision": "reject"}, {"decision": "approve"}]}),
        );
        let mut all = ends(&events);
        all.sort();
        assert_eq!(all, ["finished noted two", "tool_rejected"]);
        assert_eq!(scene.notes(), ["two"]);
        let asked = show(&gateway.client, &runs::text(&run, "run_id"));
        assert_eq!(asked["interrupt"]["decision"]["decisions"][0]["decision"], "reject");

        ask("submit", "a form");
        let values = json!({"type": "form_input", "values": {"environment": "prod", "replicas": "3"}});
        let told = ends(&tell("submit", values));
        assert!(
            told[0].starts_with("finished ") && told[0].contains("\"environment\": \"prod\""),
            "{told:?}"
        );
        ask("dismiss", "a form");
        assert_eq!(
            ends(&tell("dismiss", json!({"type": "form_input", "dismissed": true}))),
            ["tool_status_error"]
        );
        ask("pause", "a question");
        let told = ends(&tell("pause", json!({"type": "form_input", "values": {"answer": "the blue one"}})));
        assert_eq!(told, ["finished user said: the blue one"]);

        ask("child", "delegate it");
        let events = tell("child", one("approve"));
        assert_eq!(ends(&events), ["finished noted delegated", "finished Written."]);
        assert_eq!(scene.notes(), ["delegated"]);
        assert_eq!(events.iter().filter(|event| event["type"] == "namespace.entered").count(), 1);
        ask("child2", "delegate it");
        assert_eq!(ends(&tell("child2", one("reject")))[0], "tool_rejected");
        assert_eq!(scene.notes(), Vec::<String>::new());
    }
}

fn several_pauses_at_once_are_one_question_and_one_after_another_are_several(stack: Stack) {
    let Some(scene) = Scene::new(stack) else { return };
    let gateway = scene.start();
    for protocol in ESTABLISHED {
        let c = |name: &str| format!("{name}-{protocol}");
        let ask = |name: &str, message: &str| interrupted(&gateway, &c(name), protocol, message);
        let asked = |name: &str| waiting(&gateway.client, &c(name))["interrupt"].clone();
        let tell = |name: &str, data: Value| answered(&gateway, &c(name), protocol, &data);

        ask("mixed", "a mixture");
        let calls = asked("mixed")["tool_approvals"].clone();
        let kinds: Vec<&str> =
            calls.as_array().unwrap().iter().map(|call| call["tool_name"].as_str().unwrap()).collect();
        let decide = |name: &&str| match *name {
            "note" => json!({"decision": "approve", "tool_name": "note"}),
            _ => json!({"decision": "edit", "edited_args": {"environment": "dev"}}),
        };
        let decisions: Vec<Value> = kinds.iter().map(decide).collect();
        assert_eq!(decisions.len(), 2, "{calls}");
        let told = ends(&tell("mixed", json!({"type": "tool_approval", "decisions": decisions})));
        assert!(told.contains(&"finished noted mixed".to_owned()), "{told:?}");
        assert!(told.iter().any(|end| end.ends_with("{\"environment\": \"dev\"}")), "{told:?}");
        assert_eq!(scene.notes(), ["mixed"]);

        ask("both", "two pauses");
        let form = asked("both");
        let names: Vec<&str> = form["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["field_name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["answer", "2.answer"]);
        let questions: Vec<&str> = form["prompt"].as_str().unwrap().split("\n\n").collect();
        let values: Value = names
            .iter()
            .zip(&questions)
            .map(|(name, question)| (name.to_string(), json!(format!("to {question}"))))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let mut told = ends(&tell("both", json!({"type": "form_input", "values": values})));
        told.sort();
        assert_eq!(told, ["finished user said: to First?", "finished user said: to Second?"]);

        for (name, message, first, second) in [
            (
                "twice",
                "ask twice",
                json!({"type": "form_input", "values": {"answer": "1"}}),
                json!({"type": "form_input", "values": {"answer": "2"}}),
            ),
            ("again", "again", one("approve"), one("reject")),
        ] {
            let run = ask(name, message);
            let response = answer(&gateway.client, "live", &c(name), protocol, &first);
            let second_id = response.run_id();
            let body = response.text();
            let (shown, events) = (show(&gateway.client, &second_id), stored(&gateway.client, &second_id));
            check_whole(&events);
            assert_eq!(shown["status"], "interrupted", "{name}: {shown}");
            assert_eq!(body, offline_seeded(&events, protocol, &shown), "{name} in {protocol}");
            assert_ne!(shown["interrupt"]["interrupt_id"], run["interrupt"]["interrupt_id"]);
            let told = ends(&tell(name, second));
            let expected = if name == "twice" { "finished user said: 1 and 2" } else { "tool_rejected" };
            assert_eq!(told, [expected], "{name}");
        }
        assert_eq!(scene.notes(), ["first"]);
    }
}

fn b23_of_windows_that_approve_at_the_same_moment_one_makes_the_tool_run(stack: Stack) {
    let Some(scene) = Scene::new(stack) else { return };
    let gateway = scene.start();
    for round in 0..5 {
        let conversation = format!("c{round}");
        let asked = interrupted(&gateway, &conversation, Protocol::Custom, "note it");
        let windows: Vec<_> = (0..8)
            .map(|_| {
                let (client, conversation) = (gateway.client, conversation.clone());
                std::thread::spawn(move || {
                    let response = answer(&client, "live", &conversation, Protocol::Custom, &one("approve"));
                    (response.status, response.text())
                })
            })
            .collect();
        let answers: Vec<_> = windows.into_iter().map(|window| window.join().unwrap()).collect();
        let streams: Vec<_> = answers.iter().filter(|(status, _)| *status == 200).collect();
        assert_eq!(streams.len(), 1, "{answers:?}");
        assert!(streams[0].1.ends_with("event: done\ndata: {}\n\n"), "{answers:?}");
        assert!(answers.iter().all(|(status, _)| matches!(status, 200 | 409)), "{answers:?}");
        let late = answer(&gateway.client, "live", &conversation, Protocol::Custom, &one("reject"));
        assert_eq!(late.status, 409);
        let decision = &show(&gateway.client, &runs::text(&asked, "run_id"))["interrupt"]["decision"];
        assert_eq!(decision["decisions"][0]["decision"], "approve", "the first answer stands");
        assert_eq!(scene.notes(), ["noted"], "round {round}");
    }
}

fn an_interrupt_outlives_a_restart_and_its_tool_runs_once(stack: Stack) {
    let Some(scene) = Scene::new(stack) else { return };
    let gateway = scene.start();
    interrupted(&gateway, "stopped", Protocol::Agui, "note it");
    interrupted(&gateway, "killed", Protocol::Custom, "note it");
    interrupted(&gateway, "refused", Protocol::Custom, "note it");
    interrupted(&gateway, "filled", Protocol::Custom, "a form");
    interrupted(&gateway, "delegated", Protocol::Agui, "delegate it");
    interrupted(&gateway, "orphaned", Protocol::Agui, "note it");
    // The gateway stays, and every worker goes: the answer is for a new one.
    let pids = workers(scene.path());
    kill(pids.clone());
    eventually("the workers' end", || pids.iter().all(|pid| is_dead(*pid)).then_some(()));
    let edited = json!({"path": scene.path().join("notes"), "line": "by a new worker"});
    let edit = json!({"type": "tool_approval", "decision": "edit", "edited_args": edited});
    let told = ends(&answered(&gateway, "orphaned", Protocol::Agui, &edit));
    // deepagents 0.7 tells the model of the edit first.
    assert!(told[0].starts_with("finished ") && told[0].ends_with("noted by a new worker"), "{told:?}");
    assert_eq!(scene.notes(), ["by a new worker"]);
    assert!(gateway.stop().success());
    let gateway = scene.start();
    assert_eq!(
        ends(&answered(&gateway, "stopped", Protocol::Agui, &one("approve"))),
        ["finished noted noted"]
    );
    assert_eq!(scene.notes(), ["noted"]);
    // The gateway and its worker, without a word.
    let pids = workers(scene.path());
    gateway.kill();
    kill(pids);
    let gateway = scene.start();
    assert_eq!(
        ends(&answered(&gateway, "killed", Protocol::Custom, &one("approve"))),
        ["finished noted noted"]
    );
    assert_eq!(scene.notes(), ["noted"], "once");
    assert_eq!(ends(&answered(&gateway, "refused", Protocol::Custom, &one("reject"))), ["tool_rejected"]);
    assert_eq!(scene.notes(), Vec::<String>::new());
    let values = json!({"type": "form_input", "values": {"environment": "dev"}});
    let told = ends(&answered(&gateway, "filled", Protocol::Custom, &values));
    assert!(told[0].contains("\"environment\": \"dev\""), "{told:?}");
    let events = answered(&gateway, "delegated", Protocol::Agui, &one("approve"));
    assert_eq!(ends(&events), ["finished noted delegated", "finished Written."]);
    assert_eq!(scene.notes(), ["delegated"], "once");
    // The conversation goes on from there.
    let next = say(&gateway.client, "live", "killed", Protocol::Custom, "hello");
    assert!(next.text().contains("You said: hello"));
    assert_eq!(scene.notes(), Vec::<String>::new());
}

fn what_an_answer_that_was_never_committed_began_does_not_go_on(stack: Stack) {
    let Some(scene) = Scene::new(stack) else { return };
    let gateway = scene.start();
    let asked = interrupted(&gateway, "c", Protocol::Custom, "slow, please");
    let mut response = answer(&gateway.client, "live", "c", Protocol::Custom, &one("approve"));
    let run_id = response.run_id();
    // The tool has begun, and sleeps before it notes anything.
    while !types(&stored(&gateway.client, &run_id)).contains(&"tool.started".to_owned()) {
        response.chunk().unwrap().expect("the run goes on");
    }
    let pids = workers(scene.path());
    gateway.kill();
    kill(pids);
    eventually("the worker's end", || workers(scene.path()).is_empty().then_some(()));
    let gateway = scene.start();
    let run = ended(&gateway.client, &run_id);
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&json!("uncertain"), &json!("thread_durability_uncertain"))
    );
    let refused = answer(&gateway.client, "live", "c", Protocol::Custom, &one("reject"));
    assert_eq!(refused.status, 409);
    assert_eq!(value(refused)["detail"]["code"], "interrupt_consumed", "the first answer stands");
    let shown = show(&gateway.client, &runs::text(&asked, "run_id"));
    assert_eq!(shown["interrupt"]["decision"]["decisions"][0]["decision"], "approve");
    // A new message starts from the committed head: nothing of the approval is left.
    let next = say(&gateway.client, "live", "c", Protocol::Custom, "hello");
    let next_id = next.run_id();
    assert!(next.text().contains("You said: hello"));
    let events = stored(&gateway.client, &next_id);
    assert!(!types(&events).contains(&"tool.finished".to_owned()), "{events:?}");
    std::thread::sleep(std::time::Duration::from_secs(4)); // longer than the tool would have slept
    assert_eq!(scene.notes(), Vec::<String>::new(), "the tool never ran");
}

fn a_cleared_or_deleted_conversation_is_forgotten_by_its_worker_too(stack: Stack) {
    let Some(scene) = Scene::new(stack) else { return };
    let gateway = scene.start();
    let hello = || say(&gateway.client, "live", "c", Protocol::Custom, "hello").text();
    let threads = |epoch: u64| -> Option<String> {
        let file = scene.path().join(format!("data/workers/c.{epoch}.sqlite"));
        let count = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM threads').fetchone()[0])";
        let counted = Command::new(python(stack)?).args(["-c", count]).arg(&file).output().unwrap();
        Some(String::from_utf8(counted.stdout).unwrap().trim().to_owned())
    };
    let first = hello();
    assert_eq!(threads(1).as_deref(), Some("1"));
    assert_eq!(gateway.client.post("/api/v1/conversations/c/clear", "{}").status, 200);
    eventually("the end of the former epoch", || (threads(1)? == "0").then_some(()));
    assert_eq!(hello(), first, "from nothing");
    assert_eq!(threads(2).as_deref(), Some("1"));
    assert_eq!(value(runs::delete(&gateway.client, "c")), json!({"deleted": true, "runs": 2}));
    let left = std::fs::read_dir(scene.path().join("data/workers")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("c.")), "{left:?}");
}
