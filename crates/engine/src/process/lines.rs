//! Lines of a pipe, one at a time, each within the protocol's bound.
//!
//! Reads no further than it is asked to: what is not asked for stays in the pipe, and its writer waits.

use tokio::io::{AsyncRead, AsyncReadExt};

/// What a pipe gave.
#[derive(Debug)]
pub(crate) enum Read {
    /// A line, without its break.
    Line(Vec<u8>),
    /// More bytes than a line may have, without a break.
    TooLong,
    /// The end, after a whole line or after a part of one: a part is no line.
    End,
    /// The pipe broke.
    Broken,
}

/// Reads lines from `source`.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    /// What was read and not yet given away.
    buffer: Vec<u8>,
    /// How much of it is known to hold no line break.
    searched: usize,
    max: usize,
}

/// Bytes asked for at once: what a pipe holds by default.
const CHUNK: usize = 64 * 1024;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(source: R, max: usize) -> Self {
        Self { source, buffer: Vec::new(), searched: 0, max }
    }

    /// The next line. Safe to drop and call again: nothing is lost.
    pub(crate) async fn next(&mut self) -> Read {
        loop {
            if let Some(line) = self.take_line() {
                return if line.len() > self.max { Read::TooLong } else { Read::Line(line) };
            }
            if self.buffer.len() > self.max {
                return Read::TooLong;
            }
            self.buffer.reserve(CHUNK);
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) => return Read::End,
                Ok(_) => {}
                Err(_) => return Read::Broken,
            }
        }
    }

    /// Reads on and throws away; whether there may be more. For a writer that must not be held up while it leaves.
    pub(crate) async fn discard(&mut self) -> bool {
        self.buffer.clear();
        self.searched = 0;
        self.buffer.reserve(CHUNK);
        matches!(self.source.read_buf(&mut self.buffer).await, Ok(1..))
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let fresh = self.buffer.get(self.searched..)?;
        match fresh.iter().position(|&byte| byte == b'\n') {
            Some(at) => {
                let rest = self.buffer.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], max: usize) -> String {
        let mut lines = Lines::new(bytes, max);
        let mut out = String::new();
        loop {
            match lines.next().await {
                Read::Line(line) => out.push_str(&format!("{};", String::from_utf8_lossy(&line))),
                end @ (Read::TooLong | Read::End | Read::Broken) => return format!("{out}{end:?}"),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_cut_at_line_feeds_only() {
        assert_eq!(all(b"a\n\nb\r\nc\xe2\x80\xa8d\n", 8).await, "a;;b\r;c\u{2028}d;End");
    }

    #[tokio::test]
    async fn a_part_of_a_line_at_the_end_is_no_line() {
        assert_eq!(all(b"a\nhalf", 8).await, "a;End");
    }

    #[tokio::test]
    async fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
        assert_eq!(all(b"12345678\n", 8).await, "12345678;End");
        assert_eq!(all(b"123456789\n", 8).await, "TooLong");
        assert_eq!(all(b"ok\n123456789", 8).await, "ok;TooLong");
    }

    #[tokio::test]
    async fn memory_stays_bounded_while_no_line_ends() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 100_000);
        assert!(matches!(lines.next().await, Read::TooLong));
        assert!(lines.buffer.len() <= 100_000 + 2 * CHUNK + 1, "{}", lines.buffer.len());
    }
}
