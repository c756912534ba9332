//! `crash-check HISTORY DATA [NOTES]`: holds a history against a data directory, or against the schema of a database:
//! `postgres:SOCKET:PORT:SCHEMA`. Exit 0 clean, 1 violations, 2 could not.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use causeway_crash::facts::Facts;
use causeway_crash::{check, database, history};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let verdict = match arguments.as_slice() {
        [history, data] => judge(history, data, None),
        [history, data, notes] => judge(history, data, Some(notes)),
        _ => Err(anyhow::anyhow!("usage: crash-check HISTORY DATA [NOTES]")),
    };
    let printed =
        verdict.and_then(|verdict| Ok((serde_json::to_string(&verdict)?, verdict.violations.is_empty())));
    match printed {
        Ok((text, clean)) => {
            println!("{text}");
            ExitCode::from(u8::from(!clean))
        }
        Err(error) => {
            eprintln!("crash-check: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn judge(history: &str, data: &str, notes: Option<&String>) -> anyhow::Result<check::Verdict> {
    let notes = notes.map(Path::new);
    let facts =
        match data.strip_prefix("postgres:").map(|rest| rest.split(':').collect::<Vec<_>>()).as_deref() {
            Some([socket, port, schema]) => {
                Facts::shared(database::options(socket, port.parse()?, schema), notes)?
            }
            Some(_) => anyhow::bail!("a database is postgres:SOCKET:PORT:SCHEMA"),
            None => Facts::read(Path::new(data), notes)?,
        };
    Ok(check::check(&history::read(Path::new(history))?, &facts))
}
