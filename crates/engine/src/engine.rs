//! The handle that servers and embedders hold: start, cancel, look, follow.
//!
//! Refuses to answer before the log has it: a start is answered once `run.started` and the request are durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_adapter::registry::HARNESSES;
use causeway_contract::event::{CancelReason, Sequence};
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_store::follow::Figures;
use causeway_store::model::{
    Cursor, Health, Idempotency, InterruptStatus, Owner, Page, Run, RunFilter, RunPage, Status, Withdrawal,
};
use causeway_store::{Refusal, Store};
use tokio::sync::{Notify, watch};

use crate::agents::{self, Agents, Roster};
use crate::audit::{Act, Action, Audit};
use crate::config::{AgentConfig, Driver, Settings};
use crate::coordinator::Crash;
use crate::erasing::Erasing;
use crate::error::{Error, OpenError};
use crate::failpoint::{self, hit};
use crate::feed::Feed;
use crate::metrics::{Findings, Metrics};
use crate::origin::Origin;
use crate::quota::{Keeper, Quotas, StreamPlace};
use crate::repair::{Lost, Repairs};
use crate::subscription::Subscription;
use crate::trace::Tracer;
use crate::{expiry, housekeeping, inspect, process, repair, start};

pub use causeway_adapter::registry::{Capability, Harness as HarnessInfo, Level};

/// Runs agents and keeps what they say. Cheap to clone; every clone is the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// A request to start a run.
#[derive(Clone, Debug)]
pub struct StartRun {
    /// Whose run.
    pub owner: Owner,
    /// The agent.
    pub agent_id: Name<'static>,
    /// The conversation; made if it is new.
    pub conversation_id: ConversationId<'static>,
    /// What the user says.
    pub message: String,
    /// A JSON object for the harness's context, as text.
    pub context: Option<String>,
    /// A JSON object from path to text, as text; refused unless the agent allows it.
    pub files: Option<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// The client's key for "the same request again".
    pub idempotency: Option<Idempotency>,
}

impl StartRun {
    /// A request with nothing optional.
    pub fn new(
        owner: Owner,
        agent_id: Name<'static>,
        conversation_id: ConversationId<'static>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            owner,
            agent_id,
            conversation_id,
            message: message.into(),
            context: None,
            files: None,
            traceparent: None,
            idempotency: None,
        }
    }

    /// The same with a context for the harness.
    pub fn context(mut self, context: Option<String>) -> Self {
        self.context = context;
        self
    }

    /// The same with files.
    pub fn files(mut self, files: Option<String>) -> Self {
        self.files = files;
        self
    }

    /// The same with a trace context.
    pub fn traceparent(mut self, traceparent: Option<String>) -> Self {
        self.traceparent = traceparent;
        self
    }

    /// The same under an idempotency key.
    pub fn idempotency(mut self, idempotency: Option<Idempotency>) -> Self {
        self.idempotency = idempotency;
        self
    }
}

/// A run that was started, now or by the same request before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Started {
    /// The run.
    pub run_id: RunId<'static>,
    /// Whether the same request had started it before.
    pub replayed: bool,
}

/// What a cancel did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cancelled {
    /// The run that was meant; `None` where a conversation had none to cancel.
    pub run_id: Option<RunId<'static>>,
    /// Whether the run ended as `run.cancelled`, by this call or an earlier one.
    pub cancelled: bool,
    /// Whether this call took back the run's pending interrupt.
    pub interrupt_voided: bool,
}

pub(crate) struct Inner {
    pub settings: Settings,
    pub agents: Agents,
    pub store: Arc<dyn Store>,
    pub active: Mutex<HashMap<RunId<'static>, Active>>,
    pub draining: AtomicBool,
    /// How many runs are driven here.
    pub driven: watch::Sender<usize>,
    pub metrics: Metrics,
    pub findings: Findings,
    pub quotas: Keeper,
    pub repairs: Repairs,
    /// Told of every interrupt that will expire.
    pub expiring: Arc<Notify>,
    pub erasing: Erasing,
    pub audit: Option<Audit>,
    pub tracer: Tracer,
}

/// A run that is driven here.
#[derive(Clone)]
pub(crate) struct Active {
    pub feed: Arc<Feed>,
    pub cancel: watch::Sender<Option<CancelReason>>,
    pub grace: Duration,
}

