//! The schemas of bodies. Those of events come from the contract's own schema, definition by definition.
//!
//! Refuses to be stricter than what is answered: free-form JSON is an object and nothing more.

use causeway_engine::engine::Level;
use causeway_store::model::{InterruptStatus, Status};
use serde_json::{Map, Value, json};

use super::named;

/// All of them.
pub fn all() -> Map<String, Value> {
    let mut all = Map::new();
    for (name, schema) in requests().into_iter().chain(answers()).chain(problems()) {
        all.insert(name.to_owned(), schema);
    }
    all.extend(events());
    all
}

/// The contract's schema of an event as `Event`, and its definitions as `event.NAME`.
fn events() -> Map<String, Value> {
    let mut event: Value =
        serde_json::from_str(&causeway_contract::schema::json_schema_text()).unwrap_or_default();
    let mut all = Map::new();
    point_here(&mut event);
    if let Some(members) = event.as_object_mut() {
        for gone in ["$schema", "$id"] {
            members.shift_remove(gone);
        }
        if let Some(Value::Object(definitions)) = members.shift_remove("$defs") {
            for (name, schema) in definitions {
                all.insert(format!("event.{name}"), schema);
            }
        }
    }
    all.insert("Event".to_owned(), event);
    all
}

/// Has the references of a schema of the contract lead to where its definitions are here.
fn point_here(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(point_here),
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get_mut("$ref")
                && let Some(name) = target.strip_prefix("#/$defs/")
            {
                *target = format!("#/components/schemas/event.{name}");
            }
            members.values_mut().for_each(point_here);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

type Named = Vec<(&'static str, Value)>;

fn requests() -> Named {
    let (id, text) = (named("event.id"), json!({"type": "string"}));
    let free = json!({"type": "object"});
    let chat = json!({"enum": ["custom", "agui"]});
    let context = json!({"anyOf": [free, {"type": "null"}]});
    let trace = json!({"anyOf": [{"type": "string", "maxLength": 256}, {"type": "null"}]});
    let turn = |more: Value| {
        let mut members = json!({
            "agent_id": id, "conversation_id": id, "message": text,
            "trace_id": trace, "client_context": context, "files": context,
        });
        if let (Some(members), Value::Object(more)) = (members.as_object_mut(), more) {
            members.extend(more);
        }
        object(&members, &["agent_id", "conversation_id", "message"])
    };
    let decision = json!({"enum": ["approve", "edit", "reject"]});
    vec![
        ("Nothing", json!({"description": "Nothing is read from it; send {}.", "type": "object"})),
        ("ChatStart", turn(json!({"protocol": chat}))),
        ("ChatInvoke", turn(json!({}))),
        (
            "ChatResume",
            object(
                &json!({
                    "agent_id": id, "conversation_id": id, "trace_id": trace, "protocol": chat,
                    "resume_data": {"type": "string", "contentMediaType": "application/json"},
                }),
                &["agent_id", "conversation_id", "resume_data"],
            ),
        ),
        (
            "ChatCancel",
            object(&json!({"agent_id": id, "conversation_id": id}), &["agent_id", "conversation_id"]),
        ),
        (
            "RunStart",
            closed(
                &json!({
                    "agent_id": id, "conversation_id": id, "message": text,
                    "idempotency_key": or_null(&id),
                }),
                &["agent_id", "conversation_id", "message"],
            ),
        ),
        (
            "RunResume",
            json!({
                "type": "object",
                "properties": {
                    "interrupt_id": id,
                    "revision": {"type": "integer", "minimum": 0},
                    "idempotency_key": or_null(&id),
                    "decisions": {"type": "array", "items": closed(
                        &json!({
                            "tool_call_id": id, "decision": decision,
                            "edited_args": context, "message": or_null(&text),
                        }),
                        &["tool_call_id", "decision"],
                    )},
                    "values": free,
                    "dismissed": {"const": true},
                },
                "required": ["interrupt_id", "revision"],
                "oneOf": [{"required": ["decisions"]}, {"required": ["values"]}, {"required": ["dismissed"]}],
                "additionalProperties": false,
            }),
        ),
        (
            "RunAgentInput",
            object(
                &json!({
                    "threadId": id, "runId": id, "protocolVersion": or_null(&text),
                    "messages": {"type": "array"}, "context": {"type": "array"}, "tools": {"type": "array"},
                    "resume": or_null(&named("ClientAnswers")),
                }),
                &["threadId", "runId", "messages"],
            ),
        ),
        (
            "UiMessageInput",
            object(
                &json!({
                    "id": id, "messages": {"type": "array", "minItems": 1}, "trigger": or_null(&text),
                    "resume": or_null(&named("ClientAnswers")),
                }),
                &["id", "messages"],
            ),
        ),
        (
            "ClientAnswers",
            json!({"type": "array", "items": object(
                &json!({"interruptId": text, "status": {"enum": ["resolved", "cancelled"]}}),
                &["interruptId", "status"],
            )}),
        ),
    ]
}

fn answers() -> Named {
    let (id, text, flag) = (named("event.id"), json!({"type": "string"}), json!({"type": "boolean"}));
    let count = json!({"type": "integer", "minimum": 0});
    let time = json!({"type": "string", "format": "date-time"});
    let free = json!({"type": "object"});
    let list = |of: &str| json!({"type": "array", "items": named(of)});
    let waiting = json!({
        "run_id": id, "conversation_id": id, "agent_id": id, "revision": count,
        "expires_at": or_null(&time), "interrupt": named("event.interrupt.requested"),
    });
    let chat = json!({"agent_id": id, "conversation_id": id, "trace_id": or_null(&text)});
    let chat = |more: Value, required: &[&str]| {
        let mut members = more;
        if let (Some(members), Some(chat)) = (members.as_object_mut(), chat.as_object()) {
            members.extend(chat.clone());
        }
        let required = [required, &["agent_id", "conversation_id", "trace_id"]].concat();
        object(&members, &required)
    };
    vec![
        ("Run", run()),
        ("RunPage", closed(&json!({"runs": list("Run"), "next": or_null(&text)}), &["runs", "next"])),
        (
            "EventPage",
            closed(
                &json!({"events": list("Event"), "next_after": or_null(&count), "done": flag}),
                &["events", "next_after", "done"],
            ),
        ),
        (
            "Cancelled",
            closed(&json!({"cancelled": flag, "interrupt_voided": {"const": true}}), &["cancelled"]),
        ),
        ("Cleared", closed(&json!({"cleared": {"const": true}, "epoch": count}), &["cleared", "epoch"])),
        ("Deleted", closed(&json!({"deleted": {"const": true}, "runs": count}), &["deleted", "runs"])),
        (
            "Interrupt",
            closed(
                &waiting,
                &["run_id", "conversation_id", "agent_id", "revision", "expires_at", "interrupt"],
            ),
        ),
        ("InterruptList", closed(&json!({"interrupts": list("Interrupt")}), &["interrupts"])),
        (
            "InterruptState",
            json!({"oneOf": [
                closed(&json!({"pending": {"const": false}}), &["pending"]),
                closed(
                    &json!({
                        "pending": {"const": true}, "run_id": id, "revision": count,
                        "expires_at": or_null(&time), "interrupt": named("event.interrupt.requested"),
                    }),
                    &["pending", "run_id", "revision", "expires_at", "interrupt"],
                ),
            ]}),
        ),
        ("Finding", finding(&json!({"rule": text, "type": or_null(&text)}), &["rule"])),
        ("Oddity", finding(&json!({"code": text}), &["code"])),
        (
            "Findings",
            closed(
                &json!({"violations": list("Finding"), "warnings": list("Oddity")}),
                &["violations", "warnings"],
            ),
        ),
        (
            "CheckReport",
            closed(
                &json!({
                    "file": text, "events": count, "valid": flag, "violations": list("Finding"),
                    "warnings": list("Oddity"), "notes": {"type": "array", "items": text},
                }),
                &["file", "events", "valid", "violations", "warnings", "notes"],
            ),
        ),
        (
            "ChatCancelled",
            object(
                &json!({"success": {"const": true}, "cancelled": flag, "agent_id": id, "conversation_id": id}),
                &["success", "cancelled", "agent_id", "conversation_id"],
            ),
        ),
        (
            "ChatAnswer",
            chat(
                json!({"success": {"const": true}, "content": text, "thinking": or_null(&text)}),
                &["success", "content", "thinking"],
            ),
        ),
        (
            "ChatFailure",
            chat(
                json!({"success": {"const": false}, "error": text, "interrupt_type": or_null(&text)}),
                &["success", "error"],
            ),
        ),
        (
            "RuleList",
            closed(
                &json!({"rules": {"type": "array", "items": closed(
                    &json!({
                        "id": text, "kind": {"enum": ["rule", "warning"]}, "title": text, "explanation": text,
                        "accepted": text, "rejected": or_null(&text),
                    }),
                    &["id", "kind", "title", "explanation", "accepted", "rejected"],
                )}}),
                &["rules"],
            ),
        ),
        ("HarnessList", closed(&json!({"harnesses": list("Harness")}), &["harnesses"])),
        (
            "Harness",
            object(
                &json!({
                    "harness_id": id, "title": text, "aliases": {"type": "array", "items": text},
                    "capabilities": named("Capabilities"), "notes": free, "recordings": free,
                }),
                &["harness_id", "title", "aliases", "capabilities", "notes", "recordings"],
            ),
        ),
        ("Capabilities", json!({"type": "object", "additionalProperties": {"enum": levels()}})),
        ("AgentList", closed(&json!({"agents": list("Agent")}), &["agents"])),
        (
            "Agent",
            object(
                &json!({
                    "agent_id": id, "name": id, "harness_id": id,
                    "thread": {"enum": ["durable", "ephemeral"]},
                    "driver": {"enum": ["process", "http", "recording", "custom"]},
                    "on_disconnect": {"enum": ["continue", "cancel"]},
                    "deadline_seconds": count, "idle_timeout_seconds": count, "allow_files": flag,
                    "capabilities": named("Capabilities"),
                }),
                &["agent_id", "name", "harness_id", "thread", "driver", "on_disconnect"],
            ),
        ),
        (
            "ServerSentEvent",
            json!({
                "description": "Each event of the stream, as the stream format has it.",
                "type": "object",
                "properties": {"event": text, "data": text, "id": text},
            }),
        ),
        ("Live", closed(&json!({"status": {"const": "ok"}}), &["status"])),
        (
            "Ready",
            closed(
                &json!({"ready": flag, "failed": {"type": "array", "items": closed(
                    &json!({"part": text, "code": text, "message": text}),
                    &["part", "code", "message"],
                )}}),
                &["ready", "failed"],
            ),
        ),
        ("Document", object(&json!({"openapi": {"const": "3.1.1"}}), &["openapi", "info", "paths"])),
    ]
}

fn run() -> Value {
    let (id, text) = (named("event.id"), json!({"type": "string"}));
    let time = json!({"type": "string", "format": "date-time"});
    let statuses: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let interrupts: Vec<&str> = InterruptStatus::ALL.iter().map(|status| status.as_str()).collect();
    closed(
        &json!({
            "run_id": id, "conversation_id": id, "agent_id": id, "harness_id": named("event.harness_id"),
            "status": {"enum": statuses},
            "created_at": time, "ended_at": or_null(&time), "expired_at": time,
            "last_sequence": {"type": "integer", "minimum": 0},
            "request": {"type": "object"},
            "error": named("event.run.error"),
            "uncertain": closed(
                &json!({"cause": or_null(&text), "happened": text, "next": text}),
                &["cause", "happened", "next"],
            ),
            "interrupt": closed(
                &json!({
                    "interrupt_id": id, "interrupt_type": {"enum": ["form_input", "tool_approval"]},
                    "revision": {"type": "integer", "minimum": 0}, "status": {"enum": interrupts},
                    "expires_at": or_null(&time), "decision": {"type": "object"},
                }),
                &["interrupt_id", "interrupt_type", "revision", "status", "expires_at"],
            ),
            "resumed_from": id, "resumed_by": id,
            "seed": {"type": "object"},
            "usage": named("event.usage.updated"),
        }),
        &[
            "run_id",
            "conversation_id",
            "agent_id",
            "harness_id",
            "status",
            "created_at",
            "ended_at",
            "last_sequence",
            "request",
        ],
    )
}

fn problems() -> Named {
    let text = json!({"type": "string"});
    let error = closed(
        &json!({"code": text, "message": text, "request_id": text}),
        &["code", "message", "request_id"],
    );
    let refusal = closed(
        &json!({"success": {"const": false}, "error": text, "code": text, "reason": text, "action": text}),
        &["success", "error", "code", "reason", "action"],
    );
    let fault = closed(
        &json!({"type": text, "loc": {"type": "array", "items": text}, "msg": text}),
        &["type", "loc", "msg"],
    );
    let time = json!({"type": "string", "format": "date-time"});
    let statuses: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let remains = closed(
        &json!({
            "run_id": named("event.id"), "status": {"enum": statuses},
            "created_at": time, "ended_at": or_null(&time), "expired_at": time,
            "last_sequence": {"type": "integer", "minimum": 0}, "error_code": or_null(&text),
        }),
        &["run_id", "status", "created_at", "ended_at", "expired_at", "last_sequence", "error_code"],
    );
    vec![
        ("Expired", closed(&json!({"error": error, "run": remains}), &["error", "run"])),
        ("Problem", closed(&json!({"error": error}), &["error"])),
        ("EstablishedProblem", closed(&json!({"detail": text}), &["detail"])),
        (
            "EstablishedUnauthorized",
            closed(
                &json!({"error": text, "code": text, "reason": text, "action": text}),
                &["error", "code", "reason", "action"],
            ),
        ),
        ("EstablishedRefusal", closed(&json!({"detail": refusal}), &["detail"])),
        ("EstablishedInvalid", closed(&json!({"detail": {"type": "array", "items": fault}}), &["detail"])),
    ]
}

fn finding(more: &Value, required: &[&str]) -> Value {
    let number = json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]});
    let text = json!({"type": "string"});
    let mut members = json!({"index": number, "line": number, "sequence": number, "message": text, "pointer": or_null(&text)});
    if let (Some(members), Some(more)) = (members.as_object_mut(), more.as_object()) {
        members.extend(more.clone());
    }
    let required = [&["index", "line", "sequence", "message", "pointer"], required].concat();
    closed(&members, &required)
}

fn levels() -> Vec<&'static str> {
    [Level::Native, Level::Emulated, Level::Unsupported, Level::Unavailable].map(Level::as_str).into()
}

/// An object whose further members are passed over.
fn object(members: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": members, "required": required})
}

/// An object without further members.
fn closed(members: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": members, "required": required, "additionalProperties": false})
}

fn or_null(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}
