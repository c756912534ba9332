//! Free-form JSON of the contract, kept as text: number spelling and key order survive log and replay (decisions §2).

use std::borrow::Cow;

use crate::text::Text;

/// The text of one JSON object, strictly checked when it was made.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct JsonObject<'a>(Text<'a>);

impl<'a> JsonObject<'a> {
    /// `{}`.
    pub const EMPTY: JsonObject<'static> = JsonObject(Cow::Borrowed("{}"));

    /// Text that the decoder's scanner has accepted as one object.
    pub(crate) fn scanned(text: impl Into<Text<'a>>) -> Self {
        Self(text.into())
    }

    /// The JSON text as it was given, white space included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the object has no members.
    pub fn is_empty(&self) -> bool {
        let inner = self.0.trim_start_matches(['{', ' ', '\t', '\n', '\r']);
        inner.starts_with('}')
    }

    /// The same object without a tie to the input line.
    pub fn into_owned(self) -> JsonObject<'static> {
        JsonObject(Cow::Owned(self.0.into_owned()))
    }
}

/// The text of one JSON number whose double is finite.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct JsonNumber<'a>(Text<'a>);

impl<'a> JsonNumber<'a> {
    /// Text that the decoder's scanner has accepted as one number.
    pub(crate) fn scanned(text: impl Into<Text<'a>>) -> Self {
        Self(text.into())
    }

    /// The literal as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The nearest double.
    pub fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::MAX)
    }

    /// The same number without a tie to the input line.
    pub fn into_owned(self) -> JsonNumber<'static> {
        JsonNumber(Cow::Owned(self.0.into_owned()))
    }
}

impl From<u32> for JsonNumber<'_> {
    fn from(value: u32) -> Self {
        Self(Cow::Owned(value.to_string()))
    }
}
