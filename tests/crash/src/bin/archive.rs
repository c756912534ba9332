//! `crash-archive DATA`: packs every run that has ended, as a gateway that keeps house would, and can be killed at it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use causeway_contract::timestamp::Timestamp;
use causeway_store::sqlite::Options;
use causeway_store::{SqliteStore, Store as _};

fn main() -> ExitCode {
    match archive() {
        Ok(runs) => {
            println!("{runs}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("crash-archive: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn archive() -> anyhow::Result<u64> {
    #[cfg(feature = "failpoints")]
    causeway_store::failpoint::arm(&[causeway_store::failpoint::POINTS])?;
    let dir = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("usage: crash-archive DATA"))?;
    let store = SqliteStore::open(Options::new(dir))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let all = Timestamp::from_unix(i64::from(u32::MAX), 0);
    Ok(runtime.block_on(store.archive(&all, 1000))?.runs)
}
