//! Reading back: pages, lists, results.

use causeway_contract::event::EventType;
use causeway_contract::id::RunId;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    NOON, agent, conversation, deltas, fail, finish, first, later, open, opened, owned_by, record, reference,
    refusal, run_id, run_to_end, run_to_pause, sequence,
};
use crate::error::Refusal;
use crate::model::{Cursor, Owner, Page, RunFilter, RunPage, Status};
use crate::rules::RESULT_BYTES;

pub async fn pages_follow_each_other_without_a_gap(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    store.append(&run_id("r1"), first(), deltas(1..10)).await.unwrap();
    let (mut after, mut numbers) = (None, Vec::new());
    loop {
        let page = store.read_after(&run_id("r1"), after, 4).await.unwrap();
        assert_eq!((page.status, page.last_sequence), (Status::Running, sequence(9)));
        assert!(!page.is_done(after));
        if page.records.is_empty() {
            break;
        }
        after = page.records.last().map(|record| record.sequence);
        numbers.push(page.records.iter().map(|record| record.sequence.value()).collect::<Vec<_>>());
    }
    assert_eq!(numbers, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    let beyond = store.read_after(&run_id("r1"), Some(sequence(50)), 4).await.unwrap();
    assert_eq!(beyond.records, []);
    assert_eq!(store.read_after(&run_id("r1"), None, 0).await.unwrap().records, []);
}

pub async fn a_page_of_large_records_is_short_but_never_empty(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let large =
        |number, bytes: usize| record(number, EventType::Warning, &format!("\"{}\"", "x".repeat(bytes)));
    let three = 3 * 1024 * 1024;
    store
        .append(&run_id("r1"), first(), vec![large(1, three), large(2, 2 * three), large(3, 10)])
        .await
        .unwrap();
    let mut counts = Vec::new();
    for after in [None, Some(sequence(0)), Some(sequence(1)), Some(sequence(2))] {
        counts.push(store.read_after(&run_id("r1"), after, 100).await.unwrap().records.len());
    }
    assert_eq!(counts, [2, 1, 1, 1]);
}

pub async fn a_page_is_done_after_the_terminal_only(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    let done = |page: &Page, after| (page.records.len(), page.status, page.is_done(after));
    let page = store.read_after(&run_id("r1"), None, 1).await.unwrap();
    assert_eq!(done(&page, None), (1, Status::Finished, false));
    let page = store.read_after(&run_id("r1"), Some(sequence(0)), 1).await.unwrap();
    assert_eq!(done(&page, Some(sequence(0))), (1, Status::Finished, true));
    let page = store.read_after(&run_id("r1"), Some(sequence(1)), 1).await.unwrap();
    assert_eq!(done(&page, Some(sequence(1))), (0, Status::Finished, true));
}

fn ids(page: &RunPage) -> Vec<RunId<'static>> {
    page.runs.iter().map(|run| run.run_id.clone()).collect()
}

pub async fn runs_are_listed_newest_first(backend: &mut impl Backend) {
    let store = backend.store();
    for number in 1..=5 {
        opened(&*store, open(&format!("r{number}"), &format!("c{number}"))).await;
    }
    let (owner, all) = (Owner::local(), RunFilter::default());
    let first_page = store.runs(&owner, &all, 2, None).await.unwrap();
    assert_eq!(ids(&first_page), [run_id("r5"), run_id("r4")]);
    opened(&*store, open("r6", "c6")).await;
    let cursor = Cursor::parse(&first_page.next.unwrap().to_string());
    let second_page = store.runs(&owner, &all, 2, cursor).await.unwrap();
    assert_eq!(ids(&second_page), [run_id("r3"), run_id("r2")]);
    let last_page = store.runs(&owner, &all, 2, second_page.next).await.unwrap();
    assert_eq!((ids(&last_page), last_page.next), (vec![run_id("r1")], None));
    let exact = store.runs(&owner, &all, 6, None).await.unwrap();
    assert_eq!((exact.runs.len(), exact.next), (6, None));
    assert_eq!(exact.runs.first(), Some(&store.run(&owner, &run_id("r6")).await.unwrap()));
}

