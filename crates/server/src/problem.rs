//! What a caller is told when a request is refused: one type, rendered in the shape of the route it happened on.
//!
//! Refuses free text from below: every sentence here or passed in is ours, and none holds content of a run.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

/// A refused request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// A stable word for machines.
    pub code: &'static str,
    /// A sentence for people: what and why.
    pub message: String,
    /// What the caller may do about it, as a word; the established refusals carry it.
    pub action: &'static str,
    /// The field of the body that is at fault.
    pub field: Option<&'static str>,
    /// When to try again at the earliest, in seconds; 1 for a 503 that does not say.
    pub retry_after: Option<u64>,
    /// The code under which the established routes say it, whose clients know a few; the own code is then the reason.
    pub established: Option<&'static str>,
    /// What is left of the run that was asked for, as a JSON object; a 410 carries it.
    pub run: Option<Arc<Value>>,
}

impl Problem {
    /// A problem that concerns no single field.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            action: "fix_request",
            field: None,
            retry_after: None,
            established: None,
            run: None,
        }
    }

    /// The same with what to do about it.
    pub fn action(mut self, action: &'static str) -> Self {
        self.action = action;
        self
    }

    /// The same with when to try again; parts of a second count as a whole one.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX).max(1));
        self
    }

    /// The same with the code that the established routes have for it.
    pub fn established_as(mut self, code: &'static str) -> Self {
        self.established = Some(code);
        self
    }

    /// The same with what is left of a run.
    pub fn with_run(mut self, run: Value) -> Self {
        self.run = Some(Arc::new(run));
        self
    }

    /// A body field that does not fit (422).
    pub fn field(field: &'static str, message: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message);
        Self { field: Some(field), ..problem }
    }

    /// A query parameter or header that does not fit (400).
    pub fn parameter(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_parameter", message)
    }

    /// The one answer to an id that is unknown or someone else's.
    pub fn no_run() -> Self {
        Self::new(StatusCode::NOT_FOUND, "run_not_found", "there is no run with this id")
    }

    /// The same for a conversation.
    pub fn no_conversation() -> Self {
        Self::new(StatusCode::NOT_FOUND, "conversation_not_found", "there is no conversation with this id")
    }

    /// The same for a tool's result.
    pub fn no_result() -> Self {
        Self::new(StatusCode::NOT_FOUND, "result_not_found", "this run has no result with this reference")
    }

    /// Something failed here; the log has the cause under the request id.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the gateway failed; its log names the cause",
        )
        .action("retry")
    }

    /// The body in the shape of the new routes.
    pub fn modern(&self, request_id: &str) -> Value {
        let message = match self.field {
            Some(field) => format!("{field}: {}", self.message),
            None => self.message.clone(),
        };
        let mut body = json!({"error": {"code": self.code, "message": message, "request_id": request_id}});
        if let (Some(run), Some(members)) = (&self.run, body.as_object_mut()) {
            members.insert("run".to_owned(), Value::clone(run));
        }
        body
    }

    /// The body in the shape of the established routes: a list for a bad body, an object for a refusal, a flat one with
    /// spaces for a bad token, else a string.
    pub fn established(&self) -> String {
        let body = match self.status {
            StatusCode::UNAUTHORIZED => {
                return format!(
                    r#"{{"error": {}, "code": {}, "reason": {}, "action": {}}}"#,
                    Value::from(self.message.as_str()),
                    Value::from(self.code),
                    Value::from(self.code),
                    Value::from(self.action),
                );
            }
            StatusCode::UNPROCESSABLE_ENTITY => {
                let mut loc = vec!["body"];
                loc.extend(self.field);
                json!({"detail": [{"type": self.code, "loc": loc, "msg": self.message}]})
            }
            StatusCode::CONFLICT | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
                json!({"detail": {
                    "success": false,
                    "error": self.message,
                    "code": self.established.unwrap_or(self.code),
                    "reason": self.code,
                    "action": self.action,
                }})
            }
            _ => json!({"detail": self.message}),
        };
        body.to_string()
    }

    /// What `www-authenticate` says of a 401 (RFC 6750).
    pub fn challenge(&self) -> &'static str {
        if self.code == "token_missing" { "Bearer" } else { "Bearer error=\"invalid_token\"" }
    }
}

