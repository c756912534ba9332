//! What clients received: each event once, in order, without a gap, with the bytes that the log gives.

use std::collections::BTreeMap;

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;
use causeway_encode::{Protocol, Seed, with_event_id};

use super::{Case, Class, Outcome};
use crate::facts::Run;
use crate::history::Entry;

/// A stream that a client followed.
#[derive(Default)]
struct Stream<'a> {
    run_id: &'a str,
    protocol: &'a str,
    after: Option<u64>,
    frames: Vec<(u64, &'a str)>,
    ended: bool,
}

impl<'a> Case<'a> {
    pub(super) fn streams(&mut self) {
        let mut streams: BTreeMap<u64, Stream<'a>> = BTreeMap::new();
        for entry in self.history {
            match entry {
                Entry::Follow { op, run_id, protocol, after } => {
                    streams.insert(*op, Stream { run_id, protocol, after: *after, ..Stream::default() });
                }
                Entry::Frames { op, number, bytes } => {
                    if let Some(stream) = streams.get_mut(op) {
                        stream.frames.push((*number, bytes));
                    }
                }
                Entry::Ended { op } => {
                    if let Some(stream) = streams.get_mut(op) {
                        stream.ended = true;
                    }
                }
                _ => {}
            }
        }
        self.bodies();
        let mut encoded: BTreeMap<(&str, &str), Option<BTreeMap<u64, String>>> = BTreeMap::new();
        for (op, stream) in streams {
            let Some(run) = self.told_run(stream.run_id, "a stream") else { continue };
            let frames = encoded
                .entry((stream.run_id, stream.protocol))
                .or_insert_with(|| encode(run, stream.protocol, true));
            let Some(frames) = frames else {
                let what = format!("run {} does not read back in {}", run.run_id, stream.protocol);
                self.found(Class::Lost, what);
                continue;
            };
            if let Some((class, what)) = compare(&stream, run, frames) {
                self.found(
                    class,
                    format!("stream {op} of run {} in {}: {what}", run.run_id, stream.protocol),
                );
            }
        }
    }
}

impl Case<'_> {
    /// Streams of the established routes: what came is how the whole of it begins.
    fn bodies(&mut self) {
        for entry in self.history {
            let Entry::Body { op, protocol, bytes } = entry else { continue };
            let Some(Outcome::Accepted(Entry::Started { run_id, .. })) =
                self.asks.get(op).map(|ask| ask.outcome)
            else {
                self.found(Class::Told, format!("request {op} was answered by a stream and by no run"));
                continue;
            };
            let Some(run) = self.told_run(run_id, "a stream") else { continue };
            let whole: Option<String> =
                encode(run, protocol, false).map(|frames| frames.into_values().collect());
            if whole.is_none_or(|whole| !whole.starts_with(bytes)) {
                self.found(Class::Lost, format!("run {run_id} in {protocol} does not begin as it was shown"));
            }
        }
    }
}

fn compare(stream: &Stream<'_>, run: &Run, frames: &BTreeMap<u64, String>) -> Option<(Class, String)> {
    let terminal = run.events.iter().find(|event| event.kind.is_terminal()).map(|event| event.number);
    let mut due = frames.iter().filter(|(number, _)| Some(**number) > stream.after);
    for (number, bytes) in &stream.frames {
        if terminal.is_some_and(|terminal| *number > terminal) {
            return Some((Class::AfterTerminal, format!("event {number} was shown, behind the terminal")));
        }
        let Some((expected, stored)) = due.next() else {
            return Some((Class::Lost, format!("event {number} was shown, and is not in the log")));
        };
        if number != expected {
            return Some((Class::Lost, format!("event {number} was shown where {expected} was due")));
        }
        if bytes != stored {
            return Some((Class::Lost, format!("event {number} was shown as {bytes:?} and is {stored:?}")));
        }
    }
    match due.next() {
        Some((number, _)) if stream.ended => {
            Some((Class::Told, format!("it ended in good order before event {number}")))
        }
        _ => None,
    }
}

/// The frames of each event that has any, the last of them with its number or without.
fn encode(run: &Run, protocol: &str, number: bool) -> Option<BTreeMap<u64, String>> {
    let seed =
        run.seed.as_deref().map_or_else(|| Some(Seed::default()), |json| Seed::from_json(json).ok())?;
    let mut encoder = Protocol::parse(protocol)?.encoder(&seed);
    let mut all = BTreeMap::new();
    for event in &run.events {
        let event = decode_line(event.json.as_bytes(), &Limits::DEFAULT).ok()?;
        let (mut frames, mut numbered) = (Vec::new(), Vec::new());
        encoder.encode(&event, &mut frames);
        if !frames.is_empty() {
            with_event_id(&frames, event.sequence, &mut numbered);
            let bytes = if number { numbered } else { frames };
            all.insert(event.sequence.value(), String::from_utf8(bytes).ok()?);
        }
    }
    Some(all)
}
