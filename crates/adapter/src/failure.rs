//! The one place that turns a failure of the harness into the code, sentence and flag that clients see.
//!
//! The harness's own words never pass: an exception's name chooses one of our sentences, its text goes nowhere.

/// What clients are told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    /// `code` of `run.error`.
    pub code: &'static str,
    /// `message` of `run.error`.
    pub message: &'static str,
    /// `retryable` of `run.error`.
    pub retryable: bool,
}

/// The harness said that its run failed, for no reason we know.
pub(crate) const FAILED: Failure = Failure {
    code: "agent_execution_failed",
    message: "The agent failed while it was working on this request.",
    retryable: false,
};

/// The harness reported success, but its work was not complete (decisions §6: success flags are not believed).
pub(crate) const INCOMPLETE: Failure = Failure {
    code: "agent_execution_failed",
    message: "The agent stopped before its work was complete.",
    retryable: false,
};

/// The provider limits requests.
pub(crate) const RATE_LIMITED: Failure = Failure {
    code: "provider_rate_limited",
    message: "The model provider is limiting requests at the moment.",
    retryable: true,
};

/// The provider did not answer in time.
pub(crate) const TIMEOUT: Failure = Failure {
    code: "provider_timeout",
    message: "The model provider did not answer in time.",
    retryable: true,
};

/// The provider is overloaded or out of order.
pub(crate) const UNAVAILABLE: Failure = Failure {
    code: "provider_unavailable",
    message: "The model provider is not available at the moment.",
    retryable: true,
};

/// The provider refused the credentials.
pub(crate) const ACCESS_DENIED: Failure = Failure {
    code: "provider_access_denied",
    message: "The model provider refused the agent's credentials.",
    retryable: false,
};

/// The provider wants to be paid.
pub(crate) const QUOTA_EXHAUSTED: Failure = Failure {
    code: "provider_quota_exhausted",
    message: "The agent's account with the model provider has no credit left.",
    retryable: false,
};

/// The provider refused the request as it is.
pub(crate) const REQUEST_REFUSED: Failure = Failure {
    code: "provider_request_refused",
    message: "The model provider did not accept the agent's request.",
    retryable: false,
};

/// The provider's filter stopped the answer.
pub(crate) const CONTENT_FILTERED: Failure = Failure {
    code: "content_filtered",
    message: "The model provider's content filter stopped the answer.",
    retryable: false,
};

/// The conversation does not fit the model.
pub(crate) const CONTEXT_TOO_LONG: Failure = Failure {
    code: "context_too_long",
    message: "The conversation has become too long for the model.",
    retryable: false,
};

/// The model's stream broke off, or had no end record.
pub(crate) const STREAM_BROKEN: Failure = Failure {
    code: "provider_stream_broken",
    message: "The model's answer broke off before it was complete.",
    retryable: true,
};

/// The agent took too many steps.
pub(crate) const STEP_LIMIT: Failure = Failure {
    code: "agent_step_limit",
    message: "The agent took more steps than it is allowed to take.",
    retryable: false,
};

/// The agent took too long.
pub(crate) const TIME_LIMIT: Failure = Failure {
    code: "agent_time_limit",
    message: "The agent took longer than it is allowed to take.",
    retryable: false,
};

/// The agent spent too much.
pub(crate) const BUDGET_LIMIT: Failure = Failure {
    code: "agent_budget_limit",
    message: "The agent spent more than it is allowed to spend on one request.",
    retryable: false,
};

/// The harness could not be started, or is gone.
pub(crate) const HARNESS_UNAVAILABLE: Failure =
    Failure { code: "harness_unavailable", message: "The agent could not be started.", retryable: true };

/// Every failure above.
const ALL: &[Failure] = &[
    FAILED,
    INCOMPLETE,
    RATE_LIMITED,
    TIMEOUT,
    UNAVAILABLE,
    ACCESS_DENIED,
    QUOTA_EXHAUSTED,
    REQUEST_REFUSED,
    CONTENT_FILTERED,
    CONTEXT_TOO_LONG,
    STREAM_BROKEN,
    STEP_LIMIT,
    TIME_LIMIT,
    BUDGET_LIMIT,
    HARNESS_UNAVAILABLE,
];

/// Words of the worker protocol that [`of`] knows.
const WORDS: &[&str] = &["busy", "bad_request", "unknown_head", "line_too_long"];

/// Every code that adapters say, with its `retryable`; a code may come twice.
pub fn codes() -> impl Iterator<Item = (&'static str, bool)> {
    let words = WORDS.iter().map(|word| of(word));
    ALL.iter().copied().chain(words).map(|failure| (failure.code, failure.retryable))
}

/// The first failure with this code.
pub(crate) fn by_code(code: &str) -> Option<Failure> {
    ALL.iter().find(|failure| failure.code == code).copied()
}

/// The failure behind an `error_type`: a word of the worker protocol or the name of an exception.
pub(crate) fn of(error_type: &str) -> Failure {
    let name = error_type.rsplit('.').next().unwrap_or(error_type);
    let failure = |code, message, retryable| Failure { code, message, retryable };
    match name {
        "busy" => failure("harness_busy", "The agent's worker is busy with another request.", true),
        "bad_request" => failure("harness_request_refused", "The agent's worker refused the request.", false),
        "unknown_head" => failure(
            "thread_state_missing",
            "The agent's worker does not have the state of this conversation.",
            false,
        ),
        "line_too_long" => {
            failure("harness_output_too_large", "The agent produced more than can be shown.", false)
        }
        "RateLimitError"
        | "ThrottlingException"
        | "TooManyRequestsException"
        | "ResourceExhausted"
        | "TooManyRequests" => RATE_LIMITED,
        "APITimeoutError" | "ReadTimeout" | "DeadlineExceeded" | "ModelTimeoutException" => TIMEOUT,
        "APIConnectionError"
        | "ConnectError"
        | "InternalServerError"
        | "OverloadedError"
        | "ServiceUnavailable"
        | "ServiceUnavailableError"
        | "ServiceUnavailableException"
        | "ModelNotReadyException" => UNAVAILABLE,
        "AuthenticationError" | "PermissionDeniedError" | "AccessDeniedException" | "Unauthenticated" => {
            ACCESS_DENIED
        }
        "ContextOverflowError" | "ContextWindowExceededError" => CONTEXT_TOO_LONG,
        "GraphRecursionError" => STEP_LIMIT,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_chooses_a_sentence_and_an_unknown_one_the_general() {
        assert_eq!(of("openai.RateLimitError").code, "provider_rate_limited");
        assert!(of("RateLimitError").retryable);
        assert_eq!(of("ValueError"), FAILED);
        assert_eq!(of(""), FAILED);
    }
}
