//! Bodies and queries with any damage at every route that reads one, for as long as `CAUSEWAY_FUZZ_SECONDS` says (default 2).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

#[path = "../../../fuzz/bodies/request.rs"]
mod body;
#[path = "../../../tests/support/numbers.rs"]
mod numbers;

use numbers::Numbers;

/// A good query and a good body for each of the routes.
const GOOD: &[(&str, &str)] = &[
    (
        "",
        r#"{"agent_id":"tour","conversation_id":"c","message":"hi","protocol":"agui","client_context":{"a":[1]}}"#,
    ),
    (
        "",
        r#"{"agent_id":"tour","conversation_id":"c","resume_data":"{\"type\":\"tool_approval\",\"decision\":\"approve\"}"}"#,
    ),
    ("", r#"{"agent_id":"tour","conversation_id":"c"}"#),
    ("", r#"{"agent_id":"tour","conversation_id":"c","message":"hi","idempotency_key":"k"}"#),
    (
        "",
        r#"{"interrupt_id":"i","revision":1,"idempotency_key":"k","decisions":[{"tool_call_id":"t","decision":"edit","edited_args":{"a":1}}]}"#,
    ),
    (
        "",
        r#"{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"hi"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}"#,
    ),
    ("sdk=6", r#"{"id":"t","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}"#),
    (
        "",
        r#"{"version":1,"type":"run.started","run_id":"r","conversation_id":"c","sequence":0,"timestamp":"2026-08-17T00:00:00Z","namespace":[],"data":{"harness_id":"h","adapter_version":"1"}}"#,
    ),
    ("status=finished&agent_id=tour&limit=5&since=2026-01-01T00:00:00Z&cursor=7", ""),
    ("after=3&wait=0&limit=9", ""),
    ("after=3&protocol=custom&agui_version=1.0.0&sdk=5&client_run_id=r", ""),
    ("status=pending", ""),
    ("", "{}"),
];

#[test]
fn no_damage_to_a_request_breaks_the_gateway() {
    assert_eq!(GOOD.len(), body::ROUTES.len());
    let mut numbers = Numbers::new(23);
    let end = Instant::now() + Duration::from_secs(numbers::seconds());
    let mut round = 0;
    while Instant::now() < end {
        for (route, (query, good)) in (0_u8..).zip(GOOD) {
            let text = format!("{query}\n{good}");
            let bytes = if round == 0 { text.into_bytes() } else { numbers.damaged(text.as_bytes()) };
            let mut data = vec![route];
            data.extend(bytes);
            body::request(&data);
        }
        round += 1;
    }
    assert!(round > 1);
}
