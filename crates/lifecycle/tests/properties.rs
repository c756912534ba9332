//! Properties of the validator over generated streams.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use causeway_contract::event::{Event, Sequence};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;
use causeway_lifecycle::check::{Checker, Options};
use causeway_lifecycle::rule::{Rule, Verdict};
use causeway_lifecycle::testing::legal::legal;
use causeway_lifecycle::testing::operations::{agree, operations, small_limits};
use causeway_lifecycle::testing::{reference, script};
use causeway_lifecycle::validator::{Boundary, Thread, Validator};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use serde_json::{Value, json};

fn boundary() -> impl Strategy<Value = Boundary> {
    any::<bool>().prop_map(|commit| if commit { Boundary::Commit } else { Boundary::Yield })
}

/// Where the validator refuses first, and by what.
fn refusal(events: &[Event<'static>], boundary: Boundary, thread: Thread) -> Option<(usize, Verdict)> {
    let mut validator = Validator::new(boundary, thread, Limits::DEFAULT).offline();
    for (index, event) in events.iter().enumerate() {
        if let Err(violation) = validator.accept(event, event.encoded_len()) {
            return Some((index, violation.rule()));
        }
    }
    validator.finish().err().map(|violation| (events.len(), violation.rule()))
}

fn lines(events: &[Event<'_>]) -> Vec<String> {
    let line = |event: &Event<'_>| {
        let mut line = Vec::new();
        event.write_json(&mut line);
        String::from_utf8(line).unwrap()
    };
    events.iter().map(line).collect()
}

/// One event in another place, with other ids, or gone. Shape and size stay as they are.
fn mutate(events: &mut Vec<Event<'static>>, kind: u8, at: Index, other: Index) {
    let (at, other) = (at.index(events.len()), other.index(events.len()));
    match kind % 10 {
        0 => drop(events.remove(at)),
        1 => events.insert(other, events[at].clone()),
        2 => events.swap(at, other),
        3 => events[at].sequence = events[other].sequence,
        4 => events[at].sequence = Sequence::new(events[at].sequence.value() + 1).unwrap(),
        5 => events[at].namespace = events[other].namespace.clone(),
        6 => events[at].namespace = Namespace::root(),
        7 => events[at].data = events[other].data.clone(),
        8 => events[at].run_id = RunId::new("run-2").unwrap(),
        _ => events[at].conversation_id = ConversationId::new("conv-2").unwrap(),
    }
}

/// A field of `data` that every event of the type has.
fn required(kind: &str) -> &'static str {
    match kind {
        "run.started" => "harness_id",
        "run.finished" => "outcome",
        "run.cancelled" => "reason",
        "run.error" | "warning" => "code",
        "run.interrupted" | "interrupt.requested" => "interrupt_id",
        "namespace.entered" | "namespace.exited" => "agent_id",
        "usage.updated" => "final",
        "provider.metadata" => "provider",
        _text_or_tool if kind.starts_with("tool.") => "tool_call_id",
        _text_or_tool => "message_id",
    }
}

