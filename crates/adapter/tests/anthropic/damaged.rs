//! Recordings cut at every line, and lines dropped, repeated, swapped, cut and exchanged: nothing panics, and what is
//! yielded obeys every rule with one truthful terminal or none.

#[path = "../../../../fuzz/bodies/anthropic.rs"]
mod body;

use causeway_contract::event::EventData;

use crate::damage::{Dice, damage, rounds};
use crate::support::{Recording, Run, options, play, recordings, try_play};

/// Holds what a cut recording gives against the whole one.
fn check_cut(recording: &Recording, whole: &[Run], at: usize) {
    let (part, name) = (&recording.lines[..at], &recording.name);
    let finished = |runs: &[Run]| {
        runs.iter().filter(|run| matches!(run.terminal(), Some(EventData::RunFinished(_)))).count()
    };
    let (runs, _refused) = try_play(recording.harness, part, &recording.sent, &options());
    let text = String::from_utf8_lossy(part);
    let ends = ["\"type\": \"result\"", "\"ResultMessage\"", "\"message_stop\""];
    let ends = text.lines().filter(|line| ends.iter().any(|end| line.contains(end))).count();
    assert!(finished(&runs) <= ends.min(finished(whole)), "{name}: {at}");
    for (n, run) in runs.iter().enumerate() {
        if matches!(run.terminal(), Some(EventData::RunCancelled(_))) {
            continue; // the notice of a person's interrupt is enough
        }
        // A cut run says what the whole one says, as far as it goes.
        let all = &whole[n].drafts;
        assert!(run.drafts.len() <= all.len() && run.drafts[..] == all[..run.drafts.len()], "{name}: {at}");
    }
}

#[test]
fn a_recording_cut_at_any_line_or_byte_never_claims_more_than_came() {
    for recording in recordings() {
        let whole = play(recording.harness, &recording.lines, &recording.sent, &options());
        let mut at = 0;
        for line in recording.lines.split_inclusive(|byte| *byte == b'\n') {
            check_cut(&recording, &whole, at);
            at += line.len();
        }
        let mut dice = Dice::of(7);
        for _ in 0..100 {
            check_cut(&recording, &whole, dice.roll(recording.lines.len()));
        }
    }
}

/// Words that mean something to the adapters; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"stream_event\"",
    "\"assistant\"",
    "\"user\"",
    "\"system\"",
    "\"result\"",
    "\"control_request\"",
    "\"can_use_tool\"",
    "\"message_start\"",
    "\"content_block_start\"",
    "\"content_block_delta\"",
    "\"content_block_stop\"",
    "\"message_delta\"",
    "\"message_stop\"",
    "\"text\"",
    "\"thinking\"",
    "\"tool_use\"",
    "\"tool_result\"",
    "\"text_delta\"",
    "\"input_json_delta\"",
    "\"Task\"",
    "\"Read\"",
    "\"AskUserQuestion\"",
    "\"toolu_k1\"",
    "\"toolu_s1\"",
    "\"toolu_w1\"",
    "\"toolu_q1\"",
    "\"toolu_r1\"",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\ude00x\"",
    "\"\\u0000\"",
    "1e999",
    "\"\"",
    "true",
    "false",
    "\"error\"",
    "\"task_started\"",
    "\"task_notification\"",
    "\"completed\"",
    "\"success\"",
    "\"id\"",
    "\"name\"",
    "\"input\"",
    "\"partial_json\"",
    "\"\\u202e\"",
    "\"question\"",
    "\"label\"",
    "\"index\": 0",
    "\"index\": 1",
    "\"end_turn\"",
    "\"event\"",
    "\"end\"",
];

#[test]
fn no_damage_to_a_recording_makes_an_adapter_break_a_rule() {
    for recording in recordings() {
        let whole: Vec<Vec<u8>> = recording.lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let messages = recording.harness == "anthropic-messages";
        rounds(24, |mut dice| {
            // From anywhere, so that what follows an end is not all late.
            let mut lines = whole[if dice.roll(2) == 0 { 0 } else { dice.roll(whole.len()) }..].to_vec();
            damage(&mut lines, &mut dice, WORDS);
            let mut data = vec![u8::try_from(dice.roll(64)).unwrap() << 1 | u8::from(messages)];
            data.extend(lines.join(&b'\n'));
            body::anthropic(&data);
        });
    }
}