impl Engine {
    /// Opens an engine: ends what a killed gateway left running, then gives every run without a terminal its own.
    ///
    /// # Errors
    /// An agent that cannot be set up, or a store that cannot be recovered.
    pub async fn open(
        settings: Settings,
        agents: Vec<AgentConfig>,
        store: Arc<dyn Store>,
    ) -> Result<Self, OpenError> {
        let ready = agents::ready(agents, &settings, &Roster::new())?;
        // Whatever its agents were: one that comes later must not find what it left.
        process::reap(&settings.data_dir)
            .await
            .map_err(|error| OpenError::Reap { what: error.to_string() })?;
        for (id, agent) in &ready {
            if matches!(agent.config.driver, Driver::Custom(_)) {
                agent.harness.reap().await.map_err(|what| OpenError::Driver { agent: id.clone(), what })?;
            }
        }
        hit(failpoint::REAPED);
        let audit = settings.audit.as_ref().map(Audit::open).transpose()?;
        let tracer = settings.trace.as_ref().map_or_else(|| Ok(Tracer::default()), Tracer::open);
        let tracer = tracer.map_err(|what| OpenError::Trace { what })?;
        let (repairs, lost) = Repairs::new();
        let inner = Arc::new(Inner {
            quotas: Keeper::new(settings.quotas.clone()),
            settings,
            agents: Agents::new(ready),
            store,
            active: Mutex::default(),
            draining: AtomicBool::new(false),
            driven: watch::Sender::new(0),
            metrics: Metrics::default(),
            findings: Findings::default(),
            repairs,
            expiring: expiry::bell(),
            erasing: Erasing::default(),
            audit,
            tracer,
        });
        repair::recover(&inner).await?;
        hit(failpoint::RECOVERED);
        repair::spawn(&inner, lost);
        repair::watch(&inner);
        expiry::spawn(&inner);
        housekeeping::spawn(&inner);
        Ok(Self { inner })
    }

    /// Starts a run. Answered once `run.started` and the request are durable.
    ///
    /// # Errors
    /// An unknown agent, a refusal of the store (busy, interrupt pending, key reused), a store that cannot serve, or
    /// a gateway that is shutting down. A start whose caller goes away is completed all the same.
    pub async fn start(&self, request: StartRun) -> Result<Started, Error> {
        let inner = Arc::clone(&self.inner);
        // On a task of its own: a request that is dropped half-way must not leave a run that nobody drives.
        let started = tokio::spawn(Origin::carried(async move { start::start(&inner, request).await }));
        let started = started.await.unwrap_or_else(|broken| Err(Error::Fault(broken.to_string())));
        self.inner.metrics.refused(started)
    }

    /// Cancels a run, or takes back its pending interrupt. Idempotent. Waits until the run has ended, at most for
    /// the agent's grace and the store's patience.
    ///
    /// # Errors
    /// An unknown run, another owner's included, or a store that cannot serve.
    pub async fn cancel_run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Cancelled, Error> {
        let run = self.inner.store.run(owner, run_id).await?;
        let run_id = run.run_id.clone();
        let asked =
            Act::new(Action::CancelAsked).owner(owner).conversation(&run.conversation_id).run(&run_id);
        self.inner.record(asked).await;
        if let Some(active) = self.inner.active(&run_id) {
            active.ask_to_cancel(CancelReason::ClientRequest);
            let patience = active.grace + self.inner.settings.store_patience + CANCEL_MARGIN;
            let _ended_or_given_up = tokio::time::timeout(patience, active.feed.ended()).await;
        } else if run.status == Status::Running && self.inner.store.shared().is_some() {
            // Another gateway drives it. The run is taken from that one, which finds out and stops its harness.
            let thread = repair::thread_of(run.thread);
            let (run_id, conversation_id) = (run_id.clone(), run.conversation_id);
            let lost = Lost { run_id, conversation_id, thread, crash: Crash::Restart };
            repair::close_by(&self.inner.store, &lost, Some(CancelReason::ClientRequest)).await?;
        }
        let run = self.inner.store.run(owner, &run_id).await?;
        let interrupt_voided = match run.status {
            // What has no content any more waits for nothing.
            Status::Interrupted if run.expired_at.is_none() => self.take_back(owner, &run_id).await?,
            Status::Interrupted
            | Status::Running
            | Status::Finished
            | Status::Cancelled
            | Status::Error
            | Status::Uncertain => false,
        };
        let cancelled = run.status == Status::Cancelled;
        Ok(Cancelled { run_id: Some(run_id), cancelled, interrupt_voided })
    }

