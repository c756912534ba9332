//! One request on a connection of its own.
//!
//! Refuses to send anything twice, and to follow anything: what is asked is asked of the address that was configured.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::config::Config;
use super::connect::Dialer;

/// The most that status and headers may be, and that is read from the connection at once.
const READ_BUFFER: usize = 64 << 10;

/// A connection that is closed when this is dropped.
pub(super) struct Closing(pub(super) JoinHandle<()>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects.
///
/// # Errors
/// A sentence for the operator; nothing was sent.
pub(super) async fn open(
    dialer: &Dialer,
    connect_timeout: Duration,
) -> Result<(SendRequest<Full<Bytes>>, Closing), String> {
    let dialled = timeout(connect_timeout, dialer.dial()).await;
    let stream = dialled
        .map_err(|_elapsed| "it did not take the connection within `connect_timeout`".to_owned())?
        .map_err(|error| format!("cannot connect: {error}"))?;
    let mut builder = Builder::new();
    builder.max_buf_size(READ_BUFFER);
    let handshake = builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| format!("cannot connect: {error}"))?;
    let connection = tokio::spawn(async move {
        let _ = connection.await; // what breaks it shows in the answer too
    });
    Ok((sender, Closing(connection)))
}

/// The request that posts a JSON body, with the headers that are configured.
///
/// # Errors
/// A sentence for the operator.
pub(super) async fn post(
    config: &Config,
    body: Vec<u8>,
    accept: &'static str,
) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = config.url.target.parse().map_err(|_| "its path cannot be asked for".to_owned())?;
    let headers = request.headers_mut();
    headers.insert(HOST, text(&config.url.authority)?);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("causeway/", env!("CARGO_PKG_VERSION"))));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, secret) in &config.headers {
        headers.insert(name.clone(), secret.header("").await?);
    }
    if let Some(bearer) = &config.bearer {
        headers.insert(AUTHORIZATION, bearer.header("Bearer ").await?);
    }
    Ok(request)
}

/// A header's value.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn text(value: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(value).map_err(|_| "a header cannot be said".to_owned())
}
