//! Each fault of one event: the check it breaks, the pointer to it, the sentence about it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data

mod support;

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;

use crate::support::{delta, line, one_line_each, verdict};

fn check(line: &str, expected: &str) {
    check_with(line.as_bytes(), &Limits::DEFAULT, expected);
}

fn check_with(line: &[u8], limits: &Limits, expected: &str) {
    let found = verdict(decode_line(line, limits).map(|_| ()));
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(line.get(..400).unwrap_or(line)));
}

/// The legal line of a type with one piece of text replaced.
fn edit(event_type: &str, from: &str, to: &str) -> String {
    let needle = format!("\"type\":\"{event_type}\"");
    let line = one_line_each().into_iter().find(|line| line.contains(&needle) && line.contains(from));
    line.unwrap_or_else(|| panic!("no {event_type} with {from}")).replacen(from, to, 1)
}

#[test]
fn a_line_that_does_not_parse_is_envelope_whatever_else_is_wrong() {
    let good = delta("\"x\"");
    let limits = Limits::DEFAULT;
    check("", "envelope -: the line is not JSON: a JSON value was expected at byte 0");
    check("hello", "envelope -: the line is not JSON: a JSON value was expected at byte 0");
    check(
        &format!("{good}{good}"),
        &format!("envelope -: the line goes on after its JSON value, at byte {}", good.len()),
    );
    check(&format!("\u{feff}{good}"), "envelope -: the line starts with a byte order mark");
    check_with(b"\xef\xbb\xbf{}", &limits, "envelope -: the line starts with a byte order mark");
    check_with(
        b"{\"version\":1,\"type\":\"\xff\"}",
        &limits,
        "envelope -: the line is not valid UTF-8 from byte 21 on",
    );
    check_with(b"\"\xed\xa0\x80\"", &limits, "envelope -: the line is not valid UTF-8 from byte 1 on");
    check(
        r#"{"version":2,"type":NaN}"#,
        "envelope -: the line is not JSON: a JSON value was expected at byte 20",
    );
    check(
        r#"{"version":2,"sequence":-Infinity}"#,
        "envelope -: the line is not JSON: a digit was expected at byte 25",
    );
    check(
        r#"{"version":2 "x":1}"#,
        "envelope -: the line is not JSON: a comma or a closing brace was expected at byte 13",
    );
    check(
        "{\"version\":2,\"x\":\"\t\"}",
        "envelope -: the line is not JSON: an escaped control character was expected at byte 18",
    );
    check(
        r#"{"version":2,"x":"\ud800","y":01}"#,
        "envelope -: the line is not JSON: a number without a leading zero was expected at byte 32",
    );
    check(
        &line(
            "tool.started",
            &format!(
                r#"{{"tool_call_id":"t","tool_name":"n","arguments":{}1{}}}"#,
                "{\"a\":".repeat(63),
                "}".repeat(63)
            ),
        ),
        "envelope -: the JSON is more than 64 levels deep",
    );
    check(
        &line(
            "tool.started",
            &format!(
                r#"{{"tool_call_id":"t","tool_name":"n","arguments":{}1{}}}"#,
                "{\"a\":".repeat(62),
                "}".repeat(62)
            ),
        ),
        "ok",
    );
}

