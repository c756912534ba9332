//! Places, queue and circuit of an agent's workers, with real processes (`workers/fake.py`): who waits, in which order, for how
//! long, who is turned away, and that one agent's trouble is nobody else's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/fake.rs"]
mod fake;
#[path = "support/harness.rs"]
mod harness;
#[path = "support/runs.rs"]
mod runs;

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_engine::config::{Driver, ProcessConfig, Scope};
use causeway_engine::engine::StartRun;
use causeway_engine::failure::Failure;
use causeway_engine::harness::{
    Ask, Circuit, Claim, Harness, NoRoom, Refused, Session, Turn, TurnEnd, Workers,
};
use causeway_engine::{AgentConfig, Engine, Error, Settings};
use causeway_store::model::{Owner, RunFilter};
use causeway_store::{MemoryStore, Store};
use tempfile::TempDir;

use fake::{PATIENCE, Rig, config, drain, line, message, until};

fn workers(rig: &Rig) -> Workers {
    Harness::workers(&rig.process)
}

fn bounded(max_workers: usize, max_queue: usize) -> impl FnOnce(&mut ProcessConfig) {
    move |config| (config.max_workers, config.max_queue) = (max_workers, max_queue)
}

/// The runs that workers were asked for, in that order.
fn asked(rig: &Rig) -> Vec<String> {
    let log = std::fs::read_to_string(rig.dir.path().join("requests")).unwrap_or_default();
    let asked = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    asked
        .filter(|request| request["op"] == "run")
        .map(|request| request["run_id"].as_str().unwrap().to_owned())
        .collect()
}

/// A turn that holds its worker.
async fn busy(rig: &Rig, conversation: &str) -> Box<dyn Session> {
    let mut session = rig.process.begin(message(conversation, "wait"));
    line(session.as_mut()).await;
    session
}

/// Turns that came one after another and wait.
async fn lined_up(rig: &Rig, turns: &[Turn]) -> Vec<Box<dyn Session>> {
    let mut sessions = Vec::new();
    for turn in turns {
        sessions.push(rig.process.begin(turn.clone()));
        until("it waits", || workers(rig).waiting == sessions.len()).await;
    }
    sessions
}

fn admit(rig: &Rig, turn: &Turn) -> Result<Claim, NoRoom> {
    let Turn { owner, conversation_id, run_id, .. } = turn;
    rig.process.admit(&Ask { owner, conversation_id, run_id })
}

// ── places and queue ─────────────────────────────────────────────────────────

#[tokio::test]
async fn turns_wait_for_a_worker_and_get_it_in_the_order_they_came() {
    for scope in [Scope::Conversation, Scope::Run] {
        let rig = Rig::with("well", |config| {
            (config.max_workers, config.max_queue, config.scope) = (1, 3, scope);
        });
        let mut first = busy(&rig, "a").await;
        let turns = ["b", "c", "d"].map(|conversation| message(conversation, "quiet"));
        let waiting = lined_up(&rig, &turns).await;
        let beyond = rig.end_of("quiet").await;
        assert_eq!(beyond, TurnEnd::Failed(Failure::Capacity));
        first.cancel();
        assert_eq!(drain(first.as_mut()).await.1, TurnEnd::Regular);
        for mut session in waiting {
            assert_eq!(drain(session.as_mut()).await.1, TurnEnd::Regular);
        }
        let order: Vec<_> = turns.iter().map(|turn| turn.run_id.as_str().to_owned()).collect();
        assert_eq!(asked(&rig)[1..], order);
        assert_eq!(workers(&rig).refused, Refused { full: 1, ..Refused::default() });
        assert_eq!(workers(&rig).waiting, 0);
    }
}

#[tokio::test]
async fn a_turn_that_waited_too_long_says_so_and_the_worker_goes_on() {
    let rig = Rig::with("well", |config| {
        bounded(1, 2)(config);
        config.queue_timeout = Duration::from_millis(300);
    });
    let mut first = busy(&rig, "a").await;
    let (lines, end) = rig.play(message("b", "quiet")).await;
    assert_eq!((lines.len(), end), (0, TurnEnd::Failed(Failure::Capacity)));
    assert_eq!(workers(&rig).refused, Refused { late: 1, ..Refused::default() });
    first.cancel();
    assert_eq!(drain(first.as_mut()).await.1, TurnEnd::Regular);
    assert_eq!(rig.end_of("quiet").await, TurnEnd::Regular);
}

