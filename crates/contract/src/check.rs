//! The rules for one event that look at values, not at JSON: sizes (`bounds`), characters (`text`), and the shapes
//! that types alone do not keep (`payload`). The decoder and the authors of drafts run the same functions.
//!
//! Refuses to know what came before: rules over several events are `causeway-lifecycle`.

use std::collections::BTreeSet;

use crate::decode::payload::read_form_field;
use crate::error::{DecodeError, Fault};
use crate::event::{
    Event, EventData, EventDraft, EventType, FormField, InterruptRequest, InterruptRequested,
    ProviderMetadata, RunFinished, RunStarted, ToolApproval, ToolStarted, UsageUpdated, Warning,
};
use crate::id::{check_code, check_id};
use crate::json::tokens::Token;
use crate::json::{JsonNumber, JsonObject};
use crate::limits::Limits;
use crate::namespace::Namespace;

type Checked = Result<(), DecodeError>;

/// Where the values come from, and so what is known about them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// The decoder read them: characters, JSON depth and single ids have been checked.
    Line,
    /// Code made them.
    Draft,
}

impl EventDraft<'_> {
    /// Checks `payload`, `bounds` and `text` of values that were never decoded.
    ///
    /// # Errors
    /// The first fault; its pointer is the one the event will have.
    pub fn check(&self, limits: &Limits) -> Result<(), DecodeError> {
        namespace(&self.namespace, limits, Origin::Draft).map_err(|error| error.at("namespace"))?;
        data(&self.data, limits, Origin::Draft).map_err(|error| error.in_data())?;
        let max = event_limit(self.data.event_type(), limits);
        // The envelope is not known yet; it is small beside any limit.
        if self.data.size_hint().saturating_mul(WORST_ESCAPE) > max {
            event_fits(
                self.data.encoded_len().saturating_add(LARGEST_ENVELOPE),
                self.data.event_type(),
                limits,
            )?;
        }
        Ok(())
    }
}

impl Event<'_> {
    /// Checks `payload`, `bounds` and `text` of values that were never decoded.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, limits: &Limits) -> Result<(), DecodeError> {
        id(self.run_id.as_str(), limits).map_err(|error| error.at("run_id"))?;
        id(self.conversation_id.as_str(), limits).map_err(|error| error.at("conversation_id"))?;
        namespace(&self.namespace, limits, Origin::Draft).map_err(|error| error.at("namespace"))?;
        data(&self.data, limits, Origin::Draft).map_err(|error| error.in_data())?;
        event_fits(self.encoded_len(), self.data.event_type(), limits)
    }
}

impl EventData<'_> {
    /// The bytes of the largest strings, as they are before escaping.
    fn size_hint(&self) -> usize {
        match self {
            Self::TextDelta(payload) => payload.delta.len(),
            Self::ReasoningDelta(payload) => payload.delta.len(),
            Self::ToolArgumentsDelta(payload) => payload.delta.len(),
            Self::ToolFinished(payload) => payload.result.len(),
            Self::ToolError(payload) => payload.message.len(),
            Self::RunError(payload) => payload.message.len(),
            Self::RunFinished(payload) => payload.stop_reason.as_ref().map_or(0, |reason| reason.len()),
            // JSON text is not escaped again, so these and the rest are always measured.
            Self::ToolStarted(_)
            | Self::InterruptRequested(_)
            | Self::Warning(_)
            | Self::ProviderMetadata(_)
            | Self::RunStarted(_)
            | Self::RunInterrupted(_)
            | Self::RunCancelled(_)
            | Self::TextStarted(_)
            | Self::TextFinished(_)
            | Self::ReasoningStarted(_)
            | Self::ReasoningFinished(_)
            | Self::NamespaceEntered(_)
            | Self::NamespaceExited(_)
            | Self::UsageUpdated(_) => usize::MAX,
        }
    }
}

/// The largest encoded event of this type.
pub(crate) fn event_limit(event_type: EventType, limits: &Limits) -> usize {
    if event_type == EventType::InterruptRequested { limits.interrupt_bytes } else { limits.event_bytes }
}

/// Checks the encoded length of an event (`bounds`).
#[inline]
pub(crate) fn event_fits(len: usize, event_type: EventType, limits: &Limits) -> Checked {
    let max = event_limit(event_type, limits);
    if len > max { Err(DecodeError::new(Fault::EventTooLarge { len, max })) } else { Ok(()) }
}

