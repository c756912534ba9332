//! The checker can fail: a true history passes, and each falsehood put into it is found as what it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;
use causeway_crash::check::{Class, check};
use causeway_crash::facts::{Event, Facts, Head, Interrupt, Run};
use causeway_crash::history::{self, Entry, History};
use causeway_encode::{Protocol, Seed, with_event_id};
use serde_json::{Value, json};

struct Case {
    history: Vec<Entry>,
    facts: Facts,
}

fn event(run_id: &str, conversation: &str, number: u64, kind: &str, data: &Value) -> Event {
    let json = format!(
        "{{\"version\":1,\"type\":\"{kind}\",\"run_id\":\"{run_id}\",\"conversation_id\":\"{conversation}\",\"sequence\":{number},\
         \"timestamp\":\"2026-01-01T00:00:00Z\",\"namespace\":[],\"data\":{data}}}"
    );
    let kind = decode_line(json.as_bytes(), &Limits::DEFAULT).expect(&json).data.event_type();
    Event { number, kind, json }
}

fn run(run_id: &str, conversation: &str, message: &str, status: &str, events: &[(&str, Value)]) -> Run {
    let started = ("run.started", json!({"harness_id": "deepagents", "adapter_version": "1"}));
    let all = std::iter::once(&started).chain(events);
    Run {
        run_id: run_id.to_owned(),
        conversation: conversation.to_owned(),
        agent: "a".to_owned(),
        epoch: 1,
        status: status.to_owned(),
        request: json!({"message": message}),
        seed: None,
        resumed_from: None,
        resumed_by: None,
        interrupt: None,
        head: None,
        events: (0..).zip(all).map(|(n, (kind, data))| event(run_id, conversation, n, kind, data)).collect(),
    }
}

fn head(revision: u64, run_id: Option<&str>) -> Head {
    Head { revision, reference: format!("h{revision}"), run_id: run_id.map(str::to_owned) }
}

fn finished(revision: u64) -> (&'static str, Value) {
    let state =
        json!({"durability": "committed", "durable_revision": revision, "head_ref": format!("h{revision}")});
    ("run.finished", json!({"outcome": "success", "thread_state": state}))
}

fn text(words: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("text.started", json!({"message_id": "m", "role": "assistant"})),
        ("text.delta", json!({"message_id": "m", "delta": words})),
        ("text.finished", json!({"message_id": "m"})),
    ]
}

fn call(line: &str) -> (&'static str, Value) {
    ("tool.started", json!({"tool_call_id": "t", "tool_name": "note", "arguments": {"line": line}}))
}

const FAILED: &str =
    r#"{"code":"thread_durability_uncertain","message":"m","retryable":false,"side_effect_status":"none"}"#;

