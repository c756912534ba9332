//! `causeway encode` from the outside: files and pipes in, bytes and exit status out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::value::RawValue;

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/goldens");

struct Golden {
    name: String,
    run_id: String,
    /// Canonical JSONL.
    events: String,
    custom: String,
    agui: String,
    /// `{"open_tool_calls":…}` without braces, on resumed runs.
    seed: Option<String>,
}

fn goldens() -> Vec<Golden> {
    let mut paths: Vec<_> = std::fs::read_dir(GOLDENS).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    assert_eq!(paths.len(), 44);
    paths.iter().map(|path| golden(path)).collect()
}

fn golden(path: &Path) -> Golden {
    let text = std::fs::read_to_string(path).unwrap();
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(&text).unwrap();
    let events: Vec<&RawValue> = serde_json::from_str(fields["canonical_events"].get()).unwrap();
    let first: serde_json::Value = serde_json::from_str(events[0].get()).unwrap();
    let string = |key: &str| serde_json::from_str::<String>(fields[key].get()).unwrap();
    Golden {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        run_id: first["run_id"].as_str().unwrap().to_owned(),
        // A line break in JSON text can only stand between its tokens.
        events: events.iter().fold(String::new(), |all, event| all + &event.get().replace('\n', " ") + "\n"),
        custom: string("custom_sse"),
        agui: string("agui_sse"),
        seed: fields.get("resume").map(|resume| {
            let resume: serde_json::Value = serde_json::from_str(resume.get()).unwrap();
            let lists = ["open_tool_calls", "delegations", "rejected"];
            lists.map(|list| format!("\"{list}\":{}", resume[list])).join(",")
        }),
    }
}

