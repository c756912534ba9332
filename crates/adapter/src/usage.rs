//! Token totals of a run from the counts of single model calls.
//!
//! What a provider does not say stays unknown; nothing becomes zero by itself (decisions §6).

use causeway_contract::event::UsageUpdated;

/// The counts of one model call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Input tokens.
    pub input: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
    /// Input tokens read from a cache.
    pub cached_input: Option<u64>,
}

impl Counts {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// These, where a value is not known that of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.each(other, |mine, other| mine.or(other))
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, Option::max)
    }

    /// What is left when `other` was counted elsewhere.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.each(other, |mine, other| Some(mine?.saturating_sub(other.unwrap_or(0))))
    }

    fn each(self, other: Self, join: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            input: join(self.input, other.input),
            output: join(self.output, other.output),
            cached_input: join(self.cached_input, other.cached_input),
        }
    }
}

/// The sums of a run so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals(Counts);

impl Totals {
    /// Adds a call.
    pub fn add(&mut self, call: Counts) {
        let add = |total: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                // A canonical integer ends at 2^53-1; a sum beyond it stays there.
                *total = Some(total.unwrap_or(0).saturating_add(more).min((1 << 53) - 1));
            }
        };
        add(&mut self.0.input, call.input);
        add(&mut self.0.output, call.output);
        add(&mut self.0.cached_input, call.cached_input);
    }

    /// The sums.
    pub fn counts(&self) -> Counts {
        self.0
    }

    /// Replaces the sums by what the harness counted itself.
    pub fn set(&mut self, counts: Counts) {
        let top = |value: Option<u64>| value.map(|value| value.min((1 << 53) - 1));
        self.0 = Counts {
            input: top(counts.input),
            output: top(counts.output),
            cached_input: top(counts.cached_input),
        };
    }

    /// The event with the totals.
    pub fn event(&self, is_final: bool) -> UsageUpdated<'static> {
        UsageUpdated {
            input_tokens: self.0.input,
            output_tokens: self.0.output,
            cached_input_tokens: self.0.cached_input,
            cost: None,
            currency: None,
            is_final,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_and_the_unknown_stays_unknown() {
        let mut totals = Totals::default();
        totals.add(Counts { input: Some(10), output: None, cached_input: None });
        totals.add(Counts { input: Some(5), output: Some(0), cached_input: None });
        let expected =
            UsageUpdated { input_tokens: Some(15), output_tokens: Some(0), ..UsageUpdated::default() };
        assert_eq!(totals.event(false), expected);
    }
}
