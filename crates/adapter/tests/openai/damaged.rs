//! Recordings cut at every line and at random bytes, and lines dropped, repeated, swapped, cut and exchanged: nothing
//! panics, and what is yielded obeys every rule with one truthful terminal or none.

use causeway_adapter::turn::Turn;
use causeway_contract::event::EventData;

use crate::damage::{Dice, damage, rounds};
use crate::support::{Recording, Run, options, play, recordings, try_play};

/// Holds what a cut recording gives against the whole one.
fn check_cut(recording: &Recording, whole: &[Run], at: usize) {
    let (part, name) = (&recording.lines[..at], &recording.name);
    let (runs, _refused) = try_play(recording.harness, part, b"", &options());
    let text = String::from_utf8_lossy(part);
    let ends = text.lines().filter(|line| crate::ENDS.iter().any(|end| line.contains(end))).count();
    let finished = |run: &&Run| matches!(run.terminal(), Some(EventData::RunFinished(_)));
    assert!(runs.iter().filter(finished).count() <= ends, "{name}: {at}: finished without an end record");
    for (run, whole) in runs.iter().zip(whole) {
        // A cut run says what the whole one says, as far as it goes.
        let all = &whole.drafts;
        assert!(run.drafts.len() <= all.len() && run.drafts[..] == all[..run.drafts.len()], "{name}: {at}");
    }
}

#[test]
fn a_recording_cut_at_any_line_or_byte_never_claims_more_than_came() {
    for recording in recordings() {
        let whole = play(recording.harness, &recording.lines, b"", &options());
        let mut at = 0;
        for line in recording.lines.split_inclusive(|byte| *byte == b'\n') {
            check_cut(&recording, &whole, at);
            at += line.len();
        }
        let mut dice = Dice::of(7);
        for _ in 0..200 {
            check_cut(&recording, &whole, dice.roll(recording.lines.len()));
        }
    }
}

#[test]
fn no_damage_to_a_recording_makes_an_adapter_break_a_rule() {
    for recording in recordings() {
        let whole: Vec<Vec<u8>> = recording.lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        rounds(21, |mut dice| {
            let mut lines = whole.clone();
            damage(&mut lines, &mut dice, crate::WORDS);
            // The run panics where an event breaks a rule; a refused line leaves it as it was.
            let mut run =
                Run::new(recording.harness, Turn::Start, options().stream_arguments(dice.roll(2) == 0));
            for line in lines.iter().filter(|line| !line.is_empty()) {
                let _refused = run.line(line);
            }
            let run = run.close();
            let terminals = run.drafts.iter().filter(|draft| draft.data.is_terminal()).count();
            assert!(terminals <= 1, "{}", recording.name);
        });
    }
}
