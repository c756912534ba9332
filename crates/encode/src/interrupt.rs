//! The parts of an interrupt that both established formats show (goldens §4, §5).

use causeway_contract::event::{Decision, FormField, ToolApproval};

use crate::json::string::Style;
use crate::json::{put, put_object, put_string};

/// Appends `"fields": [...]`, each field whole and in its own key order.
pub(crate) fn put_fields<S: Style>(fields: &[FormField<'_>], out: &mut Vec<u8>) {
    put(out, "\"fields\": [");
    for (at, field) in fields.iter().enumerate() {
        separate(at, out);
        put_object::<S>(out, &field.object);
    }
    out.push(b']');
}

/// Appends `"tool_name"`, `"tool_args"` and `"allowed_decisions"` of the first entry; no decisions mean all three.
pub(crate) fn put_first_approval<S: Style>(approvals: &[ToolApproval<'_>], out: &mut Vec<u8>) {
    let Some(first) = approvals.first() else {
        return put(
            out,
            r#""tool_name": "", "tool_args": {}, "allowed_decisions": ["approve", "edit", "reject"]"#,
        );
    };
    put(out, "\"tool_name\": ");
    put_string::<S>(out, first.tool_name.as_str());
    put(out, ", \"tool_args\": ");
    put_object::<S>(out, &first.tool_args);
    let decisions = &first.allowed_decisions;
    put_decisions(if decisions.is_empty() { Decision::ALL } else { decisions }, out);
}

/// Appends `, "tool_approvals": [...]` if there is more than one entry.
pub(crate) fn put_approval_list<S: Style>(approvals: &[ToolApproval<'_>], out: &mut Vec<u8>) {
    if approvals.len() < 2 {
        return;
    }
    put(out, ", \"tool_approvals\": [");
    for (at, approval) in approvals.iter().enumerate() {
        separate(at, out);
        put(out, "{\"tool_name\": ");
        put_string::<S>(out, approval.tool_name.as_str());
        put(out, ", \"tool_args\": ");
        put_object::<S>(out, &approval.tool_args);
        put(out, ", \"tool_call_id\": ");
        put_string::<S>(out, approval.tool_call_id.as_str());
        put_decisions(&approval.allowed_decisions, out);
        out.push(b'}');
    }
    out.push(b']');
}

/// Appends `, "allowed_decisions": [...]`.
fn put_decisions(decisions: &[Decision], out: &mut Vec<u8>) {
    put(out, ", \"allowed_decisions\": [");
    for (at, decision) in decisions.iter().enumerate() {
        separate(at, out);
        out.push(b'"');
        put(out, decision.as_str());
        out.push(b'"');
    }
    out.push(b']');
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        put(out, ", ");
    }
}
