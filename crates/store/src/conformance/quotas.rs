//! Quotas: how many runs may be open, how many begun, and how much is stored.

use std::time::Duration;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    agent, answer, conversation, deltas, failed, finish, first, keyed, later, open, opened, owned_by,
    reference, refusal, run_id, run_to_end, run_to_pause,
};
use crate::error::Refusal;
use crate::model::{Bound, OpenBounds, OpenRun, OverQuota, Owner, Quota, Whose};

fn at_most(mut open: OpenRun, whose: Whose, bounds: OpenBounds) -> OpenRun {
    let quota = Quota::default();
    open.quota = match whose {
        Whose::Owner => Quota { owner: bounds, ..quota },
        Whose::Agent => Quota { agent: bounds, ..quota },
    };
    open
}

fn open_runs(limit: u64) -> OpenBounds {
    OpenBounds { open_runs: Some(limit), starts_per_minute: None }
}

fn starts(limit: u64) -> OpenBounds {
    OpenBounds { open_runs: None, starts_per_minute: Some(limit) }
}

fn over(whose: Whose, bound: Bound, limit: u64) -> Refusal {
    Refusal::OverQuota(OverQuota::new(whose, bound, limit))
}

pub async fn an_owner_has_so_many_runs_open_and_no_more(backend: &mut impl Backend) {
    let store = backend.store();
    let bounded = |run: &str, place: &str| at_most(open(run, place), Whose::Owner, open_runs(2));
    opened(&*store, bounded("r1", "a")).await;
    opened(&*store, bounded("r2", "b")).await;
    assert_eq!(refusal(store.open_run(bounded("r3", "c")).await), over(Whose::Owner, Bound::OpenRuns, 2));
    // Somebody else's runs are not counted, and nothing of the refused one is left.
    opened(&*store, owned_by(bounded("r4", "c"), "ann")).await;
    assert_eq!(refusal(store.run(&Owner::local(), &run_id("r3")).await), Refusal::UnknownRun);
    assert_eq!(store.active_run(&Owner::local(), &conversation("c")).await, Ok(None));
    // A better reason comes first, and the same request finds its run whatever the quota says.
    assert_eq!(
        refusal(store.open_run(bounded("r5", "a")).await),
        Refusal::ConversationBusy { run_id: run_id("r1") }
    );
    store.close_run(&run_id("r1"), vec![failed(1, "engine_restarted")]).await.unwrap();
    opened(&*store, keyed(bounded("r3", "c"), "k", 1)).await;
    store.open_run(keyed(bounded("r6", "d"), "k", 1)).await.unwrap();
    assert_eq!(refusal(store.open_run(bounded("r6", "d")).await), over(Whose::Owner, Bound::OpenRuns, 2));
}

pub async fn an_agent_has_so_many_runs_open_whoever_calls(backend: &mut impl Backend) {
    let store = backend.store();
    let bounded = |run: &str, place: &str| at_most(open(run, place), Whose::Agent, open_runs(1));
    opened(&*store, bounded("r1", "a")).await;
    let ann = owned_by(bounded("r2", "b"), "ann");
    assert_eq!(refusal(store.open_run(ann.clone()).await), over(Whose::Agent, Bound::OpenRuns, 1));
    let mut other = ann.clone();
    other.agent_id = agent("other");
    opened(&*store, other).await;
    store.commit_final(&run_id("r1"), first(), finish(1, 0, "h1")).await.unwrap();
    let mut ann = ann;
    ann.run_id = run_id("r3");
    ann.conversation_id = conversation("d");
    opened(&*store, ann).await;
}

pub async fn an_answer_counts_as_a_run_and_waiting_does_not(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r1", "a"), "h1", "i").await;
    let bounded = |run: &str, place: &str| at_most(open(run, place), Whose::Owner, open_runs(1));
    opened(&*store, bounded("r2", "b")).await;
    let refused = store.consume_interrupt(answer("r1", "i", 1, bounded("r3", "a"))).await;
    assert_eq!(refusal(refused), over(Whose::Owner, Bound::OpenRuns, 1));
    // The interrupt waits as before.
    store.commit_final(&run_id("r2"), first(), finish(1, 0, "h1")).await.unwrap();
    store.consume_interrupt(answer("r1", "i", 1, bounded("r3", "a"))).await.unwrap();
}

