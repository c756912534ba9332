//! The result for people. Every text from a stream is escaped.

use std::collections::BTreeMap;
use std::io::{self, Write};

use causeway_lifecycle::check::{Finding, Report};

use crate::commands::check::Checked;
use crate::terminal::escaped;

/// Findings and a summary of one file.
pub fn write(out: &mut impl Write, checked: &Checked, multi: bool) -> io::Result<()> {
    let file = escaped(&checked.file);
    for report in &checked.reports {
        for violation in &report.violations {
            finding(out, &file, "error", violation)?;
        }
        for warning in &report.warnings {
            finding(out, &file, "warning", warning)?;
        }
        for note in &report.notes {
            writeln!(out, "{file}: note: {}", escaped(note))?;
        }
        summary(out, &file, report, multi)?;
    }
    Ok(())
}

/// One line per rule over all files.
pub fn write_groups(out: &mut impl Write, all: &[Checked]) -> io::Result<()> {
    let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
    for report in all.iter().flat_map(|checked| &checked.reports) {
        for (code, count) in &report.counts {
            let sum = groups.entry(code).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    for (code, count) in groups {
        writeln!(out, "{code} {count}")?;
    }
    Ok(())
}

fn finding(out: &mut impl Write, file: &str, kind: &str, finding: &Finding) -> io::Result<()> {
    let Finding { index, line, sequence, code, message, pointer } = finding;
    write!(out, "{file}:{line}: {kind}[{code}]: {} (event {index}", escaped(message))?;
    if let Some(sequence) = sequence {
        write!(out, ", sequence {sequence}")?;
    }
    if let Some(pointer) = pointer {
        write!(out, ", at {}", escaped(if pointer.is_empty() { "the whole event" } else { pointer }))?;
    }
    writeln!(out, ")")
}

fn summary(out: &mut impl Write, file: &str, report: &Report, multi: bool) -> io::Result<()> {
    write!(out, "{file}: ")?;
    if multi {
        match &report.run_id {
            Some(run_id) => write!(out, "run {}: ", escaped(run_id))?,
            None => write!(out, "lines of no run: ")?,
        }
    }
    let verdict = if report.is_valid() { "valid" } else { "INVALID" };
    let (violations, warnings) = report.totals();
    writeln!(out, "{verdict}, {} events, {violations} violations, {warnings} warnings", report.events)
}
