//! The contract as JSON Schema (draft 2020-12), generated from the types and the limits.
//!
//! Refuses to promise more than a schema can say: lengths count characters where the contract counts bytes, and order,
//! depth, repeated keys and number spelling are beyond it. A line that the schema refuses is no event; one that it
//! accepts may still not be.

use serde_json::{Map, Value, json};

use crate::event::{
    CancelReason, Decision, Durability, EventType, InterruptReason, NamespaceOutcome, Sequence,
    SideEffectStatus,
};
use crate::id::{CODE_PATTERN, HARNESS_PATTERN};
use crate::limits::Limits;

/// The schema of one event under these limits.
pub fn json_schema(limits: &Limits) -> Value {
    let types: Vec<&str> = EventType::ALL.iter().map(|event_type| event_type.as_str()).collect();
    let branches: Vec<Value> = EventType::ALL
        .iter()
        .map(|event_type| {
            json!({
                "if": { "properties": { "type": { "const": event_type.as_str() } } },
                "then": { "properties": { "data": { "$ref": format!("#/$defs/{event_type}") } } },
            })
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:causeway:canonical-events-v1",
        "title": "Canonical Lifecycle Events v1",
        "description": "One event. Lengths are counted in characters here and in bytes by the contract; JSON depth, \
            repeated keys and the rules R01 to R15 are not expressed.",
        "type": "object",
        "properties": {
            "version": { "type": "integer", "const": 1 },
            "type": { "enum": types },
            "run_id": reference("id"),
            "conversation_id": reference("id"),
            "sequence": { "type": "integer", "minimum": 0, "maximum": Sequence::MAX.value() },
            "timestamp": {
                "type": "string",
                "format": "date-time",
                "pattern": "^\\d{4}-\\d{2}-\\d{2}[Tt]\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,64})?([Zz]|[+-]\\d{2}:\\d{2})$",
            },
            "namespace": { "type": "array", "items": reference("id"), "maxItems": limits.namespace_depth },
            "data": { "type": "object" },
        },
        "required": ["version", "type", "run_id", "conversation_id", "sequence", "timestamp", "namespace", "data"],
        "additionalProperties": false,
        "allOf": branches,
        "$defs": definitions(limits),
    })
}

/// The schema under the default limits, as the checked-in file has it.
pub fn json_schema_text() -> String {
    format!("{:#}\n", json_schema(&Limits::DEFAULT))
}

fn definitions(limits: &Limits) -> Value {
    let mut definitions = Map::new();
    definitions.insert("id".into(), id(limits));
    definitions.insert("code".into(), json!({ "type": "string", "pattern": CODE_PATTERN }));
    definitions.insert("harness_id".into(), json!({ "type": "string", "pattern": HARNESS_PATTERN }));
    definitions.insert("count".into(), json!({ "type": "integer", "minimum": 0 }));
    definitions.insert("amount".into(), json!({ "type": "number", "minimum": 0 }));
    definitions.insert("side_effect_status".into(), one_of(SideEffectStatus::ALL, |value| value.as_str()));
    definitions.insert("own_words".into(), own_words(limits));
    for event_type in EventType::ALL {
        definitions.insert(event_type.as_str().into(), payload(*event_type, limits));
    }
    Value::Object(definitions)
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Ids and names: bounded, no control characters, no space at either end (decisions §5, §7).
fn id(limits: &Limits) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": limits.id_bytes,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069]+$",
        "not": { "pattern": "^\\s|\\s$" },
    })
}

/// Free text: bounded, no U+0000.
fn content(max: usize) -> Value {
    json!({ "type": "string", "maxLength": max, "pattern": "^[^\\u0000]*$" })
}

