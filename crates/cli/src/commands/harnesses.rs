//! `causeway harnesses`: what this build can translate.

use std::io::Write as _;

use clap::ValueEnum;

use crate::exit::Exit;

/// Options of `harnesses`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway harnesses --format json")]
pub struct Args {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}
