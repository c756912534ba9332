//! The validator: one state machine for both boundaries.
//!
//! It refuses to repair: an event is accepted as it is, or refused with the rule it breaks, and then nothing has
//! changed. Rules are checked in the contract's order, so that an event which breaks several is refused by the first;
//! only then is the event applied. Work per event is constant (streamed arguments are parsed once, at the call's end),
//! memory is bounded by [`Limits`]: ids and names by the counts and bytes of a run, argument text by the bytes of a run.

use std::sync::Arc;

use causeway_contract::event::{
    Event, EventData, EventDraft, RunFinished, RunInterrupted, Sequence, SideEffectStatus,
};
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;
use causeway_contract::receipt::CommitReceipt;

use crate::budget::Budget;
use crate::interrupt;
use crate::message::{self, MessageKind, Messages};
use crate::namespace::{self, Namespaces, OpenNamespace};
use crate::order::Order;
use crate::run::{self, Run, Terminal};
use crate::schemas::ToolSchemas;
use crate::table::Slot;
use crate::tool::{self, Tools};
use crate::violation::Violation;

/// Where an event is checked (decisions §1).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Boundary {
    /// What an adapter yields: it cannot claim durability.
    Yield,
    /// What enters the log and reaches encoders: R13 and R14 apply.
    Commit,
}

/// Whether the conversation's state outlives the run (R13).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Thread {
    /// It does: `run.finished` must say that the state is committed.
    Durable,
    /// It does not.
    Ephemeral,
}

/// How R14 is shown to hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Receipts {
    /// The caller brings the store's receipt.
    Required,
    /// A recorded stream cannot show it.
    Unseen,
}

/// Checks the events of one run, one after the other.
#[derive(Clone, Debug)]
pub struct Validator {
    boundary: Boundary,
    thread: Thread,
    receipts: Receipts,
    order: Order,
    run: Run,
    messages: Messages,
    tools: Tools,
    namespaces: Namespaces,
    budget: Budget,
}

/// An event or a draft, as the rules see it.
#[derive(Clone, Copy)]
struct Facts<'e, 'a> {
    identity: Option<(&'e RunId<'a>, &'e ConversationId<'a>)>,
    sequence: Sequence,
    namespace: &'e Namespace<'a>,
    data: &'e EventData<'a>,
    encoded_len: usize,
}

/// What an event that broke no rule will change.
#[derive(Clone, Copy)]
struct Plan {
    run: run::Step,
    place: Option<Slot>,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    /// Only the run moves.
    Nothing,
    Message(MessageKind, message::Step),
    Tool(tool::Step),
    Namespace(namespace::Step),
}

/// Whether the receipt of R14 is at hand.
#[derive(Clone, Copy)]
enum Proof<'r> {
    None,
    Assumed,
    Receipt(&'r CommitReceipt),
}

impl Validator {
    /// A validator that has seen nothing yet.
    pub fn new(boundary: Boundary, thread: Thread, limits: Limits) -> Self {
        Self {
            boundary,
            thread,
            receipts: Receipts::Required,
            order: Order::default(),
            run: Run::new(),
            messages: Messages::new(),
            tools: Tools::new(),
            namespaces: Namespaces::new(),
            budget: Budget::new(limits),
        }
    }

    /// The same for recorded streams, where a receipt cannot be seen and R14 is taken on trust.
    pub fn offline(mut self) -> Self {
        self.receipts = Receipts::Unseen;
        self
    }

    /// The same that knows the schemas of tools: streamed arguments of a call that finishes must satisfy them.
    pub fn schemas(mut self, schemas: Arc<dyn ToolSchemas>) -> Self {
        self.tools.know(schemas);
        self
    }

    /// Accepts the next event. `encoded_len` is its length as one line of JSON, in bytes.
    ///
    /// # Errors
    /// The rule it breaks; then the validator is as it was before.
    pub fn accept(&mut self, event: &Event<'_>, encoded_len: usize) -> Result<(), Violation> {
        self.accept_facts(facts_of(event, encoded_len), Proof::None)
    }

    /// Accepts what an adapter yields; it is numbered without gaps from 0.
    ///
    /// # Errors
    /// The rule it breaks; then the validator is as it was before.
    pub fn accept_draft(&mut self, draft: &EventDraft<'_>, encoded_len: usize) -> Result<(), Violation> {
        let sequence = self.order.next()?;
        let facts =
            Facts { identity: None, sequence, namespace: &draft.namespace, data: &draft.data, encoded_len };
        self.accept_facts(facts, Proof::None)
    }