/// A conversation that talked, asked, was answered and went on; one that failed; one that was cancelled; one that waits.
fn truth() -> Case {
    let mut talked = run("r1", "c", "hello 1", "finished", &[text("hi"), vec![finished(1)]].concat());
    talked.head = Some(head(1, None));
    let request = json!({"interrupt_id": "i", "interrupt_type": "tool_approval", "agent_id": "a", "tool_approvals": [
        {"tool_call_id": "t", "tool_name": "note", "tool_args": {"line": "note 2"}, "allowed_decisions": []}]});
    let interrupted = ("run.interrupted", json!({"interrupt_id": "i", "reason": "tool_approval"}));
    let asking = [call("note 2"), ("interrupt.requested", request.clone()), interrupted];
    let mut asked = run("r2", "c", "note 2", "interrupted", &asking);
    asked.head = Some(head(2, None));
    asked.resumed_by = Some("r3".to_owned());
    let approve = json!({"decisions": [{"tool_call_id": "t", "decision": "approve"}]});
    let mut decision = approve.clone();
    decision["answered_by"] = json!("local");
    let interrupt = Interrupt {
        interrupt_id: "i".to_owned(),
        revision: 2,
        status: "consumed".to_owned(),
        expires: false,
        decision: Some(decision),
        request,
    };
    asked.interrupt = Some(interrupt.clone());
    let told = ("tool.finished", json!({"tool_call_id": "t", "result": "noted note 2"}));
    let mut answered = run("r3", "c", "", "finished", &[call("note 2"), told, finished(3)]);
    answered.request = approve.clone();
    answered.head = Some(head(3, None));
    answered.resumed_from = Some("r2".to_owned());
    answered.seed = Some(r#"{"open_tool_calls":["t"],"delegations":[],"rejected":[]}"#.to_owned());
    let error = ("run.error", serde_json::from_str(FAILED).unwrap());
    let failed = run("r4", "d", "hello 4", "uncertain", &[text("half"), vec![error]].concat());
    let reason = json!({"reason": "client_request", "side_effect_status": "none"});
    let cancelled = run("r5", "e", "hello 5", "cancelled", &[("run.cancelled", reason)]);
    let mut waits = run("r6", "f", "note 6", "interrupted", &asking);
    waits.head = Some(head(1, None));
    waits.interrupt =
        Some(Interrupt { revision: 1, status: "pending".to_owned(), decision: None, ..interrupt });
    let heads = [("c", head(3, Some("r3"))), ("f", head(1, Some("r6")))];
    let facts = Facts {
        runs: vec![talked, asked, answered, failed, cancelled, waits],
        heads: heads.into_iter().map(|(place, head)| ((place.to_owned(), "a".to_owned()), head)).collect(),
        notes: Some(vec!["note 2".to_owned()]),
    };
    let mut history = vec![Entry::Ready { workers: Vec::new() }];
    for (op, run) in (1..).zip(&facts.runs).filter(|(_, run)| run.resumed_from.is_none()) {
        let message = run.request["message"].as_str().unwrap().to_owned();
        let (agent, conversation) = (run.agent.clone(), run.conversation.clone());
        history.push(Entry::Start { op, agent, conversation, message, key: None });
        history.push(Entry::Started { op, run_id: run.run_id.clone() });
    }
    let answer = |op, answer: &Value| Entry::Answer {
        op,
        run_id: "r2".to_owned(),
        interrupt_id: "i".to_owned(),
        revision: 2,
        key: None,
        answer: answer.clone(),
    };
    history.push(answer(11, &approve));
    history.push(answer(12, &json!({"decisions": [{"tool_call_id": "t", "decision": "reject"}]})));
    history.push(Entry::Answered { op: 11, run_id: "r3".to_owned() });
    history.push(Entry::Refused { op: 12, status: 409, code: "interrupt_consumed".to_owned() });
    history.push(Entry::Cancel { op: 13, run_id: "r5".to_owned() });
    history.push(Entry::Cancelled { op: 13, cancelled: true, voided: false });
    for (op, (at, protocol)) in
        (20..).zip([(0, Protocol::Canonical), (1, Protocol::Custom), (2, Protocol::Agui)])
    {
        let run = &facts.runs[at];
        let (run_id, name) = (run.run_id.clone(), protocol.as_str().to_owned());
        history.push(Entry::Follow { op, run_id, protocol: name, after: None });
        let frames = encoded(run, protocol);
        history.extend(frames.into_iter().map(|(number, bytes)| Entry::Frames { op, number, bytes }));
        history.push(Entry::Ended { op });
    }
    history.push(Entry::Killed { point: None });
    history.push(Entry::Ready { workers: Vec::new() });
    Case { history, facts }
}

fn encoded(run: &Run, protocol: Protocol) -> Vec<(u64, String)> {
    let seed = run.seed.as_deref().map_or_else(Seed::default, |json| Seed::from_json(json).unwrap());
    let mut encoder = protocol.encoder(&seed);
    let mut all = Vec::new();
    for stored in &run.events {
        let event = decode_line(stored.json.as_bytes(), &Limits::DEFAULT).unwrap();
        let (mut frames, mut out) = (Vec::new(), Vec::new());
        encoder.encode(&event, &mut frames);
        if !frames.is_empty() {
            with_event_id(&frames, event.sequence, &mut out);
            all.push((stored.number, String::from_utf8(out).unwrap()));
        }
    }
    all
}

impl Case {
    fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = check(&self.history, &self.facts)
            .violations
            .into_iter()
            .map(|violation| violation.class)
            .collect();
        classes.sort();
        classes.dedup();
        classes
    }

    fn run(&mut self, at: usize) -> &mut Run {
        &mut self.facts.runs[at]
    }

    fn interrupt(&mut self, at: usize) -> &mut Interrupt {
        self.run(at).interrupt.as_mut().unwrap()
    }

    fn push(&mut self, at: usize, kind: &str, data: &Value) {
        let run = self.run(at);
        let next = event(&run.run_id, &run.conversation, run.events.len() as u64, kind, data);
        run.events.push(next);
    }

    fn notes(&mut self) -> &mut Vec<String> {
        self.facts.notes.as_mut().unwrap()
    }

    fn head(&mut self, place: &str) -> &mut Head {
        self.facts.heads.get_mut(&(place.to_owned(), "a".to_owned())).unwrap()
    }

    fn find(&self, wanted: impl Fn(&Entry) -> bool) -> usize {
        self.history.iter().position(wanted).unwrap()
    }

    fn frames(&self, op: u64, nth: usize) -> usize {
        let all = self.history.iter().enumerate();
        let of = all.filter(|(_, entry)| matches!(entry, Entry::Frames { op: found, .. } if *found == op));
        of.map(|(at, _)| at).nth(nth).unwrap()
    }
}

