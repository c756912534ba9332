//! Decisions read from bytes: the same bytes, the same decisions; when they run out, every answer is the first.

/// A source of decisions.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Decisions from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether no byte is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A number below `count` (which is at least 1).
    pub fn below(&mut self, count: usize) -> usize {
        let Some((&byte, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        usize::from(byte) % count.max(1)
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == of.saturating_sub(1)
    }

    /// One of the options.
    pub fn one_of<'o, T>(&mut self, options: &'o [T]) -> Option<&'o T> {
        if options.is_empty() { None } else { options.get(self.below(options.len())) }
    }
}
