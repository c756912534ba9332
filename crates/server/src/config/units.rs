//! Durations (`15m`, `1h30m`, `250ms`) and sizes (`64KiB`, `2MB`) as people write them.
//!
//! Refuses bare numbers for durations (of what?), fractions, negative values and anything past 10 years or 2^53 bytes.

use std::time::Duration;

const DURATION_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const LONGEST_MS: u64 = 10 * 366 * 86_400_000;
const LARGEST: u64 = 1 << 53;

/// Reads a duration: one or more numbers, each with a unit of `ms`, `s`, `m`, `h` or `d`.
pub fn duration(text: &str) -> Option<Duration> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (_, scale) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.checked_mul(*scale)?)?;
        rest = after;
    }
    (total <= LONGEST_MS).then(|| Duration::from_millis(total))
}

/// Reads a size: a number of bytes, or a number with a unit of `B`, `KB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text.trim())?;
    let unit = unit.trim();
    let scale = match unit {
        "" => 1,
        _ => SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(scale).filter(|bytes| *bytes <= LARGEST)
}

/// Prints a duration the way [`duration`] reads it.
pub fn show_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, scale) in DURATION_UNITS.iter().rev() {
        let count = left / scale;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
            left %= scale;
        }
    }
    text
}

/// Prints a size the way [`size`] reads it.
pub fn show_size(bytes: u64) -> String {
    for (unit, scale) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    format!("{bytes}B")
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_numbers_with_units() {
        for (text, millis) in [
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("0s", 0),
            ("2d", 172_800_000),
            ("1m1s1ms", 61_001),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "15", "1.5h", "-3s", "3 parsecs", "m", "99999999999999999999s", "4000d", "1h-2m"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_size_is_bytes_or_a_number_with_a_unit() {
        for (text, bytes) in [("64", 64), ("64KiB", 65_536), ("2MB", 2_000_000), ("1 GiB", 1 << 30)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "KiB", "1kb", "1.5MiB", "-1", "99999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for millis in [0, 250, 900_000, 5_400_000, 90_061_001] {
            let given = Duration::from_millis(millis);
            assert_eq!(duration(&show_duration(given)), Some(given));
        }
        for bytes in [0, 1, 1000, 1024, 65_536, 3 << 20] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
    }
}
