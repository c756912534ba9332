//! The router and what surrounds every request: its id, the guard, the shape of refusals, one line in the log.
//!
//! Refuses to log content: a line holds request id, run id, route, status and duration.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::{delete, get, post};
use causeway_engine::Engine;
use causeway_engine::origin::Origin;
use causeway_engine::trace::{Context, Tracer};
use tokio::sync::Semaphore;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::auth::{Auth, Caller, Turned, url};
use crate::config;
use crate::guard::Guard;
use crate::metrics::{Metrics, known};
use crate::problem::{Problem, json_response};
use crate::refusal::{self, Nobody, Refused, Watch};
use crate::routes::{
    agui, answer, catalogue, chat, conversations, health, inspect, inspector, metrics, replay, runs,
    ui_message,
};
use crate::scope::Scope;
use crate::stream::RUN_ID;

/// The header that names a request in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What every route needs.
#[derive(Clone)]
pub struct App {
    engine: Engine,
    /// `[server]`.
    pub settings: Arc<config::Server>,
    /// So many brought-along streams are held and checked at a time.
    pub checks: Arc<Semaphore>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    guard: Arc<Guard>,
    auth: Arc<Auth>,
    watch: Arc<dyn Watch>,
}

/// Each may hold 64 MiB.
const CHECKS: usize = 2;

impl App {
    /// The routes' common state, without authentication.
    pub fn new(engine: Engine, settings: config::Server) -> Self {
        let guard = Arc::new(Guard::new(&settings.hosts, &settings.origins));
        let metrics = Arc::new(Metrics::new(&engine));
        let watch: Arc<dyn Watch> = match engine.audit() {
            Some(audit) => Arc::new(audit.clone()),
            None => Arc::new(Nobody),
        };
        Self {
            engine,
            settings: Arc::new(settings),
            checks: Arc::new(Semaphore::new(CHECKS)),
            metrics,
            guard,
            auth: Arc::new(Auth::none()),
            watch,
        }
    }

    /// The same with a check of who calls.
    pub fn auth(self, auth: Arc<Auth>) -> Self {
        Self { auth, ..self }
    }

    /// The same with somebody who is told of refused access.
    pub fn watched_by(self, watch: Arc<dyn Watch>) -> Self {
        Self { watch, ..self }
    }

    /// What a caller has and may do: the only way from a route to anything of anybody.
    pub fn of<'a>(&'a self, caller: &'a Caller) -> Scope<'a> {
        Scope::new(&self.engine, caller)
    }

    /// Whether credentials can be checked.
    pub fn can_check(&self) -> bool {
        self.auth.is_ready()
    }

    /// The engine, for what belongs to nobody: health, counters, the catalogue. A test holds who asks for it to a list.
    pub fn machine(&self) -> &Engine {
        &self.engine
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
            .route("/openapi.json", get(catalogue::openapi))
            .route("/healthz", get(health::live))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(metrics::page))
            .fallback(no_route)
            .method_not_allowed_fallback(no_method)
            .layer(middleware::from_fn_with_state(self.clone(), around))
            .with_state(self)
    }
}

/// The name of a request's span: nothing that a client wrote.
fn span_name(method: &Method, route: Option<&str>) -> String {
    format!("{} {}", known(method), route.unwrap_or("none"))
}

/// The one value of a header; none where there are more.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

async fn no_route() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "route_not_found", "Not Found")
}

async fn no_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed")
}

