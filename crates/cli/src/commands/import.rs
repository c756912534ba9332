//! `causeway import`: the data directory of one gateway becomes the schema of many.
//!
//! Refuses a schema that is not empty and a directory that is in use; all of it is there afterwards, or nothing.

use std::io::Write as _;
use std::path::PathBuf;

use causeway_store::postgres::import;

use crate::commands::migrate::shared_options;
use crate::exit::Exit;
use crate::terminal::escaped;

/// Options of `import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  causeway import --config shared.toml data\n\n\
The settings name the schema, which is made where there is none; no gateway may use it or the directory. Everything goes over in one \
transaction and is read back before it counts. The directory is only read: keep it until you are sure. Runs that were active in it are \
ended by the first gateway. What workers keep stays where it is: files of the directory are not part of the schema.")]
pub struct Args {
    /// The settings [default: causeway.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory
    #[arg(value_name = "DIR")]
    data: PathBuf,
}

/// Does it.
///
/// # Errors
/// The settings are not valid or of another store, either side is in use, the schema is not empty, or a table does not go over.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let options = shared_options(args.config.as_deref())?;
    let mut told = 0_u64;
    let imported = import(&args.data, &options, |table, rows| {
        // Now and then, for those who wait.
        if rows / 100_000 != told {
            told = rows / 100_000;
            tracing::info!(what = table, count = rows, "importing");
        }
    })?;
    let mut out = std::io::stdout().lock();
    for table in &imported {
        writeln!(out, "{:<13} {:>12} rows  sha256 {}", table.table, table.rows, table.sha256)?;
    }
    writeln!(
        out,
        "{}: imported; every row was read back and compared",
        escaped(&args.data.display().to_string())
    )?;
    out.flush()?;
    Ok(Exit::Clean)
}
