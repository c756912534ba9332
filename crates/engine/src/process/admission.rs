//! Who gets a worker of one agent, who waits for one, and who is turned away: decided here, done by `desk` and `pool`.
//!
//! Refuses clocks, tasks and processes: `now` comes in with every input, and what follows from it is asked with [`Admission::poll`].
//!
//! ```text
//!  claim ──▶ claimed ──join──▶ waiting ──poll──▶ a place: at work ⇄ idle, or leaving ──give_back──▶ (gone)
//!    │          │                 └─poll──▶ (gone): waited too long, the circuit is open, or closing
//!    │          └─serve──▶ (gone): an idle worker of its own conversation takes the turn
//!    └─▶ (turned away): no place, none that comes back by itself, and the queue is full; or the circuit is open
//!
//!  circuit:   closed ──`failures` starts in a row failed──▶ open ──after `open_for`, the next start──▶ trying
//!               ▲ any start that did not fail                 ▲                                           │
//!               └───────────────◀──── the tried one did not ──┼──── it failed, or was given up ◀──────────┘
//! ```
//!
//! **Invariants**, each held by a property: there are never more places than workers allowed; whoever joined first is answered
//! first; nobody waits while there is a place; claims that no worker will come back for by itself are at most the queue; an open
//! circuit lets nothing through but one start at a time, once its time is over.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::harness::{Circuit, Refused};

/// One turn's claim, and then its worker's place.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Ticket(u64);

/// What an agent may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Workers at once.
    pub places: usize,
    /// Turns that wait for one.
    pub queue: usize,
    /// How long a turn waits.
    pub patience: Duration,
    /// Failed starts in a row after which none is tried for a while; 0: however many fail, the next is tried.
    pub failures: u32,
    /// For how long none is tried.
    pub open_for: Duration,
}

/// Why a turn gets no worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Turned {
    #[error("all workers are busy and no more turns may wait for one; see max_workers and max_queue")]
    Full,
    #[error("no worker was free in time; see max_workers and queue_timeout")]
    Late,
    #[error("the last workers did not start, so none is tried for {retry_after:?}; see circuit_failures")]
    Unavailable { retry_after: Duration },
    #[error("the gateway is shutting down")]
    Closing,
}

/// What a worker does in its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Use {
    Work,
    Idle,
    Leaving,
}

/// Whether starts are tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Closed { failed: u32 },
    Open { until: Instant },
    Trying { ticket: Ticket },
}

/// What [`Admission::poll`] answers one that waits.
pub(crate) type Answer = Result<(), Turned>;

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    until: Instant,
}

/// Places, queue and circuit of one agent.
#[derive(Debug)]
pub(crate) struct Admission {
    bounds: Bounds,
    places: HashMap<Ticket, Use>,
    /// Of the places, those whose workers are idle, and those whose workers leave: nobody's turn has to end for them.
    idle: usize,
    leaving: usize,
    /// Turns whose runs are about to be opened.
    claimed: HashSet<Ticket>,
    queue: VecDeque<Waiting>,
    circuit: State,
    refused: Refused,
    next: u64,
    closing: bool,
}

/// When to come again while the outcome of a start decides.
const SOON: Duration = Duration::from_secs(1);

