//! Runs and events as JSON of the new routes: compact, keys in the documented order, stored payloads as they stand.
//!
//! Refuses to build JSON trees: payloads were written by our own encoders and are copied through.

use std::time::{SystemTime, UNIX_EPOCH};

use causeway_contract::error::DecodeError;
use causeway_contract::event::{EventType, Sequence};
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_encode::{Seed, SeedFault};
use causeway_engine::config::{AgentConfig, Driver, OnDisconnect, Thread};
use causeway_engine::engine::HarnessInfo;
use causeway_engine::inspect::{Findings, Lint, Verdict, write_findings};
use causeway_engine::uncertain::Why;
use causeway_store::Record;
use causeway_store::model::{InterruptSummary, Run, Status};
use causeway_store::record::Payload;

use crate::stream::REPLAY;

/// One JSON object being written.
pub struct Object {
    out: String,
}

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

impl Object {
    /// An empty object.
    pub fn new() -> Self {
        Self { out: String::from("{") }
    }

    /// Adds a member whose value is JSON text already.
    pub fn raw(mut self, key: &str, json: &str) -> Self {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        self.out.push_str(&string(key));
        self.out.push(':');
        self.out.push_str(json);
        self
    }

    /// Adds a string.
    pub fn text(self, key: &str, text: &str) -> Self {
        self.raw(key, &string(text))
    }

    /// Adds a string or null.
    pub fn text_or_null(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(key, text),
            None => self.raw(key, "null"),
        }
    }

    /// Adds a number.
    pub fn number(self, key: &str, number: u64) -> Self {
        self.raw(key, &number.to_string())
    }

    /// Adds a number or null.
    pub fn number_or_null(self, key: &str, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.number(key, number),
            None => self.raw(key, "null"),
        }
    }

    /// Adds a boolean.
    pub fn flag(self, key: &str, flag: bool) -> Self {
        self.raw(key, if flag { "true" } else { "false" })
    }

    /// Adds a member only if there is a value.
    pub fn optional<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }

    /// The text of the object.
    pub fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }
}

/// A JSON array of JSON texts.
pub fn array(items: impl IntoIterator<Item = String>) -> String {
    let mut out = String::from("[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&item);
    }
    out.push(']');
    out
}

/// A run (design §4).
pub fn run(run: &Run) -> String {
    Object::new()
        .text("run_id", run.run_id.as_str())
        .text("conversation_id", run.conversation_id.as_str())
        .text("agent_id", run.agent_id.as_str())
        .text("harness_id", run.harness_id.as_str())
        .text("status", run.status.as_str())
        .text("created_at", &run.created_at.to_string())
        .text_or_null("ended_at", run.ended_at.as_ref().map(ToString::to_string).as_deref())
        .number("last_sequence", run.last_sequence.value())
        .raw("request", run.request.as_str())
        .optional(run.expired_at.as_ref(), |object, at| object.text("expired_at", &at.to_string()))
        .optional(run.error.as_ref(), |object, error| object.raw("error", error.as_str()))
        .optional((run.status == Status::Uncertain).then_some(()), |object, ()| {
            object.raw("uncertain", &uncertain(run.cause.as_deref()))
        })
        .optional(run.interrupt.as_ref(), |object, summary| object.raw("interrupt", &interrupt(summary)))
        .optional(run.resumed_from.as_ref(), |object, id| object.text("resumed_from", id.as_str()))
        .optional(run.resumed_by.as_ref(), |object, id| object.text("resumed_by", id.as_str()))
        .optional(run.seed.as_ref(), |object, seed| object.raw("seed", seed.as_str()))
        .optional(run.usage.as_ref(), |object, usage| object.raw("usage", usage.as_str()))
        .finish()
}

/// Why a run is uncertain, and what to do next.
fn uncertain(cause: Option<&str>) -> String {
    let known = cause.and_then(Why::parse);
    Object::new()
        .text_or_null("cause", cause)
        .text(
            "happened",
            known.map_or("the final state could not be saved; the cause was not kept", Why::happened),
        )
        .text("next", known.unwrap_or(Why::CommitRefused).next())
        .finish()
}

fn interrupt(summary: &InterruptSummary) -> String {
    Object::new()
        .text("interrupt_id", summary.interrupt_id.as_str())
        .text("interrupt_type", summary.interrupt_type())
        .number("revision", summary.revision.value())
        .text("status", summary.status.as_str())
        .text_or_null("expires_at", summary.expires_at.as_ref().map(ToString::to_string).as_deref())
        .optional(summary.decision.as_ref(), |object, decision| object.raw("decision", decision.as_str()))
        .finish()
}

