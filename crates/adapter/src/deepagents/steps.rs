//! Items of mode `updates`: what a step of the graph reports. Calls start here, and end here.

use causeway_contract::event::NamespaceOutcome;
use causeway_contract::id::MessageId;
use causeway_contract::namespace::Namespace;

use super::arguments::{Arriving, Settled};
use super::interrupt::Place;
use super::native::{ERROR_PREFIX, FORM, Report, is_model, is_review, is_tool, reports, text_pieces};
use super::resume::Refusal;
use super::{DeepAgents, Held};
use crate::adapter::{ItemError, Output};
use crate::json::Json;
use crate::project::{self, INVALID_ARGUMENTS};
use crate::text::whole;

/// What a tool message says.
enum End {
    Finished,
    Failed { code: &'static str, message: String },
}

impl DeepAgents {
    pub(super) fn step(
        &mut self,
        source: &[Json<'_>],
        data: &Json<'_>,
        bytes: &[u8],
    ) -> Result<(), ItemError> {
        let reports = reports(data);
        let unknown = self.resume.as_ref().is_some_and(|resume| resume.answer.is_none());
        let waits = |report: &&Report<'_, '_>| {
            is_review(report.node) && report.edits.is_none() && !report.messages.is_empty()
        };
        if unknown
            && self.held.len() < MAX_HELD
            && let Some(report) = reports.iter().find(waits)
        {
            let source = source.iter().filter_map(|s| s.as_str()).map(|s| s.lossy().into_owned()).collect();
            self.held.push(Held { source, node: report.node.to_owned(), line: bytes.to_vec() });
            return Ok(());
        }
        self.report(source, data, &reports, None)
    }

    /// Lets steps of this path go that waited for its next item, with the edits that item may name.
    pub(super) fn release(
        &mut self,
        source: &[Json<'_>],
        mode: &str,
        data: &Json<'_>,
    ) -> Result<(), ItemError> {
        let same = |held: &Held| {
            held.source.len() == source.len()
                && held
                    .source
                    .iter()
                    .zip(source)
                    .all(|(mine, other)| other.as_str().is_some_and(|o| o == mine.as_str()))
        };
        while let Some(at) = self.held.iter().position(same) {
            let held = self.held.remove(at);
            let names = mode == "tasks" && data.str("name").is_some_and(|name| name == held.node.as_str());
            let edits =
                data.get("result").filter(|_| names).and_then(|result| result.get("hitl_edited_tool_calls"));
            self.report_held(&held, edits)?;
        }
        Ok(())
    }

    /// Lets all of them go.
    pub(super) fn release_all(&mut self) -> Result<(), ItemError> {
        for held in std::mem::take(&mut self.held) {
            self.report_held(&held, None)?;
        }
        Ok(())
    }

    fn report_held(&mut self, held: &Held, edits: Option<&Json<'_>>) -> Result<(), ItemError> {
        let line = Json::parse(&held.line)?;
        let data = line.get("data").unwrap_or(&Json::Null);
        self.report(line.list("ns"), data, &reports(data), edits)
    }

    fn report(
        &mut self,
        source: &[Json<'_>],
        data: &Json<'_>,
        reports: &[Report<'_, '_>],
        edits: Option<&Json<'_>>,
    ) -> Result<(), ItemError> {
        let namespace = self.spaces.resolve(source);
        let parent = self.messages.close(&namespace, &mut self.out);
        for interrupt in data.list("__interrupt__") {
            if let Some(id) = interrupt.str("id") {
                self.place(&id.lossy(), &namespace, None);
            }
        }
        for report in reports {
            let edits = report.edits.or(edits);
            for message in &report.messages {
                if is_model(message) {
                    self.model(source, &namespace, message, edits, parent.as_ref())?;
                } else if is_tool(message) {
                    self.result(&namespace, message, report)?;
                }
            }
        }
        Ok(())
    }

    /// Remembers where an interrupt was raised; the innermost report comes first.
    pub(super) fn place(&mut self, interrupt: &str, namespace: &Namespace<'static>, call: Option<usize>) {
        let full = self.places.len() >= MAX_PLACES;
        match self.places.iter_mut().find(|place| place.interrupt == interrupt) {
            Some(place) => place.call = place.call.or(call),
            None if full => {}
            None => {
                let (interrupt, namespace) = (interrupt.to_owned(), namespace.clone());
                self.places.push(Place { interrupt, namespace, call });
            }
        }
    }

    /// Starts the calls of a whole model message.
    fn model(
        &mut self,
        source: &[Json<'_>],
        namespace: &Namespace<'static>,
        message: &Json<'_>,
        edits: Option<&Json<'_>>,
        parent: Option<&MessageId<'static>>,
    ) -> Result<(), ItemError> {
        let calls = message.list("tool_calls");
        let id = message.text("id");
        let settled = self.settle(source, calls);
        if calls.is_empty() || self.calls.repeats(id) {
            return Ok(());
        }
        let mut here: Vec<String> = Vec::new();
        for call in calls {
            let native = call.str("id").map(|id| id.lossy().into_owned()).unwrap_or_default();
            if settled.contains(&native) {
                continue;
            }
            let edited = edits.and_then(|edits| edits.get(&native));
            let arguments = edited.and_then(|edit| edit.get("args")).or_else(|| call.get("args"));
            let name = edited.and_then(|edit| edit.str("name")).or_else(|| call.str("name"));
            let name = name.map(|name| name.lossy().into_owned()).unwrap_or_default();
            // A message without an id cannot be told from its repetition but by what it says.
            let repeated = !here.contains(&native)
                && self.calls.open_in(&native, namespace).and_then(|at| self.calls.get(at)).is_some_and(
                    |open| {
                        (id.is_none() || open.message.is_none())
                            && open.name == *name.as_str()
                            && arguments.is_none_or(|arguments| open.has_arguments(arguments))
                    },
                );
            if !repeated {
                self.start(&native, &name, arguments, namespace, parent.cloned(), id)?;
            }
            here.push(native);
        }
        Ok(())
    }

    /// Settles the streamed calls of this path now that their message is complete; gives their native ids.
    fn settle(&mut self, source: &[Json<'_>], calls: &[Json<'_>]) -> Vec<String> {
        let mut settled = Vec::new();
        while let Some(at) = self.arriving.iter().position(|one| one.is_from(source)) {
            let one = self.arriving.remove(at);
            let made = calls.iter().find(|call| call.str("id").is_some_and(|id| id == one.native.as_str()));
            let Some(made) = made else {
                // The model's arguments could not be read: no tool will run, and no message will say so.
                let message = INVALID_ARGUMENTS.to_owned();
                self.finish(one.call, End::Failed { code: "tool_arguments_invalid", message }, "");
                continue;
            };
            let (at, native) = (one.call, one.native.clone());
            self.settle_one(one);
            if let Some(call) = self.calls.get_mut(at) {
                call.arguments = made.get("args").map_or_else(|| "{}".to_owned(), Json::to_text);
            }
            settled.push(native);
        }
        settled
    }

    /// Completes the streamed arguments of a call, or notes that they never will be an object.
    pub(super) fn settle_one(&mut self, mut one: Arriving) {
        if let Some(rest) = one.stream.end() {
            one.text.push_str(rest);
            self.argument_delta(one.call, rest);
        }
        match one.settle(&self.options.limits) {
            Settled::Whole => {}
            Settled::Completed(rest) => self.argument_delta(one.call, &rest),
            Settled::Broken => {
                if let Some(call) = self.calls.get_mut(one.call) {
                    call.broken = true;
                }
            }
        }
    }

    /// Ends the call of a tool message.
    fn result(
        &mut self,
        namespace: &Namespace<'static>,
        message: &Json<'_>,
        report: &Report<'_, '_>,
    ) -> Result<(), ItemError> {
        let native = message.str("tool_call_id").map(|id| id.lossy().into_owned()).unwrap_or_default();
        let at = match self.calls.open_in(&native, namespace) {
            Some(at) => at,
            None => match self.reopened(&native, namespace)? {
                Some(at) => at,
                None => return Ok(()),
            },
        };
        // The message that would have completed its arguments did not come.
        if let Some(arriving) = self.arriving.iter().position(|one| one.call == at) {
            let one = self.arriving.remove(arriving);
            self.settle_one(one);
        }
        let text = whole(text_pieces(message), &self.options);
        let end = self.verdict(at, message, report, &text);
        self.finish(at, end, &text);
        Ok(())
    }

    /// Starts a call of the interrupted run that only its end speaks of.
    fn reopened(&mut self, native: &str, namespace: &Namespace<'static>) -> Result<Option<usize>, ItemError> {
        let Some(resume) = &self.resume else { return Ok(None) };
        if self.calls.knows_in(native, namespace) {
            return Ok(None);
        }
        let Some(id) = self.calls.inherits(native, namespace) else { return Ok(None) };
        let Some(call) = resume.open_calls.iter().find(|call| call.id == *id).cloned() else {
            return Ok(None);
        };
        let arguments = call.arguments.as_str().to_owned();
        let arguments = Json::parse(arguments.as_bytes())?;
        self.start(native, call.name.as_str(), Some(&arguments), namespace, None, None).map(Some)
    }

    fn verdict(&self, at: usize, message: &Json<'_>, report: &Report<'_, '_>, text: &str) -> End {
        let failed = |code, message: &str| End::Failed { code, message: message.to_owned() };
        let Some(call) = self.calls.get(at) else { return End::Finished };
        let status = message.text("status") == Some("error");
        let refusal = match &self.resume {
            None => None,
            Some(resume) if resume.answer.is_some() => {
                self.verdicts.refusals.get(call.id.as_str()).copied().filter(|_| status)
            }
            // What was decided is not known: a refusal stands in one list with its call, or says so.
            Some(_) => {
                let asked = |other: &&Json<'_>| {
                    is_model(other)
                        && other
                            .list("tool_calls")
                            .iter()
                            .any(|c| c.str("id").is_some_and(|id| id == call.native.as_str()))
                };
                let marked = message.get("additional_kwargs").and_then(|kwargs| kwargs.get("lc_data"));
                let refused = marked.and_then(|data| data.text("decision")) == Some("reject")
                    || (status && report.messages.iter().any(asked));
                let refusal = if call.name == *FORM { Refusal::Dismissed } else { Refusal::Rejected };
                refused.then_some(refusal)
            }
        };
        match refusal {
            Some(Refusal::Rejected) => return failed("tool_rejected", text),
            Some(Refusal::Dismissed) => return failed("tool_status_error", text),
            None => {}
        }
        if let Some(rest) = text.strip_prefix(ERROR_PREFIX) {
            failed("tool_error", rest)
        } else if status {
            failed("tool_status_error", text)
        } else if call.broken {
            failed("tool_arguments_invalid", INVALID_ARGUMENTS)
        } else {
            End::Finished
        }
    }

    /// Leaves the call's namespace, then ends the call.
    fn finish(&mut self, at: usize, end: End, text: &str) {
        let Some(call) = self.calls.get_mut(at) else { return };
        call.open = false;
        let (id, namespace) = (call.id.clone(), call.namespace.clone());
        let outcome = match end {
            End::Finished => NamespaceOutcome::Success,
            End::Failed { .. } => NamespaceOutcome::Error,
        };
        for space in self.spaces.leave(&id) {
            self.messages.close_started_in(&space.path, &mut self.out);
            self.exit(space, outcome);
        }
        // The call's own namespace may have been left before it.
        let namespace = self.spaces.innermost(&namespace);
        match end {
            End::Failed { code, message } => {
                let data = project::failed(id, code, &message, &self.options);
                self.draft(namespace, data);
            }
            End::Finished => {
                let (whole, data) = project::finished(id, text, &self.options);
                self.out.extend(whole.map(Output::Result));
                self.draft(namespace, data);
            }
        }
    }
}

/// Steps that wait for the next item of their path at once, and interrupts whose place is remembered: more than any real
/// turn has, so that a harness run wild costs no memory.
const MAX_HELD: usize = 64;
const MAX_PLACES: usize = 1024;
