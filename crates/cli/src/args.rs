//! The command line as a whole: what every command shares. The commands' own options stand beside their code.

use clap::{Parser, ValueEnum};

use crate::commands::Command;

/// One validated, durable, resumable event stream for every AI agent.
#[derive(Debug, Parser)]
#[command(
    name = "causeway",
    version = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("CAUSEWAY_COMMIT"), ")"),
    about,
    propagate_version = true,
    max_term_width = 110,
    after_help = "Exit status: 0 clean, 1 findings, 2 could not do it.\n\nExample:\n  causeway check run.jsonl"
)]
pub struct Args {
    /// Form of the log on stderr.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogForm::Text, global = true)]
    pub log: LogForm,

    /// What is logged: error, warn, info, debug, trace, or a filter such as `causeway_engine=debug,info`.
    #[arg(long, value_name = "LEVEL", default_value = "info", global = true)]
    pub log_level: String,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_help_of_every_command_has_an_example() {
        for command in Args::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let has_own = command.has_subcommands();
            assert!(has_own || help.contains("Example"), "{} has no example", command.get_name());
        }
    }
}
