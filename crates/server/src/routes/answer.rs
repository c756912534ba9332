//! Answers to interrupts: the established resume route, and the one that names run, interrupt and revision.
//!
//! Refuses an answer that cannot be read before it looks for an interrupt; whether it fits is the engine's to say.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use causeway_contract::Limits;
use causeway_contract::decode::decode_data;
use causeway_contract::event::{Decision, EventData, EventType, InterruptRequest, InterruptRequested};
use causeway_contract::id::{ConversationId, InterruptId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_engine::answer::{Answer, Decided};
use causeway_engine::{AnswerRun, Error, Misfit};
use causeway_store::Refusal;
use causeway_store::model::{Interrupt, InterruptStatus, Revision, RunFilter, Status};
use serde_json::value::RawValue;

use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::failpoint::{self, hit};
use crate::path::Path;
use crate::problem::{Problem, json_response};
use crate::routes::chat::{before_a_run, known_agent, protocol};
use crate::routes::runs::find;
use crate::routes::{refused, store_refused};
use crate::stream::{Frames, REPLAY, event_stream};
use crate::view::{self, now};

const ESTABLISHED: &str = "/api/v1/chat/stream/resume";
const RESUME: &str = "/api/v1/runs/{id}/resume";

/// `POST /api/v1/runs/{id}/resume`
pub async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let key = body::key_header(request.headers())?;
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    fields.only(&["interrupt_id", "revision", "idempotency_key", "decisions", "values", "dismissed"])?;
    let interrupt_id = InterruptId::new(fields.id("interrupt_id")?)
        .map_err(|fault| Problem::field("interrupt_id", fault.to_string()))?;
    let revision = fields
        .raw("revision")
        .and_then(|text| text.parse().ok())
        .map(Revision::new)
        .ok_or_else(|| Problem::field("revision", "must be the number that the interrupt shows"))?;
    let idempotency_key = fields.idempotency_key(key)?.map(Into::into);
    let answer = answer(&fields)?;
    let run_id = find(&app, &caller, &id).await?.run_id;
    let answer = AnswerRun {
        owner: caller.owner().clone(),
        run_id,
        interrupt_id,
        revision,
        answer,
        route: RESUME,
        idempotency_key,
        traceparent: None,
    };
    let started = app.of(&caller).resume(answer).await.map_err(|error| refused(&error))?;
    hit(failpoint::RESUMED);
    let run = app.of(&caller).run(&started.run_id).await.map_err(|error| refused(&error))?;
    Ok(json_response(StatusCode::ACCEPTED, view::run(&run)))
}

fn answer(fields: &Fields<'_>) -> Result<Answer, Problem> {
    let (decisions, values, dismissed) =
        (fields.raw("decisions"), fields.raw("values"), fields.raw("dismissed"));
    match (decisions, values, dismissed) {
        (Some(decisions), None, None) => {
            let entries = list("decisions", decisions)?;
            entries
                .into_iter()
                .map(|entry| decided(entry.get()))
                .collect::<Result<_, _>>()
                .map(Answer::Decisions)
        }
        (None, Some(values), None) => Ok(Answer::Values(object("values", values)?)),
        (None, None, Some("true")) => Ok(Answer::Dismissed),
        (None, None, Some(_)) => Err(Problem::field("dismissed", "must be true, or left out")),
        _ => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_request",
            "the body must hold one of decisions, values and dismissed",
        )),
    }
}

fn decided(entry: &str) -> Result<Decided, Problem> {
    let entry = Fields::parse(entry.as_bytes())
        .map_err(|_| Problem::field("decisions", "must be a list of objects"))?;
    entry.only(&["tool_call_id", "decision", "edited_args", "message"])?;
    Ok(Decided {
        tool_call_id: ToolCallId::new(entry.id("tool_call_id")?)
            .map_err(|fault| Problem::field("tool_call_id", fault.to_string()))?,
        decision: decision(&entry)?,
        edited_args: edited_args(&entry)?,
        message: entry.text("message")?,
    })
}