    /// Accepts an event that the store has committed: `run.interrupted` needs this at commit (R14), and the
    /// `thread_state` of `run.finished` is compared with the receipt (R13).
    ///
    /// # Errors
    /// The rule it breaks; then the validator is as it was before.
    pub fn accept_committed(
        &mut self,
        event: &Event<'_>,
        encoded_len: usize,
        receipt: &CommitReceipt,
    ) -> Result<(), Violation> {
        self.accept_facts(facts_of(event, encoded_len), Proof::Receipt(receipt))
    }

    /// Whether [`Validator::accept`] would accept the event if the receipt of R14 were there: to be asked before the
    /// store is.
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn would_accept(&self, event: &Event<'_>, encoded_len: usize) -> Result<(), Violation> {
        self.check(&facts_of(event, encoded_len), Proof::Assumed).map(|_| ())
    }

    /// To be called when the stream is over.
    ///
    /// # Errors
    /// R12 if the run has no terminal.
    pub fn finish(&self) -> Result<(), Violation> {
        self.run.check_end()
    }

    /// Whether `run.started` was accepted.
    pub fn is_started(&self) -> bool {
        self.run.is_started()
    }

    /// The terminal, once it was accepted.
    pub fn terminal(&self) -> Option<Terminal> {
        self.run.terminal()
    }

    /// The number of the last accepted event.
    pub fn last_sequence(&self) -> Option<Sequence> {
        self.order.last()
    }

    /// Namespaces that were entered and not exited, in order of their entry: exit them from the back (R09).
    pub fn open_namespaces(&self) -> impl DoubleEndedIterator<Item = OpenNamespace> {
        self.namespaces.iter_open()
    }

    /// Calls that have started and not ended, with their tools, in order of their start.
    pub fn open_tools(&self) -> impl Iterator<Item = (&str, &Name<'static>)> {
        self.tools.iter_open()
    }

    /// Messages that have started and not finished.
    pub fn open_messages(&self) -> impl Iterator<Item = (MessageKind, &str)> {
        self.messages.iter_open()
    }

    /// What tools may have done outside so far (decisions §6).
    pub fn side_effect_status(&self) -> SideEffectStatus {
        match (self.tools.started(), self.tools.open()) {
            (0, _) => SideEffectStatus::None,
            (_, 0) => SideEffectStatus::Known,
            (_, _) => SideEffectStatus::Possible,
        }
    }

    fn accept_facts(&mut self, facts: Facts<'_, '_>, proof: Proof<'_>) -> Result<(), Violation> {
        let plan = self.check(&facts, proof)?;
        self.apply(&facts, plan);
        Ok(())
    }

    /// Every rule, in the contract's order; changes nothing.
    fn check(&self, facts: &Facts<'_, '_>, proof: Proof<'_>) -> Result<Plan, Violation> {
        if let Some((run_id, conversation_id)) = facts.identity {
            self.run.check_identity(run_id, conversation_id)?;
        }
        self.order.check(facts.sequence)?;
        let run = self.run.check_phase(facts.sequence, facts.namespace, facts.data)?;
        let (step, place) = self.check_data(facts, proof)?;
        self.budget.check_event(facts.encoded_len)?;
        Ok(Plan { run, place, step })
    }

