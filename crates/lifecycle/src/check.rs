//! Checks recorded lines: decoding, validator and lints over the lines of a file, with a report per run.
//!
//! Refuses to stop at the first fault: a refused event is skipped and the rest is checked as well as it can be. The
//! first violation is the authority. Memory is bounded: by [`Limits`] per run, and by a cap on what is kept of findings.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_contract::decode::decode_line;
use causeway_contract::error::{Check, DecodeError};
use causeway_contract::event::{Event, EventData, EventType};
use causeway_contract::json::tokens::{Token, Tokens};
use causeway_contract::limits::Limits;

use crate::lint::{Hint, Lint, Linter};
pub use crate::report::{Finding, Report};
use crate::rule::Verdict;
use crate::validator::{Boundary, Thread, Validator};

/// How to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which boundary the lines passed.
    pub boundary: Boundary,
    /// Whether the thread is durable.
    pub thread: Thread,
    /// The limits.
    pub limits: Limits,
    /// Whether lines of several runs may be mixed.
    pub runs: Runs,
    /// Lints that are not wanted.
    pub off: Vec<Lint>,
    /// How many violations, and how many warnings, a report keeps; the rest is counted.
    pub keep: usize,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Runs {
    /// One run.
    One,
    /// Any number, one after the other or mixed.
    Many,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            boundary: Boundary::Commit,
            thread: Thread::Durable,
            limits: Limits::DEFAULT,
            runs: Runs::One,
            off: Vec::new(),
            keep: 1000,
        }
    }
}

/// Takes the lines of a file one after the other.
#[derive(Debug)]
pub struct Checker {
    options: Options,
    runs: Vec<Run>,
    by_id: BTreeMap<Arc<str>, usize>,
    latest: usize,
    index: u64,
    line: u64,
    hints: Vec<Hint>,
}

#[derive(Debug)]
struct Run {
    id: Option<Arc<str>>,
    validator: Validator,
    linter: Linter,
    report: Report,
    refused: RefusedTerminal,
}

/// Whether R12 would only repeat that the terminal was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RefusedTerminal {
    No,
    Yes,
}

/// Where the line at hand stands.
#[derive(Clone, Copy)]
struct Place {
    index: u64,
    line: u64,
}

impl Checker {
    /// A checker that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            runs: Vec::new(),
            by_id: BTreeMap::new(),
            latest: 0,
            index: 0,
            line: 0,
            hints: Vec::new(),
        }
    }

    /// Takes the next line, with or without its line end. A blank one is counted as a line and is no event.
    pub fn line(&mut self, line: &[u8]) {
        self.line = self.line.saturating_add(1);
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let place = self.place();
        match decode_line(line, &self.options.limits) {
            Ok(event) => self.event(place, &event, line.len()),
            Err(error) => self.undecodable(place, line, &error),
        }
    }

    /// Takes a line that is too long to be kept, of which `start` is the beginning.
    pub fn oversized(&mut self, start: &[u8], bytes: u64) {
        self.line = self.line.saturating_add(1);
        let place = self.place();
        let message = format!("the line has {bytes} bytes, more than any event may");
        self.refused(place, start, Check::Bounds, message, None);
    }

    /// The reports: one, or with [`Runs::Many`] one for each run in order of their first lines. A file without any
    /// event is one report that says R12.
    pub fn finish(mut self) -> Vec<Report> {
        if self.runs.is_empty() {
            self.add_run(None);
        }
        let place = Place { index: self.index, line: self.line.max(1) };
        let options = &self.options;
        self.runs.into_iter().map(|run| run.finish(place, options)).collect()
    }

    fn place(&mut self) -> Place {
        let place = Place { index: self.index, line: self.line };
        self.index = self.index.saturating_add(1);
        place
    }

    fn event(&mut self, place: Place, event: &Event<'_>, len: usize) {
        let at = self.run_of(Some(event.run_id.as_str()));
        let (Some(run), options, hints) = (self.runs.get_mut(at), &self.options, &mut self.hints) else {
            return; // `run_of` has just found it
        };
        run.report.events = run.report.events.saturating_add(1);
        if run.report.run_id.is_none() {
            run.report.run_id = Some(event.run_id.to_string());
        }
        let sequence = Some(event.sequence.value());
        match run.validator.accept(event, len) {
            Err(violation) => {
                if event.data.is_terminal() {
                    run.refused = RefusedTerminal::Yes;
                }
                let pointer = violation.pointer().map(std::borrow::Cow::into_owned);
                run.violated(place, sequence, violation.rule(), violation.to_string(), pointer, options);
            }
            Ok(()) => {
                run.linter.accept(event, &run.validator, hints);
                run.warned(place, sequence, hints, options);
                if options.boundary == Boundary::Commit && matches!(event.data, EventData::RunInterrupted(_))
                {
                    run.report.notes.push(UNSEEN_RECEIPT.to_owned());
                }
            }
        }
    }

    fn undecodable(&mut self, place: Place, line: &[u8], error: &DecodeError) {
        let pointer = error.pointer().map(|pointer| pointer.as_str().to_owned());
        self.refused(place, line, error.check(), error.to_string(), pointer);
    }

    fn refused(&mut self, place: Place, line: &[u8], check: Check, message: String, pointer: Option<String>) {
        let peeked = peek(line);
        let at = self.run_of(peeked.run_id.as_deref());
        let (Some(run), options) = (self.runs.get_mut(at), &self.options) else {
            return; // `run_of` has just found it
        };
        run.report.events = run.report.events.saturating_add(1);
        if peeked.is_terminal {
            run.refused = RefusedTerminal::Yes;
        }
        run.violated(place, peeked.sequence, check.into(), message, pointer, options);
    }

    /// The place of the run in `runs`; with [`Runs::One`] there is only one, whatever the lines say.
    fn run_of(&mut self, id: Option<&str>) -> usize {
        let latest = self.runs.get(self.latest);
        match (self.options.runs, latest) {
            (Runs::One, Some(_)) => self.latest,
            (Runs::Many, Some(run)) if run.id.as_deref() == id => self.latest,
            (Runs::One, None) | (Runs::Many, _) => {
                let known = match id {
                    Some(id) => self.by_id.get(id).copied(),
                    None => self.runs.iter().position(|run| run.id.is_none()),
                };
                self.latest = known.unwrap_or_else(|| self.add_run(id));
                self.latest
            }
        }
    }

    fn add_run(&mut self, id: Option<&str>) -> usize {
        let at = self.runs.len();
        let id: Option<Arc<str>> = id.map(Arc::from);
        if let Some(id) = &id {
            self.by_id.insert(Arc::clone(id), at);
        }
        let options = &self.options;
        let validator = Validator::new(options.boundary, options.thread, options.limits.clone()).offline();
        let report = Report { run_id: id.as_deref().map(str::to_owned), ..Report::default() };
        self.runs.push(Run { id, validator, linter: Linter::new(), report, refused: RefusedTerminal::No });
        at
    }
}

