//! A strict reader of JSON text: RFC 8259 grammar, bounded depth, finite numbers, whole surrogate pairs, no U+0000.
//!
//! Refuses to build a tree: it moves a cursor over the text and hands out slices of it.

use crate::error::{DecodeError, Fault};
use crate::json::string::{RawStr, hex4, is_high, is_low, plain_run, visible_run};

/// The result of a step.
pub(crate) type Scan<T> = Result<T, DecodeError>;

/// A cursor over JSON text.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The deepest level of arrays and objects.
    max_depth: usize,
    /// Whether numbers and characters are checked beyond the grammar.
    strict: bool,
}

impl<'a> Scanner<'a> {
    /// A strict reader from the start of `text`.
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        Self { text, at: 0, max_depth, strict: true }
    }

    /// A reader that looks at the grammar and the depth only.
    pub(crate) fn grammar(text: &'a str, max_depth: usize) -> Self {
        Self { text, at: 0, max_depth, strict: false }
    }

    /// The bytes from the cursor on.
    #[inline(always)]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or(&[])
    }

    /// The cursor.
    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Moves the cursor to an offset it has been at; gives the one it leaves.
    pub(crate) fn jump(&mut self, at: usize) -> usize {
        std::mem::replace(&mut self.at, at)
    }

    /// The text from `start` to the cursor.
    #[inline(always)]
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or("")
    }

    /// The byte at the cursor, white space not skipped.
    #[inline(always)]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and looks at the next byte.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let byte = self.byte()?;
        if byte > b' ' { Some(byte) } else { self.peek_far() }
    }

    #[inline(never)]
    fn peek_far(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Takes `literal` if it stands exactly at the cursor.
    #[inline(always)]
    pub(crate) fn take(&mut self, literal: &str) -> bool {
        let found = self.rest().starts_with(literal.as_bytes());
        if found {
            self.at += literal.len();
        }
        found
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn syntax(&self, expected: &'static str) -> DecodeError {
        DecodeError::new(Fault::Syntax { offset: self.at, expected })
    }

    /// Enters the object or array that `open` starts; true when it has members.
    #[inline(always)]
    pub(crate) fn open(&mut self, open: u8, close: u8, expected: &'static str) -> Scan<bool> {
        if self.peek() != Some(open) {
            return Err(DecodeError::new(Fault::WrongType { expected }));
        }
        self.at += 1;
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Moves past the separator after a member; true when another member follows.
    #[inline(always)]
    pub(crate) fn more(&mut self, close: u8) -> Scan<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.peek();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.syntax(if close == b'}' {
                "a comma or a closing brace"
            } else {
                "a comma or a closing bracket"
            })),
        }
    }

    /// Reads a key and its colon.
    pub(crate) fn key(&mut self) -> Scan<RawStr<'a>> {
        if self.peek() != Some(b'"') {
            return Err(self.syntax("a key"));
        }
        let key = self.literal()?;
        if self.peek() != Some(b':') {
            return Err(self.syntax("a colon"));
        }
        self.at += 1;
        Ok(key)
    }

    /// Reads a string.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Scan<RawStr<'a>> {
        if self.peek() != Some(b'"') {
            return Err(DecodeError::new(Fault::WrongType { expected: "a string" }));
        }
        self.literal()
    }

    /// Reads a string of visible ASCII characters without escapes; `None` moves nothing.
    #[inline(always)]
    pub(crate) fn visible_string(&mut self) -> Option<&'a str> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let start = self.at + 1;
        let len = visible_run(self.text.as_bytes().get(start..)?);
        if self.text.as_bytes().get(start + len) != Some(&b'"') {
            return None;
        }
        let text = self.text.get(start..start + len)?;
        self.at = start + len + 1;
        Some(text)
    }

    /// Reads the string literal whose opening quote is at the cursor.
    #[inline(always)]
    fn literal(&mut self) -> Scan<RawStr<'a>> {
        let start = self.at + 1;
        let end = start + plain_run(self.text.as_bytes().get(start..).unwrap_or(&[]));
        if self.text.as_bytes().get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(RawStr::new(self.text.get(start..end).unwrap_or(""), false));
        }
        self.literal_far(start, end)
    }

    #[inline(never)]
    fn literal_far(&mut self, start: usize, mut end: usize) -> Scan<RawStr<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            self.at = end;
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += self.escape(end)?,
                Some(_) => return Err(self.syntax("an escaped control character")),
                None => return Err(self.syntax("a closing quote")),
            }
            end += plain_run(bytes.get(end..).unwrap_or(&[]));
        }
        self.at = end + 1;
        Ok(RawStr::new(self.text.get(start..end).unwrap_or(""), true))
    }

    /// Checks the escape at `at`; the bytes it takes.
    #[inline]
    fn escape(&self, at: usize) -> Scan<usize> {
        let bytes = self.text.as_bytes();
        match bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') => {
                let unit = hex4(bytes, at + 2).ok_or_else(|| self.syntax("four hexadecimal digits"))?;
                if unit == 0 && self.strict {
                    return Err(DecodeError::new(Fault::Nul));
                }
                if is_high(unit) && bytes.get(at + 6..at + 8) == Some(b"\\u") {
                    let low = hex4(bytes, at + 8).ok_or_else(|| self.syntax("four hexadecimal digits"))?;
                    if is_low(low) {
                        return Ok(12);
                    }
                }
                if (is_high(unit) || is_low(unit)) && self.strict {
                    return Err(DecodeError::new(Fault::LoneSurrogate));
                }
                Ok(6)
            }
            _ => Err(self.syntax("an escape")),
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Scan<bool> {
        match self.peek() {
            Some(b't') if self.take("true") => Ok(true),
            Some(b'f') if self.take("false") => Ok(false),
            _ => Err(DecodeError::new(Fault::WrongType { expected: "true or false" })),
        }
    }

    /// Takes `null`.
    #[inline]
    pub(crate) fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.take("null")
    }

    /// Reads an integer without sign, fraction or exponent.
    #[inline]
    pub(crate) fn integer(&mut self, max: u64) -> Scan<u64> {
        let first = self.peek();
        let rest = self.rest();
        let mut value = 0u64;
        let mut digits = 0usize;
        for &byte in rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        let leading_zero = digits > 1 && first == Some(b'0');
        if digits == 0 || leading_zero || matches!(rest.get(digits), Some(b'.' | b'e' | b'E')) {
            return Err(DecodeError::new(Fault::WrongType { expected: "an integer from 0 on" }));
        }
        // Nineteen digits always fit; what is longer is read again by the careful parser.
        let fits = digits <= 19 || {
            let text = self.text.get(self.at..self.at + digits).unwrap_or("");
            text.parse() == Ok(value)
        };
        if !fits || value > max {
            return Err(DecodeError::new(Fault::OutOfRange { max }));
        }
        self.at += digits;
        Ok(value)
    }

    /// Reads a number and gives its spelling.
    pub(crate) fn number(&mut self) -> Scan<&'a str> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number_here(),
            _ => Err(DecodeError::new(Fault::WrongType { expected: "a number" })),
        }
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn number_here(&mut self) -> Scan<&'a str> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.byte() == Some(b'0');
        match self.digits() {
            0 => return Err(self.syntax("a digit")),
            1 => {}
            _ if leading_zero => return Err(self.syntax("a number without a leading zero")),
            _ => {}
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.syntax("a digit"));
            }
        }
        let mut exponent = false;
        if let Some(b'e' | b'E') = self.byte() {
            exponent = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.syntax("a digit"));
            }
        }
        let text = self.since(start);
        // Only an exponent or very many digits can leave the range of a double.
        if self.strict && (exponent || text.len() > 300) && !text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(DecodeError::new(Fault::NotFinite));
        }
        Ok(text)
    }

    /// Reads past any value; `level` is the number of arrays and objects around it.
    pub(crate) fn skip(&mut self, level: usize) -> Scan<()> {
        match self.peek() {
            Some(b'"') => self.literal().map(|_| ()),
            Some(b'{') => self.skip_object(level + 1),
            Some(b'[') => self.skip_array(level + 1),
            Some(b'-' | b'0'..=b'9') => self.number_here().map(|_| ()),
            Some(b't') if self.take("true") => Ok(()),
            Some(b'f') if self.take("false") => Ok(()),
            Some(b'n') if self.take("null") => Ok(()),
            _ => Err(self.syntax("a JSON value")),
        }
    }

    /// Checks that an array or object may stand at `level` (the outermost is level 1).
    pub(crate) fn enter(&self, level: usize) -> Scan<()> {
        if level > self.max_depth {
            return Err(DecodeError::new(Fault::TooDeep { max: self.max_depth }));
        }
        Ok(())
    }

    fn skip_object(&mut self, level: usize) -> Scan<()> {
        self.enter(level)?;
        let mut more = self.open(b'{', b'}', "an object")?;
        while more {
            let key = self.key()?;
            self.skip(level).map_err(|error| error.at(&key.to_text()))?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    fn skip_array(&mut self, level: usize) -> Scan<()> {
        self.enter(level)?;
        let mut more = self.open(b'[', b']', "an array")?;
        let mut index = 0;
        while more {
            self.skip(level).map_err(|error| error.at_index(index))?;
            index += 1;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Reads an object whose members are not fixed and gives its text; `level` as for [`Scanner::skip`].
    pub(crate) fn object(&mut self, level: usize) -> Scan<&'a str> {
        if self.peek() != Some(b'{') {
            return Err(DecodeError::new(Fault::WrongType { expected: "an object" }));
        }
        let start = self.at;
        self.skip_object(level + 1)?;
        Ok(self.since(start))
    }

    /// Checks that only white space is left.
    #[inline]
    pub(crate) fn end(&mut self) -> Scan<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(DecodeError::new(Fault::TrailingBytes { offset: self.at })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Result<(), Fault> {
        let mut scanner = Scanner::new(text, 4);
        scanner.skip(0).and_then(|()| scanner.end()).map_err(|error| error.fault().clone())
    }

    #[test]
    fn json_is_accepted_as_rfc_8259_has_it() {
        for text in [
            "null",
            " true ",
            "false",
            "0",
            "-0",
            "1.5e+3",
            "2E3",
            "\"\"",
            "\"a\\u0041\"",
            "[]",
            "[ 1 , 2 ]",
            "{}",
            "{\"a\":{\"a\":[[1]]},\"a\":2}",
            "9007199254740993",
            "1e-400",
        ] {
            assert_eq!(scan(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_where_it_breaks() {
        for (text, offset) in [
            ("", 0),
            ("nul", 0),
            ("NaN", 0),
            ("Infinity", 0),
            ("+1", 0),
            ("-", 1),
            ("1.", 2),
            ("1e", 2),
            ("01", 2),
            (".5", 0),
            ("\"", 1),
            ("\"\\x\"", 1),
            ("\"\\u12\"", 1),
            ("\"\n\"", 1),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("{\"a\"}", 4),
            ("{,}", 1),
            ("{\"a\":1,}", 7),
            ("{a:1}", 1),
            ("'a'", 0),
            ("[", 1),
        ] {
            match scan(text) {
                Err(Fault::Syntax { offset: found, .. }) => assert_eq!(found, offset, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(scan("1 2"), Err(Fault::TrailingBytes { offset: 2 }));
        assert_eq!(scan("[[[[[]]]]]"), Err(Fault::TooDeep { max: 4 }));
        assert_eq!(scan("[1e400]"), Err(Fault::NotFinite));
        assert_eq!(scan(&format!("1{}", "0".repeat(400))), Err(Fault::NotFinite));
        assert_eq!(scan("\"\\ud800\""), Err(Fault::LoneSurrogate));
        assert_eq!(scan("\"\\ud800\\u0041\""), Err(Fault::LoneSurrogate));
        assert_eq!(scan("\"\\udc00\\ud800\""), Err(Fault::LoneSurrogate));
        assert_eq!(scan("\"\\u0000\""), Err(Fault::Nul));
    }
}
