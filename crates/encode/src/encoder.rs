//! The one thing an encoder does.

use causeway_contract::event::Event;

/// Turns the events of one run, in order, into the bytes of one client format.
///
/// Pure: the bytes depend on the events so far and, on a resumed run, on its seed. So a replay gives the same bytes,
/// and the bytes of a stream are the bytes of its events one after the other. Encoders see validated events only,
/// but panic on none.
pub trait Encoder {
    /// Appends the frames for `event`; an event without a public frame appends nothing.
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>);
}
