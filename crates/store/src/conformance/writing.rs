//! Appending to a run.

use causeway_contract::event::EventType;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    delta, deltas, fail, failed, finish, first, log, open, opened, pause, record, refusal, run_id, sequence,
};
use crate::error::{Error, Misuse, Refusal};
use crate::model::{Fenced, Generation, Outcome, Withdrawal};

pub async fn what_is_appended_is_read_back_in_order(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), deltas(1..4)).await.unwrap();
    store.append(&run_id("r1"), first(), deltas(4..5)).await.unwrap();
    let mut expected = vec![open("r1", "c").started];
    expected.extend(deltas(1..5));
    assert_eq!(log(&*store, "r1").await, expected);
    let outcome = Outcome::Running { generation: first(), last_sequence: sequence(4) };
    assert_eq!(store.outcome(&run_id("r1")).await, Ok(outcome));
}

pub async fn a_gap_or_a_repetition_is_refused(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), deltas(1..3)).await.unwrap();
    for found in [1, 2, 4] {
        let refused = refusal(store.append(&run_id("r1"), first(), vec![delta(found)]).await);
        assert_eq!(refused, Refusal::NotContiguous { expected: sequence(3), found: sequence(found) });
    }
    let refused = refusal(store.commit_final(&run_id("r1"), first(), fail(4)).await);
    assert_eq!(refused, Refusal::NotContiguous { expected: sequence(3), found: sequence(4) });
    assert_eq!(log(&*store, "r1").await.len(), 3);
}

pub async fn numbers_in_one_call_have_no_gap(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    for numbers in [[1, 3], [2, 1], [1, 1]] {
        let records = numbers.into_iter().map(delta).collect();
        assert_eq!(store.append(&run_id("r1"), first(), records).await, Err(Error::Misuse(Misuse::Gap)));
    }
    assert_eq!(store.append(&run_id("r1"), first(), Vec::new()).await, Err(Error::Misuse(Misuse::Empty)));
    assert_eq!(log(&*store, "r1").await.len(), 1);
}

pub async fn terminals_and_starts_are_not_appended(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let terminal = vec![delta(1), failed(2, "harness_timeout")];
    assert_eq!(
        store.append(&run_id("r1"), first(), terminal).await,
        Err(Error::Misuse(Misuse::TerminalInAppend))
    );
    let again = vec![record(1, EventType::RunStarted, "{}")];
    assert_eq!(store.append(&run_id("r1"), first(), again).await, Err(Error::Misuse(Misuse::Restarted)));
    assert_eq!(log(&*store, "r1").await.len(), 1);
}

pub async fn nothing_is_written_to_an_unknown_run(backend: &mut impl Backend) {
    let store = backend.store();
    let id = run_id("nobody");
    assert_eq!(refusal(store.append(&id, first(), vec![delta(1)]).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.commit_final(&id, first(), fail(1)).await), Refusal::UnknownRun);
    assert_eq!(
        refusal(store.commit_interrupt(&id, first(), pause(1, 0, "h", "i")).await),
        Refusal::UnknownRun
    );
    assert_eq!(refusal(store.close_run(&id, fail(1).tail).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.fence(&id).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.void_interrupt(&id, Withdrawal::Voided).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.read_after(&id, None, 1).await), Refusal::UnknownRun);
    assert_eq!(store.outcome(&id).await, Ok(Outcome::Missing));
}

pub async fn a_fenced_writer_is_refused(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    let second = Generation::new(2);
    let fenced = Fenced { generation: second, last_sequence: sequence(1) };
    assert_eq!(store.fence(&run_id("r1")).await, Ok(fenced));
    let refused = Refusal::Fenced { given: first(), current: second };
    assert_eq!(refusal(store.append(&run_id("r1"), first(), vec![delta(2)]).await), refused);
    assert_eq!(refusal(store.commit_final(&run_id("r1"), first(), finish(2, 0, "h")).await), refused);
    let paused = store.commit_interrupt(&run_id("r1"), first(), pause(2, 0, "h", "i")).await;
    assert_eq!(refusal(paused), refused);
    store.append(&run_id("r1"), second, vec![delta(2)]).await.unwrap();
    store.commit_final(&run_id("r1"), second, fail(3)).await.unwrap();
    assert_eq!(refusal(store.append(&run_id("r1"), first(), vec![delta(4)]).await), refused);
}
