//! The frames of `application/vnd.amazon.eventstream`: lengths, two checksums, typed headers, a payload.
//!
//! Refuses what is not exactly that: a wrong checksum, lengths that do not add up, an unknown type of header, a header
//! twice, a frame above the bound of a line. After a refusal nothing is read any more: where the next frame begins cannot
//! be known.

use crate::adapter::ItemError;
use crate::json::Json;
use crate::recording::{Place, Split, Splitter};
use crate::worker::MAX_LINE;

/// Both lengths and their checksum.
const PRELUDE: usize = 12;
/// The shortest frame: a prelude and the checksum of all.
const SHORTEST: usize = PRELUDE + 4;

/// Whether bytes are the beginning of such a stream rather than of text: a length below 16 MiB begins with a zero byte.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    start.first() == Some(&0)
}

/// One message.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Frame {
    /// Its headers that are strings, by name.
    headers: Vec<(String, Option<String>)>,
    /// Its payload.
    payload: Vec<u8>,
}

impl Frame {
    /// What it says.
    ///
    /// # Errors
    /// A header is missing, or the payload is not JSON.
    pub(crate) fn said(&self) -> Result<Said<'_>, ItemError> {
        let shape = |what| ItemError::Shape { what };
        match self.header(":message-type") {
            Some("event") => {
                let name = self.header(":event-type").ok_or(shape("a frame with an `:event-type`"))?;
                let payload = if self.payload.is_empty() { b"{}" } else { self.payload.as_slice() };
                Ok(Said::Event(name, Json::parse(payload)?))
            }
            Some("exception") => {
                let name =
                    self.header(":exception-type").ok_or(shape("a frame with an `:exception-type`"))?;
                let body = Json::parse(&self.payload).ok();
                let words = body.as_ref().and_then(|body| body.str("message"));
                Ok(Said::Failed(name, words.map(|words| words.lossy().into_owned())))
            }
            Some("error") => {
                let name = self.header(":error-code").ok_or(shape("a frame with an `:error-code`"))?;
                Ok(Said::Failed(name, self.header(":error-message").map(str::to_owned)))
            }
            Some(_) | None => Err(shape("a frame of `:message-type` event, exception or error")),
        }
    }

    /// The header with this name, if it is a string.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name)?.1.as_deref()
    }
}

/// What a frame of a service says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said<'a> {
    /// An event: its name and body.
    Event(&'a str, Json<'a>),
    /// An exception or an error: its name and the service's words.
    Failed(&'a str, Option<String>),
}

/// Reads frames from bytes that come in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
    /// Bytes of complete frames before the buffer.
    offset: usize,
    broken: Option<ItemError>,
}

impl Frames {
    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Whether nothing of an unfinished frame waits.
    pub(crate) fn is_between(&self) -> bool {
        self.buffer.is_empty() && self.broken.is_none()
    }

    /// The next frame, if it is there.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ItemError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let read = self.read();
        if let Err(error) = &read {
            self.broken = Some(error.clone());
            self.buffer = Vec::new();
        }
        read
    }

    fn read(&mut self) -> Result<Option<Frame>, ItemError> {
        let at = self.offset;
        let malformed = |what| ItemError::Malformed { what, offset: at };
        let Some((prelude, _)) = self.buffer.split_first_chunk::<PRELUDE>() else { return Ok(None) };
        let mut prelude = Cursor(prelude);
        let (total, headers, sum) = (prelude.length(4), prelude.length(4), prelude.length(4));
        let (Some(total), Some(headers), Some(sum)) = (total, headers, sum) else { return Ok(None) };
        if checksum(self.buffer.get(..8)) != Some(sum) {
            return Err(malformed("a frame whose lengths do not match their checksum"));
        }
        if total > MAX_LINE {
            return Err(ItemError::Oversized { len: total, max: MAX_LINE });
        }
        let payload = total.checked_sub(SHORTEST).and_then(|rest| rest.checked_sub(headers));
        let Some(payload) = payload else { return Err(malformed("a frame with impossible lengths")) };
        let Some(frame) = self.buffer.get(..total) else { return Ok(None) };
        let mut body = Cursor(frame.get(PRELUDE..).unwrap_or_default());
        let (names, payload, sum) = (body.take(headers), body.take(payload), body.length(4));
        if sum.is_none() || checksum(frame.get(..total.saturating_sub(4))) != sum {
            return Err(malformed("a frame that does not match its checksum"));
        }
        let headers =
            names.and_then(parse_headers).ok_or_else(|| malformed("a frame with broken headers"))?;
        let frame = Frame { headers, payload: payload.unwrap_or_default().to_vec() };
        self.buffer.drain(..total);
        self.offset = self.offset.saturating_add(total);
        Ok(Some(frame))
    }
}

fn checksum(bytes: Option<&[u8]>) -> Option<usize> {
    usize::try_from(crc32fast::hash(bytes?)).ok()
}

