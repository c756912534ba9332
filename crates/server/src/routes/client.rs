//! What the routes of published client protocols share: the answers that a client gives to interrupts by their public
//! names, what it said last, and the stream that goes back.
//!
//! Refuses an answer that leaves one of the interrupts out: omission is no decision.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use causeway_contract::Limits;
use causeway_contract::event::{
    Decision, EventData, EventType, InterruptRequest, InterruptRequested, ToolApproval,
};
use causeway_contract::id::{ConversationId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_encode::{Options, Protocol, Seed, approval_id};
use causeway_engine::answer::{Answer, Decided};
use causeway_engine::engine::StartRun;
use causeway_engine::{AnswerRun, Error, Subscription};
use causeway_store::model::{Run, RunFilter, Status};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::App;
use crate::auth::Caller;
use crate::body::Fields;
use crate::problem::Problem;
use crate::routes::answer::{interrupt_requested, nothing_to_answer};
use crate::routes::refused;
use crate::stream::{Frames, REPLAY};
use crate::view;

/// Names what of the request was passed over, in a response header.
pub const WARNING: HeaderName = HeaderName::from_static("x-causeway-warning");

/// How many names a warning lists, and how long each may be.
const NAMED: usize = 8;
const NAME_CHARS: usize = 64;

/// One answer, by the public name of its interrupt.
pub struct Entry {
    /// The name: the interrupt's own for a form, [`approval_id`] for a call.
    pub interrupt_id: String,
    /// The payload as it was written; `None` where the client gave the question up.
    pub payload: Option<String>,
}

impl Entry {
    /// The entries of `resume`: `[{"interruptId","status":"resolved|cancelled","payload"?}]`.
    ///
    /// # Errors
    /// 422 for anything else.
    pub fn list(text: &str) -> Result<Vec<Self>, Problem> {
        let bad = |message: &str| Problem::field("resume", message);
        let entries: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| bad("must be a list"))?;
        let entry = |entry: &RawValue| {
            let fields =
                Fields::parse(entry.get().as_bytes()).map_err(|_| bad("must be a list of objects"))?;
            let interrupt_id = fields
                .text("interruptId")
                .ok()
                .flatten()
                .ok_or_else(|| bad("needs the interruptId of each entry"))?;
            let payload = match fields.text("status").ok().flatten().as_deref() {
                Some("resolved") => Some(fields.raw("payload").unwrap_or("null").to_owned()),
                Some("cancelled") => None,
                _ => return Err(bad("has an entry whose status is neither resolved nor cancelled")),
            };
            Ok(Self { interrupt_id, payload })
        };
        entries.into_iter().map(entry).collect()
    }
}

/// What was passed over in a request. It is not an error, and it is not kept quiet.
#[derive(Default)]
pub struct Warnings(Vec<String>);

impl Warnings {
    /// Notes that names of this kind were passed over.
    pub fn dropped<'n>(&mut self, what: &str, names: impl Iterator<Item = &'n str>) {
        let shown = |name: &str| name.escape_default().take(NAME_CHARS).collect::<String>();
        let mut names: Vec<String> = names.map(shown).collect();
        if names.is_empty() {
            return;
        }
        names.sort_unstable();
        names.truncate(NAMED);
        self.0.push(format!("{what}: {}", names.join(", ")));
    }

    /// Tells the client by a header. The log gets the kinds alone: names are the client's text.
    fn put(self, response: &mut Response<Body>) {
        if self.0.is_empty() {
            return;
        }
        let kinds: Vec<&str> = self.0.iter().filter_map(|one| one.split(':').next()).collect();
        tracing::warn!(kinds = kinds.join(", "), "parts of a client's request were passed over");
        let text = self.0.join("; ");
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(WARNING, value);
        }
    }
}

/// The answer that these entries give to the pending interrupt of a conversation.
///
/// # Errors
/// 409 where nothing waits, 422 where an interrupt is left out, answered twice, or answered with something else.
pub async fn answer(
    app: &App,
    caller: &Caller,
    agent_id: &Name<'static>,
    conversation_id: &ConversationId<'static>,
    entries: &[Entry],
    route: &'static str,
    warnings: &mut Warnings,
) -> Result<AnswerRun, Problem> {
    let pending = app
        .of(caller)
        .pending_interrupt(conversation_id, Some(agent_id))
        .await
        .map_err(|error| refused(&error))?;
    let Some(interrupt) = pending else {
        return Err(nothing_to_answer(app, caller, agent_id.clone(), conversation_id.clone()).await?);
    };
    let requested = interrupt_requested(&interrupt)?;
    let answer = fitted(&requested, entries, warnings)?;
    Ok(AnswerRun {
        owner: caller.owner().clone(),
        run_id: interrupt.run_id.clone(),
        interrupt_id: interrupt.summary.interrupt_id.clone(),
        revision: interrupt.summary.revision,
        answer,
        route,
        idempotency_key: None,
        traceparent: None,
    })
}

