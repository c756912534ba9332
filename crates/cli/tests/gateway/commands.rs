//! The command line over stored runs and settings.

use std::path::Path;
use std::process::Output;

use crate::gateway::{Gateway, causeway, eventually, recorded_agents};
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
fn an_uncertain_run_says_why_and_what_to_do_from_both_places() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "text_plain", "1s", ""), ("quick", "text_plain", "fast", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    ended(&gateway.client, &create(&gateway.client, "quick", "other"));
    let slow = create(&gateway.client, "slow", "c");
    eventually("some output", || {
        runs::types(&stored(&gateway.client, &slow)).contains(&"text.delta".to_owned()).then_some(())
    });
    gateway.kill();
    let gateway = Gateway::start(dir.path(), &settings);
    let run_now = ended(&gateway.client, &slow);
    assert_eq!(run_now["status"], "uncertain");
    let (happened, next) = (
        "the gateway ended in the middle of the run",
        "see which tools ran; then send the next message, which starts from the last committed state",
    );
    let uncertain = serde_json::json!({"cause": "engine_restarted", "happened": happened, "next": next});
    assert_eq!(run_now["uncertain"], uncertain);
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    for [flag, place] in [["--url", &gateway.url], ["--data", &data]] {
        let (status, stdout, _) = run(&["runs", "list", "--status", "uncertain", flag, place]);
        assert_eq!(status, Some(0));
        let lines: Vec<&str> = stdout.lines().skip(1).collect();
        assert!(lines[0].starts_with(&slow), "{stdout}");
        assert_eq!(
            lines[1..],
            [format!("    why   engine_restarted: {happened}"), format!("    next  {next}")],
            "{flag}"
        );
        let (_, stdout, _) = run(&["runs", "show", &slow, flag, place]);
        assert!(
            stdout.contains(&format!("cause            engine_restarted\nhappened         {happened}\n")),
            "{stdout}"
        );
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
    let (status, stdout, stderr) = run(&["runs", "list", "--url", "http://127.0.0.1:1"]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "no head over nothing");
    assert!(stderr.contains("is the gateway running?"), "{stderr}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (status, _, stderr) = run(&["runs", "list", "--data", file.to_str().unwrap()]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("is a file, not a directory"), "{stderr}");
    assert_eq!(run(&["runs", "list", "--url", "ftp://x"]).0, Some(2));
}

#[test]
fn a_list_takes_one_place_and_a_limit_that_both_places_know() {
    for place in [["--url", "http://127.0.0.1:1"], ["--data", "nowhere"]] {
        for limit in ["0", "501", "-1", "x", "99999999999999999999"] {
            let (status, stdout, stderr) = run(&["runs", "list", "--limit", limit, place[0], place[1]]);
            assert_eq!((status, stdout.as_str()), (Some(2), ""), "{limit}");
            assert!(stderr.contains("must be a whole number from 1 to 500"), "{limit}: {stderr}");
        }
    }
    let (status, _, stderr) = run(&["runs", "list", "--url", "http://127.0.0.1:1", "--data", "nowhere"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}

#[test]
fn an_error_says_every_part_of_its_chain_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("file");
    std::fs::write(&data, "").unwrap();
    let data = data.to_str().unwrap();
    let (status, _, stderr) = run(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(2));
    let told = format!(
        "causeway: cannot open the store: {data}: is a file, not a directory (name a directory with --data)\n"
    );
    assert_eq!(stderr.lines().last().map(|line| format!("{line}\n")), Some(told), "{stderr}");
    let (status, _, stderr) = run(&["encode", "--to", "custom", "--resume", "{", "/dev/null"]);
    assert_eq!(status, Some(2));
    let told =
        "the value of --resume: is not a JSON object: the line is not JSON: a key was expected at byte 1";
    assert_eq!(stderr, format!("causeway: {told}\n"));
}

#[test]
fn config_check_tells_every_finding_and_show_prints_what_holds() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../causeway.example.toml");
    let example = example.to_str().unwrap();
    // Its paths are relative to the checkout, whose root a fresh clone's user stands in.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let check = |file: &str| {
        let output = causeway().args(["config", "check", file]).current_dir(&root).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, stdout) = check(example);
    assert_eq!(status, Some(0), "{stdout}");

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
    assert_eq!(check(again.to_str().unwrap()).0, Some(0), "what is shown is valid");
}

#[test]
fn config_check_tells_what_the_agents_would_miss() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("empty.jsonl"), "").unwrap();
    std::fs::write(dir.path().join("setup.sh"), "").unwrap();
    let agents = [
        ("a", "nonesuch", "recording = { file = \"DIR/empty.jsonl\" }"),
        ("b", "langgraph", "recording = { file = \"DIR/gone.jsonl\" }"),
        ("c", "deepagents", "recording = { file = \"DIR\" }"),
        ("d", "deepagents", "process = { command = [\"DIR/bin/worker\"] }"),
        ("e", "deepagents", "process = { command = [\"python3\", \"worker.py\"] }"),
        ("f", "deepagents", "process = { command = [\"{data_dir}/worker\"] }"),
        ("g", "deepagents", "process = { command = [\"DIR/.venv/bin/python\"] }"),
    ];
    let settings = |agents: &[(&str, &str, &str)]| {
        let all = agents.iter().map(|(id, harness, driver)| {
            format!("[agents.{id}]\nharness = \"{harness}\"\ndriver.{}\n", driver.replace("DIR", place))
        });
        let file = dir.path().join("causeway.toml");
        std::fs::write(&file, all.collect::<String>()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let file = settings(&agents);
    let (status, stdout, stderr) = run(&["config", "check", &file]);
    let note = format!(
        "{file}: agents.g.driver.process.command: there is no program {place}/.venv/bin/python yet; \
         run {place}/setup.sh, which makes it (a note)\n"
    );
    let lines = stdout.lines().collect::<Vec<_>>();
    assert_eq!((status, lines.len()), (Some(1), 6), "{stdout}{stderr}");
    assert!(lines[0].starts_with(&format!("{file}: agents.a.harness: no adapter for `nonesuch`; known are")));
    assert_eq!(
        lines[1..].join("\n") + "\n",
        format!(
            "{file}: agents.a.driver.recording.file: {place}/empty.jsonl is empty; there is nothing to play\n\
             {file}: agents.b.driver.recording.file: cannot read {place}/gone.jsonl: No such file or directory (os error 2)\n\
             {file}: agents.c.driver.recording.file: {place} is a directory, not a recording\n\
             {file}: agents.d.driver.process.command: there is no program {place}/bin/worker\n{note}"
        )
    );
    let (status, stdout, _) = run(&["config", "check", &settings(&agents[4..])]);
    assert_eq!((status, stdout), (Some(0), format!("{note}{file}: valid, 3 agents\n")));
}

#[test]
fn config_check_reads_the_schemas_of_tools() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(place("good.json"), r#"{"type":"object"}"#).unwrap();
    std::fs::write(place("bad.json"), r#"{"properties":{"n":{"type":"numbr"}}}"#).unwrap();
    std::fs::write(place("far.json"), r#"{"$ref":"https://example.com/s.json"}"#).unwrap();
    std::fs::write(place("play.jsonl"), "{}").unwrap();
    let check = |tools: &str| {
        let text = format!(
            "[agents.a]\nharness = \"deepagents\"\n{tools}\ndriver.recording.file = {:?}\n",
            place("play.jsonl")
        );
        std::fs::write(place("causeway.toml"), text).unwrap();
        let (status, stdout, _) = run(&["config", "check", &place("causeway.toml")]);
        (status, stdout.replace(dir.path().to_str().unwrap(), "DIR"))
    };
    let tool = |name: &str, file: &str| format!("tools.{name}.schema = {:?}\n", place(file));
    assert_eq!(check(&tool("t", "good.json")).0, Some(0));
    for (tools, says) in [
        (
            tool("t", "bad.json"),
            "DIR/causeway.toml: agents.a.tools.t.schema: DIR/bad.json at \"/properties/n/type\": ",
        ),
        (tool("t", "far.json"), "DIR/causeway.toml: agents.a.tools.t.schema: DIR/far.json at "),
        (tool("t", "gone.json"), "DIR/causeway.toml: agents.a.tools.t.schema: cannot read DIR/gone.json: "),
        ("tools.t = {}".to_owned(), "DIR/causeway.toml: agents.a.tools.t: `schema` is missing"),
        ("tools.t.schema = 1".to_owned(), "DIR/causeway.toml: line 3: agents.a.tools.t.schema: is a"),
    ] {
        let (status, stdout) = check(&tools);
        assert!(status == Some(1) && stdout.starts_with(says), "{tools}: {stdout}");
    }
    // A snapshot of an MCP server has them all; what the gateway runs needs a worker that can ask.
    let list = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#;
    std::fs::write(place("mcp.json"), list).unwrap();
    std::fs::write(place("page.json"), r#"{"tools":[],"nextCursor":"2"}"#).unwrap();
    let from = |file: &str| format!("tools_from = {:?}\n", place(file));
    assert_eq!(check(&from("mcp.json")).0, Some(0));
    for (tools, says) in [
        (
            from("page.json"),
            "DIR/causeway.toml: agents.a.tools_from: DIR/page.json: it is one page of several",
        ),
        (
            format!("{}tools.u.invoke.command.argv = [\"x\"]\n", from("mcp.json")),
            "DIR/causeway.toml: agents.a.tools.u: `schema` is missing",
        ),
        (
            format!("{}tools.t.invoke.command.argv = [\"x\"]\n", from("mcp.json")),
            "DIR/causeway.toml: agents.a.tools.t.invoke: needs a worker of the worker protocol",
        ),
    ] {
        let (status, stdout) = check(&tools);
        assert!(status == Some(1) && stdout.starts_with(says), "{tools}: {stdout}");
    }
    // The gateway does not start on it either.
    check(&tool("t", "bad.json"));
    let (status, _, stderr) = run(&["serve", "--config", &place("causeway.toml"), "--data", &place("data")]);
    assert!(status == Some(2) && stderr.contains("/properties/n/type"), "{stderr}");
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