/// `POST /api/v1/chat/stream/resume`
pub async fn stream(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let body = body::read(request, app.settings.max_body, app.settings.body_timeout).await?;
    let fields = Fields::parse(&body)?;
    let protocol = protocol(&fields)?;
    let agent = fields.id("agent_id")?;
    let agent_id = body::name("agent_id", &agent)?;
    let conversation_id = body::conversation("conversation_id", &fields.id("conversation_id")?)?;
    let given = Given::parse(&fields.required("resume_data")?)?;
    fields.text("trace_id")?;
    known_agent(&app, &caller, &agent)?;

    let pending = app
        .of(&caller)
        .pending_interrupt(&conversation_id, Some(&agent_id))
        .await
        .map_err(|error| refused(&error))?;
    let Some(interrupt) = pending else {
        return Err(nothing_to_answer(&app, &caller, agent_id, conversation_id).await?);
    };
    let answer = AnswerRun {
        owner: caller.owner().clone(),
        run_id: interrupt.run_id.clone(),
        interrupt_id: interrupt.summary.interrupt_id.clone(),
        revision: interrupt.summary.revision,
        answer: given.fitted(&interrupt)?,
        route: ESTABLISHED,
        idempotency_key: None,
        traceparent: None,
    };
    match begin(&app, &caller, answer).await {
        Ok((subscription, run)) => {
            let seed = view::seed(run.seed.as_ref()).map_err(|error| {
                tracing::error!(run_id = %run.run_id, %error, "a stored seed does not read back");
                Problem::internal()
            })?;
            Ok(Frames::plain(subscription, conversation_id, protocol, &seed).into_response(&caller, None))
        }
        // These clients know 422 as a body that cannot be read.
        Err(Error::DoesNotFit(fault @ Misfit::NotOfSchema { .. })) => {
            Err(Problem { status: StatusCode::BAD_REQUEST, ..misfit(&fault) })
        }
        Err(error) => match before_a_run(&error) {
            Some(sentence) => Ok(event_stream(protocol.failure_frame(sentence, &now()))),
            None => Err(refused(&error)),
        },
    }
}

async fn begin(
    app: &App,
    caller: &Caller,
    answer: AnswerRun,
) -> Result<(causeway_engine::Subscription, causeway_store::model::Run), Error> {
    let subscription = app.of(caller).resume_stream(answer).await?;
    let run = app.of(caller).run(subscription.run_id()).await?;
    Ok((subscription, run))
}

/// Why there is nothing to answer, as far as the newest run of the pair tells.
pub(super) async fn nothing_to_answer(
    app: &App,
    caller: &Caller,
    agent_id: Name<'static>,
    conversation_id: ConversationId<'static>,
) -> Result<Problem, Problem> {
    let filter = RunFilter {
        agent_id: Some(agent_id),
        conversation_id: Some(conversation_id),
        ..RunFilter::default()
    };
    let newest = app.of(caller).runs(&filter, 1, None).await.map_err(|error| refused(&error))?;
    let conflict =
        |code, message: &str, action| Problem::new(StatusCode::CONFLICT, code, message).action(action);
    Ok(match newest.runs.first() {
        Some(run) if run.resumed_from.is_some() => conflict(
            "interrupt_consumed",
            "the interrupt of this conversation was answered already",
            "reload",
        ),
        Some(run) if run.status == Status::Running => conflict(
            "conversation_busy",
            "a run of this conversation is active; wait for its end or cancel it",
            "wait_or_cancel",
        ),
        Some(run) if run.interrupt.as_ref().is_some_and(|one| one.status == InterruptStatus::Expired) => {
            store_refused(&Refusal::InterruptExpired)
        }
        _ => conflict("no_interrupt", "nothing of this conversation waits for an answer", "start"),
    })
}

/// What was asked, as it is stored.
pub(super) fn interrupt_requested(interrupt: &Interrupt) -> Result<InterruptRequested<'_>, Problem> {
    match decode_data(EventType::InterruptRequested, interrupt.request.as_str(), &REPLAY) {
        Ok(EventData::InterruptRequested(requested)) => Ok(requested),
        _ => {
            tracing::error!(run_id = %interrupt.run_id, "a stored interrupt does not read back");
            Err(Problem::internal())
        }
    }
}

