//! Which agents are for whom: `[auth.agents.NAME]`.
//!
//! Refuses to tell the difference: an agent that is not for a caller looks to it like one that there is not.

use std::collections::BTreeMap;

use super::caller::Identity;
use crate::config::AllowedCallers;

/// The lists, ready to ask.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Allow {
    agents: BTreeMap<String, AllowedCallers>,
    /// Whether an agent without a list is for nobody.
    closed: bool,
}

impl Allow {
    /// These lists; without one an agent is for everybody, or for nobody where `closed`.
    pub fn new(agents: BTreeMap<String, AllowedCallers>, closed: bool) -> Self {
        Self { agents, closed }
    }

    /// Whether `caller` may use `agent`.
    pub(super) fn permits(&self, agent: &str, caller: &Identity) -> bool {
        let Some(list) = self.agents.get(agent) else { return !self.closed };
        let named = |names: &[String], name: &str| names.iter().any(|one| one == name);
        named(&list.subjects, caller.owner.as_str())
            || caller.groups.iter().any(|group| named(&list.groups, group))
            || caller.credential.as_deref().is_some_and(|token| named(&list.tokens, token))
    }
}
