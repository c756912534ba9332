//! Strict decoding: one pass over a line, strings borrowed from it.
//!
//! Refuses everything the contract does not name: unknown, repeated or missing fields, JSON beyond the grammar, depth,
//! numbers and characters out of bounds. A line that is not JSON is said to be that, whatever else is wrong with it.

pub(crate) mod payload;
mod reader;

use crate::check::{self, Origin};
use crate::decode::payload::read_data;
use crate::decode::reader::{Reader, fields};
use crate::error::{DecodeError, Fault};
use crate::event::{Event, EventData, EventType, Sequence};
use crate::id::{ConversationId, RunId};
use crate::json::SPACE;
use crate::json::scan::{Scan, Scanner};
use crate::limits::Limits;
use crate::namespace::Namespace;
use crate::timestamp::Timestamp;

/// Decodes one line of canonical JSONL, with or without its line end.
///
/// # Errors
/// The first fault: `envelope` when the line does not parse at all, else the check it breaks.
pub fn decode_line<'a>(line: &'a [u8], limits: &Limits) -> Result<Event<'a>, DecodeError> {
    decode_text(utf8(line)?, limits)
}

/// Decodes one line that is known to be UTF-8.
///
/// # Errors
/// As [`decode_line`].
pub fn decode_text<'a>(text: &'a str, limits: &Limits) -> Result<Event<'a>, DecodeError> {
    let mut reader = Reader::new(text, limits);
    let event = reader.event().and_then(|event| {
        reader.scan.end()?;
        check::event_fits(trimmed_len(text), event.data.event_type(), limits)?;
        Ok(event)
    });
    match event {
        Ok(event) => Ok(event),
        Err(error) => Err(settle(text, error, limits)),
    }
}

/// A stored event in pieces, as a store keeps it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parts<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The conversation.
    pub conversation_id: &'a str,
    /// The number in the run.
    pub sequence: u64,
    /// RFC 3339.
    pub timestamp: &'a str,
    /// The path, as [`Namespace::write_json`] wrote it.
    pub namespace_json: &'a str,
    /// The type, e.g. `text.delta`.
    pub event_type: &'a str,
    /// The payload, as [`EventData::write_json`] wrote it.
    pub data_json: &'a str,
}

/// Rebuilds an event from its stored pieces, as strictly as [`decode_line`] reads one.
///
/// # Errors
/// The first fault; pointers are those of the whole event.
pub fn decode_parts<'a>(parts: &Parts<'a>, limits: &Limits) -> Result<Event<'a>, DecodeError> {
    let id_bytes = limits.id_bytes;
    let id = |fault, key: &str| DecodeError::new(Fault::Id(fault)).at(key);
    let event_type = EventType::parse(parts.event_type)
        .ok_or_else(|| DecodeError::new(Fault::UnknownEventType).at("type"))?;
    let event = Event {
        run_id: RunId::bounded(parts.run_id, id_bytes).map_err(|fault| id(fault, "run_id"))?,
        conversation_id: ConversationId::bounded(parts.conversation_id, id_bytes)
            .map_err(|fault| id(fault, "conversation_id"))?,
        sequence: Sequence::new(parts.sequence).ok_or_else(|| {
            DecodeError::new(Fault::OutOfRange { max: Sequence::MAX.value() }).at("sequence")
        })?,
        timestamp: Timestamp::parse(parts.timestamp)
            .map_err(|fault| DecodeError::new(Fault::Timestamp(fault)).at("timestamp"))?,
        namespace: decode_namespace(parts.namespace_json, limits)?,
        data: decode_data(event_type, parts.data_json, limits)?,
    };
    Ok(event)
}

/// Decodes a payload by its type.
///
/// # Errors
/// The first fault; pointers start at the event (`/data/…`).
pub fn decode_data<'a>(
    event_type: EventType,
    json: &'a str,
    limits: &Limits,
) -> Result<EventData<'a>, DecodeError> {
    let mut reader = Reader::new(json, limits);
    let data = reader.data(event_type).and_then(|data| reader.scan.end().map(|()| data));
    data.map_err(|error| settle(json, error, limits))
}

/// Decodes a namespace path from its JSON array.
///
/// # Errors
/// The first fault; pointers start at the event (`/namespace/…`).
pub fn decode_namespace<'a>(json: &'a str, limits: &Limits) -> Result<Namespace<'a>, DecodeError> {
    let mut reader = Reader::new(json, limits);
    let path = reader.namespace().map_err(|error| error.at("namespace"));
    let path = path.and_then(|path| reader.scan.end().map(|()| path));
    path.map_err(|error| settle(json, error, limits))
}

/// The line as text.
fn utf8(line: &[u8]) -> Scan<&str> {
    match std::str::from_utf8(line) {
        Ok(text) => Ok(text),
        Err(error) => Err(DecodeError::new(Fault::NotUtf8 { offset: error.valid_up_to() })),
    }
}

