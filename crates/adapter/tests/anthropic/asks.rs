//! Several requests for permission of the CLI that wait at the same time: one interrupt, an answer for each.

use causeway_adapter::claude_agent_sdk::HARNESS;
use causeway_adapter::turn::{Answer, Turn};
use causeway_contract::event::{Decision, EventData, InterruptRequest};

use crate::support::{Run, options, play};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1","model":"m"}"#;
const QUESTION: &str = r#"{"questions":[{"question":"Why?","options":[{"label":"a"},{"label":"b"}]}]}"#;

fn tool(id: &str, name: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"m","model":"m","content":[{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}]}}}}"#
    )
}

fn ask(id: &str, name: &str, input: &str) -> String {
    format!(
        r#"{{"type":"control_request","request_id":"r-{id}","request":{{"subtype":"can_use_tool","tool_name":"{name}","input":{input},"tool_use_id":"{id}"}}}}"#
    )
}

fn run(lines: &[String]) -> Run {
    let mut run = Run::new(HARNESS, Turn::Start, options());
    for line in [INIT.to_owned()].iter().chain(lines) {
        run.line(line.as_bytes()).unwrap();
    }
    run.close()
}

/// What a run asks: calls with their allowed decisions, or the names of fields.
fn asked(run: &Run) -> Vec<String> {
    let requests = run.drafts.iter().filter_map(|draft| match &draft.data {
        EventData::InterruptRequested(requested) => Some(&requested.request),
        _ => None,
    });
    let mut all = Vec::new();
    for request in requests {
        match request {
            InterruptRequest::Approvals(approvals) => all.extend(approvals.iter().map(|approval| {
                let allowed: Vec<_> = approval.allowed_decisions.iter().map(|one| one.as_str()).collect();
                format!("{} {}", approval.tool_call_id, allowed.join("|"))
            })),
            InterruptRequest::Form { prompt, fields } => {
                all.push(format!("form {prompt:?}"));
                all.extend(fields.iter().map(|field| field.field_name.as_str().to_owned()));
            }
        }
    }
    all
}

#[test]
fn a_recorded_pair_of_requests_is_one_interrupt_and_each_gets_its_own_answer() {
    let lines = include_bytes!("../streams/claude/parallel_asks.jsonl");
    let sent = include_bytes!("../streams/claude/parallel_asks.stdin.jsonl");
    let runs = play(HARNESS, lines, sent, &options());
    assert_eq!(runs.len(), 2);
    assert_eq!(asked(&runs[0]), ["toolu_r1 approve|edit|reject", "toolu_r2 approve|edit|reject"]);
    assert!(matches!(runs[0].terminal(), Some(EventData::RunInterrupted(_))));
    let ends: Vec<_> = runs[1]
        .drafts
        .iter()
        .filter_map(|draft| match &draft.data {
            EventData::ToolFinished(end) => Some(format!("{} {}", end.tool_call_id, end.result)),
            EventData::ToolError(end) => Some(format!("{} {} {}", end.tool_call_id, end.code, end.message)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, ["toolu_r2 tool_rejected not that one", "toolu_r1 1\ta\n2\t"]);
    assert!(matches!(runs[1].terminal(), Some(EventData::RunFinished(_))));
    assert!(asked(&runs[1]).is_empty());
}

#[test]
fn forms_are_joined_and_a_form_beside_an_approval_is_a_call_to_edit() {
    let forms = [
        tool("q1", "AskUserQuestion"),
        tool("q2", "AskUserQuestion"),
        ask("q1", "AskUserQuestion", QUESTION),
        ask("q2", "AskUserQuestion", QUESTION),
    ];
    assert_eq!(asked(&run(&forms)), ["form \"Why?\\n\\nWhy?\"", "Why?", "2.Why?"]);
    let mixed = [
        tool("q1", "AskUserQuestion"),
        tool("t1", "Write"),
        ask("t1", "Write", "{}"),
        ask("q1", "AskUserQuestion", QUESTION),
    ];
    let run = run(&mixed);
    assert_eq!(asked(&run), ["t1 approve|edit|reject", "q1 edit|reject"]);
    let private = &run.states.last().unwrap().private;
    let value = r#"[{"type":"control_response","response":{"request_id":"r-q1","response":{"behavior":"deny","message":"no"}}},
        {"type":"control_response","response":{"request_id":"r-t1","response":{"behavior":"allow","updatedInput":{"n":1}}}}]"#;
    let answer = causeway_adapter::claude_agent_sdk::answer_of(private, value.as_bytes(), &options());
    let Some(Answer::Decisions(decisions)) = answer else { panic!("{answer:?}") };
    let told: Vec<_> = decisions.iter().map(|one| (one.tool_call_id.as_str(), one.decision)).collect();
    assert_eq!(told, [("t1", Decision::Edit), ("q1", Decision::Reject)]);
}

#[test]
fn a_request_that_was_withdrawn_or_whose_call_has_ended_is_not_asked_about() {
    let done = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"done"}]}}"#;
    let withdrawn = r#"{"type":"control_cancel_request","request_id":"r-t1"}"#;
    let calls = [tool("t1", "Write"), tool("t2", "Write"), tool("t3", "Write")];
    let asks = ["t1", "t2", "t3"].map(|id| ask(id, "Write", "{}"));
    let ends = [withdrawn.to_owned(), done.to_owned()];
    let all: Vec<String> = calls.into_iter().chain(asks.clone()).chain(ends.clone()).collect();
    assert_eq!(asked(&run(&all)), ["t3 approve|edit|reject"]);
    let none: Vec<String> = all.into_iter().filter(|line| !line.contains("t3")).collect();
    let run = run(&none);
    assert!(asked(&run).is_empty() && run.terminal().is_none(), "{}", run.text());
}

#[test]
fn a_request_whose_process_is_gone_is_not_asked_about() {
    use causeway_adapter::{Adapter, Close, Output};
    let mut adapter = causeway_adapter::claude_agent_sdk::ClaudeAgentSdk::new(
        Turn::Start,
        options(),
        Box::new(causeway_adapter::ids::SeededIds::new(1)),
    );
    for line in [INIT.to_owned(), tool("t1", "Write"), ask("t1", "Write", "{}")] {
        adapter.handle(line.as_bytes()).unwrap();
    }
    adapter.close(Close::Broken);
    while let Some(output) = adapter.poll() {
        assert!(!matches!(output, Output::Draft(draft) if draft.data.is_terminal()));
    }
}