impl Run {
    fn violated(
        &mut self,
        place: Place,
        sequence: Option<u64>,
        rule: Verdict,
        message: String,
        pointer: Option<String>,
        options: &Options,
    ) {
        if let Some(sequence) = sequence {
            self.linter.refused(sequence);
        }
        let report = &mut self.report;
        *report.counts.entry(rule.id()).or_default() += 1;
        if report.violations.len() < options.keep {
            let Place { index, line } = place;
            report.violations.push(Finding { index, line, sequence, code: rule.id(), message, pointer });
        }
    }

    fn warned(&mut self, place: Place, sequence: Option<u64>, hints: &mut Vec<Hint>, options: &Options) {
        let report = &mut self.report;
        for hint in hints.drain(..) {
            if options.off.contains(&hint.lint) {
                continue;
            }
            let code = hint.lint.id();
            *report.counts.entry(code).or_default() += 1;
            if report.warnings.len() < options.keep {
                let (Place { index, line }, message) = (place, hint.message);
                let pointer = hint.pointer.map(str::to_owned);
                report.warnings.push(Finding { index, line, sequence, code, message, pointer });
            }
        }
    }

    fn finish(mut self, place: Place, options: &Options) -> Report {
        // Lines that name no run are no run that could have ended.
        let is_run = options.runs == Runs::One || self.report.run_id.is_some() || self.report.events == 0;
        if let Err(violation) = self.validator.finish()
            && self.refused == RefusedTerminal::No
            && is_run
        {
            self.violated(place, None, violation.rule(), violation.to_string(), None, options);
        }
        let mut hints = Vec::new();
        self.linter.finish(&self.validator, &mut hints);
        self.warned(place, None, &mut hints, options);
        let kept = self.report.violations.len().saturating_add(self.report.warnings.len());
        let found: u64 = self.report.counts.values().sum();
        let left_out = found.saturating_sub(u64::try_from(kept).unwrap_or(u64::MAX));
        if left_out > 0 {
            self.report.notes.push(format!("{left_out} more findings are counted and not listed"));
        }
        self.report
    }
}

/// What can be read of a line that is no event.
#[derive(Debug, Default, Eq, PartialEq)]
struct Peeked {
    run_id: Option<String>,
    sequence: Option<u64>,
    is_terminal: bool,
}

/// Reads as far as the line goes.
fn peek(line: &[u8]) -> Peeked {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => {
            let valid = line.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
    };
    let mut peeked = Peeked::default();
    let (mut depth, mut key) = (0u64, "");
    for token in Tokens::new(text) {
        match token {
            Token::BeginObject | Token::BeginArray => depth = depth.saturating_add(1),
            Token::EndObject | Token::EndArray => depth = depth.saturating_sub(1),
            Token::Key(name) if depth == 1 => key = name.raw(),
            Token::String(value) if depth == 1 && key == "run_id" && !value.raw().is_empty() => {
                peeked.run_id = Some(value.to_text().into_owned());
            }
            Token::String(value) if depth == 1 && key == "type" => {
                peeked.is_terminal = EventType::parse(value.raw()).is_some_and(EventType::is_terminal);
            }
            Token::Number(value) if depth == 1 && key == "sequence" => peeked.sequence = value.parse().ok(),
            Token::Key(_) | Token::String(_) | Token::Number(_) | Token::Bool(_) | Token::Null => {}
        }
    }
    peeked.run_id = peeked.run_id.filter(|id| id.len() <= LONGEST_RUN_ID);
    peeked
}

/// A run id beyond this names no run.
const LONGEST_RUN_ID: usize = 4096;

const UNSEEN_RECEIPT: &str =
    "R14: a recorded stream cannot show that the interrupt was committed; taken on trust";
