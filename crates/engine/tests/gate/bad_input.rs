//! Bad input: thirty kinds of it, and none of them runs anything.

use causeway_engine::gate::Approval;
use serde_json::{Value, json};

use crate::rig::{Rig, calls, data, traces, tracing};
use crate::runs::last;

/// Arguments that run nothing, and the code that says so.
fn bad() -> Vec<(Value, &'static str)> {
    let deep = |levels: usize| {
        format!(r#"{{"name":"a","where":{}1{}}}"#, r#"{"y":"#.repeat(levels), "}".repeat(levels))
    };
    let digits = "9".repeat(400);
    let invalid = "invalid_arguments";
    let text = |text: &str| Value::from(text);
    vec![
        // Cut, or no JSON at all.
        (text(""), invalid),
        (text(r#"{"name":"api""#), invalid),
        (text(r#"{"name":"ap"#), invalid),
        (json!([r#"{"name":"#, r#""api""#]), invalid),
        (text("name=api"), invalid),
        (text(r#"{"name":"api"}{"name":"api"}"#), invalid),
        (text(r#"{"name":"api",}"#), invalid),
        (text(r#"{'name':'api'}"#), invalid),
        (text("\u{feff}{\"name\":\"api\"}"), invalid),
        // A key twice.
        (text(r#"{"name":"api","name":"db"}"#), invalid),
        (text(r#"{"name":"api","\u006eame":"db"}"#), invalid),
        (text(r#"{"name":"api","where":{"x":1,"x":2}}"#), invalid),
        // Not an object, or not even a text.
        (text("[]"), invalid),
        (text("null"), invalid),
        (text(r#""api""#), invalid),
        (json!({"name": "api"}), invalid),
        (json!([1, 2]), invalid),
        // The wrong types.
        (text(r#"{"name":7}"#), invalid),
        (text(r#"{"name":"api","count":"3"}"#), invalid),
        (text(r#"{"name":"api","tags":{"0":"a"}}"#), invalid),
        // Too deep, too long.
        (text(&deep(70)), invalid),
        (text(&deep(5_000)), invalid),
        (text(&format!(r#"{{"name":"api","tags":["{}"]}}"#, "x".repeat(300 * 1024))), invalid),
        // Huge numbers.
        (text(r#"{"name":"api","count":1e400}"#), invalid),
        (text(&format!(r#"{{"name":"api","count":{digits}}}"#)), invalid),
        (text(r#"{"name":"api","where":{"x":-1e999}}"#), invalid),
        (text(r#"{"name":"api","where":{"x":NaN}}"#), invalid),
        // Against the schema.
        (text("{}"), invalid),
        (text(r#"{"name":"api","count":10}"#), invalid),
        (text(r#"{"name":"api","force":true}"#), invalid),
        (text(r#"{"name":"api; rm -rf /"}"#), invalid),
        (text(r#"{"name":"api","tags":["a","b","c","d"]}"#), invalid),
        // Halves of characters, U+0000.
        (text(r#"{"name":"api","tags":["\ud800"]}"#), invalid),
        (text(r#"{"name":"api","tags":["\u0000"]}"#), invalid),
    ]
}

#[tokio::test]
async fn bad_arguments_run_nothing_and_are_told_with_a_pointer() {
    let dir = tempfile::tempdir().unwrap();
    let (tool, left) = tracing(dir.path());
    let rig = Rig::process(&[("restart", tool)], |_| {}).await;
    let bad = bad();
    assert!(bad.len() >= 30);
    let mut steps: Vec<Value> = bad
        .iter()
        .enumerate()
        .map(|(n, (arguments, _))| json!(["ask", format!("c{n}"), "restart", arguments]))
        .collect();
    steps.push(json!(["ask", "unknown", "launch", "{}"]));
    steps.push(json!(["ask", "bad-utf16", "restart", "x", {"arguments": null, "deltas": ["{\"name\":\"a", "\u{fffd}"]}]));
    let records = rig.play(&steps).await;
    assert_eq!(last(&records), "run.finished");
    assert_eq!(traces(&left), Vec::<String>::new(), "something ran");
    let mut expected: Vec<String> = bad
        .iter()
        .enumerate()
        .map(|(n, (_, code))| format!("tool.started c{n}; tool.error c{n} {code}"))
        .collect();
    expected.push("tool.started unknown; tool.error unknown unknown_tool".to_owned());
    expected.push("tool.started bad-utf16; tool.error bad-utf16 invalid_arguments".to_owned());
    assert_eq!(calls(&records), expected.join("; "));
    let messages: Vec<String> =
        data(&records, "tool.error").iter().map(|end| end["message"].as_str().unwrap().to_owned()).collect();
    let saying = |part: &str| messages.iter().filter(|message| message.contains(part)).count();
    assert!(
        saying(r#"at "/where""#) >= 1 && saying(r#"at "/count""#) >= 2 && saying(r#"at "/name""#) >= 2,
        "{messages:#?}"
    );
    for secret in ["rm -rf", "api;", "999999"] {
        assert_eq!(saying(secret), 0, "{secret} is repeated: {messages:#?}");
    }

    // The same call with good arguments does run: the trace is no illusion.
    let records = rig.play(&[json!(["ask", "good", "restart", [r#"{"name":"#, r#""api"}"#]])]).await;
    assert_eq!(calls(&records), "tool.started good; tool.finished good");
    assert_eq!(traces(&left), [r#"{"name":"api"}"#]);
}

#[tokio::test]
async fn a_line_that_cannot_be_read_ends_the_run_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (tool, left) = tracing(dir.path());
    let rig = Rig::process(&[("restart", tool)], |_| {}).await;
    let line = |name: &[u8], run: &[u8]| {
        let before = br#"{"kind":"tool","run_id":""#;
        let middle = br#"","call_id":"c","generation":@GEN@,"name":""#;
        let after = br#"","arguments":"{\"name\":\"api\"}"}"#;
        [&before[..], run, middle, name, after].concat()
    };
    for (raw, code) in [
        (line(b"rest\xffart", b"@RUN@"), "harness_output_invalid"),
        (line(b"restart", b"another-run"), "harness_output_invalid"),
        (line(b"rest\\ud800art", b"@RUN@"), "harness_output_invalid"),
        (
            br#"{"kind":"tool","run_id":"@RUN@","name":"restart","arguments":"{}"}"#.to_vec(),
            "harness_output_invalid",
        ),
        (br#"{"kind":"tool","run_id":"@RUN@","#.to_vec(), "harness_output_invalid"),
    ] {
        let hexed: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
        let records = rig.play(&[json!(["raw", hexed]), json!(["hang"])]).await;
        assert_eq!(last(&records), format!("run.error {code}"), "{}", String::from_utf8_lossy(&raw));
        assert_eq!(traces(&left), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_worker_that_was_offered_nothing_may_not_ask() {
    let dir = tempfile::tempdir().unwrap();
    let (tool, left) = tracing(dir.path());
    let ask = json!(["ask", "c", "restart", r#"{"name":"api"}"#]);
    // An agent without tools; and a worker whose hello does not speak of them.
    let none = Rig::process(&[], |_| {}).await;
    assert_eq!(last(&none.play(std::slice::from_ref(&ask)).await), "run.error harness_output_invalid");
    let mute = Rig::process(&[("restart", tool)], |agent| {
        if let causeway_engine::config::Driver::Process(process) = &mut agent.driver {
            process.command.push("--mute".to_owned());
        }
    })
    .await;
    assert_eq!(last(&mute.play(&[ask]).await), "run.error harness_output_invalid");
    assert_eq!(traces(&left), Vec::<String>::new());
}

#[tokio::test]
async fn ids_and_generations_that_cannot_be_are_refused_without_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let (mut tool, left) = tracing(dir.path());
    tool.approval = Approval::Never;
    let rig = Rig::process(&[("restart", tool)], |_| {}).await;
    let good = r#"{"name":"api"}"#;
    let records = rig
        .play(&[
            json!(["ask", "c", "restart", good, {"generation": 2}]),
            json!(["ask", "c", "restart", good, {"generation": null}]),
            json!(["ask", "c", "restart", good, {"call_id": "x".repeat(300)}]),
            json!(["ask", "c", "restart", good, {"call_id": "a\u{7}b"}]),
            json!(["ask", "c", "restart", good, {"name": ""}]),
        ])
        .await;
    assert_eq!((calls(&records).as_str(), last(&records).as_str()), ("", "run.finished"));
    let said = crate::runs::text(&records);
    assert_eq!(said.matches("error stale_worker").count(), 2, "{said}");
    assert_eq!(said.matches("error not_recorded").count(), 3, "{said}");
    assert_eq!(traces(&left), Vec::<String>::new());
}
