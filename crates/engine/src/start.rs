//! Starting a run, for a message or an answer: checks, the transaction that opens it, and the task that drives it.
//!
//! Refuses to answer before the log has the run.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use causeway_adapter::Turn as AdapterTurn;
use causeway_contract::event::{CancelReason, EventDraft};
use causeway_contract::id::{ConversationId, InterruptId, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_lifecycle::Thread;
use causeway_store::Record;
use causeway_store::model::{
    self, ConsumeInterrupt, Epoch, Generation, Idempotency, Open, OpenRun, Opened, Owner, Revision,
    StaleThread,
};
use causeway_store::record::Payload;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::agents::Agent;
use crate::audit::{Act, Action};
use crate::clock;
use crate::coordinator::{Closing, Coordinator, Crash, Effect, Input, Run, Signal};
use crate::drive::Drive;
use crate::engine::{Active, Inner, StartRun, Started};
use crate::error::Error;
use crate::failpoint::{self, hit};
use crate::feed::Feed;
use crate::gate::Gate;
use crate::harness::{Ask, Claim, Offer, Turn, TurnInput};
use crate::metrics::{Operation, Watch};
use crate::origin::Origin;
use crate::repair::{Lost, backoff};
use crate::trace::Context;

/// How many threads a worker is told to forget with one turn.
const FORGET_AT_ONCE: usize = 64;

/// A run to be begun: what its row says and what its harness is told.
pub(crate) struct Plan {
    pub run_id: RunId<'static>,
    /// What the run has of the agent's workers.
    pub claim: Claim,
    pub owner: Owner,
    pub conversation_id: ConversationId<'static>,
    /// For the adapter.
    pub turn: AdapterTurn,
    /// For the row.
    pub request: Payload,
    pub seed: Option<Payload>,
    pub idempotency: Option<Idempotency>,
    /// For the harness.
    pub input: TurnInput,
    pub traceparent: Option<String>,
    /// The interrupt that this run answers.
    pub answers: Option<Consumed>,
}

/// The interrupt that a run consumes.
pub(crate) struct Consumed {
    pub interrupted: RunId<'static>,
    pub interrupt_id: InterruptId<'static>,
    pub revision: Revision,
    /// What was decided, for the audit log.
    pub decided: String,
    /// The decision record, given the time of `run.started`.
    pub record: Box<dyn FnOnce(&Timestamp<'_>) -> Payload + Send>,
}

pub(crate) async fn start(inner: &Arc<Inner>, request: StartRun) -> Result<Started, Error> {
    let driven = Driven::count_in(inner);
    if inner.draining.load(Ordering::SeqCst) {
        return Err(Error::ShuttingDown);
    }
    inner.auditable()?;
    let agent = inner.agents.agent(request.agent_id.as_str())?;
    if request.files.is_some() && !agent.config.allow_files {
        return Err(Error::FilesNotAllowed { id: request.agent_id.to_string() });
    }
    let run_id = clock::new_run_id();
    let ask = Ask { owner: &request.owner, conversation_id: &request.conversation_id, run_id: &run_id };
    let claim = match agent.harness.admit(&ask) {
        Ok(claim) => claim,
        Err(why) if store_would_open(inner, &request).await? => {
            return Err(Error::no_room(&agent.config.id, why));
        }
        Err(_) => Claim::default(),
    };
    let asked: HashMap<&str, &str> = HashMap::from([("message", request.message.as_str())]);
    let plan = Plan {
        run_id,
        claim,
        owner: request.owner,
        conversation_id: request.conversation_id,
        turn: AdapterTurn::Start,
        request: Payload::from(serde_json::json!(asked).to_string()),
        seed: None,
        idempotency: request.idempotency,
        input: TurnInput::Message { text: request.message, context: request.context, files: request.files },
        traceparent: request.traceparent,
        answers: None,
    };
    begin(inner, driven, agent, plan).await
}

/// Opens the run, and answers once it is in the log; a task of its own then drives it.
pub(crate) async fn begin(
    inner: &Arc<Inner>,
    driven: Driven,
    agent: Arc<Agent>,
    plan: Plan,
) -> Result<Started, Error> {
    let Plan {
        run_id,
        claim,
        owner,
        conversation_id,
        turn,
        request,
        seed,
        idempotency,
        input,
        traceparent,
        answers,
    } = plan;
    let quota = inner.quotas.of_run(inner.store.as_ref(), &owner, &agent.config).await?;
    let verdicts = agent.translator.verdicts(&turn);
    let opening = agent.translator.open(turn)?;
    inner.metrics.take_tally();
    let since = driven.since();
    let origin = Origin::current();
    let asked_by = origin.as_ref().and_then(|origin| origin.trace);
    let parent = asked_by.or_else(|| traceparent.as_deref().and_then(Context::parse));
    let mut span = inner.tracer.root("run", parent);
    span.set("causeway.run_id", run_id.as_str());
    span.set("causeway.agent", agent.config.id.as_str());
    span.set("causeway.harness", agent.translator.harness_id().as_str());
    let opening_span = span.child(if answers.is_some() { "commit answer" } else { "commit open" });
    let mut coordinator = Coordinator::new(Run {
        run_id: run_id.clone(),
        conversation_id: conversation_id.clone(),
        thread: agent.config.thread,
        started: opening.started,
        limits: agent.config.limits.clone(),
    });
    if let Some(schemas) = agent.translator.schemas() {
        coordinator = coordinator.schemas(schemas);
    }
    let first = first_record(&mut coordinator, opening.draft)?;
    let thread_id: Arc<str> = Arc::from(run_id.as_str());
    let open = OpenRun {
        owner: owner.clone(),
        run_id: run_id.clone(),
        conversation_id: conversation_id.clone(),
        agent_id: agent.config.id.clone(),
        harness_id: agent.translator.harness_id(),
        thread: match agent.config.thread {
            Thread::Durable => model::Thread::Durable,
            Thread::Ephemeral => model::Thread::Ephemeral,
        },
        worker_thread: Some(Arc::clone(&thread_id)),
        request,
        seed,
        idempotency,
        quota,
        started: first.clone(),
    };
    // Before the run is in the log, so that nobody who finds it there finds it undriven.
    let (feed, asked) = register(inner, &agent, &run_id);
    let mut undriven = Undriven::new(inner, &agent, &run_id, &conversation_id, &feed);
    let lost_by = if answers.is_some() { Crash::Unacknowledged } else { Crash::Journal };
    let act = match &answers {
        None => Act::new(Action::RunStarted),
        Some(consumed) => {
            Act::new(Action::InterruptAnswered).interrupt(&consumed.interrupt_id).outcome(&consumed.decided)
        }
    };
    let opened = match answers {
        None => {
            hit(failpoint::OPEN);
            let began = Instant::now();
            let opened = inner.store.open_run(open).await;
            if opened.is_ok() {
                inner.metrics.wrote(Operation::Open, began.elapsed());
            }
            hit(failpoint::OPENED);
            opened
        }
        Some(Consumed { interrupted, interrupt_id, revision, record, .. }) => {
            let decision = record(&first.timestamp);
            let answer = ConsumeInterrupt { interrupted, interrupt_id, revision, decision, open };
            hit(failpoint::CONSUME);
            let began = Instant::now();
            let opened = inner.store.consume_interrupt(answer).await;
            if opened.is_ok() {
                inner.metrics.wrote(Operation::Answer, began.elapsed());
            }
            hit(failpoint::CONSUME_DONE);
            opened
        }
    };
    let opened = match opened {
        Err(causeway_store::Error::Unknown(trouble)) => {
            tracing::warn!(%run_id, %trouble, "the answer of the store to a start was lost");
            match landed(inner, &owner, &conversation_id, &agent, &run_id).await {
                Some(open) => Ok(Opened::New(open)),
                None => Err(causeway_store::Error::Unknown(trouble)),
            }
        }
        known => known,
    };
    let opened = match opened {
        Ok(Opened::New(opened)) => {
            drop(opening_span);
            opened
        }
        Ok(Opened::Replayed(run)) => {
            span.set("causeway.outcome", "replayed");
            undriven.never_opened();
            return Ok(Started { run_id: run.run_id, replayed: true });
        }
        Err(error) => {
            span.set("causeway.outcome", "refused");
            match &error {
                // If it did land, nobody drives it: it gets its terminal as soon as the store can be asked.
                causeway_store::Error::Unknown(_) => undriven.lost_by(lost_by),
                _other => undriven.never_opened(),
            }
            return Err(error.into());
        }
    };
    inner.metrics.started(&agent);
    let act = act.owner(&owner).agent(&agent.config.id).conversation(&conversation_id).run(&run_id);
    inner.record(act).await;
    let trace_id = span.context().trace_id();
    let request_id = origin.as_ref().map(|origin| origin.request_id.as_str());
    tracing::info!(run_id = %run_id, agent = %agent.config.id, trace_id, request_id, "run started");

    inner.erasing.over(&owner, &conversation_id).await;
    let stale = stale_threads(inner, &owner, &conversation_id, &agent, opened.epoch).await;
    let worker = span.child("worker");
    let turn = Turn {
        agent_id: agent.config.id.clone(),
        owner,
        conversation_id,
        epoch: opened.epoch.value(),
        run_id: run_id.clone(),
        thread_id,
        base: opened.base.as_ref().map(|head| head.head_ref.clone()),
        input,
        traceparent: Some(worker.context().to_string()),
        forget: stale.iter().map(|stale| Arc::clone(&stale.worker_thread)).collect(),
        tools: (!agent.tools.is_empty())
            .then(|| Offer { generation: opened.generation.value(), names: agent.tools.names() }),
    };
    let tools = Arc::clone(&agent.tools);
    let gate = Gate::new(run_id.as_str(), tools, agent.translator.options(), opened.generation.value())
        .decided(verdicts);
    let watch = Watch::new(since, span, worker);
    let (inner_, adapter) = (Arc::clone(inner), opening.adapter);
    let drive =
        Drive::new(inner_, agent, coordinator, adapter, &opened, turn, gate, stale, feed, asked, watch);
    tokio::spawn(async move {
        undriven.driven();
        hit(failpoint::DRIVEN);
        drive.run(first).await;
        drop(claim);
        drop(driven);
    });
    Ok(Started { run_id, replayed: false })
}

/// The run that a lost answer of the store spoke of, if it is in the log and still ours: nobody else knows its id, so
/// it can be driven as if the answer had come.
async fn landed(
    inner: &Inner,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
    agent: &Agent,
    run_id: &RunId<'_>,
) -> Option<Open> {
    let until = Instant::now() + inner.settings.store_patience;
    let mut tries = 0;
    loop {
        let found = async {
            let model::Outcome::Running { generation, .. } = inner.store.outcome(run_id).await? else {
                return Ok(None);
            };
            if generation != Generation::new(1) {
                return Ok(None); // taken over: it gets its terminal elsewhere
            }
            let epoch = inner.store.run(owner, run_id).await?.epoch;
            let base = inner.store.load_head(owner, conversation_id, &agent.config.id).await?;
            Ok::<_, causeway_store::Error>(Some(Open { generation, epoch, base }))
        };
        match found.await {
            Ok(found) => return found,
            Err(error) => tracing::warn!(%run_id, %error, "whether a start landed cannot be read yet"),
        }
        if Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(backoff(tries)).await;
        tries += 1;
    }
}

/// Whether opening the run would only fail for want of a worker. Where the store says no (busy, interrupt pending), or
/// may know the request already, its answer is the better one.
async fn store_would_open(inner: &Inner, request: &StartRun) -> Result<bool, Error> {
    let (owner, conversation_id) = (&request.owner, &request.conversation_id);
    Ok(request.idempotency.is_none()
        && inner.store.active_run(owner, conversation_id).await?.is_none()
        && inner.store.pending_interrupt(owner, conversation_id).await?.is_none())
}

fn first_record(coordinator: &mut Coordinator, draft: EventDraft<'static>) -> Result<Record, Error> {
    let mut effects = Vec::new();
    coordinator.apply(Input::new(clock::now(), Signal::Draft(draft)), &mut effects);
    effects
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Open(event) => Some(Record::from_event(&event)),
            Effect::Append(_)
            | Effect::Commit(_)
            | Effect::ReadOutcome
            | Effect::Deliver { .. }
            | Effect::CancelHarness(_)
            | Effect::StopHarness
            | Effect::Reject(_)
            | Effect::Late(_)
            | Effect::Close(_) => None,
        })
        .ok_or_else(|| Error::Fault("run.started was refused".to_owned()))
}

