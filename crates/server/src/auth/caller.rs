//! Who makes a request: the one value that every lookup of data needs.
//!
//! Refuses to be made anywhere but in [`super`], from a credential that was checked: a route that forgets to ask who is
//! calling has no owner to look anything up for, and does not compile.

use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use causeway_store::model::Owner;
use tokio::sync::watch;
use tokio::time::Instant;

use super::allow::Allow;
use crate::app::App;
use crate::problem::Problem;

/// A caller. Cheap to clone; every clone is the same request's.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Identity>);

/// What a credential says.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Whose data.
    pub owner: Owner,
    /// What the credential is called, never the credential itself; `None` without authentication.
    pub credential: Option<Arc<str>>,
    /// The groups that it names.
    pub groups: Vec<String>,
    /// When it ends.
    pub until: Option<Instant>,
    /// Closed when it is taken out of the configuration, where it stands in there.
    pub listed: Option<watch::Receiver<()>>,
    /// Which agents are for whom.
    pub allow: Allow,
    /// The agent that was asked for and is not for this caller.
    pub denied: OnceLock<String>,
}

impl Caller {
    pub(super) fn new(identity: Identity) -> Self {
        Self(Arc::new(identity))
    }

    /// Whose data this request may see and change.
    pub fn owner(&self) -> &Owner {
        &self.0.owner
    }

    /// The name of the credential, for logs; `None` without authentication.
    pub fn credential(&self) -> Option<&str> {
        self.0.credential.as_deref()
    }

    /// When the credential ends, and with it every stream that it opened.
    pub fn until(&self) -> Option<Instant> {
        self.0.until
    }

    /// Waits until the credential does not hold any more: its time is over, or it was taken out of the configuration.
    pub async fn ended(&self) {
        let over = async {
            match self.0.until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let taken_out = async {
            match self.0.listed.clone() {
                Some(mut listed) => while listed.changed().await.is_ok() {},
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => {}
            () = taken_out => {}
        }
    }

    /// Whether the credential does not hold any more.
    pub fn has_ended(&self) -> bool {
        self.0.until.is_some_and(|until| Instant::now() >= until)
            || self.0.listed.as_ref().is_some_and(|listed| listed.has_changed().is_err())
    }

    /// Whether an agent exists for this caller, as far as it is a question of rights. A no is remembered for the log.
    pub fn may_use(&self, agent: &str) -> bool {
        let allowed = self.sees(agent);
        if !allowed {
            let _first_one_stands = self.0.denied.set(agent.to_owned());
        }
        allowed
    }

    /// The same for lists, where leaving out is no refusal.
    pub fn sees(&self, agent: &str) -> bool {
        self.0.allow.permits(agent, &self.0)
    }

    /// The agent that was asked for in this request and is not for this caller.
    pub(crate) fn denied(&self) -> Option<&str> {
        self.0.denied.get().map(String::as_str)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!("a route that needs a caller is open to anybody");
            Problem::internal()
        })
    }
}
