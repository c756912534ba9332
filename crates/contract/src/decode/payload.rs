//! The payloads of the 21 types, field by field (decisions §3).

use crate::decode::reader::{Reader, fields, missing, repeated};
use crate::error::{DecodeError, Fault};
use crate::event::{
    CancelReason, Decision, Durability, EventData, EventType, FormField, InterruptReason, InterruptRequest,
    InterruptRequested, NamespaceEntered, NamespaceExited, NamespaceOutcome, ProviderMetadata,
    ReasoningDelta, ReasoningFinished, ReasoningStarted, RunCancelled, RunError, RunFinished, RunInterrupted,
    RunStarted, SideEffectStatus, TextDelta, TextFinished, TextStarted, ThreadState, ToolApproval,
    ToolArgumentsDelta, ToolError, ToolFinished, ToolStarted, UsageUpdated, Warning,
};
use crate::json::scan::Scan;
use crate::json::{JsonNumber, JsonObject};
use crate::limits::Limits;

/// Reads the payload of an event of this type.
#[inline]
pub(crate) fn read_data<'a>(reader: &mut Reader<'a, '_>, event_type: EventType) -> Scan<EventData<'a>> {
    match event_type {
        EventType::TextDelta => text_delta(reader),
        EventType::ReasoningDelta => reasoning_delta(reader),
        EventType::RunStarted => run_started(reader),
        EventType::RunFinished => run_finished(reader),
        EventType::RunInterrupted => run_interrupted(reader),
        EventType::RunCancelled => run_cancelled(reader),
        EventType::RunError => run_error(reader),
        EventType::TextStarted => text_started(reader),
        EventType::TextFinished => text_finished(reader),
        EventType::ReasoningStarted => reasoning_started(reader),
        EventType::ReasoningFinished => reasoning_finished(reader),
        EventType::ToolStarted => tool_started(reader),
        EventType::ToolArgumentsDelta => tool_arguments_delta(reader),
        EventType::ToolFinished => tool_finished(reader),
        EventType::ToolError => tool_error(reader),
        EventType::InterruptRequested => interrupt_requested(reader),
        EventType::NamespaceEntered => namespace_entered(reader),
        EventType::NamespaceExited => namespace_exited(reader),
        EventType::Warning => warning(reader),
        EventType::UsageUpdated => usage_updated(reader),
        EventType::ProviderMetadata => provider_metadata(reader),
    }
}

/// Reads one form field from its own text.
pub(crate) fn read_form_field<'a>(json: &'a str, limits: &Limits) -> Scan<FormField<'a>> {
    let mut reader = Reader::new(json, limits);
    let field = reader.form_field()?;
    reader.scan.end()?;
    Ok(field)
}

impl<'a> FormField<'a> {
    /// Takes a whole field object and reads its named keys.
    ///
    /// # Errors
    /// A named key is missing, repeated or of the wrong shape; the pointer starts at the field.
    pub fn from_object(object: JsonObject<'a>, limits: &Limits) -> Result<Self, DecodeError> {
        let FormField { object: _, field_name, field_type, required } =
            read_form_field(object.as_str(), limits)?.into_owned();
        Ok(Self { object, field_name, field_type, required })
    }
}

type Read<'a> = Scan<EventData<'a>>;

const ASSISTANT: &str = "assistant";
const SIDE_EFFECTS: &str = "none, possible, known";

fn run_started<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": optional reader.optional(Reader::id),
        harness_id = "harness_id": required reader.id(),
        adapter_version = "adapter_version": required reader.id(),
        provider_run_id = "provider_run_id": optional reader.optional(Reader::id),
    });
    Ok(RunStarted { harness_id, adapter_version, message_id, provider_run_id }.into())
}

fn run_finished<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        outcome = "outcome": required reader.constant("success"),
        stop_reason = "stop_reason": optional reader.optional(Reader::text),
        thread_state = "thread_state": optional reader.optional(read_thread_state),
    });
    let () = outcome;
    Ok(RunFinished { stop_reason, thread_state }.into())
}

fn read_thread_state<'a>(reader: &mut Reader<'a, '_>) -> Scan<ThreadState<'a>> {
    fields!(reader, {
        durability = "durability": required
            reader.choice("committed, pending, uncertain, failed", Durability::parse),
        durable_revision = "durable_revision": required reader.scan.integer(u64::MAX),
        head_ref = "head_ref": required reader.id(),
    });
    Ok(ThreadState { durability, durable_revision, head_ref })
}

fn run_interrupted<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        interrupt_id = "interrupt_id": required reader.id(),
        reason = "reason": required reader.choice("human_input, tool_approval", InterruptReason::parse),
    });
    Ok(RunInterrupted { interrupt_id, reason }.into())
}

