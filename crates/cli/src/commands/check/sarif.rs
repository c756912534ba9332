//! SARIF 2.1.0: one run of the tool over all files.

use std::io::{self, Write};

use causeway_lifecycle::check::Finding;
use causeway_lifecycle::lint::Lint;
use causeway_lifecycle::rule::Verdict;
use serde_json::{Value, json};

use crate::commands::check::Checked;
use crate::terminal::escaped_json;

/// The document.
pub fn write(out: &mut impl Write, all: &[Checked]) -> io::Result<()> {
    let results: Vec<Value> = all.iter().flat_map(results).collect();
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "causeway",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    let text = serde_json::to_string(&document)?;
    writeln!(out, "{}", escaped_json(&text))
}

fn rules() -> Vec<Value> {
    let rule = |id: &str, title: &str, explanation: &str, level: &str| {
        json!({
            "id": id,
            "shortDescription": {"text": title},
            "fullDescription": {"text": explanation},
            "defaultConfiguration": {"level": level},
        })
    };
    let rules =
        Verdict::all().map(|verdict| rule(verdict.id(), verdict.title(), verdict.explanation(), "error"));
    let lints = Lint::ALL.iter().map(|lint| rule(lint.id(), lint.title(), lint.explanation(), "warning"));
    rules.chain(lints).collect()
}

fn results(checked: &Checked) -> Vec<Value> {
    let mut results = Vec::new();
    for report in &checked.reports {
        let run_id = report.run_id.as_deref();
        results.extend(report.violations.iter().map(|finding| result(checked, run_id, finding, "error")));
        results.extend(report.warnings.iter().map(|finding| result(checked, run_id, finding, "warning")));
    }
    results
}

fn result(checked: &Checked, run_id: Option<&str>, finding: &Finding, level: &str) -> Value {
    json!({
        "ruleId": finding.code,
        "level": level,
        "message": {"text": finding.message},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": uri(&checked.file)},
                "region": {"startLine": finding.line},
            },
        }],
        "properties": {
            "run_id": run_id,
            "index": finding.index,
            "sequence": finding.sequence,
            "pointer": finding.pointer,
        },
    })
}

/// The file's name as a relative or absolute URI reference.
fn uri(file: &str) -> String {
    let name = if file == "-" { "stdin" } else { file };
    let mut uri = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
