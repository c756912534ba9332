//! Random walks over every verb: each backend answers as the reference does, 100,000 steps each.
//!
//! `CAUSEWAY_STEPS` makes it longer, `CAUSEWAY_SEED` another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::sync::Arc;

use causeway_store::conformance::Backend;
use causeway_store::conformance::machine::{Fixed, Plan, walk};
use causeway_store::error::Refusal;
use causeway_store::faulty::{Fault, FaultyStore, On};
use causeway_store::sqlite::{Options, SqliteStore};
use causeway_store::{MemoryStore, Store};
use tempfile::TempDir;

fn plan(backend: &str) -> Plan {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = usize::try_from(number("CAUSEWAY_STEPS").unwrap_or(100_000)).unwrap();
    let seed = number("CAUSEWAY_SEED").unwrap_or(20_261_201);
    eprintln!("{backend}: {steps} steps, CAUSEWAY_SEED={seed}");
    Plan { steps, life: 250, seed }
}

struct Memory(MemoryStore);

impl Backend for Memory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    fn restart(&mut self) {
        self.0 = self.0.restarted();
    }
}

struct Sqlite {
    dir: TempDir,
    store: Option<SqliteStore>,
}

impl Sqlite {
    fn empty() -> Self {
        // In memory where that is to be had: this test is about answers, not about disks.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut sqlite = Self { dir, store: None };
        sqlite.restart();
        sqlite
    }
}

impl Backend for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone().unwrap())
    }

    fn restart(&mut self) {
        self.store = None;
        let options = Options::new(self.dir.path()).low_disk_bytes(0).readers(1);
        self.store = Some(SqliteStore::open(options).unwrap());
    }
}

#[tokio::test]
async fn memory_answers_as_the_reference_does() {
    let plan = plan("memory");
    assert_eq!(walk(|| Memory(MemoryStore::new()), plan).await, plan.steps);
}

/// Two walks of half the length, one on each core.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_answers_as_the_reference_does() {
    let plan = plan("sqlite");
    let half = |seed, steps| tokio::spawn(walk(Sqlite::empty, Plan { seed, steps, ..plan }));
    let walks = [half(plan.seed, plan.steps / 2), half(plan.seed + 1, plan.steps.div_ceil(2))];
    let mut taken = 0;
    for walk in walks {
        taken += walk.await.unwrap();
    }
    assert_eq!(taken, plan.steps);
}

/// A store that is wrong in one thing.
fn wrong(on: On, fault: Fault) -> impl Fn() -> Fixed {
    move || {
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        store.fail_always(on, fault.clone());
        Fixed(Arc::new(store))
    }
}

#[tokio::test]
async fn a_store_that_is_wrong_is_caught_and_the_walk_to_it_is_short() {
    for (on, fault) in [
        (On::Fence, Fault::Refused(Refusal::UnknownRun)),
        (On::Consume, Fault::UnknownAfterApply),
        (On::CommitInterrupt, Fault::UnknownBeforeApply),
    ] {
        let walk = tokio::spawn(walk(wrong(on, fault), Plan { steps: 1000, life: 250, seed: 7 }));
        let panic = walk.await.unwrap_err().into_panic();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("seed 7, after "), "{message}");
        let steps = message.split("steps; ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(steps.parse::<usize>().unwrap() <= 6, "{on:?}: {message}");
    }
}
