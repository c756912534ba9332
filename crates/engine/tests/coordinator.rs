//! The coordinator as a story: what happens, and what is in the log afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/offline.rs"]
mod offline;
mod support;

use causeway_contract::event::{EventType, Sequence};
use causeway_contract::limits::Limits;
use causeway_engine::coordinator::{Closing, End, Outcome, Signal};
use causeway_lifecycle::{Boundary, Thread, Validator};
use proptest::prelude::*;

use offline::{Answer, Offline};
use support::{at, run, signal, tell};

fn play(mut offline: Offline, story: &str) -> Offline {
    for (second, word) in story.split(';').map(str::trim).filter(|word| !word.is_empty()).enumerate() {
        offline.feed(&at(second as i64), signal(word));
    }
    offline
}

#[track_caller]
fn check(story: &str, log: &str) -> Offline {
    let offline = play(Offline::new(run(Thread::Durable)), story);
    assert_eq!(tell(offline.log()), log, "after {story}");
    sound(&offline, Thread::Durable).unwrap();
    offline
}

#[test]
fn a_success_carries_the_head_it_committed() {
    let offline = check(
        "started; text+ m; text m Hi; text- m; state h1; finished",
        "run.started; text.started; text.delta; text.finished; run.finished h1@1",
    );
    assert_eq!(offline.head().map(|head| (head.from, head.to)), Some((0, 1)));
}

#[test]
fn events_are_numbered_without_gaps_and_stamped_when_they_came() {
    let offline = check(
        "started; text+ m; text m Hi; state h; finished",
        "run.started; text.started; text.delta; run.finished h@1",
    );
    let stamps: Vec<_> =
        offline.log().iter().map(|event| (event.sequence.value(), event.timestamp.to_string())).collect();
    assert_eq!(
        stamps,
        [
            (0, "2026-08-17T00:00:00Z".to_owned()),
            (1, "2026-08-17T00:00:01Z".to_owned()),
            (2, "2026-08-17T00:00:02Z".to_owned()),
            (3, "2026-08-17T00:00:04Z".to_owned()),
        ]
    );
}

#[test]
fn empty_deltas_are_dropped_before_they_get_a_number() {
    let offline = check(
        "started; text+ m; text m; text m Hi; state h; finished",
        "run.started; text.started; text.delta; run.finished h@1",
    );
    assert_eq!(offline.log().last().map(|event| event.sequence), Sequence::new(3));
}

#[test]
fn r12_a_stream_that_closes_without_a_terminal_becomes_an_error() {
    check("started; closed", "run.started; run.error provider_stream_closed none");
    check("started; tool+ c; closed", "run.started; tool.started; run.error provider_stream_closed possible");
    check(
        "started; tool+ c; tool- c; state h; closed",
        "run.started; tool.started; tool.finished; run.error provider_stream_closed known",
    );
    check("closed", "run.started; run.error provider_stream_closed none");
}

#[test]
fn r12_a_success_or_a_pause_without_a_state_is_a_closed_stream() {
    check("started; finished", "run.started; run.error provider_stream_closed none");
    check(
        "started; tool+ c; ask c; interrupted",
        "run.started; tool.started; run.error provider_stream_closed possible",
    );
}

#[test]
fn an_ephemeral_run_finishes_without_a_state() {
    let offline = play(Offline::new(run(Thread::Ephemeral)), "started; state h; finished");
    assert_eq!(tell(offline.log()), "run.started; run.finished");
    assert_eq!(offline.head(), None);
    sound(&offline, Thread::Ephemeral).unwrap();
}

