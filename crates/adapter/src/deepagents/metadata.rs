//! What a provider says beside its text: the allowlist of decisions §6, and why the model stopped.

use causeway_contract::event::ProviderMetadata;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use crate::json::Json;
use crate::metadata::{Admitted, stop_reason};
use crate::text;

/// What was learned about the provider of a run.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// Why the root's last model call stopped.
    finish: Option<String>,
    /// Response ids that came with a first piece, by native checkpoint.
    responses: Vec<(String, String)>,
}

/// Model calls whose first piece is remembered at once.
const MAX_RESPONSES: usize = 256;

impl Provider {
    /// Learns from one piece; gives the event once the piece is a call's last.
    pub(super) fn learn(
        &mut self,
        message: &Json<'_>,
        metadata: Option<&Json<'_>>,
        root: bool,
        limits: &Limits,
    ) -> Option<ProviderMetadata<'static>> {
        let response = message.get("response_metadata");
        let place = metadata.and_then(|m| m.str("langgraph_checkpoint_ns")).map(|p| p.lossy().into_owned());
        let place = place.unwrap_or_default();
        if let Some(id) = response.and_then(|r| r.str("id")) {
            self.responses.retain(|(at, _)| *at != place);
            if self.responses.len() < MAX_RESPONSES {
                self.responses.push((place.clone(), id.lossy().into_owned()));
            }
        }
        let finish = response.and_then(|r| r.str("finish_reason").or_else(|| r.str("stop_reason")));
        if root && let Some(finish) = finish {
            self.finish = Some(finish.lossy().into_owned());
        }
        let last = finish.is_some() || message.text("chunk_position") == Some("last");
        if !last {
            return None;
        }
        let id =
            self.responses.iter().position(|(at, _)| *at == place).map(|at| self.responses.swap_remove(at).1);
        let metadata = metadata?;
        let provider = metadata.str("ls_provider")?.lossy().into_owned();
        let model = metadata.str("ls_model_name").or_else(|| response.and_then(|r| r.str("model_name")))?;
        Some(ProviderMetadata {
            provider: text::name(&provider, "unknown", limits.id_bytes),
            model: text::name(&model.lossy(), "unknown", limits.id_bytes),
            metadata: admitted(message, response, id.as_deref(), limits),
        })
    }

    /// Whether the root's last model call stopped in order to call tools.
    pub(super) fn wants_tools(message: &Json<'_>) -> Option<bool> {
        let response = message.get("response_metadata")?;
        let finish = response.text("finish_reason").or_else(|| response.text("stop_reason"))?;
        Some(matches!(finish, "tool_calls" | "tool_use" | "function_call"))
    }

    /// Why the run stopped, in one vocabulary for all providers.
    pub(super) fn stop_reason(&self) -> &'static str {
        stop_reason(self.finish.as_deref())
    }
}

/// The scalars that may be shown.
fn admitted(
    message: &Json<'_>,
    response: Option<&Json<'_>>,
    id: Option<&str>,
    limits: &Limits,
) -> JsonObject<'static> {
    let mut shown = Admitted::default();
    if let Some(id) = id {
        shown.put("response_id", &Json::String(crate::json::JsonStr::plain(id)));
    }
    const NAMES: &[(&str, &[&str])] = &[
        ("service_tier", &["service_tier"]),
        ("region", &["region"]),
        ("finish_reason", &["finish_reason", "stop_reason"]),
        ("system_fingerprint", &["system_fingerprint"]),
        ("latency_ms", &["latency_ms"]),
        ("time_to_first_token_ms", &["time_to_first_token_ms", "ttft_ms"]),
        ("retries", &["retries"]),
    ];
    if let Some(response) = response {
        for (key, native) in NAMES {
            if let Some(value) = native.iter().find_map(|name| response.get(name)) {
                shown.put(key, value);
            }
        }
    }
    let usage = message.get("usage_metadata");
    let detail =
        |group: &str, key: &str| usage.and_then(|usage| usage.get(group)).and_then(|group| group.get(key));
    if let Some(value) = detail("input_token_details", "cache_creation") {
        shown.put("cache_write_tokens", value);
    }
    if let Some(value) = detail("output_token_details", "reasoning") {
        shown.put("reasoning_tokens", value);
    }
    shown.into_object(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_the_allowlist_is_shown() {
        let message = br#"{"response_metadata":{"id":"resp_1","finish_reason":"stop","model":"m","headers":{"a":1},
            "service_tier":"flex","created_at":1},"usage_metadata":{"output_token_details":{"reasoning":3}}}"#;
        let metadata = br#"{"ls_provider":"openai","ls_model_name":"m-1","langgraph_checkpoint_ns":"x"}"#;
        let (message, metadata) = (Json::parse(message).unwrap(), Json::parse(metadata).unwrap());
        let event = Provider::default().learn(&message, Some(&metadata), true, &Limits::DEFAULT).unwrap();
        assert_eq!((event.provider.as_str(), event.model.as_str()), ("openai", "m-1"));
        assert_eq!(
            event.metadata.as_str(),
            r#"{"response_id":"resp_1","service_tier":"flex","finish_reason":"stop","reasoning_tokens":3}"#
        );
    }
}
