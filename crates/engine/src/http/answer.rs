//! What an endpoint answers before its body: a stream of a kind we read, or a typed failure.
//!
//! Refuses redirects, all of them, pages, compressed bodies and types of content that no harness speaks. The words of a
//! refusal are not read: its status says enough, and its words belong to nobody.

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER, TRANSFER_ENCODING,
};

use super::cut::Cut;
use crate::failure::Failure;

/// The longest pause that is passed on; what asks for more does not say when.
const MAX_RETRY_AFTER: u64 = 7 * 24 * 3600;

/// A body that can be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Readable {
    pub cut: Cut,
    /// Whether the end of the body shows that it is whole. Where only the connection's end ends it, a cut looks the same.
    pub delimited: bool,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Refused {
    pub failure: Failure,
    /// For the operator.
    pub why: &'static str,
}

/// Reads status and headers.
pub(super) fn read(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Result<Readable, Refused> {
    if !status.is_success() {
        return Err(refusal(status, headers, now));
    }
    let invalid = |why| Refused { failure: Failure::OutputMalformed, why };
    if text(headers, &CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(invalid("it compressed its answer, which nobody asked for"));
    }
    let kind = text(headers, &CONTENT_TYPE).ok_or_else(|| invalid("its answer has no content-type"))?;
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let cut = match essence.as_str() {
        "text/event-stream" => Cut::Lines,
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines"
        | "application/json-lines"
        | "application/json-seq" => Cut::Lines,
        "application/json" => Cut::Whole,
        "application/vnd.amazon.eventstream" => Cut::Pieces,
        "text/html" | "application/xhtml+xml" => return Err(invalid("it answered with a page")),
        _other => return Err(invalid("its answer is of a content-type that is no stream")),
    };
    let delimited = headers.contains_key(CONTENT_LENGTH)
        || text(headers, &TRANSFER_ENCODING)
            .is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"));
    Ok(Readable { cut, delimited })
}

/// The failure behind a status. Only what surely did nothing may be tried again.
fn refusal(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Refused {
    let retry_after = || text(headers, &RETRY_AFTER).and_then(|value| seconds(value, now));
    let (failure, why) = match status.as_u16() {
        300..=399 => (Failure::OutputMalformed, "it redirects, and no redirect is followed"),
        401 | 403 | 407 => (Failure::HarnessAccess, "it refused the credentials"),
        402 => (Failure::RequestRefused, "it wants to be paid"),
        408 | 504 => (Failure::HarnessTimeout, "it or what stands behind it took too long"),
        429 => (Failure::HarnessRateLimited { retry_after: retry_after() }, "it limits requests"),
        503 | 529 => (Failure::HarnessOverloaded { retry_after: retry_after() }, "it is overloaded"),
        424 | 500..=599 => (Failure::HarnessFailed, "it failed"),
        400..=499 => (Failure::RequestRefused, "it does not take the request"),
        _ => (Failure::OutputMalformed, "its status is none that ends a request"),
    };
    Refused { failure, why }
}

/// The seconds of a `retry-after`, which says them or a date.
fn seconds(value: &str, now: SystemTime) -> Option<u32> {
    let delay = match value.trim().parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value.trim()).ok()?.duration_since(now).unwrap_or_default(),
    };
    // A part of a second is a second: who comes back too early is refused again.
    let whole = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    u32::try_from(whole).ok().filter(|seconds| u64::from(*seconds) <= MAX_RETRY_AFTER)
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn answered(status: u16, pairs: &[(HeaderName, &'static str)]) -> Result<Readable, Failure> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_500);
        read(StatusCode::from_u16(status).unwrap(), &headers(pairs), now).map_err(|refused| refused.failure)
    }

    #[test]
    fn a_content_type_says_how_a_body_is_cut() {
        for (kind, cut) in [
            ("text/event-stream; charset=utf-8", Cut::Lines),
            ("application/x-ndjson", Cut::Lines),
            ("Application/JSON", Cut::Whole),
            ("application/vnd.amazon.eventstream", Cut::Pieces),
        ] {
            let chunked = [(CONTENT_TYPE, kind), (TRANSFER_ENCODING, "chunked")];
            assert_eq!(answered(200, &chunked), Ok(Readable { cut, delimited: true }), "{kind}");
            assert_eq!(answered(200, &chunked[..1]), Ok(Readable { cut, delimited: false }), "{kind}");
        }
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        let stream = (CONTENT_TYPE, "text/event-stream");
        for pairs in [
            vec![],
            vec![(CONTENT_TYPE, "text/html")],
            vec![(CONTENT_TYPE, "image/png")],
            vec![stream, (CONTENT_ENCODING, "gzip")],
        ] {
            assert_eq!(answered(200, &pairs), Err(Failure::OutputMalformed), "{pairs:?}");
        }
    }

    #[test]
    fn a_status_is_a_typed_failure() {
        for (status, failure) in [
            (302, Failure::OutputMalformed),
            (308, Failure::OutputMalformed),
            (400, Failure::RequestRefused),
            (401, Failure::HarnessAccess),
            (403, Failure::HarnessAccess),
            (404, Failure::RequestRefused),
            (408, Failure::HarnessTimeout),
            (424, Failure::HarnessFailed),
            (429, Failure::HarnessRateLimited { retry_after: None }),
            (500, Failure::HarnessFailed),
            (503, Failure::HarnessOverloaded { retry_after: None }),
            (504, Failure::HarnessTimeout),
        ] {
            assert_eq!(answered(status, &[]), Err(failure), "{status}");
        }
    }

    #[test]
    fn retry_after_is_passed_on_in_seconds() {
        for (value, retry_after) in [
            ("7", Some(7)),
            ("0", Some(0)),
            ("Sun, 09 Sep 2001 01:46:45 GMT", Some(5)),
            ("Sun, 09 Sep 2001 01:46:00 GMT", Some(0)),
            ("99999999999", None),
            ("soon", None),
        ] {
            let limited = Failure::HarnessRateLimited { retry_after };
            assert_eq!(answered(429, &[(RETRY_AFTER, value)]), Err(limited), "{value}");
        }
    }
}