impl Admission {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            places: HashMap::new(),
            idle: 0,
            leaving: 0,
            claimed: HashSet::new(),
            queue: VecDeque::new(),
            circuit: State::Closed { failed: 0 },
            refused: Refused::default(),
            next: 0,
            closing: false,
        }
    }

    /// A claim for a turn. `kept`: its conversation has an idle worker, so that none need be started.
    pub fn claim(&mut self, now: Instant, kept: bool) -> Result<Ticket, Turned> {
        let ticket = Ticket(self.next);
        self.may_claim(now, kept, ticket).inspect_err(|turned| self.count(*turned))?;
        self.next += 1;
        self.claimed.insert(ticket);
        Ok(ticket)
    }

    /// A claim is to become a place; the answer comes from [`poll`](Self::poll). Returns when it comes at the latest.
    pub fn join(&mut self, now: Instant, ticket: Ticket) -> Instant {
        let until = after(now, self.bounds.patience);
        if self.claimed.remove(&ticket) {
            self.queue.push_back(Waiting { ticket, until });
        }
        until
    }

    /// The idle worker in `place` takes the turn of this claim.
    pub fn serve(&mut self, now: Instant, claim: Ticket, place: Ticket) {
        self.give_back(now, claim);
        self.set(place, Use::Work);
    }

    /// A worker's turn is over. Whether it may stay: it must leave where somebody waits for its place. One that waits for
    /// an answer makes room for nobody who came before it asked.
    pub fn rest(&mut self, place: Ticket, asked: bool) -> bool {
        let stays = !self.closing && (asked || self.queue.len() <= self.leaving);
        self.set(place, if stays { Use::Idle } else { Use::Leaving });
        stays
    }

    /// A worker was told to leave.
    pub fn leave(&mut self, place: Ticket) {
        self.set(place, Use::Leaving);
    }

    /// Gives back whatever the ticket holds.
    pub fn give_back(&mut self, now: Instant, ticket: Ticket) {
        self.claimed.remove(&ticket);
        self.queue.retain(|waiting| waiting.ticket != ticket);
        if let Some(used) = self.places.remove(&ticket) {
            self.discount(used);
        }
        if self.circuit == (State::Trying { ticket }) {
            self.circuit = State::Open { until: now }; // nobody knows, so the next one is tried
        }
    }

    /// A worker came up: whether the circuit closes with that.
    pub fn started(&mut self) -> bool {
        let was = std::mem::replace(&mut self.circuit, State::Closed { failed: 0 });
        !matches!(was, State::Closed { .. })
    }

    /// A worker did not come up: whether none is tried from now on.
    pub fn failed(&mut self, now: Instant, ticket: Ticket) -> bool {
        let opens = match self.circuit {
            State::Closed { failed } => {
                let failed = failed.saturating_add(1);
                self.circuit = State::Closed { failed };
                self.bounds.failures > 0 && failed >= self.bounds.failures
            }
            State::Trying { ticket: tried } => tried == ticket,
            State::Open { .. } => false, // it began before
        };
        if opens {
            self.circuit = State::Open { until: after(now, self.bounds.open_for) };
        }
        opens
    }

    /// Nobody gets a worker any more.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The next answer to one that waits, until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<(Ticket, Answer)> {
        let &Waiting { ticket, until } = self.queue.front()?;
        let answer = if self.closing {
            Err(Turned::Closing)
        } else if self.places.len() < self.bounds.places {
            self.pass(now, ticket)
        } else if until <= now {
            Err(Turned::Late)
        } else {
            return None;
        };
        self.queue.pop_front();
        match answer {
            Ok(()) => drop(self.places.insert(ticket, Use::Work)),
            Err(turned) => self.count(turned),
        }
        Some((ticket, answer))
    }

    /// Whether an idle worker has to make room for one that waits.
    pub fn wants_room(&self) -> bool {
        self.idle > 0 && self.queue.len() > self.leaving
    }

    /// Places that are held.
    pub fn taken(&self) -> usize {
        self.places.len()
    }

    /// Places whose workers were told to leave.
    pub fn leaving(&self) -> usize {
        self.leaving
    }

    /// Turns that wait for a place.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub fn refused(&self) -> Refused {
        self.refused
    }

    pub fn circuit(&self, now: Instant) -> Circuit {
        match self.circuit {
            State::Closed { .. } => Circuit::Closed,
            State::Open { until } if now < until => Circuit::Open,
            State::Open { .. } | State::Trying { .. } => Circuit::HalfOpen,
        }
    }

    fn may_claim(&mut self, now: Instant, kept: bool, ticket: Ticket) -> Answer {
        if self.closing {
            return Err(Turned::Closing);
        }
        let free = self.bounds.places.saturating_sub(self.places.len());
        let room = free + self.idle + self.leaving + self.bounds.queue;
        if self.claimed.len() + self.queue.len() >= room {
            return Err(Turned::Full);
        }
        if kept { Ok(()) } else { self.pass(now, ticket) }
    }

    /// Asks the circuit; the first to ask after its time may try.
    fn pass(&mut self, now: Instant, ticket: Ticket) -> Answer {
        match self.circuit {
            State::Closed { .. } => Ok(()),
            State::Trying { ticket: tried } if tried == ticket => Ok(()),
            State::Trying { .. } => Err(Turned::Unavailable { retry_after: SOON }),
            State::Open { until } if now < until => {
                Err(Turned::Unavailable { retry_after: until.saturating_duration_since(now) })
            }
            State::Open { .. } => {
                self.circuit = State::Trying { ticket };
                Ok(())
            }
        }
    }

    fn count(&mut self, turned: Turned) {
        match turned {
            Turned::Full => self.refused.full += 1,
            Turned::Late => self.refused.late += 1,
            Turned::Unavailable { .. } => self.refused.unavailable += 1,
            Turned::Closing => {}
        }
    }

    fn set(&mut self, place: Ticket, used: Use) {
        let Some(before) = self.places.get_mut(&place) else { return };
        let before = std::mem::replace(before, used);
        self.discount(before);
        match used {
            Use::Work => {}
            Use::Idle => self.idle += 1,
            Use::Leaving => self.leaving += 1,
        }
    }

    fn discount(&mut self, used: Use) {
        match used {
            Use::Work => {}
            Use::Idle => self.idle = self.idle.saturating_sub(1),
            Use::Leaving => self.leaving = self.leaving.saturating_sub(1),
        }
    }
}

/// The end of a wait; one beyond what a clock can say is as good as for ever.
fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or_else(|| now + FOR_EVER)
}

const FOR_EVER: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
