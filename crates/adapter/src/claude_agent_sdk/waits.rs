//! Requests for permission that wait, and the one interrupt that they become (decisions §4, R08).
//!
//! Every request that waits is asked about; none is answered here.

use causeway_contract::event::{Decision, InterruptRequest, ToolApproval};
use causeway_contract::namespace::Namespace;

use super::native::{ASK, owned, request_id};
use super::snapshot::{Asked, Snapshot};
use super::{ClaudeAgentSdk, NODE, ask};
use crate::adapter::ItemError;
use crate::json::Json;
use crate::project;
use crate::text;

/// A request, read: nothing of it can fail when it is asked about.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    asked: Asked,
    /// The call.
    at: usize,
    /// What is asked where not all requests are forms.
    approval: ToolApproval<'static>,
}

impl ClaudeAgentSdk {
    /// Takes a request in; it is asked about at the end of the stream.
    pub(super) fn control(&mut self, id: &Json<'_>, request: &Json<'_>) -> Result<(), ItemError> {
        if request.text("subtype") != Some("can_use_tool") {
            return Ok(());
        }
        let name = owned(request, "tool_name").unwrap_or_default();
        let native = owned(request, "tool_use_id").unwrap_or_default();
        let empty = Json::Object(Vec::new());
        let input = request.get("input").filter(|input| input.is_object()).unwrap_or(&empty);
        let known = self.scribe.calls.open_by_native(&native).or_else(|| self.like(&native, &name, input));
        let at = match known {
            Some(at) => at,
            None => {
                self.scribe.hush(&Namespace::root());
                let native = if native.is_empty() { format!("{NODE}{}", id.to_text()) } else { native };
                let parent = self.message.parent();
                self.scribe.start(&native, &name, &input.to_text(), &Namespace::root(), parent)?
            }
        };
        let Some(call) = self.scribe.calls.get(at).cloned() else { return Ok(()) };
        let form = call.name == *ASK;
        let options = &self.scribe.options;
        let approval = ToolApproval {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            tool_args: project::object(input, "the input", options)?,
            allowed_decisions: if form {
                vec![Decision::Edit, Decision::Reject]
            } else {
                vec![Decision::Approve, Decision::Edit, Decision::Reject]
            },
        };
        if form {
            ask::form(input, "", options)?; // what cannot be asked is refused now
        }
        // The same call asked about again: the newer request is the one that waits.
        self.waiting.retain(|other| other.at != at);
        self.waiting.push(Waiting {
            asked: Asked {
                request: request_id(id),
                call: call.id.as_str().to_owned(),
                form,
                prefix: String::new(),
                input: input.to_text(),
            },
            at,
            approval,
        });
        Ok(())
    }

    /// A request needs no answer any more.
    pub(super) fn withdrawn(&mut self, id: &Json<'_>) {
        let id = request_id(id);
        self.waiting.retain(|waiting| waiting.asked.request != id);
    }

    /// The stream was cut: what waits is asked about, unless the turn is over.
    pub(super) fn ask(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|one| self.scribe.calls.get(one.at).is_some_and(|call| call.open));
        if waiting.is_empty() || self.cut || self.scribe.has_ended() {
            return;
        }
        self.account(None);
        let (request, asked) = self.merged(waiting);
        let mut counted = crate::usage::Totals::default();
        counted.add(self.baseline);
        counted.add(self.scribe.totals.counts());
        let snapshot = Snapshot {
            asked,
            message: self.message.id().map(str::to_owned),
            counted: counted.counts(),
            head: self.standing.head(),
        };
        let head = self.head();
        self.scribe.interrupt(request, head, snapshot.to_json());
    }

    fn merged(&self, waiting: Vec<Waiting>) -> (InterruptRequest<'static>, Vec<Asked>) {
        let forms = waiting.iter().all(|one| one.asked.form);
        let (mut approvals, mut prompts, mut fields, mut all) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let options = &self.scribe.options;
        for Waiting { mut asked, at: _, approval } in waiting {
            if forms {
                if !all.is_empty() {
                    asked.prefix = format!("{}.", all.len() + 1);
                }
                let read = Json::parse(asked.input.as_bytes()).ok();
                // It was read before, without the prefix; a field whose name is now too long stays out.
                let form = read.and_then(|input| ask::form(&input, &asked.prefix, options).ok());
                let (prompt, own) = form.unwrap_or_default();
                prompts.push(prompt);
                fields.extend(own);
            } else {
                approvals.push(approval);
            }
            all.push(asked);
        }
        if !forms {
            return (InterruptRequest::Approvals(approvals), all);
        }
        let prompt = text::cut(&prompts.join("\n\n"), options.limits.prompt_bytes).into_owned();
        (InterruptRequest::Form { prompt: prompt.into(), fields }, all)
    }

    /// The open call that an older CLI asks about without its id.
    fn like(&self, native: &str, name: &str, input: &Json<'_>) -> Option<usize> {
        let mut same =
            self.scribe.calls.open().filter(|(_, call)| call.name == *name && call.has_arguments(input));
        same.next().filter(|_| native.is_empty()).map(|(at, _)| at)
    }
}
