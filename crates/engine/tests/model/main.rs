//! Every order in which runs can start, stream, commit, be interrupted, answered, cancelled, cleared, killed, taken
//! over by another gateway and recovered.
//!
//! What is real: the [`Coordinator`](causeway_engine::coordinator::Coordinator) of every run, the log with all of
//! its checks ([`Memory`](causeway_store::memory::core::Memory), which stands on the same rules as the other
//! backends), and the validator. What is written out here: the driver's part, with its retries and its reading of
//! lost outcomes; clients with their requests; harnesses that may die; a store whose answers get lost while the
//! write is still on its way; gateways that are killed between any two steps. What is not in the code yet, and
//! modelled as design §6 has it: leases. Each gateway has a lease row with an epoch; every batch reads the epoch and
//! holds the row `FOR SHARE` from its checks to its commit; another gateway may take an expired lease away, which
//! waits for batches that have begun and makes all later ones fail, and only then closes what was left behind. A
//! transaction that opens a run holds the row of its conversation. The look at a lost write comes after every write
//! that is still in hand ([`Store::outcome`](causeway_store::Store::outcome)).
//!
//! Abstracted: time is an order, but for the expiry of interrupts; a batch is one event; one conversation with one
//! agent; an answer's check against its interrupt reads what never changes, so that it is one step with the write.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod guard;
mod guards;
mod lab;
mod law;
mod log;
mod possible;
mod scene;
mod search;
mod step;
#[path = "../support/mod.rs"]
mod support;
mod world;

use stateright::{Checker, Model, Property};

use guard::{Guard, Guards};
use lab::Lab;
use scene::{FULL, Scene};
use step::Action;
use world::{Asked, World};

/// The model: some scenes, and the guards that are taken away.
struct Runs {
    lab: Lab,
    scenes: Vec<Scene>,
}

impl Runs {
    fn new(scenes: &[Scene], without: &[Guard]) -> Self {
        Self { lab: Lab::new(Guards::of(without)), scenes: scenes.to_vec() }
    }

    fn scene(&self, world: &World) -> &Scene {
        &self.scenes[usize::from(world.scene)]
    }

    fn without(&self, guard: Guard) -> bool {
        self.lab.without.has(guard)
    }

    /// A state in a line.
    fn describe(&self, world: &World) -> String {
        let mut text = String::new();
        for run in 0..self.scene(world).requests.len() {
            let row = &world.facts.rows[run];
            let Some(status) = row.status else { continue };
            let log = self.lab.spell(&row.log);
            let shown = world.told[run].len();
            text += &format!("run {run} {status} [{log}] shown {shown} ");
            if let Some(interrupt) = row.interrupt {
                text += &format!("interrupt {} ", interrupt.as_str());
            }
        }
        for (number, asked) in world.asked.iter().enumerate().filter(|(_, asked)| **asked != Asked::Not) {
            text += &format!("request {number} {asked:?} ");
        }
        for (number, gateway) in world.gateways.iter().enumerate() {
            if !gateway.lives {
                text += &format!("G{number} is dead ");
            }
            if !world.has_lease(number) {
                text += &format!("G{number} is ousted ");
            }
            if let Some(drive) = &gateway.drive {
                text += &format!("G{number} drives {} ", drive.run);
            }
            if let Some(adrift) = &world.adrift[number] {
                let begun = if adrift.begun { "begun" } else { "sent" };
                text += &format!("adrift({begun}) {:?} ", adrift.verb);
            }
        }
        text
    }
}

impl Model for Runs {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let worlds = (0u8..).zip(&self.scenes).map(|(number, scene)| {
            let (store, facts) = self.lab.empty(number, scene);
            World::new(number, scene, store, facts)
        });
        worlds.collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        self.step(&mut world, action)?;
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        law::properties()
    }
}

#[test]
fn every_order_of_events_answers_faults_and_crashes_keeps_the_promises() {
    let started = std::time::Instant::now();
    let checker = Runs::new(FULL, &[]).checker().threads(2).spawn_bfs().join();
    let (all, different, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    println!("{all} states, {different} of them different, depth {depth}, {:?}", started.elapsed());
    println!("coordinators, effects, records, logs: {:?}", checker.model().lab.sizes());
    checker.assert_properties();
    assert!(different >= 1_000_000, "the model has shrunk");
}

#[test]
#[ignore = "tells how large each scene is"]
fn how_large_the_scenes_are() {
    for scene in FULL {
        let started = std::time::Instant::now();
        let checker = Runs::new(&[*scene], &[]).checker().threads(2).spawn_bfs().join();
        let different = checker.unique_state_count();
        println!("{different:>9} {:>8.2?} depth {} {}", started.elapsed(), checker.max_depth(), scene.name);
        for (name, path) in checker.discoveries() {
            if law::LAWS.iter().any(|(law, _)| *law == name) {
                println!("BROKEN {name}: {:?}", path.into_actions());
            }
        }
    }
}
