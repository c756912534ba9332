//! `check`, `explain` and `schema` end to end through the binary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

/// What the command did.
#[derive(Debug)]
struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn causeway(arguments: &[&str]) -> Ran {
    causeway_with(arguments, b"")
}

/// Runs in the root of the repository, so that names of files in outputs are the same everywhere.
fn causeway_with(arguments: &[&str], stdin: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(stdin));
        child.wait_with_output().unwrap().into()
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `check --format json` on one file or on standard input.
fn check_json(arguments: &[&str], stdin: &[u8]) -> (i32, Vec<Value>) {
    let ran = causeway_with(&[&["check", "--format", "json"], arguments].concat(), stdin);
    assert_eq!(ran.stderr, "");
    (ran.status, ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// One event of the run `run` as a line.
fn line(run: &str, sequence: u64, kind: &str, data: &Value) -> String {
    let mut line = json!({
        "version": 1, "type": kind, "run_id": run, "conversation_id": "conv-1", "sequence": sequence,
        "timestamp": "2026-08-17T00:00:00Z", "namespace": [], "data": data,
    })
    .to_string();
    line.push('\n');
    line
}

fn started(run: &str) -> String {
    line(run, 0, "run.started", &json!({"harness_id": "deepagents", "adapter_version": "1.0.0"}))
}

fn finished(run: &str, sequence: u64) -> String {
    let state = json!({"durability": "committed", "durable_revision": 1, "head_ref": "head-1"});
    line(run, sequence, "run.finished", &json!({"outcome": "success", "thread_state": state}))
}

fn usage(run: &str, sequence: u64) -> String {
    line(run, sequence, "usage.updated", &json!({"input_tokens": 3, "output_tokens": 2, "final": true}))
}

// --- the handed-over cases ---------------------------------------------------------------------------------------

/// Writes one element of a case's input as a line of the file.
fn write_element(out: &mut impl Write, element: &Value) {
    let filled = element.get("$fill").map(|fill| {
        let mut line = element["line"].clone();
        for (pointer, filling) in fill.as_object().unwrap() {
            let text = filling["text"].as_str().unwrap();
            let times = usize::try_from(filling["times"].as_u64().unwrap()).unwrap();
            *line.pointer_mut(pointer).unwrap() = text.repeat(times).into();
        }
        line
    });
    match (filled, element) {
        (Some(line), _) => writeln!(out, "{line}").unwrap(),
        (None, Value::String(text)) => writeln!(out, "{text}").unwrap(),
        (None, line) => writeln!(out, "{line}").unwrap(),
    }
}

fn rule_id(rule: &Value) -> String {
    rule.as_u64().map_or_else(|| rule.as_str().unwrap().to_owned(), |number| format!("R{number:02}"))
}

#[test]
fn every_canonical_case_gives_the_expected_verdict_index_and_rule() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("tests/data/cases")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        if case["input_kind"] != "canonical_jsonl" {
            continue;
        }
        let (id, expect) = (case["id"].as_str().unwrap(), &case["expect"]);
        let file = dir.path().join(format!("{id}.jsonl"));
        let mut out = BufWriter::new(std::fs::File::create(&file).unwrap());
        case["input"].as_array().unwrap().iter().for_each(|element| write_element(&mut out, element));
        out.flush().unwrap();
        let boundary = if case["given"]["boundary"] == "adapter" { "yield" } else { "commit" };
        let thread = case["given"]["thread"].as_str().unwrap_or("durable");
        let name = file.to_str().unwrap();
        let (status, objects) = check_json(&["--boundary", boundary, "--thread", thread, name], b"");
        let (object, first) = (&objects[0], &objects[0]["violations"][0]);
        assert_eq!(objects.len(), 1, "{id}");
        assert_eq!(object["file"], name, "{id}");
        if expect["verdict"] == "accepted" {
            assert_eq!((status, &object["valid"], first), (0, &json!(true), &Value::Null), "{id}");
        } else {
            assert_eq!((status, &object["valid"]), (1, &json!(false)), "{id}");
            assert_eq!(first["index"], expect["at_index"], "{id}: {first}");
            let also = expect["rule_also_accepted"].as_array().cloned().unwrap_or_default();
            let rules: Vec<String> = also.iter().chain([&expect["rule"]]).map(rule_id).collect();
            assert!(rules.iter().any(|rule| first["rule"] == **rule), "{id}: {first} is none of {rules:?}");
        }
        seen += 1;
    }
    assert_eq!(seen, 20, "canonical cases");
}

