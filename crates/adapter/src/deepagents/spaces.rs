//! Native paths of LangGraph to canonical namespaces (goldens §9.7).
//!
//! Only the first element of a native path is replaced, by the id of the delegating call; the others stay. What comes
//! from a place that was not entered belongs to the innermost enclosing namespace that was.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use causeway_contract::id::{InvocationId, Name, ToolCallId};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;

use crate::json::Json;
use crate::spaces::{self, Space};

/// The namespaces of a run, with what their native names are.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    all: spaces::Spaces,
    /// Native first elements.
    first: HashMap<String, InvocationId<'static>>,
}

impl Deref for Spaces {
    type Target = spaces::Spaces;

    fn deref(&self) -> &spaces::Spaces {
        &self.all
    }
}

impl DerefMut for Spaces {
    fn deref_mut(&mut self) -> &mut spaces::Spaces {
        &mut self.all
    }
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
            if !self.all.is_open(&child) {
                break;
            }
            path = child;
        }
        path
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
        self.all.open(&parent, id, call, agent_id, limits)
    }
}
