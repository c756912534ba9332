//! The decisions of [`Admission`] carried out: bells for those that wait, and tickets that give back what they hold.
//!
//! Refuses to hand out a place without its guard: whoever drops a [`Place`], in whatever stage, makes room for the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::admission::{Admission, Answer, Bounds, Ticket, Turned};
use crate::harness::{Circuit, Refused};

/// Where turns of one agent ask for a worker.
#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    /// Places that are held.
    taken: watch::Sender<usize>,
}

#[derive(Debug)]
struct State {
    admission: Admission,
    bells: HashMap<Ticket, oneshot::Sender<Answer>>,
}

/// What is to be known of it from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub waiting: usize,
    pub refused: Refused,
    pub circuit: Circuit,
}

/// A claim to a worker, and from the moment it is granted one process's share of the room: until the process is gone.
#[derive(Debug)]
pub(crate) struct Place {
    desk: Arc<Desk>,
    ticket: Ticket,
}

impl Desk {
    pub fn new(bounds: Bounds) -> Self {
        let state = Mutex::new(State { admission: Admission::new(bounds), bells: HashMap::new() });
        Self { state, taken: watch::Sender::new(0) }
    }

    /// A claim for a turn; `kept` where its conversation has an idle worker.
    pub fn claim(self: &Arc<Self>, kept: bool) -> Result<Place, Turned> {
        let ticket = self.with(|state, now| state.admission.claim(now, kept))?;
        Ok(Place { desk: Arc::clone(self), ticket })
    }

    pub fn wants_room(&self) -> bool {
        self.with(|state, _| state.admission.wants_room())
    }

    /// The worker in this place was told to leave.
    pub fn leave(&self, place: Ticket) {
        self.with(|state, _| state.admission.leave(place));
    }

    /// Workers that were told to leave, and have not left.
    pub fn leaving(&self) -> usize {
        self.with(|state, _| state.admission.leaving())
    }

    pub fn taken(&self) -> usize {
        *self.taken.borrow()
    }

    pub fn figures(&self) -> Figures {
        self.with(|state, now| Figures {
            waiting: state.admission.waiting(),
            refused: state.admission.refused(),
            circuit: state.admission.circuit(now),
        })
    }

    /// Turns everybody away that waits, and that comes.
    pub fn close(&self) {
        self.with(|state, _| state.admission.close());
    }

    /// Resolves when no place is held.
    pub async fn empty(&self) {
        let _ = self.taken.subscribe().wait_for(|&taken| taken == 0).await; // we hold the sender
    }

    /// One input, and then every answer that it leads to.
    fn with<T>(&self, input: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let output = input(&mut state, now);
        while let Some((ticket, answer)) = state.admission.poll(now) {
            if let Some(bell) = state.bells.remove(&ticket) {
                let _ = bell.send(answer); // one that no longer listens gives its ticket back
            }
        }
        let taken = state.admission.taken();
        self.taken.send_if_modified(|before| std::mem::replace(before, taken) != taken);
        output
    }
}

impl Place {
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Waits for its turn. `joined` is called once it stands in line.
    pub async fn granted(&self, joined: impl FnOnce()) -> Answer {
        let (bell, mut answer) = oneshot::channel();
        let until = self.desk.with(|state, now| {
            state.bells.insert(self.ticket, bell);
            state.admission.join(now, self.ticket)
        });
        joined();
        match timeout_at(until, &mut answer).await {
            Ok(answered) => answered.unwrap_or(Err(Turned::Closing)),
            Err(_over) => {
                self.desk.with(|_, _| ()); // the time alone changes the answer
                answer.try_recv().unwrap_or(Err(Turned::Late))
            }
        }
    }

    /// The idle worker in this place takes the turn of `claim`.
    pub fn serve(&self, claim: &Self) {
        self.desk.with(|state, now| state.admission.serve(now, claim.ticket, self.ticket));
    }

    /// The turn is over; whether the worker may stay.
    pub fn rest(&self, asked: bool) -> bool {
        self.desk.with(|state, _| state.admission.rest(self.ticket, asked))
    }

    /// The worker came up: whether starts are tried again with that.
    pub fn started(&self) -> bool {
        self.desk.with(|state, _| state.admission.started())
    }

    /// The worker did not come up: whether none is tried from now on.
    pub fn failed(&self) -> bool {
        self.desk.with(|state, now| state.admission.failed(now, self.ticket))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.with(|state, now| {
            state.bells.remove(&self.ticket);
            state.admission.give_back(now, self.ticket);
        });
    }
}
