//! What a failure of the OpenAI API means, from its status, its code, its type and, for what only the words tell, its
//! text.
//!
//! The words choose a sentence of ours and go nowhere; of a rate limit's sentence a number of seconds is read.

use causeway_contract::json::JsonNumber;

use crate::failure::{
    ACCESS_DENIED, CONTENT_FILTERED, CONTEXT_TOO_LONG, Failure, QUOTA_EXHAUSTED, RATE_LIMITED,
    REQUEST_REFUSED, TIMEOUT, UNAVAILABLE,
};
use crate::json::Json;

/// The object that describes an error: that of a failed response, that of a body, or the event itself.
fn body<'j, 'a>(line: &'j Json<'a>) -> &'j Json<'a> {
    line.get("response")
        .and_then(|response| response.get("error"))
        .or_else(|| line.get("error"))
        .filter(|error| error.is_object())
        .unwrap_or(line)
}

/// The provider's sentence.
pub(super) fn words(line: &Json<'_>) -> Option<String> {
    let words = body(line).str("message").or_else(|| line.str("message"))?;
    Some(words.lossy().into_owned())
}

/// The failure behind an error in any form; `None` if nothing it says is known.
pub(super) fn of(line: &Json<'_>) -> Option<Failure> {
    let words = words(line).unwrap_or_default();
    let body = body(line);
    // The event's own `type` is `error`, which says nothing.
    let named = ["code", "type"].iter().find_map(|key| by_name(body.text(key)?, &words));
    let status = line.get("status").or_else(|| line.get("status_code")).or_else(|| body.get("status"));
    named
        .or_else(|| named_in(&words))
        .or_else(|| by_status(status.or_else(|| body.get("code")).and_then(Json::as_u64)?, &words))
}

fn by_name(name: &str, words: &str) -> Option<Failure> {
    Some(match name {
        "rate_limit_exceeded" | "rate_limit_error" | "requests" | "tokens" | "slow_down" => RATE_LIMITED,
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" => QUOTA_EXHAUSTED,
        "server_error"
        | "internal_error"
        | "overloaded_error"
        | "engine_overloaded"
        | "service_unavailable" => UNAVAILABLE,
        "timeout" | "request_timeout" | "vector_store_timeout" => TIMEOUT,
        "invalid_api_key" | "authentication_error" | "permission_error" | "account_deactivated" => {
            ACCESS_DENIED
        }
        "context_length_exceeded" | "string_above_max_length" => CONTEXT_TOO_LONG,
        "content_filter" | "content_policy_violation" | "image_content_policy_violation" => CONTENT_FILTERED,
        "invalid_request_error" | "invalid_prompt" | "model_not_found" | "not_found_error" => refused(words),
        _ => return None,
    })
}

fn by_status(status: u64, words: &str) -> Option<Failure> {
    Some(match status {
        401 | 403 => ACCESS_DENIED,
        402 => QUOTA_EXHAUSTED,
        408 | 504 => TIMEOUT,
        413 => CONTEXT_TOO_LONG,
        429 if words.contains("exceeded your current quota") => QUOTA_EXHAUSTED,
        429 => RATE_LIMITED,
        400..=499 => refused(words),
        500..=599 => UNAVAILABLE,
        _ => return None,
    })
}

/// A refused request: some reasons stand in the words only.
fn refused(words: &str) -> Failure {
    let words = words.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if says(&["maximum context length", "context window", "context length"]) {
        CONTEXT_TOO_LONG
    } else if says(&["content management policy", "content filter", "safety system"]) {
        CONTENT_FILTERED
    } else if says(&["incorrect api key", "invalid api key"]) {
        ACCESS_DENIED
    } else {
        REQUEST_REFUSED
    }
}

/// The failure that a code inside the words of an exception names; a general one counts last.
fn named_in(words: &str) -> Option<Failure> {
    let names =
        words.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).filter(|word| word.contains('_'));
    let mut general = None;
    for name in names {
        match by_name(name, words) {
            Some(failure) if name == "invalid_request_error" => general = Some(failure),
            Some(failure) => return Some(failure),
            None => {}
        }
    }
    general
}

/// The seconds in "Please try again in 1.5s" (or `ms`).
pub(super) fn delay(words: &str) -> Option<JsonNumber<'static>> {
    let rest = words.split_once("try again in ")?.1;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let (number, unit) = rest.split_at_checked(end.min(15))?;
    let unit: String = unit.chars().take_while(char::is_ascii_alphabetic).collect();
    let seconds = match unit.as_str() {
        "s" => number.trim_end_matches('.').to_owned(),
        "ms" => {
            let ms: u64 = number.parse().ok()?;
            format!("{}.{:03}", ms / 1000, ms % 1000)
        }
        _ => return None,
    };
    JsonNumber::parse(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> Option<(&'static str, bool)> {
        of(&Json::parse(line.as_bytes()).unwrap()).map(|failure| (failure.code, failure.retryable))
    }

    #[test]
    fn code_type_status_and_words_choose_one_sentence() {
        let failed =
            r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#;
        assert_eq!(code(failed), Some(("provider_unavailable", true)));
        let event = r#"{"type":"error","code":"rate_limit_exceeded","message":"x"}"#;
        assert_eq!(code(event), Some(("provider_rate_limited", true)));
        let quota = r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"},"status":429}"#;
        assert_eq!(code(quota), Some(("provider_quota_exhausted", false)));
        let long = r#"{"error":{"type":"invalid_request_error","message":"This model's maximum context length is 9"}}"#;
        assert_eq!(code(long), Some(("context_too_long", false)));
        let key = r#"{"kind":"error","error_type":"AuthenticationError","status":401,"message":"no"}"#;
        assert_eq!(code(key), Some(("provider_access_denied", false)));
        let said = r#"{"kind":"error","message":"Error code: 400 - {'type': 'invalid_request_error', 'code': 'content_filter'}"}"#;
        assert_eq!(code(said), Some(("content_filtered", false)));
        assert_eq!(code(r#"{"error":{"code":429}}"#), Some(("provider_rate_limited", true)));
        assert_eq!(code(r#"{"status":408}"#), Some(("provider_timeout", true)));
        assert_eq!(code(r#"{"status":503}"#), Some(("provider_unavailable", true)));
        assert_eq!(code(r#"{"status":400}"#), Some(("provider_request_refused", false)));
        assert_eq!(code(r#"{"error":"strange"}"#), None);
    }

    #[test]
    fn the_delay_of_a_rate_limit_is_read_from_its_sentence() {
        let delay = |words| delay(words).map(|number| number.as_str().to_owned());
        assert_eq!(delay("Please try again in 1.5s. Visit"), Some("1.5".to_owned()));
        assert_eq!(delay("Please try again in 20s"), Some("20".to_owned()));
        assert_eq!(delay("try again in 6ms."), Some("0.006".to_owned()));
        assert_eq!(delay("try again in 6m0s"), None);
        assert_eq!(delay("try again in s"), None);
        assert_eq!(delay("try again later"), None);
    }
}
