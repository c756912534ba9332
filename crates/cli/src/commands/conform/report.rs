//! Verdicts, and how they are printed: for people, as one JSON object, as JUnit XML.
//!
//! Refuses to count a skip as a pass.

use std::io::{self, Write};

use serde_json::json;

use crate::terminal::{escaped, xml};

/// A check: what stands behind its verdict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Check {
    /// Its id: family, dot, name.
    pub id: &'static str,
    /// What a subject that passes does.
    pub title: &'static str,
    /// The rule it stands for.
    pub rule: &'static str,
}

/// A check.
pub const fn check(id: &'static str, rule: &'static str, title: &'static str) -> Check {
    Check { id, title, rule }
}

/// Why a check was not passed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stop {
    /// A rule was broken; its name where it is another than the check's.
    Fail(Option<String>, String),
    /// The subject does not offer what the check is about.
    Skip(String),
}

/// The check's own rule was broken.
pub fn fail<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Fail(None, why.into()))
}

/// This rule was broken.
pub fn broke<T>(rule: impl Into<String>, why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Fail(Some(rule.into()), why.into()))
}

/// There is nothing to check.
pub fn skip<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skip(why.into()))
}

/// What is known of one check.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Entry {
    check: Check,
    /// `None`: passed.
    stop: Option<Stop>,
}

/// All verdicts.
#[derive(Debug)]
pub struct Report {
    only: Vec<String>,
    entries: Vec<Entry>,
}

impl Report {
    /// A report without verdicts, for the checks whose ids begin with one of `only`, or for all.
    pub fn new(only: Vec<String>) -> Self {
        Self { only, entries: Vec::new() }
    }

    /// Whether a check is wanted.
    pub fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|start| id.starts_with(start.as_str()))
    }

    /// Makes a check, if it is wanted.
    pub fn check(&mut self, check: Check, made: impl FnOnce() -> Result<(), Stop>) {
        if self.wants(check.id) {
            self.entries.push(Entry { check, stop: made().err() });
        }
    }

    /// Whether nothing was checked.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many checks failed.
    pub fn failures(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.stop, Some(Stop::Fail(..)))).count()
    }

    fn skips(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.stop, Some(Stop::Skip(_)))).count()
    }

    fn passes(&self) -> usize {
        self.entries.len() - self.failures() - self.skips()
    }

    /// A line for each check, then the counts.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        for entry in &self.entries {
            let Check { id, title, .. } = entry.check;
            let (word, rule, why) = entry.told();
            writeln!(out, "{word:<4} {rule:<8} {id:<26} {title}")?;
            if !why.is_empty() {
                writeln!(out, "     {}", escaped(why))?;
            }
        }
        let (passed, failed, skipped) = (self.passes(), self.failures(), self.skips());
        writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")
    }

    /// One object.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let checks: Vec<_> = self
            .entries
            .iter()
            .map(|entry| {
                let (word, rule, why) = entry.told();
                let Check { id, title, .. } = entry.check;
                json!({"id": id, "rule": rule, "title": title, "verdict": word, "reason": why})
            })
            .collect();
        let (passed, failed, skipped) = (self.passes(), self.failures(), self.skips());
        writeln!(out, "{}", json!({"passed": passed, "failed": failed, "skipped": skipped, "checks": checks}))
    }

    /// A test suite.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_junit(&self, out: &mut impl Write) -> io::Result<()> {
        let (tests, failed, skipped) = (self.entries.len(), self.failures(), self.skips());
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(
            out,
            "<testsuites name=\"causeway conform\" tests=\"{tests}\" failures=\"{failed}\" skipped=\"{skipped}\">"
        )?;
        writeln!(
            out,
            "  <testsuite name=\"conform\" tests=\"{tests}\" failures=\"{failed}\" skipped=\"{skipped}\" errors=\"0\">"
        )?;
        for entry in &self.entries {
            let Check { id, title, .. } = entry.check;
            let (_, rule, why) = entry.told();
            let (family, why) = (id.split('.').next().unwrap_or(id), xml(why));
            write!(out, "    <testcase classname=\"{family}\" name=\"{id}: {}\"", xml(title))?;
            match &entry.stop {
                None => writeln!(out, "/>")?,
                Some(Stop::Fail(..)) => {
                    writeln!(
                        out,
                        ">\n      <failure type=\"{}\" message=\"{why}\"/>\n    </testcase>",
                        xml(rule)
                    )?;
                }
                Some(Stop::Skip(_)) => {
                    writeln!(out, ">\n      <skipped message=\"{why}\"/>\n    </testcase>")?;
                }
            }
        }
        writeln!(out, "  </testsuite>\n</testsuites>")
    }
}

impl Entry {
    /// Verdict, rule, reason.
    fn told(&self) -> (&'static str, &str, &str) {
        match &self.stop {
            None => ("pass", self.check.rule, ""),
            Some(Stop::Fail(rule, why)) => ("FAIL", rule.as_deref().unwrap_or(self.check.rule), why),
            Some(Stop::Skip(why)) => ("skip", self.check.rule, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new(Vec::new());
        report.check(check("a.one", "W1", "does one thing"), || Ok(()));
        report.check(check("a.two", "W2", "does two things"), || broke("R05", "a <delta> of nothing"));
        report.check(check("b.three", "W3", "does three things"), || skip("none offered"));
        report
    }

    #[test]
    fn skips_are_counted_apart_from_passes() {
        let mut text = Vec::new();
        report().write_text(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "pass W1       a.one                      does one thing\n\
             FAIL R05      a.two                      does two things\n     a <delta> of nothing\n\
             skip W3       b.three                    does three things\n     none offered\n\
             1 passed, 1 failed, 1 skipped\n"
        );
    }

    #[test]
    fn the_xml_holds_what_was_broken_and_what_was_skipped() {
        let mut text = Vec::new();
        report().write_junit(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("tests=\"3\" failures=\"1\" skipped=\"1\""), "{text}");
        assert!(text.contains("<failure type=\"R05\" message=\"a &lt;delta&gt; of nothing\"/>"), "{text}");
        assert!(text.contains("<skipped message=\"none offered\"/>"), "{text}");
    }

    #[test]
    fn only_what_is_asked_for_is_checked() {
        let mut report = Report::new(vec!["b.".to_owned()]);
        report.check(check("a.one", "W1", "does"), || panic!("not wanted"));
        report.check(check("b.two", "W1", "does"), || Ok(()));
        assert_eq!((report.passes(), report.is_empty()), (1, false));
    }
}
