//! Numbers as the established formats print them (goldens §2.3): integers keep all digits, everything else is the
//! nearest double with the fewest digits that read back to it.

use std::fmt::Write as _;

/// Appends a JSON number literal.
pub(crate) fn put_literal(literal: &str, out: &mut Vec<u8>) {
    if literal.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        let integer = if literal == "-0" { "0" } else { literal };
        return out.extend_from_slice(integer.as_bytes());
    }
    match literal.parse::<f64>() {
        Ok(value) if value.is_finite() => put_double(value, out),
        // A checked literal has a finite double; should one ever come here, it passes as it is.
        Ok(_) | Err(_) => out.extend_from_slice(literal.as_bytes()),
    }
}

/// Appends a finite double.
pub(crate) fn put_double(value: f64, out: &mut Vec<u8>) {
    // Ryu gives the shortest digits that read back, the closest of them, and on a tie the even one, as Python does;
    // `std` breaks that tie upwards. Only its notation differs.
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    out.extend_from_slice(sign.as_bytes());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // All digits, and the decimal exponent of the first of them that is not zero.
    let mut digits = Scratch::default();
    let _ = write!(digits, "{whole}{fraction}");
    let zeros = digits.as_str().bytes().take_while(|&digit| digit == b'0').count();
    let significant = digits.as_str().trim_start_matches('0').trim_end_matches('0');
    let Some((first, more)) = significant.split_at_checked(1) else {
        return out.extend_from_slice(b"0.0");
    };
    match exponent + whole.len() as i32 - 1 - zeros as i32 {
        exponent @ 0..16 => put_plain_large(first, more, exponent as usize, out),
        exponent @ -4..0 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-1 - exponent) as usize, b'0');
            out.extend_from_slice(significant.as_bytes());
        }
        exponent @ (i32::MIN..-4 | 16..=i32::MAX) => {
            out.extend_from_slice(first.as_bytes());
            if !more.is_empty() {
                out.push(b'.');
                out.extend_from_slice(more.as_bytes());
            }
            put_exponent(exponent, out);
        }
    }
}

/// Appends `first` and `more` with the point after `exponent` digits of `more`.
fn put_plain_large(first: &str, more: &str, exponent: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(first.as_bytes());
    match more.split_at_checked(exponent) {
        Some((whole, fraction)) if !fraction.is_empty() => {
            out.extend_from_slice(whole.as_bytes());
            out.push(b'.');
            out.extend_from_slice(fraction.as_bytes());
        }
        Some(_) | None => {
            out.extend_from_slice(more.as_bytes());
            out.resize(out.len() + exponent.saturating_sub(more.len()), b'0');
            out.extend_from_slice(b".0");
        }
    }
}

/// Appends `e+XX` or `e-XX`, at least two digits.
fn put_exponent(exponent: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let digits = exponent.unsigned_abs();
    for weight in [100, 10, 1] {
        if weight < 100 || digits >= 100 {
            out.push(b'0' + (digits / weight % 10) as u8);
        }
    }
}

/// Appends an integer.
pub(crate) fn put_integer(value: i64, out: &mut Vec<u8>) {
    let mut scratch = Scratch::default();
    let _ = write!(scratch, "{value}");
    out.extend_from_slice(scratch.as_str().as_bytes());
}

/// A small buffer on the stack: a double has at most 24 characters, an integer 20.
#[derive(Default)]
struct Scratch {
    bytes: [u8; 32],
    len: usize,
}

impl Scratch {
    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|used| std::str::from_utf8(used).ok()).unwrap_or("0")
    }
}

impl std::fmt::Write for Scratch {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let free = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> String {
        let mut out = Vec::new();
        put_literal(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_integer_keeps_every_digit() {
        for (given, printed) in [
            ("0", "0"),
            ("-0", "0"),
            ("-17", "-17"),
            ("9007199254740993", "9007199254740993"),
            ("-123456789012345678901234567890", "-123456789012345678901234567890"),
        ] {
            assert_eq!(literal(given), printed);
        }
    }

    #[test]
    fn anything_else_is_the_shortest_spelling_of_its_double() {
        for (given, printed) in [
            ("1.0", "1.0"),
            ("1.50", "1.5"),
            ("2E3", "2000.0"),
            ("100E-2", "1.0"),
            ("-0.0", "-0.0"),
            ("-0e0", "-0.0"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("0.000015", "1.5e-05"),
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("123456789012345.678", "123456789012345.67"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("9999999999999999.9", "1e+16"),
            ("1.25e100", "1.25e+100"),
            ("1338765365310414.25", "1338765365310414.2"),
            ("5e-324", "5e-324"),
            ("2.4703282292062328e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("1e-400", "0.0"),
        ] {
            assert_eq!(literal(given), printed, "{given}");
        }
    }

    /// Vectors of `tests/data/encode/make_numbers.py`: a literal, a tab, what Python's `repr(float(..))` prints.
    #[test]
    fn doubles_print_as_python_prints_them() {
        let vectors = include_str!("../../../../tests/data/encode/doubles.tsv");
        let mut count = 0;
        for line in vectors.lines() {
            let (given, printed) = line.split_once('\t').unwrap();
            assert_eq!(literal(given), printed, "{given}");
            count += 1;
        }
        assert!(count > 4000, "only {count} vectors");
    }

    #[test]
    fn every_printed_double_reads_back() {
        // A fixed walk over bit patterns; infinities and NaN are skipped.
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let value = f64::from_bits(bits);
            if value.is_finite() {
                let mut out = Vec::new();
                put_double(value, &mut out);
                let text = String::from_utf8(out).unwrap();
                assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits, "{text}");
            }
        }
    }
}
