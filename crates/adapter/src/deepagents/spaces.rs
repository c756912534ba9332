//! Namespaces of subagents: native paths to canonical ones, what is open (goldens §9.7, R09, R10).
//!
//! Only the first element of a native path is replaced, by the id of the delegating call; the others stay. What comes
//! from a place that was not entered belongs to the innermost enclosing namespace that was.

use std::collections::{HashMap, HashSet};

use causeway_contract::id::{InvocationId, Name, ToolCallId};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::json::Json;

/// One namespace that is open.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Its path.
    pub path: Namespace<'static>,
    /// The subagent's type.
    pub agent_id: Name<'static>,
    /// The delegating call.
    pub call: ToolCallId<'static>,
}

/// The namespaces of a run.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    /// In the order of their entries.
    open: Vec<Space>,
    /// Native first elements.
    first: HashMap<String, InvocationId<'static>>,
    used: HashSet<Namespace<'static>>,
}

impl Spaces {
    /// The canonical namespace of a native path: its longest entered prefix.
    pub(super) fn resolve(&self, native: &[Json<'_>]) -> Namespace<'static> {
        let mut path = Namespace::root();
        for (depth, element) in native.iter().enumerate() {
            let Some(element) = element.as_str().and_then(|text| text.as_plain()) else { break };
            let id = if depth == 0 {
                self.first.get(element).cloned()
            } else {
                InvocationId::new(element.to_owned()).ok()
            };
            let Some(id) = id else { break };
            let child = path.child(id);
            if !self.is_open(&child) {
                break;
            }
            path = child;
        }
        path
    }

    fn is_open(&self, path: &Namespace<'static>) -> bool {
        self.open.iter().any(|space| space.path == *path)
    }

    /// Opens the namespace of a task, if it can be: its parent is known, it is new, and the limits allow it.
    pub(super) fn enter(
        &mut self,
        native_parent: &[Json<'_>],
        task: &str,
        call: &ToolCallId<'static>,
        agent_id: Name<'static>,
        limits: &Limits,
    ) -> Option<Space> {
        let parent = self.resolve(native_parent);
        let element = format!("tools:{task}");
        if parent.depth() != native_parent.len() {
            return None;
        }
        let id = if parent.is_root() {
            let id = InvocationId::new(call.clone().into_shared()).ok()?;
            self.first.insert(element, id.clone());
            id
        } else {
            InvocationId::new(element).ok()?
        };
        let path = parent.child(id);
        let full = path.depth() > limits.namespace_depth || self.open.len() >= limits.open_namespaces;
        if full || self.open.iter().any(|space| space.call == *call) || !self.used.insert(path.clone()) {
            return None;
        }
        let space = Space { path, agent_id, call: call.clone() };
        self.open.push(space.clone());
        Some(space)
    }

    /// Takes out the namespace of a call and everything inside it, inner ones first.
    pub(super) fn leave(&mut self, call: &ToolCallId<'static>) -> Vec<Space> {
        let Some(outer) = self.open.iter().find(|space| space.call == *call).map(|space| space.path.clone()) else {
            return Vec::new();
        };
        let inside = |space: &Space| space.path.path().starts_with(outer.path());
        let mut left: Vec<Space> = self.open.iter().filter(|space| inside(space)).cloned().collect();
        self.open.retain(|space| !inside(space));
        left.reverse();
        left
    }

    /// Takes out all, in reverse order of entry.
    pub(super) fn leave_all(&mut self) -> Vec<Space> {
        let mut left = std::mem::take(&mut self.open);
        left.reverse();
        left
    }

    /// Whether the namespace of this call is open.
    pub(super) fn has(&self, call: &ToolCallId<'static>) -> bool {
        self.open.iter().any(|space| space.call == *call)
    }
}

impl Spaces {
    /// The longest prefix of a path that is still open.
    pub(super) fn innermost(&self, path: &Namespace<'static>) -> Namespace<'static> {
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
