//! Reads lines without copying them: slices of one large buffer, which grows only for a line that is longer.
//!
//! Refuses to hold a line beyond [`LONGEST_LINE`]: its rest is read and dropped.

use std::io::{self, Read};

/// A line without its end.
#[derive(Debug, Eq, PartialEq)]
pub enum Line<'a> {
    /// The bytes of the line.
    Whole(&'a [u8]),
    /// A line that is longer than any event may be.
    Oversized {
        /// Its beginning.
        start: &'a [u8],
        /// Its length.
        bytes: u64,
    },
}

/// No event of the default limits is longer, however it is spelled.
pub const LONGEST_LINE: usize = 64 << 20;
const BUFFER: usize = 1 << 20;

/// Calls `each` for every line. The last one needs no end.
///
/// # Errors
/// What `input` fails with.
pub fn read(input: impl Read, each: impl FnMut(Line<'_>)) -> io::Result<()> {
    read_with(input, BUFFER, LONGEST_LINE, each)
}

fn read_with(
    mut input: impl Read,
    buffer: usize,
    longest: usize,
    mut each: impl FnMut(Line<'_>),
) -> io::Result<()> {
    let mut buffer = vec![0; buffer];
    // buffer[..filled] holds the beginning of a line without its end.
    let mut filled = 0;
    // Bytes of an oversized line that were dropped behind its kept beginning.
    let mut dropped: u64 = 0;
    loop {
        if filled == buffer.len() {
            if buffer.len() < longest {
                buffer.resize(buffer.len().saturating_mul(2).min(longest), 0);
            } else {
                // Half is enough to tell which run the line is of.
                let kept = buffer.len() / 2;
                dropped = dropped.saturating_add(count(filled.saturating_sub(kept)));
                filled = kept;
            }
        }
        let Some(free) = buffer.get_mut(filled..) else {
            return Ok(());
        };
        let got = match input.read(free) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if got == 0 {
            let rest = buffer.get(..filled).unwrap_or_default();
            if !rest.is_empty() {
                each(line(rest, rest.len(), dropped));
            }
            return Ok(());
        }
        let end = filled.saturating_add(got).min(buffer.len());
        let mut start = 0;
        let fresh = buffer.get(filled..end).unwrap_or_default();
        for newline in memchr::memchr_iter(b'\n', fresh) {
            let at = filled.saturating_add(newline);
            let whole = buffer.get(start..at).unwrap_or_default();
            each(line(whole, whole.len(), dropped));
            dropped = 0;
            start = at.saturating_add(1);
        }
        buffer.copy_within(start..end, 0);
        filled = end.saturating_sub(start);
    }
}

fn line(kept: &[u8], len: usize, dropped: u64) -> Line<'_> {
    if dropped == 0 {
        Line::Whole(kept)
    } else {
        Line::Oversized { start: kept, bytes: dropped.saturating_add(count(len)) }
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of a fixed size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(self.1).min(out.len());
            out[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn lines(text: &str, piece: usize) -> Vec<String> {
        let mut lines = Vec::new();
        read_with(Pieces(text.as_bytes(), piece), 4, 16, |line| {
            lines.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::Oversized { bytes, start } => format!("{bytes} bytes from {}", start[0]),
            });
        })
        .unwrap();
        lines
    }

    #[test]
    fn lines_come_whole_however_the_input_is_cut() {
        for piece in 1..=12 {
            assert_eq!(lines("ab\n\ncdefghijk\nl", piece), ["ab", "", "cdefghijk", "l"], "pieces of {piece}");
            assert_eq!(lines("ab\n", piece), ["ab"], "pieces of {piece}");
        }
        assert_eq!(lines("", 3), Vec::<String>::new());
    }

    #[test]
    fn a_line_without_bound_is_counted_and_not_kept() {
        let long = "x".repeat(1000);
        for piece in 1..=12 {
            assert_eq!(
                lines(&format!("a\n{long}\nb\n{long}"), piece),
                ["a", "1000 bytes from 120", "b", "1000 bytes from 120"]
            );
        }
    }
}
