//! `GET /api/v1/runs/{id}/stream`: the stream of a run, live or stored, from any of its events.
//!
//! Resumed after event N it is, byte for byte, what the full stream holds behind N: the encoder is brought up to date
//! from the log first. Only the last frame of an event carries its number, so a client that lost the connection inside
//! an event is sent that event whole.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_contract::Limits;
use causeway_contract::event::Sequence;
use causeway_contract::id::check_id;
use causeway_encode::{Options, Protocol};
use causeway_engine::Error;

use crate::app::App;
use crate::auth::Caller;
use crate::path::Path;
use crate::problem::Problem;
use crate::routes::client::seen_before;
use crate::routes::query::{Query, SDK, cursor};
use crate::routes::runs::find;
use crate::routes::{expired, refused};
use crate::stream::{Frames, RUN_ID};

/// `GET /api/v1/runs/{id}/stream?protocol=P&after=N`, `Last-Event-ID` outranking `after`. What a client said about
/// itself when it posted is said again here: `client_run_id` and `agui_version` for `agui-spec`, `sdk` for `ui-message`.
pub async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let query = Query::of(request.uri(), &["protocol", "after", "client_run_id", "agui_version", "sdk"])?;
    let protocol = match query.text("protocol") {
        None => Protocol::Canonical,
        Some(name) => Protocol::parse(name).ok_or_else(|| {
            let all: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.as_str()).collect();
            Problem::parameter(format!("protocol must be one of {}", all.join(", ")))
        })?,
    };
    let options = options(&query)?;
    let after = last_event_id(&request)?.map_or_else(|| query.cursor("after"), |id| Ok(Some(id)))?;
    let run = find(&app, &caller, &id).await?;
    let ended = run.status.is_terminal();
    Error::beyond_end(after, run.last_sequence).map_err(|error| refused(&error))?;
    if ended && after == Some(run.last_sequence) {
        return Ok(nothing_left(&id));
    }
    if let Some(remains) = run.remains() {
        return Err(expired(&remains));
    }
    // Where the format has no state the log is read from the cursor on.
    let from = if protocol.is_stateless() { after } else { None };
    let subscription = app.of(&caller).subscribe(&run, from).await.map_err(|error| refused(&error))?;
    let seed = seen_before(&app, &caller, &run, protocol).await?;
    let options = options.resumed(run.resumed_from.is_some());
    let mut frames = Frames::for_client(subscription, run.conversation_id, protocol, &seed, &options)
        .resumable(after, app.settings.keep_alive);
    if !ended {
        return Ok(frames.into_response(&caller, None));
    }
    // Events without a frame may be all that is left; an empty stream would make a browser come back for ever.
    match frames.next().await {
        Ok(Some(first)) => Ok(frames.into_response(&caller, Some(first))),
        Ok(None) => Ok(nothing_left(&id)),
        Err(_) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_unavailable",
            "the log of this run cannot be read now",
        )),
    }
}

/// What the client says about itself.
fn options(query: &Query) -> Result<Options, Problem> {
    let options = Options::new().agui_version(query.text("agui_version").unwrap_or_default());
    let run_id = query.text("client_run_id").map(str::to_owned);
    if run_id.as_ref().is_some_and(|id| check_id(id, Limits::DEFAULT.id_bytes).is_err()) {
        return Err(Problem::parameter("client_run_id is no id"));
    }
    Ok(Options { run_id, sdk: sdk(query)?, ..options })
}

/// The major of the AI SDK that reads the stream.
///
/// # Errors
/// 400 for one that is not known.
pub(super) fn sdk(query: &Query) -> Result<Option<u32>, Problem> {
    query
        .text("sdk")
        .map(|_| query.number("sdk", SDK))
        .transpose()
        .map(|major| major.and_then(|major| u32::try_from(major).ok()))
}

fn last_event_id(request: &Request) -> Result<Option<Sequence>, Problem> {
    let Some(value) = request.headers().get("last-event-id") else { return Ok(None) };
    cursor("Last-Event-ID", value.to_str().unwrap_or("")).map(Some)
}

fn nothing_left(id: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Ok(id) = id.parse() {
        response.headers_mut().insert(RUN_ID, id);
    }
    response
}
