//! Damage to a recording's lines: dropped, repeated, swapped, moved, cut, spoiled, and their words exchanged.
//!
//! Shared by the tests of all adapters; the words are each adapter's own.

use std::time::{Duration, Instant};

/// A small generator of our own: the same rounds each time.
pub struct Dice(u64);

impl Dice {
    /// The dice of a round.
    pub fn of(round: u64) -> Self {
        Self(round.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides.max(1)).unwrap()).unwrap()
    }
}

/// Damages `lines`; any of `words` may stand in the place of any other.
pub fn damage(lines: &mut Vec<Vec<u8>>, dice: &mut Dice, words: &[&str]) {
    for _ in 0..=dice.roll(6) {
        if lines.is_empty() {
            return;
        }
        let (a, b) = (dice.roll(lines.len()), dice.roll(lines.len()));
        match dice.roll(9) {
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
            _ => exchange(&mut lines[a], dice, words),
        }
    }
}

fn exchange(line: &mut Vec<u8>, dice: &mut Dice, words: &[&str]) {
    let text = String::from_utf8_lossy(line).into_owned();
    let present: Vec<&str> = words.iter().copied().filter(|word| text.contains(word)).collect();
    if !present.is_empty() {
        let (from, to) = (present[dice.roll(present.len())], words[dice.roll(words.len())]);
        let changed = if dice.roll(2) == 0 { text.replace(from, to) } else { text.replacen(from, to, 1) };
        *line = changed.into_bytes();
    }
}

/// Plays rounds on one of `count` recordings: 20, and more while its share of `CAUSEWAY_FUZZ_SECONDS` (default 2) lasts.
pub fn rounds(count: u32, mut play: impl FnMut(Dice)) {
    let seconds = std::env::var("CAUSEWAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let end = Instant::now() + Duration::from_secs(seconds) / count;
    for round in 1_u64.. {
        if round > 20 && Instant::now() > end {
            return;
        }
        play(Dice::of(round));
    }
}
