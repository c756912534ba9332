//! Random trouble for many runs at once, on both stores: what was shown stays true, every run gets one terminal, and
//! the head moves with a success only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "support/harness.rs"]
mod harness;

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::limits::Limits;
use causeway_engine::engine::Started;
use causeway_engine::harness::TurnEnd;
use causeway_engine::{Engine, Error};
use causeway_lifecycle::{Boundary, Thread, Validator};
use causeway_store::error::Cause;
use causeway_store::faulty::{Fault, FaultyStore, On};
use causeway_store::model::{Owner, Status};
use causeway_store::sqlite::{Options, SqliteStore};
use causeway_store::{MemoryStore, Record, Store};

use harness::{Scripted, Step, agent, begin, end, follow, question, request, settings, story, text};

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn turn(dice: &mut Dice) -> Vec<Step> {
    let mut steps = vec![begin()];
    for piece in 0..dice.below(30) {
        steps.push(text("m", &format!("piece {piece} ")));
        if dice.below(6) == 0 {
            steps.push(Step::Pause(Duration::from_millis(dice.below(8))));
        }
    }
    match dice.below(6) {
        0 => steps.push(Step::End(TurnEnd::Broken)),
        1 => steps.push(question("paused")),
        2 => steps.push(Step::Hang),
        _ => steps.push(end("done")),
    }
    steps
}

fn fault(dice: &mut Dice) -> (On, Fault) {
    let on = match dice.below(8) {
        0 => On::Open,
        1 => On::CommitInterrupt,
        2 => On::Fence,
        3 => On::Close,
        4 | 5 => On::CommitFinal,
        _ => On::Append,
    };
    let fault = match dice.below(3) {
        0 => Fault::Unavailable(Cause::DiskFull),
        1 => Fault::UnknownBeforeApply,
        _ => Fault::UnknownAfterApply,
    };
    (on, fault)
}

async fn rounds(seeds: std::ops::Range<u64>, store: Arc<dyn Store>) {
    let harness = Scripted::new([]);
    harness.says_when_cancelled(vec![]);
    let store = FaultyStore::new(store);
    let mut settings = settings();
    settings.store_patience = Duration::from_millis(100);
    settings.repair_interval = Duration::from_millis(20);
    let engine = Engine::open(settings, vec![agent(&harness)], Arc::new(store.clone())).await.unwrap();
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for seed in seeds {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..dice.below(6) {
            let (on, fault) = fault(&mut dice);
            store.fail_next(on, fault);
        }
        let mut runs = Vec::new();
        for lane in 0..3 {
            harness.add(turn(&mut dice));
            match engine.start(request(&format!("c-{seed}-{lane}"))).await {
                Ok(Started { run_id, .. }) => runs.push((lane, run_id)),
                Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        let watched = runs.iter().map(|(_, run_id)| follow(&engine, run_id, None));
        let canceller = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            for (_, run_id) in &runs {
                let _ = engine.cancel_run(&Owner::local(), run_id).await;
            }
        };
        let (seen, ()) = futures::join!(futures::future::join_all(watched), canceller);
        store.heal();
        harness.forget_turns();
        for ((lane, run_id), seen) in runs.iter().zip(seen) {
            let seen = seen.unwrap();
            let conversation = ConversationId::new(format!("c-{seed}-{lane}")).unwrap();
            let word = check(&engine, &store, run_id, &conversation, &seen, seed).await;
            *outcomes.entry(word).or_default() += 1;
        }
    }
    println!("{outcomes:?}");
    for word in ["run.finished", "run.interrupted", "run.cancelled", "run.error"] {
        assert!(outcomes.keys().any(|outcome| outcome.starts_with(word)), "{word} never happened");
    }
}

async fn check(
    engine: &Engine,
    store: &FaultyStore,
    run_id: &RunId<'_>,
    conversation: &ConversationId<'_>,
    seen: &[Record],
    seed: u64,
) -> String {
    let status = settled(engine, run_id).await;
    let all = follow(engine, run_id, None).await.unwrap();
    let told = story(&all);
    assert_eq!(seen, &all[..seen.len()], "seed {seed}: what was shown stays true");
    let mut validator = Validator::new(Boundary::Commit, Thread::Durable, Limits::DEFAULT).offline();
    for (number, record) in all.iter().enumerate() {
        assert_eq!(record.sequence.value(), number as u64, "seed {seed}: {told}");
        let event = record.decode(run_id, conversation, &Limits::DEFAULT).unwrap();
        validator.accept(&event, 0).unwrap_or_else(|violation| panic!("seed {seed}: {violation}: {told}"));
    }
    validator.finish().unwrap_or_else(|violation| panic!("seed {seed}: {violation}: {told}"));
    let agent = causeway_contract::id::Name::new("helper").unwrap();
    let head = store.load_head(&Owner::local(), conversation, &agent).await.unwrap();
    let head = head.map(|head| head.head_ref.to_string());
    let expected = match status {
        Status::Finished => Some("done"),
        Status::Interrupted => Some("paused"),
        Status::Cancelled | Status::Error | Status::Uncertain => None,
        Status::Running => panic!("seed {seed}: still running"),
    };
    assert_eq!(head.as_deref(), expected, "seed {seed}: {told}");
    assert_eq!(told.contains("interrupt.requested"), status == Status::Interrupted, "seed {seed}: {told}");
    told.rsplit("; ").next().unwrap_or_default().to_owned()
}

/// The status of a run once it has its terminal, however late that comes.
async fn settled(engine: &Engine, run_id: &RunId<'_>) -> Status {
    for _ in 0..1000 {
        let status = engine.run(&Owner::local(), run_id).await.unwrap().status;
        if status.is_terminal() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run never ended");
}

#[tokio::test]
async fn random_trouble_never_makes_a_promise_false_in_memory() {
    rounds(1..60, Arc::new(MemoryStore::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_trouble_never_makes_a_promise_false_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(dir.path().join("data")).low_disk_bytes(0)).unwrap();
    rounds(100..130, Arc::new(store)).await;
}