/// An answer as the established clients give it: positions instead of ids.
enum Given {
    Values(JsonObject<'static>),
    Dismissed,
    Decisions(Vec<Position>),
}

struct Position {
    decision: Decision,
    tool_name: Option<String>,
    edited_args: Option<JsonObject<'static>>,
    message: Option<String>,
}

impl Given {
    fn parse(text: &str) -> Result<Self, Problem> {
        let bad = |message: &str| Problem::field("resume_data", message);
        let fields = Fields::parse(text.as_bytes()).map_err(|_| bad("must be the text of a JSON object"))?;
        let inside = |problem: Problem| match problem.field {
            Some(name) if name != "resume_data" => bad(&format!("{name} {}", problem.message)),
            _ => problem,
        };
        match fields.text("type").map_err(inside)?.as_deref() {
            Some("form_input") => match (fields.raw("values"), fields.raw("dismissed")) {
                (_, Some("true")) => Ok(Self::Dismissed),
                (Some(values), None | Some("false")) => {
                    object("values", values).map(Self::Values).map_err(inside)
                }
                _ => Err(bad("must hold values, or dismissed: true")),
            },
            Some("tool_approval") => match fields.raw("decisions") {
                Some(entries) => {
                    let entries = list("decisions", entries).map_err(inside)?;
                    let read = |entry: &RawValue| {
                        let entry = Fields::parse(entry.get().as_bytes())
                            .map_err(|_| bad("decisions must be a list of objects"))?;
                        Position::read(&entry).map_err(inside)
                    };
                    entries.into_iter().map(read).collect::<Result<_, _>>().map(Self::Decisions)
                }
                None => Ok(Self::Decisions(vec![Position::read(&fields).map_err(inside)?])),
            },
            _ => Err(bad("must have the type form_input or tool_approval")),
        }
    }

