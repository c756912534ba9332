//! Answers to interrupts: one run for one answer, from the committed head, whatever fails and whoever else answers.
//! It is one piece, since every test stands on the same rig.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/harness.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_contract::event::Decision;
use causeway_contract::id::{ConversationId, RunId, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_engine::answer::{Answer, AnswerRun, Decided};
use causeway_engine::config::Thread;
use causeway_engine::harness::TurnInput;
use causeway_engine::schema::{Schemas, ToolSchema};
use causeway_engine::{AgentConfig, Engine, Error, Misfit};
use causeway_store::error::{Cause, Refusal};
use causeway_store::faulty::{Fault, FaultyStore, On};
use causeway_store::model::{Interrupt, InterruptStatus, Owner, Revision, Run, RunFilter, Status};
use causeway_store::sqlite::Options;
use causeway_store::{MemoryStore, SqliteStore, Store};

use harness::{
    Scripted, Step, agent, answer as turn, begin, end, engine, follow, question, start, story, text,
};

const ROUTE: &str = "/api/v1/runs/{id}/resume";

/// A call of a tool, as the model asks for it.
fn call(id: &str) -> Step {
    Step::Line(format!(
        r#"{{"kind":"chunk","run_id":"r","ns":[],"mode":"updates","data":{{"model":{{"messages":[{{"type":"AIMessage","content":"","tool_calls":[{{"name":"restart","args":{{"n":1}},"id":"{id}","type":"tool_call"}}]}}]}}}}}}"#
    ))
}

/// The result of a tool.
fn result(id: &str, status: &str, text: &str) -> Step {
    Step::Line(format!(
        r#"{{"kind":"chunk","run_id":"r","ns":[],"mode":"updates","data":{{"tools":{{"messages":[{{"type":"ToolMessage","content":"{text}","tool_call_id":"{id}","id":"t-{id}","status":"{status}"}}]}}}}}}"#
    ))
}

/// The end of a turn that waits for as many approvals.
fn gate(head: &str, calls: usize) -> Step {
    let action = r#"{"name":"restart","args":{"n":1}}"#;
    let config = r#"{"action_name":"restart","allowed_decisions":["approve","edit","reject"]}"#;
    let (actions, configs) = (vec![action; calls].join(","), vec![config; calls].join(","));
    Step::Line(format!(
        r#"{{"kind":"end","run_id":"r","state":{{"head":"{head}","interrupts":[{{"type":"Interrupt","id":"i1","value":{{"action_requests":[{actions}],"review_configs":[{configs}]}}}}]}}}}"#
    ))
}

/// A turn that asks for one approval.
fn asking(head: &str) -> Vec<Step> {
    vec![begin(), text("m", "Shall I?"), call("c1"), gate(head, 1)]
}

/// The turn after an approval.
fn approved(head: &str) -> Vec<Step> {
    vec![begin(), call("c1"), result("c1", "success", "restarted"), text("m2", "Done."), end(head)]
}

fn decide(id: &'static str, decision: Decision) -> Decided {
    Decided { tool_call_id: ToolCallId::new(id).unwrap(), decision, edited_args: None, message: None }
}

fn approve() -> Answer {
    Answer::Decisions(vec![decide("c1", Decision::Approve)])
}

fn reject() -> Answer {
    Answer::Decisions(vec![decide("c1", Decision::Reject)])
}

fn values(text: &'static str) -> Answer {
    Answer::Values(JsonObject::parse(text, &Limits::DEFAULT).unwrap())
}

/// An engine around a harness with these turns.
struct Rig {
    engine: Engine,
    harness: Arc<Scripted>,
    store: FaultyStore,
}

impl Rig {
    async fn new(turns: impl IntoIterator<Item = Vec<Step>>) -> Self {
        Self::with(turns, |agent| agent).await
    }

    async fn with(
        turns: impl IntoIterator<Item = Vec<Step>>,
        change: impl FnOnce(AgentConfig) -> AgentConfig,
    ) -> Self {
        let harness = Scripted::new(turns);
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let engine = engine(change(agent(&harness)), Arc::new(store.clone())).await;
        Self { engine, harness, store }
    }

    /// Starts a run that ends with an interrupt.
    async fn interrupted(&self) -> Interrupt {
        let run_id = start(&self.engine, "c").await;
        let records = follow(&self.engine, &run_id, None).await.unwrap();
        assert!(story(&records).ends_with("run.interrupted"), "{}", story(&records));
        self.engine.interrupt(&Owner::local(), &run_id).await.unwrap()
    }

    async fn run(&self, run_id: &RunId<'_>) -> Run {
        self.engine.run(&Owner::local(), run_id).await.unwrap()
    }

    async fn status(&self, run_id: &RunId<'_>) -> InterruptStatus {
        self.run(run_id).await.interrupt.unwrap().status
    }

    /// Answers, and follows the run that goes on.
    async fn goes_on(&self, answer: AnswerRun) -> (RunId<'static>, String) {
        let started = self.engine.resume(answer).await.unwrap();
        assert!(!started.replayed);
        let records = follow(&self.engine, &started.run_id, None).await.unwrap();
        (started.run_id, story(&records))
    }

    fn base(&self, turn: usize) -> Option<String> {
        let begun = self.harness.begun.lock().unwrap();
        begun[turn].base.as_ref().map(|base| base.as_str().to_owned())
    }

    fn resume_value(&self, turn: usize) -> String {
        match &self.harness.begun.lock().unwrap()[turn].input {
            TurnInput::Resume(value) => value.clone(),
            TurnInput::Message { .. } => panic!("turn {turn} was no answer"),
        }
    }

    fn turns(&self) -> usize {
        self.harness.begun.lock().unwrap().len()
    }
}

fn answers(interrupt: &Interrupt, answer: Answer) -> AnswerRun {
    AnswerRun {
        owner: Owner::local(),
        run_id: interrupt.run_id.clone(),
        interrupt_id: interrupt.summary.interrupt_id.clone(),
        revision: interrupt.summary.revision,
        answer,
        route: ROUTE,
        idempotency_key: None,
        traceparent: None,
    }
}

fn with_key(answer: AnswerRun, key: &str) -> AnswerRun {
    AnswerRun { idempotency_key: Some(key.into()), ..answer }
}

fn conversation() -> ConversationId<'static> {
    ConversationId::new("c").unwrap()
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_answer_starts_a_run_from_the_committed_head_and_is_written_down() {
    let rig = Rig::new([asking("h1"), approved("h2")]).await;
    let interrupt = rig.interrupted().await;
    let (run_id, told) = rig.goes_on(answers(&interrupt, approve())).await;
    assert_eq!(
        told,
        "run.started; tool.started; tool.finished; text.started; text.delta; text.finished; run.finished"
    );
    assert_eq!((rig.base(0), rig.base(1)), (None, Some("h1".to_owned())));
    assert_eq!(rig.resume_value(1), r#"{"decisions":[{"type":"approve"}]}"#);
    let (asked, resumed) = (rig.run(&interrupt.run_id).await, rig.run(&run_id).await);
    assert_eq!((asked.status, asked.resumed_by), (Status::Interrupted, Some(run_id.clone())));
    assert_eq!((resumed.status, resumed.resumed_from), (Status::Finished, Some(interrupt.run_id.clone())));
    let what = r#""decisions":[{"tool_call_id":"c1","decision":"approve"}]"#;
    assert_eq!(resumed.request.as_str(), format!("{{{what}}}"));
    assert_eq!(
        resumed.seed.unwrap().as_str(),
        r#"{"open_tool_calls":["c1"],"delegations":[],"rejected":[]}"#
    );
    let summary = asked.interrupt.unwrap();
    assert_eq!(summary.status, InterruptStatus::Consumed);
    let expected = format!(
        r#"{{"answered_by":"local","answered_at":"{}","route":"{ROUTE}",{what}}}"#,
        resumed.created_at
    );
    assert_eq!(summary.decision.unwrap().as_str(), expected);
    let late = rig.engine.resume(answers(&interrupt, reject())).await.unwrap_err();
    assert_eq!(refusal(late), Refusal::InterruptConsumed { resumed_by: run_id });
    assert_eq!(rig.turns(), 2);
    let head = rig.store.load_head(&Owner::local(), &conversation(), &interrupt.agent_id).await.unwrap();
    assert_eq!(head.unwrap().head_ref.as_str(), "h2");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_changes_nothing() {
    let rig = Rig::new([asking("h1"), approved("h2")]).await;
    let interrupt = rig.interrupted().await;
    let mut edit = decide("c1", Decision::Edit);
    let twice = vec![decide("c1", Decision::Approve), decide("c1", Decision::Reject)];
    for (answer, why) in [
        (Answer::Decisions(vec![]), "call c1 is not decided"),
        (
            Answer::Decisions(vec![decide("c9", Decision::Approve)]),
            "the interrupt does not ask about call c9",
        ),
        (Answer::Decisions(twice), "call c1 is decided twice"),
        (Answer::Decisions(vec![edit.clone()]), "the edit of call c1 has no arguments to go on with"),
        (values("{}"), "the answer is of another kind than the interrupt"),
        (Answer::Dismissed, "the answer is of another kind than the interrupt"),
    ] {
        let error = rig.engine.resume(answers(&interrupt, answer)).await.unwrap_err();
        assert!(matches!(error, Error::DoesNotFit(_)), "{error:?}");
        assert_eq!(error.to_string(), why);
    }
    let stale = AnswerRun { revision: Revision::new(7), ..answers(&interrupt, approve()) };
    assert!(matches!(refusal(rig.engine.resume(stale).await.unwrap_err()), Refusal::RevisionMismatch { .. }));
    let stranger = AnswerRun { owner: Owner::new("somebody"), ..answers(&interrupt, approve()) };
    assert_eq!(refusal(rig.engine.resume(stranger).await.unwrap_err()), Refusal::UnknownRun);
    assert_eq!((rig.status(&interrupt.run_id).await, rig.turns()), (InterruptStatus::Pending, 1));
    edit.edited_args = Some(JsonObject::parse(r#"{"n":2}"#, &Limits::DEFAULT).unwrap());
    let (run_id, _) = rig.goes_on(answers(&interrupt, Answer::Decisions(vec![edit]))).await;
    assert_eq!(
        rig.resume_value(1),
        r#"{"decisions":[{"type":"edit","edited_action":{"name":"restart","args":{"n":2}}}]}"#
    );
    let records = follow(&rig.engine, &run_id, None).await.unwrap();
    assert!(records[1].data.as_str().contains(r#""arguments":{"n":2}"#), "the arguments that run");
}

/// The tool `restart` takes a number of at most nine, and a token of nine letters.
fn schemas() -> Schemas {
    let schema = ToolSchema::compile(
        r#"{"type":"object","properties":{"n":{"type":"integer","maximum":9},"token":{"pattern":"^[a-z]{9}$"}},"required":["n"]}"#,
    );
    [("restart".to_owned(), schema.unwrap())].into_iter().collect()
}

#[tokio::test]
async fn edited_arguments_satisfy_the_schema_of_their_tool() {
    let rig =
        Rig::with([asking("h1"), approved("h2")], |agent| AgentConfig { schemas: schemas(), ..agent }).await;
    let interrupt = rig.interrupted().await;
    let edit = |text: &'static str| {
        let edited_args = Some(JsonObject::parse(text, &Limits::DEFAULT).unwrap());
        Answer::Decisions(vec![Decided { edited_args, ..decide("c1", Decision::Edit) }])
    };
    for (text, place) in [
        (r#"{"n":6100}"#, r#"at "/n" (schema: "/properties/n/maximum")"#),
        ("{}", r#"at "" (schema: "/required")"#),
    ] {
        let error = rig.engine.resume(answers(&interrupt, edit(text))).await.unwrap_err();
        assert!(matches!(error, Error::DoesNotFit(Misfit::NotOfSchema { .. })), "{error:?}");
        let why = format!("the edited arguments of call c1 do not satisfy the schema of its tool {place}");
        assert_eq!(error.to_string(), why);
    }
    assert_eq!((rig.status(&interrupt.run_id).await, rig.turns()), (InterruptStatus::Pending, 1));
    let (_, told) = rig.goes_on(answers(&interrupt, edit(r#"{"n":9}"#))).await;
    assert!(told.ends_with("run.finished"), "{told}");
}

#[tokio::test]
async fn an_edit_that_keeps_a_hidden_secret_is_judged_by_what_will_run() {
    let token = "Bearer abcdefghijklmnop0123456789";
    let asked = format!(r#""args":{{"n":1,"token":"{token}"}}"#);
    let steps = asking("h1").into_iter().map(|step| match step {
        Step::Line(line) => Step::Line(line.replace(r#""args":{"n":1}"#, &asked)),
        other => other,
    });
    let schema =
        ToolSchema::compile(r#"{"properties":{"token":{"pattern":"^Bearer [a-z0-9]{26}$"}}}"#).unwrap();
    let schemas: Schemas = [("restart".to_owned(), schema)].into_iter().collect();
    let rig = Rig::with([steps.collect(), approved("h2")], |agent| AgentConfig {
        redact_content: true,
        schemas,
        ..agent
    })
    .await;
    let interrupt = rig.interrupted().await;
    assert!(!interrupt.request.as_str().contains("abcdef"), "{}", interrupt.request.as_str());
    let edit = |text: &'static str| {
        let edited_args = Some(JsonObject::parse(text, &Limits::DEFAULT).unwrap());
        Answer::Decisions(vec![Decided { edited_args, ..decide("c1", Decision::Edit) }])
    };
    let error =
        rig.engine.resume(answers(&interrupt, edit(r#"{"n":2,"token":"Bearer X"}"#))).await.unwrap_err();
    assert!(matches!(error, Error::DoesNotFit(Misfit::NotOfSchema { .. })), "{error:?}");
    rig.goes_on(answers(&interrupt, edit(r#"{"n":2,"token":"Bearer [redacted]"}"#))).await;
    assert!(rig.resume_value(1).contains(token), "the tool gets the original");
}

#[tokio::test]
async fn a_finished_call_whose_streamed_arguments_break_the_schema_ends_the_run() {
    let chunk = |args: &str| {
        Step::Line(format!(
            r#"{{"kind":"chunk","run_id":"r","ns":[],"mode":"messages","data":[{{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[{{"name":"restart","args":"{args}","id":"c1","index":0,"type":"tool_call_chunk"}}]}},{{"langgraph_node":"model","langgraph_checkpoint_ns":"model:1"}}]}}"#
        ))
    };
    for (args, ends) in
        [(r#"{\"n\":6100}"#, "run.error harness_event_invalid"), (r#"{\"n\":6}"#, "run.finished")]
    {
        let whole = call("c1");
        let whole = match whole {
            Step::Line(line) => Step::Line(line.replace(r#"{"n":1}"#, &args.replace('\\', ""))),
            other => other,
        };
        let turn = vec![begin(), chunk(args), whole, result("c1", "success", "done"), end("h1")];
        let rig =
            Rig::with([turn], |agent| AgentConfig { schemas: schemas(), stream_arguments: true, ..agent })
                .await;
        let run_id = start(&rig.engine, "c").await;
        let records = follow(&rig.engine, &run_id, None).await.unwrap();
        let told = story(&records);
        assert!(told.contains("tool.arguments.delta") && told.ends_with(ends), "{args}: {told}");
    }
}

#[tokio::test]
async fn a_batch_is_decided_call_by_call() {
    let rig = Rig::new([
        vec![begin(), call("c1"), call("c2"), gate("h1", 2)],
        vec![
            begin(),
            call("c1"),
            call("c2"),
            result("c2", "error", "No."),
            result("c1", "success", "restarted"),
            end("h2"),
        ],
    ])
    .await;
    let interrupt = rig.interrupted().await;
    let refused = Decided { message: Some("No.".to_owned()), ..decide("c2", Decision::Reject) };
    let answer = Answer::Decisions(vec![refused, decide("c1", Decision::Approve)]);
    let (run_id, told) = rig.goes_on(answers(&interrupt, answer)).await;
    assert_eq!(
        rig.resume_value(1),
        r#"{"decisions":[{"type":"approve"},{"type":"reject","message":"No."}]}"#
    );
    assert!(told.contains("tool.error") && told.contains("tool.finished"), "{told}");
    assert_eq!(
        rig.run(&run_id).await.seed.unwrap().as_str(),
        r#"{"open_tool_calls":["c1","c2"],"delegations":[],"rejected":["c2"]}"#
    );
}

#[tokio::test]
async fn a_pause_is_answered_or_dismissed_and_another_may_follow() {
    let rig = Rig::new([
        vec![begin(), question("h1")],
        vec![begin(), question("h2")],
        vec![begin(), text("m", "Oh."), end("h3")],
    ])
    .await;
    let first = rig.interrupted().await;
    let (second, told) = rig.goes_on(answers(&first, values(r#"{"answer":"Oslo"}"#))).await;
    assert_eq!(told, "run.started; interrupt.requested; run.interrupted");
    assert_eq!(rig.resume_value(1), r#""Oslo""#);
    let interrupt = rig.engine.interrupt(&Owner::local(), &second).await.unwrap();
    assert_ne!(interrupt.summary.revision, first.summary.revision);
    let pending = rig.engine.pending_interrupts(&Owner::local()).await.unwrap();
    assert_eq!(pending, std::slice::from_ref(&interrupt));
    let old = rig.engine.resume(answers(&first, values(r#"{"answer":"Rome"}"#))).await.unwrap_err();
    assert_eq!(refusal(old), Refusal::InterruptConsumed { resumed_by: second });
    let (_, told) = rig.goes_on(answers(&interrupt, Answer::Dismissed)).await;
    assert!(told.ends_with("run.finished"), "{told}");
    assert_eq!(rig.resume_value(2), r#"{"i1":null}"#);
    assert_eq!(rig.base(2), Some("h2".to_owned()));
    assert_eq!(rig.engine.pending_interrupts(&Owner::local()).await.unwrap(), []);
}

#[tokio::test]
async fn the_same_answer_under_the_same_key_finds_its_run_also_after_a_restart() {
    let rig = Rig::new([asking("h1"), approved("h2")]).await;
    let interrupt = rig.interrupted().await;
    let (run_id, _) = rig.goes_on(with_key(answers(&interrupt, approve()), "k")).await;
    let again = rig.engine.resume(with_key(answers(&interrupt, approve()), "k")).await.unwrap();
    assert_eq!((again.run_id, again.replayed), (run_id.clone(), true));
    let other = rig.engine.resume(with_key(answers(&interrupt, reject()), "k")).await.unwrap_err();
    assert_eq!(refusal(other), Refusal::KeyReused { run_id: run_id.clone() });
    let other = rig.engine.resume(with_key(answers(&interrupt, approve()), "k2")).await.unwrap_err();
    assert_eq!(refusal(other), Refusal::InterruptConsumed { resumed_by: run_id.clone() });
    let next = engine(agent(&rig.harness), Arc::new(rig.store.clone())).await;
    let again = next.resume(with_key(answers(&interrupt, approve()), "k")).await.unwrap();
    assert_eq!((again.run_id, again.replayed), (run_id, true));
    assert_eq!(rig.turns(), 2);
}

#[tokio::test]
async fn an_answer_is_not_used_up_for_want_of_a_worker() {
    let rig = Rig::new([asking("h1"), approved("h2")]).await;
    let interrupt = rig.interrupted().await;
    rig.harness.full.store(true, Ordering::SeqCst);
    for answer in [answers(&interrupt, approve()), with_key(answers(&interrupt, approve()), "k")] {
        let error = rig.engine.resume(answer).await.unwrap_err();
        assert!(matches!(error, Error::AtCapacity { .. }), "{error:?}");
    }
    assert_eq!(rig.status(&interrupt.run_id).await, InterruptStatus::Pending);
    rig.harness.full.store(false, Ordering::SeqCst);
    let (run_id, _) = rig.goes_on(with_key(answers(&interrupt, approve()), "k")).await;
    rig.harness.full.store(true, Ordering::SeqCst);
    let again = rig.engine.resume(with_key(answers(&interrupt, approve()), "k")).await.unwrap();
    assert_eq!((again.run_id, again.replayed), (run_id, true), "what is known needs no worker");
}

#[tokio::test]
async fn an_interrupt_outlives_its_engine() {
    let rig = Rig::new([asking("h1"), approved("h2")]).await;
    let interrupt = rig.interrupted().await;
    let next = engine(agent(&rig.harness), Arc::new(rig.store.clone())).await;
    let started = next.resume(answers(&interrupt, approve())).await.unwrap();
    let records = follow(&next, &started.run_id, None).await.unwrap();
    assert!(story(&records).ends_with("run.finished"));
    assert_eq!(rig.base(1), Some("h1".to_owned()));
}

/// 64 answers at once, 200 times over (`CAUSEWAY_RACE_ROUNDS` sets how often); half of them approve, half reject.
async fn race(store: Arc<dyn Store>) {
    let rounds = std::env::var("CAUSEWAY_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    for round in 0..rounds {
        let harness = Scripted::new([asking("h1"), approved("h2")]);
        let engine = engine(agent(&harness), Arc::clone(&store)).await;
        let conversation = format!("c{round}");
        let run_id = start(&engine, &conversation).await;
        follow(&engine, &run_id, None).await.unwrap();
        let interrupt = engine.interrupt(&Owner::local(), &run_id).await.unwrap();
        let gate = Arc::new(tokio::sync::Barrier::new(64));
        let clients: Vec<_> = (0..64)
            .map(|n| {
                let (engine, gate) = (engine.clone(), Arc::clone(&gate));
                let answer = answers(&interrupt, if n % 2 == 0 { approve() } else { reject() });
                tokio::spawn(async move {
                    gate.wait().await;
                    engine.resume(answer).await
                })
            })
            .collect();
        let mut won = Vec::new();
        let mut lost = Vec::new();
        for client in clients {
            match client.await.unwrap() {
                Ok(started) => won.push(started.run_id),
                Err(error) => lost.push(refusal(error)),
            }
        }
        assert_eq!((won.len(), lost.len()), (1, 63), "round {round}");
        let consumed = Refusal::InterruptConsumed { resumed_by: won[0].clone() };
        assert!(lost.iter().all(|refusal| *refusal == consumed), "{lost:?}");
        follow(&engine, &won[0], None).await.unwrap();
        let filter = RunFilter {
            conversation_id: Some(ConversationId::new(conversation).unwrap()),
            ..RunFilter::default()
        };
        let runs = engine.runs(&Owner::local(), &filter, 10, None).await.unwrap().runs;
        assert_eq!(runs.len(), 2, "round {round}");
        assert_eq!(harness.begun.lock().unwrap().len(), 2, "the harness went on once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_answers_at_once_one_starts_a_run_in_memory() {
    race(Arc::new(MemoryStore::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_answers_at_once_one_starts_a_run_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    race(Arc::new(SqliteStore::open(Options::new(dir.path())).unwrap())).await;
}

#[tokio::test]
async fn an_expired_interrupt_is_recorded_so_and_takes_no_answer() {
    let rig = Rig::with([asking("h1"), turn("h2")], |agent| AgentConfig {
        interrupt_expiry: Some(Duration::ZERO),
        ..agent
    })
    .await;
    let interrupt = rig.interrupted().await;
    let late = rig.engine.resume(answers(&interrupt, approve())).await.unwrap_err();
    assert_eq!(refusal(late), Refusal::InterruptExpired);
    assert_eq!(rig.status(&interrupt.run_id).await, InterruptStatus::Expired);
    let pending = rig.engine.pending_interrupt(&Owner::local(), &conversation(), None).await.unwrap();
    assert_eq!(pending, None);
    let cancelled = rig.engine.cancel_run(&Owner::local(), &interrupt.run_id).await.unwrap();
    assert!(!cancelled.interrupt_voided);
    let next = start(&rig.engine, "c").await;
    follow(&rig.engine, &next, None).await.unwrap();
    assert_eq!(rig.base(1), Some("h1".to_owned()));
}

#[tokio::test]
async fn an_interrupt_expires_at_its_time_without_a_look_also_across_a_restart() {
    let expiring = |agent| AgentConfig { interrupt_expiry: Some(Duration::from_millis(300)), ..agent };
    let rig = Rig::with([asking("h1"), asking("h1")], expiring).await;
    let interrupt = rig.interrupted().await;
    let marked = |run_id: RunId<'static>| {
        let store = rig.store.clone(); // the store itself: nothing here looks for what has expired
        async move {
            while store.interrupt(&Owner::local(), &run_id).await.unwrap().summary.status
                != InterruptStatus::Expired
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, marked(interrupt.run_id.clone())).await.expect("it expires by itself");
    // The next one expires while no engine runs.
    let interrupt = rig.interrupted().await;
    rig.engine.shutdown(Duration::ZERO).await;
    let _next = engine(expiring(agent(&Scripted::new([]))), Arc::new(rig.store.clone())).await;
    tokio::time::timeout(patience, marked(interrupt.run_id.clone())).await.expect("the next engine marks it");
}

#[tokio::test]
async fn a_cancelled_interrupt_takes_no_answer_and_the_conversation_goes_on() {
    let rig = Rig::new([asking("h1"), turn("h2")]).await;
    let interrupt = rig.interrupted().await;
    let cancelled = rig.engine.cancel_run(&Owner::local(), &interrupt.run_id).await.unwrap();
    assert_eq!((cancelled.cancelled, cancelled.interrupt_voided), (false, true));
    assert!(!rig.engine.cancel_run(&Owner::local(), &interrupt.run_id).await.unwrap().interrupt_voided);
    let late = rig.engine.resume(answers(&interrupt, approve())).await.unwrap_err();
    assert_eq!(refusal(late), Refusal::InterruptClosed);
    let run = rig.run(&interrupt.run_id).await;
    assert_eq!((run.status, run.interrupt.unwrap().status), (Status::Interrupted, InterruptStatus::Voided));
    let next = start(&rig.engine, "c").await;
    follow(&rig.engine, &next, None).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_was_not_stored_leaves_the_interrupt_to_another() {
    for fault in [Fault::Unavailable(Cause::DiskFull), Fault::UnknownBeforeApply] {
        let refused = vec![begin(), call("c1"), result("c1", "error", "User rejected the call."), end("h2")];
        let rig = Rig::new([asking("h1"), refused]).await;
        let interrupt = rig.interrupted().await;
        rig.store.fail_next(On::Consume, fault.clone());
        let error = rig.engine.resume(answers(&interrupt, approve())).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_) | Error::OutcomeUnknown(_)), "{error:?}");
        assert_eq!((rig.status(&interrupt.run_id).await, rig.turns()), (InterruptStatus::Pending, 1));
        let (_, told) = rig.goes_on(answers(&interrupt, reject())).await;
        assert_eq!(rig.resume_value(1), r#"{"decisions":[{"type":"reject"}]}"#, "{fault:?}");
        assert!(told.contains("tool.error") && !told.contains("tool.finished"), "{told}");
    }
}

#[tokio::test]
async fn an_answer_whose_acknowledgement_was_lost_is_found_out_about_and_goes_on() {
    let rig = Rig::new([asking("h1"), approved("h2")]).await;
    let interrupt = rig.interrupted().await;
    rig.store.fail_next(On::Consume, Fault::UnknownAfterApply);
    let (run_id, told) = rig.goes_on(with_key(answers(&interrupt, approve()), "k")).await;
    assert!(told.ends_with("run.finished"), "{told}");
    assert_eq!((rig.base(1), rig.turns()), (Some("h1".to_owned()), 2), "from the committed head, once");
    let again = rig.engine.resume(with_key(answers(&interrupt, approve()), "k")).await.unwrap();
    assert_eq!((again.run_id, again.replayed), (run_id, true));
}

#[tokio::test]
async fn an_answer_of_which_nothing_can_be_found_out_is_never_executed_and_says_so() {
    let harness = Scripted::new([asking("h1"), approved("h2")]);
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    let mut settings = harness::settings();
    settings.store_patience = Duration::from_millis(100);
    let engine = Engine::open(settings, vec![agent(&harness)], Arc::new(store.clone())).await.unwrap();
    let rig = Rig { engine, harness, store };
    let interrupt = rig.interrupted().await;
    rig.store.fail_next(On::Consume, Fault::UnknownAfterApply);
    rig.store.fail_always(On::Outcome, Fault::Unavailable(Cause::Io));
    let lost = rig.engine.resume(with_key(answers(&interrupt, approve()), "k")).await.unwrap_err();
    assert!(matches!(lost, Error::OutcomeUnknown(_)), "{lost:?}");
    rig.store.heal();
    let found = rig.engine.resume(with_key(answers(&interrupt, approve()), "k")).await.unwrap();
    assert!(found.replayed);
    let other = rig.engine.resume(answers(&interrupt, reject())).await.unwrap_err();
    assert_eq!(refusal(other), Refusal::InterruptConsumed { resumed_by: found.run_id.clone() });
    let ended = async {
        while rig.run(&found.run_id).await.status == Status::Running {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it gets its terminal");
    let run = rig.run(&found.run_id).await;
    let error = run.error.unwrap();
    assert!(error.as_str().contains("\"answer_unacknowledged\""), "{}", error.as_str());
    assert!(error.as_str().contains("\"retryable\":false"), "{}", error.as_str());
    assert_eq!(rig.turns(), 1, "nobody was there to drive it");
}

#[tokio::test]
async fn an_agent_that_keeps_no_state_asks_nobody() {
    let ephemeral = |agent| AgentConfig { thread: Thread::Ephemeral, ..agent };
    let rig = Rig::with([asking("h1")], ephemeral).await;
    let run_id = start(&rig.engine, "c").await;
    let told = story(&follow(&rig.engine, &run_id, None).await.unwrap());
    assert!(told.ends_with("tool.started; run.error interrupt_not_resumable"), "{told}");
    assert_eq!(rig.run(&run_id).await.status, Status::Error);
    assert_eq!(rig.engine.pending_interrupts(&Owner::local()).await.unwrap(), []);
}

#[tokio::test]
async fn an_answer_whose_run_is_not_committed_leaves_nothing_but_its_record() {
    let rig = Rig::new([asking("h1"), approved("h2"), turn("h3")]).await;
    let interrupt = rig.interrupted().await;
    rig.store.fail_next(On::CommitFinal, Fault::Refused(Refusal::NoInterrupt));
    let (run_id, told) = rig.goes_on(answers(&interrupt, approve())).await;
    assert!(told.ends_with("run.error thread_durability_uncertain"), "{told}");
    let run = rig.run(&run_id).await;
    assert_eq!((run.status, run.cause.as_deref()), (Status::Uncertain, Some("commit_refused")));
    let second = rig.engine.resume(answers(&interrupt, reject())).await.unwrap_err();
    assert_eq!(refusal(second), Refusal::InterruptConsumed { resumed_by: run_id });
    let next = start(&rig.engine, "c").await;
    follow(&rig.engine, &next, None).await.unwrap();
    assert_eq!(rig.base(2), Some("h1".to_owned()), "from the head, not from what was never committed");
}

#[tokio::test]
async fn a_cleared_conversation_starts_from_nothing_and_a_deleted_one_is_gone() {
    let rig = Rig::new([asking("h1"), turn("h2"), vec![begin(), Step::Hang]]).await;
    let owner = Owner::local();
    assert_eq!(
        refusal(rig.engine.clear(&owner, &conversation()).await.unwrap_err()),
        Refusal::UnknownConversation
    );
    let interrupt = rig.interrupted().await;
    rig.engine.clear(&owner, &conversation()).await.unwrap();
    assert_eq!(rig.status(&interrupt.run_id).await, InterruptStatus::Voided);
    let late = rig.engine.resume(answers(&interrupt, approve())).await.unwrap_err();
    assert_eq!(refusal(late), Refusal::InterruptClosed);
    let next = start(&rig.engine, "c").await;
    follow(&rig.engine, &next, None).await.unwrap();
    assert_eq!(rig.base(1), None);
    let epochs: Vec<u64> = rig.harness.begun.lock().unwrap().iter().map(|turn| turn.epoch).collect();
    assert_eq!(epochs[1], epochs[0] + 1);
    let busy = start(&rig.engine, "c").await;
    for refused in [
        rig.engine.clear(&owner, &conversation()).await.unwrap_err(),
        rig.engine.delete_conversation(&owner, &conversation()).await.unwrap_err(),
    ] {
        assert_eq!(refusal(refused), Refusal::ConversationBusy { run_id: busy.clone() });
    }
    rig.engine.cancel_run(&owner, &busy).await.unwrap();
    assert_eq!(rig.engine.delete_conversation(&owner, &conversation()).await.unwrap().runs.len(), 3);
    let gone = rig.engine.run(&owner, &interrupt.run_id).await.unwrap_err();
    assert_eq!(refusal(gone), Refusal::UnknownRun);
}
