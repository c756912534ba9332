//! Runs as resources: start without holding a stream, list, look, read events, cancel.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_engine::engine::StartRun;
use causeway_store::model::{Cursor, Idempotency, Run, RunFilter, Status};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::failpoint::{self, hit};
use crate::path::Path;
use crate::problem::{Problem, json_response};
use crate::routes::query::{EVENTS, PAGE, Query, WAIT};
use crate::routes::refused;
use crate::view::{self, Object};

/// The most bytes of events in one answer; a client that asked for more reads on at `next_after`.
const MAX_ANSWER: usize = 8 << 20;

/// `POST /api/v1/runs`
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let key = body::key_header(request.headers())?;
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    fields.only(&["agent_id", "conversation_id", "message", "idempotency_key"])?;
    let agent = fields.id("agent_id")?;
    let conversation = fields.id("conversation_id")?;
    let message = fields.required("message")?;
    let idempotency = fields
        .idempotency_key(key)?
        .map(|key| Idempotency { key: key.into(), body_hash: hash(&[&agent, &conversation, &message]) });
    let agent_id = body::name("agent_id", &agent)?;
    let conversation_id = body::conversation("conversation_id", &conversation)?;
    let start =
        StartRun::new(caller.owner().clone(), agent_id, conversation_id, message).idempotency(idempotency);
    let started = app.of(&caller).start(start).await.map_err(|error| refused(&error))?;
    hit(failpoint::STARTED);
    let run = app.of(&caller).run(&started.run_id).await.map_err(|error| refused(&error))?;
    Ok(json_response(StatusCode::ACCEPTED, view::run(&run)))
}

/// `GET /api/v1/runs`
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let known = ["status", "agent_id", "conversation_id", "since", "until", "limit", "cursor"];
    let query = Query::of(request.uri(), &known)?;
    let status = query
        .text("status")
        .map(|text| {
            Status::parse(text).ok_or_else(|| {
                let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
                Problem::parameter(format!("status must be one of {}", all.join(", ")))
            })
        })
        .transpose()?;
    let bad = |name| Problem::parameter(format!("{name} is no id"));
    let filter = RunFilter {
        status,
        agent_id: query
            .text("agent_id")
            .map(|id| Name::new(id.to_owned()).map_err(|_| bad("agent_id")))
            .transpose()?,
        conversation_id: query
            .text("conversation_id")
            .map(|id| ConversationId::new(id.to_owned()).map_err(|_| bad("conversation_id")))
            .transpose()?,
        since: instant(&query, "since")?,
        until: instant(&query, "until")?,
    };
    let limit = query.number("limit", PAGE)?;
    let cursor = query
        .text("cursor")
        .map(|text| {
            Cursor::parse(text).ok_or_else(|| Problem::parameter("cursor is not one that a list gave"))
        })
        .transpose()?;
    let limit = usize::try_from(limit).unwrap_or(50);
    let page = app.of(&caller).runs(&filter, limit, cursor).await.map_err(|error| refused(&error))?;
    let runs = view::array(page.runs.iter().map(view::run));
    let next = page.next.map(|cursor| cursor.to_string());
    Ok(json_response(
        StatusCode::OK,
        Object::new().raw("runs", &runs).text_or_null("next", next.as_deref()).finish(),
    ))
}

/// `GET /api/v1/runs/{id}`
pub async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    Ok(json_response(StatusCode::OK, view::run(&find(&app, &caller, &id).await?)))
}

/// `GET /api/v1/runs/{id}/events`
pub async fn events(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let query = Query::of(request.uri(), &["after", "wait", "limit"])?;
    let mut after = query.cursor("after")?;
    let wait = Duration::from_secs(query.number("wait", WAIT)?);
    let limit = usize::try_from(query.number("limit", EVENTS)?).unwrap_or(500);
    let run = find(&app, &caller, &id).await?;
    let mut out = String::from("{\"events\":[");
    let mut count = 0;
    let done = loop {
        // Only the first read may wait: what is there is answered at once.
        let wait = if count == 0 { wait } else { Duration::ZERO };
        let page = app
            .of(&caller)
            .events(&run.run_id, after, limit - count, wait)
            .await
            .map_err(|error| refused(&error))?;
        let done = page.is_done(after);
        let empty = page.records.is_empty();
        for record in &page.records {
            if count > 0 {
                out.push(',');
            }
            let event = view::event(record, &run.run_id, &run.conversation_id).map_err(|error| {
                tracing::error!(run_id = run.run_id.as_str(), %error, "a stored event does not read back");
                Problem::internal()
            })?;
            out.push_str(&event);
            count += 1;
            after = Some(record.sequence);
        }
        if done || empty || count >= limit || out.len() > MAX_ANSWER {
            break done;
        }
    };
    out.push_str("],\"next_after\":");
    match after {
        Some(after) => out.push_str(&after.to_string()),
        None => out.push_str("null"),
    }
    out.push_str(if done { ",\"done\":true}" } else { ",\"done\":false}" });
    Ok(json_response(StatusCode::OK, out))
}

/// `POST /api/v1/runs/{id}/cancel`
pub async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    // The body says nothing yet, but one that is too large, too slow or no JSON is refused like any other.
    body::nothing(request, app.settings.max_body, app.settings.body_timeout).await?;
    let run_id = run_id(&id)?;
    let done = app.of(&caller).cancel_run(&run_id).await.map_err(|error| refused(&error))?;
    hit(failpoint::CANCELLED);
    let answer = Object::new()
        .flag("cancelled", done.cancelled)
        .optional(done.interrupt_voided.then_some(true), |object, voided| {
            object.flag("interrupt_voided", voided)
        });
    Ok(json_response(StatusCode::OK, answer.finish()))
}

/// The run with this id, if it is the caller's.
///
/// # Errors
/// 404 for an id that is unknown, someone else's or no id at all.
pub async fn find(app: &App, caller: &Caller, id: &str) -> Result<Run, Problem> {
    app.of(caller).run(&run_id(id)?).await.map_err(|error| refused(&error))
}

fn run_id(id: &str) -> Result<RunId<'static>, Problem> {
    RunId::new(id.to_owned()).map_err(|_| Problem::no_run())
}

fn instant(query: &Query, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = query.text(name) else { return Ok(None) };
    // In a query a `+` stands for a space, so an offset often arrives with one.
    let text = text.replace(' ', "+");
    match Timestamp::parse(&text) {
        Ok(at) => Ok(Some(at.unix_millis())),
        Err(_) => {
            Err(Problem::parameter(format!("{name} must be an RFC 3339 time, e.g. 2026-08-17T00:00:00Z")))
        }
    }
}

/// Each part with its length before it, so that no two requests look the same.
fn hash(parts: &[&str]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().into()
}
