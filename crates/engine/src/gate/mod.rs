//! The gate: tools that the engine runs for a worker, after it has read the arguments strictly, held them against the
//! tool's schema, had a person asked where that is wanted, and written the start down.
//!
//! [`machine::Gate`] decides and performs nothing; `drive` performs what it wants, and [`Invoker`]s touch the world.
//! Refuses to run what is not declared, what is not in the log, what nobody approved, and anything for a worker whose run is
//! no longer its own; and refuses to run anything twice.

pub mod arguments;
pub mod command;
pub mod invoke;
pub mod machine;
pub mod snapshot;
pub mod tools;
pub mod verdicts;

pub use invoke::{Call, Invoker, Returned};
pub use machine::Gate;
pub use tools::{Approval, Invoke, Tool, Tools};

/// Codes of `tool.error` that the gate gives, each with what it means; docs/errors.md lists them.
pub const ERRORS: &[&str] = &[
    INVALID_ARGUMENTS,
    UNKNOWN_TOOL,
    APPROVAL_MISMATCH,
    REJECTED,
    FAILED,
    TIMEOUT,
    OUTPUT_TOO_LARGE,
    OUTPUT_INVALID,
    UNAVAILABLE,
    causeway_adapter::gated::BYPASSED,
];
/// Codes of warnings about tools that a harness runs by itself.
pub const WARNINGS: &[&str] = &[ARGUMENTS_UNFIT, UNGATED];
/// What a worker is told where nothing is recorded, because nothing can be.
pub const REFUSALS: &[&str] = &[STALE, RUN_OVER, CALL_REPEATED, NOT_RECORDED];

/// Arguments that are no strict JSON object, that do not satisfy the schema, or that are not those the call was told with.
pub const INVALID_ARGUMENTS: &str = "invalid_arguments";
/// A tool that the gateway does not run.
pub const UNKNOWN_TOOL: &str = "unknown_tool";
/// Arguments that are not those that were approved.
pub const APPROVAL_MISMATCH: &str = "approval_mismatch";
/// A person said no.
pub const REJECTED: &str = "tool_rejected";
/// The tool ended with an error of its own.
pub const FAILED: &str = "tool_failed";
/// The tool took too long and was ended.
pub const TIMEOUT: &str = "tool_timeout";
/// The tool said more than it may and was ended.
pub const OUTPUT_TOO_LARGE: &str = "tool_output_too_large";
/// The tool said what is no text.
pub const OUTPUT_INVALID: &str = "tool_output_invalid";
/// The tool could not be run at all.
pub const UNAVAILABLE: &str = "tool_unavailable";

/// A harness ran a tool with arguments that do not satisfy its schema.
pub const ARGUMENTS_UNFIT: &str = "tool_arguments_unfit";
/// A worker ran a tool by itself that the gateway is there to run.
pub const UNGATED: &str = "tool_not_gated";

/// The worker's run is no longer its own.
pub const STALE: &str = "stale_worker";
/// The run is being left, or over.
pub const RUN_OVER: &str = "run_over";
/// The call is under way or has ended.
pub const CALL_REPEATED: &str = "call_repeated";
/// The start could not be written down.
pub const NOT_RECORDED: &str = "not_recorded";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_of_errors_lists_every_code_of_the_gate_and_no_other() {
        let page = include_str!("../../../../docs/errors.md");
        let part =
            page.split("## Tools that the gateway runs").nth(1).unwrap().split("\n## ").next().unwrap();
        let listed: BTreeSet<&str> =
            part.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let known: BTreeSet<&str> = [ERRORS, WARNINGS, REFUSALS].concat().into_iter().collect();
        assert_eq!(listed, known, "left: docs/errors.md, right: the source");
    }
}
