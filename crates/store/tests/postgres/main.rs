//! The store on PostgreSQL: the suite of all backends, walks, and what many gateways on one schema must never do.
//!
//! The server is started here, as an ordinary process; where none is installed every test says SKIPPED.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "../../../../tests/support/authority.rs"]
mod authority;
mod gateways;
mod hints;
mod import;
mod proxy;
mod schema;
mod tls;
mod trouble;
mod versions;
mod walks;

use std::sync::Arc;

use causeway_store::conformance::Backend;
use causeway_store::conformance::server::Server;
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, Store};

/// A schema of its own on the shared server.
struct Postgres {
    options: Options,
    store: Option<PostgresStore>,
}

impl Postgres {
    fn empty() -> Option<Self> {
        let options = Server::shared()?.empty();
        let store = Some(PostgresStore::open(options.clone()).unwrap());
        Some(Self { options, store })
    }
}

impl Backend for Postgres {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone().unwrap())
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(PostgresStore::open(self.options.clone()).unwrap());
    }
}

mod suite {
    use super::Postgres;

    causeway_store::conformance_suite!(match Postgres::empty() {
        Some(backend) => backend,
        None => return,
    });
}
