//! Every recording says what its `index.json` expects, as lines and as raw bytes.

use causeway_adapter::json::Json;
use causeway_contract::event::EventData;

use crate::support::{CONVERSE, Recording, Run, options, play, recordings};

fn check(recording: &Recording, runs: &[Run], what: &str) {
    let name = &format!("{} {what}", recording.name);
    let expected = &Json::parse(recording.expected.as_bytes()).unwrap();
    let last = runs.last().unwrap();
    // Without a terminal it is R12, which the coordinator converts.
    let terminal = if last.finished() { "success" } else { "error" };
    assert_eq!(Some(terminal), expected.text("terminal"), "{name}: {:?}", last.end());
    for run in &runs[..runs.len() - 1] {
        assert!(run.finished(), "{name}");
    }
    // The text after the last tool call of the last turn.
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for (n, run) in runs.iter().enumerate() {
        for draft in &run.drafts {
            assert!(draft.namespace.is_root(), "{name}");
            match &draft.data {
                EventData::ToolStarted(start) => {
                    calls.push((start, None));
                    text.clear();
                }
                EventData::ToolFinished(end) => {
                    let call =
                        calls.iter_mut().find(|(start, _)| start.tool_call_id == end.tool_call_id).unwrap();
                    call.1 = Some(end.result.to_string());
                }
                EventData::ToolError(end) => panic!("{name}: {end:?}"),
                EventData::TextDelta(piece) if n == runs.len() - 1 => text.push_str(&piece.delta),
                EventData::ReasoningDelta(piece) => reasoning.push_str(&piece.delta),
                EventData::InterruptRequested(_) | EventData::NamespaceEntered(_) => {
                    panic!("{name}: {draft:?}")
                }
                _ => {}
            }
        }
    }
    let plain = recording.name == "runtime_app_text";
    let text = if plain { text.strip_prefix("Let me check. ").unwrap() } else { &text };
    assert_eq!(Some(text), expected.text("final_text"), "{name}");
    assert_eq!(reasoning, expected.text("reasoning").unwrap_or_default(), "{name}");
    assert_eq!(calls.len(), expected.list("tool_calls").len(), "{name}");
    for ((start, result), wanted) in calls.iter().zip(expected.list("tool_calls")) {
        assert_eq!(Some(start.tool_call_id.as_str()), wanted.text("id"), "{name}");
        assert_eq!(Some(start.tool_name.as_str()), wanted.text("name"), "{name}");
        let arguments = Json::parse(start.arguments.as_str().as_bytes()).unwrap();
        assert!(arguments.same(wanted.get("args").unwrap()), "{name}: {arguments:?}");
        assert_eq!(result.as_deref(), wanted.text("result"), "{name}");
    }
    if let Some(retryable) = expected.get("retryable") {
        let Some(EventData::RunError(error)) = last.terminal() else { panic!("{name}") };
        assert_eq!(&Json::Bool(error.retryable), retryable, "{name}");
    }
    if expected.text("stop") == Some("max_tokens") {
        assert_eq!(last.end().as_deref(), Some("success max_tokens"), "{name}");
    }
}

fn lines(recording: &Recording) -> Vec<Run> {
    let (runs, refused) = play(recording.harness, &recording.lines, &options());
    assert_eq!(refused, None, "{}", recording.name);
    runs
}

#[test]
fn every_recording_says_what_its_index_expects() {
    for recording in recordings() {
        check(&recording, &lines(&recording), "lines");
    }
}

#[test]
fn raw_streams_say_the_same_as_recorded_lines() {
    for recording in recordings() {
        let mut raw = Vec::new();
        for stream in &recording.raw {
            let (runs, refused) = play(recording.harness, stream, &options());
            assert_eq!((runs.len(), refused), (1, None), "{}", recording.name);
            raw.extend(runs);
        }
        check(&recording, &raw, "raw");
        for (raw, recorded) in raw.iter().zip(lines(&recording)) {
            if raw.finished() {
                assert_eq!(raw.text(), recorded.text(), "{}", recording.name);
            } else {
                // A client words the end of a broken stream in its own way.
                let before = |run: &Run| {
                    run.drafts.iter().filter(|it| !it.data.is_terminal()).cloned().collect::<Vec<_>>()
                };
                assert_eq!(before(raw), before(&recorded), "{}", recording.name);
            }
        }
    }
}

