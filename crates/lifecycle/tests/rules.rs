//! The rules one by one, in the notation of `testing::script`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::sync::Arc;

use causeway_contract::event::SideEffectStatus;
use causeway_contract::id::Reference;
use causeway_contract::limits::Limits;
use causeway_contract::receipt::CommitReceipt;

use causeway_lifecycle::rule::Verdict;
use causeway_lifecycle::schemas::{Mismatch, ToolSchemas};
use causeway_lifecycle::testing::script::script;
use causeway_lifecycle::validator::{Boundary, Thread, Validator};
use causeway_lifecycle::violation::Violation;

/// Judges a script at commit, on a durable thread: `ok`, or `INDEX: RULE: text`, where INDEX may be `end`.
#[track_caller]
fn check(text: &str, verdict: &str) {
    check_with(text, durable(Boundary::Commit).offline(), verdict);
}

#[track_caller]
fn check_with(text: &str, mut validator: Validator, verdict: &str) {
    assert_eq!(judge(text, &mut validator), verdict, "{text}");
}

fn judge(text: &str, validator: &mut Validator) -> String {
    for (index, event) in script(text).iter().enumerate() {
        if let Err(violation) = validator.accept(event, 200) {
            return format!("{index}: {}", named(&violation));
        }
    }
    match validator.finish() {
        Ok(()) => "ok".to_owned(),
        // What a script is about comes before its end.
        Err(Violation::ClosedWithoutTerminal) if !text.ends_with('.') => "ok".to_owned(),
        Err(violation) => format!("end: {}", named(&violation)),
    }
}

fn named(violation: &Violation) -> String {
    match violation.rule() {
        Verdict::Rule(rule) => format!("{rule:?}: {violation}"),
        Verdict::Check(check) => format!("{check}: {violation}"),
    }
}

fn durable(boundary: Boundary) -> Validator {
    Validator::new(boundary, Thread::Durable, Limits::DEFAULT)
}

fn limited(change: impl FnOnce(&mut Limits)) -> Validator {
    let mut limits = Limits::DEFAULT;
    change(&mut limits);
    Validator::new(Boundary::Commit, Thread::Durable, limits)
}

#[test]
fn the_ids_of_a_run_never_change() {
    check("run.started; !run-2 run.finished", "1: envelope: the run id is run-2, this run is run-1");
}

#[test]
fn r01_sequences_increase_and_may_have_gaps() {
    check("run.started; #7 run.finished", "ok");
    check("run.started; text.started m; #1 run.finished", "2: R01Order: sequence 1 does not follow 1");
    check("run.started; #9 text.started m; #4 run.finished", "2: R01Order: sequence 4 does not follow 9");
}

#[test]
fn r02_a_run_starts_once_with_sequence_0_at_the_root() {
    check("run.finished", "0: R02StartedOnce: run.finished comes before run.started");
    check("#1 run.started", "0: R02StartedOnce: run.started has sequence 1, not 0");
    check("@a run.started", "0: R02StartedOnce: run.started stands in a subagent's namespace");
    check("run.started; run.started", "1: R02StartedOnce: run.started comes again at 1");
}

#[test]
fn r03_there_is_one_terminal() {
    check(
        "run.started; run.error; run.finished",
        "2: R03OneTerminal: run.finished is a second terminal after run.error at 1",
    );
}

#[test]
fn r04_nothing_follows_the_terminal() {
    check(
        "run.started; run.cancelled; text.started m",
        "2: R04TerminalIsLast: event 2 follows the terminal at 1",
    );
    check(
        "run.started; run.finished; run.started",
        "2: R04TerminalIsLast: event 2 follows the terminal at 1",
    );
}

#[test]
fn r05_a_message_starts_before_its_deltas_and_finishes_at_most_once() {
    check("run.started; text.started m; text.delta m a; text.finished m; run.finished", "ok");
    check("run.started; text.started m; run.finished", "ok");
    check("run.started; text.started m; reasoning.started m; reasoning.delta m a; text.delta m", "ok");
    check(
        "run.started; text.delta m a",
        "1: R05MessageOrder: text.delta for text message m, which was never started",
    );
    check(
        "run.started; text.started m; reasoning.finished m",
        "2: R05MessageOrder: reasoning.finished for reasoning message m, which was never started",
    );
    check(
        "run.started; text.started m; text.finished m; text.finished m",
        "3: R05MessageOrder: text.finished for text message m, which already finished",
    );
    check(
        "run.started; text.started m; text.finished m; text.delta m a",
        "3: R05MessageOrder: text.delta for text message m, which already finished",
    );
    check(
        "run.started; reasoning.started m; reasoning.started m",
        "2: R05MessageOrder: reasoning message m was started before",
    );
}

