//! The one place that turns a failure of the harness into the code, sentence and flag that clients see.
//!
//! The harness's own words never pass: an exception's name chooses one of our sentences, its text goes nowhere.

/// What clients are told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Failure {
    /// `code` of `run.error`.
    pub code: &'static str,
    /// `message` of `run.error`.
    pub message: &'static str,
    /// `retryable` of `run.error`.
    pub retryable: bool,
}

/// The harness said that its run failed, for no reason we know.
pub(super) const FAILED: Failure = Failure {
    code: "agent_execution_failed",
    message: "The agent failed while it was working on this request.",
    retryable: false,
};

/// The harness reported success, but its work was not complete (decisions §6: success flags are not believed).
pub(super) const INCOMPLETE: Failure = Failure {
    code: "agent_execution_failed",
    message: "The agent stopped before its work was complete.",
    retryable: false,
};

/// The failure behind an `error_type`: a word of the worker protocol or the name of an exception.
pub(super) fn of(error_type: &str) -> Failure {
    let name = error_type.rsplit('.').next().unwrap_or(error_type);
    let failure = |code, message, retryable| Failure { code, message, retryable };
    match name {
        "busy" => failure("harness_busy", "The agent's worker is busy with another request.", true),
        "bad_request" => failure("harness_request_refused", "The agent's worker refused the request.", false),
        "unknown_head" => {
            failure("thread_state_missing", "The agent's worker does not have the state of this conversation.", false)
        }
        "line_too_long" => failure("harness_output_too_large", "The agent produced more than can be shown.", false),
        "RateLimitError" | "ThrottlingException" | "TooManyRequestsException" | "ResourceExhausted"
        | "TooManyRequests" => {
            failure("provider_rate_limited", "The model provider is limiting requests at the moment.", true)
        }
        "APITimeoutError" | "ReadTimeout" | "DeadlineExceeded" | "ModelTimeoutException" => {
            failure("provider_timeout", "The model provider did not answer in time.", true)
        }
        "APIConnectionError" | "ConnectError" | "InternalServerError" | "OverloadedError" | "ServiceUnavailable"
        | "ServiceUnavailableError" | "ServiceUnavailableException" | "ModelNotReadyException" => {
            failure("provider_unavailable", "The model provider is not available at the moment.", true)
        }
        "AuthenticationError" | "PermissionDeniedError" | "AccessDeniedException" | "Unauthenticated" => {
            failure("provider_access_denied", "The model provider refused the agent's credentials.", false)
        }
        "ContextOverflowError" | "ContextWindowExceededError" => {
            failure("context_too_long", "The conversation has become too long for the model.", false)
        }
        "GraphRecursionError" => {
            failure("agent_step_limit", "The agent took more steps than it is allowed to take.", false)
        }
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
