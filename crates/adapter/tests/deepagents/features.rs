//! One quirk of the native stream a test, on small streams written for it.

use causeway_adapter::adapter::{Adapter as _, ItemError, Output};
use causeway_adapter::deepagents::{answer_of, resume_value};
use causeway_adapter::json::Json;
use causeway_adapter::turn::{Answer, AnswerError, Decided, Options, Resume, Turn};
use causeway_contract::event::{Decision, EventData};
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use crate::support::{Run, options};

/// `type [namespace] what matters`, without the start of the run.
fn shown(run: &Run) -> Vec<String> {
    let describe = |data: &EventData<'static>| match data {
        EventData::TextDelta(e) => format!("{:?}", e.delta),
        EventData::ReasoningDelta(e) => format!("{:?}", e.delta),
        EventData::ToolStarted(e) => format!("{} {} {}", e.tool_call_id, e.tool_name, e.arguments.as_str()),
        EventData::ToolArgumentsDelta(e) => format!("{} {}", e.tool_call_id, e.delta),
        EventData::ToolFinished(e) => format!("{} {:?}", e.tool_call_id, e.result),
        EventData::ToolError(e) => format!("{} {} {:?}", e.tool_call_id, e.code, e.message),
        EventData::NamespaceEntered(e) => format!("{} {}", e.agent_id, e.parent_tool_call_id),
        EventData::NamespaceExited(e) => format!("{} {}", e.parent_tool_call_id, e.outcome),
        EventData::RunError(e) => format!("{} {} {}", e.code, e.retryable, e.side_effect_status),
        EventData::RunCancelled(e) => format!("{} {}", e.reason, e.side_effect_status),
        EventData::RunFinished(e) => e.stop_reason.clone().unwrap_or_default().into_owned(),
        EventData::RunInterrupted(e) => e.reason.to_string(),
        EventData::UsageUpdated(e) => {
            format!("{:?} {:?} {:?}", e.input_tokens, e.output_tokens, e.cached_input_tokens)
        }
        EventData::InterruptRequested(_) => {
            let mut json = Vec::new();
            data.write_json(&mut json);
            let json = String::from_utf8(json).unwrap();
            json.split_once("\"agent_id\":\"agent\",").unwrap().1.trim_end_matches('}').to_owned()
        }
        _ => String::new(),
    };
    let drafts = run.drafts.iter().skip(1);
    let lines = drafts.map(|d| format!("{} {:?} {}", d.data.event_type(), d.namespace, describe(&d.data)));
    lines.map(|line| line.replace(" [] ", " ").trim_end().to_owned()).collect()
}

