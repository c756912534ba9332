//! The subagent path of an event (R09, R10).

use std::fmt;

use smallvec::SmallVec;

use crate::id::InvocationId;

/// Invocation ids of the active subagents, outermost first; empty for the root.
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct Namespace<'a>(SmallVec<[InvocationId<'a>; 1]>);

impl<'a> Namespace<'a> {
    /// The root namespace.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path of a child invocation of this namespace.
    pub fn child(&self, invocation: InvocationId<'a>) -> Self {
        let mut path = self.0.clone();
        path.push(invocation);
        Self(path)
    }

    /// The enclosing path and the last element, or `None` at the root.
    pub fn split_last(&self) -> Option<(&InvocationId<'a>, &[InvocationId<'a>])> {
        self.0.split_last()
    }

    /// Appends one element.
    pub fn push(&mut self, invocation: InvocationId<'a>) {
        self.0.push(invocation);
    }

    /// True for the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of elements.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// The elements, outermost first.
    pub fn path(&self) -> &[InvocationId<'a>] {
        &self.0
    }

    /// The same path without a tie to the input line.
    pub fn into_owned(self) -> Namespace<'static> {
        Namespace(self.0.into_iter().map(InvocationId::into_owned).collect())
    }
}

impl<'a> FromIterator<InvocationId<'a>> for Namespace<'a> {
    fn from_iter<I: IntoIterator<Item = InvocationId<'a>>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl fmt::Debug for Namespace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}
