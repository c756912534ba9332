//! R09 and R10: subagents enter below an active path for an open call, and exit inner before outer; every other
//! event stands at an active path.
//!
//! An invocation id is used once in a run, so the last element of a path names the namespace; the elements before it
//! are compared with those of its ancestors.

use causeway_contract::event::{EventData, NamespaceEntered, NamespaceExited};
use causeway_contract::id::{InvocationId, Name, ToolCallId};
use causeway_contract::namespace::Namespace;

use crate::budget::Budget;
use crate::table::{Slot, Table};
use crate::tool::Tools;
use crate::violation::Violation;

/// The life of one invocation:
///
/// ```text
///            namespace.entered         namespace.exited (no inner one open)
/// (unused) ────────────────────▶ Open ─────────────────────────────────────▶ Exited
/// ```
#[derive(Clone, Debug)]
enum Invocation {
    Open(OpenInvocation),
    Exited,
}

#[derive(Clone, Debug)]
struct OpenInvocation {
    /// The enclosing invocation; `None` is the root.
    parent: Option<Slot>,
    agent_id: Name<'static>,
    parent_tool_call_id: ToolCallId<'static>,
    call: Slot,
    /// Open invocations directly inside.
    inner: usize,
}

/// Where a path leads.
enum Place {
    Root,
    Open(Slot),
    Inactive,
}

/// What an accepted event does to the namespaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Enter { parent: Option<Slot>, call: Slot },
    Exit { slot: Slot },
}

/// A subagent that has not exited.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenNamespace {
    /// Its full path.
    pub path: Namespace<'static>,
    /// The agent that runs in it.
    pub agent_id: Name<'static>,
    /// The open call that delegates to it.
    pub parent_tool_call_id: ToolCallId<'static>,
}

/// Every invocation of the run.
#[derive(Clone, Debug)]
pub(crate) struct Namespaces {
    invocations: Table<Invocation>,
    /// Open ones in order of their entry.
    open: Vec<Slot>,
}

impl Namespaces {
    pub(crate) fn new() -> Self {
        Self { invocations: Table::new(), open: Vec::new() }
    }

    /// R10 for every event but the two of this file.
    pub(crate) fn check_active(&self, path: &Namespace<'_>) -> Result<Option<Slot>, Violation> {
        match self.locate(path.path()) {
            Place::Root => Ok(None),
            Place::Open(slot) => Ok(Some(slot)),
            Place::Inactive => Err(Violation::NamespaceNotActive { path: shown(path.path()) }),
        }
    }

    pub(crate) fn check_enter(
        &self,
        path: &Namespace<'_>,
        entered: &NamespaceEntered<'_>,
        tools: &Tools,
        budget: &Budget,
    ) -> Result<Step, Violation> {
        let Some((invocation, outer)) = path.split_last() else {
            return Err(Violation::RootEntered);
        };
        let parent = match self.locate(outer) {
            Place::Root => None,
            Place::Open(slot) => Some(slot),
            Place::Inactive => return Err(Violation::NamespaceNotActive { path: shown(outer) }),
        };
        if self.invocations.find(invocation.as_str()).is_some() {
            return Err(Violation::InvocationReused {
                invocation: invocation.to_string(),
                depth: outer.len(),
            });
        }
        let call = &entered.parent_tool_call_id;
        let Some((call, _)) = tools.find_open(call.as_str()) else {
            return Err(Violation::DelegationNotOpen { id: call.to_string() });
        };
        budget.check_namespaces(self.open.len())?;
        Ok(Step::Enter { parent, call })
    }

    pub(crate) fn check_exit(
        &self,
        path: &Namespace<'_>,
        exited: &NamespaceExited<'_>,
    ) -> Result<Step, Violation> {
        let slot = match self.locate(path.path()) {
            Place::Root => return Err(Violation::RootExited),
            Place::Inactive => return Err(Violation::ExitWithoutEntry { path: shown(path.path()) }),
            Place::Open(slot) => slot,
        };
        let Some((id, Invocation::Open(open))) = self.invocations.get(slot) else {
            return Err(Violation::ExitWithoutEntry { path: shown(path.path()) });
        };
        if open.inner > 0 {
            return Err(Violation::InnerNamespaceOpen { invocation: id.to_owned() });
        }
        if open.agent_id != exited.agent_id {
            return Err(Violation::ExitNamesOtherAgent { invocation: id.to_owned() });
        }
        if open.parent_tool_call_id != exited.parent_tool_call_id {
            return Err(Violation::ExitNamesOtherCall { invocation: id.to_owned() });
        }
        Ok(Step::Exit { slot })
    }

