//! The interface of harness drivers: a turn goes in, native items come out.
//!
//! Refuses translation: items are bytes here, the adapter reads them. A driver never talks to store or client.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use causeway_adapter::worker::ToolLine;
use causeway_contract::id::{ConversationId, Name, Reference, RunId};

use causeway_store::model::{DeletedRun, Owner};

use crate::failure::Failure;

/// Starts turns of one agent. One value serves all runs of the agent.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Called once, before the engine recovers: ends whatever a killed gateway left running. When it returns, none
    /// of it is running any more. An agent that comes while the engine runs is not asked.
    ///
    /// # Errors
    /// A sentence for the operator, without secrets. The engine then does not open: a worker that may still be
    /// running could write behind the back of recovery.
    async fn reap(&self) -> Result<(), String> {
        Ok(())
    }

    /// Begins a turn. Returns at once: whatever takes time (a worker's start), and every failure of it, comes
    /// through [`Session::next`].
    fn begin(&self, turn: Turn) -> Box<dyn Session>;

    /// Asks for a worker for a turn before its run is opened: where there will be none, the start is refused and there is
    /// no run. The claim is kept until the turn is over, however it ends; dropping it gives back what the turn did not take up.
    ///
    /// # Errors
    /// Why there will be none. A turn that is begun without a claim may find none either; it fails with
    /// [`Failure::Capacity`] or [`Failure::HarnessUnavailable`].
    fn admit(&self, ask: &Ask<'_>) -> Result<Claim, NoRoom> {
        let _ = ask;
        Ok(Claim::default())
    }

    /// How long a cancelled turn gets to hand over its state before it is stopped by force.
    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// How many worker processes there are and were.
    fn workers(&self) -> Workers {
        Workers::default()
    }

    /// Drops the threads of a conversation that was deleted: those of [`Turn::forget`]. The rest of `turn` says where
    /// they are; it is never begun. Returns whether they are gone.
    async fn forget(&self, turn: Turn) -> bool {
        let _ = turn;
        false
    }

    /// Deletes the files that are known to hold what workers keep of a conversation that was deleted with these runs, all of
    /// this agent, once those that are idle have left. Returns whether they are gone; where none are known, they are.
    async fn erase(&self, owner: &Owner, conversation_id: &ConversationId<'_>, runs: &[DeletedRun]) -> bool {
        let _ = (owner, conversation_id, runs);
        true
    }

    /// The agent was replaced or taken out: no turn begins but of runs that were opened before. Idle workers leave now, others
    /// behind their turns. Does not wait; [`shutdown`](Self::shutdown) follows when the last of these runs is over.
    fn retire(&self) {}

    /// Lets idle workers go and waits for them, at most `grace`; what is left then is killed. Called when no turn runs any
    /// more; a second call finds nothing to do.
    async fn shutdown(&self, grace: Duration) {
        let _ = grace;
    }
}

/// A turn for which a worker is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Whose conversation it is.
    pub owner: &'a Owner,
    /// The conversation: a worker that it has need not be started.
    pub conversation_id: &'a ConversationId<'static>,
    /// The run that is about to be opened; [`Turn::run_id`] will be the same.
    pub run_id: &'a RunId<'static>,
}

/// A turn's claim to a worker. Dropping it gives back what the turn did not take up.
#[derive(Default)]
pub struct Claim {
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Claim {
    /// One that is given back by dropping this.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self { guard: Some(Box::new(guard)) }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("guarded", &self.guard.is_some()).finish()
    }
}

/// Why a turn would find no worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoRoom {
    /// All workers are busy, and no more turns may wait for one.
    Busy,
    /// The last workers did not start, so none is tried for a while.
    Unavailable {
        /// After this one is tried again.
        retry_after: Duration,
    },
}

/// Worker processes of an agent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Workers {
    /// Those that exist now.
    pub running: usize,
    /// How many were started.
    pub started: u64,
    /// How many of them for a conversation whose worker before died, or had to be ended by force.
    pub restarted: u64,
    /// Turns that wait for one.
    pub waiting: usize,
    /// Turns that got none.
    pub refused: Refused,
    /// Whether starts are tried.
    pub circuit: Circuit,
}

/// How many turns got no worker.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Refused {
    /// All were busy, and the queue was full.
    pub full: u64,
    /// They waited in vain.
    pub late: u64,
    /// None was tried, since the last did not start.
    pub unavailable: u64,
}

/// Whether workers are started.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Circuit {
    /// They are.
    #[default]
    Closed,
    /// The last did not start; one is being tried, or the next will be.
    HalfOpen,
    /// The last did not start, and none is tried for a while.
    Open,
}

