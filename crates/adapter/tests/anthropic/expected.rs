//! Every recording says what its `index.json` expects, by the comparison rules that come with the recordings.

use causeway_adapter::json::Json;
use causeway_contract::event::{EventData, EventDraft, InterruptRequest, NamespaceOutcome};

use crate::support::{Recording, Run, options, play, recordings};

pub fn matches(expected: &str, given: &str) -> bool {
    match (expected.strip_prefix('*'), expected.strip_suffix('*')) {
        _ if expected == "*" => true,
        (Some(middle), Some(_)) => given.contains(middle.trim_end_matches('*')),
        (Some(end), None) => given.ends_with(end),
        (None, Some(start)) => given.starts_with(start),
        (None, None) => given == expected,
    }
}

pub fn terminal(run: &Run) -> &'static str {
    match run.terminal() {
        Some(EventData::RunFinished(_)) => "success",
        Some(EventData::RunInterrupted(_)) => "interrupt",
        Some(EventData::RunCancelled(_)) => "cancelled",
        Some(EventData::RunError(_)) | None => "error", // without one it is R12, which the coordinator converts
        Some(other) => panic!("{other:?} is no terminal"),
    }
}

/// The root's text after its last tool call; of calls left to the caller, the text before counts.
fn final_text(run: &Run, callers: bool) -> String {
    let mut text = String::new();
    // Of a graph it is the text of the last node.
    let last = run.drafts.iter().rev().find_map(|draft| match &draft.data {
        EventData::NamespaceExited(exit) if exit.parent_tool_call_id.as_str().starts_with("node:") => {
            Some(&draft.namespace)
        }
        _ => None,
    });
    if let Some(node) = last {
        for draft in run.drafts.iter().filter(|draft| draft.namespace == *node) {
            if let EventData::TextDelta(piece) = &draft.data {
                text.push_str(&piece.delta);
            }
        }
        return text;
    }
    for draft in run.drafts.iter().filter(|draft| draft.namespace.is_root()) {
        match &draft.data {
            EventData::ToolStarted(_) if !callers => text.clear(),
            EventData::TextDelta(piece) => text.push_str(&piece.delta),
            _ => {}
        }
    }
    text
}

fn all(runs: &[Run]) -> impl Iterator<Item = &EventDraft<'static>> {
    runs.iter().flat_map(|run| &run.drafts)
}

fn same(ours: &str, expected: &Json<'_>) -> bool {
    Json::parse(ours.as_bytes()).unwrap().same(expected)
}

fn parent(draft: &EventDraft<'_>) -> Option<String> {
    let call = draft.namespace.path().last().map(|call| call.as_str().to_owned());
    call.filter(|call| !call.starts_with("node:"))
}

fn check_calls(name: &str, runs: &[Run], expected: &Json<'_>) {
    let mut started: Vec<&str> = Vec::new();
    for draft in all(runs) {
        if let EventData::ToolStarted(call) = &draft.data {
            let id = call.tool_call_id.as_str();
            if !id.starts_with("node:") && !started.contains(&id) {
                started.push(id);
            }
        }
    }
    let named: Vec<&str> = expected.list("tool_calls").iter().map(|call| call.text("id").unwrap()).collect();
    assert_eq!(started, named, "{name}: calls");
    for call in expected.list("tool_calls") {
        let id = call.text("id").unwrap();
        let mut starts = Vec::new();
        let mut ends = Vec::new();
        for draft in all(runs) {
            match &draft.data {
                EventData::ToolStarted(start) if start.tool_call_id.as_str() == id => {
                    starts.push((draft, start));
                }
                EventData::ToolFinished(end) if end.tool_call_id.as_str() == id => ends.push(&draft.data),
                EventData::ToolError(end) if end.tool_call_id.as_str() == id => ends.push(&draft.data),
                _ => {}
            }
        }
        let (draft, start) = starts[0];
        assert_eq!(start.tool_name.as_str(), call.text("name").unwrap(), "{name}: {id}");
        assert!(same(start.arguments.as_str(), call.get("args").unwrap()), "{name}: {id}: {start:?}");
        assert_eq!(parent(draft).as_deref(), call.text("parent_tool_call_id"), "{name}: {id}");
        if starts.len() > 1 {
            let wanted = call.get("executed_args").or_else(|| call.get("args")).unwrap();
            assert!(same(starts[1].1.arguments.as_str(), wanted), "{name}: {id}: {:?}", starts[1]);
        }
        match (ends.as_slice(), call.str("result"), call.str("error")) {
            ([], None, None) => {}
            ([EventData::ToolFinished(end)], Some(result), None) => {
                assert!(matches(&result.lossy(), &end.result), "{name}: {id}: {}", end.result);
            }
            ([EventData::ToolError(end)], None, Some(error)) => {
                assert!(matches(&error.lossy(), &end.message), "{name}: {id}: {}", end.message);
            }
            other => panic!("{name}: {id}: {other:?}"),
        }
    }
}

