//! Free-form JSON of the contract, kept as text: number spelling and key order survive log and replay (decisions §2).
//!
//! Refuses to become a tree. [`tokens`] walks the text for writers that spell it in their own way.

pub(crate) mod scan;
pub mod string;
pub mod tokens;

use std::borrow::Cow;

use crate::error::{DecodeError, Fault};
use crate::json::scan::Scanner;
use crate::json::tokens::{Token, Tokens};
use crate::limits::Limits;
use crate::text::Text;

/// White space of JSON.
pub(crate) const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Arrays and objects around a tool's arguments: the event and its `data`.
const LEVELS_AROUND: usize = 2;

/// Checks that `text` is exactly one strict JSON object, as the joined pieces of streamed arguments must be: grammar,
/// depth, finite numbers, no U+0000, no half surrogate pair. The pointer of an error starts at the object.
///
/// # Errors
/// The first fault, the grammar's before all others.
pub fn check_object(text: &str, limits: &Limits) -> Result<(), DecodeError> {
    let read = |mut scanner: Scanner<'_>| scanner.object(LEVELS_AROUND).and_then(|_| scanner.end());
    match read(Scanner::new(text, limits.json_depth)) {
        Ok(()) => Ok(()),
        Err(error) => match read(Scanner::grammar(text, limits.json_depth)) {
            Err(grammar) if grammar.fault().is_syntax() => Err(grammar),
            Ok(()) | Err(_) => {
                // Another JSON value than an object must still parse to be called one.
                let mut any = Scanner::grammar(text, limits.json_depth);
                any.skip(LEVELS_AROUND).and_then(|()| any.end())?;
                Err(error)
            }
        },
    }
}

/// What a free-form object holds, counted at all levels together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Measure {
    /// Keys.
    pub keys: usize,
    /// Levels of arrays and objects, the outermost included.
    pub depth: usize,
}

/// The text of one JSON object, strictly checked when it was made.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct JsonObject<'a>(Text<'a>);

impl<'a> JsonObject<'a> {
    /// `{}`.
    pub const EMPTY: JsonObject<'static> = JsonObject(Cow::Borrowed("{}"));

    /// Checks `text` as [`check_object`] does and keeps it as it is.
    ///
    /// # Errors
    /// The first fault, the grammar's before all others.
    pub fn parse(text: impl Into<Text<'a>>, limits: &Limits) -> Result<Self, DecodeError> {
        let text = text.into();
        check_object(&text, limits)?;
        Ok(Self(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches(SPACE)),
            Cow::Owned(text) if text.trim_matches(SPACE).len() == text.len() => Cow::Owned(text),
            Cow::Owned(text) => Cow::Owned(text.trim_matches(SPACE).to_owned()),
        }))
    }

    /// Text that the decoder's scanner has accepted as one object.
    pub(crate) fn scanned(text: impl Into<Text<'a>>) -> Self {
        Self(text.into())
    }

    /// The JSON text as it was given, white space included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tokens of the object, from `{` to `}`.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens::new(&self.0)
    }

    /// Whether the object has no members.
    pub fn is_empty(&self) -> bool {
        self.tokens().nth(1) == Some(Token::EndObject)
    }

    /// Its keys and its depth.
    pub fn measure(&self) -> Measure {
        let mut measure = Measure::default();
        let mut depth = 0usize;
        for token in self.tokens() {
            match token {
                Token::BeginObject | Token::BeginArray => {
                    depth += 1;
                    measure.depth = measure.depth.max(depth);
                }
                Token::EndObject | Token::EndArray => depth = depth.saturating_sub(1),
                Token::Key(_) => measure.keys += 1,
                Token::String(_) | Token::Number(_) | Token::Bool(_) | Token::Null => {}
            }
        }
        measure
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
    /// Takes the spelling of one JSON number.
    ///
    /// # Errors
    /// The text is no number, or its double is not finite.
    pub fn parse(text: impl Into<Text<'a>>) -> Result<Self, DecodeError> {
        let text = text.into();
        let mut scanner = Scanner::new(&text, 0);
        if scanner.number()?.len() != text.len() {
            return Err(DecodeError::new(Fault::WrongType { expected: "a number" }));
        }
        Ok(Self(text))
    }

    /// Text that the decoder's scanner has accepted as one number.
    pub(crate) fn scanned(text: impl Into<Text<'a>>) -> Self {
        Self(text.into())
    }

    /// The literal as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is below zero (`-0` is not).
    pub fn is_negative(&self) -> bool {
        self.0.starts_with('-')
            && self.0.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| matches!(b, b'1'..=b'9'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_spelling_and_knows_its_measure() {
        let object =
            JsonObject::parse(" { \"a\": 2E3, \"b\": {\"c\": [1.0, {}]} } ", &Limits::DEFAULT).unwrap();
        assert_eq!(object.as_str(), "{ \"a\": 2E3, \"b\": {\"c\": [1.0, {}]} }");
        assert_eq!(object.measure(), Measure { keys: 3, depth: 4 });
        assert!(!object.is_empty());
        assert!(JsonObject::parse("{\n}", &Limits::DEFAULT).unwrap().is_empty());
    }

    #[test]
    fn joined_arguments_must_be_one_strict_object() {
        let fault = |text: &str| check_object(text, &Limits::DEFAULT).map_err(|error| error.fault().clone());
        assert_eq!(fault("{\"a\":1}"), Ok(()));
        assert_eq!(fault("{\"a\":1,\"a\":2}"), Ok(()));
        assert_eq!(fault("[1]"), Err(Fault::WrongType { expected: "an object" }));
        assert_eq!(fault("{}{}"), Err(Fault::TrailingBytes { offset: 2 }));
        assert_eq!(fault("{\"a\":\"\\u0000\"}"), Err(Fault::Nul));
        assert_eq!(fault("{\"a\":1e999}"), Err(Fault::NotFinite));
        assert!(matches!(fault("{\"a\":\"\\u0000\""), Err(Fault::Syntax { .. })));
        assert!(matches!(fault(""), Err(Fault::Syntax { .. })));
        assert!(matches!(fault("[1"), Err(Fault::Syntax { .. })));
    }

    #[test]
    fn a_number_is_kept_as_it_is_spelled() {
        assert_eq!(JsonNumber::parse("1.50").unwrap().as_str(), "1.50");
        assert!(JsonNumber::parse("-0.5").unwrap().is_negative());
        assert!(!JsonNumber::parse("-0.0e7").unwrap().is_negative());
        for text in ["", "1 ", " 1", "1x", "1e400", "NaN", "\"1\""] {
            assert!(JsonNumber::parse(text).is_err(), "{text}");
        }
    }
}
