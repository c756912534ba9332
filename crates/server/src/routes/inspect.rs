//! What the rules say: about a run of this gateway, or about a stream in the body. And a tool's result in whole.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use causeway_contract::id::Reference;
use causeway_engine::inspect::{self, Boundary, Report, Thread};

use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::path::Path;
use crate::problem::{Problem, json_response};
use crate::routes::query::Query;
use crate::routes::refused;
use crate::routes::runs::find;
use crate::view;

/// The most bytes of a stream that is brought along.
const MAX_STREAM: u64 = 64 << 20;

/// `GET /api/v1/runs/{id}/findings`
pub async fn findings(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    let run = find(&app, &caller, &id).await?;
    let found = app.of(&caller).findings(&run.run_id).await.map_err(|error| refused(&error))?;
    Ok(json_response(StatusCode::OK, view::findings(&found)))
}

/// `POST /api/v1/check?boundary=commit|yield&thread=durable|ephemeral`: the object of `causeway check --format json`.
pub async fn check(
    State(app): State<App>,
    _caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let query = Query::of(request.uri(), &["boundary", "thread"])?;
    let boundary = match query.text("boundary") {
        None | Some("commit") => Boundary::Commit,
        Some("yield") => Boundary::Yield,
        Some(_) => return Err(Problem::parameter("boundary must be commit or yield")),
    };
    let thread = match query.text("thread") {
        None | Some("durable") => Thread::Durable,
        Some("ephemeral") => Thread::Ephemeral,
        Some(_) => return Err(Problem::parameter("thread must be durable or ephemeral")),
    };
    let busy = || {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "at_capacity",
            "other streams are being checked; try again",
        )
        .action("retry")
    };
    // Before the body is taken: this bounds the memory that all of them together may hold.
    let _place = app.checks.clone().try_acquire_owned().map_err(|_| busy())?;
    let stream = body::read(request, MAX_STREAM, app.settings.body_timeout).await?;
    // Half a second of work for the largest stream: too long for a thread that serves others.
    let report: Report = tokio::task::spawn_blocking(move || inspect::check(&stream, boundary, thread))
        .await
        .map_err(|error| {
            tracing::error!(%error, "the check failed");
            Problem::internal()
        })?;
    let mut object = Vec::new();
    report.write_json(&[("file", Some("-"))], &mut object);
    Ok(json_response(StatusCode::OK, object))
}

/// `GET /api/v1/rules`: what `causeway explain` prints, for whoever shows findings.
pub async fn rules() -> Response<Body> {
    json_response(StatusCode::OK, view::rules())
}

/// `GET /api/v1/runs/{id}/results/{ref}`: what the harness said, whole; an event shows its beginning.
pub async fn result(
    State(app): State<App>,
    caller: Caller,
    Path((id, reference)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let run = find(&app, &caller, &id).await?;
    let reference = Reference::new(reference).map_err(|_| Problem::no_result())?;
    let whole = app.of(&caller).result(&run.run_id, &reference).await.map_err(|error| refused(&error))?;
    let mut response = Response::new(Body::from(whole.to_vec()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // It is a tool's text, never a page of ours.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}
