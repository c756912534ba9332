//! JSON strings: finding their end, and their characters without escapes.

use std::borrow::Cow;

/// The inside of a JSON string literal as it stands in accepted JSON text: between the quotes, escapes untouched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RawStr<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> RawStr<'a> {
    pub(crate) fn new(raw: &'a str, escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// The text between the quotes as it was written.
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// Whether the text holds an escape.
    pub fn has_escapes(self) -> bool {
        self.escaped
    }

    /// The string's parts in order: runs without escapes, and single escaped characters.
    pub fn pieces(self) -> Pieces<'a> {
        Pieces { rest: self.raw, escaped: self.escaped }
    }

    /// The string's characters; borrowed where there is no escape.
    pub fn to_text(self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(self.unescape()) } else { Cow::Borrowed(self.raw) }
    }

    #[inline(never)]
    fn unescape(self) -> String {
        let mut text = String::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some(backslash) = memchr::memchr(b'\\', rest.as_bytes()) {
            let (plain, escaped) = rest.split_at_checked(backslash).unwrap_or((rest, ""));
            text.push_str(plain);
            let (c, len) = escape(escaped.as_bytes());
            text.push(c);
            rest = escaped.get(len..).unwrap_or("");
        }
        text.push_str(rest);
        text
    }
}

/// A part of a JSON string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'a> {
    /// Characters that stand for themselves.
    Plain(&'a str),
    /// A character that was written as an escape (a surrogate pair gives one).
    Escaped(char),
}

/// Iterates the parts of a [`RawStr`]. Half a surrogate pair, which accepted text does not hold, becomes U+FFFD.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    rest: &'a str,
    escaped: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let backslash = if self.escaped { memchr::memchr(b'\\', self.rest.as_bytes()) } else { None }
            .unwrap_or(self.rest.len());
        if backslash > 0 {
            let (plain, rest) = self.rest.split_at_checked(backslash)?;
            self.rest = rest;
            return Some(Piece::Plain(plain));
        }
        let (c, len) = escape(self.rest.as_bytes());
        self.rest = self.rest.get(len..).unwrap_or("");
        Some(Piece::Escaped(c))
    }
}

/// The character of the escape at the start of `bytes`, and the bytes the escape takes.
fn escape(bytes: &[u8]) -> (char, usize) {
    let simple = |c| (c, 2);
    match bytes.get(1) {
        Some(b'"') => simple('"'),
        Some(b'\\') => simple('\\'),
        Some(b'/') => simple('/'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => unicode_escape(bytes),
        _ => (char::REPLACEMENT_CHARACTER, bytes.len()),
    }
}

fn unicode_escape(bytes: &[u8]) -> (char, usize) {
    let Some(first) = hex4(bytes, 2) else {
        return (char::REPLACEMENT_CHARACTER, bytes.len());
    };
    if let Some(c) = char::from_u32(first) {
        return (c, 6);
    }
    let second = if bytes.get(6..8) == Some(b"\\u") { hex4(bytes, 8) } else { None };
    match second {
        Some(second) if is_high(first) && is_low(second) => {
            let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// The first half of a surrogate pair.
pub(crate) fn is_high(unit: u32) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

/// The second half of a surrogate pair.
pub(crate) fn is_low(unit: u32) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// Four hexadecimal digits at `at`.
pub(crate) fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.iter().try_fold(0, |value, &b| {
        let digit = char::from(b).to_digit(16)?;
        Some(value << 4 | digit)
    })
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes of `word` that equal `byte`; the lowest mark is exact.
#[inline(always)]
fn equal(word: u64, byte: u8) -> u64 {
    let diff = word ^ (ONES * byte as u64);
    diff.wrapping_sub(ONES) & !diff & HIGHS
}

/// Marks the bytes of `word` below `bound` (at most 128); the lowest mark is exact.
#[inline(always)]
fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word & HIGHS
}

/// The number of bytes before the first quote, backslash or control character.
#[inline(always)]
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    let (chunks, tail) = bytes.as_chunks::<8>();
    let mut at = 0;
    for chunk in chunks {
        let word = u64::from_le_bytes(*chunk);
        let hit = equal(word, b'"') | equal(word, b'\\') | below(word, 0x20);
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + tail.iter().take_while(|&&b| b != b'"' && b != b'\\' && b >= 0x20).count()
}

/// The number of bytes before the first one that is not a plain, visible ASCII character (or is a quote or backslash).
#[inline(always)]
pub(crate) fn visible_run(bytes: &[u8]) -> usize {
    let (chunks, tail) = bytes.as_chunks::<8>();
    let mut at = 0;
    for chunk in chunks {
        let word = u64::from_le_bytes(*chunk);
        let hit =
            equal(word, b'"') | equal(word, b'\\') | below(word, 0x21) | equal(word, 0x7f) | (word & HIGHS);
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + tail.iter().take_while(|&&b| b != b'"' && b != b'\\' && b > 0x20 && b < 0x7f).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_at_every_offset() {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for at in 0..40 {
                let mut bytes = [b'a'; 41];
                bytes[at] = special;
                bytes[40] = b'"';
                assert_eq!(plain_run(&bytes), at, "{special} at {at}");
                assert_eq!(visible_run(&bytes), at, "{special} at {at}");
            }
        }
        for special in [b' ', 0x7f, 0x80, 0xff] {
            for at in 0..40 {
                let mut bytes = [b'a'; 40];
                bytes[at] = special;
                assert_eq!(visible_run(&bytes), at, "{special} at {at}");
                assert_eq!(plain_run(&bytes), 40, "{special} at {at}");
            }
        }
    }

    #[test]
    fn escapes_become_their_characters() {
        let raw = RawStr::new(r#"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00z"#, true);
        assert_eq!(raw.to_text(), "a\"\\/\u{8}\u{c}\n\r\té😀z");
        assert_eq!(
            RawStr::new(r"x\ny", true).pieces().collect::<Vec<_>>(),
            [Piece::Plain("x"), Piece::Escaped('\n'), Piece::Plain("y")]
        );
    }
}
