//! What can happen next: which steps are open in a state, and which wait for a lock.
//!
//! Locks are those of design §6: a transaction that has made its checks holds the lease of its gateway, and, where it
//! opens a run, the row of its conversation.

use causeway_store::model::{InterruptStatus, Status};

use crate::Runs;
use crate::guard::Guard;
use crate::lab::Act;
use crate::scene::{RUNS, Wants};
use crate::step::Action;
use crate::world::{Asked, Closing, Drive, Verb, World, bit};

impl Runs {
    /// What can happen next.
    pub fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        let scene = self.scene(world);
        let gateways = if scene.shared { 2 } else { 1 };
        for gateway in 0..gateways {
            self.possible_at(world, gateway, actions);
            self.possible_adrift(world, gateway, actions);
        }
        if world.closing.is_some_and(|closing| !self.close_waits(world, closing)) {
            actions.push(Action::CloseRun);
        }
        let locked = self.conversation_is_locked(world);
        for run in 0..scene.requests.len() as u8 {
            let pending = world.row(run).interrupt == Some(InterruptStatus::Pending);
            if pending && world.left.voids > 0 && !locked {
                actions.push(Action::TakeBack { run });
            }
            if world.left.looks > 0 && world.told[usize::from(run)] != world.row(run).log {
                actions.push(Action::ReadAgain { run });
            }
        }
        if world.left.clears > 0 && world.row(0).status.is_some() && !locked {
            actions.push(Action::Clear);
        }
        if scene.expires && !world.late && world.facts.rows.iter().any(|row| row.interrupt.is_some()) {
            actions.push(Action::GrowLate);
        }
    }

    fn possible_at(&self, world: &World, gateway: usize, actions: &mut Vec<Action>) {
        let scene = self.scene(world);
        let here = &world.gateways[gateway];
        if !here.lives {
            if !scene.shared || here.epoch < world.leases[gateway].epoch {
                actions.push(Action::Restart(gateway));
            }
        } else {
            if let Some(drive) = &here.drive {
                self.possible_in(world, gateway, drive, actions);
            }
            for request in 0..scene.requests.len() as u8 {
                if self.may_ask(world, request, gateway) {
                    actions.push(Action::Ask { request, gateway });
                    if world.left.faults > 0 && here.drive.is_none() && world.adrift[gateway].is_none() {
                        actions.push(Action::AskInVain { request, gateway });
                    }
                }
                if self.may_look(world, request, gateway) {
                    actions.push(Action::Look { gateway, run: request });
                }
            }
            if world.left.crashes > 0 {
                actions.push(Action::Crash(gateway));
            }
            if !world.has_lease(gateway) && here.drive.is_none() {
                actions.push(Action::Rejoin(gateway));
            }
        }
        if scene.shared {
            let other = &world.gateways[1 - gateway];
            let lease = world.leases[gateway];
            let used = (0..RUNS as u8).any(|run| self.is_owned(world, run, gateway));
            let may_expire = world.left.pauses > 0 && used || !here.lives;
            if !lease.expired && world.has_lease(gateway) && may_expire {
                actions.push(Action::Expire(gateway));
            }
            if lease.expired
                && other.lives
                && world.has_lease(1 - gateway)
                && !self.lease_is_locked(world, gateway)
            {
                actions.push(Action::Oust(gateway));
            }
        }
    }

    fn possible_in(&self, world: &World, gateway: usize, drive: &Drive, actions: &mut Vec<Action>) {
        let script = self.scene(world).requests[usize::from(drive.run)].script;
        let waits = drive.effects.len() > 0 && !self.without(Guard::DriveAfterOpen);
        if !waits && drive.speaks && !drive.over {
            if usize::from(drive.said) < script.len() {
                actions.push(Action::Say(gateway));
            }
            if world.left.deaths > 0 {
                actions.push(Action::Die(gateway));
            }
        }
        if world.left.cancels > 0 && !drive.over {
            actions.push(Action::Cancel(gateway));
        }
        let Some(effect) = drive.effects.as_slice().first() else { return };
        let begun = world.adrift[gateway].is_some_and(|adrift| adrift.begun);
        let act = self.lab.act(*effect);
        let waits = match act {
            // Both ask the store first what became of the lost write, and it answers after every write in hand.
            Act::Append(_) => begun && !self.without(Guard::RetryAfterWrites),
            Act::ReadOutcome => begun && !self.without(Guard::Fence),
            Act::Open(_)
            | Act::Commit { .. }
            | Act::Deliver { .. }
            | Act::StopHarness
            | Act::Close(_)
            | Act::Other => false,
        };
        if !waits {
            actions.push(Action::Perform(gateway));
        }
        if world.left.faults > 0 {
            match act {
                Act::Append(_) | Act::Commit { .. } => {
                    actions.push(Action::Refuse(gateway));
                    if world.adrift[gateway].is_none() {
                        actions.push(Action::LoseAnswer(gateway));
                    }
                }
                Act::ReadOutcome => actions.push(Action::CannotRead(gateway)),
                Act::Open(_) | Act::Deliver { .. } | Act::StopHarness | Act::Close(_) | Act::Other => {}
            }
        }
    }

    fn possible_adrift(&self, world: &World, gateway: usize, actions: &mut Vec<Action>) {
        let Some(adrift) = world.adrift[gateway] else { return };
        // One gateway alone: SQLite runs one transaction after the other.
        let at_once = !self.scene(world).shared;
        actions.push(if adrift.begun || at_once { Action::Land(gateway) } else { Action::Begin(gateway) });
        if !adrift.begun && matches!(adrift.verb, Verb::Open { .. } | Verb::Consume { .. }) {
            actions.push(Action::Sink(gateway));
        }
    }

    /// Whether the transaction of a lost write holds the lease row of its gateway (`FOR SHARE`, design §6).
    fn lease_is_locked(&self, world: &World, gateway: usize) -> bool {
        world.adrift[gateway].is_some_and(|adrift| {
            let guard = match adrift.verb {
                Verb::Append { .. } => Guard::LeaseOfAppend,
                _other => Guard::LeaseOfCommit,
            };
            adrift.begun && !self.without(guard)
        })
    }

    /// Whether the closing of a run waits for a transaction of that run: as the fence that it is, it takes the lease
    /// of its own gateway for itself. That of another was taken away before.
    fn close_waits(&self, world: &World, closing: Closing) -> bool {
        let begun = world.adrift[usize::from(closing.by)]
            .is_some_and(|adrift| adrift.begun && adrift.verb.run() == Some(closing.run));
        closing.lost && begun && !self.without(Guard::CloseAfterWrites)
    }

    /// Whether the transaction of a lost write holds the row of the conversation.
    fn conversation_is_locked(&self, world: &World) -> bool {
        !self.without(Guard::ConversationLock)
            && world
                .adrift
                .iter()
                .flatten()
                .any(|adrift| adrift.begun && matches!(adrift.verb, Verb::Open { .. } | Verb::Consume { .. }))
    }

    fn is_owned(&self, world: &World, run: u8, gateway: usize) -> bool {
        world.row(run).status == Some(Status::Running)
            && world.owners[usize::from(run)] == (gateway as u8, world.leases[gateway].epoch)
    }

    fn may_ask(&self, world: &World, request: u8, gateway: usize) -> bool {
        let asks = match self.scene(world).requests[usize::from(request)].wants {
            // In the order of their numbers, since one is like the other.
            Wants::Start => request == 0 || world.row(0).status.is_some(),
            Wants::Answer { of, .. } => world.row(of as u8).interrupt.is_some(),
        };
        asks && world.asked[usize::from(request)] == Asked::Not
            && world.has_lease(gateway)
            && !self.conversation_is_locked(world)
    }

    /// Whether a run is to be closed by this gateway, and may be looked at.
    fn may_look(&self, world: &World, run: u8, gateway: usize) -> bool {
        let lost = world.gateways[gateway].lost & bit(run) != 0;
        let in_hand = world.adrift.iter().flatten().any(|adrift| {
            let opens = matches!(adrift.verb, Verb::Open { .. } | Verb::Consume { .. });
            opens && adrift.verb.run() == Some(run)
        });
        world.closing.is_none()
            && world.has_lease(gateway)
            && (lost || world.is_orphan(run))
            && (!in_hand || self.without(Guard::LookAfterWrites))
    }
}
