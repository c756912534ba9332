//! `causeway adapt` from the outside: native and canonical streams in, canonical lines and exit status out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use causeway_adapter::json::{Json, write_string};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");
const CLOCK: [&str; 2] = ["--clock", "2026-08-17T00:00:00Z"];

fn causeway(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _it_may_have_stopped_reading = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn adapt(from: &str, more: &[&str], input: &[u8]) -> Output {
    let args: Vec<&str> = ["adapt", "--from", from].iter().chain(&CLOCK).chain(more).copied().collect();
    causeway(&args, input)
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

fn json(line: &str) -> Json<'_> {
    Json::parse(line.as_bytes()).unwrap()
}

fn types(output: &Output) -> Vec<String> {
    lines(output).iter().map(|line| json(line).text("type").unwrap().to_owned()).collect()
}

fn recordings() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["deepagents", "deepagents-0.6.4"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(format!("{DATA}/recordings/{folder}")).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 40);
    files
}

/// The terminals that `index.json` expects, turn by turn.
fn expected_turns(file: &std::path::Path) -> Vec<String> {
    let index = std::fs::read(file.with_file_name("index.json")).unwrap();
    let index = Json::parse(&index).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let recording = index.items().iter().find(|one| one.text("file") == Some(name)).unwrap();
    let expected = recording.get("expected").unwrap();
    match expected.list("turns") {
        [] => vec![expected.text("terminal").unwrap().to_owned()],
        turns => turns.iter().map(|turn| turn.as_str().unwrap().as_plain().unwrap().to_owned()).collect(),
    }
}

#[test]
fn every_recording_becomes_legal_runs_that_both_encoders_take() {
    let scratch = tempfile::tempdir().unwrap();
    let seeds = scratch.path().join("seeds.jsonl");
    for file in recordings() {
        let name = file.display().to_string();
        let output = adapt("langgraph", &["--seeds-out", seeds.to_str().unwrap(), &name], b"");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let terminals: Vec<String> = types(&output)
            .into_iter()
            .filter_map(|event| {
                let turn = match event.as_str() {
                    "run.finished" => "success",
                    "run.interrupted" => "interrupt",
                    "run.cancelled" => "cancelled",
                    "run.error" => "error",
                    _ => return None,
                };
                Some(turn.to_owned())
            })
            .collect();
        assert_eq!(terminals, expected_turns(&file), "{name}");

        let checked = causeway(&["check", "--multi", "--format", "json"], &output.stdout);
        assert_eq!(checked.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&checked.stdout));
        for format in ["custom", "agui", "canonical"] {
            let args = ["encode", "--to", format, "--multi", "--seeds", seeds.to_str().unwrap()];
            let encoded = causeway(&args, &output.stdout);
            assert_eq!(
                encoded.status.code(),
                Some(0),
                "{name}: {}",
                String::from_utf8_lossy(&encoded.stderr)
            );
        }
        let again = adapt("deepagents", &[&name], b"");
        assert_eq!(again.stdout, output.stdout, "{name}: the same clock and seed give the same bytes");
    }
}

#[test]
fn runs_and_conversations_are_numbered_as_turns_and_threads_come() {
    let file = format!("{DATA}/recordings/deepagents/two_turns.jsonl");
    let output = adapt("deepagents", &["--run-id", "R", "--conversation-id", "C", &file], b"");
    let started: Vec<(String, String)> = lines(&output)
        .iter()
        .filter(|line| json(line).text("type") == Some("run.started"))
        .map(|line| {
            let event = json(line);
            (event.text("run_id").unwrap().to_owned(), event.text("conversation_id").unwrap().to_owned())
        })
        .collect();
    let expected = [("R", "C"), ("R-2", "C"), ("R-3", "C-2")].map(|(r, c)| (r.to_owned(), c.to_owned()));
    assert_eq!(started, expected);
}

#[test]
fn what_a_reviewer_refused_is_in_the_seed_even_when_only_the_stream_tells() {
    let scratch = tempfile::tempdir().unwrap();
    let seeds = scratch.path().join("seeds.jsonl");
    for stack in ["deepagents", "deepagents-0.6.4"] {
        let file = format!("{DATA}/recordings/{stack}/reject.jsonl");
        let output = adapt("deepagents", &["--seeds-out", seeds.to_str().unwrap(), &file], b"");
        assert_eq!(output.status.code(), Some(0));
        let seed = std::fs::read_to_string(&seeds).unwrap();
        let expected =
            r#"{"run_id":"run-2","open_tool_calls":["call_h1"],"delegations":[],"rejected":["call_h1"]}"#;
        assert_eq!(seed.trim_end(), expected, "{stack}");
    }
}

