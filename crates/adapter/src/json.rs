//! Native JSON as harnesses write it: read into a borrowed tree that keeps number spelling, key order and halves of
//! surrogate pairs.
//!
//! A general parser would not do: Python writes integers of any size and lone surrogates (`"\ud83d"`, half an emoji
//! at the end of a streamed piece), which have to be kept until the other half comes. Refused is everything else
//! that is not JSON: NaN, infinities, raw control characters, trailing bytes, depth beyond [`MAX_DEPTH`].

mod read;

use std::borrow::Cow;

use self::read::Reader;
pub use self::read::join;
use crate::adapter::ItemError;

/// The deepest nesting that is read.
pub const MAX_DEPTH: usize = 128;

/// A lone surrogate U+D800+n is kept as the private character U+10F800+n of a [`JsonStr`] whose `lone` is set.
const MARK: u32 = 0x10_f800;

/// A JSON value. Borrows from the line where no escape forces a copy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it is spelled.
    Number(&'a str),
    /// A string.
    String(JsonStr<'a>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object, in order; a key may come twice.
    Object(Vec<(JsonStr<'a>, Json<'a>)>),
}

/// A string that may hold halves of surrogate pairs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonStr<'a> {
    text: Cow<'a, str>,
    lone: bool,
}

/// A character of a native string, or half of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// A character.
    Char(char),
    /// The first half of a surrogate pair, alone.
    High(u16),
    /// The second half, alone.
    Low(u16),
}

impl<'a> JsonStr<'a> {
    /// A string without lone surrogates.
    pub fn plain(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), lone: false }
    }

    /// The text if it holds no lone surrogate.
    pub fn as_plain(&self) -> Option<&str> {
        (!self.lone).then_some(&*self.text)
    }

    /// The text, lone surrogates replaced by U+FFFD.
    pub fn lossy(&self) -> Cow<'_, str> {
        if !self.lone {
            return Cow::Borrowed(&self.text);
        }
        Cow::Owned(self.units().map(|unit| if let Unit::Char(c) = unit { c } else { '\u{fffd}' }).collect())
    }

    /// The characters and halves.
    pub fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let lone = self.lone;
        self.text.chars().map(move |c| match u32::from(c).checked_sub(MARK) {
            Some(offset) if lone => {
                let half = u16::try_from(0xd800 + offset).unwrap_or(0xd800);
                if half < 0xdc00 { Unit::High(half) } else { Unit::Low(half) }
            }
            Some(_) | None => Unit::Char(c),
        })
    }

    /// Whether nothing stands in it.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl PartialEq<str> for JsonStr<'_> {
    fn eq(&self, other: &str) -> bool {
        !self.lone && self.text == other
    }
}

