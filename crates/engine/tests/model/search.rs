//! The shortest way to a broken law: breadth first, in one thread, so that it is the same every time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;

use stateright::Model;

use crate::Runs;
use crate::law::LAWS;
use crate::step::Action;
use crate::world::World;

/// The laws that are broken after the fewest steps that break any, and these steps.
pub struct Counterexample {
    pub broken: Vec<&'static str>,
    pub steps: Vec<Action>,
    pub trace: String,
}

/// How a search ended.
pub struct Found {
    pub counterexample: Option<Counterexample>,
    /// How many different states it has seen.
    pub states: usize,
}

/// Looks for the nearest state that breaks a law, of those that `counts` names.
pub fn search(model: &Runs, counts: impl Fn(&str) -> bool) -> Found {
    let mut seen: HashMap<World, usize> = HashMap::new();
    let mut order: Vec<(World, usize, Option<Action>)> = Vec::new();
    for world in model.init_states() {
        seen.insert(world, order.len());
        order.push((world, 0, None));
    }
    let mut at = 0;
    let mut actions = Vec::new();
    while let Some((world, _, _)) = order.get(at).copied() {
        let broken: Vec<_> = LAWS.iter().filter(|(name, law)| counts(name) && !law(model, &world)).collect();
        if !broken.is_empty() {
            let broken = broken.into_iter().map(|(name, _)| *name).collect();
            let (steps, trace) = way(model, &order, at);
            let counterexample = Some(Counterexample { broken, steps, trace });
            return Found { counterexample, states: order.len() };
        }
        model.actions(&world, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = model.next_state(&world, action) else { continue };
            if let Entry::Vacant(unseen) = seen.entry(next) {
                unseen.insert(order.len());
                order.push((next, at, Some(action)));
            }
        }
        at += 1;
    }
    Found { counterexample: None, states: order.len() }
}

fn way(model: &Runs, order: &[(World, usize, Option<Action>)], end: usize) -> (Vec<Action>, String) {
    let mut places = vec![end];
    while let Some((_, from, Some(_))) = places.last().map(|place| &order[*place]) {
        places.push(*from);
    }
    places.reverse();
    let (mut steps, mut trace) = (Vec::new(), String::new());
    for place in places {
        let (world, _, action) = &order[place];
        if let Some(action) = action {
            let _ = writeln!(trace, "  {:>2}. {action:?}", steps.len() + 1);
            steps.push(*action);
        }
        let _ = writeln!(trace, "      {}", model.describe(world));
    }
    (steps, trace)
}
