//! The tools of an agent that the engine runs: declared, with their schemas, policies and bounds.
//!
//! Refuses a tool without a schema: what cannot be checked is not run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::command::{self, Command};
use super::invoke::Invoker;
use crate::http::config as http;
use crate::http::tool::Endpoint;
use crate::schema::{Schemas, ToolSchema};

/// Whether a person is asked first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Approval {
    /// Nobody is asked.
    Never,
    /// A person is asked where the tool is sensitive.
    #[default]
    Sensitive,
    /// A person is asked every time.
    Always,
}

/// A tool that the engine runs, as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// What runs it.
    pub invoke: Invoke,
    /// Whether a person is asked first.
    pub approval: Approval,
    /// Whether it does what cannot be undone.
    pub sensitive: bool,
    /// How long one call may take.
    pub timeout: Duration,
    /// The most one call may say, in bytes.
    pub max_output: usize,
}

impl Tool {
    /// A tool with the defaults of `causeway.toml`.
    pub fn new(invoke: Invoke) -> Self {
        Self {
            invoke,
            approval: Approval::default(),
            sensitive: false,
            timeout: Duration::from_secs(60),
            max_output: 1 << 20,
        }
    }
}

/// What runs a tool.
#[derive(Clone)]
pub enum Invoke {
    /// A program of this machine.
    Command(command::Config),
    /// An endpoint.
    Http(Box<http::Config>),
    /// Something of the embedder's own.
    Custom(Arc<dyn Invoker>),
}

/// Told the same; one of the embedder's own is the same as itself.
impl PartialEq for Invoke {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Command(one), Self::Command(other)) => one == other,
            (Self::Http(one), Self::Http(other)) => one == other,
            (Self::Custom(one), Self::Custom(other)) => Arc::ptr_eq(one, other),
            (Self::Command(_) | Self::Http(_) | Self::Custom(_), _) => false,
        }
    }
}

impl fmt::Debug for Invoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::Http(http) => http.fmt(f),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// A tool, ready to be run.
pub struct Ready {
    /// The schema of its arguments.
    pub schema: Arc<ToolSchema>,
    /// What runs it.
    pub invoker: Arc<dyn Invoker>,
    /// Whether a person is asked first: policy and tool together.
    pub asks: bool,
    /// How long one call may take.
    pub timeout: Duration,
    /// The most one call may say, in bytes.
    pub max_output: usize,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("asks", &self.asks).finish_non_exhaustive()
    }
}

/// The tools of one agent.
#[derive(Debug, Default)]
pub struct Tools {
    ready: BTreeMap<String, Ready>,
    /// For calls that a harness runs by itself.
    schemas: Schemas,
}

impl Tools {
    /// Makes the tools of an agent ready; `data_dir` is where what runs is written down.
    ///
    /// # Errors
    /// A sentence for the operator, with the tool.
    pub fn open(
        tools: &BTreeMap<String, Tool>,
        schemas: &Schemas,
        agent_id: &str,
        data_dir: &Path,
    ) -> Result<Self, String> {
        let mut ready = BTreeMap::new();
        for (name, tool) in tools {
            let schema = schemas.schema(name).ok_or_else(|| {
                format!("tool {name} has no schema, so its arguments could not be checked before it runs")
            })?;
            let invoker: Arc<dyn Invoker> = match &tool.invoke {
                Invoke::Command(config) => Arc::new(
                    Command::new(config.clone(), agent_id, data_dir)
                        .map_err(|fault| format!("tool {name}: {fault}"))?,
                ),
                Invoke::Http(config) => Arc::new(
                    Endpoint::new((**config).clone()).map_err(|fault| format!("tool {name}: {fault}"))?,
                ),
                Invoke::Custom(invoker) => Arc::clone(invoker),
            };
            let asks = match tool.approval {
                Approval::Never => false,
                Approval::Sensitive => tool.sensitive,
                Approval::Always => true,
            };
            let (timeout, max_output) = (tool.timeout, tool.max_output);
            ready.insert(name.clone(), Ready { schema, invoker, asks, timeout, max_output });
        }
        Ok(Self { ready, schemas: schemas.clone() })
    }

    /// A tool that the engine runs.
    pub fn get(&self, name: &str) -> Option<&Ready> {
        self.ready.get(name)
    }

    /// Whether the engine runs none.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The names of those that the engine runs.
    pub fn names(&self) -> Arc<[String]> {
        self.ready.keys().cloned().collect()
    }

    /// The schemas of all tools.
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }
}
