//! What the recordings of the two APIs do not show: SSE text, cut arguments, the provider's own tools, errors, secrets.

use causeway_adapter::json::Json;
use causeway_adapter::openai::{chat, responses};
use causeway_adapter::turn::Turn;
use causeway_contract::event::EventData;

use crate::support::{Run, options, play, recording, recordings};

fn run_with(harness: &str, lines: &[&str], streamed: bool) -> Run {
    let mut run = Run::new(harness, Turn::Start, options().stream_arguments(streamed));
    for line in lines {
        run.line(line.as_bytes()).unwrap();
    }
    run.close()
}

fn run(harness: &str, lines: &[&str]) -> Run {
    run_with(harness, lines, false)
}

/// How a run ended: its stop reason or the code of its error; and its calls with how they ended.
fn gist(run: &Run) -> Vec<String> {
    let mut all = Vec::new();
    for draft in &run.drafts {
        match &draft.data {
            EventData::ToolStarted(call) => {
                all.push(format!("{} {} {}", call.tool_call_id, call.tool_name, call.arguments.as_str()));
            }
            EventData::ToolFinished(end) => all.push(format!("{} = {}", end.tool_call_id, end.result)),
            EventData::ToolError(end) => all.push(format!("{} ! {}", end.tool_call_id, end.code)),
            EventData::RunFinished(end) => all.push(end.stop_reason.as_deref().unwrap_or("?").to_owned()),
            EventData::RunError(end) => all.push(format!("{} {}", end.code, end.retryable)),
            EventData::RunCancelled(_) => all.push("cancelled".to_owned()),
            EventData::TextDelta(piece) => all.push(format!("\"{}\"", piece.delta)),
            EventData::ReasoningDelta(piece) => all.push(format!("({})", piece.delta)),
            _ => {}
        }
    }
    all
}

#[test]
fn sse_text_gives_the_events_of_the_recorded_lines() {
    for recording in recordings() {
        let mut sse = String::from(": comment\nretry: 3\n");
        for line in recording.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = Json::parse(line).unwrap();
            match line.text("kind") {
                Some("event") => {
                    sse.push_str(&format!("data: {}\r\n\r\n", line.get("event").unwrap().to_text()));
                }
                Some("end") => sse.push_str("data: [DONE]\n\n"),
                _ => {}
            }
        }
        let whole = run(recording.harness, &[&sse]).text();
        assert_eq!(
            run(recording.harness, &sse.split('\n').collect::<Vec<_>>()).text(),
            whole,
            "{}",
            recording.name
        );
        let recorded = play(recording.harness, &recording.lines, b"", &options());
        assert_eq!(recorded[0].text(), whole, "{}", recording.name);
    }
}

