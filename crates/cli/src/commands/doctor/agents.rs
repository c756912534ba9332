//! What agents refer to: programs that can be run, variables that are set, files that only we may read, certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use causeway_server::config::{Config, Driver, EnvValue};

use super::Check;

/// Looks at every agent.
pub fn examine(config: &Config, checks: &mut Vec<Check>) {
    let mut references = 0;
    for (id, agent) in &config.agents {
        let of = |key: &str| format!("agents.{id}.driver.{key}");
        match &agent.driver {
            Driver::Process(process) => {
                if let Some(program) = process.command.first() {
                    checks.extend(program_fault(&of("process.command"), program));
                }
                for (name, value) in &process.env {
                    references += reference(&of(&format!("process.env.{name}")), value, checks);
                }
            }
            Driver::Http(http) => {
                for (name, value) in &http.headers {
                    references += reference(&of(&format!("http.headers.{name}")), value, checks);
                }
                if let Some(value) = &http.bearer {
                    references += reference(&of("http.bearer"), value, checks);
                }
                if let Some(file) = &http.ca_file {
                    checks.push(certificates(&of("http.ca_file"), file));
                }
            }
            Driver::Recording(_) => {}
        }
    }
    if references > 0 {
        checks.push(Check::ok("secrets", format!("{references} references lead somewhere")));
    }
}

/// Whether a worker's program could be started, as far as that is known before there is a run.
fn program_fault(key: &str, program: &str) -> Option<Check> {
    if program.contains('{') {
        return None;
    }
    let found = if program.contains('/') {
        // One that is not there was told already.
        Some(PathBuf::from(program)).filter(|path| path.is_file())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found =
            std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| is_executable(file));
        if found.is_none() {
            let what = format!("{key}: there is no program {program} on PATH");
            return Some(Check::fault("workers", what, "install it, or write its whole path"));
        }
        found
    };
    let found = found?;
    if is_executable(&found) {
        return Some(Check::ok("workers", format!("{key}: {}", found.display())));
    }
    let what = format!("{key}: {} cannot be executed", found.display());
    Some(Check::fault("workers", what, format!("chmod +x {}", found.display())))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// One that leads somewhere counts; else it is told.
fn reference(key: &str, value: &EnvValue, checks: &mut Vec<Check>) -> usize {
    match value {
        EnvValue::Plain(_) => return 0,
        EnvValue::Env(variable) => {
            if std::env::var(variable).is_ok() {
                return 1;
            }
            let what = format!("{key}: the variable {variable} is not set here");
            checks.push(Check::fault("secrets", what, "set it in the environment of the gateway"));
        }
        EnvValue::File(file) => match fs::File::open(file).and_then(|file| file.metadata()) {
            Ok(meta) if meta.permissions().mode() & 0o004 != 0 => {
                let what = format!("{key}: everybody may read {}", file.display());
                checks.push(Check::note("secrets", what, format!("chmod 0600 {}", file.display())));
                return 1;
            }
            Ok(_) => return 1,
            Err(error) => {
                let what = format!("{key}: cannot read {}: {error}", file.display());
                checks.push(Check::fault("secrets", what, "put it there, readable for the gateway's user"));
            }
        },
    }
    0
}

fn certificates(key: &str, file: &Path) -> Check {
    match fs::read_to_string(file) {
        Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => {
            let count = text.matches("-----BEGIN CERTIFICATE-----").count();
            Check::ok("certificates", format!("{key}: {count} in {}", file.display()))
        }
        Ok(_) => {
            let what = format!("{key}: {} holds no certificate in PEM", file.display());
            Check::fault("certificates", what, "name a PEM file of certificate authorities")
        }
        Err(error) => {
            let what = format!("{key}: cannot read {}: {error}", file.display());
            Check::fault("certificates", what, "put it there, readable for the gateway's user")
        }
    }
}
