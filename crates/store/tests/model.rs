//! Random lists of operations: the store on SQLite answers as the one in memory, which is the model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use causeway_contract::event::EventType;
use causeway_contract::timestamp::Timestamp;
use causeway_store::conformance::fixture::{
    NOON, agent, answer, cancel, cancelled, conversation, deltas, ephemeral, fail, failed, finish, head_move,
    keyed, open, owned_by, pause, record, reference, run_id, sequence,
};
use causeway_store::memory::MemoryStore;
use causeway_store::model::{Final, Generation, OpenRun, Owner, RunFilter, Status, Withdrawal};
use causeway_store::sqlite::{Options, SqliteStore};
use causeway_store::store::Store;
use proptest::collection::vec;
use proptest::prelude::*;

const RUNS: u8 = 24;

/// An operation on a small world: runs r0…r23, conversations c0…c2, owners `local` and `ann`.
#[derive(Clone, Debug)]
enum Op {
    Open {
        run: u8,
        conversation: u8,
        key: Option<(u8, u8)>,
        flavour: u8,
        after_hours: u8,
    },
    Append {
        run: u8,
        generation: u8,
        skip: u8,
        count: u8,
    },
    Usage {
        run: u8,
    },
    Finish {
        run: u8,
        generation: u8,
        base: Option<u8>,
        skip: u8,
    },
    Fail {
        run: u8,
        uncertain: bool,
    },
    Cancel {
        run: u8,
        with_head: bool,
    },
    Pause {
        run: u8,
        expires: bool,
    },
    Answer {
        interrupted: u8,
        revision: u8,
        run: u8,
        conversation: u8,
        key: Option<(u8, u8)>,
        after_hours: u8,
    },
    Void {
        run: u8,
    },
    Fence {
        run: u8,
    },
    Close {
        run: u8,
    },
    Result {
        run: u8,
        bytes: u8,
    },
    Clear {
        conversation: u8,
    },
    Delete {
        conversation: u8,
    },
    Forget {
        run: u8,
    },
    Archive {
        after_hours: u8,
    },
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let run = || 0u8..RUNS;
    let place = || 0u8..3;
    let key = || proptest::option::weighted(0.3, (0u8..2, 0u8..2));
    prop_oneof![
        8 => (run(), place(), key(), 0u8..12, 0u8..40).prop_map(|(run, conversation, key, flavour, after_hours)| {
            Op::Open { run, conversation, key, flavour, after_hours }
        }),
        4 => (run(), 1u8..12, prop_oneof![9 => Just(0u8), 1 => 1u8..3], 1u8..5)
            .prop_map(|(run, generation, skip, count)| Op::Append { run, generation, skip, count }),
        1 => run().prop_map(|run| Op::Usage { run }),
        4 => (run(), 1u8..12, proptest::option::weighted(0.2, 0u8..4), prop_oneof![9 => Just(0u8), 1 => Just(1u8)])
            .prop_map(|(run, generation, base, skip)| Op::Finish { run, generation, base, skip }),
        2 => (run(), any::<bool>()).prop_map(|(run, uncertain)| Op::Fail { run, uncertain }),
        1 => (run(), any::<bool>()).prop_map(|(run, with_head)| Op::Cancel { run, with_head }),
        4 => (run(), any::<bool>()).prop_map(|(run, expires)| Op::Pause { run, expires }),
        5 => (run(), 0u8..10, run(), place(), key(), 0u8..40).prop_map(
            |(interrupted, revision, run, conversation, key, after_hours)| Op::Answer {
                interrupted, revision, run, conversation, key, after_hours
            }
        ),
        1 => run().prop_map(|run| Op::Void { run }),
        1 => run().prop_map(|run| Op::Fence { run }),
        1 => run().prop_map(|run| Op::Close { run }),
        1 => (run(), 0u8..3).prop_map(|(run, bytes)| Op::Result { run, bytes }),
        1 => place().prop_map(|conversation| Op::Clear { conversation }),
        1 => (2u8..3).prop_map(|conversation| Op::Delete { conversation }),
        1 => run().prop_map(|run| Op::Forget { run }),
        1 => (0u8..40).prop_map(|after_hours| Op::Archive { after_hours }),
        1 => Just(Op::Restart),
    ]
}

