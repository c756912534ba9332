//! What a valid configuration needs around it: adapters, recordings, schemas, programs.
//!
//! Refuses to start anything to find out; relative paths are seen from the directory `causeway` was started in.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use causeway_adapter::registry::{self, stream_json};
use causeway_engine::config::Thread;
use causeway_engine::http::config::Secret;
use causeway_server::config::{Config, Driver, Finding, tools};

/// What was found.
#[derive(Debug, Default)]
pub struct Ground {
    /// An agent could not run.
    pub findings: Vec<Finding>,
    /// It cannot run yet: what is missing is made by a script that stands beside it.
    pub notes: Vec<Finding>,
}

/// Looks at what the agents of a valid configuration need.
pub fn survey(config: &Config) -> Ground {
    let mut ground = Ground::default();
    for (id, agent) in &config.agents {
        let of = |key: &str, message: String| Finding {
            path: format!("agents.{id}.{key}"),
            origin: None,
            message,
        };
        if registry::find(&agent.harness).is_none() {
            let known: Vec<&str> = registry::HARNESSES.iter().map(|harness| harness.id).collect();
            let message = format!("no adapter for `{}`; known are {}", agent.harness, known.join(", "));
            ground.findings.push(of("harness", message));
        }
        if let Err(faults) = tools::declared(agent) {
            ground.findings.extend(faults.into_iter().map(|fault| of(&fault.key, fault.what)));
        }
        for (name, tool) in &agent.tools {
            let asks = matches!(agent.driver, Driver::Process(_)) && agent.harness != stream_json::HARNESS;
            if tool.invoke.is_some() && !asks {
                let what = "needs a worker of the worker protocol (driver.process), which asks for the tool";
                ground.findings.push(of(&format!("tools.{name}.invoke"), what.to_owned()));
            }
        }
        match &agent.driver {
            Driver::Recording(recording) => {
                let fault = recording_fault(&recording.file);
                ground.findings.extend(fault.map(|what| of("driver.recording.file", what)));
            }
            Driver::Http(http) => {
                let harness = registry::find(&agent.harness).map_or("", |harness| harness.id);
                let thread = if agent.durable { Thread::Durable } else { Thread::Ephemeral };
                // What stands behind a reference is looked at when the gateway starts.
                let endpoint = http.endpoint(|_, _| Ok::<_, Infallible>(Secret::File(PathBuf::new())));
                let Ok(endpoint) = endpoint;
                if let Err(fault) = causeway_engine::http::check(harness, thread, &endpoint) {
                    ground.findings.push(of("driver.http", fault.to_string()));
                }
            }
            Driver::Process(process) => {
                let Some(program) = process.command.first().and_then(|program| missing(program)) else {
                    continue;
                };
                let what = format!("there is no program {}", program.display());
                match made_by(&program) {
                    Some(script) => {
                        let what = format!("{what} yet; run {}, which makes it", script.display());
                        ground.notes.push(of("driver.process.command", what));
                    }
                    None => ground.findings.push(of("driver.process.command", what)),
                }
            }
        }
    }
    ground
}

fn recording_fault(file: &Path) -> Option<String> {
    let name = file.display();
    match std::fs::metadata(file) {
        Err(error) => Some(format!("cannot read {name}: {error}")),
        Ok(meta) if meta.is_dir() => Some(format!("{name} is a directory, not a recording")),
        Ok(meta) if meta.is_file() && meta.len() == 0 => {
            Some(format!("{name} is empty; there is nothing to play"))
        }
        Ok(_) => None,
    }
}

/// The program, if its place is told and it is not there. A bare name is looked for along `PATH` by the system, and a
/// place with a placeholder is known only when a worker starts.
fn missing(program: &str) -> Option<PathBuf> {
    let told = program.contains('/') && !program.contains('{');
    Some(PathBuf::from(program)).filter(|path| told && !path.is_file())
}

/// The `setup.sh` beside the virtual environment that the program belongs to.
fn made_by(program: &Path) -> Option<PathBuf> {
    let environment = program.ancestors().find(|place| place.ends_with(".venv"))?;
    Some(environment.with_file_name("setup.sh")).filter(|script| script.is_file())
}
