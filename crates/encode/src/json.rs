//! Writes JSON text exactly as the established formats lay it out: `", "` and `": "`, keys never sorted, numbers
//! and escapes by the rules of the goldens (§2).
//!
//! Refuses nothing and panics on nothing: what reaches it was checked when the event was decoded.

pub(crate) mod number;
pub(crate) mod string;
pub(crate) mod transcode;

use causeway_contract::json::JsonObject;
use causeway_contract::namespace::Namespace;

use self::string::{Style, escape};
use self::transcode::transcode;

/// Appends text as it is.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends `text` as a JSON string, quotes included.
#[inline]
pub(crate) fn put_string<S: Style>(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(S::QUOTE);
    escape::<S>(text, out);
    out.extend_from_slice(S::QUOTE);
}

/// Appends a namespace as a JSON array of strings.
#[inline]
pub(crate) fn put_namespace<S: Style>(out: &mut Vec<u8>, namespace: &Namespace<'_>) {
    out.push(b'[');
    for (at, element) in namespace.path().iter().enumerate() {
        if at > 0 {
            put(out, ", ");
        }
        put_string::<S>(out, element.as_str());
    }
    out.push(b']');
}

/// Appends a free-form object in the layout of the established formats.
#[inline]
pub(crate) fn put_object<S: Style>(out: &mut Vec<u8>, object: &JsonObject<'_>) {
    transcode::<S>(object.as_str(), out);
}
