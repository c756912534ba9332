//! An endpoint as a tool: the arguments are posted to it as JSON, what it answers is the result.
//!
//! Refuses redirects, compressed bodies and bodies above the bound. A request is sent once: whether it did its work is not
//! known where its answer was lost, and the key that goes with it tells an endpoint that a call was done before.

use std::fmt::Write as _;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::config::Config;
use super::connect::Dialer;
use super::{Fault, send};
use crate::gate::invoke::{Call, Failed, Invoker, Returned, no_text, timed_out, too_much};
use crate::gate::{FAILED, OUTPUT_INVALID, UNAVAILABLE};

/// A tool behind an address.
pub struct Endpoint {
    config: Config,
    dialer: Dialer,
}

impl Endpoint {
    /// A tool. Connects to nothing yet.
    ///
    /// # Errors
    /// Secrets that would go unencrypted, or no authorities to check certificates with.
    pub fn new(config: Config) -> Result<Self, Fault> {
        super::encrypted(&config)?;
        let dialer = Dialer::new(config.url.clone(), config.ca_file.as_deref()).map_err(Fault::Trust)?;
        Ok(Self { config, dialer })
    }

    async fn ask(&self, call: &Call) -> Result<String, Failed> {
        let config = &self.config;
        let unavailable =
            |why: String| Failed::new(UNAVAILABLE, "The tool could not be reached.").because(why);
        let body = call.arguments.clone().into_bytes();
        let mut request = send::post(config, body, ACCEPTED).await.map_err(unavailable)?;
        let key = call.idempotency_key();
        for (name, value) in
            [(IDEMPOTENCY_KEY, &key), (RUN_ID, &call.run_id), (CALL_ID, &call.call_id), (TOOL, &call.tool)]
        {
            request.headers_mut().insert(name, header(value));
        }
        let opened = send::open(&self.dialer, config.connect_timeout).await;
        let (mut sender, _closed_in_the_end) = opened.map_err(unavailable)?;
        let answered = timeout(config.response_timeout, sender.send_request(request)).await;
        let response = answered
            .map_err(|_elapsed| timed_out(config.response_timeout))?
            .map_err(|error| broken(&error))?;
        let (head, body) = response.into_parts();
        if head.headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(Failed::new(
                OUTPUT_INVALID,
                "The tool compressed its answer, which nobody asked for.",
            ));
        }
        let said = read(body, &head.headers, call.max_output).await;
        if !head.status.is_success() {
            let message = format!("The tool answered with status {}.", head.status.as_u16());
            let output =
                said.ok().and_then(|said| String::from_utf8(said).ok()).filter(|text| !text.is_empty());
            return Err(Failed { output, ..Failed::new(FAILED, message) });
        }
        String::from_utf8(said?).map_err(|_| no_text())
    }
}

#[async_trait]
impl Invoker for Endpoint {
    async fn invoke(&self, call: &Call) -> Returned {
        match timeout(call.timeout, self.ask(call)).await {
            Ok(Ok(said)) => Returned::Said(said),
            Ok(Err(failed)) => failed.into(),
            Err(_elapsed) => timed_out(call.timeout).into(),
        }
    }
}

async fn read(mut body: Incoming, headers: &HeaderMap, max: usize) -> Result<Vec<u8>, Failed> {
    let mut said = Vec::new();
    if body.is_end_stream() {
        return Ok(said);
    }
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue }; // trailers
        if said.len().saturating_add(data.len()) > max {
            return Err(too_much(max));
        }
        said.extend_from_slice(&data);
    }
    // The end of a connection ends a body that has no length, and looks the same when it was cut.
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(Failed::new(OUTPUT_INVALID, "The end of the tool's answer cannot be told from a cut."));
    }
    Ok(said)
}

fn broken(error: &hyper::Error) -> Failed {
    let message = "The connection to the tool broke. Whether it did its work is not known.";
    Failed::new(FAILED, message).because(error.to_string())
}

/// An id as a header; one that cannot stand in a header as its digest.
fn header(value: &str) -> HeaderValue {
    let plain =
        HeaderValue::from_str(value).ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_graphic()));
    plain.unwrap_or_else(|| {
        let mut hex = String::from("sha256-");
        for byte in Sha256::digest(value.as_bytes()) {
            let _ = write!(hex, "{byte:02x}"); // writing to a string does not fail
        }
        HeaderValue::from_str(&hex).unwrap_or(HeaderValue::from_static("sha256"))
    })
}

const ACCEPTED: &str = "application/json, text/plain, */*;q=0.5";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RUN_ID: HeaderName = HeaderName::from_static("x-causeway-run-id");
const CALL_ID: HeaderName = HeaderName::from_static("x-causeway-call-id");
const TOOL: HeaderName = HeaderName::from_static("x-causeway-tool");