#[test]
fn every_golden_stream_is_valid() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("tests/data/goldens")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let events = golden["canonical_events"].as_array().unwrap();
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let (status, objects) = check_json(&[], lines.as_bytes());
        assert_eq!((status, &objects[0]["violations"]), (0, &json!([])), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 44, "goldens");
}

// --- outputs -----------------------------------------------------------------------------------------------------

const BROKEN: &str = "contract/streams/rejected/r07-finish-then-error.jsonl";

#[test]
fn text_names_file_line_rule_and_place() {
    let ran = causeway(&["check", "--off", "L08", BROKEN]);
    assert_eq!(ran.status, 1);
    assert_eq!(
        ran.stdout,
        format!(
            "{BROKEN}:4: error[R07]: tool call t-1 already ended with tool.finished \
             (event 3, sequence 3, at /data/tool_call_id)\n\
             {BROKEN}: INVALID, 5 events, 1 violations, 0 warnings\n"
        )
    );
}

#[test]
fn json_is_one_object_on_one_line() {
    let (status, objects) =
        check_json(&["-"], format!("\n{}\n{}", started("r"), line("r", 4, "x", &json!({}))).as_bytes());
    assert_eq!(status, 1);
    assert_eq!(
        objects,
        [json!({
            "file": "-",
            "events": 2,
            "valid": false,
            "violations": [
                {"index": 1, "line": 4, "sequence": 4, "rule": "envelope",
                 "message": "the contract has no such event type", "pointer": "/type"},
                {"index": 2, "line": 4, "sequence": null, "rule": "R12",
                 "message": "the stream ends without a terminal", "pointer": null},
            ],
            "warnings": [],
            "notes": [],
        })]
    );
}

#[test]
fn a_file_of_several_runs_gives_an_object_a_run_in_order_of_their_first_lines() {
    let mixed = [
        started("b"),
        started("a"),
        "not json at all\n".to_owned(),
        usage("a", 1),
        finished("b", 1),
        line("b", 2, "warning", &json!({"code": "slow", "message": "Slow."})),
        "{\"run_id\":\"c\",\"sequence\":7,\n".to_owned(),
        finished("a", 2),
    ]
    .concat();
    let (status, objects) = check_json(&["--multi", "--off", "l08"], mixed.as_bytes());
    assert_eq!(status, 1);
    let shown: Vec<Value> = objects
        .iter()
        .map(|object| {
            let codes: Vec<Value> = object["violations"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| json!([v["index"], v["sequence"], v["rule"]]))
                .collect();
            json!([object["run_id"], object["events"], object["valid"], codes])
        })
        .collect();
    assert_eq!(
        shown,
        [
            json!(["b", 3, false, [[5, 2, "R04"]]]),
            json!(["a", 3, true, []]),
            json!([null, 1, false, [[2, null, "envelope"]]]),
            json!(["c", 1, false, [[6, 7, "envelope"], [8, null, "R12"]]]),
        ]
    );
    // Without --multi the same lines are one run, and the second id is wrong.
    let (_, objects) = check_json(&[], mixed.as_bytes());
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["violations"][0]["pointer"], "/run_id");
    assert_eq!(objects[0].get("run_id"), None);
}

#[test]
fn the_first_violation_does_not_hide_later_ones() {
    let lines = [
        started("r"),
        line("r", 1, "text.delta", &json!({"message_id": "m", "delta": "a"})),
        line("r", 2, "text.started", &json!({"message_id": "m", "role": "assistant"})),
        line("r", 3, "text.delta", &json!({"message_id": "m", "delta": "a"})),
        line("r", 3, "text.finished", &json!({"message_id": "m"})),
        usage("r", 4),
        finished("r", 5),
    ]
    .concat();
    let (_, objects) = check_json(&[], lines.as_bytes());
    let rules: Vec<&str> =
        objects[0]["violations"].as_array().unwrap().iter().map(|v| v["rule"].as_str().unwrap()).collect();
    let codes: Vec<&str> =
        objects[0]["warnings"].as_array().unwrap().iter().map(|v| v["code"].as_str().unwrap()).collect();
    assert_eq!((rules, codes), (vec!["R05", "R01"], vec!["L01"]));
}

