//! The subcommands, one module each: its `Args`, and `run(Args)` that does it.
//!
//! To add one: a module, a variant with the first line of its help, an arm.

mod adapt;
mod audit;
mod backup;
mod bench;
mod check;
mod completions;
mod config;
mod conform;
mod credential;
mod doctor;
mod encode;
mod explain;
mod harnesses;
mod import;
mod migrate;
mod reference;
mod runs;
mod schema;
mod serve;

use clap::Subcommand;

use crate::exit::Exit;

/// What `causeway` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether canonical event streams are legal.
    Check(check::Args),
    /// Turn the native stream of a harness into canonical events.
    Adapt(adapt::Args),
    /// Turn canonical events into the bytes a client sees.
    Encode(encode::Args),
    /// Explain a rule, a check or a lint.
    Explain(explain::Args),
    /// Print the JSON Schema of the contract.
    Schema(schema::Args),
    /// Measure this machine.
    Bench(bench::Args),
    /// Run the gateway.
    Serve(serve::Args),
    /// List, show, follow and export stored runs.
    Runs(runs::Args),
    /// Check or show the settings of the gateway.
    Config(config::Args),
    /// Copy the data directory, also while the gateway runs.
    Backup(backup::Args),
    /// Make a data directory of a backup.
    Restore(backup::RestoreArgs),
    /// Bring the schema of shared mode up to date, or say what that would do.
    Migrate(migrate::Args),
    /// Bring a data directory into the schema of shared mode.
    Import(import::Args),
    /// Say whether a gateway could run here, or how the one that runs does.
    Doctor(doctor::Args),
    /// Say whether a worker, an agent or a recording keeps the rules.
    Conform(conform::Args),
    /// Check the audit log of a gateway.
    Audit(audit::Args),
    /// Say which harnesses this build can translate.
    Harnesses(harnesses::Args),
    /// Print every setting, metric and error of this build.
    Reference(reference::Args),
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
        Command::Adapt(args) => adapt::run(&args),
        Command::Encode(args) => encode::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Runs(args) => runs::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Conform(args) => conform::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Harnesses(args) => harnesses::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