/// One line of a case's input.
fn render(element: &Json<'_>, out: &mut String) {
    match (element, element.get("$fill")) {
        (Json::String(text), _) => out.push_str(text.as_plain().unwrap()),
        (_, Some(fills)) => {
            let filled = |pointer: &str| {
                let fill = fills.get(pointer)?;
                let times = usize::try_from(fill.get("times").unwrap().as_u64().unwrap()).unwrap();
                Some(fill.text("text").unwrap().repeat(times))
            };
            fill(element.get("line").unwrap(), "", &filled, out);
        }
        (element, None) => element.write(out),
    }
    out.push('\n');
}

fn fill(json: &Json<'_>, pointer: &str, filled: &dyn Fn(&str) -> Option<String>, out: &mut String) {
    if let Some(text) = filled(pointer) {
        return write_string(&text, out);
    }
    let Json::Object(members) = json else { return json.write(out) };
    out.push('{');
    for (n, (key, value)) in members.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write_string(&key.lossy(), out);
        out.push(':');
        fill(value, &format!("{pointer}/{}", key.lossy()), filled, out);
    }
    out.push('}');
}

/// The cases of one kind of input: name, case, rendered lines.
fn cases(kind: &str, mut check: impl FnMut(&str, &Json<'_>, &str)) -> usize {
    let mut files: Vec<_> =
        std::fs::read_dir(format!("{DATA}/cases")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut count = 0;
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let case = Json::parse(&bytes).unwrap();
        if case.text("input_kind") == Some(kind) {
            let mut input = String::new();
            case.list("input").iter().for_each(|element| render(element, &mut input));
            check(case.text("id").unwrap(), &case, &input);
            count += 1;
        }
    }
    count
}

#[test]
fn canonical_cases_are_converted_as_they_say() {
    let count = cases("canonical_jsonl", |id, case, input| {
        let expect = case.get("expect").unwrap();
        let ephemeral = case.get("given").and_then(|given| given.text("thread")) == Some("ephemeral");
        let thread = if ephemeral { "ephemeral" } else { "durable" };
        let output = adapt("canonical", &["--thread", thread], input.as_bytes());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = lines(&output);
        let terminals: Vec<Json<'_>> = lines.iter().map(|line| json(line)).filter(is_terminal).collect();
        assert_eq!(terminals.len(), 1, "{id}: {errors}");
        let last = json(lines.last().unwrap());
        assert!(is_terminal(&last), "{id}");
        // What comes out is legal in any case.
        let checked = causeway(&["check", "--thread", thread], &output.stdout);
        assert_eq!(checked.status.code(), Some(0), "{id}: {}", String::from_utf8_lossy(&checked.stdout));
        let Some(convert) = expect.get("convert") else {
            // Accepted, or refused only after a terminal that stands.
            let rejected = expect.text("verdict") == Some("rejected");
            assert!(rejected || errors.is_empty(), "{id}: {errors}");
            let given =
                input.lines().filter_map(|line| Json::parse(line.as_bytes()).ok()).find(is_terminal).unwrap();
            assert_eq!(last.text("type"), given.text("type"), "{id}: {errors}");
            return;
        };
        for appended in convert.list("append") {
            assert_eq!(last.text("type"), appended.text("type"), "{id}");
            let data = appended.get("data");
            for (key, wanted) in data.map_or(&[][..], Json::members) {
                let given = last.get("data").unwrap().get(key.as_plain().unwrap());
                assert!(given.is_some_and(|given| given.same(wanted)), "{id}: {}", key.lossy());
            }
        }
        let invalid = last.get("data").unwrap().text("code") == Some("harness_event_invalid");
        assert_eq!(output.status.code(), Some(i32::from(invalid)), "{id}: {errors}");
    });
    assert_eq!(count, 20);
}

fn is_terminal(event: &Json<'_>) -> bool {
    matches!(event.text("type"), Some("run.finished" | "run.interrupted" | "run.cancelled" | "run.error"))
}

#[test]
fn a_childs_text_stays_in_its_namespace_in_either_shape_of_task_input() {
    let count = cases("native:langgraph", |id, _, input| {
        let task = r#""input":[{"id":"call-del-1","name":"task","args":{"subagent_type":"researcher"},"type":"tool_call"}]"#;
        let older = r#""input":{"__type":"tool_call_with_context","tool_call":{"id":"call-del-1","name":"task","args":{"subagent_type":"researcher"},"type":"tool_call"},"state":{}}"#;
        assert!(input.contains(task), "{id}");
        let mut outputs = Vec::new();
        for input in [input.to_owned(), input.replace(task, older)] {
            let output = adapt("langgraph", &[], input.as_bytes());
            assert_eq!(output.status.code(), Some(0), "{id}");
            let lines = lines(&output);
            let texts: Vec<(String, String)> = lines
                .iter()
                .map(|line| json(line))
                .filter(|event| event.text("type") == Some("text.delta"))
                .map(|event| {
                    let delta = event.get("data").unwrap().text("delta").unwrap().to_owned();
                    (event.get("namespace").unwrap().to_text(), delta)
                })
                .collect();
            let expected = [(r#"["call-del-1"]"#, "Child looks at node n-3."), ("[]", "Node n-3 is down.")];
            assert_eq!(texts, expected.map(|(n, t)| (n.to_owned(), t.to_owned())), "{id}");
            outputs.push(output.stdout);
        }
        assert_eq!(outputs[0], outputs[1], "{id}");
    });
    assert_eq!(count, 1);
}

#[test]
fn a_refused_commit_becomes_an_uncertain_end_and_nothing_of_the_interrupt_is_shown() {
    let plain = format!("{DATA}/recordings/deepagents/text_plain.jsonl");
    let output = adapt("deepagents", &["--fail-commit", "final", &plain], b"");
    let all = lines(&output);
    let last = json(all.last().unwrap());
    assert_eq!(last.get("data").unwrap().text("code"), Some("thread_durability_uncertain"));
    assert_eq!(output.status.code(), Some(0));

    let approve = format!("{DATA}/recordings/deepagents/approve.jsonl");
    let output = adapt("deepagents", &["--fail-commit", "interrupt", &approve], b"");
    let all = lines(&output);
    let first: Vec<_> =
        all.iter().map(|line| json(line)).filter(|e| e.text("run_id") == Some("run")).collect();
    assert!(first.iter().all(|event| event.text("type") != Some("interrupt.requested")));
    assert_eq!(first.last().unwrap().get("data").unwrap().text("code"), Some("thread_durability_uncertain"));
}

#[test]
fn yield_shows_what_comes_before_the_coordinator() {
    let file = format!("{DATA}/recordings/deepagents/crash_continue.jsonl");
    let output = adapt("deepagents", &["--yield", &file], b"");
    assert_eq!(output.status.code(), Some(0));
    let all = lines(&output);
    let ends: Vec<_> = all.iter().map(|line| json(line)).filter(is_terminal).collect();
    assert_eq!(ends.len(), 1, "the killed turn has no terminal yet");
    assert_eq!(ends[0].get("data").unwrap().to_text(), r#"{"outcome":"success","stop_reason":"end_turn"}"#);
    let checked = causeway(&["check", "--multi", "--boundary", "yield", "--format", "json"], &output.stdout);
    let verdicts = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(verdicts.matches("\"rule\":\"R12\"").count(), 1, "{verdicts}");
    assert_eq!(verdicts.matches("\"valid\":true").count(), 1, "{verdicts}");
}

const BEGIN: &str = r#"{"kind":"begin","run_id":"r","op":"run"}"#;
const END: &str = r#"{"kind":"end","run_id":"r","state":{"head":"h","interrupts":[]}}"#;

fn end_of(input: &str) -> (Option<i32>, String, String) {
    let output = adapt("deepagents", &[], input.as_bytes());
    let all = lines(&output);
    let last = json(all.last().unwrap());
    let code = last.get("data").and_then(|data| data.text("code")).unwrap_or_default().to_owned();
    (output.status.code(), last.text("type").unwrap().to_owned(), code)
}

#[test]
fn bad_native_input_ends_its_run_truthfully() {
    let error = |code: &str, exit| (Some(exit), "run.error".to_owned(), code.to_owned());
    assert_eq!(end_of(&format!("{BEGIN}\n{END}\n")), (Some(0), "run.finished".to_owned(), String::new()));
    assert_eq!(end_of(&format!("{BEGIN}\n")), error("provider_stream_closed", 0));
    assert_eq!(end_of(&format!("{BEGIN}\nnot JSON\n{END}\n")), error("harness_output_invalid", 1));
    assert_eq!(
        end_of(&format!("{BEGIN}\n{BEGIN}\n{END}\n")),
        (Some(0), "run.finished".to_owned(), String::new())
    );
    let headless = END.replace("\"head\":\"h\",", "");
    assert_eq!(end_of(&format!("{BEGIN}\n{headless}\n")), error("provider_stream_closed", 0));
    let open = r#"{"kind":"chunk","run_id":"r","ns":[],"mode":"updates","data":{"model":{"messages":[{"type":"AIMessage","tool_calls":[{"id":"c","name":"t","args":{}}]}]}}}"#;
    assert_eq!(end_of(&format!("{BEGIN}\n{open}\n{END}\n")), error("agent_execution_failed", 0));
}

#[test]
fn decisions_come_from_the_file_or_from_begin() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("resume.json");
    std::fs::write(
        &file,
        r#"{"open_calls":[{"id":"c","name":"t","arguments":{"n":1},"namespace":[]}],"delegations":[],"interrupt_id":"i",
            "decisions":[{"tool_call_id":"c","decision":"edit","edited_args":{"n":2.50}}]}"#,
    )
    .unwrap();
    let task = r#"{"kind":"chunk","run_id":"r","ns":[],"mode":"tasks","data":{"id":"x","name":"tools","input":[{"id":"c","name":"t","args":{"n":1}}]}}"#;
    let done = r#"{"kind":"chunk","run_id":"r","ns":[],"mode":"updates","data":{"tools":{"messages":[{"type":"ToolMessage","tool_call_id":"c","content":"ok"}]}}}"#;
    let resume = BEGIN.replace("\"run\"}", "\"resume\"}");
    let input = format!("{resume}\n{task}\n{done}\n{END}\n");
    let output = adapt("deepagents", &["--resume-from", file.to_str().unwrap()], input.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        lines(&output)[1].ends_with(r#""data":{"tool_call_id":"c","tool_name":"t","arguments":{"n":2.50}}}"#)
    );

    // The same answer as the worker protocol repeats it.
    let ask = r#"{"kind":"chunk","run_id":"q","ns":[],"mode":"updates","data":{"model":{"messages":[{"type":"AIMessage","tool_calls":[{"id":"c","name":"t","args":{"n":1}}]}]}}}"#;
    let pause = r#"{"kind":"end","run_id":"q","state":{"head":"h1","interrupts":[{"id":"i","value":{"action_requests":[{"name":"t","args":{"n":1}}],"review_configs":[]}}]}}"#;
    let first = BEGIN.replace("\"r\"", "\"q\"");
    let resume = r#"{"kind":"begin","run_id":"r","op":"resume","resume":{"decisions":[{"type":"edit","edited_action":{"name":"t","args":{"n":2.50}}}]}}"#;
    let input = format!("{first}\n{ask}\n{pause}\n{resume}\n{task}\n{done}\n{END}\n");
    let output = adapt("deepagents", &[], input.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let started: Vec<String> =
        lines(&output).into_iter().filter(|line| line.contains("\"tool.started\"")).collect();
    assert!(started[1].ends_with(r#""arguments":{"n":2.50}}}"#), "{started:?}");
}

#[test]
fn what_cannot_be_done_is_said_with_status_2() {
    for (args, text) in [
        (&["adapt", "--from", "no-such"][..], "no adapter for `no-such`"),
        (&["adapt", "--from", "deepagents", "--sidecar", "x"], "--sidecar"),
        (&["adapt", "--from", "deepagents", "/does/not/exist"], "cannot open"),
        (&["adapt", "--from", "deepagents", "--clock", "noon"], "RFC 3339"),
        (&["adapt", "--from", "deepagents", "--run-id", ""], "run id"),
    ] {
        let output = causeway(args, b"");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(text), "{errors}");
    }
}
