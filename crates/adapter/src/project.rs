//! Values of calls as events show them: arguments, results, errors (decisions §5 and §7).
//!
//! Nothing is decided here about how a call ended; what is too long is cut with a mark, and kept whole under a reference.

use causeway_contract::event::{EventData, ToolError, ToolFinished};
use causeway_contract::id::{Code, Reference, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use crate::adapter::{ItemError, WholeResult};
use crate::json::{Json, write_string};
use crate::redact::{MARK, redact};
use crate::text::{content, cut};
use crate::turn::Options;

/// What is said of a call whose arguments are no JSON object.
pub(crate) const INVALID_ARGUMENTS: &str = "The arguments of this call were not valid JSON.";

/// Arguments as events show them.
///
/// # Errors
/// They are no object, or one that the contract does not allow.
pub fn arguments(arguments: &str, options: &Options) -> Result<JsonObject<'static>, ItemError> {
    let json = Json::parse(arguments.as_bytes())?;
    object(&json, "the arguments", options)
}

/// An object as events show it; `what` names it in an error.
///
/// # Errors
/// As [`arguments`].
pub(crate) fn object(
    json: &Json<'_>,
    what: &'static str,
    options: &Options,
) -> Result<JsonObject<'static>, ItemError> {
    let mut out = String::new();
    json.write_with(&mut out, &mut |text, out| out.push_str(&content(text, options)));
    checked(out, what, &options.limits)
}

/// An object that is already projected.
///
/// # Errors
/// As [`arguments`].
pub(crate) fn checked(
    text: String,
    what: &'static str,
    limits: &Limits,
) -> Result<JsonObject<'static>, ItemError> {
    JsonObject::parse(text, limits)
        .map_err(|error| ItemError::Value { what, why: error.check().as_str().to_owned() })
}

/// The end of a call that failed; `code` is a constant.
pub fn failed(
    call: ToolCallId<'static>,
    code: &'static str,
    message: &str,
    options: &Options,
) -> EventData<'static> {
    let message = redact(message);
    EventData::from(ToolError {
        tool_call_id: call,
        code: Code::new(code).unwrap_or_else(|_| unreachable!("a constant that is a code")),
        message: cut(&message, options.limits.tool_error_bytes).into_owned().into(),
        retryable: false,
    })
}

/// The end of a call that gave a result, and the whole of it where the event shows only a part.
pub fn finished(
    call: ToolCallId<'static>,
    text: &str,
    options: &Options,
) -> (Option<WholeResult>, EventData<'static>) {
    let shown = if options.redact_content { redact(text) } else { text.into() };
    let short = cut(&shown, options.limits.result_bytes).into_owned();
    let long = shown.chars().nth(SHOWN).is_some();
    let result_ref = if long { reference(&call, options.limits.id_bytes) } else { None };
    let whole = match &result_ref {
        Some(result_ref) if short.len() < shown.len() => Some(WholeResult {
            result_ref: result_ref.clone(),
            tool_call_id: call.clone(),
            text: content(text, options).into_owned(),
        }),
        Some(_) | None => None,
    };
    (whole, EventData::from(ToolFinished { tool_call_id: call, result: short.into(), result_ref }))
}

/// Writes `edited`; a string that still holds `[redacted]` is the original one again (decisions §7).
pub(crate) fn restored(edited: &Json<'_>, original: Option<&Json<'_>>, out: &mut String) {
    match (edited, original) {
        (Json::String(text), Some(original @ Json::String(_))) if text.lossy().contains(MARK) => {
            original.write(out);
        }
        (Json::Array(items), original) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                restored(item, original.and_then(|json| json.items().get(n)), out);
            }
            out.push(']');
        }
        (Json::Object(members), original) => {
            out.push('{');
            for (n, (key, value)) in members.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_string(&key.lossy(), out);
                out.push(':');
                restored(value, original.and_then(|json| json.get(&key.lossy())), out);
            }
            out.push('}');
        }
        (other, _) => other.write(out),
    }
}

/// A result of more characters than the established formats show has a reference, by which all of it can be asked for.
const SHOWN: usize = 2000;

fn reference(call: &ToolCallId<'static>, max: usize) -> Option<Reference<'static>> {
    Reference::bounded(format!("result-{call}"), max).ok()
}
