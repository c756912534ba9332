//! The task that sends spans: a batch at a time, each once.
//!
//! Refuses to try again: what a collector did not take is counted and gone, so that memory is bounded by the queue and one batch.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Ended, Message, Settings, otlp};
use crate::http::connect::Dialer;

/// Spans of one request.
const BATCH: usize = 512;
/// How long the first of a batch waits for others.
const PAUSE: Duration = Duration::from_millis(500);
/// What is read of an answer.
const ANSWER: usize = 64 << 10;

pub(super) fn spawn(
    settings: &Settings,
    spans: mpsc::Receiver<Message>,
    sent: Counter,
    dropped: Counter,
) -> Result<(), String> {
    let dialer = Dialer::new(settings.endpoint.clone(), None)?;
    let exporter = Exporter { settings: settings.clone(), dialer, sent, dropped, failing: false };
    tokio::spawn(exporter.serve(spans));
    Ok(())
}

struct Exporter {
    settings: Settings,
    dialer: Dialer,
    sent: Counter,
    dropped: Counter,
    failing: bool,
}

impl Exporter {
    /// Serves until every tracer and every span is gone.
    async fn serve(mut self, mut spans: mpsc::Receiver<Message>) {
        while let Some(first) = spans.recv().await {
            let mut batch = Vec::new();
            let mut flushed = Vec::new();
            let until = Instant::now() + PAUSE;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Ended(ended) => batch.push(ended),
                    Message::Flush(done) => flushed.push(done),
                }
                if batch.len() >= BATCH || !flushed.is_empty() {
                    break;
                }
                next = tokio::time::timeout_at(until, spans.recv()).await.ok().flatten();
            }
            self.send(&batch).await;
            for done in flushed {
                let _ = done.send(()); // who no longer waits need not know
            }
        }
    }

    async fn send(&mut self, batch: &[Ended]) {
        if batch.is_empty() {
            return;
        }
        let spans = batch.len() as u64;
        let sending = tokio::time::timeout(self.settings.timeout, self.post(otlp::body(batch)));
        let why = match sending.await {
            Ok(Ok(status)) if status.is_success() => None,
            Ok(Ok(status)) => Some(format!("it answers {}", status.as_u16())),
            Ok(Err(_)) => Some("it cannot be reached".to_owned()),
            Err(_) => Some("it does not answer in time".to_owned()),
        };
        match &why {
            None => self.sent.inc_by(spans),
            Some(_) => self.dropped.inc_by(spans),
        };
        let failed = why.is_some();
        match why {
            Some(why) if !self.failing => tracing::warn!(why, "the collector of traces takes no spans"),
            None if self.failing => tracing::info!("the collector of traces takes spans again"),
            Some(_) | None => {}
        }
        self.failing = failed;
    }

    async fn post(&self, body: Vec<u8>) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
        let url = &self.settings.endpoint;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.target().parse()?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(url.authority())?);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("causeway/", env!("CARGO_PKG_VERSION"))));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let stream = self.dialer.dial().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(async move {
            let _ = connection.await; // its end is seen by the request
        });
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            // Read, so that the collector sees an orderly end; what it says is not looked at.
            let _ = Limited::new(response.into_body(), ANSWER).collect().await;
            Ok(status)
        };
        let answer = answer.await;
        connection.abort();
        answer
    }
}
