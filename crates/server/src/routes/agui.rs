//! `POST /agui/{agent_id}`: the endpoint that AG-UI clients talk to.
//!
//! Refuses malformed input before any stream. What only the state of the conversation forbids is told as AG-UI tells
//! it: a run that starts and fails. The history that clients send is theirs; the harness keeps its own.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_encode::{AguiSpecSse, Options, Protocol};
use causeway_engine::Error;
use causeway_engine::engine::StartRun;
use causeway_store::Refusal;
use serde_json::Value;

use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::path::Path;
use crate::problem::Problem;
use crate::routes::chat::{before_a_run, known_agent};
use crate::routes::client::{self, Entry, Warnings, said, text_of};
use crate::routes::refused;
use crate::stream::event_stream_of;
use crate::view::{Object, now};

const ROUTE: &str = "/agui/{agent_id}";
/// The members of `RunAgentInput`.
const KNOWN: [&str; 10] = [
    "threadId",
    "runId",
    "protocolVersion",
    "parentRunId",
    "state",
    "messages",
    "tools",
    "context",
    "forwardedProps",
    "resume",
];
/// Roles of messages that say nothing to the agent by themselves.
const ASIDE: [&str; 4] = ["system", "developer", "reasoning", "activity"];

/// `POST /agui/{agent_id}`
pub async fn run(
    State(app): State<App>,
    caller: Caller,
    Path(agent): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    let agent_id = body::name("agent_id", &agent)?;
    known_agent(&app, &caller, &agent)?;
    let thread = fields.id("threadId")?;
    let run = fields.id("runId")?;
    let conversation_id = body::conversation("threadId", &thread)?;
    let version = fields.text("protocolVersion")?.unwrap_or_default();
    let options = Options::new().run_id(run.clone()).agui_version(&version);
    let mut warnings = Warnings::default();
    warnings.dropped("unknown members", fields.names().filter(|name| !KNOWN.contains(name)));
    let resume = fields.raw("resume").map(Entry::list).transpose()?.unwrap_or_default();
    let messages = messages(&fields)?;

    let request = if resume.is_empty() {
        let mut dropped = Vec::new();
        let message = said(last_said(&messages).and_then(|content| text_of(content, &mut dropped)))?;
        warnings.dropped("parts that are no text", dropped.iter().map(String::as_str));
        let context = context(&fields)?;
        let start =
            StartRun::new(caller.owner().clone(), agent_id, conversation_id, message).context(context);
        Ok(client::Request::Start(Box::new(start)))
    } else {
        client::answer(&app, &caller, &agent_id, &conversation_id, &resume, ROUTE, &mut warnings)
            .await
            .map(|answer| client::Request::Answer(Box::new(answer)))
    };
    let failed = |code: &str, sentence: &str| {
        event_stream_of(Protocol::AguiSpec, AguiSpecSse::failure(&thread, &run, code, sentence, &now()))
    };
    let told = |problem: Problem| match problem.status {
        StatusCode::CONFLICT => Ok(failed(problem.code, &problem.message)),
        _ => Err(problem),
    };
    let request = match request {
        Ok(request) => request,
        Err(problem) => return told(problem),
    };
    match client::begin(&app, &caller, request).await {
        Ok(begun) => client::stream(&app, &caller, begun, Protocol::AguiSpec, options, warnings).await,
        Err(error) => match before_a_run(&error) {
            Some(sentence) => Ok(failed(code(&error), sentence)),
            None => told(refused(&error)),
        },
    }
}

fn messages(fields: &Fields<'_>) -> Result<Vec<Value>, Problem> {
    let text = fields.raw("messages").ok_or_else(|| Problem::field("messages", "is required"))?;
    serde_json::from_str(text).map_err(|_| Problem::field("messages", "must be a list"))
}

/// The content of the last message, if it is the user's.
fn last_said(messages: &[Value]) -> Option<&Value> {
    let aside = |message: &&Value| message["role"].as_str().is_some_and(|role| ASIDE.contains(&role));
    let last = messages.iter().rev().find(|message| !aside(message))?;
    (last["role"] == "user").then(|| &last["content"])
}

/// What the client gives along, for the harness's context; its history only where `forwardedProps.causeway.history`
/// is true.
fn context(fields: &Fields<'_>) -> Result<Option<String>, Problem> {
    let mut object = Object::new();
    let mut any = false;
    for name in ["context", "tools"] {
        let Some(text) = fields.raw(name) else { continue };
        let list: Vec<Value> =
            serde_json::from_str(text).map_err(|_| Problem::field(name, "must be a list"))?;
        if !list.is_empty() {
            object = object.raw(name, text);
            any = true;
        }
    }
    for name in ["state", "forwardedProps"] {
        if let Some(text) = fields.raw(name).filter(|text| *text != "{}") {
            object = object.raw(name, text);
            any = true;
        }
    }
    let asked = fields.raw("forwardedProps").is_some_and(|text| {
        let props: Value = serde_json::from_str(text).unwrap_or_default();
        props["causeway"]["history"] == true
    });
    if let Some(messages) = fields.raw("messages").filter(|_| asked) {
        object = object.raw("messages", messages);
        any = true;
    }
    if !any {
        return Ok(None);
    }
    let context = object.finish();
    match JsonObject::parse(context.clone(), &Limits::DEFAULT) {
        Ok(_) => Ok(Some(context)),
        Err(_) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_request",
            "context, tools, state and forwardedProps must be JSON without repeated keys, at most 64 levels deep",
        )),
    }
}

/// A word for a failure before there is a run.
fn code(error: &Error) -> &'static str {
    match error {
        Error::AtCapacity { .. } | Error::ShuttingDown | Error::Refused(Refusal::OverQuota(_)) => {
            "runtime_capacity"
        }
        Error::HarnessUnavailable { .. } => "harness_unavailable",
        _ => "agent_execution_failed",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_word_must_be_the_users() {
        let says = |roles: &[&str]| {
            let messages: Vec<Value> =
                roles.iter().enumerate().map(|(at, role)| json!({"role": role, "content": at})).collect();
            last_said(&messages).cloned()
        };
        assert_eq!(says(&["user", "assistant", "user"]), Some(json!(2)));
        assert_eq!(says(&["user", "system", "activity"]), Some(json!(0)));
        assert_eq!(says(&["user", "assistant"]), None);
        assert_eq!(says(&["user", "tool"]), None);
        assert_eq!(says(&[]), None);
    }

    #[test]
    fn history_reaches_the_harness_only_when_it_is_asked_for() {
        let context =
            |body: &str| context(&Fields::parse(body.as_bytes()).unwrap()).map_err(|problem| problem.status);
        assert_eq!(context(r#"{"messages":[1],"tools":[],"state":{},"forwardedProps":{}}"#), Ok(None));
        let given = r#"{"messages":[1],"context":[{"description":"d","value":"v"}],"state":2.0}"#;
        let expected = r#"{"context":[{"description":"d","value":"v"}],"state":2.0}"#;
        assert_eq!(context(given), Ok(Some(expected.to_owned())));
        let asked = r#"{"messages":[1],"forwardedProps":{"causeway":{"history":true}}}"#;
        let expected = r#"{"forwardedProps":{"causeway":{"history":true}},"messages":[1]}"#;
        assert_eq!(context(asked), Ok(Some(expected.to_owned())));
        assert_eq!(context(r#"{"context":{"a":1}}"#), Err(StatusCode::UNPROCESSABLE_ENTITY));
    }
}
