//! Numbers from a seed, and the damage that they do to bytes.
#![allow(dead_code, missing_docs)]

/// A xorshift sequence: the same inputs in the same order, whatever the machine.
pub struct Numbers(u64);

/// What `CAUSEWAY_FUZZ_SECONDS` says, or 2.
pub fn seconds() -> u64 {
    std::env::var("CAUSEWAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Any bytes, fewer than `most`.
    pub fn bytes(&mut self, most: u64) -> Vec<u8> {
        let len = self.next() % most;
        (0..len).map(|_| self.next().to_be_bytes()[0]).collect()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next()).unwrap_or_default() % bound
    }

    /// The bytes with up to a dozen places changed, cut, doubled or swapped for bytes that JSON and addresses care about.
    pub fn damaged(&mut self, bytes: &[u8]) -> Vec<u8> {
        const ODD: &[u8] = b"\"\\{}[]:,0-e.%&=?\n\0\xff\xc3/u";
        let mut out = bytes.to_vec();
        for _ in 0..self.below(12) {
            if out.is_empty() {
                out.push(b'x');
            }
            let at = self.below(out.len());
            match self.below(6) {
                0 => out[at] = self.next().to_be_bytes()[0],
                1 => drop(out.remove(at)),
                2 => out.insert(at, ODD[self.below(ODD.len())]),
                3 => {
                    let to = (at + self.below(40)).min(out.len());
                    let piece = out[at..to].to_vec();
                    out.splice(at..at, piece);
                }
                4 => out[at] = ODD[self.below(ODD.len())],
                _ => out.truncate(at),
            }
        }
        out
    }
}
