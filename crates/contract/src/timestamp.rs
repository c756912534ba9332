//! RFC 3339 instants (decisions §2): parsed strictly, kept exactly, printed in UTC with `Z`.

use std::fmt::{self, Write as _};

use crate::text::Str;

/// Why a string is not a timestamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TimestampFault {
    /// It does not have the shape of an RFC 3339 date-time with an offset.
    #[error("is not an RFC 3339 date-time with an offset")]
    Shape,
    /// A part is out of range, e.g. month 13.
    #[error("names a date or time that does not exist")]
    Range,
}

/// The most digits of a fraction that are accepted.
const MAX_FRACTION_DIGITS: usize = 64;

/// 0000-01-01T00:00:00Z and 10000-01-01T00:00:00Z in Unix seconds.
const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

/// An instant: whole seconds since 1970-01-01T00:00:00Z, and the digits after the point as they were given.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Timestamp<'a> {
    seconds: i64,
    fraction: Str<'a>,
}

impl<'a> Timestamp<'a> {
    /// An instant from whole Unix seconds and nanoseconds; trailing zeros of the fraction are left out. What lies
    /// outside the years 0000 to 9999 becomes the nearest second inside.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Timestamp<'static> {
        let digits = format!("{:09}", nanoseconds.min(999_999_999));
        let digits = digits.trim_end_matches('0');
        let fraction = if digits.is_empty() { Str::Borrowed("") } else { Str::from(digits.to_owned()) };
        Timestamp { seconds: seconds.clamp(YEAR_0, YEAR_10000 - 1), fraction }
    }

    /// Parses an RFC 3339 date-time with an offset. A leap second counts as the first second after it.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &'a str) -> Result<Self, TimestampFault> {
        let bytes = text.as_bytes();
        let head: &[u8; 19] = bytes.first_chunk().ok_or(TimestampFault::Shape)?;
        let [y0, y1, y2, y3, dash, m0, m1, dash_too, d0, d1, t, h0, h1, colon, n0, n1, colon_too, s0, s1] =
            *head;
        let punctuation = [dash, dash_too, colon, colon_too] == *b"--::" && matches!(t, b'T' | b't');
        let all = [y0, y1, y2, y3, m0, m1, d0, d1, h0, h1, n0, n1, s0, s1];
        if !punctuation || !all.iter().fold(true, |digits, byte| digits & byte.is_ascii_digit()) {
            return Err(TimestampFault::Shape);
        }
        let pair = |tens: u8, ones: u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
        let (year, month, day) = (pair(y0, y1) * 100 + pair(y2, y3), pair(m0, m1), pair(d0, d1));
        let (hour, minute, second) = (pair(h0, h1), pair(n0, n1), pair(s0, s1));
        let mut at = 19;
        let mut fraction = "";
        if bytes.get(at) == Some(&b'.') {
            let digits = bytes.iter().skip(at + 1).take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 || digits > MAX_FRACTION_DIGITS {
                return Err(TimestampFault::Shape);
            }
            fraction = text.get(at + 1..at + 1 + digits).ok_or(TimestampFault::Shape)?;
            at += 1 + digits;
        }
        let offset = match bytes.get(at) {
            Some(b'Z' | b'z') if bytes.len() == at + 1 => 0,
            Some(sign @ (b'+' | b'-')) if bytes.len() == at + 6 => {
                let Some(&[_, h0, h1, b':', m0, m1]) = bytes.get(at..) else {
                    return Err(TimestampFault::Shape);
                };
                if !(h0.is_ascii_digit() && h1.is_ascii_digit() && m0.is_ascii_digit() && m1.is_ascii_digit())
                {
                    return Err(TimestampFault::Shape);
                }
                let (hours, minutes) = (pair(h0, h1), pair(m0, m1));
                if hours > 23 || minutes > 59 {
                    return Err(TimestampFault::Range);
                }
                (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
            }
            _ => return Err(TimestampFault::Shape),
        };
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return Err(TimestampFault::Range);
        }
        if hour > 23 || minute > 59 || second > 60 {
            return Err(TimestampFault::Range);
        }
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        // An offset may push the instant out of the four-digit years that UTC is printed with.
        if !(YEAR_0..YEAR_10000).contains(&seconds) {
            return Err(TimestampFault::Range);
        }
        Ok(Self { seconds, fraction: Str::Borrowed(fraction) })
    }

    /// Whole seconds since the Unix epoch, rounded towards the past.
    pub fn unix_seconds(&self) -> i64 {
        self.seconds
    }

    /// The digits after the decimal point, as given; may be empty.
    pub fn fraction(&self) -> &str {
        &self.fraction
    }

    /// Milliseconds since the Unix epoch, further digits cut off.
    pub fn unix_millis(&self) -> i64 {
        let mut millis = 0;
        let mut digits = self.fraction.bytes();
        for weight in [100, 10, 1] {
            millis += digits.next().map_or(0, |b| i64::from(b - b'0')) * weight;
        }
        self.seconds * 1000 + millis
    }

    /// `YYYY-MM-DDThh:mm:ss` in UTC.
    pub fn utc_date_time(&self) -> [u8; 19] {
        let (days, second) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        let digit = |value: i64, weight: i64| b'0' + (value / weight % 10) as u8;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        [
            digit(year, 1000),
            digit(year, 100),
            digit(year, 10),
            digit(year, 1),
            b'-',
            digit(month, 10),
            digit(month, 1),
            b'-',
            digit(day, 10),
            digit(day, 1),
            b'T',
            digit(hour, 10),
            digit(hour, 1),
            b':',
            digit(minute, 10),
            digit(minute, 1),
            b':',
            digit(second, 10),
            digit(second, 1),
        ]
    }

    /// The same instant without a tie to the input line.
    pub fn into_owned(self) -> Timestamp<'static> {
        Timestamp { seconds: self.seconds, fraction: self.fraction.into_owned() }
    }
}

