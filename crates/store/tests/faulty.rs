//! The store that fails on demand fails as it was told, and no more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use causeway_store::conformance::Backend;
use causeway_store::conformance::fixture::{
    delta, fail, finish, first, log, open, opened, refusal, run_id, sequence,
};
use causeway_store::error::{Cause, Error, Refusal};
use causeway_store::faulty::{Fault, FaultyStore, On};
use causeway_store::model::{Generation, Outcome, Status};
use causeway_store::{MemoryStore, Store};

fn faulty() -> FaultyStore {
    FaultyStore::new(Arc::new(MemoryStore::new()))
}

#[tokio::test]
async fn a_lost_answer_comes_with_or_without_the_write() {
    let store = faulty();
    opened(&store, open("r1", "c")).await;
    store.fail_next(On::CommitFinal, Fault::UnknownBeforeApply);
    store.fail_next(On::CommitFinal, Fault::UnknownAfterApply);
    let r1 = run_id("r1");
    let commit = || store.commit_final(&r1, Generation::new(1), finish(1, 0, "h"));
    let unknown = |answer| matches!(answer, Err(Error::Unknown(_)));
    assert!(unknown(commit().await));
    let running = Outcome::Running { generation: first(), last_sequence: sequence(0) };
    assert_eq!(store.outcome(&run_id("r1")).await, Ok(running));
    assert!(unknown(commit().await));
    let ended = store.outcome(&run_id("r1")).await;
    assert!(matches!(ended, Ok(Outcome::Ended { status: Status::Finished, .. })), "{ended:?}");
    assert_eq!(store.calls(On::CommitFinal), 2);
}

#[tokio::test]
async fn a_lasting_fault_lasts_until_it_is_healed() {
    let store = faulty();
    opened(&store, open("r1", "c")).await;
    store.fail_always(On::Append, Fault::Unavailable(Cause::DiskFull));
    store.fail_next(On::Append, Fault::Refused(Refusal::UnknownRun));
    let r1 = run_id("r1");
    let append = || store.append(&r1, Generation::new(1), vec![delta(1)]);
    assert_eq!(refusal(append().await), Refusal::UnknownRun);
    for _ in 0..2 {
        assert!(
            matches!(append().await, Err(Error::Unavailable(trouble)) if trouble.cause == Cause::DiskFull)
        );
    }
    store.heal();
    append().await.unwrap();
    assert_eq!(log(&store, "r1").await.len(), 2);
}

#[tokio::test]
async fn a_held_call_waits_for_its_release() {
    let store = faulty();
    opened(&store, open("r1", "c")).await;
    store.hold(On::CommitFinal);
    let id = run_id("r1");
    let commit = store.commit_final(&id, first(), fail(1));
    tokio::pin!(commit);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut commit).await.is_err());
    assert_eq!(log(&store, "r1").await.len(), 1);
    store.release();
    tokio::time::timeout(Duration::from_secs(120), commit).await.unwrap().unwrap();
    assert_eq!(log(&store, "r1").await.len(), 2);
}

struct Untroubled(MemoryStore);

impl Backend for Untroubled {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(FaultyStore::new(Arc::new(self.0.clone())))
    }

    fn restart(&mut self) {
        self.0 = self.0.restarted();
    }
}

causeway_store::conformance_suite!(Untroubled(MemoryStore::new()));
