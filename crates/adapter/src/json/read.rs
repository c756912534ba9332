//! Reading native JSON: one strict pass, copying only strings with escapes or halves of surrogate pairs.
//!
//! Refuses whatever is not JSON, at its byte.

use std::borrow::Cow;

use super::{Json, JsonStr, MARK, MAX_DEPTH, Unit};
use crate::adapter::ItemError;

/// Where the reading stands.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// One value and nothing else.
    pub(super) fn all(mut self) -> Result<Json<'a>, ItemError> {
        let value = self.value(0)?;
        self.space();
        if self.at < self.bytes.len() {
            return Err(self.fault("something follows the value"));
        }
        Ok(value)
    }

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