fn check_interrupts(name: &str, runs: &[Run], expected: &Json<'_>) {
    let mut wanted = expected.list("interrupts").iter();
    for run in runs {
        let asked = run.drafts.iter().find_map(|draft| match &draft.data {
            EventData::InterruptRequested(asked) => Some(&asked.request),
            _ => None,
        });
        let Some(asked) = asked else { continue };
        let expected = wanted.next().unwrap();
        match asked {
            InterruptRequest::Approvals(approvals) => {
                assert_eq!(expected.text("type"), Some("tool_approval"), "{name}");
                assert_eq!(approvals.len(), expected.list("tools").len(), "{name}");
                for (approval, tool) in approvals.iter().zip(expected.list("tools")) {
                    assert_eq!(Some(approval.tool_call_id.as_str()), tool.text("tool_call_id"), "{name}");
                    assert_eq!(Some(approval.tool_name.as_str()), tool.text("name"), "{name}");
                    assert!(same(approval.tool_args.as_str(), tool.get("args").unwrap()), "{name}");
                }
            }
            InterruptRequest::Form { prompt, fields } if expected.text("type") == Some("other") => {
                assert_eq!(fields.len(), 1, "{name}");
                assert_eq!(fields[0].field_name.as_str(), "answer", "{name}");
                let value = expected.get("value").unwrap();
                assert_eq!(Some(&**prompt), value.text("question"), "{name}");
            }
            InterruptRequest::Form { prompt, fields } if expected.text("type") == Some("form") => {
                assert_eq!(Some(&**prompt), expected.text("prompt"), "{name}");
                let names: Vec<_> = fields.iter().map(|field| field.field_name.as_str()).collect();
                let wanted: Vec<_> =
                    expected.list("fields").iter().filter_map(|field| field.as_str()?.as_plain()).collect();
                assert_eq!(names, wanted, "{name}");
            }
            InterruptRequest::Form { fields, .. } => {
                assert_eq!(expected.text("type"), Some("form_input"), "{name}");
                let open = run.left().open_calls;
                assert!(
                    open.iter().any(|call| Some(call.id.as_str()) == expected.text("tool_call_id")),
                    "{name}"
                );
                assert_eq!(fields.len(), expected.list("fields").len(), "{name}");
                for (field, question) in fields.iter().zip(expected.list("fields")) {
                    let object = Json::parse(field.object.as_str().as_bytes()).unwrap();
                    assert_eq!(object.text("field_name"), question.text("question"), "{name}");
                    let many = question.get("multiSelect") == Some(&Json::Bool(true));
                    assert_eq!(
                        object.text("field_type"),
                        Some(if many { "multiselect" } else { "select" }),
                        "{name}"
                    );
                    assert_eq!(object.get("required"), Some(&Json::Bool(true)), "{name}");
                    let labels: Vec<_> =
                        question.list("options").iter().filter_map(|option| option.get("label")).collect();
                    assert_eq!(object.list("field_values").iter().collect::<Vec<_>>(), labels, "{name}");
                    for (key, value) in question.members() {
                        assert!(
                            object.get(&key.lossy()).is_some_and(|kept| kept.same(value)),
                            "{name}: {key:?}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(wanted.next(), None, "{name}: interrupts");
}

fn check_subagents(name: &str, runs: &[Run], expected: &Json<'_>) {
    let mut found = Vec::new();
    for draft in all(runs) {
        if let EventData::NamespaceEntered(entered) = &draft.data {
            found.push((entered.agent_id.as_str(), entered.parent_tool_call_id.as_str()));
        }
    }
    let call_of = |agent: &Json<'_>| match agent.text("parent_tool_call_id") {
        Some(call) => call.to_owned(),
        None => format!("node:{}", agent.text("name").unwrap()),
    };
    let wanted: Vec<(&str, String)> = expected
        .list("subagents")
        .iter()
        .map(|agent| (agent.text("name").unwrap(), call_of(agent)))
        .collect();
    let mut ours: Vec<(&str, String)> =
        found.iter().map(|(name, call)| (*name, (*call).to_owned())).collect();
    let mut sorted = wanted.clone();
    if wanted.iter().any(|(_, call)| call.starts_with("node:")) {
        // Nodes that run in parallel start in any order.
        ours.sort();
        sorted.sort();
    }
    assert_eq!(ours, sorted, "{name}: subagents");
    for agent in expected.list("subagents") {
        let call = call_of(agent);
        let call = call.as_str();
        let (mut text, mut outcome) = (String::new(), None);
        for draft in all(runs) {
            match &draft.data {
                EventData::TextDelta(piece)
                    if draft.namespace.path().last().is_some_and(|element| element.as_str() == call) =>
                {
                    text.push_str(&piece.delta);
                }
                EventData::NamespaceExited(exit) if exit.parent_tool_call_id.as_str() == call => {
                    outcome = Some(exit.outcome);
                }
                _ => {}
            }
        }
        assert!(matches(agent.text("text").unwrap(), &text), "{name}: {call}: {text}");
        assert_eq!(outcome.map(NamespaceOutcome::as_str), agent.text("outcome"), "{name}: {call}");
    }
}

fn check(recording: &Recording, runs: &[Run]) {
    let Recording { name, expected, .. } = recording;
    let expected = &Json::parse(expected.as_bytes()).unwrap();
    let words = |key| -> Vec<String> {
        expected.list(key).iter().map(|text| text.as_str().unwrap().lossy().into_owned()).collect()
    };
    let terminals: Vec<&str> = runs.iter().map(terminal).collect();
    let wanted = match words("turns") {
        turns if turns.is_empty() => vec![expected.text("terminal").unwrap().to_owned()],
        turns => turns,
    };
    assert_eq!(terminals, wanted, "{name}");
    let callers = !["claude-agent-sdk", "strands", "openai-agents", "agui"].contains(&recording.harness);
    let texts: Vec<String> = runs.iter().map(|run| final_text(run, callers)).collect();
    assert!(matches(expected.text("final_text").unwrap(), texts.last().unwrap()), "{name}: {texts:?}");
    if expected.get("final_texts").is_some() {
        assert_eq!(texts, words("final_texts"), "{name}");
    }
    let mut reasoning = String::new();
    for draft in all(runs) {
        if let EventData::ReasoningDelta(piece) = &draft.data {
            reasoning.push_str(&piece.delta);
        }
    }
    assert_eq!(reasoning, expected.text("reasoning").unwrap_or_default(), "{name}");
    check_calls(name, runs, expected);
    check_interrupts(name, runs, expected);
    check_subagents(name, runs, expected);
    if let Some(retryable) = expected.get("retryable") {
        let Some(EventData::RunError(error)) = runs.last().unwrap().terminal() else { panic!("{name}") };
        assert_eq!(&Json::Bool(error.retryable), retryable, "{name}");
    }
}

#[test]
fn every_recording_says_what_its_index_expects() {
    for recording in recordings() {
        check(&recording, &play(recording.harness, &recording.lines, &recording.sent, &options()));
    }
}

#[test]
fn streamed_arguments_join_to_the_ones_that_were_expected() {
    let options = options().stream_arguments(true);
    for recording in recordings() {
        let runs = play(recording.harness, &recording.lines, &recording.sent, &options);
        let expected = Json::parse(recording.expected.as_bytes()).unwrap();
        for call in expected.list("tool_calls") {
            let id = call.text("id").unwrap();
            let mut joined = String::new();
            for draft in &runs[0].drafts {
                match &draft.data {
                    EventData::ToolStarted(start)
                        if start.tool_call_id.as_str() == id && !start.arguments.is_empty() =>
                    {
                        joined.push_str(start.arguments.as_str());
                    }
                    EventData::ToolArgumentsDelta(piece) if piece.tool_call_id.as_str() == id => {
                        joined.push_str(&piece.delta);
                    }
                    _ => {}
                }
            }
            assert!(same(&joined, call.get("args").unwrap()), "{}: {id}: {joined}", recording.name);
        }
    }
}
