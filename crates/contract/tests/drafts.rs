//! Values that were never decoded: drafts and stored parts are held to the rules of a line.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // shares its support file with tests that read data

mod support;

use causeway_contract::decode::{Parts, decode_line, decode_parts};
use causeway_contract::event::{
    FormField, InterruptRequest, InterruptRequested, TextDelta, ToolApproval, ToolFinished, Warning,
};
use causeway_contract::id::{Code, InterruptId, InvocationId, MessageId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::namespace::Namespace;
use causeway_contract::{EventDraft, Limits};

use crate::support::{delta, verdict};

#[test]
fn a_draft_is_held_to_the_same_rules() {
    let limits = Limits::DEFAULT;
    let draft = |data: EventDraft<'static>| verdict(data.check(&limits));
    let call = || ToolCallId::new("t").unwrap();
    let finished = |result: String| {
        EventDraft::root(ToolFinished { tool_call_id: call(), result: result.into(), result_ref: None })
    };
    assert_eq!(draft(finished("\u{1b}".repeat(65536))), "ok");
    assert_eq!(
        draft(finished("x".repeat(65537))),
        "bounds \"/data/result\": the value is 65537 bytes long, the limit is 65536"
    );
    assert_eq!(draft(finished("a\0".into())), "text \"/data/result\": the text holds U+0000");
    let tight = Limits { event_bytes: 20_000, ..Limits::DEFAULT };
    assert_eq!(
        verdict(finished("\u{1b}".repeat(5000)).check(&tight)),
        "bounds \"\": the event is 46416 bytes long, the limit is 20000"
    );
    assert_eq!(verdict(finished("x".repeat(500)).check(&tight)), "ok");

    let message_id = MessageId::bounded("m".repeat(300), 300).unwrap();
    let delta = TextDelta { message_id, delta: "x".into() };
    assert_eq!(
        draft(EventDraft::root(delta)),
        "bounds \"/data/message_id\": the value is 300 bytes long, the limit is 256"
    );

    let warning = Warning { code: Code::new("x").unwrap(), message: "a\nb".into(), details: None };
    assert_eq!(
        draft(EventDraft::root(warning)),
        "text \"/data/message\": the text holds the control character U+000A"
    );

    let deep: Namespace<'_> = (0..9).map(|n| InvocationId::new(n.to_string()).unwrap()).collect();
    assert_eq!(
        verdict(EventDraft { namespace: deep, ..finished(String::new()) }.check(&limits)),
        "bounds \"/namespace\": there are more than 8 elements"
    );

    let object = JsonObject::parse(r#"{"field_name":"n","field_type":"text","x":1}"#, &limits).unwrap();
    let field = FormField::from_object(object, &limits).unwrap();
    let form = |field| {
        EventDraft::root(InterruptRequested {
            interrupt_id: InterruptId::new("i").unwrap(),
            agent_id: Name::new("a").unwrap(),
            request: InterruptRequest::Form { prompt: "p".into(), fields: vec![field] },
        })
    };
    assert_eq!(draft(form(field.clone())), "ok");
    assert_eq!(
        draft(form(FormField { required: true, ..field })),
        "payload \"/data/fields/0/required\": the value of the typed field was expected"
    );

    let depth = |levels: usize| {
        JsonObject::parse(format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels)), &limits)
    };
    let approvals = |levels| {
        EventDraft::root(InterruptRequested {
            interrupt_id: InterruptId::new("i").unwrap(),
            agent_id: Name::new("a").unwrap(),
            request: InterruptRequest::Approvals(vec![ToolApproval {
                tool_call_id: call(),
                tool_name: Name::new("n").unwrap(),
                tool_args: depth(levels).unwrap(),
                allowed_decisions: Vec::new(),
            }]),
        })
    };
    assert_eq!(draft(approvals(60)), "ok");
    assert_eq!(
        draft(approvals(61)),
        "bounds \"/data/tool_approvals/0/tool_args\": the value is 61 levels deep, the limit is 60"
    );
    assert!(depth(63).is_err());
}

#[test]
fn stored_parts_are_read_as_strictly_as_a_line() {
    let parts = Parts {
        run_id: "run-1",
        conversation_id: "conv-1",
        sequence: 3,
        timestamp: "2026-08-17T00:00:00.120Z",
        namespace_json: r#"["t0","t1"]"#,
        event_type: "text.delta",
        data_json: r#"{"message_id":"m","delta":"x"}"#,
    };
    let line = delta("\"x\"");
    let read = |parts: &Parts<'_>| verdict(decode_parts(parts, &Limits::DEFAULT).map(|_| ()));
    assert_eq!(
        decode_parts(&parts, &Limits::DEFAULT).unwrap(),
        decode_line(line.as_bytes(), &Limits::DEFAULT).unwrap()
    );
    assert_eq!(
        read(&Parts { event_type: "text", ..parts }),
        "envelope \"/type\": the contract has no such event type"
    );
    assert_eq!(read(&Parts { run_id: "", ..parts }), "envelope \"/run_id\": the value is empty");
    assert_eq!(
        read(&Parts { sequence: 1 << 53, ..parts }),
        "envelope \"/sequence\": the integer is larger than 9007199254740991"
    );
    assert_eq!(
        read(&Parts { namespace_json: "[1]", ..parts }),
        "envelope \"/namespace/0\": a string was expected"
    );
    assert_eq!(
        read(&Parts { namespace_json: "[", ..parts }),
        "envelope -: the line is not JSON: a JSON value was expected at byte 1"
    );
    assert_eq!(
        read(&Parts { data_json: r#"{"message_id":"m"}"#, ..parts }),
        "payload \"/data\": the field \"delta\" is missing"
    );
    assert_eq!(
        read(&Parts { data_json: "{} ", ..parts }),
        "payload \"/data\": the field \"message_id\" is missing"
    );
}
