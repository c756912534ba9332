//! Bodies of event streams: one chunk for each event that has frames, written when the event is durable, never earlier.
//!
//! Refuses buffering and compression. A stream that cannot tell the end of its run breaks off instead of ending: the
//! client sees that and comes back by cursor.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, header};
use bytes::Bytes;
use causeway_contract::Limits;
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, RunId};
use causeway_encode::{Encoder, Options, Protocol, Seed, with_event_id};
use causeway_engine::Subscription;
use causeway_engine::origin::Origin;
use causeway_engine::trace::Span;
use causeway_store::Record;
use futures::stream;

use crate::auth::Caller;
use crate::failpoint::{self, hit};

/// The header that names the run of a stream.
pub const RUN_ID: HeaderName = HeaderName::from_static("x-causeway-run-id");

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Tries of a read of the store, and the pause between two, before a stream breaks off.
const READ_TRIES: u32 = 20;
const READ_PAUSE: Duration = Duration::from_millis(250);

/// Stored events were checked when they were written; bounds that were changed since do not make a log unreadable.
pub const REPLAY: Limits = Limits {
    id_bytes: usize::MAX,
    message_bytes: usize::MAX,
    prompt_bytes: usize::MAX,
    tool_error_bytes: usize::MAX,
    delta_bytes: usize::MAX,
    message_text_bytes: usize::MAX,
    run_text_bytes: usize::MAX,
    arguments_bytes: usize::MAX,
    result_bytes: usize::MAX,
    details_bytes: usize::MAX,
    details_keys: usize::MAX,
    details_depth: 512,
    form_fields: usize::MAX,
    namespace_depth: usize::MAX,
    open_namespaces: usize::MAX,
    tool_calls: usize::MAX,
    messages: usize::MAX,
    approvals: usize::MAX,
    event_bytes: usize::MAX,
    interrupt_bytes: usize::MAX,
    run_events: u64::MAX,
    run_bytes: u64::MAX,
    json_depth: 512,
};

/// Why a stream broke off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Broken {
    /// The store could not be read for too long.
    #[error("the log could not be read")]
    Unreadable,
    /// The end of the run is not known here.
    #[error("the run's end is not known yet")]
    WithoutTerminal,
}

/// Encodes one run from its first event, showing what comes after a cursor.
pub struct Frames {
    subscription: Subscription,
    encoder: Box<dyn Encoder + Send>,
    conversation_id: ConversationId<'static>,
    /// Events up to here only bring the encoder up to date.
    after: Option<Sequence>,
    /// Whether the last frame of an event carries its number.
    numbered: bool,
    keep_alive: Option<Duration>,
    /// Whose credential this stream was opened with, and ends with.
    caller: Option<Caller>,
    ended: bool,
    frames: Vec<u8>,
    protocol: Protocol,
    told: Told,
}

/// What was sent, for the trace; told when the stream is over or left.
#[derive(Default)]
struct Told {
    /// From the head of the answer to its end.
    span: Option<Span>,
    events: u64,
    bytes: u64,
    whole: bool,
}

impl Frames {
    /// The stream of a run from its beginning, as the established formats have it: no ids, no comments.
    pub fn plain(
        subscription: Subscription,
        conversation_id: ConversationId<'static>,
        protocol: Protocol,
        seed: &Seed,
    ) -> Self {
        Self::for_client(subscription, conversation_id, protocol, seed, &Options::default())
    }

    /// The same for a client that said something about itself.
    pub fn for_client(
        subscription: Subscription,
        conversation_id: ConversationId<'static>,
        protocol: Protocol,
        seed: &Seed,
        options: &Options,
    ) -> Self {
        Self {
            subscription,
            encoder: protocol.encoder_for(seed, options),
            conversation_id,
            after: None,
            numbered: false,
            keep_alive: None,
            caller: None,
            ended: false,
            frames: Vec::new(),
            protocol,
            told: Told::default(),
        }
    }

    /// The same with comments when it is quiet.
    pub fn kept_alive(self, keep_alive: Duration) -> Self {
        Self { keep_alive: Some(keep_alive), ..self }
    }

    /// The same with the event's number on each last frame, comments when it is quiet, and only what follows `after`.
    /// `subscription` starts at the beginning, or at `after` where the format has no state.
    pub fn resumable(self, after: Option<Sequence>, keep_alive: Duration) -> Self {
        Self { after, numbered: true, keep_alive: Some(keep_alive), ..self }
    }

