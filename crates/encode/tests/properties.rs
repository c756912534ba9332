//! What holds for every stream: legal ones from the rules' own generator, illegal ones, and any text or JSON inside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

#[path = "../../../fuzz/bodies/encode.rs"]
mod body;

use std::collections::HashSet;

use body::{encode_all, frames, seed_of};
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Event, EventData, EventType, TextDelta, ToolFinished, ToolStarted};
use causeway_contract::id::{MessageId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;
use causeway_encode::{Accumulated, Protocol, Seed};
use causeway_lifecycle::Boundary;
use causeway_lifecycle::testing::event;
use causeway_lifecycle::testing::legal::legal;
use causeway_lifecycle::testing::operations::operations;
use proptest::prelude::*;
use serde_json::Value;

fn encoded(protocol: Protocol, seed: &Seed, events: &[Event<'_>]) -> Vec<u8> {
    let mut encoder = protocol.encoder(seed);
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.encode(event, &mut out));
    out
}

fn calls(events: &[Event<'static>]) -> Vec<ToolCallId<'static>> {
    let call = |event: &Event<'static>| match &event.data {
        EventData::ToolStarted(data) => Some(data.tool_call_id.clone()),
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

/// One event on its own, in one format.
fn frames_of(protocol: Protocol, data: impl Into<EventData<'static>>) -> Vec<(String, Value)> {
    frames(protocol, &encoded(protocol, &Seed::new(), &[event(1, Namespace::root(), data.into())]))
}

fn tool_started(arguments: &str) -> ToolStarted<'static> {
    ToolStarted {
        tool_call_id: ToolCallId::new("c").unwrap(),
        tool_name: Name::new("t").unwrap(),
        arguments: JsonObject::parse(arguments.to_owned(), &Limits::DEFAULT).unwrap(),
        parent_message_id: None,
    }
}

/// JSON objects with any keys, texts and numbers.
fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // serde_json, which judges here, does not read every double exactly; the number vectors cover all.
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::from)
            .prop_filter("exact", |number| serde_json::from_str::<Value>(&number.to_string()).unwrap()
                == *number),
        text().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    });
    prop::collection::vec((text(), value), 0..6).prop_map(|members| members.into_iter().collect())
}

