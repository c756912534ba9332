//! One small document from a fixed address, such as a key set: a bounded GET on a connection of its own.
//!
//! Refuses redirects, proxies, compression, retries, and a body above its bound. What came is repeated in no error.

use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::config::Url;
use super::connect::Dialer;
use super::send::Closing;

/// The most that status and headers may be.
const READ_BUFFER: usize = 16 << 10;

/// What asks one address.
pub struct Fetcher {
    url: Url,
    dialer: Dialer,
}

impl Fetcher {
    /// What asks `url`. Connects to nothing yet.
    ///
    /// # Errors
    /// There are no authorities to check a certificate with, or they cannot be read.
    pub fn new(url: Url, ca_file: Option<&Path>) -> Result<Self, String> {
        let dialer = Dialer::new(url.clone(), ca_file)?;
        Ok(Self { url, dialer })
    }

    /// The document as it is now: of the type `accept`, at most `max` bytes, all of it within `patience`.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn get(&self, accept: &str, max: usize, patience: Duration) -> Result<Bytes, String> {
        let got = timeout(patience, self.ask(accept, max)).await;
        got.unwrap_or_else(|_elapsed| Err(format!("{} did not answer in time", self.url)))
    }

    async fn ask(&self, accept: &str, max: usize) -> Result<Bytes, String> {
        let url = &self.url;
        let request = Request::builder()
            .method(Method::GET)
            .uri(url.target.as_str())
            .header(HOST, url.authority.as_str())
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, concat!("causeway/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())
            .map_err(|_| format!("{url} cannot be asked"))?;
        let cannot = |error: &dyn std::fmt::Display| format!("cannot connect to {url}: {error}");
        let stream = self.dialer.dial().await.map_err(|error| cannot(&error))?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(READ_BUFFER);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| cannot(&error))?;
        let connection = tokio::spawn(async move {
            let _ = connection.await; // what breaks it shows in the answer too
        });
        let _closed_when_done = Closing(connection);
        let broken = |error: &dyn std::fmt::Display| format!("the answer of {url} broke off: {error}");
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("{url} answered with status {}", response.status().as_u16()));
        }
        if response.headers().contains_key(CONTENT_ENCODING) {
            return Err(format!("{url} answered in an encoding that nobody asked for"));
        }
        match Limited::new(response.into_body(), max).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(format!("the answer of {url} has more than {max} bytes"))
            }
            Err(error) => Err(broken(&error)),
        }
    }
}
