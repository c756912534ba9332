//! The command line over stored runs and settings.

use std::path::Path;
use std::process::Output;

use crate::gateway::{Gateway, causeway, recorded_agents};
use crate::runs::{self, create, ended, stored};

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = causeway().args(args).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn runs_are_read_the_same_from_a_gateway_and_from_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        recorded_agents(&[("tour", "subagent_one", "fast", ""), ("slow", "text_plain", "100ms", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let tour = create(&gateway.client, "tour", "c1");
    ended(&gateway.client, &tour);
    let slow = create(&gateway.client, "slow", "c2");
    // Followed from both places while the gateway holds the directory and the run goes on.
    let places = [["--url".to_owned(), gateway.url.clone()], ["--data".to_owned(), data]];
    let followers: Vec<_> = places
        .iter()
        .map(|[flag, place]| {
            let args = ["runs", "tail", &slow, "--format", "json", flag, place].map(str::to_owned);
            std::thread::spawn(move || run(&args.each_ref().map(String::as_str)))
        })
        .collect();
    let followed: Vec<_> = followers.into_iter().map(|follower| follower.join().unwrap()).collect();
    let expected = stored(&gateway.client, &slow).join("\n") + "\n";
    for (status, stdout, stderr) in followed {
        assert_eq!((status, stdout.as_str()), (Some(0), expected.as_str()), "{stderr}");
    }
    for [flag, place] in &places {
        let (status, stdout, _) = run(&["runs", "list", "--format", "json", flag, place]);
        assert_eq!(status, Some(0));
        let listed: Vec<serde_json::Value> =
            stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids: Vec<&str> = listed.iter().map(|run| run["run_id"].as_str().unwrap()).collect();
        assert_eq!(ids, [slow.as_str(), tour.as_str()], "{flag}");
        let (_, stdout, _) = run(&["runs", "list", "--agent", "tour", "--limit", "1", flag, place]);
        assert_eq!(stdout.lines().count(), 2, "a head and a run: {stdout}");
        let (_, stdout, _) = run(&["runs", "show", &tour, "--format", "json", flag, place]);
        assert_eq!(stdout.trim_end(), gateway.client.get(&format!("/api/v1/runs/{tour}")).text(), "{flag}");
        let (status, stdout, _) = run(&["runs", "export", &tour, flag, place]);
        assert_eq!((status, stdout), (Some(0), stored(&gateway.client, &tour).join("\n") + "\n"), "{flag}");
        let (status, _, stderr) = run(&["runs", "show", "nothing", flag, place]);
        assert_eq!(status, Some(2), "{flag}: {stderr}");
        assert!(stderr.contains("no run with this id") || stderr.contains("no such run"), "{flag}: {stderr}");
    }
}

#[test]
fn an_exported_run_is_a_legal_stream_and_encodes_to_what_clients_saw() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "subagents_parallel", "fast", "")]));
    for protocol in runs::ESTABLISHED {
        let response = runs::start(&gateway.client, "tour", &format!("c-{protocol}"), protocol);
        let run_id = response.run_id();
        let body = response.text();
        let (_, exported, _) = run(&["runs", "export", &run_id, "--url", &gateway.url]);
        let file = dir.path().join("run.jsonl");
        std::fs::write(&file, exported).unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(run(&["check", file]).0, Some(0));
        assert_eq!(run(&["encode", "--to", protocol.as_str(), file]).1, body);
    }
}

#[test]
fn what_cannot_be_read_is_told_with_status_two() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().to_str().unwrap();
    let (status, _, stderr) = run(&["runs", "list", "--data", here]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("does not exist"), "{stderr}");
    let (status, _, stderr) = run(&["runs", "list", "--url", "http://127.0.0.1:1"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("is the gateway running?"), "{stderr}");
    assert_eq!(run(&["runs", "list", "--url", "ftp://x"]).0, Some(2));
}

#[test]
fn config_check_tells_every_finding_and_show_prints_what_holds() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../causeway.example.toml");
    let example = example.to_str().unwrap();
    let (status, stdout, stderr) = run(&["config", "check", example]);
    assert_eq!(status, Some(0), "{stdout}{stderr}");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    std::fs::write(&file, "[server]\nlisen = \"127.0.0.1:1\"\nkeep_alive = 3\n").unwrap();
    let file = file.to_str().unwrap();
    let (status, stdout, _) = run(&["config", "check", file]);
    assert_eq!(status, Some(1));
    assert_eq!(
        stdout,
        format!(
            "{file}: line 2: server.lisen: is not a known key; did you mean `server.listen`?\n\
             {file}: line 3: server.keep_alive: is no duration; write e.g. \"30s\", \"15m\" or \"1h30m\"\n"
        )
    );
    assert_eq!(run(&["config", "check", "/nowhere.toml"]).0, Some(2));
    assert_eq!(run(&["serve", "--config", file]).0, Some(2), "a gateway does not start on it either");

    let output = causeway()
        .args(["config", "show", "--config", example])
        .env("CAUSEWAY_SERVER__LISTEN", "127.0.0.1:9")
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.starts_with("[server]\nlisten = \"127.0.0.1:9\"\n"), "{shown}");
    let again = dir.path().join("shown.toml");
    std::fs::write(&again, &shown).unwrap();
    assert_eq!(run(&["config", "check", again.to_str().unwrap()]).0, Some(0), "what is shown is valid");
}

#[test]
fn a_gateway_that_may_be_reached_from_outside_does_not_start_without_auth() {
    let (status, _, stderr) = run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("server.listen") && stderr.contains("auth.mode"), "{stderr}");
}

#[test]
fn the_catalogue_and_the_completions_print() {
    let (status, stdout, _) = run(&["harnesses"]);
    assert_eq!(status, Some(0));
    assert!(stdout.starts_with("deepagents (also: langgraph)"), "{stdout}");
    for shell in ["bash", "zsh", "fish"] {
        let (status, stdout, _) = run(&["completions", shell]);
        assert_eq!(status, Some(0));
        assert!(stdout.contains("serve") && stdout.contains("runs"), "{shell}");
    }
}
