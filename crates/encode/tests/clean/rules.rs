//! The ordering rules of AG-UI 1.0, stated once more and by themselves: what a client that follows the specification
//! demands of a stream. Knows nothing of the encoder.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

type Owner = Option<String>;

/// What a client knows while it reads one run.
#[derive(Default)]
pub struct Reader {
    state: State,
    open_texts: HashSet<String>,
    open_thoughts: HashSet<String>,
    open_spans: HashSet<String>,
    /// Arguments so far.
    open_calls: HashMap<String, String>,
    closed_calls: HashSet<String>,
    subagents: HashSet<String>,
    past_subagents: HashSet<String>,
    /// Who opened a message or a call; kept for the whole run.
    owners: HashMap<(&'static str, String), Owner>,
    /// Every message of the conversation has a name of its own, whatever its kind.
    messages: HashSet<String>,
    ids: Option<(String, String)>,
    /// Calls that an earlier run announced.
    earlier: HashSet<String>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Before,
    Running,
    Over,
}

impl Reader {
    /// For a run that may end calls of an earlier one.
    pub fn after(earlier: impl IntoIterator<Item = String>) -> Self {
        Self { earlier: earlier.into_iter().collect(), ..Self::default() }
    }

    /// Takes the next frame.
    pub fn read(&mut self, frame: &Value) -> Result<(), String> {
        self.step(frame).map_err(|fault| format!("{fault}: {frame}"))
    }

    /// At the end of the stream.
    pub fn end(&self) -> Result<(), String> {
        demand(self.state == State::Over, "the run has no end")
    }

    fn step(&mut self, frame: &Value) -> Result<(), String> {
        let kind = frame["type"].as_str().ok_or("no type")?;
        no_nulls(frame)?;
        demand(frame["timestamp"].is_i64() || frame["timestamp"].is_u64(), "no whole timestamp")?;
        match (self.state, kind) {
            (State::Before, "RUN_STARTED") => self.state = State::Running,
            (State::Running, kind) => demand(kind != "RUN_STARTED", "started twice")?,
            (State::Before, _) => return Err("something before RUN_STARTED".into()),
            (State::Over, _) => return Err("something after the end".into()),
        }
        let owner = frame.get("subagentRunId").map(|id| id.as_str().unwrap_or_default().to_owned());
        match kind {
            "RUN_STARTED" => self.ids = Some((id(frame, "threadId")?, id(frame, "runId")?)),
            "TEXT_MESSAGE_START" => {
                demand(frame["role"] == "assistant", "not the assistant")?;
                let message = id(frame, "messageId")?;
                demand(self.messages.insert(message.clone()), "a message id comes twice")?;
                self.open("text", message.clone(), owner);
                self.open_texts.insert(message);
            }
            "TEXT_MESSAGE_CONTENT" => {
                let message = id(frame, "messageId")?;
                demand(self.open_texts.contains(&message), "no open message")?;
                demand(frame["delta"].as_str().is_some_and(|delta| !delta.is_empty()), "an empty delta")?;
                self.agrees("text", message, &owner)?;
            }
            "TEXT_MESSAGE_END" => {
                let message = id(frame, "messageId")?;
                demand(self.open_texts.remove(&message), "no open message")?;
                self.agrees("text", message, &owner)?;
            }
            "REASONING_START" => {
                let span = id(frame, "messageId")?;
                demand(self.open_spans.insert(span.clone()), "the span is open")?;
                self.open("reasoning", span, owner);
            }
            "REASONING_MESSAGE_START" => {
                demand(frame["role"] == "reasoning", "not reasoning")?;
                let message = id(frame, "messageId")?;
                demand(self.messages.insert(message.clone()), "a message id comes twice")?;
                demand(!self.open_spans.is_empty(), "outside of a span")?;
                self.agrees("reasoning", message.clone(), &owner)?;
                self.open_thoughts.insert(message);
            }
            "REASONING_MESSAGE_CONTENT" => {
                let message = id(frame, "messageId")?;
                demand(self.open_thoughts.contains(&message), "no open reasoning")?;
                demand(frame["delta"].as_str().is_some_and(|delta| !delta.is_empty()), "an empty delta")?;
                self.agrees("reasoning", message, &owner)?;
            }
            "REASONING_MESSAGE_END" => {
                let message = id(frame, "messageId")?;
                demand(self.open_thoughts.remove(&message), "no open reasoning")?;
                self.agrees("reasoning", message, &owner)?;
            }
            "REASONING_END" => {
                let span = id(frame, "messageId")?;
                demand(self.open_spans.remove(&span), "no open span")?;
                demand(!self.open_thoughts.contains(&span), "the message inside is open")?;
                self.agrees("reasoning", span, &owner)?;
            }
            "TOOL_CALL_START" => {
                let call = id(frame, "toolCallId")?;
                id(frame, "toolCallName")?;
                demand(!self.earlier.contains(&call), "an earlier run announced it")?;
                demand(!self.closed_calls.contains(&call), "announced twice")?;
                demand(self.open_calls.insert(call.clone(), String::new()).is_none(), "announced twice")?;
                if let Some(parent) = frame["parentMessageId"].as_str() {
                    let author = self.owners.get(&("text", parent.to_owned()));
                    demand(author == Some(&owner), "its message is another agent's, or unknown")?;
                }
                self.open("call", call, owner);
            }
            "TOOL_CALL_ARGS" => {
                let call = id(frame, "toolCallId")?;
                let delta = id(frame, "delta")?;
                self.open_calls.get_mut(&call).ok_or("no open call")?.push_str(&delta);
                self.agrees("call", call, &owner)?;
            }
            "TOOL_CALL_END" => {
                let call = id(frame, "toolCallId")?;
                let arguments = self.open_calls.remove(&call).ok_or("no open call")?;
                demand(!arguments.is_empty(), "a call without arguments")?;
                self.agrees("call", call.clone(), &owner)?;
                self.closed_calls.insert(call);
            }
            "TOOL_CALL_RESULT" => {
                let call = id(frame, "toolCallId")?;
                demand(frame["role"] == "tool" && frame["content"].is_string(), "no result")?;
                demand(self.messages.insert(id(frame, "messageId")?), "a message id comes twice")?;
                demand(!self.open_calls.contains_key(&call), "before TOOL_CALL_END")?;
                let known = self.closed_calls.contains(&call) || self.earlier.contains(&call);
                demand(known, "a result of no call")?;
            }
            "SUBAGENT_STARTED" => {
                let subagent = id(frame, "subagentRunId")?;
                id(frame, "name")?;
                demand(!self.past_subagents.contains(&subagent), "its name was used")?;
                if let Some(parent) = frame["parentSubagentRunId"].as_str() {
                    demand(self.subagents.contains(parent), "its parent is not active")?;
                }
                demand(self.subagents.insert(subagent), "it is active")?;
            }
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
                let subagent = id(frame, "subagentRunId")?;
                let outcome = frame["outcome"]["type"].as_str();
                let known = matches!(outcome, Some("success" | "suspended"));
                demand(kind == "SUBAGENT_ERROR" || known, "an unknown outcome")?;
                demand(kind == "SUBAGENT_FINISHED" || frame["message"].is_string(), "no message")?;
                demand(self.subagents.remove(&subagent), "it is not active")?;
                self.past_subagents.insert(subagent);
            }
            "CUSTOM" => {
                demand(frame["name"].as_str().is_some_and(|name| name.contains('.')), "no vendor")?;
                demand(frame.get("value").is_some(), "no value")?;
            }
            "RUN_FINISHED" => {
                let ids = (id(frame, "threadId")?, id(frame, "runId")?);
                demand(self.ids.as_ref() == Some(&ids), "the ids changed")?;
                demand(self.open_texts.is_empty(), "open text")?;
                demand(self.open_thoughts.is_empty() && self.open_spans.is_empty(), "open reasoning")?;
                demand(self.open_calls.is_empty(), "open calls")?;
                demand(self.subagents.is_empty(), "open subagents")?;
                self.outcome(&frame["outcome"])?;
                self.state = State::Over;
            }
            "RUN_ERROR" => {
                demand(frame["message"].is_string(), "no message")?;
                self.state = State::Over;
            }
            _ => return Err("an unknown type".into()),
        }
        Ok(())
    }

