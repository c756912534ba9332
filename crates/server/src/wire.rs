//! How long a connection may keep the gateway waiting: for a head, for the next request, for its bytes to be taken.
//!
//! Refuses to know HTTP: it sees bytes come and go, and is told when a request began and when its answer was handed over.
//! Who reads slowly is cut off and comes back by cursor; the run does not notice.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long is waited for what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// For a request's head: of a new connection from its beginning, of a kept one from the first byte.
    pub head: Duration,
    /// For the next request of a kept connection.
    pub idle: Duration,
    /// For a client to take any of the bytes that it is sent.
    pub write: Duration,
}

/// Why a connection is cut off.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Late {
    /// Its head did not arrive.
    Head,
    /// No request came.
    Idle,
    /// It took no bytes.
    Write,
}

impl Late {
    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Idle => "idle",
            Self::Write => "write",
        }
    }
}

/// What a connection is at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Its first request has not begun: a head is waited for since then.
    Head(Instant),
    /// Nothing has come since an answer.
    Idle(Instant),
    /// Requests are being answered, so many.
    Busy(usize),
}

/// A connection's state: pure, time is passed in.
#[derive(Debug)]
struct State {
    phase: Phase,
    /// Since when bytes wait for the client.
    stalled: Option<Instant>,
}

impl State {
    fn new(now: Instant) -> Self {
        Self { phase: Phase::Head(now), stalled: None }
    }

    /// Bytes came. Whether the deadline changed.
    fn read(&mut self, now: Instant) -> bool {
        let begins = matches!(self.phase, Phase::Idle(_));
        if begins {
            self.phase = Phase::Head(now);
        }
        begins
    }

    fn request(&mut self) {
        self.phase = match self.phase {
            Phase::Busy(answers) => Phase::Busy(answers + 1),
            Phase::Head(_) | Phase::Idle(_) => Phase::Busy(1),
        };
    }

    /// An answer was handed over, or given up.
    fn answered(&mut self, now: Instant) {
        self.phase = match self.phase {
            Phase::Busy(answers) if answers > 1 => Phase::Busy(answers - 1),
            Phase::Busy(_) | Phase::Head(_) | Phase::Idle(_) => Phase::Idle(now),
        };
    }

    /// A write went through, or has to wait. Whether the deadline came nearer.
    fn wrote(&mut self, waits: bool, now: Instant) -> bool {
        let begins = waits && self.stalled.is_none();
        self.stalled = waits.then(|| self.stalled.unwrap_or(now));
        begins
    }

    /// When it is cut off, unless something happens.
    fn deadline(&self, patience: &Patience) -> Option<(Instant, Late)> {
        let waits = match self.phase {
            Phase::Head(since) => Some((since + patience.head, Late::Head)),
            Phase::Idle(since) => Some((since + patience.idle, Late::Idle)),
            Phase::Busy(_) => None,
        };
        let stalls = self.stalled.map(|since| (since + patience.write, Late::Write));
        [waits, stalls].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// A connection that is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    patience: Patience,
    state: Mutex<State>,
    changed: Notify,
}

impl Watched {
    pub(crate) fn new(patience: Patience) -> Arc<Self> {
        let state = Mutex::new(State::new(Instant::now()));
        Arc::new(Self { patience, state, changed: Notify::new() })
    }

    /// Notes that a request began. Its answer is over when what is returned is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> Answering {
        self.state().request();
        Answering(Arc::clone(self))
    }

