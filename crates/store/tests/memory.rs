//! The store in memory passes the suite of all backends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use causeway_store::conformance::Backend;
use causeway_store::{MemoryStore, Store};

struct Memory(MemoryStore);

impl Memory {
    fn empty() -> Self {
        Self(MemoryStore::new())
    }
}

impl Backend for Memory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    fn restart(&mut self) {
        self.0 = self.0.restarted();
    }
}

causeway_store::conformance_suite!(Memory::empty());