/// Any text but U+0000, which the decoder refuses.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[\\x01-\\x7f]{0,40}",
        any::<String>().prop_map(|text| text.replace('\0', "")),
        "(word \"quoted\" \\\\ größe 日本 😀 \n){0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_stream_encodes_into_well_formed_frames(bytes in choices(), n in 0..4usize, m in 0..4usize) {
        for boundary in [Boundary::Commit, Boundary::Yield] {
            let events = legal(&bytes, boundary);
            encode_all(&Seed::new(), &events);
            encode_all(&seed_of(&calls(&events), n, m), &events);
        }
    }

    #[test]
    fn no_order_of_events_makes_an_encoder_panic(bytes in choices(), n in 0..4usize, m in 0..4usize) {
        let events = operations(&bytes);
        encode_all(&seed_of(&calls(&events), n, m), &events);
    }

    #[test]
    fn no_bytes_make_an_encoder_panic(bytes in choices(), lines in prop::collection::vec(any::<u8>(), 0..200)) {
        body::encode(&lines);
        let mut stream = br#"{"rejected":["t-1"]}"#.to_vec();
        for event in legal(&bytes, Boundary::Commit) {
            stream.push(b'\n');
            event.write_json(&mut stream);
        }
        body::encode(&stream);
    }

    #[test]
    fn the_suffix_after_any_event_follows_from_the_log(bytes in choices(), after in any::<prop::sample::Index>()) {
        let events = legal(&bytes, Boundary::Commit);
        let seed = seed_of(&calls(&events), 3, 2);
        let after = after.index(events.len() + 1);
        for &protocol in Protocol::ALL {
            let whole = encoded(protocol, &seed, &events);
            let mut encoder = protocol.encoder(&seed);
            let (mut seen, mut suffix) = (Vec::new(), Vec::new());
            events[..after].iter().for_each(|event| encoder.encode(event, &mut seen));
            events[after..].iter().for_each(|event| encoder.encode(event, &mut suffix));
            prop_assert_eq!([seen, suffix].concat(), whole);
        }
    }

    #[test]
    fn what_went_through_the_log_encodes_to_the_same_bytes(bytes in choices()) {
        let events = legal(&bytes, Boundary::Commit);
        let lines: Vec<Vec<u8>> = events
            .iter()
            .map(|event| {
                let mut line = Vec::new();
                event.write_json(&mut line);
                line
            })
            .collect();
        let replayed: Vec<Event<'_>> =
            lines.iter().map(|line| decode_line(line, &Limits::DEFAULT).unwrap()).collect();
        for &protocol in Protocol::ALL {
            let (first, again) =
                (encoded(protocol, &Seed::new(), &events), encoded(protocol, &Seed::new(), &replayed));
            prop_assert_eq!(first, again);
        }
    }

    #[test]
    fn a_seed_hides_its_frames_and_no_others(bytes in choices(), n in 0..4usize, m in 0..4usize) {
        let events = legal(&bytes, Boundary::Commit);
        let seed = seed_of(&calls(&events), n, m);
        let names = |calls: &[ToolCallId<'static>]| -> HashSet<String> { calls.iter().map(ToString::to_string).collect() };
        let (delegations, rejected) = (names(&seed.delegations), names(&seed.rejected));
        let hidden = |(name, data): &(String, Value)| {
            let id = data["tool_call_id"].as_str().or(data["toolCallId"].as_str()).unwrap_or("");
            match name.as_str() {
                "tool_start" | "TOOL_CALL_START" | "TOOL_CALL_ARGS" => delegations.contains(id) || rejected.contains(id),
                "tool_end" | "TOOL_CALL_RESULT" | "TOOL_CALL_END" => rejected.contains(id),
                _ => false,
            }
        };
        // Announcements move with the frames they announce.
        let announces = |(_, data): &(String, Value)| data["name"] == "NAMESPACE_CONTEXT";
        for protocol in [Protocol::Custom, Protocol::Agui] {
            let mut all = frames(protocol, &encoded(protocol, &Seed::new(), &events));
            let mut seeded = frames(protocol, &encoded(protocol, &seed, &events));
            prop_assert!(!seeded.iter().any(hidden));
            all.retain(|frame| !hidden(frame) && !announces(frame));
            seeded.retain(|frame| !announces(frame));
            prop_assert_eq!(seeded, all);
        }
    }

    #[test]
    fn agui_text_is_paired_and_stands_in_the_namespace_announced_last(bytes in choices()) {
        let events = legal(&bytes, Boundary::Commit);
        let last = events.last().unwrap().data.event_type();
        let (mut open, mut announced) = (Vec::new(), Namespace::root());
        let mut encoder = Protocol::Agui.encoder(&Seed::new());
        for event in &events {
            let mut out = Vec::new();
            encoder.encode(event, &mut out);
            for (name, data) in frames(Protocol::Agui, &out) {
                let id = data["messageId"].as_str().unwrap_or("").to_owned();
                match name.as_str() {
                    "CUSTOM" if data["name"] == "NAMESPACE_CONTEXT" => {
                        prop_assert!(event.namespace != announced, "an announcement without a change");
                        announced = event.namespace.clone();
                    }
                    "TEXT_MESSAGE_START" => open.push(id),
                    "TEXT_MESSAGE_END" => {
                        prop_assert!(open.contains(&id));
                        open.retain(|message| *message != id);
                    }
                    "TEXT_MESSAGE_CONTENT" => {
                        prop_assert!(open.contains(&id));
                        prop_assert_eq!(&event.namespace, &announced);
                    }
                    "TOOL_CALL_START" | "TOOL_CALL_RESULT" => prop_assert_eq!(&event.namespace, &announced),
                    _ => {}
                }
            }
        }
        let closes = matches!(last, EventType::RunFinished | EventType::RunInterrupted);
        prop_assert!(!closes || open.is_empty(), "{:?} left open at {}", open, last);
    }

    #[test]
    fn the_non_streaming_answer_is_the_text_of_the_stream(bytes in choices()) {
        let events = legal(&bytes, Boundary::Commit);
        let mut answer = Accumulated::new();
        events.iter().for_each(|event| answer.observe(event));
        let (mut text, mut mark) = (String::new(), 0);
        for (name, data) in frames(Protocol::Custom, &encoded(Protocol::Custom, &Seed::new(), &events)) {
            match name.as_str() {
                "content" => text.push_str(data["text"].as_str().unwrap()),
                "tool_start" => mark = text.len(),
                _ => {}
            }
        }
        prop_assert_eq!(answer.content(), &text[mark..]);
        prop_assert_eq!(answer.thinking().unwrap_or(""), &text[..mark]);
    }

    #[test]
    fn any_text_reads_back_from_both_formats(text in text()) {
        let data = TextDelta { message_id: MessageId::new("m").unwrap(), delta: text.clone().into() };
        for (protocol, key) in [(Protocol::Custom, "text"), (Protocol::Agui, "delta")] {
            let frames = frames_of(protocol, data.clone());
            let shown: String = frames.iter().map(|(_, data)| data[key].as_str().unwrap()).collect();
            prop_assert_eq!(&shown, &text);
        }
    }

    #[test]
    fn any_result_is_cut_after_two_thousand_characters(text in text(), times in 0..400usize) {
        let text = text.repeat(times);
        let data = ToolFinished {
            tool_call_id: ToolCallId::new("c").unwrap(),
            result: text.clone().into(),
            result_ref: None,
        };
        let count = text.chars().count();
        let cut = match count {
            0..=2000 => text.clone(),
            _ => format!("{}...[{} chars]", text.chars().take(2000).collect::<String>(), count - 2000),
        };
        if !text.to_ascii_lowercase().contains("rejected") && !text.starts_with("ERROR: ") {
            let shown = |protocol, key: &str| {
                let frames = frames_of(protocol, data.clone());
                frames[0].1[key].as_str().unwrap_or("").to_owned()
            };
            prop_assert_eq!(shown(Protocol::Custom, "result"), cut.clone());
            prop_assert_eq!(shown(Protocol::Agui, "content"), cut);
        }
    }

    #[test]
    fn any_arguments_mean_the_same_in_both_formats_however_they_were_laid_out(object in object()) {
        let layouts = [object.to_string(), format!("{object:#}")];
        let [custom, agui] = [Protocol::Custom, Protocol::Agui].map(|protocol| {
            let [compact, pretty] = layouts.each_ref().map(|text| frames_of(protocol, tool_started(text)));
            assert_eq!(compact, pretty);
            compact
        });
        prop_assert_eq!(&custom[0].1["args"], &object);
        let text = agui[1].1["delta"].as_str().unwrap();
        prop_assert!(text.is_ascii());
        prop_assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), &object);
    }
}

/// The bodies on bytes from a generator of our own, for as long as `CAUSEWAY_FUZZ_SECONDS` says (default 2).
#[test]
#[allow(clippy::disallowed_methods, reason = "a test may look at the clock and the environment")]
fn no_bytes_and_no_operations_break_an_encoder() {
    let seconds = std::env::var("CAUSEWAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    while std::time::Instant::now() < end {
        let len = next() % 600;
        let input: Vec<u8> = (0..len).map(|_| next().to_be_bytes()[0]).collect();
        body::encode(&input);
        encode_all(&Seed::default(), &legal(&input, Boundary::Commit));
    }
}
