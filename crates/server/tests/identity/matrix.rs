//! Every route × two owners × states of a run × ways to authenticate × whose ids: nobody reads or changes what is another's,
//! and cannot even tell it from what there is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway_engine::config::Pace;
use causeway_server::auth::Auth;
use causeway_server::config::{self, Config, Overrides};
use causeway_store::model::{Owner, RunFilter};
use causeway_store::sqlite::Options;
use causeway_store::{MemoryStore, SqliteStore, Store};
use serde_json::{Value, json};

use crate::routes::{Does, Ids, OPEN, ROUTES, Route};
use crate::service;
use crate::support::{Answer, Gateway, ISSUER, PATIENCE, START, Signer, Time, agent, key_set};

/// How the run of a conversation stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Running,
    Finished,
    Interrupted,
    Cleared,
    Deleted,
}

const STATES: [State; 5] =
    [State::Running, State::Finished, State::Interrupted, State::Cleared, State::Deleted];
const OWNERS: [&str; 2] = ["alice", "bob"];

/// Names and values.
type Headers = Vec<(String, String)>;

/// A gateway, its store, and the headers that each owner sends.
struct World {
    gateway: Gateway,
    store: Arc<dyn Store>,
    headers: Box<dyn Fn(&str) -> Headers>,
    _data: tempfile::TempDir,
}

impl World {
    async fn of(
        auth: &config::Auth,
        store: Arc<dyn Store>,
        data: tempfile::TempDir,
        headers: impl Fn(&str) -> Headers + 'static,
    ) -> Self {
        let auth = Auth::open(auth, Time::new().clock()).await.unwrap();
        let agents = vec![
            agent("tour", "tool_big_result", Pace::Fast),
            agent("ask", "approve", Pace::Fast),
            agent("slow", "text_plain", Pace::Every(Duration::from_secs(3600))),
        ];
        let gateway = Gateway::open(auth, Arc::clone(&store), agents, data.path()).await;
        Self { gateway, store, headers: Box::new(headers), _data: data }
    }

    async fn service() -> Self {
        let data = tempfile::tempdir().unwrap();
        let auth = service::settings(data.path(), "");
        // One owner is named by a header, the other is the token itself.
        Self::of(&auth, Arc::new(MemoryStore::new()), data, |owner| {
            let token = if owner == "alice" { "Bearer tok-web" } else { "Bearer tok-batch" };
            let mut headers = vec![("authorization".to_owned(), token.to_owned())];
            if owner == "alice" {
                headers.push(("x-causeway-subject".to_owned(), owner.to_owned()));
            }
            headers
        })
        .await
    }

    async fn jwt() -> Self {
        let data = tempfile::tempdir().unwrap();
        let signer = Signer::eddsa("a");
        let file = data.path().join("jwks.json");
        std::fs::write(&file, key_set(&[&signer])).unwrap();
        let text = format!(
            "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"causeway\"]\n\
             algorithms = [\"EdDSA\"]\njwks_file = {file:?}\n"
        );
        let auth = Config::load(&text, [], &Overrides::default()).unwrap().auth;
        let store = Arc::new(SqliteStore::open(Options::new(data.path().join("store"))).unwrap());
        Self::of(&auth, store, data, move |owner| {
            vec![("authorization".to_owned(), format!("Bearer {}", signer.token_at(owner, START / 1000)))]
        })
        .await
    }

