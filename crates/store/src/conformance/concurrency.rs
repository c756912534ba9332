//! Many callers at once: one wins, and what was acknowledged is there.

use std::sync::Arc;

use causeway_contract::event::Sequence;
use tokio::task::JoinSet;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    agent, answer, conversation, delta, deltas, failed, finish, first, keyed, log, open, opened, refusal,
    run_id, run_to_pause, sequence,
};
use crate::error::Refusal;
use crate::model::{Opened, Owner, RunFilter, Status};
use crate::store::Store;

const MANY: u64 = 16;

/// Runs `call` as sixteen tasks at once.
async fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    store: &Arc<dyn Store>,
    call: impl Fn(Arc<dyn Store>, u64) -> F,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    for number in 0..MANY {
        tasks.spawn(call(Arc::clone(store), number));
    }
    tasks.join_all().await
}

pub async fn of_many_commits_of_a_run_one_wins(backend: &mut impl Backend) {
    let store = backend.store();
    opened(&*store, open("r1", "c")).await;
    let answers = at_once(&store, |store, number| async move {
        store.commit_final(&run_id("r1"), first(), finish(1, 0, &format!("h{number}"))).await
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 15));
    for answer in lost {
        assert_eq!(refusal(answer), Refusal::Ended { status: Status::Finished });
    }
    let head = store.load_head(&Owner::local(), &conversation("c"), &agent("helper")).await.unwrap().unwrap();
    let records = log(&*store, "r1").await;
    let terminal = records.last().unwrap().data.as_str().to_owned();
    assert_eq!(records.len(), 2);
    assert!(terminal.contains(&format!("\"{}\"", head.head_ref)), "the head is the one of the terminal");
}

pub async fn of_many_starts_in_a_conversation_one_wins(backend: &mut impl Backend) {
    let store = backend.store();
    let answers =
        at_once(
            &store,
            |store, number| async move { store.open_run(open(&format!("r{number}"), "c")).await },
        )
        .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    let active = store.active_run(&Owner::local(), &conversation("c")).await.unwrap().unwrap();
    for answer in answers.into_iter().filter(Result::is_err) {
        assert_eq!(refusal(answer), Refusal::ConversationBusy { run_id: active.clone() });
    }
    assert_eq!(store.runs(&Owner::local(), &RunFilter::default(), 99, None).await.unwrap().runs.len(), 1);
}

pub async fn of_many_answers_to_an_interrupt_one_starts_a_run(backend: &mut impl Backend) {
    let store = backend.store();
    run_to_pause(&*store, open("r", "c"), "h1", "i").await;
    let answers = at_once(&store, |store, number| async move {
        let new = keyed(open(&format!("r{number}"), "c"), &format!("k{number}"), 1);
        store.consume_interrupt(answer("r", "i", 1, new)).await
    })
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    let resumed_by = store.run(&Owner::local(), &run_id("r")).await.unwrap().resumed_by.unwrap();
    for answer in answers.into_iter().filter(Result::is_err) {
        assert_eq!(refusal(answer), Refusal::InterruptConsumed { resumed_by: resumed_by.clone() });
    }
}

pub async fn many_requests_with_one_key_start_one_run(backend: &mut impl Backend) {
    let store = backend.store();
    let answers = at_once(&store, |store, number| async move {
        store.open_run(keyed(open(&format!("r{number}"), "c"), "k", 1)).await.unwrap()
    })
    .await;
    let new = answers.iter().filter(|answer| matches!(answer, Opened::New(_))).count();
    assert_eq!(new, 1);
    let active = store.active_run(&Owner::local(), &conversation("c")).await.unwrap().unwrap();
    for answer in answers {
        if let Opened::Replayed(run) = answer {
            assert_eq!(run.run_id, active);
        }
    }
}

pub async fn nothing_of_a_fenced_writer_follows_the_terminal(backend: &mut impl Backend) {
    for round in 0..10 {
        let store = backend.store();
        let id = format!("r{round}");
        opened(&*store, open(&id, &format!("c{round}"))).await;
        let writer = tokio::spawn({
            let (store, id) = (Arc::clone(&store), run_id(&id));
            async move {
                let mut acknowledged = 0;
                for number in 1..10_000 {
                    if store.append(&id, first(), vec![delta(number)]).await.is_err() {
                        break;
                    }
                    acknowledged = number;
                }
                acknowledged
            }
        });
        while store.read_after(&run_id(&id), None, 9).await.unwrap().records.len() < 3 {
            tokio::task::yield_now().await;
        }
        let fenced = store.fence(&run_id(&id)).await.unwrap();
        let next = fenced.last_sequence.next().map_or(0, Sequence::value);
        let terminal = failed(next, "engine_restarted");
        store.append(&run_id(&id), fenced.generation, vec![delta(next)]).await.unwrap();
        store.close_run(&run_id(&id), vec![failed(next + 1, "engine_restarted")]).await.unwrap();
        let acknowledged = writer.await.unwrap();
        assert_eq!(sequence(acknowledged), fenced.last_sequence);
        let records = log(&*store, &id).await;
        assert_eq!(records.last().map(|record| record.event_type), Some(terminal.event_type));
        let numbers: Vec<_> = records.iter().map(|record| record.sequence.value()).collect();
        assert_eq!(numbers, (0..next + 2).collect::<Vec<_>>());
    }
}

pub async fn many_runs_are_written_at_once(backend: &mut impl Backend) {
    let store = backend.store();
    at_once(&store, |store, run| async move {
        let id = format!("r{run}");
        opened(&*store, open(&id, &format!("c{run}"))).await;
        for batch in 0..10 {
            store.append(&run_id(&id), first(), deltas(1 + batch * 5..6 + batch * 5)).await.unwrap();
        }
        store.commit_final(&run_id(&id), first(), finish(51, 0, "h")).await.unwrap();
    })
    .await;
    for run in 0..MANY {
        let mut expected = vec![open("any", "any").started];
        expected.extend(deltas(1..51));
        expected.extend(finish(51, 0, "h").tail);
        assert_eq!(log(&*store, &format!("r{run}")).await, expected);
    }
}
