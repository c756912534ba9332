//! JSON Schemas of tools: compiled once, asked for edited arguments (decisions §6) and for streamed ones (§3).
//!
//! Refuses references to other documents, patterns that could take long, and schemas above a size or a depth. What it
//! says of arguments names places, never values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_lifecycle::{Mismatch, ToolSchemas};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The largest schema, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;
/// The largest compiled pattern, in bytes.
const PATTERN_BYTES: usize = 256 * 1024;
/// The longest pointer that is told.
const POINTER_CHARS: usize = 200;

/// Why a schema cannot be used. For operators: it may quote the schema, which is theirs.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SchemaFault {
    /// Above [`MAX_BYTES`].
    #[error("has {bytes} bytes, the limit is {MAX_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not one JSON object of at most 64 levels.
    #[error("is not one JSON object of at most 64 levels: {what}")]
    NotJson {
        /// What is wrong.
        what: String,
    },
    /// Not a schema, or one that refers to another document, or with a pattern that is refused.
    #[error("at {pointer:?}: {what}")]
    Invalid {
        /// RFC 6901 pointer into the schema.
        pointer: String,
        /// What is wrong.
        what: String,
    },
}

/// The schema of a tool's arguments, ready to be asked.
pub struct ToolSchema {
    text: Box<str>,
    validator: Validator,
}

/// Of the same text.
impl PartialEq for ToolSchema {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for ToolSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolSchema")
    }
}

impl ToolSchema {
    /// Compiles the text of a JSON Schema, draft 2020-12 unless its `$schema` names another.
    ///
    /// # Errors
    /// It cannot be used, with the place in it.
    pub fn compile(text: &str) -> Result<Self, SchemaFault> {
        if text.len() > MAX_BYTES {
            return Err(SchemaFault::TooLarge { bytes: text.len() });
        }
        let not_json = |what: String| SchemaFault::NotJson { what };
        JsonObject::parse(text.trim(), &Limits::DEFAULT).map_err(|fault| not_json(fault.to_string()))?;
        let schema: Value = serde_json::from_str(text).map_err(|fault| not_json(fault.to_string()))?;
        // Linear in the text that is matched, whatever the pattern.
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = options.build(&schema).map_err(|fault| SchemaFault::Invalid {
            pointer: short(fault.instance_path().as_str()),
            what: shortened(&fault.to_string(), 2 * POINTER_CHARS),
        })?;
        Ok(Self { text: text.into(), validator })
    }

    /// Whether `arguments`, one JSON object, satisfy it.
    ///
    /// # Errors
    /// The first place where they do not.
    pub fn check(&self, arguments: &str) -> Result<(), Mismatch> {
        // Deeper than this parser goes: nothing can be said for it.
        let unread = |_| Mismatch { pointer: String::new(), rule: String::new() };
        let arguments: Value = serde_json::from_str(arguments).map_err(unread)?;
        self.validator.validate(&arguments).map_err(|fault| Mismatch {
            pointer: short(fault.instance_path().as_str()),
            rule: short(fault.schema_path().as_str()),
        })
    }
}

/// The schemas of an agent's tools, by tool name.
#[derive(Clone, Default, PartialEq)]
pub struct Schemas(Arc<BTreeMap<String, Arc<ToolSchema>>>);

/// Names of tools only.
impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, ToolSchema)> for Schemas {
    fn from_iter<I: IntoIterator<Item = (String, ToolSchema)>>(tools: I) -> Self {
        Self(Arc::new(tools.into_iter().map(|(tool, schema)| (tool, Arc::new(schema))).collect()))
    }
}

impl Schemas {
    /// Whether no tool has one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The schema of a tool.
    pub fn schema(&self, tool: &str) -> Option<Arc<ToolSchema>> {
        self.0.get(tool).cloned()
    }

    /// The tools that have one.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl ToolSchemas for Schemas {
    fn check(&self, tool_name: &str, arguments: &str) -> Result<(), Mismatch> {
        self.0.get(tool_name).map_or(Ok(()), |schema| schema.check(arguments))
    }
}

fn short(pointer: &str) -> String {
    shortened(pointer, POINTER_CHARS)
}

fn shortened(text: &str, chars: usize) -> String {
    let mut out: String = text.chars().take(chars).flat_map(safe).collect();
    if text.chars().nth(chars).is_some() {
        out.push('…');
    }
    out
}

