//! Interrupts: committed whole (R14), consumed once.

use causeway_contract::receipt::CommitReceipt;
use causeway_contract::timestamp::Timestamp;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    NOON, agent, answer, conversation, delta, ephemeral, fail, first, interrupt_id, keyed, later, log, open,
    opened, owned_by, pause, reference, refusal, replayed, run_id, run_to_end, run_to_pause,
};
use crate::error::{Error, Misuse, Refusal};
use crate::model::{
    Head, Interrupt, InterruptStatus, InterruptSummary, Open, Opened, Owner, Revision, Status, Withdrawal,
};
use crate::store::Store;

async fn status(store: &dyn Store, run: &str) -> InterruptStatus {
    store.interrupt(&Owner::local(), &run_id(run)).await.unwrap().summary.status
}

async fn pending(store: &dyn Store) -> Option<Interrupt> {
    store.pending_interrupt(&Owner::local(), &conversation("c")).await.unwrap()
}

pub async fn r14_an_interrupt_is_committed_with_its_snapshot_and_receipt(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r0", "c"), "h1").await;
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), vec![delta(1)]).await.unwrap();
    let mut commit = pause(2, 1, "h2", "i");
    commit.expires_at = Some(Timestamp::from_unix(NOON + 60, 0));
    let receipt = store.commit_interrupt(&run_id("r1"), first(), commit.clone()).await.unwrap();
    assert_eq!(receipt, CommitReceipt::issued_by_store(2, reference("h2")));
    let head = Head { revision: Revision::new(2), head_ref: reference("h2"), run_id: run_id("r1") };
    assert_eq!(store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await, Ok(Some(head)));
    let summary = InterruptSummary {
        interrupt_id: interrupt_id("i"),
        reason: commit.reason,
        revision: Revision::new(2),
        status: InterruptStatus::Pending,
        expires_at: commit.expires_at.clone(),
        decision: None,
    };
    assert_eq!(summary.interrupt_type(), "tool_approval");
    let interrupt = Interrupt {
        owner: Owner::local(),
        run_id: run_id("r1"),
        conversation_id: conversation("c"),
        agent_id: agent("helper"),
        summary: summary.clone(),
        request: commit.request.clone(),
        snapshot: commit.snapshot.clone(),
        head_ref: reference("h2"),
        resumed_by: None,
    };
    assert_eq!(pending(&*store).await, Some(interrupt.clone()));
    assert_eq!(store.interrupt(&Owner::local(), &run_id("r1")).await, Ok(interrupt));
    let run = store.run(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!((run.status, run.interrupt), (Status::Interrupted, Some(summary)));
    let mut expected = vec![open("r1", "c").started, delta(1)];
    expected.extend(commit.tail);
    assert_eq!(log(&*store, "r1").await, expected);
}

pub async fn r14_a_refused_interrupt_leaves_nothing(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let refused = refusal(store.commit_interrupt(&run_id("r1"), first(), pause(1, 7, "h1", "i")).await);
    assert_eq!(refused, Refusal::HeadMoved { expected: Revision::new(7), found: Revision::new(0) });
    assert_eq!(pending(&*store).await, None);
    assert_eq!(refusal(store.interrupt(&Owner::local(), &run_id("r1")).await), Refusal::NoInterrupt);
    assert_eq!(log(&*store, "r1").await.len(), 1);
    store.commit_final(&run_id("r1"), first(), fail(1)).await.unwrap();
}

pub async fn a_pending_interrupt_holds_up_new_runs(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    let refused = refusal(store.open_run(open("r2", "c")).await);
    assert_eq!(refused, Refusal::InterruptPending { run_id: run_id("r1"), interrupt_id: interrupt_id("i") });
    opened(&*store, open("r3", "d")).await;
}

