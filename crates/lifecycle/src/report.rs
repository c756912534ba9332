//! What a check found in one run, and the JSON that says so: the object of `causeway check --format json`.
//!
//! Refuses to hold content: a finding names ids, rules and places, never a payload.

use std::collections::BTreeMap;

use causeway_contract::canonical::write_string;

use crate::lint::Lint;

/// What was found in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The run, where a line named it.
    pub run_id: Option<String>,
    /// How many lines were of this run.
    pub events: u64,
    /// What breaks a rule, in order; the first is the authority.
    pub violations: Vec<Finding>,
    /// What is legal and odd, in order.
    pub warnings: Vec<Finding>,
    /// What could not be seen.
    pub notes: Vec<String>,
    /// How often each rule or lint was found, also beyond what is kept.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Whether no rule is broken.
    pub fn is_valid(&self) -> bool {
        self.totals().0 == 0
    }

    /// Whether something is legal and odd.
    pub fn has_warnings(&self) -> bool {
        self.totals().1 > 0
    }

    /// How many violations and how many warnings were found, also beyond what is kept.
    pub fn totals(&self) -> (u64, u64) {
        self.counts.iter().fold((0, 0), |(violations, warnings), (code, count)| {
            if Lint::parse(code).is_some() {
                (violations, warnings.saturating_add(*count))
            } else {
                (violations.saturating_add(*count), warnings)
            }
        })
    }
}

/// A broken rule or a lint, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// Which non-blank line, counted from 0; their number for a fault at the end.
    pub index: u64,
    /// Which line, counted from 1; the last one for a fault at the end.
    pub line: u64,
    /// The event's sequence, where it could be read.
    pub sequence: Option<u64>,
    /// The rule, the check or the lint.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Where in the event.
    pub pointer: Option<String>,
}

impl Report {
    /// Appends the report as one compact JSON object, without a line end. The members of `head` stand first.
    pub fn write_json(&self, head: &[(&str, Option<&str>)], out: &mut Vec<u8>) {
        out.push(b'{');
        for (key, text) in head {
            write_string(key, out);
            out.push(b':');
            text_or_null(*text, out);
            out.push(b',');
        }
        put(out, "\"events\":", self.events);
        out.extend_from_slice(if self.is_valid() { b",\"valid\":true" } else { b",\"valid\":false" });
        out.extend_from_slice(b",\"violations\":");
        write_findings(&self.violations, "rule", out);
        out.extend_from_slice(b",\"warnings\":");
        write_findings(&self.warnings, "code", out);
        out.extend_from_slice(b",\"notes\":");
        list(&self.notes, out, |note, out| write_string(note, out));
        out.push(b'}');
    }
}

/// Appends findings as a JSON array; `code` is the key that says which rule or lint.
pub fn write_findings(findings: &[Finding], code: &str, out: &mut Vec<u8>) {
    list(findings, out, |finding, out| {
        put(out, "{\"index\":", finding.index);
        put(out, ",\"line\":", finding.line);
        match finding.sequence {
            Some(sequence) => put(out, ",\"sequence\":", sequence),
            None => out.extend_from_slice(b",\"sequence\":null"),
        }
        out.push(b',');
        write_string(code, out);
        out.push(b':');
        write_string(finding.code, out);
        out.extend_from_slice(b",\"message\":");
        write_string(&finding.message, out);
        out.extend_from_slice(b",\"pointer\":");
        text_or_null(finding.pointer.as_deref(), out);
        out.push(b'}');
    });
}

fn list<T>(items: &[T], out: &mut Vec<u8>, mut each: impl FnMut(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(b']');
}

fn put(out: &mut Vec<u8>, key: &str, number: u64) {
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(number.to_string().as_bytes());
}

fn text_or_null(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => write_string(text, out),
        None => out.extend_from_slice(b"null"),
    }
}