#[test]
fn a_true_history_passes() {
    let case = truth();
    let verdict = check(&case.history, &case.facts);
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.kills, verdict.runs, verdict.answers, verdict.notes), (1, 6, 1, 1));
    assert!(verdict.events >= 10, "{verdict:?}");
}

type Falsehood = (&'static str, fn(&mut Case), &'static [Class]);

#[test]
fn each_falsehood_is_found_as_what_it_is() {
    let all: &[Falsehood] = &[
        ("an event is gone", |case| drop(case.run(0).events.remove(2)), &[Class::Lost]),
        (
            "an event is another one",
            |case| case.run(0).events[2].json = case.run(0).events[2].json.replace("\"hi\"", "\"ho\""),
            &[Class::Lost],
        ),
        ("a run is gone", |case| drop(case.facts.runs.remove(3)), &[Class::Lost]),
        ("a run has no terminal", |case| drop(case.run(3).events.pop()), &[Class::Terminal]),
        ("a run is still running", |case| case.run(3).status = "running".to_owned(), &[Class::Terminal]),
        (
            "a run has two terminals",
            |case| case.push(3, "run.error", &serde_json::from_str(FAILED).unwrap()),
            &[Class::Terminal],
        ),
        (
            "a run goes on",
            |case| case.push(3, "text.started", &json!({"message_id": "n", "role": "assistant"})),
            &[Class::AfterTerminal],
        ),
        (
            "something was shown behind the end",
            |case| {
                let at = case.find(|entry| matches!(entry, Entry::Ended { op: 20 }));
                case.history.insert(at, Entry::Frames { op: 20, number: 5, bytes: "x".to_owned() });
            },
            &[Class::AfterTerminal],
        ),
        ("the head is behind its terminal", |case| *case.head("c") = head(2, Some("r2")), &[Class::Head]),
        (
            "the head moved without a terminal",
            |case| {
                let moved = head(1, Some("r4"));
                case.facts.heads.insert(("d".to_owned(), "a".to_owned()), moved);
            },
            &[Class::Head],
        ),
        ("an error moved the head", |case| case.run(3).head = Some(head(1, None)), &[Class::Head]),
        ("a finished run has no head", |case| case.run(2).head = None, &[Class::Head]),
        ("the head is another one", |case| case.head("c").reference = "other".to_owned(), &[Class::Head]),
        (
            "a head is missing",
            |case| drop(case.facts.heads.remove(&("f".to_owned(), "a".to_owned()))),
            &[Class::Head],
        ),
        (
            "a cleared conversation has its head",
            |case| {
                case.history.push(Entry::Clear { op: 40, conversation: "c".to_owned() });
                case.history.push(Entry::Cleared { op: 40, epoch: 2 });
            },
            &[Class::Head],
        ),
        (
            "an interrupt was answered twice",
            |case| {
                let mut again = case.run(2).clone();
                again.run_id = "r7".to_owned();
                again.conversation = "z".to_owned();
                (again.head, again.status) = (None, "error".to_owned());
                again.events =
                    run("r7", "z", "", "error", &[("run.error", serde_json::from_str(FAILED).unwrap())])
                        .events;
                case.facts.runs.push(again);
            },
            &[Class::Answer],
        ),
        (
            "an accepted answer is gone",
            |case| {
                case.facts.runs.remove(2);
                case.run(1).resumed_by = None;
                case.interrupt(1).status = "pending".to_owned();
                case.interrupt(1).decision = None;
                *case.head("c") = head(2, Some("r2"));
                case.notes().clear();
            },
            &[Class::Lost, Class::Answer],
        ),
        (
            "another answer is on record",
            |case| {
                case.interrupt(1).decision =
                    Some(json!({"decisions": [{"tool_call_id": "t", "decision": "reject"}]}));
            },
            &[Class::Answer],
        ),
        (
            "nobody answered",
            |case| {
                let at = case.find(|entry| matches!(entry, Entry::Answered { .. }));
                case.history[at] = Entry::Refused { op: 11, status: 422, code: String::new() };
            },
            &[Class::Answer],
        ),
        ("an interrupt is lost", |case| case.interrupt(5).status = "voided".to_owned(), &[Class::Answer]),
        (
            "an interrupt expired too soon",
            |case| case.interrupt(5).status = "expired".to_owned(),
            &[Class::Answer],
        ),
        ("a tool ran twice", |case| case.notes().push("note 2".to_owned()), &[Class::Answer]),
        ("a tool is told to have run", |case| case.notes().clear(), &[Class::Answer]),
        ("a tool ran that was not let", |case| case.notes().push("note 6".to_owned()), &[Class::Answer]),
        ("a worker is left", |case| case.history.push(Entry::Ready { workers: vec![77] }), &[Class::Worker]),
        (
            "a client missed an event",
            |case| {
                let at = case.frames(21, 0);
                case.history.remove(at);
            },
            &[Class::Lost],
        ),
        (
            "a client saw other bytes",
            |case| {
                let at = case.frames(22, 0);
                if let Entry::Frames { bytes, .. } = &mut case.history[at] {
                    bytes.push(' ');
                }
            },
            &[Class::Lost],
        ),
        (
            "a stream ended before its run",
            |case| {
                let at = case.find(|entry| matches!(entry, Entry::Ended { op: 20 }));
                case.history.remove(at - 1);
            },
            &[Class::Told],
        ),
        (
            "an established stream was another one",
            |case| {
                case.history.push(Entry::Body {
                    op: 1,
                    protocol: "custom".to_owned(),
                    bytes: "event: x\n\n".to_owned(),
                });
            },
            &[Class::Lost],
        ),
        (
            "a cancelled run finished",
            |case| {
                case.history.push(Entry::Cancel { op: 41, run_id: "r1".to_owned() });
                case.history.push(Entry::Cancelled { op: 41, cancelled: true, voided: false });
            },
            &[Class::Told],
        ),
        (
            "an interrupt that was taken back waits",
            |case| {
                case.history.push(Entry::Cancel { op: 42, run_id: "r6".to_owned() });
                case.history.push(Entry::Cancelled { op: 42, cancelled: false, voided: true });
            },
            &[Class::Told],
        ),
        (
            "a refused start began a run",
            |case| {
                let at = case.find(|entry| matches!(entry, Entry::Started { op: 4, .. }));
                case.history[at] = Entry::Refused { op: 4, status: 409, code: String::new() };
            },
            &[Class::Told],
        ),
        (
            "a message was run twice",
            |case| case.run(4).request = json!({"message": "hello 4"}),
            &[Class::Told],
        ),
        (
            "a deleted conversation is there",
            |case| {
                case.history.push(Entry::Delete { op: 43, conversation: "d".to_owned() });
                case.history.push(Entry::Deleted { op: 43 });
            },
            &[Class::Told],
        ),
    ];
    for (name, falsify, expected) in all {
        let mut case = truth();
        falsify(&mut case);
        assert_eq!(case.classes(), *expected, "{name}: {:?}", check(&case.history, &case.facts).violations);
    }
}