    async fn take_back(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<bool, Error> {
        let interrupt = self.inner.store.interrupt(owner, run_id).await?;
        if self.inner.expire(&interrupt).await? {
            return Ok(false);
        }
        hit(failpoint::VOID);
        let voided = self.inner.store.void_interrupt(run_id, Withdrawal::Voided).await?;
        hit(failpoint::VOID_DONE);
        Ok(voided)
    }

    /// Cancels the active run of a conversation, or takes back its pending interrupt. Without either it does nothing.
    ///
    /// # Errors
    /// A store that cannot serve.
    pub async fn cancel_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Cancelled, Error> {
        let store = &self.inner.store;
        let run_id = match store.active_run(owner, conversation_id).await? {
            Some(run_id) => Some(run_id),
            None => store.pending_interrupt(owner, conversation_id).await?.map(|interrupt| interrupt.run_id),
        };
        match run_id {
            Some(run_id) => self.cancel_run(owner, &run_id).await,
            None => Ok(Cancelled { run_id: None, cancelled: false, interrupt_voided: false }),
        }
    }

    /// A run.
    ///
    /// # Errors
    /// An unknown run, another owner's included, or a store that cannot serve.
    pub async fn run(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Run, Error> {
        let run = self.inner.store.run(owner, run_id).await?;
        let waits = run.interrupt.as_ref().is_some_and(|summary| summary.status == InterruptStatus::Pending);
        if waits && self.inner.expire(&self.inner.store.interrupt(owner, run_id).await?).await? {
            return Ok(self.inner.store.run(owner, run_id).await?);
        }
        Ok(run)
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// A store that cannot serve.
    pub async fn runs(
        &self,
        owner: &Owner,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage, Error> {
        Ok(self.inner.store.runs(owner, filter, limit, cursor).await?)
    }

    /// Events after a cursor. Where there are none yet and the run goes on, waits up to `wait` for one.
    ///
    /// # Errors
    /// An unknown run, another owner's included; a cursor beyond the last event; a store that cannot serve.
    pub async fn events(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
        wait: Duration,
    ) -> Result<Page, Error> {
        let run = self.inner.store.run(owner, run_id).await?;
        let feed = self.inner.active(&run.run_id).map(|active| active.feed);
        let read = || self.inner.store.read_owned(owner, &run.run_id, after, limit);
        let page = read().await?;
        Error::beyond_end(after, page.last_sequence)?;
        if !page.records.is_empty() || page.is_done(after) || wait.is_zero() {
            return Ok(page);
        }
        if let Some(feed) = feed {
            let seen = feed.mark();
            if seen.through <= after && seen.end.is_none() {
                let _changed_or_given_up = tokio::time::timeout(wait, feed.changed_since(seen)).await;
            }
        } else if let Some(mut follow) = self.inner.store.follow(&run.run_id) {
            let _moved_or_given_up = tokio::time::timeout(wait, follow.moved(after)).await;
        }
        Ok(read().await?)
    }

    /// Follows a run from a cursor (exclusive; `None` is the start) to its end.
    ///
    /// # Errors
    /// An unknown run, another owner's included; one whose content was deleted; a cursor beyond the last event; a store that
    /// cannot serve.
    pub async fn subscribe(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
    ) -> Result<Subscription, Error> {
        self.follow(owner, run_id, after, false).await
    }

    /// The same for a client that counts: when the last one goes away, the agent's `on_disconnect` applies.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_client(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
    ) -> Result<Subscription, Error> {
        self.follow(owner, run_id, after, true).await
    }

    async fn follow(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        counts: bool,
    ) -> Result<Subscription, Error> {
        // Before the row is read: a run that ends in between is then seen as ended in the store.
        let active = self.inner.active(run_id);
        let run = self.inner.store.run(owner, run_id).await?;
        if let Some(remains) = run.remains() {
            return Err(Refusal::Expired { remains: Box::new(remains) }.into());
        }
        Error::beyond_end(after, run.last_sequence)?;
        let feed = active.map(|active| active.feed);
        let presence = feed.as_ref().filter(|_| counts).map(Feed::client);
        // Another gateway may be writing it.
        let elsewhere = feed.is_none() && !run.status.is_terminal() && self.inner.store.shared().is_some();
        let store = Arc::clone(&self.inner.store);
        let reader = self.inner.metrics.reader();
        let subscription = Subscription::new(run.owner, run.run_id, store, feed, after, presence, reader);
        Ok(subscription.elsewhere(elsewhere))
    }

    /// Puts other quotas of owners in place. Those of agents come with the agents.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.inner.quotas.replace(quotas);
    }

    /// A place for one more event stream of this owner and agent; to be held by the subscription
    /// ([`Subscription::holding`]) as long as it is read.
    ///
    /// # Errors
    /// [`OverQuota`](causeway_store::model::OverQuota).
    pub fn stream(&self, owner: &Owner, agent_id: &Name<'_>) -> Result<StreamPlace, Error> {
        let agent = self.inner.agents.agent(agent_id.as_str()).ok();
        let config = agent.as_ref().map(|agent| agent.config.as_ref());
        let place = self.inner.quotas.stream(owner, agent_id.as_str(), config);
        self.inner.metrics.refused(place.map_err(|over| Refusal::from(over).into()))
    }

    /// The whole of a tool result that an event shows in part.
    ///
    /// # Errors
    /// An unknown run or result, another owner's included, or a store that cannot serve.
    pub async fn result(
        &self,
        owner: &Owner,
        run_id: &RunId<'_>,
        reference: &causeway_contract::id::Reference<'_>,
    ) -> Result<Arc<[u8]>, Error> {
        match self.inner.store.result(owner, run_id, reference).await {
            Err(causeway_store::Error::Refused(Refusal::UnknownResult)) => {
                inspect::shown_result(self.inner.store.as_ref(), owner, run_id, reference).await
            }
            kept => Ok(kept?),
        }
    }

    /// The agents, in order of their ids.
    pub fn agents(&self) -> Vec<Arc<AgentConfig>> {
        self.inner.agents.now().values().map(|agent| Arc::clone(&agent.config)).collect()
    }

    /// The harnesses that this build can translate, with what each can do.
    pub fn harnesses(&self) -> &'static [HarnessInfo] {
        HARNESSES
    }

    /// What is counted where several gateways share the store.
    pub fn figures(&self) -> Option<Figures> {
        self.inner.store.figures()
    }

    /// How the store feels. An error says that it cannot serve.
    ///
    /// # Errors
    /// The store's trouble.
    pub async fn health(&self) -> Result<Health, Error> {
        Ok(self.inner.store.health().await?)
    }

    /// Counters since the engine was opened.
    pub fn metrics(&self) -> crate::metrics::Snapshot {
        self.inner.metrics.snapshot(*self.inner.driven.borrow())
    }

    /// Puts the engine's metrics into a registry; what they count shows there at once, what is looked up after
    /// [`refresh_metrics`](Self::refresh_metrics).
    pub fn register_metrics(&self, into: &mut prometheus_client::registry::Registry) {
        self.inner.metrics.register(into);
        if let Some(audit) = &self.inner.audit {
            audit.register(into);
        }
        self.inner.tracer.register(into);
    }

    /// Brings up to date what is looked up rather than counted.
    pub fn refresh_metrics(&self) {
        self.inner.metrics.refresh(&self.inner);
    }

    /// What makes spans.
    pub fn tracer(&self) -> &Tracer {
        &self.inner.tracer
    }

    /// The audit log, where there is one.
    pub fn audit(&self) -> Option<&Audit> {
        self.inner.audit.as_ref()
    }

    /// Whether the engine takes no new runs any more.
    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Acquire)
    }

    /// Ends the engine: no new runs, `run.cancelled(shutdown)` for the active ones, then the workers leave. Returns
    /// when all of it is done or `grace` is over; what is left then is for recovery.
    pub async fn shutdown(&self, grace: Duration) {
        let until = tokio::time::Instant::now() + grace;
        self.inner.draining.store(true, Ordering::Release);
        let runs: Vec<Active> =
            self.inner.active.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for run in runs {
            run.ask_to_cancel(CancelReason::Shutdown);
        }
        hit(failpoint::DRAIN);
        let mut driven = self.inner.driven.subscribe();
        let all_ended = driven.wait_for(|&driven| driven == 0);
        if tokio::time::timeout_at(until, all_ended).await.is_err() {
            tracing::warn!(left = *self.inner.driven.borrow(), "shutdown: runs did not end in time");
        }
        hit(failpoint::DRAINED);
        let left = until.saturating_duration_since(tokio::time::Instant::now()).max(MIN_WORKER_GRACE);
        let harnesses = self.inner.agents.harnesses();
        futures::future::join_all(harnesses.iter().map(|harness| harness.shutdown(left))).await;
        self.inner.repairs.stop();
    }
}

