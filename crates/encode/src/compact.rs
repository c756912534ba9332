//! Compact JSON in `data:` lines, for the formats that are not bound to the established layout.
//!
//! Refuses white space outside of strings; free-form values keep their spelling.

use causeway_contract::canonical::{write_minified, write_string};
use causeway_contract::event::Event;
use causeway_contract::id::{InterruptId, ToolCallId};
use causeway_contract::json::JsonObject;

use crate::json::number::put_integer;
use crate::json::put;
use crate::json::string::{Raw, escape};

/// The start of a frame, up to and with its type, as one literal.
macro_rules! begin {
    ($name:literal) => {
        concat!("data: {\"type\":\"", $name, "\"")
    };
}
pub(crate) use begin;

/// Appends `,"key":"text"`.
#[inline]
pub(crate) fn text(out: &mut Vec<u8>, key: &str, text: &str) {
    put_key(out, key);
    out.push(b'"');
    escape::<Raw>(text, out);
    out.push(b'"');
}

/// Appends `,"key":"text"` where there is a text.
#[inline]
pub(crate) fn text_if(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(out, key, value);
    }
}

/// Appends `,"key":number`.
#[inline]
pub(crate) fn number(out: &mut Vec<u8>, key: &str, value: i64) {
    put_key(out, key);
    put_integer(value, out);
}

/// Appends `,"key":` and a value that is JSON already.
pub(crate) fn raw(out: &mut Vec<u8>, key: &str, json: &str) {
    put_key(out, key);
    put(out, json);
}

/// Appends `,"key":` and a free-form object without its white space.
pub(crate) fn object(out: &mut Vec<u8>, key: &str, object: &JsonObject<'_>) {
    put_key(out, key);
    write_minified(object.as_str(), out);
}

/// Appends `"text"`.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    write_string(text, out);
}

/// Appends `,"key":`.
#[inline]
pub(crate) fn put_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    put(out, key);
    out.extend_from_slice(b"\":");
}

/// Appends members that each begin with a comma, as an object.
pub(crate) fn members(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    write(out);
    // The comma of the first member becomes the brace.
    match out.get_mut(at) {
        Some(first) => *first = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
}

/// Appends `[...]`, a comma between the items.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// The name by which a client answers one of an interrupt's approvals, in `agui-spec` and `ui-message` alike.
pub fn approval_id(interrupt_id: &InterruptId<'_>, tool_call_id: &ToolCallId<'_>) -> String {
    format!("{interrupt_id}:{tool_call_id}")
}

/// Closes a frame.
#[inline]
pub(crate) fn end(out: &mut Vec<u8>) {
    put(out, "}\n\n");
}

/// Appends the time in whole milliseconds and closes the frame.
#[inline]
pub(crate) fn stamp(event: &Event<'_>, out: &mut Vec<u8>) {
    number(out, "timestamp", event.timestamp.unix_millis());
    end(out);
}
