//! The examples of a deployment, as far as they can be checked without deploying.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/deploy").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The values of a key of the unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn the_unit_starts_a_gateway_with_options_that_exist_and_gives_it_time_to_drain() {
    let unit = example("causeway.service");
    for key in
        ["NoNewPrivileges", "ProtectSystem", "StateDirectory", "KillMode", "CapabilityBoundingSet", "UMask"]
    {
        assert_eq!(values(&unit, key).len(), 1, "{key}");
    }
    let seconds = |key: &str| values(&unit, key)[0].strip_suffix('s').unwrap().parse::<u64>().unwrap();
    let (grace, workers, connections) = (10, 5, 3);
    assert!(seconds("TimeoutStopSec") > grace + workers + connections);
    let example =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../causeway.example.toml")).unwrap();
    assert!(
        example.contains(&format!("shutdown_grace = \"{grace}s\"")),
        "the unit was written for this grace"
    );
    assert_eq!(values(&unit, "ExecReload").last(), Some(&"/bin/kill -HUP $MAINPID"));
    let checks = values(&unit, "ExecReload").into_iter().take(1).collect();
    for line in [values(&unit, "ExecStart"), values(&unit, "ExecStartPre"), checks].concat() {
        let words: Vec<&str> = line
            .split_whitespace()
            .skip(1)
            .map(|word| if word.starts_with('/') { "-" } else { word })
            .collect();
        let command = words.iter().filter(|word| !word.starts_with('-')).collect::<Vec<_>>();
        assert!(!command.is_empty());
        // Every option is known: clap names those that are not, before it does anything.
        let help = Command::new(env!("CARGO_BIN_EXE_causeway")).args(&words).arg("--help").output().unwrap();
        assert!(help.status.success(), "{line}: {}", String::from_utf8_lossy(&help.stderr));
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let dir = tempfile::tempdir().unwrap();
    // It looks for the programs: they are those of this build and this machine.
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_causeway"));
    let unit = example("causeway.service").replace("/usr/local/bin/causeway", binary.to_str().unwrap());
    // A user that only an installation makes.
    let unit = unit.replace("User=causeway", "User=root").replace("Group=causeway", "Group=root");
    let path = dir.path().join("causeway.service");
    std::fs::write(&path, unit).unwrap();
    let verified = match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() {
        Ok(verified) => verified,
        Err(error) => return println!("SKIPPED: no systemd-analyze: {error}"),
    };
    let told = String::from_utf8_lossy(&verified.stderr).into_owned();
    let ours: Vec<&str> = told.lines().filter(|line| line.contains("causeway.service")).collect();
    assert_eq!(ours, Vec::<&str>::new(), "{told}");
}

#[test]
fn the_container_runs_as_nobody_special_and_holds_no_secret() {
    let text = example("Containerfile");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let stages: Vec<usize> =
        lines.iter().enumerate().filter(|(_, line)| line.starts_with("FROM ")).map(|(at, _)| at).collect();
    assert_eq!(stages.len(), 2, "what builds is not what runs");
    let last = &lines[stages[1]..];
    let user = last.iter().find_map(|line| line.strip_prefix("USER ")).expect("a user");
    assert!(user.split(':').all(|id| id.parse::<u32>().unwrap() > 0), "{user}");
    let commands = last.iter().position(|line| line.starts_with("ENTRYPOINT")).unwrap();
    assert!(last.iter().position(|line| line.starts_with("USER ")).unwrap() < commands);
    for line in &lines {
        let sets = line.starts_with("ENV ") || line.starts_with("ARG ");
        let word = line.to_lowercase();
        let secret = ["token", "secret", "password", "key"].iter().any(|one| word.contains(one));
        assert!(!(sets && secret), "{line}");
        assert!(!line.starts_with("ADD "), "{line}: nothing is fetched");
        // What is copied is named, so that no data directory or settings file comes along.
        assert!(!line.starts_with("COPY . "), "{line}");
    }
    // Everything that the build needs is copied.
    for folder in ["crates", "contract", "docs", "tests", "xtask", "examples"] {
        assert!(lines.contains(&format!("COPY {folder} {folder}").as_str()), "{folder}");
    }
}

/// The compose file as JSON; `None`, and a line that says so, where nobody here reads YAML.
fn compose() -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = folder.join("examples/deploy/compose/compose.yaml");
    let program = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    // The system's, or that of the example worker.
    for python in [PathBuf::from("python3"), folder.join("target/deepagents/.venv/bin/python")] {
        let read = Command::new(python).args(["-c", program]).arg(&file).output();
        if let Some(read) = read.ok().filter(|read| read.status.success()) {
            return Some(serde_json::from_slice(&read.stdout).unwrap());
        }
    }
    println!("SKIPPED: no Python with PyYAML; the compose file was not read");
    None
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// The values of a key that stands at the beginning of a line of an image's file, from its last stage on.
fn said<'a>(file: &'a str, key: &str) -> Vec<&'a str> {
    file.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).collect()
}

