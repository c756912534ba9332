//! The deepagents adapter against the goldens, the recordings, the cases, and damaged recordings.

mod golden;
mod mutated;
mod recorded;
mod support;
