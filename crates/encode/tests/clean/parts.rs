//! What the SDK makes of a UI message stream: a message of parts. Fails where the SDK would fail.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

/// The message so far.
#[derive(Debug, Default)]
pub struct Message {
    started: bool,
    /// Whether the last frame of a stream came.
    pub done: bool,
    pub texts: BTreeMap<String, String>,
    pub thoughts: BTreeMap<String, String>,
    pub calls: BTreeMap<String, Call>,
    open_texts: HashSet<String>,
    open_thoughts: HashSet<String>,
}

/// A tool part.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Call {
    pub name: String,
    pub input: Option<Value>,
    pub output: Option<String>,
}

impl Message {
    /// Takes the next frame of a stream for this major of the SDK.
    pub fn read(&mut self, frame: &str, sdk: u32) -> Result<(), String> {
        self.step(frame, sdk).map_err(|fault| format!("{fault}: {frame}"))
    }

    fn step(&mut self, frame: &str, sdk: u32) -> Result<(), String> {
        if self.done {
            return Err("something after the end".into());
        }
        if frame == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let frame: Value = serde_json::from_str(frame).map_err(|error| error.to_string())?;
        let text =
            |key: &str| frame[key].as_str().map(str::to_owned).ok_or_else(|| format!("{key} is no string"));
        let kind = text("type")?;
        if !self.started && !matches!(kind.as_str(), "start" | "error") {
            return Err("something before the start".into());
        }
        match kind.as_str() {
            "start" => self.started = true,
            "text-start" => {
                let id = text("id")?;
                self.texts.insert(id.clone(), String::new());
                self.open_texts.insert(id);
            }
            "text-delta" => append(&self.open_texts, &mut self.texts, &text("id")?, &text("delta")?)?,
            "text-end" => close(&mut self.open_texts, &text("id")?)?,
            "reasoning-start" => {
                let id = text("id")?;
                self.thoughts.insert(id.clone(), String::new());
                self.open_thoughts.insert(id);
            }
            "reasoning-delta" => {
                append(&self.open_thoughts, &mut self.thoughts, &text("id")?, &text("delta")?)?;
            }
            "reasoning-end" => close(&mut self.open_thoughts, &text("id")?)?,
            "tool-input-start" | "tool-input-available" => {
                let call = self.calls.entry(text("toolCallId")?).or_default();
                call.name = text("toolName")?;
                if kind == "tool-input-available" {
                    call.input = Some(frame.get("input").ok_or("no input")?.clone());
                }
            }
            "tool-input-delta" => {
                text("inputTextDelta")?;
                self.call(&text("toolCallId")?)?;
            }
            "tool-input-error" => {
                let (name, error) = (text("toolName")?, text("errorText")?);
                let call = self.call(&text("toolCallId")?)?;
                call.name = name;
                // The stand-in for the missing end is no result of the tool.
                call.output = Some(error).filter(|error| !error.contains("were not complete"));
            }
            "tool-output-available" => self.call(&text("toolCallId")?)?.output = Some(text("output")?),
            "tool-output-error" => self.call(&text("toolCallId")?)?.output = Some(text("errorText")?),
            "tool-approval-request" | "tool-output-denied" if sdk >= 6 => {
                let call = self.call(&text("toolCallId")?)?;
                if call.input.is_none() && kind == "tool-approval-request" {
                    return Err("an approval without arguments".into());
                }
            }
            "data-subagent" | "data-warning" | "data-interrupt" | "data-error" => {
                frame.get("data").filter(|data| data.is_object()).ok_or("no data")?;
            }
            "finish" => {
                let open = !self.open_texts.is_empty() || !self.open_thoughts.is_empty();
                if open || (sdk < 6 && frame.get("finishReason").is_some()) {
                    return Err("a finish that should not be".into());
                }
            }
            "error" => drop(text("errorText")?),
            "abort" => {}
            _ => return Err("a chunk that this major does not know".into()),
        }
        Ok(())
    }

    fn call(&mut self, id: &str) -> Result<&mut Call, String> {
        self.calls.get_mut(id).ok_or_else(|| "a call that is not there".to_owned())
    }
}

fn append(
    open: &HashSet<String>,
    texts: &mut BTreeMap<String, String>,
    id: &str,
    delta: &str,
) -> Result<(), String> {
    if !open.contains(id) {
        return Err("a delta without a start".into());
    }
    texts.entry(id.to_owned()).or_default().push_str(delta);
    Ok(())
}

fn close(open: &mut HashSet<String>, id: &str) -> Result<(), String> {
    if open.remove(id) { Ok(()) } else { Err("an end without a start".into()) }
}
