//! The lints at their edges: what is named, and what just not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use causeway_contract::event::Event;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::timestamp::Timestamp;
use causeway_contract::{EventData, event};
use causeway_lifecycle::lint::Linter;
use causeway_lifecycle::testing::script;
use causeway_lifecycle::validator::{Boundary, Thread, Validator};

/// `INDEX: CODE at POINTER: text` for every hint but L08.
fn hints(events: &[Event<'_>]) -> Vec<String> {
    let mut validator = Validator::new(Boundary::Commit, Thread::Durable, Limits::DEFAULT).offline();
    let (mut linter, mut hints, mut shown) = (Linter::new(), Vec::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        assert_eq!(validator.accept(event, 100), Ok(()));
        linter.accept(event, &validator, &mut hints);
        let show = |hint: causeway_lifecycle::lint::Hint| {
            format!("{index}: {} at {}: {}", hint.lint, hint.pointer.unwrap_or("-"), hint.message)
        };
        shown.extend(hints.drain(..).map(show));
    }
    shown
}

fn of(text: &str) -> Vec<String> {
    hints(&script::script(text))
}

/// The script with the payload of its last event replaced.
fn ending(text: &str, data: EventData<'static>) -> Vec<String> {
    let mut events = script::script(text);
    events.last_mut().unwrap().data = data;
    hints(&events)
}

fn delta(text: &str) -> Vec<String> {
    ending("run.started; text.started m; warning", script::text_delta("m", text))
}

fn result(text: &str) -> Vec<String> {
    ending("run.started; tool.started t; warning", script::tool_finished("t", text))
}

fn failure(code: &'static str, text: &str) -> Vec<String> {
    let failed = event::ToolError {
        tool_call_id: script::call_id("t"),
        code: causeway_contract::id::Code::new(code).unwrap(),
        message: text.to_owned().into(),
        retryable: false,
    };
    ending("run.started; tool.started t; warning", failed.into())
}

const NONE: [&str; 0] = [];

#[test]
fn l01_names_what_is_open_at_a_terminal() {
    assert_eq!(
        of(
            "run.started; text.started m; reasoning.started r; tool.started t; tool.started u; tool.error u; run.error"
        ),
        [
            "6: L01 at -: text message m is still open at run.error",
            "6: L01 at -: reasoning message r is still open at run.error",
            "6: L01 at -: tool call t is still open at run.error",
        ]
    );
    let text = "run.started; text.started m; tool.started t; interrupt.requested i t; run.interrupted i";
    assert_eq!(of(text), ["4: L01 at -: text message m is still open at run.interrupted"]);
}

#[test]
fn l02_names_the_smallest_gap() {
    assert_eq!(
        of("run.started; warning; #3 warning; #9 run.finished"),
        ["2: L02 at /sequence: 3 follows 1", "3: L02 at /sequence: 9 follows 3"]
    );
    assert_eq!(of("run.started; warning; warning; run.finished"), NONE);
}

#[test]
fn l03_lets_a_second_pass() {
    let back = |seconds: i64, nanoseconds: u32| {
        let mut events = script::script("run.started; warning");
        events[0].timestamp = Timestamp::from_unix(100, 500_000_000);
        events[1].timestamp = Timestamp::from_unix(seconds, nanoseconds);
        hints(&events).len()
    };
    assert_eq!(
        (back(101, 0), back(99, 500_000_000), back(99, 499_999_999), back(98, 999_999_999)),
        (0, 0, 1, 1)
    );
}

#[test]
fn l04_names_each_total_that_shrinks() {
    let usage = |input, cached| event::UsageUpdated {
        input_tokens: input,
        output_tokens: Some(5),
        cached_input_tokens: cached,
        ..event::UsageUpdated::default()
    };
    let mut events = script::script("run.started; usage.updated; usage.updated; usage.updated");
    let totals = [usage(Some(9), Some(4)), usage(None, Some(4)), usage(Some(8), Some(3))];
    events.iter_mut().skip(1).zip(totals).for_each(|(event, usage)| event.data = usage.into());
    assert_eq!(
        hints(&events),
        [
            "3: L04 at /data/input_tokens: the total was 9 and is now 8",
            "3: L04 at /data/cached_input_tokens: the total was 4 and is now 3",
        ]
    );
}

#[test]
fn l05_names_deltas_above_16_kib() {
    assert_eq!(delta(&"x".repeat(16 * 1024)), NONE);
    assert_eq!(delta(&"x".repeat(16 * 1024 + 1)), ["2: L05 at /data/delta: the delta has 16385 bytes"]);
}

#[test]
fn l06_counts_characters_as_they_will_be_shown() {
    let cut = |count: usize| {
        [format!("2: L06 at /data/result: the text has {count} characters, 2000 will be shown")]
    };
    assert_eq!(result(&"ü".repeat(2000)), NONE);
    assert_eq!(result(&"ü".repeat(2001)), cut(2001));
    // `ERROR: ` is put before, but for a status.
    let cut = |count: usize| {
        [format!("2: L06 at /data/message: the text has {count} characters, 2000 will be shown")]
    };
    assert_eq!(failure("tool_error", &"x".repeat(1993)), NONE);
    assert_eq!(failure("tool_error", &"x".repeat(1994)), cut(2001));
    assert_eq!(failure("tool_status_error", &"x".repeat(2000)), NONE);
    assert_eq!(failure("tool_status_error", &"x".repeat(2001)), cut(2001));
}

#[test]
fn l07_names_control_characters_in_text_and_in_json() {
    assert_eq!(delta("tab\t, line\r\n, größe, \u{a0}, \u{2028}"), NONE);
    for (text, code) in
        [("\u{1b}[31m", "001B"), ("a\u{7f}", "007F"), ("\u{9b}31m", "009B"), ("\u{8}", "0008")]
    {
        let expected = format!("2: L07 at /data/delta: the value holds the control character U+{code}");
        assert_eq!(delta(text), [expected], "{text:?}");
    }
    let arguments = |json: &'static str| {
        let arguments = JsonObject::parse(json, &Limits::DEFAULT).unwrap();
        let (tool_call_id, tool_name) = (script::call_id("t"), script::name("tool"));
        let started = event::ToolStarted { tool_call_id, tool_name, arguments, parent_message_id: None };
        ending("run.started; warning", started.into()).len()
    };
    assert_eq!(arguments(r#"{"a":"\n\t\"\\u001b"}"#), 0);
    assert_eq!(arguments(r#"{"a":["\u001b"]}"#), 1);
    assert_eq!(arguments(r#"{"\b":1}"#), 1);
    assert_eq!(arguments("{\"a\":\"\u{85}\"}"), 1);
}

#[test]
fn l09_looks_for_the_word_in_any_case() {
    let hidden = ["2: L09 at /data/result: the text contains the word `rejected`"];
    assert_eq!(result("2 Rejected, 3 passed"), hidden);
    assert_eq!(result("REJECTED"), hidden);
    assert_eq!(result("reject, ejected, rrejecte d"), NONE);
    assert_eq!(failure("tool_error", "rejected").len(), 1);
    assert_eq!(failure("tool_rejected", "rejected by the reviewer"), NONE);
}