#[tokio::test]
async fn a_turn_that_leaves_the_queue_leaves_nothing_and_the_next_moves_up() {
    let rig = Rig::with("well", bounded(1, 3));
    let mut first = busy(&rig, "a").await;
    let turns = ["b", "c", "d"].map(|conversation| message(conversation, "quiet"));
    let mut waiting = lined_up(&rig, &turns).await;
    let mut last = waiting.remove(2);
    waiting[0].cancel();
    assert_eq!(drain(waiting[0].as_mut()).await, (vec![], TurnEnd::Regular));
    waiting[1].stop().await;
    drop(waiting);
    until("one waits", || workers(&rig).waiting == 1).await;
    first.stop().await; // its place is free once it is gone
    assert_eq!(drain(last.as_mut()).await.1, TurnEnd::Regular);
    assert_eq!(asked(&rig).len(), 2);
    assert_eq!((workers(&rig).started, workers(&rig).refused), (2, Refused::default()));
}

#[tokio::test]
async fn an_idle_worker_makes_room_for_one_that_waits_and_serves_its_own_conversation() {
    let rig = Rig::with("well", bounded(1, 0));
    assert_eq!(rig.play(message("a", "quiet")).await.1, TurnEnd::Regular);
    assert_eq!(rig.play(message("a", "quiet")).await.1, TurnEnd::Regular);
    assert_eq!(workers(&rig).started, 1);
    assert_eq!(rig.play(message("b", "quiet")).await.1, TurnEnd::Regular);
    assert_eq!(workers(&rig).started, 2);
}

#[tokio::test]
async fn a_claim_holds_its_share_until_it_is_given_back_or_taken_up() {
    let rig = Rig::with("well", bounded(1, 1));
    let turns = ["a", "b", "c"].map(|conversation| message(conversation, "wait"));
    let first = admit(&rig, &turns[0]).unwrap();
    let second = admit(&rig, &turns[1]).unwrap();
    assert_eq!(admit(&rig, &turns[2]).unwrap_err(), NoRoom::Busy);
    drop(second); // its run was not opened
    let _third = admit(&rig, &turns[2]).unwrap();
    let mut session = rig.process.begin(turns[0].clone());
    line(session.as_mut()).await;
    drop(first); // the turn has taken it up, so this changes nothing
    assert_eq!(admit(&rig, &turns[1]).unwrap_err(), NoRoom::Busy);
    assert_eq!(workers(&rig).running, 1);
    session.stop().await;
    admit(&rig, &turns[1]).unwrap();
}

#[tokio::test]
async fn a_shutdown_sends_away_whoever_waits() {
    let rig = Rig::with("well", bounded(1, 1));
    let mut first = busy(&rig, "a").await;
    let mut waiting = lined_up(&rig, &[message("b", "quiet")]).await.remove(0);
    rig.process.shutdown(Duration::ZERO).await;
    assert_eq!(drain(waiting.as_mut()).await.1, TurnEnd::Failed(Failure::HarnessUnavailable));
    first.stop().await;
    assert_eq!(workers(&rig).running, 0);
}

// ── circuit ──────────────────────────────────────────────────────────────────

const UNAVAILABLE: TurnEnd = TurnEnd::Failed(Failure::HarnessUnavailable);

/// A worker whose program is not there before it is [`mended`].
fn broken(open: Duration) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("python").to_str().unwrap().to_owned();
    let process = fake::driver(dir.path(), "well", |config| {
        config.command[0] = program;
        (config.circuit_failures, config.circuit_open) = (2, open);
    });
    Rig { dir, process }
}

fn mended(rig: &Rig) {
    std::os::unix::fs::symlink(fake::python(), rig.dir.path().join("python")).unwrap();
}

