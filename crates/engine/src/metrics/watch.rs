//! What is timed over one run while it is driven.
//!
//! Refuses to grow: calls that never end are as many as the contract allows, and no more are remembered.

use std::collections::HashMap;
use std::time::Duration;

use causeway_contract::event::{Event, EventData};
use causeway_contract::namespace::Namespace;
use tokio::time::Instant;

use super::{Metrics, Outcome};
use crate::agents::Agent;
use crate::trace::Span;

/// The clock of one run.
#[derive(Debug)]
pub(crate) struct Watch {
    since: Instant,
    first_seen: bool,
    calls: HashMap<String, (Instant, Span)>,
    /// Subagents at work, by their paths.
    spaces: HashMap<String, Span>,
    worker: Option<Span>,
    run: Span,
}

/// The path of a namespace, as a key.
fn path(namespace: &Namespace<'_>) -> String {
    let mut path = Vec::new();
    namespace.write_json(&mut path);
    String::from_utf8_lossy(&path).into_owned()
}

/// That of the one around it.
fn enclosing(namespace: &Namespace<'_>) -> String {
    let above = namespace.split_last().map(|(_, above)| above).unwrap_or_default();
    path(&above.iter().cloned().collect())
}

/// Calls open at once that are timed.
const CALLS: usize = 4_096;

impl Watch {
    /// A run that was asked for at `since`.
    pub(crate) fn new(since: Instant, run: Span, worker: Span) -> Self {
        let (calls, spaces) = (HashMap::new(), HashMap::new());
        Self { since, first_seen: false, calls, spaces, worker: Some(worker), run }
    }

    /// An event was decided.
    pub(crate) fn decided(&mut self, event: &Event<'_>, agent: &Agent, metrics: &Metrics) {
        let (id, outcome) = match &event.data {
            EventData::ToolStarted(started) => {
                if self.calls.len() < CALLS {
                    let mut span = self.inside(&path(&event.namespace)).child("tool");
                    span.set("causeway.sequence", event.sequence.value());
                    self.calls.insert(started.tool_call_id.as_str().to_owned(), (Instant::now(), span));
                }
                return;
            }
            EventData::ToolFinished(finished) => (&finished.tool_call_id, Outcome::Finished),
            EventData::ToolError(failed) => (&failed.tool_call_id, Outcome::Error),
            EventData::NamespaceEntered(_) => {
                let (own, above) = (path(&event.namespace), enclosing(&event.namespace));
                let mut span = self.inside(&above).child("subagent");
                span.set("causeway.sequence", event.sequence.value());
                self.spaces.insert(own, span);
                return;
            }
            EventData::NamespaceExited(_) => {
                self.spaces.remove(&path(&event.namespace));
                return;
            }
            EventData::RunStarted(_)
            | EventData::RunFinished(_)
            | EventData::RunInterrupted(_)
            | EventData::RunCancelled(_)
            | EventData::RunError(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::InterruptRequested(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => return,
        };
        if let Some((began, mut span)) = self.calls.remove(id.as_str()) {
            if outcome == Outcome::Error {
                span.fail();
            }
            metrics.tool(agent, outcome, began.elapsed());
        }
    }

    /// What work in this namespace is a part of.
    fn inside(&self, path: &str) -> &Span {
        self.spaces.get(path).or(self.worker.as_ref()).unwrap_or(&self.run)
    }

    /// A part of the run.
    pub(crate) fn child(&self, name: &'static str) -> Span {
        self.run.child(name)
    }

    /// The run has its terminal: what is still going on in it is over.
    pub(crate) fn over(&mut self, outcome: &str, code: Option<&str>) {
        self.calls.clear();
        self.spaces.clear();
        self.worker = None;
        self.run.set("causeway.outcome", outcome);
        if let Some(code) = code {
            self.run.set("causeway.code", code);
            self.run.fail();
        }
        self.run.end();
    }

    /// Readers can see this event.
    pub(crate) fn shown(&mut self, through: u64, agent: &Agent, metrics: &Metrics) {
        if through > 0 && !self.first_seen {
            self.first_seen = true;
            metrics.first_event(agent, self.since.elapsed());
        }
    }

    /// How long the run has been going on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}