#[test]
fn totals_and_facts_of_the_provider_are_passed_on() {
    let last = |name: &str| {
        let recording = recording(name);
        let runs = play(recording.harness, &recording.lines, b"", &options());
        let mut found = (None, None);
        for draft in &runs[0].drafts {
            match &draft.data {
                EventData::UsageUpdated(usage) if usage.is_final => {
                    found.0 = Some((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens));
                }
                EventData::ProviderMetadata(said) => found.1 = Some(said.metadata.as_str().to_owned()),
                _ => {}
            }
        }
        found
    };
    let facts = |text: &str| Some(text.to_owned());
    assert_eq!(
        last("responses_text"),
        (
            Some((Some(10), Some(6), Some(0))),
            facts(r#"{"response_id":"resp_1","finish_reason":"completed","reasoning_tokens":0}"#)
        )
    );
    assert_eq!(
        last("chat_tools"),
        (
            Some((Some(10), Some(26), None)),
            facts(r#"{"finish_reason":"tool_calls","response_id":"chatcmpl-1"}"#)
        )
    );
    assert_eq!(last("responses_failed").0, None, "what is not known is not said");
}

const CREATED: &str =
    r#"{"type":"response.created","response":{"id":"r1","model":"m","status":"in_progress"}}"#;

fn done(index: u64, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#)
}

fn over(status: &str, more: &str) -> String {
    let kind = if status == "incomplete" { status } else { "completed" };
    format!(r#"{{"type":"response.{kind}","response":{{"id":"r1","status":"{status}"{more}}}}}"#)
}

#[test]
fn calls_of_every_kind_are_the_callers_or_the_providers() {
    let lines = [
        CREATED.to_owned(),
        done(0, r#"{"type":"web_search_call","id":"ws","status":"completed","action":{"query":"q"}}"#),
        done(1, r#"{"type":"mcp_call","id":"mc","name":"roll","arguments":"{\"n\":1}","output":"4"}"#),
        done(2, r#"{"type":"mcp_call","id":"md","name":"roll","arguments":"","error":"CANARY"}"#),
        done(3, r#"{"type":"code_interpreter_call","id":"ci","status":"completed","code":"1","outputs":[]}"#),
        done(4, r#"{"type":"shell_call","call_id":"sh","id":"x","action":{"commands":["ls"]}}"#),
        done(5, r#"{"type":"shell_call_output","call_id":"sh","output":"a.txt"}"#),
        done(6, r#"{"type":"mcp_list_tools","id":"l"}"#),
        done(7, r#"{"type":"custom_tool_call","call_id":"cu","name":"sql","input":"select 1"}"#),
        over("completed", ""),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let said = run(responses::HARNESS, &lines);
    assert_eq!(
        gist(&said),
        [
            r#"ws web_search {"action":{"query":"q"}}"#,
            "ws = ",
            r#"mc roll {"n":1}"#,
            "mc = 4",
            r#"md roll {"arguments":""}"#,
            "md ! tool_error",
            r#"ci code_interpreter {"code":"1"}"#,
            "ci = []",
            r#"sh shell {"action":{"commands":["ls"]}}"#,
            "sh = a.txt",
            r#"cu sql {"input":"select 1"}"#,
            "tool_use",
        ]
    );
    assert!(!said.text().contains("CANARY"));
    assert_eq!(
        gist(&run(responses::HARNESS, &[&lines[..7], &lines[9..]].concat())).last().unwrap(),
        "end_turn"
    );
}

#[test]
fn a_response_says_itself_what_was_not_streamed() {
    let output = r#","output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]},{"type":"message","content":[{"type":"output_text","text":"Hi."}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]"#;
    let whole = over("completed", output);
    assert_eq!(gist(&run(responses::HARNESS, &[&whole])), ["(Hm.)", "\"Hi.\"", "c f {}", "tool_use"]);
}

#[test]
fn arguments_that_were_cut_never_make_a_call_that_could_run() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#;
    let piece = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\": \"b"}"#;
    let cut = done(
        0,
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\": \"b","status":"incomplete"}"#,
    );
    let end = over("incomplete", r#","incomplete_details":{"reason":"max_output_tokens"}"#);
    let first = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\": \"b"}}]}}]}"#;
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
    for streamed in [false, true] {
        let of = |harness, lines: &[&str]| gist(&run_with(harness, lines, streamed));
        let expected = ["c f {}", "c ! tool_arguments_invalid", "max_tokens"];
        assert_eq!(of(responses::HARNESS, &[CREATED, added, piece, &cut, &end]), expected);
        assert_eq!(of(chat::HARNESS, &[first, stop, "[DONE]"]), expected);
        let open = of(responses::HARNESS, &[CREATED, added, piece, &over("completed", "")]);
        assert_eq!(open.last().unwrap(), "provider_stream_broken true", "the call never became whole");
    }
    let later = first.replace(r#""id":"c","#, "");
    assert_eq!(gist(&run(chat::HARNESS, &[&later, stop, "[DONE]"])), ["provider_stream_broken true"]);
}

#[test]
fn an_answer_without_its_end_is_not_finished() {
    let hi = r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}"#;
    assert_eq!(run(responses::HARNESS, &[CREATED, hi, r#"{"kind":"end"}"#]).terminal(), None);
    assert_eq!(
        gist(&run(responses::HARNESS, &[CREATED, hi, &over("in_progress", "")]))[1],
        "provider_stream_broken true"
    );
    assert_eq!(
        gist(&run(responses::HARNESS, &[CREATED, &over("incomplete", "")])),
        ["agent_execution_failed false"]
    );
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}]}"#;
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    assert_eq!(run(chat::HARNESS, &[chunk, stop]).terminal(), None);
    assert_eq!(run(chat::HARNESS, &[chunk, r#"{"kind":"end"}"#]).terminal(), None);
    assert_eq!(gist(&run(chat::HARNESS, &[chunk, "data: [DONE]"]))[1], "provider_stream_broken true");
    let wants = stop.replace("stop", "tool_calls");
    assert_eq!(
        gist(&run(chat::HARNESS, &[&wants, "[DONE]"])),
        ["agent_execution_failed false"],
        "no tool was called"
    );
}

#[test]
fn filters_and_refusals_and_other_services_are_told_as_what_they_are() {
    let stop = |reason| format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
    let refusal =
        r#"{"choices":[{"index":0,"delta":{"refusal":"No."}},{"index":1,"delta":{"content":"other"}}]}"#;
    assert_eq!(gist(&run(chat::HARNESS, &[refusal, &stop("stop"), "[DONE]"])), ["\"No.\"", "refusal"]);
    assert_eq!(gist(&run(chat::HARNESS, &[&stop("content_filter"), "[DONE]"])), ["refusal"]);
    let thought = r#"{"choices":[{"delta":{"reasoning_content":"Hm.","reasoning":"Hm.","content":""}}]}"#;
    let two = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"g","arguments":""}}]}}]}"#;
    assert_eq!(
        gist(&run(chat::HARNESS, &[thought, two, &stop("stop"), "[DONE]"])),
        ["(Hm.)", "a f {}", "b g {}", "tool_use"]
    );
    let said = r#"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"No."}"#;
    assert_eq!(gist(&run(responses::HARNESS, &[said, &over("completed", "")])), ["\"No.\"", "refusal"]);
}

