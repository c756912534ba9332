//! Answering an interrupt: the check, the transaction that consumes it and opens the resumed run, and what stands
//! around it: reading, taking back and expiring interrupts, clearing and deleting conversations.
//!
//! Refuses to start anything but from the committed head, and anything that the answer does not fit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_adapter::Turn as AdapterTurn;
use causeway_adapter::turn::Resume;
use causeway_contract::decode::decode_data;
use causeway_contract::event::{EventData, EventType, InterruptRequested, Sequence};
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_store::Refusal;
use causeway_store::model::{
    Deleted, DeletedRun, Epoch, Idempotency, Interrupt, InterruptStatus, Owner, StaleThread,
};
use causeway_store::record::Payload;
use tokio::task::JoinHandle;

use crate::answer::{self, AnswerRun};
use crate::audit::{Act, Action};
use crate::coordinator::seed::Remains;
use crate::engine::{Engine, Inner, Started};
use crate::error::Error;
use crate::failpoint::{self, hit};
use crate::harness::{Ask, Claim, Turn, TurnInput};
use crate::origin::Origin;
use crate::repair::{PAGE, WIDE};
use crate::start::{self, Consumed, Driven, Plan};
use crate::{clock, expiry};

/// How many pending interrupts are listed at most.
const LISTED: usize = 500;
/// How many threads are forgotten with one request, and of former epochs with one clear.
const FORGOTTEN_AT_ONCE: usize = 1_000;
/// How long a deletion waits for workers.
const FORGETTING: Duration = Duration::from_secs(20);

impl Engine {
    /// Answers an interrupt: consumes it and starts the resumed run, in one transaction. Answered once both are
    /// durable. Of any number of answers exactly one starts a run; the same answer under the same key finds it.
    ///
    /// # Errors
    /// An answer that does not fit ([`Error::DoesNotFit`]); a refusal of the store: unknown run, no such interrupt,
    /// another revision, consumed, closed (voided or expired), key reused; a store that cannot serve; a gateway that
    /// is shutting down. An answer whose caller goes away is completed all the same.
    pub async fn resume(&self, answer: AnswerRun) -> Result<Started, Error> {
        let inner = Arc::clone(&self.inner);
        // On a task of its own, as a start.
        let resumed = tokio::spawn(Origin::carried(async move { resume(&inner, answer).await }));
        let resumed = resumed.await.unwrap_or_else(|broken| Err(Error::Fault(broken.to_string())));
        self.inner.metrics.refused(resumed)
    }

    /// The pending interrupt of a conversation, of this agent where one is named. One that has expired is marked so,
    /// and no longer pending.
    ///
    /// # Errors
    /// A store that cannot serve.
    pub async fn pending_interrupt(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
        agent_id: Option<&Name<'_>>,
    ) -> Result<Option<Interrupt>, Error> {
        let pending = self.inner.store.pending_interrupt(owner, conversation_id).await?;
        let Some(pending) =
            pending.filter(|one| agent_id.is_none_or(|id| one.agent_id.as_str() == id.as_str()))
        else {
            return Ok(None);
        };
        Ok((!self.inner.expire(&pending).await?).then_some(pending))
    }

    /// The pending interrupts of an owner, newest first, at most 500. Those that have expired are marked so and left
    /// out.
    ///
    /// # Errors
    /// A store that cannot serve.
    pub async fn pending_interrupts(&self, owner: &Owner) -> Result<Vec<Interrupt>, Error> {
        let mut open = Vec::new();
        for pending in self.inner.store.pending_interrupts(owner, LISTED).await? {
            if !self.inner.expire(&pending).await? {
                open.push(pending);
            }
        }
        Ok(open)
    }

