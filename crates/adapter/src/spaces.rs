//! The namespaces of subagents that are open in a run (goldens §9.7, R09, R10).
//!
//! A path is used once. What comes from a place that is not open belongs to the innermost enclosing one that is.

use std::collections::HashSet;

use causeway_contract::id::{InvocationId, Name, ToolCallId};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

/// One namespace that is open.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    /// Its path.
    pub path: Namespace<'static>,
    /// The subagent's type.
    pub agent_id: Name<'static>,
    /// The delegating call.
    pub call: ToolCallId<'static>,
}

/// The namespaces of a run.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    /// In the order of their entries.
    open: Vec<Space>,
    used: HashSet<Namespace<'static>>,
}

impl Spaces {
    /// Whether this path is open; the root is not counted.
    pub(crate) fn is_open(&self, path: &Namespace<'static>) -> bool {
        self.open.iter().any(|space| space.path == *path)
    }

    /// Opens a namespace under an open parent, if it can be: it is new, and the limits allow it.
    pub(crate) fn open(
        &mut self,
        parent: &Namespace<'static>,
        id: InvocationId<'static>,
        call: &ToolCallId<'static>,
        agent_id: Name<'static>,
        limits: &Limits,
    ) -> Option<Space> {
        let path = parent.child(id);
        let full = path.depth() > limits.namespace_depth || self.open.len() >= limits.open_namespaces;
        if full || self.has(call) || !self.used.insert(path.clone()) {
            return None;
        }
        let space = Space { path, agent_id, call: call.clone() };
        self.open.push(space.clone());
        Some(space)
    }

    /// Takes out the namespace of a call and everything inside it, inner ones first.
    pub(crate) fn leave(&mut self, call: &ToolCallId<'static>) -> Vec<Space> {
        let Some(outer) = self.of(call).map(|space| space.path.clone()) else {
            return Vec::new();
        };
        let inside = |space: &Space| space.path.path().starts_with(outer.path());
        let mut left: Vec<Space> = self.open.iter().filter(|space| inside(space)).cloned().collect();
        self.open.retain(|space| !inside(space));
        left.reverse();
        left
    }

    /// Takes out all, in reverse order of entry.
    pub(crate) fn leave_all(&mut self) -> Vec<Space> {
        let mut left = std::mem::take(&mut self.open);
        left.reverse();
        left
    }

    /// The open namespace of this call.
    pub(crate) fn of(&self, call: &ToolCallId<'static>) -> Option<&Space> {
        self.open.iter().find(|space| space.call == *call)
    }

    /// Whether the namespace of this call is open.
    pub(crate) fn has(&self, call: &ToolCallId<'static>) -> bool {
        self.of(call).is_some()
    }

    /// The longest prefix of a path that is still open.
    pub(crate) fn innermost(&self, path: &Namespace<'static>) -> Namespace<'static> {
        let mut open = Namespace::root();
        for element in path.path() {
            let child = open.child(element.clone());
            if !self.is_open(&child) {
                break;
            }
            open = child;
        }
        open
    }
}

/// A subagent's name for people: dashes and underlines become spaces, the first letter a capital.
pub(crate) fn label(kind: &str) -> String {
    let spaced = kind.replace(['-', '_'], " ");
    let mut chars = spaced.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_subagent_is_named_for_people() {
        assert_eq!(label("route-planner_two"), "Route planner two");
        assert_eq!(label("éclair"), "Éclair");
    }
}