#[test]
fn r05_a_message_is_not_tied_to_a_namespace() {
    check("run.started; tool.started t; @t namespace.entered a t; @t text.started m; text.delta m a", "ok");
}

#[test]
fn r06_a_call_starts_before_its_end_and_ends_at_most_once() {
    check("run.started; tool.started t; tool.finished t; run.finished", "ok");
    check(
        "run.started; tool.finished t",
        "1: R06ToolOrder: tool.finished for tool call t, which was never started",
    );
    check("run.started; tool.started t; tool.started t", "2: R06ToolOrder: tool call t was started before");
    check(
        "run.started; tool.started t; tool.error t; tool.error t",
        "3: R06ToolOrder: tool.error for tool call t, which already ended with tool.error",
    );
    check(
        "run.started; tool.started t; tool.finished t; tool.arguments.delta t {}",
        "3: R06ToolOrder: tool.arguments.delta for tool call t, which already ended with tool.finished",
    );
}

#[test]
fn r07_a_tool_cannot_finish_and_then_fail() {
    check("run.started; tool.started t1; tool.finished t1", "ok");
    check(
        "run.started; tool.started t1; tool.finished t1; tool.error t1",
        "3: R07FinishXorError: tool call t1 already ended with tool.finished",
    );
    check(
        "run.started; tool.started t1; tool.error t1; tool.finished t1",
        "3: R07FinishXorError: tool call t1 already ended with tool.error",
    );
}

#[test]
fn arguments_have_one_source() {
    let twice = "payload: tool call t was started with arguments and is now streamed others";
    check("run.started; tool.started t {\"a\":1}; tool.arguments.delta t {}", &format!("2: {twice}"));
    check("run.started; tool.started t {\"a\":1}; tool.arguments.delta t; tool.finished t", "ok");
}

/// Arguments must have no `b`.
#[derive(Debug)]
struct WithoutB;

impl ToolSchemas for WithoutB {
    fn check(&self, _tool_name: &str, arguments: &str) -> Result<(), Mismatch> {
        let mismatch = || Mismatch { pointer: "/b".to_owned(), rule: "/not".to_owned() };
        if arguments.contains("\"b\"") { Err(mismatch()) } else { Ok(()) }
    }
}

#[test]
fn streamed_arguments_satisfy_the_schema_of_their_tool_when_the_call_finishes() {
    let knowing = || durable(Boundary::Yield).schemas(Arc::new(WithoutB));
    let streamed = |text: &str, end: &str| {
        format!("run.started; tool.started t; tool.arguments.delta t {text}; {end} t")
    };
    check_with(&streamed("{\"a\": 1}", "tool.finished"), knowing(), "ok");
    check_with(
        &streamed("{\"b\": 1}", "tool.finished"),
        knowing(),
        "3: payload: the streamed arguments of tool call t do not satisfy the schema of its tool at \"/b\" (schema: \"/not\")",
    );
    check_with(&streamed("{\"b\": 1}", "tool.error"), knowing(), "ok");
    check(&streamed("{\"b\": 1}", "tool.finished"), "ok");
}

#[test]
fn streamed_arguments_are_one_json_object_when_the_call_finishes() {
    let bad = "payload: the streamed arguments of tool call t are not one JSON object";
    let streamed =
        |text: &str| format!("run.started; tool.started t; tool.arguments.delta t {text}; tool.finished t");
    check(&streamed("{\"a\": 1e5}"), "ok");
    check(&streamed("{}; tool.arguments.delta t"), "ok");
    for text in ["{", "[]", "1", "{}{}", "{\"a\":1,\"a\":1e400}", "{\"a\":NaN}"] {
        check(&streamed(text), &format!("3: {bad}"));
    }
    check("run.started; tool.started t; tool.arguments.delta t {; tool.error t; run.finished", "ok");
    check("run.started; tool.started t; tool.arguments.delta t {; run.cancelled", "ok");
}

