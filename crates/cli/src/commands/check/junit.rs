//! JUnit XML: a suite per file, a case per run.

use std::io::{self, Write};

use causeway_lifecycle::check::{Finding, Report};

use crate::commands::check::Checked;
use crate::terminal::xml;

/// The document.
pub fn write(out: &mut impl Write, all: &[Checked], deny_warnings: bool) -> io::Result<()> {
    let reports = || all.iter().flat_map(|checked| &checked.reports);
    let failures = reports().filter(|report| fails(report, deny_warnings)).count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"causeway check\" tests=\"{}\" failures=\"{failures}\">",
        reports().count()
    )?;
    for checked in all {
        suite(out, checked, deny_warnings)?;
    }
    writeln!(out, "</testsuites>")
}

fn suite(out: &mut impl Write, checked: &Checked, deny_warnings: bool) -> io::Result<()> {
    let tests = checked.reports.len();
    let failures = checked.reports.iter().filter(|report| fails(report, deny_warnings)).count();
    let file = xml(&checked.file);
    writeln!(out, "  <testsuite name=\"{file}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">")?;
    for report in &checked.reports {
        let name = report.run_id.as_deref().map_or_else(|| "run".to_owned(), xml);
        writeln!(out, "    <testcase classname=\"{file}\" name=\"{name}\">")?;
        if fails(report, deny_warnings) {
            let first = report.violations.first().or(report.warnings.first());
            let (code, message) = first.map_or(("", ""), |first| (first.code, first.message.as_str()));
            writeln!(out, "      <failure type=\"{code}\" message=\"{}\">", xml(message))?;
            findings(out, &report.violations)?;
            if deny_warnings {
                findings(out, &report.warnings)?;
            }
            writeln!(out, "      </failure>")?;
        }
        if !deny_warnings && !report.warnings.is_empty() {
            writeln!(out, "      <system-out>")?;
            findings(out, &report.warnings)?;
            writeln!(out, "      </system-out>")?;
        }
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, "  </testsuite>")
}

fn fails(report: &Report, deny_warnings: bool) -> bool {
    !report.is_valid() || (deny_warnings && report.has_warnings())
}

fn findings(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    for Finding { line, code, message, .. } in findings {
        writeln!(out, "line {line}: {code}: {}", xml(message))?;
    }
    Ok(())
}