#[test]
fn boundary_and_thread_say_which_rules_apply() {
    let bare =
        [started("r"), usage("r", 1), line("r", 2, "run.finished", &json!({"outcome": "success"}))].concat();
    let committed = [started("r"), usage("r", 1), finished("r", 2)].concat();
    let first = |arguments: &[&str], lines: &str| {
        check_json(arguments, lines.as_bytes()).1[0]["violations"][0]["rule"]
            .as_str()
            .unwrap_or("ok")
            .to_owned()
    };
    assert_eq!(first(&[], &bare), "R13");
    assert_eq!(first(&["--thread", "ephemeral"], &bare), "ok");
    assert_eq!(first(&["--boundary", "yield"], &bare), "ok");
    assert_eq!(first(&["--boundary", "yield"], &committed), "payload");
    assert_eq!(first(&["--boundary", "commit", "--thread", "durable"], &committed), "ok");
}

#[test]
fn warnings_fail_only_when_denied_and_can_be_silenced() {
    let file = "contract/streams/warned/l07-terminal-colours.jsonl";
    assert_eq!(causeway(&["check", file]).status, 0);
    assert_eq!(causeway(&["check", "--deny-warnings", file]).status, 1);
    assert_eq!(causeway(&["check", "--deny-warnings", "--off", "L07", file]).status, 0);
    assert_eq!(causeway(&["check", "--off", "R07", file]).status, 2);
    let stdout = causeway(&["check", file]).stdout;
    assert!(stdout.contains("warning[L07]: the value holds the control character U+001B"), "{stdout}");
}

#[test]
fn an_interrupt_is_noted_and_no_finding() {
    let (status, objects) = check_json(&["contract/streams/accepted/r08-form.jsonl"], b"");
    assert_eq!(status, 0);
    let note = "R14: a recorded stream cannot show that the interrupt was committed; taken on trust";
    assert_eq!(objects[0]["notes"], json!([note]));
    let (_, objects) = check_json(&["--boundary", "yield", "contract/streams/accepted/r08-form.jsonl"], b"");
    assert_eq!(objects[0]["notes"], json!([]));
}

#[test]
fn groups_count_by_rule_over_all_files() {
    let two = ["contract/streams/rejected/r05-delta-after-finish.jsonl", BROKEN];
    let ran = causeway(&["check", "--group", two[0], two[1], two[0]]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "L08 3\nR05 2\nR07 1\n"));
    let ran = causeway(&["check", "--group", "--off", "L08", "--format", "json", BROKEN]);
    assert_eq!(ran.stdout, format!("{{\"file\":\"{BROKEN}\",\"rule\":\"R07\",\"count\":1}}\n"));
    assert_eq!(causeway(&["check", "--group", "--format", "sarif", BROKEN]).status, 2);
}

#[test]
fn sarif_names_rules_lines_and_files() {
    let ran = causeway(&[
        "check",
        "--format",
        "sarif",
        "--off",
        "L08",
        BROKEN,
        "contract/streams/accepted/r08-form.jsonl",
    ]);
    assert_eq!(ran.status, 1);
    let sarif: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let rules: Vec<&str> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    assert_eq!(rules.len(), 15 + 4 + 9);
    assert_eq!(
        run["results"],
        json!([{
            "ruleId": "R07",
            "level": "error",
            "message": {"text": "tool call t-1 already ended with tool.finished"},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": BROKEN},
                "region": {"startLine": 4},
            }}],
            "properties": {"run_id": "run-1", "index": 3, "sequence": 3, "pointer": "/data/tool_call_id"},
        }])
    );
}

#[test]
fn junit_is_well_formed_whatever_the_stream_says() {
    let evil = started("r").replace("\"r\"", "\"a<b>&\\\"'c\"") + "\u{1}\n";
    let ran = causeway_with(&["check", "--format", "junit", "--multi"], evil.as_bytes());
    assert_eq!(ran.status, 1);
    assert_eq!(
        ran.stdout,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"causeway check\" tests=\"2\" failures=\"2\">\n  \
         <testsuite name=\"-\" tests=\"2\" failures=\"2\" errors=\"0\">\n    \
         <testcase classname=\"-\" name=\"a&lt;b&gt;&amp;&quot;'c\">\n      \
         <failure type=\"R12\" message=\"the stream ends without a terminal\">\n\
         line 2: R12: the stream ends without a terminal\n      \
         </failure>\n    \
         </testcase>\n    \
         <testcase classname=\"-\" name=\"run\">\n      \
         <failure type=\"envelope\" message=\"the line is not JSON: a JSON value was expected at byte 0\">\n\
         line 2: envelope: the line is not JSON: a JSON value was expected at byte 0\n      \
         </failure>\n    \
         </testcase>\n  \
         </testsuite>\n\
         </testsuites>\n"
    );
}