impl IntoResponse for Problem {
    /// An empty response that carries the problem; the outermost layer writes the body, it knows route and request id.
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(self);
        response
    }
}

/// A compact JSON response, non-ASCII raw.
pub fn json_response(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Statuses by their names in the sources.
    const STATUSES: &[(&str, &str)] = &[
        ("BAD_REQUEST", "400"),
        ("UNAUTHORIZED", "401"),
        ("FORBIDDEN", "403"),
        ("NOT_FOUND", "404"),
        ("METHOD_NOT_ALLOWED", "405"),
        ("REQUEST_TIMEOUT", "408"),
        ("CONFLICT", "409"),
        ("GONE", "410"),
        ("PAYLOAD_TOO_LARGE", "413"),
        ("UNSUPPORTED_MEDIA_TYPE", "415"),
        ("UNPROCESSABLE_ENTITY", "422"),
        ("TOO_MANY_REQUESTS", "429"),
        ("REQUEST_HEADER_FIELDS_TOO_LARGE", "431"),
        ("INTERNAL_SERVER_ERROR", "500"),
        ("SERVICE_UNAVAILABLE", "503"),
    ];

    /// The codes of the sources with their statuses: `StatusCode::X, "code"` and `conflict("code"`.
    fn said() -> BTreeSet<(String, String)> {
        let mut codes = BTreeSet::new();
        for text in crate::sources::all() {
            let places = STATUSES
                .iter()
                .map(|(name, status)| (format!("StatusCode::{name},\""), *status))
                .chain([("conflict(\"".to_owned(), "409")]);
            for (opening, status) in places {
                for (at, _) in text.match_indices(&opening) {
                    let code = text[at + opening.len()..].split('"').next().unwrap();
                    if code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                        codes.insert((status.to_owned(), code.to_owned()));
                    }
                }
            }
        }
        codes
    }

    #[test]
    fn the_page_of_errors_lists_every_refusal_and_no_other() {
        let page = include_str!("../../../docs/errors.md");
        let part = page.split("## Refusals").nth(1).unwrap().split("\n## ").next().unwrap();
        let mut listed = BTreeSet::new();
        for line in part.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()) {
            let mut status = "";
            for word in line.split_whitespace().map(|word| word.trim_end_matches(',')) {
                match word.strip_prefix('`').and_then(|word| word.strip_suffix('`')) {
                    Some(code) => drop(listed.insert((status.to_owned(), code.to_owned()))),
                    None => status = word,
                }
            }
        }
        assert!(listed.len() > 25, "{listed:?}");
        assert_eq!(listed, said(), "left: docs/errors.md, right: the source");
    }

    #[test]
    fn a_problem_has_the_shape_of_its_route() {
        let busy = Problem::new(StatusCode::CONFLICT, "conversation_busy", "a run is active").action("wait");
        assert_eq!(
            busy.established(),
            r#"{"detail":{"success":false,"error":"a run is active","code":"conversation_busy","reason":"conversation_busy","action":"wait"}}"#
        );
        assert_eq!(
            busy.modern("r1").to_string(),
            r#"{"error":{"code":"conversation_busy","message":"a run is active","request_id":"r1"}}"#
        );
        assert_eq!(
            Problem::field("protocol", "use custom or agui").established(),
            r#"{"detail":[{"type":"invalid_request","loc":["body","protocol"],"msg":"use custom or agui"}]}"#
        );
        let token =
            Problem::new(StatusCode::UNAUTHORIZED, "token_missing", "send \"one\"").action("authenticate");
        assert_eq!(
            token.established(),
            r#"{"error": "send \"one\"", "code": "token_missing", "reason": "token_missing", "action": "authenticate"}"#
        );
        assert_eq!((token.challenge(), busy.challenge()), ("Bearer", "Bearer error=\"invalid_token\""));
        assert_eq!(Problem::no_run().established(), r#"{"detail":"there is no run with this id"}"#);
    }
}
