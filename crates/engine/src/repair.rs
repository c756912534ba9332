//! Runs without a terminal: those of a killed gateway when the engine opens, and those whose store went away.
//!
//! Refuses to guess: a run is closed from what its log holds, and only after its former writer is fenced off.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use causeway_contract::event::{CancelReason, EventData, EventDraft, Sequence, SideEffectStatus};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::limits::Limits;
use causeway_lifecycle::Thread;
use causeway_store::model::{self, Orphan, Outcome, Owner};
use causeway_store::{Error, Record, Refusal, Store};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::audit::{Act, Action};
use crate::clock;
use crate::coordinator::{Coordinator, Crash, Effect, Input, Run, Signal, Status};
use crate::engine::Inner;
use crate::error::OpenError;
use crate::failpoint::{self, hit};
use crate::failure::Failure;
use crate::uncertain::Why;

/// A run that lost its store.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub run_id: RunId<'static>,
    pub conversation_id: ConversationId<'static>,
    pub thread: Thread,
    pub crash: Crash,
}

/// Where lost runs are handed in.
#[derive(Debug)]
pub(crate) struct Repairs {
    lost: mpsc::UnboundedSender<Lost>,
    stop: watch::Sender<bool>,
}

impl Repairs {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Lost>) {
        let (lost, received) = mpsc::unbounded_channel();
        (Self { lost, stop: watch::Sender::new(false) }, received)
    }

    /// Hands in a run; bounded by the number of runs, each of which is lost at most once.
    pub(crate) fn add(&self, lost: Lost) {
        // Without a receiver the engine is gone, and the next one finds the run as an orphan.
        let _ = self.lost.send(lost);
    }

    /// Changes when the engine stops, or is gone.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// The validator's word for a kind of thread.
pub(crate) fn thread_of(thread: model::Thread) -> Thread {
    match thread {
        model::Thread::Durable => Thread::Durable,
        model::Thread::Ephemeral => Thread::Ephemeral,
    }
}

/// Gives every run that a former gateway left its terminal.
pub(crate) async fn recover(inner: &Arc<Inner>) -> Result<(), OpenError> {
    for orphan in inner.store.list_orphans().await? {
        let Orphan { owner, run_id, conversation_id, thread, agent_id, .. } = orphan;
        let thread = thread_of(thread);
        let lost = Lost { run_id, conversation_id, thread, crash: Crash::Restart };
        if let Some(status) = close(&inner.store, &lost).await? {
            tracing::info!(run_id = %lost.run_id, ?status, "a run of a former gateway was closed");
            inner.metrics.recovered.inc();
            inner.record(recovered(&lost, status).owner(&owner).agent(&agent_id)).await;
        }
    }
    Ok(())
}

/// Does the same for other gateways of a shared store, as long as the engine runs.
pub(crate) fn watch(inner: &Arc<Inner>) {
    let Some(every) = inner.store.shared() else { return };
    let mut stop = inner.repairs.stopped();
    let weak = Arc::downgrade(inner);
    let store = Arc::clone(&inner.store);
    tokio::spawn(async move {
        let mut next = Instant::now() + every;
        loop {
            let disturbed = tokio::select! {
                _ = stop.changed() => return,
                () = tokio::time::sleep_until(next) => false,
                () = store.disturbed() => true,
            };
            let Some(inner) = weak.upgrade() else { return };
            if disturbed {
                stop_what_was_ended(&inner).await;
                continue;
            }
            next = Instant::now() + every;
            if let Err(error) = recover(&inner).await {
                tracing::warn!(%error, "runs of other gateways cannot be looked for at the moment");
            }
            stop_what_was_ended(&inner).await;
        }
    });
}

/// Stops the turns of runs that another gateway has ended.
async fn stop_what_was_ended(inner: &Arc<Inner>) {
    let driven: Vec<_> = {
        let active = inner.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.iter().map(|(run_id, active)| (run_id.clone(), active.clone())).collect()
    };
    for (run_id, active) in driven {
        let page = inner.store.read_after(&run_id, Some(Sequence::MAX), 1).await;
        if active.feed.mark().end.is_none() && page.is_ok_and(|page| page.status.is_terminal()) {
            active.ask_to_cancel(CancelReason::ClientRequest);
        }
    }
}

