//! `POST /ui-message/{agent_id}` and its reconnect: the endpoint that `useChat` of the Vercel AI SDK talks to.
//!
//! Refuses with plain HTTP errors, whose text the SDK shows; a stream begins only where there is a run. The messages
//! that the SDK sends along are the client's history; only the last is read.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_encode::{Options, Protocol};
use causeway_engine::engine::StartRun;
use causeway_store::model::{RunFilter, Status};
use serde_json::Value;

use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::path::Path;
use crate::problem::Problem;
use crate::routes::chat::known_agent;
use crate::routes::client::{self, Entry, Warnings, said, text_of};
use crate::routes::query::Query;
use crate::routes::refused;
use crate::routes::replay::sdk;

const ROUTE: &str = "/ui-message/{agent_id}";
/// What the SDK sends, and `resume`.
const KNOWN: [&str; 5] = ["id", "messages", "trigger", "messageId", "resume"];

/// `POST /ui-message/{agent_id}?sdk=N`
pub async fn run(
    State(app): State<App>,
    caller: Caller,
    Path(agent): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let options = options(&request)?;
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    let agent_id = body::name("agent_id", &agent)?;
    known_agent(&app, &caller, &agent)?;
    let conversation_id = body::conversation("id", &fields.id("id")?)?;
    let mut warnings = Warnings::default();
    warnings.dropped("unknown members", fields.names().filter(|name| !KNOWN.contains(name)));
    let messages = fields.raw("messages").ok_or_else(|| Problem::field("messages", "is required"))?;
    let messages: Vec<Value> =
        serde_json::from_str(messages).map_err(|_| Problem::field("messages", "must be a list"))?;
    let last = messages.last().ok_or_else(|| Problem::field("messages", "must not be empty"))?;
    let mut resume = fields.raw("resume").map(Entry::list).transpose()?.unwrap_or_default();
    let again = fields.text("trigger")?.as_deref() == Some("regenerate-message");
    let by_user = last["role"] == "user";
    if resume.is_empty() && !by_user && !again {
        resume = approvals(last);
    }
    let request = if resume.is_empty() {
        let user = if again { messages.iter().rev().find(|message| message["role"] == "user") } else { None };
        let said_last = user.or(Some(last).filter(|_| by_user));
        let mut dropped = Vec::new();
        let message = said(said_last.and_then(|message| text_of(&message["parts"], &mut dropped)))?;
        warnings.dropped("parts that are no text", dropped.iter().map(String::as_str));
        let start = StartRun::new(caller.owner().clone(), agent_id, conversation_id, message);
        client::Request::Start(Box::new(start))
    } else {
        let answer =
            client::answer(&app, &caller, &agent_id, &conversation_id, &resume, ROUTE, &mut warnings).await?;
        client::Request::Answer(Box::new(answer))
    };
    let begun = client::begin(&app, &caller, request).await.map_err(|error| refused(&error))?;
    client::stream(&app, &caller, begun, Protocol::UiMessage, options, warnings).await
}

/// `GET /ui-message/{agent_id}/{id}/stream?sdk=N`: the stream of the active run from its beginning, or 204.
pub async fn reconnect(
    State(app): State<App>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let options = options(&request)?;
    let filter = RunFilter {
        agent_id: Some(body::name("agent_id", &agent)?),
        conversation_id: Some(body::conversation("id", &id)?),
        ..RunFilter::default()
    };
    known_agent(&app, &caller, &agent)?;
    let newest = app.of(&caller).runs(&filter, 1, None).await.map_err(|error| refused(&error))?;
    let Some(run) = newest.runs.into_iter().next().filter(|run| run.status == Status::Running) else {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    };
    let subscription = app.of(&caller).subscribe_client(&run, None).await.map_err(|error| refused(&error))?;
    client::stream(&app, &caller, (subscription, run), Protocol::UiMessage, options, Warnings::default())
        .await
}

fn options(request: &Request) -> Result<Options, Problem> {
    let query = Query::of(request.uri(), &["sdk"])?;
    Ok(Options { sdk: sdk(&query)?, ..Options::new() })
}

/// The approvals that the user gave in the client: the parts of the last message carry them.
fn approvals(message: &Value) -> Vec<Entry> {
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let given = |part: &Value| {
        let approval = &part["approval"];
        let (id, approved) = (approval["id"].as_str()?, approval["approved"].as_bool()?);
        // What was answered before has its result.
        (part["state"] == "approval-responded").then_some(())?;
        let mut payload = serde_json::json!({"approved": approved});
        if let Some(reason) = approval["reason"].as_str() {
            payload["message"] = reason.into();
        }
        Some(Entry { interrupt_id: id.to_owned(), payload: Some(payload.to_string()) })
    };
    parts.iter().filter_map(given).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_approvals_that_were_just_given_are_answers() {
        let message = json!({"role": "assistant", "parts": [
            {"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": "i:a", "approved": true}},
            {"type": "dynamic-tool", "state": "output-available", "approval": {"id": "h:a", "approved": true}},
            {"type": "dynamic-tool", "state": "approval-requested", "approval": {"id": "i:b"}},
            {"type": "tool-x", "state": "approval-responded",
             "approval": {"id": "i:c", "approved": false, "reason": "no"}},
            {"type": "text", "text": "x"},
        ]});
        let entries: Vec<String> = approvals(&message)
            .into_iter()
            .map(|entry| format!("{} {}", entry.interrupt_id, entry.payload.unwrap()))
            .collect();
        assert_eq!(entries, [r#"i:a {"approved":true}"#, r#"i:c {"approved":false,"message":"no"}"#]);
    }
}
