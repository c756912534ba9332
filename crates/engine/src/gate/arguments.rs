//! The arguments of a call, read once and strictly: one JSON object, no key twice, within the bounds, of the tool's schema.
//!
//! Refuses everything else. What it says of a fault names places, never values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use causeway_adapter::json::{Json, write_string};
use causeway_contract::json::check_object;
use causeway_contract::limits::Limits;
use causeway_lifecycle::Mismatch;
use sha2::{Digest as _, Sha256};

use crate::schema::ToolSchema;

/// The longest pointer that is told.
const POINTER_CHARS: usize = 200;

/// Arguments that a tool can be run with.
#[derive(Clone, Eq, PartialEq)]
pub struct Arguments {
    /// The text as the worker gave it.
    pub text: String,
    /// What they are, however they are spelled.
    pub print: Print,
}

/// They may hold anything.
impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arguments(<{} bytes>)", self.text.len())
    }
}

/// What tells two arguments apart whatever their spelling: order of keys, white space and the spelling of a number do not
/// count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Print(String);

impl Print {
    /// The print of a JSON text; `None` where it is none.
    pub fn of(text: &str) -> Option<Self> {
        Some(Self::of_json(&Json::parse(text.as_bytes()).ok()?))
    }

    fn of_json(json: &Json<'_>) -> Self {
        let mut text = String::new();
        write(json, &mut text);
        Self(Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// As it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// One that was stored.
    pub fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Why arguments are refused.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// There is no text, or half a character in it.
    #[error("There are no arguments, or they are no text.")]
    Missing,
    /// Above the limit.
    #[error("The arguments have {bytes} bytes; the limit is {limit}.")]
    TooLarge {
        /// Their size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Not one JSON object as the contract has it.
    #[error("The arguments are not one strict JSON object: at {pointer:?}.")]
    NotStrict {
        /// RFC 6901 pointer to the place.
        pointer: String,
    },
    /// A key stands twice.
    #[error("The arguments repeat a key: at {pointer:?}.")]
    Repeated {
        /// RFC 6901 pointer to the second one's object.
        pointer: String,
    },
    /// Not what the schema asks for.
    #[error("The arguments do not satisfy the schema of the tool: {0}.")]
    Schema(Mismatch),
    /// Not what the call was told with.
    #[error("The arguments are not those that the call was told with.")]
    Differ,
}

/// Reads arguments.
///
/// # Errors
/// The first fault.
pub fn read(text: Option<&str>, schema: &ToolSchema, limits: &Limits) -> Result<Arguments, Fault> {
    let text = text.ok_or(Fault::Missing)?;
    if text.len() > limits.arguments_bytes {
        return Err(Fault::TooLarge { bytes: text.len(), limit: limits.arguments_bytes });
    }
    let strict = |pointer: String| Fault::NotStrict { pointer: short(&pointer) };
    check_object(text, limits)
        .map_err(|error| strict(error.pointer().map(|pointer| pointer.to_string()).unwrap_or_default()))?;
    let json = Json::parse(text.as_bytes()).map_err(|_| strict(String::new()))?;
    if let Some(pointer) = repeated(&json) {
        return Err(Fault::Repeated { pointer: short(&pointer) });
    }
    schema.check(text).map_err(Fault::Schema)?;
    Ok(Arguments { text: text.to_owned(), print: Print::of_json(&json) })
}

/// Where an object has a key twice.
fn repeated(json: &Json<'_>) -> Option<String> {
    let inside = |key: &str, value: &Json<'_>| {
        let rest = repeated(value)?;
        Some(format!("/{}{rest}", key.replace('~', "~0").replace('/', "~1")))
    };
    match json {
        Json::Object(members) => {
            let mut seen = HashSet::new();
            if !members.iter().all(|(key, _)| seen.insert(key.lossy().into_owned())) {
                return Some(String::new());
            }
            members.iter().find_map(|(key, value)| inside(&key.lossy(), value))
        }
        Json::Array(items) => items.iter().enumerate().find_map(|(n, item)| inside(&n.to_string(), item)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// Compact JSON, keys in order, numbers in one spelling.
fn write(json: &Json<'_>, out: &mut String) {
    match json {
        Json::Number(text) => out.push_str(&number(text)),
        Json::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<(Cow<'_, str>, &Json<'_>)> =
                members.iter().map(|(key, value)| (key.lossy(), value)).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push('{');
            for (n, (key, value)) in members.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        other @ (Json::Null | Json::Bool(_) | Json::String(_)) => other.write(out),
    }
}

/// Whole numbers keep every digit; others are what a double makes of them.
fn number(text: &str) -> Cow<'_, str> {
    if text == "-0" {
        return "0".into();
    }
    if !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return text.into();
    }
    match text.parse::<f64>() {
        Ok(0.0) => "0".into(),
        // Up to 2^53 a double is exactly the whole number that it is written as.
        Ok(value) if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 => {
            format!("{value:.0}").into()
        }
        Ok(value) => format!("{value:e}").into(),
        Err(_) => text.into(),
    }
}

/// Nothing long, and nothing that steers a terminal.
fn short(pointer: &str) -> String {
    let mut out: String =
        pointer.chars().take(POINTER_CHARS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if pointer.chars().nth(POINTER_CHARS).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let schema =
            r#"{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"]}"#;
        let schema = ToolSchema::compile(schema).unwrap();
        match read(Some(text), &schema, &Limits::DEFAULT) {
            Ok(_) => "fits".to_owned(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn a_fault_names_its_place_and_no_value() {
        assert_eq!(said(r#"{"n":9}"#), "fits");
        assert_eq!(
            said(r#"{"n":4711}"#),
            r#"The arguments do not satisfy the schema of the tool: at "/n" (schema: "/properties/n/maximum")."#
        );
        assert_eq!(said(r#"{"n":1,"n":2}"#), r#"The arguments repeat a key: at ""."#);
        assert_eq!(said(r#"{"n":1,"a":[{"b":1,"\u0062":2}]}"#), r#"The arguments repeat a key: at "/a/0"."#);
        assert!(said(r#"{"n":1,"a":1e400}"#).starts_with("The arguments are not one strict JSON object"));
        assert!(said("hunter2").starts_with("The arguments are not one strict"), "{}", said("hunter2"));
        assert!(!said("hunter2").contains("hunter2"));
    }

    #[test]
    fn a_print_is_that_of_the_value_and_not_of_its_spelling() {
        let same = |one: &str, other: &str| Print::of(one) == Print::of(other);
        assert!(same(r#"{"a":1,"b":[2E3,"x"]}"#, "{ \"b\" : [ 2000.0, \"\\u0078\" ], \"a\": 1.0 }"));
        assert!(same("[-0, 0.0]", "[0, -0e7]"));
        assert!(!same("[9007199254740993]", "[9007199254740992]"));
        assert!(!same("[18446744073709551616]", "[18446744073709551617]"));
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
        assert!(!same(r#"{"a":null}"#, "{}"));
        assert!(!same("[0.1]", "[0.10000000000000001e1]"));
        assert_eq!(Print::of("{"), None);
    }
}