#[test]
fn a_refused_event_reaches_no_log_and_ends_the_run() {
    let offline = check(
        "started; text+ m; text- m; text m late",
        "run.started; text.started; text.finished; run.error harness_event_invalid none",
    );
    assert!(offline.is_stopped());
    let [refused] = offline.rejections() else { panic!("one refusal") };
    assert_eq!(refused.verdict.to_string(), "R05");
    assert_eq!((refused.sequence, refused.event_type), (Sequence::new(3), Some(EventType::TextDelta)));
    assert!(!refused.message.contains("late"), "no content in {}", refused.message);
    check("text+ m", "run.started; run.error harness_event_invalid none");
    check("started; started", "run.started; run.error harness_event_invalid none");
}

#[test]
fn r09_open_namespaces_are_closed_inner_first_before_a_terminal_of_our_own() {
    let story = "started; tool+ a; enter a; tool+ b; enter b";
    let log = "run.started; tool.started; namespace.entered; tool.started; namespace.entered";
    check(
        &format!("{story}; closed"),
        &format!(
            "{log}; namespace.exited b error; namespace.exited a error; run.error provider_stream_closed possible"
        ),
    );
    check(
        &format!("{story}; cancel; closed"),
        &format!(
            "{log}; namespace.exited b cancelled; namespace.exited a cancelled; \
             run.cancelled client_request possible"
        ),
    );
}

#[test]
fn r14_nothing_of_an_interrupt_is_in_the_log_before_its_terminal() {
    let before = check("started; tool+ c; state h; ask c", "run.started; tool.started");
    assert_eq!(before.shown().len(), 2);
    let offline = check(
        "started; tool+ c; text+ m; state h; ask c; text- m; interrupted",
        "run.started; tool.started; text.started; interrupt.requested; text.finished; run.interrupted",
    );
    assert_eq!(offline.head().map(|head| head.to), Some(1));
    assert_eq!(offline.shown().len(), 6);
}

#[test]
fn r14_an_interrupt_that_fails_never_was() {
    for (story, end) in [
        ("closed", "run.error provider_stream_closed possible"),
        ("silent", "run.error harness_timeout possible"),
        ("text+ m", "run.error harness_event_invalid possible"),
        ("finished", "run.error harness_event_invalid possible"),
        ("cancel; interrupted", "run.cancelled client_request possible"),
        ("cancel; text- m; closed", "run.cancelled client_request possible"),
    ] {
        let offline = check(
            &format!("started; tool+ c; state h; ask c; {story}"),
            &format!("run.started; tool.started; {end}"),
        );
        assert_eq!(offline.head(), None, "the state of a pause is no state to go on from: {story}");
    }
}

#[test]
fn r15_a_refused_commit_becomes_an_uncertain_run_and_the_head_stays() {
    let refusing =
        || Offline::new(run(Thread::Durable)).answer_finish(Answer::Refuse).answer_interrupt(Answer::Refuse);
    let offline = play(refusing(), "started; text+ m; state h; finished");
    assert_eq!(tell(offline.log()), "run.started; text.started; run.error thread_durability_uncertain none");
    assert_eq!(offline.head(), None);
    let offline = play(
        refusing(),
        "started; tool+ c; tool+ d; enter d; exit d interrupted; state h; ask c; interrupted",
    );
    assert_eq!(
        tell(offline.log()),
        "run.started; tool.started; tool.started; namespace.entered; namespace.exited d interrupted; \
         run.error thread_durability_uncertain possible"
    );
    let offline = play(
        refusing(),
        "started; tool+ c; tool+ d; enter d; state h; ask c; exit d interrupted; interrupted",
    );
    assert_eq!(
        tell(offline.log()),
        "run.started; tool.started; tool.started; namespace.entered; namespace.exited d error; \
         run.error thread_durability_uncertain possible"
    );
    sound(&offline, Thread::Durable).unwrap();
}

