//! The task that drives one run: harness items into the adapter, drafts into the coordinator, effects out.
//!
//! Refuses decisions: what an input means is the coordinator's. Time, order and patience are its own: it gathers what
//! is ready into one append, and does not read the harness while too much is unwritten.

mod perform;
mod tools;
mod write;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use causeway_adapter::{Adapter, Close, ItemError, Output};
use causeway_contract::event::CancelReason;
use causeway_contract::id::{Code, RunId};
use causeway_store::Record;
use causeway_store::model::{Generation, Open, Owner, StaleThread};
use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::agents::Agent;
use crate::clock;
use crate::config::OnDisconnect;
use crate::coordinator::{Closing, Coordinator, Crash, Effect, Head, Input, Rejection, Signal, Stage};
use crate::engine::Inner;
use crate::failpoint::{self, hit};
use crate::failure::Failure;
use crate::feed::Feed;
use crate::gate::Gate;
use crate::harness::{Item, Session, Turn, TurnEnd};
use crate::metrics::Watch;
use crate::repair::Lost;
use crate::uncertain::Why;
use tools::{Invocations, Ran};
use write::Write;

/// Everything that one run consists of while it is driven.
pub(crate) struct Drive {
    inner: Arc<Inner>,
    agent: Arc<Agent>,
    run_id: RunId<'static>,
    lost: Lost,
    owner: Owner,
    generation: Generation,
    base_revision: u64,
    stale: Vec<StaleThread>,
    coordinator: Coordinator,
    effects: VecDeque<Effect>,
    adapter: Box<dyn Adapter>,
    session: Box<dyn Session>,
    session_over: bool,
    gate: Gate,
    invocations: Invocations,
    feed: Arc<Feed>,
    cancel: watch::Receiver<Option<CancelReason>>,
    cancel_seen: bool,
    /// Decided, not handed to the store yet.
    batch: Vec<Record>,
    batch_bytes: usize,
    /// On its way to the store.
    write: Option<Write>,
    /// Handed to the store or about to be, not shown yet.
    unshown: VecDeque<Record>,
    deadline: Instant,
    idle_since: Instant,
    /// When a cancelled turn is stopped by force.
    grace_over: Option<Instant>,
    /// Whether it was.
    forced: bool,
    /// The code of the `run.error` that ended the run, or was to.
    code: Option<Code<'static>>,
    /// What makes it uncertain, should it end so.
    why: Option<Why>,
    watch: Watch,
}

/// How many items are read before the first of them is handed to the store.
const READ_AHEAD: usize = 64;

/// What woke the task.
enum Wake {
    Written(bool),
    Cancel(CancelReason),
    Deadline,
    GraceOver,
    Idle,
    Ran(String, Ran),
    Item(Item),
}

impl Drive {
    #[expect(clippy::too_many_arguments, reason = "everything a run consists of, once")]
    pub(crate) fn new(
        inner: Arc<Inner>,
        agent: Arc<Agent>,
        coordinator: Coordinator,
        adapter: Box<dyn Adapter>,
        opened: &Open,
        turn: Turn,
        gate: Gate,
        stale: Vec<StaleThread>,
        feed: Arc<Feed>,
        cancel: watch::Receiver<Option<CancelReason>>,
        watch: Watch,
    ) -> Self {
        let now = Instant::now();
        let lost = Lost {
            run_id: turn.run_id.clone(),
            conversation_id: turn.conversation_id.clone(),
            thread: agent.config.thread,
            crash: Crash::Journal,
        };
        Self {
            run_id: turn.run_id.clone(),
            lost,
            owner: turn.owner.clone(),
            generation: opened.generation,
            base_revision: opened.base_revision().value(),
            stale,
            coordinator,
            effects: VecDeque::new(),
            adapter,
            session: agent.harness.begin(turn),
            session_over: false,
            gate,
            invocations: Invocations::new(),
            feed,
            cancel,
            cancel_seen: false,
            batch: Vec::new(),
            batch_bytes: 0,
            write: None,
            unshown: VecDeque::new(),
            deadline: now + agent.config.deadline,
            idle_since: now,
            grace_over: None,
            forced: false,
            code: None,
            why: None,
            watch,
            inner,
            agent,
        }
    }

    /// Drives the run to its end; `first` is `run.started`, which the log has. Where driver or adapter break down, it
    /// is this run's misfortune only: it gets its terminal from its log.
    pub(crate) async fn run(self, first: Record) {
        let (inner, feed) = (Arc::clone(&self.inner), Arc::clone(&self.feed));
        let lost = Lost { crash: Crash::Fault, ..self.lost.clone() };
        if AssertUnwindSafe(self.drive(first)).catch_unwind().await.is_err() {
            tracing::error!(run_id = %lost.run_id, "the task of this run broke down");
            inner.forget(&lost.run_id);
            feed.close(Closing::WithoutTerminal);
            inner.metrics.lost.inc();
            inner.repairs.add(lost);
        }
    }

    async fn drive(mut self, first: Record) {
        self.unshown.push_back(first);
        self.tell(Signal::Opened { base_revision: self.base_revision });
        loop {
            self.perform().await;
            if matches!(self.coordinator.stage(), Stage::Ended(_)) {
                break;
            }
            if self.take_what_is_ready().await {
                continue;
            }
            self.begin_write();
            let wake = self.wait().await;
            self.take(wake).await;
            // Neither a harness nor a store that always answers at once may keep other runs from their turn.
            tokio::task::yield_now().await;
        }
        self.leave().await;
    }

    /// Tells the coordinator, now; what it wants waits in `effects`.
    fn tell(&mut self, signal: Signal) {
        let mut effects = Vec::new();
        self.coordinator.apply(Input::new(clock::now(), signal), &mut effects);
        self.effects.extend(effects);
    }