fn causeway(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .arg("encode")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_owned();
    // The child may stop reading early.
    let writer = std::thread::spawn(move || drop(pipe.write_all(stdin.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Standard output, standard error and the exit status.
fn result(args: &[&str], stdin: &str) -> (String, String, i32) {
    let Output { status, stdout, stderr } = causeway(args, stdin);
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code().unwrap())
}

fn event(run: &str, sequence: u64, kind: &str, data: &str) -> String {
    format!(
        r#"{{"version":1,"type":"{kind}","run_id":"{run}","conversation_id":"c","sequence":{sequence},"timestamp":"2026-08-17T00:00:00Z","namespace":[],"data":{data}}}"#
    ) + "\n"
}

/// A run that says each of `words`, up to but without its terminal.
fn open_run(run: &str, words: &[&str]) -> String {
    let mut text = event(run, 0, "run.started", r#"{"harness_id":"h","adapter_version":"1"}"#);
    text += &event(run, 1, "text.started", r#"{"message_id":"m","role":"assistant"}"#);
    for (at, word) in words.iter().enumerate() {
        let data = format!(r#"{{"message_id":"m","delta":"{word}"}}"#);
        text += &event(run, at as u64 + 2, "text.delta", &data);
    }
    text
}

fn finished(run: &str, sequence: u64) -> String {
    let state = r#"{"durability":"committed","durable_revision":1,"head_ref":"h"}"#;
    event(run, sequence, "run.finished", &format!(r#"{{"outcome":"success","thread_state":{state}}}"#))
}

fn content(word: &str) -> String {
    format!("event: content\ndata: {{\"text\": \"{word}\", \"namespace\": []}}\n\n")
}

const DONE: &str = "event: done\ndata: {}\n\n";

#[test]
fn every_golden_comes_out_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    for golden in goldens() {
        let file = directory.path().join(format!("{}.jsonl", golden.name));
        std::fs::write(&file, &golden.events).unwrap();
        let seed = golden.seed.as_ref().map(|seed| format!("{{{seed}}}"));
        for (format, expected) in [("custom", &golden.custom), ("agui", &golden.agui)] {
            let mut args = vec!["--to", format];
            if let Some(seed) = &seed {
                args.extend(["--resume", seed]);
            }
            args.push(file.to_str().unwrap());
            assert_eq!(result(&args, ""), (expected.clone(), String::new(), 0), "{} {format}", golden.name);
        }
    }
}

#[test]
fn several_runs_come_out_in_order_of_their_first_lines_however_they_are_mixed() {
    let goldens = goldens();
    let directory = tempfile::tempdir().unwrap();
    let seeds = directory.path().join("seeds.jsonl");
    let seed_lines = goldens.iter().filter_map(|golden| {
        golden.seed.as_ref().map(|seed| format!("{{\"run_id\":\"{}\",{seed}}}\n", golden.run_id))
    });
    std::fs::write(&seeds, seed_lines.collect::<String>()).unwrap();
    let in_sequence: String = goldens.iter().map(|golden| golden.events.as_str()).collect();
    let mut interleaved = String::new();
    for at in 0..in_sequence.lines().count() {
        for line in goldens.iter().filter_map(|golden| golden.events.lines().nth(at)) {
            writeln!(interleaved, "{line}").unwrap();
        }
    }
    let seeds = seeds.to_str().unwrap();
    for (format, expected) in [
        ("custom", goldens.iter().map(|golden| golden.custom.as_str()).collect::<String>()),
        ("agui", goldens.iter().map(|golden| golden.agui.as_str()).collect::<String>()),
    ] {
        for input in [&in_sequence, &interleaved] {
            let (stdout, stderr, status) = result(&["--to", format, "--multi", "--seeds", seeds, "-"], input);
            assert_eq!((stderr.as_str(), status), ("", 0));
            assert!(stdout == expected, "{format} differs");
        }
    }
    let out = directory.path().join("a/b");
    let args = ["--to", "custom", "--multi", "--seeds", seeds, "--out-dir", out.to_str().unwrap()];
    assert_eq!(result(&args, &interleaved), (String::new(), String::new(), 0));
    for golden in &goldens {
        let written = std::fs::read_to_string(out.join(format!("{}.sse", golden.run_id))).unwrap();
        assert_eq!(written, golden.custom, "{}", golden.name);
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 44);
}

#[test]
fn frames_come_as_soon_as_their_line_is_there() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["encode", "--to", "custom"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, received) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stdout.read(&mut buffer) {
            if sender.send(String::from_utf8(buffer[..read].to_vec()).unwrap()).is_err() {
                return;
            }
        }
    });
    let next = || received.recv_timeout(Duration::from_secs(120)).unwrap();
    stdin.write_all(open_run("r", &["one"]).as_bytes()).unwrap();
    assert_eq!(next(), content("one"));
    let second = event("r", 3, "text.delta", r#"{"message_id":"m","delta":"two"}"#);
    let (half, other_half) = second.split_at(40);
    stdin.write_all(half.as_bytes()).unwrap();
    assert_eq!(received.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
    stdin.write_all(other_half.as_bytes()).unwrap();
    assert_eq!(next(), content("two"));
    stdin.write_all(finished("r", 4).as_bytes()).unwrap();
    assert_eq!(next(), DONE);
    drop(stdin);
    assert!(child.wait().unwrap().success());
    reader.join().unwrap();
}

#[test]
fn what_was_accepted_is_shown_and_then_the_violation_is_named() {
    let input = open_run("r", &["one"])
        + &event("r", 3, "text.finished", r#"{"message_id":"n"}"#)
        + &finished("r", 4);
    let violation =
        "causeway encode: -: line 4: R05: text.finished for text message n, which was never started\n";
    assert_eq!(result(&["--to", "custom"], &input), (content("one"), violation.to_owned(), 1));
    let unchecked = content("one") + DONE;
    assert_eq!(result(&["--to", "custom", "--no-validate"], &input), (unchecked, String::new(), 0));
}

#[test]
fn a_stream_without_terminal_breaks_r12_after_its_frames() {
    let (stdout, stderr, status) = result(&["--to", "custom"], &open_run("r", &["one"]));
    assert_eq!((stdout, status), (content("one"), 1));
    assert!(stderr.starts_with("causeway encode: -: end of input: R12: "), "{stderr}");
    assert_eq!(result(&["--to", "custom"], ""), (String::new(), String::new(), 0));
}

#[test]
fn an_event_after_the_terminal_is_refused() {
    let run = open_run("r", &["one"]) + &finished("r", 3);
    let late = event("r", 9, "warning", r#"{"code":"late","message":"Late"}"#);
    for (extra, rule) in [(late, "R04"), (finished("r", 9), "R03"), (finished("r", 3), "R01")] {
        let (stdout, stderr, status) = result(&["--to", "custom"], &(run.clone() + &extra));
        assert_eq!((stdout, status), (content("one") + DONE, 1));
        assert!(stderr.starts_with(&format!("causeway encode: -: line 5: {rule}: ")), "{stderr}");
    }
}

#[test]
fn a_line_that_is_no_event_ends_its_run_and_no_other() {
    let bad = event("bad", 3, "text.delta", r#"{"message_id":"m"}"#);
    let input = [
        open_run("bad", &["one"]),
        open_run("good", &["two"]),
        bad.clone(),
        finished("bad", 4),
        finished("good", 3),
    ]
    .concat();
    let (stdout, stderr, status) = result(&["--to", "custom", "--multi"], &input);
    assert_eq!((stdout, status), (content("one") + &content("two") + DONE, 1));
    assert!(stderr.starts_with("causeway encode: -: line 7: payload: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    // Nobody can say whose line this is, so nothing after it is shown.
    let input = open_run("good", &["two"]) + "{\"version\":1,\n" + &finished("good", 3);
    let (stdout, stderr, status) = result(&["--to", "custom", "--multi"], &input);
    assert_eq!((stdout, status), (content("two"), 1));
    assert!(stderr.starts_with("causeway encode: -: line 4: envelope: "), "{stderr}");
}

#[test]
fn one_run_that_breaks_a_rule_hides_no_other() {
    let input = [
        open_run("bad", &["one"]),
        open_run("good", &["two"]),
        event("bad", 2, "text.finished", r#"{"message_id":"m"}"#),
        event("bad", 7, "text.delta", r#"{"message_id":"m","delta":"never shown"}"#),
        finished("good", 3),
        open_run("third", &["three"]),
    ]
    .concat();
    let (stdout, stderr, status) = result(&["--to", "custom", "--multi"], &input);
    assert_eq!((stdout, status), (content("one") + &content("two") + DONE + &content("three"), 1));
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines[0], "causeway encode: -: line 7: R01: sequence 2 does not follow 2");
    assert!(lines[1].starts_with("causeway encode: -: run third: end of input: R12: "), "{stderr}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn two_runs_need_multi() {
    let input = open_run("a", &["one"]) + &finished("a", 3) + &open_run("b", &["two"]);
    let (stdout, stderr, status) = result(&["--to", "custom"], &input);
    assert_eq!((stdout, status), (content("one") + DONE, 1));
    assert!(stderr.starts_with("causeway encode: -: line 5: "), "{stderr}");
}

#[test]
fn an_ephemeral_thread_has_no_state_to_commit() {
    let input = open_run("r", &["one"]) + &event("r", 3, "run.finished", r#"{"outcome":"success"}"#);
    assert_eq!(result(&["--to", "custom", "--thread", "ephemeral"], &input).2, 0);
    let (_, stderr, status) = result(&["--to", "custom"], &input);
    assert_eq!(status, 1);
    assert!(stderr.starts_with("causeway encode: -: line 4: R13: "), "{stderr}");
}

#[test]
fn blank_lines_and_carriage_returns_are_no_events() {
    let input =
        "\n".to_owned() + &(open_run("r", &["one"]) + "  \n" + &finished("r", 3)).replace('\n', "\r\n");
    assert_eq!(result(&["--to", "custom"], input.trim_end()), (content("one") + DONE, String::new(), 0));
}

#[test]
fn what_cannot_be_done_is_said_with_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let twice = directory.path().join("seeds");
    std::fs::write(&twice, "{\"run_id\":\"r\"}\n{\"run_id\":\"r\"}\n").unwrap();
    for (args, reason) in [
        (&["--to", "custom", "/nowhere/run.jsonl"][..], "cannot open /nowhere/run.jsonl"),
        (&["--to", "custom", "--seeds", "/nowhere/seeds"], "cannot read /nowhere/seeds"),
        (&["--to", "custom", "--seeds", twice.to_str().unwrap()], "there is a seed for run r already"),
        (&["--to", "custom", "--resume", "{\"reject\":[]}"], "has the unknown key \"reject\""),
        (&["--to", "custom", "--resume", "{}", "--multi"], "cannot be used with"),
        (&["--to", "morse"], "known formats are canonical, custom, agui"),
        (&["--to", "custom", "--out-dir", "/proc/nowhere"], "cannot make /proc/nowhere"),
        (&[], "--to <FORMAT>"),
    ] {
        let (stdout, stderr, status) = result(args, "");
        assert_eq!((stdout.as_str(), status), ("", 2), "{args:?}");
        assert!(stderr.contains(reason), "{args:?}: {stderr}");
    }
}

#[test]
fn the_published_formats_take_what_their_client_says_of_itself() {
    let data = r#"{"reason":"client_request","side_effect_status":"none"}"#;
    let run = open_run("r", &["hi"]) + &event("r", 3, "run.cancelled", data);
    let last = |args: &[&str]| {
        let (out, err, status) = result(args, &run);
        assert_eq!((err.as_str(), status), ("", 0));
        assert!(
            out.split_terminator("\n\n").all(|frame| frame.starts_with("data: ") && !frame.contains('\n'))
        );
        out.trim_end().rsplit("\n\n").next().unwrap().to_owned()
    };
    assert!(last(&["--to", "agui-spec"]).starts_with(r#"data: {"type":"RUN_ERROR","#));
    let declared = last(&["--to", "agui-spec", "--agui-version", "1.0"]);
    assert!(declared.contains(r#""outcome":{"type":"cancelled"}"#), "{declared}");
    assert_eq!(last(&["--to", "ui-message", "--sdk", "7"]), "data: [DONE]");
    assert_eq!(result(&["--to", "ui-message", "--sdk", "8"], &run).2, 2);
}