    /// R09 for terminals.
    pub(crate) fn check_all_exited(&self) -> Result<(), Violation> {
        let innermost = self.open.last().and_then(|&slot| self.invocations.get(slot));
        match innermost {
            None => Ok(()),
            Some((id, _)) => Err(Violation::NamespaceOpen { open: self.open.len(), latest: id.to_owned() }),
        }
    }

    pub(crate) fn apply(
        &mut self,
        step: Step,
        path: &Namespace<'_>,
        data: &EventData<'_>,
        tools: &mut Tools,
    ) {
        match step {
            Step::Enter { parent, call } => {
                if let (Some((invocation, _)), EventData::NamespaceEntered(entered)) =
                    (path.split_last(), data)
                {
                    self.enter(parent, call, invocation, entered);
                    tools.namespace_entered(call);
                }
            }
            Step::Exit { slot } => {
                if let Some(open) = self.exit(slot) {
                    tools.namespace_exited(open.call);
                }
            }
        }
    }

    /// Remembers where an accepted event stood as the place to try first.
    pub(crate) fn visited(&mut self, slot: Slot) {
        self.invocations.touch(slot);
    }

    /// Open namespaces in order of their entry; exit them from the back.
    pub(crate) fn iter_open(&self) -> impl DoubleEndedIterator<Item = OpenNamespace> {
        self.open.iter().filter_map(|&slot| match self.invocations.get(slot) {
            Some((_, Invocation::Open(open))) => Some(OpenNamespace {
                path: self.path_of(slot),
                agent_id: open.agent_id.clone(),
                parent_tool_call_id: open.parent_tool_call_id.clone(),
            }),
            Some((_, Invocation::Exited)) | None => None,
        })
    }

    fn enter(
        &mut self,
        parent: Option<Slot>,
        call: Slot,
        invocation: &InvocationId<'_>,
        entered: &NamespaceEntered<'_>,
    ) {
        if let Some(parent) = parent
            && let Some(Invocation::Open(outer)) = self.invocations.get_mut(parent)
        {
            outer.inner = outer.inner.saturating_add(1);
        }
        let open = OpenInvocation {
            parent,
            agent_id: entered.agent_id.clone().into_owned(),
            parent_tool_call_id: entered.parent_tool_call_id.clone().into_owned(),
            call,
            inner: 0,
        };
        let slot = self.invocations.insert(invocation.clone().into_shared(), Invocation::Open(open));
        self.open.push(slot);
    }

    fn exit(&mut self, slot: Slot) -> Option<OpenInvocation> {
        let invocation = self.invocations.touch(slot)?;
        let open = match std::mem::replace(invocation, Invocation::Exited) {
            Invocation::Open(open) => open,
            Invocation::Exited => return None,
        };
        if let Some(parent) = open.parent
            && let Some(Invocation::Open(outer)) = self.invocations.get_mut(parent)
        {
            outer.inner = outer.inner.saturating_sub(1);
        }
        self.open.retain(|&other| other != slot);
        Some(open)
    }

    /// An inner invocation is open only while its outer one is, so an open slot with the right ancestors is active.
    fn locate(&self, path: &[InvocationId<'_>]) -> Place {
        let Some((last, mut outer)) = path.split_last() else {
            return Place::Root;
        };
        let Some((found, Invocation::Open(open))) = self.invocations.lookup(last.as_str()) else {
            return Place::Inactive;
        };
        let mut parent = open.parent;
        while let Some(slot) = parent {
            let Some((expected, rest)) = outer.split_last() else {
                return Place::Inactive;
            };
            match self.invocations.get(slot) {
                Some((id, Invocation::Open(open))) if id == expected.as_str() => parent = open.parent,
                Some((_, Invocation::Open(_) | Invocation::Exited)) | None => return Place::Inactive,
            }
            outer = rest;
        }
        if outer.is_empty() { Place::Open(found) } else { Place::Inactive }
    }

    fn path_of(&self, slot: Slot) -> Namespace<'static> {
        let mut elements = Vec::new();
        let mut next = Some(slot);
        while let Some(slot) = next {
            let Some((id, Invocation::Open(open))) = self.invocations.get(slot) else {
                break;
            };
            // The id was checked when it was decoded, maybe at another limit than the default.
            if let Ok(id) = InvocationId::bounded(id.to_owned(), usize::MAX) {
                elements.push(id);
            }
            next = open.parent;
        }
        elements.into_iter().rev().collect()
    }
}

/// A path as an error text shows it.
fn shown(path: &[InvocationId<'_>]) -> String {
    path.iter().map(InvocationId::as_str).collect::<Vec<_>>().join("/")
}