/// A line that is no event any more, whatever type it has: its envelope, its shape or its size is wrong.
fn spoil(line: &str, kind: u8, which: u8) -> Vec<u8> {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let fields =
        ["version", "type", "run_id", "conversation_id", "sequence", "timestamp", "namespace", "data"];
    let field = fields[usize::from(which) % fields.len()];
    let inner = required(value["type"].as_str().unwrap());
    let too_many = if value["type"] == "interrupt.requested" { 4_300_000 } else { 530_000 };
    match kind % 21 {
        0 => drop(value.as_object_mut().unwrap().remove(field)),
        1 => value[field] = Value::Null,
        2 => value[field] = json!({"unexpected": 1}),
        3 => value["extra"] = json!(1),
        4 => value["data"]["extra"] = json!(1),
        5 => value["version"] = json!(2),
        6 => value["type"] = json!("text.deltas"),
        7 => value["sequence"] = json!(-1),
        8 => value["sequence"] = json!(9_007_199_254_740_992_u64),
        9 => value["timestamp"] = json!("yesterday"),
        10 => value["run_id"] = json!("r".repeat(257)),
        11 => value["namespace"] = json!(["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
        12 => return line.replacen("\"version\":1", "\"version\":1,\"version\":1", 1).into_bytes(),
        13 => return line.as_bytes()[..line.len() - 1].to_vec(),
        14 => return [line.as_bytes(), b"}"].concat(),
        15 => return [&line.as_bytes()[..line.len() - 2], &[0xff], b"}}"].concat(),
        16 => drop(value["data"].as_object_mut().unwrap().remove(inner)),
        17 => value["data"][inner] = Value::Null,
        18 => value["data"][inner] = json!(17),
        19 => value["data"][inner] = json!("x".repeat(too_many)),
        _ => {
            // Larger than any event, in a place where white space is legal.
            let padded = format!("{{{}{}", " ".repeat(too_many), &line[1..]);
            return padded.into_bytes();
        }
    }
    value.to_string().into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_generated_legal_stream_is_accepted(bytes in vec(any::<u8>(), 0..400), boundary in boundary()) {
        let events = legal(&bytes, boundary);
        prop_assert_eq!(refusal(&events, boundary, Thread::Durable), None);
        let decoded: Vec<String> = lines(&events);
        let mut checker = Checker::new(Options { boundary, ..Options::default() });
        decoded.iter().for_each(|line| checker.line(line.as_bytes()));
        prop_assert_eq!(&checker.finish()[0].violations, &vec![]);
    }

    #[test]
    fn every_proper_prefix_of_a_legal_stream_is_accepted_but_for_r12(bytes in vec(any::<u8>(), 0..200), boundary in boundary()) {
        let events = legal(&bytes, boundary);
        for len in 0..events.len() {
            let expected = Some((len, Verdict::Rule(Rule::R12ClosedWithoutTerminal)));
            prop_assert_eq!(refusal(&events[..len], boundary, Thread::Durable), expected);
        }
    }

    #[test]
    fn a_stream_with_one_spoilt_event_is_refused_at_that_event(bytes in vec(any::<u8>(), 0..200), kind in any::<u8>(), which in any::<u8>(), at in any::<Index>()) {
        let mut lines: Vec<Vec<u8>> = lines(&legal(&bytes, Boundary::Commit)).into_iter().map(String::into_bytes).collect();
        let at = at.index(lines.len());
        lines[at] = spoil(std::str::from_utf8(&lines[at]).unwrap(), kind, which);
        let mut checker = Checker::new(Options::default());
        lines.iter().for_each(|line| checker.line(line));
        let report = checker.finish().remove(0);
        let first = report.violations.first().map(|violation| (violation.index, violation.code));
        let is_check = |code: &str| matches!(Verdict::parse(code), Some(Verdict::Check(_)));
        prop_assert!(
            first.is_some_and(|(index, code)| index == u64::try_from(at).unwrap() && is_check(code)),
            "{:?} instead of {} for {}", first, at, String::from_utf8_lossy(&lines[at][..lines[at].len().min(2000)])
        );
    }

    #[test]
    fn a_mutated_stream_is_refused_where_the_reference_checker_says(
        bytes in vec(any::<u8>(), 0..250),
        mutations in vec((any::<u8>(), any::<Index>(), any::<Index>()), 1..4),
        boundary in boundary(),
        ephemeral in any::<bool>(),
    ) {
        let mut events = legal(&bytes, boundary);
        for (kind, at, other) in mutations {
            if events.len() > 1 {
                mutate(&mut events, kind, at, other);
            }
        }
        let thread = if ephemeral { Thread::Ephemeral } else { Thread::Durable };
        let found = refusal(&events, boundary, thread).map(|(index, _)| index);
        let illegal = reference::first_illegal(&events, boundary, thread, &Limits::DEFAULT);
        let expected = illegal.or_else(|| (!reference::has_ended(&events)).then_some(events.len()));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_validator_and_the_reference_checker_agree_on_any_operations(
        bytes in vec(any::<u8>(), 0..700),
        boundary in boundary(),
        ephemeral in any::<bool>(),
    ) {
        let thread = if ephemeral { Thread::Ephemeral } else { Thread::Durable };
        agree(&operations(&bytes), boundary, thread, &small_limits());
    }

    #[test]
    fn a_draft_is_judged_as_the_event_it_becomes(bytes in vec(any::<u8>(), 0..400)) {
        let mut events = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT);
        let mut drafts = events.clone();
        for (sequence, event) in (0..).zip(operations(&bytes)) {
            let mut event = event;
            let Some(last) = drafts.last_sequence().map_or(Some(Sequence::ZERO), Sequence::next) else {
                break;
            };
            event.sequence = last;
            let draft = causeway_contract::EventDraft { namespace: event.namespace.clone(), data: event.data.clone() };
            prop_assert_eq!(events.accept(&event, 10), drafts.accept_draft(&draft, 10), "event {}", sequence);
        }
    }
}

#[test]
fn the_generator_reaches_what_it_promises() {
    let mut seen = std::collections::BTreeSet::new();
    let mut deepest = 0;
    let mut state = 1u64;
    for _ in 0..400 {
        let bytes: Vec<u8> = (0..300)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.to_be_bytes()[0]
            })
            .collect();
        for event in legal(&bytes, Boundary::Commit) {
            deepest = deepest.max(event.namespace.depth());
            seen.insert(event.data.event_type().as_str());
        }
    }
    assert_eq!(seen.len(), 21, "{seen:?}");
    assert!(deepest >= 3, "{deepest}");
    assert_eq!(script::script("run.started; run.finished").len(), 2);
}
