//! The hand that writes the drafts of a run: messages, calls, namespaces, totals, one terminal.
//!
//! Knows no harness. It keeps what every translator has to keep, so that ends follow starts and nothing follows a
//! terminal; what a native item means is the translator's business.

use std::collections::VecDeque;

use causeway_contract::event::{
    CancelReason, EventData, EventDraft, InterruptRequest, InterruptRequested, NamespaceEntered,
    NamespaceExited, NamespaceOutcome, RunCancelled, RunError, RunFinished, RunInterrupted, RunStarted,
    ToolArgumentsDelta, ToolStarted, UsageUpdated, Warning,
};
use causeway_contract::id::{Code, HarnessId, InvocationId, MessageId, Name, Reference};
use causeway_contract::json::{JsonNumber, JsonObject};
use causeway_contract::namespace::Namespace;

use crate::adapter::{ItemError, Output, State};
use crate::calls::{Call, Calls};
use crate::failure::Failure;
use crate::ids::Ids;
use crate::json::JsonStr;
use crate::messages::{Kind, Messages};
use crate::project::{self, INVALID_ARGUMENTS};
use crate::spaces::{Space, Spaces, label};
use crate::text;
use crate::turn::{OpenCall, Options};
use crate::usage::{Counts, Totals};

/// How a call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End<'a> {
    /// With this result.
    Finished(&'a str),
    /// With this code, a constant, and this message.
    Failed(&'static str, &'a str),
}

/// Writes the drafts of one run.
pub(crate) struct Scribe {
    pub options: Options,
    pub calls: Calls,
    pub totals: Totals,
    ids: Box<dyn Ids>,
    out: VecDeque<Output>,
    messages: Messages,
    spaces: Spaces,
    ended: bool,
}

impl Scribe {
    /// A run of which `run.started` waits.
    pub(crate) fn new(harness: &'static str, options: Options, ids: Box<dyn Ids>) -> Self {
        let mut scribe = Self {
            options,
            calls: Calls::default(),
            totals: Totals::default(),
            ids,
            out: VecDeque::new(),
            messages: Messages::default(),
            spaces: Spaces::default(),
            ended: false,
        };
        scribe.root(RunStarted {
            harness_id: HarnessId::new(harness).unwrap_or_else(|_| unreachable!("a constant that is an id")),
            adapter_version: Name::new(env!("CARGO_PKG_VERSION"))
                .unwrap_or_else(|_| unreachable!("a version is a name")),
            message_id: None,
            provider_run_id: None,
        });
        scribe
    }

    /// The next output.
    pub(crate) fn next(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Whether the run has its terminal.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Says that the translator will write nothing more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn draft(&mut self, namespace: Namespace<'static>, data: impl Into<EventData<'static>>) {
        if !self.ended {
            let data = data.into();
            self.ended = data.is_terminal();
            self.out.push_back(Output::Draft(EventDraft::at(namespace, data)));
        }
    }

    fn root(&mut self, data: impl Into<EventData<'static>>) {
        self.draft(Namespace::root(), data);
    }

    /// Adds to the open message of that kind, opening one if need be.
    pub(crate) fn say(&mut self, kind: Kind, namespace: &Namespace<'static>, pieces: &[&JsonStr<'_>]) {
        if !self.ended {
            self.messages.push(kind, namespace, pieces, &self.options, &mut *self.ids, &mut self.out);
        }
    }

