//! One module for each family of routes (design §4).

pub mod agui;
pub mod answer;
pub mod catalogue;
pub mod chat;
pub mod client;
pub mod conversations;
pub mod health;
pub mod inspect;
pub mod inspector;
pub mod metrics;
pub mod query;
pub mod replay;
pub mod runs;
pub mod ui_message;

use axum::http::StatusCode;
use causeway_engine::Error;
use causeway_store::Refusal;
use causeway_store::model::Remains;
use causeway_store::model::Whose;
use serde_json::json;

use crate::problem::Problem;

/// What a caller is told when the engine said no.
pub fn refused(error: &Error) -> Problem {
    match error {
        Error::UnknownAgent { .. } => {
            Problem::new(StatusCode::NOT_FOUND, "agent_not_found", "there is no agent with this id")
        }
        Error::FilesNotAllowed { .. } => Problem::new(
            StatusCode::BAD_REQUEST,
            "files_not_allowed",
            "this agent does not take files; leave `files` out",
        ),
        Error::DoesNotFit(misfit) => answer::misfit(misfit),
        Error::Refused(refusal) => store_refused(refusal),
        Error::BeyondEnd { last, .. } => {
            Problem::parameter(format!("the cursor is beyond the last event of the run, {last}"))
        }
        Error::AtCapacity { .. } => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "at_capacity",
            "all workers of this agent are busy; try again in a moment",
        )
        .action("retry"),
        Error::HarnessUnavailable { retry_after, .. } => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "harness_unavailable",
            "the workers of this agent do not start at the moment; try again later",
        )
        .action("retry")
        .retry_after(*retry_after),
        Error::AuditUnavailable(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "audit_unavailable",
            "the audit log cannot be written, so nothing new is begun",
        )
        .action("retry"),
        Error::ShuttingDown => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "the gateway is shutting down; try again shortly",
        )
        .action("retry"),
        Error::Unavailable(trouble) => {
            tracing::error!(%trouble, "the store cannot serve");
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "store_unavailable",
                format!("the store cannot do it now: {}", trouble.cause),
            )
            .action("retry")
        }
        Error::OutcomeUnknown(trouble) => {
            tracing::error!(%trouble, "the answer of the store was lost");
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "outcome_unknown",
                "it is not known whether the request was stored; repeat it with the same idempotency key",
            )
            .action("retry")
        }
        other => {
            tracing::error!(error = %other, "the engine failed");
            Problem::internal()
        }
    }
}

pub(crate) fn store_refused(refusal: &Refusal) -> Problem {
    let conflict =
        |code, message: &str, action| Problem::new(StatusCode::CONFLICT, code, message).action(action);
    match refusal {
        Refusal::UnknownRun => Problem::no_run(),
        Refusal::UnknownConversation => Problem::no_conversation(),
        Refusal::UnknownResult => Problem::no_result(),
        Refusal::Expired { remains } => expired(remains),
        Refusal::InterruptConsumed { resumed_by } => Problem::new(
            StatusCode::CONFLICT,
            "interrupt_consumed",
            format!("the interrupt was answered already, by run {resumed_by}"),
        )
        .action("reload"),
        Refusal::NoInterrupt => conflict("no_interrupt", "the run has no interrupt with this id", "reload"),
        Refusal::InterruptClosed => conflict(
            "no_interrupt",
            "the interrupt can no longer be answered: it was taken back; send a new message to go on",
            "start",
        ),
        Refusal::InterruptExpired => conflict(
            "interrupt_expired",
            "the interrupt can no longer be answered: its time is over, and nothing of what it asked for was done; \
             send a new message to go on",
            "start",
        )
        .established_as("no_interrupt"),
        Refusal::RevisionMismatch { expected, .. } => Problem::new(
            StatusCode::CONFLICT,
            "revision_mismatch",
            format!("the interrupt has revision {expected}, the answer names another"),
        )
        .action("reload"),
        Refusal::ConversationBusy { .. } => conflict(
            "conversation_busy",
            "a run of this conversation is active; wait for its end or cancel it",
            "wait_or_cancel",
        ),
        Refusal::InterruptPending { .. } => conflict(
            "interrupt_pending",
            "an interrupt of this conversation waits for its answer; answer it or cancel its run",
            "answer_or_cancel",
        ),
        Refusal::KeyReused { .. } => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            "the idempotency key was used with another request; take a new one",
        ),
        Refusal::OverQuota(over) => match over.whose {
            Whose::Owner => Problem::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", over.to_string()),
            Whose::Agent => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "agent_quota_exceeded", over.to_string())
            }
        }
        .action("retry")
        .retry_after(over.retry_after),
        other => {
            tracing::error!(refusal = %other, "the store refused what the engine should not have asked");
            Problem::internal()
        }
    }
}

/// The content of the run was deleted: what is left of it is told along.
pub(crate) fn expired(remains: &Remains) -> Problem {
    Problem::new(
        StatusCode::GONE,
        "run_expired",
        "the content of this run was deleted, as this gateway keeps runs for a time only; its summary is left",
    )
    .action("none")
    .with_run(json!({
        "run_id": remains.run_id.as_str(),
        "status": remains.status.as_str(),
        "created_at": remains.created_at.to_string(),
        "ended_at": remains.ended_at.as_ref().map(ToString::to_string),
        "last_sequence": remains.last_sequence.value(),
        "error_code": remains.error_code.as_deref(),
        "expired_at": remains.expired_at.to_string(),
    }))
}