#[test]
fn an_unknown_outcome_is_read_before_anything_is_said() {
    for (outcome, log, closed) in [
        (Outcome::Committed, "run.started; run.finished h@1", Closing::Terminal),
        (Outcome::NotCommitted, "run.started; run.error thread_durability_uncertain none", Closing::Terminal),
        (Outcome::Unreachable, "run.started", Closing::WithoutTerminal),
    ] {
        let offline = Offline::new(run(Thread::Durable)).answer_finish(Answer::Unknown(outcome));
        let offline = play(offline, "started; state h; finished");
        assert_eq!((tell(offline.log()).as_str(), offline.closed()), (log, Some(closed)), "{outcome:?}");
        sound(&offline, Thread::Durable).unwrap();
    }
}

#[test]
fn a_cancelled_run_keeps_what_the_harness_still_said() {
    check(
        "started; tool+ c; cancel; tool- c; closed",
        "run.started; tool.started; tool.finished; run.cancelled client_request known",
    );
    let offline = check("started; cancel; state h; left", "run.started; run.cancelled client_request none");
    assert_eq!(
        offline.head().map(|head| head.head.reference.as_str()),
        Some("h"),
        "the state was handed over"
    );
    assert_eq!(
        check("started; cancel; closed", "run.started; run.cancelled client_request none").head(),
        None
    );
}

#[test]
fn the_outcome_tells_not_the_wish() {
    check("started; cancel; state h; finished", "run.started; run.finished h@1");
    check("started; cancel; error", "run.started; run.error agent_execution_failed none");
}

#[test]
fn the_first_reason_to_cancel_stands() {
    check("started; deadline; cancel; closed", "run.started; run.cancelled deadline none");
}

#[test]
fn what_comes_after_the_end_is_counted_and_changes_nothing() {
    let offline = check(
        "started; error; state h; finished; cancel; text+ m; closed; crashed",
        "run.started; run.error agent_execution_failed none",
    );
    assert_eq!(offline.late().len(), 3);
    assert!(offline.rejections().is_empty());
}

#[test]
fn side_effect_status_is_the_truth_not_what_the_harness_says() {
    check("started; tool+ c; error", "run.started; tool.started; run.error agent_execution_failed possible");
    check("started; tool+ c; left", "run.started; tool.started; run.cancelled client_request possible");
}

#[test]
fn a_log_that_cannot_be_written_ends_the_stream_without_a_terminal() {
    let offline = check("started; text+ m; journal; state h; finished", "run.started; text.started");
    assert_eq!((offline.end(), offline.closed()), (Some(End::Unknown), Some(Closing::WithoutTerminal)));
    assert!(offline.is_stopped());
}

#[test]
fn r11_room_is_kept_for_the_end_of_a_run() {
    let mut tight = run(Thread::Durable);
    tight.limits.run_events = 6;
    let offline = play(Offline::new(tight), "started; tool+ a; enter a; text+ m; text m x; text m y");
    assert_eq!(
        tell(offline.log()),
        "run.started; tool.started; namespace.entered; text.started; namespace.exited a error; \
         run.error harness_event_invalid possible"
    );
    assert_eq!(
        offline.rejections().first().map(|refused| refused.verdict.to_string()).as_deref(),
        Some("R11")
    );
}

#[test]
fn a_crash_is_uncertain_once_there_was_output() {
    check("started; crashed", "run.started; run.error engine_restarted none");
    check(
        "started; text+ m; crashed",
        "run.started; text.started; run.error thread_durability_uncertain none",
    );
    check(
        "started; warn; usage; crashed",
        "run.started; warning; usage.updated; run.error engine_restarted none",
    );
}

