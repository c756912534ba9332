//! `causeway schema`: the JSON Schema of one event.

use std::io::Write as _;

use crate::exit::Exit;

/// Options of `schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway schema > canonical-events-v1.schema.json")]
pub struct Args {}

/// Prints it.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(_args: &Args) -> anyhow::Result<Exit> {
    std::io::stdout().lock().write_all(causeway_contract::schema::json_schema_text().as_bytes())?;
    Ok(Exit::Clean)
}