pub async fn an_answer_starts_one_run(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    let given = answer("r1", "i", 1, open("r2", "c"));
    let opened = store.consume_interrupt(given.clone()).await.unwrap();
    let base = store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await.unwrap();
    assert_eq!(base.as_ref().map(|head| head.run_id.clone()), Some(run_id("r1")));
    let Opened::New(Open { base: found, .. }) = opened else { panic!("not new") };
    assert_eq!(found, base);
    assert_eq!(pending(&*store).await, None);
    let interrupt = store.interrupt(&Owner::local(), &run_id("r1")).await.unwrap();
    assert_eq!(interrupt.summary.status, InterruptStatus::Consumed);
    assert_eq!(
        (interrupt.summary.decision, interrupt.resumed_by),
        (Some(given.decision), Some(run_id("r2")))
    );
    let (one, two) = (run_id("r1"), run_id("r2"));
    assert_eq!(store.run(&Owner::local(), &one).await.unwrap().resumed_by, Some(two.clone()));
    assert_eq!(store.run(&Owner::local(), &one).await.unwrap().status, Status::Interrupted);
    assert_eq!(store.run(&Owner::local(), &two).await.unwrap().resumed_from, Some(one));
    let late = store.consume_interrupt(answer("r1", "i", 1, open("r3", "c"))).await;
    assert_eq!(refusal(late), Refusal::InterruptConsumed { resumed_by: two });
    assert_eq!(store.void_interrupt(&run_id("r1"), Withdrawal::Voided).await, Ok(false));
}

pub async fn the_same_answer_finds_its_run(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    let given = |run| answer("r1", "i", 1, keyed(open(run, "c"), "k", 1));
    store.consume_interrupt(given("r2")).await.unwrap();
    assert_eq!(replayed(store.consume_interrupt(given("r3")).await).run_id, run_id("r2"));
    let other = answer("r1", "i", 1, keyed(open("r4", "c"), "k", 2));
    assert_eq!(refusal(store.consume_interrupt(other).await), Refusal::KeyReused { run_id: run_id("r2") });
}

pub async fn an_answer_must_fit_the_interrupt(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r0", "c"), "h0").await;
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    let refused = |given| {
        let store = backend.store();
        async move { refusal(store.consume_interrupt(given).await) }
    };
    let new = || open("r2", "c");
    assert_eq!(refused(answer("nobody", "i", 2, new())).await, Refusal::UnknownRun);
    assert_eq!(refused(answer("r0", "i", 2, new())).await, Refusal::NoInterrupt);
    assert_eq!(refused(answer("r1", "j", 2, new())).await, Refusal::NoInterrupt);
    let mismatch = Refusal::RevisionMismatch { expected: Revision::new(2), found: Revision::new(1) };
    assert_eq!(refused(answer("r1", "i", 1, new())).await, mismatch);
    assert_eq!(
        refused(answer("r1", "i", 2, open("r0", "c"))).await,
        Refusal::RunExists { run_id: run_id("r0") }
    );
    assert_eq!(status(&*store, "r1").await, InterruptStatus::Pending);
    store.consume_interrupt(answer("r1", "i", 2, new())).await.unwrap();
}

pub async fn an_answer_stays_with_owner_conversation_and_agent(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    let stranger = answer("r1", "i", 1, owned_by(open("r2", "c"), "ann"));
    assert_eq!(refusal(store.consume_interrupt(stranger).await), Refusal::UnknownRun);
    let mut other = open("r2", "c");
    other.agent_id = agent("other");
    for open in [other, open("r2", "d"), ephemeral(open("r2", "c"))] {
        let given = store.consume_interrupt(answer("r1", "i", 1, open)).await;
        assert_eq!(given, Err(Error::Misuse(Misuse::Stranger)));
    }
    assert_eq!(status(&*store, "r1").await, InterruptStatus::Pending);
}

pub async fn a_voided_interrupt_takes_no_answer(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    assert_eq!(store.void_interrupt(&run_id("r1"), Withdrawal::Voided).await, Ok(true));
    assert_eq!(store.void_interrupt(&run_id("r1"), Withdrawal::Voided).await, Ok(false));
    assert_eq!(pending(&*store).await, None);
    assert_eq!(status(&*store, "r1").await, InterruptStatus::Voided);
    let late = store.consume_interrupt(answer("r1", "i", 1, open("r2", "c"))).await;
    assert_eq!(refusal(late), Refusal::InterruptClosed);
    assert_eq!(store.run(&Owner::local(), &run_id("r1")).await.unwrap().status, Status::Interrupted);
    let next = opened(&*store, open("r2", "c")).await;
    assert_eq!(next.base_revision(), Revision::new(1));
}

