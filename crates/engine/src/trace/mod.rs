//! Traces: one for each request, from its head to the terminal of the run it began, sent to an OpenTelemetry collector
//! over OTLP/HTTP in JSON.
//!
//! Refuses content: a span has a name of ours, ids and numbers. Refuses to wait: a span that finds no room in the queue is
//! counted and gone, and a collector that does not answer is nobody's trouble but the operator's.
//!
//! The exporter is ours, over the client of the `http` driver: the published ones bring another HTTP client and a second TLS.

mod context;
mod export;
mod otlp;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::http::config::Url;
use crate::metrics::catalogue::register;

pub use context::Context;

/// Where spans are sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The collector's address for traces, with its path, e.g. `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: Url,
    /// How long it may take to accept a batch.
    pub timeout: Duration,
}

impl Settings {
    /// The defaults for this collector.
    pub fn new(endpoint: Url) -> Self {
        Self { endpoint, timeout: Duration::from_secs(10) }
    }
}

/// Makes spans. Cheap to clone. Without a collector its spans carry the context on and are recorded nowhere.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    sink: Option<Arc<Sink>>,
}

#[derive(Debug)]
struct Sink {
    queue: mpsc::Sender<Message>,
    sent: Counter,
    dropped: Counter,
}

enum Message {
    Ended(Ended),
    Flush(oneshot::Sender<()>),
}

/// A span that is over.
#[derive(Clone, Debug, PartialEq)]
struct Ended {
    context: Context,
    parent: Option<[u8; 8]>,
    name: Cow<'static, str>,
    server: bool,
    start: u64,
    end: u64,
    failed: bool,
    attributes: Vec<(&'static str, Value)>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An id or a word of ours.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Spans that wait for the collector; more are dropped.
const QUEUE: usize = 4_096;

impl Tracer {
    /// A tracer that sends spans to a collector, from a task of its own.
    ///
    /// # Errors
    /// A sentence for the operator: the collector's address needs certificate authorities and there are none.
    pub fn open(settings: &Settings) -> Result<Self, String> {
        let (queue, spans) = mpsc::channel(QUEUE);
        let sink = Sink { queue, sent: Counter::default(), dropped: Counter::default() };
        export::spawn(settings, spans, sink.sent.clone(), sink.dropped.clone())?;
        Ok(Self { sink: Some(Arc::new(sink)) })
    }

    /// A request, or a run that nobody's request began. `parent` is what it came with, if it came with one.
    pub fn root(&self, name: impl Into<Cow<'static, str>>, parent: Option<Context>) -> Span {
        let (trace, sampled) =
            parent.map_or_else(|| (new_id(), true), |parent| (parent.trace, parent.sampled));
        let span = parent.map(|parent| parent.span);
        self.span(name.into(), trace, sampled, span)
    }

    fn span(&self, name: Cow<'static, str>, trace: [u8; 16], sampled: bool, parent: Option<[u8; 8]>) -> Span {
        let recorded = sampled.then(|| self.sink.clone()).flatten();
        // Without a collector nobody will ever see a span of ours: who comes after hangs on the one before.
        let span = match (&recorded, parent) {
            (None, Some(parent)) => parent,
            (Some(_), _) | (None, None) => new_id(),
        };
        let start = if recorded.is_some() { now() } else { 0 };
        let context = Context { trace, span, sampled };
        Span {
            sink: recorded,
            tracer: self.clone(),
            context,
            parent,
            name,
            server: false,
            start,
            failed: false,
            attributes: Vec::new(),
        }
    }

    /// Waits until what has ended so far was sent or given up, at most so long.
    pub async fn flush(&self, patience: Duration) {
        let Some(sink) = &self.sink else { return };
        let (done, flushed) = oneshot::channel();
        let flush = async {
            if sink.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await; // or the exporter is gone
            }
        };
        let _ = tokio::time::timeout(patience, flush).await;
    }

    /// Puts the exporter's metrics into a registry.
    pub(crate) fn register(&self, into: &mut Registry) {
        if let Some(sink) = &self.sink {
            register(into, "causeway_trace_spans_sent_total", sink.sent.clone());
            register(into, "causeway_trace_spans_dropped_total", sink.dropped.clone());
        }
    }
}

/// Something that takes time. It is over when it is dropped.
#[derive(Debug)]
pub struct Span {
    sink: Option<Arc<Sink>>,
    tracer: Tracer,
    context: Context,
    parent: Option<[u8; 8]>,
    name: Cow<'static, str>,
    server: bool,
    start: u64,
    failed: bool,
    attributes: Vec<(&'static str, Value)>,
}

impl Span {
    /// A part of it.
    pub fn child(&self, name: impl Into<Cow<'static, str>>) -> Self {
        let Context { trace, span, sampled } = self.context;
        self.tracer.span(name.into(), trace, sampled, Some(span))
    }

    /// What others hang their spans on.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Says that it serves somebody else's request.
    pub fn serves(mut self) -> Self {
        self.server = true;
        self
    }

    /// Adds an attribute: an id, a word of ours, or a number.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if self.sink.is_some() {
            self.attributes.push((key, value.into()));
        }
    }

    /// Says that it failed.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// It is over now.
    pub fn end(&mut self) {
        let Some(sink) = self.sink.take() else { return };
        let ended = Ended {
            context: self.context,
            parent: self.parent,
            name: std::mem::take(&mut self.name),
            server: self.server,
            start: self.start,
            end: now().max(self.start),
            failed: self.failed,
            attributes: std::mem::take(&mut self.attributes),
        };
        if sink.queue.try_send(Message::Ended(ended)).is_err() {
            sink.dropped.inc();
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.end();
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// An id that nobody else has, spread over all its bits as samplers expect.
fn new_id<const N: usize>() -> [u8; N] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hash = Sha256::new();
    hash.update(Uuid::now_v7().as_bytes());
    hash.update(COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    let mut id = [0; N];
    for (slot, byte) in id.iter_mut().zip(hash.finalize()) {
        *slot = byte;
    }
    if id == [0; N] { [1; N] } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_collector_the_context_is_carried_on_as_it_came() {
        let came = Context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let request = Tracer::default().root("request", came);
        assert_eq!(Some(request.child("run").child("worker").context()), came);
        let own = Tracer::default().root("request", None);
        let parsed = Context::parse(&own.context().to_string());
        assert_eq!(parsed, Some(own.context()), "a context of its own is a legal one");
        assert_ne!(own.context().trace_id(), Tracer::default().root("request", None).context().trace_id());
    }
}
