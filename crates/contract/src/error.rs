//! What is wrong with a line or a draft: one variant a fault, the check it belongs to, and a JSON pointer to the place.
//!
//! Refuses to repeat content: a message names lengths, limits and code points, never the text it found.

use std::fmt;

use crate::id::IdFault;
use crate::timestamp::TimestampFault;

/// The four checks that look at one event alone (decisions, first page).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Check {
    /// The line as JSON, and the eight envelope fields.
    Envelope,
    /// The shape of `data`.
    Payload,
    /// The size of one value or of the event.
    Bounds,
    /// The character rules.
    Text,
}

impl Check {
    /// Every check.
    pub const ALL: &[Self] = &[Self::Envelope, Self::Payload, Self::Bounds, Self::Text];

    /// The name used in reports and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Payload => "payload",
            Self::Bounds => "bounds",
            Self::Text => "text",
        }
    }

    /// The check with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|check| check.as_str() == text)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An RFC 6901 JSON pointer into an event; the empty pointer is the event itself.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Pointer(String);

impl Pointer {
    /// The pointer to the whole event.
    pub fn root() -> Self {
        Self::default()
    }

    /// The pointer as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The pointer to member `key` of the value this one points to.
    #[must_use]
    pub fn child(mut self, key: &str) -> Self {
        self.0.push('/');
        push_segment(&mut self.0, key);
        self
    }

    /// Moves the pointer one level down: what it points to is now found under `key`. A key longer than any id is
    /// not repeated: the pointer then ends at the value around it.
    fn nest(&mut self, key: &str) {
        if key.len() > LONGEST_SEGMENT {
            self.0.clear();
            return;
        }
        let mut outer = String::with_capacity(self.0.len() + key.len() + 1);
        outer.push('/');
        push_segment(&mut outer, key);
        outer.push_str(&self.0);
        self.0 = outer;
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn push_segment(out: &mut String, key: &str) {
    for c in key.chars() {
        match c {
            '~' => out.push_str("~0"),
            '/' => out.push_str("~1"),
            _ => out.push(c),
        }
    }
}

/// What exactly is wrong.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The line is not UTF-8.
    #[error("the line is not valid UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// The first byte that is not.
        offset: usize,
    },
    /// The line starts with a byte order mark.
    #[error("the line starts with a byte order mark")]
    ByteOrderMark,
    /// The line is not JSON.
    #[error("the line is not JSON: {expected} was expected at byte {offset}")]
    Syntax {
        /// Where the grammar breaks.
        offset: usize,
        /// What would have been right there.
        expected: &'static str,
    },
    /// Something follows the JSON value.
    #[error("the line goes on after its JSON value, at byte {offset}")]
    TrailingBytes {
        /// The first byte after the value and its white space.
        offset: usize,
    },
    /// Arrays and objects are nested too deeply.
    #[error("the JSON is more than {max} levels deep")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// A value has the wrong JSON type.
    #[error("{expected} was expected")]
    WrongType {
        /// What would have been right.
        expected: &'static str,
    },
    /// A required field is absent.
    #[error("the field \"{name}\" is missing")]
    MissingField {
        /// The field.
        name: &'static str,
    },
    /// A field the contract does not know.
    #[error("the contract has no such field here")]
    UnknownField,
    /// A field that stands there twice.
    #[error("the field occurs twice")]
    RepeatedField,
    /// `version` is not the integer 1.
    #[error("the version is not the integer 1")]
    WrongVersion,
    /// `type` is not one of the 21.
    #[error("the contract has no such event type")]
    UnknownEventType,
    /// A closed set of values does not hold this one.
    #[error("the value is not one of {allowed}")]
    NotAllowed {
        /// The values that are.
        allowed: &'static str,
    },
    /// An integer beyond its range.
    #[error("the integer is larger than {max}")]
    OutOfRange {
        /// The largest one allowed.
        max: u64,
    },
    /// A number below zero.
    #[error("the number is negative")]
    Negative,
    /// A number that no double can hold.
    #[error("the number is beyond the range of a double")]
    NotFinite,
    /// `timestamp` is not an instant.
    #[error("the timestamp {0}")]
    Timestamp(TimestampFault),
    /// An id, a name or a code that breaks its rules.
    #[error("the value {0}")]
    Id(IdFault),
    /// `currency` is not three capital letters.
    #[error("the currency is not three capital letters")]
    NotACurrency,
    /// `metadata` holds an array or an object.
    #[error("metadata is flat: only scalars may stand in it")]
    NestedMetadata,
    /// An approval request without a call.
    #[error("an approval request names at least one tool call")]
    NoApprovals,
    /// An approval request that names a call twice.
    #[error("the tool call is named twice")]
    RepeatedApproval,
    /// `allowed_decisions` that names a decision twice.
    #[error("the decision is listed twice")]
    RepeatedDecision,
    /// A value that is too large.
    #[error("the value is {len} bytes long, the limit is {max}")]
    TooLong {
        /// Its bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// A list or an object with too many entries.
    #[error("there are more than {max} {what}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// `details` nested too deeply.
    #[error("the value is {depth} levels deep, the limit is {max}")]
    NestedTooDeep {
        /// Its depth.
        depth: usize,
        /// The limit.
        max: usize,
    },
    /// The whole event is too large.
    #[error("the event is {len} bytes long, the limit is {max}")]
    EventTooLarge {
        /// Its encoded bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// U+0000 in content.
    #[error("the text holds U+0000")]
    Nul,
    /// Half a surrogate pair.
    #[error("the text holds half a surrogate pair")]
    LoneSurrogate,
    /// A control character where they are refused.
    #[error("the text holds the control character U+{code:04X}")]
    ControlCharacter {
        /// Its code point.
        code: u32,
    },
}

impl Fault {
    /// Whether the line does not parse at all: such a fault wins over every narrower one.
    pub(crate) fn is_syntax(&self) -> bool {
        matches!(
            self,
            Self::NotUtf8 { .. }
                | Self::ByteOrderMark
                | Self::Syntax { .. }
                | Self::TrailingBytes { .. }
                | Self::TooDeep { .. }
        )
    }

    /// The check, for a fault in `data` (`true`) or in the envelope around it.
    fn check(&self, in_data: bool) -> Check {
        match self {
            Self::TooLong { .. }
            | Self::TooMany { .. }
            | Self::NestedTooDeep { .. }
            | Self::EventTooLarge { .. }
            | Self::Id(IdFault::TooLong { .. }) => Check::Bounds,
            Self::Nul
            | Self::LoneSurrogate
            | Self::ControlCharacter { .. }
            | Self::Id(IdFault::Forbidden { .. }) => Check::Text,
            Self::NotUtf8 { .. }
            | Self::ByteOrderMark
            | Self::Syntax { .. }
            | Self::TrailingBytes { .. }
            | Self::TooDeep { .. } => Check::Envelope,
            Self::WrongType { .. }
            | Self::MissingField { .. }
            | Self::UnknownField
            | Self::RepeatedField
            | Self::WrongVersion
            | Self::UnknownEventType
            | Self::NotAllowed { .. }
            | Self::OutOfRange { .. }
            | Self::Negative
            | Self::NotFinite
            | Self::Timestamp(_)
            | Self::Id(_)
            | Self::NotACurrency
            | Self::NestedMetadata
            | Self::NoApprovals
            | Self::RepeatedApproval
            | Self::RepeatedDecision => {
                if in_data {
                    Check::Payload
                } else {
                    Check::Envelope
                }
            }
        }
    }
}

/// A fault and its place: why a line is not an event of the contract, or a draft cannot become one.
#[derive(Clone, Eq, PartialEq)]
pub struct DecodeError(Box<Inner>);

#[derive(Clone, Eq, PartialEq)]
struct Inner {
    fault: Fault,
    pointer: Pointer,
    /// Whether the value at fault is `data` or inside it.
    in_data: bool,
}

impl DecodeError {
    /// A fault of the value at hand; callers further out add the way to it with [`DecodeError::at`].
    #[cold]
    #[inline(never)]
    pub(crate) fn new(fault: Fault) -> Self {
        Self(Box::new(Inner { fault, pointer: Pointer::root(), in_data: false }))
    }

    /// The same error, seen from the value in which `key` holds the value at fault.
    #[cold]
    #[inline(never)]
    pub(crate) fn at(mut self, key: &str) -> Self {
        if !self.0.fault.is_syntax() {
            self.0.pointer.nest(key);
        }
        self
    }

    /// The same error, seen from the event in whose `data` it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn in_data(mut self) -> Self {
        self.0.in_data = true;
        self.at("data")
    }

    /// The same error, seen from the array whose element `index` is at fault.
    #[cold]
    #[inline(never)]
    pub(crate) fn at_index(self, index: usize) -> Self {
        self.at(&index.to_string())
    }

    /// What is wrong.
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }

