//! `causeway doctor` on good and on bad ground.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::gateway::{Gateway, causeway, recorded_agents};
use crate::runs::{create, ended};

/// The exit status, and what is wrong or worth a look: `check: what`.
fn doctor(dir: &Path, settings: &str, more: &[&str]) -> (i32, Vec<String>) {
    let config = dir.join("doctor.toml");
    std::fs::write(&config, settings).unwrap();
    let mut command = causeway();
    command.args(["doctor", "--format", "json", "--config"]).arg(&config);
    command.arg("--data").arg(dir.join("data")).args(more);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Ok(report) = serde_json::from_str::<Value>(&text) else {
        return (output.status.code().unwrap(), vec![String::from_utf8_lossy(&output.stderr).into_owned()]);
    };
    let checks = report["checks"].as_array().unwrap();
    let mut found = Vec::new();
    for check in checks.iter().filter(|check| check["level"] != "ok") {
        assert!(check["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{check}");
        found.push(format!("{}: {}", check["check"].as_str().unwrap(), check["what"].as_str().unwrap()));
    }
    for word in ["config", "version", "data", "disk", "clock", "address"] {
        assert!(checks.iter().any(|check| check["check"] == word), "{word} was not looked at: {text}");
    }
    (output.status.code().unwrap(), found)
}

fn has(found: &[String], check: &str, part: &str) {
    let one = found.iter().any(|line| line.starts_with(&format!("{check}: ")) && line.contains(part));
    assert!(one, "no {check} with {part:?} in {found:?}");
}

#[test]
fn good_ground_has_no_faults_before_during_and_after_a_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("tour", "text_plain", "fast", "")]);
    let free = ["--listen", "127.0.0.1:0"];
    assert_eq!(doctor(dir.path(), &settings, &free).0, 0);
    let gateway = Gateway::start(dir.path(), &settings);
    ended(&gateway.client, &create(&gateway.client, "tour", "c"));
    let address = gateway.client.address.to_string();
    let (status, found) = doctor(dir.path(), &settings, &["--listen", &address]);
    assert_eq!(status, 0, "{found:?}");
    assert!(gateway.stop().success());
    assert_eq!(doctor(dir.path(), &settings, &free).0, 0);
}

#[test]
fn every_fault_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let free = ["--listen", "127.0.0.1:0"];
    assert_eq!(doctor(dir.path(), "[server]\nlisen = 1\n", &free).0, 2);
    let open = dir.path().join("open-secret");
    std::fs::write(&open, "s").unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let not_a_program = dir.path().join("worker");
    std::fs::write(&not_a_program, "").unwrap();
    std::fs::set_permissions(&not_a_program, std::fs::Permissions::from_mode(0o600)).unwrap();
    let settings = format!(
        "[agents.a]\nharness = \"canonical\"\n[agents.a.driver.process]\ncommand = [{not_a_program:?}]\n\
         env.API_KEY = {{ env = \"NO_SUCH_VARIABLE_9\" }}\nenv.OTHER_KEY = {{ file = {open:?} }}\nenv.THIRD_KEY = {{ file = \"/nowhere/key\" }}\n\
         [agents.b]\nharness = \"canonical\"\ndriver.process.command = [\"no-such-program-9\"]\n\
         [agents.c]\nharness = \"deepagents\"\ndriver.recording.file = \"nowhere.jsonl\"\n\
         [agents.d]\nharness = \"agui\"\nthread = \"ephemeral\"\n\
         driver.http = {{ url = \"https://127.0.0.1:1/\", ca_file = {open:?} }}\n"
    );
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(
        data.join("causeway.db"),
        "this is no database at all, but it is long enough ".repeat(100),
    )
    .unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // Whoever connects is let go at once: that is no gateway.
    std::thread::spawn(move || taken.incoming().for_each(drop));
    let (status, found) = doctor(dir.path(), &settings, &["--listen", &address]);
    assert_eq!(status, 1);
    has(&found, "workers", "cannot be executed");
    has(&found, "workers", "no-such-program-9");
    has(&found, "secrets", "NO_SUCH_VARIABLE_9");
    has(&found, "secrets", "/nowhere/key");
    has(&found, "secrets", "everybody may read");
    has(&found, "agents", "nowhere.jsonl");
    has(&found, "certificates", "no certificate");
    has(&found, "data", "mode 0755");
    has(&found, "database", "damaged");
    has(&found, "address", "something else");
}
