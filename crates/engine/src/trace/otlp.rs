//! Spans as the body of an OTLP/HTTP request, in JSON.

use super::context::hex;
use super::{Ended, Value};

/// `ExportTraceServiceRequest`.
pub(super) fn body(spans: &[Ended]) -> Vec<u8> {
    let spans: Vec<serde_json::Value> = spans.iter().map(span).collect();
    let resource = [
        attribute("service.name", &Value::from("causeway")),
        attribute("service.version", &Value::from(VERSION)),
    ];
    serde_json::json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "causeway", "version": VERSION}, "spans": spans}],
    }]})
    .to_string()
    .into_bytes()
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn span(ended: &Ended) -> serde_json::Value {
    let attributes: Vec<_> = ended.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    serde_json::json!({
        "traceId": ended.context.trace_id(),
        "spanId": ended.context.span_id(),
        "parentSpanId": ended.parent.map(|parent| hex(&parent)).unwrap_or_default(),
        "name": ended.name,
        "kind": if ended.server { 2 } else { 1 },
        // 64-bit numbers are strings in the JSON form of protocol buffers.
        "startTimeUnixNano": ended.start.to_string(),
        "endTimeUnixNano": ended.end.to_string(),
        "attributes": attributes,
        "status": {"code": if ended.failed { 2 } else { 0 }},
    })
}

fn attribute(key: &str, value: &Value) -> serde_json::Value {
    let value = match value {
        Value::Text(text) => serde_json::json!({"stringValue": text}),
        Value::Number(number) => serde_json::json!({"intValue": number.to_string()}),
    };
    serde_json::json!({"key": key, "value": value})
}