/// Sentences that the gateway wrote: no control characters at all.
fn own_words(limits: &Limits) -> Value {
    json!({ "type": "string", "maxLength": limits.message_bytes, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" })
}

fn one_of<T: Copy>(values: &[T], spelling: impl Fn(T) -> &'static str) -> Value {
    json!({ "enum": values.iter().map(|value| spelling(*value)).collect::<Vec<_>>() })
}

fn boolean() -> Value {
    json!({ "type": "boolean" })
}

fn free_object(max_keys: Option<usize>) -> Value {
    match max_keys {
        Some(max) => json!({ "type": "object", "maxProperties": max }),
        None => json!({ "type": "object" }),
    }
}

/// Whether a field must be there.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Need {
    Required,
    /// May be absent or null.
    Optional,
}
use Need::{Optional, Required};

/// An object whose fields are fixed.
fn closed(fields: Vec<(&str, Need, Value)>) -> Value {
    let required: Vec<&str> =
        fields.iter().filter(|(_, need, _)| *need == Required).map(|(name, _, _)| *name).collect();
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|(name, need, schema)| {
            let schema = match need {
                Required => schema,
                Optional => json!({ "anyOf": [schema, { "type": "null" }] }),
            };
            (name.to_owned(), schema)
        })
        .collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn payload(event_type: EventType, limits: &Limits) -> Value {
    let id = || reference("id");
    let message_id = || ("message_id", Required, id());
    let tool_call_id = || ("tool_call_id", Required, id());
    let assistant = || json!({ "const": "assistant" });
    let side_effects = || ("side_effect_status", Required, reference("side_effect_status"));
    let delta = || ("delta", Required, content(limits.delta_bytes));
    match event_type {
        EventType::RunStarted => closed(vec![
            ("message_id", Optional, id()),
            ("harness_id", Required, reference("harness_id")),
            ("adapter_version", Required, id()),
            ("provider_run_id", Optional, id()),
        ]),
        EventType::RunFinished => closed(vec![
            ("outcome", Required, json!({ "const": "success" })),
            ("stop_reason", Optional, content(limits.message_bytes)),
            ("thread_state", Optional, thread_state()),
        ]),
        EventType::RunInterrupted => closed(vec![
            ("interrupt_id", Required, id()),
            ("reason", Required, one_of(InterruptReason::ALL, InterruptReason::as_str)),
        ]),
        EventType::RunCancelled => closed(vec![
            ("reason", Required, one_of(CancelReason::ALL, CancelReason::as_str)),
            side_effects(),
        ]),
        EventType::RunError => closed(vec![
            ("code", Required, reference("code")),
            ("message", Required, reference("own_words")),
            ("retryable", Required, boolean()),
            ("retry_after_seconds", Optional, reference("amount")),
            side_effects(),
        ]),
        EventType::TextStarted => closed(vec![message_id(), ("role", Required, assistant())]),
        EventType::ReasoningStarted => closed(vec![message_id(), ("role", Optional, assistant())]),
        EventType::TextDelta | EventType::ReasoningDelta => closed(vec![message_id(), delta()]),
        EventType::TextFinished | EventType::ReasoningFinished => closed(vec![message_id()]),
        EventType::ToolStarted => closed(vec![
            tool_call_id(),
            ("tool_name", Required, id()),
            ("arguments", Required, free_object(None)),
            ("parent_message_id", Optional, id()),
        ]),
        EventType::ToolArgumentsDelta => closed(vec![tool_call_id(), delta()]),
        EventType::ToolFinished => closed(vec![
            tool_call_id(),
            ("result", Required, content(limits.result_bytes)),
            ("result_ref", Optional, id()),
        ]),
        EventType::ToolError => closed(vec![
            tool_call_id(),
            ("code", Required, reference("code")),
            ("message", Required, content(limits.tool_error_bytes)),
            ("retryable", Required, boolean()),
        ]),
        EventType::InterruptRequested => json!({ "oneOf": [form(limits), approvals(limits)] }),
        EventType::NamespaceEntered => closed(vec![
            ("agent_id", Required, id()),
            ("agent_name", Required, id()),
            ("parent_tool_call_id", Required, id()),
        ]),
        EventType::NamespaceExited => closed(vec![
            ("agent_id", Required, id()),
            ("parent_tool_call_id", Required, id()),
            ("outcome", Required, one_of(NamespaceOutcome::ALL, NamespaceOutcome::as_str)),
        ]),
        EventType::Warning => closed(vec![
            ("code", Required, reference("code")),
            ("message", Required, reference("own_words")),
            ("details", Optional, free_object(Some(limits.details_keys))),
        ]),
        EventType::UsageUpdated => closed(vec![
            ("input_tokens", Optional, reference("count")),
            ("output_tokens", Optional, reference("count")),
            ("cached_input_tokens", Optional, reference("count")),
            ("cost", Optional, reference("amount")),
            ("currency", Optional, json!({ "type": "string", "pattern": "^[A-Z]{3}$" })),
            ("final", Required, boolean()),
        ]),
        EventType::ProviderMetadata => closed(vec![
            ("provider", Required, id()),
            ("model", Required, id()),
            ("metadata", Required, metadata(limits)),
        ]),
    }
}

fn thread_state() -> Value {
    closed(vec![
        ("durability", Required, one_of(Durability::ALL, Durability::as_str)),
        ("durable_revision", Required, reference("count")),
        ("head_ref", Required, reference("id")),
    ])
}

fn metadata(limits: &Limits) -> Value {
    json!({
        "type": "object",
        "maxProperties": limits.details_keys,
        "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
    })
}

fn form(limits: &Limits) -> Value {
    let field = json!({
        "type": "object",
        "properties": {
            "field_name": reference("id"),
            "field_type": reference("id"),
            "required": { "type": ["boolean", "null"] },
        },
        "required": ["field_name", "field_type"],
    });
    closed(vec![
        ("interrupt_id", Required, reference("id")),
        ("interrupt_type", Required, json!({ "const": "form_input" })),
        ("agent_id", Required, reference("id")),
        ("prompt", Required, content(limits.prompt_bytes)),
        ("fields", Required, json!({ "type": "array", "items": field, "maxItems": limits.form_fields })),
    ])
}

fn approvals(limits: &Limits) -> Value {
    let decisions =
        json!({ "type": "array", "items": one_of(Decision::ALL, Decision::as_str), "uniqueItems": true });
    let approval = closed(vec![
        ("tool_call_id", Required, reference("id")),
        ("tool_name", Required, reference("id")),
        ("tool_args", Required, free_object(None)),
        ("allowed_decisions", Required, decisions),
    ]);
    closed(vec![
        ("interrupt_id", Required, reference("id")),
        ("interrupt_type", Required, json!({ "const": "tool_approval" })),
        ("agent_id", Required, reference("id")),
        (
            "tool_approvals",
            Required,
            json!({ "type": "array", "items": approval, "minItems": 1, "maxItems": limits.approvals }),
        ),
    ])
}
