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
    draft.namespace.path().last().map(|call| call.as_str().to_owned())
}

fn check_calls(name: &str, runs: &[Run], expected: &Json<'_>) {
    let mut started: Vec<&str> = Vec::new();
    for draft in all(runs) {
        if let EventData::ToolStarted(call) = &draft.data {
            started.push(call.tool_call_id.as_str());
        }
    }
    started.dedup();
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
    let wanted: Vec<(&str, &str)> = expected
        .list("subagents")
        .iter()
        .map(|agent| (agent.text("name").unwrap(), agent.text("parent_tool_call_id").unwrap()))
        .collect();
    assert_eq!(found, wanted, "{name}: subagents");
    for agent in expected.list("subagents") {
        let call = agent.text("parent_tool_call_id").unwrap();
        let (mut text, mut outcome) = (String::new(), None);
        for draft in all(runs) {
            match &draft.data {
                EventData::TextDelta(piece) if parent(draft).as_deref() == Some(call) => {
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
    let callers = recording.harness == "anthropic-messages";
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

/// Input, output and cached input tokens, and whether they are final.
type Totals = (Option<u64>, Option<u64>, Option<u64>, bool);

/// The last totals of a run.
fn totals(run: &Run) -> Option<Totals> {
    run.drafts.iter().rev().find_map(|draft| match &draft.data {
        EventData::UsageUpdated(usage) => {
            Some((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.is_final))
        }
        _ => None,
    })
}

#[test]
fn totals_are_those_the_harness_reports_for_the_turn() {
    let last = |name: &str| -> Vec<_> {
        let recording = recordings().into_iter().find(|recording| recording.name == name).unwrap();
        play(recording.harness, &recording.lines, &recording.sent, &options()).iter().map(totals).collect()
    };
    let known = |input, output, cached| Some((Some(input), Some(output), Some(cached), true));
    assert_eq!(last("text_plain").len(), 1);
    assert_eq!(last("subagent"), [known(125, 30, 0)], "with the subagent");
    assert_eq!(last("sdk_subagent"), [known(125, 30, 0)]);
    assert_eq!(last("two_turns"), [known(5, 2, 0), known(9, 2, 0)], "of each turn, not of the session");
    assert_eq!(last("resume_new_process"), [known(5, 2, 0), known(19, 5, 0)]);
    assert_eq!(last("thinking"), [known(20, 12, 7)]);
    assert_eq!(last("approve"), [known(10, 5, 0), known(10, 5, 0)], "both runs together are the native turn");
    assert_eq!(last("ask_user_question"), [Some((Some(10), None, Some(0), true)), known(10, 10, 0)]);
    assert_eq!(last("messages_text"), [known(10, 6, 0)]);
    assert_eq!(
        last("messages_error_mid"),
        [Some((Some(10), None, Some(0), true))],
        "what is not known is not said"
    );
}