/// Prints the instant in UTC with `Z`, the fraction as given.
impl fmt::Display for Timestamp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.utc_date_time() {
            f.write_char(char::from(byte))?;
        }
        if !self.fraction.is_empty() {
            write!(f, ".{}", self.fraction)?;
        }
        f.write_str("Z")
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a proleptic Gregorian date; years are counted from March so that the leap day is last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_printed_in_utc_with_its_own_fraction() {
        for (given, printed) in [
            ("2026-08-17T00:00:00Z", "2026-08-17T00:00:00Z"),
            ("2026-08-17T02:00:00.5000+02:00", "2026-08-17T00:00:00.5000Z"),
            ("1969-12-31T23:59:59.123456789z", "1969-12-31T23:59:59.123456789Z"),
            ("2024-02-29T23:59:60Z", "2024-03-01T00:00:00Z"),
            ("0001-01-01t00:00:00-23:59", "0001-01-01T23:59:00Z"),
        ] {
            assert_eq!(Timestamp::parse(given).unwrap().to_string(), printed, "{given}");
        }
    }

    #[test]
    fn a_text_that_is_no_instant_is_refused() {
        for (given, fault) in [
            ("2026-08-17T00:00:00", TimestampFault::Shape),
            ("2026-08-17 00:00:00Z", TimestampFault::Shape),
            ("2026-08-17T00:00:00.Z", TimestampFault::Shape),
            ("2026-08-17T00:00:00+0200", TimestampFault::Shape),
            ("2026-08-17T00:00:00ZZ", TimestampFault::Shape),
            ("2026-8-17T00:00:00Z", TimestampFault::Shape),
            ("", TimestampFault::Shape),
            ("2026-13-17T00:00:00Z", TimestampFault::Range),
            ("2023-02-29T00:00:00Z", TimestampFault::Range),
            ("2026-08-17T24:00:00Z", TimestampFault::Range),
            ("2026-08-17T00:00:00+24:00", TimestampFault::Range),
            ("0000-01-01T00:00:00+00:01", TimestampFault::Range),
            ("9999-12-31T23:59:00-00:01", TimestampFault::Range),
        ] {
            assert_eq!(Timestamp::parse(given), Err(fault), "{given}");
        }
    }

    #[test]
    fn unix_time_reads_back() {
        let instant = Timestamp::from_unix(1_786_924_800, 123_000_000);
        assert_eq!(instant.to_string(), "2026-08-17T00:00:00.123Z");
        assert_eq!(instant.unix_millis(), 1_786_924_800_123);
        assert_eq!(Timestamp::parse("2026-08-17T00:00:00Z").unwrap().unix_seconds(), 1_786_924_800);
    }
}
