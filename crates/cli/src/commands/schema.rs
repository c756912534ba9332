//! `causeway schema`: the JSON Schema of one event, and the OpenAPI document of the gateway.

use std::io::Write as _;

use crate::exit::Exit;

/// Options of `schema`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  causeway schema > canonical-events-v1.schema.json\n  causeway schema --openapi > openapi.json"
)]
pub struct Args {
    /// Print the OpenAPI 3.1 document of the gateway instead
    #[arg(long)]
    openapi: bool,
}

/// Prints it.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let text = if args.openapi {
        causeway_server::openapi::text()
    } else {
        causeway_contract::schema::json_schema_text()
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Clean)
}