    async fn ask(&self, owner: &str, method: &str, path: &str, body: &str) -> Answer {
        let mut headers = (self.headers)(owner);
        if path == "/api/v1/check" {
            headers.push(("content-type".to_owned(), "application/x-ndjson".to_owned()));
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.gateway.ask(method, path, &headers, body).await
    }

    async fn send(&self, owner: &str, route: &Route, ids: &Ids) -> Answer {
        self.ask(owner, route.method, &(route.path)(ids), &(route.body)(ids)).await
    }

    /// A conversation of an owner in a state.
    async fn make(&self, owner: &str, state: State, conversation: String) -> Ids {
        let agent = match state {
            State::Running => "slow",
            State::Interrupted => "ask",
            State::Finished | State::Cleared | State::Deleted => "tour",
        };
        let secret = format!("{SECRET} {owner}");
        let start = json!({"agent_id": agent, "conversation_id": conversation, "message": secret});
        let begun = self.ask(owner, "POST", "/api/v1/runs", &start.to_string()).await;
        assert_eq!(begun.status, 202, "{}", begun.body);
        let run = begun.json()["run_id"].as_str().unwrap().to_owned();
        if state != State::Running {
            self.ended(owner, &run).await;
        }
        let shown = self.ask(owner, "GET", &format!("/api/v1/runs/{run}"), "").await.json();
        let events = self.ask(owner, "GET", &format!("/api/v1/runs/{run}/events"), "").await.json();
        let mut references = events["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|event| event["data"]["result_ref"].as_str());
        let ids = Ids {
            agent,
            interrupt: shown["interrupt"]["interrupt_id"].as_str().unwrap_or("int-0").to_owned(),
            revision: shown["interrupt"]["revision"].as_u64().unwrap_or(1),
            result: references.next().unwrap_or("ref-0").to_owned(),
            conversation,
            run,
        };
        let path = format!("/api/v1/conversations/{}", ids.conversation);
        let done = match state {
            State::Cleared => self.ask(owner, "POST", &format!("{path}/clear"), "{}").await.status,
            State::Deleted => self.ask(owner, "DELETE", &path, "{}").await.status,
            State::Running | State::Finished | State::Interrupted => 200,
        };
        assert_eq!(done, 200);
        ids
    }

    async fn ended(&self, owner: &str, run: &str) {
        let ended = async {
            let mut after = 0;
            loop {
                let path = format!("/api/v1/runs/{run}/events?after={after}&wait=30&limit=5000");
                let page = self.ask(owner, "GET", &path, "").await.json();
                if page["done"] == true {
                    return;
                }
                after = page["next_after"].as_u64().unwrap_or(after);
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
    }

    /// Everything that the store has of an owner.
    async fn all(&self, owner: &str) -> String {
        let owner = self.owner(owner);
        let mut out = String::new();
        let mut cursor = None;
        loop {
            let page = self.store.runs(&owner, &RunFilter::default(), 100, cursor).await.unwrap();
            for run in &page.runs {
                let events = self.store.read_after(&run.run_id, None, 10_000).await.unwrap();
                let interrupt = self.store.interrupt(&owner, &run.run_id).await;
                let head = self.store.load_head(&owner, &run.conversation_id, &run.agent_id).await;
                out.push_str(&format!("{run:?} {events:?} {interrupt:?} {head:?}\n"));
            }
            cursor = page.next;
            if cursor.is_none() {
                let pending = self.store.pending_interrupts(&owner, 100).await.unwrap();
                return format!("{out}{pending:?}");
            }
        }
    }

    fn owner(&self, name: &str) -> Owner {
        let headers = (self.headers)(name);
        let token = headers.iter().any(|(_, value)| value == "Bearer tok-batch");
        Owner::new(if token { "token:batch" } else { name })
    }
}

/// Begins what an owner says.
const SECRET: &str = "the secret of";

/// What may differ between two answers is taken out: the request's id, and the ids that the request itself named.
fn bare(answer: &Answer, ids: &Ids) -> (u16, Headers, String) {
    let request = answer.headers["x-request-id"].to_str().unwrap();
    let named = [(request, "REQUEST"), (&ids.run, "RUN"), (&ids.conversation, "CONVERSATION")];
    let hide = |text: &str| named.iter().fold(text.to_owned(), |text, (id, word)| text.replace(id, word));
    let headers = answer.headers.iter().filter(|(name, _)| *name != "content-length");
    let headers = headers.map(|(name, value)| (name.to_string(), hide(value.to_str().unwrap()))).collect();
    // A failure is told with the time of its telling.
    let mut parts = answer.body.split("\"timestamp\":");
    let mut body = parts.next().unwrap_or("").to_owned();
    for part in parts {
        body.push_str("\"timestamp\":T");
        body.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    (answer.status, headers, hide(&body))
}

async fn holds(world: &World) -> usize {
    let mut combinations = 0;
    for (caller, victim) in [(OWNERS[0], OWNERS[1]), (OWNERS[1], OWNERS[0])] {
        for state in STATES {
            let name = |whose: &str, what: &str| format!("{whose}-{caller}-{state:?}-{what}");
            let foreign = world.make(victim, state, name(victim, "x")).await;
            let own = world.make(caller, state, name(caller, "y")).await;
            let unknown = Ids {
                conversation: name("nobody", "z"),
                run: "run-01900000-0000-7000-8000-000000000000".to_owned(),
                ..foreign.clone()
            };
            let before = world.all(victim).await;
            for route in ROUTES {
                let what = format!("{caller} {state:?} {} {}", route.method, (route.path)(&foreign));
                if state == State::Running && route.does == Does::Begins {
                    // A run that lasts for ever would be the caller's own: nothing to compare.
                    let mut other = foreign.clone();
                    other.agent = "tour";
                    begins(world, caller, route, &other, &what).await;
                    combinations += 1;
                    continue;
                }
                if route.does == Does::Begins {
                    begins(world, caller, route, &foreign, &what).await;
                    begins(world, caller, route, &unknown, &what).await;
                    combinations += 2;
                    continue;
                }
                let (theirs, none) =
                    (world.send(caller, route, &foreign).await, world.send(caller, route, &unknown).await);
                for answer in [&theirs, &none] {
                    assert!(!answer.body.contains(&format!("{SECRET} {victim}")), "{what}: {}", answer.body);
                    assert!(answer.status < 500, "{what}: {}", answer.body);
                }
                assert!(
                    !theirs.body.contains(&foreign.run) || (route.path)(&foreign).contains(&foreign.run),
                    "{what}: {}",
                    theirs.body
                );
                if route.does == Does::Counts {
                    assert_eq!((theirs.status, none.status), (200, 200), "{what}");
                } else {
                    assert_eq!(bare(&theirs, &foreign), bare(&none, &unknown), "{what}");
                }
                if route.does == Does::Reaches && (route.path)(&foreign).contains(&foreign.run) {
                    assert_eq!((theirs.status, theirs.code().as_str()), (404, "run_not_found"), "{what}");
                }
                combinations += 2;
            }
            assert_eq!(world.all(victim).await, before, "{caller} changed what is {victim}'s");
            combinations += owns(world, caller, state, &own, &unknown).await;
        }
    }
    combinations
}

/// A run in a conversation that another has too is the caller's own.
async fn begins(world: &World, caller: &str, route: &Route, ids: &Ids, what: &str) {
    // Interrupts would stand in the way of the next.
    let ids = Ids { agent: "tour", ..ids.clone() };
    let answer = world.send(caller, route, &ids).await;
    assert!(matches!(answer.status, 200 | 202), "{what}: {} {}", answer.status, answer.body);
    assert!(!answer.body.contains(SECRET), "{what}");
    let run = match answer.headers.get("x-causeway-run-id") {
        Some(run) => run.to_str().unwrap().to_owned(),
        None => answer.json()["run_id"].as_str().unwrap().to_owned(),
    };
    world.ended(caller, &run).await;
    let found = world.store.run(&world.owner(caller), &causeway_contract::id::RunId::new(run).unwrap()).await;
    assert!(found.is_ok(), "{what}");
}

/// The same requests about what is one's own are answered otherwise; else the matrix would show nothing.
async fn owns(world: &World, caller: &str, state: State, own: &Ids, unknown: &Ids) -> usize {
    let mut count = 0;
    for route in ROUTES.iter().filter(|route| route.does == Does::Reaches && route.method == "GET") {
        let path = (route.path)(own);
        if state == State::Running && path.contains("/stream") {
            continue; // it would not end
        }
        let answer = world.send(caller, route, own).await;
        count += 1;
        let there = match state {
            State::Deleted => false,
            State::Running | State::Finished | State::Interrupted | State::Cleared => true,
        };
        let has = !path.contains("/results/") || state == State::Finished || state == State::Cleared;
        if path.contains(&own.run) && has {
            // A cursor beyond the end is a fault of its own.
            let fits = if path.contains("after=99") { answer.status != 404 } else { answer.status == 200 };
            assert_eq!(fits, there, "{caller} {state:?} {path}: {} {}", answer.status, answer.body);
        }
        let none = world.send(caller, route, unknown).await;
        if path.contains(&own.run) && there {
            assert_ne!(bare(&answer, own), bare(&none, unknown), "{caller} {state:?} {path}");
        }
    }
    let listed = world.ask(caller, "GET", "/api/v1/runs?limit=500", "").await.body.contains(&own.run);
    assert_eq!(listed, state != State::Deleted, "{caller} {state:?}");
    let waiting = world.ask(caller, "GET", "/api/v1/interrupts", "").await.body.contains(&own.run);
    assert_eq!(waiting, state == State::Interrupted, "{caller} {state:?}");
    count
}

#[tokio::test]
async fn nobody_reaches_what_is_anothers_whatever_the_route_the_state_and_the_id() {
    let combinations = holds(&World::service().await).await + holds(&World::jwt().await).await;
    assert!(combinations >= 1000, "{combinations} combinations");
    println!("{combinations} combinations");
}

#[tokio::test]
async fn an_idempotency_key_of_another_is_nobodys() {
    let world = World::service().await;
    let body = json!({"agent_id": "tour", "conversation_id": "c", "message": "hi", "idempotency_key": "k"});
    let mut runs = BTreeSet::new();
    for owner in OWNERS {
        let answers = [
            world.ask(owner, "POST", "/api/v1/runs", &body.to_string()).await,
            world.ask(owner, "POST", "/api/v1/runs", &body.to_string()).await,
        ];
        let ids: BTreeSet<String> =
            answers.iter().map(|answer| answer.json()["run_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids.len(), 1, "the same request finds its run");
        runs.extend(ids);
    }
    assert_eq!(runs.len(), 2, "and not another's");
}

/// The routes of the router, read from where it is built.
fn built() -> BTreeSet<(String, String)> {
    let text = include_str!("../../src/app.rs");
    let mut routes = BTreeSet::new();
    for part in text.split(".route(").skip(1) {
        let (path, rest) = part.trim_start().trim_start_matches('"').split_once('"').unwrap();
        let methods = rest.split("\n            .").next().unwrap();
        for (word, method) in
            [("get(", "GET"), ("post(", "POST"), ("delete(", "DELETE"), ("put(", "PUT"), ("patch(", "PATCH")]
        {
            if methods.contains(word) {
                routes.insert((method.to_owned(), path.to_owned()));
            }
        }
    }
    routes
}

#[tokio::test]
async fn every_route_of_the_router_is_in_the_matrix() {
    let here: BTreeSet<(String, String)> =
        ROUTES.iter().map(|route| (route.method.to_owned(), route.route.to_owned())).collect();
    assert!(here.len() >= 24, "{here:?}");
    assert_eq!(
        built(),
        here,
        "left: crates/server/src/app.rs, right: routes.rs of this test; add the new one here"
    );
    // And without a token none of them but the open ones answers anything else than 401.
    let world = World::service().await;
    let ids = world.make("alice", State::Finished, "c".to_owned()).await;
    for route in ROUTES {
        let kind = if route.route == "/api/v1/check" { "application/x-ndjson" } else { "application/json" };
        let headers = [("content-type", kind)];
        let answer =
            world.gateway.ask(route.method, &(route.path)(&ids), &headers, &(route.body)(&ids)).await;
        let open = OPEN.contains(&route.route);
        assert_eq!(answer.status == 401, !open, "{} {}: {}", route.method, route.route, answer.status);
    }
}

#[test]
fn routes_reach_data_through_their_caller_alone() {
    // Health, the catalogue and whatever else belongs to nobody may ask the engine itself.
    const MACHINES: &[&str] = &["health.rs", "catalogue.rs", "metrics.rs"];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/routes");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        seen += 1;
        for word in ["Owner::", "Auth::", "dyn Store"] {
            assert!(!text.contains(word), "{name} makes its own owner or store: {word}");
        }
        assert!(
            !text.contains(".machine()") || MACHINES.contains(&name.as_str()),
            "{name} asks for the machine"
        );
    }
    assert!(seen > 10);
}

#[tokio::test]
async fn a_value_of_the_list_shows_up_only_where_it_belongs() {
    let world = World::service().await;
    let ids = world.make("bob", State::Interrupted, "c".to_owned()).await;
    let empty: Value = json!({"runs": [], "next": null});
    assert_eq!(world.ask("alice", "GET", "/api/v1/runs?conversation_id=c", "").await.json(), empty);
    assert_eq!(world.ask("alice", "GET", "/api/v1/interrupts", "").await.json(), json!({"interrupts": []}));
    let own = world.ask("bob", "GET", "/api/v1/interrupts", "").await.json();
    assert_eq!(own["interrupts"][0]["run_id"], ids.run.as_str());
}
