//! Damaged recordings: lines dropped, repeated, swapped, cut, and their words exchanged. Nothing panics, and what the
//! adapter yields obeys every rule with one terminal or none.

#[path = "../../../../fuzz/bodies/adapter.rs"]
mod body;

use std::time::{Duration, Instant};

use crate::recorded::each;

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

/// Words that mean something to the adapter; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"updates\"",
    "\"messages\"",
    "\"tasks\"",
    "\"tools\"",
    "\"task\"",
    "\"model\"",
    "\"AIMessage\"",
    "\"AIMessageChunk\"",
    "\"ToolMessage\"",
    "\"HumanInTheLoopMiddleware.after_model\"",
    "\"call_k1\"",
    "\"call_h1\"",
    "\"call_w1\"",
    "\"error\"",
    "\"success\"",
    "\"end\"",
    "\"chunk\"",
    "\"begin\"",
    "\"cancelled\"",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\ude00x\"",
    "\"\\u0000\"",
    "\"ERROR: x\"",
    "\"request_user_input\"",
    "\"__interrupt__\"",
    "\"interrupts\"",
    "1e999",
    "\"\"",
    "\"input\"",
    "\"result\"",
    "\"tool_call_id\"",
    "\"id\"",
    "\"name\"",
    "\"args\"",
    "\"\\u202e\"",
];

fn damage(lines: &mut Vec<Vec<u8>>, dice: &mut Dice) {
    for _ in 0..=dice.roll(6) {
        if lines.is_empty() {
            return;
        }
        let (a, b) = (dice.roll(lines.len()), dice.roll(lines.len()));
        match dice.roll(8) {
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
            4 => {
                let at = dice.roll(lines[a].len());
                if let Some(byte) = lines[a].get_mut(at) {
                    *byte = u8::try_from(dice.roll(256)).unwrap();
                }
            }
            5 => {
                let moved = lines.remove(a);
                lines.insert(b.min(lines.len()), moved);
            }
            _ => {
                let text = String::from_utf8_lossy(&lines[a]).into_owned();
                let present: Vec<&&str> = WORDS.iter().filter(|word| text.contains(**word)).collect();
                if !present.is_empty() {
                    let (from, to) = (present[dice.roll(present.len())], WORDS[dice.roll(WORDS.len())]);
                    lines[a] =
                        if dice.roll(2) == 0 { text.replace(*from, to) } else { text.replacen(*from, to, 1) }
                            .into_bytes();
                }
            }
        }
    }
}

/// The time for one of the `count` recordings: all of `CAUSEWAY_FUZZ_SECONDS` (default 2) together.
fn budget(count: u32) -> Duration {
    let seconds = std::env::var("CAUSEWAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    Duration::from_secs(seconds) / count
}

#[test]
fn no_damage_to_a_recording_makes_the_adapter_break_a_rule() {
    each(|_, _, file| {
        let whole: Vec<Vec<u8>> = file.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        let end = Instant::now() + budget(40);
        for round in 1_u64.. {
            if round > 20 && Instant::now() > end {
                break;
            }
            let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            // A turn of the recording, so that its later lines are not all late.
            let begins: Vec<usize> =
                (0..whole.len()).filter(|at| whole[*at].starts_with(b"{\"kind\": \"begin\"")).collect();
            let from = begins[dice.roll(begins.len())];
            let mut lines = whole[from..].to_vec();
            damage(&mut lines, &mut dice);
            let mut data = vec![u8::try_from(dice.roll(32)).unwrap()];
            data.extend(lines.join(&b'\n'));
            body::adapter(&data);
        }
    });
}
