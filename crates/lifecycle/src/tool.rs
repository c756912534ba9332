//! R06 and R07: a call starts before its arguments and its end, and ends once, either finished or failed. Also
//! `payload` for streamed arguments: they must not compete with whole ones, and must be one JSON object in the end that
//! satisfies the tool's schema where it is known.

use std::sync::Arc;

use causeway_contract::event::{EventData, EventType, ToolArgumentsDelta, ToolStarted};
use causeway_contract::id::Name;
use causeway_contract::json;

use crate::budget::Budget;
use crate::schemas::ToolSchemas;
use crate::table::{Slot, Table};
use crate::violation::Violation;

/// The life of one call:
///
/// ```text
///            tool.started         tool.finished
/// (unused) ───────────────▶ Open ───────────────▶ Finished
///                           │  ▲ │  tool.error
///      tool.arguments.delta └──┘ └──────────────▶ Failed
/// ```
#[derive(Clone, Debug)]
enum Call {
    Open(OpenCall),
    Finished,
    Failed,
}

#[derive(Clone, Debug)]
struct OpenCall {
    tool_name: Name<'static>,
    arguments: Arguments,
    /// Namespaces entered for this call and not exited: while there are any, the call cannot end (R10).
    namespaces: usize,
}

/// Where the arguments come from:
///
/// ```text
/// Awaited ──non-empty delta──▶ Streamed        Whole (from the start on)
/// ```
#[derive(Clone, Debug)]
enum Arguments {
    /// `{}` at the start: there are none, or they are streamed later.
    Awaited,
    /// Given at the start; a delta would be a second source of truth.
    Whole,
    /// The joined text so far.
    Streamed(String),
}

/// What an accepted event does to the calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Start,
    Arguments { slot: Slot },
    Finish { slot: Slot },
    Fail { slot: Slot },
}

/// Every call of the run.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    calls: Table<Call>,
    open: usize,
    schemas: Option<Arc<dyn ToolSchemas>>,
}

impl Tools {
    pub(crate) fn new() -> Self {
        Self { calls: Table::new(), open: 0, schemas: None }
    }

    pub(crate) fn know(&mut self, schemas: Arc<dyn ToolSchemas>) {
        self.schemas = Some(schemas);
    }

    pub(crate) fn check_start(&self, id: &str, budget: &Budget) -> Result<Step, Violation> {
        if self.calls.find(id).is_some() {
            return Err(Violation::CallReused { id: id.to_owned() });
        }
        budget.check_calls(self.calls.len())?;
        Ok(Step::Start)
    }

    /// An empty delta is no second source: the coordinator drops it before it numbers.
    pub(crate) fn check_arguments(&self, id: &str, delta: &str, budget: &Budget) -> Result<Step, Violation> {
        let (slot, call) = self.open_call(id, EventType::ToolArgumentsDelta)?;
        let so_far = match &call.arguments {
            Arguments::Awaited => 0,
            Arguments::Whole if delta.is_empty() => 0,
            Arguments::Whole => return Err(Violation::ArgumentsGivenTwice { id: id.to_owned() }),
            Arguments::Streamed(text) => text.len(),
        };
        budget.check_arguments(id, so_far, delta.len())?;
        Ok(Step::Arguments { slot })
    }

    /// Streamed arguments must parse strictly and satisfy the tool's schema where it is known; a call whose arguments
    /// were cut can only fail.
    pub(crate) fn check_finish(&self, id: &str, budget: &Budget) -> Result<Step, Violation> {
        let (slot, call) = self.open_call(id, EventType::ToolFinished)?;
        if let Arguments::Streamed(text) = &call.arguments {
            if json::check_object(text, budget.limits()).is_err() {
                return Err(Violation::ArgumentsNotJson { id: id.to_owned() });
            }
            if let Some(schemas) = &self.schemas
                && let Err(mismatch) = schemas.check(call.tool_name.as_str(), text)
            {
                return Err(Violation::ArgumentsNotOfSchema { id: id.to_owned(), mismatch });
            }
        }
        Self::check_no_namespace(id, call)?;
        Ok(Step::Finish { slot })
    }