    fn outcome(&self, outcome: &Value) -> Result<(), String> {
        match outcome["type"].as_str() {
            Some("success" | "cancelled") => Ok(()),
            Some("interrupt") => {
                let interrupts = outcome["interrupts"].as_array().ok_or("no interrupts")?;
                demand(!interrupts.is_empty(), "nothing to answer")?;
                let mut ids = HashSet::new();
                for interrupt in interrupts {
                    demand(ids.insert(id(interrupt, "id")?), "two interrupts of one name")?;
                    id(interrupt, "reason")?;
                    demand(interrupt["responseSchema"]["type"] == "object", "no shape of the answer")?;
                    if let Some(call) = interrupt["toolCallId"].as_str() {
                        let known = self.closed_calls.contains(call) || self.earlier.contains(call);
                        demand(known, "an approval of no call")?;
                        let by = interrupt.get("subagentRunId").and_then(Value::as_str);
                        let caller = self.owners.get(&("call", call.to_owned()));
                        demand(caller.is_none_or(|owner| owner.as_deref() == by), "another agent's call")?;
                    }
                }
                Ok(())
            }
            _ => Err("an unknown outcome".into()),
        }
    }

    fn open(&mut self, kind: &'static str, id: String, owner: Owner) {
        self.owners.insert((kind, id), owner);
    }

    /// An absent tag never disagrees; here every frame of a subagent carries it, so absent means the root.
    fn agrees(&self, kind: &'static str, id: String, owner: &Owner) -> Result<(), String> {
        demand(self.owners.get(&(kind, id)) == Some(owner), "another agent opened it")
    }
}

fn id(frame: &Value, key: &str) -> Result<String, String> {
    frame[key].as_str().map(str::to_owned).ok_or_else(|| format!("{key} is no string"))
}

fn demand(holds: bool, fault: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault.into()) }
}

/// Absent, never null, in all that the specification describes.
fn no_nulls(frame: &Value) -> Result<(), String> {
    let members = frame.as_object().ok_or("no object")?;
    demand(members.values().all(|value| !value.is_null()), "a null")
}
