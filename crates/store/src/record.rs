//! One stored event: the payload, and of the envelope only what differs from event to event.
//!
//! Refuses to keep the envelope: run and conversation are rebuilt from the run's own row, so a replay gives the
//! same canonical bytes without storing them.

use std::fmt;
use std::sync::Arc;

use causeway_contract::canonical::write_string;
use causeway_contract::decode::{decode_data, decode_namespace};
use causeway_contract::error::DecodeError;
use causeway_contract::event::{Event, EventType, Sequence};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::text::Str;
use causeway_contract::timestamp::Timestamp;

/// One stored event. Cloning copies no text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Its number in the run.
    pub sequence: Sequence,
    /// When.
    pub timestamp: Timestamp<'static>,
    /// Its type.
    pub event_type: EventType,
    /// Its namespace as compact JSON; `[]` for the root.
    pub namespace: Str<'static>,
    /// Its payload as compact JSON in the contract's key order.
    pub data: Payload,
}

impl Record {
    /// Encodes an event, once for log, readers and replay.
    pub fn from_event(event: &Event<'_>) -> Self {
        let mut bytes = Vec::with_capacity(128);
        event.data.write_json(&mut bytes);
        let data = Payload::from(text(bytes));
        let namespace = if event.namespace.is_root() {
            Str::Borrowed("[]")
        } else {
            let mut bytes = Vec::new();
            event.namespace.write_json(&mut bytes);
            Str::from(text(bytes))
        };
        Self {
            sequence: event.sequence,
            timestamp: event.timestamp.clone().into_owned(),
            event_type: event.data.event_type(),
            namespace,
            data,
        }
    }

    /// The event again, borrowed from the record.
    ///
    /// # Errors
    /// The stored text is not what an encoder of ours wrote under these limits.
    pub fn decode<'a>(
        &'a self,
        run_id: &'a RunId<'_>,
        conversation_id: &'a ConversationId<'_>,
        limits: &Limits,
    ) -> Result<Event<'a>, DecodeError> {
        Ok(Event {
            run_id: run_id.clone(),
            conversation_id: conversation_id.clone(),
            sequence: self.sequence,
            timestamp: self.timestamp.clone(),
            namespace: decode_namespace(&self.namespace, limits)?,
            data: decode_data(self.event_type, self.data.as_str(), limits)?,
        })
    }

    /// Appends the canonical JSON of the event, byte for byte what [`Event::write_json`] writes, without decoding it.
    pub fn write_json(&self, run_id: &RunId<'_>, conversation_id: &ConversationId<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"version":1,"type":""#);
        out.extend_from_slice(self.event_type.as_str().as_bytes());
        out.extend_from_slice(br#"","run_id":"#);
        write_string(run_id.as_str(), out);
        out.extend_from_slice(br#","conversation_id":"#);
        write_string(conversation_id.as_str(), out);
        out.extend_from_slice(
            format!(r#","sequence":{},"timestamp":"{}","namespace":"#, self.sequence, self.timestamp)
                .as_bytes(),
        );
        out.extend_from_slice(self.namespace.as_bytes());
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(self.data.as_str().as_bytes());
        out.push(b'}');
    }

    /// Bytes that the record holds in memory and, about, in the log.
    pub fn stored_len(&self) -> usize {
        self.data.as_str().len() + self.namespace.len() + 48
    }
}

/// JSON text that came from an encoder of ours. `Debug` shows its length only, so that no log can show content.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shared.
    pub fn into_shared(self) -> Arc<str> {
        self.0
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<Arc<str>> for Payload {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// What our encoders wrote is UTF-8: they put together strings.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_contract::decode::decode_text;

    #[test]
    fn a_record_gives_back_the_event_and_its_canonical_bytes() {
        let lines = [
            r#"{"version":1,"type":"text.delta","run_id":"r \"q\" \u00e4","conversation_id":"c","sequence":3,"timestamp":"2026-08-17T02:00:00.500+02:00","namespace":[],"data":{"message_id":"m","delta":"a\u000a\ud83d\ude00 \u2028"}}"#,
            r#"{"version":1,"type":"tool.started","run_id":"r","conversation_id":"c","sequence":9007199254740991,"timestamp":"2026-08-17T00:00:00Z","namespace":["call-1","x y"],"data":{"tool_call_id":"t","tool_name":"n","arguments":{"z":1.0,"a":[2E3, 9007199254740993]}}}"#,
        ];
        for line in lines {
            let event = decode_text(line, &Limits::DEFAULT).unwrap();
            let record = Record::from_event(&event);
            let (mut direct, mut rebuilt) = (Vec::new(), Vec::new());
            event.write_json(&mut direct);
            record.write_json(&event.run_id, &event.conversation_id, &mut rebuilt);
            assert_eq!(String::from_utf8(rebuilt).unwrap(), String::from_utf8(direct.clone()).unwrap());
            let mut decoded = Vec::new();
            let limits = Limits::DEFAULT;
            record.decode(&event.run_id, &event.conversation_id, &limits).unwrap().write_json(&mut decoded);
            assert_eq!(String::from_utf8(decoded).unwrap(), String::from_utf8(direct).unwrap());
        }
    }

    #[test]
    fn debug_output_of_a_record_shows_no_content() {
        assert_eq!(format!("{:?}", Payload::from(r#"{"delta":"secret"}"#)), "<18 bytes>");
    }
}