pub async fn an_expired_interrupt_takes_no_answer_and_holds_up_nothing(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let mut commit = pause(1, 0, "h1", "i");
    commit.expires_at = Some(Timestamp::from_unix(NOON + 60, 0));
    store.commit_interrupt(&run_id("r1"), first(), commit).await.unwrap();
    let late = store.consume_interrupt(answer("r1", "i", 1, later(open("r2", "c"), 60))).await;
    assert_eq!(refusal(late), Refusal::InterruptExpired);
    let early = store.open_run(later(open("r2", "c"), 59)).await;
    let pending_now = Refusal::InterruptPending { run_id: run_id("r1"), interrupt_id: interrupt_id("i") };
    assert_eq!(refusal(early), pending_now);
    opened(&*store, later(open("r2", "c"), 60)).await;
    assert_eq!(status(&*store, "r1").await, InterruptStatus::Expired);
    assert_eq!(pending(&*store).await, None);
}

pub async fn a_consumed_interrupt_stays_consumed_when_its_run_fails(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i").await;
    store.consume_interrupt(answer("r1", "i", 1, open("r2", "c"))).await.unwrap();
    store.commit_final(&run_id("r2"), first(), fail(1)).await.unwrap();
    assert_eq!(status(&*store, "r1").await, InterruptStatus::Consumed);
    let next = opened(&*store, open("r3", "c")).await;
    assert_eq!(next.base.map(|head| head.head_ref), Some(reference("h1")));
}

pub async fn pending_interrupts_are_listed_for_their_owner(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "c"), "h1", "i1").await;
    run_to_pause(&*store, open("r2", "d"), "h1", "i2").await;
    run_to_pause(&*store, owned_by(open("r3", "c"), "ann"), "h1", "i3").await;
    run_to_pause(&*store, open("r4", "e"), "h1", "i4").await;
    store.void_interrupt(&run_id("r4"), Withdrawal::Voided).await.unwrap();
    let ids = |found: Vec<Interrupt>| found.into_iter().map(|i| i.run_id).collect::<Vec<_>>();
    let all = store.pending_interrupts(&Owner::local(), 10).await.unwrap();
    assert_eq!(ids(all), [run_id("r2"), run_id("r1")]);
    assert_eq!(ids(store.pending_interrupts(&Owner::local(), 1).await.unwrap()), [run_id("r2")]);
    assert_eq!(ids(store.pending_interrupts(&Owner::new("ann"), 10).await.unwrap()), [run_id("r3")]);
}

pub async fn interrupts_that_expire_are_listed_the_soonest_first(backend: &mut impl Backend) {
    let store = backend.store();
    for (run, owner, after) in
        [("r1", "ann", Some(90)), ("r2", "local", Some(30)), ("r3", "local", None), ("r4", "bob", Some(60))]
    {
        opened(&*store, owned_by(open(run, run), owner)).await;
        let mut commit = pause(1, 0, "h1", run);
        commit.expires_at = after.map(|after| Timestamp::from_unix(NOON + after, 0));
        store.commit_interrupt(&run_id(run), first(), commit).await.unwrap();
    }
    let due = |run, after| (run_id(run), Timestamp::from_unix(NOON + after, 0));
    let all = [due("r2", 30), due("r4", 60), due("r1", 90)];
    assert_eq!(store.expiring_interrupts(10).await.unwrap(), all);
    assert_eq!(store.expiring_interrupts(2).await.unwrap(), all[..2]);
    assert_eq!(store.void_interrupt(&run_id("r2"), Withdrawal::Expired).await, Ok(true));
    assert_eq!(store.expiring_interrupts(10).await.unwrap(), all[1..]);
    assert_eq!(status(&*store, "r2").await, InterruptStatus::Expired);
}
