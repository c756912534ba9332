//! Conversations with the live deepagents worker on gateways that share a PostgreSQL: the worker's states are there too, so any
//! gateway goes on from the committed head.
//!
//! Skipped, loudly, where there is no PostgreSQL, or where the worker's Python environment cannot be had.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_encode::Protocol;
use causeway_store::conformance::server::Server;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::{Gateway, eventually};
use crate::http::Client;
use crate::live::{Stack, example, python};
use crate::runs::{
    answer, check_whole, delete, ended, show, stored, text, try_create, types, value, waiting,
};
use crate::shared;

const CONVERSATION: &str = "c";

/// Gateways with one agent that plays a script, all on one database.
struct Rig {
    server: &'static Server,
    python: &'static Path,
    dir: TempDir,
    name: &'static str,
}

impl Rig {
    /// The answers of the script follow each other by what the agent remembers; `more` are keys of the script.
    fn new(name: &'static str, answers: &Value, more: &Value) -> Option<Self> {
        let server = Server::shared()?;
        let python = python(Stack::V07)?;
        let mut script = json!({"script": {"root": answers}});
        for (key, value) in more.as_object().unwrap() {
            script[key] = value.clone();
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("script.json"), script.to_string()).unwrap();
        Some(Self { server, python, dir, name })
    }

    /// A gateway with a directory of its own.
    fn gateway(&self, name: &str) -> Gateway {
        let home = self.dir.path().join(name);
        std::fs::create_dir_all(&home).unwrap();
        Gateway::start(&home, &self.settings())
    }

    fn settings(&self) -> String {
        let place = |path: PathBuf| path.to_str().unwrap().to_owned();
        let words = [
            place(self.python.to_owned()),
            place(example("worker.py")),
            "--script".to_owned(),
            place(self.dir.path().join("script.json")),
            "--postgres".to_owned(),
            self.states(),
        ];
        let greet = [place(self.python.to_owned()), place(example("greet.py"))];
        let (greetings, schema) =
            (place(self.dir.path().join("greetings")), place(example("schemas/greet.json")));
        let (home, port) = (self.server.home(), self.server.port().to_string());
        format!(
            "{store}[server]\nshutdown_grace = \"2s\"\n[agents.live]\nharness = \"deepagents\"\n\
             [agents.live.driver.process]\ncommand = {words:?}\nstart_timeout = \"2m\"\ncancel_grace = \"10s\"\n\
             env = {{ PGHOST = {home:?}, PGPORT = {port:?}, PGUSER = \"gateway\", PGDATABASE = \"postgres\" }}\n\
             [agents.live.tools.greet]\nschema = {schema:?}\napproval = \"never\"\n\
             [agents.live.tools.greet.invoke.command]\nargv = {greet:?}\nenv = {{ GREETINGS = {greetings:?} }}\n",
            store = shared::store(self.server, self.name),
        )
    }

    /// The schema of the workers.
    fn states(&self) -> String {
        format!("{}_workers", self.name)
    }

    /// The lines of a file that tools write.
    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How many states the workers keep.
    fn kept(&self) -> usize {
        let count = "import psycopg, sys\nhost, port, schema = sys.argv[1:]\n\
             with psycopg.connect(host=host, port=port, user='gateway', dbname='postgres') as database:\n    \
             print(*database.execute(f'SELECT count(*) FROM {schema}.threads').fetchone())";
        let counted = Command::new(self.python)
            .args(["-c", count])
            .arg(self.server.home())
            .args([self.server.port().to_string(), self.states()])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&counted.stdout).into_owned();
        told.trim().parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&counted.stderr)))
    }
}

fn create(client: &Client, conversation: &str) -> String {
    let response = try_create(client, "live", conversation, "go").unwrap();
    assert_eq!(response.status, 202);
    text(&value(response), "run_id")
}

/// The run once it has ended: its status, and what the agent said in it.
fn outcome(client: &Client, run_id: &str) -> (String, String) {
    let status = text(&ended(client, run_id), "status");
    let events = stored(client, run_id);
    check_whole(&events);
    let said = events.iter().filter_map(|event| {
        let event: Value = serde_json::from_str(event).unwrap();
        (event["type"] == "text.delta").then(|| text(&event["data"], "delta"))
    });
    (status, said.collect())
}

