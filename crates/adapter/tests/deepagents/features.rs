//! One quirk of the native stream a test, on small streams written for it.

use causeway_adapter::adapter::{Adapter as _, ItemError, Output};
use causeway_adapter::turn::Turn;
use causeway_contract::event::EventData;
use causeway_contract::limits::Limits;

use crate::native::{calls, chunk, end, play, play_with, result, says, shown, step, task};
use crate::support::{Run, options};

#[test]
fn a_call_id_used_again_gets_a_suffix_and_its_result_follows() {
    let run = play(&[
        step("[]", "model", &calls("m1", &[("c", "t", "{}")])),
        step("[]", "tools", &result("c", "one")),
        step("[]", "model", &calls("m2", &[("c", "t", "{}")])),
        step("[]", "model", &calls("m2", &[("c", "t", "{}")])),
        step("[]", "tools", &result("c", "two")),
        end("[]"),
    ]);
    let expected = [
        "tool.started c t {}",
        "tool.finished c \"one\"",
        "tool.started c#2 t {}",
        "tool.finished c#2 \"two\"",
        "run.finished end_turn",
    ];
    assert_eq!(shown(&run), expected);
}

#[test]
fn equal_ids_in_one_message_are_two_calls() {
    let run = play(&[
        step("[]", "model", &calls("m1", &[("c", "t", r#"{"n":1}"#), ("c", "t", r#"{"n":2}"#)])),
        step("[]", "tools", &result("c", "one")),
        step("[]", "tools", &result("c", "two")),
        end("[]"),
    ]);
    let ended: Vec<_> = shown(&run).into_iter().filter(|line| line.starts_with("tool.finished")).collect();
    assert_eq!(ended, ["tool.finished c \"one\"", "tool.finished c#2 \"two\""]);
}

#[test]
fn an_emoji_split_over_two_pieces_is_joined_and_a_lone_half_replaced() {
    let run = play(&[says(r#""a\ud83d""#), says(r#""\ude00b\ud83d""#), step("[]", "model", ""), end("[]")]);
    let deltas: Vec<_> = shown(&run).into_iter().filter(|line| line.starts_with("text.delta")).collect();
    assert_eq!(deltas, [r#"text.delta "a""#, r#"text.delta "😀b""#, r#"text.delta "�""#]);
}

#[test]
fn a_piece_above_the_limit_is_split() {
    let limits = Limits { delta_bytes: 4, ..Limits::DEFAULT };
    let run =
        play_with(Turn::Start, options().limits(limits), &[says(r#""abcdé€""#), step("[]", "model", "")]);
    let expected =
        ["text.started", r#"text.delta "abcd""#, r#"text.delta "é""#, r#"text.delta "€""#, "text.finished"];
    assert_eq!(shown(&run), expected);
}

#[test]
fn usage_is_the_sum_of_the_run_with_its_subagents() {
    let used = |ns: &str, usage: &str| {
        chunk(
            ns,
            "messages",
            &format!(r#"[{{"type":"AIMessageChunk","content":"","usage_metadata":{usage}}},{{}}]"#),
        )
    };
    let run = play(&[
        used("[]", r#"{"input_tokens":10,"output_tokens":1}"#),
        step("[]", "model", &calls("m", &[("k", "task", r#"{"subagent_type":"s"}"#)])),
        task("[]", "t1", "k", "task", r#"{"subagent_type":"s"}"#),
        used(r#"["tools:t1"]"#, r#"{"input_tokens":5,"input_token_details":{"cache_read":3}}"#),
    ]);
    let usage: Vec<_> = run.drafts.iter().filter(|d| matches!(d.data, EventData::UsageUpdated(_))).collect();
    assert_eq!(usage[1].namespace.path()[0].as_str(), "k");
    let lines: Vec<_> = shown(&run).into_iter().filter(|line| line.starts_with("usage")).collect();
    assert_eq!(
        lines,
        ["usage.updated Some(10) Some(1) None", r#"usage.updated ["k"] Some(15) Some(1) Some(3)"#]
    );
}

#[test]
fn a_history_that_is_repaired_or_summed_up_is_not_shown_again() {
    let old = calls("m0", &[("old", "t", "{}")]);
    let run = play(&[
        step(
            "[]",
            "PatchToolCallsMiddleware.before_agent",
            &format!(r#"{{"type":"RemoveMessage","id":"__remove_all__"}},{old},{}"#, result("old", "x")),
        ),
        chunk(
            "[]",
            "messages",
            r#"[{"type":"AIMessageChunk","content":"sum"},{"lc_source":"summarization"}]"#,
        ),
        says(r#""hi""#),
        step("[]", "model", r#"{"type":"AIMessage","id":"m1","content":"hi"}"#),
        end("[]"),
    ]);
    assert_eq!(shown(&run), ["text.started", r#"text.delta "hi""#, "text.finished", "run.finished end_turn"]);
}

#[test]
fn success_is_not_believed_with_an_open_call_or_work_left() {
    let open = step("[]", "model", &calls("m", &[("c", "t", "{}")]));
    assert_eq!(
        shown(&play(&[open, end("[]")])).last().unwrap(),
        "run.error agent_execution_failed false possible"
    );
    let unfinished =
        r#"{"kind":"end","run_id":"r","state":{"head":"h","interrupts":[],"next":["tools"]}}"#.to_owned();
    assert_eq!(
        shown(&play(&[says("\"x\""), unfinished])).last().unwrap(),
        "run.error agent_execution_failed false none"
    );
    let wants =
        r#"[{"type":"AIMessageChunk","content":"","response_metadata":{"finish_reason":"tool_calls"}},{}]"#;
    let run = play(&[chunk("[]", "messages", wants), step("[]", "model", ""), end("[]")]);
    assert_eq!(shown(&run), ["run.error agent_execution_failed false none"]);
    assert!(run.states.is_empty(), "an error moves no head");
}

#[test]
fn the_workers_error_is_told_in_our_words() {
    let error = |kind: &str| {
        format!(r#"{{"kind":"error","run_id":"r","error_type":"{kind}","message":"token=abc /home/x"}}"#)
    };
    let run = play(&[says("\"x\""), error("RateLimitError")]);
    assert_eq!(shown(&run)[2], "run.error provider_rate_limited true none");
    assert_eq!(shown(&play(&[error("busy")])), ["run.error harness_busy true none"]);
    let Some(EventData::RunError(said)) = run.terminal() else { panic!("an error") };
    assert!(!said.message.contains("abc") && !said.message.contains("home"));
}

#[test]
fn a_cancelled_subagent_leaves_its_namespace_and_keeps_its_text_open() {
    let run = play(&[
        step("[]", "model", &calls("m", &[("k", "task", r#"{"subagent_type":"deep-diver"}"#)])),
        task("[]", "t1", "k", "task", r#"{"subagent_type":"deep-diver"}"#),
        chunk(r#"["tools:t1"]"#, "messages", r#"[{"type":"AIMessageChunk","content":"on it"},{}]"#),
        r#"{"kind":"cancelled","run_id":"r","state":{"head":"h"}}"#.to_owned(),
    ]);
    assert_eq!(
        shown(&run)[1..],
        [
            r#"namespace.entered ["k"] deep-diver k"#,
            r#"text.started ["k"]"#,
            r#"text.delta ["k"] "on it""#,
            r#"namespace.exited ["k"] k cancelled"#,
            "run.cancelled client_request possible",
        ]
    );
    assert_eq!(run.states[0].head.as_str(), "h");
}

#[test]
fn lines_out_of_order_are_refused_by_name() {
    let mut run = Run::new(Turn::Start, options(), 1);
    let mut refused = |line: &str| match run.line(line.as_bytes()) {
        Err(ItemError::OutOfOrder { kind, .. }) => kind,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(refused(&end("[]")), "end");
    run.line(br#"{"kind":"hello","protocol":1}"#).unwrap();
    let mut refused = |line: &str| match run.line(line.as_bytes()) {
        Err(ItemError::OutOfOrder { kind, .. }) => kind,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(refused(r#"{"kind":"hello"}"#), "hello");
    run.line(br#"{"kind":"begin","op":"run"}"#).unwrap();
    run.line(end("[]").as_bytes()).unwrap();
    for kind in ["hello", "begin", "chunk", "end", "cancelled", "error"] {
        let error = run.line(format!(r#"{{"kind":"{kind}"}}"#).as_bytes()).unwrap_err();
        assert!(matches!(error, ItemError::OutOfOrder { .. }), "{kind}: {error}");
    }
    assert!(matches!(run.terminal(), Some(EventData::RunFinished(_))), "the finish stands");
}

#[test]
fn streamed_arguments_are_yielded_and_completed_where_langchain_completed_them() {
    let piece = |id: &str, name: &str, args: &str| {
        chunk(
            "[]",
            "messages",
            &format!(
                r#"[{{"type":"AIMessageChunk","content":"","tool_call_chunks":[{{"id":{id},"name":{name},"args":{args},"index":0}}]}},{{}}]"#
            ),
        )
    };
    let lines = [
        piece("\"c\"", "\"t\"", "\"\""),
        piece("null", "null", r#""{\"a\": [1""#),
        step("[]", "model", &calls("m", &[("c", "t", r#"{"a":[1]}"#)])),
        step("[]", "tools", &result("c", "ok")),
        end("[]"),
    ];
    let run = play_with(Turn::Start, options().stream_arguments(true), &lines);
    assert_eq!(
        shown(&run),
        [
            "tool.started c t {}",
            r#"tool.arguments.delta c {"a": [1"#,
            "tool.arguments.delta c ]}",
            "tool.finished c \"ok\"",
            "run.finished end_turn"
        ]
    );
    assert_eq!(shown(&play(&lines))[0], r#"tool.started c t {"a":[1]}"#, "collected by default");
}

#[test]
fn a_long_result_is_cut_with_a_mark_and_kept_whole() {
    let limits = Limits { result_bytes: 3000, ..Limits::DEFAULT };
    let mut run = Run::new(Turn::Start, options().limits(limits), 1);
    run.line(step("[]", "model", &calls("m", &[("c", "t", "{}")])).as_bytes()).unwrap();
    let long = "x".repeat(5000);
    run.adapter.handle(step("[]", "tools", &result("c", &long)).as_bytes()).unwrap();
    let outputs: Vec<Output> = std::iter::from_fn(|| run.adapter.poll()).collect();
    let [Output::Result(whole), Output::Draft(draft)] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(whole.text, long);
    let EventData::ToolFinished(end) = &draft.data else { panic!("{draft:?}") };
    assert!(end.result.len() <= 3000 && end.result.ends_with("more bytes]"), "{}", end.result);
    assert_eq!(end.result_ref.as_ref(), Some(&whole.result_ref));
}

#[test]
fn secrets_are_hidden_in_tool_errors_always_and_elsewhere_on_request() {
    let secret = "password=hunter2";
    let lines = [
        step("[]", "model", &calls("m", &[("c", "t", &format!(r#"{{"q":"{secret}"}}"#)), ("d", "t", "{}")])),
        step("[]", "tools", &result("c", secret)),
        step("[]", "tools", &result("d", &format!("ERROR: {secret}"))),
        end("[]"),
    ];
    let run = play(&lines);
    assert_eq!(
        shown(&run)[2..4],
        [r#"tool.finished c "password=hunter2""#, r#"tool.error d tool_error "password=[redacted]""#]
    );
    let run = play_with(Turn::Start, options().redact_content(true), &lines);
    assert!(shown(&run).iter().all(|line| !line.contains("hunter2")), "{:?}", shown(&run));
}
