//! Interrupts of AG-UI: one for a form, one for each call that waits for approval, each with the shape of its answer.
//!
//! Refuses to guess at field types it does not know: such a field takes any value.

use std::sync::Arc;

use causeway_contract::event::{Decision, FormField, InterruptRequest, InterruptRequested, ToolApproval};
use causeway_contract::id::ToolCallId;

use crate::agui_spec::metadata;
use crate::compact::{approval_id, list, members, object, put_key, raw, string, text, text_if};
use crate::json::put;

/// Appends the interrupts of a request, a comma between them. `owner` tells whose call one is.
pub(crate) fn put_interrupts(
    data: &InterruptRequested<'_>,
    owner: impl Fn(&ToolCallId<'_>) -> Option<Arc<str>>,
    out: &mut Vec<u8>,
) {
    match &data.request {
        InterruptRequest::Form { prompt, fields } => members(out, |out| {
            text(out, "id", data.interrupt_id.as_str());
            text(out, "reason", "input_required");
            text(out, "message", prompt);
            put_key(out, "responseSchema");
            put_form_schema(fields, out);
            metadata(out, |out| {
                text(out, "interruptId", data.interrupt_id.as_str());
                text(out, "agentId", data.agent_id.as_str());
                put_key(out, "fields");
                list(out, fields, |out, field| {
                    causeway_contract::canonical::write_minified(field.object.as_str(), out);
                });
            });
        }),
        InterruptRequest::Approvals(approvals) => {
            for (at, approval) in approvals.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                members(out, |out| {
                    put_approval(data, approval, owner(&approval.tool_call_id).as_deref(), out);
                });
            }
        }
    }
}

fn put_approval(
    data: &InterruptRequested<'_>,
    approval: &ToolApproval<'_>,
    owner: Option<&str>,
    out: &mut Vec<u8>,
) {
    text(out, "id", &approval_id(&data.interrupt_id, &approval.tool_call_id));
    text(out, "reason", "tool_call");
    text(out, "message", &format!("May the agent run {}?", approval.tool_name));
    text(out, "toolCallId", approval.tool_call_id.as_str());
    put_key(out, "responseSchema");
    put_approval_schema(approval, out);
    text_if(out, "subagentRunId", owner);
    metadata(out, |out| {
        text(out, "interruptId", data.interrupt_id.as_str());
        text(out, "agentId", data.agent_id.as_str());
        text(out, "toolName", approval.tool_name.as_str());
        object(out, "toolArgs", &approval.tool_args);
        put_key(out, "allowedDecisions");
        put_decisions(approval, out);
    });
}

/// Appends the decisions that are allowed, as a list.
pub(crate) fn put_decisions(approval: &ToolApproval<'_>, out: &mut Vec<u8>) {
    let allowed = Decision::ALL.iter().filter(|decision| approval.allows(**decision));
    list(out, allowed, |out, decision| string(out, decision.as_str()));
}

/// `approved` decides; `editedArgs` replaces the arguments whole, where an edit is allowed.
fn put_approval_schema(approval: &ToolApproval<'_>, out: &mut Vec<u8>) {
    let runs = approval.allows(Decision::Approve) || approval.allows(Decision::Edit);
    let approved = match (runs, approval.allows(Decision::Reject)) {
        (true, false) => r#"{"const":true}"#,
        (false, true) => r#"{"const":false}"#,
        (true, true) | (false, false) => r#"{"type":"boolean"}"#,
    };
    put(out, r#"{"type":"object","properties":{"approved":"#);
    put(out, approved);
    if approval.allows(Decision::Edit) {
        raw(out, "editedArgs", r#"{"type":"object"}"#);
    }
    if approval.allows(Decision::Reject) {
        raw(out, "message", r#"{"type":"string"}"#);
    }
    put(out, r#"},"required":["approved"]}"#);
}

fn put_form_schema(fields: &[FormField<'_>], out: &mut Vec<u8>) {
    put(out, r#"{"type":"object","properties":"#);
    members(out, |out| {
        for field in fields {
            out.push(b',');
            string(out, field.field_name.as_str());
            out.push(b':');
            put(out, value_schema(field.field_type.as_str()));
        }
    });
    put_key(out, "required");
    list(out, fields.iter().filter(|field| field.required), |out, field| {
        string(out, field.field_name.as_str());
    });
    out.push(b'}');
}

fn value_schema(field_type: &str) -> &'static str {
    match field_type {
        "text" | "textarea" | "string" | "email" | "password" | "url" | "date" => r#"{"type":"string"}"#,
        "number" => r#"{"type":"number"}"#,
        "integer" => r#"{"type":"integer"}"#,
        "boolean" | "checkbox" | "toggle" => r#"{"type":"boolean"}"#,
        _ => "{}",
    }
}
