//! Text for terminals: control characters are shown, never sent.

use std::borrow::Cow;

/// The text with every control character, line separator and bidirectional mark written as an escape.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(harms) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harms(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// The text for an attribute or element of XML. Escaped for a terminal first: XML 1.0 cannot hold most control characters at all.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escaped(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// JSON text with the same characters as JSON escapes: they can only stand inside its strings.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(harms) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if harms(c) { out.push_str(&format!("\\u{:04x}", u32::from(c))) } else { out.push(c) }
    }
    Cow::Owned(out)
}

fn harms(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_shown_as_an_escape() {
        assert_eq!(escaped("plain größe 😀"), "plain größe 😀");
        assert_eq!(escaped("a\u{1b}[31mb\n\u{9b}c\u{202e}"), "a\\u{1b}[31mb\\u{a}\\u{9b}c\\u{202e}");
        assert_eq!(escaped_json("\"a\u{7f}b\""), "\"a\\u007fb\"");
    }
}
