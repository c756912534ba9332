//! Recordings cut at every line and at random bytes, and lines dropped, repeated, swapped, cut and exchanged: nothing
//! panics, and what is yielded obeys every rule with one truthful terminal or none.

use causeway_adapter::turn::Turn;
use causeway_contract::event::EventData;

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
        let mut dice = Dice(7);
        for _ in 0..200 {
            check_cut(&recording, &whole, dice.roll(recording.lines.len()));
        }
    }
}

/// A small generator of our own, so that a failing round can be named by its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides.max(1)).unwrap()).unwrap()
    }
}

fn damage(lines: &mut Vec<Vec<u8>>, dice: &mut Dice) {
    for _ in 0..=dice.roll(6) {
        if lines.is_empty() {
            return;
        }
        let (a, b) = (dice.roll(lines.len()), dice.roll(lines.len()));
        match dice.roll(7) {
            0 => {
                lines.remove(a);
            }
            1 => {
                let line = lines[a].clone();
                lines.insert(b, line);
            }
            2 => lines.swap(a, b),
            3 => {
                let at = dice.roll(lines[a].len());
                lines[a].truncate(at);
            }
            _ => {
                let text = String::from_utf8_lossy(&lines[a]).into_owned();
                let present: Vec<&&str> = crate::WORDS.iter().filter(|word| text.contains(**word)).collect();
                if !present.is_empty() {
                    let (from, to) =
                        (present[dice.roll(present.len())], crate::WORDS[dice.roll(crate::WORDS.len())]);
                    lines[a] = text.replacen(*from, to, 1).into_bytes();
                }
            }
        }
    }
}

#[test]
fn no_damage_to_a_recording_makes_an_adapter_break_a_rule() {
    for recording in recordings() {
        let whole: Vec<Vec<u8>> = recording.lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for round in 1..=300_u64 {
            let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut lines = whole.clone();
            damage(&mut lines, &mut dice);
            // The run panics where an event breaks a rule; a refused line leaves it as it was.
            let mut run =
                Run::new(recording.harness, Turn::Start, options().stream_arguments(dice.roll(2) == 0));
            for line in lines.iter().filter(|line| !line.is_empty()) {
                let _refused = run.line(line);
            }
            let run = run.close();
            let terminals = run.drafts.iter().filter(|draft| draft.data.is_terminal()).count();
            assert!(terminals <= 1, "{}: {round}", recording.name);
        }
    }
}
