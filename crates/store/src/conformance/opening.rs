//! Opening runs: one a conversation, once a request.

use causeway_contract::event::EventType;
use causeway_contract::timestamp::Timestamp;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    NOON, agent, conversation, delta, fail, first, keyed, later, log, open, opened, owned_by, record,
    reference, refusal, replayed, run_id, run_to_end, run_to_pause,
};
use crate::error::{Error, Misuse, Refusal};
use crate::model::{Epoch, Head, Open, Owner, Revision, Run, Status, Thread};
use crate::record::Payload;

pub async fn a_new_run_starts_from_the_empty_state(backend: &mut impl Backend) {
    let store = backend.store();
    let mut given = open("r1", "c");
    given.seed = Some(Payload::from(r#"{"open_tool_calls":[]}"#));
    let answer = opened(&*store, given.clone()).await;
    assert_eq!(answer, Open { generation: first(), epoch: Epoch::new(1), base: None });
    assert_eq!(answer.base_revision(), Revision::new(0));
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    let expected = Run {
        owner: Owner::local(),
        run_id: run_id("r1"),
        conversation_id: conversation("c"),
        epoch: Epoch::new(1),
        agent_id: agent("helper"),
        harness_id: given.harness_id.clone(),
        thread: Thread::Durable,
        status: Status::Running,
        generation: first(),
        created_at: Timestamp::from_unix(NOON, 123_000_000),
        ended_at: None,
        last_sequence: given.started.sequence,
        request: given.request.clone(),
        error: None,
        cause: None,
        interrupt: None,
        resumed_from: None,
        resumed_by: None,
        seed: given.seed.clone(),
        expired_at: None,
        usage: None,
        worker_thread: Some("thread-r1".into()),
    };
    assert_eq!(run, expected);
    assert_eq!(log(&*store, "r1").await, [given.started]);
    assert_eq!(store.active_run(&Owner::local(), &conversation("c")).await, Ok(Some(run_id("r1"))));
    assert_eq!(store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await, Ok(None));
}

pub async fn the_next_run_starts_from_the_last_head(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    run_to_end(&*store, open("r2", "c"), "h2").await;
    let head = Head { revision: Revision::new(2), head_ref: reference("h2"), run_id: run_id("r2") };
    assert_eq!(
        store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await,
        Ok(Some(head.clone()))
    );
    let answer = opened(&*store, open("r3", "c")).await;
    assert_eq!(answer, Open { generation: first(), epoch: Epoch::new(1), base: Some(head) });
}

pub async fn another_agent_starts_from_its_own_head(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    let mut other = open("r2", "c");
    other.agent_id = agent("other");
    assert_eq!(opened(&*store, other).await.base, None);
    assert_eq!(store.load_head(&Owner::local(), &conversation("c"), &agent("other")).await, Ok(None));
}

pub async fn a_run_begins_with_run_started(backend: &mut impl Backend) {
    let store = backend.store();
    let mut late = open("r1", "c");
    late.started = record(1, EventType::RunStarted, "{}");
    assert_eq!(store.open_run(late).await, Err(Error::Misuse(Misuse::FirstRecord)));
    let mut other = open("r1", "c");
    other.started = record(0, EventType::Warning, "{}");
    assert_eq!(store.open_run(other).await, Err(Error::Misuse(Misuse::FirstRecord)));
    assert_eq!(refusal(store.run(&Owner::local(), &run_id("r1")).await), Refusal::UnknownRun);
}

pub async fn the_same_request_finds_its_run(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, keyed(open("r1", "c"), "k", 1)).await;
    let found = replayed(store.open_run(keyed(open("r2", "c"), "k", 1)).await);
    assert_eq!(found, store.run(&Owner::local(), &run_id("r1")).await.unwrap());
    store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    store.commit_final(&run_id("r1"), first(), fail(2)).await.unwrap();
    let found = replayed(store.open_run(keyed(open("r3", "c"), "k", 1)).await);
    assert_eq!(found, store.run(&Owner::local(), &run_id("r1")).await.unwrap());
    assert_eq!(found.status, Status::Error);
    assert_eq!(refusal(store.run(&Owner::local(), &run_id("r2")).await), Refusal::UnknownRun);
}

pub async fn a_key_for_another_request_is_refused(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, keyed(open("r1", "c"), "k", 1)).await;
    let refused = refusal(store.open_run(keyed(open("r2", "other"), "k", 2)).await);
    assert_eq!(refused, Refusal::KeyReused { run_id: run_id("r1") });
}

pub async fn keys_of_two_owners_do_not_meet(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, keyed(open("r1", "c"), "k", 1)).await;
    opened(&*store, keyed(owned_by(open("r2", "c"), "ann"), "k", 2)).await;
}

pub async fn a_key_is_kept_for_a_day(backend: &mut impl Backend) {
    let store = backend.store();
    let day = 24 * 60 * 60;
    opened(&*store, keyed(later(open("r1", "c"), 0), "k", 1)).await;
    replayed(store.open_run(keyed(later(open("r2", "d"), day - 1), "k", 1)).await);
    opened(&*store, keyed(later(open("r3", "d"), day), "k", 2)).await;
    let found = replayed(store.open_run(keyed(later(open("r4", "e"), day + 1), "k", 2)).await);
    assert_eq!(found.run_id, run_id("r3"));
}

pub async fn a_run_id_is_taken_once(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    assert_eq!(refusal(store.open_run(open("r1", "d")).await), Refusal::RunExists { run_id: run_id("r1") });
    let stranger = owned_by(open("r1", "c"), "ann");
    assert_eq!(refusal(store.open_run(stranger).await), Refusal::RunExists { run_id: run_id("r1") });
}

pub async fn a_conversation_has_one_active_run(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    assert_eq!(
        refusal(store.open_run(open("r2", "c")).await),
        Refusal::ConversationBusy { run_id: run_id("r1") }
    );
    opened(&*store, open("r3", "d")).await;
    store.commit_final(&run_id("r1"), first(), fail(1)).await.unwrap();
    assert_eq!(store.active_run(&Owner::local(), &conversation("c")).await, Ok(None));
    opened(&*store, open("r2", "c")).await;
}

pub async fn conversations_of_two_owners_do_not_meet(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    let answer = opened(&*store, owned_by(open("r2", "c"), "ann")).await;
    assert_eq!(answer.base, None);
    assert_eq!(store.active_run(&Owner::local(), &conversation("c")).await, Ok(None));
    assert_eq!(store.active_run(&Owner::new("ann"), &conversation("c")).await, Ok(Some(run_id("r2"))));
}