#[test]
fn r08_an_interrupt_is_closed_by_its_own_terminal() {
    check("run.started; interrupt.requested i form; run.interrupted i human_input", "ok");
    check("run.started; tool.started t; interrupt.requested i t; run.interrupted i tool_approval", "ok");
    check(
        "run.started; text.started m; reasoning.started r; tool.started t; tool.started u; @t namespace.entered a t; \
         @t interrupt.requested i u; text.finished m; reasoning.finished r; tool.finished u; \
         @t namespace.exited a t; run.interrupted i",
        "ok",
    );
    check(
        "run.started; run.interrupted i",
        "1: R08OneInterrupt: run.interrupted without an interrupt.requested before it",
    );
    check(
        "run.started; interrupt.requested i form; run.interrupted j human_input",
        "2: R08OneInterrupt: run.interrupted names interrupt j, i was requested",
    );
    check(
        "run.started; interrupt.requested i form; run.interrupted i tool_approval",
        "2: R08OneInterrupt: run.interrupted gives the reason tool_approval, the request asks for human_input",
    );
    check(
        "run.started; interrupt.requested i form; interrupt.requested j form",
        "2: R08OneInterrupt: interrupt j is the second of this run",
    );
}

#[test]
fn r08_nothing_but_closing_events_follows_the_request() {
    for (index, event) in [
        "text.started m2",
        "text.delta m a",
        "reasoning.started m",
        "tool.started t2",
        "tool.arguments.delta t {}",
        "@t namespace.entered a t",
        "warning",
        "usage.updated",
        "provider.metadata",
        "run.finished",
        "run.cancelled",
        "run.error",
    ]
    .into_iter()
    .enumerate()
    {
        let kind = event.split(' ').find(|word| !word.starts_with('@')).unwrap();
        check(
            &format!("run.started; text.started m; tool.started t; interrupt.requested i t; {event}"),
            &format!("4: R08OneInterrupt: {kind} may not follow the request of interrupt i"),
        );
        assert!(index < 12);
    }
}

#[test]
fn r08_approvals_name_open_calls_and_their_tools() {
    check(
        "run.started; interrupt.requested i t",
        "1: R08OneInterrupt: the approval of tool call t names no open call",
    );
    check(
        "run.started; tool.started t; tool.error t; interrupt.requested i t",
        "3: R08OneInterrupt: the approval of tool call t names no open call",
    );
    check(
        "run.started; tool.started t:rm; interrupt.requested i t:ls",
        "2: R08OneInterrupt: the approval of tool call t names another tool than the call's start",
    );
    let mut validator = durable(Boundary::Commit);
    let events = script("run.started; tool.started t; interrupt.requested i t u");
    let verdicts: Vec<_> = events.iter().map(|event| validator.accept(event, 9)).collect();
    let pointer = verdicts.last().unwrap().as_ref().unwrap_err().pointer();
    assert_eq!(pointer.as_deref(), Some("/data/tool_approvals/1/tool_call_id"));
}

#[test]
fn r09_namespaces_are_exited_inner_before_outer_before_the_terminal() {
    let inside = "run.started; tool.started t; @t namespace.entered a t; @t/n namespace.entered b t";
    check(&format!("{inside}; @t/n namespace.exited b t; @t namespace.exited a t; run.finished"), "ok");
    check(
        &format!("{inside}; @t namespace.exited a t"),
        "4: R09NamespacesBalance: namespace t is exited before one inside it",
    );
    for terminal in ["run.finished", "run.cancelled", "run.error", "@t/n run.error"] {
        check(
            &format!("{inside}; {terminal}"),
            "4: R09NamespacesBalance: namespaces are open at the terminal: 2, the last entered n",
        );
    }
    check("run.started; namespace.exited a t", "1: R09NamespacesBalance: the root namespace is never exited");
    check(
        "run.started; @t namespace.exited a t",
        "1: R09NamespacesBalance: namespace t is exited and is not open",
    );
    check(
        &format!("{inside}; @t/n namespace.exited b t; @t/n namespace.exited b t"),
        "5: R09NamespacesBalance: namespace t/n is exited and is not open",
    );
}

#[test]
fn r10_events_stand_in_active_namespaces() {
    check(
        "run.started; tool.started t; @t namespace.entered a t; @t text.started m; @t namespace.exited a t; \
         @t text.delta m a",
        "5: R10ActiveNamespace: namespace t is not active",
    );
    check("run.started; @t warning", "1: R10ActiveNamespace: namespace t is not active");
    check("run.started; @t run.error", "1: R10ActiveNamespace: namespace t is not active");
    check(
        "run.started; tool.started t; @t namespace.entered a t; @x/t warning",
        "3: R10ActiveNamespace: namespace x/t is not active",
    );
    check(
        "run.started; tool.started t; @t namespace.entered a t; @t/n namespace.entered b t; @n warning",
        "4: R10ActiveNamespace: namespace n is not active",
    );
    check(
        "run.started; tool.started t; @t namespace.entered a t; @t/n namespace.entered b t; @x/n warning",
        "4: R10ActiveNamespace: namespace x/n is not active",
    );
}

