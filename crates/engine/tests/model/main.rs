//! Every order in which a run can start, stream, commit, be interrupted, be cancelled, crash and be recovered.
//!
//! The real [`Coordinator`] and the real log in memory are in the state of the model; only the world around them is
//! made up: a harness that may die, a store whose answers get lost while the write is still on its way, a gateway
//! that is killed between any two steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::VecDeque;

use causeway_contract::event::{Event, EventType};
use causeway_contract::limits::Limits;
use causeway_engine::coordinator::{Commit, Effect, End, Outcome, Signal, Stage};
use causeway_lifecycle::{Boundary, Thread, Validator};
use causeway_store::model::{Generation, Opened, Status};
use causeway_store::{Record, Refusal};
use stateright::{Checker, HasDiscoveries, Model, Property};

use support::signal;
use world::{Driver, SCRIPTS, World, Write, apply, conversation, ended, open, recover, run_id, write};

/// A rule of the driver that can be left out, to see that it is needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Guard {
    /// Readers see an event only once the log has it.
    DeliverAfterDurable,
    /// Head, status, terminal and what was held back are one transaction.
    OneTransaction,
}

struct Runs {
    without: Option<Guard>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    /// The harness says its next word.
    Say,
    /// It dies.
    Die,
    /// Somebody cancels.
    Cancel,
    /// The next effect is performed as it should be.
    Perform,
    /// The next write is refused.
    Refuse,
    /// The answer to the next write is lost; the write is on its way.
    LoseAnswer,
    /// The store cannot be read.
    CannotRead,
    /// The lost write lands.
    Land,
    /// The gateway is killed.
    Crash,
    /// The next gateway recovers.
    Recover,
}

