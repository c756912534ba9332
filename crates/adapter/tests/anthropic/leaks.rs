//! Secrets, paths and words of providers planted in errors: none of them is in any event.

use causeway_adapter::turn::Turn;

use crate::support::{Run, options};

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

fn words() -> String {
    let text = CANARIES.join(" ");
    format!("{text}\\n line 2 {text}")
}

#[test]
fn nothing_a_harness_or_provider_says_of_an_error_gets_out() {
    let w = words();
    let claude: &[String] = &[
        format!(r#"{{"type":"system","subtype":"init","session_id":"s","cwd":"{w}"}}"#),
        format!(r#"{{"type":"system","subtype":"api_retry","attempt":1,"error":"{w}","error_status":529}}"#),
        format!(
            r#"{{"type":"assistant","error":"{w}","message":{{"id":"e","model":"<synthetic>","content":[{{"type":"text","text":"{w}"}}]}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","is_api_error_message":true,"api_error_type":"{w}","message":{{"id":"e","model":"m","content":[{{"type":"text","text":"{w}"}}]}}}}"#
        ),
        format!(r#"{{"type":"system","subtype":"permission_denied","tool_use_id":"t","message":"{w}"}}"#),
        format!(
            r#"{{"type":"system","subtype":"task_notification","tool_use_id":"k","status":"failed","summary":"{w}"}}"#
        ),
        format!(
            r#"{{"type":"result","subtype":"error_during_execution","is_error":true,"result":"{w}","errors":["{w}"],"terminal_reason":"{w}","stop_reason":"{w}"}}"#
        ),
    ];
    let sdk = [format!(r#"{{"kind":"error","error_type":"{w}","message":"{w}"}}"#)];
    let messages = [format!(r#"{{"type":"error","error":{{"type":"{w}","message":"{w}"}}}}"#)];
    let client = [format!(
        r#"{{"kind":"error","error_type":"{w}","status":500,"message":"{w}","headers":{{"retry-after":"{w}"}}}}"#
    )];
    for (harness, lines) in [
        ("claude-agent-sdk", claude),
        ("claude-agent-sdk", &sdk),
        ("anthropic-messages", &messages),
        ("anthropic-messages", &client),
    ] {
        let mut run = Run::new(harness, Turn::Start, options());
        for line in lines {
            run.line(line.as_bytes()).unwrap();
        }
        let run = run.close();
        assert!(run.code().is_some(), "{harness}: {}", run.text());
        for canary in CANARIES {
            assert!(!run.text().contains(canary), "{harness}: {canary}: {}", run.text());
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_without_its_words() {
    for harness in ["claude-agent-sdk", "anthropic-messages"] {
        for line in
            ["sk-test-CANARY-7f3a", "[\"CANARY\"]", "{\"CANARY\":1}", "{\"kind\":\"CANARY\"}", "\"CANARY\""]
        {
            let mut run = Run::new(harness, Turn::Start, options());
            let error = run.line(line.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("CANARY"), "{harness}: {error}");
        }
    }
}

#[test]
fn the_case_of_an_error_with_key_path_and_stack_holds() {
    let case =
        include_str!("../../../../tests/data/cases/B52-provider-error-text-with-key-path-and-stack.json");
    let case = causeway_adapter::json::Json::parse(case.as_bytes()).unwrap();
    let mut run = Run::new("claude-agent-sdk", Turn::Start, options());
    for line in case.list("input") {
        run.line(line.to_text().as_bytes()).unwrap();
    }
    assert_eq!(run.code(), Some("agent_execution_failed"));
    for word in case.get("expect").unwrap().list("must_not_contain_anywhere") {
        assert!(!run.text().contains(&*word.as_str().unwrap().lossy()));
    }
}
