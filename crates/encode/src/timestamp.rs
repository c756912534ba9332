//! Unix seconds as a double (goldens §2.4): the exact decimal value of the instant, rounded once, printed shortest.
//!
//! Remembers the last instant: events of one moment and moments of one second share the work.

use causeway_contract::timestamp::Timestamp;

use crate::json::number::{put_double, put_integer};

/// Digits of the fraction up to which the printed double is the decimal itself: below 2^32 seconds two decimals of
/// six places are further apart than two neighbouring doubles, so no other such decimal reads back to the same one.
const EXACT_DIGITS: usize = 6;
const EXACT_SECONDS: std::ops::Range<i64> = 0..1 << 32;

/// Prints timestamps; holds the text of the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnixSeconds {
    /// The seconds that `text` starts with, where it was printed digit by digit.
    seconds: Option<i64>,
    /// The printed number.
    text: Vec<u8>,
    /// Where the fraction starts in `text`.
    point: usize,
}

impl UnixSeconds {
    /// Appends `instant` to `out`.
    #[inline]
    pub(crate) fn put(&mut self, instant: &Timestamp<'_>, out: &mut Vec<u8>) {
        self.print(instant);
        out.extend_from_slice(&self.text);
    }

    fn print(&mut self, instant: &Timestamp<'_>) {
        let seconds = instant.unix_seconds();
        let fraction = instant.fraction().trim_end_matches('0');
        if fraction.len() > EXACT_DIGITS || !EXACT_SECONDS.contains(&seconds) {
            self.seconds = None;
            self.text.clear();
            return put_double(nearest_double(seconds, fraction), &mut self.text);
        }
        if self.seconds == Some(seconds) {
            self.text.truncate(self.point);
        } else {
            self.text.clear();
            put_integer(seconds, &mut self.text);
            self.text.push(b'.');
            self.point = self.text.len();
            self.seconds = Some(seconds);
        }
        if fraction.is_empty() {
            self.text.push(b'0');
        } else if seconds == 0 && fraction.starts_with("0000") {
            // Below 0.0001 the notation changes.
            self.seconds = None;
            self.text.clear();
            put_double(nearest_double(seconds, fraction), &mut self.text);
        } else {
            self.text.extend_from_slice(fraction.as_bytes());
        }
    }
}

/// The double nearest to `seconds` plus the decimal fraction `0.fraction`.
fn nearest_double(seconds: i64, fraction: &str) -> f64 {
    let decimal = if seconds < 0 && !fraction.is_empty() {
        // -3 + 0.25 is -2.75: the digits of the ten's complement. `fraction` has no trailing zero, so its last
        // digit is complemented to ten and the others to nine.
        let last = fraction.len() - 1;
        let complement: String = fraction
            .bytes()
            .enumerate()
            .map(|(at, digit)| {
                char::from(if at == last { b'9' + 1 - digit + b'0' } else { b'9' - digit + b'0' })
            })
            .collect();
        format!("-{}.{complement}", (seconds + 1).unsigned_abs())
    } else {
        format!("{seconds}.{fraction}")
    };
    decimal.parse().unwrap_or(seconds as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of `tests/data/encode/make_numbers.py`: an instant, a tab, its Unix time as Python prints it.
    #[test]
    fn instants_print_as_python_prints_their_exact_value() {
        let vectors = include_str!("../../../tests/data/encode/timestamps.tsv");
        // One printer for all, so that nothing of the instant before can leak, and a fresh one for each.
        let mut shared = UnixSeconds::default();
        let mut count = 0;
        for line in vectors.lines() {
            let (given, printed) = line.split_once('\t').unwrap();
            let instant = Timestamp::parse(given).unwrap();
            for printer in [&mut shared, &mut UnixSeconds::default()] {
                let mut out = Vec::new();
                printer.put(&instant, &mut out);
                printer.put(&instant, &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), printed.repeat(2), "{given}");
            }
            count += 1;
        }
        assert!(count > 1500, "only {count} vectors");
    }
}