async fn around(State(app): State<App>, mut request: Request, next: Next) -> Response<Body> {
    let began = Instant::now();
    let request_id = Uuid::now_v7().simple().to_string();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let probe = matches!(path.as_str(), "/healthz" | "/readyz");
    // Probes and scrapes come all the time and tell nothing.
    let quiet = probe || path == "/metrics";
    let tracer = if quiet { Tracer::default() } else { app.engine.tracer().clone() };
    let came = single(request.headers(), "traceparent").and_then(Context::parse);
    let mut span = tracer.root(span_name(&method, route.as_deref()), came).serves();
    span.set("causeway.request_id", request_id.as_str());
    let trace_id = span.context().trace_id();
    let admitted = admitted(&app, &method, request.uri(), request.headers(), route.as_deref(), probe).await;
    // An unmatched path is the caller's text: it goes nowhere.
    let route = route.as_deref().unwrap_or("none");
    let about = |response: &Response<Body>, caller: Option<&Caller>, reason, credential: Option<&str>| {
        let refused = Refused {
            request_id: &request_id,
            method: &method,
            route,
            status: response.status().as_u16(),
            reason,
            credential: caller.and_then(Caller::credential).or(credential),
            owner: caller.map(|caller| caller.owner().as_str()),
            agent: caller.and_then(Caller::denied),
        };
        refusal::tell(app.watch.as_ref(), &refused);
    };
    let (response, caller) = match admitted {
        Ok(caller) => {
            if let Some(caller) = &caller {
                request.extensions_mut().insert(caller.clone());
            }
            let origin = Origin {
                request_id: request_id.clone(),
                route: route.to_owned(),
                token: caller.as_ref().and_then(Caller::credential).map(str::to_owned),
                trace: Some(span.context()),
                tracer,
            };
            let logged = tracing::info_span!("request", request_id);
            let response = origin.scope(next.run(request)).instrument(logged).await;
            if caller.as_ref().is_some_and(|caller| caller.denied().is_some()) {
                about(&response, caller.as_ref(), "agent_not_allowed", None);
            }
            (response, caller)
        }
        Err(Turned { problem, reason, credential }) => {
            // A body of another type is a slip, not an attempt.
            let access = problem.status != StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let response = (*problem).into_response();
            if access {
                about(&response, None, reason, credential.as_deref());
            }
            (response, None)
        }
    };
    let refused = response.extensions().get::<Problem>().map(|problem| problem.code);
    let mut response = shaped(response, &path, &request_id);
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let run_id = response.headers().get(RUN_ID).and_then(|value| value.to_str().ok());
    let status = response.status().as_u16();
    span.set("http.response.status_code", u64::from(status));
    if status >= 500 {
        span.fail();
    }
    drop(span);
    let took = began.elapsed();
    app.metrics.answered(&method, route, status, refused, took);
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let credential = caller.as_ref().and_then(Caller::credential);
    // A method may be the caller's text too.
    let method = known(&method);
    if probe {
        tracing::debug!(request_id, method, route, status, duration_ms, "request");
    } else {
        tracing::info!(
            request_id,
            trace_id,
            method,
            route,
            status,
            duration_ms,
            run_id,
            credential,
            "request"
        );
    }
    response
}

/// A refusal in the shape of its route; everything else as it is.
fn shaped(mut response: Response<Body>, path: &str, request_id: &str) -> Response<Body> {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let body = if path.starts_with("/api/v1/chat/") {
        problem.established()
    } else {
        problem.modern(request_id).to_string()
    };
    let headers = std::mem::take(response.headers_mut());
    response = json_response(problem.status, body);
    // What the router had to say about the request, such as `allow`.
    for (name, value) in &headers {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if problem.status == StatusCode::SERVICE_UNAVAILABLE {
        // Whoever knows better has said so already.
        response.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("1"));
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        let asked = HeaderValue::from_static(problem.challenge());
        response.headers_mut().insert(header::WWW_AUTHENTICATE, asked);
    }
    response
}

/// Whether a request is let in, and for whom; `None` where the route is open to anybody.
async fn admitted(
    app: &App,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    route: Option<&str>,
    probe: bool,
) -> Result<Option<Caller>, Turned> {
    url::check(uri)?;
    // Probes come with whatever Host the prober likes and tell nothing about runs.
    if !probe {
        app.guard.check(method, uri, headers)?;
    }
    if app.auth.is_open(method, route) {
        return Ok(None);
    }
    app.auth.caller(headers).await.map(Some)
}
