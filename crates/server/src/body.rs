//! Request bodies: bounded in size and time, read as one JSON object whose fields are taken one by one.
//!
//! Refuses a body above the configured size (413), one that is too slow (408) and one that is no JSON object (422).

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use causeway_contract::Limits;
use causeway_contract::id::{ConversationId, Name, check_id};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::value::RawValue;

use crate::problem::Problem;

/// The most that is read and thrown away so that the sender of an oversized body can read the refusal.
const DRAINED: usize = 64 << 20;

/// Where else than in the body a caller may put the idempotency key.
const KEY_HEADER: &str = "idempotency-key";

/// The whole body.
///
/// # Errors
/// 413 above `max` bytes, 408 after `timeout`, 400 when the connection breaks.
pub async fn read(request: Request, max: u64, timeout: Duration) -> Result<Vec<u8>, Problem> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let declared = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<usize>().ok());
    let mut body = request.into_body();
    if declared.is_some_and(|length| length > max) {
        drain(body, timeout).await;
        return Err(too_large(max));
    }
    let collected = tokio::time::timeout(timeout, Limited::new(&mut body, max).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            drain(body, timeout).await;
            Err(too_large(max))
        }
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "body_broken", "the body ended early")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_too_slow",
            "the body took too long; send it at once",
        )),
    }
}

/// Reads a body that says nothing: none at all, or a JSON object.
///
/// # Errors
/// As [`read`], and 422 for anything else.
pub async fn nothing(request: Request, max: u64, timeout: Duration) -> Result<(), Problem> {
    let body = read(request, max, timeout).await?;
    if body.is_empty() { Ok(()) } else { Fields::parse(&body).map(|_nothing| ()) }
}

async fn drain(body: Body, timeout: Duration) {
    let mut body = Limited::new(body, DRAINED);
    let all = async { while let Some(Ok(_)) = body.frame().await {} };
    // Courtesy only: whether it finished makes no difference.
    let _ = tokio::time::timeout(timeout, all).await;
}

fn too_large(max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {max} bytes (server.max_body)"),
    )
}