/// Most operations go to a run that is active, or to an interrupt that is pending, and most new runs are new; the rest
/// go where they fall.
async fn aim(model: &dyn Store, mut op: Op) -> Op {
    let number = |id: &str| id.trim_start_matches(['r', 'c']).parse::<u8>().unwrap();
    let (mut active, mut fresh) = (Vec::new(), 0);
    for owner in owners() {
        for run in model.runs(&owner, &RunFilter::default(), 99, None).await.unwrap().runs {
            fresh = fresh.max(number(run.run_id.as_str()) + 1);
            if run.status == Status::Running {
                active.push((number(run.run_id.as_str()), u8::try_from(run.generation.value()).unwrap()));
            }
        }
    }
    let target =
        |run: u8| active.get(usize::from(run) % active.len().max(1)).copied().filter(|_| run < RUNS - 2);
    match &mut op {
        Op::Open { run, .. } if *run > 1 => *run = fresh % RUNS,
        Op::Append { run, generation: given, .. } | Op::Finish { run, generation: given, .. } => {
            if let Some((found, generation)) = target(*run) {
                *run = found;
                *given = if *given == 2 { 1 } else { generation };
            }
        }
        Op::Usage { run }
        | Op::Fail { run, .. }
        | Op::Cancel { run, .. }
        | Op::Pause { run, .. }
        | Op::Fence { run }
        | Op::Close { run } => {
            if let Some((found, _)) = target(*run) {
                *run = found;
            }
        }
        Op::Answer { interrupted, revision, conversation: place, run, .. } => {
            let pending = model.pending_interrupts(&Owner::local(), 9).await.unwrap();
            if let Some(found) = pending.get(usize::from(*interrupted) % pending.len().max(1)) {
                *interrupted = number(found.run_id.as_str());
                *place = if *place == 2 { 0 } else { number(found.conversation_id.as_str()) };
                *revision =
                    if *revision == 0 { 7 } else { u8::try_from(found.summary.revision.value()).unwrap() };
                *run = if *run == 0 { 0 } else { fresh % RUNS };
            }
        }
        _ => {}
    }
    op
}

fn run_name(run: u8) -> String {
    format!("r{run}")
}

fn new_run(run: u8, place: u8, key: Option<(u8, u8)>, after_hours: u8) -> OpenRun {
    let mut new = open(&run_name(run), &format!("c{place}"));
    new.started.timestamp = Timestamp::from_unix(NOON + i64::from(after_hours) * 3600, 0);
    match key {
        Some((key, body)) => keyed(new, &format!("k{key}"), body),
        None => new,
    }
}

/// The number that the log of this run goes on with, or 0.
async fn next(store: &dyn Store, run: u8) -> u64 {
    let page = store.read_after(&run_id(&run_name(run)), None, 1).await;
    page.map_or(0, |page| page.last_sequence.value() + 1)
}

/// The revision that a commit of this run builds on.
async fn base(store: &dyn Store, run: u8) -> u64 {
    for owner in owners() {
        if let Ok(run) = store.run(&owner, &run_id(&run_name(run))).await {
            let head = store.load_head(&owner, &run.conversation_id, &run.agent_id).await.unwrap();
            return head.map_or(0, |head| head.revision.value());
        }
    }
    0
}

fn owners() -> [Owner; 2] {
    [Owner::local(), Owner::new("ann")]
}