#[test]
fn r10_a_namespace_is_entered_below_an_active_one_for_an_open_call() {
    check(
        "run.started; namespace.entered a t",
        "1: R10ActiveNamespace: namespace.entered names no child path",
    );
    check(
        "run.started; @t namespace.entered a t",
        "1: R10ActiveNamespace: the delegation call t is not open",
    );
    check(
        "run.started; tool.started t; tool.finished t; @t namespace.entered a t",
        "3: R10ActiveNamespace: the delegation call t is not open",
    );
    check(
        "run.started; tool.started t; @x/t namespace.entered a t",
        "2: R10ActiveNamespace: namespace x is not active",
    );
    let twice = "run.started; tool.started t; @t namespace.entered a t; @t namespace.exited a t; @t namespace.entered";
    check(&format!("{twice} a t"), "4: R10ActiveNamespace: invocation t was entered before");
    check("run.started; tool.started t; @t namespace.entered a t; @n namespace.entered b t", "ok");
}

#[test]
fn r10_an_exit_repeats_its_entry_and_the_call_stays_open_meanwhile() {
    let inside = "run.started; tool.started t; tool.started u; @t namespace.entered a t";
    check(
        &format!("{inside}; @t namespace.exited b t"),
        "4: R10ActiveNamespace: namespace t is exited with another agent id than it was entered with",
    );
    check(
        &format!("{inside}; @t namespace.exited a u"),
        "4: R10ActiveNamespace: namespace t is exited with another parent call than it was entered with",
    );
    for end in ["tool.finished t", "tool.error t"] {
        check(
            &format!("{inside}; {end}"),
            "4: R10ActiveNamespace: the delegation call t ends while its namespace is open",
        );
        check(&format!("{inside}; @t namespace.exited a t; {end}"), "ok");
    }
}

#[test]
fn r11_sums_are_bounded() {
    let two = "run.started; text.started m; text.delta m 12345";
    check_with(
        &format!("{two}; text.delta m 6"),
        limited(|limits| limits.message_text_bytes = 5),
        "3: R11Sums: text message m has more than 5 bytes",
    );
    check_with(
        &format!("{two}; reasoning.started r; reasoning.delta r 6"),
        limited(|limits| limits.run_text_bytes = 5),
        "4: R11Sums: the run has more than 5 bytes of text",
    );
    check_with(
        "run.started; tool.started t; tool.arguments.delta t {; tool.arguments.delta t }",
        limited(|limits| limits.arguments_bytes = 1),
        "3: R11Sums: the streamed arguments of tool call t have more than 1 bytes",
    );
    check_with(
        "run.started; text.started m; reasoning.started m; text.started n",
        limited(|limits| limits.messages = 2),
        "3: R11Sums: the run has more than 2 messages",
    );
    check_with(
        "run.started; tool.started t; tool.finished t; tool.started u",
        limited(|limits| limits.tool_calls = 1),
        "3: R11Sums: the run has more than 1 tool calls",
    );
    check_with(
        "run.started; tool.started t; @t namespace.entered a t; @n namespace.entered a t",
        limited(|limits| limits.open_namespaces = 1),
        "3: R11Sums: more than 1 namespaces are open",
    );
    check_with(
        "run.started; warning; warning",
        limited(|limits| limits.run_events = 2),
        "2: R11Sums: the run has more than 2 events",
    );
    check_with(
        "run.started; warning; warning",
        limited(|limits| limits.run_bytes = 599),
        "2: R11Sums: the run has more than 599 bytes",
    );
}

#[test]
fn r12_a_stream_that_closes_has_a_terminal() {
    check(".", "end: R12ClosedWithoutTerminal: the stream ends without a terminal");
    check("run.started; warning.", "end: R12ClosedWithoutTerminal: the stream ends without a terminal");
    check(
        "run.started; interrupt.requested i form.",
        "end: R12ClosedWithoutTerminal: the stream ends without a terminal",
    );
    for terminal in ["run.finished.", "run.error.", "run.cancelled."] {
        check(&format!("run.started; {terminal}"), "ok");
    }
}

