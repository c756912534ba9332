//! A store that refuses, forgets to answer, or goes away: the truth is told, other runs notice nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/harness.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_contract::id::RunId;
use causeway_engine::harness::TurnEnd;
use causeway_engine::{Engine, Error, Settings};
use causeway_store::error::Cause;
use causeway_store::faulty::{Fault, FaultyStore, On};
use causeway_store::model::{Owner, Revision, RunFilter, Status};
use causeway_store::{MemoryStore, Refusal, Store};

use harness::{
    Scripted, Step, agent, answer, begin, end, follow, question, request, settings, start, story, text,
};

const TEXT: &str = "run.started; text.started; text.delta; text.delta; text.finished; run.finished";
const SAVED_BUT: &str = "run.started; text.started; text.delta; text.delta; text.finished; \
                         run.error thread_durability_uncertain";

struct Rig {
    engine: Engine,
    store: FaultyStore,
    harness: Arc<Scripted>,
}

fn impatient() -> Settings {
    let mut settings = settings();
    settings.store_patience = Duration::from_millis(300);
    settings.repair_interval = Duration::from_millis(50);
    settings
}

async fn rig(turns: impl IntoIterator<Item = Vec<Step>>) -> Rig {
    let harness = Scripted::new(turns);
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    let engine = Engine::open(impatient(), vec![agent(&harness)], Arc::new(store.clone())).await.unwrap();
    Rig { engine, store, harness }
}

async fn status(rig: &Rig, run_id: &RunId<'_>) -> Status {
    rig.engine.run(&Owner::local(), run_id).await.unwrap().status
}