fn fitted(
    requested: &InterruptRequested<'_>,
    entries: &[Entry],
    warnings: &mut Warnings,
) -> Result<Answer, Problem> {
    let interrupt_id = &requested.interrupt_id;
    let names: Vec<String> = match &requested.request {
        InterruptRequest::Form { .. } => vec![interrupt_id.to_string()],
        InterruptRequest::Approvals(approvals) => {
            approvals.iter().map(|approval| approval_id(interrupt_id, &approval.tool_call_id)).collect()
        }
    };
    let unknown = entries.iter().filter(|entry| !names.contains(&entry.interrupt_id));
    warnings.dropped("unknown interrupts", unknown.map(|entry| entry.interrupt_id.as_str()));
    let mut chosen = Vec::with_capacity(names.len());
    for name in &names {
        let mut of_name = entries.iter().filter(|entry| entry.interrupt_id == *name);
        let entry = of_name.next().ok_or_else(|| {
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "interrupts_uncovered",
                "an interrupt of this conversation has no entry; answer or cancel every one of them",
            )
        })?;
        if of_name.next().is_some() {
            return Err(Problem::field("resume", "answers an interrupt twice"));
        }
        chosen.push(entry);
    }
    match &requested.request {
        InterruptRequest::Form { .. } => match chosen.first().and_then(|entry| entry.payload.as_deref()) {
            None => Ok(Answer::Dismissed),
            Some(payload) => Ok(Answer::Values(object(payload)?)),
        },
        InterruptRequest::Approvals(approvals) => {
            let pairs = approvals.iter().zip(chosen);
            let decided = |(approval, entry): (&ToolApproval<'_>, &Entry)| {
                let verdict = entry.payload.as_deref().map_or(Ok(Verdict::refused()), Verdict::read)?;
                Ok(Decided {
                    tool_call_id: approval.tool_call_id.clone().into_owned(),
                    decision: verdict.decision,
                    edited_args: verdict.edited_args,
                    message: verdict.message,
                })
            };
            pairs.map(decided).collect::<Result<_, _>>().map(Answer::Decisions)
        }
    }
}

/// What a payload says about a call.
struct Verdict {
    decision: Decision,
    edited_args: Option<JsonObject<'static>>,
    message: Option<String>,
}

impl Verdict {
    fn refused() -> Self {
        Self { decision: Decision::Reject, edited_args: None, message: None }
    }

    /// `{"approved":BOOL,"editedArgs"?,"message"?}`, or the bare truth value.
    fn read(payload: &str) -> Result<Self, Problem> {
        let bad = |message: &str| Problem::field("resume", message);
        match payload {
            "true" => return Ok(Self { decision: Decision::Approve, ..Self::refused() }),
            "false" => return Ok(Self::refused()),
            _ => {}
        }
        let fields = Fields::parse(payload.as_bytes())
            .map_err(|_| bad("needs an object with approved as the payload of an approval"))?;
        // A misspelt edit must not turn into a plain yes, nor a repeated key into its last word.
        object(payload)?;
        fields
            .only(&["approved", "editedArgs", "message", "reason"])
            .map_err(|problem| Problem::field("resume", problem.message))?;
        let message = match fields.text("message")? {
            None => fields.text("reason")?,
            message => message,
        };
        match (fields.raw("approved"), fields.raw("editedArgs")) {
            (Some("true"), None) => Ok(Self { decision: Decision::Approve, ..Self::refused() }),
            (Some("true"), Some(arguments)) => {
                Ok(Self { decision: Decision::Edit, edited_args: Some(object(arguments)?), message: None })
            }
            (Some("false"), _) => Ok(Self { message, ..Self::refused() }),
            _ => Err(bad("needs approved, true or false, in the payload of an approval")),
        }
    }
}

fn object(text: &str) -> Result<JsonObject<'static>, Problem> {
    JsonObject::parse(text.to_owned(), &Limits::DEFAULT).map_err(|_| {
        Problem::field("resume", "must hold JSON objects without repeated keys, at most 64 levels deep")
    })
}

/// What starts or goes on with a run.
pub enum Request {
    /// A message of the user.
    Start(Box<StartRun>),
    /// An answer.
    Answer(Box<AnswerRun>),
}