    pub(crate) fn check_fail(&self, id: &str) -> Result<Step, Violation> {
        let (slot, call) = self.open_call(id, EventType::ToolError)?;
        Self::check_no_namespace(id, call)?;
        Ok(Step::Fail { slot })
    }

    pub(crate) fn apply(&mut self, step: Step, data: &EventData<'_>) {
        match step {
            Step::Start => {
                if let EventData::ToolStarted(started) = data {
                    self.start(started);
                }
            }
            Step::Arguments { slot } => {
                if let EventData::ToolArgumentsDelta(ToolArgumentsDelta { delta, .. }) = data {
                    self.append(slot, delta);
                }
            }
            Step::Finish { slot } => self.end(slot, Call::Finished),
            Step::Fail { slot } => self.end(slot, Call::Failed),
        }
    }

    /// The place and the tool of an open call.
    pub(crate) fn find_open(&self, id: &str) -> Option<(Slot, &Name<'static>)> {
        match self.calls.lookup(id) {
            Some((slot, Call::Open(call))) => Some((slot, &call.tool_name)),
            Some((_, Call::Finished | Call::Failed)) | None => None,
        }
    }

    /// A namespace of the call at `slot` was entered.
    pub(crate) fn namespace_entered(&mut self, slot: Slot) {
        if let Some(Call::Open(call)) = self.calls.get_mut(slot) {
            call.namespaces = call.namespaces.saturating_add(1);
        }
    }

    /// A namespace of the call at `slot` was exited.
    pub(crate) fn namespace_exited(&mut self, slot: Slot) {
        if let Some(Call::Open(call)) = self.calls.get_mut(slot) {
            call.namespaces = call.namespaces.saturating_sub(1);
        }
    }

    /// Open calls in order of their start.
    pub(crate) fn iter_open(&self) -> impl Iterator<Item = (&str, &Name<'static>)> {
        self.calls.iter().filter_map(|(id, call)| match call {
            Call::Open(open) => Some((id, &open.tool_name)),
            Call::Finished | Call::Failed => None,
        })
    }

    /// Calls that were ever started.
    pub(crate) fn started(&self) -> usize {
        self.calls.len()
    }

    /// Calls that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    fn start(&mut self, started: &ToolStarted<'_>) {
        let arguments = if started.arguments.is_empty() { Arguments::Awaited } else { Arguments::Whole };
        let tool_name = started.tool_name.clone().into_owned();
        let call = Call::Open(OpenCall { tool_name, arguments, namespaces: 0 });
        self.calls.insert(started.tool_call_id.clone().into_shared(), call);
        self.open = self.open.saturating_add(1);
    }

    fn append(&mut self, slot: Slot, delta: &str) {
        let Some(Call::Open(call)) = self.calls.touch(slot) else {
            return; // `check_arguments` found it
        };
        match &mut call.arguments {
            Arguments::Streamed(text) => text.push_str(delta),
            awaited @ Arguments::Awaited if !delta.is_empty() => {
                *awaited = Arguments::Streamed(delta.to_owned());
            }
            Arguments::Awaited | Arguments::Whole => {}
        }
    }

    fn end(&mut self, slot: Slot, end: Call) {
        if let Some(call) = self.calls.touch(slot) {
            *call = end;
            self.open = self.open.saturating_sub(1);
        }
    }

    fn open_call(&self, id: &str, event: EventType) -> Result<(Slot, &OpenCall), Violation> {
        let first = match self.calls.lookup(id) {
            Some((slot, Call::Open(call))) => return Ok((slot, call)),
            Some((_, Call::Finished)) => EventType::ToolFinished,
            Some((_, Call::Failed)) => EventType::ToolError,
            None => return Err(Violation::CallNotStarted { id: id.to_owned(), event }),
        };
        let id = id.to_owned();
        if event == EventType::ToolArgumentsDelta || event == first {
            Err(Violation::CallEnded { id, first, event })
        } else {
            Err(Violation::ToolFinishedAndFailed { id, first })
        }
    }

    fn check_no_namespace(id: &str, call: &OpenCall) -> Result<(), Violation> {
        if call.namespaces > 0 {
            Err(Violation::DelegationEndedTooEarly { id: id.to_owned() })
        } else {
            Ok(())
        }
    }
}