impl Inner {
    /// The run is not driven here any more.
    pub(crate) fn forget(&self, run_id: &RunId<'_>) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(run_id.as_str());
    }

    pub(crate) fn active(&self, run_id: &RunId<'_>) -> Option<Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).get(run_id.as_str()).cloned()
    }

    /// Whether what is about to be done could be recorded.
    pub(crate) fn auditable(&self) -> Result<(), Error> {
        self.audit.as_ref().map_or(Ok(()), Audit::ready).map_err(Error::from)
    }

    /// Records what was done, or is done in any case. Where it cannot be written now it is kept, and the next start
    /// is refused.
    pub(crate) async fn record(&self, act: Act) {
        if let Some(audit) = &self.audit {
            let _ = audit.record(act).await;
        }
    }

    /// The same without waiting.
    pub(crate) fn note(&self, act: Act) {
        if let Some(audit) = &self.audit {
            audit.note(act);
        }
    }
}

impl Active {
    /// The first reason stands.
    pub(crate) fn ask_to_cancel(&self, reason: CancelReason) {
        self.cancel.send_if_modified(|asked| asked.is_none() && asked.replace(reason).is_none());
    }
}

/// How much longer than the grace a cancel waits for the terminal to be stored.
const CANCEL_MARGIN: Duration = Duration::from_secs(2);

/// Workers get at least this long to leave at shutdown.
const MIN_WORKER_GRACE: Duration = Duration::from_millis(500);