#[test]
fn frames_may_come_in_pieces_of_any_size() {
    for recording in recordings() {
        for stream in recording.raw.iter().filter(|stream| stream.first() == Some(&0)) {
            let whole = play(recording.harness, stream, &options()).0.remove(0);
            for size in [1, 7, 64] {
                let mut run = Run::new(recording.harness, options());
                for piece in stream.chunks(size) {
                    run.item(piece).unwrap();
                }
                assert_eq!(run.close().text(), whole.text(), "{}: {size}", recording.name);
            }
        }
    }
}

#[test]
fn each_end_is_typed() {
    let ends: Vec<(String, Option<String>)> = recordings()
        .iter()
        .map(|recording| (recording.name.clone(), lines(recording).last().unwrap().end()))
        .filter(|(_, end)| end.as_deref() != Some("success end_turn"))
        .collect();
    let wanted = [
        ("converse_cut", Some("provider_stream_broken")),
        ("converse_max_tokens", Some("success max_tokens")),
        ("converse_no_stop", None),
        ("converse_throttled_mid", Some("provider_rate_limited")),
        ("converse_tools_parallel", Some("success tool_use")),
        ("harness_runtime_error", Some("agent_execution_failed")),
        ("harness_timeout", Some("agent_time_limit")),
    ];
    let wanted: Vec<_> = wanted.map(|(name, end)| (name.to_owned(), end.map(str::to_owned))).into();
    assert_eq!(ends, wanted);
    for name in ["converse_tool", "harness_client_tool"] {
        let all = recordings();
        let runs = lines(all.iter().find(|recording| recording.name == name).unwrap());
        assert_eq!(runs[0].end().as_deref(), Some("success tool_use"), "{name}: the caller's turn");
    }
}

#[test]
fn streamed_arguments_join_to_the_ones_that_were_expected() {
    for recording in recordings() {
        let (runs, _) = play(recording.harness, &recording.lines, &options().stream_arguments(true));
        for call in Json::parse(recording.expected.as_bytes()).unwrap().list("tool_calls") {
            let mut joined = String::new();
            for draft in runs.iter().flat_map(|run| &run.drafts) {
                if let EventData::ToolArgumentsDelta(piece) = &draft.data
                    && Some(piece.tool_call_id.as_str()) == call.text("id")
                {
                    joined.push_str(&piece.delta);
                }
            }
            let joined = Json::parse(joined.as_bytes()).unwrap();
            assert!(joined.same(call.get("args").unwrap()), "{}: {joined:?}", recording.name);
        }
    }
}

#[test]
fn totals_add_up_over_the_calls_of_a_run() {
    for recording in recordings() {
        let runs = lines(&recording);
        let totals = runs.last().unwrap().drafts.iter().rev().find_map(|draft| match &draft.data {
            EventData::UsageUpdated(usage) => Some((usage.input_tokens, usage.output_tokens, usage.is_final)),
            _ => None,
        });
        let known = |input, output| Some((Some(input), Some(output), true));
        let wanted = match recording.name.as_str() {
            "converse_text" => known(10, 6),
            "converse_tool" => known(40, 6),
            "converse_max_tokens" => known(9, 4),
            "converse_tools_parallel" => known(9, 9),
            "harness_text" => known(12, 6),
            "harness_tool" => known(50, 22),
            "harness_timeout" => known(10, 9),
            "harness_client_tool" => known(30, 5),
            "runtime_app_all" => known(20, 10),
            _ => None,
        };
        assert_eq!(totals, wanted, "{}", recording.name);
        if recording.harness == CONVERSE {
            let told = runs[0].drafts.iter().find_map(|draft| match &draft.data {
                EventData::ProviderMetadata(told) => Some((told.model.as_str(), told.metadata.as_str())),
                _ => None,
            });
            assert_eq!(told.is_some(), totals.is_some(), "{}", recording.name);
            if recording.name == "converse_text" {
                assert_eq!(told, Some(("unknown", r#"{"finish_reason":"end_turn","latency_ms":120}"#)));
            }
        }
    }
}
