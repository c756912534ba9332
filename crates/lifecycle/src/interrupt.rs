//! R08: one interrupt per run, followed by closing events and its own `run.interrupted` only. R14: at commit that
//! terminal needs the store's receipt.

use causeway_contract::event::{
    EventData, EventType, InterruptReason, InterruptRequest, InterruptRequested, RunInterrupted,
};
use causeway_contract::id::InterruptId;

use crate::tool::Tools;
use crate::violation::Violation;

/// The interrupt that was requested and not yet concluded.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    interrupt_id: InterruptId<'static>,
    reason: InterruptReason,
}

impl Pending {
    pub(crate) fn new(requested: &InterruptRequested<'_>) -> Self {
        let interrupt_id = requested.interrupt_id.clone().into_owned();
        Self { interrupt_id, reason: requested.request.reason() }
    }

    /// R08: what may follow the request.
    pub(crate) fn check_follows(&self, data: &EventData<'_>) -> Result<(), Violation> {
        match data {
            EventData::TextFinished(_)
            | EventData::ReasoningFinished(_)
            | EventData::ToolFinished(_)
            | EventData::ToolError(_)
            | EventData::NamespaceExited(_) => Ok(()),
            EventData::RunInterrupted(interrupted) => self.check_concludes(interrupted),
            EventData::InterruptRequested(second) => {
                Err(Violation::SecondInterrupt { id: second.interrupt_id.to_string() })
            }
            EventData::RunStarted(_)
            | EventData::RunFinished(_)
            | EventData::RunCancelled(_)
            | EventData::RunError(_)
            | EventData::TextStarted(_)
            | EventData::TextDelta(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningDelta(_)
            | EventData::ToolStarted(_)
            | EventData::ToolArgumentsDelta(_)
            | EventData::NamespaceEntered(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => Err(Violation::NotAfterInterrupt {
                event: data.event_type(),
                interrupt_id: self.interrupt_id.to_string(),
            }),
        }
    }

    fn check_concludes(&self, interrupted: &RunInterrupted<'_>) -> Result<(), Violation> {
        if interrupted.interrupt_id != self.interrupt_id {
            let found = interrupted.interrupt_id.to_string();
            return Err(Violation::OtherInterrupt { requested: self.interrupt_id.to_string(), found });
        }
        if interrupted.reason != self.reason {
            return Err(Violation::OtherReason { expected: self.reason, found: interrupted.reason });
        }
        Ok(())
    }
}

/// R08 while nothing is pending: an interrupt cannot conclude.
pub(crate) fn check_none_pending(data: &EventData<'_>) -> Result<(), Violation> {
    match data.event_type() {
        EventType::RunInterrupted => Err(Violation::InterruptNotRequested),
        EventType::RunStarted
        | EventType::RunFinished
        | EventType::RunCancelled
        | EventType::RunError
        | EventType::TextStarted
        | EventType::TextDelta
        | EventType::TextFinished
        | EventType::ReasoningStarted
        | EventType::ReasoningDelta
        | EventType::ReasoningFinished
        | EventType::ToolStarted
        | EventType::ToolArgumentsDelta
        | EventType::ToolFinished
        | EventType::ToolError
        | EventType::InterruptRequested
        | EventType::NamespaceEntered
        | EventType::NamespaceExited
        | EventType::Warning
        | EventType::UsageUpdated
        | EventType::ProviderMetadata => Ok(()),
    }
}

/// R08: approvals name open calls of this run and their tools.
pub(crate) fn check_request(requested: &InterruptRequested<'_>, tools: &Tools) -> Result<(), Violation> {
    let approvals = match &requested.request {
        InterruptRequest::Form { .. } => return Ok(()),
        InterruptRequest::Approvals(approvals) => approvals,
    };
    for (index, approval) in approvals.iter().enumerate() {
        let id = &approval.tool_call_id;
        match tools.find_open(id.as_str()) {
            None => return Err(Violation::ApprovalOfNoOpenCall { index, id: id.to_string() }),
            Some((_, name)) if *name != approval.tool_name => {
                return Err(Violation::ApprovalOfOtherTool { index, id: id.to_string() });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
