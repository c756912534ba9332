//! A body in chunks of any size, cut into native items.
//!
//! Refuses a line, or a document, that is longer than an adapter would take. Comments of SSE are dropped: they keep a
//! connection alive and say nothing.

use causeway_adapter::worker::MAX_LINE;

/// How a body is cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cut {
    /// Line by line: SSE, JSON lines.
    Lines,
    /// Not at all: one JSON document, whose line breaks become spaces.
    Whole,
    /// As it comes: frames of a binary stream.
    Pieces,
}

/// What is longer than an item may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TooLong;

/// Cuts one body.
#[derive(Debug)]
pub(super) struct Cutter {
    cut: Cut,
    /// What is not complete.
    rest: Vec<u8>,
}

impl Cutter {
    pub fn new(cut: Cut) -> Self {
        Self { cut, rest: Vec::new() }
    }

    /// Takes the next bytes; gives the items that they complete.
    ///
    /// # Errors
    /// An item is too long.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        match self.cut {
            Cut::Pieces => Ok(bytes.chunks(MAX_LINE).map(<[u8]>::to_vec).collect()),
            Cut::Whole => {
                self.keep(bytes)?;
                Ok(Vec::new())
            }
            Cut::Lines => {
                let mut items = Vec::new();
                let mut lines = bytes.split(|byte| *byte == b'\n');
                // What stands behind the last line break is not complete.
                let rest = lines.next_back().unwrap_or_default();
                for line in lines {
                    self.keep(line)?;
                    items.extend(said(std::mem::take(&mut self.rest)));
                }
                self.keep(rest)?;
                Ok(items)
            }
        }
    }

    /// What the regular end of the body completes.
    pub fn end(mut self) -> Option<Vec<u8>> {
        match self.cut {
            Cut::Pieces => None,
            Cut::Whole => {
                for byte in &mut self.rest {
                    if matches!(byte, b'\n' | b'\r') {
                        *byte = b' ';
                    }
                }
                Some(self.rest).filter(|rest| !rest.trim_ascii().is_empty())
            }
            Cut::Lines => said(self.rest).filter(|rest| !rest.is_empty()),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.rest.len().saturating_add(bytes.len()) > MAX_LINE {
            return Err(TooLong);
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}

/// A line without its line break, if it says anything.
fn said(mut line: Vec<u8>) -> Option<Vec<u8>> {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    (!line.starts_with(b":")).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(cut: Cut, chunks: &[&[u8]]) -> Vec<String> {
        let mut cutter = Cutter::new(cut);
        let mut items: Vec<Vec<u8>> = chunks.iter().flat_map(|chunk| cutter.take(chunk).unwrap()).collect();
        items.extend(cutter.end());
        items.into_iter().map(|item| String::from_utf8(item).unwrap()).collect()
    }

    #[test]
    fn lines_are_the_same_wherever_the_chunks_end() {
        let body: &[u8] = "event: x\r\ndata: {\"a\":\"\u{2028}\"}\r\n\r\n: alive\n{\"b\":1}".as_bytes();
        let expected = ["event: x", "data: {\"a\":\"\u{2028}\"}", "", "{\"b\":1}"];
        assert_eq!(all(Cut::Lines, &[body]), expected);
        for at in 0..=body.len() {
            let (first, second) = body.split_at(at);
            assert_eq!(all(Cut::Lines, &[first, second]), expected, "{at}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(all(Cut::Lines, &bytes), expected);
    }

    #[test]
    fn a_document_is_one_line_and_a_binary_stream_comes_as_it_is() {
        assert_eq!(all(Cut::Whole, &[b"{\n\"a\":", b"1\r\n}"]), ["{ \"a\":1  }"]);
        assert_eq!(all(Cut::Whole, &[b" \n"]), Vec::<String>::new());
        assert_eq!(all(Cut::Pieces, &[b"a\nb", b"c"]), ["a\nb", "c"]);
    }

    #[test]
    fn nothing_longer_than_a_line_may_be_is_kept() {
        for cut in [Cut::Lines, Cut::Whole] {
            let mut cutter = Cutter::new(cut);
            assert_eq!(cutter.take(&vec![b'x'; MAX_LINE]), Ok(Vec::new()));
            assert_eq!(cutter.take(b"x"), Err(TooLong));
        }
    }
}
