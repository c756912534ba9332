//! Runs from start to end through the engine: what readers see, what the store has, who may do what.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/harness.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::limits::Limits;
use causeway_engine::config::{Driver, OnDisconnect, Pace, RecordingConfig};
use causeway_engine::failure::Failure;
use causeway_engine::harness::TurnEnd;
use causeway_engine::{AgentConfig, Engine, Error, OpenError};
use causeway_lifecycle::{Boundary, Thread, Validator};
use causeway_store::model::{Idempotency, Owner, Status};
use causeway_store::{MemoryStore, Record, Refusal, Store};

use harness::{
    Scripted, Step, agent, answer, begin, cancelled_line, end, engine, follow, question, request, settings,
    start, story, text, text_line,
};

const TEXT: &str = "run.started; text.started; text.delta; text.delta; text.finished; run.finished";

async fn status(engine: &Engine, run_id: &RunId<'_>) -> Status {
    engine.run(&Owner::local(), run_id).await.unwrap().status
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn a_run_is_seen_live_and_in_every_replay_with_the_same_records() {
    let harness = Scripted::new([answer("h1")]);
    let engine = engine(agent(&harness), memory()).await;
    let run_id = start(&engine, "c").await;
    let live = follow(&engine, &run_id, None).await.unwrap();
    assert_eq!(story(&live), TEXT);
    assert_eq!(follow(&engine, &run_id, None).await.unwrap(), live);
    for (place, record) in live.iter().enumerate() {
        let rest = follow(&engine, &run_id, Some(record.sequence)).await.unwrap();
        assert_eq!(rest, live[place + 1..], "after {}", record.sequence);
    }
    assert_eq!(status(&engine, &run_id).await, Status::Finished);
    let beyond = follow(&engine, &run_id, Sequence::new(99)).await;
    assert_eq!(beyond, Err(Error::BeyondEnd { after: 99, last: 5 }));
}

#[tokio::test]
async fn a_cursor_that_no_event_of_a_running_run_has_is_refused_and_the_last_one_waits() {
    let harness = Scripted::new([vec![begin(), Step::Hang]]);
    harness.says_when_cancelled(vec![]);
    let engine = engine(agent(&harness), memory()).await;
    let run_id = start(&engine, "c").await;
    let owner = Owner::local();
    let page = engine.events(&owner, &run_id, None, 10, Duration::from_secs(60)).await.unwrap();
    let last = page.last_sequence;
    let next = Sequence::new(last.value() + 1);
    let beyond = Error::BeyondEnd { after: last.value() + 1, last: last.value() };
    assert_eq!(engine.events(&owner, &run_id, next, 10, Duration::from_secs(60)).await.unwrap_err(), beyond);
    assert_eq!(engine.subscribe(&owner, &run_id, next).await.map(drop), Err(beyond));
    let page = engine.events(&owner, &run_id, Some(last), 10, Duration::ZERO).await.unwrap();
    assert_eq!((page.records.len(), page.is_done(Some(last))), (0, false));
    let mut rest = engine.subscribe(&owner, &run_id, Some(last)).await.unwrap();
    engine.cancel_run(&owner, &run_id).await.unwrap();
    assert_eq!(rest.next().await.unwrap().unwrap().event_type, causeway_contract::EventType::RunCancelled);
}

#[tokio::test]
async fn the_next_run_starts_from_the_head_that_the_last_one_committed() {
    let harness = Scripted::new([answer("h1"), answer("h2")]);
    let engine = engine(agent(&harness), memory()).await;
    for _ in 0..2 {
        let run_id = start(&engine, "c").await;
        follow(&engine, &run_id, None).await.unwrap();
    }
    let bases: Vec<_> = harness
        .begun
        .lock()
        .unwrap()
        .iter()
        .map(|turn| turn.base.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(bases, [None, Some("h1".to_owned())]);
}

#[tokio::test]
async fn a_reader_that_falls_behind_the_tail_misses_nothing() {
    let turn = |count: usize| {
        let mut steps = vec![begin()];
        steps.extend((0..count).map(|piece| text("m", &format!("piece {piece} "))));
        steps.push(end("h"));
        steps
    };
    let harness = Scripted::new([turn(2000)]);
    let mut small = settings();
    small.tail_events = 3;
    small.tail_bytes = 1000;
    let engine = Engine::open(small, vec![agent(&harness)], memory()).await.unwrap();
    let run_id = start(&engine, "c").await;
    let mut subscription = engine.subscribe(&Owner::local(), &run_id, None).await.unwrap();
    let mut numbers = Vec::new();
    while let Some(record) = subscription.next().await.unwrap() {
        numbers.push(record.sequence.value());
        if numbers.len() % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(numbers, (0..2004).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_conversation_has_one_active_run() {
    let harness = Scripted::new([vec![begin(), Step::Hang], answer("h"), answer("h")]);
    let engine = engine(agent(&harness), memory()).await;
    let first = start(&engine, "c").await;
    let refused = engine.start(request("c")).await;
    assert_eq!(refused, Err(Error::Refused(Refusal::ConversationBusy { run_id: first.clone() })));
    let other = start(&engine, "another").await;
    assert_eq!(story(&follow(&engine, &other, None).await.unwrap()), TEXT);
    harness.says_when_cancelled(vec![]);
    engine.cancel_run(&Owner::local(), &first).await.unwrap();
    let next = start(&engine, "c").await;
    assert_eq!(story(&follow(&engine, &next, None).await.unwrap()), TEXT);
}

#[tokio::test]
async fn the_same_request_starts_one_run() {
    let harness = Scripted::new([answer("h"), answer("h")]);
    let engine = engine(agent(&harness), memory()).await;
    let keyed = |hash: u8| {
        let key = Idempotency { key: Arc::from("key"), body_hash: [hash; 32] };
        request("c").idempotency(Some(key))
    };
    let first = engine.start(keyed(1)).await.unwrap();
    let again = engine.start(keyed(1)).await.unwrap();
    assert_eq!((again.run_id, again.replayed), (first.run_id.clone(), true));
    let other = engine.start(keyed(2)).await;
    assert_eq!(other, Err(Error::Refused(Refusal::KeyReused { run_id: first.run_id })));
    assert_eq!(harness.begun.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_started_is_told_before_anything_is_stored() {
    let harness = Scripted::new([]);
    let engine = engine(agent(&harness), memory()).await;
    let mut unknown = request("c");
    unknown.agent_id = Name::new("nobody").unwrap();
    assert_eq!(engine.start(unknown).await, Err(Error::UnknownAgent { id: "nobody".to_owned() }));
    let files = request("c").files(Some("{}".to_owned()));
    assert_eq!(engine.start(files).await, Err(Error::FilesNotAllowed { id: "helper".to_owned() }));
    assert!(engine.runs(&Owner::local(), &Default::default(), 10, None).await.unwrap().runs.is_empty());
    let stranger = Owner::new("somebody else");
    let run_id = start(&engine, "c").await;
    assert_eq!(engine.run(&stranger, &run_id).await, Err(Error::Refused(Refusal::UnknownRun)));
    assert!(engine.cancel_run(&stranger, &run_id).await.is_err());
    assert!(engine.subscribe(&stranger, &run_id, None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_waits_for_the_state_and_is_idempotent() {
    let harness = Scripted::new([vec![begin(), text("m", "Hi"), Step::Hang]]);
    harness.says_when_cancelled(vec![text_line("m", " you"), cancelled_line("h1")]);
    let engine = engine(agent(&harness), memory()).await;
    let run_id = start(&engine, "c").await;
    let mut live = engine.subscribe(&Owner::local(), &run_id, None).await.unwrap();
    for _ in 0..3 {
        live.next().await.unwrap().unwrap();
    }
    for _ in 0..2 {
        let done = engine.cancel_run(&Owner::local(), &run_id).await.unwrap();
        assert_eq!((done.cancelled, done.interrupt_voided), (true, false));
    }
    let all = follow(&engine, &run_id, None).await.unwrap();
    assert_eq!(story(&all[..4]), "run.started; text.started; text.delta; text.delta");
    assert_eq!(story(&all[all.len() - 1..]), "run.cancelled client_request");
    harness.add(answer("h2"));
    let next = start(&engine, "c").await;
    follow(&engine, &next, None).await.unwrap();
    let base = harness.begun.lock().unwrap()[1].base.clone();
    assert_eq!(base.map(|base| base.to_string()).as_deref(), Some("h1"), "the state was handed over");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_that_does_not_end_is_stopped_after_its_grace() {
    let harness = Scripted::new([vec![begin(), Step::Hang]]);
    let engine = engine(agent(&harness), memory()).await;
    let run_id = start(&engine, "c").await;
    let before = tokio::time::Instant::now();
    let cancelled =
        engine.cancel_conversation(&Owner::local(), &ConversationId::new("c").unwrap()).await.unwrap();
    assert_eq!((cancelled.run_id, cancelled.cancelled), (Some(run_id), true));
    assert_eq!(before.elapsed().as_secs(), 2);
    assert_eq!(harness.stopped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_past_its_deadline_is_cancelled_and_a_silent_one_is_an_error() {
    let harness = Scripted::new([vec![begin(), Step::Hang]]);
    let mut hasty = agent(&harness);
    hasty.deadline = Duration::from_secs(60);
    let engine = engine(hasty, memory()).await;
    let run_id = start(&engine, "c").await;
    let all = follow(&engine, &run_id, None).await.unwrap();
    assert_eq!(story(&all), "run.started; run.cancelled deadline");

    let harness = Scripted::new([vec![begin(), text("m", "Hi"), Step::Hang]]);
    let mut hasty = agent(&harness);
    hasty.idle_timeout = Duration::from_secs(60);
    let engine = harness::engine(hasty, memory()).await;
    let run_id = start(&engine, "c").await;
    let all = follow(&engine, &run_id, None).await.unwrap();
    assert_eq!(story(&all), "run.started; text.started; text.delta; run.error harness_timeout");
    assert_eq!(harness.stopped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_ends_a_run_only_where_the_agent_says_so() {
    for (policy, end) in
        [(OnDisconnect::Continue, "run.finished"), (OnDisconnect::Cancel, "run.cancelled disconnect")]
    {
        let slow = vec![begin(), text("m", "Hi"), Step::Pause(Duration::from_secs(5)), harness::end("h")];
        let harness = Scripted::new([slow]);
        let mut config = agent(&harness);
        config.on_disconnect = policy;
        let engine = engine(config, memory()).await;
        let run_id = start(&engine, "c").await;
        // Somebody who only watches does not count.
        let watcher = engine.subscribe(&Owner::local(), &run_id, None).await.unwrap();
        let mut client = engine.subscribe_client(&Owner::local(), &run_id, None).await.unwrap();
        client.next().await.unwrap().unwrap();
        drop(watcher);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(status(&engine, &run_id).await, Status::Running);
        drop(client);
        let all = follow(&engine, &run_id, None).await.unwrap();
        assert_eq!(story(&all[all.len() - 1..]), end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_every_run_a_truthful_terminal() {
    let harness = Scripted::new([vec![begin(), text("m", "Hi"), Step::Hang], vec![begin(), Step::Hang]]);
    harness.says_when_cancelled(vec![]);
    let engine = engine(agent(&harness), memory()).await;
    let runs = [start(&engine, "a").await, start(&engine, "b").await];
    engine.shutdown(Duration::from_secs(10)).await;
    for run_id in &runs {
        let all = follow(&engine, run_id, None).await.unwrap();
        assert_eq!(story(&all[all.len() - 1..]), "run.cancelled shutdown");
    }
    assert_eq!(engine.start(request("c")).await, Err(Error::ShuttingDown));
    assert_eq!(engine.metrics().active, 0);
}

#[tokio::test]
async fn r12_a_harness_that_dies_or_breaks_off_becomes_an_error() {
    for (turn, code) in [
        (vec![begin(), Step::End(TurnEnd::Broken)], "provider_stream_closed"),
        (vec![begin(), Step::End(TurnEnd::Regular)], "provider_stream_closed"),
        (vec![Step::End(TurnEnd::Failed(Failure::HarnessUnavailable))], "harness_unavailable"),
        (vec![begin(), Step::End(TurnEnd::Failed(Failure::OutputOversized))], "harness_output_too_large"),
        (vec![begin(), Step::Line("not json".to_owned()), end("h")], "harness_output_invalid"),
        (vec![begin(), Step::Line("\u{0}\u{1}".to_owned()), end("h")], "harness_output_invalid"),
    ] {
        let harness = Scripted::new([turn, answer("h")]);
        let engine = engine(agent(&harness), memory()).await;
        let run_id = start(&engine, "c").await;
        let all = follow(&engine, &run_id, None).await.unwrap();
        assert_eq!(story(&all), format!("run.started; run.error {code}"));
        let next = start(&engine, "c").await;
        assert_eq!(story(&follow(&engine, &next, None).await.unwrap()), TEXT, "{code} leaves nothing behind");
        assert_eq!(harness.begun.lock().unwrap()[1].base, None);
    }
}

#[tokio::test]
async fn an_interrupt_is_durable_and_a_cancel_takes_it_back() {
    let harness = Scripted::new([vec![begin(), text("m", "Hm"), question("h1")], answer("h2")]);
    let engine = engine(agent(&harness), memory()).await;
    let run_id = start(&engine, "c").await;
    let all = follow(&engine, &run_id, None).await.unwrap();
    assert!(story(&all).ends_with("interrupt.requested; run.interrupted"), "{}", story(&all));
    let conversation = ConversationId::new("c").unwrap();
    let pending = engine.pending_interrupt(&Owner::local(), &conversation, None).await.unwrap().unwrap();
    assert_eq!((pending.run_id, pending.head_ref.as_str()), (run_id.clone(), "h1"));
    assert!(matches!(
        engine.start(request("c")).await,
        Err(Error::Refused(Refusal::InterruptPending { .. }))
    ));
    let voided = engine.cancel_conversation(&Owner::local(), &conversation).await.unwrap();
    assert_eq!((voided.cancelled, voided.interrupt_voided), (false, true));
    assert_eq!(status(&engine, &run_id).await, Status::Interrupted, "its terminal does not change");
    let next = start(&engine, "c").await;
    assert_eq!(story(&follow(&engine, &next, None).await.unwrap()), TEXT);
}

#[tokio::test]
async fn runs_of_a_killed_gateway_get_their_terminal_when_the_next_one_opens() {
    let store = MemoryStore::new();
    let harness = Scripted::new([
        vec![begin(), Step::Hang],
        vec![begin(), text("m", "Hi"), Step::Hang],
        vec![begin(), question("h1")],
    ]);
    let first = engine(agent(&harness), Arc::new(store.clone())).await;
    let silent = start(&first, "a").await;
    let talking = start(&first, "b").await;
    let asking = start(&first, "c").await;
    follow(&first, &asking, None).await.unwrap();
    let mut live = first.subscribe(&Owner::local(), &talking, None).await.unwrap();
    for _ in 0..3 {
        live.next().await.unwrap().unwrap();
    }
    // Killed: its tasks are not asked. The second gateway reads the same log.
    let harness = Scripted::new([answer("h")]);
    let second = engine(agent(&harness), Arc::new(store.restarted())).await;
    assert_eq!(harness.reaped.load(Ordering::SeqCst), 1);
    let all = follow(&second, &silent, None).await.unwrap();
    assert_eq!(story(&all), "run.started; run.error engine_restarted");
    let all = follow(&second, &talking, None).await.unwrap();
    assert_eq!(story(&all), "run.started; text.started; text.delta; run.error thread_durability_uncertain");
    assert_eq!(status(&second, &talking).await, Status::Uncertain);
    assert_eq!(status(&second, &asking).await, Status::Interrupted, "an interrupt stays pending");
    assert_eq!(second.metrics().recovered, 2);
    let next = start(&second, "a").await;
    assert_eq!(story(&follow(&second, &next, None).await.unwrap()), TEXT);
}

#[tokio::test]
async fn an_engine_that_cannot_be_set_up_says_why() {
    let open = |agents| Engine::open(settings(), agents, memory());
    let harness = Scripted::new([]);
    let twice = open(vec![agent(&harness), agent(&harness)]).await;
    assert_eq!(twice.err(), Some(OpenError::AgentTwice { id: "helper".to_owned() }));
    let mut unknown = agent(&harness);
    unknown.harness = "abacus".to_owned();
    let error = open(vec![unknown]).await.err().unwrap().to_string();
    assert!(
        error.starts_with("agent helper: no adapter for harness abacus; known are deepagents"),
        "{error}"
    );
    let missing = RecordingConfig { file: "/nonexistent/tour.jsonl".into(), pace: Pace::Fast };
    let tour = AgentConfig::new(Name::new("tour").unwrap(), "deepagents", Driver::Recording(missing));
    let error = open(vec![tour]).await.err().unwrap().to_string();
    assert!(error.starts_with("agent tour: recording /nonexistent/tour.jsonl: No such file"), "{error}");
}

#[tokio::test]
async fn every_recording_plays_as_durable_valid_runs() {
    for folder in ["deepagents", "deepagents-0.6.4"] {
        let folder = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings/{}"), folder);
        let mut played = 0;
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "jsonl")) {
            let recording = RecordingConfig { file: file.clone(), pace: Pace::Fast };
            let mut tour =
                AgentConfig::new(Name::new("helper").unwrap(), "langgraph", Driver::Recording(recording));
            tour.idle_timeout = Duration::from_secs(20);
            let engine = engine(tour, memory()).await;
            let run_id = start(&engine, "c").await;
            let all = follow(&engine, &run_id, None).await.unwrap();
            valid(&run_id, &all, &file.display().to_string());
            assert_ne!(story(&all[all.len() - 1..]), "run.error harness_event_invalid", "{}", file.display());
            assert_ne!(
                story(&all[all.len() - 1..]),
                "run.error harness_output_invalid",
                "{}",
                file.display()
            );
            played += 1;
        }
        assert!(played >= 10, "{folder}: {played} recordings");
    }
}

fn valid(run_id: &RunId<'_>, records: &[Record], what: &str) {
    let mut validator = Validator::new(Boundary::Commit, Thread::Durable, Limits::DEFAULT).offline();
    let conversation = ConversationId::new("c").unwrap();
    for record in records {
        let event = record.decode(run_id, &conversation, &Limits::DEFAULT).unwrap();
        validator
            .accept(&event, record.stored_len())
            .unwrap_or_else(|violation| panic!("{what}: {violation}"));
    }
    validator.finish().unwrap_or_else(|violation| panic!("{what}: {violation}"));
}

#[tokio::test]
async fn a_worker_is_told_once_to_forget_what_nothing_starts_from_any_more() {
    let harness =
        Scripted::new([vec![begin(), Step::End(TurnEnd::Broken)], answer("h1"), answer("h2"), answer("h3")]);
    harness.forgets.store(true, Ordering::SeqCst);
    let engine = engine(agent(&harness), memory()).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let run_id = start(&engine, "c").await;
        follow(&engine, &run_id, None).await.unwrap();
        // The end of the turn is heard after the terminal is shown.
        for _ in 0..200 {
            if engine.metrics().active == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        runs.push(run_id.to_string());
    }
    let begun = harness.begun.lock().unwrap();
    let forget: Vec<Vec<String>> =
        begun.iter().map(|turn| turn.forget.iter().map(ToString::to_string).collect()).collect();
    let told = |run: usize| vec![runs[run].clone()];
    assert_eq!(forget, [vec![], told(0), vec![], told(1)], "the head's own thread is kept");
}

#[tokio::test]
async fn a_log_of_many_pages_is_recovered() {
    let store = MemoryStore::new();
    let mut steps = vec![begin()];
    steps.extend((0..1500).map(|piece| text("m", &format!("piece {piece} "))));
    steps.push(Step::Hang);
    let harness = Scripted::new([steps]);
    let first = engine(agent(&harness), Arc::new(store.clone())).await;
    let run_id = start(&first, "c").await;
    let mut live = first.subscribe(&Owner::local(), &run_id, None).await.unwrap();
    for _ in 0..1502 {
        live.next().await.unwrap().unwrap();
    }
    let second = engine(agent(&harness), Arc::new(store.restarted())).await;
    let all = follow(&second, &run_id, None).await.unwrap();
    assert_eq!(all.len(), 1503);
    assert_eq!(story(&all[1502..]), "run.error thread_durability_uncertain");
    valid(&run_id, &all, "after recovery");
}

#[tokio::test]
async fn a_driver_that_breaks_down_takes_only_its_own_run_with_it() {
    let harness = Scripted::new([
        vec![begin(), Step::Panic],
        vec![begin(), text("m", "Hi"), Step::Pause(Duration::from_millis(20)), Step::Panic],
        answer("h"),
    ]);
    let mut quick = settings();
    quick.repair_interval = Duration::from_millis(10);
    let engine = Engine::open(quick, vec![agent(&harness)], memory()).await.unwrap();
    for (conversation, told) in [
        ("a", "run.started; run.error engine_fault"),
        ("b", "run.started; text.started; text.delta; run.error thread_durability_uncertain"),
        ("c", TEXT),
    ] {
        let run_id = start(&engine, conversation).await;
        follow(&engine, &run_id, None).await.unwrap();
        for _ in 0..200 {
            if status(&engine, &run_id).await.is_terminal() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(story(&follow(&engine, &run_id, None).await.unwrap()), told);
    }
    assert_eq!(engine.metrics().active, 0);
}

#[tokio::test]
async fn a_run_whose_log_is_damaged_is_closed_as_uncertain() {
    let store = MemoryStore::new();
    let harness = Scripted::new([vec![begin(), Step::Hang]]);
    let first = engine(agent(&harness), Arc::new(store.clone())).await;
    let run_id = start(&first, "c").await;
    let broken = Record {
        sequence: Sequence::new(1).unwrap(),
        timestamp: causeway_contract::timestamp::Timestamp::from_unix(0, 0),
        event_type: causeway_contract::EventType::TextDelta,
        namespace: "[]".into(),
        data: r#"{"message_id":"never started","delta":"x"}"#.into(),
    };
    store.append(&run_id, causeway_store::model::Generation::new(1), vec![broken]).await.unwrap();
    let second = engine(agent(&harness), Arc::new(store.restarted())).await;
    let all = follow(&second, &run_id, None).await.unwrap();
    assert_eq!(story(&all), "run.started; text.delta; run.error thread_durability_uncertain");
    let next = start(&second, "c").await;
    assert!(!follow(&second, &next, None).await.unwrap().is_empty());
}