#[test]
fn r13_a_durable_thread_is_finished_once_it_is_committed() {
    check(
        "run.started; run.finished bare",
        "1: R13CommittedFinish: run.finished of a durable thread has no thread state",
    );
    for durability in ["pending", "uncertain", "failed"] {
        check(
            &format!("run.started; run.finished {durability}"),
            &format!(
                "1: R13CommittedFinish: run.finished of a durable thread says {durability}, not committed"
            ),
        );
    }
    let ephemeral = || Validator::new(Boundary::Commit, Thread::Ephemeral, Limits::DEFAULT);
    check_with("run.started; run.finished bare", ephemeral(), "ok");
    check_with("run.started; run.finished committed", ephemeral(), "ok");
}

#[test]
fn r13_the_head_of_a_finished_run_is_the_one_the_store_committed() {
    let events = script("run.started; run.finished");
    let mut validator = durable(Boundary::Commit);
    validator.accept(&events[0], 9).unwrap();
    let receipt = |revision, head| CommitReceipt::issued_by_store(revision, Reference::new(head).unwrap());
    let other = Err(Violation::OtherHead { revision: 8 });
    assert_eq!(validator.accept_committed(&events[1], 9, &receipt(7, "head-8")), other);
    assert_eq!(validator.accept_committed(&events[1], 9, &receipt(8, "head-7")), other);
    assert_eq!(validator.accept_committed(&events[1], 9, &receipt(8, "head-8")), Ok(()));
}

#[test]
fn an_adapter_cannot_claim_durability() {
    check_with("run.started; run.finished bare", durable(Boundary::Yield), "ok");
    check_with(
        "run.started; run.finished committed",
        durable(Boundary::Yield),
        "1: payload: an adapter cannot claim a thread state",
    );
}

#[test]
fn r14_an_interrupt_is_accepted_at_commit_with_the_stores_receipt_only() {
    let text = "run.started; interrupt.requested i form; run.interrupted i human_input";
    check_with(text, durable(Boundary::Commit), "2: R14CommittedInterrupt: interrupt i is not committed");
    check_with(text, durable(Boundary::Commit).offline(), "ok");
    check_with(text, durable(Boundary::Yield), "ok");

    let events = script(text);
    let mut validator = durable(Boundary::Commit);
    validator.accept(&events[0], 9).unwrap();
    validator.accept(&events[1], 9).unwrap();
    assert_eq!(validator.would_accept(&events[2], 9), Ok(()));
    assert_eq!(validator.terminal(), None);
    let receipt = CommitReceipt::issued_by_store(3, Reference::new("head-3").unwrap());
    assert_eq!(validator.accept_committed(&events[2], 9, &receipt), Ok(()));
    assert_eq!(validator.terminal().map(|terminal| terminal.sequence.value()), Some(2));
}

#[test]
fn r15_an_uncertain_end_does_not_invite_to_a_retry() {
    check("run.started; run.error thread_durability_uncertain", "ok");
    check("run.started; run.error harness_timeout retry", "ok");
    check(
        "run.started; run.error thread_durability_uncertain retry",
        "1: R15UncertainCommit: thread_durability_uncertain says that it may be retried",
    );
}

#[test]
fn what_is_open_can_be_asked() {
    let mut validator = durable(Boundary::Commit).offline();
    let effects = |validator: &Validator| validator.side_effect_status();
    assert_eq!(judge("run.started; text.started m", &mut validator), "ok");
    assert_eq!(effects(&validator), SideEffectStatus::None);
    let text = "#2 tool.started t:task; tool.started u; @t namespace.entered a t; @t/n namespace.entered b u; \
                tool.started w; tool.finished w";
    assert_eq!(judge(text, &mut validator), "ok");
    assert_eq!(effects(&validator), SideEffectStatus::Possible);
    let shown = |namespace: causeway_lifecycle::namespace::OpenNamespace| {
        format!("{:?} {} {}", namespace.path, namespace.agent_id, namespace.parent_tool_call_id)
    };
    let inner_first: Vec<String> = validator.open_namespaces().rev().map(shown).collect();
    assert_eq!(inner_first, ["[\"t\", \"n\"] b u", "[\"t\"] a t"]);
    let tools: Vec<String> = validator.open_tools().map(|(id, tool)| format!("{id} {tool}")).collect();
    assert_eq!(tools, ["t task", "u tool"]);
    let messages: Vec<String> = validator.open_messages().map(|(kind, id)| format!("{kind} {id}")).collect();
    assert_eq!(messages, ["text m"]);
    let rest =
        "#8 @t/n namespace.exited b u; @t namespace.exited a t; tool.finished t; tool.error u; run.finished.";
    assert_eq!(judge(rest, &mut validator), "ok");
    assert_eq!(effects(&validator), SideEffectStatus::Known);
    assert_eq!(validator.open_namespaces().count() + validator.open_tools().count(), 0);
}
