//! Recordings cut at every byte, and lines and bytes damaged: nothing panics, no rule breaks, and no cut stream claims more
//! than came.

#[path = "../../../../fuzz/bodies/bedrock.rs"]
mod body;

use crate::damage::{damage, rounds};
use crate::support::{AGENTCORE, Recording, options, play, recordings};

/// A cut stream says what the whole one says as far as it goes, and succeeds only where its end came.
fn check_cut(recording: &Recording, stream: &[u8], at: usize) {
    let name = format!("{} at {at}", recording.name);
    let (whole, _) = play(recording.harness, stream, &options());
    let (runs, _refused) = play(recording.harness, &stream[..at], &options());
    let text = String::from_utf8_lossy(&stream[..at]).into_owned();
    for (n, run) in runs.iter().enumerate() {
        let all: Vec<_> = whole[n].drafts.iter().collect();
        // The last events of a success are made at the end: what is compared is what was said.
        let said = run.said();
        assert!(whole[n].said().starts_with(&said), "{name}: {said}");
        assert!(run.drafts.len() <= all.len(), "{name}\n{}", run.text());
        if !run.finished() || recording.is_runtime() {
            continue; // a runtime has no end record
        }
        assert!(whole[n].finished(), "{name}");
        let stops = text.matches("messageStop").count();
        assert!(stops > n, "{name}: success without a stop");
        assert_eq!(run.said(), whole[n].said(), "{name}: success with a part of the text");
        assert_eq!(run.end(), whole[n].end(), "{name}");
    }
    if recording.is_runtime() && text.contains("\"begin\"") && !text.contains("\"kind\": \"end\"") {
        assert!(runs.iter().all(|run| !run.finished()), "{name}: a begin without its end");
    }
}

#[test]
fn a_stream_cut_at_any_byte_never_claims_more_than_came() {
    for recording in recordings() {
        let step = if recording.lines.len() > 5000 { 97 } else { 1 };
        for at in (0..=recording.lines.len()).step_by(step) {
            check_cut(&recording, &recording.lines, at);
        }
        for stream in &recording.raw {
            let step = if stream.len() > 5000 { 97 } else { 1 };
            for at in (0..=stream.len()).step_by(step) {
                check_cut(&recording, stream, at);
            }
        }
    }
}

#[test]
fn a_spoiled_byte_of_a_frame_is_refused_and_nothing_after_it_is_read() {
    for recording in recordings() {
        for stream in recording.raw.iter().filter(|stream| stream.first() == Some(&0)) {
            let whole = play(recording.harness, stream, &options()).0.remove(0);
            for at in 0..stream.len() {
                let mut bad = stream.clone();
                bad[at] ^= 1;
                if at == 0 {
                    continue; // then it is not such a stream any more
                }
                let (runs, refused) = play(recording.harness, &bad, &options());
                assert!(!runs[0].finished(), "{}: byte {at}", recording.name);
                // A length that grew may wait for bytes that never come: its own checksum tells at once.
                let late = whole.end().is_some_and(|end| !end.starts_with("success"));
                assert!(refused.is_some() || late, "{}: byte {at}", recording.name);
            }
        }
    }
}

/// Words that mean something to the adapters; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"messageStart\"",
    "\"contentBlockStart\"",
    "\"contentBlockDelta\"",
    "\"contentBlockStop\"",
    "\"messageStop\"",
    "\"metadata\"",
    "\"toolUse\"",
    "\"toolResult\"",
    "\"text\"",
    "\"reasoningContent\"",
    "\"input\"",
    "\"event\"",
    "\"end\"",
    "\"error\"",
    "\"cancelled\"",
    "\"response\"",
    "\"line\"",
    "\"body\"",
    "\"tool_use\"",
    "\"end_turn\"",
    "\"tooluse_w1\"",
    "\"contentBlockIndex\": 0",
    "\"contentBlockIndex\": 1",
    "data: ",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\ude00x\"",
    "\"\\u0000\"",
    "1e999",
    "\"\"",
    "true",
];

#[test]
fn no_damage_to_a_recording_makes_an_adapter_break_a_rule() {
    for recording in recordings() {
        let streams = std::iter::once(&recording.lines).chain(&recording.raw);
        for stream in streams {
            let whole: Vec<Vec<u8>> = stream.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            rounds(36, |mut dice| {
                let mut lines = whole[if dice.roll(2) == 0 { 0 } else { dice.roll(whole.len()) }..].to_vec();
                damage(&mut lines, &mut dice, WORDS);
                let harness = u8::from(recording.harness == AGENTCORE);
                let mut data = vec![u8::try_from(dice.roll(128)).unwrap() << 1 | harness];
                data.extend(lines.join(&b'\n'));
                body::bedrock(&data);
            });
        }
    }
}
