//! All goldens: their native chunks through the adapter give their canonical events (goldens README §9, "Driver").

use std::collections::BTreeMap;

use causeway_adapter::json::Json;
use causeway_adapter::turn::{Answer, Decided, OpenCall, Resume, Turn};
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Decision, EventData, EventDraft, RunError, SideEffectStatus, Warning};
use causeway_contract::id::{Code, InvocationId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::support::{Run, data, options};

fn text(json: &Json<'_>, key: &str) -> String {
    json.str(key).map(|text| text.lossy().into_owned()).unwrap_or_default()
}

/// The decisions a golden's client posted, for the calls that were open.
fn resume(golden: &Json<'_>, known: bool) -> Turn {
    let Some(resume) = golden.get("resume") else { return Turn::Start };
    let ids = |key: &str| -> Vec<ToolCallId<'static>> {
        let list = resume.list(key).iter().filter_map(|id| id.as_str());
        list.map(|id| ToolCallId::new(id.lossy().into_owned()).unwrap()).collect()
    };
    let started: Vec<_> =
        golden.list("canonical_events").iter().filter(|e| text(e, "type") == "tool.started").collect();
    let open_calls: Vec<OpenCall> = ids("open_tool_calls")
        .into_iter()
        .map(|id| {
            let started = started.iter().map(|e| e.get("data").unwrap());
            let data = started.clone().find(|data| text(data, "tool_call_id") == id.as_str()).unwrap();
            OpenCall {
                name: Name::new(text(data, "tool_name")).unwrap(),
                arguments: JsonObject::parse(data.get("arguments").unwrap().to_text(), &Limits::DEFAULT)
                    .unwrap(),
                namespace: Namespace::root(),
                id,
            }
        })
        .collect();
    let posted = resume.get("data").unwrap();
    let delegations = ids("delegations");
    let gated: Vec<_> = open_calls.iter().filter(|call| !delegations.contains(&call.id)).collect();
    let one = |decision: &Json<'_>, call: &OpenCall| Decided {
        tool_call_id: call.id.clone(),
        decision: Decision::parse(&text(decision, "decision")).unwrap(),
        edited_args: decision
            .get("edited_args")
            .map(|args| JsonObject::parse(args.to_text(), &Limits::DEFAULT).unwrap()),
        message: None,
    };
    let answer = if posted.get("dismissed").is_some() {
        Answer::Dismissed
    } else if posted.get("decisions").is_some() {
        let decisions = posted.list("decisions").iter().zip(&gated);
        Answer::Decisions(decisions.map(|(decision, call)| one(decision, call)).collect())
    } else {
        Answer::Decisions(gated.iter().map(|call| one(posted, call)).collect())
    };
    Turn::Resume(Resume { open_calls, delegations, answer: known.then_some(answer), private: None })
}

