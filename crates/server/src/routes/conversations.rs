//! Conversations and what waits in them: the pending interrupt, all pending ones, clearing, deleting.
//!
//! Refuses to clear or delete while a run is active.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_contract::id::{ConversationId, Name};
use causeway_store::model::Interrupt;

use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::failpoint::{self, hit};
use crate::path::Path;
use crate::problem::{Problem, json_response};
use crate::routes::query::Query;
use crate::routes::refused;
use crate::view::{self, Object};

/// `GET /api/v1/conversations/{id}/interrupt-state?agent_id=`
pub async fn interrupt_state(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let query = Query::of(request.uri(), &["agent_id"])?;
    let agent_id = query
        .text("agent_id")
        .map(|id| Name::new(id.to_owned()).map_err(|_| Problem::parameter("agent_id is no id")))
        .transpose()?;
    // A conversation that nobody has, or somebody else, has nothing pending.
    let pending = match ConversationId::new(id) {
        Ok(id) => app
            .of(&caller)
            .pending_interrupt(&id, agent_id.as_ref())
            .await
            .map_err(|error| refused(&error))?,
        Err(_) => None,
    };
    let answer = match pending {
        None => Object::new().flag("pending", false),
        Some(interrupt) => {
            waiting(Object::new().flag("pending", true).text("run_id", interrupt.run_id.as_str()), &interrupt)
        }
    };
    Ok(json_response(StatusCode::OK, answer.finish()))
}

/// `GET /api/v1/interrupts?status=pending`
pub async fn interrupts(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let query = Query::of(request.uri(), &["status"])?;
    if query.text("status").is_some_and(|status| status != "pending") {
        return Err(Problem::parameter("status must be pending; others are found with their runs"));
    }
    let all = app.of(&caller).pending_interrupts().await.map_err(|error| refused(&error))?;
    let all = view::array(all.iter().map(|interrupt| {
        let about = Object::new()
            .text("run_id", interrupt.run_id.as_str())
            .text("conversation_id", interrupt.conversation_id.as_str())
            .text("agent_id", interrupt.agent_id.as_str());
        waiting(about, interrupt).finish()
    }));
    Ok(json_response(StatusCode::OK, Object::new().raw("interrupts", &all).finish()))
}

fn waiting(object: Object, interrupt: &Interrupt) -> Object {
    let expires_at = interrupt.summary.expires_at.as_ref().map(ToString::to_string);
    object
        .number("revision", interrupt.summary.revision.value())
        .text_or_null("expires_at", expires_at.as_deref())
        .raw("interrupt", interrupt.request.as_str())
}

/// `POST /api/v1/conversations/{id}/clear`
pub async fn clear(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    body::nothing(request, app.settings.max_body, app.settings.body_timeout).await?;
    let id = conversation(id)?;
    let epoch = app.of(&caller).clear(&id).await.map_err(|error| refused(&error))?;
    hit(failpoint::CLEARED);
    Ok(json_response(StatusCode::OK, Object::new().flag("cleared", true).number("epoch", epoch).finish()))
}

/// `DELETE /api/v1/conversations/{id}`
pub async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    body::nothing(request, app.settings.max_body, app.settings.body_timeout).await?;
    let id = conversation(id)?;
    let deleted = app.of(&caller).delete_conversation(&id).await.map_err(|error| refused(&error))?;
    hit(failpoint::DELETED);
    let answer = Object::new()
        .flag("deleted", true)
        .number("runs", u64::try_from(deleted.runs.len()).unwrap_or(u64::MAX));
    Ok(json_response(StatusCode::OK, answer.finish()))
}

fn conversation(id: String) -> Result<ConversationId<'static>, Problem> {
    ConversationId::new(id).map_err(|_| Problem::no_conversation())
}
