//! The checked-in JSON Schema: fresh, accepts what the decoder accepts, refuses what it can express.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // tests read their data

mod support;

use causeway_contract::decode::decode_line;
use causeway_contract::{Limits, schema};
use jsonschema::Validator;
use serde_json::{Value, json};

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema::json_schema(&Limits::DEFAULT)).unwrap()
}

#[test]
fn the_checked_in_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/canonical-events-v1.schema.json");
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert!(
        checked_in == schema::json_schema_text(),
        "contract/canonical-events-v1.schema.json differs from the types: run `cargo xtask bless schema`"
    );
}

#[test]
fn the_schema_is_a_valid_schema() {
    assert!(jsonschema::meta::is_valid(&schema::json_schema(&Limits::DEFAULT)));
}

#[test]
fn every_golden_event_and_one_of_each_type_fits_the_schema() {
    let validator = validator();
    for (place, event) in support::golden_events() {
        assert_eq!(validator.validate(&event).map_err(|error| error.to_string()), Ok(()), "{place}");
    }
    for line in support::one_line_each() {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(validator.validate(&event).map_err(|error| error.to_string()), Ok(()), "{line}");
    }
}

/// Every place in an event whose removal, repetition or replacement the contract refuses, the schema refuses too.
#[test]
fn a_mutated_event_fits_neither_the_schema_nor_the_decoder() {
    let validator = validator();
    let mut mutations = 0;
    for line in support::one_line_each() {
        let event: Value = serde_json::from_str(&line).unwrap();
        for mutated in mutations_of(&event) {
            let text = mutated.to_string();
            let decodes = decode_line(text.as_bytes(), &Limits::DEFAULT).is_ok();
            assert_eq!(validator.is_valid(&mutated), decodes, "{text}");
            mutations += usize::from(!decodes);
        }
    }
    assert!(mutations > 500, "{mutations}");
}

fn mutations_of(event: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for prefix in ["", "/data", "/data/thread_state"] {
        let Some(Value::Object(object)) = event.pointer(prefix) else { continue };
        let mut change = |edit: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut mutated = event.clone();
            if let Some(Value::Object(object)) = mutated.pointer_mut(prefix) {
                edit(object);
            }
            all.push(mutated);
        };
        change(&|object| {
            object.insert("surplus".into(), json!(1));
        });
        for key in object.keys() {
            change(&|object| {
                object.remove(key);
            });
            for value in [
                json!(null),
                json!(-1),
                json!(true),
                json!(""),
                json!(" a"),
                json!("\u{0}"),
                json!([1]),
                json!({}),
            ] {
                change(&|object| {
                    object.insert(key.clone(), value.clone());
                });
            }
        }
    }
    all
}
