//! From one gateway with its file to shared mode: the schema is made, the directory imported, and clients see the same bytes.

use std::path::Path;

use causeway_store::conformance::server::Server;

use crate::backup::{replays, told};
use crate::gateway::{Gateway, causeway, recorded_agents};
use crate::runs::{create, ended};

fn agents() -> String {
    recorded_agents(&[
        ("quick", "tools_parallel", "fast", ""),
        ("endless", "text_plain", "30s", "idle_timeout = \"10m\""),
    ])
}

fn shared(server: &Server, schema: &str) -> String {
    store(server, schema) + &agents()
}

/// The settings of a store in that schema.
pub fn store(server: &Server, schema: &str) -> String {
    format!(
        "[store]\nkind = \"postgres\"\n[store.postgres]\nhost = {:?}\nport = {}\nuser = \"gateway\"\n\
         database = \"postgres\"\nschema = \"{schema}\"\ntls = \"disable\"\n",
        server.home(),
        server.port(),
    )
}

/// A command with these settings: its exit status, and all that it says.
fn run(settings: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = causeway().args(arguments).arg("--config").arg(settings).output().unwrap();
    (output.status.code(), told(&output))
}

#[test]
fn a_directory_becomes_a_schema_and_every_replay_stays_the_same() {
    let Some(server) = Server::shared() else { return };
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let gateway = Gateway::start(before.path(), &agents());
    let client = gateway.client;
    let runs: Vec<String> = (0..3).map(|at| create(&client, "quick", &format!("c{at}"))).collect();
    for run in &runs {
        ended(&client, run);
    }
    let seen: Vec<_> = runs.iter().map(|run| replays(&client, run)).collect();
    let open = create(&client, "endless", "open");
    assert!(client.get("/metrics").text().lines().any(|line| line == "causeway_gateways 0"));
    gateway.kill();

    let settings = after.path().join("shared.toml");
    std::fs::write(&settings, shared(server, "from_a_file")).unwrap();
    let (code, said) = run(&settings, &["migrate", "--dry-run"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("-- schema version 0,") && said.contains("CREATE TABLE run"), "{said}");
    let (code, said) = run(&settings, &["migrate"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("from version 0 to "), "{said}");
    for arguments in [&["migrate", "--dry-run"][..], &["migrate"]] {
        let (code, said) = run(&settings, arguments);
        assert_eq!(code, Some(0), "{said}");
    }
    let data = before.path().join("data");
    let (code, said) = run(&settings, &["import", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("every row was read back"), "{said}");
    let (code, said) = run(&settings, &["import", data.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not empty: 4 runs in 4 conversations"), "{said}");

    let gateway = Gateway::start(after.path(), &shared(server, "from_a_file"));
    let client = gateway.client;
    for (run, seen) in runs.iter().zip(seen) {
        assert_eq!(replays(&client, run), seen, "{run}");
    }
    let left = ended(&client, &open);
    let code = left["error"]["code"].as_str().unwrap_or_default();
    assert!(["engine_restarted", "thread_durability_uncertain"].contains(&code), "{left}");
    // It is alone there; a file has no lease at all.
    let figures = client.get("/metrics").text();
    for line in ["causeway_gateways 1", "causeway_leases_lost_total 0", "causeway_runs_taken_total 1"] {
        assert!(figures.lines().any(|found| found == line), "{line} is not in {figures}");
    }
    // The conversation goes on.
    let next = create(&client, "quick", "c0");
    assert_eq!(ended(&client, &next)["status"], "finished");
    gateway.stop();

    // A file needs none of it.
    let own = after.path().join("own.toml");
    std::fs::write(&own, agents()).unwrap();
    let (code, said) = run(&own, &["migrate"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("store.kind is not"), "{said}");
}
