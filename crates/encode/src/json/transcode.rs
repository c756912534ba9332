//! Free-form JSON text to the layout of the established formats, token by token, in one pass.
//!
//! Refuses nothing: the text was checked strictly when the event was decoded, so structure is not checked again.

use super::number::put_literal;
use super::string::{Style, clean_run, put_char};

/// Appends `text`, one checked JSON value, with the layout of §2.1, the escapes of `S` and the numbers of §2.3.
pub(crate) fn transcode<S: Style>(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(&first) = rest.as_bytes().first() {
        let len = match first {
            b'"' => {
                out.extend_from_slice(S::QUOTE);
                rest = string::<S>(rest.get(1..).unwrap_or(""), out);
                out.extend_from_slice(S::QUOTE);
                continue;
            }
            b',' => {
                out.extend_from_slice(b", ");
                1
            }
            b':' => {
                out.extend_from_slice(b": ");
                1
            }
            b'-' | b'0'..=b'9' => {
                let len = run(rest, |b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
                put_literal(rest.get(..len).unwrap_or(""), out);
                len
            }
            b' ' | b'\t' | b'\n' | b'\r' => 1,
            b'{' | b'}' | b'[' | b']' | b'a'..=b'z' => {
                out.push(first);
                1
            }
            // Nothing else occurs between the tokens of checked JSON.
            0..=0x1f | b'!'..=b'~' | 0x7f.. => 1,
        };
        rest = after(rest, len);
    }
}

/// Appends the contents of the string that `rest` starts inside of; returns what follows its closing quote.
fn string<'a, S: Style>(mut rest: &'a str, out: &mut Vec<u8>) -> &'a str {
    loop {
        let clean = clean_run::<S>(rest.as_bytes());
        let (run, tail) = rest.split_at_checked(clean).unwrap_or((rest, ""));
        out.extend_from_slice(run.as_bytes());
        let mut chars = tail.chars();
        match chars.next() {
            None => return "",
            Some('"') => return chars.as_str(),
            Some('\\') => {
                let (c, next) = escaped(chars.as_str());
                put_char::<S>(c, out);
                rest = next;
            }
            Some(c) => {
                put_char::<S>(c, out);
                rest = chars.as_str();
            }
        }
    }
}

/// The character that an escape stands for; `rest` starts after the backslash.
fn escaped(rest: &str) -> (char, &str) {
    let mut chars = rest.chars();
    let c = match chars.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return escaped_unit(chars.as_str()),
        Some(c) => c, // a quote, a backslash or a slash
        None => char::REPLACEMENT_CHARACTER,
    };
    (c, chars.as_str())
}

/// The character of one `\u` escape or of a pair; `rest` starts after the `u`.
fn escaped_unit(rest: &str) -> (char, &str) {
    let (unit, rest) = hex(rest);
    if let Some(c) = char::from_u32(unit) {
        return (c, rest);
    }
    // A surrogate: checked JSON has a low one right behind the high one.
    if let Some(second) = rest.strip_prefix("\\u") {
        let (low, after) = hex(second);
        let units = [unit as u16, low as u16];
        if let Some(Ok(c)) = char::decode_utf16(units).next() {
            return (c, after);
        }
    }
    (char::REPLACEMENT_CHARACTER, rest)
}

/// Four hex digits and what follows them.
fn hex(rest: &str) -> (u32, &str) {
    let (digits, rest) = rest.split_at_checked(4).unwrap_or((rest, ""));
    (u32::from_str_radix(digits, 16).unwrap_or(u32::from(char::REPLACEMENT_CHARACTER)), rest)
}

fn run(text: &str, member: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|b| !member(b)).unwrap_or(text.len())
}

/// `text` without its first `len` bytes, or without its first character where that would cut one.
fn after(text: &str, len: usize) -> &str {
    text.get(len..).unwrap_or_else(|| {
        let mut chars = text.chars();
        chars.next();
        chars.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::super::string::{Ascii, Nested, Raw};
    use super::*;

    fn transcoded<S: Style>(text: &str) -> String {
        let mut out = Vec::new();
        transcode::<S>(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_layout_is_one_space_after_commas_and_colons() {
        let text = " {\"b\" :[1 ,2,\n[ ],{ } ] ,\"a\":{\"x\":null,\"y\":true,\"z\":false}}\t";
        let layout = r#"{"b": [1, 2, [], {}], "a": {"x": null, "y": true, "z": false}}"#;
        assert_eq!(transcoded::<Raw>(text), layout);
        assert_eq!(transcoded::<Ascii>(text), layout);
        assert_eq!(transcoded::<Nested>(text), layout.replace('"', "\\\""));
    }

    #[test]
    fn strings_and_keys_are_escaped_anew() {
        let text = r#"{"\u00d6Ö\/":"\ud83d\ude00😀 \u0022\"\\ \u000a\n\u001b , : 1.0\u007f"}"#;
        assert_eq!(transcoded::<Raw>(text), "{\"ÖÖ/\": \"😀😀 \\\"\\\"\\\\ \\n\\n\\u001b , : 1.0\u{7f}\"}");
        assert_eq!(
            transcoded::<Ascii>(text),
            r#"{"\u00d6\u00d6/": "\ud83d\ude00\ud83d\ude00 \"\"\\ \n\n\u001b , : 1.0\u007f"}"#
        );
        assert_eq!(transcoded::<Nested>(r#"{"k":"Ö\"\\\n"}"#), r#"{\"k\": \"\\u00d6\\\"\\\\\\n\"}"#);
    }

    #[test]
    fn numbers_inside_are_printed_by_their_own_rules() {
        assert_eq!(
            transcoded::<Raw>("[1.50,-0,2E3,-0.0,1e-5,123456789012345678901234567890]"),
            "[1.5, 0, 2000.0, -0.0, 1e-05, 123456789012345678901234567890]"
        );
    }

    #[test]
    fn text_that_is_not_json_is_no_reason_to_panic() {
        for text in
            ["\"", "\"\\", "\"\\u12", "\"\\ud800\"", "\"\\ud800\\u0041\"", "é", "\"\\uéé", "-", "1e999", "}{"]
        {
            let _ = (transcoded::<Raw>(text), transcoded::<Ascii>(text), transcoded::<Nested>(text));
        }
    }
}
