//! W3C trace context: text in, text out.
//!
//! Refuses what is malformed (the caller begins a trace of its own then), `tracestate` and baggage altogether: neither is read,
//! kept or handed on.

use std::fmt;

/// Which trace, which span of it is the parent, and whether the trace is recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Context {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) sampled: bool,
}

impl Context {
    /// Reads a `traceparent`. `None` for everything that is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes::<1>(version)?;
        // Version 00 ends here; what a later one adds is passed over, and `ff` is none.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span, [flags]) = (bytes::<16>(trace)?, bytes::<8>(span)?, bytes::<1>(flags)?);
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }

    /// The trace's id, as logs name it.
    pub fn trace_id(&self) -> String {
        hex(&self.trace)
    }

    /// The span's id.
    pub fn span_id(&self) -> String {
        hex(&self.span)
    }

    /// Whether spans of it are recorded.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id(), self.span_id(), u8::from(self.sampled))
    }
}

/// Exactly so many bytes in lower-case hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _other => None,
    };
    let mut out = [0; N];
    for (slot, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *slot = digit(high)? << 4 | digit(low)?;
    }
    Some(out)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}"); // writing to a String cannot fail
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_reads_back_and_what_is_malformed_is_none() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(Context::parse(good).unwrap().to_string(), good);
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-more";
        assert_eq!(Context::parse(later).unwrap().to_string(), good);
        assert!(!Context::parse(&good.replace("-01", "-00")).unwrap().is_sampled());
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "0é-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(bad), None, "{bad:?}");
        }
    }
}
