//! Runs of a real engine, looked at: whole, told shortly, answered.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::time::Duration;

use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::limits::Limits;
use causeway_engine::Engine;
use causeway_engine::answer::{Answer, AnswerRun};
use causeway_lifecycle::{Boundary, Thread, Validator};
use causeway_store::Record;
use causeway_store::model::Owner;

use crate::harness::{follow, story};

/// The whole run, which obeys every rule.
pub async fn checked(engine: &Engine, run_id: &RunId<'_>, conversation: &ConversationId<'_>) -> Vec<Record> {
    let records = follow(engine, run_id, None).await.unwrap();
    let mut validator = Validator::new(Boundary::Commit, Thread::Durable, Limits::DEFAULT).offline();
    for record in &records {
        let event = record.decode(run_id, conversation, &Limits::DEFAULT).unwrap();
        validator.accept(&event, record.data.as_str().len()).unwrap();
    }
    validator.finish().unwrap();
    records
}

/// Waits for an event of that type.
pub async fn until(engine: &Engine, run_id: &RunId<'_>, kind: &str) {
    let mut subscription = engine.subscribe(&Owner::local(), run_id, None).await.unwrap();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(90), subscription.next()).await;
        let record = next.expect("it comes").unwrap();
        if record.expect("the run ended before").event_type.as_str() == kind {
            return;
        }
    }
}

/// Answers the interrupt of a run; the run that goes on.
pub async fn resume(engine: &Engine, run_id: &RunId<'static>, answer: Answer) -> RunId<'static> {
    let interrupt = engine.interrupt(&Owner::local(), run_id).await.unwrap();
    let answer = AnswerRun {
        owner: Owner::local(),
        run_id: run_id.clone(),
        interrupt_id: interrupt.summary.interrupt_id.clone(),
        revision: interrupt.summary.revision,
        answer,
        route: "test",
        idempotency_key: None,
        traceparent: None,
    };
    engine.resume(answer).await.unwrap().run_id
}

/// What the root said.
pub fn text(records: &[Record]) -> String {
    let pieces = records
        .iter()
        .filter(|record| record.event_type.as_str() == "text.delta" && &*record.namespace == "[]");
    let delta = |record: &Record| {
        let data: serde_json::Value = serde_json::from_str(record.data.as_str()).unwrap();
        data["delta"].as_str().unwrap().to_owned()
    };
    pieces.map(delta).collect()
}

/// How a run ended.
pub fn last(records: &[Record]) -> String {
    story(&records[records.len() - 1..])
}
