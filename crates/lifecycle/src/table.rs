//! Ids of one kind that were ever used in a run, each with its state. Ids are never forgotten: using one again is
//! what R05, R06 and R10 forbid.
//!
//! Ids come from harnesses and may be chosen to hurt. A hash table would need a secret seed, and the core draws no
//! randomness; a fixed seed invites collisions. An ordered index costs at most a dozen comparisons at the contract's
//! counts whatever the ids are, and the common case never reaches it: events come in bursts that name the same id
//! as the one before, which is a comparison of two strings.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The place of an id in its table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Slot(usize);

/// The ids in order of their first use.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    index: BTreeMap<Arc<str>, Slot>,
    entries: Vec<(Arc<str>, T)>,
    latest: Slot,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { index: BTreeMap::new(), entries: Vec::new(), latest: Slot(0) }
    }

    /// How many ids were ever used.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where `id` stands, if it was ever used.
    pub(crate) fn find(&self, id: &str) -> Option<Slot> {
        match self.entries.get(self.latest.0) {
            Some((latest, _)) if **latest == *id => Some(self.latest),
            Some(_) => self.index.get(id).copied(),
            None => None,
        }
    }

    /// The id and the state at `slot`.
    pub(crate) fn get(&self, slot: Slot) -> Option<(&str, &T)> {
        self.entries.get(slot.0).map(|(id, value)| (&**id, value))
    }

    /// The state of `id`, if it was ever used.
    pub(crate) fn lookup(&self, id: &str) -> Option<(Slot, &T)> {
        let slot = self.find(id)?;
        self.get(slot).map(|(_, value)| (slot, value))
    }

    /// The state at `slot`, which from now on is the one that [`Table::find`] tries first.
    pub(crate) fn touch(&mut self, slot: Slot) -> Option<&mut T> {
        let value = self.entries.get_mut(slot.0).map(|(_, value)| value)?;
        self.latest = slot;
        Some(value)
    }

    /// Changes the state at `slot` and leaves alone what [`Table::find`] tries first.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.entries.get_mut(slot.0).map(|(_, value)| value)
    }

    /// Adds an id that is not in the table.
    pub(crate) fn insert(&mut self, id: Arc<str>, value: T) -> Slot {
        let slot = Slot(self.entries.len());
        self.index.insert(Arc::clone(&id), slot);
        self.entries.push((id, value));
        self.latest = slot;
        slot
    }

    /// Ids and states in order of first use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(id, value)| (&**id, value))
    }
}
