//! The fuzz body on stable: the same inputs in the same order, for as long as `CAUSEWAY_FUZZ_SECONDS` says (default 2).

#![allow(clippy::disallowed_methods, reason = "a test may look at the clock and the environment")]

use std::time::{Duration, Instant};

#[path = "../../../fuzz/bodies/validator.rs"]
mod body;
#[path = "../../../tests/support/numbers.rs"]
mod numbers;

use numbers::Numbers;

fn budget() -> Duration {
    Duration::from_secs(numbers::seconds())
}

#[test]
fn no_operations_divide_the_validator_from_the_second_opinion() {
    let mut numbers = Numbers::new(1);
    let end = Instant::now() + budget();
    while Instant::now() < end {
        let input = numbers.bytes(600);
        body::validator(&input);
    }
}

#[test]
fn no_lines_are_too_odd_to_be_judged() {
    let streams = [
        include_str!("../../../contract/streams/rejected/r02-started-twice.jsonl"),
        include_str!("../../../contract/streams/rejected/envelope-other-run.jsonl"),
        include_str!("../../../contract/streams/accepted/r10-child-speaks-inside.jsonl"),
    ]
    .concat()
    .into_bytes();
    let mut numbers = Numbers::new(7);
    let end = Instant::now() + budget();
    while Instant::now() < end {
        let mut input = streams.clone();
        for _ in 0..numbers.next() % 12 {
            let at = usize::try_from(numbers.next()).unwrap_or_default() % input.len();
            match numbers.next() % 4 {
                0 => input[at] = numbers.next().to_be_bytes()[0],
                1 if input.len() > 1 => drop(input.remove(at)),
                1 | 2 => input.insert(at, b'\n'),
                _ => input.truncate(at.max(1)),
            }
        }
        body::lines(&input);
    }
}