fn parse_headers(bytes: &[u8]) -> Option<Vec<(String, Option<String>)>> {
    let mut cursor = Cursor(bytes);
    let mut headers: Vec<(String, Option<String>)> = Vec::new();
    while !cursor.0.is_empty() {
        let length = cursor.length(1).filter(|length| *length > 0)?;
        let name = std::str::from_utf8(cursor.take(length)?).ok()?.to_owned();
        if headers.iter().any(|(other, _)| *other == name) {
            return None;
        }
        let size = match cursor.length(1)? {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            9 => 16,
            6 => cursor.length(2)?,
            7 => {
                let length = cursor.length(2)?;
                let text = std::str::from_utf8(cursor.take(length)?).ok()?;
                headers.push((name, Some(text.to_owned())));
                continue;
            }
            _ => return None,
        };
        cursor.take(size)?;
        headers.push((name, None));
    }
    Some(headers)
}

/// The rest of some bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of `n` bytes, the highest first.
    fn length(&mut self, n: usize) -> Option<usize> {
        self.take(n)?
            .iter()
            .try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))
    }
}

/// Cuts recorded lines into turns; a stream of frames is one turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    lines: Splitter,
    binary: bool,
}

impl Split for Turns {
    fn is_running(&self) -> bool {
        self.binary || self.lines.is_running()
    }

    fn is_binary(&self, start: &[u8]) -> bool {
        is_binary(start)
    }

    fn place(&mut self, line: &[u8]) -> Place {
        if self.binary {
            return Place::Inside;
        }
        let first = !self.lines.is_running();
        self.binary = first && is_binary(line);
        self.lines.place(line)
    }
}

/// A frame as a service writes it, for tests.
#[cfg(test)]
pub(crate) fn write(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut names = Vec::new();
    for (name, value) in headers {
        names.push(u8::try_from(name.len()).unwrap());
        names.extend(name.as_bytes());
        names.push(7);
        names.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        names.extend(value.as_bytes());
    }
    let total = u32::try_from(SHORTEST + names.len() + payload.len()).unwrap();
    let mut out = total.to_be_bytes().to_vec();
    out.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out.extend(names);
    out.extend(payload);
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Frame>, Option<ItemError>) {
        let mut frames = Frames::default();
        frames.push(bytes);
        let mut all = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(frame)) => all.push(frame),
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    #[test]
    fn frames_are_read_whatever_the_pieces() {
        let mut bytes = write(&[(":message-type", "event"), ("x", "")], b"{}");
        bytes.extend(write(&[], b""));
        let frame = Frame {
            headers: vec![(":message-type".into(), Some("event".into())), ("x".into(), Some(String::new()))],
            payload: b"{}".to_vec(),
        };
        assert_eq!(read(&bytes), (vec![frame.clone(), Frame::default()], None));
        let mut frames = Frames::default();
        let mut all = Vec::new();
        for byte in &bytes {
            frames.push(&[*byte]);
            all.extend(frames.next().unwrap());
        }
        assert_eq!(all, [frame, Frame::default()]);
        assert!(frames.is_between());
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed() {
        let good = write(&[(":message-type", "event"), (":event-type", "messageStart")], b"{\"role\":\"x\"}");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            let (frames, error) = read(&bad);
            assert!(frames.is_empty() && error.is_some(), "byte {at}");
        }
        for at in 0..good.len() {
            assert_eq!(read(&good[..at]), (Vec::new(), None), "cut at {at}");
        }
    }

    #[test]
    fn lengths_types_and_doubled_names_are_strict() {
        let framed = |names: &[u8], length: u32, total: u32| {
            let mut out = total.to_be_bytes().to_vec();
            out.extend(length.to_be_bytes());
            out.extend(crc32fast::hash(&out).to_be_bytes());
            out.extend(names);
            out.extend(crc32fast::hash(&out).to_be_bytes());
            out
        };
        let whole = |names: &[u8]| {
            let length = u32::try_from(names.len()).unwrap();
            framed(names, length, length + 16)
        };
        for good in
            [&b"\x01a\x00"[..], b"\x01a\x04\0\0\0\x01", b"\x01a\x06\0\x02xy", b"\x01a\x090123456789abcdef"]
        {
            assert_eq!(read(&whole(good)).0.len(), 1, "{good:?}");
        }
        for bad in [
            &b"\x01a\x0a"[..],
            b"\0\0",
            b"\x01a\x07\0\x09x",
            b"\x01a\x00\x01a\x00",
            b"\x01\xff\x00",
            b"\x01a\x05\0",
        ] {
            assert!(read(&whole(bad)).1.is_some(), "{bad:?}");
        }
        assert!(read(&framed(b"", 1, 16)).1.is_some());
        assert!(read(&framed(b"", 0, 15)).1.is_some());
        let huge = read(&framed(b"", 0, u32::MAX)).1;
        assert!(matches!(huge, Some(ItemError::Oversized { .. })), "{huge:?}");
    }
}