/// Forgetting is housekeeping: a store that cannot answer now is asked again with the next run.
async fn stale_threads(
    inner: &Inner,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
    agent: &Agent,
    epoch: Epoch,
) -> Vec<StaleThread> {
    let asked = inner.store.stale_threads(owner, conversation_id, FORGET_AT_ONCE).await;
    let mut stale = asked.unwrap_or_default();
    // What a former epoch left is kept by another worker.
    stale.retain(|stale| stale.agent_id == agent.config.id && stale.epoch == epoch);
    stale
}

/// Makes a run known as driven here.
fn register(
    inner: &Arc<Inner>,
    agent: &Agent,
    run_id: &RunId<'static>,
) -> (Arc<Feed>, watch::Receiver<Option<CancelReason>>) {
    let feed = Arc::new(Feed::new(inner.settings.tail_events, inner.settings.tail_bytes));
    let cancel = watch::Sender::new(None);
    let asked = cancel.subscribe();
    let active = Active { feed: Arc::clone(&feed), cancel, grace: agent.harness.cancel_grace() };
    inner.active.lock().unwrap_or_else(PoisonError::into_inner).insert(run_id.clone(), active.clone());
    if inner.draining.load(Ordering::SeqCst) {
        // The shutdown may have looked before this run was there.
        active.ask_to_cancel(CancelReason::Shutdown);
    }
    (feed, asked)
}