#[test]
fn the_composed_gateways_agree_with_their_image_their_settings_and_their_database() {
    let Some(compose) = compose() else { return };
    let settings: toml::Table = example("compose/causeway.toml").parse().unwrap();
    let image = example("Containerfile");
    let services = compose["services"].as_object().unwrap();
    let gateways: Vec<(&String, &Value)> =
        services.iter().filter(|(name, _)| name.starts_with("gateway-")).collect();
    assert_eq!(gateways.len(), 3);

    let port = said(&image, "EXPOSE")[0];
    let listen = settings["server"]["listen"].as_str().unwrap();
    assert_eq!(listen, format!("0.0.0.0:{port}"));
    let data = said(&image, "VOLUME")[0];
    assert_eq!(settings["store"]["path"].as_str(), Some(data));
    let command: Vec<String> = serde_json::from_str(said(&image, "CMD")[0]).unwrap();
    let config = &command[command.iter().position(|word| word == "--config").unwrap() + 1];
    let mut volumes = Vec::new();
    for (name, gateway) in &gateways {
        assert_eq!(gateway["image"], "causeway-deepagents", "{name}");
        assert_eq!(gateway.get("command"), None, "{name}: that of the image");
        assert_eq!(gateway.get("ports"), None, "{name}: only the proxy is published");
        assert_eq!(gateway["depends_on"]["postgres"]["condition"], "service_healthy");
        let mounts = words(&gateway["volumes"]);
        assert!(mounts.contains(&format!("./causeway.toml:{config}:ro").as_str()), "{mounts:?}");
        let own = mounts.iter().find_map(|mount| mount.strip_suffix(&format!(":{data}"))).unwrap();
        assert!(compose["volumes"].get(own).is_some() && !volumes.contains(&own), "{name}: {own}");
        volumes.push(own);
        let grace = gateway["stop_grace_period"].as_str().unwrap().strip_suffix('s').unwrap();
        assert!(grace.parse::<u64>().unwrap() >= 45, "{name}: it drains");
        let probe = words(&gateway["healthcheck"]["test"]).join(" ");
        assert!(probe.contains("/readyz") && probe.contains(&format!("/127.0.0.1/{port} ")), "{probe}");
        assert!(example("compose/Caddyfile").contains(&format!(" {name}:{port}")));
    }
    assert_eq!(said(&example("compose/Containerfile"), "USER").last(), said(&image, "USER").last());
    for address in words(&services["proxy"]["ports"]) {
        assert!(address.starts_with("127.0.0.1:"), "{address}: without TLS it is for this machine");
    }

    // Gateways and workers sign in to the database that is there.
    let (database, store) = (&services["postgres"], &settings["store"]["postgres"]);
    let env = &settings["agents"]["helper"]["driver"]["process"]["env"];
    for (ours, workers, theirs) in
        [("user", "PGUSER", "POSTGRES_USER"), ("database", "PGDATABASE", "POSTGRES_DB")]
    {
        assert_eq!(json!(store[ours]), database["environment"][theirs]);
        assert_eq!(store[ours], env[workers]);
    }
    assert!(store["host"].as_str() == Some("postgres") && env["PGHOST"] == store["host"]);
    assert_eq!(env["PGPASSWORD"], store["password"]);
}

#[test]
fn the_composed_secrets_are_files_and_the_settings_pass() {
    let Some(compose) = compose() else { return };
    let mut settings = example("compose/causeway.toml");
    let dir = tempfile::tempdir().unwrap();
    for (name, secret) in compose["secrets"].as_object().unwrap() {
        assert!(secret["file"].as_str().is_some_and(|file| file.starts_with("./secrets/")), "{name}");
        let place = format!("/run/secrets/{name}");
        assert!(settings.contains(&place), "{name} is for nobody");
        let file = dir.path().join(name);
        std::fs::write(&file, "0".repeat(64)).unwrap();
        settings = settings.replace(&place, file.to_str().unwrap());
    }
    assert!(!settings.contains("/run/secrets"), "a secret that nobody provides");
    for (name, service) in compose["services"].as_object().unwrap() {
        for (variable, value) in service["environment"].as_object().into_iter().flatten() {
            let secret = ["PASSWORD", "TOKEN", "SECRET"].iter().any(|word| variable.contains(word));
            assert!(!secret || variable.ends_with("_FILE"), "{name}: {variable}");
            let file = value.as_str().and_then(|value| value.strip_prefix("/run/secrets/"));
            let given = service["secrets"].as_array().unwrap();
            assert!(file.is_none_or(|file| given.contains(&json!(file))), "{name}: {variable}");
        }
    }
    // The worker stands where its image puts it; here any program does.
    let image = example("compose/Containerfile");
    assert!(image.contains("\nCOPY examples/deepagents /opt/worker\nRUN /opt/worker/setup.sh /opt/worker\n"));
    let settings = settings.replace("/opt/worker/.venv/bin/python", "/bin/sh");
    let path = dir.path().join("causeway.toml");
    std::fs::write(&path, settings).unwrap();
    let checked =
        Command::new(env!("CARGO_BIN_EXE_causeway")).args(["config", "check"]).arg(&path).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn the_composed_health_check_tells_a_gateway_that_is_ready_from_one_that_is_not() {
    let Some(compose) = compose() else { return };
    let probe = words(&compose["services"]["gateway-1"]["healthcheck"]["test"]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    // As compose reads it: `$$` is a `$`.
    let line = probe[3].replace("$$", "$").replace("/8787", &format!("/{port}"));
    for (status, healthy) in [("200 OK", true), ("503 Service Unavailable", false)] {
        let mut child = match Command::new(probe[1]).args([probe[2], &line]).spawn() {
            Ok(child) => child,
            Err(error) => return println!("SKIPPED: no {}: {error}", probe[1]),
        };
        let (mut socket, _) = server.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        assert!(request.starts_with(b"GET /readyz HTTP/1.0\r\n"), "{request:?}");
        socket.write_all(format!("HTTP/1.0 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().success(), healthy, "{status}");
    }
    drop(server);
    assert!(!Command::new(probe[1]).args([probe[2], &line]).status().unwrap().success(), "nobody is there");
}
