//! R01: the sequence strictly increases. Gaps are legal, and time orders nothing.

use causeway_contract::event::Sequence;

use crate::violation::Violation;

/// The sequence of the last accepted event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    last: Option<Sequence>,
}

impl Order {
    /// R01.
    pub(crate) fn check(self, sequence: Sequence) -> Result<(), Violation> {
        match self.last {
            Some(previous) if sequence <= previous => {
                Err(Violation::NotIncreasing { sequence: sequence.value(), previous: previous.value() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The number that a draft gets: without gaps, from 0.
    pub(crate) fn next(self) -> Result<Sequence, Violation> {
        match self.last {
            None => Ok(Sequence::ZERO),
            Some(last) => last.next().ok_or(Violation::SequenceExhausted { previous: last.value() }),
        }
    }

    pub(crate) fn apply(&mut self, sequence: Sequence) {
        self.last = Some(sequence);
    }

    pub(crate) fn last(self) -> Option<Sequence> {
        self.last
    }
}
