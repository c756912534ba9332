//! The engine as one caller sees it: every verb names the caller's owner, and agents that are not for the caller are not there.
//!
//! Refuses a lookup by id alone. Whatever a route asks of a run, a conversation, an interrupt, a result or a stream goes
//! through here; the owner is part of the store's own query.

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};
use causeway_engine::config::AgentConfig;
use causeway_engine::engine::{Cancelled, StartRun, Started};
use causeway_engine::inspect::Findings;
use causeway_engine::quota::StreamPlace;
use causeway_engine::{AnswerRun, Engine, Error, Subscription};
use causeway_store::model::{Cursor, Deleted, Interrupt, Page, Run, RunFilter, RunPage};

use crate::auth::Caller;

/// What one caller can do. See the methods of [`Engine`] with the same names.
pub struct Scope<'a> {
    engine: &'a Engine,
    caller: &'a Caller,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(engine: &'a Engine, caller: &'a Caller) -> Self {
        Self { engine, caller }
    }

    /// The agents that are for this caller.
    pub fn agents(&self) -> Vec<Arc<AgentConfig>> {
        let mut all = self.engine.agents();
        all.retain(|agent| self.caller.sees(agent.id.as_str()));
        all
    }

    /// Whether there is such an agent for this caller.
    ///
    /// # Errors
    /// [`Error::UnknownAgent`], whether it is none or not theirs.
    pub fn agent(&self, id: &str) -> Result<(), Error> {
        let there = self.engine.agents().iter().any(|agent| agent.id.as_str() == id);
        if there && self.caller.may_use(id) {
            return Ok(());
        }
        Err(Error::UnknownAgent { id: id.to_owned() })
    }

    /// Starts a run, for this caller whoever `start` names.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub async fn start(&self, start: StartRun) -> Result<Started, Error> {
        self.agent(start.agent_id.as_str())?;
        self.engine.start(StartRun { owner: self.caller.owner().clone(), ..start }).await
    }

    /// Answers an interrupt, for this caller whoever `answer` names.
    ///
    /// # Errors
    /// As [`Engine::resume`]; an agent that is no longer for this caller cannot be resumed.
    pub async fn resume(&self, answer: AnswerRun) -> Result<Started, Error> {
        let owner = self.caller.owner();
        let run = self.engine.run(owner, &answer.run_id).await?;
        let agent = run.agent_id.as_str();
        if !self.caller.may_use(agent) {
            return Err(Error::UnknownAgent { id: agent.to_owned() });
        }
        self.engine.resume(AnswerRun { owner: owner.clone(), ..answer }).await
    }

    /// Cancels a run, or takes back its interrupt.
    ///
    /// # Errors
    /// As [`Engine::cancel_run`].
    pub async fn cancel_run(&self, run_id: &RunId<'_>) -> Result<Cancelled, Error> {
        self.engine.cancel_run(self.caller.owner(), run_id).await
    }

    /// A run.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn run(&self, run_id: &RunId<'_>) -> Result<Run, Error> {
        self.engine.run(self.caller.owner(), run_id).await
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// As [`Engine::runs`].
    pub async fn runs(
        &self,
        filter: &RunFilter,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<RunPage, Error> {
        self.engine.runs(self.caller.owner(), filter, limit, cursor).await
    }

    /// Events after a cursor; waits no longer than the caller's credential lasts.
    ///
    /// # Errors
    /// As [`Engine::events`].
    pub async fn events(
        &self,
        run_id: &RunId<'_>,
        after: Option<Sequence>,
        limit: usize,
        wait: Duration,
    ) -> Result<Page, Error> {
        let left =
            self.caller.until().map(|until| until.saturating_duration_since(tokio::time::Instant::now()));
        let wait = left.map_or(wait, |left| left.min(wait));
        self.engine.events(self.caller.owner(), run_id, after, limit, wait).await
    }

    /// Starts a run and follows it as a client that counts. A place for the stream is taken first: nothing is begun that
    /// could not be shown.
    ///
    /// # Errors
    /// As [`start`](Self::start) and [`Engine::stream`].
    pub async fn start_stream(&self, start: StartRun) -> Result<Subscription, Error> {
        self.agent(start.agent_id.as_str())?;
        let place = self.engine.stream(self.caller.owner(), &start.agent_id)?;
        let started = self.start(start).await?;
        self.follow(&started, place).await
    }

    /// Answers an interrupt and follows the run that goes on, as [`start_stream`](Self::start_stream).
    ///
    /// # Errors
    /// As [`resume`](Self::resume) and [`Engine::stream`].
    pub async fn resume_stream(&self, answer: AnswerRun) -> Result<Subscription, Error> {
        let run = self.engine.run(self.caller.owner(), &answer.run_id).await?;
        let place = self.engine.stream(self.caller.owner(), &run.agent_id)?;
        let started = self.resume(answer).await?;
        self.follow(&started, place).await
    }

    async fn follow(&self, started: &Started, place: StreamPlace) -> Result<Subscription, Error> {
        let subscription = self.engine.subscribe_client(self.caller.owner(), &started.run_id, None).await?;
        Ok(subscription.holding(place))
    }

    /// Follows a run.
    ///
    /// # Errors
    /// As [`Engine::subscribe`] and [`Engine::stream`].
    pub async fn subscribe(&self, run: &Run, after: Option<Sequence>) -> Result<Subscription, Error> {
        let owner = self.caller.owner();
        let place = self.engine.stream(owner, &run.agent_id)?;
        Ok(self.engine.subscribe(owner, &run.run_id, after).await?.holding(place))
    }

    /// Follows a run as a client that counts.
    ///
    /// # Errors
    /// As [`Engine::subscribe_client`] and [`Engine::stream`].
    pub async fn subscribe_client(&self, run: &Run, after: Option<Sequence>) -> Result<Subscription, Error> {
        let owner = self.caller.owner();
        let place = self.engine.stream(owner, &run.agent_id)?;
        Ok(self.engine.subscribe_client(owner, &run.run_id, after).await?.holding(place))
    }

    /// The whole of a tool result.
    ///
    /// # Errors
    /// As [`Engine::result`].
    pub async fn result(&self, run_id: &RunId<'_>, reference: &Reference<'_>) -> Result<Arc<[u8]>, Error> {
        self.engine.result(self.caller.owner(), run_id, reference).await
    }

    /// What the rules say about a run.
    ///
    /// # Errors
    /// As [`Engine::findings`].
    pub async fn findings(&self, run_id: &RunId<'_>) -> Result<Findings, Error> {
        self.engine.findings(self.caller.owner(), run_id).await
    }

    /// The pending interrupt of a conversation.
    ///
    /// # Errors
    /// As [`Engine::pending_interrupt`].
    pub async fn pending_interrupt(
        &self,
        conversation_id: &ConversationId<'_>,
        agent_id: Option<&Name<'_>>,
    ) -> Result<Option<Interrupt>, Error> {
        self.engine.pending_interrupt(self.caller.owner(), conversation_id, agent_id).await
    }

    /// Every pending interrupt.
    ///
    /// # Errors
    /// As [`Engine::pending_interrupts`].
    pub async fn pending_interrupts(&self) -> Result<Vec<Interrupt>, Error> {
        self.engine.pending_interrupts(self.caller.owner()).await
    }

    /// Begins the next epoch of a conversation.
    ///
    /// # Errors
    /// As [`Engine::clear`].
    pub async fn clear(&self, conversation_id: &ConversationId<'_>) -> Result<u64, Error> {
        self.engine.clear(self.caller.owner(), conversation_id).await
    }

    /// Deletes a conversation.
    ///
    /// # Errors
    /// As [`Engine::delete_conversation`].
    pub async fn delete_conversation(&self, conversation_id: &ConversationId<'_>) -> Result<Deleted, Error> {
        self.engine.delete_conversation(self.caller.owner(), conversation_id).await
    }
}
