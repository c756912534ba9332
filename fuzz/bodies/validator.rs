//! The body of the validator's fuzz target: shared by `cargo fuzz run validator` and the tests on stable.
//!
//! Any list of operations: the validator refuses what a second, naive checker refuses and nothing else, a refusal
//! changes nothing, and nothing panics. Any lines: the checker of recorded streams gives a report.

use causeway_contract::Limits;
use causeway_lifecycle::check::{Checker, Options, Runs};
use causeway_lifecycle::testing::legal::legal;
use causeway_lifecycle::testing::operations::{agree, operations, small_limits};
use causeway_lifecycle::testing::reference;
use causeway_lifecycle::validator::{Boundary, Thread};

/// The first byte says how, the rest what.
pub fn validator(input: &[u8]) {
    let Some((how, what)) = input.split_first() else {
        return;
    };
    let boundary = if how & 1 == 0 { Boundary::Commit } else { Boundary::Yield };
    let thread = if how & 2 == 0 { Thread::Durable } else { Thread::Ephemeral };
    match how >> 2 & 3 {
        0 | 1 => agree(&operations(what), boundary, thread, &small_limits()),
        2 => {
            let events = legal(what.get(..400).unwrap_or(what), boundary);
            assert_eq!(reference::first_illegal(&events, boundary, Thread::Durable, &Limits::DEFAULT), None);
            agree(&events, boundary, thread, &Limits::DEFAULT);
        }
        _ => lines(what),
    }
}

/// Checks `input` as the lines of a file.
pub fn lines(input: &[u8]) {
    for runs in [Runs::One, Runs::Many] {
        let mut checker = Checker::new(Options { runs, keep: 5, ..Options::default() });
        let mut events = 0;
        for line in input.split(|byte| *byte == b'\n') {
            events += u64::from(!line.trim_ascii().is_empty());
            checker.line(line);
        }
        let reports = checker.finish();
        assert_eq!(reports.iter().map(|report| report.events).sum::<u64>(), events);
        for report in &reports {
            assert_eq!(report.is_valid(), report.violations.is_empty());
            assert!(report.violations.len() <= 5 && report.warnings.len() <= 5);
        }
    }
}
