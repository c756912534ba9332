//! Decoding an event without escapes allocates nothing, at the root and one namespace deep.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // shares its support file with tests that read data

mod support;

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;

/// The allocations of decoding a line and dropping its event.
fn allocations(line: &str) -> u64 {
    let limits = Limits::DEFAULT;
    let info = allocation_counter::measure(|| {
        assert!(decode_line(line.as_bytes(), &limits).is_ok());
    });
    info.count_total
}

#[test]
fn a_delta_without_escapes_allocates_nothing() {
    for namespace in ["[]", r#"["call_1"]"#] {
        let line = support::line("text.delta", r#"{"message_id":"m","delta":"größe 😀 and more"}"#);
        assert_eq!(allocations(&line.replace(r#"["t0","t1"]"#, namespace)), 0, "{namespace}");
    }
}

#[test]
fn free_form_json_is_borrowed_whole() {
    let data = r#"{"tool_call_id":"t","tool_name":"n","arguments":{"q":["a\n",{"b":1.0}]}}"#;
    assert_eq!(allocations(&support::line("tool.started", data).replace(r#""t0","t1""#, "")), 0);
}

#[test]
fn an_escape_costs_one_allocation() {
    let line =
        support::line("text.delta", r#"{"message_id":"m","delta":"a\nb"}"#).replace(r#""t0","t1""#, "");
    assert_eq!(allocations(&line), 1);
}
