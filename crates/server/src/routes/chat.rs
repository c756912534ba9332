//! The established chat routes: start, cancel, invoke. Shapes and bytes are those that existing clients know (goldens §10).

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_contract::Limits;
use causeway_contract::event::EventData;
use causeway_contract::json::JsonObject;
use causeway_encode::{Accumulated, Protocol, Seed};
use causeway_engine::Error;
use causeway_engine::engine::StartRun;
use causeway_store::Refusal;
use causeway_store::model::{RunFilter, Status, Whose};
use serde_json::value::RawValue;

use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::problem::{Problem, json_response};
use crate::routes::refused;
use crate::stream::{Frames, REPLAY, event_stream};
use crate::view::{Object, now};

/// What a client reads when no run came to be. The cause is in the log.
const NOT_STARTED: &str = "The agent could not be started. Please try again.";
/// The same while the gateway takes no new runs.
const NO_CAPACITY: &str = "The service is at capacity. Please try again in a moment.";

/// The fields that start and invoke share.
struct Turn {
    start: StartRun,
    trace_id: Option<String>,
}

/// `POST /api/v1/chat/stream/start`
pub async fn start(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    let protocol = protocol(&fields)?;
    let turn = turn(&app, &caller, &fields)?;
    let conversation_id = turn.start.conversation_id.clone();
    match app.of(&caller).start_stream(turn.start).await {
        Ok(subscription) => Ok(Frames::plain(subscription, conversation_id, protocol, &Seed::default())
            .into_response(&caller, None)),
        Err(error) => match before_a_run(&error) {
            Some(sentence) => Ok(event_stream(protocol.failure_frame(sentence, &now()))),
            None => Err(refused(&error)),
        },
    }
}

/// `POST /api/v1/chat/stream/cancel`
pub async fn cancel(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    let agent = fields.id("agent_id")?;
    let conversation = fields.id("conversation_id")?;
    let filter = RunFilter {
        agent_id: Some(body::name("agent_id", &agent)?),
        conversation_id: Some(body::conversation("conversation_id", &conversation)?),
        ..RunFilter::default()
    };
    known_agent(&app, &caller, &agent)?;
    // The newest run of the pair is the only one that can be active or wait for an answer.
    let newest = app.of(&caller).runs(&filter, 1, None).await.map_err(|error| refused(&error))?;
    let cancelled = match newest.runs.first() {
        Some(run) if matches!(run.status, Status::Running | Status::Interrupted) => {
            let done = app.of(&caller).cancel_run(&run.run_id).await.map_err(|error| refused(&error))?;
            done.cancelled || done.interrupt_voided
        }
        _ => false,
    };
    let answer = Object::new()
        .flag("success", true)
        .flag("cancelled", cancelled)
        .text("agent_id", &agent)
        .text("conversation_id", &conversation);
    Ok(json_response(StatusCode::OK, answer.finish()))
}