#[test]
fn what_nobody_knows_is_no_falsehood() {
    let unknown: &[fn(&mut Case)] = &[
        // The answer that was taken was never acknowledged.
        |case| {
            let at = case.find(|entry| matches!(entry, Entry::Answered { .. }));
            case.history[at] = Entry::Lost { op: 11 };
        },
        // A start that was never acknowledged is in the log, or is not.
        |case| {
            let at = case.find(|entry| matches!(entry, Entry::Started { op: 4, .. }));
            case.history[at] = Entry::Refused { op: 4, status: 503, code: "outcome_unknown".to_owned() };
            case.facts.runs.remove(3);
        },
        // A deletion that was never acknowledged is done, or is not.
        |case| {
            case.history.push(Entry::Delete { op: 40, conversation: "d".to_owned() });
            case.facts.runs.remove(3);
        },
        |case| case.history.push(Entry::Delete { op: 40, conversation: "d".to_owned() }),
        // So is a clear.
        |case| {
            case.history.push(Entry::Clear { op: 40, conversation: "f".to_owned() });
            case.facts.heads.remove(&("f".to_owned(), "a".to_owned()));
            case.interrupt(5).status = "voided".to_owned();
        },
        // A stream that broke off may end anywhere.
        |case| {
            let at = case.find(|entry| matches!(entry, Entry::Ended { op: 20 }));
            case.history.drain(at - 2..=at);
        },
    ];
    for (at, change) in unknown.iter().enumerate() {
        let mut case = truth();
        change(&mut case);
        assert_eq!(check(&case.history, &case.facts).violations, [], "{at}");
    }
}

#[test]
fn a_history_reads_back_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    let case = truth();
    for part in case.history.chunks(7) {
        let history = History::open(&path).unwrap(); // another program goes on with it
        part.iter().for_each(|entry| history.note(entry).unwrap());
    }
    assert_eq!(history::read(&path).unwrap(), case.history);
    std::fs::write(&path, "{\"kind\":\"other\"}\n").unwrap();
    assert!(history::read(&path).is_err());
}