    /// Finishes the open messages of a namespace; gives the id of the text that was open.
    pub(crate) fn hush(&mut self, namespace: &Namespace<'static>) -> Option<MessageId<'static>> {
        if self.ended { None } else { self.messages.close(namespace, &mut self.out) }
    }

    /// Finishes all open messages.
    pub(crate) fn hush_all(&mut self) {
        if !self.ended {
            self.messages.close_all(&mut self.out);
        }
    }

    /// Starts a call whose arguments are complete: JSON text, as the harness gave it.
    ///
    /// # Errors
    /// They are no object that the contract allows.
    pub(crate) fn start(
        &mut self,
        native: &str,
        name: &str,
        arguments: &str,
        namespace: &Namespace<'static>,
        parent: Option<MessageId<'static>>,
    ) -> Result<usize, ItemError> {
        let shown = project::arguments(arguments, &self.options)?;
        Ok(self.started(native, name, arguments, shown, namespace, parent))
    }

    /// Starts a call of the interrupted run again, with the arguments that were shown or other ones.
    pub(crate) fn restart(&mut self, call: &OpenCall, edited: Option<&str>) -> usize {
        let edit = edited.and_then(|edited| Some((edited, project::arguments(edited, &self.options).ok()?)));
        let (arguments, shown) = edit.unwrap_or_else(|| (call.arguments.as_str(), call.arguments.clone()));
        self.started(call.id.as_str(), call.name.as_str(), arguments, shown, &call.namespace, None)
    }

    /// Starts a call whose arguments follow in pieces. It counts as broken until they are complete.
    pub(crate) fn start_streamed(
        &mut self,
        native: &str,
        name: &str,
        namespace: &Namespace<'static>,
        parent: Option<MessageId<'static>>,
    ) -> usize {
        let at = self.started(native, name, "{}", JsonObject::EMPTY, namespace, parent);
        if let Some(call) = self.calls.get_mut(at) {
            call.broken = true;
        }
        at
    }

    fn started(
        &mut self,
        native: &str,
        name: &str,
        arguments: &str,
        shown: JsonObject<'static>,
        namespace: &Namespace<'static>,
        parent: Option<MessageId<'static>>,
    ) -> usize {
        let max = self.options.limits.id_bytes;
        let namespace = self.spaces.innermost(namespace);
        let call = Call {
            id: self.calls.new_id(native, max),
            native: native.to_owned(),
            name: text::name(name, "tool", max),
            arguments: arguments.to_owned(),
            namespace: namespace.clone(),
            open: true,
            bound: false,
            message: None,
            broken: false,
        };
        let data = ToolStarted {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            arguments: shown,
            parent_message_id: parent,
        };
        self.draft(namespace, data);
        self.calls.add(call)
    }

    /// Yields a piece of a call's arguments.
    pub(crate) fn argument_delta(&mut self, at: usize, delta: &str) {
        let Some(call) = self.calls.get(at).filter(|call| call.open) else { return };
        let (id, namespace) = (call.id.clone(), self.spaces.innermost(&call.namespace));
        for piece in text::split(delta, self.options.limits.delta_bytes) {
            let data = ToolArgumentsDelta { tool_call_id: id.clone(), delta: piece.to_owned().into() };
            self.draft(namespace.clone(), data);
        }
    }

    /// Leaves the call's namespace, then ends the call; nothing if it has ended.
    pub(crate) fn finish(&mut self, at: usize, end: End<'_>) {
        let outcome = match end {
            End::Finished(_) => NamespaceOutcome::Success,
            End::Failed(..) => NamespaceOutcome::Error,
        };
        self.finish_as(at, end, outcome);
    }

    /// The same, where the subagent's outcome is known.
    pub(crate) fn finish_as(&mut self, at: usize, end: End<'_>, outcome: NamespaceOutcome) {
        let Some(call) = self.calls.get_mut(at).filter(|call| call.open) else { return };
        call.open = false;
        let (id, namespace, broken) = (call.id.clone(), call.namespace.clone(), call.broken);
        for space in self.spaces.leave(&id) {
            self.leave(space, outcome);
        }
        let namespace = self.spaces.innermost(&namespace);
        let data = match end {
            End::Failed(code, message) => project::failed(id, code, message, &self.options),
            End::Finished(_) if broken => {
                project::failed(id, "tool_arguments_invalid", INVALID_ARGUMENTS, &self.options)
            }
            End::Finished(text) => {
                let (whole, data) = project::finished(id, text, &self.options);
                if !self.ended {
                    self.out.extend(whole.map(Output::Result));
                }
                data
            }
        };
        self.draft(namespace, data);
    }

    /// Opens the namespace of a delegating call, if it can be; gives where its subagent's events stand.
    pub(crate) fn enter(&mut self, at: usize, agent: &str) -> Option<Namespace<'static>> {
        let call = self.calls.get(at).filter(|call| call.open)?;
        if let Some(space) = self.spaces.of(&call.id) {
            return Some(space.path.clone());
        }
        let max = self.options.limits.id_bytes;
        let (id, parent) = (call.id.clone(), self.spaces.innermost(&call.namespace));
        let agent_id = text::name(agent, "subagent", max);
        let agent_name = text::name(&label(agent_id.as_str()), "Subagent", max);
        let element = InvocationId::new(id.clone().into_shared()).ok()?;
        let space = self.spaces.open(&parent, element, &id, agent_id, &self.options.limits)?;
        let data = NamespaceEntered { agent_id: space.agent_id, agent_name, parent_tool_call_id: id };
        self.draft(space.path.clone(), data);
        Some(space.path)
    }

