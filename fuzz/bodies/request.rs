//! Any bytes as the body and the query of a request, at every route that reads one: nothing breaks, a bad one is refused with
//! a status of the 400s and says why in JSON, and the gateway goes on.
//!
//! The first byte chooses the route; the first line after it is the query, the rest the body.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use causeway_contract::id::Name;
use causeway_engine::Engine;
use causeway_engine::config::{AgentConfig, Driver, Pace, RecordingConfig, Settings};
use causeway_server::app::App;
use causeway_server::config;
use causeway_store::MemoryStore;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// The routes: method and path. A `*` in a path is the id of a run that has ended.
pub const ROUTES: &[(&str, &str)] = &[
    ("POST", "/api/v1/chat/stream/start"),
    ("POST", "/api/v1/chat/stream/resume"),
    ("POST", "/api/v1/chat/stream/cancel"),
    ("POST", "/api/v1/runs"),
    ("POST", "/api/v1/runs/*/resume"),
    ("POST", "/agui/tour"),
    ("POST", "/ui-message/tour"),
    ("POST", "/api/v1/check"),
    ("GET", "/api/v1/runs"),
    ("GET", "/api/v1/runs/*/events"),
    ("GET", "/api/v1/runs/*/stream"),
    ("GET", "/api/v1/interrupts"),
    ("DELETE", "/api/v1/conversations/c"),
];

struct World {
    runtime: tokio::runtime::Runtime,
    router: Router,
    run: String,
}

/// Makes the request, and reads what is answered where it is a refusal.
pub fn request(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let Some(&(method, path)) = ROUTES.get(usize::from(choice) % ROUTES.len()) else { return };
    let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (query, body) = rest.split_at(line);
    let World { runtime, router, run } = world();
    let mut uri = path.replace('*', run).into_bytes();
    if !query.is_empty() {
        uri.push(b'?');
        uri.extend(query);
    }
    let kind = if path.ends_with("/check") { "application/x-ndjson" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(uri.as_slice())
        .header("host", "127.0.0.1")
        .header("content-type", kind)
        .body(Body::from(body.get(1..).unwrap_or_default().to_vec()));
    // What is no address does not reach a router.
    let Ok(request) = request else { return };
    runtime.block_on(async {
        let Ok(response) = router.clone().oneshot(request).await;
        let status = response.status();
        assert!(status.as_u16() < 500, "{method} {path}: {status}");
        if status.is_client_error() {
            let body = response.into_body().collect().await.map(|body| body.to_bytes());
            let body: serde_json::Value =
                serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
            let says =
                body["error"]["message"].is_string() || !body["detail"].is_null() || !body["error"].is_null();
            assert!(says, "{method} {path}: {status} {body}");
        } else {
            assert!(
                [StatusCode::OK, StatusCode::ACCEPTED, StatusCode::NO_CONTENT].contains(&status),
                "{status}"
            );
        }
    });
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|above| above.join("tests/data/recordings/deepagents/text_plain.jsonl"));
        let file = file.into_iter().find(|file| file.exists()).expect("a recording");
        let driver = Driver::Recording(RecordingConfig { file, pace: Pace::Fast });
        let agent = AgentConfig::new(Name::new("tour").expect("a name"), "deepagents", driver);
        let dir = tempfile::tempdir().expect("a folder");
        let (router, run) = runtime.block_on(async {
            let settings = Settings::new(dir.path());
            let engine =
                Engine::open(settings, vec![agent], Arc::new(MemoryStore::new())).await.expect("an engine");
            let router = App::new(engine, config::Server::default()).router();
            let start = r#"{"agent_id":"tour","conversation_id":"first","message":"hi"}"#;
            let request = Request::post("/api/v1/chat/invoke")
                .header("host", "127.0.0.1")
                .header("content-type", "application/json")
                .body(Body::from(start))
                .expect("a request");
            let Ok(response) = router.clone().oneshot(request).await;
            let run = response.headers()["x-causeway-run-id"].to_str().expect("an id").to_owned();
            (router, run)
        });
        World { runtime, router, run }
    })
}
