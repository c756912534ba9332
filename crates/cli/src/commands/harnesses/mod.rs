//! `causeway harnesses`: what this build can translate, and how well.

mod damage;
pub mod figures;

use std::io::Write as _;
use std::path::PathBuf;

use causeway_adapter::registry::HARNESSES;
use causeway_engine::engine::HarnessInfo;
use causeway_server::view;
use clap::ValueEnum;

use crate::exit::Exit;

/// Options of `harnesses`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  causeway harnesses --format json
  causeway harnesses --figures tests/data/recordings")]
pub struct Args {
    /// Form of the answer; `json` is that of GET /api/v1/harnesses
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Count what the recordings of a directory show, as docs/harnesses.md does
    #[arg(long, value_name = "DIR", conflicts_with = "format")]
    figures: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Prints the catalogue.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    if let Some(directory) = &args.figures {
        write!(out, "{}\n{}", figures::table(directory)?, figures::capabilities())?;
        return Ok(Exit::Clean);
    }
    match args.format {
        Format::Json => writeln!(out, "{}", view::harnesses(HARNESSES))?,
        Format::Text => {
            for harness in HARNESSES {
                write!(out, "{}", described(harness))?;
            }
        }
    }
    Ok(Exit::Clean)
}

fn described(harness: &HarnessInfo) -> String {
    let aliases = if harness.aliases.is_empty() {
        String::new()
    } else {
        format!(" (also: {})", harness.aliases.join(", "))
    };
    let mut text = format!("{}{aliases}: {}\n", harness.id, harness.title);
    for can in harness.capabilities {
        text.push_str(&format!("  {:<18} {:<12} {}\n", can.name, can.level.as_str(), can.note));
    }
    text
}