#[test]
fn a_cancelled_answer_is_told_as_such() {
    for harness in [responses::HARNESS, chat::HARNESS] {
        assert_eq!(gist(&run(harness, &[r#"{"kind":"cancelled"}"#])), ["cancelled"]);
    }
    let line = r#"{"type":"response.cancelled","response":{"id":"r1","status":"cancelled"}}"#;
    assert_eq!(gist(&run(responses::HARNESS, &[CREATED, line])), ["cancelled"]);
}

#[test]
fn errors_of_every_form_are_typed_and_keep_the_delay() {
    let failed = |line: &str| {
        let all: Vec<_> = [responses::HARNESS, chat::HARNESS]
            .iter()
            .map(|harness| {
                let run = run(harness, &[line]);
                let Some(EventData::RunError(error)) = run.terminal() else { panic!("{}", run.text()) };
                let delay = error.retry_after_seconds.as_ref().map(|delay| delay.as_str().to_owned());
                (error.code.as_str().to_owned(), error.retryable, delay)
            })
            .collect();
        assert_eq!(all[0], all[1]);
        all[0].clone()
    };
    let limited = r#"{"kind":"error","status":429,"error_type":"RateLimitError","message":"x","headers":{"Retry-After":"7"}}"#;
    assert_eq!(failed(limited), ("provider_rate_limited".to_owned(), true, Some("7".to_owned())));
    let body = r#"data: {"error":{"code":"rate_limit_exceeded","message":"Please try again in 20ms."}}"#;
    assert_eq!(failed(body), ("provider_rate_limited".to_owned(), true, Some("0.020".to_owned())));
    let key = r#"{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"x"}}"#;
    assert_eq!(failed(key), ("provider_access_denied".to_owned(), false, None));
    assert_eq!(failed(r#"{"kind":"error","error_type":"APITimeoutError"}"#).0, "provider_timeout");
    assert_eq!(failed(r#"{"kind":"error","error_type":"Strange"}"#).0, "agent_execution_failed");
}

/// What must appear nowhere.
const CANARIES: &[&str] = &[
    "sk-test-CANARY-7f3a",
    "/opt/app/secret_project/runner.py",
    "Traceback",
    "CANARY-pw",
    "llm.internal.example",
    "AuthError",
    "prompt is too odd",
    "10.0.0.7",
];

#[test]
fn nothing_a_provider_says_of_an_error_gets_out() {
    let w = CANARIES.join(" ");
    for line in [
        format!(r#"{{"type":"error","code":"{w}","message":"{w}","param":"{w}"}}"#),
        format!(r#"{{"type":"response.failed","response":{{"error":{{"code":"{w}","message":"{w}"}}}}}}"#),
        format!(r#"{{"error":{{"type":"{w}","code":"server_error","message":"{w}"}}}}"#),
        format!(r#"{{"error":"{w}"}}"#),
        format!(
            r#"{{"kind":"error","error_type":"{w}","status":500,"message":"{w}","headers":{{"retry-after":"{w}"}}}}"#
        ),
    ] {
        for harness in [responses::HARNESS, chat::HARNESS] {
            if harness == chat::HARNESS && line.starts_with(r#"{"type""#) {
                continue; // events of the other API
            }
            let run = run(harness, &[&line]);
            assert!(run.code().is_some(), "{harness}: {line}: {}", run.text());
            for canary in CANARIES {
                assert!(!run.text().contains(canary), "{harness}: {canary}: {}", run.text());
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_without_its_words() {
    for harness in [responses::HARNESS, chat::HARNESS] {
        for line in
            ["sk-test-CANARY-7f3a", "[\"CANARY\"]", "{\"CANARY\":1}", "{\"kind\":\"CANARY\"}", "\"CANARY\""]
        {
            let mut run = Run::new(harness, Turn::Start, options());
            let error = run.line(line.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("CANARY"), "{harness}: {error}");
        }
    }
}