// --- odd input ---------------------------------------------------------------------------------------------------

#[test]
fn nothing_that_is_printed_can_steer_a_terminal() {
    let run = "a\u{9b}31m";
    let lines = started(run) + &finished(run, 1) + &started("e\u{1b}[2J");
    for format in ["text", "json", "junit", "sarif"] {
        let ran = causeway_with(&["check", "--multi", "--format", format], lines.as_bytes());
        assert_eq!(ran.status, 1);
        let steering = ran.stdout.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(steering, None, "{format}: {:?}", ran.stdout);
    }
}

#[test]
fn an_empty_file_is_no_run() {
    for arguments in [&[][..], &["--multi"]] {
        for input in ["", "\n  \n\t\n"] {
            let (status, objects) = check_json(arguments, input.as_bytes());
            let first = &objects[0]["violations"][0];
            assert_eq!(
                (status, objects.len(), &first["index"], &first["rule"]),
                (1, 1, &json!(0), &json!("R12"))
            );
        }
    }
}

#[test]
fn lines_may_end_in_any_way() {
    let lines = (started("r") + &usage("r", 1) + &finished("r", 2)).replace('\n', "\r\n");
    assert_eq!(check_json(&[], lines.trim_end().as_bytes()).0, 0);
    assert_eq!(check_json(&[], lines.as_bytes()).0, 0);
}

#[test]
fn a_file_that_cannot_be_read_is_said_so() {
    let ran = causeway(&["check", "no/such/file.jsonl"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert_eq!(
        ran.stderr,
        "causeway: cannot open no/such/file.jsonl: No such file or directory (os error 2)\n"
    );
    let ran = causeway(&["check", "contract"]);
    assert_eq!((ran.status, ran.stderr.contains("cannot read contract")), (2, true));
    assert_eq!(causeway(&["check", "--no-such-flag"]).status, 2);
}

#[test]
fn findings_beyond_what_is_listed_are_counted() {
    let bad: String =
        (1..=1500).map(|n| line("r", n, "text.finished", &json!({"message_id": "m"}))).collect();
    let (status, objects) =
        check_json(&["--off", "L08"], (started("r") + &bad + &finished("r", 2000)).as_bytes());
    assert_eq!((status, objects[0]["violations"].as_array().unwrap().len()), (1, 1000));
    assert_eq!(objects[0]["notes"], json!(["500 more findings are counted and not listed"]));
}

// --- explain and schema ------------------------------------------------------------------------------------------

#[test]
fn a_rule_is_explained_with_both_streams() {
    let ran = causeway(&["explain", "r07"]);
    let stream = |name: &str| {
        let text = std::fs::read_to_string(root().join("contract/streams").join(name)).unwrap();
        text.lines().map(|line| format!("  {line}\n")).collect::<String>()
    };
    let (accepted, rejected) =
        (stream("accepted/r07-one-end-each.jsonl"), stream("rejected/r07-finish-then-error.jsonl"));
    assert_eq!(ran.status, 0);
    assert!(ran.stdout.starts_with("R07: a call finishes or fails, never both\n\n"), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with(&format!("\n\nAccepted:\n\n{accepted}\nRejected:\n\n{rejected}")),
        "{}",
        ran.stdout
    );
}

#[test]
fn everything_that_check_can_say_is_explained() {
    let list = causeway(&["explain"]).stdout;
    assert_eq!(list.lines().count(), 15 + 4 + 9);
    for line in list.lines() {
        let id = line.split(' ').next().unwrap();
        let ran = causeway(&["explain", id]);
        assert_eq!(ran.status, 0, "{id}");
        assert!(ran.stdout.lines().all(|line| line.len() < 1000), "{id}");
    }
    assert_eq!(causeway(&["explain", "R16"]).status, 2);
}

#[test]
fn the_schema_is_the_one_that_is_checked_in() {
    let checked_in =
        std::fs::read_to_string(root().join("contract/canonical-events-v1.schema.json")).unwrap();
    assert_eq!(causeway(&["schema"]).stdout, checked_in);
}

#[test]
fn the_version_names_the_commit() {
    let version = causeway(&["--version"]).stdout;
    let commit =
        version.trim_end().strip_prefix("causeway 0.1.0 (commit ").unwrap().strip_suffix(')').unwrap();
    assert!(commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()), "{version}");
}
