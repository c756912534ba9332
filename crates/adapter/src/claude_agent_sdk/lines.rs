//! Lines that do not speak for the model: results of tools, notices, what the CLI says about subagents and retries.

use causeway_contract::event::NamespaceOutcome;
use causeway_contract::json::JsonObject;

use super::native::{Said, delegates, kind, owned};
use super::{ClaudeAgentSdk, NODE};
use crate::adapter::ItemError;
use crate::anthropic_messages::stream::result_text;
use crate::json::Json;
use crate::messages::Kind;
use crate::scribe::End;

impl ClaudeAgentSdk {
    pub(super) fn user(&mut self, said: Said<'_, '_>) {
        for block in said.blocks() {
            match kind(block) {
                "tool_result" => self.result_block(block, said.line),
                "text" if said.parent().is_none() => {
                    self.cut |= block.str("text").is_some_and(|text| text.lossy().starts_with(NOTICE));
                }
                _ => {}
            }
        }
    }

    pub(super) fn result_block(&mut self, block: &Json<'_>, line: &Json<'_>) {
        let native = owned(block, "tool_use_id").unwrap_or_default();
        let Some(at) = self.scribe.calls.open_by_native(&native) else { return };
        let text = result_text(block.get("content"), &self.scribe);
        let known = self.agents.get(&native).and_then(|agent| agent.outcome);
        if block.get("is_error") != Some(&Json::Bool(true)) {
            self.scribe.finish_as(at, End::Finished(&text), known.unwrap_or(NamespaceOutcome::Success));
            return;
        }
        let metas = line.list("tool_result_meta");
        let meta = metas.iter().find(|meta| meta.str("id").is_some_and(|id| id == native.as_str()));
        let decision = meta.and_then(|meta| meta.get("permission_decision"));
        let by_rule = self.denied.contains(&native);
        let by_user = decision.is_some_and(|decision| {
            decision.text("decision") == Some("reject")
                && decision.text("source").is_some_and(|source| source.starts_with("user"))
        });
        let asked = self.verdicts.get(&native);
        let code = match asked {
            Some(verdict) if verdict.refused.unwrap_or(by_user) => {
                if verdict.form {
                    "tool_status_error"
                } else {
                    "tool_rejected"
                }
            }
            Some(_) | None if by_rule => "tool_permission_denied",
            Some(_) | None => "tool_error",
        };
        let message = text
            .strip_prefix("<tool_use_error>")
            .and_then(|text| text.strip_suffix("</tool_use_error>"))
            .unwrap_or(&text);
        let outcome =
            known.filter(|outcome| *outcome != NamespaceOutcome::Success).unwrap_or(NamespaceOutcome::Error);
        self.scribe.finish_as(at, End::Failed(code, message), outcome);
    }

    pub(super) fn system(&mut self, subtype: &str, line: &Json<'_>) -> Result<(), ItemError> {
        match subtype {
            "init" => self.model = owned(line, "model").or_else(|| self.model.take()),
            "api_retry" => {
                self.retries += 1;
                let mut details = String::from("{");
                for key in ["attempt", "max_retries", "retry_delay_ms", "error_status"] {
                    if let Some(Json::Number(number)) = line.get(key) {
                        let comma = if details.len() > 1 { "," } else { "" };
                        details.push_str(&format!("{comma}\"{key}\":{number}"));
                    }
                }
                details.push('}');
                let details = JsonObject::parse(details, &self.scribe.options.limits).ok();
                self.scribe.warn(
                    "provider_retry",
                    "The model provider failed; the agent is trying again.",
                    details,
                );
            }
            "compact_boundary" => {
                self.scribe.warn(
                    "context_compacted",
                    "The agent summarised the conversation to make room.",
                    None,
                );
            }
            "permission_denied" => self.denied.extend(owned(line, "tool_use_id")),
            "task_started" => {
                let Some(parent) = owned(line, "tool_use_id") else { return Ok(()) };
                let is_agent = line.get("subagent_type").is_some() || self.is_delegation(&parent);
                if is_agent && self.scribe.calls.open_by_native(&parent).is_some() {
                    self.place(Some(&parent), line)?;
                }
            }
            "task_notification" => self.notified(line),
            _ => {}
        }
        Ok(())
    }

    fn is_delegation(&self, native: &str) -> bool {
        let calls = &self.scribe.calls;
        calls
            .open_by_native(native)
            .and_then(|at| calls.get(at))
            .is_some_and(|call| delegates(call.name.as_str()))
    }

    /// A subagent is over: its last text was not shown before, unless it was.
    fn notified(&mut self, line: &Json<'_>) {
        let Some(parent) = owned(line, "tool_use_id") else { return };
        let calls = &self.scribe.calls;
        let node = calls.open_by_native(&format!("{NODE}{parent}"));
        let Some(at) = calls.open_by_native(&parent).or(node) else { return };
        let Some(path) = self.scribe.inside(at) else { return };
        let outcome = match line.text("status") {
            Some("completed") => NamespaceOutcome::Success,
            Some("stopped" | "killed" | "cancelled") => NamespaceOutcome::Cancelled,
            Some(_) | None => NamespaceOutcome::Error,
        };
        let agent = self.agents.entry(parent).or_default();
        agent.outcome = Some(outcome);
        let summary = line.str("summary").filter(|_| outcome == NamespaceOutcome::Success);
        if let Some(summary) = summary {
            let last = summary.lossy().into_owned();
            if agent.said.as_ref() != Some(&last) {
                agent.said = Some(last);
                self.scribe.hush(&path);
                self.scribe.say(Kind::Text, &path, &[summary]);
                self.scribe.hush(&path);
            }
        }
        if Some(at) == node {
            let end = match outcome {
                NamespaceOutcome::Success => End::Finished(""),
                NamespaceOutcome::Interrupted | NamespaceOutcome::Cancelled | NamespaceOutcome::Error => {
                    End::Failed("tool_error", "The subagent did not complete its work.")
                }
            };
            self.scribe.finish_as(at, end, outcome);
        }
    }
}

/// What the CLI writes into the conversation when a person interrupts.
const NOTICE: &str = "[Request interrupted by user";