    fn check_data(&self, facts: &Facts<'_, '_>, proof: Proof<'_>) -> Result<(Step, Option<Slot>), Violation> {
        let (messages, tools, budget) = (&self.messages, &self.tools, &self.budget);
        let step = match facts.data {
            EventData::TextDelta(e) => Step::Message(
                MessageKind::Text,
                messages.check_delta(MessageKind::Text, e.message_id.as_str(), &e.delta, budget)?,
            ),
            EventData::TextStarted(e) => Step::Message(
                MessageKind::Text,
                messages.check_start(MessageKind::Text, e.message_id.as_str(), budget)?,
            ),
            EventData::TextFinished(e) => Step::Message(
                MessageKind::Text,
                messages.check_finish(MessageKind::Text, e.message_id.as_str())?,
            ),
            EventData::ReasoningDelta(e) => Step::Message(
                MessageKind::Reasoning,
                messages.check_delta(MessageKind::Reasoning, e.message_id.as_str(), &e.delta, budget)?,
            ),
            EventData::ReasoningStarted(e) => Step::Message(
                MessageKind::Reasoning,
                messages.check_start(MessageKind::Reasoning, e.message_id.as_str(), budget)?,
            ),
            EventData::ReasoningFinished(e) => Step::Message(
                MessageKind::Reasoning,
                messages.check_finish(MessageKind::Reasoning, e.message_id.as_str())?,
            ),
            EventData::ToolStarted(e) => Step::Tool(tools.check_start(e.tool_call_id.as_str(), budget)?),
            EventData::ToolArgumentsDelta(e) => {
                Step::Tool(tools.check_arguments(e.tool_call_id.as_str(), &e.delta, budget)?)
            }
            EventData::ToolFinished(e) => Step::Tool(tools.check_finish(e.tool_call_id.as_str(), budget)?),
            EventData::ToolError(e) => Step::Tool(tools.check_fail(e.tool_call_id.as_str())?),
            EventData::NamespaceEntered(e) => {
                let step = self.namespaces.check_enter(facts.namespace, e, tools, budget)?;
                return Ok((Step::Namespace(step), None));
            }
            EventData::NamespaceExited(e) => {
                let step = self.namespaces.check_exit(facts.namespace, e)?;
                return Ok((Step::Namespace(step), None));
            }
            EventData::InterruptRequested(e) => {
                interrupt::check_request(e, tools)?;
                Step::Nothing
            }
            EventData::RunFinished(e) => {
                self.check_place_of_terminal(facts.namespace)?;
                self.check_finished(e, proof)?;
                Step::Nothing
            }
            EventData::RunInterrupted(e) => {
                self.check_place_of_terminal(facts.namespace)?;
                self.check_interrupted(e, proof)?;
                Step::Nothing
            }
            EventData::RunCancelled(_) => {
                self.check_place_of_terminal(facts.namespace)?;
                Step::Nothing
            }
            EventData::RunError(e) => {
                self.check_place_of_terminal(facts.namespace)?;
                run::check_error(e)?;
                Step::Nothing
            }
            EventData::RunStarted(_)
            | EventData::Warning(_)
            | EventData::UsageUpdated(_)
            | EventData::ProviderMetadata(_) => Step::Nothing,
        };
        let place = self.namespaces.check_active(facts.namespace)?;
        Ok((step, place))
    }

    /// R09 and R10 at the end of a run: every namespace is exited, and the terminal stands at the root.
    fn check_place_of_terminal(&self, namespace: &Namespace<'_>) -> Result<(), Violation> {
        self.namespaces.check_all_exited()?;
        self.namespaces.check_active(namespace).map(|_| ())
    }

    /// R13 and `payload`.
    fn check_finished(&self, finished: &RunFinished<'_>, proof: Proof<'_>) -> Result<(), Violation> {
        run::check_finished(finished, self.boundary, self.thread)?;
        match (proof, &finished.thread_state) {
            (Proof::Receipt(receipt), Some(state))
                if state.durable_revision != receipt.revision() || state.head_ref != *receipt.head() =>
            {
                Err(Violation::OtherHead { revision: state.durable_revision })
            }
            (Proof::Receipt(_) | Proof::Assumed | Proof::None, _) => Ok(()),
        }
    }

    /// R14.
    fn check_interrupted(&self, interrupted: &RunInterrupted<'_>, proof: Proof<'_>) -> Result<(), Violation> {
        match (proof, self.boundary, self.receipts) {
            (Proof::None, Boundary::Commit, Receipts::Required) => {
                Err(Violation::InterruptNotCommitted { id: interrupted.interrupt_id.to_string() })
            }
            (Proof::None, Boundary::Commit, Receipts::Unseen)
            | (Proof::None, Boundary::Yield, _)
            | (Proof::Assumed | Proof::Receipt(_), _, _) => Ok(()),
        }
    }

    fn apply(&mut self, facts: &Facts<'_, '_>, plan: Plan) {
        if let Some((run_id, conversation_id)) = facts.identity {
            self.run.apply_identity(run_id, conversation_id);
        }
        self.order.apply(facts.sequence);
        self.budget.apply_event(facts.encoded_len);
        self.run.apply(plan.run, facts.sequence, facts.data);
        if let Some(place) = plan.place {
            self.namespaces.visited(place);
        }
        self.apply_step(facts, plan.step);
    }

    fn apply_step(&mut self, facts: &Facts<'_, '_>, step: Step) {
        match step {
            Step::Message(kind, step) => self.messages.apply(kind, step, facts.data, &mut self.budget),
            Step::Tool(step) => self.tools.apply(step, facts.data),
            Step::Namespace(step) => {
                self.namespaces.apply(step, facts.namespace, facts.data, &mut self.tools);
            }
            Step::Nothing => {}
        }
    }
}

fn facts_of<'e, 'a>(event: &'e Event<'a>, encoded_len: usize) -> Facts<'e, 'a> {
    Facts {
        identity: Some((&event.run_id, &event.conversation_id)),
        sequence: event.sequence,
        namespace: &event.namespace,
        data: &event.data,
        encoded_len,
    }
}