fn run_cancelled<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        reason = "reason": required
            reader.choice("client_request, disconnect, shutdown, deadline", CancelReason::parse),
        side_effect_status = "side_effect_status": required reader.choice(SIDE_EFFECTS, SideEffectStatus::parse),
    });
    Ok(RunCancelled { reason, side_effect_status }.into())
}

fn run_error<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        code = "code": required reader.id(),
        message = "message": required reader.text(),
        retryable = "retryable": required reader.scan.boolean(),
        retry_after_seconds = "retry_after_seconds": optional reader.optional(number),
        side_effect_status = "side_effect_status": required reader.choice(SIDE_EFFECTS, SideEffectStatus::parse),
    });
    Ok(RunError { code, message, retryable, retry_after_seconds, side_effect_status }.into())
}

fn text_started<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": required reader.id(),
        role = "role": required reader.constant(ASSISTANT),
    });
    let () = role;
    Ok(TextStarted { message_id }.into())
}

#[inline]
fn text_delta<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": required reader.id(),
        delta = "delta": required reader.text(),
    });
    Ok(TextDelta { message_id, delta }.into())
}

fn text_finished<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": required reader.id(),
    });
    Ok(TextFinished { message_id }.into())
}

fn reasoning_started<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": required reader.id(),
        role = "role": optional reader.optional(|reader| reader.constant(ASSISTANT)),
    });
    Ok(ReasoningStarted { message_id, role: role.is_some() }.into())
}

fn reasoning_delta<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": required reader.id(),
        delta = "delta": required reader.text(),
    });
    Ok(ReasoningDelta { message_id, delta }.into())
}

fn reasoning_finished<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        message_id = "message_id": required reader.id(),
    });
    Ok(ReasoningFinished { message_id }.into())
}

fn tool_started<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        tool_call_id = "tool_call_id": required reader.id(),
        tool_name = "tool_name": required reader.id(),
        arguments = "arguments": required object(reader, 2),
        parent_message_id = "parent_message_id": optional reader.optional(Reader::id),
    });
    Ok(ToolStarted { tool_call_id, tool_name, arguments, parent_message_id }.into())
}

fn tool_arguments_delta<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        tool_call_id = "tool_call_id": required reader.id(),
        delta = "delta": required reader.text(),
    });
    Ok(ToolArgumentsDelta { tool_call_id, delta }.into())
}

fn tool_finished<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        tool_call_id = "tool_call_id": required reader.id(),
        result = "result": required reader.text(),
        result_ref = "result_ref": optional reader.optional(Reader::id),
    });
    Ok(ToolFinished { tool_call_id, result, result_ref }.into())
}

fn tool_error<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        tool_call_id = "tool_call_id": required reader.id(),
        code = "code": required reader.id(),
        message = "message": required reader.text(),
        retryable = "retryable": required reader.scan.boolean(),
    });
    Ok(ToolError { tool_call_id, code, message, retryable }.into())
}

fn namespace_entered<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        agent_id = "agent_id": required reader.id(),
        agent_name = "agent_name": required reader.id(),
        parent_tool_call_id = "parent_tool_call_id": required reader.id(),
    });
    Ok(NamespaceEntered { agent_id, agent_name, parent_tool_call_id }.into())
}

fn namespace_exited<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        agent_id = "agent_id": required reader.id(),
        parent_tool_call_id = "parent_tool_call_id": required reader.id(),
        outcome = "outcome": required reader.choice("success, interrupted, cancelled, error", NamespaceOutcome::parse),
    });
    Ok(NamespaceExited { agent_id, parent_tool_call_id, outcome }.into())
}

fn warning<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        code = "code": required reader.id(),
        message = "message": required reader.text(),
        details = "details": optional reader.optional(|reader| object(reader, 2)),
    });
    Ok(Warning { code, message, details }.into())
}

fn usage_updated<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        input_tokens = "input_tokens": optional reader.optional(|reader| reader.scan.integer(u64::MAX)),
        output_tokens = "output_tokens": optional reader.optional(|reader| reader.scan.integer(u64::MAX)),
        cached_input_tokens = "cached_input_tokens": optional
            reader.optional(|reader| reader.scan.integer(u64::MAX)),
        cost = "cost": optional reader.optional(number),
        currency = "currency": optional reader.optional(Reader::text),
        is_final = "final": required reader.scan.boolean(),
    });
    Ok(UsageUpdated { input_tokens, output_tokens, cached_input_tokens, cost, currency, is_final }.into())
}

fn provider_metadata<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        provider = "provider": required reader.id(),
        model = "model": required reader.id(),
        metadata = "metadata": required object(reader, 2),
    });
    Ok(ProviderMetadata { provider, model, metadata }.into())
}