impl Runs {
    fn guards(&self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    fn perform(&self, world: &mut World) {
        let Some(effect) = world.driver.as_mut().and_then(|driver| driver.effects.pop_front()) else {
            return;
        };
        match effect {
            Effect::Open(event) => {
                match world.memory.open_run(open(world.thread, Record::from_event(&event))) {
                    Ok(Opened::New(opened)) => {
                        if let Some(driver) = &mut world.driver {
                            driver.generation = opened.generation;
                        }
                        world.tell(Signal::Opened { base_revision: opened.base_revision().value() });
                    }
                    Ok(Opened::Replayed(_)) | Err(_) => world.tell(Signal::AppendFailed),
                }
            }
            Effect::Append(event) => {
                self.show_too_early(world, &event);
                let through = event.sequence;
                let written = write(world, &Write::Append(vec![Record::from_event(&event)]));
                world.tell(match written {
                    Ok(_) => Signal::Appended { through },
                    // An earlier try of this very append, whose answer was lost, has landed.
                    Err(causeway_store::Error::Refused(Refusal::NotContiguous { expected, .. }))
                        if expected > through =>
                    {
                        Signal::Appended { through }
                    }
                    Err(_) => Signal::AppendFailed,
                });
            }
            Effect::Commit(mut commit) => {
                if !self.guards(Guard::OneTransaction) && commit.events.len() > 1 {
                    // First the tail, then, in a step of its own, the terminal.
                    let terminal = commit.events.split_off(commit.events.len() - 1);
                    let tail = commit.events.iter().map(Record::from_event).collect();
                    if write(world, &Write::Append(tail)).is_ok()
                        && let Some(driver) = &mut world.driver
                    {
                        let rest = Commit { events: terminal, ..*commit };
                        driver.effects.push_front(Effect::Commit(Box::new(rest)));
                        return;
                    }
                    world.tell(Signal::AppendFailed);
                    return;
                }
                let signal = match write(world, &Write::Commit(commit)) {
                    Ok(receipt) => Signal::Committed(receipt),
                    Err(causeway_store::Error::Refused(Refusal::Fenced { .. } | Refusal::Ended { .. })) => {
                        Signal::AppendFailed
                    }
                    Err(_) => Signal::CommitRefused,
                };
                world.tell(signal);
            }
            Effect::ReadOutcome => {
                let outcome = Self::read_outcome(world);
                world.tell(Signal::Outcome(outcome));
            }
            Effect::Deliver { through } => {
                let shown = world.told.last().map(|(number, _)| *number);
                for record in world.log() {
                    let number = record.sequence.value();
                    if shown.is_none_or(|shown| number > shown) && record.sequence <= through {
                        world.told.push((number, record.event_type.as_str()));
                    }
                }
            }
            Effect::StopHarness => world.harness_lives = false,
            Effect::CancelHarness(_) | Effect::Reject(_) | Effect::Late(_) | Effect::Close(_) => {}
        }
    }

    /// What a driver without its guard would do before it writes.
    fn show_too_early(&self, world: &mut World, event: &Event<'_>) {
        if !self.guards(Guard::DeliverAfterDurable) {
            world.told.push((event.sequence.value(), event.data.event_type().as_str()));
        }
    }

    /// Fence, then read: a commit that is still on its way can then no longer land.
    fn read_outcome(world: &mut World) -> Outcome {
        match world.memory.fence(&run_id()) {
            Ok(fenced) => {
                if let Some(driver) = &mut world.driver {
                    driver.generation = fenced.generation;
                }
                Outcome::NotCommitted
            }
            Err(_) => Outcome::Committed,
        }
    }
}

impl Model for Runs {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        (0..SCRIPTS.len())
            .flat_map(|script| [Thread::Durable, Thread::Ephemeral].map(|thread| World::new(script, thread)))
            .collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.adrift.is_some() {
            actions.push(Action::Land);
        }
        if world.driver.is_none() {
            actions.push(Action::Recover);
            return;
        }
        if let Some(effect) = world.next_effect() {
            actions.push(Action::Perform);
            if world.faults > 0 {
                match effect {
                    Effect::Append(_) | Effect::Commit(_) if world.adrift.is_none() => {
                        actions.extend([Action::Refuse, Action::LoseAnswer]);
                    }
                    Effect::Append(_) | Effect::Commit(_) => actions.push(Action::Refuse),
                    Effect::ReadOutcome => actions.push(Action::CannotRead),
                    Effect::Open(_)
                    | Effect::Deliver { .. }
                    | Effect::CancelHarness(_)
                    | Effect::StopHarness
                    | Effect::Reject(_)
                    | Effect::Late(_)
                    | Effect::Close(_) => {}
                }
            }
        } else if world.harness_lives {
            if world.said < world.words().len() {
                actions.push(Action::Say);
            }
            if world.said > 0 {
                actions.push(Action::Die);
            }
        }
        if world.cancels > 0 && world.said > 0 && !world.is_over() {
            actions.push(Action::Cancel);
        }
        if world.crashes > 0 {
            actions.push(Action::Crash);
        }
        // A gateway that lost sight of a run recovers it too, once the store answers again.
        let lost = world.driver.as_ref().is_some_and(|driver| {
            driver.coordinator.stage() == Stage::Ended(End::Unknown) && driver.effects.is_empty()
        });
        if lost && world.status() == Some(Status::Running) {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Say => {
                let word = world.words()[world.said];
                world.said += 1;
                world.tell(signal(word));
            }
            Action::Die => {
                world.harness_lives = false;
                world.tell(Signal::Closed);
            }
            Action::Cancel => {
                world.cancels -= 1;
                world.tell(signal("cancel"));
            }
            Action::Perform => self.perform(&mut world),
            Action::Refuse => {
                world.faults -= 1;
                let effect = world.driver.as_mut()?.effects.pop_front()?;
                let refused = match effect {
                    Effect::Commit(_) => Signal::CommitRefused,
                    Effect::Append(event) => {
                        self.show_too_early(&mut world, &event);
                        Signal::AppendFailed
                    }
                    _other => return None,
                };
                world.tell(refused);
            }
            Action::LoseAnswer => {
                world.faults -= 1;
                let driver = world.driver.as_mut()?;
                let generation = driver.generation;
                match driver.effects.pop_front()? {
                    Effect::Commit(commit) => {
                        world.adrift = Some((generation, Write::Commit(commit)));
                        world.tell(Signal::CommitUnknown);
                    }
                    // An append is tried again as it is.
                    Effect::Append(event) => {
                        let write = Write::Append(vec![Record::from_event(&event)]);
                        world.adrift = Some((generation, write));
                        driver.effects.push_front(Effect::Append(event));
                    }
                    _other => return None,
                }
            }
            Action::CannotRead => {
                world.faults -= 1;
                world.driver.as_mut()?.effects.pop_front()?;
                world.tell(Signal::Outcome(Outcome::Unreachable));
            }
            Action::Land => {
                let (generation, write) = world.adrift.take()?;
                // Refused if it was fenced off or came too late: nobody hears of it.
                let _ = apply(&mut world.memory, generation, &write);
            }
            Action::Crash => {
                world.crashes = world.crashes.saturating_sub(1);
                world.driver = None;
                world.harness_lives = false;
            }
            Action::Recover => {
                world.memory.restart();
                recover(&mut world);
                // The new gateway has nothing to do with this run any more.
                world.driver = Some(Driver {
                    coordinator: ended(),
                    effects: VecDeque::new(),
                    generation: Generation::new(u64::MAX),
                });
                world.crashes = 0;
                world.cancels = 0;
            }
        }
        world.remember();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one terminal, and nothing after it", |_, world: &World| {
                let log = world.log();
                let terminals = log.iter().filter(|record| record.event_type.is_terminal()).count();
                let last = log.last().is_some_and(|record| record.event_type.is_terminal());
                terminals <= 1 && (terminals == 0 || last)
            }),
            Property::always("the log is a valid stream", |_, world: &World| {
                let mut validator = Validator::new(Boundary::Commit, world.thread, Limits::DEFAULT).offline();
                let (run_id, conversation) = (run_id(), conversation());
                world.log().iter().enumerate().all(|(number, record)| {
                    let event = record.decode(&run_id, &conversation, &Limits::DEFAULT).unwrap();
                    record.sequence.value() == number as u64 && validator.accept(&event, 0).is_ok()
                })
            }),
            Property::always("an error implies that the head did not move", |_, world: &World| {
                match world.status() {
                    Some(Status::Error | Status::Uncertain) | None => world.head() == 0,
                    Some(Status::Finished) => world.head() == u64::from(world.thread == Thread::Durable),
                    Some(Status::Interrupted) => world.head() == 1,
                    Some(Status::Running) => world.head() == 0,
                    Some(Status::Cancelled) => world.head() <= 1,
                }
            }),
            Property::always("an interrupt is stored only with its terminal", |_, world: &World| {
                let log = world.log();
                let has = |wanted| log.iter().any(|record| record.event_type == wanted);
                has(EventType::InterruptRequested) == has(EventType::RunInterrupted)
            }),
            Property::always("what the client was told is true", |_, world: &World| {
                let log = world.log();
                world.told.iter().enumerate().all(|(place, (number, name))| {
                    *number == place as u64
                        && log.get(place).is_some_and(|record| record.event_type.as_str() == *name)
                })
            }),
            Property::always("a run that is over has its terminal", |model, world: &World| {
                let mut actions = Vec::new();
                model.actions(world, &mut actions);
                let only_ends = actions.iter().all(|action| matches!(action, Action::Crash | Action::Land));
                let settled = world.is_over() && only_ends && !actions.contains(&Action::Crash);
                !settled || world.log().is_empty() || world.status().is_some_and(Status::is_terminal)
            }),
            Property::sometimes("finished", |_, world: &World| world.status() == Some(Status::Finished)),
            Property::sometimes("interrupted", |_, world: &World| {
                world.status() == Some(Status::Interrupted)
            }),
            Property::sometimes("error", |_, world: &World| world.status() == Some(Status::Error)),
            Property::sometimes("uncertain", |_, world: &World| world.status() == Some(Status::Uncertain)),
            Property::sometimes("cancelled, with a state", |_, world: &World| {
                world.status() == Some(Status::Cancelled) && world.head() == 1
            }),
            Property::sometimes("cancelled, without one", |_, world: &World| {
                world.status() == Some(Status::Cancelled) && world.head() == 0
            }),
            Property::sometimes("a lost commit landed after the gateway died", |_, world: &World| {
                world.crashes == 0
                    && world.status() == Some(Status::Finished)
                    && world.told.len() < world.log().len()
            }),
        ]
    }
}

#[test]
fn every_order_of_events_faults_and_crashes_keeps_the_promises() {
    let checker = Runs { without: None }.checker().threads(2).spawn_bfs().join();
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1000, "the model is not trivial");
}

#[test]
fn showing_events_before_they_are_durable_breaks_a_promise() {
    let checker = Runs { without: Some(Guard::DeliverAfterDurable) }
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    assert!(checker.discovery("what the client was told is true").is_some());
}

#[test]
fn committing_in_two_steps_breaks_a_promise() {
    let checker = Runs { without: Some(Guard::OneTransaction) }
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    assert!(checker.discovery("an interrupt is stored only with its terminal").is_some());
}
