//! The ends of a run that wait for nobody: R13, R15, and one terminal.

use causeway_contract::event::EventType;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    agent, cancel, cancelled, conversation, delta, ephemeral, fail, failed, finish, finished, first,
    head_move, log, open, opened, pause, record, reference, refusal, run_id, run_to_end, sequence,
};
use crate::error::{Error, Misuse, Refusal};
use crate::model::{Final, Generation, Head, Outcome, Owner, Revision, Status};
use crate::store::Store;

async fn head(store: &dyn Store) -> Option<Head> {
    store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await.unwrap()
}

async fn status(store: &dyn Store, run: &str) -> Status {
    store.run(&Owner::local(), &run_id(run)).await.unwrap().status
}

pub async fn r13_run_finished_moves_head_and_status_together(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    let mut end = finish(3, 0, "h1");
    end.tail.insert(0, delta(2));
    store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    let expected = Head { revision: Revision::new(1), head_ref: reference("h1"), run_id: run_id("r1") };
    assert_eq!(head(&*store).await, Some(expected));
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!((run.status, run.last_sequence), (Status::Finished, sequence(3)));
    assert_eq!(run.ended_at, Some(finished(3, 1, "h1").timestamp));
    let expected = [open("r1", "c").started, delta(1), delta(2), finished(3, 1, "h1")];
    assert_eq!(log(&*store, "r1").await, expected);
}