/// Checks a namespace path.
#[inline]
pub(crate) fn namespace(path: &Namespace<'_>, limits: &Limits, origin: Origin) -> Checked {
    many("elements", path.depth(), limits.namespace_depth)?;
    if origin == Origin::Draft {
        for (index, element) in path.path().iter().enumerate() {
            id(element.as_str(), limits).map_err(|error| error.at_index(index))?;
        }
    }
    Ok(())
}

/// Checks a payload; the pointer of an error starts at `data`.
pub(crate) fn data(data: &EventData<'_>, limits: &Limits, origin: Origin) -> Checked {
    let content = |text: &str, max, key| content(text, max, origin).map_err(|error| error.at(key));
    if origin == Origin::Draft {
        ids(data, limits)?;
    }
    match data {
        EventData::RunStarted(_)
        | EventData::RunInterrupted(_)
        | EventData::RunCancelled(_)
        | EventData::TextStarted(_)
        | EventData::TextFinished(_)
        | EventData::ReasoningStarted(_)
        | EventData::ReasoningFinished(_)
        | EventData::NamespaceEntered(_)
        | EventData::NamespaceExited(_) => Ok(()),
        EventData::TextDelta(payload) => content(&payload.delta, limits.delta_bytes, "delta"),
        EventData::ReasoningDelta(payload) => content(&payload.delta, limits.delta_bytes, "delta"),
        EventData::ToolArgumentsDelta(payload) => content(&payload.delta, limits.delta_bytes, "delta"),
        EventData::RunFinished(payload) => match &payload.stop_reason {
            Some(reason) => content(reason, limits.message_bytes, "stop_reason"),
            None => Ok(()),
        },
        EventData::RunError(payload) => {
            own_words(&payload.message, limits, origin)?;
            not_negative(payload.retry_after_seconds.as_ref())
                .map_err(|error| error.at("retry_after_seconds"))
        }
        EventData::ToolStarted(payload) => arguments(payload, limits),
        EventData::ToolFinished(payload) => content(&payload.result, limits.result_bytes, "result"),
        EventData::ToolError(payload) => content(&payload.message, limits.tool_error_bytes, "message"),
        EventData::InterruptRequested(payload) => interrupt(payload, limits, origin),
        EventData::Warning(payload) => warning(payload, limits, origin),
        EventData::UsageUpdated(payload) => usage(payload),
        EventData::ProviderMetadata(payload) => metadata(payload, limits),
    }
}

/// Single ids, names and codes of a draft. They obey the character rules since they exist; a stricter limit may
/// still refuse them.
fn ids(data: &EventData<'_>, limits: &Limits) -> Checked {
    let id = |text: &str, key| id(text, limits).map_err(|error| error.at(key));
    let optional = |text: Option<&str>, key| text.map_or(Ok(()), |text| id(text, key));
    match data {
        EventData::RunStarted(RunStarted { harness_id, adapter_version, message_id, provider_run_id }) => {
            check_code(harness_id.as_str(), true)
                .map_err(|fault| DecodeError::from(fault).at("harness_id"))?;
            id(adapter_version.as_str(), "adapter_version")?;
            optional(message_id.as_ref().map(|id| id.as_str()), "message_id")?;
            optional(provider_run_id.as_ref().map(|id| id.as_str()), "provider_run_id")
        }
        EventData::RunFinished(RunFinished { thread_state, .. }) => {
            thread_state.as_ref().map_or(Ok(()), |state| {
                id(state.head_ref.as_str(), "head_ref").map_err(|error| error.at("thread_state"))
            })
        }
        EventData::RunInterrupted(payload) => id(payload.interrupt_id.as_str(), "interrupt_id"),
        EventData::RunCancelled(_)
        | EventData::RunError(_)
        | EventData::Warning(_)
        | EventData::UsageUpdated(_) => Ok(()),
        EventData::TextStarted(payload) => id(payload.message_id.as_str(), "message_id"),
        EventData::TextDelta(payload) => id(payload.message_id.as_str(), "message_id"),
        EventData::TextFinished(payload) => id(payload.message_id.as_str(), "message_id"),
        EventData::ReasoningStarted(payload) => id(payload.message_id.as_str(), "message_id"),
        EventData::ReasoningDelta(payload) => id(payload.message_id.as_str(), "message_id"),
        EventData::ReasoningFinished(payload) => id(payload.message_id.as_str(), "message_id"),
        EventData::ToolStarted(payload) => {
            id(payload.tool_call_id.as_str(), "tool_call_id")?;
            id(payload.tool_name.as_str(), "tool_name")?;
            optional(payload.parent_message_id.as_ref().map(|id| id.as_str()), "parent_message_id")
        }
        EventData::ToolArgumentsDelta(payload) => id(payload.tool_call_id.as_str(), "tool_call_id"),
        EventData::ToolFinished(payload) => {
            id(payload.tool_call_id.as_str(), "tool_call_id")?;
            optional(payload.result_ref.as_ref().map(|id| id.as_str()), "result_ref")
        }
        EventData::ToolError(payload) => id(payload.tool_call_id.as_str(), "tool_call_id"),
        EventData::InterruptRequested(payload) => {
            id(payload.interrupt_id.as_str(), "interrupt_id")?;
            id(payload.agent_id.as_str(), "agent_id")
        }
        EventData::NamespaceEntered(payload) => {
            id(payload.agent_id.as_str(), "agent_id")?;
            id(payload.agent_name.as_str(), "agent_name")?;
            id(payload.parent_tool_call_id.as_str(), "parent_tool_call_id")
        }
        EventData::NamespaceExited(payload) => {
            id(payload.agent_id.as_str(), "agent_id")?;
            id(payload.parent_tool_call_id.as_str(), "parent_tool_call_id")
        }
        EventData::ProviderMetadata(payload) => {
            id(payload.provider.as_str(), "provider")?;
            id(payload.model.as_str(), "model")
        }
    }
}