/// The fields of a JSON object, each still as it was written.
pub struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads the object.
    ///
    /// # Errors
    /// 422 when it is no JSON object.
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body).map(Self).map_err(|_| {
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid_request",
                "the body is no JSON object in UTF-8",
            )
        })
    }

    /// Refuses fields that are not in `known`.
    ///
    /// # Errors
    /// 422 naming how many there are and which are known (never what was sent).
    pub fn only(&self, known: &[&str]) -> Result<(), Problem> {
        if self.0.keys().all(|name| known.contains(&name.as_str())) {
            return Ok(());
        }
        let message = format!("the body holds an unknown field; known are {}", known.join(", "));
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message))
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The field as it was written; `null` counts as absent.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|raw| raw.get()).filter(|text| *text != "null")
    }

    /// Whether the field was sent, be it `null`.
    pub fn sent(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A string that may be absent or null.
    ///
    /// # Errors
    /// 422 when it is something else.
    pub fn text(&self, name: &'static str) -> Result<Option<String>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let text: String = serde_json::from_str(raw).map_err(|_| Problem::field(name, "must be a string"))?;
        if text.contains('\0') {
            return Err(Problem::field(name, "must not hold U+0000"));
        }
        Ok(Some(text))
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// 422 when it is absent or no string.
    pub fn required(&self, name: &'static str) -> Result<String, Problem> {
        self.text(name)?.ok_or_else(|| Problem::field(name, "is required"))
    }

    /// The member `idempotency_key`, or the key that came as a header.
    ///
    /// # Errors
    /// 422 when the member is no id, or when both are given and differ.
    pub fn idempotency_key(&self, header: Option<String>) -> Result<Option<String>, Problem> {
        const NAME: &str = "idempotency_key";
        if self.raw(NAME).is_none() {
            return Ok(header);
        }
        let member = self.id(NAME)?;
        match header {
            Some(header) if header != member => {
                Err(Problem::field(NAME, "is not the one of the header Idempotency-Key; send one of them"))
            }
            _ => Ok(Some(member)),
        }
    }

    /// An id that must be there and keep the bounds of ids.
    ///
    /// # Errors
    /// 422 otherwise.
    pub fn id(&self, name: &'static str) -> Result<String, Problem> {
        let id = self.required(name)?;
        check_id(&id, Limits::DEFAULT.id_bytes).map_err(|fault| Problem::field(name, fault.to_string()))?;
        Ok(id)
    }
}

/// The key of the header `Idempotency-Key`, as it was written.
///
/// # Errors
/// 422 where it breaks the bounds of ids, or comes twice with different values.
pub fn key_header(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let bad = |message: String| {
        let message = format!("the header Idempotency-Key {message}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
    };
    let mut all = headers.get_all(KEY_HEADER).iter();
    let Some(first) = all.next() else { return Ok(None) };
    if all.any(|other| other != first) {
        return Err(bad("comes twice with different values".to_owned()));
    }
    let key = first.to_str().map_err(|_| bad("must be printable ASCII".to_owned()))?;
    check_id(key, Limits::DEFAULT.id_bytes).map_err(|fault| bad(fault.to_string()))?;
    Ok(Some(key.to_owned()))
}

/// An agent's id of a request.
///
/// # Errors
/// 422 where it breaks the bounds of names.
pub fn name(field: &'static str, text: &str) -> Result<Name<'static>, Problem> {
    Name::new(text.to_owned()).map_err(|fault| Problem::field(field, fault.to_string()))
}

/// A conversation's id of a request.
///
/// # Errors
/// 422 where it breaks the bounds of ids.
pub fn conversation(field: &'static str, text: &str) -> Result<ConversationId<'static>, Problem> {
    ConversationId::new(text.to_owned()).map_err(|fault| Problem::field(field, fault.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_one_by_one() {
        let body = br#"{"agent_id":"a","message":"h\u00e9","n":1,"nil":null}"#;
        let fields = Fields::parse(body).unwrap();
        assert_eq!(fields.id("agent_id").unwrap(), "a");
        assert_eq!(fields.required("message").unwrap(), "hé");
        assert_eq!(fields.text("nil").unwrap(), None);
        assert_eq!(fields.raw("n"), Some("1"));
        assert_eq!(fields.text("n").unwrap_err(), Problem::field("n", "must be a string"));
        assert_eq!(fields.required("gone").unwrap_err(), Problem::field("gone", "is required"));
    }

    #[test]
    fn the_idempotency_key_comes_from_the_body_or_the_header_but_not_differently_from_both() {
        let key = |body: &str, keys: &[&str]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(KEY_HEADER, key.parse().unwrap());
            }
            Fields::parse(body.as_bytes())?.idempotency_key(key_header(&headers)?)
        };
        let given = |key: &str| Ok(Some(key.to_owned()));
        assert_eq!(key("{}", &[]), Ok(None));
        assert_eq!(key("{}", &["a"]), given("a"));
        assert_eq!(key("{}", &["a", "a"]), given("a"));
        assert_eq!(key(r#"{"idempotency_key":null}"#, &["a"]), given("a"));
        assert_eq!(key(r#"{"idempotency_key":"a"}"#, &[]), given("a"));
        assert_eq!(key(r#"{"idempotency_key":"a"}"#, &["a"]), given("a"));
        let long = "x".repeat(257);
        for (body, keys) in [
            (r#"{"idempotency_key":"a"}"#, ["b"].as_slice()),
            (r#"{"idempotency_key":7}"#, &["a"]),
            ("{}", &["a", "b"]),
            ("{}", &[""]),
            ("{}", &[&long]),
        ] {
            assert_eq!(key(body, keys).unwrap_err().status, 422, "{body} {keys:?}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in ["", "[]", "nil", "{", "{}x", "{\"a\":1", "\u{feff}{}", "{\"a\":01}", "{'a':1}"] {
            assert_eq!(Fields::parse(body.as_bytes()).err().unwrap().status, 422, "{body}");
        }
        assert_eq!(Fields::parse(b"{\"a\":\"\xff\"}").err().unwrap().status, 422);
    }

    #[test]
    fn a_text_with_a_lone_surrogate_or_nul_is_refused() {
        for body in [r#"{"a":"\ud800"}"#, r#"{"a":"\u0000"}"#] {
            assert!(Fields::parse(body.as_bytes()).unwrap().text("a").is_err(), "{body}");
        }
    }
}
