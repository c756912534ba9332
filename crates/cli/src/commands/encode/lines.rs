//! Lines of a stream, without copying them and without waiting for more than is there.
//!
//! Refuses lines beyond a bound, so that a stream without line ends cannot fill the memory.

use std::io::{self, Read};

/// The longest line that is taken in; what the contract allows is far shorter.
pub const MAX_LINE: usize = 64 << 20;
const CHUNK: usize = 256 << 10;

/// Reads lines. [`buffered`](Self::buffered) never blocks; [`fill`](Self::fill) may.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where the next line starts, up to where it was searched for its end, and where the bytes end.
    start: usize,
    searched: usize,
    end: usize,
    at_end: bool,
    number: u64,
}

/// A line of the input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes without the line end.
    pub bytes: &'a [u8],
}

impl Line<'_> {
    /// Whether there is nothing but white space on it.
    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
    }
}

impl<R: Read> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        Self { input, buffer: vec![0; CHUNK], start: 0, searched: 0, end: 0, at_end: false, number: 0 }
    }

    /// The next line, if all of it has been read.
    pub fn buffered(&mut self) -> Option<Line<'_>> {
        let unseen = self.buffer.get(self.searched..self.end)?;
        let (end, next) = match memchr::memchr(b'\n', unseen) {
            Some(at) => (self.searched + at, self.searched + at + 1),
            None if self.at_end && self.start < self.end => (self.end, self.end),
            None => {
                self.searched = self.end;
                return None;
            }
        };
        let bytes = self.buffer.get(self.start..end)?;
        (self.start, self.searched) = (next, next);
        self.number += 1;
        Some(Line { number: self.number, bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes) })
    }

    /// Reads more; false if there is nothing left.
    ///
    /// # Errors
    /// The input cannot be read, or a line is longer than [`MAX_LINE`].
    pub fn fill(&mut self) -> io::Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            if self.end > MAX_LINE {
                let text = format!("line {} is longer than {MAX_LINE} bytes", self.number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read = loop {
            match self.input.read(free) {
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        self.end += read;
        self.at_end = read == 0;
        // The last line may have no line end.
        Ok(read > 0 || self.start < self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives at most so many bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(self.1).min(into.len());
            into[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn lines(text: &[u8], at_once: usize) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Lines::new(Slow(text, at_once));
        let mut all = Vec::new();
        loop {
            while let Some(line) = lines.buffered() {
                all.push((line.number, line.bytes.to_vec()));
            }
            if !lines.fill().unwrap() {
                return all;
            }
        }
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let long = vec![b'x'; 3 * CHUNK];
        let text = [b"one\r\n\n", &long[..], b"\nlast".as_slice()].concat();
        let expected = vec![(1, b"one".to_vec()), (2, Vec::new()), (3, long.clone()), (4, b"last".to_vec())];
        for at_once in [1, 7, CHUNK - 1, CHUNK, 10 * CHUNK] {
            assert_eq!(lines(&text, at_once), expected, "{at_once} bytes at once");
        }
        assert_eq!(lines(b"", 1), Vec::new());
        assert_eq!(lines(b"\n", 1), vec![(1, Vec::new())]);
    }

    #[test]
    fn a_whole_line_is_there_before_the_next_one_has_come() {
        let mut lines = Lines::new(Slow(b"one\ntwo\n", 5));
        assert!(lines.fill().unwrap());
        assert_eq!(lines.buffered(), Some(Line { number: 1, bytes: b"one" }));
        assert_eq!(lines.buffered(), None);
    }

    #[test]
    fn a_line_without_end_is_refused_in_time() {
        let mut lines = Lines::new(io::repeat(b'x'));
        let error = loop {
            match lines.fill() {
                Ok(_) => assert!(lines.buffered().is_none()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), format!("line 1 is longer than {MAX_LINE} bytes"));
    }
}
