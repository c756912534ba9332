//! What the validator costs: nothing is allocated for a delta in a known message, wherever it stands, and the work for
//! an event does not grow with the events before it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use causeway_contract::event::Event;
use causeway_contract::limits::Limits;
use causeway_lifecycle::lint::Linter;
use causeway_lifecycle::testing::script::script;
use causeway_lifecycle::validator::{Boundary, Thread, Validator};

fn validator() -> Validator {
    Validator::new(Boundary::Commit, Thread::Durable, Limits::DEFAULT)
}

/// Allocations for accepting and linting `events`.
fn allocations(validator: &mut Validator, linter: &mut Linter, events: &[Event<'_>]) -> u64 {
    let mut hints = Vec::new();
    let info = allocation_counter::measure(|| {
        for event in events {
            assert_eq!(validator.accept(event, 250), Ok(()));
            linter.accept(event, validator, &mut hints);
        }
    });
    assert_eq!(hints, []);
    info.count_total
}

#[test]
fn deltas_allocate_nothing_even_when_messages_and_namespaces_alternate() {
    let (mut validator, mut linter) = (validator(), Linter::new());
    let start = "run.started; text.started m; reasoning.started m; tool.started t; tool.started u; \
                 @t namespace.entered a t; @u namespace.entered b u; @t text.started n; @u text.started o";
    allocations(&mut validator, &mut linter, &script(start));
    let round = "text.delta m hello; reasoning.delta m hm; @t text.delta n a; @u text.delta o b;";
    let deltas = script(&format!("#9 text.delta m hello; {}", round.repeat(100)));
    assert_eq!(allocations(&mut validator, &mut linter, &deltas), 0);
}

#[test]
fn ten_times_the_calls_allocate_about_ten_times_as_much() {
    let calls = |sequence: usize, from: usize, count: usize| {
        let each = |n: usize| format!("tool.started call-{n}; tool.finished call-{n} done;");
        script(&format!("#{sequence} {}", (from..from + count).map(each).collect::<String>()))
    };
    let (mut validator, mut linter) = (validator(), Linter::new());
    allocations(&mut validator, &mut linter, &script("run.started"));
    let few = allocations(&mut validator, &mut linter, &calls(1, 0, 100));
    let many = allocations(&mut validator, &mut linter, &calls(201, 100, 1000));
    assert!(many < few * 12, "{few} for 100 calls, {many} for the next 1,000");
}