/// Does the operation; the answer as text, so that the two can be compared whatever its type.
async fn apply(store: &dyn Store, op: &Op) -> String {
    let (local, first) = (Owner::local(), Generation::new(1));
    match *op {
        Op::Open { run, conversation: place, key, flavour, after_hours } => {
            let mut new = new_run(run, place, key, after_hours);
            match flavour {
                0 => new = owned_by(new, "ann"),
                1 => new = ephemeral(new),
                2 => new.agent_id = agent("other"),
                3 => new.worker_thread = None,
                _ => {}
            }
            format!("{:?}", store.open_run(new).await)
        }
        Op::Append { run, generation, skip, count } => {
            let from = next(store, run).await + u64::from(skip);
            let records = deltas(from..from + u64::from(count));
            let id = run_id(&run_name(run));
            format!("{:?}", store.append(&id, Generation::new(u64::from(generation)), records).await)
        }
        Op::Usage { run } => {
            let number = next(store, run).await;
            let usage = record(
                number,
                EventType::UsageUpdated,
                &format!(r#"{{"input_tokens":{number},"final":false}}"#),
            );
            format!("{:?}", store.append(&run_id(&run_name(run)), first, vec![usage]).await)
        }
        Op::Finish { run, generation, base: given, skip } => {
            let expected = match given {
                Some(given) => u64::from(given),
                None => base(store, run).await,
            };
            let end = finish(next(store, run).await + u64::from(skip), expected, &format!("h{run}"));
            let id = run_id(&run_name(run));
            format!("{:?}", store.commit_final(&id, Generation::new(u64::from(generation)), end).await)
        }
        Op::Fail { run, uncertain } => {
            let code = if uncertain { "thread_durability_uncertain" } else { "harness_timeout" };
            let end = Final { tail: vec![failed(next(store, run).await, code)], head: None };
            format!("{:?}", store.commit_final(&run_id(&run_name(run)), first, end).await)
        }
        Op::Cancel { run, with_head } => {
            let number = next(store, run).await;
            let mut end = cancel(number);
            if with_head {
                end = Final {
                    tail: vec![cancelled(number)],
                    head: Some(head_move(base(store, run).await, "hc")),
                };
            }
            format!("{:?}", store.commit_final(&run_id(&run_name(run)), first, end).await)
        }
        Op::Pause { run, expires } => {
            let mut commit =
                pause(next(store, run).await, base(store, run).await, &format!("p{run}"), &format!("i{run}"));
            commit.expires_at = expires.then(|| Timestamp::from_unix(NOON + 20 * 3600, 0));
            format!("{:?}", store.commit_interrupt(&run_id(&run_name(run)), first, commit).await)
        }
        Op::Answer { interrupted, revision, run, conversation: place, key, after_hours } => {
            let (name, interrupt) = (run_name(interrupted), format!("i{interrupted}"));
            let given = answer(&name, &interrupt, u64::from(revision), new_run(run, place, key, after_hours));
            format!("{:?}", store.consume_interrupt(given).await)
        }
        Op::Void { run } => {
            format!("{:?}", store.void_interrupt(&run_id(&run_name(run)), Withdrawal::Voided).await)
        }
        Op::Fence { run } => format!("{:?}", store.fence(&run_id(&run_name(run))).await),
        Op::Close { run } => {
            let tail = fail(next(store, run).await).tail;
            format!("{:?}", store.close_run(&run_id(&run_name(run)), tail).await)
        }
        Op::Result { run, bytes } => {
            let put = store.put_result(&run_id(&run_name(run)), &reference("big"), vec![bytes; 3]).await;
            format!("{put:?}")
        }
        Op::Clear { conversation: place } => {
            format!("{:?}", store.clear_conversation(&local, &conversation(&format!("c{place}"))).await)
        }
        Op::Delete { conversation: place } => {
            format!("{:?}", store.delete_conversation(&local, &conversation(&format!("c{place}"))).await)
        }
        Op::Forget { run } => format!("{:?}", store.threads_forgotten(&[run_id(&run_name(run))]).await),
        Op::Archive { after_hours } => {
            // What it saved is the backend's own affair.
            let before = Timestamp::from_unix(NOON + i64::from(after_hours) * 3600, 0);
            format!("{:?}", store.archive(&before, 3).await.map(|_| ()))
        }
        Op::Restart => String::new(),
    }
}

/// Everything that can be read. Payloads hide from `Debug`, so their text is written out.
async fn view(store: &dyn Store) -> Vec<String> {
    let mut seen = Vec::new();
    for owner in owners() {
        let mut cursor = None;
        loop {
            let page = store.runs(&owner, &RunFilter::default(), 2, cursor).await.unwrap();
            seen.extend(page.runs.iter().map(|run| {
                let texts = [&run.error, &run.usage, &run.seed]
                    .map(|text| text.as_ref().map(|t| t.as_str().to_owned()));
                format!("{run:?} {texts:?} {}", run.request.as_str())
            }));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        for status in Status::ALL {
            let filter = RunFilter { status: Some(*status), ..RunFilter::default() };
            seen.push(format!("{:?}", store.runs(&owner, &filter, 3, None).await));
        }
        for place in 0..3 {
            let id = conversation(&format!("c{place}"));
            for agent_id in ["helper", "other"] {
                seen.push(format!("{:?}", store.load_head(&owner, &id, &agent(agent_id)).await));
            }
            seen.push(format!("{:?}", store.active_run(&owner, &id).await));
            seen.push(format!("{:?}", store.pending_interrupt(&owner, &id).await));
            seen.push(format!("{:?}", store.stale_threads(&owner, &id, 2).await));
        }
        for run in 0..RUNS {
            let id = run_id(&run_name(run));
            seen.push(format!("{:?}", store.interrupt(&owner, &id).await));
            seen.push(format!("{:?}", store.result(&owner, &id, &reference("big")).await));
        }
        seen.push(format!("{:?}", store.pending_interrupts(&owner, 2).await));
    }
    for run in 0..RUNS {
        let id = run_id(&run_name(run));
        seen.push(format!("{:?}", store.outcome(&id).await));
        for after in [None, Some(sequence(2))] {
            let page = store.read_after(&id, after, 4).await;
            if let Ok(page) = &page {
                seen.extend(page.records.iter().map(|record| record.data.as_str().to_owned()));
            }
            seen.push(format!("{page:?}"));
        }
    }
    seen.push(format!("{:?}", store.list_orphans().await));
    seen
}

async fn compare(ops: &[Op]) {
    // In memory where that is to be had: this test is about answers, not about disks.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let options = || Options::new(dir.path()).low_disk_bytes(0).readers(1);
    let mut model = MemoryStore::new();
    let mut sqlite = Some(SqliteStore::open(options()).unwrap());
    for (at, op) in ops.iter().enumerate() {
        let op = &aim(&model, op.clone()).await;
        if matches!(op, Op::Restart) {
            model = model.restarted();
            sqlite = None;
            sqlite = sqlite.or_else(|| SqliteStore::open(options()).ok());
        }
        let store: Arc<dyn Store> = Arc::new(sqlite.clone().unwrap());
        assert_eq!(apply(&*store, op).await, apply(&model, op).await, "answer {at} of {ops:?}");
        if at % 6 == 0 || at + 1 == ops.len() {
            assert_eq!(view(&*store).await, view(&model).await, "after {at} of {ops:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_answers_as_the_model_does(ops in vec(op(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(compare(&ops));
    }
}

/// `CAUSEWAY_CASES` makes it longer.
fn cases() -> u32 {
    std::env::var("CAUSEWAY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(32)
}