/// Waits until a run has its terminal, however late.
async fn settled(rig: &Rig, run_id: &RunId<'_>) -> String {
    for _ in 0..400 {
        if status(rig, run_id).await.is_terminal() {
            return story(&follow(&rig.engine, run_id, None).await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the run never ended");
}

async fn base_of_next_run(rig: &Rig) -> Option<String> {
    rig.harness.add(answer("next"));
    let run_id = start(&rig.engine, "c").await;
    assert_eq!(story(&follow(&rig.engine, &run_id, None).await.unwrap()), TEXT);
    let begun = rig.harness.begun.lock().unwrap();
    begun.last().and_then(|turn| turn.base.as_ref()).map(ToString::to_string)
}

#[tokio::test]
async fn r15_a_refused_commit_is_told_as_uncertain_and_the_head_stays() {
    for fault in [
        Fault::Refused(Refusal::HeadMoved { expected: Revision::new(0), found: Revision::new(1) }),
        Fault::Unavailable(Cause::DiskFull),
        Fault::UnknownBeforeApply,
    ] {
        let rig = rig([answer("h1")]).await;
        rig.store.fail_next(On::CommitFinal, fault.clone());
        let run_id = start(&rig.engine, "c").await;
        let seen = follow(&rig.engine, &run_id, None).await.unwrap();
        assert_eq!(story(&seen), SAVED_BUT, "{fault:?}");
        assert_eq!(status(&rig, &run_id).await, Status::Uncertain);
        assert_eq!(base_of_next_run(&rig).await, None, "{fault:?}");
    }
}

#[tokio::test]
async fn a_driver_that_panics_before_its_turn_began_leaves_no_run_that_runs_for_ever() {
    let rig = rig([]).await;
    rig.harness.breaks.store(true, Ordering::SeqCst);
    let refused = rig.engine.start(request("c")).await;
    assert!(matches!(refused, Err(Error::Fault(_))), "{refused:?}");
    let page = rig.engine.runs(&Owner::local(), &RunFilter::default(), 10, None).await.unwrap();
    let [run] = page.runs.as_slice() else { panic!("{page:?}") };
    assert_eq!(settled(&rig, &run.run_id).await, "run.started; run.error engine_fault");
    assert_eq!(base_of_next_run(&rig).await, None, "the conversation is free again");
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_but_landed_is_a_success() {
    let rig = rig([answer("h1")]).await;
    rig.store.fail_next(On::CommitFinal, Fault::UnknownAfterApply);
    let run_id = start(&rig.engine, "c").await;
    assert_eq!(story(&follow(&rig.engine, &run_id, None).await.unwrap()), TEXT);
    assert_eq!(base_of_next_run(&rig).await.as_deref(), Some("h1"));
    assert_eq!(rig.engine.metrics().lost, 0);
}

#[tokio::test]
async fn r14_an_interrupt_is_there_with_its_terminal_or_not_at_all() {
    let asking = || vec![begin(), text("m", "Hm"), question("h1")];
    for (fault, end) in [
        (Fault::UnknownAfterApply, "text.finished; interrupt.requested; run.interrupted"),
        (Fault::UnknownBeforeApply, "run.error thread_durability_uncertain"),
        (Fault::Unavailable(Cause::Io), "run.error thread_durability_uncertain"),
    ] {
        let rig = rig([asking()]).await;
        rig.store.fail_next(On::CommitInterrupt, fault.clone());
        let run_id = start(&rig.engine, "c").await;
        let seen = story(&follow(&rig.engine, &run_id, None).await.unwrap());
        assert!(seen.ends_with(end), "{fault:?}: {seen}");
        let interrupted = seen.ends_with("run.interrupted");
        assert_eq!(seen.contains("interrupt.requested"), interrupted, "{fault:?}: {seen}");
        assert_eq!(status(&rig, &run_id).await == Status::Interrupted, interrupted);
    }
}

#[tokio::test]
async fn a_short_trouble_with_the_disk_costs_nothing() {
    let rig = rig([answer("h1")]).await;
    for fault in [Fault::Unavailable(Cause::DiskFull), Fault::UnknownBeforeApply, Fault::UnknownAfterApply] {
        rig.store.fail_next(On::Append, fault);
    }
    let run_id = start(&rig.engine, "c").await;
    assert_eq!(story(&follow(&rig.engine, &run_id, None).await.unwrap()), TEXT);
    assert_eq!(rig.engine.metrics().append_retries, 2);
}

#[tokio::test]
async fn a_full_disk_ends_the_stream_without_a_terminal_which_comes_when_there_is_room() {
    let rig = rig([answer("h1")]).await;
    for on in [On::Append, On::CommitFinal, On::Close] {
        rig.store.fail_always(on, Fault::Unavailable(Cause::DiskFull));
    }
    let run_id = start(&rig.engine, "c").await;
    let seen = follow(&rig.engine, &run_id, None).await.unwrap();
    assert_eq!(story(&seen), "run.started", "nothing is shown that is not durable, and nothing is invented");
    assert_eq!(status(&rig, &run_id).await, Status::Running);
    assert!(matches!(
        rig.engine.start(request("c")).await,
        Err(Error::Refused(Refusal::ConversationBusy { .. }))
    ));
    rig.store.heal();
    assert_eq!(settled(&rig, &run_id).await, "run.started; run.error journal_unavailable");
    assert_eq!(rig.engine.metrics().recovered, 1);
    assert_eq!(base_of_next_run(&rig).await, None);
}

#[tokio::test]
async fn a_disk_that_fills_up_in_mid_run_leaves_an_uncertain_run() {
    let rig =
        rig([vec![begin(), text("m", "Hi"), Step::Pause(Duration::from_secs(2)), text("m", "!"), end("h1")]])
            .await;
    let run_id = start(&rig.engine, "c").await;
    let mut live = rig.engine.subscribe(&Owner::local(), &run_id, None).await.unwrap();
    for _ in 0..3 {
        live.next().await.unwrap().unwrap();
    }
    for on in [On::Append, On::CommitFinal, On::Close] {
        rig.store.fail_always(on, Fault::Unavailable(Cause::DiskFull));
    }
    assert_eq!(live.next().await.unwrap(), None, "the stream ends without a terminal");
    rig.store.heal();
    let all = settled(&rig, &run_id).await;
    assert_eq!(all, "run.started; text.started; text.delta; run.error thread_durability_uncertain");
    let run = rig.engine.run(&Owner::local(), &run_id).await.unwrap();
    assert_eq!(run.cause.as_deref(), Some("journal_lost"));
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_not_guessed_about() {
    for (fault, end) in [(Fault::UnknownAfterApply, TEXT), (Fault::UnknownBeforeApply, SAVED_BUT)] {
        let rig = rig([answer("h1")]).await;
        rig.store.fail_next(On::CommitFinal, fault.clone());
        rig.store.fail_always(On::Fence, Fault::Unavailable(Cause::Io));
        rig.store.fail_always(On::Close, Fault::Unavailable(Cause::Io));
        let run_id = start(&rig.engine, "c").await;
        let seen = follow(&rig.engine, &run_id, None).await.unwrap();
        assert!(
            !story(&seen).contains("run.finished") && !story(&seen).contains("run.error"),
            "{}",
            story(&seen)
        );
        rig.store.heal();
        assert_eq!(settled(&rig, &run_id).await, end, "{fault:?}");
    }
}

#[tokio::test]
async fn an_error_that_cannot_be_written_at_once_is_written_later() {
    let rig = rig([vec![begin(), Step::End(TurnEnd::Broken)]]).await;
    for _ in 0..3 {
        rig.store.fail_next(On::CommitFinal, Fault::Unavailable(Cause::DiskFull));
    }
    let run_id = start(&rig.engine, "c").await;
    let seen = follow(&rig.engine, &run_id, None).await.unwrap();
    assert_eq!(story(&seen), "run.started; run.error provider_stream_closed");
}

#[tokio::test]
async fn a_start_whose_answer_was_lost_leaves_no_run_that_nobody_drives() {
    let known = rig([answer("h1")]).await;
    known.store.fail_next(On::Open, Fault::UnknownAfterApply);
    let run_id = start(&known.engine, "c").await;
    assert_eq!(
        story(&follow(&known.engine, &run_id, None).await.unwrap()),
        TEXT,
        "it had landed, and is driven"
    );
    for unreadable in [false, true] {
        let rig = rig([]).await;
        rig.store.fail_next(On::Open, Fault::UnknownBeforeApply);
        if unreadable {
            rig.store.fail_always(On::Outcome, Fault::Unavailable(Cause::Io));
        }
        assert!(matches!(rig.engine.start(request("c")).await, Err(Error::OutcomeUnknown(_))));
        for _ in 0..3000 {
            let runs = rig.engine.runs(&Owner::local(), &Default::default(), 10, None).await.unwrap().runs;
            if runs.iter().all(|run| run.status.is_terminal()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(base_of_next_run(&rig).await, None);
    }
}

#[tokio::test]
async fn a_start_that_is_still_in_hand_when_its_run_is_looked_for_is_driven_or_closed() {
    let waited = rig([answer("h1")]).await;
    waited.store.fail_next(On::Open, Fault::UnknownInHand);
    let run_id = start(&waited.engine, "c").await;
    assert_eq!(
        story(&follow(&waited.engine, &run_id, None).await.unwrap()),
        TEXT,
        "it is waited for, and driven"
    );
    // Where that cannot be asked in time, repair asks.
    let rig = rig([]).await;
    rig.store.fail_next(On::Open, Fault::UnknownInHand);
    rig.store.fail_always(On::Outcome, Fault::Unavailable(Cause::Io));
    assert!(matches!(rig.engine.start(request("c")).await, Err(Error::OutcomeUnknown(_))));
    rig.store.heal();
    let mut ended = Vec::new();
    for _ in 0..3000 {
        let runs = rig.engine.runs(&Owner::local(), &Default::default(), 10, None).await.unwrap().runs;
        ended = runs.iter().map(|run| (run.status, run.last_sequence.value())).collect();
        if runs.iter().any(|run| run.status.is_terminal()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ended, [(Status::Error, 1)]);
}

#[tokio::test]
async fn a_start_that_the_store_has_no_room_for_says_so() {
    let rig = rig([]).await;
    rig.store.fail_next(On::Open, Fault::Unavailable(Cause::LowDisk));
    let refused = rig.engine.start(request("c")).await.unwrap_err();
    assert!(refused.to_string().contains("free space on this disk"), "{refused}");
}

#[tokio::test]
async fn other_runs_notice_nothing_of_one_that_lost_its_writer() {
    let rig = rig([vec![begin(), text("m", "Hi"), Step::Hang], answer("h")]).await;
    let first = start(&rig.engine, "a").await;
    let mut live = rig.engine.subscribe(&Owner::local(), &first, None).await.unwrap();
    for _ in 0..3 {
        live.next().await.unwrap().unwrap();
    }
    // Another gateway takes the run over.
    rig.store.fence(&first).await.unwrap();
    rig.harness.says_when_cancelled(vec![]);
    let cancelled = rig.engine.cancel_run(&Owner::local(), &first).await.unwrap();
    assert!(!cancelled.cancelled, "a writer that was fenced off writes nothing");
    assert_eq!(live.next().await.unwrap(), None);
    let other = start(&rig.engine, "b").await;
    assert_eq!(story(&follow(&rig.engine, &other, None).await.unwrap()), TEXT);
}

#[tokio::test]
async fn a_flood_is_slowed_down_by_not_reading() {
    let rig = rig([vec![begin(), Step::Flood(harness::text_line("m", "again and again"))]]).await;
    rig.harness.says_when_cancelled(vec![]);
    rig.store.hold(On::Append);
    let run_id = start(&rig.engine, "c").await;
    let most = impatient().max_unwritten_events + 2;
    let read = || rig.harness.read.load(Ordering::SeqCst);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(read() <= most, "{} lines were read while nothing was written", read());
    }
    rig.store.release();
    for _ in 0..3000 {
        if read() > most {
            break; // reading goes on once the log takes more
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(read() > most, "nothing is read any more");
    let cancelled = rig.engine.cancel_run(&Owner::local(), &run_id).await.unwrap();
    let all = follow(&rig.engine, &run_id, None).await.unwrap();
    assert!(cancelled.cancelled, "{:?}", all.last());
}