/// The native value for what `on_input_required` says.
fn interrupts(args: &Json<'_>) -> String {
    if text(args, "interrupt_type") == "form_input" {
        let (prompt, fields) = (args.get("prompt").unwrap().to_text(), args.get("fields").unwrap().to_text());
        let action =
            format!(r#"{{"name":"request_user_input","args":{{"prompt":{prompt},"fields":{fields}}}}}"#);
        return format!(
            r#"[{{"id":"native","value":{{"action_requests":[{action}],"review_configs":[]}}}}]"#
        );
    }
    let (mut requests, mut configs) = (Vec::new(), Vec::new());
    for approval in args.list("tool_approvals") {
        let name = approval.get("tool_name").unwrap().to_text();
        let (args, allowed) = (
            approval.get("tool_args").unwrap().to_text(),
            approval.get("allowed_decisions").unwrap().to_text(),
        );
        requests.push(format!(r#"{{"name":{name},"args":{args}}}"#));
        configs.push(format!(r#"{{"action_name":{name},"allowed_decisions":{allowed}}}"#));
    }
    let (requests, configs) = (requests.join(","), configs.join(","));
    format!(r#"[{{"id":"native","value":{{"action_requests":[{requests}],"review_configs":[{configs}]}}}}]"#)
}

fn play(golden: &Json<'_>, known: bool) -> Run {
    let steps = golden.list("lifecycle");
    let asked =
        steps.iter().find(|step| text(step, "call") == "on_input_required").map(|s| s.get("args").unwrap());
    let mut options = options();
    if let Some(args) = asked {
        options.agent_id = Name::new(text(args, "agent")).unwrap();
    }
    let mut run = Run::new(resume(golden, known), options, 1);
    let failing = steps.iter().any(|step| text(step, "call") == "on_run_error");
    for step in steps {
        let args = step.get("args");
        match &*text(step, "call") {
            "on_run_start" => {}
            "on_chunk" => {
                let index = usize::try_from(step.get("chunk").unwrap().as_u64().unwrap()).unwrap();
                let line = golden.list("native_chunks")[index].to_text();
                run.line(line.as_bytes()).unwrap();
            }
            "on_stream_end" if asked.is_some() || failing => {}
            "on_stream_end" => {
                run.line(br#"{"kind":"end","state":{"head":"h","interrupts":[],"next":[]}}"#).unwrap();
            }
            "on_run_finish" => {}
            "on_input_required" => {
                let line = format!(
                    r#"{{"kind":"end","state":{{"head":"h","interrupts":{}}}}}"#,
                    interrupts(args.unwrap())
                );
                run.line(line.as_bytes()).unwrap();
            }
            "on_warning" => {
                let code = step
                    .str("canonical_code")
                    .map_or("mcp_server_unavailable".to_owned(), |c| c.lossy().into_owned());
                let path = step.list("canonical_namespace").iter().filter_map(|e| e.as_str());
                let path = path.map(|e| InvocationId::new(e.lossy().into_owned()).unwrap()).collect();
                run.engine(EventDraft::at(
                    path,
                    Warning {
                        code: Code::new(code).unwrap(),
                        message: text(args.unwrap(), "message").into(),
                        details: Some(JsonObject::EMPTY),
                    },
                ));
            }
            "on_run_error" => fail(&mut run, step),
            "cancel" => run.line(br#"{"kind":"cancelled","state":{}}"#).unwrap(),
            other => panic!("unknown step {other}"),
        }
    }
    run
}

/// What the coordinator does when the engine fails a run.
fn fail(run: &mut Run, step: &Json<'_>) {
    let args = step.get("args").unwrap();
    if text(args, "code") == "thread_durability_uncertain" {
        // The refused commit came after the regular end: what the adapter made of it stays, but for the terminal.
        run.adapter_end_without_terminal();
    }
    let started = run.drafts.iter().filter(|d| matches!(d.data, EventData::ToolStarted(_))).count();
    let (open, _) = run.left_open();
    let status = match (started, open.len()) {
        (0, _) => SideEffectStatus::None,
        (_, 0) => SideEffectStatus::Known,
        _ => SideEffectStatus::Possible,
    };
    let code = step.str("canonical_code").or_else(|| args.str("code"));
    let code = code.map_or("agent_execution_failed".to_owned(), |code| code.lossy().into_owned());
    run.engine(EventDraft::root(RunError {
        code: Code::new(code).unwrap(),
        message: text(args, "message").into(),
        retryable: false,
        retry_after_seconds: None,
        side_effect_status: status,
    }));
}

/// An event with what the comparison leaves out made equal, ids numbered by their first appearance.
fn comparable(
    namespace: &Namespace<'static>,
    data: &EventData<'static>,
    seen: &mut BTreeMap<String, usize>,
) -> Option<String> {
    let mut json = Vec::new();
    match data {
        EventData::ProviderMetadata(_) => return None, // the goldens invent one that no native chunk carries
        EventData::RunStarted(_) => json.extend(b"{}"),
        EventData::RunFinished(end) => {
            let mut end = end.clone();
            end.thread_state = None;
            EventData::RunFinished(end).write_json(&mut json);
        }
        other => other.write_json(&mut json),
    }
    let json = String::from_utf8(json).unwrap();
    let parsed = Json::parse(json.as_bytes()).unwrap();
    let mut shown = json.clone();
    for key in ["message_id", "parent_message_id", "interrupt_id"] {
        if let Some(id) = parsed.str(key) {
            let space = if key == "interrupt_id" { "i" } else { "m" };
            let next = seen.len();
            let number = *seen.entry(format!("{space}{}", id.lossy())).or_insert(next);
            let id = Json::String(id.clone()).to_text();
            shown = shown.replacen(&format!("\"{key}\":{id}"), &format!("\"{key}\":{number}"), 1);
        }
    }
    Some(format!("{} {namespace:?} {shown}", data.event_type()))
}

fn check(name: &str, known: bool) {
    let file = std::fs::read(data("goldens").join(name)).unwrap();
    let golden = Json::parse(&file).unwrap();
    let run = play(&golden, known);
    let mut seen = BTreeMap::new();
    let ours: Vec<_> =
        run.drafts.iter().filter_map(|d| comparable(&d.namespace, &d.data, &mut seen)).collect();
    let mut seen = BTreeMap::new();
    let expected: Vec<_> = golden
        .list("canonical_events")
        .iter()
        .filter_map(|event| {
            let line = event.to_text();
            let event = decode_line(line.as_bytes(), &Limits::DEFAULT).unwrap().into_owned();
            comparable(&event.namespace, &event.data, &mut seen)
        })
        .collect();
    assert_eq!(ours, expected, "{name}");
}

#[test]
fn the_native_chunks_of_every_golden_give_its_canonical_events() {
    let mut names: Vec<_> = std::fs::read_dir(data("goldens"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 44);
    for name in names {
        check(&name, true);
        check(&name, false); // the decisions inferred
    }
}

impl Run {
    fn adapter_end_without_terminal(&mut self) {
        use causeway_adapter::adapter::{Adapter as _, Output};
        self.adapter.handle(br#"{"kind":"end","state":{"head":"h","interrupts":[],"next":[]}}"#).unwrap();
        while let Some(output) = self.adapter.poll() {
            if let Output::Draft(draft) = output
                && !draft.data.is_terminal()
            {
                self.engine(draft);
            }
        }
    }
}