    /// Where the events of a call's subagent stand, if its namespace is open.
    pub(crate) fn inside(&self, at: usize) -> Option<Namespace<'static>> {
        let call = self.calls.get(at)?;
        self.spaces.of(&call.id).map(|space| space.path.clone())
    }

    /// The innermost place on the way to this one that is still open.
    pub(crate) fn innermost(&self, namespace: &Namespace<'static>) -> Namespace<'static> {
        self.spaces.innermost(namespace)
    }

    fn leave(&mut self, space: Space, outcome: NamespaceOutcome) {
        let Space { path, agent_id, call } = space;
        if !self.ended {
            self.messages.close_started_in(&path, &mut self.out);
        }
        self.draft(path, NamespaceExited { agent_id, parent_tool_call_id: call, outcome });
    }

    fn leave_all(&mut self, outcome: NamespaceOutcome) {
        for space in self.spaces.leave_all() {
            let Space { path, agent_id, call } = space;
            self.draft(path, NamespaceExited { agent_id, parent_tool_call_id: call, outcome });
        }
    }

    /// The totals of the run so far, with those of a model call that is not over.
    pub(crate) fn usage(&mut self, running: Counts) {
        let mut totals = self.totals;
        totals.add(running);
        self.root(totals.event(false));
    }

    /// The last totals of the run; nothing if nothing is known.
    pub(crate) fn last_usage(&mut self, cost: Option<JsonNumber<'static>>) {
        if self.totals.counts().is_unknown() && cost.is_none() {
            return;
        }
        let currency = cost.as_ref().map(|_| "USD".into());
        let event = UsageUpdated { cost, currency, ..self.totals.event(true) };
        self.root(event);
    }

    /// A warning: `code` and `message` are constants.
    pub(crate) fn warn(
        &mut self,
        code: &'static str,
        message: &'static str,
        details: Option<JsonObject<'static>>,
    ) {
        let code = Code::new(code).unwrap_or_else(|_| unreachable!("a constant that is a code"));
        self.root(Warning { code, message: message.into(), details });
    }

    /// `run.finished`, with the harness's state before it.
    pub(crate) fn succeed(&mut self, stop_reason: &str, head: Option<Reference<'static>>) {
        self.hush_all();
        self.leave_all(NamespaceOutcome::Success);
        self.state(head, "{}".to_owned());
        let stop_reason = Some(stop_reason.to_owned().into());
        self.root(RunFinished { stop_reason, thread_state: None });
    }

    /// `run.error`.
    pub(crate) fn fail(&mut self, failure: Failure, retry_after: Option<JsonNumber<'static>>) {
        self.leave_all(NamespaceOutcome::Error);
        let Failure { code, message, retryable } = failure;
        let data = RunError {
            code: Code::new(code).unwrap_or_else(|_| unreachable!("the codes of `failure` are codes")),
            message: message.into(),
            retryable,
            retry_after_seconds: retry_after,
            side_effect_status: self.calls.side_effects(),
        };
        self.root(data);
    }

    /// `run.cancelled`.
    pub(crate) fn cancel(&mut self, head: Option<Reference<'static>>) {
        self.leave_all(NamespaceOutcome::Cancelled);
        self.state(head, "{}".to_owned());
        let side_effect_status = self.calls.side_effects();
        self.root(RunCancelled { reason: CancelReason::ClientRequest, side_effect_status });
    }

    /// `interrupt.requested` and `run.interrupted`.
    pub(crate) fn interrupt(
        &mut self,
        request: InterruptRequest<'static>,
        head: Option<Reference<'static>>,
        private: String,
    ) {
        self.hush_all();
        self.leave_all(NamespaceOutcome::Interrupted);
        self.state(head, private);
        let interrupt_id = self.ids.next_interrupt();
        let reason = request.reason();
        let agent_id = self.options.agent_id.clone();
        self.root(InterruptRequested { interrupt_id: interrupt_id.clone(), agent_id, request });
        self.root(RunInterrupted { interrupt_id, reason });
    }

    fn state(&mut self, head: Option<Reference<'static>>, private: String) {
        if let Some(head) = head
            && !self.ended
        {
            self.out.push_back(Output::State(State { head, private }));
        }
    }
}