    /// Returns when the connection has kept the gateway waiting for too long.
    pub(crate) async fn late(&self) -> Late {
        loop {
            let changed = self.changed.notified();
            let deadline = self.state().deadline(&self.patience);
            let Some((at, late)) = deadline else {
                changed.await;
                continue;
            };
            if at <= Instant::now() {
                return late;
            }
            // What puts the deadline off tells nobody: it is looked at again when it is over.
            let _nearer_or_over = tokio::time::timeout_at(at, changed).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: impl FnOnce(&mut State, Instant) -> bool) {
        if what(&mut self.state(), Instant::now()) {
            // One waits; a notice before it does is kept for it.
            self.changed.notify_one();
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Watched>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.note(|state, now| {
            state.answered(now);
            true
        });
    }
}

/// The body of an answer; over when it was read to its end or dropped.
#[derive(Debug)]
pub(crate) struct Answer<B> {
    body: B,
    _answering: Answering,
}

impl<B> Answer<B> {
    pub(crate) fn new(body: B, answering: Answering) -> Self {
        Self { body, _answering: answering }
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The bytes of a watched connection.
#[derive(Debug)]
pub(crate) struct Wire<T> {
    io: T,
    watched: Arc<Watched>,
}

impl<T> Wire<T> {
    pub(crate) fn new(io: T, watched: Arc<Watched>) -> Self {
        Self { io, watched }
    }

    fn wrote<R>(&self, outcome: Poll<R>) -> Poll<R> {
        self.watched.note(|state, now| state.wrote(outcome.is_pending(), now));
        outcome
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.watched.note(State::read);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.wrote(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Patience = Patience {
        head: Duration::from_secs(15),
        idle: Duration::from_secs(60),
        write: Duration::from_secs(30),
    };

    #[test]
    fn a_connection_waits_for_a_head_then_for_the_next_request() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = State::new(start);
        let deadline = |state: &State| state.deadline(&PATIENCE);
        // Bytes of the first head do not put its end off.
        assert!(!state.read(at(5)));
        assert_eq!(deadline(&state), Some((at(15), Late::Head)));
        state.request();
        assert_eq!(deadline(&state), None);
        state.answered(at(20));
        assert_eq!(deadline(&state), Some((at(80), Late::Idle)));
        assert!(state.read(at(70)));
        assert!(!state.read(at(71)));
        assert_eq!(deadline(&state), Some((at(85), Late::Head)));
    }

    #[test]
    fn bytes_that_nobody_takes_end_it_whatever_it_is_at() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = State::new(start);
        state.request();
        assert!(state.wrote(true, at(1)));
        assert!(!state.wrote(true, at(9)));
        assert_eq!(state.deadline(&PATIENCE), Some((at(31), Late::Write)));
        assert!(!state.wrote(false, at(30)));
        assert_eq!(state.deadline(&PATIENCE), None);
        state.wrote(true, at(40));
        state.answered(at(41));
        assert_eq!(state.deadline(&PATIENCE), Some((at(70), Late::Write)));
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Read,
        Request,
        Answered,
        Wrote(bool),
    }

    fn event() -> impl Strategy<Value = (Event, u64)> {
        let what = prop_oneof![
            Just(Event::Read),
            Just(Event::Request),
            Just(Event::Answered),
            any::<bool>().prop_map(Event::Wrote),
        ];
        (what, 0..100_u64)
    }

    proptest! {
        /// Nobody waits without end: only a request that is being answered, and whose bytes are taken, has no deadline.
        #[test]
        fn there_is_a_deadline_unless_an_answer_is_being_taken(events in prop::collection::vec(event(), 0..40)) {
            let start = Instant::now();
            let (mut state, mut now, mut open) = (State::new(start), start, 0_usize);
            for (event, seconds) in events {
                now += Duration::from_secs(seconds);
                let before = state.deadline(&PATIENCE);
                let told = match event {
                    Event::Read => state.read(now),
                    Event::Request => { open += 1; state.request(); true }
                    Event::Answered if open > 0 => { open -= 1; state.answered(now); true }
                    Event::Answered => continue,
                    Event::Wrote(waits) => state.wrote(waits, now),
                };
                let deadline = state.deadline(&PATIENCE);
                prop_assert_eq!(deadline.is_none(), open > 0 && state.stalled.is_none());
                // Whoever sleeps until the old deadline is woken for an earlier one.
                let nearer = deadline.is_some_and(|(at, _)| before.is_none_or(|(old, _)| at < old));
                prop_assert!(told || !nearer, "{:?} -> {:?}", before, deadline);
                if let Some((at, late)) = deadline {
                    let most = match late { Late::Head => PATIENCE.head, Late::Idle => PATIENCE.idle, Late::Write => PATIENCE.write };
                    prop_assert!(at <= now + most);
                }
            }
        }
    }
}
