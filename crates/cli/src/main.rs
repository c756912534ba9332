//! The `causeway` command: one module per subcommand, everything else in the crates below.
//!
//! Exit status: 0 clean, 1 findings, 2 could not do it.

mod args;
mod commands;
mod exit;
mod logging;
mod terminal;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;
use crate::exit::Exit;

fn main() -> ExitCode {
    let args = Args::parse(); // a bad command line ends here with status 2
    logging::start(args.log, &args.log_level);
    #[cfg(feature = "failpoints")]
    if let Err(unarmed) = causeway_store::failpoint::arm(&[
        causeway_store::failpoint::POINTS,
        causeway_engine::failpoint::POINTS,
        causeway_server::failpoint::POINTS,
    ]) {
        let _nobody_listens = writeln!(std::io::stderr(), "causeway: {unarmed}");
        return ExitCode::from(exit::COULD_NOT);
    }
    match commands::run(args.command) {
        Ok(exit) => exit.into(),
        Err(error) if exit::is_broken_pipe(&error) => Exit::Clean.into(),
        Err(error) => {
            let text = format!("{error:#}");
            let _nobody_listens = writeln!(std::io::stderr(), "causeway: {}", terminal::escaped(&text));
            ExitCode::from(exit::COULD_NOT)
        }
    }
}
