//! What the cases are made of: runs, records and ends with a line of text each.

use std::sync::Arc;

use causeway_contract::event::{EventType, InterruptReason, Sequence};
use causeway_contract::id::{ConversationId, HarnessId, InterruptId, Name, Reference, RunId};
use causeway_contract::text::Str;
use causeway_contract::timestamp::Timestamp;

use crate::error::Refusal;
use crate::model::{
    ConsumeInterrupt, Final, Generation, HeadMove, Idempotency, InterruptCommit, Open, OpenRun, Opened,
    Owner, Quota, Revision, Run, Thread,
};
use crate::record::{Payload, Record};
use crate::store::{Result, Store};

/// The time of the first record of every case, in Unix seconds.
pub const NOON: i64 = 1_800_000_000;

/// A run id.
pub fn run_id(id: &str) -> RunId<'static> {
    RunId::new(id.to_owned()).unwrap()
}

/// A conversation id.
pub fn conversation(id: &str) -> ConversationId<'static> {
    ConversationId::new(id.to_owned()).unwrap()
}

/// An agent.
pub fn agent(id: &str) -> Name<'static> {
    Name::new(id.to_owned()).unwrap()
}

/// A reference.
pub fn reference(id: &str) -> Reference<'static> {
    Reference::new(id.to_owned()).unwrap()
}

/// An interrupt id.
pub fn interrupt_id(id: &str) -> InterruptId<'static> {
    InterruptId::new(id.to_owned()).unwrap()
}

/// A sequence number.
pub fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

/// A record, `number` seconds after noon.
pub fn record(number: u64, event_type: EventType, data: &str) -> Record {
    record_at(NOON + i64::try_from(number).unwrap(), number, event_type, data)
}

