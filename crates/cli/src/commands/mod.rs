//! The subcommands, one module each: its `Args`, and `run(Args)` that does it.
//!
//! To add one: a module, a variant with the first line of its help, an arm.

mod check;
mod completions;
mod explain;
mod schema;

use clap::Subcommand;

use crate::exit::Exit;

/// What `causeway` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether canonical event streams are legal.
    Check(check::Args),
    /// Explain a rule, a check or a lint.
    Explain(explain::Args),
    /// Print the JSON Schema of the contract.
    Schema(schema::Args),
    /// Print the completions of a shell.
    Completions(completions::Args),
}

/// Does it.
///
/// # Errors
/// Why it could not be done (status 2).
pub fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
