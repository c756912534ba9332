//! SSE frames: `event: NAME`, one `data:` line, an empty line; lines end in `\n` alone (goldens §3).

use causeway_contract::event::Sequence;

use crate::json::number::put_integer;

/// The start of a frame up to and into its JSON, as one literal. `agui` frames repeat their name as `type`.
macro_rules! open {
    ($name:literal, $json:literal) => {
        concat!("event: ", $name, "\ndata: ", $json)
    };
    (agui $name:literal, $json:literal) => {
        concat!("event: ", $name, "\ndata: {\"type\": \"", $name, "\", ", $json)
    };
}
pub(crate) use open;

/// Appends the frames of one event to `out`, with `id: <sequence>` in the last of them.
///
/// `frames` is what an encoder wrote for the event; without a frame nothing is appended. The id stands behind the
/// data, so a client that lost the connection inside an event has not yet learned the event's number and is sent
/// the whole event again.
pub fn with_event_id(frames: &[u8], sequence: Sequence, out: &mut Vec<u8>) {
    let Some((end, frames)) = frames.split_last() else { return };
    out.extend_from_slice(frames);
    out.extend_from_slice(b"id: ");
    put_integer(i64::try_from(sequence.value()).unwrap_or(i64::MAX), out);
    out.extend_from_slice(&[b'\n', *end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_frame_of_an_event_carries_its_number() {
        let mut out = b"before\n\n".to_vec();
        with_event_id(b"event: a\ndata: {}\n\nevent: b\ndata: {}\n\n", Sequence::new(7).unwrap(), &mut out);
        with_event_id(b"", Sequence::new(8).unwrap(), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "before\n\nevent: a\ndata: {}\n\nevent: b\ndata: {}\nid: 7\n\n"
        );
    }
}