/// The act of a run's end.
pub(crate) fn ended(owner: &Owner, run: &Lost, outcome: &str, code: Option<&str>) -> Act {
    let act = Act::new(Action::RunEnded).owner(owner).conversation(&run.conversation_id).run(&run.run_id);
    let act = act.outcome(outcome);
    match code {
        Some(code) => act.code(code),
        None => act,
    }
}

/// The same of a run that was closed from its log.
fn recovered(run: &Lost, status: Status) -> Act {
    let outcome = match status {
        Status::Finished => "finished",
        Status::Interrupted => "interrupted",
        Status::Cancelled => "cancelled",
        Status::Error => "error",
        Status::Uncertain => "uncertain",
    };
    Act::new(Action::RunEnded)
        .conversation(&run.conversation_id)
        .run(&run.run_id)
        .outcome(outcome)
        .code("recovered")
}

/// Tries to close lost runs until the engine stops.
pub(crate) fn spawn(inner: &Arc<Inner>, mut lost: mpsc::UnboundedReceiver<Lost>) {
    let store = Arc::clone(&inner.store);
    let interval = inner.settings.repair_interval;
    let mut stop = inner.repairs.stopped();
    let weak = Arc::downgrade(inner);
    tokio::spawn(async move {
        let mut waiting: Vec<Lost> = Vec::new();
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                received = lost.recv() => match received {
                    Some(run) => waiting.push(run),
                    None => return,
                },
                () = tokio::time::sleep(interval), if !waiting.is_empty() => {
                    waiting = retry(&store, waiting, &weak).await;
                }
            }
        }
    });
}

async fn retry(store: &Arc<dyn Store>, waiting: Vec<Lost>, inner: &std::sync::Weak<Inner>) -> Vec<Lost> {
    let mut left = Vec::new();
    for run in waiting {
        match close(store, &run).await {
            Ok(None) => {} // somebody else closed it, or it never began
            Ok(Some(status)) => {
                tracing::info!(run_id = %run.run_id, ?status, "a run that had lost its store was closed");
                if let Some(inner) = inner.upgrade() {
                    inner.metrics.recovered.inc();
                    inner.note(recovered(&run, status));
                }
            }
            Err(error) => {
                tracing::debug!(run_id = %run.run_id, %error, "a run cannot be closed yet");
                left.push(run);
            }
        }
    }
    left
}

/// Closes a run from its log. `None`: there was nothing to close.
pub(crate) async fn close(store: &Arc<dyn Store>, run: &Lost) -> Result<Option<Status>, Error> {
    close_by(store, run, None).await
}

/// The same; with a reason it is cancelled, in place of the gateway that drives it.
pub(crate) async fn close_by(
    store: &Arc<dyn Store>,
    run: &Lost,
    cancel: Option<CancelReason>,
) -> Result<Option<Status>, Error> {
    let mut tries = 0;
    loop {
        let Some(Ending { tail, status, why }) = closing_records(store, run, cancel).await? else {
            return Ok(None);
        };
        if let Some(why) = why {
            note_cause(store, &run.run_id, why).await;
        }
        hit(failpoint::CLOSE);
        match store.close_run(&run.run_id, tail).await {
            Ok(()) => {
                hit(failpoint::CLOSE_DONE);
                return Ok(Some(status));
            }
            Err(Error::Refused(Refusal::Ended { .. } | Refusal::UnknownRun)) => return Ok(None),
            // A write of the former writer landed before the fence; now there can be no other.
            Err(Error::Refused(Refusal::NotContiguous { .. })) if tries < MAX_TRIES => tries += 1,
            Err(other) => return Err(other),
        }
    }
}

/// Notes for operators why a run is uncertain. Nothing depends on it.
pub(crate) async fn note_cause(store: &Arc<dyn Store>, run_id: &RunId<'_>, why: Why) {
    tracing::warn!(%run_id, why = why.as_str(), "the run is uncertain: {}; {}", why.happened(), why.next());
    if let Err(error) = store.note_cause(run_id, why.as_str()).await {
        tracing::debug!(%run_id, %error, "why the run is uncertain was not kept");
    }
}

