//! `causeway migrate`: the schema of shared mode, looked at or brought up to date before a new version is started.
//!
//! Refuses a store without one: a SQLite file is migrated when the gateway opens it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use causeway_server::config::{Overrides, StoreKind};
use causeway_server::gateway::postgres_options;
use causeway_store::PostgresStore;
use causeway_store::postgres::Options;

use crate::commands::config::{Loaded, load};
use crate::exit::Exit;

/// Options of `migrate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  causeway migrate --dry-run\n  causeway migrate --config causeway.toml\n\n\
`--dry-run` prints the versions and the statements of the steps that are missing, and changes nothing; it ends with 1 where there \
are some. Gateways of the version before may go on meanwhile; see docs/shared-mode.md."
)]
pub struct Args {
    /// The settings [default: causeway.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Does it.
///
/// # Errors
/// The settings are not valid or of another store, or the database refuses.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let options = shared_options(args.config.as_deref())?;
    let mut out = std::io::stdout().lock();
    let exit = if args.dry_run {
        let (found, newest) = PostgresStore::version(&options)?;
        writeln!(out, "-- schema version {found}, the newest of this build is {newest}")?;
        for (number, step) in (found..).zip(PostgresStore::migrations(found)) {
            writeln!(out, "-- version {}", number + 1)?;
            writeln!(out, "{}", step.trim())?;
        }
        if found >= newest { Exit::Clean } else { Exit::Findings }
    } else {
        let (found, newest) = PostgresStore::migrate(&options)?;
        if found >= newest {
            writeln!(out, "the schema is up to date (version {found}, this build speaks {newest})")?;
        } else {
            writeln!(out, "the schema was brought from version {found} to {newest}")?;
        }
        Exit::Clean
    };
    out.flush()?;
    Ok(exit)
}

/// The database of a configuration that has one.
///
/// # Errors
/// The settings are not valid, or of another store.
pub fn shared_options(config: Option<&Path>) -> anyhow::Result<Options> {
    let (Loaded::File(config) | Loaded::Defaults(config)) = load(config, &Overrides::default())?;
    if config.store.kind != StoreKind::Postgres {
        bail!("store.kind is not \"postgres\"; a SQLite file is migrated when the gateway opens it");
    }
    Ok(postgres_options(&config)?)
}
