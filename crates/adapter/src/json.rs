//! Native JSON as harnesses write it: read into a borrowed tree that keeps number spelling, key order and halves of
//! surrogate pairs.
//!
//! A general parser would not do: Python writes integers of any size and lone surrogates (`"\ud83d"`, half an emoji
//! at the end of a streamed piece), which have to be kept until the other half comes. Refused is everything else
//! that is not JSON: NaN, infinities, raw control characters, trailing bytes, depth beyond [`MAX_DEPTH`].

use std::borrow::Cow;

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
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at < bytes.len() {
            return Err(reader.fault("something follows the value"));
        }
        Ok(value)
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

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn fault(&self, what: &'static str) -> ItemError {
        ItemError::Malformed { what, offset: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn literal(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, ItemError> {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.fault("a value was expected"))
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, ItemError> {
        if depth > MAX_DEPTH {
            return Err(self.fault("it is nested too deeply"));
        }
        self.space();
        match self.peek() {
            Some(b'n') => self.literal("null", Json::Null),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => {
                self.at += 1;
                let mut items = Vec::new();
                self.space();
                if self.eat(b']') {
                    return Ok(Json::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    self.space();
                    if self.eat(b']') {
                        return Ok(Json::Array(items));
                    }
                    if !self.eat(b',') {
                        return Err(self.fault("`,` or `]` was expected"));
                    }
                }
            }
            Some(b'{') => {
                self.at += 1;
                let mut members = Vec::new();
                self.space();
                if self.eat(b'}') {
                    return Ok(Json::Object(members));
                }
                loop {
                    self.space();
                    if self.peek() != Some(b'"') {
                        return Err(self.fault("a key was expected"));
                    }
                    let key = self.string()?;
                    self.space();
                    if !self.eat(b':') {
                        return Err(self.fault("`:` was expected"));
                    }
                    let value = self.value(depth + 1)?;
                    members.push((key, value));
                    self.space();
                    if self.eat(b'}') {
                        return Ok(Json::Object(members));
                    }
                    if !self.eat(b',') {
                        return Err(self.fault("`,` or `}` was expected"));
                    }
                }
            }
            Some(_) => Err(self.fault("a value was expected")),
            None => Err(self.fault("it ends too early")),
        }
    }

    fn digits(&mut self) -> Result<(), ItemError> {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { Err(self.fault("a digit was expected")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Json<'a>, ItemError> {
        let from = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        let text = self.bytes.get(from..self.at).and_then(|digits| std::str::from_utf8(digits).ok());
        text.map(Json::Number).ok_or_else(|| self.fault("a number was expected"))
    }

    /// A string; `at` stands on the opening quote.
    fn string(&mut self) -> Result<JsonStr<'a>, ItemError> {
        self.at += 1;
        let from = self.at;
        while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..0x20)) {
            self.at += 1;
        }
        let piece = self.bytes.get(from..self.at).unwrap_or_default();
        if self.peek() == Some(b'"')
            && let Ok(text) = std::str::from_utf8(piece)
        {
            self.at += 1;
            return Ok(JsonStr { text: Cow::Borrowed(text), lone: false });
        }
        self.at = from;
        self.copied()
    }

    fn copied(&mut self) -> Result<JsonStr<'a>, ItemError> {
        let mut copy = Copy { text: String::new(), high: None, lone: false };
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(copy.done());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut copy)?;
                }
                Some(0..0x20) => return Err(self.fault("a raw control character stands in a string")),
                Some(byte) if byte < 0x80 => {
                    copy.push(Unit::Char(char::from(byte)));
                    self.at += 1;
                }
                Some(_) => self.wide(&mut copy)?,
                None => return Err(self.fault("it ends inside a string")),
            }
        }
    }

    /// A character beyond ASCII, or half of a pair as Python's `surrogatepass` writes it (`ED A0..BF xx`).
    fn wide(&mut self, copy: &mut Copy) -> Result<(), ItemError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if let [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] = *rest {
            copy.push_half(0xd000 | (u16::from(second & 0x3f) << 6) | u16::from(third & 0x3f));
            self.at += 3;
            return Ok(());
        }
        let head = rest.get(..4.min(rest.len())).unwrap_or_default();
        let valid = match std::str::from_utf8(head) {
            Ok(text) => text,
            Err(error) => head
                .get(..error.valid_up_to())
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
                .unwrap_or_default(),
        };
        let Some(c) = valid.chars().next() else { return Err(self.fault("it is not UTF-8")) };
        copy.push(Unit::Char(c));
        self.at += c.len_utf8();
        Ok(())
    }

    fn escape(&mut self, copy: &mut Copy) -> Result<(), ItemError> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 1..self.at + 5).unwrap_or_default();
                let mut code = 0u16;
                for digit in digits {
                    let value = char::from(*digit)
                        .to_digit(16)
                        .ok_or_else(|| self.fault("a hex digit was expected"))?;
                    code = (code << 4) | u16::try_from(value).unwrap_or_default();
                }
                if digits.len() < 4 {
                    return Err(self.fault("it ends inside an escape"));
                }
                self.at += 5;
                match char::from_u32(u32::from(code)) {
                    Some(c) => copy.push(Unit::Char(c)),
                    None => copy.push_half(code),
                }
                return Ok(());
            }
            Some(_) => return Err(self.fault("an unknown escape")),
            None => return Err(self.fault("it ends inside an escape")),
        };
        copy.push(Unit::Char(c));
        self.at += 1;
        Ok(())
    }
}

/// A string being copied; joins halves that belong together.
struct Copy {
    text: String,
    high: Option<u16>,
    lone: bool,
}

impl Copy {
    fn push_half(&mut self, half: u16) {
        self.push(if half < 0xdc00 { Unit::High(half) } else { Unit::Low(half) });
    }

    fn push(&mut self, unit: Unit) {
        match (self.high.take(), unit) {
            (Some(high), Unit::Low(low)) => {
                if let Some(c) = join(high, low) {
                    self.put(c);
                }
            }
            (Some(high), other) => {
                self.mark(high);
                self.push(other);
            }
            (None, Unit::High(high)) => self.high = Some(high),
            (None, Unit::Low(low)) => self.mark(low),
            (None, Unit::Char(c)) => self.put(c),
        }
    }

    fn put(&mut self, c: char) {
        self.text.push(if self.lone && u32::from(c) >= MARK { '\u{fffd}' } else { c });
    }

    fn mark(&mut self, half: u16) {
        if !self.lone {
            // From here on the private block means halves; a character of the block that came before is given up.
            self.lone = true;
            if self.text.chars().any(|c| u32::from(c) >= MARK) {
                self.text =
                    self.text.chars().map(|c| if u32::from(c) >= MARK { '\u{fffd}' } else { c }).collect();
            }
        }
        let offset = u32::from(half).saturating_sub(0xd800);
        self.text.push(char::from_u32(MARK + offset).unwrap_or('\u{fffd}'));
    }

    fn done(mut self) -> JsonStr<'static> {
        if let Some(high) = self.high.take() {
            self.mark(high);
        }
        JsonStr { text: Cow::Owned(self.text), lone: self.lone }
    }
}

/// The character of a surrogate pair.
pub fn join(high: u16, low: u16) -> Option<char> {
    char::decode_utf16([high, low]).next().and_then(Result::ok)
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
