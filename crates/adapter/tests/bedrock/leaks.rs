//! Secrets, paths and words of providers planted in errors: none of them is in any event.

use crate::support::{AGENTCORE, CONVERSE, Run, options};

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

/// A frame as the service writes it.
fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut names = Vec::new();
    for (name, value) in headers {
        names.push(u8::try_from(name.len()).unwrap());
        names.extend(name.as_bytes());
        names.push(7);
        names.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        names.extend(value.as_bytes());
    }
    let mut out = u32::try_from(16 + names.len() + payload.len()).unwrap().to_be_bytes().to_vec();
    out.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out.extend(names);
    out.extend(payload.as_bytes());
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out
}

fn failed(harness: &str, items: &[Vec<u8>]) {
    let mut run = Run::new(harness, options());
    for item in items {
        run.item(item).unwrap();
    }
    let run = run.close();
    assert!(run.end().is_some_and(|end| !end.starts_with("success")), "{harness}: {}", run.text());
    for canary in CANARIES {
        assert!(!run.text().contains(canary), "{harness}: {canary}: {}", run.text());
    }
}

#[test]
fn nothing_a_service_says_of_an_error_gets_out() {
    let text = CANARIES.join(" ");
    let w = format!("{text}\\n line 2 {text}");
    let start = br#"{"messageStart":{"role":"assistant"}}"#.to_vec();
    for harness in [CONVERSE, AGENTCORE] {
        for line in [
            format!(r#"{{"kind":"error","error_type":"{w}","code":"{w}","message":"{w}"}}"#),
            format!(
                r#"{{"kind":"error","code":"throttlingException","message":"{w}","headers":{{"retry-after":"{w}"}}}}"#
            ),
            format!(r#"{{"throttlingException":{{"message":"{w}"}}}}"#),
            format!(r#"{{"kind":"event","event":{{"runtimeClientError":{{"message":"{w}"}}}}}}"#),
            format!(r#"{{"validationException":{{"message":"{w}"}}}}"#),
        ] {
            failed(harness, &[start.clone(), line.into_bytes()]);
        }
        let body = format!(r#"{{"message":"{w}"}}"#);
        failed(harness, &[frame(&[(":exception-type", &text), (":message-type", "exception")], &body)]);
        let headers = [(":error-code", text.as_str()), (":error-message", &text), (":message-type", "error")];
        failed(harness, &[frame(&headers, "")]);
        let stop = format!(r#"{{"messageStop":{{"stopReason":"malformed_model_output","note":"{w}"}}}}"#);
        failed(harness, &[start.clone(), stop.into_bytes()]);
    }
    for line in [
        format!(r#"data: {{"error":"{w}","error_type":"ValueError","message":"{w}"}}"#),
        format!(r#"data: {{"error":{{"type":"{w}","message":"{w}"}}}}"#),
        format!(r#"{{"error":"{w}"}}"#),
        format!(r#"{{"status":"error","message":"{w}"}}"#),
        format!(r#"data: {{"force_stop":true,"force_stop_reason":"{w}"}}"#),
        format!(r#"{{"kind":"response","statusCode":424,"body":"{w}"}}"#),
    ] {
        failed(AGENTCORE, &[line.into_bytes()]);
    }
}

#[test]
fn what_cannot_be_read_is_refused_without_its_words() {
    for (harness, line) in [
        (CONVERSE, "sk-test-CANARY-7f3a"),
        (CONVERSE, "[\"CANARY\"]"),
        (CONVERSE, "{\"CANARY\":1}"),
        (CONVERSE, "{\"kind\":\"CANARY\"}"),
        (AGENTCORE, "sk-test-CANARY-7f3a"),
        (AGENTCORE, "{\"kind\":\"CANARY\"}"),
        (AGENTCORE, "{\"kind\":\"event\",\"event\":\"CANARY\"}"),
    ] {
        let mut run = Run::new(harness, options());
        let error = run.item(line.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("CANARY"), "{harness}: {error}");
    }
}
