//! The router and what surrounds every request: its id, the guard, the shape of refusals, one line in the log.
//!
//! Refuses to log content: a line holds request id, run id, route, status and duration.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::{delete, get, post};
use causeway_engine::Engine;
use causeway_store::model::Owner;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::config;
use crate::guard::Guard;
use crate::problem::{Problem, json_response};
use crate::routes::{
    agui, answer, catalogue, chat, conversations, health, inspect, inspector, replay, runs, ui_message,
};
use crate::stream::RUN_ID;

/// The header that names a request in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What every route needs.
#[derive(Clone)]
pub struct App {
    /// The engine.
    pub engine: Engine,
    /// `[server]`.
    pub settings: Arc<config::Server>,
    /// So many brought-along streams are held and checked at a time.
    pub checks: Arc<Semaphore>,
    guard: Arc<Guard>,
}

/// Each may hold 64 MiB.
const CHECKS: usize = 2;

impl App {
    /// The routes' common state.
    pub fn new(engine: Engine, settings: config::Server) -> Self {
        let guard = Arc::new(Guard::new(&settings.hosts, &settings.origins));
        Self { engine, settings: Arc::new(settings), checks: Arc::new(Semaphore::new(CHECKS)), guard }
    }

    /// Whose runs this request may see: without authentication there is one owner.
    pub fn owner(&self) -> Owner {
        Owner::local()
    }

    /// All routes.
    pub fn router(self) -> Router {
        let inspector = if self.settings.inspector {
            Router::new().route("/", get(inspector::file)).route("/assets/{*path}", get(inspector::file))
        } else {
            Router::new()
        };
        inspector
            .route("/api/v1/chat/stream/start", post(chat::start))
            .route("/api/v1/chat/stream/resume", post(answer::stream))
            .route("/api/v1/chat/stream/cancel", post(chat::cancel))
            .route("/api/v1/chat/invoke", post(chat::invoke))
            .route("/api/v1/runs", get(runs::list).post(runs::create))
            .route("/api/v1/runs/{id}", get(runs::show))
            .route("/api/v1/runs/{id}/events", get(runs::events))
            .route("/api/v1/runs/{id}/stream", get(replay::stream))
            .route("/api/v1/runs/{id}/findings", get(inspect::findings))
            .route("/api/v1/runs/{id}/results/{reference}", get(inspect::result))
            .route("/api/v1/runs/{id}/cancel", post(runs::cancel))
            .route("/api/v1/runs/{id}/resume", post(answer::resume))
            .route("/api/v1/check", post(inspect::check))
            .route("/api/v1/rules", get(inspect::rules))
            .route("/api/v1/interrupts", get(conversations::interrupts))
            .route("/api/v1/conversations/{id}", delete(conversations::delete))
            .route("/api/v1/conversations/{id}/interrupt-state", get(conversations::interrupt_state))
            .route("/api/v1/conversations/{id}/clear", post(conversations::clear))
            .route("/api/v1/harnesses", get(catalogue::harnesses))
            .route("/api/v1/agents", get(catalogue::agents))
            .route("/agui/{agent_id}", post(agui::run))
            .route("/ui-message/{agent_id}", post(ui_message::run))
            .route("/ui-message/{agent_id}/{id}/stream", get(ui_message::reconnect))
            .route("/healthz", get(health::live))
            .route("/readyz", get(health::ready))
            .fallback(no_route)
            .method_not_allowed_fallback(no_method)
            .layer(middleware::from_fn_with_state(self.clone(), around))
            .with_state(self)
    }
}

async fn no_route() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "route_not_found", "Not Found")
}

async fn no_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed")
}

async fn around(State(app): State<App>, request: Request, next: Next) -> Response<Body> {
    let began = Instant::now();
    let request_id = Uuid::now_v7().simple().to_string();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let probe = matches!(path.as_str(), "/healthz" | "/readyz");
    // Probes come with whatever Host the prober likes and tell nothing about runs.
    let refusal = if probe { Ok(()) } else { app.guard.check(&method, request.uri(), request.headers()) };
    let mut response = match refusal {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let body = if path.starts_with("/api/v1/chat/") {
            problem.established()
        } else {
            problem.modern(&request_id)
        };
        let headers = std::mem::take(response.headers_mut());
        response = json_response(problem.status, body.to_string());
        // What the router had to say about the request, such as `allow`.
        for (name, value) in &headers {
            response.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
    }
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let run_id = response.headers().get(RUN_ID).and_then(|value| value.to_str().ok());
    let status = response.status().as_u16();
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    // An unmatched path is the caller's text: it does not go into the log.
    let route = route.as_deref().unwrap_or("none");
    if probe {
        tracing::debug!(request_id, %method, route, status, duration_ms, "request");
    } else {
        tracing::info!(request_id, %method, route, status, duration_ms, run_id, "request");
    }
    response
}
