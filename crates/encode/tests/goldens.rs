//! The 44 goldens: canonical events in, the bytes of the established service out.
//!
//! A failure shows where the bytes part. If a format is meant to change, `CAUSEWAY_BLESS=1 cargo test -p
//! causeway-encode --test goldens` writes the new bytes into the files; review that like code.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests read files and fail loudly")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use causeway_contract::decode::decode_line;
use causeway_contract::event::Event;
use causeway_contract::limits::Limits;
use causeway_encode::{Accumulated, AguiSse, CanonicalSse, CustomSse, Encoder, Protocol, Seed};
use serde_json::value::RawValue;

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/goldens");

struct Golden {
    path: PathBuf,
    text: String,
}

impl Golden {
    fn all() -> Vec<Self> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(GOLDENS)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        paths.sort();
        assert_eq!(paths.len(), 44, "the goldens are 44 files");
        paths.into_iter().map(|path| Self { text: std::fs::read_to_string(&path).unwrap(), path }).collect()
    }

    fn name(&self) -> &str {
        Path::new(&self.path).file_stem().unwrap().to_str().unwrap()
    }

    fn fields(&self) -> BTreeMap<String, &RawValue> {
        serde_json::from_str(&self.text).unwrap()
    }

    fn lines(&self) -> Vec<&RawValue> {
        serde_json::from_str(self.fields()["canonical_events"].get()).unwrap()
    }

    fn string(&self, key: &str) -> String {
        serde_json::from_str(self.fields()[key].get()).unwrap()
    }

    fn seed(&self) -> Seed {
        self.fields().get("resume").map_or_else(Seed::new, |resume| Seed::from_json(resume.get()).unwrap())
    }
}

fn decode<'a>(lines: &[&'a RawValue]) -> Vec<Event<'a>> {
    lines.iter().map(|line| decode_line(line.get().as_bytes(), &Limits::DEFAULT).unwrap()).collect()
}

fn encode(mut encoder: impl Encoder, events: &[Event<'_>]) -> String {
    let mut out = Vec::new();
    for event in events {
        encoder.encode(event, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Where two streams part, or `None`.
fn difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let at = expected.bytes().zip(actual.bytes()).take_while(|(e, a)| e == a).count();
    let frame = expected.as_bytes()[..at].windows(2).filter(|pair| pair == b"\n\n").count();
    let around = |text: &str| {
        let bytes = &text.as_bytes()[at.saturating_sub(60)..text.len().min(at + 60)];
        String::from_utf8_lossy(bytes).escape_debug().to_string()
    };
    Some(format!(
        "at byte {at}, in frame {frame}\n  expected …{}…\n  actual   …{}…",
        around(expected),
        around(actual)
    ))
}

/// Puts `actual` in place of the string that `key` holds.
fn bless(golden: &Golden, key: &str, actual: &str) {
    let text = std::fs::read_to_string(&golden.path).unwrap();
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(&text).unwrap();
    let old = fields[key].get();
    let start = old.as_ptr() as usize - text.as_ptr() as usize;
    let new = serde_json::to_string(actual).unwrap();
    std::fs::write(&golden.path, [&text[..start], &new, &text[start + old.len()..]].concat()).unwrap();
}

fn check_all(key: &str, encode: impl Fn(&Seed, &[Event<'_>]) -> String) {
    let mut failures = Vec::new();
    for golden in Golden::all() {
        let actual = encode(&golden.seed(), &decode(&golden.lines()));
        if let Some(difference) = difference(&golden.string(key), &actual) {
            if std::env::var_os("CAUSEWAY_BLESS").is_some() {
                bless(&golden, key, &actual);
            }
            failures.push(format!("{} {key} {difference}", golden.name()));
        }
    }
    assert!(
        failures.is_empty(),
        "{}\nto accept the new bytes: CAUSEWAY_BLESS=1 cargo test -p causeway-encode --test goldens",
        failures.join("\n")
    );
}

#[test]
fn the_custom_format_is_byte_identical_to_the_established_one() {
    check_all("custom_sse", |seed, events| encode(CustomSse::resumed(seed), events));
}

#[test]
fn the_agui_format_is_byte_identical_to_the_established_one() {
    check_all("agui_sse", |seed, events| encode(AguiSse::resumed(seed), events));
}

#[test]
fn the_non_streaming_answer_is_the_established_one() {
    for golden in Golden::all() {
        let mut answer = Accumulated::resumed(&golden.seed());
        for event in decode(&golden.lines()) {
            answer.observe(&event);
        }
        let expected: serde_json::Value = serde_json::from_str(golden.fields()["invoke"].get()).unwrap();
        let actual = serde_json::json!({ "content": answer.content(), "thinking": answer.thinking() });
        assert_eq!(actual, expected, "{}", golden.name());
    }
}

#[test]
fn the_canonical_format_holds_every_event_and_nothing_else() {
    for golden in Golden::all() {
        let lines = golden.lines();
        let events = decode(&lines);
        let stream = encode(CanonicalSse::new(), &events);
        let frames: Vec<&str> = stream.split_inclusive("\n\n").collect();
        assert_eq!(frames.len(), events.len(), "{}", golden.name());
        for ((frame, event), line) in frames.iter().zip(&events).zip(&lines) {
            let head = format!("event: {}\ndata: ", event.data.event_type());
            let data = frame.strip_prefix(&head).and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
            assert!(!data.contains('\n'), "{frame}");
            let value = |text: &str| {
                let mut event: serde_json::Value = serde_json::from_str(text).unwrap();
                // An optional field may be null or absent; the canonical form leaves it out.
                event["data"].as_object_mut().unwrap().retain(|_, field| !field.is_null());
                event
            };
            assert_eq!(value(data), value(line.get()), "{frame}");
            // Read back and written again, it is the same text.
            let again =
                encode(CanonicalSse::new(), &[decode_line(data.as_bytes(), &Limits::DEFAULT).unwrap()]);
            assert_eq!(&again, frame);
        }
    }
}

#[test]
fn a_replay_from_any_event_gives_the_suffix_of_the_same_bytes() {
    for golden in Golden::all() {
        let lines = golden.lines();
        let events = decode(&lines);
        for protocol in Protocol::ALL {
            let mut encoder = protocol.encoder(&golden.seed());
            let (mut whole, mut ends) = (Vec::new(), vec![0]);
            for event in &events {
                encoder.encode(event, &mut whole);
                ends.push(whole.len());
            }
            for (after, &end) in ends.iter().enumerate() {
                let mut encoder = protocol.encoder(&golden.seed());
                events[..after].iter().for_each(|event| encoder.encode(event, &mut Vec::new()));
                let mut suffix = Vec::new();
                events[after..].iter().for_each(|event| encoder.encode(event, &mut suffix));
                assert!(suffix == whole[end..], "{} {protocol} after event {after}", golden.name());
            }
        }
    }
}
