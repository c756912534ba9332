//! Numbers that look random and are the same again for the same seed.
//!
//! Refuses a clock and the system's randomness: what a seed gives, it gives everywhere.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Other numbers, which depend on this one's seed and on `part` only.
    pub fn fork(&self, part: u64) -> Self {
        let mut fork = Self(self.0 ^ part.wrapping_add(1).wrapping_mul(0xA076_1D64_78BD_642F));
        Self(fork.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// True that many times out of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these, if there are any.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(usize::try_from(self.below(all.len() as u64)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_numbers_again_and_its_parts_differ() {
        let mut one = Random::new(7);
        let mut two = Random::new(7);
        let numbers: Vec<u64> = (0..4).map(|_| one.number()).collect();
        assert_eq!(numbers, (0..4).map(|_| two.number()).collect::<Vec<_>>());
        let seed = Random::new(7);
        assert_ne!(seed.fork(0).number(), seed.fork(1).number());
        assert_eq!(seed.fork(3).number(), seed.fork(3).number());
        assert!((0..1000).all(|_| one.below(10) < 10) && one.below(0) == 0);
    }
}
