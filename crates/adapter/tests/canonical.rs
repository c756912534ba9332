//! The adapter for canonical events against the recording of the template worker, and against what breaks the contract.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data and fail loudly

use causeway_adapter::adapter::{Adapter, Close, ItemError, Output};
use causeway_adapter::ids::SeededIds;
use causeway_adapter::recording::turns;
use causeway_adapter::registry;
use causeway_adapter::turn::{OpenCall, Options, Resume, Turn};
use causeway_adapter::worker::Op;
use causeway_contract::event::{EventData, EventDraft, NamespaceOutcome};
use causeway_contract::id::Name;

const RECORDING: &[u8] = include_bytes!("../../../tests/data/recordings/canonical/template.jsonl");

fn adapter(turn: Turn) -> Box<dyn Adapter> {
    let options = Options::new(Name::new("agent").unwrap());
    registry::find("canonical").unwrap().adapter(turn, options, Box::new(SeededIds::new(1)))
}

#[derive(Default)]
struct Ran {
    drafts: Vec<EventDraft<'static>>,
    private: Option<String>,
}

fn play(turn: Turn, lines: &[&[u8]]) -> Result<Ran, ItemError> {
    let (mut adapter, mut ran) = (adapter(turn), Ran::default());
    for line in lines {
        adapter.handle(line)?;
    }
    adapter.close(Close::End);
    while let Some(output) = adapter.poll() {
        match output {
            Output::Draft(draft) => ran.drafts.push(draft),
            Output::State(state) => ran.private = Some(state.private),
            Output::Result(_) => {}
        }
    }
    Ok(ran)
}

fn gist(drafts: &[EventDraft<'_>]) -> String {
    let words = drafts.iter().map(|draft| {
        let mut word = draft.data.event_type().as_str().to_owned();
        match &draft.data {
            EventData::ToolError(end) => word.push_str(&format!("({})", end.code)),
            EventData::ToolStarted(start) => word.push_str(start.arguments.as_str()),
            EventData::RunError(error) => word.push_str(&format!("({})", error.code)),
            _ => {}
        }
        word
    });
    words.collect::<Vec<_>>().join(" ")
}

fn left(ran: &Ran) -> Resume {
    let mut resume = Resume { private: ran.private.clone(), ..Resume::default() };
    for draft in &ran.drafts {
        match &draft.data {
            EventData::ToolStarted(call) => resume.open_calls.push(OpenCall {
                id: call.tool_call_id.clone(),
                name: call.tool_name.clone(),
                arguments: call.arguments.clone(),
                namespace: draft.namespace.clone(),
            }),
            EventData::NamespaceExited(exit) if exit.outcome == NamespaceOutcome::Interrupted => {
                resume.delegations.push(exit.parent_tool_call_id.clone());
            }
            EventData::ToolFinished(end) => resume.open_calls.retain(|call| call.id != end.tool_call_id),
            _ => {}
        }
    }
    resume
}

#[test]
fn the_template_worker_s_turns_are_told_whole() {
    let mut told: Vec<String> = Vec::new();
    let mut last = Ran::default();
    let options = Options::new(Name::new("agent").unwrap());
    for turn in turns(RECORDING.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())) {
        let start = match turn.head.op {
            Op::Resume => {
                let mut resume = left(&last);
                let private = resume.private.clone().unwrap();
                let value = turn.head.resume.clone().unwrap();
                let found = registry::find("canonical").unwrap();
                resume.answer = found.answer_of(&private, value.as_bytes(), &options);
                let again = found.resume_value(&private, resume.answer.as_ref().unwrap()).unwrap();
                assert_eq!(again, value, "the value reads back");
                Turn::Resume(resume)
            }
            Op::Run | Op::Continue => Turn::Start,
        };
        last = play(start, &turn.lines).unwrap();
        told.push(gist(&last.drafts));
    }
    let text = "text.started text.delta text.finished";
    let finished = format!("run.started {text} run.finished");
    let asked =
        format!("run.started {text} tool.started{{\"name\":\"api\"}} interrupt.requested run.interrupted");
    let form = "run.started interrupt.requested run.interrupted".to_owned();
    assert_eq!(
        told,
        [
            finished.clone(),
            format!("run.started reasoning.started reasoning.delta reasoning.finished {text} run.finished"),
            format!(
                "run.started tool.started{{}} tool.arguments.delta tool.arguments.delta tool.finished {text} \
                 usage.updated run.finished"
            ),
            format!(
                "run.started tool.started{{\"city\":\"Atlantis\"}} tool.error(tool_error) {text} run.finished"
            ),
            format!(
                "run.started tool.started{{\"what\":\"compare\"}} namespace.entered \
                 tool.started{{\"city\":\"Oslo\"}} tool.finished {text} namespace.exited tool.finished {text} \
                 run.finished"
            ),
            asked.clone(),
            format!("run.started tool.started{{\"name\":\"api\"}} tool.finished {text} run.finished"),
            asked.clone(),
            format!("run.started tool.started{{\"name\":\"db\"}} tool.finished {text} run.finished"),
            asked,
            format!(
                "run.started tool.started{{\"name\":\"api\"}} tool.error(tool_rejected) {text} run.finished"
            ),
            form.clone(),
            finished.clone(),
            form,
            finished.clone(),
            format!("run.started {text} tool.started{{\"seconds\":30}} run.cancelled"),
            finished,
            "run.started run.error(agent_execution_failed)".to_owned(),
        ]
    );
}