    /// Reads on while the harness has more, so that many events become one append. Returns whether there is
    /// something to perform first.
    async fn take_what_is_ready(&mut self) -> bool {
        for _ in 0..READ_AHEAD {
            if self.session_over || self.is_full() {
                return false;
            }
            let Some(item) = self.session.next().now_or_never() else {
                return false;
            };
            self.take(Wake::Item(item)).await;
            if self.has_more_than_appends() {
                return true;
            }
            self.gather_appends();
        }
        false
    }

    async fn wait(&mut self) -> Wake {
        let cancelling = self.coordinator.stage() == Stage::Cancelling;
        let reading = !self.session_over && !self.is_full();
        if !reading || !self.invocations.is_empty() {
            // Silence is only held against a harness that is being listened to, and that waits for nothing of ours.
            self.idle_since = Instant::now();
        }
        let idle_at = self.idle_since + self.agent.config.idle_timeout;
        let grace_over = self.grace_over.unwrap_or(self.deadline);
        let leaves_with_client = self.agent.config.on_disconnect == OnDisconnect::Cancel;
        tokio::select! {
            // Store and harness may always have something: who wants the run to end comes first.
            biased;
            reason = asked(&mut self.cancel), if !self.cancel_seen => Wake::Cancel(reason),
            () = self.feed.abandoned(), if leaves_with_client && !cancelling => {
                Wake::Cancel(CancelReason::Disconnect)
            }
            () = tokio::time::sleep_until(grace_over), if cancelling => Wake::GraceOver,
            () = tokio::time::sleep_until(self.deadline), if !cancelling => Wake::Deadline,
            written = Write::wait(&mut self.write), if self.write.is_some() => Wake::Written(written),
            Some((id, ran)) = self.invocations.next(), if !self.invocations.is_empty() => Wake::Ran(id, ran),
            item = self.session.next(), if reading => Wake::Item(item),
            () = tokio::time::sleep_until(idle_at), if reading && !cancelling && self.invocations.is_empty() => Wake::Idle,
        }
    }

    async fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Written(true) => self.written(),
            Wake::Written(false) => {
                self.write = None;
                self.tell(Signal::AppendFailed);
            }
            Wake::Cancel(reason) => {
                self.cancel_seen = true;
                self.tell(Signal::Cancel(reason));
            }
            Wake::Deadline => self.tell(Signal::Cancel(CancelReason::Deadline)),
            Wake::GraceOver => {
                tracing::warn!(run_id = %self.run_id, "a cancelled turn did not end in time and is stopped");
                self.forced = true;
                self.stop_session().await;
                self.tell(Signal::Closed);
            }
            Wake::Idle => self.tell(Signal::Failed(Failure::HarnessTimeout)),
            Wake::Item(Item::Line(line)) => {
                hit(failpoint::LINE);
                self.idle_since = Instant::now();
                let handled = self.adapter.handle(&line);
                self.inner.metrics.take_tally();
                self.pump().await;
                if let Err(error) = handled {
                    self.refuse(&error);
                }
            }
            Wake::Item(Item::Tool(line)) => {
                hit(failpoint::LINE);
                self.idle_since = Instant::now();
                self.asked(line).await;
            }
            Wake::Ran(id, ran) => self.ran(id, ran).await,
            Wake::Item(Item::End(end)) => {
                self.session_over = true;
                self.end(end).await;
            }
        }
    }

    async fn end(&mut self, end: TurnEnd) {
        let how = match end {
            TurnEnd::Regular => Close::End,
            TurnEnd::Broken | TurnEnd::Failed(_) => Close::Broken,
        };
        self.adapter.close(how);
        self.inner.metrics.take_tally();
        match end {
            TurnEnd::Regular | TurnEnd::Broken => {
                self.pump().await;
                self.tell(Signal::Closed);
            }
            // What the driver knows is more exact than what the adapter can see of it.
            TurnEnd::Failed(failure) => self.tell(Signal::Failed(failure)),
        }
    }

    /// Passes on what the adapter has to say.
    async fn pump(&mut self) {
        while let Some(output) = self.adapter.poll() {
            self.inner.metrics.take_tally();
            match output {
                Output::Draft(draft) => {
                    let mut effects = Vec::new();
                    self.gate.see(&draft, &mut effects);
                    self.tell(Signal::Draft(draft));
                    self.heed(effects);
                }
                Output::State(state) => {
                    let private = Some(self.gate.remember(state.private));
                    self.tell(Signal::State(Head { reference: state.head, private }));
                }
                Output::Result(whole) => self.keep_result(whole).await,
            }
        }
    }

    /// The adapter could not read an item, or broke a rule itself.
    fn refuse(&mut self, error: &ItemError) {
        let signal = match Rejection::of(error) {
            Some(rejection) => Signal::Rejected(rejection),
            None => {
                tracing::warn!(run_id = %self.run_id, %error, "a native item was refused");
                Signal::Failed(match error {
                    ItemError::Oversized { .. } => Failure::OutputOversized,
                    _other => Failure::OutputMalformed,
                })
            }
        };
        self.tell(signal);
    }

    fn is_full(&self) -> bool {
        let unwritten = self.unshown.len();
        let bytes = self.batch_bytes + self.write.as_ref().map_or(0, Write::bytes);
        unwritten >= self.inner.settings.max_unwritten_events
            || bytes >= self.inner.settings.max_unwritten_bytes
    }
}

/// The reason of a cancel, once somebody asks for one. Never returns if nobody can any more.
async fn asked(cancel: &mut watch::Receiver<Option<CancelReason>>) -> CancelReason {
    let asked = cancel.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
    match asked {
        Some(reason) => reason,
        None => std::future::pending().await,
    }
}
