//! What the gate wants done, done: told, written down, invoked, answered.
//!
//! Refuses to invoke before the start is in the log, and asks the store once more, right before, whether the run is still
//! this gateway's. What still runs when the run is left is ended.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use causeway_adapter::worker::ToolLine;
use causeway_contract::id::RunId;
use causeway_store::model::Generation;
use causeway_store::{Error, Store};
use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, Instant};

use super::Drive;
use crate::coordinator::{Signal, Stage};
use crate::failpoint::{self, hit};
use crate::gate::invoke::{Call, Failed, Returned};
use crate::gate::machine::{Effect, Input, Loss};
use crate::gate::{FAILED, Tools};
use crate::repair::backoff;

/// Calls of a run that are invoked at the same time; more wait.
const AT_ONCE: usize = 8;

/// The invocations of a run.
#[derive(Debug)]
pub(super) struct Invocations {
    running: JoinSet<(String, Ran)>,
    by_call: HashMap<String, AbortHandle>,
    room: Arc<Semaphore>,
}

/// What became of an invocation.
#[derive(Debug)]
pub(super) enum Ran {
    /// It was made.
    Returned(Returned),
    /// It was not.
    Lost(Loss),
}

impl Invocations {
    pub fn new() -> Self {
        Self { running: JoinSet::new(), by_call: HashMap::new(), room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The next one that is over. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<(String, Ran)> {
        loop {
            // One that was ended is waited for by nobody.
            if let Ok((id, ran)) = self.running.join_next().await? {
                self.by_call.remove(&id);
                return Some((id, ran));
            }
        }
    }

    /// Ends all of them; when it returns none of them runs.
    pub async fn end(&mut self) {
        self.by_call.clear();
        self.running.shutdown().await;
    }
}

/// What takes time.
enum Later {
    Keep(causeway_adapter::adapter::WholeResult),
    Record(String),
}

impl Drive {
    /// The worker asks for a tool.
    pub(super) async fn asked(&mut self, line: ToolLine) {
        self.pump().await; // what was told before comes before
        self.gated(Input::Asked(line)).await;
    }

    /// An invocation is over.
    pub(super) async fn ran(&mut self, id: String, ran: Ran) {
        if let Ran::Returned(Returned::Failed(Failed { code, why, .. })) = &ran {
            let (run_id, call_id, why) = (&self.run_id, id.as_str(), why.as_deref());
            tracing::warn!(%run_id, call_id, code, why, "a tool failed");
        }
        let input = match ran {
            Ran::Returned(returned) => Input::Returned(id, returned),
            Ran::Lost(loss) => Input::Lost(id, loss),
        };
        self.gated(input).await;
    }

    /// Nothing is invoked any more; what runs is ended, at once.
    pub(super) fn leave_tools(&mut self) {
        let mut effects = Vec::new();
        self.gate.apply(Input::Left, &mut effects);
        self.heed(effects);
    }

    async fn gated(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.gate.apply(input, &mut effects);
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match self.perform_gate(effect) {
                None => {}
                Some(Later::Keep(whole)) => self.keep_result(whole).await,
                Some(Later::Record(id)) => {
                    self.pump().await;
                    let input = match self.recorded().await {
                        None => Input::Recorded(id),
                        Some(loss) => Input::Lost(id, loss),
                    };
                    let mut more = Vec::new();
                    self.gate.apply(input, &mut more);
                    effects.extend(more);
                }
            }
        }
        self.pump().await;
    }

    /// Performs what takes no time; the gate wants nothing else where this is called.
    pub(super) fn heed(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.perform_gate(effect).is_some() {
                tracing::error!(run_id = %self.run_id, "the gate wants what cannot be done now");
            }
        }
    }

    fn perform_gate(&mut self, effect: Effect) -> Option<Later> {
        match effect {
            Effect::Tell(told) => {
                if let Err(error) = self.adapter.tell(told) {
                    self.refuse(&error);
                }
            }
            Effect::Invoke(call) => self.invoke(call),
            Effect::Abort(id) => {
                if let Some(invocation) = self.invocations.by_call.remove(&id) {
                    invocation.abort();
                }
            }
            Effect::Reply(line) => self.session.reply(line),
            Effect::Keep(whole) => return Some(Later::Keep(whole)),
            Effect::Record(id) => return Some(Later::Record(id)),
        }
        None
    }

    /// Waits until everything that was told is durable. Gives the reason where it is not, or the run does not go on.
    async fn recorded(&mut self) -> Option<Loss> {
        self.perform().await;
        if self.coordinator.stage() != Stage::Streaming {
            return Some(Loss::Left);
        }
        if !self.flush().await {
            self.tell(Signal::AppendFailed);
            return Some(Loss::NotRecorded);
        }
        hit(failpoint::TOOL_RECORDED);
        None
    }

    fn invoke(&mut self, call: Call) {
        let id = call.call_id.clone();
        let (store, tools) = (Arc::clone(&self.inner.store), Arc::clone(&self.agent.tools));
        let (run_id, generation) = (self.run_id.clone(), self.generation);
        let (room, patience) = (Arc::clone(&self.invocations.room), self.inner.settings.store_patience);
        let invocation = self.invocations.running.spawn(async move {
            let id = call.call_id.clone();
            let ran = async {
                let Ok(_place) = room.acquire().await else { return Ran::Lost(Loss::Left) };
                if !holds(&store, &run_id, generation, patience).await {
                    return Ran::Lost(Loss::Stale);
                }
                hit(failpoint::TOOL_INVOKE);
                let ran = invoke(&tools, &call).await;
                hit(failpoint::TOOL_INVOKED);
                Ran::Returned(ran)
            };
            let ran = AssertUnwindSafe(ran).catch_unwind().await;
            let broken = || Failed::new(FAILED, "The gateway broke down while the tool ran.");
            (id, ran.unwrap_or_else(|_panic| Ran::Returned(broken().into())))
        });
        self.invocations.by_call.insert(id, invocation);
    }
}

async fn invoke(tools: &Tools, call: &Call) -> Returned {
    match tools.get(&call.tool) {
        Some(tool) => tool.invoker.invoke(call).await,
        None => Failed::new(FAILED, "The gateway runs no tool of this name.").into(),
    }
}

/// Whether the run is still ours to act for. Where nobody can say, it is not.
async fn holds(
    store: &Arc<dyn Store>,
    run_id: &RunId<'static>,
    generation: Generation,
    patience: Duration,
) -> bool {
    let until = Instant::now() + patience;
    let mut tries = 0;
    loop {
        match store.holds(run_id, generation).await {
            Ok(()) => return true,
            Err(Error::Unavailable(_) | Error::Unknown(_)) if Instant::now() < until => {}
            Err(error) => {
                tracing::warn!(%run_id, %error, "a tool is not run: the run is not ours, or nobody can say");
                return false;
            }
        }
        tokio::time::sleep(backoff(tries)).await;
        tries += 1;
    }
}
