//! Refused access, told in one place: who was turned away, at which route, and why.
//!
//! Refuses to hold what was sent: no header, no address, no body; a credential by its name at most.

use std::sync::Arc;

use axum::http::Method;
use causeway_contract::id::Name;
use causeway_engine::audit::{Act, Action, Audit};
use causeway_engine::origin::Origin;
use causeway_store::model::Owner;

use crate::metrics::known;

/// A request that was turned away for who made it, or where it came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused<'a> {
    /// The request, as its answer and the log name it.
    pub request_id: &'a str,
    /// Its method.
    pub method: &'a Method,
    /// Its route with placeholders; `none` where nothing is served.
    pub route: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// Why, as a word: the code of the answer, or more than the caller is told.
    pub reason: &'a str,
    /// The name of the credential, where one was good enough to have a name.
    pub credential: Option<&'a str>,
    /// The owner it spoke for, where it is known.
    pub owner: Option<&'a str>,
    /// The agent that is not for this caller, where that is the reason.
    pub agent: Option<&'a str>,
}

/// Who wants to know of refused access. Called on the request's task: it must not wait.
pub trait Watch: Send + Sync {
    /// A request was refused.
    fn refused(&self, refused: &Refused<'_>);
}

/// Nobody else wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Watch for Nobody {
    fn refused(&self, _refused: &Refused<'_>) {}
}

impl Watch for Audit {
    fn refused(&self, refused: &Refused<'_>) {
        let origin = Origin {
            request_id: refused.request_id.to_owned(),
            route: refused.route.to_owned(),
            token: refused.credential.map(str::to_owned),
            ..Origin::default()
        };
        let mut act = Act::new(Action::AccessRefused).by(Some(Arc::new(origin))).code(refused.reason);
        if let Some(owner) = refused.owner {
            act = act.owner(&Owner::new(owner));
        }
        if let Some(agent) = refused.agent.and_then(|agent| Name::new(agent).ok()) {
            act = act.agent(&agent);
        }
        // The method of the trait has the same name: this is the one that bounds a flood.
        Audit::refused(self, act);
    }
}

/// The one event in the log, then whoever watches. The owner is for the watcher: a log holds no names of people.
pub(crate) fn tell(watch: &dyn Watch, refused: &Refused<'_>) {
    let Refused { request_id, method, route, status, reason, credential, agent, owner: _ } = refused;
    let method = known(method);
    tracing::warn!(request_id, method, route, status, reason, credential, agent, "access refused");
    watch.refused(refused);
}