pub async fn r13_run_finished_of_a_durable_thread_needs_its_head(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let end = Final { tail: vec![record(1, EventType::RunFinished, r#"{"outcome":"success"}"#)], head: None };
    let answer = store.commit_final(&run_id("r1"), first(), end).await;
    assert_eq!(answer, Err(Error::Misuse(Misuse::HeadMissing)));
    assert_eq!(status(&*store, "r1").await, Status::Running);
}

pub async fn r13_run_finished_names_the_head_it_moves_to(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    for terminal in [
        finished(1, 2, "h1"),
        finished(1, 1, "h2"),
        record(1, EventType::RunFinished, r#"{"outcome":"success"}"#),
    ] {
        let end = Final { tail: vec![terminal], head: Some(head_move(0, "h1")) };
        let answer = store.commit_final(&run_id("r1"), first(), end).await;
        assert_eq!(answer, Err(Error::Misuse(Misuse::HeadDiffers)));
    }
    assert_eq!(head(&*store).await, None);
}

pub async fn r13_a_commit_on_another_base_is_refused_whole(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r0", "c"), "h1").await;
    let before = head(&*store).await;
    opened(&*store, open("r1", "c")).await;
    let mut end = finish(2, 0, "h2");
    end.tail.insert(0, delta(1));
    let refused = refusal(store.commit_final(&run_id("r1"), first(), end).await);
    assert_eq!(refused, Refusal::HeadMoved { expected: Revision::new(0), found: Revision::new(1) });
    assert_eq!(head(&*store).await, before);
    assert_eq!(log(&*store, "r1").await, [open("r1", "c").started]);
    // R15: the error takes the number that the refused tail had begun with.
    let end = Final { tail: vec![failed(1, "thread_durability_uncertain")], head: None };
    store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    assert_eq!(status(&*store, "r1").await, Status::Uncertain);
    assert_eq!(head(&*store).await, before);
}

pub async fn r15_run_error_never_moves_the_head(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r0", "c"), "h1").await;
    let before = head(&*store).await;
    opened(&*store, open("r1", "c")).await;
    let end = Final { tail: fail(1).tail, head: Some(head_move(1, "h2")) };
    let answer = store.commit_final(&run_id("r1"), first(), end).await;
    assert_eq!(answer, Err(Error::Misuse(Misuse::HeadForbidden)));
    store.commit_final(&run_id("r1"), first(), fail(1)).await.unwrap();
    assert_eq!(head(&*store).await, before);
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!((run.status, run.error), (Status::Error, Some(failed(1, "harness_timeout").data)));
}

pub async fn r15_an_uncertain_run_says_so(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let terminal = failed(1, "thread_durability_uncertain");
    let end = Final { tail: vec![terminal.clone()], head: None };
    store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!((run.status, run.error), (Status::Uncertain, Some(terminal.data)));
}

pub async fn run_cancelled_moves_the_head_if_it_brings_one(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.commit_final(&run_id("r1"), first(), cancel(1)).await.unwrap();
    assert_eq!(head(&*store).await, None);
    opened(&*store, open("r2", "c")).await;
    let end = Final { tail: vec![cancelled(1)], head: Some(head_move(0, "h1")) };
    store.commit_final(&run_id("r2"), first(), end).await.unwrap();
    let expected = Head { revision: Revision::new(1), head_ref: reference("h1"), run_id: run_id("r2") };
    assert_eq!(head(&*store).await, Some(expected));
    assert_eq!(
        (status(&*store, "r1").await, status(&*store, "r2").await),
        (Status::Cancelled, Status::Cancelled)
    );
}

pub async fn an_ephemeral_thread_has_no_head(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, ephemeral(open("r1", "c"))).await;
    let answer = store.commit_final(&run_id("r1"), first(), finish(1, 0, "h1")).await;
    assert_eq!(answer, Err(Error::Misuse(Misuse::HeadForbidden)));
    let answer = store.commit_interrupt(&run_id("r1"), first(), pause(1, 0, "h1", "i")).await;
    assert_eq!(answer, Err(Error::Misuse(Misuse::HeadForbidden)));
    let end = Final { tail: vec![record(1, EventType::RunFinished, r#"{"outcome":"success"}"#)], head: None };
    store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    assert_eq!((status(&*store, "r1").await, head(&*store).await), (Status::Finished, None));
}

pub async fn r04_nothing_follows_a_terminal(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    let refused = Refusal::Ended { status: Status::Finished };
    assert_eq!(refusal(store.append(&run_id("r1"), first(), vec![delta(2)]).await), refused);
    assert_eq!(refusal(store.commit_final(&run_id("r1"), first(), finish(2, 1, "h2")).await), refused);
    assert_eq!(refusal(store.commit_final(&run_id("r1"), first(), fail(2)).await), refused);
    assert_eq!(
        refusal(store.commit_interrupt(&run_id("r1"), first(), pause(2, 1, "h2", "i")).await),
        refused
    );
    assert_eq!(refusal(store.close_run(&run_id("r1"), fail(2).tail).await), refused);
    assert_eq!(refusal(store.fence(&run_id("r1")).await), refused);
    assert_eq!(log(&*store, "r1").await.len(), 2);
}

pub async fn r03_a_commit_ends_with_its_only_terminal(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let misuse = |misuse| Err(Error::Misuse(misuse));
    let r1 = run_id("r1");
    let commit = |tail| store.commit_final(&r1, first(), Final { tail, head: None });
    assert_eq!(commit(vec![delta(1)]).await, misuse(Misuse::TerminalPlace));
    assert_eq!(commit(vec![failed(1, "a"), delta(2)]).await, misuse(Misuse::TerminalPlace));
    assert_eq!(commit(vec![failed(1, "a"), failed(2, "a")]).await, misuse(Misuse::TerminalPlace));
    assert_eq!(commit(Vec::new()).await, misuse(Misuse::Empty));
    assert_eq!(commit(vec![record(1, EventType::RunError, "no json")]).await, misuse(Misuse::Terminal));
    let kind = |verb, terminal| Misuse::TerminalKind { verb, terminal };
    assert_eq!(commit(pause(1, 0, "h", "i").tail).await, misuse(kind("commit_final", "run.interrupted")));
    let mut paused = pause(1, 0, "h", "i");
    paused.tail = fail(1).tail;
    let answer = store.commit_interrupt(&r1, first(), paused).await;
    assert_eq!(answer, Err(Error::Misuse(kind("commit_interrupt", "run.error"))));
    let answer = store.close_run(&r1, finish(1, 0, "h").tail).await;
    assert_eq!(answer, misuse(kind("close_run", "run.finished")));
    assert_eq!(log(&*store, "r1").await.len(), 1);
}

pub async fn a_run_taken_over_is_closed_with_an_error(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    let early = store.close_run(&run_id("r1"), fail(1).tail).await;
    assert_eq!(refusal(early), Refusal::NotContiguous { expected: sequence(2), found: sequence(1) });
    store.append(&run_id("r1"), first(), vec![delta(2)]).await.unwrap();
    let exited = record(3, EventType::NamespaceExited, "{}");
    store.close_run(&run_id("r1"), vec![exited, failed(4, "engine_restarted")]).await.unwrap();
    let late = store.append(&run_id("r1"), first(), vec![delta(5)]).await;
    assert_eq!(refusal(late), Refusal::Fenced { given: first(), current: Generation::new(2) });
    assert_eq!((status(&*store, "r1").await, log(&*store, "r1").await.len()), (Status::Error, 5));
    opened(&*store, open("r2", "c")).await;
}

pub async fn the_outcome_of_a_lost_answer_can_be_read(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let running = Outcome::Running { generation: first(), last_sequence: sequence(0) };
    assert_eq!(store.outcome(&run_id("r1")).await, Ok(running));
    store.commit_final(&run_id("r1"), first(), finish(1, 0, "h1")).await.unwrap();
    let (terminal, head) = (finished(1, 1, "h1"), Some(head_move(0, "h1")));
    let ended = Outcome::Ended { status: Status::Finished, terminal, head };
    assert_eq!(store.outcome(&run_id("r1")).await, Ok(ended));
    opened(&*store, open("r2", "c")).await;
    store.commit_final(&run_id("r2"), first(), fail(1)).await.unwrap();
    let ended = Outcome::Ended { status: Status::Error, terminal: failed(1, "harness_timeout"), head: None };
    assert_eq!(store.outcome(&run_id("r2")).await, Ok(ended));
}

pub async fn why_a_run_is_uncertain_is_kept_and_the_first_note_stands(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.note_cause(&run_id("r1"), "commit_refused").await.unwrap();
    store.note_cause(&run_id("r1"), "engine_restarted").await.unwrap();
    let end = Final { tail: vec![failed(1, "thread_durability_uncertain")], head: None };
    store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!((run.status, run.cause.as_deref()), (Status::Uncertain, Some("commit_refused")));
    assert_eq!(refusal(store.note_cause(&run_id("r9"), "disk_full").await), Refusal::UnknownRun);
}