fn id(text: &str, limits: &Limits) -> Checked {
    check_id(text, limits.id_bytes).map_err(DecodeError::from)
}

/// Checks free text: its size, and U+0000 where a decoder has not refused it already.
#[inline]
fn content(text: &str, max: usize, origin: Origin) -> Checked {
    long(text.len(), max)?;
    if origin == Origin::Draft && memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(DecodeError::new(Fault::Nul));
    }
    Ok(())
}

/// Checks `message` where the sentence is our own: no control characters at all (decisions §7).
fn own_words(message: &str, limits: &Limits, origin: Origin) -> Checked {
    let check = || {
        content(message, limits.message_bytes, origin)?;
        match message.chars().find(|c| c.is_control()) {
            Some(control) => Err(DecodeError::new(Fault::ControlCharacter { code: u32::from(control) })),
            None => Ok(()),
        }
    };
    check().map_err(|error: DecodeError| error.at("message"))
}

#[inline]
fn long(len: usize, max: usize) -> Checked {
    if len > max { Err(DecodeError::new(Fault::TooLong { len, max })) } else { Ok(()) }
}

#[inline]
fn many(what: &'static str, count: usize, max: usize) -> Checked {
    if count > max { Err(DecodeError::new(Fault::TooMany { what, max })) } else { Ok(()) }
}

fn not_negative(number: Option<&JsonNumber<'_>>) -> Checked {
    if number.is_some_and(JsonNumber::is_negative) { Err(DecodeError::new(Fault::Negative)) } else { Ok(()) }
}

fn arguments(payload: &ToolStarted<'_>, limits: &Limits) -> Checked {
    long(payload.arguments.as_str().len(), limits.arguments_bytes).map_err(|error| error.at("arguments"))
}

/// The bounds that `details` and `metadata` share.
fn small_object(object: &JsonObject<'_>, limits: &Limits) -> Checked {
    long(object.as_str().len(), limits.details_bytes)?;
    let measure = object.measure();
    many("keys", measure.keys, limits.details_keys)?;
    let max = limits.details_depth;
    if measure.depth > max {
        return Err(DecodeError::new(Fault::NestedTooDeep { depth: measure.depth, max }));
    }
    Ok(())
}

fn warning(payload: &Warning<'_>, limits: &Limits, origin: Origin) -> Checked {
    own_words(&payload.message, limits, origin)?;
    match &payload.details {
        Some(details) => small_object(details, limits).map_err(|error| error.at("details")),
        None => Ok(()),
    }
}