fn chunk(ns: &str, mode: &str, data: &str) -> String {
    format!(r#"{{"kind":"chunk","run_id":"r","ns":{ns},"mode":"{mode}","data":{data}}}"#)
}

fn says(content: &str) -> String {
    chunk(
        "[]",
        "messages",
        &format!(r#"[{{"type":"AIMessageChunk","content":{content}}},{{"langgraph_node":"model"}}]"#),
    )
}

fn step(ns: &str, node: &str, messages: &str) -> String {
    chunk(ns, "updates", &format!(r#"{{"{node}":{{"messages":[{messages}]}}}}"#))
}

/// A model message with calls `id name args`.
fn calls(message: &str, calls: &[(&str, &str, &str)]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|(id, name, args)| format!(r#"{{"id":"{id}","name":"{name}","args":{args}}}"#))
        .collect();
    format!(r#"{{"type":"AIMessage","id":"{message}","content":"","tool_calls":[{}]}}"#, calls.join(","))
}

fn result(id: &str, content: &str) -> String {
    format!(r#"{{"type":"ToolMessage","tool_call_id":"{id}","content":"{content}","status":"success"}}"#)
}

fn task(ns: &str, task: &str, id: &str, name: &str, args: &str) -> String {
    chunk(
        ns,
        "tasks",
        &format!(
            r#"{{"id":"{task}","name":"tools","input":[{{"id":"{id}","name":"{name}","args":{args}}}]}}"#
        ),
    )
}

fn end(interrupts: &str) -> String {
    format!(r#"{{"kind":"end","run_id":"r","state":{{"head":"h","interrupts":{interrupts}}}}}"#)
}

fn play_with(turn: Turn, options: Options, lines: &[String]) -> Run {
    let mut run = Run::new(turn, options, 1);
    for line in lines {
        run.line(line.as_bytes()).unwrap();
    }
    run
}

fn play(lines: &[String]) -> Run {
    play_with(Turn::Start, options(), lines)
}

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

fn id(call: &str) -> ToolCallId<'static> {
    ToolCallId::new(call.to_owned()).unwrap()
}

fn object(json: &str) -> JsonObject<'static> {
    JsonObject::parse(json.to_owned(), &Limits::DEFAULT).unwrap()
}

fn decided(call: &str, decision: Decision, edited: Option<&str>) -> Decided {
    Decided { tool_call_id: id(call), decision, edited_args: edited.map(object), message: None }
}

fn gate(interrupt: &str, requests: &[(&str, &str)]) -> String {
    let requests: Vec<_> =
        requests.iter().map(|(name, args)| format!(r#"{{"name":"{name}","args":{args}}}"#)).collect();
    let config = r#"{"action_name":"t","allowed_decisions":["approve","reject","respond"]}"#;
    format!(
        r#"{{"id":"{interrupt}","value":{{"action_requests":[{}],"review_configs":[{config}]}}}}"#,
        requests.join(",")
    )
}

/// Two subagents with the same gated call: which is which is told by where the interrupt was raised.
fn two_gates() -> Run {
    let raised = |task: &str, interrupt: &str| {
        chunk(
            &format!(r#"["tools:{task}"]"#),
            "updates",
            &format!(r#"{{"__interrupt__":[{}]}}"#, gate(interrupt, &[("t", "{}")])),
        )
    };
    play(&[
        step(
            "[]",
            "model",
            &calls(
                "m",
                &[("k1", "task", r#"{"subagent_type":"s"}"#), ("k2", "task", r#"{"subagent_type":"s"}"#)],
            ),
        ),
        task("[]", "t1", "k1", "task", r#"{"subagent_type":"s"}"#),
        task("[]", "t2", "k2", "task", r#"{"subagent_type":"s"}"#),
        step(r#"["tools:t2"]"#, "model", &calls("n2", &[("b", "t", "{}")])),
        step(r#"["tools:t1"]"#, "model", &calls("n1", &[("a", "t", "{}")])),
        raised("t2", "i2"),
        raised("t1", "i1"),
        end(&format!("[{},{}]", gate("i1", &[("t", "{}")]), gate("i2", &[("t", "{}")]))),
    ])
}

#[test]
fn two_subagents_that_wait_are_one_request_and_one_map_of_answers() {
    let run = two_gates();
    let all = shown(&run);
    assert_eq!(
        all[all.len() - 4..],
        [
            r#"namespace.exited ["k2"] k2 interrupted"#,
            r#"namespace.exited ["k1"] k1 interrupted"#,
            r#"interrupt.requested "tool_approvals":[{"tool_call_id":"a","tool_name":"t","tool_args":{},"allowed_decisions":["approve","reject"]},{"tool_call_id":"b","tool_name":"t","tool_args":{},"allowed_decisions":["approve","reject"]}]"#,
            "run.interrupted tool_approval",
        ]
    );
    let private = &run.states[0].private;
    let answer =
        Answer::Decisions(vec![decided("b", Decision::Approve, None), decided("a", Decision::Reject, None)]);
    let value = resume_value(private, &answer).unwrap();
    assert_eq!(value, r#"{"i1":{"decisions":[{"type":"reject"}]},"i2":{"decisions":[{"type":"approve"}]}}"#);
    let back = answer_of(private, value.as_bytes(), &options()).unwrap();
    let expected = vec![decided("a", Decision::Reject, None), decided("b", Decision::Approve, None)];
    assert_eq!(back, Answer::Decisions(expected));
    let (open, delegations) = run.left_open();
    assert_eq!(open.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["k1", "k2", "b", "a"]);
    assert_eq!(delegations, [id("k2"), id("k1")]);
}

#[test]
fn an_answer_that_does_not_fit_is_refused() {
    let run = two_gates();
    let private = &run.states[0].private;
    let fault = |answer: Answer| resume_value(private, &answer).unwrap_err();
    assert_eq!(fault(Answer::Dismissed), AnswerError::WrongKind);
    assert_eq!(fault(Answer::Values(object("{}"))), AnswerError::WrongKind);
    let one = || decided("a", Decision::Approve, None);
    assert_eq!(
        fault(Answer::Decisions(vec![one()])),
        AnswerError::Undecided { tool_call_id: "b".to_owned() }
    );
    let unknown = fault(Answer::Decisions(vec![one(), decided("zz", Decision::Approve, None)]));
    assert_eq!(unknown, AnswerError::Unknown { tool_call_id: id("zz") });
    let bare = fault(Answer::Decisions(vec![one(), decided("b", Decision::Edit, None)]));
    assert_eq!(bare, AnswerError::NoArguments { tool_call_id: id("b") });
    assert_eq!(resume_value("nothing", &Answer::Dismissed), Err(AnswerError::Unreadable));
    assert_eq!(resume_value("{}", &Answer::Dismissed), Err(AnswerError::NothingAsked));
}

const FORM: &str = r#"{"prompt":"Where?","fields":[{"field_name":"env","field_type":"text"},{"field_name":"n","field_type":"number"}]}"#;

#[test]
fn a_form_is_answered_by_an_edit_that_sets_values_and_dismissed_by_a_reject() {
    let run = play(&[
        step("[]", "model", &calls("m", &[("f", "request_user_input", FORM)])),
        end(&format!("[{}]", gate("i", &[("request_user_input", FORM)]))),
    ]);
    let private = &run.states[0].private;
    let filled = r#"{"decisions":[{"type":"edit","edited_action":{"name":"request_user_input","args":{"prompt":"Where?","fields":[{"field_name":"env","field_type":"text","value":"dev"},{"field_name":"n","field_type":"number"}]}}}]}"#;
    let values = Answer::Values(object(r#"{"env":"dev"}"#));
    assert_eq!(resume_value(private, &values).unwrap(), filled);
    assert_eq!(answer_of(private, filled.as_bytes(), &options()), Some(values.clone()));
    let dismissed = r#"{"decisions":[{"type":"reject"}]}"#;
    assert_eq!(resume_value(private, &Answer::Dismissed).unwrap(), dismissed);
    assert_eq!(answer_of(private, dismissed.as_bytes(), &options()), Some(Answer::Dismissed));

    // The resumed run starts the call with the arguments that ran, though 0.7 repeats the original ones.
    let (open_calls, delegations) = run.left_open();
    let turn = Turn::Resume(Resume {
        open_calls,
        delegations,
        answer: Some(values),
        private: Some(private.clone()),
    });
    let resumed = play_with(turn, options(), &[task("[]", "x", "f", "request_user_input", FORM)]);
    assert!(shown(&resumed)[0].contains(r#""value":"dev""#), "{:?}", shown(&resumed));
}

#[test]
fn plain_pauses_become_one_form_and_their_answers_the_native_values() {
    let asks = |id: &str, task: &str, call: &str| {
        [
            self::task("[]", task, call, "ask", "{}"),
            chunk(
                "[]",
                "tasks",
                &format!(
                    r#"{{"id":"{task}","name":"tools","result":{{}},"interrupts":[{{"id":"{id}","value":1}}]}}"#
                ),
            ),
        ]
    };
    let mut lines = vec![step("[]", "model", &calls("m", &[("a", "ask", "{}"), ("b", "ask", "{}")]))];
    lines.extend(asks("i1", "t1", "a"));
    lines.extend(asks("i2", "t2", "b"));
    lines.push(end(r#"[{"id":"i1","value":{"question":"Colour?"}},{"id":"i2","value":{"x":[1.0,"q"]}}]"#));
    let run = play(&lines);
    let all = shown(&run);
    assert_eq!(
        all[all.len() - 2],
        r#"interrupt.requested "prompt":"Colour?\n\n{\"x\":[1.0,\"q\"]}","fields":[{"field_name":"answer","field_type":"text","required":true},{"field_name":"2.answer","field_type":"text","required":true}]"#
    );
    let private = &run.states[0].private;
    let values = Answer::Values(object(r#"{"answer":"blue","2.answer":{"k":1}}"#));
    assert_eq!(resume_value(private, &values).unwrap(), r#"{"i1":"blue","i2":{"k":1}}"#);
    let missing = Answer::Values(object(r#"{"answer":"blue"}"#));
    assert_eq!(
        resume_value(private, &missing),
        Err(AnswerError::MissingField { field_name: "2.answer".to_owned() })
    );
    assert_eq!(resume_value(private, &Answer::Dismissed).unwrap(), r#"{"i1":null,"i2":null}"#);
}

#[test]
fn one_plain_pause_takes_its_answer_bare() {
    let run = play(&[
        step("[]", "model", &calls("m", &[("a", "ask", "{}")])),
        end(r#"[{"id":"i1","value":{"question":"Colour?"}}]"#),
    ]);
    let private = &run.states[0].private;
    assert_eq!(resume_value(private, &Answer::Values(object(r#"{"answer":"blue"}"#))).unwrap(), "\"blue\"");
    assert_eq!(
        resume_value(private, &Answer::Dismissed).unwrap(),
        r#"{"i1":null}"#,
        "a bare null is no answer"
    );
}

#[test]
fn a_form_and_a_pause_beside_an_approval_are_entries_of_it() {
    let mut lines = vec![step(
        "[]",
        "model",
        &calls("m", &[("g", "t", "{}"), ("f", "request_user_input", FORM), ("a", "ask", "{}")]),
    )];
    lines.push(task("[]", "t1", "a", "ask", "{}"));
    lines.push(chunk(
        "[]",
        "tasks",
        r#"{"id":"t1","name":"tools","result":{},"interrupts":[{"id":"i2","value":1}]}"#,
    ));
    let gates = gate("i1", &[("t", "{}"), ("request_user_input", FORM)]);
    lines.push(end(&format!(r#"[{gates},{{"id":"i2","value":{{"question":"Colour?"}}}}]"#)));
    let run = play(&lines);
    let asked = &shown(&run)[shown(&run).len() - 2];
    let request = format!("{{{}}}", asked.split_once(' ').unwrap().1);
    let request = Json::parse(request.as_bytes()).unwrap();
    let entries: Vec<(String, String)> = request
        .list("tool_approvals")
        .iter()
        .map(|entry| {
            (
                entry.text("tool_call_id").unwrap().to_owned(),
                entry.get("allowed_decisions").unwrap().to_text(),
            )
        })
        .collect();
    let edit = r#"["edit","reject"]"#;
    let expected = [("g", r#"["approve","reject"]"#), ("f", edit), ("a", edit)];
    assert_eq!(entries, expected.map(|(id, allowed)| (id.to_owned(), allowed.to_owned())));
    let answer = Answer::Decisions(vec![
        decided("g", Decision::Approve, None),
        decided("f", Decision::Edit, Some(r#"{"n":3}"#)),
        decided("a", Decision::Edit, Some(r#"{"answer":"blue"}"#)),
    ]);
    let value = resume_value(&run.states[0].private, &answer).unwrap();
    let value = Json::parse(value.as_bytes()).unwrap();
    assert_eq!(value.text("i2"), Some("blue"));
    let second = &value.get("i1").unwrap().list("decisions")[1];
    let fields = second.get("edited_action").unwrap().get("args").unwrap().list("fields");
    assert_eq!(fields[1].to_text(), r#"{"field_name":"n","field_type":"number","value":3}"#);
}

#[test]
fn an_edit_that_still_holds_a_hidden_secret_runs_with_the_original() {
    let args = r#"{"url":"https://u:p@h/","n":1}"#;
    let lines = [
        step("[]", "model", &calls("m", &[("g", "t", args)])),
        end(&format!("[{}]", gate("i", &[("t", args)]))),
    ];
    let run = play_with(Turn::Start, options().redact_content(true), &lines);
    assert!(shown(&run)[0].contains(r#"{"url":"https://[redacted]@h/","n":1}"#), "{:?}", shown(&run));
    let answer = Answer::Decisions(vec![decided(
        "g",
        Decision::Edit,
        Some(r#"{"url":"https://[redacted]@h/","n":2}"#),
    )]);
    let value = resume_value(&run.states[0].private, &answer).unwrap();
    assert!(value.contains(r#""args":{"url":"https://u:p@h/","n":2}"#), "{value}");
}

#[test]
fn on_a_resume_cached_results_of_the_run_before_are_not_shown() {
    let before = play(&[
        step("[]", "model", &calls("m", &[("a", "ask", "{}"), ("w", "t", "{}")])),
        step("[]", "tools", &result("w", "sunny")),
        end(r#"[{"id":"i1","value":{"question":"Colour?"}}]"#),
    ]);
    let (open_calls, delegations) = before.left_open();
    let private = Some(before.states[0].private.clone());
    let answer = Some(Answer::Values(object(r#"{"answer":"blue"}"#)));
    let turn = Turn::Resume(Resume { open_calls, delegations, answer, private });
    let run = play_with(
        turn,
        options(),
        &[
            chunk(
                "[]",
                "updates",
                &format!(
                    r#"{{"tools":{{"messages":[{}]}},"__metadata__":{{"cached":true}}}}"#,
                    result("w", "sunny")
                ),
            ),
            task("[]", "t1", "a", "ask", "{}"),
            task("[]", "t2", "w", "t", "{}"),
            step("[]", "tools", &result("a", "blue it is")),
            end("[]"),
        ],
    );
    let expected = ["tool.started a ask {}", "tool.finished a \"blue it is\"", "run.finished end_turn"];
    assert_eq!(shown(&run), expected);
}

#[test]
fn edits_that_only_the_task_of_the_reviewing_node_tells_are_found() {
    let node = "HumanInTheLoopMiddleware.after_model";
    let run = play_with(
        Turn::Resume(Resume::default()),
        options(),
        &[
            step("[]", node, &calls("m", &[("g", "t", r#"{"n":1}"#)])),
            chunk(
                "[]",
                "tasks",
                &format!(
                    r#"{{"id":"x","name":"{node}","result":{{"hitl_edited_tool_calls":{{"g":{{"name":"t","args":{{"n":2}}}}}}}}}}"#
                ),
            ),
        ],
    );
    assert_eq!(shown(&run), [r#"tool.started g t {"n":2}"#]);
}

#[test]
fn a_suffixed_call_keeps_its_id_in_the_resumed_run() {
    let before = play(&[
        step("[]", "model", &calls("m1", &[("c", "t", "{}")])),
        step("[]", "tools", &result("c", "one")),
        step("[]", "model", &calls("m2", &[("c", "t", "{}")])),
        end(&format!("[{}]", gate("i", &[("t", "{}")]))),
    ]);
    let (open_calls, delegations) = before.left_open();
    let private = Some(before.states[0].private.clone());
    let answer = Some(Answer::Decisions(vec![decided("c#2", Decision::Reject, None)]));
    let turn = Turn::Resume(Resume { open_calls, delegations, answer, private });
    let refused = r#"{"type":"ToolMessage","tool_call_id":"c","content":"no","status":"error"}"#;
    let messages = format!("{},{refused}", calls("m2", &[("c", "t", "{}")]));
    let run = play_with(
        turn,
        options(),
        &[step("[]", "HumanInTheLoopMiddleware.after_model", &messages), end("[]")],
    );
    assert_eq!(
        shown(&run),
        ["tool.started c#2 t {}", "tool.error c#2 tool_rejected \"no\"", "run.finished end_turn"]
    );
}

#[test]
fn two_subagents_may_use_one_call_id_also_over_an_interrupt() {
    let delegate = r#"{"subagent_type":"s"}"#;
    let both = |again: bool| {
        let mut lines = Vec::new();
        if !again {
            lines.push(step(
                "[]",
                "model",
                &calls("m", &[("k1", "task", delegate), ("k2", "task", delegate)]),
            ));
        }
        lines.push(task("[]", "t1", "k1", "task", delegate));
        lines.push(task("[]", "t2", "k2", "task", delegate));
        let node = if again { "HumanInTheLoopMiddleware.after_model" } else { "model" };
        // The second subagent is quicker both times.
        lines.push(step(r#"["tools:t2"]"#, node, &calls("n2", &[("h", "t", r#"{"n":2}"#)])));
        lines.push(step(r#"["tools:t1"]"#, node, &calls("n1", &[("h", "t", r#"{"n":1}"#)])));
        lines
    };
    let mut lines = both(false);
    for (task, interrupt) in [("t1", "i1"), ("t2", "i2")] {
        let raised = format!(r#"{{"__interrupt__":[{}]}}"#, gate(interrupt, &[("t", "{}")]));
        lines.push(chunk(&format!(r#"["tools:{task}"]"#), "updates", &raised));
    }
    let (one, two) = (gate("i1", &[("t", r#"{"n":1}"#)]), gate("i2", &[("t", r#"{"n":2}"#)]));
    lines.push(end(&format!("[{one},{two}]")));
    let before = play(&lines);
    let (open_calls, delegations) = before.left_open();
    let ids: Vec<_> = open_calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(ids, [("k1", delegate), ("k2", delegate), ("h", r#"{"n":2}"#), ("h#2", r#"{"n":1}"#)]);

    let private = before.states[0].private.clone();
    let edit = decided("h#2", Decision::Edit, Some(r#"{"n":9}"#));
    let answer = Answer::Decisions(vec![edit, decided("h", Decision::Approve, None)]);
    let value = resume_value(&private, &answer).unwrap();
    assert!(value.starts_with(r#"{"i1":{"decisions":[{"type":"edit""#), "{value}");
    let turn = Turn::Resume(Resume { open_calls, delegations, answer: Some(answer), private: Some(private) });
    let mut lines = both(true);
    lines.push(step(r#"["tools:t1"]"#, "tools", &result("h", "nine")));
    lines.push(step(r#"["tools:t2"]"#, "tools", &result("h", "two")));
    let run = play_with(turn, options(), &lines);
    assert_eq!(
        shown(&run)[4..],
        [
            r#"tool.started ["k2"] h t {"n":2}"#,
            r#"tool.started ["k1"] h#2 t {"n":9}"#,
            r#"tool.finished ["k1"] h#2 "nine""#,
            r#"tool.finished ["k2"] h "two""#,
        ]
    );
}
