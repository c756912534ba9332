//! What the established formats show of the end of a tool call (goldens §6).
//!
//! Refuses to judge: the crude word check of §6.2 is kept because clients depend on its bytes.

use causeway_contract::event::{ToolError, ToolFinished};

use crate::json::number::put_integer;
use crate::json::string::{Style, escape};

/// The code of an error whose message is already the whole text.
const WHOLE_TEXT_CODE: &str = "tool_status_error";
const ERROR_PREFIX: &str = "ERROR: ";
const SUPPRESSED_WORD: &[u8] = b"rejected";
/// The longest text that is shown whole, in code points.
const SHOWN_CHARS: usize = 2000;

/// The text of an end, in two parts so that nothing is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndText<'a> {
    prefix: &'static str,
    body: &'a str,
}

impl<'a> EndText<'a> {
    /// The result.
    pub(crate) fn finished(data: &'a ToolFinished<'_>) -> Self {
        Self { prefix: "", body: &data.result }
    }

    /// The message, with the prefix by which clients know an error.
    pub(crate) fn error(data: &'a ToolError<'_>) -> Self {
        let prefix = if data.code.as_str() == WHOLE_TEXT_CODE { "" } else { ERROR_PREFIX };
        Self { prefix, body: &data.message }
    }

    /// Whether the text holds the word that hides an end. The prefix cannot be part of the word.
    pub(crate) fn is_suppressed(&self) -> bool {
        let body = self.body.as_bytes();
        // The rarest letter of the word is its third.
        memchr::memchr2_iter(b'j', b'J', body).any(|at| {
            let word = at.checked_sub(2).and_then(|start| body.get(start..start + SUPPRESSED_WORD.len()));
            word.is_some_and(|word| word.eq_ignore_ascii_case(SUPPRESSED_WORD))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.prefix.is_empty() && self.body.is_empty()
    }

    /// Whether a client takes the text for an error.
    pub(crate) fn looks_like_an_error(&self) -> bool {
        !self.prefix.is_empty() || self.body.starts_with(ERROR_PREFIX)
    }

    /// Appends the whole text, escaped.
    pub(crate) fn put_whole<S: Style>(&self, out: &mut Vec<u8>) {
        escape::<S>(self.prefix, out);
        escape::<S>(self.body, out);
    }

    /// Appends the first 2000 code points, escaped, and how many were left out.
    pub(crate) fn put_cut<S: Style>(&self, out: &mut Vec<u8>) {
        let room = SHOWN_CHARS - self.prefix.len();
        let shown = match self.body.len() <= room {
            true => self.body.len(), // no more code points than bytes
            false => self.body.char_indices().nth(room).map_or(self.body.len(), |(at, _)| at),
        };
        let (shown, hidden) = self.body.split_at_checked(shown).unwrap_or((self.body, ""));
        escape::<S>(self.prefix, out);
        escape::<S>(shown, out);
        if !hidden.is_empty() {
            out.extend_from_slice(b"...[");
            put_integer(i64::try_from(hidden.chars().count()).unwrap_or(i64::MAX), out);
            out.extend_from_slice(b" chars]");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::string::Raw;
    use super::*;

    fn cut(prefix: &'static str, body: &str) -> String {
        let mut out = Vec::new();
        EndText { prefix, body }.put_cut::<Raw>(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_word_hides_an_end_wherever_and_however_it_is_written() {
        for (body, hidden) in [
            ("rejected", true),
            ("It was ReJeCtEd.", true),
            ("j rejecte rejected", true),
            ("reject", false),
            ("rejecte d", false),
            ("jected", false),
            ("rejecteD\u{301}", true),
            ("\u{212a}ejected", false),
            ("", false),
        ] {
            assert_eq!(EndText { prefix: "", body }.is_suppressed(), hidden, "{body}");
        }
    }

    #[test]
    fn a_text_is_cut_after_two_thousand_code_points_of_prefix_and_body_together() {
        for letter in ["a", "é", "日", "😀"] {
            assert_eq!(cut("", &letter.repeat(2000)), letter.repeat(2000));
            assert_eq!(cut("", &letter.repeat(2003)), format!("{}...[3 chars]", letter.repeat(2000)));
            assert_eq!(cut(ERROR_PREFIX, &letter.repeat(1993)), format!("ERROR: {}", letter.repeat(1993)));
            assert_eq!(
                cut(ERROR_PREFIX, &letter.repeat(1994)),
                format!("ERROR: {}...[1 chars]", letter.repeat(1993))
            );
        }
        assert_eq!(cut("", ""), "");
    }
}