#[tokio::test]
async fn workers_that_do_not_start_are_not_tried_again_at_once() {
    let rig = broken(PATIENCE * 10);
    for started in 1..=2 {
        assert_eq!(rig.end_of("quiet").await, UNAVAILABLE);
        assert_eq!(workers(&rig).started, started);
    }
    mended(&rig);
    assert_eq!(rig.end_of("quiet").await, UNAVAILABLE);
    let NoRoom::Unavailable { retry_after } = admit(&rig, &message("c", "quiet")).unwrap_err() else {
        panic!("it is not busy")
    };
    assert!(retry_after > PATIENCE && retry_after <= PATIENCE * 10, "{retry_after:?}");
    let Workers { started, refused, circuit, .. } = workers(&rig);
    assert_eq!(
        (started, refused.unavailable, circuit, rig.process.workers()),
        (2, 2, Circuit::Open, 0),
        "nothing was started"
    );
}

#[tokio::test]
async fn after_a_while_one_start_is_tried_and_decides_for_all() {
    let rig = broken(Duration::from_millis(200));
    let half_open = || workers(&rig).circuit == Circuit::HalfOpen;
    for _ in 0..2 {
        assert_eq!(rig.end_of("quiet").await, UNAVAILABLE);
    }
    for tried in 3..=4 {
        until("one may be tried", half_open).await;
        assert_eq!(rig.end_of("quiet").await, UNAVAILABLE);
        assert_eq!(workers(&rig).started, tried, "a single failure is enough now");
    }
    mended(&rig);
    until("one may be tried", half_open).await;
    let turns = ["a", "b"].map(|conversation| message(conversation, "quiet"));
    let claim = admit(&rig, &turns[0]).unwrap();
    assert!(matches!(admit(&rig, &turns[1]), Err(NoRoom::Unavailable { .. })), "one at a time");
    drop(claim);
    let _claim = admit(&rig, &turns[1]).unwrap(); // the first was given up
    assert_eq!(rig.play(turns[1].clone()).await.1, TurnEnd::Regular);
    assert_eq!(workers(&rig).circuit, Circuit::Closed);
    assert_eq!(rig.play(turns[0].clone()).await.1, TurnEnd::Regular);
}

#[tokio::test]
async fn a_worker_that_is_up_serves_its_conversation_while_no_other_starts() {
    let rig = broken(PATIENCE * 10);
    mended(&rig);
    assert_eq!(rig.play(message("a", "quiet")).await.1, TurnEnd::Regular);
    std::fs::remove_file(rig.dir.path().join("python")).unwrap();
    for _ in 0..2 {
        assert_eq!(rig.play(message("b", "quiet")).await.1, UNAVAILABLE);
    }
    assert!(admit(&rig, &message("b", "quiet")).is_err());
    let turn = message("a", "quiet");
    let _claim = admit(&rig, &turn).unwrap();
    assert_eq!(rig.play(turn).await.1, TurnEnd::Regular);
}

#[tokio::test]
async fn a_start_that_was_cancelled_counts_for_nothing() {
    let rig = Rig::with("hang", |config| config.circuit_failures = 1);
    for _ in 0..3 {
        let mut session = rig.process.begin(message("c", "quiet"));
        until("it starts", || rig.process.workers() == 1).await;
        session.cancel();
        assert_eq!(drain(session.as_mut()).await.1, TurnEnd::Regular);
        until("it is gone", || rig.process.workers() == 0).await;
    }
    assert_eq!(workers(&rig).circuit, Circuit::Closed);
}

// ── under an engine ──────────────────────────────────────────────────────────

/// An engine with an agent whose workers do not start, and one whose workers are few.
struct Two {
    engine: Engine,
    _dir: TempDir,
}