/// A run that may be in the log and that nobody drives. Dropped, by a panic as well, it is handed to repair.
struct Undriven {
    inner: Arc<Inner>,
    feed: Arc<Feed>,
    lost: Option<Lost>,
}

impl Undriven {
    fn new(
        inner: &Arc<Inner>,
        agent: &Agent,
        run_id: &RunId<'static>,
        conversation_id: &ConversationId<'static>,
        feed: &Arc<Feed>,
    ) -> Self {
        let lost = Lost {
            run_id: run_id.clone(),
            conversation_id: conversation_id.clone(),
            thread: agent.config.thread,
            crash: Crash::Fault,
        };
        Self { inner: Arc::clone(inner), feed: Arc::clone(feed), lost: Some(lost) }
    }

    fn lost_by(&mut self, crash: Crash) {
        if let Some(lost) = &mut self.lost {
            lost.crash = crash;
        }
    }

    /// It is not in the log.
    fn never_opened(&mut self) {
        if let Some(lost) = self.lost.take() {
            self.inner.forget(&lost.run_id);
        }
    }

    /// Its task has it now.
    fn driven(&mut self) {
        self.lost = None;
    }
}

impl Drop for Undriven {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            self.inner.forget(&lost.run_id);
            self.feed.close(Closing::WithoutTerminal);
            self.inner.repairs.add(lost);
        }
    }
}

/// Counts a run among those that the shutdown waits for, from when it was asked for.
pub(crate) struct Driven(Arc<Inner>, Instant);

impl Driven {
    pub(crate) fn count_in(inner: &Arc<Inner>) -> Self {
        inner.driven.send_modify(|driven| *driven += 1);
        Self(Arc::clone(inner), Instant::now())
    }

    fn since(&self) -> Instant {
        self.1
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.driven.send_modify(|driven| *driven = driven.saturating_sub(1));
    }
}
