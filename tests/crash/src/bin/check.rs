//! `crash-check HISTORY DATA [NOTES]`: holds a history against a data directory. Exit 0 clean, 1 violations, 2 could not.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use causeway_crash::facts::Facts;
use causeway_crash::{check, history};

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
    let facts = Facts::read(Path::new(data), notes.map(Path::new))?;
    Ok(check::check(&history::read(Path::new(history))?, &facts))
}