/// `POST /api/v1/chat/invoke`
pub async fn invoke(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    let Turn { start, trace_id } = turn(&app, &caller, &fields)?;
    let agent = start.agent_id.clone();
    let conversation = start.conversation_id.clone();
    let closing = |object: Object| {
        object
            .text("agent_id", agent.as_str())
            .text("conversation_id", conversation.as_str())
            .text_or_null("trace_id", trace_id.as_deref())
            .finish()
    };
    let failure = |status: StatusCode, sentence: &str| {
        json_response(status, closing(Object::new().flag("success", false).text("error", sentence)))
    };
    let mut subscription = match app.of(&caller).start_stream(start).await {
        Ok(subscription) => subscription,
        Err(error) => {
            return match before_a_run(&error) {
                Some(NO_CAPACITY) => Ok(failure(StatusCode::SERVICE_UNAVAILABLE, NO_CAPACITY)),
                Some(sentence) if matches!(error, Error::HarnessUnavailable { .. }) => {
                    Ok(failure(StatusCode::SERVICE_UNAVAILABLE, sentence))
                }
                Some(sentence) => Ok(failure(StatusCode::INTERNAL_SERVER_ERROR, sentence)),
                None => Err(refused(&error)),
            };
        }
    };
    let mut accumulated = Accumulated::new();
    let mut interrupt_type = None;
    let mut response = loop {
        let Ok(Some(record)) = subscription.next().await else {
            break failure(StatusCode::INTERNAL_SERVER_ERROR, "The outcome of the run is not known yet.");
        };
        let Ok(event) = record.decode(subscription.run_id(), &conversation, &REPLAY) else {
            break failure(StatusCode::INTERNAL_SERVER_ERROR, "The run could not be read back.");
        };
        accumulated.observe(&event);
        match &event.data {
            EventData::InterruptRequested(interrupt) => interrupt_type = Some(interrupt.request.kind()),
            EventData::RunFinished(_) | EventData::RunCancelled(_) => {
                let answer = Object::new()
                    .flag("success", true)
                    .text("content", accumulated.content())
                    .text_or_null("thinking", accumulated.thinking());
                break json_response(StatusCode::OK, closing(answer));
            }
            EventData::RunInterrupted(_) => {
                let answer = Object::new()
                    .flag("success", false)
                    .text("error", "The agent waits for an answer; use the streaming routes for this agent.")
                    .text_or_null("interrupt_type", interrupt_type);
                break json_response(StatusCode::BAD_REQUEST, closing(answer));
            }
            EventData::RunError(error) if error.code.as_str() == "runtime_capacity" => {
                break failure(StatusCode::SERVICE_UNAVAILABLE, &error.message);
            }
            EventData::RunError(error) => break failure(StatusCode::INTERNAL_SERVER_ERROR, &error.message),
            EventData::RunStarted(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolStarted(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::ToolFinished(_)
            | EventData::ToolError(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => {}
        }
    };
    if let Ok(run_id) = subscription.run_id().as_str().parse() {
        response.headers_mut().insert(crate::stream::RUN_ID, run_id);
    }
    Ok(response)
}

pub(super) fn protocol(fields: &Fields<'_>) -> Result<Protocol, Problem> {
    if !fields.sent("protocol") {
        return Ok(Protocol::Custom);
    }
    match fields.text("protocol")?.as_deref().and_then(Protocol::parse) {
        Some(protocol @ (Protocol::Custom | Protocol::Agui)) => Ok(protocol),
        Some(Protocol::Canonical | Protocol::AguiSpec | Protocol::UiMessage) | None => {
            Err(Problem::field("protocol", "must be \"custom\" or \"agui\""))
        }
    }
}

fn turn(app: &App, caller: &Caller, fields: &Fields<'_>) -> Result<Turn, Problem> {
    let agent = fields.id("agent_id")?;
    let agent_id = body::name("agent_id", &agent)?;
    let conversation_id = body::conversation("conversation_id", &fields.id("conversation_id")?)?;
    let message = fields.required("message")?;
    let trace_id = fields.text("trace_id")?;
    if trace_id.as_ref().is_some_and(|id| id.len() > Limits::DEFAULT.id_bytes) {
        return Err(Problem::field("trace_id", "is too long"));
    }
    let context = context(object(fields, "client_context")?, trace_id.as_deref());
    let files = object(fields, "files")?;
    known_agent(app, caller, &agent)?;
    if fields.raw("config_override").is_some() {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "config_override_not_allowed",
            "this agent does not take config_override; leave it out",
        ));
    }
    let start = StartRun::new(caller.owner().clone(), agent_id, conversation_id, message)
        .context(context)
        .files(files.map(str::to_owned));
    Ok(Turn { start, trace_id })
}

/// A field that holds a JSON object, as it was written.
fn object<'a>(fields: &Fields<'a>, name: &'static str) -> Result<Option<&'a str>, Problem> {
    let Some(text) = fields.raw(name) else { return Ok(None) };
    match JsonObject::parse(text, &Limits::DEFAULT) {
        Ok(_) => Ok(Some(text)),
        Err(_) => {
            Err(Problem::field(name, "must be a JSON object without repeated keys, at most 64 levels deep"))
        }
    }
}

/// What the harness is given as its context: the client's object as it was written, with the trace id added unless
/// the client set that member itself.
fn context(client: Option<&str>, trace_id: Option<&str>) -> Option<String> {
    let Some(trace_id) = trace_id else { return client.map(str::to_owned) };
    let added = Object::new().text("trace_id", trace_id).finish();
    let Some(client) = client.map(str::trim) else { return Some(added) };
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(client).unwrap_or_default();
    if members.contains_key("trace_id") {
        return Some(client.to_owned());
    }
    if members.is_empty() {
        return Some(added);
    }
    Some(format!("{},{}", client.strip_suffix('}').unwrap_or(client), added.trim_start_matches('{')))
}

pub(super) fn known_agent(app: &App, caller: &Caller, id: &str) -> Result<(), Problem> {
    app.of(caller).agent(id).map_err(|error| refused(&error))
}

/// The sentence for a failure before a run exists; `None` for what is told before any stream starts.
pub(super) fn before_a_run(error: &Error) -> Option<&'static str> {
    match error {
        Error::Refused(Refusal::OverQuota(over)) if over.whose == Whose::Agent => Some(NO_CAPACITY),
        Error::UnknownAgent { .. }
        | Error::FilesNotAllowed { .. }
        | Error::DoesNotFit(_)
        | Error::Refused(_)
        | Error::BeyondEnd { .. } => None,
        Error::ShuttingDown | Error::AtCapacity { .. } => Some(NO_CAPACITY),
        Error::HarnessUnavailable { .. } => Some(NOT_STARTED),
        other => {
            tracing::error!(error = %other, "a run could not be started");
            Some(NOT_STARTED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_id_joins_the_clients_context_without_touching_it() {
        let check = |client: Option<&str>, trace: Option<&str>, expected: Option<&str>| {
            assert_eq!(context(client, trace).as_deref(), expected);
        };
        check(None, None, None);
        check(Some("{\"a\": 1.0}"), None, Some("{\"a\": 1.0}"));
        check(None, Some("t\"1"), Some(r#"{"trace_id":"t\"1"}"#));
        check(Some("{ }"), Some("t"), Some(r#"{"trace_id":"t"}"#));
        check(Some(" {\"a\": 2E3} "), Some("t"), Some(r#"{"a": 2E3,"trace_id":"t"}"#));
        check(Some(r#"{"trace_id":7}"#), Some("t"), Some(r#"{"trace_id":7}"#));
    }
}