fn said(client: &Client, run_id: &str) -> String {
    let (status, said) = outcome(client, run_id);
    assert_eq!(status, "finished", "{run_id}");
    said
}

fn until(client: &Client, run_id: &str, kind: &str) {
    eventually(&format!("{kind} of run {run_id}"), || {
        types(&stored(client, run_id)).iter().any(|found| found == kind).then_some(())
    });
}

fn signal(gateway: &Gateway, signal: &str) {
    let status = Command::new("kill").args([signal, &gateway.pid().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn the_runs_of_a_conversation_alternate_between_two_gateways() {
    let says = |text: &str| json!([{"text": text}]);
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let note = json!({"tool": {"id": "n1", "name": "note", "args": {"path": notes, "line": "noted", "seconds": 0.0}}});
    let answers = json!([says("one"), [{"text": "May I? "}, note], says("two"), says("three"), says("four")]);
    let more =
        json!({"tools": ["note"], "interrupt_on": {"note": {"allowed_decisions": ["approve", "reject"]}}});
    let Some(rig) = Rig::new("alternating", &answers, &more) else { return };
    let (here, there) = (rig.gateway("here"), rig.gateway("there"));

    assert_eq!(said(&here.client, &create(&here.client, CONVERSATION)), "one");
    let paused = create(&here.client, CONVERSATION);
    assert_eq!(outcome(&here.client, &paused), ("interrupted".to_owned(), "May I? ".to_owned()));

    // Asked here, answered there: it is the worker there that runs the tool.
    let asked = waiting(&there.client, CONVERSATION);
    assert_eq!(asked["run_id"], json!(paused), "{asked}");
    let data = json!({"type": "tool_approval", "decisions": [{"decision": "approve"}]});
    let response = answer(&there.client, "live", CONVERSATION, Protocol::Custom, &data);
    assert_eq!(response.status, 200);
    let resumed = response.run_id();
    response.bytes();
    assert_eq!(said(&there.client, &resumed), "two");
    assert_eq!(std::fs::read_to_string(&notes).unwrap().lines().count(), 1);

    // The worker here has been idle since its own turn, and goes on from the state that was made there.
    assert_eq!(said(&here.client, &create(&here.client, CONVERSATION)), "three");
    let last = create(&there.client, CONVERSATION);
    assert_eq!(said(&there.client, &last), "four");
    let count =
        |run: &str| types(&stored(&here.client, run)).iter().filter(|kind| kind.starts_with("tool.")).count();
    assert_eq!(count(&last), 0, "nothing of the past is told again");

    // A conversation that is deleted here is forgotten whoever worked on it.
    assert!((1..=3).contains(&rig.kept()), "superseded states are forgotten: {}", rig.kept());
    assert_eq!(delete(&here.client, CONVERSATION).status, 200);
    eventually("the end of what the workers keep", || (rig.kept() == 0).then_some(()));
    assert_eq!(said(&there.client, &create(&there.client, CONVERSATION)), "one");
    assert!(here.stop().success() && there.stop().success());
}

#[test]
fn a_worker_whose_gateway_was_taken_for_dead_neither_commits_nor_runs_a_tool() {
    let call = |id: &str, name: &str, args: Value| json!([{"tool": {"id": id, "name": name, "args": args}}]);
    let answers = json!([
        [{"text": "one"}],
        call("l1", "slow_lookup", json!({"key": "k", "seconds": 2.0})),
        call("g1", "greet", json!({"name": "Ada"})),
        [{"text": "greeted"}],
        [{"text": "after"}],
    ]);
    let more = json!({"tools": ["slow_lookup"], "gated": ["greet"]});
    let Some(rig) = Rig::new("taken_for_dead", &answers, &more) else { return };
    let (here, there) = (rig.gateway("here"), rig.gateway("there"));
    assert_eq!(said(&here.client, &create(&here.client, CONVERSATION)), "one");
    let lost = create(&here.client, CONVERSATION);
    until(&here.client, &lost, "tool.started");
    // The worker goes on: it asks its gateway, which does not hear, for a tool.
    signal(&here, "-STOP");
    let end = ended(&there.client, &lost);
    assert_eq!(end["error"]["code"], "thread_durability_uncertain", "{end}");
    let events = stored(&there.client, &lost);
    check_whole(&events);
    let next = create(&there.client, CONVERSATION);
    assert_eq!(said(&there.client, &next), "greeted");

    signal(&here, "-CONT");
    // It is a gateway again, and has let the worker of the lost run go.
    assert_eq!(said(&here.client, &create(&here.client, CONVERSATION)), "after");
    assert_eq!(stored(&here.client, &lost), events);
    assert_eq!(show(&here.client, &lost)["status"], "uncertain");
    let greetings = rig.lines("greetings");
    assert_eq!(greetings, [format!("{next}:g1 Ada")], "the tool ran for the run that goes on, once");
    assert!(here.stop().success() && there.stop().success());
}

/// Gateways are replaced one by one. The one that leaves ends the runs that it is at, and gives its lease back: nobody waits for
/// it, and the next run of each of its conversations starts at another gateway, from the committed head.
#[test]
fn a_gateway_that_is_replaced_hands_its_conversations_over_and_no_run_is_lost_or_twice() {
    let answers = json!([
        [{"text": "one"}],
        [{"tool": {"id": "l1", "name": "slow_lookup", "args": {"key": "k", "seconds": 120.0}}}],
        [{"text": "three"}],
        [{"text": "four"}],
    ]);
    let Some(rig) = Rig::new("replaced", &answers, &json!({"tools": ["slow_lookup"]})) else { return };
    let conversations = ["a", "b", "c"];
    let (here, there) = (rig.gateway("here"), rig.gateway("there"));
    let mut runs: Vec<Vec<String>> = Vec::new();
    for conversation in conversations {
        let first = create(&here.client, conversation);
        assert_eq!(said(&here.client, &first), "one");
        let active = create(&here.client, conversation);
        until(&here.client, &active, "tool.started");
        runs.push(vec![first, active]);
    }
    signal(&here, "-TERM");
    eventually("the gateway is not ready", || (here.client.get("/readyz").status == 503).then_some(()));
    // A client asks again, with its key, until a gateway takes it: once, whoever that is.
    let keyed = |client: &Client, conversation: &str| {
        let body = json!({"agent_id": "live", "conversation_id": conversation, "message": "go",
            "idempotency_key": format!("key-{conversation}")});
        client.try_send(
            "POST",
            "/api/v1/runs",
            &[("content-type", "application/json")],
            Some(body.to_string().as_bytes()),
        )
    };
    if let Ok(refused) = keyed(&here.client, "a") {
        assert_eq!(refused.status, 503);
    }
    for (conversation, runs) in conversations.iter().zip(&mut runs) {
        // Until the run that was active is over, the conversation has no room for another.
        let next = eventually("a gateway that takes the run", || {
            let response = keyed(&there.client, conversation).unwrap();
            assert!([202, 409].contains(&response.status), "{}", response.status);
            (response.status == 202).then(|| text(&value(response), "run_id"))
        });
        runs.push(next);
    }
    assert!(here.stop_again().success());
    let here = rig.gateway("here");
    for (conversation, runs) in conversations.iter().zip(&runs) {
        assert_eq!(said(&there.client, &runs[2]), "three", "{conversation}");
        assert_eq!(outcome(&there.client, &runs[1]), ("cancelled".to_owned(), String::new()));
        let again = keyed(&here.client, conversation).unwrap();
        assert_eq!(text(&value(again), "run_id"), runs[2], "the gateway that came back knows the key");
        assert_eq!(said(&here.client, &create(&here.client, conversation)), "four");
    }
    let all = value(there.client.get("/api/v1/runs"));
    assert_eq!(all["runs"].as_array().unwrap().len(), 4 * conversations.len(), "{all}");
    assert!(here.stop().success() && there.stop().success());
}