    /// With the ids of what was asked.
    fn fitted(self, interrupt: &Interrupt) -> Result<Answer, Problem> {
        let requested = interrupt_requested(interrupt)?;
        match (self, &requested.request) {
            (Self::Dismissed, _) => Ok(Answer::Dismissed),
            (Self::Values(values), InterruptRequest::Form { fields, .. }) => {
                // These clients may send more than the form asks for; it was always let pass.
                Ok(Answer::Values(of_fields(&values, |name| {
                    fields.iter().any(|field| field.field_name.as_str() == name)
                })?))
            }
            (Self::Values(values), InterruptRequest::Approvals(_)) => Ok(Answer::Values(values)),
            (Self::Decisions(_), InterruptRequest::Form { .. }) => Ok(Answer::Decisions(Vec::new())),
            (Self::Decisions(given), InterruptRequest::Approvals(approvals)) => {
                if given.len() != approvals.len() {
                    return Err(Problem::new(
                        StatusCode::BAD_REQUEST,
                        "decisions_count",
                        format!(
                            "{} decisions for {} tool calls; send one for each, in their order",
                            given.len(),
                            approvals.len()
                        ),
                    ));
                }
                let pairs = given.into_iter().zip(approvals);
                pairs
                    .map(|(given, approval)| {
                        if given.tool_name.as_deref().is_some_and(|name| name != approval.tool_name.as_str())
                        {
                            return Err(Problem::field(
                                "resume_data",
                                "the decisions are not in the order of the tool calls",
                            ));
                        }
                        let edit = given.decision == Decision::Edit;
                        let reject = given.decision == Decision::Reject;
                        Ok(Decided {
                            tool_call_id: approval.tool_call_id.clone().into_owned(),
                            decision: given.decision,
                            // What does not belong to the decision was always let pass.
                            edited_args: given.edited_args.filter(|_| edit),
                            message: given.message.filter(|_| reject),
                        })
                    })
                    .collect::<Result<_, _>>()
                    .map(Answer::Decisions)
            }
        }
    }
}

impl Position {
    fn read(fields: &Fields<'_>) -> Result<Self, Problem> {
        Ok(Self {
            decision: decision(fields)?,
            tool_name: fields.text("tool_name")?,
            edited_args: edited_args(fields)?,
            message: fields.text("message")?,
        })
    }
}

fn decision(fields: &Fields<'_>) -> Result<Decision, Problem> {
    Decision::parse(&fields.required("decision")?)
        .ok_or_else(|| Problem::field("decision", "must be approve, edit or reject"))
}

fn edited_args(fields: &Fields<'_>) -> Result<Option<JsonObject<'static>>, Problem> {
    fields.raw("edited_args").map(|text| object("edited_args", text)).transpose()
}

fn object(name: &'static str, text: &str) -> Result<JsonObject<'static>, Problem> {
    JsonObject::parse(text.to_owned(), &Limits::DEFAULT).map_err(|_| {
        Problem::field(name, "must be a JSON object without repeated keys, at most 64 levels deep")
    })
}

fn list<'a>(name: &'static str, text: &'a str) -> Result<Vec<&'a RawValue>, Problem> {
    serde_json::from_str(text).map_err(|_| Problem::field(name, "must be a list"))
}

/// The members that a form asks for, as they were written.
fn of_fields(values: &JsonObject<'_>, asked: impl Fn(&str) -> bool) -> Result<JsonObject<'static>, Problem> {
    let all: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(values.as_str()).unwrap_or_default();
    let kept = all.iter().filter(|(name, _)| asked(name));
    let kept = kept.fold(view::Object::new(), |object, (name, value)| object.raw(name, value.get()));
    object("values", &kept.finish())
}

/// What a caller is told whose answer does not fit.
pub fn misfit(misfit: &Misfit) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "answer_does_not_fit", misfit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_established_clients_post_is_read() {
        let read = |text: &str| match Given::parse(text) {
            Ok(Given::Values(values)) => format!("values {}", values.as_str()),
            Ok(Given::Dismissed) => "dismissed".to_owned(),
            Ok(Given::Decisions(all)) => {
                let words: Vec<String> = all
                    .iter()
                    .map(|one| {
                        let arguments = one.edited_args.as_ref().map_or("-", JsonObject::as_str);
                        let (name, said) = (one.tool_name.as_deref(), one.message.as_deref());
                        format!(
                            "{} {} {arguments} {}",
                            one.decision,
                            name.unwrap_or("-"),
                            said.unwrap_or("-")
                        )
                    })
                    .collect();
                words.join("; ")
            }
            Err(problem) => format!("{} {}", problem.status.as_u16(), problem.message),
        };
        for (text, expected) in [
            (r#"{"type":"form_input","values":{"a":1.0}}"#, r#"values {"a":1.0}"#),
            (r#"{"type":"form_input","dismissed":true}"#, "dismissed"),
            (r#"{"type":"form_input","dismissed":false,"values":{}}"#, "values {}"),
            (r#"{"type":"tool_approval","decision":"approve","edited_args":null}"#, "approve - - -"),
            (
                r#"{"type":"tool_approval","decisions":[{"decision":"edit","tool_name":"t","edited_args":{"n":1}},{"decision":"reject","message":"no"}]}"#,
                r#"edit t {"n":1} -; reject - - no"#,
            ),
            ("", "422 must be the text of a JSON object"),
            ("{}", "422 must have the type form_input or tool_approval"),
            (r#"{"type":"form_input"}"#, "422 must hold values, or dismissed: true"),
            (r#"{"type":"tool_approval"}"#, "422 decision is required"),
            (
                r#"{"type":"tool_approval","decision":"maybe"}"#,
                "422 decision must be approve, edit or reject",
            ),
            (r#"{"type":"tool_approval","decisions":{}}"#, "422 decisions must be a list"),
            (r#"{"type":"tool_approval","decisions":[1]}"#, "422 decisions must be a list of objects"),
            (
                r#"{"type":"tool_approval","decision":"edit","edited_args":[]}"#,
                "422 edited_args must be a JSON object without repeated keys, at most 64 levels deep",
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
