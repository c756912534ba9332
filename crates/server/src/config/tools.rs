//! `agents.NAME.tools.TOOL` and `tools_from`: schemas, policies, and what runs a tool.
//!
//! Refuses what is no usable JSON Schema, with the file and the place in it, and a tool that the gateway should run without one.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_engine::gate::{Approval, snapshot};
use causeway_engine::schema::{MAX_BYTES, ToolSchema};

use super::{Agent, EnvValue, Http};

/// `[agents.NAME.tools.TOOL]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tool {
    /// Where the JSON Schema of its arguments is; in the snapshot where absent.
    pub schema: Option<Schema>,
    /// Whether a person is asked first.
    pub approval: Approval,
    /// Whether it does what cannot be undone; as the snapshot says where absent.
    pub sensitive: Option<bool>,
    /// How long one call may take.
    pub timeout: Duration,
    /// The most that one call may say.
    pub max_output: u64,
    /// What runs it; the harness itself where absent.
    pub invoke: Option<Invoke>,
}

/// Where a schema is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Schema {
    /// In a file.
    File(PathBuf),
    /// Here.
    Text(String),
}

/// `[agents.NAME.tools.TOOL.invoke.…]`: exactly one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Invoke {
    /// A program of this machine.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
        /// What the environment holds besides `PATH`, `HOME` and `LANG`.
        env: BTreeMap<String, EnvValue>,
    },
    /// An endpoint.
    Http(Box<Http>),
}

/// What the declarations of an agent come to.
#[derive(Debug, Default)]
pub struct Declared {
    /// The schemas, by tool.
    pub schemas: BTreeMap<String, ToolSchema>,
    /// Tools that are sensitive.
    pub sensitive: BTreeMap<String, bool>,
}

/// A declaration that cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The key, below the agent.
    pub key: String,
    /// A sentence that names the file and, where the schema is at fault, the place in it.
    pub what: String,
}

/// Reads the files of an agent's declarations and compiles what is in them.
///
/// # Errors
/// Every fault.
pub fn declared(agent: &Agent) -> Result<Declared, Vec<Fault>> {
    let mut declared = Declared::default();
    let mut faults = Vec::new();
    if let Some(file) = &agent.tools_from {
        match read(file, snapshot::MAX_BYTES)
            .and_then(|text| snapshot::read(&text).map_err(|what| format!("{}: {what}", file.display())))
        {
            Ok(listed) => {
                for tool in listed {
                    declared.sensitive.insert(tool.name.clone(), tool.sensitive);
                    declared.schemas.insert(tool.name, tool.schema);
                }
            }
            Err(what) => faults.push(Fault { key: "tools_from".to_owned(), what }),
        }
    }
    for (name, tool) in &agent.tools {
        let compiled = match &tool.schema {
            Some(Schema::File(file)) => read(file, MAX_BYTES)
                .and_then(|text| {
                    ToolSchema::compile(&text).map_err(|fault| format!("{} {fault}", file.display()))
                })
                .map_err(|what| Fault { key: format!("tools.{name}.schema"), what }),
            Some(Schema::Text(text)) => ToolSchema::compile(text)
                .map_err(|fault| Fault { key: format!("tools.{name}.schema_json"), what: fault.to_string() }),
            None if declared.schemas.contains_key(name) => continue,
            // A snapshot that cannot be read may have it.
            None if agent.tools_from.is_some() && !faults.is_empty() => continue,
            None => Err(Fault {
                key: format!("tools.{name}"),
                what: "`schema` is missing; name the file with the JSON Schema of the tool's arguments"
                    .to_owned(),
            }),
        };
        match compiled {
            Ok(schema) => drop(declared.schemas.insert(name.clone(), schema)),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(declared) } else { Err(faults) }
}

fn read(file: &Path, max: usize) -> Result<String, String> {
    let name = file.display();
    let cannot = |error: std::io::Error| format!("cannot read {name}: {error}");
    let mut text = Vec::new();
    // One byte more than is allowed tells that it is too large, whatever the file is.
    let most = (max as u64).saturating_add(1);
    std::fs::File::open(file).map_err(cannot)?.take(most).read_to_end(&mut text).map_err(cannot)?;
    if text.len() > max {
        return Err(format!("{name} has more than {max} bytes"));
    }
    String::from_utf8(text).map_err(|_| format!("{name} is not UTF-8"))
}