/// How a run is closed.
struct Ending {
    tail: Vec<Record>,
    status: Status,
    /// Where it is uncertain.
    why: Option<Why>,
}

/// What to append so that the run is over, from what its log holds.
async fn closing_records(
    store: &Arc<dyn Store>,
    run: &Lost,
    cancel: Option<CancelReason>,
) -> Result<Option<Ending>, Error> {
    let mut coordinator: Option<Coordinator> = None;
    let mut after: Option<Sequence> = None;
    let mut unreadable = false;
    loop {
        let page = match store.read_after(&run.run_id, after, PAGE).await {
            Ok(page) => page,
            // The lost write was the one that opened the run. It may be in hand still: a read does not wait for it.
            Err(Error::Refused(Refusal::UnknownRun)) => match store.outcome(&run.run_id).await? {
                Outcome::Missing => return Ok(None),
                Outcome::Running { .. } | Outcome::Ended { .. } => continue,
            },
            Err(other) => return Err(other),
        };
        if page.status.is_terminal() {
            return Ok(None);
        }
        let Some(last) = page.records.last() else { break };
        after = Some(last.sequence);
        for record in &page.records {
            unreadable = unreadable || replay(&mut coordinator, run, record).is_none();
        }
    }
    let draft = |failure: Failure| {
        // The log is damaged: say the least that is certainly true.
        let next = after.map_or(Some(Sequence::ZERO), Sequence::next).unwrap_or(Sequence::MAX);
        let error = EventDraft::root(failure.run_error(SideEffectStatus::Possible));
        error.into_event(run.run_id.clone(), run.conversation_id.clone(), next, clock::now())
    };
    let Some(mut coordinator) = coordinator.filter(|_| !unreadable) else {
        tracing::error!(run_id = %run.run_id, "the log of this run is damaged; it is closed as uncertain");
        let event = draft(Failure::DurabilityUncertain);
        let tail = vec![Record::from_event(&event)];
        return Ok(Some(Ending { tail, status: Status::Uncertain, why: Some(Why::LogDamaged) }));
    };
    let mut effects = Vec::new();
    let signals = match cancel {
        Some(reason) => vec![Signal::Cancel(reason), Signal::Closed],
        None => vec![Signal::Crashed(run.crash)],
    };
    for signal in signals {
        coordinator.apply(Input::new(clock::now(), signal), &mut effects);
    }
    Ok(effects.into_iter().find_map(|effect| match effect {
        Effect::Commit(commit) => Some(Ending {
            tail: commit.events.iter().map(Record::from_event).collect(),
            status: commit.status,
            why: (commit.status == Status::Uncertain).then(|| run.crash.why()),
        }),
        Effect::Open(_)
        | Effect::Append(_)
        | Effect::ReadOutcome
        | Effect::Deliver { .. }
        | Effect::CancelHarness(_)
        | Effect::StopHarness
        | Effect::Reject(_)
        | Effect::Late(_)
        | Effect::Close(_) => None,
    }))
}

/// Takes one record in; `None` if the log is not what a coordinator wrote.
fn replay(coordinator: &mut Option<Coordinator>, run: &Lost, record: &Record) -> Option<()> {
    let event = record.decode(&run.run_id, &run.conversation_id, &WIDE).ok()?;
    if coordinator.is_none() {
        let EventData::RunStarted(started) = &event.data else {
            return None;
        };
        *coordinator = Some(Coordinator::recovering(Run {
            run_id: run.run_id.clone(),
            conversation_id: run.conversation_id.clone(),
            thread: run.thread,
            started: started.clone().into_owned(),
            limits: WIDE,
        }));
    }
    coordinator.as_mut()?.replay(&event).ok()
}

pub(crate) const PAGE: usize = 512;
const MAX_TRIES: u32 = 3;

/// What is in the log was accepted under the limits of its day, which may have been other than today's.
pub(crate) const WIDE: Limits = Limits {
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
    details_depth: 256,
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
    json_depth: 256,
};

/// How long a write waits before it is tried again, growing with every try.
pub(crate) fn backoff(tries: u32) -> Duration {
    Duration::from_millis(20 << tries.min(5))
}