pub async fn runs_are_filtered_by_all_that_is_given(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_end(&*store, later(open("r1", "c"), 0), "h1").await;
    run_to_pause(&*store, later(open("r2", "c"), 10), "h2", "i").await;
    let mut other = later(open("r3", "d"), 20);
    other.agent_id = agent("other");
    opened(&*store, other).await;
    let cases = [
        (RunFilter { status: Some(Status::Finished), ..RunFilter::default() }, vec!["r1"]),
        (RunFilter { status: Some(Status::Running), ..RunFilter::default() }, vec!["r3"]),
        (RunFilter { agent_id: Some(agent("helper")), ..RunFilter::default() }, vec!["r2", "r1"]),
        (RunFilter { conversation_id: Some(conversation("d")), ..RunFilter::default() }, vec!["r3"]),
        (RunFilter { since: Some((NOON + 10) * 1000), ..RunFilter::default() }, vec!["r3", "r2"]),
        (RunFilter { until: Some((NOON + 10) * 1000), ..RunFilter::default() }, vec!["r1"]),
        (
            RunFilter {
                status: Some(Status::Interrupted),
                agent_id: Some(agent("helper")),
                conversation_id: Some(conversation("c")),
                since: Some(NOON * 1000),
                until: Some((NOON + 11) * 1000),
            },
            vec!["r2"],
        ),
        (RunFilter { conversation_id: Some(conversation("nowhere")), ..RunFilter::default() }, vec![]),
    ];
    for (filter, expected) in cases {
        let found = store.runs(&Owner::local(), &filter, 10, None).await.unwrap();
        assert_eq!(ids(&found), expected.into_iter().map(run_id).collect::<Vec<_>>(), "{filter:?}");
    }
}

pub async fn nothing_of_one_owner_is_shown_to_another(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, owned_by(open("r1", "c"), "ann"), "h1", "i").await;
    store.put_result(&run_id("r1"), &reference("big"), b"whole".to_vec()).await.unwrap();
    let local = Owner::local();
    assert_eq!(refusal(store.run(&local, &run_id("r1")).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.interrupt(&local, &run_id("r1")).await), Refusal::UnknownRun);
    assert_eq!(refusal(store.result(&local, &run_id("r1"), &reference("big")).await), Refusal::UnknownRun);
    assert_eq!(store.pending_interrupt(&local, &conversation("c")).await, Ok(None));
    assert_eq!(store.load_head(&local, &conversation("c"), &agent("helper")).await, Ok(None));
    assert_eq!(store.stale_threads(&local, &conversation("c"), 9).await, Ok(Vec::new()));
    assert_eq!(store.runs(&local, &RunFilter::default(), 9, None).await, Ok(RunPage::default()));
}

pub async fn a_run_shows_its_last_usage(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let usage = |number| {
        record(number, EventType::UsageUpdated, &format!(r#"{{"input_tokens":{number},"final":false}}"#))
    };
    let shown = || {
        let store = backend.store();
        async move { store.run(&Owner::local(), &run_id("r1")).await.unwrap().usage }
    };
    assert_eq!(shown().await, None);
    store.append(&run_id("r1"), first(), vec![usage(1), usage(2)]).await.unwrap();
    assert_eq!(shown().await, Some(usage(2).data));
    let mut end = finish(4, 0, "h1");
    end.tail.insert(0, usage(3));
    store.commit_final(&run_id("r1"), first(), end).await.unwrap();
    assert_eq!(shown().await, Some(usage(3).data));
}

pub async fn results_are_kept_whole_and_once(backend: &mut impl Backend) {
    let store = backend.store();
    let (owner, id) = (Owner::local(), run_id("r1"));
    opened(&*store, open("r1", "c")).await;
    let whole: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    store.put_result(&id, &reference("a"), whole.clone()).await.unwrap();
    store.put_result(&id, &reference("a"), whole.clone()).await.unwrap();
    store.put_result(&id, &reference("b"), Vec::new()).await.unwrap();
    let other = store.put_result(&id, &reference("a"), b"other".to_vec()).await;
    assert_eq!(refusal(other), Refusal::ResultExists);
    store.commit_final(&id, first(), fail(1)).await.unwrap();
    assert_eq!(store.result(&owner, &id, &reference("a")).await.unwrap().as_ref(), whole);
    assert_eq!(store.result(&owner, &id, &reference("b")).await.unwrap().as_ref(), b"");
    assert_eq!(refusal(store.result(&owner, &id, &reference("c")).await), Refusal::UnknownResult);
    let nobody = store.put_result(&run_id("nobody"), &reference("a"), Vec::new()).await;
    assert_eq!(refusal(nobody), Refusal::UnknownRun);
    let huge = store.put_result(&id, &reference("d"), vec![0; RESULT_BYTES + 1]).await;
    assert_eq!(refusal(huge), Refusal::ResultTooLarge { bytes: RESULT_BYTES + 1, limit: RESULT_BYTES });
}
