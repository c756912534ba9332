//! What a failure of Bedrock or AgentCore means, from the name of its exception and, for what only the words tell, its text.
//!
//! The words choose a sentence of ours and go nowhere.

use crate::anthropic_messages::failure as http;
use crate::failure::{
    ACCESS_DENIED, CONTENT_FILTERED, CONTEXT_TOO_LONG, FAILED, Failure, INCOMPLETE, RATE_LIMITED,
    REQUEST_REFUSED, STREAM_BROKEN, TIMEOUT, UNAVAILABLE, of,
};

/// The failure behind an exception of the service or of its client.
pub(crate) fn named(name: &str, words: Option<&str>) -> Option<Failure> {
    let name = name.rsplit(['.', '#']).next().unwrap_or(name);
    let name = name.split(':').next().unwrap_or(name).to_ascii_lowercase();
    let name = name.strip_suffix("exception").unwrap_or(&name);
    let known = match name.strip_suffix("error").unwrap_or(name) {
        "throttling" | "throttled" | "toomanyrequests" | "servicequotaexceeded" | "modelthrottled" => {
            RATE_LIMITED
        }
        "modeltimeout" | "readtimeout" | "connecttimeout" | "requesttimeout" => TIMEOUT,
        "internalserver" | "internal" | "internalfailure" | "serviceunavailable" | "modelnotready"
        | "model" | "endpointconnection" | "dependencyfailed" => UNAVAILABLE,
        "modelstream" | "protocol" | "incompleteread" | "responsestreaming" | "checksummismatch"
        | "connectionclosed" | "invalidchunklength" => STREAM_BROKEN,
        "accessdenied"
        | "unauthorized"
        | "unrecognizedclient"
        | "expiredtoken"
        | "invalidsignature"
        | "incompletesignature"
        | "missingauthenticationtoken"
        | "nocredentials"
        | "partialcredentials" => ACCESS_DENIED,
        "contextwindowoverflow" => CONTEXT_TOO_LONG,
        "validation" | "resourcenotfound" | "conflict" | "paramvalidation" => refused(words),
        "runtimeclient" => FAILED,
        "maxtokensreached" => INCOMPLETE,
        _ => return None,
    };
    Some(known)
}

/// The failure behind a name, a class of the client and an HTTP status, any of which may be missing.
pub(crate) fn any(
    name: Option<&str>,
    class: Option<&str>,
    status: Option<u64>,
    words: Option<&str>,
) -> Failure {
    name.and_then(|name| named(name, words))
        .or_else(|| class.and_then(|class| named(class, words)))
        .or_else(|| http::of(status.filter(|status| *status >= 400), None, words))
        .unwrap_or_else(|| of(class.or(name).unwrap_or_default()))
}

fn refused(words: Option<&str>) -> Failure {
    let words = words.unwrap_or_default().to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if says(&["too long", "too many input tokens", "context window", "context length", "maximum context"]) {
        CONTEXT_TOO_LONG
    } else if says(&["content filter", "content policy", "guardrail intervened"]) {
        CONTENT_FILTERED
    } else {
        REQUEST_REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_spelling_words_and_status_choose_one_sentence() {
        let code = |name, class, status, words| any(name, class, status, words).code;
        assert_eq!(code(Some("throttlingException"), None, None, None), "provider_rate_limited");
        assert_eq!(
            code(Some("com.amazonaws#ThrottlingException:http://x"), None, None, None),
            "provider_rate_limited"
        );
        assert_eq!(code(None, Some("ReadTimeoutError"), None, None), "provider_timeout");
        assert_eq!(code(None, Some("ProtocolError"), None, None), "provider_stream_broken");
        assert_eq!(
            code(Some("validationException"), None, None, Some("Input is too long")),
            "context_too_long"
        );
        assert_eq!(code(Some("ValidationException"), None, None, None), "provider_request_refused");
        assert_eq!(
            code(Some("runtimeClientError"), Some("EventStreamError"), None, None),
            "agent_execution_failed"
        );
        assert_eq!(code(Some("strange"), Some("ClientError"), Some(503), None), "provider_unavailable");
        assert_eq!(code(None, Some("ValueError"), Some(200), None), "agent_execution_failed");
    }
}
