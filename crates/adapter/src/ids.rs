//! Where ids that no harness gives come from: passed in, so that a run can be played again with the same ones.
//!
//! Nothing here is random; the edge of the engine brings a source that is.

use causeway_contract::id::{InterruptId, MessageId};

/// A source of new ids. No id comes twice from one source.
pub trait Ids: Send {
    /// A new id for a text or reasoning message.
    fn next_message(&mut self) -> MessageId<'static>;
    /// A new id for an interrupt.
    fn next_interrupt(&mut self) -> InterruptId<'static>;
}

impl<I: Ids + ?Sized> Ids for Box<I> {
    fn next_message(&mut self) -> MessageId<'static> {
        (**self).next_message()
    }

    fn next_interrupt(&mut self) -> InterruptId<'static> {
        (**self).next_interrupt()
    }
}

/// Ids that depend on a seed alone: `adapt --seed`, recordings, tests.
#[derive(Clone, Debug)]
pub struct SeededIds {
    seed: u64,
    messages: u64,
    interrupts: u64,
}

impl SeededIds {
    /// A source; two sources with one seed give the same ids in the same order.
    pub fn new(seed: u64) -> Self {
        Self { seed, messages: 0, interrupts: 0 }
    }

    fn tag(&self) -> u32 {
        let mixed = self.seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u32::try_from((mixed ^ (mixed >> 29)) >> 32).unwrap_or_default()
    }
}

impl Ids for SeededIds {
    fn next_message(&mut self) -> MessageId<'static> {
        self.messages += 1;
        let text = format!("msg-{:08x}-{}", self.tag(), self.messages);
        MessageId::new(text).unwrap_or_else(|_| unreachable!("hex digits and dashes are an id"))
    }

    fn next_interrupt(&mut self) -> InterruptId<'static> {
        self.interrupts += 1;
        let text = format!("int-{:08x}-{}", self.tag(), self.interrupts);
        InterruptId::new(text).unwrap_or_else(|_| unreachable!("hex digits and dashes are an id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids_and_another_seed_others() {
        let (mut a, mut b, mut c) = (SeededIds::new(7), SeededIds::new(7), SeededIds::new(8));
        let first = a.next_message();
        assert_eq!(first, b.next_message());
        assert_ne!(first, c.next_message());
        assert_ne!(first, a.next_message());
        assert_eq!(a.next_interrupt(), b.next_interrupt());
    }
}
