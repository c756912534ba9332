//! What the rules say about a run, or about a recorded stream that somebody brings along.
//!
//! Refuses to show content: a finding names rule, type and place. Nothing here changes a run.

use std::sync::Arc;

use causeway_contract::decode::decode_data;
use causeway_contract::event::{EventData, EventType};
use causeway_contract::id::{Reference, RunId};
use causeway_lifecycle::check::{Checker, Options};
pub use causeway_lifecycle::lint::Lint;
pub use causeway_lifecycle::report::{Finding, Report, write_findings};
pub use causeway_lifecycle::rule::Verdict;
pub use causeway_lifecycle::validator::{Boundary, Thread};
use causeway_store::model::Owner;
use causeway_store::{Refusal, Store};

use crate::Engine;
use crate::coordinator::Rejection;
use crate::error::Error;
use crate::repair::{self, WIDE};

/// What is known about the rules in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// What the harness yielded and the log did not take, as far as this gateway remembers.
    pub refused: Vec<Rejection>,
    /// What the log holds that is legal and odd.
    pub warnings: Vec<Finding>,
}

impl Engine {
    /// What was refused in a run, and what is odd in its log. A log is legal by construction: it is read for lints only.
    ///
    /// # Errors
    /// An unknown run, another owner's included, or a store that cannot serve.
    pub async fn findings(&self, owner: &Owner, run_id: &RunId<'_>) -> Result<Findings, Error> {
        let run = self.inner.store.run(owner, run_id).await?;
        let thread = repair::thread_of(run.thread);
        let mut checker = Checker::new(Options { thread, limits: WIDE, ..Options::default() });
        let mut line = Vec::new();
        let mut after = None;
        loop {
            let page = self.inner.store.read_owned(owner, &run.run_id, after, PAGE).await?;
            for record in &page.records {
                line.clear();
                record.write_json(&run.run_id, &run.conversation_id, &mut line);
                checker.line(&line);
                after = Some(record.sequence);
            }
            if page.records.is_empty() || page.is_done(after) {
                break;
            }
        }
        let ended = run.status.is_terminal();
        let report = checker.finish().into_iter().next();
        let warnings = report.map_or_else(Vec::new, |report| {
            // What is said about the end holds only where there is one.
            report.warnings.into_iter().filter(|warning| ended || warning.index < report.events).collect()
        });
        Ok(Findings { refused: self.inner.findings.of(&run.run_id), warnings })
    }
}

/// A result that was not cut stands whole in its event, and nowhere else.
pub(crate) async fn shown_result(
    store: &dyn Store,
    owner: &Owner,
    run_id: &RunId<'_>,
    reference: &Reference<'_>,
) -> Result<Arc<[u8]>, Error> {
    let mut after = None;
    loop {
        let page = store.read_owned(owner, run_id, after, PAGE).await?;
        for record in &page.records {
            after = Some(record.sequence);
            if record.event_type != EventType::ToolFinished {
                continue;
            }
            let data = decode_data(record.event_type, record.data.as_str(), &WIDE);
            if let Ok(EventData::ToolFinished(tool)) = data
                && tool.result_ref.as_ref() == Some(reference)
            {
                return Ok(Arc::from(tool.result.as_bytes()));
            }
        }
        if page.records.is_empty() || page.is_done(after) {
            return Err(Error::Refused(Refusal::UnknownResult));
        }
    }
}

/// How many records one read of the store brings at most.
const PAGE: usize = 1000;

/// Checks canonical JSONL of one run, as `causeway check` does.
pub fn check(jsonl: &[u8], boundary: Boundary, thread: Thread) -> Report {
    let mut checker = Checker::new(Options { boundary, thread, ..Options::default() });
    let body = jsonl.strip_suffix(b"\n").unwrap_or(jsonl);
    for line in body.split(|byte| *byte == b'\n') {
        checker.line(line);
    }
    // One run gives one report.
    checker.finish().into_iter().next().unwrap_or_default()
}