    /// The frames of the next event that has any; `None` behind the terminal, or when the credential does not hold any more.
    ///
    /// # Errors
    /// [`Broken`] when the stream cannot go on; it is over then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(caller) = self.caller.clone() else { return self.advance().await };
        let frames = tokio::select! {
            frames = self.advance() => frames,
            () = caller.ended() => Ok(None),
        };
        if caller.has_ended() {
            // What came in the same moment is not shown any more.
            self.ended = true;
            return Ok(None);
        }
        frames
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, Broken> {
        while !self.ended {
            let record = match self.keep_alive {
                None => self.read().await,
                Some(pause) => match tokio::time::timeout(pause, self.read()).await {
                    Ok(record) => record,
                    Err(_) => return Ok(Some(Bytes::from_static(KEEP_ALIVE))),
                },
            };
            let record = record.inspect_err(|_| self.ended = true)?;
            if let Some(bytes) = self.encode(&record)? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn encode(&mut self, record: &Record) -> Result<Option<Bytes>, Broken> {
        self.ended = record.event_type.is_terminal();
        self.told.whole = self.ended;
        let run_id: &RunId<'static> = self.subscription.run_id();
        let event = record.decode(run_id, &self.conversation_id, &REPLAY).map_err(|error| {
            tracing::error!(run_id = run_id.as_str(), sequence = record.sequence.value(), %error, "a stored event does not read back");
            self.ended = true;
            Broken::Unreadable
        })?;
        self.frames.clear();
        self.encoder.encode(&event, &mut self.frames);
        if self.frames.is_empty() || self.after >= Some(record.sequence) {
            return Ok(None);
        }
        hit(failpoint::FRAME);
        self.told.events += 1;
        self.told.bytes += self.frames.len() as u64;
        if !self.numbered {
            return Ok(Some(Bytes::copy_from_slice(&self.frames)));
        }
        let mut out = Vec::with_capacity(self.frames.len() + 24);
        with_event_id(&self.frames, record.sequence, &mut out);
        Ok(Some(Bytes::from(out)))
    }

    /// The next record. Safe to drop and call again.
    async fn read(&mut self) -> Result<Record, Broken> {
        for _ in 0..READ_TRIES {
            match self.subscription.next().await {
                Ok(Some(record)) => return Ok(record),
                Ok(None) => return Err(Broken::WithoutTerminal),
                Err(error) => {
                    let run_id = self.subscription.run_id().as_str();
                    tracing::warn!(run_id, %error, "a stream waits for the store");
                    tokio::time::sleep(READ_PAUSE).await;
                }
            }
        }
        Err(Broken::Unreadable)
    }

    /// A streaming response to a caller, beginning with `first`, which was taken from it before. It ends with the
    /// caller's credential: the body ends regularly, without a terminal, and the client comes back with a new one.
    pub fn into_response(self, caller: &Caller, first: Option<Bytes>) -> Response<Body> {
        let caller = caller.credential().is_some().then(|| caller.clone());
        let this = Self { caller, ..self };
        this.respond(first)
    }

    fn respond(mut self, first: Option<Bytes>) -> Response<Body> {
        let run_id = HeaderValue::from_str(self.subscription.run_id().as_str()).ok();
        let protocol = self.protocol;
        self.told.span = Origin::span(format!("stream {}", protocol.as_str()));
        let body = stream::unfold((first, Some(self)), |(first, frames)| async move {
            let mut frames = frames?;
            if let Some(first) = first {
                return Some((Ok(first), (None, Some(frames))));
            }
            match frames.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), (None, Some(frames)))),
                Ok(None) => None,
                Err(broken) => Some((Err(broken), (None, None))),
            }
        });
        let mut response = event_stream_of(protocol, Body::from_stream(body));
        if let Some(run_id) = run_id {
            response.headers_mut().insert(RUN_ID, run_id);
        }
        response
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(span) = &mut self.span {
            span.set("causeway.events", self.events);
            span.set("causeway.bytes", self.bytes);
            if !self.whole {
                span.set("causeway.outcome", "left");
            }
        }
    }
}

/// The same with the headers of a format.
pub fn event_stream_of(protocol: Protocol, body: impl Into<Body>) -> Response<Body> {
    let mut response = event_stream(body);
    for (name, value) in protocol.headers() {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(name, value);
    }
    response
}

/// A response with the headers of every stream (goldens §10).
pub fn event_stream(body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    response
}
