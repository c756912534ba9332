//! What a competent user would write without this project: owned types, derived, parsed by `serde_json`.
//!
//! It is not made slow on purpose. The payload is decoded once, straight into its type (a derived `flatten` or an
//! internally tagged enum would buffer it first and take about twice as long), and `data` may not come before
//! `type`, as it never does here. It checks no rule, no bound and no character; unknown fields are refused by both.

#![allow(dead_code, reason = "what was parsed is dropped: parsing it is what is measured")]

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An event of owned strings.
#[derive(Debug)]
pub struct Event {
    /// Always 1.
    pub version: u8,
    /// The run.
    pub run_id: String,
    /// The conversation.
    pub conversation_id: String,
    /// The number in the run.
    pub sequence: u64,
    /// As it stands there.
    pub timestamp: String,
    /// The subagent path.
    pub namespace: Vec<String>,
    /// Type and payload.
    pub data: Data,
}

/// An object of any shape.
pub type Object = Map<String, Value>;

macro_rules! payloads {
    ($($variant:ident = $name:literal { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })+) => {
        /// Type and payload.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub enum Data { $($variant($variant)),+ }

        #[derive(Clone, Copy, Debug, Deserialize)]
        enum Kind { $(#[serde(rename = $name)] $variant),+ }

        $(
            #[doc = concat!("`", $name, "`")]
            #[derive(Debug, Deserialize)]
            #[serde(deny_unknown_fields)]
            #[allow(missing_docs)]
            pub struct $variant { $($(#[$attribute])* pub $field: $type),* }
        )+

        impl<'de> DeserializeSeed<'de> for Kind {
            type Value = Data;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
                match self {
                    $(Self::$variant => $variant::deserialize(deserializer).map(Data::$variant)),+
                }
            }
        }
    };
}

payloads! {
    RunStarted = "run.started" {
        harness_id: String,
        adapter_version: String,
        message_id: Option<String>,
        provider_run_id: Option<String>,
    }
    RunFinished = "run.finished" { outcome: String, stop_reason: Option<String>, thread_state: Option<ThreadState> }
    RunInterrupted = "run.interrupted" { interrupt_id: String, reason: String }
    RunCancelled = "run.cancelled" { reason: String, side_effect_status: String }
    RunError = "run.error" {
        code: String,
        message: String,
        retryable: bool,
        retry_after_seconds: Option<f64>,
        side_effect_status: String,
    }
    TextStarted = "text.started" { message_id: String, role: String }
    TextDelta = "text.delta" { message_id: String, delta: String }
    TextFinished = "text.finished" { message_id: String }
    ReasoningStarted = "reasoning.started" { message_id: String, role: Option<String> }
    ReasoningDelta = "reasoning.delta" { message_id: String, delta: String }
    ReasoningFinished = "reasoning.finished" { message_id: String }
    ToolStarted = "tool.started" {
        tool_call_id: String,
        tool_name: String,
        arguments: Object,
        parent_message_id: Option<String>,
    }
    ToolArgumentsDelta = "tool.arguments.delta" { tool_call_id: String, delta: String }
    ToolFinished = "tool.finished" { tool_call_id: String, result: String, result_ref: Option<String> }
    ToolError = "tool.error" { tool_call_id: String, code: String, message: String, retryable: bool }
    InterruptRequested = "interrupt.requested" {
        interrupt_id: String,
        interrupt_type: String,
        agent_id: String,
        prompt: Option<String>,
        fields: Option<Vec<Object>>,
        tool_approvals: Option<Vec<ToolApproval>>,
    }
    NamespaceEntered = "namespace.entered" { agent_id: String, agent_name: String, parent_tool_call_id: String }
    NamespaceExited = "namespace.exited" { agent_id: String, parent_tool_call_id: String, outcome: String }
    Warning = "warning" { code: String, message: String, details: Option<Object> }
    UsageUpdated = "usage.updated" {
        input_tokens: Option<u64>,
        output_tokens: Option<u64>,
        cached_input_tokens: Option<u64>,
        cost: Option<f64>,
        currency: Option<String>,
        #[serde(rename = "final")] is_final: bool,
    }
    ProviderMetadata = "provider.metadata" { provider: String, model: String, metadata: Object }
}

/// `thread_state`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ThreadState {
    pub durability: String,
    pub durable_revision: u64,
    pub head_ref: String,
}

/// An entry of `tool_approvals`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ToolApproval {
    pub tool_call_id: String,
    pub tool_name: String,
    pub tool_args: Object,
    pub allowed_decisions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Field {
    Version,
    Type,
    RunId,
    ConversationId,
    Sequence,
    Timestamp,
    Namespace,
    Data,
}

struct Envelope;

impl<'de> Visitor<'de> for Envelope {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let (mut version, mut kind, mut run_id, mut conversation_id) = (None, None, None, None);
        let (mut sequence, mut timestamp, mut namespace, mut data) = (None, None, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Version => version = Some(map.next_value()?),
                Field::Type => kind = Some(map.next_value()?),
                Field::RunId => run_id = Some(map.next_value()?),
                Field::ConversationId => conversation_id = Some(map.next_value()?),
                Field::Sequence => sequence = Some(map.next_value()?),
                Field::Timestamp => timestamp = Some(map.next_value()?),
                Field::Namespace => namespace = Some(map.next_value()?),
                Field::Data => {
                    let kind: Kind = kind.ok_or_else(|| A::Error::missing_field("type"))?;
                    data = Some(map.next_value_seed(kind)?);
                }
            }
        }
        Ok(Event {
            version: version.ok_or_else(|| A::Error::missing_field("version"))?,
            run_id: run_id.ok_or_else(|| A::Error::missing_field("run_id"))?,
            conversation_id: conversation_id.ok_or_else(|| A::Error::missing_field("conversation_id"))?,
            sequence: sequence.ok_or_else(|| A::Error::missing_field("sequence"))?,
            timestamp: timestamp.ok_or_else(|| A::Error::missing_field("timestamp"))?,
            namespace: namespace.ok_or_else(|| A::Error::missing_field("namespace"))?,
            data: data.ok_or_else(|| A::Error::missing_field("data"))?,
        })
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Envelope)
    }
}
