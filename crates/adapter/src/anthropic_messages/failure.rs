//! What a failure of the Anthropic API means, from its status, its type and, for what only the words tell, its text.
//!
//! The words choose a sentence of ours and go nowhere.

use crate::failure::{
    ACCESS_DENIED, CONTENT_FILTERED, CONTEXT_TOO_LONG, Failure, QUOTA_EXHAUSTED, RATE_LIMITED,
    REQUEST_REFUSED, TIMEOUT, UNAVAILABLE,
};

/// The failure behind an HTTP status, an error type and a message, any of which may be missing; `None` if none of them
/// says anything that is known.
pub(crate) fn of(status: Option<u64>, kind: Option<&str>, words: Option<&str>) -> Option<Failure> {
    let words = words.unwrap_or_default().to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let refused = if says(TOO_LONG) {
        CONTEXT_TOO_LONG
    } else if says(&["credit balance"]) {
        QUOTA_EXHAUSTED
    } else if says(&["content filter", "content policy"]) {
        CONTENT_FILTERED
    } else {
        REQUEST_REFUSED
    };
    let by_kind = match kind.unwrap_or_default() {
        "rate_limit_error" | "rate_limit" => Some(RATE_LIMITED),
        "overloaded_error" | "overloaded" | "api_error" | "server_error" => Some(UNAVAILABLE),
        "timeout_error" => Some(TIMEOUT),
        "authentication_error" | "authentication_failed" | "permission_error" | "oauth_org_not_allowed" => {
            Some(ACCESS_DENIED)
        }
        "billing_error" => Some(QUOTA_EXHAUSTED),
        "request_too_large" => Some(CONTEXT_TOO_LONG),
        "invalid_request_error" | "invalid_request" | "not_found_error" | "model_not_found" => Some(refused),
        _ => None,
    };
    by_kind.or_else(|| match status? {
        401 | 403 => Some(ACCESS_DENIED),
        402 => Some(QUOTA_EXHAUSTED),
        408 | 504 => Some(TIMEOUT),
        413 => Some(CONTEXT_TOO_LONG),
        429 => Some(RATE_LIMITED),
        400..=499 => Some(refused),
        500..=599 => Some(UNAVAILABLE),
        _ => None,
    })
}

/// The first word of a text that names an error type of this API.
pub(crate) fn named_in(text: &str) -> Option<&str> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).find(|word| KINDS.contains(word))
}

const KINDS: &[&str] = &[
    "rate_limit_error",
    "overloaded_error",
    "api_error",
    "timeout_error",
    "authentication_error",
    "permission_error",
    "billing_error",
    "request_too_large",
    "invalid_request_error",
    "not_found_error",
];

const TOO_LONG: &[&str] =
    &["prompt is too long", "context window", "context limit", "context length", "exceed context"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_status_and_words_choose_one_sentence() {
        let code =
            |status, kind, words| of(status, kind, words).map(|failure| (failure.code, failure.retryable));
        assert_eq!(code(Some(200), Some("overloaded_error"), None), Some(("provider_unavailable", true)));
        assert_eq!(code(Some(429), None, None), Some(("provider_rate_limited", true)));
        assert_eq!(code(Some(401), None, None), Some(("provider_access_denied", false)));
        assert_eq!(code(Some(503), None, None), Some(("provider_unavailable", true)));
        assert_eq!(code(Some(408), None, None), Some(("provider_timeout", true)));
        let long = Some("prompt is too long: 210000 tokens > 200000 maximum");
        assert_eq!(code(None, Some("invalid_request_error"), long), Some(("context_too_long", false)));
        let filtered = Some("Output blocked by content filtering policy");
        assert_eq!(code(Some(400), None, filtered), Some(("content_filtered", false)));
        assert_eq!(code(None, Some("invalid_request"), None), Some(("provider_request_refused", false)));
        assert_eq!(code(Some(200), Some("unknown"), None), None);
    }

    #[test]
    fn a_type_is_found_in_the_words_of_an_exception() {
        assert_eq!(
            named_in("{'type': 'error', 'error': {'type': 'overloaded_error'}}"),
            Some("overloaded_error")
        );
        assert_eq!(named_in("my_overloaded_error"), None);
    }
}
