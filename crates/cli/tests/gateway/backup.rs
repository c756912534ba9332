//! A data directory backed up while runs are written, restored, and gone on from.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use causeway_encode::Protocol;
use serde_json::Value;

use crate::gateway::{Gateway, causeway, recorded_agents};
use crate::http::Client;
use crate::runs::{check_whole, create, ended, say, show, stored, types};

fn settings() -> String {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/template-python/worker.py");
    let worker = worker.canonicalize().unwrap();
    let mut text = recorded_agents(&[
        ("quick", "tools_parallel", "fast", ""),
        ("slow", "text_unicode", "20ms", ""),
        ("endless", "text_plain", "30s", "idle_timeout = \"10m\""),
    ]);
    text.push_str(&format!(
        "[agents.keeps]\nharness = \"canonical\"\n[agents.keeps.driver.process]\n\
         command = [\"python3\", {worker:?}, \"--db\", \"{{data_dir}}/workers/{{conversation}}.sqlite\"]\n"
    ));
    text
}

fn run(command: &str, arguments: &[&Path]) -> Output {
    let mut run = causeway();
    run.arg(command);
    for argument in arguments {
        run.arg(argument);
    }
    run.output().unwrap()
}

fn backup(data: &Path, out: &Path) -> Output {
    run("backup", &[Path::new("--data"), data, out])
}

fn restore(from: &Path, data: &Path) -> Output {
    run("restore", &[from, Path::new("--data"), data])
}

pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What clients see of a run in every format.
pub fn replays(client: &Client, run_id: &str) -> BTreeMap<&'static str, String> {
    let one = |protocol: &Protocol| {
        let path = format!("/api/v1/runs/{run_id}/stream?protocol={}", protocol.as_str());
        (protocol.as_str(), client.get(&path).text())
    };
    let mut all: BTreeMap<_, _> = Protocol::ALL.iter().map(one).collect();
    all.insert("run", client.get(&format!("/api/v1/runs/{run_id}")).text());
    all.insert("events", client.get(&format!("/api/v1/runs/{run_id}/events?limit=5000")).text());
    all
}

/// What the worker remembers of a conversation.
fn recalled(client: &Client, conversation: &str) -> String {
    say(client, "keeps", conversation, Protocol::Custom, "recall").text()
}

