//! The log: a stderr that cannot be written stops nothing, and a run that failed is explained to the operator only.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::gateway::{Gateway, causeway, recorded_agents, recording, wait};
use crate::http::Client;
use crate::runs::{check_whole, create, ended, show, stored};

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("/dev/full")
}

#[test]
fn a_log_that_cannot_be_written_stops_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("causeway.toml");
    std::fs::write(&config, recorded_agents(&[("tour", "text_plain", "fast", "")])).unwrap();
    for form in ["text", "json"] {
        let mut command = causeway();
        command.args(["--log", form, "serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data").arg(dir.path().join(form));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let client = Client::from_url(line.trim_end().strip_prefix("listening on ").expect("an address"));
        for conversation in ["c1", "c2"] {
            let run_id = create(&client, "tour", conversation);
            assert_eq!(ended(&client, &run_id)["status"], "finished");
            check_whole(&stored(&client, &run_id));
        }
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(wait(&mut child).expect("an end").code(), Some(0), "{form}");
    }
}

#[test]
fn a_command_whose_stderr_cannot_be_written_ends_as_it_would_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let canonical = dir.path().join("canonical.jsonl");
    let adapted =
        causeway().args(["adapt", "--from", "deepagents"]).arg(recording("text_plain")).output().unwrap();
    assert!(adapted.status.success(), "{}", String::from_utf8_lossy(&adapted.stderr));
    std::fs::write(&canonical, adapted.stdout).unwrap();
    for (level, file, status) in
        [("trace", canonical.clone(), 0), ("a=b=c", canonical, 0), ("info", recording("text_plain"), 1)]
    {
        let mut command = causeway();
        command.args(["--log-level", level, "check"]).arg(&file);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full()).spawn().unwrap();
        assert_eq!(wait(&mut child).expect("an end").code(), Some(status), "{level} {}", file.display());
    }
}

/// A worker in shell: it says what a broken agent says, with secrets in its words.
const BROKEN: &str = r#"#!/bin/sh
echo '{"kind":"hello","protocol":1,"harness":"deepagents","versions":{},"restore":true}'
read -r request
run=$(printf %s "$request" | sed 's/.*"run_id":"\([^"]*\)".*/\1/')
echo 'Traceback: hunter2' >&2
echo "{\"kind\":\"begin\",\"run_id\":\"$run\",\"op\":\"run\"}"
case "$request" in
*hello*) echo "{\"kind\":\"error\",\"run_id\":\"$run\",\"error_type\":\"pkg.ValueError\",\"message\":\"hunter2\"}" ;;
*) sleep 30 ;;
esac
"#;

fn broken_agent(dir: &std::path::Path) -> String {
    let script = dir.join("broken.sh");
    std::fs::write(&script, BROKEN).unwrap();
    format!(
        "[agents.broken]\nharness = \"deepagents\"\nidle_timeout = \"1s\"\n[agents.broken.driver.process]\ncommand = [\"sh\", {script:?}]\n\
         [agents.missing]\nharness = \"deepagents\"\n[agents.missing.driver.process]\ncommand = [\"/nowhere/python3\"]\n"
    )
}

#[test]
fn the_log_says_why_a_run_failed_and_where_the_workers_own_words_are() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &broken_agent(dir.path()));
    let kept = dir.path().join("data/workers/broken.stderr");
    for (message, code, error_type) in [
        ("hello", "agent_execution_failed", Value::from("pkg.ValueError")),
        ("silence", "harness_timeout", Value::Null),
    ] {
        let response =
            crate::runs::try_create(&gateway.client, "broken", &format!("c-{message}"), message).unwrap();
        let run_id = crate::runs::text(&crate::runs::value(response), "run_id");
        assert_eq!(ended(&gateway.client, &run_id)["error"]["code"], code);
        let said = |what: &str| {
            crate::gateway::eventually(what, || {
                gateway.log().lines().find_map(|line| {
                    let line: Value = serde_json::from_str(line).ok()?;
                    (line["message"] == what && line["run_id"] == *run_id).then_some(line)
                })
            })
        };
        assert_eq!(said("run over")["code"], code);
        let failed = said("run failed");
        assert_eq!(
            (&failed["level"], &failed["code"], &failed["error_type"], &failed["stderr"]),
            (&"WARN".into(), &code.into(), &error_type, &kept.to_str().unwrap().into()),
        );
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "Traceback: hunter2\n");
        let told = format!("{}{}", show(&gateway.client, &run_id), stored(&gateway.client, &run_id).concat());
        assert!(!told.contains("hunter2") && !told.contains("ValueError"), "{told}");
    }
    assert!(!gateway.log().contains("hunter2"));
}

#[test]
fn a_program_that_is_not_there_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &broken_agent(dir.path()));
    let run_id = create(&gateway.client, "missing", "c");
    assert_eq!(ended(&gateway.client, &run_id)["error"]["code"], "harness_unavailable");
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains("cannot be run")).expect("a warning");
    assert!(line.contains("/nowhere/python3") && line.contains("examples/deepagents/setup.sh"), "{line}");
}
