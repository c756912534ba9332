//! Projection of native text into what the contract allows (decisions §5 and §7), before anything is yielded.
//!
//! NUL and lone surrogates become U+FFFD, halves of a pair split over two pieces are joined, escape sequences of
//! terminals go where the agent asks for it, long results are cut with a mark, long pieces are split. Never
//! translated or trimmed: what remains is the harness's text, character by character.

use std::borrow::Cow;

use causeway_contract::id::{Name, ToolCallId, check_id};

use crate::json::{JsonStr, Unit, join};
use crate::redact::redact;
use crate::tally;
use crate::turn::Options;

/// The state of one streamed text: a half that waits for the other one, a sequence that is not over.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    high: Option<u16>,
    escape: Escape,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Escape {
    #[default]
    Ground,
    /// After ESC.
    Esc,
    /// Inside `ESC [ …`: ends at a byte of `@`–`~`.
    Csi,
    /// Inside `ESC ] …` and its kin: ends at BEL or `ESC \`.
    Osc,
    /// ESC inside such a string.
    OscEsc,
}

impl Stream {
    /// What the next piece adds to the text; may be empty.
    pub fn push(&mut self, piece: &JsonStr<'_>, options: &Options) -> String {
        let mut out = String::new();
        self.append(piece, options, &mut out);
        out
    }

    fn append(&mut self, piece: &JsonStr<'_>, options: &Options, out: &mut String) {
        for unit in piece.units() {
            match (self.high.take(), unit) {
                (Some(high), Unit::Low(low)) => self.put(join(high, low).unwrap_or('\u{fffd}'), options, out),
                (waiting, unit) => {
                    if waiting.is_some() {
                        self.put('\u{fffd}', options, out);
                    }
                    match unit {
                        Unit::High(high) => self.high = Some(high),
                        Unit::Low(_) => self.put('\u{fffd}', options, out),
                        Unit::Char(c) => self.put(c, options, out),
                    }
                }
            }
        }
    }

    /// What is left at the end: U+FFFD for a half that stayed alone.
    pub fn end(&mut self) -> Option<&'static str> {
        self.high.take().map(|_| "\u{fffd}")
    }

    fn put(&mut self, c: char, options: &Options, out: &mut String) {
        if !options.strip_escapes {
            out.push(if c == '\0' { '\u{fffd}' } else { c });
            return;
        }
        let before = out.len();
        self.place(c, out);
        tally::stripped(u64::from(out.len() == before));
    }

    /// One character of a text that is to hold no escapes.
    fn place(&mut self, c: char, out: &mut String) {
        self.escape = match (self.escape, c) {
            (Escape::Ground, '\u{1b}') | (Escape::Esc, '\u{1b}') => Escape::Esc,
            (Escape::Ground, '\u{9b}') => Escape::Csi,
            (Escape::Ground, '\u{9d}' | '\u{90}' | '\u{9e}' | '\u{9f}') => Escape::Osc,
            (Escape::Ground, c) => {
                if !c.is_control() || matches!(c, '\n' | '\r' | '\t') {
                    out.push(c);
                }
                Escape::Ground
            }
            (Escape::Esc, '[') => Escape::Csi,
            (Escape::Esc, ']' | 'P' | '^' | '_') => Escape::Osc,
            (Escape::Esc, ' '..='/') => Escape::Esc,
            (Escape::Esc, _) => Escape::Ground,
            (Escape::Csi, '@'..='~') => Escape::Ground,
            (Escape::Csi, ' '..='?') => Escape::Csi,
            // A sequence that is broken off: the character belongs to the text again.
            (Escape::Csi, c) => {
                self.escape = Escape::Ground;
                return self.place(c, out);
            }
            (Escape::Osc, '\u{7}' | '\u{9c}') => Escape::Ground,
            (Escape::Osc, '\u{1b}') => Escape::OscEsc,
            (Escape::OscEsc, '\\') => Escape::Ground,
            (Escape::Osc | Escape::OscEsc, '\n') => {
                out.push('\n');
                Escape::Ground
            }
            (Escape::Osc | Escape::OscEsc, _) => Escape::Osc,
        };
    }
}

/// A whole text, given in one or more pieces.
pub fn whole<'a>(pieces: impl IntoIterator<Item = &'a JsonStr<'a>>, options: &Options) -> String {
    let mut stream = Stream::default();
    let mut out = String::new();
    for piece in pieces {
        stream.append(piece, options, &mut out);
    }
    out.push_str(stream.end().unwrap_or_default());
    out
}

/// A text that has no halves any more, as the agent's options want it shown: in arguments and results.
pub fn content<'a>(text: &'a str, options: &Options) -> Cow<'a, str> {
    let clean = if options.strip_escapes {
        Cow::Owned(whole([&JsonStr::plain(text)], options))
    } else if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    };
    if options.redact_content { Cow::Owned(redact(&clean).into_owned()) } else { clean }
}