impl Two {
    async fn new(deadline: Duration, queue_timeout: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = |id: &'static str, config: ProcessConfig| {
            let mut agent = AgentConfig::new(Name::new(id).unwrap(), "deepagents", Driver::Process(config));
            agent.deadline = deadline;
            agent
        };
        let mut sick = config(dir.path(), "die");
        (sick.circuit_failures, sick.circuit_open) = (2, PATIENCE * 10);
        let mut few = config(dir.path(), "well");
        (few.max_workers, few.max_queue, few.queue_timeout) = (1, 2, queue_timeout);
        let agents = vec![agent("sick", sick), agent("few", few)];
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::open(Settings::new(dir.path()), agents, store).await.unwrap();
        Self { engine, _dir: dir }
    }

    async fn start(
        &self,
        agent: &'static str,
        conversation: &str,
        text: &str,
    ) -> Result<RunId<'static>, Error> {
        let conversation = ConversationId::new(conversation.to_owned()).unwrap();
        let request = StartRun::new(Owner::local(), Name::new(agent).unwrap(), conversation, text);
        Ok(self.engine.start(request).await?.run_id)
    }

    async fn end(&self, run_id: &RunId<'_>) -> String {
        runs::last(&harness::follow(&self.engine, run_id, None).await.unwrap())
    }

    async fn count(&self) -> usize {
        let page = self.engine.runs(&Owner::local(), &RunFilter::default(), 100, None).await.unwrap();
        page.runs.len()
    }
}

#[tokio::test]
async fn of_a_flood_of_starts_as_many_are_let_in_as_there_are_places_and_the_others_leave_no_run() {
    let two = Arc::new(Two::new(PATIENCE, PATIENCE).await);
    let starts = (0..40).map(|number| {
        let two = Arc::clone(&two);
        tokio::spawn(async move { two.start("few", &format!("c{number}"), "wait").await })
    });
    let mut let_in = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        match start.await.unwrap() {
            Ok(run_id) => let_in.push(run_id),
            Err(error) => assert!(matches!(error, Error::AtCapacity { .. }), "{error:?}"),
        }
    }
    assert_eq!((let_in.len(), two.count().await), (3, 3));
    for run_id in &let_in {
        two.engine.cancel_run(&Owner::local(), run_id).await.unwrap();
        assert_eq!(two.end(run_id).await, "run.cancelled client_request");
    }
    two.start("few", "c0", "quiet").await.unwrap();
}

#[tokio::test]
async fn a_run_that_waits_is_cancelled_over_in_time_or_told_that_there_was_no_room() {
    for (deadline, queue_timeout, before, end) in [
        (PATIENCE, PATIENCE, "wait", "run.cancelled client_request"),
        // The run before has the same deadline, and takes no notice of it.
        (Duration::from_secs(3), PATIENCE, "deaf", "run.cancelled deadline"),
        (PATIENCE, Duration::from_millis(300), "wait", "run.error runtime_capacity"),
    ] {
        let two = Two::new(deadline, queue_timeout).await;
        let first = two.start("few", "a", before).await.unwrap();
        let waits = two.start("few", "b", "quiet").await.unwrap();
        if end.contains("client_request") {
            two.engine.cancel_run(&Owner::local(), &waits).await.unwrap();
        }
        assert_eq!(two.end(&waits).await, end);
        two.engine.cancel_run(&Owner::local(), &first).await.unwrap();
        two.end(&first).await;
        let after = two.start("few", "b", "quiet").await.unwrap();
        assert_eq!(two.end(&after).await, "run.finished", "the place is free");
    }
}

#[tokio::test]
async fn an_agent_whose_workers_do_not_start_is_refused_and_another_one_goes_on() {
    let two = Two::new(PATIENCE, PATIENCE).await;
    for _ in 0..2 {
        let run_id = two.start("sick", "a", "quiet").await.unwrap();
        assert_eq!(two.end(&run_id).await, "run.error harness_unavailable");
    }
    let before = two.count().await;
    for _ in 0..3 {
        match two.start("sick", "a", "quiet").await {
            Err(Error::HarnessUnavailable { id, retry_after }) => {
                assert_eq!(id, "sick");
                assert!(retry_after > PATIENCE, "{retry_after:?}");
            }
            other => panic!("{other:?}"),
        }
        let run_id = two.start("few", "b", "quiet").await.unwrap();
        assert_eq!(two.end(&run_id).await, "run.finished");
    }
    assert_eq!(two.count().await, before + 3, "the refused ones left no run");
}