pub async fn starts_are_counted_over_a_minute_whatever_became_of_the_runs(backend: &mut impl Backend) {
    let store = backend.store();
    let bounded = |run: &str, place: &str, seconds: i64| {
        later(at_most(open(run, place), Whose::Owner, starts(2)), seconds)
    };
    run_to_end(&*store, bounded("r1", "a", 0), "h1").await;
    opened(&*store, bounded("r2", "b", 20)).await;
    store.close_run(&run_id("r2"), vec![failed(1, "engine_restarted")]).await.unwrap();
    // Deleted runs were begun all the same.
    store.delete_conversation(&Owner::local(), &conversation("a")).await.unwrap();
    drop(store);
    backend.restart();
    let store = backend.store();
    let refused = refusal(store.open_run(bounded("r3", "c", 30)).await);
    let retry_after = Duration::from_secs(30);
    let expected = OverQuota { retry_after, ..OverQuota::new(Whose::Owner, Bound::Starts, 2) };
    assert_eq!(refused, Refusal::OverQuota(expected));
    opened(&*store, bounded("r3", "c", 60)).await;
    assert_eq!(
        refusal(store.open_run(bounded("r4", "d", 61)).await),
        Refusal::OverQuota(OverQuota { retry_after: Duration::from_secs(19), ..expected })
    );
    opened(&*store, owned_by(bounded("r5", "d", 61), "ann")).await;
}

pub async fn what_is_stored_is_counted_with_the_end_of_a_run(backend: &mut impl Backend) {
    let store = backend.store();
    let count = async |whose, name: &str| store.stored_bytes(whose, name).await.unwrap();
    assert_eq!(count(Whose::Owner, "local").await, 0);
    opened(&*store, open("r1", "a")).await;
    let request = count(Whose::Owner, "local").await;
    assert!(request > 0);
    store.append(&run_id("r1"), first(), deltas(1..100)).await.unwrap();
    store.put_result(&run_id("r1"), &reference("x"), vec![7; 1000]).await.unwrap();
    store.put_result(&run_id("r1"), &reference("x"), vec![7; 1000]).await.unwrap();
    assert_eq!(count(Whose::Owner, "local").await, request + 1000);
    store.commit_final(&run_id("r1"), first(), finish(100, 0, "h1")).await.unwrap();
    let records = store.read_after(&run_id("r1"), None, 1000).await.unwrap().records;
    let logged: usize = records.iter().map(|record| record.data.as_str().len()).sum();
    let whole = request + 1000 + u64::try_from(logged).unwrap();
    assert_eq!(count(Whose::Owner, "local").await, whole);
    assert_eq!(count(Whose::Agent, "helper").await, whole);
    assert_eq!((count(Whose::Owner, "ann").await, count(Whose::Agent, "other").await), (0, 0));
    drop(store);

    // Neither the archive nor a restart in the middle of a run changes the count.
    let store = backend.store();
    opened(&*store, open("r2", "b")).await;
    store.append(&run_id("r2"), first(), deltas(1..10)).await.unwrap();
    drop(store);
    backend.restart();
    let store = backend.store();
    store.append(&run_id("r2"), first(), deltas(10..20)).await.unwrap();
    store.commit_final(&run_id("r2"), first(), finish(20, 0, "h1")).await.unwrap();
    let records = store.read_after(&run_id("r2"), None, 1000).await.unwrap().records;
    let logged: usize = records.iter().map(|record| record.data.as_str().len()).sum();
    let both = whole + request + u64::try_from(logged).unwrap();
    assert_eq!(store.stored_bytes(Whose::Owner, "local").await, Ok(both));
    let late = causeway_contract::timestamp::Timestamp::from_unix(4_000_000_000, 0);
    store.archive(&late, 10).await.unwrap();
    assert_eq!(store.stored_bytes(Whose::Agent, "helper").await, Ok(both));
    store.delete_conversation(&Owner::local(), &conversation("a")).await.unwrap();
    assert_eq!(store.stored_bytes(Whose::Owner, "local").await, Ok(both - whole));
}