#[test]
fn the_envelope_has_eight_fields_each_of_its_shape() {
    let good = delta("\"x\"");
    let edit = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    check(&good, "ok");
    check(&format!("  {good}\r\n"), "ok");
    check("[]", "envelope \"\": an object was expected");
    check("{}", "envelope \"\": the field \"version\" is missing");
    check(&edit(r#","namespace":["t0","t1"]"#, ""), "envelope \"\": the field \"namespace\" is missing");
    check(
        &edit(r#","data":{"message_id":"m","delta":"x"}"#, ""),
        "envelope \"\": the field \"data\" is missing",
    );
    check(
        &edit(r#""version":1"#, r#""version":1,"trace":{}"#),
        "envelope \"/trace\": the contract has no such field here",
    );
    check(
        &edit(r#""version":1"#, r#""version":1,"version":1"#),
        "envelope \"/version\": the field occurs twice",
    );
    check(
        &edit(r#""data":"#, r#""data":{},"data":"#),
        "payload \"/data\": the field \"message_id\" is missing",
    );
    check(
        &edit(
            r#""data":{"message_id":"m","delta":"x"}"#,
            r#""data":{"message_id":"m","delta":"x"},"data":{}"#,
        ),
        "envelope \"/data\": the field occurs twice",
    );
    for version in ["2", "1.0", "\"1\"", "null", "true", "0", "-1", "18446744073709551616"] {
        check(
            &edit(r#""version":1"#, &format!("\"version\":{version}")),
            "envelope \"/version\": the version is not the integer 1",
        );
    }
    check(&edit("text.delta", "text.replaced"), "envelope \"/type\": the contract has no such event type");
    check(&edit("text.delta", "TEXT.DELTA"), "envelope \"/type\": the contract has no such event type");
    check(&edit("\"text.delta\"", "7"), "envelope \"/type\": a string was expected");
    check(&edit("\"run-1\"", "null"), "envelope \"/run_id\": a string was expected");
    check(&edit("\"run-1\"", "\"\""), "envelope \"/run_id\": the value is empty");
    check(&edit("\"run-1\"", "\" run\""), "envelope \"/run_id\": the value starts or ends with a space");
    check(
        &edit("\"run-1\"", r#""run\u0007""#),
        "text \"/run_id\": the value holds the forbidden character U+0007",
    );
    check(
        &edit("\"conv-1\"", r#""\ud800""#),
        "text \"/conversation_id\": the text holds half a surrogate pair",
    );
    check(
        &edit("\"conv-1\"", &format!("\"{}\"", "c".repeat(257))),
        "bounds \"/conversation_id\": the value is 257 bytes long, the limit is 256",
    );
    for sequence in ["-1", "1.0", "\"3\"", "null", "1e2", "3.5"] {
        check(
            &edit("\"sequence\":3", &format!("\"sequence\":{sequence}")),
            "envelope \"/sequence\": an integer from 0 on was expected",
        );
    }
    check(&edit("\"sequence\":3", "\"sequence\":9007199254740991"), "ok");
    for sequence in ["9007199254740992", "99999999999999999999999"] {
        check(
            &edit("\"sequence\":3", &format!("\"sequence\":{sequence}")),
            "envelope \"/sequence\": the integer is larger than 9007199254740991",
        );
    }
    check(
        &edit("00.120Z", "00.120"),
        "envelope \"/timestamp\": the timestamp is not an RFC 3339 date-time with an offset",
    );
    check(
        &edit("2026-08-17", "2026-02-30"),
        "envelope \"/timestamp\": the timestamp names a date or time that does not exist",
    );
    check(&edit(r#"["t0","t1"]"#, "\"t0\""), "envelope \"/namespace\": an array of strings was expected");
    check(&edit("\"t1\"", "1"), "envelope \"/namespace/1\": a string was expected");
    check(
        &edit("\"t1\"", "\"\u{202e}x\""),
        "text \"/namespace/1\": the value holds the forbidden character U+202E",
    );
    check(
        &edit(r#"["t0","t1"]"#, r#"["1","2","3","4","5","6","7","8","9"]"#),
        "bounds \"/namespace\": there are more than 8 elements",
    );
    check(&edit(r#"{"message_id":"m","delta":"x"}"#, "[]"), "payload \"/data\": an object was expected");
}

#[test]
fn fields_may_come_in_any_order_and_with_escaped_keys() {
    let ordered = delta("\"x\"");
    let event = decode_line(ordered.as_bytes(), &Limits::DEFAULT).unwrap();
    let shuffled = r#" { "data" : { "delta" : "\u0078" , "m\u0065ssage_id" : "m" } , "namespace" : [ "t0" , "t1" ] , "timestamp" : "2026-08-17T02:00:00.120+02:00" , "sequence" : 3 , "conversation_id" : "conv-1" , "run_id" : "run-1" , "type" : "t\u0065xt.delta" , "version" : 1 } "#;
    assert_eq!(decode_line(shuffled.as_bytes(), &Limits::DEFAULT).unwrap(), event);
    check(
        &shuffled.replace("\\u0078", "\\ud800"),
        "text \"/data/delta\": the text holds half a surrogate pair",
    );
    check(&shuffled.replace("\"m\"", "7"), "payload \"/data/message_id\": a string was expected");
}

#[test]
fn a_payload_has_the_fields_of_its_type() {
    check(
        &edit("text.delta", ",\"delta\"", ",\"text\""),
        "payload \"/data/text\": the contract has no such field here",
    );
    check(
        &edit("text.started", ",\"role\":\"assistant\"", ""),
        "payload \"/data\": the field \"role\" is missing",
    );
    check(&edit("reasoning.started", ",\"role\":\"assistant\"", ""), "ok");
    check(
        &edit("text.started", "assistant", "user"),
        "payload \"/data/role\": the value is not one of assistant",
    );
    check(
        &edit("text.finished", "\"message_id\":\"m\"", "\"message_id\":\"m\",\"message_id\":\"m\""),
        "payload \"/data/message_id\": the field occurs twice",
    );
    check(
        &edit("run.started", "deep-agents", "Deep"),
        "payload \"/data/harness_id\": the value does not match ^[a-z][a-z0-9_-]{0,63}$",
    );
    check(&edit("run.started", "\"m\"", "null"), "ok");
    check(
        &edit("run.finished", "success", "error"),
        "payload \"/data/outcome\": the value is not one of success",
    );
    check(
        &edit("run.finished", "committed", "maybe"),
        "payload \"/data/thread_state/durability\": the value is not one of committed, pending, uncertain, failed",
    );
    check(
        &edit("run.finished", "\"durable_revision\":8", "\"durable_revision\":-8"),
        "payload \"/data/thread_state/durable_revision\": an integer from 0 on was expected",
    );
    check(
        &edit("run.finished", ",\"head_ref\":\"h\"", ""),
        "payload \"/data/thread_state\": the field \"head_ref\" is missing",
    );
    check(
        &edit("run.finished", "\"head_ref\":\"h\"", "\"head_ref\":\"h\",\"x\":1"),
        "payload \"/data/thread_state/x\": the contract has no such field here",
    );
    check(
        &edit("run.error", "\"retryable\":true", "\"retryable\":1"),
        "payload \"/data/retryable\": true or false was expected",
    );
    check(
        &edit("run.error", "2.50", "-2.50"),
        "payload \"/data/retry_after_seconds\": the number is negative",
    );
    check(
        &edit("run.error", "2.50", "1e400"),
        "payload \"/data/retry_after_seconds\": the number is beyond the range of a double",
    );
    check(
        &edit("run.error", "engine_restarted", "Engine"),
        "payload \"/data/code\": the value does not match ^[a-z][a-z0-9_]{0,63}$",
    );
    check(
        &edit("run.cancelled", "client_request", "boredom"),
        "payload \"/data/reason\": the value is not one of client_request, disconnect, shutdown, deadline",
    );
    check(
        &edit("run.interrupted", "human_input", "form_input"),
        "payload \"/data/reason\": the value is not one of human_input, tool_approval",
    );
    check(
        &edit("namespace.exited", "success", "done"),
        "payload \"/data/outcome\": the value is not one of success, interrupted, cancelled, error",
    );
    check(
        &edit("usage.updated", "\"EUR\"", "\"euro\""),
        "payload \"/data/currency\": the currency is not three capital letters",
    );
    check(
        &edit("usage.updated", ":10,", ":10.5,"),
        "payload \"/data/input_tokens\": an integer from 0 on was expected",
    );
    check(&edit("usage.updated", "0.10", "-0.10"), "payload \"/data/cost\": the number is negative");
    check(&edit("usage.updated", "0.10", "null"), "ok");
    check(
        &edit("usage.updated", ",\"final\":false", ""),
        "payload \"/data\": the field \"final\" is missing",
    );
    check(
        &edit("provider.metadata", "\"eu-1\"", "[\"eu-1\"]"),
        "payload \"/data/metadata/region\": metadata is flat: only scalars may stand in it",
    );
    check(
        &edit("tool.started", "{\"q\":\"x\"", "[{\"q\":\"x\""),
        "envelope -: the line is not JSON: a comma or a closing bracket was expected at byte 285",
    );
    check(
        &line("tool.started", r#"{"tool_call_id":"t","tool_name":"n","arguments":[]}"#),
        "payload \"/data/arguments\": an object was expected",
    );
    check(
        &line("tool.started", r#"{"tool_call_id":"t","tool_name":"n","arguments":{"a":[0,{"b/c":1e999}]}}"#),
        "payload \"/data/arguments/a/1/b~1c\": the number is beyond the range of a double",
    );
}

#[test]
fn an_interrupt_has_the_fields_of_its_kind() {
    let form = |from: &str, to: &str| edit("interrupt.requested", from, to);
    check(
        &form("\"form_input\"", "\"tool_approval\""),
        "payload \"/data/prompt\": the contract has no such field here",
    );
    check(&form("\"prompt\":\"Fill in\",", ""), "payload \"/data\": the field \"prompt\" is missing");
    check(
        &form("\"field_name\":\"n\"", "\"name\":\"n\""),
        "payload \"/data/fields/0\": the field \"field_name\" is missing",
    );
    check(
        &form("\"field_name\":\"n\"", "\"field_name\":\"n\",\"field_name\":\"n\""),
        "payload \"/data/fields/0/field_name\": the field occurs twice",
    );
    check(
        &form("\"required\":true", "\"required\":\"yes\""),
        "payload \"/data/fields/0/required\": true or false was expected",
    );
    check(&form("\"required\":true", "\"required\":null"), "ok");
    check(
        &form("[\"b\"]", "[1e999]"),
        "payload \"/data/fields/0/options/0\": the number is beyond the range of a double",
    );
    check(
        &form("{\"field_type\"", "7,{\"field_type\""),
        "payload \"/data/fields/1\": an object was expected",
    );
    let approval = |from: &str, to: &str| edit("interrupt.requested", from, to);
    check(
        &approval("[\"approve\",\"reject\"]", "[\"approve\",\"approve\"]"),
        "payload \"/data/tool_approvals/0/allowed_decisions/1\": the decision is listed twice",
    );
    check(
        &approval("[\"approve\",\"reject\"]", "[\"maybe\"]"),
        "payload \"/data/tool_approvals/0/allowed_decisions/0\": the value is not one of approve, edit, reject",
    );
    check(
        &approval("\"tool_call_id\":\"u\"", "\"tool_call_id\":\"t\""),
        "payload \"/data/tool_approvals/1/tool_call_id\": the tool call is named twice",
    );
    check(
        &approval(",\"allowed_decisions\":[]", ""),
        "payload \"/data/tool_approvals/1\": the field \"allowed_decisions\" is missing",
    );
    check(
        &line(
            "interrupt.requested",
            r#"{"interrupt_id":"i","interrupt_type":"tool_approval","agent_id":"a","tool_approvals":[]}"#,
        ),
        "payload \"/data/tool_approvals\": an approval request names at least one tool call",
    );
    let sixty_five = vec![r#"{"field_name":"n","field_type":"text"}"#; 65].join(",");
    check(
        &line(
            "interrupt.requested",
            &format!(
                r#"{{"interrupt_id":"i","interrupt_type":"form_input","agent_id":"a","prompt":"","fields":[{sixty_five}]}}"#
            ),
        ),
        "bounds \"/data/fields\": there are more than 64 fields",
    );
}

#[test]
fn one_value_or_event_too_large_is_bounds() {
    let text = |len: usize| format!("\"{}\"", "x".repeat(len));
    check(&delta(&text(64 * 1024)), "ok");
    check(
        &delta(&text(64 * 1024 + 1)),
        "bounds \"/data/delta\": the value is 65537 bytes long, the limit is 65536",
    );
    // Length is counted without escapes: these are 64 KiB of quotes.
    check(&delta(&format!("\"{}\"", "\\\"".repeat(64 * 1024))), "ok");
    check(
        &edit("tool.finished", "\"ok\"", &text(65537)),
        "bounds \"/data/result\": the value is 65537 bytes long, the limit is 65536",
    );
    check(
        &edit("tool.error", "\"it broke\"", &text(65537)),
        "bounds \"/data/message\": the value is 65537 bytes long, the limit is 65536",
    );
    check(
        &edit("run.error", "\"The gateway was restarted.\"", &text(2049)),
        "bounds \"/data/message\": the value is 2049 bytes long, the limit is 2048",
    );
    check(
        &edit("run.finished", "\"end_turn\"", &text(2049)),
        "bounds \"/data/stop_reason\": the value is 2049 bytes long, the limit is 2048",
    );
    check(
        &edit("interrupt.requested", "\"Fill in\"", &text(16385)),
        "bounds \"/data/prompt\": the value is 16385 bytes long, the limit is 16384",
    );
    check(
        &edit("tool.started", "\"x\"", &text(256 * 1024)),
        "bounds \"/data/arguments\": the value is 262187 bytes long, the limit is 262144",
    );
    check(
        &edit("tool.started", "\"search docs\"", &text(257)),
        "bounds \"/data/tool_name\": the value is 257 bytes long, the limit is 256",
    );
    check(
        &edit("warning", "\"docs\"", &text(16384)),
        "bounds \"/data/details\": the value is 16397 bytes long, the limit is 16384",
    );
    let keys: Vec<String> = (0..65).map(|key| format!("\"{key}\":1")).collect();
    check(
        &edit("warning", "\"server\":\"docs\"", &keys.join(",")),
        "bounds \"/data/details\": there are more than 64 keys",
    );
    check(
        &edit("provider.metadata", "\"region\":\"eu-1\"", &keys.join(",")),
        "bounds \"/data/metadata\": there are more than 64 keys",
    );
    check(
        &edit("warning", "\"docs\"", "[[[[[[[[1]]]]]]]]"),
        "bounds \"/data/details\": the value is 9 levels deep, the limit is 8",
    );
    let small = Limits { event_bytes: 300, interrupt_bytes: 5000, ..Limits::DEFAULT };
    check_with(
        delta(&text(200)).as_bytes(),
        &small,
        "bounds \"\": the event is 390 bytes long, the limit is 300",
    );
    check_with(format!("{}{}\n", delta("\"x\""), " ".repeat(500)).as_bytes(), &small, "ok");
    for line in one_line_each().iter().filter(|line| line.contains("interrupt.requested")) {
        check_with(line.as_bytes(), &small, "ok");
    }
}

#[test]
fn text_keeps_the_character_rules() {
    check(&delta(r#""a\u0000""#), "text \"/data/delta\": the text holds U+0000");
    check(&delta(r#""\udc00\ud800""#), "text \"/data/delta\": the text holds half a surrogate pair");
    check(&delta(r#""\u001b[31m\u0085\u2028\u202e\ud83d\ude00""#), "ok");
    check(
        &delta("\"\u{1}\""),
        "envelope -: the line is not JSON: an escaped control character was expected at byte 187",
    );
    check(
        &edit("tool.started", "\"q\":\"x\"", r#""q":{"a\u0000":1}"#),
        "text \"/data/arguments/q\": the text holds U+0000",
    );
    check(
        &edit("warning", "\"docs\"", r#"["\ud800"]"#),
        "text \"/data/details/server/0\": the text holds half a surrogate pair",
    );
    check(
        &edit("warning", "did not", r"did\nnot"),
        "text \"/data/message\": the text holds the control character U+000A",
    );
    check(
        &edit("run.error", "restarted.", "restarted\u{85}"),
        "text \"/data/message\": the text holds the control character U+0085",
    );
    check(&edit("tool.error", "it broke", r"it\nbroke"), "ok");
    check(
        &edit("tool.error", "tool_error", r"tool\u0001"),
        "text \"/data/code\": the value holds the forbidden character U+0001",
    );
    check(
        &edit("tool.started", "search docs", r"search\tdocs"),
        "text \"/data/tool_name\": the value holds the forbidden character U+0009",
    );
    check(
        &edit("tool.started", "search docs", "search\u{2028}docs"),
        "text \"/data/tool_name\": the value holds the forbidden character U+2028",
    );
    check(&edit("tool.started", "search docs", "größe 😀"), "ok");
}
