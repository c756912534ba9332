//! What may be said about a provider: the allowlist of decisions §6, and why a model stopped in one vocabulary.

use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use crate::json::{Json, write_string};
use crate::redact::redact;
use crate::text;

/// The keys that may be shown.
const KEYS: &[&str] = &[
    "response_id",
    "service_tier",
    "region",
    "finish_reason",
    "system_fingerprint",
    "latency_ms",
    "time_to_first_token_ms",
    "cache_write_tokens",
    "reasoning_tokens",
    "retries",
];

/// The longest string that is admitted.
const MAX_VALUE: usize = 256;

/// The `metadata` of a `provider.metadata` event while it is put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admitted(String);

impl Admitted {
    /// Adds a scalar under a key of the allowlist; anything else stays out.
    pub(crate) fn put(&mut self, key: &'static str, value: &Json<'_>) {
        debug_assert!(KEYS.contains(&key), "{key} is not on the allowlist");
        let shown = match value {
            Json::String(text) => {
                let mut shown = String::new();
                let text = text.lossy();
                write_string(&text::cut(&redact(&text), MAX_VALUE), &mut shown);
                shown
            }
            Json::Number(number) => (*number).to_owned(),
            Json::Bool(_) => value.to_text(),
            Json::Null | Json::Array(_) | Json::Object(_) => return,
        };
        if !KEYS.contains(&key) {
            return;
        }
        self.0.push_str(if self.0.is_empty() { "{\"" } else { ",\"" });
        self.0.push_str(key);
        self.0.push_str("\":");
        self.0.push_str(&shown);
    }

    /// What may be shown of an object.
    pub(crate) fn of(given: &JsonObject<'_>, limits: &Limits) -> JsonObject<'static> {
        let mut admitted = Self::default();
        if let Ok(given) = Json::parse(given.as_str().as_bytes()) {
            for key in KEYS {
                if let Some(value) = given.get(key) {
                    admitted.put(key, value);
                }
            }
        }
        admitted.into_object(limits)
    }

    /// The object.
    pub(crate) fn into_object(mut self, limits: &Limits) -> JsonObject<'static> {
        if self.0.is_empty() {
            return JsonObject::EMPTY;
        }
        self.0.push('}');
        JsonObject::parse(self.0, limits).unwrap_or(JsonObject::EMPTY)
    }
}

/// Why a run stopped, in one vocabulary for all providers.
pub(crate) fn stop_reason(native: Option<&str>) -> &'static str {
    match native.map(str::to_ascii_lowercase).as_deref() {
        Some("length" | "max_tokens" | "max_output_tokens" | "model_length") => "max_tokens",
        Some("content_filter" | "safety" | "refusal") => "refusal",
        Some(_) | None => "end_turn",
    }
}
