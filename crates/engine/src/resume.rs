//! Answering an interrupt: the check, the transaction that consumes it and opens the resumed run, and what stands
//! around it: reading, taking back and expiring interrupts, clearing and deleting conversations.
//!
//! Refuses to start anything but from the committed head, and anything that the answer does not fit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use causeway_adapter::Turn as AdapterTurn;
use causeway_adapter::turn::Resume;
use causeway_contract::decode::decode_data;
use causeway_contract::event::{EventData, EventType, InterruptRequested, Sequence};
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_store::Refusal;
use causeway_store::model::{Deleted, Idempotency, Interrupt, InterruptStatus, Owner, Withdrawal};
use causeway_store::record::Payload;

use crate::answer::{self, AnswerRun};
use crate::clock;
use crate::coordinator::seed::Remains;
use crate::engine::{Engine, Inner, Started};
use crate::error::Error;
use crate::harness::TurnInput;
use crate::repair::{PAGE, WIDE};
use crate::start::{self, Consumed, Driven, Plan};

/// How many pending interrupts are listed at most.
const LISTED: usize = 500;

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
        let resumed = tokio::spawn(async move { resume(&inner, answer).await });
        resumed.await.unwrap_or_else(|broken| Err(Error::Fault(broken.to_string())))
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
        Ok(self.inner.store.clear_conversation(owner, conversation_id).await?.value())
    }

    /// Deletes a conversation: its runs, events, results, interrupts, heads and keys.
    ///
    /// # Errors
    /// An unknown conversation, an active run, or a store that cannot serve.
    pub async fn delete_conversation(
        &self,
        owner: &Owner,
        conversation_id: &ConversationId<'_>,
    ) -> Result<Deleted, Error> {
        Ok(self.inner.store.delete_conversation(owner, conversation_id).await?)
    }
}

impl Inner {
    /// Marks a pending interrupt whose time is over. Returns whether its time is over.
    pub(crate) async fn expire(&self, interrupt: &Interrupt) -> Result<bool, Error> {
        let over = interrupt.summary.status == InterruptStatus::Pending
            && !interrupt.summary.is_open_at(clock::now().unix_millis());
        if over && self.store.void_interrupt(&interrupt.run_id, Withdrawal::Expired).await? {
            tracing::info!(run_id = %interrupt.run_id, "an interrupt has expired");
        }
        Ok(over)
    }
}

async fn resume(inner: &Arc<Inner>, request: AnswerRun) -> Result<Started, Error> {
    let driven = Driven::count_in(inner);
    if inner.draining.load(Ordering::SeqCst) {
        return Err(Error::ShuttingDown);
    }
    let interrupt = inner.store.interrupt(&request.owner, &request.run_id).await?;
    addressed(&request, &interrupt)?;
    inner.expire(&interrupt).await?;
    let agent = Arc::clone(inner.agent(interrupt.agent_id.as_str())?);
    let may_be_known = request.idempotency_key.is_some();
    if !may_be_known {
        still_open(&interrupt)?;
    }
    let asked = asked(&interrupt)?;
    answer::check(&asked.request, &request.answer, &agent.config.limits)?;
    let private = interrupt.snapshot.as_str();
    let value = agent.translator.resume_value(private, &request.answer)?;
    if !may_be_known && !agent.harness.has_room() {
        return Err(Error::AtCapacity { id: agent.config.id.to_string() });
    }
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
    let plan = Plan {
        owner: request.owner.clone(),
        conversation_id: interrupt.conversation_id,
        turn,
        request: Payload::from(answer::request_json(&request.answer)),
        seed: Some(Payload::from(seed)),
        idempotency,
        input: TurnInput::Resume(value),
        traceparent: request.traceparent.clone(),
        answers: Some(Consumed {
            interrupted: request.run_id.clone(),
            interrupt_id: request.interrupt_id.clone(),
            revision: request.revision,
            record: Box::new(move |at: &Timestamp<'_>| Payload::from(answer::record_json(&request, at))),
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
        (None, false) => Err(Refusal::InterruptClosed),
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
        let page = inner.store.read_after(&interrupt.run_id, after, PAGE).await?;
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