impl<'a> Json<'a> {
    /// Reads one value and nothing else.
    ///
    /// # Errors
    /// [`ItemError::Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ItemError> {
        Reader::new(bytes).all()
    }

    /// The last member with this key, unless it is null.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        let Self::Object(members) = self else { return None };
        members
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
            .filter(|v| **v != Self::Null)
    }

    /// A string member.
    pub fn str(&self, key: &str) -> Option<&JsonStr<'a>> {
        self.get(key).and_then(Self::as_str)
    }

    /// A string member without lone surrogates.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.str(key).and_then(JsonStr::as_plain)
    }

    /// An array member; empty when it is absent or something else.
    pub fn list(&self, key: &str) -> &[Json<'a>] {
        self.get(key).map_or(&[], Self::items)
    }

    /// The items of an array; none of anything else.
    pub fn items(&self) -> &[Json<'a>] {
        if let Self::Array(items) = self { items } else { &[] }
    }

    /// The members of an object; none of anything else.
    pub fn members(&self) -> &[(JsonStr<'a>, Json<'a>)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The string.
    pub fn as_str(&self) -> Option<&JsonStr<'a>> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// A whole number ≥ 0, also when it is spelled with a fraction of zero.
    pub fn as_u64(&self) -> Option<u64> {
        let Self::Number(text) = self else { return None };
        text.parse()
            .ok()
            .or_else(|| text.split_once('.').filter(|(_, f)| f.bytes().all(|b| b == b'0'))?.0.parse().ok())
    }

    /// The same value, whatever the order of keys.
    pub fn same(&self, other: &Json<'_>) -> bool {
        match (self, other) {
            (Json::Null, Json::Null) => true,
            (Json::Bool(a), Json::Bool(b)) => a == b,
            (Json::Number(a), Json::Number(b)) => a == b,
            (Json::String(a), Json::String(b)) => a.text == b.text && a.lone == b.lone,
            (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Json::Object(a), Json::Object(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, value)| {
                        b.iter().any(|(name, other)| {
                            name.text == key.text && name.lone == key.lone && value.same(other)
                        })
                    })
            }
            (
                Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Array(_)
                | Json::Object(_),
                _,
            ) => false,
        }
    }

    /// Appends it as compact JSON that is valid in a canonical event: NUL and lone surrogates become U+FFFD.
    pub fn write(&self, out: &mut String) {
        self.write_with(out, &mut |text, out| out.push_str(text));
    }

    /// The same, every string value passing through `project` first.
    pub fn write_with(&self, out: &mut String, project: &mut dyn FnMut(&str, &mut String)) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(text) => out.push_str(text),
            Self::String(text) => {
                let mut shown = String::new();
                project(&text.lossy(), &mut shown);
                write_string(&shown, out);
            }
            Self::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write_with(out, project);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                let mut first = true;
                for (n, (key, value)) in members.iter().enumerate() {
                    if members.iter().skip(n + 1).any(|(later, _)| later == key) {
                        continue; // the last of equal keys counts, as everywhere
                    }
                    if !std::mem::take(&mut first) {
                        out.push(',');
                    }
                    write_string(&key.lossy(), out);
                    out.push(':');
                    value.write_with(out, project);
                }
                out.push('}');
            }
        }
    }

    /// Compact JSON text.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Appends `text` as a JSON string; NUL becomes U+FFFD.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push('\u{fffd}'),
            c if u32::from(c) < 0x20 => {
                out.push_str("\\u00");
                for shift in [4, 0] {
                    out.push(char::from_digit((u32::from(c) >> shift) & 15, 16).unwrap_or('0'));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(json: &str) -> Vec<Unit> {
        Json::parse(json.as_bytes()).unwrap().as_str().unwrap().units().collect()
    }

    #[test]
    fn a_value_is_written_as_it_was_spelled_without_white_space() {
        let given = r#" { "b" : [ 1.0 , 2E3, -0, 90071992547409931234567890 ], "a": {"é": "x\ty\u0007 \u00f6"}, "n": null } "#;
        let parsed = Json::parse(given.as_bytes()).unwrap();
        assert_eq!(
            parsed.to_text(),
            "{\"b\":[1.0,2E3,-0,90071992547409931234567890],\"a\":{\"é\":\"x\\ty\\u0007 ö\"},\"n\":null}"
        );
    }

    #[test]
    fn halves_of_a_pair_are_joined_inside_a_string_and_kept_at_its_edges() {
        assert_eq!(units(r#""\ud83d\ude00""#), [Unit::Char('😀')]);
        assert_eq!(units(r#""a\ud83d""#), [Unit::Char('a'), Unit::High(0xd83d)]);
        assert_eq!(units(r#""\ude00b""#), [Unit::Low(0xde00), Unit::Char('b')]);
        assert_eq!(units(r#""\ud83dx\ude00""#), [Unit::High(0xd83d), Unit::Char('x'), Unit::Low(0xde00)]);
        assert_eq!(Json::parse(b"\"\xed\xa0\xbd\"").unwrap().as_str().unwrap().lossy(), "\u{fffd}");
        assert_eq!(Json::parse(b"\"\xed\xa0\xbd\xed\xb8\x80\"").unwrap().as_str().unwrap().lossy(), "😀");
    }

    #[test]
    fn characters_of_the_private_block_pass_where_no_half_stands() {
        assert_eq!(units("\"\u{10f83d}\""), [Unit::Char('\u{10f83d}')]);
        assert_eq!(units("\"\u{10f83d}\\n\""), [Unit::Char('\u{10f83d}'), Unit::Char('\n')]);
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for (given, offset) in [
            ("", 0),
            ("{", 1),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("NaN", 0),
            ("01", 1),
            ("1.", 2),
            ("\"a", 2),
            ("\"\\x\"", 2),
            ("\"\u{1}\"", 1),
            ("{} {}", 3),
            ("{a:1}", 1),
            ("\"\\u12\"", 3),
        ] {
            let error = Json::parse(given.as_bytes()).unwrap_err();
            assert!(matches!(error, ItemError::Malformed { .. }), "{given}: {error}");
            if given != "\"\\u12\"" {
                assert!(error.to_string().ends_with(&format!("byte {offset}")), "{given}: {error}");
            }
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
        assert!(Json::parse("[".repeat(500).as_bytes()).is_err());
    }
}
