//! `causeway completions SHELL`.

use clap::CommandFactory as _;

use crate::exit::Exit;

/// Options of `completions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  causeway completions bash > ~/.local/share/bash-completion/completions/causeway"
)]
pub struct Args {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints the script.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Args::command(), "causeway", &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(Exit::Clean)
}