/// The rule that refuses a turn of these events.
fn verdict(events: &[&str]) -> String {
    let lines: Vec<String> = events
        .iter()
        .map(|event| format!(r#"{{"kind":"chunk","run_id":"r","event":{event}}}"#))
        .chain([r#"{"kind":"end","run_id":"r","state":{"head":"h","interrupts":[]}}"#.to_owned()])
        .collect();
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    match play(Turn::Start, &lines) {
        Ok(ran) => gist(&ran.drafts),
        Err(ItemError::Refused { rule, .. }) => rule,
        Err(other) => other.to_string(),
    }
}

#[test]
fn what_breaks_the_contract_is_refused_by_its_rule() {
    let start = r#"{"type":"tool.started","data":{"tool_call_id":"c","tool_name":"t","arguments":{}}}"#;
    let end = r#"{"type":"tool.finished","data":{"tool_call_id":"c","result":"x"}}"#;
    let fail = r#"{"type":"tool.error","data":{"tool_call_id":"c","code":"tool_error","message":"m","retryable":false}}"#;
    let enter = r#"{"type":"namespace.entered","namespace":["c"],"data":{"agent_id":"a","agent_name":"A","parent_tool_call_id":"c"}}"#;
    let finished = r#"{"type":"run.finished","data":{"outcome":"success"}}"#;
    for (events, expected) in [
        (&[r#"{"type":"text.delta","data":{"message_id":"m","delta":"x"}}"#][..], "R05"),
        (&[start, end, end], "R06"),
        (&[start, end, fail], "R07"),
        (&[start, enter, end], "R10"),
        (&[finished, start], "R04"),
        (&[r#"{"type":"text.shouted","data":{}}"#], "envelope"),
        (&[r#"{"type":"text.started","data":{"message_id":"m","role":"user"}}"#], "payload"),
        (&[r#"{"type":"text.started","data":{"message_id":"m","role":"assistant","more":1}}"#], "payload"),
        (&[r#"{"type":"text.started","data":{"message_id":"","role":"assistant"}}"#], "payload"),
        (&[r#"{"data":{}}"#], "envelope"),
        (&[start], "run.started tool.started{} run.error(agent_execution_failed)"),
    ] {
        assert_eq!(verdict(events), expected, "{events:?}");
    }
}

#[test]
fn words_of_errors_and_warnings_are_ours() {
    let lines = [
        r#"{"kind":"chunk","run_id":"r","event":{"type":"warning","data":{"code":"odd","message":"CANARY","details":{"CANARY":1}}}}"#,
        r#"{"kind":"chunk","run_id":"r","event":{"type":"provider.metadata","data":{"provider":"p","model":"m","metadata":{"finish_reason":"stop","note":"CANARY"}}}}"#,
        r#"{"kind":"chunk","run_id":"r","event":{"type":"run.error","data":{"code":"provider_rate_limited","message":"CANARY","retryable":false,"side_effect_status":"none"}}}"#,
    ];
    let ran = play(Turn::Start, &lines.map(str::as_bytes)).unwrap();
    assert_eq!(gist(&ran.drafts), "run.started warning provider.metadata run.error(provider_rate_limited)");
    let told = format!("{:?}", ran.drafts);
    assert!(!told.contains("CANARY") && told.contains("finish_reason"), "{told}");
}

#[test]
fn bare_envelopes_with_their_own_terminal_are_a_run_too() {
    let lines = [
        r#"{"version":1,"type":"run.started","run_id":"x","conversation_id":"y","sequence":0,"timestamp":"2026-08-17T00:00:00Z","namespace":[],"data":{"harness_id":"mine","adapter_version":"1"}}"#,
        r#"{"version":1,"type":"run.finished","run_id":"x","conversation_id":"y","sequence":1,"timestamp":"2026-08-17T00:00:00Z","namespace":[],"data":{"outcome":"success","stop_reason":"end_turn","thread_state":{"durability":"committed","durable_revision":3,"head_ref":"h3"}}}"#,
    ];
    let ran = play(Turn::Start, &lines.map(str::as_bytes)).unwrap();
    assert_eq!(gist(&ran.drafts), "run.started run.finished");
    assert_eq!(ran.private.as_deref(), Some("{}"));
    let cut = play(Turn::Start, &[lines[0].as_bytes()]).unwrap();
    assert_eq!(gist(&cut.drafts), "run.started", "no terminal is invented");
}
