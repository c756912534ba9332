//! The result for machines: one object per file, or per run with `--multi`, each on one line.

use std::io::{self, Write};

use causeway_lifecycle::check::{Finding, Report};
use serde_json::{Map, Value, json};

use crate::commands::check::Checked;
use crate::terminal::escaped_json;

/// The objects of one file.
pub fn write(out: &mut impl Write, checked: &Checked, multi: bool) -> io::Result<()> {
    for report in &checked.reports {
        let mut object = head(checked, report, multi);
        object.insert("events".to_owned(), report.events.into());
        object.insert("valid".to_owned(), report.is_valid().into());
        object.insert("violations".to_owned(), findings(&report.violations, "rule"));
        object.insert("warnings".to_owned(), findings(&report.warnings, "code"));
        object.insert("notes".to_owned(), report.notes.clone().into());
        line(out, &object)?;
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
            line(out, &object)?;
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

fn findings(findings: &[Finding], code: &str) -> Value {
    findings
        .iter()
        .map(|finding| {
            json!({
                "index": finding.index,
                "line": finding.line,
                "sequence": finding.sequence,
                code: finding.code,
                "message": finding.message,
                "pointer": finding.pointer,
            })
        })
        .collect()
}

fn line(out: &mut impl Write, object: &Map<String, Value>) -> io::Result<()> {
    let text = serde_json::to_string(object)?;
    writeln!(out, "{}", escaped_json(&text))
}
