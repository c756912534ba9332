//! The result for machines: one object per file, or per run with `--multi`, each on one line.

use std::io::{self, Write};

use causeway_lifecycle::check::Report;
use serde_json::{Map, Value};

use crate::commands::check::Checked;
use crate::terminal::escaped_json;

/// The objects of one file.
pub fn write(out: &mut impl Write, checked: &Checked, multi: bool) -> io::Result<()> {
    for report in &checked.reports {
        let head = [("file", Some(checked.file.as_str())), ("run_id", report.run_id.as_deref())];
        let mut object = Vec::new();
        report.write_json(if multi { &head } else { &head[..1] }, &mut object);
        line(out, &String::from_utf8_lossy(&object))?;
    }
    Ok(())
}

/// One object per rule of each report.
pub fn write_groups(out: &mut impl Write, checked: &Checked, multi: bool) -> io::Result<()> {
    for report in &checked.reports {
        for (code, count) in &report.counts {
            let mut object = head(checked, report, multi);
            let key = if code.starts_with('L') { "code" } else { "rule" };
            object.insert(key.to_owned(), (*code).into());
            object.insert("count".to_owned(), (*count).into());
            line(out, &serde_json::to_string(&object)?)?;
        }
    }
    Ok(())
}

fn head(checked: &Checked, report: &Report, multi: bool) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("file".to_owned(), checked.file.clone().into());
    if multi {
        object.insert("run_id".to_owned(), report.run_id.clone().into());
    }
    object
}

fn line(out: &mut impl Write, json: &str) -> io::Result<()> {
    writeln!(out, "{}", escaped_json(json))
}
