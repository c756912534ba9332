//! JSON string contents in the three escapings of the goldens (§2.2).
//!
//! Clean runs are found eight bytes at a time and copied whole; only the rest is looked at byte by byte.

/// One way to escape strings. `"`, `\` and the characters below U+0020 are always escaped.
pub(crate) trait Style {
    /// Whether everything above U+007E is escaped too.
    const ASCII: bool;
    /// The quote around a string.
    const QUOTE: &'static [u8];
    /// What an escape starts with.
    const ESCAPE: &'static [u8];
    /// An escaped quote.
    const ESCAPED_QUOTE: &'static [u8];
}

/// Pure ASCII: the custom format.
pub(crate) struct Ascii;

/// Raw UTF-8 from U+0020 up: AG-UI.
pub(crate) struct Raw;

/// JSON text inside a JSON string: the inner text is [`Ascii`], the outer string [`Raw`].
pub(crate) struct Nested;

impl Style for Ascii {
    const ASCII: bool = true;
    const QUOTE: &'static [u8] = b"\"";
    const ESCAPE: &'static [u8] = b"\\";
    const ESCAPED_QUOTE: &'static [u8] = b"\\\"";
}

impl Style for Raw {
    const ASCII: bool = false;
    const QUOTE: &'static [u8] = b"\"";
    const ESCAPE: &'static [u8] = b"\\";
    const ESCAPED_QUOTE: &'static [u8] = b"\\\"";
}

impl Style for Nested {
    const ASCII: bool = true;
    const QUOTE: &'static [u8] = b"\\\"";
    const ESCAPE: &'static [u8] = b"\\\\";
    const ESCAPED_QUOTE: &'static [u8] = b"\\\\\\\"";
}

/// Appends `text` as the contents of a JSON string.
#[inline]
pub(crate) fn escape<S: Style>(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let clean = clean_run::<S>(rest.as_bytes());
        let (run, tail) = rest.split_at_checked(clean).unwrap_or((rest, ""));
        out.extend_from_slice(run.as_bytes());
        let mut chars = tail.chars();
        let Some(stop) = chars.next() else { return };
        put_char::<S>(stop, out);
        rest = chars.as_str();
    }
}

/// Appends one character, escaped where the style says so.
pub(crate) fn put_char<S: Style>(c: char, out: &mut Vec<u8>) {
    let letter = match c {
        '"' => return out.extend_from_slice(S::ESCAPED_QUOTE),
        '\\' => {
            out.extend_from_slice(S::ESCAPE);
            return out.extend_from_slice(S::ESCAPE);
        }
        '\u{8}' => b'b',
        '\t' => b't',
        '\n' => b'n',
        '\u{c}' => b'f',
        '\r' => b'r',
        '\0'..='\u{1f}' => return put_units::<S>(c, out),
        ' '..='~' => return out.push(c as u8),
        '\u{7f}'.. if S::ASCII => return put_units::<S>(c, out),
        '\u{7f}'.. => return out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    out.extend_from_slice(S::ESCAPE);
    out.push(letter);
}

/// Appends a character as one or two escaped UTF-16 units.
fn put_units<S: Style>(c: char, out: &mut Vec<u8>) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(S::ESCAPE);
        out.push(b'u');
        for shift in [12, 8, 4, 0] {
            let digit = (*unit >> shift & 0xf) as u8;
            out.push(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit });
        }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The number of leading bytes that are copied as they are.
#[inline]
pub(crate) fn clean_run<S: Style>(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let stops = stops::<S>(u64::from_le_bytes(*word));
        if stops != 0 {
            return at * 8 + (stops.trailing_zeros() / 8) as usize;
        }
    }
    let is_stop = |b: &u8| *b < 0x20 || *b == b'"' || *b == b'\\' || (S::ASCII && *b >= 0x7f);
    words.len() * 8 + tail.iter().position(is_stop).unwrap_or(tail.len())
}

/// The high bit of each byte that cannot be copied. Borrows and carries may set bits above the lowest true one,
/// never below it.
#[inline]
fn stops<S: Style>(word: u64) -> u64 {
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero_in(word ^ (ONES * b'"' as u64));
    let backslash = zero_in(word ^ (ONES * b'\\' as u64));
    let above = if S::ASCII { word | word.wrapping_add(ONES) } else { 0 };
    (control | quote | backslash | above) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped<S: Style>(text: &str) -> String {
        let mut out = Vec::new();
        escape::<S>(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_style_escapes_what_json_demands_and_no_slash() {
        let text = "\"\\/\u{8}\t\n\u{c}\r\0\u{1b}\u{1f}";
        let plain = r#"\"\\/\b\t\n\f\r\u0000\u001b\u001f"#;
        assert_eq!(escaped::<Ascii>(text), plain);
        assert_eq!(escaped::<Raw>(text), plain);
        assert_eq!(escaped::<Nested>(text), r#"\\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001b\\u001f"#);
    }

    #[test]
    fn only_ascii_styles_escape_what_lies_above_the_tilde() {
        let text = "~\u{7f}\u{85}Ö\u{2028}\u{ffff}😀\u{10ffff}.";
        assert_eq!(escaped::<Raw>(text), text);
        assert_eq!(escaped::<Ascii>(text), r"~\u007f\u0085\u00d6\u2028\uffff\ud83d\ude00\udbff\udfff.");
        assert_eq!(
            escaped::<Nested>(text),
            r"~\\u007f\\u0085\\u00d6\\u2028\\uffff\\ud83d\\ude00\\udbff\\udfff."
        );
    }

    #[test]
    fn a_stop_is_found_at_every_place_of_a_word() {
        for stop in ['"', '\\', '\n', '\0', '\u{1f}', '\u{7f}', 'é', '\u{ffff}'] {
            for before in 0..20 {
                let text = format!("{}{stop}{}", "~".repeat(before), " zz".repeat(9));
                let raw_clean = if stop < '\u{7f}' { before } else { text.len() };
                assert_eq!(clean_run::<Ascii>(text.as_bytes()), before, "{text:?}");
                assert_eq!(clean_run::<Raw>(text.as_bytes()), raw_clean, "{text:?}");
            }
        }
    }

    #[test]
    fn every_pair_of_neighbouring_bytes_is_told_apart() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let bytes = [b'a', first, second, b'a', b'a', b'a', b'a', b'a'];
                let slow = |ascii: bool| {
                    bytes
                        .iter()
                        .position(|&b| b < 0x20 || b == b'"' || b == b'\\' || (ascii && b >= 0x7f))
                        .unwrap_or(8)
                };
                assert_eq!(clean_run::<Ascii>(&bytes), slow(true), "{first} {second}");
                assert_eq!(clean_run::<Raw>(&bytes), slow(false), "{first} {second}");
            }
        }
    }
}
