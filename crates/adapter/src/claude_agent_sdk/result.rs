//! The `result` line: whether the native turn succeeded, what it used, and why it failed.
//!
//! Its word for success is not believed where the stream says otherwise, and its texts are never shown.

use causeway_contract::json::JsonNumber;

use super::native::{either, owned};
use crate::anthropic_messages::failure as provider;
use crate::anthropic_messages::stream::counts;
use crate::failure::{self, Failure};
use crate::json::Json;
use crate::usage::{Counts, Totals};

/// How the native turn ended, by its own account.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// It succeeded.
    Success,
    /// It was interrupted by a person.
    Aborted,
    /// It failed.
    Failed(Failure),
}

/// Reads how it ended; `error` is what the CLI said of an API error in place of the model.
pub(super) fn outcome(result: &Json<'_>, error: Option<&str>) -> Outcome {
    let reason = result.text("terminal_reason").unwrap_or_default();
    if reason.starts_with("aborted") {
        return Outcome::Aborted;
    }
    let subtype = result.text("subtype").unwrap_or_default();
    if subtype == "success" && result.get("is_error") == Some(&Json::Bool(false)) && reason != "api_error" {
        return Outcome::Success;
    }
    let status = result.get("api_error_status").and_then(Json::as_u64);
    let kind = result.text("api_error_type").or(error);
    let words = owned(result, "result");
    Outcome::Failed(match (subtype, reason) {
        ("error_max_turns", _) | (_, "max_turns") => failure::STEP_LIMIT,
        ("error_max_budget_usd", _) | (_, "max_budget") => failure::BUDGET_LIMIT,
        (_, "prompt_too_long") => failure::CONTEXT_TOO_LONG,
        ("success", _) | (_, "api_error") => {
            provider::of(status, kind, words.as_deref()).unwrap_or(failure::FAILED)
        }
        _ => failure::FAILED,
    })
}

/// The counts of the native turn.
///
/// `usage` is the sum of the root's calls; that of the models counts the subagents too, but where it is not split by
/// turns it goes back to the start of the session, so it is taken only for a run that had subagents.
pub(super) fn usage(result: &Json<'_>, subagents: bool) -> Counts {
    let root = counts(result.get("usage"));
    let models = match result.get("model_usage_since_last_result") {
        Some(models) => Some(models),
        None if subagents => either(result, "modelUsage", "model_usage"),
        None => None,
    };
    let mut total = Totals::default();
    for (_, model) in models.map_or(&[][..], Json::members) {
        let number = |key| model.get(key).and_then(Json::as_u64);
        total.add(Counts {
            input: number("inputTokens"),
            output: number("outputTokens"),
            cached_input: number("cacheReadInputTokens"),
        });
    }
    root.max(total.counts())
}

/// What the native turn cost in US dollars, as the CLI reckons it; its sum over the session where it says no other.
pub(super) fn cost(result: &Json<'_>) -> Option<JsonNumber<'static>> {
    let costs: Vec<&str> = result
        .get("model_usage_since_last_result")
        .map_or(&[][..], Json::members)
        .iter()
        .filter_map(|(_, model)| match model.get("costUSD") {
            Some(Json::Number(cost)) => Some(*cost),
            Some(_) | None => None,
        })
        .collect();
    let text = match (costs.as_slice(), result.get("total_cost_usd")) {
        ([one], _) => (*one).to_owned(),
        ([], Some(Json::Number(total))) => (*total).to_owned(),
        ([], _) => return None,
        (many, _) => {
            let sum: f64 = many.iter().filter_map(|cost| cost.parse::<f64>().ok()).sum();
            format!("{sum}")
        }
    };
    JsonNumber::parse(text).ok().filter(|cost| !cost.is_negative())
}
