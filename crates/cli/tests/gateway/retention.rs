//! What a gateway keeps for a time only, and what a deletion takes along.

use std::os::unix::fs::symlink;
use std::path::Path;

use causeway_encode::Protocol;
use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::runs::{self, check_whole, create, ended, say, show, stored, value};

const SHORT: &str = "[retention]\npack_after = \"100ms\"\ndelete_after = \"1s\"\ninterval = \"100ms\"\n";

/// An agent whose worker keeps what it is told in a file of its conversation, and with `more` settings.
fn keeper(more: &str) -> String {
    format!("{more}{}", keeper_in("{data_dir}/workers/{agent}.{conversation}.{epoch}.db"))
}

/// The same with its file at this place.
fn keeper_in(place: &str) -> String {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/template-python/worker.py");
    let worker = worker.canonicalize().unwrap();
    format!(
        "[agents.keeps]\nharness = \"canonical\"\n[agents.keeps.driver.process]\n\
         command = [\"python3\", {worker:?}, \"--db\", {place:?}]\n"
    )
}

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.contains(".db"));
    names.sort();
    names
}

#[test]
fn a_run_that_is_old_enough_answers_410_with_its_summary() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("quick", "tools_parallel", "fast", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    let run_id = create(&gateway.client, "quick", "c");
    let before = ended(&gateway.client, &run_id);
    check_whole(&stored(&gateway.client, &run_id));
    assert!(gateway.stop().success());

    let gateway = Gateway::start(dir.path(), &format!("{SHORT}{settings}"));
    let client = gateway.client;
    let run: Value = eventually("the run loses its content", || {
        let run = show(&client, &run_id);
        run["expired_at"].is_string().then_some(run)
    });
    let mut left = before.clone();
    left["request"] = json!({});
    left["expired_at"] = run["expired_at"].clone();
    assert_eq!(run, left);
    let listed = value(client.get("/api/v1/runs"));
    assert_eq!(listed["runs"], json!([left]));

    let summary = json!({
        "run_id": run_id, "status": before["status"], "created_at": before["created_at"],
        "ended_at": before["ended_at"], "last_sequence": before["last_sequence"], "error_code": null,
        "expired_at": run["expired_at"],
    });
    let path = |route: &str| format!("/api/v1/runs/{run_id}/{route}");
    for route in ["stream", "stream?protocol=custom&after=3", "events", "findings", "results/nothing"] {
        let response = client.get(&path(route));
        assert_eq!(response.status, 410, "{route}");
        let told = value(response);
        assert_eq!((&told["error"]["code"], &told["run"]), (&json!("run_expired"), &summary), "{route}");
    }
    assert_eq!(client.get(&path("stream?after=99999")).status, 400);
    assert_eq!(value(client.post(&path("cancel"), "{}"))["cancelled"], json!(false));
    // The conversation goes on where it was.
    let next = create(&client, "quick", "c");
    ended(&client, &next);
    let metrics = client.get("/metrics").text();
    assert!(metrics.contains("causeway_runs_expired_total"), "{metrics}");
    assert!(gateway.stop().success());
    let audit = std::fs::read_to_string(dir.path().join("data/audit.log")).unwrap();
    let line = audit.lines().find(|line| line.contains("run_expired")).expect("it is on record");
    assert!(line.contains(&run_id) && line.contains("\"c\""), "{line}");
}

#[test]
fn a_conversation_of_which_nothing_is_left_but_its_head_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &keeper(SHORT));
    let client = gateway.client;
    let first = say(&client, "keeps", "c", Protocol::Custom, "apple");
    let run_id = first.run_id();
    first.text();
    eventually("the run loses its content", || {
        show(&client, &run_id)["expired_at"].is_string().then_some(())
    });
    let recalled = say(&client, "keeps", "c", Protocol::Custom, "recall").text();
    assert!(recalled.contains("apple"), "{recalled}");
}

#[test]
fn a_deleted_conversation_takes_the_files_of_its_workers_along_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &keeper(""));
    let client = gateway.client;
    let workers = dir.path().join("data/workers");
    let tell = |conversation| say(&client, "keeps", conversation, Protocol::Custom, "apple").text();
    for conversation in ["c", "c.1", "d"] {
        tell(conversation);
    }
    assert_eq!(client.post("/api/v1/conversations/c/clear", "{}").status, 200);
    tell("c");
    let known = files(&workers);
    for name in ["keeps.c.1.db", "keeps.c.2.db", "keeps.c.1.1.db", "keeps.d.1.db"] {
        assert!(known.contains(&name.to_owned()), "{known:?}");
    }
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "x").unwrap();
    let _ = std::fs::remove_file(workers.join("keeps.c.1.db-wal"));
    symlink(&precious, workers.join("keeps.c.1.db-wal")).unwrap();

    assert_eq!(value(runs::delete(&client, "c")), json!({"deleted": true, "runs": 2}));
    let mut left = files(&workers);
    left.retain(|name| name.ends_with(".db"));
    assert_eq!(left, ["keeps.c.1.1.db", "keeps.d.1.db"]);
    assert!(!files(&workers).iter().any(|name| name.starts_with("keeps.c.1.db")));
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "x");
    // A conversation of the same name begins from nothing, and keeps what it is told.
    let recalled = say(&client, "keeps", "c", Protocol::Custom, "recall").text();
    assert!(!recalled.contains("apple"), "{recalled}");
    tell("c");
    assert!(files(&workers).contains(&"keeps.c.1.db".to_owned()));
    let others = say(&client, "keeps", "d", Protocol::Custom, "recall").text();
    assert!(others.contains("apple"), "{others}");
}

#[test]
fn a_worker_that_leaves_after_its_run_leaves_nothing_of_a_deleted_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("{}scope = \"run\"\n", keeper_in("{data_dir}/workers/{run}.db"));
    let gateway = Gateway::start(dir.path(), &settings);
    let client = gateway.client;
    let run_id = create(&client, "keeps", "c");
    let other = create(&client, "keeps", "d");
    ended(&client, &run_id);
    ended(&client, &other);
    assert_eq!(value(runs::delete(&client, "c")), json!({"deleted": true, "runs": 1}));
    assert!(gateway.stop().success());
    let left = files(&dir.path().join("data/workers"));
    assert!(
        left.contains(&format!("{other}.db")) && left.iter().all(|name| name.starts_with(&other)),
        "{left:?}"
    );
}
