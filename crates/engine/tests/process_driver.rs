//! The driver `process` against real processes that behave, and misbehave, as they are told (`workers/fake.py`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may fail the test"
)]

#[path = "support/fake.rs"]
mod fake;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_contract::id::Reference;
use causeway_engine::config::Scope;
use causeway_engine::failure::Failure;
use causeway_engine::harness::{Harness, Item, Trouble, TurnEnd, TurnInput};

use fake::{PATIENCE, Rig, drain, driver, driver_of, files, line, message, next, until};

fn is_alive(pid: &serde_json::Value) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X'])
}

fn has_proc() -> bool {
    let has = Path::new("/proc/self/stat").exists();
    if !has {
        // Past the test runner, which hides what passing tests print.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no /proc here, so it cannot be seen whether a process runs"
        );
    }
    has
}

const WHOLE: [&str; 3] = ["begin", "chunk", "end"];

// ── a worker that behaves ────────────────────────────────────────────────────

#[tokio::test]
async fn a_turn_is_played_and_its_worker_is_kept_for_the_conversation() {
    let rig = Rig::new("well");
    let mut pids = Vec::new();
    for (conversation, epoch) in [("a", 1), ("a", 1), ("b", 1), ("a", 2), ("a", 1)] {
        let mut turn = message(conversation, "portrait");
        turn.epoch = epoch;
        let mut session = rig.process.begin(turn);
        assert_eq!(line(session.as_mut()).await["kind"], "begin");
        let portrait = line(session.as_mut()).await["data"].clone();
        assert_eq!(portrait["leads"], true, "leads a process group of its own");
        let file = format!("{}/helper/{conversation}.{epoch}", rig.dir.path().display());
        assert_eq!(portrait["arguments"], serde_json::json!([file]));
        pids.push(portrait["pid"].clone());
        assert_eq!(drain(session.as_mut()).await, (vec!["end".to_owned()], TurnEnd::Regular));
    }
    assert_eq!(pids[0], pids[1]);
    assert_eq!(pids[0], pids[4]);
    assert_ne!(pids[0], pids[2]);
    assert_ne!(pids[0], pids[3], "another epoch shares nothing");
    assert_eq!((rig.process.workers(), rig.records().len()), (3, 3));
    rig.process.shutdown(PATIENCE).await;
    assert_eq!((rig.process.workers(), rig.records().len()), (0, 0));
    assert_eq!(rig.end_of("echo").await, TurnEnd::Failed(Failure::HarnessUnavailable));
}

#[tokio::test]
async fn a_turn_is_not_lost_to_a_kept_worker_that_was_dying() {
    let rig = Rig::new("well");
    for round in 0..3 {
        assert_eq!(rig.play(message("c", "echo")).await.1, TurnEnd::Regular, "{round}");
        let played = rig.play(message("c", "leave unbegun if kept")).await;
        assert_eq!(played, (WHOLE.map(str::to_owned).to_vec(), TurnEnd::Regular), "{round}");
    }
    assert_eq!((rig.process.workers(), rig.records().len()), (1, 1));
}

#[tokio::test]
async fn a_turn_that_ends_workers_before_they_begin_it_ends_two_at_most() {
    let rig = Rig::new("well");
    let requests = || std::fs::read_to_string(rig.dir.path().join("requests")).unwrap().lines().count();
    assert_eq!(rig.play(message("c", "leave unbegun")).await, (Vec::new(), TurnEnd::Broken));
    assert_eq!(requests(), 1, "a new worker is not replaced");
    assert_eq!(rig.end_of("echo").await, TurnEnd::Regular);
    assert_eq!(rig.play(message("c", "leave unbegun")).await, (Vec::new(), TurnEnd::Broken));
    assert_eq!(requests(), 4, "the kept one, and one more");
    // What a worker began is nobody else's.
    assert_eq!(rig.end_of("echo").await, TurnEnd::Regular);
    assert_eq!(rig.end_of("die").await, TurnEnd::Broken);
    assert_eq!(requests(), 6);
}