/// Begins the run, and its stream for this client.
///
/// # Errors
/// What the engine says.
pub async fn begin(app: &App, caller: &Caller, request: Request) -> Result<(Subscription, Run), Error> {
    let subscription = match request {
        Request::Start(start) => app.of(caller).start_stream(*start).await?,
        Request::Answer(answer) => app.of(caller).resume_stream(*answer).await?,
    };
    let run = app.of(caller).run(subscription.run_id()).await?;
    Ok((subscription, run))
}

/// What the clients of a format have seen before this run: the stored seed and, where a conversation is one history
/// to them, the calls that a run before left open without being answered, after a crash for example.
///
/// # Errors
/// 500 when the stored seed does not read back, else what the engine says.
pub async fn seen_before(app: &App, caller: &Caller, run: &Run, protocol: Protocol) -> Result<Seed, Problem> {
    let mut seed = view::seed(run.seed.as_ref()).map_err(|error| {
        tracing::error!(run_id = %run.run_id, %error, "a stored seed does not read back");
        Problem::internal()
    })?;
    match protocol {
        Protocol::AguiSpec if run.resumed_from.is_none() => {
            if let Some(before) = run_before(app, caller, run).await? {
                seed.open_tool_calls = left_open(app, caller, &before).await?;
            }
        }
        // To the AI SDK every run is a message of its own, and the established formats never minded.
        Protocol::AguiSpec
        | Protocol::UiMessage
        | Protocol::Canonical
        | Protocol::Custom
        | Protocol::Agui => {}
    }
    Ok(seed)
}

/// The run before this one in its conversation.
async fn run_before(app: &App, caller: &Caller, run: &Run) -> Result<Option<Run>, Problem> {
    let filter = RunFilter { conversation_id: Some(run.conversation_id.clone()), ..RunFilter::default() };
    let (mut cursor, mut found) = (None, false);
    loop {
        let page = app.of(caller).runs(&filter, 50, cursor).await.map_err(|error| refused(&error))?;
        for other in page.runs {
            if found {
                return Ok(Some(other));
            }
            found = other.run_id == run.run_id;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(None);
        }
    }
}

/// The calls that a run started and never ended.
async fn left_open(app: &App, caller: &Caller, run: &Run) -> Result<Vec<ToolCallId<'static>>, Problem> {
    let mut open: Vec<ToolCallId<'static>> = Vec::new();
    // Of a run whose content was deleted nobody knows.
    if matches!(run.status, Status::Running | Status::Interrupted) || run.expired_at.is_some() {
        return Ok(open);
    }
    let mut after = None;
    loop {
        let page = app
            .of(caller)
            .events(&run.run_id, after, 1_000, Duration::ZERO)
            .await
            .map_err(|error| refused(&error))?;
        for record in &page.records {
            after = Some(record.sequence);
            let kinds = [EventType::ToolStarted, EventType::ToolFinished, EventType::ToolError];
            if !kinds.contains(&record.event_type) {
                continue;
            }
            match record.decode(&run.run_id, &run.conversation_id, &REPLAY).map(|event| event.data) {
                Ok(EventData::ToolStarted(data)) => open.push(data.tool_call_id.into_owned()),
                Ok(EventData::ToolFinished(data)) => open.retain(|call| *call != data.tool_call_id),
                Ok(EventData::ToolError(data)) => open.retain(|call| *call != data.tool_call_id),
                _ => return Err(Problem::internal()),
            }
        }
        if page.is_done(after) || page.records.is_empty() {
            return Ok(open);
        }
    }
}

/// The stream of a run to a client, from its beginning.
///
/// # Errors
/// As [`seen_before`].
pub async fn stream(
    app: &App,
    caller: &Caller,
    (subscription, run): (Subscription, Run),
    protocol: Protocol,
    options: Options,
    warnings: Warnings,
) -> Result<Response<Body>, Problem> {
    let seed = seen_before(app, caller, &run, protocol).await?;
    let again = replay_path(&run, protocol, &options);
    let options = options.resumed(run.resumed_from.is_some());
    let frames = Frames::for_client(subscription, run.conversation_id, protocol, &seed, &options)
        .kept_alive(app.settings.keep_alive);
    let mut response = frames.into_response(caller, None);
    if let Ok(again) = HeaderValue::from_str(&again) {
        response.headers_mut().insert(header::CONTENT_LOCATION, again);
    }
    warnings.put(&mut response);
    Ok(response)
}

