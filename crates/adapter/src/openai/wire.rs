//! Lines of SSE text, or of recordings, to JSON values; `[DONE]` is told apart.
//!
//! Refuses what is neither: a line that is no JSON, and an event that grows beyond the bound of a line.

use crate::adapter::ItemError;
use crate::json::Json;
use crate::worker::{self, MAX_LINE};

/// One value of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    /// An event, an error body or a line of a recording.
    Value(&'a Json<'a>),
    /// `[DONE]`.
    Done,
}

/// Who takes the values.
pub(crate) type Taker<'t> = &'t mut dyn FnMut(Item<'_>) -> Result<(), ItemError>;

/// Data lines of an SSE event that is not complete.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    data: Vec<u8>,
}

impl Wire {
    /// Takes lines.
    ///
    /// # Errors
    /// A line cannot be read, or its value is refused.
    pub(crate) fn lines(&mut self, item: &[u8], take: Taker<'_>) -> Result<(), ItemError> {
        if item.len() > MAX_LINE {
            return Err(ItemError::Oversized { len: item.len(), max: MAX_LINE });
        }
        item.split(|byte| *byte == b'\n').try_for_each(|line| self.line(line, take))
    }

    fn line(&mut self, line: &[u8], take: Taker<'_>) -> Result<(), ItemError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(data) = line.strip_prefix(b"data:") {
            return self.data(data.strip_prefix(b" ").unwrap_or(data), take);
        }
        if line.trim_ascii().is_empty() || line.starts_with(b"event:") {
            return self.frame_over(take);
        }
        if line.starts_with(b":") || line.starts_with(b"id:") || line.starts_with(b"retry:") {
            return Ok(());
        }
        if line.trim_ascii() == b"[DONE]" {
            return take(Item::Done);
        }
        take(Item::Value(&worker::parse_line(line)?))
    }

    /// A data line; an event that is spread over several is taken once it is complete.
    fn data(&mut self, data: &[u8], take: Taker<'_>) -> Result<(), ItemError> {
        if self.data.is_empty() && data.trim_ascii() == b"[DONE]" {
            return take(Item::Done);
        }
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        if self.data.len() > MAX_LINE {
            return Err(ItemError::Oversized { len: self.data.len(), max: MAX_LINE });
        }
        let whole = std::mem::take(&mut self.data);
        match Json::parse(&whole) {
            Ok(value) => take(Item::Value(&value)),
            Err(_) => {
                self.data = whole;
                Ok(())
            }
        }
    }

    fn frame_over(&mut self, take: Taker<'_>) -> Result<(), ItemError> {
        let data = std::mem::take(&mut self.data);
        if data.is_empty() { Ok(()) } else { take(Item::Value(&Json::parse(&data)?)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(lines: &[&str]) -> Vec<String> {
        let (mut wire, mut all) = (Wire::default(), Vec::new());
        for line in lines {
            let taken = wire.lines(line.as_bytes(), &mut |item| {
                all.push(match item {
                    Item::Value(value) => value.to_text(),
                    Item::Done => "done".to_owned(),
                });
                Ok(())
            });
            if taken.is_err() {
                all.push("refused".to_owned());
            }
        }
        all
    }

    #[test]
    fn frames_data_lines_and_bare_lines_give_the_same() {
        assert_eq!(
            taken(&["event: x\r\ndata: {\"a\":1}\r\n\r\n: c\ndata: [DONE]\n\n"]),
            [r#"{"a":1}"#, "done"]
        );
        assert_eq!(taken(&["data:{\"a\":", "data:1}", "", "[DONE]"]), [r#"{"a":1}"#, "done"]);
        assert_eq!(taken(&[r#"{"a":1}"#, "id: 1", "retry: 3"]), [r#"{"a":1}"#]);
        assert_eq!(taken(&["data: {\"a\":", "", "nonsense"]), ["refused", "refused"]);
    }
}
