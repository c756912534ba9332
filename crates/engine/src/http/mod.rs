//! The driver `http`: a harness behind an endpoint that answers a POST with the stream of one turn.
//!
//! Refuses what would hide something: redirects, proxies, compression, retries. A turn is one request on a connection of
//! its own; every wait, line and body has a bound; an answer is read no faster than the log takes it.
//!
//! What an endpoint cannot do is said, not played: only the shape `worker` names the state that a turn starts from. With
//! the others a conversation has a memory only where the endpoint keeps its thread (`keeps_threads`), and what a run left
//! there that was not committed stays there: nobody can take it back.
//!
//! A cancel closes the connection. Whether the endpoint then stops, and which tools it still runs, cannot be seen.

mod answer;
pub mod config;
pub(crate) mod connect;
mod cut;
pub mod fetch;
mod request;
mod send;
pub mod tool;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use causeway_lifecycle::Thread;

use self::config::{Config, Shape};
use self::connect::Dialer;
pub use self::request::is_object;
use crate::harness::{Harness, Session, Turn};

/// Runs the turns of one agent at an endpoint.
pub struct Http {
    endpoint: Arc<Endpoint>,
}

/// Where turns are run, and how.
struct Endpoint {
    agent_id: String,
    shape: Shape,
    config: Config,
    dialer: Dialer,
}

/// Why an endpoint cannot be used as it is configured.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Secrets would be readable on the way.
    #[error(
        "secrets would go to {host} unencrypted; use https, or say `plaintext = true` if the way there is safe"
    )]
    Plaintext {
        /// The other machine.
        host: String,
    },
    /// `body` is no JSON object.
    #[error("`body` is not a JSON object")]
    Body,
    /// A durable agent whose endpoint has no memory.
    #[error(
        "nothing at the endpoint outlives a run, so the agent cannot be durable: say `thread = \"ephemeral\"`{}",
        if *.names_thread { ", or `keeps_threads = true` if the endpoint keeps the thread it is given" } else { "" }
    )]
    Forgetful {
        /// Whether a request of this shape names a thread.
        names_thread: bool,
    },
    /// No certificate can be checked.
    #[error("{0}")]
    Trust(String),
}

/// Checks what can be known of a configuration without looking at files.
///
/// # Errors
/// What is wrong with it.
pub fn check(harness_id: &str, thread: Thread, config: &Config) -> Result<Shape, Fault> {
    let shape = config.shape.unwrap_or_else(|| Shape::of(harness_id));
    encrypted(config)?;
    if config.body.as_deref().is_some_and(|body| !is_object(body)) {
        return Err(Fault::Body);
    }
    let remembers = shape.names_base() || (shape.names_thread() && config.keeps_threads);
    if thread == Thread::Durable && !remembers {
        return Err(Fault::Forgetful { names_thread: shape.names_thread() });
    }
    Ok(shape)
}

/// Whether secrets stay secret on the way.
pub(crate) fn encrypted(config: &Config) -> Result<(), Fault> {
    let secrets = config.bearer.is_some() || !config.headers.is_empty();
    if secrets && !config.url.is_tls() && !config.url.is_loopback() && !config.plaintext {
        return Err(Fault::Plaintext { host: config.url.host.clone() });
    }
    Ok(())
}

impl Http {
    /// A driver for one agent. Connects to nothing yet.
    ///
    /// # Errors
    /// A configuration that cannot be right, or no authorities to check certificates with.
    pub fn new(agent_id: &str, harness_id: &str, thread: Thread, config: Config) -> Result<Self, Fault> {
        let shape = check(harness_id, thread, &config)?;
        let dialer = Dialer::new(config.url.clone(), config.ca_file.as_deref()).map_err(Fault::Trust)?;
        let endpoint = Endpoint { agent_id: agent_id.to_owned(), shape, config, dialer };
        Ok(Self { endpoint: Arc::new(endpoint) })
    }
}

#[async_trait]
impl Harness for Http {
    fn begin(&self, turn: Turn) -> Box<dyn Session> {
        Box::new(turn::Running::begin(Arc::clone(&self.endpoint), turn))
    }

    /// Closing a connection takes no time.
    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}
