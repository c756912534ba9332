//! How a run of AG-UI ends: its outcome, its totals, its failures by their codes.
//!
//! Refuses to pass on a word of an error, and to call a pause that nobody can answer a success.

use causeway_contract::event::{InterruptRequest, ProviderMetadata};
use causeway_contract::id::Reference;
use causeway_contract::json::{JsonNumber, JsonObject};
use causeway_contract::namespace::Namespace;

use super::pauses::{self, Snapshot};
use super::{Agui, ours};
use crate::adapter::ItemError;
use crate::calls::Call;
use crate::failure::{self as sentences, Failure};
use crate::json::{Json, JsonStr};
use crate::metadata;
use crate::text;
use crate::usage::Counts;

const REFUSED: &str = "The call was rejected.";

impl Agui {
    pub(super) fn finished(&mut self, event: &Json<'_>) -> Result<(), ItemError> {
        self.settle_all()?;
        let outcome = event.get("outcome").unwrap_or(&Json::Null);
        let kind = outcome.text("type").or_else(|| outcome.as_str().and_then(JsonStr::as_plain));
        let head = self.head();
        match kind {
            Some("interrupt") => {
                let (request, snapshot) = match event.get("interrupt") {
                    Some(interrupt) => pauses::established(interrupt, &mut self.scribe)?,
                    None => self.asked(outcome.list("interrupts"))?,
                };
                self.told_refusals();
                self.scribe.hush_all();
                self.account(event);
                self.scribe.interrupt(request, head, snapshot.to_json());
            }
            Some("cancelled") => {
                self.account(event);
                self.cancelled();
            }
            _ if self.unanswerable => {
                self.account(event);
                self.scribe.fail(sentences::INCOMPLETE, None);
            }
            Some("success") | None => {
                self.told_refusals();
                let waits =
                    !self.established && self.scribe.calls.open().any(|(_, call)| !self.is_subagents(call));
                let native = ours(event).and_then(|ours| ours.text("stopReason"));
                let reason = if waits { "tool_use" } else { metadata::stop_reason(native) };
                self.scribe.hush_all();
                self.account(event);
                self.scribe.succeed(reason, head);
            }
            Some(_) => {
                return Err(ItemError::Shape { what: "an outcome of success, interrupt or cancelled" });
            }
        }
        Ok(())
    }

    fn asked(&mut self, interrupts: &[Json<'_>]) -> Result<(InterruptRequest<'static>, Snapshot), ItemError> {
        if interrupts.is_empty() {
            return Err(ItemError::Shape { what: "an interrupt in the outcome" });
        }
        pauses::request(interrupts, &mut self.scribe)
    }

    fn is_subagents(&self, call: &Call) -> bool {
        self.subagents
            .values()
            .any(|one| self.scribe.calls.get(one.call).is_some_and(|own| own.id == call.id))
    }

    /// A refusal is told, also where the server has no word for it.
    fn told_refusals(&mut self) {
        let open: Vec<(usize, String)> =
            self.scribe.calls.open().map(|(at, call)| (at, call.id.as_str().to_owned())).collect();
        for (at, id) in open {
            if self.refused.contains_key(&id) {
                self.end_call(at, REFUSED, None);
            }
        }
    }

    /// The totals of the run, and who made it.
    fn account(&mut self, event: &Json<'_>) {
        let mut counts = Counts::default();
        let entries = event.list("usage");
        for entry in entries {
            let number = |camel, snake| entry.get(camel).or_else(|| entry.get(snake)).and_then(Json::as_u64);
            let add = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
                (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                (sum, more) => sum.or(more),
            };
            counts.input = add(counts.input, number("inputTokens", "input_tokens"));
            counts.output = add(counts.output, number("outputTokens", "output_tokens"));
            counts.cached_input =
                add(counts.cached_input, number("cachedInputTokens", "cached_input_tokens"));
        }
        let max = self.scribe.options.limits.id_bytes;
        if let [entry] = entries
            && let (Some(provider), Some(model)) = (entry.str("provider"), entry.str("model"))
        {
            let data = ProviderMetadata {
                provider: text::name(&provider.lossy(), "unknown", max),
                model: text::name(&model.lossy(), "unknown", max),
                metadata: JsonObject::EMPTY,
            };
            self.scribe.draft(Namespace::root(), data);
        }
        self.scribe.totals.set(counts);
        let dollars = ours(event).filter(|ours| ours.text("currency") == Some("USD"));
        let cost = match dollars.and_then(|ours| ours.get("cost")) {
            Some(Json::Number(text)) => {
                JsonNumber::parse(text.to_string()).ok().filter(|cost| !cost.is_negative())
            }
            _ => None,
        };
        self.scribe.last_usage(cost);
    }

    pub(super) fn run_error(&mut self, event: &Json<'_>) {
        self.account(event);
        let code = event.str("code").map(|code| code.lossy().into_owned()).unwrap_or_default();
        if matches!(code.as_str(), "cancelled" | "CANCELLED" | "abort" | "aborted") {
            self.cancelled();
            return;
        }
        let delay = match ours(event).and_then(|ours| ours.get("retryAfterSeconds")) {
            Some(Json::Number(text)) => {
                JsonNumber::parse(text.to_string()).ok().filter(|delay| !delay.is_negative())
            }
            _ => None,
        };
        self.scribe.fail(failure(&code), delay);
    }

    pub(super) fn cancelled(&mut self) {
        let head = self.head();
        self.scribe.cancel(head);
    }

    /// The state a later run goes on from: the thread, and the run that left it so.
    fn head(&self) -> Option<Reference<'static>> {
        if self.thread.is_empty() && self.run.is_empty() {
            return None;
        }
        Reference::bounded(format!("{}/{}", self.thread, self.run), self.scribe.options.limits.id_bytes).ok()
    }
}

/// The failure behind a code of a server: one of ours, the name of an exception, or a word that says what kind it is.
fn failure(code: &str) -> Failure {
    if let Some(known) = sentences::by_code(code) {
        return known;
    }
    let lower = code.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&["rate_limit", "ratelimit", "too_many_requests", "429", "throttl"]) {
        sentences::RATE_LIMITED
    } else if says(&["overload", "unavailable", "503", "529"]) {
        sentences::UNAVAILABLE
    } else if says(&["timeout", "timed_out", "deadline"]) {
        sentences::TIMEOUT
    } else if says(&["unauthor", "authentication", "forbidden", "permission", "401", "403"]) {
        sentences::ACCESS_DENIED
    } else if says(&["context_length", "context_window", "context_too_long"]) {
        sentences::CONTEXT_TOO_LONG
    } else if says(&["content_filter", "content_policy", "safety"]) {
        sentences::CONTENT_FILTERED
    } else {
        sentences::of(code)
    }
}