fn metadata(payload: &ProviderMetadata<'_>, limits: &Limits) -> Checked {
    let check = || {
        let mut key = None;
        for token in payload.metadata.tokens().skip(1) {
            match token {
                Token::BeginObject | Token::BeginArray => {
                    let nested = DecodeError::new(Fault::NestedMetadata);
                    return Err(key.map_or(nested.clone(), |key: std::borrow::Cow<'_, str>| nested.at(&key)));
                }
                Token::Key(raw) => key = Some(raw.to_text()),
                Token::EndObject
                | Token::EndArray
                | Token::String(_)
                | Token::Number(_)
                | Token::Bool(_)
                | Token::Null => {}
            }
        }
        small_object(&payload.metadata, limits)
    };
    check().map_err(|error: DecodeError| error.at("metadata"))
}

fn usage(payload: &UsageUpdated<'_>) -> Checked {
    not_negative(payload.cost.as_ref()).map_err(|error| error.at("cost"))?;
    match &payload.currency {
        Some(currency) if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_uppercase()) => {
            Err(DecodeError::new(Fault::NotACurrency).at("currency"))
        }
        Some(_) | None => Ok(()),
    }
}

fn interrupt(payload: &InterruptRequested<'_>, limits: &Limits, origin: Origin) -> Checked {
    match &payload.request {
        InterruptRequest::Form { prompt, fields } => {
            content(prompt, limits.prompt_bytes, origin).map_err(|error| error.at("prompt"))?;
            many("fields", fields.len(), limits.form_fields).map_err(|error| error.at("fields"))?;
            if origin == Origin::Draft {
                for (index, field) in fields.iter().enumerate() {
                    form_field(field, limits).map_err(|error| error.at_index(index).at("fields"))?;
                }
            }
            Ok(())
        }
        InterruptRequest::Approvals(list) => {
            approvals(list, limits, origin).map_err(|error| error.at("tool_approvals"))
        }
    }
}

/// A field that code made must say the same in its object and beside it.
fn form_field(field: &FormField<'_>, limits: &Limits) -> Checked {
    let read = read_form_field(field.object.as_str(), limits)?;
    let differs = |key: &str| {
        Err(DecodeError::new(Fault::WrongType { expected: "the value of the typed field" }).at(key))
    };
    if read.field_name != field.field_name {
        return differs("field_name");
    }
    if read.field_type != field.field_type {
        return differs("field_type");
    }
    if read.required != field.required {
        return differs("required");
    }
    Ok(())
}

fn approvals(list: &[ToolApproval<'_>], limits: &Limits, origin: Origin) -> Checked {
    if list.is_empty() {
        return Err(DecodeError::new(Fault::NoApprovals));
    }
    many("approvals", list.len(), limits.approvals)?;
    let mut seen = BTreeSet::new();
    for (index, entry) in list.iter().enumerate() {
        approval(entry, limits, origin).map_err(|error| error.at_index(index))?;
        if !seen.insert(entry.tool_call_id.as_str()) {
            return Err(DecodeError::new(Fault::RepeatedApproval).at("tool_call_id").at_index(index));
        }
    }
    Ok(())
}

fn approval(entry: &ToolApproval<'_>, limits: &Limits, origin: Origin) -> Checked {
    if origin == Origin::Draft {
        id(entry.tool_call_id.as_str(), limits).map_err(|error| error.at("tool_call_id"))?;
        id(entry.tool_name.as_str(), limits).map_err(|error| error.at("tool_name"))?;
        // An object is made for any place; here it stands deeper than where most do.
        let depth = entry.tool_args.measure().depth;
        let max = limits.json_depth.saturating_sub(APPROVAL_LEVELS);
        if depth > max {
            return Err(DecodeError::new(Fault::NestedTooDeep { depth, max }).at("tool_args"));
        }
    }
    long(entry.tool_args.as_str().len(), limits.arguments_bytes).map_err(|error| error.at("tool_args"))?;
    for (place, decision) in entry.allowed_decisions.iter().enumerate() {
        if entry.allowed_decisions.iter().take(place).any(|earlier| earlier == decision) {
            return Err(DecodeError::new(Fault::RepeatedDecision).at_index(place).at("allowed_decisions"));
        }
    }
    Ok(())
}

/// The most bytes that one byte of text takes in JSON (`\u00xx`).
const WORST_ESCAPE: usize = 6;

/// More than the envelope of an event takes, its escapes included.
const LARGEST_ENVELOPE: usize = 16 * 1024;

/// Arrays and objects around the arguments of an approval: event, `data`, the list, the entry.
const APPROVAL_LEVELS: usize = 4;
