//! Which agents are for whom: `[auth.agents.NAME]`.
//!
//! Refuses to tell the difference: an agent that is not for a caller looks to it like one that there is not.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::caller::Identity;
use crate::config::AllowedCallers;

/// The lists of this moment, ready to ask. Every clone is the same: requests that were let in before the lists were replaced
/// are held to the new ones.
#[derive(Clone, Debug, Default)]
pub struct Allow(Arc<RwLock<Lists>>);

/// Who may use which agent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lists {
    agents: BTreeMap<String, AllowedCallers>,
    /// Whether an agent without a list is for nobody.
    closed: bool,
}

impl Lists {
    /// These lists; without one an agent is for everybody, or for nobody where `closed`.
    pub fn new(agents: BTreeMap<String, AllowedCallers>, closed: bool) -> Self {
        Self { agents, closed }
    }

    fn permit(&self, agent: &str, caller: &Identity) -> bool {
        let Some(list) = self.agents.get(agent) else { return !self.closed };
        let named = |names: &[String], name: &str| names.iter().any(|one| one == name);
        named(&list.subjects, caller.owner.as_str())
            || caller.groups.iter().any(|group| named(&list.groups, group))
            || caller.credential.as_deref().is_some_and(|token| named(&list.tokens, token))
    }
}

impl Allow {
    /// Takes these lists instead of those from before.
    pub fn take(&self, lists: Lists) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = lists;
    }

    /// Whether `caller` may use `agent`.
    pub(super) fn permits(&self, agent: &str, caller: &Identity) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).permit(agent, caller)
    }
}
