//! `causeway bench`: measures on this machine what the documents claim.

mod baseline;
mod codec;
mod service;
mod stages;
mod workload;

use crate::exit::Exit;

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Parse, validate and encode, single-threaded, beside a plain owned serde_json parse; prints JSON.
    Codec(codec::Args),
    /// Put a gateway of its own under load and say what its clients see; prints JSON.
    Service(service::Args),
}

/// Measures.
///
/// # Errors
/// The workload cannot be read or made, or is not a legal stream.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.what {
        What::Codec(args) => codec::run(args),
        What::Service(args) => service::run(args),
    }
}
