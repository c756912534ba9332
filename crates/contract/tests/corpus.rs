//! Every canonical line of the shared goldens and cases: accepted ones decode, and their canonical form is stable.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // tests read their data

mod support;

use causeway_contract::Limits;
use causeway_contract::decode::{Parts, decode_line, decode_parts};
use serde_json::Value;

use crate::support::{golden_events, json_files, one_line_each, to_json};

/// The event decodes, is canonical after one round, and survives being stored in parts.
fn assert_round_trip(context: &str, line: &str) {
    let limits = Limits::DEFAULT;
    let event =
        decode_line(line.as_bytes(), &limits).unwrap_or_else(|error| panic!("{context}: {error:?}\n{line}"));
    event.check(&limits).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let canonical = to_json(&event);
    assert_eq!(canonical.len(), event.encoded_len(), "{context}");
    let again = decode_line(canonical.as_bytes(), &limits).unwrap();
    assert_eq!(to_json(&again), canonical, "{context}");
    assert_eq!(to_json(&again.clone().into_owned()), canonical, "{context}");

    let timestamp = again.timestamp.to_string();
    let (mut namespace, mut data) = (Vec::new(), Vec::new());
    again.namespace.write_json(&mut namespace);
    again.data.write_json(&mut data);
    let parts = Parts {
        run_id: again.run_id.as_str(),
        conversation_id: again.conversation_id.as_str(),
        sequence: again.sequence.value(),
        timestamp: &timestamp,
        namespace_json: std::str::from_utf8(&namespace).unwrap(),
        event_type: again.data.event_type().as_str(),
        data_json: std::str::from_utf8(&data).unwrap(),
    };
    assert_eq!(to_json(&decode_parts(&parts, &limits).unwrap()), canonical, "{context}");
}

#[test]
fn every_golden_event_decodes_and_is_stable() {
    let events = golden_events();
    assert!(events.len() > 300, "{}", events.len());
    for (place, event) in events {
        assert_round_trip(&place, &event.to_string());
    }
}

#[test]
fn one_line_of_every_type_is_already_canonical() {
    for line in one_line_each() {
        assert_round_trip("one of each", &line);
        assert_eq!(to_json(&decode_line(line.as_bytes(), &Limits::DEFAULT).unwrap()), line);
    }
}

#[test]
fn the_canonical_cases_decode_up_to_the_line_that_is_at_fault() {
    let mut refused = Vec::new();
    for (name, case) in json_files("cases") {
        if case["input_kind"] != "canonical_jsonl" {
            continue;
        }
        for (index, element) in case["input"].as_array().unwrap().iter().enumerate() {
            let line = line_of(element);
            if let Err(error) = decode_line(line.as_bytes(), &Limits::DEFAULT) {
                assert_eq!(case["expect"]["at_index"], index, "{name}: {error:?}");
                let check = Value::from(error.check().as_str());
                let also = case["expect"]["rule_also_accepted"].as_array().cloned().unwrap_or_default();
                assert!(case["expect"]["rule"] == check || also.contains(&check), "{name}: {error:?}");
                refused.push(name.clone());
            } else {
                assert_round_trip(&format!("{name}[{index}]"), &line);
            }
        }
    }
    let named = |id: &str| refused.iter().any(|name| name.starts_with(id));
    assert!(named("B59") && named("B65"), "{refused:?}");
}

/// The line that an element of a case's `input` stands for.
fn line_of(element: &Value) -> String {
    match element {
        Value::String(text) => text.clone(),
        Value::Object(object) if object.contains_key("$fill") => {
            let mut line = object["line"].clone();
            for (pointer, fill) in object["$fill"].as_object().unwrap() {
                let times = usize::try_from(fill["times"].as_u64().unwrap()).unwrap();
                *line.pointer_mut(pointer).unwrap() =
                    Value::String(fill["text"].as_str().unwrap().repeat(times));
            }
            line.to_string()
        }
        other => other.to_string(),
    }
}