/// Pieces of at most `max` bytes, cut between characters.
pub fn split(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = floor(rest, max.max(4));
        let (piece, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        rest = tail;
        Some(piece)
    })
}

/// The leading part of a text that is longer than `max` bytes, with a mark that says how much is missing; the whole
/// text otherwise.
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let room = max.saturating_sub(64);
    let at = floor(text, room);
    let kept = text.get(..at).unwrap_or_default();
    let mark = format!("\n[cut here: {} more bytes]", text.len() - at);
    if kept.len() + mark.len() > max {
        return Cow::Borrowed(text.get(..floor(text, max)).unwrap_or_default());
    }
    Cow::Owned(format!("{kept}{mark}"))
}

/// The largest character boundary of `text` that is not above `max`.
fn floor(text: &str, max: usize) -> usize {
    let mut at = max.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A native name as the contract allows it: forbidden characters and padding removed, cut; `fallback` if nothing is
/// left.
pub fn name(native: &str, fallback: &'static str, max: usize) -> Name<'static> {
    let clean = identifier(native, max);
    Name::bounded(clean, max)
        .or_else(|_| Name::new(fallback))
        .unwrap_or_else(|_| unreachable!("the fallbacks of this crate are names"))
}

/// A native call id as the contract allows it, or `None` if nothing is left.
pub fn call_id(native: &str, max: usize) -> Option<ToolCallId<'static>> {
    ToolCallId::bounded(identifier(native, max), max).ok()
}

/// The characters of an id that may stand in one, at most `max` bytes of them.
fn identifier(native: &str, max: usize) -> String {
    if check_id(native, max).is_ok() {
        return native.to_owned();
    }
    let allowed = |c: &char| check_id(c.encode_utf8(&mut [0; 4]), 4).is_ok() || *c == ' ';
    let clean: String = native.chars().filter(allowed).collect();
    let clean = clean.trim();
    clean.get(..floor(clean, max)).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn options() -> Options {
        Options::new(Name::new("agent").unwrap())
    }

    fn fed(pieces: &[&str], options: &Options) -> Vec<String> {
        let mut stream = Stream::default();
        let mut out: Vec<String> = pieces
            .iter()
            .map(|json| stream.push(Json::parse(json.as_bytes()).unwrap().as_str().unwrap(), options))
            .collect();
        out.extend(stream.end().map(str::to_owned));
        out
    }

    #[test]
    fn halves_of_an_emoji_in_two_pieces_become_one_character() {
        assert_eq!(fed(&[r#""a\ud83d""#, r#""\ude00b""#], &options()), ["a", "😀b"]);
    }

    #[test]
    fn a_half_that_stays_alone_and_nul_become_the_replacement_character() {
        assert_eq!(fed(&[r#""a\ud83d""#, r#""b\u0000""#], &options()), ["a", "\u{fffd}b\u{fffd}"]);
        assert_eq!(fed(&[r#""\ude00""#, r#""\ud83d""#], &options()), ["\u{fffd}", "", "\u{fffd}"]);
    }

    #[test]
    fn escape_sequences_are_stripped_on_request_even_when_split() {
        let strip = options().strip_escapes(true);
        assert_eq!(
            fed(&[r#""\u001b[3""#, r#""1mred\u001b[0m\n\u0007ok\u001b]0;title\u0007!""#], &strip),
            ["", "red\nok!"]
        );
        assert_eq!(fed(&[r#""\u001b[31mred""#], &options()), ["\u{1b}[31mred"]);
    }

    #[test]
    fn a_long_text_is_split_between_characters() {
        assert_eq!(split("aé€😀b", 4).collect::<Vec<_>>(), ["aé", "€", "😀", "b"]);
        assert_eq!(split("", 4).count(), 0);
    }

    #[test]
    fn a_cut_text_says_what_is_missing_and_keeps_to_the_limit() {
        let long = "é".repeat(100);
        let cut = cut(&long, 101);
        assert_eq!(cut, format!("{}\n[cut here: 164 more bytes]", "é".repeat(18)));
        assert!(cut.len() <= 101);
        assert_eq!(super::cut("short", 101), "short");
    }

    #[test]
    fn a_name_that_breaks_the_rules_is_cleaned() {
        assert_eq!(name(" a\u{0}b\u{202e}c ", "tool", 256).as_str(), "abc");
        assert_eq!(name("\n", "tool", 256).as_str(), "tool");
        assert_eq!(name(&"é".repeat(200), "tool", 256).as_str().len(), 256);
        assert_eq!(call_id("", 256), None);
    }
}
