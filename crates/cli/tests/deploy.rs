//! The examples of a deployment, as far as they can be checked without deploying.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;

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
