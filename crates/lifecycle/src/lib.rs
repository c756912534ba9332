//! The state machine of Canonical Lifecycle Events v1: the rules R01–R15, in one validator for both boundaries.
//!
//! Refuses: IO, clocks, randomness, repairing what it is given, and everything that one event alone can tell (that is
//! `causeway-contract`).

mod budget;
pub mod check;
mod interrupt;
pub mod lint;
pub mod message;
pub mod namespace;
mod order;
pub mod report;
pub mod rule;
pub mod run;
pub mod schemas;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod tool;
pub mod validator;
pub mod violation;

pub use lint::{Lint, Linter};
pub use rule::{Rule, Verdict};
pub use schemas::{Mismatch, ToolSchemas};
pub use validator::{Boundary, Thread, Validator};
pub use violation::Violation;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