/// The length of the line without the white space around it.
#[inline]
fn trimmed_len(text: &str) -> usize {
    let visible = |byte: Option<&u8>| byte.is_some_and(|&byte| byte > b' ');
    let bytes = text.as_bytes();
    if visible(bytes.first()) && visible(bytes.last()) { text.len() } else { text.trim_matches(SPACE).len() }
}

/// The fault to report for a line: that it is no JSON comes before what else is wrong with it.
#[cold]
#[inline(never)]
fn settle(text: &str, error: DecodeError, limits: &Limits) -> DecodeError {
    if text.starts_with('\u{feff}') {
        return DecodeError::new(Fault::ByteOrderMark);
    }
    let mut grammar = Scanner::grammar(text, limits.json_depth);
    match grammar.skip(0).and_then(|()| grammar.end()) {
        Ok(()) => error,
        Err(grammar) => grammar,
    }
}

/// The payload, or where it stands when `type` comes after it.
enum Body<'a> {
    Read(EventData<'a>),
    Later(usize),
}

impl<'a> Reader<'a, '_> {
    /// Reads the event at the cursor.
    fn event(&mut self) -> Scan<Event<'a>> {
        fields!(self, {
            version = "version": required self.version(),
            event_type = "type": required self.event_type(),
            run_id = "run_id": required self.id(),
            conversation_id = "conversation_id": required self.id(),
            sequence = "sequence": required self.sequence(),
            timestamp = "timestamp": required self.timestamp(),
            namespace = "namespace": required self.namespace(),
            // `data` adds its own name to the pointer of an error.
            body = "data": bare self.body(event_type),
        });
        let () = version;
        let data = match body {
            Body::Read(data) => data,
            Body::Later(start) => self.at(start, |reader| reader.data(event_type))?,
        };
        Ok(Event { run_id, conversation_id, sequence, timestamp, namespace, data })
    }

    fn body(&mut self, event_type: Option<EventType>) -> Scan<Body<'a>> {
        match event_type {
            Some(event_type) => self.data(event_type).map(Body::Read),
            None => {
                self.scan.peek();
                let start = self.scan.offset();
                self.scan.skip(1).map_err(|error| error.in_data())?;
                Ok(Body::Later(start))
            }
        }
    }

    /// Reads and checks the payload at the cursor.
    fn data(&mut self, event_type: EventType) -> Scan<EventData<'a>> {
        let data = match read_data(self, event_type) {
            Ok(data) => data,
            Err(error) => return Err(error.in_data()),
        };
        match check::data(&data, self.limits, Origin::Line) {
            Ok(()) => Ok(data),
            Err(error) => Err(error.in_data()),
        }
    }

    fn version(&mut self) -> Scan<()> {
        match self.scan.integer(1) {
            Ok(1) => Ok(()),
            Ok(_) | Err(_) => Err(DecodeError::new(Fault::WrongVersion)),
        }
    }

    #[inline]
    fn event_type(&mut self) -> Scan<EventType> {
        if self.scan.peek() == Some(b'"') && self.scan.take("\"text.delta\"") {
            return Ok(EventType::TextDelta);
        }
        let found = match self.scan.visible_string() {
            Some(text) => EventType::parse(text),
            None => EventType::parse(&self.scan.string()?.to_text()),
        };
        found.ok_or_else(|| DecodeError::new(Fault::UnknownEventType))
    }

    fn sequence(&mut self) -> Scan<Sequence> {
        let max = Sequence::MAX.value();
        let value = self.scan.integer(max)?;
        Sequence::new(value).ok_or_else(|| DecodeError::new(Fault::OutOfRange { max }))
    }

    fn timestamp(&mut self) -> Scan<Timestamp<'a>> {
        let parsed = match self.scan.visible_string() {
            Some(text) => Timestamp::parse(text),
            None => Timestamp::parse(&self.scan.string()?.to_text()).map(Timestamp::into_owned),
        };
        parsed.map_err(|fault| DecodeError::new(Fault::Timestamp(fault)))
    }

    fn namespace(&mut self) -> Scan<Namespace<'a>> {
        let mut path = Namespace::root();
        let mut more = self.scan.open(b'[', b']', "an array of strings")?;
        let mut index = 0usize;
        while more {
            let element = match self.id() {
                Ok(element) => element,
                Err(error) => return Err(error.at_index(index)),
            };
            index += 1;
            // The rest of an endless path is read but not kept; the count alone refuses it.
            if index <= self.limits.namespace_depth.saturating_add(1) {
                path.push(element);
            }
            more = self.scan.more(b']')?;
        }
        check::namespace(&path, self.limits, Origin::Line)?;
        Ok(path)
    }
}