/// Which fields an interrupt has hangs on its type, which may stand anywhere: both kinds are read, and what does not
/// belong to the type is then unknown.
fn interrupt_requested<'a>(reader: &mut Reader<'a, '_>) -> Read<'a> {
    fields!(reader, {
        interrupt_id = "interrupt_id": required reader.id(),
        is_form = "interrupt_type": required reader.choice("form_input, tool_approval", |text| match text {
            "form_input" => Some(true),
            "tool_approval" => Some(false),
            _ => None,
        }),
        agent_id = "agent_id": required reader.id(),
        prompt = "prompt": optional reader.text().map(Some),
        fields = "fields": optional reader.form_fields().map(Some),
        tool_approvals = "tool_approvals": optional reader.approvals().map(Some),
    });
    let foreign = |key: &str| Err(DecodeError::new(Fault::UnknownField).at(key));
    let request = if is_form {
        if tool_approvals.is_some() {
            return foreign("tool_approvals");
        }
        InterruptRequest::Form {
            prompt: prompt.ok_or_else(|| missing("prompt"))?,
            fields: fields.ok_or_else(|| missing("fields"))?,
        }
    } else {
        if prompt.is_some() {
            return foreign("prompt");
        }
        if fields.is_some() {
            return foreign("fields");
        }
        InterruptRequest::Approvals(tool_approvals.ok_or_else(|| missing("tool_approvals"))?)
    };
    Ok(InterruptRequested { interrupt_id, agent_id, request }.into())
}

impl<'a> Reader<'a, '_> {
    /// Reads an array, at most one entry beyond `max` being kept; the count of all is checked.
    fn list<T>(
        &mut self,
        what: &'static str,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Scan<T>,
    ) -> Scan<Vec<T>> {
        let mut list = Vec::new();
        let mut more = self.scan.open(b'[', b']', "an array")?;
        while more {
            if list.len() >= max {
                return Err(DecodeError::new(Fault::TooMany { what, max }));
            }
            let item = read(self).map_err(|error| error.at_index(list.len()))?;
            list.push(item);
            more = self.scan.more(b']')?;
        }
        Ok(list)
    }

    fn form_fields(&mut self) -> Scan<Vec<FormField<'a>>> {
        self.list("fields", self.limits.form_fields, Self::form_field)
    }

    /// Reads a form field: an object with three named keys among any others.
    fn form_field(&mut self) -> Scan<FormField<'a>> {
        self.scan.enter(FIELD_LEVEL)?;
        self.scan.peek();
        let start = self.scan.offset();
        let (mut field_name, mut field_type, mut required) = (None, None, None);
        let mut more = self.scan.open(b'{', b'}', "an object")?;
        while more {
            let key = self.scan.key()?.to_text();
            let seen = match &*key {
                "field_name" => field_name.replace(self.id().map_err(|error| error.at(&key))?).is_some(),
                "field_type" => field_type.replace(self.id().map_err(|error| error.at(&key))?).is_some(),
                "required" => {
                    let value =
                        self.optional(|reader| reader.scan.boolean()).map_err(|error| error.at(&key))?;
                    required.replace(value).is_some()
                }
                _ => {
                    self.scan.skip(FIELD_LEVEL).map_err(|error| error.at(&key))?;
                    false
                }
            };
            if seen {
                return Err(repeated(&key));
            }
            more = self.scan.more(b'}')?;
        }
        Ok(FormField {
            object: JsonObject::scanned(self.scan.since(start)),
            field_name: field_name.ok_or_else(|| missing("field_name"))?,
            field_type: field_type.ok_or_else(|| missing("field_type"))?,
            required: required.flatten().unwrap_or(false),
        })
    }

    fn approvals(&mut self) -> Scan<Vec<ToolApproval<'a>>> {
        self.list("approvals", self.limits.approvals, approval)
    }
}

fn approval<'a>(reader: &mut Reader<'a, '_>) -> Scan<ToolApproval<'a>> {
    fields!(reader, {
        tool_call_id = "tool_call_id": required reader.id(),
        tool_name = "tool_name": required reader.id(),
        tool_args = "tool_args": required object(reader, 4),
        allowed_decisions = "allowed_decisions": required reader.list("decisions", MOST_DECISIONS, |reader| {
            reader.choice("approve, edit, reject", Decision::parse)
        }),
    });
    Ok(ToolApproval { tool_call_id, tool_name, tool_args, allowed_decisions })
}

/// Reads a free-form object with `level` arrays and objects around it.
fn object<'a>(reader: &mut Reader<'a, '_>, level: usize) -> Scan<JsonObject<'a>> {
    reader.scan.object(level).map(JsonObject::scanned)
}

fn number<'a>(reader: &mut Reader<'a, '_>) -> Scan<JsonNumber<'a>> {
    reader.scan.number().map(JsonNumber::scanned)
}

/// The level of a form field: event, `data`, the list, the field.
const FIELD_LEVEL: usize = 4;

/// Entries of `allowed_decisions` that are read before the list is refused; a fourth is surely a repetition.
const MOST_DECISIONS: usize = 4;
