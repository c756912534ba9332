//! Interrupts, the answers to them, and the runs that go on: what is asked, what the harness is told, what is shown.

use causeway_adapter::deepagents::{answer_of, resume_value};
use causeway_adapter::json::Json;
use causeway_adapter::turn::{Answer, AnswerError, Decided, Resume, Turn};
use causeway_contract::event::Decision;
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use crate::native::{calls, chunk, end, play, play_with, result, shown, step, task};
use crate::support::{Run, options};

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
    let asks = |id: &str, runs: &str, call: &str| {
        [
            task("[]", runs, call, "ask", "{}"),
            chunk(
                "[]",
                "tasks",
                &format!(
                    r#"{{"id":"{runs}","name":"tools","result":{{}},"interrupts":[{{"id":"{id}","value":1}}]}}"#
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