    /// The check that was broken.
    pub fn check(&self) -> Check {
        self.0.fault.check(self.0.in_data)
    }

    /// Where, as a pointer into the event; `None` when the line does not parse as JSON. A missing field is reported
    /// at the object it is missing from.
    pub fn pointer(&self) -> Option<&Pointer> {
        (!self.0.fault.is_syntax()).then_some(&self.0.pointer)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.fault, f)
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError")
            .field("check", &self.check())
            .field("pointer", &self.0.pointer.as_str())
            .field("fault", &self.0.fault)
            .finish()
    }
}

impl std::error::Error for DecodeError {}

impl From<Fault> for DecodeError {
    #[cold]
    fn from(fault: Fault) -> Self {
        Self::new(fault)
    }
}

impl From<IdFault> for DecodeError {
    #[cold]
    fn from(fault: IdFault) -> Self {
        Self::new(Fault::Id(fault))
    }
}

/// The longest key that a pointer repeats.
const LONGEST_SEGMENT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_escapes_slashes_and_tildes_and_grows_outwards() {
        let error = DecodeError::new(Fault::Nul).at("a/b~c").at_index(3).in_data();
        assert_eq!(error.pointer().unwrap().as_str(), "/data/3/a~1b~0c");
        assert_eq!(error.check(), Check::Text);
    }

    #[test]
    fn a_pointer_does_not_repeat_an_endless_key() {
        let error = DecodeError::new(Fault::UnknownField).at(&"k".repeat(300)).in_data();
        assert_eq!(error.pointer().unwrap().as_str(), "/data");
        assert_eq!(error.check(), Check::Payload);
    }

    #[test]
    fn the_same_fault_is_envelope_outside_data_and_payload_inside() {
        let fault = || DecodeError::new(Fault::WrongType { expected: "a string" });
        assert_eq!(fault().at("run_id").check(), Check::Envelope);
        assert_eq!(fault().at("delta").in_data().check(), Check::Payload);
        assert_eq!(fault().at("data").check(), Check::Envelope);
    }
}