#[tokio::test]
async fn the_environment_holds_what_was_configured_and_nothing_else() {
    let rig = Rig::with("well", |config| {
        config.env.insert("TOKEN".to_owned(), "t0p".to_owned());
    });
    let mut session = rig.process.begin(message("c", "portrait"));
    line(session.as_mut()).await;
    let portrait = line(session.as_mut()).await;
    let env = portrait["data"]["env"].as_object().unwrap();
    let allowed = ["PATH", "HOME", "LANG", "TOKEN", "REQUESTS", "FLOODED", "CAUSEWAY_WORKERS", "LC_CTYPE"]; // Python itself sets the last
    assert_eq!(env.keys().filter(|key| !allowed.contains(&key.as_str())).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(env["TOKEN"], "t0p");
}

#[tokio::test]
async fn the_request_says_what_the_turn_says() {
    let rig = Rig::new("well");
    let mut turn = message("c", "echo");
    turn.base = Some(Reference::new("head-0".to_owned()).unwrap());
    turn.traceparent = Some("00-ab-cd-01".to_owned());
    turn.input = TurnInput::Resume("{\"decisions\":\n[1.0]}".to_owned());
    let expected = serde_json::json!({
        "op": "resume", "run_id": turn.run_id.as_str(), "thread_id": &*turn.thread_id, "base": "head-0",
        "resume": {"decisions": [1.0]}, "traceparent": "00-ab-cd-01",
    });
    let mut session = rig.process.begin(turn);
    assert_eq!(line(session.as_mut()).await["op"], "resume");
    assert_eq!(line(session.as_mut()).await["data"]["request"], expected);
}

#[tokio::test]
async fn threads_are_forgotten_once_the_turn_is_over() {
    let rig = Rig::new("well");
    let mut turn = message("c", "echo");
    turn.forget = vec!["thread-0".into(), "thread-00".into()];
    let mut session = rig.process.begin(turn);
    assert_eq!(drain(session.as_mut()).await.1, TurnEnd::Regular);
    assert!(session.forgot());
    let log = rig.dir.path().join("requests");
    let written = || std::fs::read_to_string(&log).unwrap();
    until("the forget arrives", || written().lines().count() == 2).await;
    assert!(written().ends_with("{\"op\":\"forget\",\"thread_ids\":[\"thread-0\",\"thread-00\"]}\n"));

    let rig = Rig::new("forgetful");
    let mut turn = message("c", "echo");
    turn.forget = vec!["thread-0".into()];
    let mut session = rig.process.begin(turn);
    assert_eq!(drain(session.as_mut()).await.1, TurnEnd::Regular);
    assert!(!session.forgot(), "it does not take forget");
}

#[tokio::test]
async fn with_scope_run_every_run_has_a_worker_of_its_own() {
    let rig = Rig::with("well", |config| {
        config.scope = Scope::Run;
        config.max_workers = 1;
    });
    for _ in 0..3 {
        assert_eq!(
            rig.play(message("c", "echo")).await,
            (WHOLE.map(str::to_owned).to_vec(), TurnEnd::Regular)
        );
    }
    until("all left", || rig.process.workers() == 0).await;
    assert_eq!(rig.records(), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn an_idle_worker_leaves_after_a_while() {
    let rig = Rig::with("well", |config| config.idle_exit = Duration::from_secs(1));
    assert_eq!(rig.end_of("echo").await, TurnEnd::Regular);
    assert_eq!(rig.process.workers(), 1);
    until("the idle worker left", || rig.process.workers() == 0).await;
    assert_eq!(rig.end_of("echo").await, TurnEnd::Regular);
}

#[tokio::test]
async fn when_full_an_idle_worker_makes_room_and_busy_ones_do_not() {
    let rig = Rig::with("well", |config| (config.max_workers, config.max_queue) = (2, 0));
    assert_eq!(rig.play(message("a", "echo")).await.1, TurnEnd::Regular);
    let mut one = rig.process.begin(message("b", "slow"));
    line(one.as_mut()).await;
    let mut two = rig.process.begin(message("c", "slow")); // the idle one of `a` goes
    line(two.as_mut()).await;
    assert_eq!(rig.process.workers(), 2);
    let (lines, end) = rig.play(message("d", "echo")).await;
    assert_eq!((lines.len(), end), (0, TurnEnd::Failed(Failure::Capacity)));
    one.stop().await;
    assert_eq!(rig.play(message("d", "echo")).await.1, TurnEnd::Regular);
    two.stop().await;
}

// ── cancel and stop ──────────────────────────────────────────────────────────

#[tokio::test]
async fn a_cancel_is_passed_on_and_the_worker_lives() {
    let rig = Rig::new("well");
    for _ in 0..2 {
        let mut session = rig.process.begin(message("c", "slow"));
        line(session.as_mut()).await;
        line(session.as_mut()).await;
        session.cancel();
        session.cancel();
        let (lines, end) = drain(session.as_mut()).await;
        assert_eq!((lines.last().map(String::as_str), end), (Some("cancelled"), TurnEnd::Regular));
    }
    assert_eq!(rig.process.workers(), 1);
    let requests = std::fs::read_to_string(rig.dir.path().join("requests")).unwrap();
    assert_eq!(requests.matches("\"cancel\"").count(), 2);
}

#[tokio::test]
async fn a_cancel_before_the_worker_is_up_starts_nothing() {
    for start in ["well", "hang"] {
        let rig = Rig::new(start);
        let mut session = rig.process.begin(message("c", "echo"));
        session.cancel();
        assert_eq!(drain(session.as_mut()).await, (vec![], TurnEnd::Regular));
        let mut session = rig.process.begin(message("c", "slow"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        session.cancel();
        let (_, end) = drain(session.as_mut()).await;
        assert_eq!(end, TurnEnd::Regular);
        session.stop().await;
        rig.process.shutdown(PATIENCE).await;
        assert_eq!(rig.process.workers(), 0, "{start}");
    }
}

#[tokio::test]
async fn stopping_ends_a_worker_that_hangs_and_all_its_children() {
    if !has_proc() {
        return;
    }
    let rig = Rig::new("well");
    let mut session = rig.process.begin(message("c", "hang with child"));
    line(session.as_mut()).await;
    let pids = line(session.as_mut()).await["data"].clone();
    session.cancel();
    let silent = tokio::time::timeout(Duration::from_millis(200), session.next()).await;
    assert!(silent.is_err(), "it takes no notice");
    assert!(is_alive(&pids["pid"]) && is_alive(&pids["child"]));
    session.stop().await;
    assert!(!is_alive(&pids["pid"]) && !is_alive(&pids["child"]));
    assert_eq!((rig.process.workers(), rig.records().len()), (0, 0));
    session.stop().await; // harmless
}

#[tokio::test]
async fn dropping_a_turn_ends_its_worker() {
    if !has_proc() {
        return;
    }
    let rig = Rig::new("well");
    let mut session = rig.process.begin(message("c", "hang"));
    line(session.as_mut()).await;
    let pid = line(session.as_mut()).await["data"]["pid"].clone();
    drop(session);
    until("the worker is gone", || !is_alive(&pid) && rig.process.workers() == 0).await;
    let waiting = rig.process.begin(message("d", "echo")); // dropped while it starts
    drop(waiting);
    until("that one too", || rig.process.workers() == 0).await;
    until("no record is left", || rig.records().is_empty()).await;
}

#[tokio::test]
async fn shutdown_kills_what_does_not_leave() {
    // Without a hurry it is given five seconds. A machine that is busy may take them too, but not every time.
    let mut times = Vec::new();
    while times.iter().all(|took| *took >= Duration::from_millis(4500)) {
        assert!(times.len() < 20, "it was waited for: {times:?}");
        let rig = Rig::new("stubborn");
        assert_eq!(rig.end_of("echo").await, TurnEnd::Regular);
        let begun = Instant::now();
        rig.process.shutdown(Duration::from_millis(200)).await;
        times.push(begun.elapsed());
        assert_eq!(rig.process.workers(), 0);
    }
}

// ── a worker that misbehaves ─────────────────────────────────────────────────

#[tokio::test]
async fn a_worker_that_does_not_start_well_is_unavailable() {
    for start in ["die", "rubbish", "binary", "endless", "version 2", "other harness", "no restore"] {
        let rig = Rig::new(start);
        let (lines, end) = rig.play(message("c", "echo")).await;
        assert_eq!((lines.len(), end), (0, TurnEnd::Failed(Failure::HarnessUnavailable)), "{start}");
        assert_eq!((rig.process.workers(), rig.records().len()), (0, 0), "{start}");
    }
}

#[tokio::test]
async fn a_worker_that_cannot_restore_may_serve_an_ephemeral_agent() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig { process: driver_of(dir.path(), "no restore", false, |_| {}), dir };
    assert_eq!(rig.end_of("echo").await, TurnEnd::Regular);
}

#[tokio::test]
async fn a_worker_that_hangs_at_its_start_is_given_up() {
    let rig = Rig::with("hang", |config| config.start_timeout = Duration::from_millis(300));
    assert_eq!(rig.end_of("echo").await, TurnEnd::Failed(Failure::HarnessUnavailable));
    assert_eq!(rig.process.workers(), 0);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_unavailable() {
    let rig = Rig::with("well", |config| config.command[0] = "/nowhere/python3".to_owned());
    assert_eq!(rig.end_of("echo").await, TurnEnd::Failed(Failure::HarnessUnavailable));
    assert_eq!(rig.process.workers(), 0);
}

#[tokio::test]
async fn why_a_worker_did_not_start_is_kept_in_a_file_of_ours() {
    let rig = Rig::new("die");
    assert_eq!(rig.end_of("echo").await, TurnEnd::Failed(Failure::HarnessUnavailable));
    let kept = files(rig.dir.path(), "stderr");
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), "no module named deepagents\n");
}

#[tokio::test]
async fn why_a_turn_failed_is_kept_in_a_file_of_ours_and_only_a_name_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new("well");
    let long = "E".repeat(64);
    for (text, error_type) in [
        ("exception, loudly", Some("pkg.Value_Error")),
        ("sentence, loudly", None),
        ("long name, loudly", Some(long.as_str())),
        ("die, loudly", None),
        ("malformed, loudly", None),
        ("hang, loudly", None),
    ] {
        let mut session = rig.process.begin(message(text, text));
        if text.starts_with("hang") {
            line(session.as_mut()).await;
            session.stop().await;
        } else {
            drain(session.as_mut()).await;
        }
        let trouble = session.trouble().await;
        let kept = files(rig.dir.path(), "stderr").remove(0);
        let expected = Trouble { error_type: error_type.map(str::to_owned), stderr: Some(kept.clone()) };
        assert_eq!(trouble, expected, "{text}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), format!("Traceback of {text}\n"));
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600, "{text}");
    }
}

#[tokio::test]
async fn no_more_than_the_end_of_stderr_is_kept() {
    let rig = Rig::new("well");
    let mut session = rig.process.begin(message("c", "noisy"));
    drain(session.as_mut()).await;
    let kept = session.trouble().await.stderr.unwrap();
    assert_eq!(std::fs::metadata(kept).unwrap().len(), 16 * 1024);
}

#[tokio::test]
async fn what_breaks_the_protocol_fails_the_turn_and_ends_the_worker() {
    let malformed = [
        "binary",
        "malformed",
        "other kind",
        "foreign",
        "nameless",
        "no begin",
        "end at once",
        "begin twice",
        "wrong op",
        "hello again",
        "blank lines",
    ];
    let rig = Rig::new("well");
    for text in malformed {
        assert_eq!(rig.end_of(text).await, TurnEnd::Failed(Failure::OutputMalformed), "{text}");
        assert_eq!((rig.process.workers(), rig.records().len()), (0, 0), "{text}");
    }
    for (text, failure) in [
        ("long line", Failure::OutputOversized),
        ("busy", Failure::RequestRefused),
        ("unreadable request", Failure::RequestRefused),
    ] {
        assert_eq!(rig.end_of(text).await, TurnEnd::Failed(failure), "{text}");
        assert_eq!(rig.process.workers(), 0, "{text}");
    }
    assert_eq!(rig.end_of("echo").await, TurnEnd::Regular, "the next one is none the worse");
}

#[tokio::test]
async fn a_worker_that_dies_breaks_the_stream_whatever_its_exit_code() {
    let rig = Rig::new("well");
    for (text, lines) in [("die", vec!["begin", "chunk"]), ("die in a line", vec!["begin"])] {
        let (seen, end) = rig.play(message("c", text)).await;
        assert_eq!((seen, end), (lines.into_iter().map(str::to_owned).collect(), TurnEnd::Broken), "{text}");
        assert_eq!((rig.process.workers(), rig.records().len()), (0, 0), "{text}");
    }
}

#[tokio::test]
async fn children_of_a_worker_that_died_are_ended() {
    if !has_proc() {
        return;
    }
    let rig = Rig::new("well");
    for text in ["die leaving a child", "die with the pipe held"] {
        let mut session = rig.process.begin(message("c", text));
        line(session.as_mut()).await;
        let child = line(session.as_mut()).await["data"]["child"].clone();
        assert_eq!(drain(session.as_mut()).await.1, TurnEnd::Broken, "{text}");
        assert!(!is_alive(&child), "{text}");
    }
}

#[tokio::test]
async fn refusals_in_the_words_of_the_protocol_leave_the_worker_alone() {
    let rig = Rig::new("well");
    for (text, lines, end) in [
        ("bad_request", 0, TurnEnd::Failed(Failure::RequestRefused)),
        ("unknown_head", 0, TurnEnd::Failed(Failure::StateLost)),
        ("line_too_long", 1, TurnEnd::Failed(Failure::OutputOversized)),
        ("exception", 2, TurnEnd::Regular),
        ("nobody's error", 3, TurnEnd::Regular),
    ] {
        let (seen, ended) = rig.play(message("c", text)).await;
        assert_eq!((seen.len(), ended), (lines, end), "{text}");
        assert_eq!(rig.process.workers(), 1, "{text}");
    }
}

#[tokio::test]
async fn what_a_worker_writes_after_its_closing_line_reaches_no_run() {
    let rig = Rig::new("well");
    for text in ["closed, then more", "late"] {
        let (seen, end) = rig.play(message("c", text)).await;
        assert_eq!((seen.last().map(String::as_str), end), (Some("end"), TurnEnd::Regular), "{text}");
        until("the worker is ended", || rig.process.workers() == 0).await;
        assert_eq!(
            rig.play(message("c", "echo")).await,
            (WHOLE.map(str::to_owned).to_vec(), TurnEnd::Regular)
        );
    }
}

#[tokio::test]
async fn a_flood_waits_in_the_pipe_while_nobody_reads() {
    let rig = Rig::new("well");
    let mut session = rig.process.begin(message("c", "flood"));
    line(session.as_mut()).await;
    let flooded = rig.dir.path().join("flooded");
    // The worker replaces the file at each line, so whoever reads it sees a number, never half of one.
    let written = || std::fs::read_to_string(&flooded).map_or(0, |text| text.trim().parse::<u32>().unwrap());
    until("it writes", || written() > 0).await;
    let mut before = 0;
    let deadline = Instant::now() + PATIENCE;
    while before != written() {
        assert!(Instant::now() < deadline, "it goes on writing though nobody reads");
        before = written();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(before < 100, "lines of 10 KB that were taken without being asked for: {before:?}");
    for _ in 0..300 {
        line(session.as_mut()).await;
    }
    session.stop().await;
    assert_eq!(rig.process.workers(), 0);
}

#[tokio::test]
async fn what_a_worker_writes_to_stderr_holds_nothing_up() {
    let rig = Rig::new("well");
    assert_eq!(rig.end_of("noisy").await, TurnEnd::Regular); // 3 MB, far more than a pipe holds
}

#[tokio::test]
async fn a_request_that_does_not_fit_into_a_line_is_refused_and_starts_nothing() {
    let rig = Rig::new("well");
    let end = rig.end_of(&"x".repeat(9 << 20)).await;
    assert_eq!((end, rig.process.workers()), (TurnEnd::Failed(Failure::RequestRefused), 0));
}

#[tokio::test]
async fn a_worker_that_does_not_read_its_request_is_given_up() {
    let rig = Rig::new("deaf");
    let mut session = rig.process.begin(message("c", &"x".repeat(1 << 20)));
    assert_eq!(next(session.as_mut()).await, Item::End(TurnEnd::Failed(Failure::HarnessUnavailable)));
    assert_eq!(rig.process.workers(), 0);
}

// ── a gateway that was killed ────────────────────────────────────────────────

#[tokio::test]
async fn workers_of_a_killed_gateway_are_ended_by_the_next_one() {
    if !has_proc() {
        return;
    }
    let rig = Rig::new("well");
    let mut session = rig.process.begin(message("c", "hang with child"));
    line(session.as_mut()).await;
    let pids = line(session.as_mut()).await["data"].clone();
    assert_eq!(rig.records().len(), 1, "written down before its first request");
    let next = driver(rig.dir.path(), "well", |_| {});
    next.reap().await.unwrap();
    assert!(!is_alive(&pids["pid"]) && !is_alive(&pids["child"]));
    assert_eq!(rig.records().len(), 0);
    assert_eq!(drain(session.as_mut()).await.1, TurnEnd::Broken);
}