    /// The interrupt of a run, whatever became of it.
    ///
    /// # Errors
    /// An unknown run, another owner's included, a run without an interrupt, or a store that cannot serve.
    pub async fn interrupt(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Interrupt, Error> {
        let interrupt = self.inner.store.interrupt(owner, run_id).await?;
        if self.inner.expire(&interrupt).await? {
            return Ok(self.inner.store.interrupt(owner, run_id).await?);
        }
        Ok(interrupt)
    }

    /// Begins the next epoch of a conversation: its next run starts from the empty state, and nothing of the former
    /// epoch comes back. A pending interrupt is taken back.
    ///
    /// # Errors
    /// An unknown conversation, an active run, or a store that cannot serve.
    pub async fn clear(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<u64, Error> {
        hit(failpoint::CLEAR);
        let epoch = self.cleared(owner, conversation_id).await?;
        hit(failpoint::CLEAR_DONE);
        let inner = Arc::clone(&self.inner);
        let (owner, conversation_id) = (owner.clone(), conversation_id.clone().into_owned());
        // Housekeeping: what is not forgotten now is when the conversation is deleted.
        tokio::spawn(async move {
            let left = inner.store.stale_threads(&owner, &conversation_id, FORGOTTEN_AT_ONCE).await;
            let mut left = left.unwrap_or_default();
            left.retain(|thread| thread.epoch < epoch);
            let gone = forget(&inner, &owner, &conversation_id, left).await;
            if let Err(error) = inner.store.threads_forgotten(&gone).await {
                tracing::debug!(%error, "forgotten threads were not noted");
            }
        });
        Ok(epoch.value())
    }

    /// Deletes a conversation: its runs, events, results, interrupts, heads and keys, and what its workers keep of it.
    /// Waits for the workers, but not for long: a worker that cannot be had leaves its threads behind, which nothing
    /// refers to any more.
    ///
    /// # Errors
    /// An unknown conversation, an active run, or a store that cannot serve.
    pub async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted, Error> {
        hit(failpoint::DELETE);
        let (deleted, forgetting) = self.deleted(owner, conversation_id).await?;
        hit(failpoint::DELETE_DONE);
        if tokio::time::timeout(FORGETTING, forgetting).await.is_err() {
            tracing::warn!("the workers of a deleted conversation take long to forget it");
        }
        Ok(deleted)
    }
}

impl Engine {
    /// Begins the next epoch and records it, also when the caller goes away.
    async fn cleared(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Result<Epoch, Error> {
        self.inner.auditable()?;
        let (inner, owner) = (Arc::clone(&self.inner), owner.clone());
        let conversation_id = conversation_id.clone().into_owned();
        let done = tokio::spawn(Origin::carried(async move {
            let epoch = inner.store.clear_conversation(&owner, &conversation_id).await?;
            let act = Act::new(Action::ConversationCleared).owner(&owner).conversation(&conversation_id);
            inner.record(act).await;
            Ok(epoch)
        }));
        done.await.unwrap_or_else(|broken| Err(Error::Fault(broken.to_string())))
    }

    /// Deletes a conversation and records it, also when the caller goes away. The task that comes along has the workers
    /// forget it.
    async fn deleted(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<(Deleted, JoinHandle<()>), Error> {
        self.inner.auditable()?;
        let (inner, owner) = (Arc::clone(&self.inner), owner.clone());
        let conversation_id = conversation_id.clone().into_owned();
        let done = tokio::spawn(Origin::carried(async move {
            let erasing = inner.erasing.enter(&owner, &conversation_id);
            let deleted = inner.store.delete_conversation(&owner, &conversation_id).await?;
            inner.quotas.deleted();
            let act = Act::new(Action::ConversationDeleted).owner(&owner).conversation(&conversation_id);
            inner.record(act).await;
            let Deleted { runs, threads } = deleted.clone();
            let forgetting = tokio::spawn(async move {
                forget(&inner, &owner, &conversation_id, threads).await;
                erase(&inner, &owner, &conversation_id, runs).await;
                drop(erasing);
            });
            Ok((deleted, forgetting))
        }));
        done.await.unwrap_or_else(|broken| Err(Error::Fault(broken.to_string())))
    }
}

/// Has workers forget threads of a conversation, agent by agent and epoch by epoch. Returns the runs whose threads
/// are gone.
async fn forget(
    inner: &Inner,
    owner: &Owner,
    conversation_id: &ConversationId<'static>,
    threads: Vec<StaleThread>,
) -> Vec<RunId<'static>> {
    let mut gone = Vec::new();
    let mut places: BTreeMap<(String, u64, usize), Vec<StaleThread>> = BTreeMap::new();
    for (at, thread) in threads.into_iter().enumerate() {
        let part = at / FORGOTTEN_AT_ONCE; // so that a request fits into a line, however long the conversation was
        let place = (thread.agent_id.as_str().to_owned(), thread.epoch.value(), part);
        places.entry(place).or_default().push(thread);
    }
    for ((agent_id, epoch, _part), threads) in places {
        let (Ok(agent), Some(last)) = (inner.agents.agent(&agent_id), threads.last()) else { continue };
        let turn = Turn {
            agent_id: agent.config.id.clone(),
            owner: owner.clone(),
            conversation_id: conversation_id.clone(),
            epoch,
            run_id: last.run_id.clone(),
            thread_id: Arc::clone(&last.worker_thread),
            base: None,
            input: TurnInput::Resume("null".to_owned()),
            traceparent: None,
            forget: threads.iter().map(|thread| Arc::clone(&thread.worker_thread)).collect(),
            tools: None,
        };
        if agent.harness.forget(turn).await {
            gone.extend(threads.into_iter().map(|thread| thread.run_id));
        } else {
            tracing::debug!(agent = %agent.config.id, epoch, "a harness keeps threads that nothing refers to");
        }
    }
    gone
}

/// Has the files of workers deleted that are known to be the conversation's, agent by agent.
async fn erase(
    inner: &Inner,
    owner: &Owner,
    conversation_id: &ConversationId<'static>,
    runs: Vec<DeletedRun>,
) {
    let mut agents: BTreeMap<String, Vec<DeletedRun>> = BTreeMap::new();
    for run in runs {
        agents.entry(run.agent_id.as_str().to_owned()).or_default().push(run);
    }
    for (agent_id, runs) in agents {
        let Ok(agent) = inner.agents.agent(&agent_id) else { continue };
        if !agent.harness.erase(owner, conversation_id, &runs).await {
            tracing::debug!(agent = %agent.config.id, "a harness keeps files of a deleted conversation");
        }
    }
}

impl Inner {
    /// Marks a pending interrupt whose time is over. Returns whether its time is over.
    pub(crate) async fn expire(&self, interrupt: &Interrupt) -> Result<bool, Error> {
        let over = interrupt.summary.status == InterruptStatus::Pending
            && !interrupt.summary.is_open_at(clock::now().unix_millis());
        if over {
            expiry::mark(&self.store, &interrupt.run_id).await?;
        }
        Ok(over)
    }
}

async fn resume(inner: &Arc<Inner>, request: AnswerRun) -> Result<Started, Error> {
    let driven = Driven::count_in(inner);
    if inner.draining.load(Ordering::SeqCst) {
        return Err(Error::ShuttingDown);
    }
    inner.auditable()?;
    let interrupt = inner.store.interrupt(&request.owner, &request.run_id).await?;
    addressed(&request, &interrupt)?;
    inner.expire(&interrupt).await?;
    let agent = inner.agents.agent(interrupt.agent_id.as_str())?;
    let open = still_open(&interrupt);
    if request.idempotency_key.is_none() {
        open.clone()?;
    }
    let asked = asked(&interrupt)?;
    answer::check(&asked.request, &request.answer, &agent.config.limits)?;
    let private = interrupt.snapshot.as_str();
    let value = agent.translator.resume_value(private, &request.answer)?;
    let edits = agent.translator.edits(private, &request.answer);
    answer::check_edits(&asked.request, &edits, &agent.config.schemas, &agent.config.limits)?;
    // An answer must not be used up for want of a worker. Where it is too late, the store knows whether it is the same.
    let run_id = clock::new_run_id();
    let conversation_id = &interrupt.conversation_id;
    let claim = match agent.harness.admit(&Ask { owner: &request.owner, conversation_id, run_id: &run_id }) {
        Ok(claim) => claim,
        Err(why) if open.is_ok() => return Err(Error::no_room(&agent.config.id, why)),
        Err(_) => Claim::default(),
    };
    let remains = remains(inner, &interrupt).await?;
    let seed = remains.seed(&request.answer).to_json();
    let turn = AdapterTurn::Resume(Resume {
        open_calls: remains.open_calls,
        delegations: remains.delegations,
        answer: Some(request.answer.clone()),
        private: Some(private.to_owned()),
    });
    let idempotency = request
        .idempotency_key
        .as_ref()
        .map(|key| Idempotency { key: Arc::clone(key), body_hash: answer::hash(&request) });
    let shown = if agent.config.redact_content {
        answer::redacted(&request.answer, &agent.config.limits)
    } else {
        request.answer
    };
    let (owner, route) = (request.owner.clone(), request.route);
    let decided = answer::in_short(&shown);
    let plan = Plan {
        run_id,
        claim,
        owner: request.owner,
        conversation_id: interrupt.conversation_id,
        turn,
        request: Payload::from(answer::request_json(&shown)),
        seed: Some(Payload::from(seed)),
        idempotency,
        input: TurnInput::Resume(value),
        traceparent: request.traceparent,
        answers: Some(Consumed {
            interrupted: request.run_id,
            interrupt_id: request.interrupt_id,
            revision: request.revision,
            decided,
            record: Box::new(move |at: &Timestamp<'_>| {
                Payload::from(answer::record_json(&owner, route, &shown, at))
            }),
        }),
    };
    start::begin(inner, driven, agent, plan).await
}

/// Whether the answer names this interrupt. The store asks again, inside the transaction.
fn addressed(request: &AnswerRun, interrupt: &Interrupt) -> Result<(), Refusal> {
    let summary = &interrupt.summary;
    if summary.interrupt_id != request.interrupt_id {
        return Err(Refusal::NoInterrupt);
    }
    if summary.revision != request.revision {
        return Err(Refusal::RevisionMismatch { expected: summary.revision, found: request.revision });
    }
    Ok(())
}

/// What can be told without looking at the answer: it is too late for any.
fn still_open(interrupt: &Interrupt) -> Result<(), Refusal> {
    match (&interrupt.resumed_by, interrupt.summary.is_open_at(clock::now().unix_millis())) {
        (Some(resumed_by), _) => Err(Refusal::InterruptConsumed { resumed_by: resumed_by.clone() }),
        (None, true) => Ok(()),
        (None, false) => Err(match interrupt.summary.status {
            InterruptStatus::Pending | InterruptStatus::Expired => Refusal::InterruptExpired,
            InterruptStatus::Consumed | InterruptStatus::Voided => Refusal::InterruptClosed,
        }),
    }
}

fn asked(interrupt: &Interrupt) -> Result<InterruptRequested<'_>, Error> {
    match decode_data(EventType::InterruptRequested, interrupt.request.as_str(), &WIDE) {
        Ok(EventData::InterruptRequested(requested)) => Ok(requested),
        Ok(_) | Err(_) => {
            Err(Error::Fault(format!("the stored interrupt of run {} cannot be read", interrupt.run_id)))
        }
    }
}

/// What the interrupted run left open, from its log.
async fn remains(inner: &Inner, interrupt: &Interrupt) -> Result<Remains, Error> {
    let mut remains = Remains::new();
    let mut after: Option<Sequence> = None;
    loop {
        let page = inner.store.read_owned(&interrupt.owner, &interrupt.run_id, after, PAGE).await?;
        let Some(last) = page.records.last() else { return Ok(remains) };
        after = Some(last.sequence);
        for record in &page.records {
            let event =
                record.decode(&interrupt.run_id, &interrupt.conversation_id, &WIDE).map_err(|error| {
                    tracing::error!(run_id = %interrupt.run_id, %error, "the log of this run is damaged");
                    Error::Fault(format!("the log of run {} is damaged", interrupt.run_id))
                })?;
            remains.see(&event, &WIDE);
        }
    }
}