/// Where the same stream can be had again, numbered.
fn replay_path(run: &Run, protocol: Protocol, options: &Options) -> String {
    let mut path = format!("/api/v1/runs/{}/stream?protocol={protocol}", run.run_id);
    let mut parameter = |name: &str, value: &str| {
        path.push_str(&format!("&{name}={}", percent(value)));
    };
    if let Some(run_id) = &options.run_id {
        parameter("client_run_id", run_id);
    }
    if let Some((major, minor)) = options.agui_version {
        parameter("agui_version", &format!("{major}.{minor}"));
    }
    if let Some(sdk) = options.sdk {
        parameter("sdk", &sdk.to_string());
    }
    path
}

fn percent(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().fold(String::new(), |mut out, byte| {
        match Some(byte).filter(plain) {
            Some(byte) => out.push(char::from(byte)),
            None => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// The text of a message: a string, or the joined text of its parts. The kinds of the parts left out go into `dropped`.
pub fn text_of(content: &Value, dropped: &mut Vec<String>) -> Option<String> {
    let parts = match content {
        Value::String(text) => return Some(text.clone()),
        Value::Array(parts) => parts,
        _ => return None,
    };
    let mut text = String::new();
    for part in parts {
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text"), Some(part)) => text.push_str(part),
            (kind, _) => dropped.push(kind.unwrap_or("untyped").to_owned()),
        }
    }
    Some(text)
}

/// A message that can be given to a harness.
///
/// # Errors
/// 422 where there is nothing in it, or U+0000.
pub fn said(text: Option<String>) -> Result<String, Problem> {
    match text {
        Some(text) if text.contains('\0') => Err(Problem::field("messages", "must not hold U+0000")),
        Some(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(Problem::field("messages", "must end with a message of the user that says something")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_approve_edit_or_reject() {
        let read = |payload: &str| match Verdict::read(payload) {
            Ok(one) => format!(
                "{} {} {}",
                one.decision,
                one.edited_args.as_ref().map_or("-", JsonObject::as_str),
                one.message.as_deref().unwrap_or("-")
            ),
            Err(problem) => problem.status.as_u16().to_string(),
        };
        for (payload, expected) in [
            ("true", "approve - -"),
            ("false", "reject - -"),
            (r#"{"approved":true}"#, "approve - -"),
            (r#"{"approved":true,"editedArgs":{"n":2E3}}"#, r#"edit {"n":2E3} -"#),
            (r#"{"approved":false,"message":"no","editedArgs":{}}"#, "reject - no"),
            (r#"{"approved":false,"reason":"no"}"#, "reject - no"),
            (r#"{"approved":true,"editedArgs":[]}"#, "422"),
            (r#"{"approved":"yes"}"#, "422"),
            ("{}", "422"),
            ("null", "422"),
            ("1", "422"),
        ] {
            assert_eq!(read(payload), expected, "{payload}");
        }
    }

    #[test]
    fn entries_are_read_or_refused_whole() {
        let read = |text: &str| match Entry::list(text) {
            Ok(entries) => entries
                .iter()
                .map(|entry| format!("{}={}", entry.interrupt_id, entry.payload.as_deref().unwrap_or("-")))
                .collect::<Vec<_>>()
                .join(" "),
            Err(problem) => problem.message,
        };
        assert_eq!(
            read(
                r#"[{"interruptId":"a","status":"resolved","payload":{"x":1.0}},{"interruptId":"b","status":"cancelled"}]"#
            ),
            r#"a={"x":1.0} b=-"#
        );
        assert_eq!(read(r#"[{"interruptId":"a","status":"resolved"}]"#), "a=null");
        assert_eq!(read("{}"), "must be a list");
        assert_eq!(read("[1]"), "must be a list of objects");
        assert_eq!(read(r#"[{"status":"cancelled"}]"#), "needs the interruptId of each entry");
        assert_eq!(
            read(r#"[{"interruptId":"a"}]"#),
            "has an entry whose status is neither resolved nor cancelled"
        );
    }

    #[test]
    fn the_text_of_a_message_is_that_of_its_parts() {
        let mut dropped = Vec::new();
        let parts = serde_json::json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}, {}]);
        assert_eq!(text_of(&parts, &mut dropped), Some("ab".to_owned()));
        assert_eq!(dropped, ["image", "untyped"]);
        assert_eq!(text_of(&Value::Null, &mut dropped), None);
        assert!(
            said(Some(" ".to_owned())).is_err()
                && said(None).is_err()
                && said(Some("\0".to_owned())).is_err()
        );
    }

    #[test]
    fn what_stands_in_a_path_is_escaped() {
        assert_eq!(percent("run-1_~.ü &"), "run-1_~.%C3%BC%20%26");
    }
}