/// A record at a time.
pub fn record_at(seconds: i64, number: u64, event_type: EventType, data: &str) -> Record {
    Record {
        sequence: sequence(number),
        timestamp: Timestamp::from_unix(seconds, 123_000_000),
        event_type,
        namespace: if number.is_multiple_of(2) {
            Str::Borrowed("[]")
        } else {
            Str::from(r#"["call"]"#.to_owned())
        },
        data: Payload::from(data),
    }
}

/// A `text.delta`.
pub fn delta(number: u64) -> Record {
    record(number, EventType::TextDelta, &format!(r#"{{"message_id":"m","delta":"ä{number}"}}"#))
}

/// `text.delta` records with these numbers.
pub fn deltas(numbers: std::ops::Range<u64>) -> Vec<Record> {
    numbers.map(delta).collect()
}

/// A `run.finished` whose head has this revision.
pub fn finished(number: u64, revision: u64, head: &str) -> Record {
    let data = format!(
        r#"{{"outcome":"success","thread_state":{{"durability":"committed","durable_revision":{revision},"head_ref":"{head}"}}}}"#
    );
    record(number, EventType::RunFinished, &data)
}

/// A `run.error`.
pub fn failed(number: u64, code: &str) -> Record {
    let data = format!(
        r#"{{"code":"{code}","message":"It failed.","retryable":false,"side_effect_status":"none"}}"#
    );
    record(number, EventType::RunError, &data)
}

/// A `run.cancelled`.
pub fn cancelled(number: u64) -> Record {
    record(number, EventType::RunCancelled, r#"{"reason":"client_request","side_effect_status":"none"}"#)
}

/// The move of a head from `expected` to the next revision.
pub fn head_move(expected: u64, head: &str) -> HeadMove {
    HeadMove { expected: Revision::new(expected), head_ref: reference(head) }
}

/// The end of a run that finished.
pub fn finish(number: u64, expected: u64, head: &str) -> Final {
    Final { tail: vec![finished(number, expected + 1, head)], head: Some(head_move(expected, head)) }
}

/// The end of a run that failed.
pub fn fail(number: u64) -> Final {
    Final { tail: vec![failed(number, "harness_timeout")], head: None }
}

/// The end of a run that was cancelled without a state.
pub fn cancel(number: u64) -> Final {
    Final { tail: vec![cancelled(number)], head: None }
}

/// The end of a run that waits for an approval.
pub fn pause(number: u64, expected: u64, head: &str, id: &str) -> InterruptCommit {
    let request = format!(r#"{{"interrupt_id":"{id}"}}"#);
    InterruptCommit {
        tail: vec![
            record(number, EventType::InterruptRequested, &request),
            record(
                number + 1,
                EventType::RunInterrupted,
                &format!(r#"{{"interrupt_id":"{id}","reason":"tool_approval"}}"#),
            ),
        ],
        head: head_move(expected, head),
        interrupt_id: interrupt_id(id),
        reason: InterruptReason::ToolApproval,
        request: Payload::from(request),
        snapshot: Payload::from(r#"{"private":"map"}"#),
        expires_at: None,
    }
}

/// A run to open, for the owner `local` and the agent `helper`.
pub fn open(run: &str, of: &str) -> OpenRun {
    OpenRun {
        owner: Owner::local(),
        run_id: run_id(run),
        conversation_id: conversation(of),
        agent_id: agent("helper"),
        harness_id: HarnessId::new("deepagents").unwrap(),
        thread: Thread::Durable,
        worker_thread: Some(Arc::from(format!("thread-{run}"))),
        request: Payload::from(r#"{"message":"hello"}"#),
        seed: None,
        idempotency: None,
        quota: Quota::default(),
        started: record(0, EventType::RunStarted, r#"{"harness_id":"deepagents","adapter_version":"1"}"#),
    }
}

/// The same run, started this many seconds after noon.
pub fn later(mut open: OpenRun, seconds: i64) -> OpenRun {
    open.started.timestamp = Timestamp::from_unix(NOON + seconds, 0);
    open
}

/// The same run, for an agent without a durable thread.
pub fn ephemeral(mut open: OpenRun) -> OpenRun {
    open.thread = Thread::Ephemeral;
    open
}

/// The same run, for another owner.
pub fn owned_by(mut open: OpenRun, owner: &str) -> OpenRun {
    open.owner = Owner::new(owner);
    open
}

/// The same run, under an idempotency key.
pub fn keyed(mut open: OpenRun, key: &str, body: u8) -> OpenRun {
    open.idempotency = Some(Idempotency { key: Arc::from(key), body_hash: [body; 32] });
    open
}

/// An answer to `interrupt` of the run `interrupted`, at this revision.
pub fn answer(interrupted: &str, interrupt: &str, revision: u64, open: OpenRun) -> ConsumeInterrupt {
    ConsumeInterrupt {
        interrupted: run_id(interrupted),
        interrupt_id: interrupt_id(interrupt),
        revision: Revision::new(revision),
        decision: Payload::from(r#"{"decisions":["approve"]}"#),
        open,
    }
}

/// The first generation.
pub fn first() -> Generation {
    Generation::new(1)
}

/// Opens a run that must be new.
pub async fn opened(store: &dyn Store, open: OpenRun) -> Open {
    match store.open_run(open).await.unwrap() {
        Opened::New(open) => open,
        Opened::Replayed(run) => panic!("run {} was there already", run.run_id),
    }
}

/// The run that was found instead of a new one.
pub fn replayed(opened: Result<Opened>) -> Run {
    match opened.unwrap() {
        Opened::Replayed(run) => *run,
        Opened::New(_) => panic!("a new run was opened"),
    }
}

/// Opens a run and finishes it with a head.
pub async fn run_to_end(store: &dyn Store, open: OpenRun, head: &str) {
    let run_id = open.run_id.clone();
    let base = opened(store, open).await.base_revision().value();
    store.commit_final(&run_id, first(), finish(1, base, head)).await.unwrap();
}

/// Opens a run and interrupts it.
pub async fn run_to_pause(store: &dyn Store, open: OpenRun, head: &str, id: &str) {
    let run_id = open.run_id.clone();
    let base = opened(store, open).await.base_revision().value();
    store.commit_interrupt(&run_id, first(), pause(1, base, head, id)).await.unwrap();
}

/// All records of a run.
pub async fn log(store: &dyn Store, run: &str) -> Vec<Record> {
    store.read_after(&run_id(run), None, usize::MAX).await.unwrap().records
}

/// The refusal that a call must have met with.
pub fn refusal<T: std::fmt::Debug>(answer: Result<T>) -> Refusal {
    match answer.unwrap_err().refusal() {
        Some(refusal) => refusal.clone(),
        None => panic!("not a refusal"),
    }
}