/// What must hold of every run, whatever happened to it.
fn sound(offline: &Offline, thread: Thread) -> Result<(), String> {
    let log = offline.log();
    let mut validator = Validator::new(Boundary::Commit, thread, Limits::DEFAULT).offline();
    for event in log {
        let mut bytes = Vec::new();
        event.write_json(&mut bytes);
        validator.accept(event, bytes.len()).map_err(|violation| format!("{violation} in {}", tell(log)))?;
        event.check(&Limits::DEFAULT).map_err(|fault| fault.to_string())?;
    }
    let terminals = log.iter().filter(|event| event.data.is_terminal()).count();
    let last = log.last().map(|event| event.data.event_type());
    let same =
        |a: bool, b: bool, what: &str| if a == b { Ok(()) } else { Err(format!("{what}: {}", tell(log))) };
    match (offline.closed(), offline.end()) {
        (Some(Closing::Terminal), Some(End::Terminal(terminal))) => {
            same(terminals == 1 && last == Some(terminal), true, "one terminal, at the end")?;
            same(validator.finish().is_ok(), true, "R12")?;
            same(offline.shown().len() == log.len(), true, "all of it is shown")?;
        }
        (Some(Closing::WithoutTerminal), Some(End::Unknown)) => {
            let shown = offline.shown().iter().filter(|event| event.data.is_terminal()).count();
            same(shown == 0, true, "no terminal is shown")?;
        }
        (None, None) => same(terminals == 0, true, "no terminal yet")?,
        (closed, end) => return Err(format!("{closed:?} does not go with {end:?}")),
    }
    let moved = offline.head().is_some();
    let durable = thread == Thread::Durable;
    match last {
        Some(EventType::RunFinished) => same(moved, durable, "a success moves the head")?,
        Some(EventType::RunInterrupted) => same(moved, true, "an interrupt moves the head")?,
        Some(EventType::RunError) => same(moved, false, "an error does not move the head")?,
        _other => {}
    }
    let asked = log.iter().any(|event| event.data.event_type() == EventType::InterruptRequested);
    same(asked, last == Some(EventType::RunInterrupted), "an interrupt is stored only with its terminal")
}

const WORDS: &[&str] = &[
    "started",
    "text+ m",
    "text m hello",
    "text m",
    "text- m",
    "text+ n",
    "text n you",
    "tool+ a",
    "tool+ b",
    "tool+ c",
    "tool- a",
    "tool! b",
    "tool- c",
    "enter a",
    "enter b",
    "exit a",
    "exit b",
    "exit a interrupted",
    "warn",
    "usage",
    "state h",
    "state i",
    "ask a",
    "ask c",
    "form",
    "interrupted",
    "interrupted form",
    "finished",
    "error",
    "left",
    "closed",
    "failed",
    "silent",
    "crashed",
    "cancel",
    "deadline",
    "journal",
];

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Commit),
        1 => Just(Answer::Refuse),
        1 => Just(Answer::Unknown(Outcome::Committed)),
        1 => Just(Answer::Unknown(Outcome::NotCommitted)),
        1 => Just(Answer::Unknown(Outcome::Unreachable)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_log_is_a_valid_stream_with_one_terminal(
        words in proptest::collection::vec(0..WORDS.len(), 0..40),
        finish in answers(),
        interrupt in answers(),
        durable in any::<bool>(),
    ) {
        let thread = if durable { Thread::Durable } else { Thread::Ephemeral };
        let mut offline =
            Offline::new(run(thread)).answer_finish(finish).answer_interrupt(interrupt);
        // Most stories that begin anyhow end at once, so most begin well.
        if words.len() % 8 != 0 {
            offline.feed(&at(0), signal("started"));
        }
        let mut ended: Option<usize> = None;
        for (second, word) in words.iter().enumerate() {
            offline.feed(&at(second as i64), signal(WORDS[*word]));
            if let Err(fault) = sound(&offline, thread) {
                return Err(TestCaseError::fail(fault));
            }
            match ended {
                Some(length) => prop_assert_eq!(offline.log().len(), length, "nothing follows the end"),
                None => ended = offline.end().map(|_| offline.log().len()),
            }
        }
        offline.feed(&at(99), Signal::Closed);
        offline.feed(&at(99), Signal::Closed);
        prop_assert!(offline.end().is_some() || offline.stage() == causeway_engine::coordinator::Stage::Fresh);
        if let Err(fault) = sound(&offline, thread) {
            return Err(TestCaseError::fail(fault));
        }
    }
}