/// An event with its envelope, as the canonical encoder would write it.
///
/// # Errors
/// When the record does not read back as an event: the log is damaged.
pub fn event(
    record: &Record,
    run_id: &RunId<'_>,
    conversation_id: &ConversationId<'_>,
) -> Result<String, DecodeError> {
    let mut out = Vec::with_capacity(record.stored_len() + 256);
    record.decode(run_id, conversation_id, &REPLAY)?.write_json(&mut out);
    // Our own writer writes UTF-8.
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// The answer of `GET /api/v1/runs/{id}/findings`.
pub fn findings(found: &Findings) -> String {
    let violations = found.refused.iter().map(|refused| {
        let sequence = refused.sequence.map(Sequence::value);
        Object::new()
            .number_or_null("index", sequence)
            .number_or_null("line", sequence.map(|number| number.saturating_add(1)))
            .number_or_null("sequence", sequence)
            .text("rule", refused.verdict.id())
            .text_or_null("type", refused.event_type.map(EventType::as_str))
            .text("message", &refused.message)
            .raw("pointer", "null")
            .finish()
    });
    let mut warnings = Vec::new();
    write_findings(&found.warnings, "code", &mut warnings);
    Object::new()
        .raw("violations", &array(violations))
        // Our own writer writes UTF-8.
        .raw("warnings", &String::from_utf8(warnings).unwrap_or_default())
        .finish()
}

/// The answer of `GET /api/v1/rules`: what a finding's `rule` or `code` stands for, in the contract's order.
pub fn rules() -> String {
    let rules = Verdict::all().map(|verdict| {
        Object::new()
            .text("id", verdict.id())
            .text("kind", "rule")
            .text("title", verdict.title())
            .text("explanation", verdict.explanation())
            .text("accepted", verdict.accepted())
            .text("rejected", verdict.rejected())
            .finish()
    });
    let lints = Lint::ALL.iter().map(|lint| {
        Object::new()
            .text("id", lint.id())
            .text("kind", "warning")
            .text("title", lint.title())
            .text("explanation", lint.explanation())
            .text("accepted", lint.example())
            .raw("rejected", "null")
            .finish()
    });
    Object::new().raw("rules", &array(rules.chain(lints))).finish()
}

/// The catalogue of harnesses: the answer of `GET /api/v1/harnesses`.
pub fn harnesses(all: &[HarnessInfo]) -> String {
    Object::new().raw("harnesses", &array(all.iter().map(harness))).finish()
}

/// A harness of the catalogue.
pub fn harness(harness: &HarnessInfo) -> String {
    let aliases = array(harness.aliases.iter().map(|alias| string(alias)));
    let notes =
        harness.capabilities.iter().fold(Object::new(), |object, can| object.text(can.name, can.note));
    let proofs = harness.capabilities.iter().fold(Object::new(), |object, can| {
        object.optional(can.proof, |object, proof| object.text(can.name, proof))
    });
    Object::new()
        .text("harness_id", harness.id)
        .text("title", harness.title)
        .raw("aliases", &aliases)
        .raw("capabilities", &capabilities(harness))
        .raw("notes", &notes.finish())
        .raw("recordings", &proofs.finish())
        .finish()
}

fn capabilities(harness: &HarnessInfo) -> String {
    let levels = harness.capabilities.iter();
    levels.fold(Object::new(), |object, can| object.text(can.name, can.level.as_str())).finish()
}

/// An agent of the catalogue. Nothing of its driver's settings: they may name files and secrets.
pub fn agent(agent: &AgentConfig, harnesses: &[HarnessInfo]) -> String {
    let harness = harnesses
        .iter()
        .find(|harness| harness.id == agent.harness || harness.aliases.contains(&agent.harness.as_str()));
    let driver = match &agent.driver {
        Driver::Process(_) => "process",
        Driver::Http(_) => "http",
        Driver::Recording(_) => "recording",
        Driver::Custom(_) => "custom",
    };
    let thread = match agent.thread {
        Thread::Durable => "durable",
        Thread::Ephemeral => "ephemeral",
    };
    let on_disconnect = match agent.on_disconnect {
        OnDisconnect::Continue => "continue",
        OnDisconnect::Cancel => "cancel",
    };
    let name = agent.name.as_ref().unwrap_or(&agent.id);
    Object::new()
        .text("agent_id", agent.id.as_str())
        .text("name", name.as_str())
        .text("harness_id", harness.map_or(agent.harness.as_str(), |harness| harness.id))
        .text("thread", thread)
        .text("driver", driver)
        .text("on_disconnect", on_disconnect)
        .number("deadline_seconds", agent.deadline.as_secs())
        .number("idle_timeout_seconds", agent.idle_timeout.as_secs())
        .flag("allow_files", agent.allow_files)
        .optional(harness, |object, harness| object.raw("capabilities", &capabilities(harness)))
        .finish()
}

/// What encoders of this run are seeded with.
///
/// # Errors
/// When the stored seed does not read back: the log is damaged.
pub fn seed(stored: Option<&Payload>) -> Result<Seed, SeedFault> {
    stored.map_or_else(|| Ok(Seed::default()), |json| Seed::from_json(json.as_str()))
}

/// The time, for the one frame that no event stands behind.
pub fn now() -> Timestamp<'static> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_micros() * 1_000)
}

fn string(text: &str) -> String {
    // A string always serialises.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_compact_and_keeps_its_order() {
        let text = Object::new()
            .text("b", "ö\"\n")
            .number("a", 3)
            .text_or_null("n", None)
            .flag("f", true)
            .optional(None::<u8>, |object, _| object.flag("never", true))
            .raw("r", &array(["1".to_owned(), "{}".to_owned()]))
            .finish();
        assert_eq!(text, "{\"b\":\"ö\\\"\\n\",\"a\":3,\"n\":null,\"f\":true,\"r\":[1,{}]}");
    }
}