impl Workers {
    /// Those of two harnesses together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            running: self.running + other.running,
            started: self.started + other.started,
            restarted: self.restarted + other.restarted,
            waiting: self.waiting + other.waiting,
            refused: Refused {
                full: self.refused.full + other.refused.full,
                late: self.refused.late + other.refused.late,
                unavailable: self.refused.unavailable + other.refused.unavailable,
            },
            circuit: self.circuit.max(other.circuit),
        }
    }

    /// What is to be counted of them when they are gone.
    pub(crate) fn gone(self) -> Self {
        Self { running: 0, waiting: 0, circuit: Circuit::Closed, ..self }
    }
}

/// What a driver needs to know to start a turn.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Turn {
    /// The agent.
    pub agent_id: Name<'static>,
    /// Whose conversation it is: two owners may give theirs the same id.
    pub owner: Owner,
    /// The conversation.
    pub conversation_id: ConversationId<'static>,
    /// The conversation's epoch: `clear` begins the next one, which shares nothing with the one before.
    pub epoch: u64,
    /// The run.
    pub run_id: RunId<'static>,
    /// The worker's thread for this run: new for every run, printable, at most 200 bytes.
    pub thread_id: Arc<str>,
    /// The committed state to start from; `None` is the empty one.
    pub base: Option<Reference<'static>>,
    /// What is asked.
    pub input: TurnInput,
    /// W3C trace context, where there is one.
    pub traceparent: Option<String>,
    /// Threads that nothing will start from again; see [`Session::forgot`].
    pub forget: Vec<Arc<str>>,
    /// The tools that the engine runs for the worker; `None`: there are none.
    pub tools: Option<Offer>,
}

/// Tools that a worker may ask for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    /// What the worker says with every call: it tells one that has the run from one that had it.
    pub generation: u64,
    /// Their names.
    pub names: Arc<[String]>,
}

/// What a turn is asked.
#[derive(Clone, Eq, PartialEq)]
pub enum TurnInput {
    /// A message of the user.
    Message {
        /// Its text.
        text: String,
        /// A JSON object for the harness's context, as text.
        context: Option<String>,
        /// A JSON object from path to text, as text.
        files: Option<String>,
    },
    /// The answer to a pause: the harness's own resume value, as JSON text.
    Resume(String),
}

/// Shows what kind of input it is, never what it says.
impl fmt::Debug for TurnInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { text, .. } => write!(f, "Message(<{} bytes>)", text.len()),
            Self::Resume(value) => write!(f, "Resume(<{} bytes>)", value.len()),
        }
    }
}

/// One turn of a harness. Dropping it stops the turn.
#[async_trait]
pub trait Session: Send {
    /// The next native item. Not calling it is the back-pressure: a driver reads no further than it is asked to,
    /// but for a small bounded buffer. Safe to drop and call again. After [`Item::End`] it is not called again.
    async fn next(&mut self) -> Item;

    /// Asks the harness to leave the turn; what it still says, and the end, come through [`next`](Self::next).
    /// Legal at any time, also before the worker has started and after the end; does not wait.
    fn cancel(&mut self);

    /// Says something to the worker about a tool that it asked for; does not wait, and nobody is told whether it was heard.
    fn reply(&mut self, line: Vec<u8>) {
        let _ = line;
    }

    /// Ends the turn by force. When it returns nothing of the turn runs any more.
    async fn stop(&mut self);

    /// Whether the worker was told to forget the threads of [`Turn::forget`]. Asked after the end.
    fn forgot(&self) -> bool {
        false
    }

    /// What an operator may want to know of a turn that failed. Asked at most once, after the end.
    async fn trouble(&mut self) -> Trouble {
        Trouble::default()
    }
}

/// What is known of a turn that failed: for the operator's log, so no word of what was said in it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trouble {
    /// The name of the harness's own error: letters, digits, `_` and `.`, at most 64 bytes.
    pub error_type: Option<String>,
    /// The file that holds the end of what the worker wrote to stderr, where it wrote anything.
    pub stderr: Option<PathBuf>,
}

/// What a turn gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// One native item without its line break, closing records included.
    Line(Vec<u8>),
    /// A tool that the worker asks for; it comes only where one was offered.
    Tool(ToolLine),
    /// Nothing more will come.
    End(TurnEnd),
}

/// How a native stream ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TurnEnd {
    /// With its closing record, or the regular end of what carries it.
    Regular,
    /// The transport broke, or the process died.
    Broken,
    /// For a reason that the driver recognised, e.g. a worker that does not start or an oversized line.
    Failed(Failure),
}
