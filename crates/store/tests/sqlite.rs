//! The store on SQLite passes the suite of all backends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use causeway_store::Store;
use causeway_store::conformance::Backend;
use causeway_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

struct Sqlite {
    dir: TempDir,
    store: Option<SqliteStore>,
}

impl Sqlite {
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Some(SqliteStore::open(options(&dir)).unwrap());
        Self { dir, store }
    }
}

fn options(dir: &TempDir) -> Options {
    Options::new(dir.path().join("data")).low_disk_bytes(0)
}

impl Backend for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone().unwrap())
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(SqliteStore::open(options(&self.dir)).unwrap());
    }
}

causeway_store::conformance_suite!(Sqlite::empty());