#[test]
fn a_backup_of_a_live_gateway_replays_the_same_bytes_and_its_conversations_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings());
    let client = gateway.client;
    for (conversation, word) in [("a", "apple"), ("b", "pear")] {
        say(&client, "keeps", conversation, Protocol::Custom, word).text();
    }
    let mut before = Vec::new();
    for at in 0..4 {
        let run_id = create(&client, "quick", &format!("q{at}"));
        ended(&client, &run_id);
        before.push(run_id);
    }
    let of_workers = client.get("/api/v1/runs?agent_id=keeps").text();
    let of_workers: Value = serde_json::from_str(&of_workers).unwrap();
    before.extend(
        of_workers["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()),
    );
    let expected: BTreeMap<String, _> = before.iter().map(|id| (id.clone(), replays(&client, id))).collect();
    // Written while it is backed up.
    let open = create(&client, "endless", "open");
    let slow: Vec<String> = (0..3).map(|at| create(&client, "slow", &format!("s{at}"))).collect();
    let (some, written) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let one = |at| {
            let run_id = create(&client, "quick", &format!("w{at}"));
            if at == 5 {
                ended(&client, &run_id);
                some.send(()).unwrap();
            }
            run_id
        };
        (0..20).map(one).collect::<Vec<_>>()
    });
    written.recv().unwrap();
    let out = dir.path().join("backup");
    let made = backup(&dir.path().join("data"), &out);
    assert!(made.status.success(), "{}", told(&made));
    let meanwhile = writer.join().unwrap();
    // What happens later is in no backup.
    say(&client, "keeps", "a", Protocol::Custom, "plum").text();
    let later = create(&client, "quick", "later");
    for run_id in meanwhile.iter().chain(&slow).chain([&later]) {
        ended(&client, run_id);
    }
    let replays_of = |client: &Client, ids: &[String]| -> BTreeMap<String, _> {
        ids.iter().map(|id| (id.clone(), replays(client, id))).collect()
    };
    let wrote = replays_of(&client, &meanwhile);
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(out.join("causeway.db")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!out.join("causeway.mark").exists() && !out.join("causeway.db-wal").exists());
    let again = backup(&dir.path().join("data"), &out);
    assert_eq!(again.status.code(), Some(2), "a backup replaces nothing: {}", told(&again));
    gateway.kill();

    let other = tempfile::tempdir().unwrap();
    let put = restore(&out, &other.path().join("data"));
    assert!(put.status.success(), "{}", told(&put));
    let gateway = Gateway::start(other.path(), &settings());
    let client = gateway.client;
    assert_eq!(replays_of(&client, &before), expected);
    assert_eq!(client.get(&format!("/api/v1/runs/{later}")).status, 404);
    // Of what was being written there is what had ended, byte for byte, or a truthful end.
    let ended_early = ["error", "uncertain"];
    let mut whole = 0;
    for run_id in &meanwhile {
        let response = client.get(&format!("/api/v1/runs/{run_id}"));
        if response.status == 404 {
            continue;
        }
        let run = ended(&client, run_id);
        if run["status"] == "finished" {
            assert_eq!(replays(&client, run_id), wrote[run_id]);
            whole += 1;
        } else {
            assert!(ended_early.contains(&run["status"].as_str().unwrap()), "{run}");
        }
    }
    println!("{whole} of 20 runs that were written meanwhile are whole in the backup");
    let run = ended(&client, &open);
    assert!(ended_early.contains(&run["status"].as_str().unwrap()), "{run}");
    let events = stored(&client, &open);
    check_whole(&events);
    assert_eq!(types(&events).last().map(String::as_str), Some("run.error"));
    // Workers go on from the state that the head names, not from what came later.
    for (conversation, word) in [("a", "apple"), ("b", "pear")] {
        let said = recalled(&client, conversation);
        assert!(said.contains(&format!("You said: {word} | recall")), "{said}");
    }
    assert!(gateway.stop().success());
    // The mark belongs to what was restored: a second start finds nothing wrong.
    let gateway = Gateway::start(other.path(), &settings());
    assert_eq!(show(&gateway.client, &before[0])["status"], "finished");
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings());
    say(&gateway.client, "keeps", "a", Protocol::Custom, "apple").text();
    assert!(gateway.stop().success());
    let out = dir.path().join("backup");
    let made = backup(&dir.path().join("data"), &out);
    assert!(made.status.success(), "{}", told(&made));
    let manifest: Value = serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
    let files: Vec<PathBuf> = manifest["manifest"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| PathBuf::from(file["path"].as_str().unwrap()))
        .chain([PathBuf::from("manifest.json")])
        .collect();
    assert!(files.iter().any(|file| file.starts_with("workers")), "{files:?}");
    let target = dir.path().join("restored");
    let refused = || {
        let put = restore(&out, &target);
        assert_eq!(put.status.code(), Some(2), "{}", told(&put));
        let left: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains("restored"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    };
    for file in &files {
        let path = out.join(file);
        let whole = std::fs::read(&path).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 2] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            refused();
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        // The last byte of the manifest is a line break.
        if file != Path::new("manifest.json") {
            refused();
        }
        std::fs::remove_file(&path).unwrap();
        refused();
        std::fs::write(&path, whole).unwrap();
    }
    // A directory that holds something, or that a gateway uses, is left alone.
    let taken = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(taken.path(), &settings());
    let data = taken.path().join("data");
    let in_use = restore(&out, &data);
    assert_eq!(in_use.status.code(), Some(2));
    assert!(told(&in_use).contains("in use"), "{}", told(&in_use));
    assert!(gateway.stop().success());
    let full = restore(&out, &data);
    assert!(told(&full).contains("not empty"), "{}", told(&full));
    std::fs::create_dir(&target).unwrap();
    let put = restore(&out, &target);
    assert!(put.status.success(), "an empty directory will do: {}", told(&put));
    assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o700);
}