/// Nothing that steers a terminal or breaks a line.
fn safe(c: char) -> impl Iterator<Item = char> {
    let kept = !c.is_control()
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    std::iter::once(if kept { c } else { '\u{fffd}' })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = r##"{
        "type": "object",
        "required": ["name"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$"},
            "limits": {"type": "array", "items": {"$ref": "#/$defs/limit"}}
        },
        "$defs": {"limit": {"type": "object", "properties": {"seconds": {"type": "integer", "maximum": 60}}}}
    }"##;

    fn told(schema: &str, arguments: &str) -> String {
        let schema = ToolSchema::compile(schema).unwrap();
        schema.check(arguments).map_or_else(|mismatch| mismatch.to_string(), |()| "fits".to_owned())
    }

    fn fault(schema: &str) -> String {
        ToolSchema::compile(schema).unwrap_err().to_string()
    }

    #[test]
    fn a_mismatch_names_places_and_no_value() {
        for (arguments, expected) in [
            (r#"{"name":"api"}"#, "fits"),
            (r#"{"name":"api","limits":[{"seconds":60}]}"#, "fits"),
            (
                r#"{"name":"api","limits":[{"seconds":1},{"seconds":6100}]}"#,
                r#"at "/limits/1/seconds" (schema: "/$defs/limit/properties/seconds/maximum")"#,
            ),
            (r#"{"name":"hunter2"}"#, r#"at "/name" (schema: "/properties/name/pattern")"#),
            ("{}", r#"at "" (schema: "/required")"#),
            (r#"{"name":"api","secret":1}"#, r#"at "" (schema: "/additionalProperties")"#),
        ] {
            let said = told(SERVICE, arguments);
            assert!(
                said == expected || said == expected.replace("/items/$ref/", "/items/"),
                "{arguments}: {said}"
            );
            assert!(
                !said.contains("6100") && !said.contains("hunter2") && !said.contains("secret"),
                "{said}"
            );
        }
    }

    #[test]
    fn the_draft_is_2020_12_unless_the_schema_names_another() {
        // `prefixItems` is new in 2020-12; in draft 7 it says nothing.
        let tuple = r#""properties":{"a":{"prefixItems":[{"type":"string"}]}}"#;
        assert_eq!(
            told(&format!("{{{tuple}}}"), r#"{"a":[1]}"#),
            r#"at "/a/0" (schema: "/properties/a/prefixItems/0/type")"#
        );
        let old = format!(r#"{{"$schema":"http://json-schema.org/draft-07/schema#",{tuple}}}"#);
        assert_eq!(told(&old, r#"{"a":[1]}"#), "fits");
    }

    #[test]
    fn what_cannot_be_a_schema_is_refused_with_its_place() {
        assert!(fault("[]").starts_with("is not one JSON object"), "{}", fault("[]"));
        assert!(fault("{").starts_with("is not one JSON object"));
        let deep = format!("{}1{}", r#"{"not":"#.repeat(65), "}".repeat(65));
        assert!(fault(&deep).starts_with("is not one JSON object of at most 64 levels"));
        let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(MAX_BYTES));
        assert_eq!(fault(&large), format!("has {} bytes, the limit is {MAX_BYTES}", large.len()));
        for (schema, place) in [
            (r#"{"type":"objekt"}"#, r#"at "/type": "#),
            (r#"{"properties":{"n":{"maximum":"9"}}}"#, r#"at "/properties/n/maximum": "#),
            (r#"{"properties":{"n":{"pattern":"("}}}"#, r#"at "/properties/n/pattern": "#),
        ] {
            assert!(fault(schema).starts_with(place), "{}", fault(schema));
        }
    }

    #[test]
    fn nothing_is_fetched_and_no_pattern_takes_long() {
        for schema in [
            r#"{"$ref":"https://example.com/schema.json"}"#,
            r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#,
            r#"{"properties":{"a":{"$ref":"other.json"}}}"#,
            r#"{"$schema":"https://example.com/meta.json"}"#,
        ] {
            assert!(ToolSchema::compile(schema).is_err(), "{schema}");
        }
        // A backtracking engine would need 2^40 steps.
        let slow = r#"{"properties":{"a":{"pattern":"^(a+)+$"}}}"#;
        let arguments = format!(r#"{{"a":"{}!"}}"#, "a".repeat(40_000));
        assert_eq!(told(slow, &arguments), r#"at "/a" (schema: "/properties/a/pattern")"#);
        assert!(ToolSchema::compile(r#"{"properties":{"a":{"pattern":"((a{500}){500}){500}"}}}"#).is_err());
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        for schema in [
            r##"{"$ref":"#"}"##,
            r##"{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]}}}"##,
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}}}"##,
            r##"{"$dynamicRef":"#node","$dynamicAnchor":"node"}"##,
        ] {
            if let Ok(schema) = ToolSchema::compile(schema) {
                let _either = schema.check(r#"{"a":{"b":[1]}}"#);
            }
        }
        let tree = r##"{"properties":{"child":{"$ref":"#"},"n":{"type":"integer"}}}"##;
        assert_eq!(told(tree, r#"{"child":{"child":{"n":1}}}"#), "fits");
        assert!(told(tree, r#"{"child":{"child":{"n":"x"}}}"#).starts_with(r#"at "/child/child/n""#));
    }
}
