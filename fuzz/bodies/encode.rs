//! The body of the encoders' fuzz target: shared by `cargo fuzz run encode` and the property tests on stable.
//!
//! Whatever decodes is encoded, legal or not: nothing panics, and every frame is well-formed.

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Event, EventData};
use causeway_contract::id::ToolCallId;
use causeway_encode::{Accumulated, Protocol, Seed};
use serde_json::Value;

/// Encodes the events among the lines of `input` in every format. A first line that is a seed is the run's seed.
pub fn encode(input: &[u8]) {
    let mut lines = input.split(|&byte| byte == b'\n').peekable();
    let seed = lines.peek().and_then(|line| Seed::from_json(std::str::from_utf8(line).ok()?).ok());
    let events: Vec<Event<'_>> = lines.filter_map(|line| decode_line(line, &Limits::DEFAULT).ok()).collect();
    encode_all(&seed.unwrap_or_default(), &events);
}

/// Encodes `events` in every format and checks the frames of each.
pub fn encode_all(seed: &Seed, events: &[Event<'_>]) {
    for protocol in Protocol::ALL {
        let mut encoder = protocol.encoder(seed);
        let (mut whole, mut frames_so_far) = (Vec::new(), 0);
        for event in events {
            let start = whole.len();
            encoder.encode(event, &mut whole);
            let of_event = frames(*protocol, &whole[start..]);
            assert!(of_event.len() <= most_frames(event, events.len()), "{of_event:?}");
            frames_so_far += of_event.len();
        }
        assert_eq!(frames(*protocol, &whole).len(), frames_so_far, "frames do not run into one another");
    }
    let mut answer = Accumulated::resumed(seed);
    events.iter().for_each(|event| answer.observe(event));
    let said: usize = events
        .iter()
        .map(|event| if let EventData::TextDelta(data) = &event.data { data.delta.len() } else { 0 })
        .sum();
    assert_eq!(answer.content().len() + answer.thinking().map_or(0, str::len), said);
    assert_eq!(Seed::from_json(&seed.to_json()).as_ref(), Ok(seed), "a seed reads back");
}

fn most_frames(event: &Event<'_>, open: usize) -> usize {
    match event.data {
        // What is open is closed first: a call in up to two frames, and each approval may have one of its own.
        EventData::RunFinished(_)
        | EventData::RunInterrupted(_)
        | EventData::RunCancelled(_)
        | EventData::InterruptRequested(_) => 2 * open + 67,
        _ => 3,
    }
}

/// The frames of a stream: name and JSON.
///
/// # Panics
/// If the stream is not made of well-formed frames.
pub fn frames(protocol: Protocol, stream: &[u8]) -> Vec<(String, Value)> {
    let text = std::str::from_utf8(stream).expect("frames are UTF-8");
    assert!(protocol != Protocol::Custom || text.is_ascii(), "the custom format is ASCII: {text:?}");
    let mut frames = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (frame, after) = rest.split_once("\n\n").expect("a frame ends with an empty line");
        rest = after;
        let (name, data) = match protocol {
            Protocol::AguiSpec | Protocol::UiMessage => (None, frame),
            Protocol::Agui | Protocol::Canonical | Protocol::Custom => {
                let (name, data) = frame.split_once('\n').expect("a frame has two lines");
                (Some(name.strip_prefix("event: ").expect("the first line is the name")), data)
            }
        };
        let data = data.strip_prefix("data: ").expect("the last line is the data");
        assert!(!data.contains('\n'), "a frame has one line of data");
        if protocol == Protocol::UiMessage && data == "[DONE]" {
            frames.push((data.to_owned(), Value::Null));
            continue;
        }
        let value: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        let name = match protocol {
            Protocol::Custom => name.unwrap_or_default(),
            Protocol::Agui | Protocol::Canonical | Protocol::AguiSpec | Protocol::UiMessage => {
                let kind = value["type"].as_str().expect("a frame has a type");
                assert_eq!(name.unwrap_or(kind), kind);
                kind
            }
        };
        frames.push((name.to_owned(), value));
    }
    frames
}

/// A seed that names every n-th of `calls` as a delegation and every m-th as refused.
pub fn seed_of(calls: &[ToolCallId<'static>], n: usize, m: usize) -> Seed {
    let every = |step: usize| {
        let picked = calls.iter().enumerate().filter(|(at, _)| step > 0 && at % step == 0);
        picked.map(|(_, call)| call.clone()).collect::<Vec<_>>()
    };
    Seed { open_tool_calls: calls.to_vec(), delegations: every(n), rejected: every(m) }
}
