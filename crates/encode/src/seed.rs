//! What a client has already seen when a run is resumed (goldens §9.6, decisions §6).
//!
//! Refuses to guess: a seed comes from the interrupted run and the reviewer's decision, and is stored with the
//! resumed run, so that a replay hides the same frames.

use std::collections::HashSet;

use causeway_contract::error::DecodeError;
use causeway_contract::id::{IdFault, RunId, ToolCallId};
use causeway_contract::json::check_object;
use causeway_contract::json::tokens::{Token, Tokens};
use causeway_contract::limits::Limits;

use crate::json::string::Raw;
use crate::json::{put, put_string};

/// The seed of a resumed run; empty for any other run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seed {
    /// Calls that were open when the interrupted run ended.
    pub open_tool_calls: Vec<ToolCallId<'static>>,
    /// Those of them whose namespace exited `interrupted`: their start is not shown again.
    pub delegations: Vec<ToolCallId<'static>>,
    /// Those of them that a reviewer refused: neither start nor end is shown.
    pub rejected: Vec<ToolCallId<'static>>,
}

/// Why a text is not a seed.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SeedFault {
    /// It is not one JSON object.
    #[error("is not a JSON object")]
    Json(#[from] DecodeError),
    /// A key is not one of a seed's.
    #[error("has the unknown key {key:?}; known are open_tool_calls, delegations, rejected")]
    UnknownKey {
        /// The key, at most 64 characters of it.
        key: String,
    },
    /// A key comes twice.
    #[error("has {key} twice")]
    RepeatedKey {
        /// The key.
        key: &'static str,
    },
    /// A value is not what it should be.
    #[error("{key} is not {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A value is no id.
    #[error("{key} holds a value that {fault}")]
    Id {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        fault: IdFault,
    },
    /// A line of a seeds file does not say which run it is for.
    #[error("has no run_id")]
    NoRun,
}

impl Seed {
    /// A seed that hides nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it names no call at all.
    pub fn is_empty(&self) -> bool {
        self.open_tool_calls.is_empty() && self.delegations.is_empty() && self.rejected.is_empty()
    }

    /// Reads `{"open_tool_calls":[…],"delegations":[…],"rejected":[…]}`. An absent list is empty; `run_id` and
    /// `data` (what the client had posted) may stand beside them.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn from_json(text: &str) -> Result<Self, SeedFault> {
        read(text).map(|(_, seed)| seed)
    }

    /// Reads a line of a seeds file: the same object with `run_id`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn from_line(text: &str) -> Result<(RunId<'static>, Self), SeedFault> {
        let (run, seed) = read(text)?;
        Ok((run.ok_or(SeedFault::NoRun)?, seed))
    }

    /// The seed as compact JSON with all three lists.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        for (open, calls) in [
            ("{\"open_tool_calls\":[", &self.open_tool_calls),
            ("],\"delegations\":[", &self.delegations),
            ("],\"rejected\":[", &self.rejected),
        ] {
            put(&mut out, open);
            for (at, call) in calls.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                put_string::<Raw>(&mut out, call.as_str());
            }
        }
        put(&mut out, "]}");
        String::from_utf8(out).unwrap_or_default()
    }
}

const OPEN: &str = "open_tool_calls";
const DELEGATIONS: &str = "delegations";
const REJECTED: &str = "rejected";
const RUN: &str = "run_id";
const DATA: &str = "data";

fn read(text: &str) -> Result<(Option<RunId<'static>>, Seed), SeedFault> {
    check_object(text, &Limits::DEFAULT)?;
    let mut tokens = Tokens::new(text);
    tokens.next(); // the opening brace
    let (mut run, mut open, mut delegations, mut rejected, mut data) = (None, None, None, None, None);
    while let Some(Token::Key(key)) = tokens.next() {
        let key = key.to_text();
        match key.as_ref() {
            OPEN => once(&mut open, OPEN, calls(&mut tokens, OPEN)?)?,
            DELEGATIONS => once(&mut delegations, DELEGATIONS, calls(&mut tokens, DELEGATIONS)?)?,
            REJECTED => once(&mut rejected, REJECTED, calls(&mut tokens, REJECTED)?)?,
            RUN => once(&mut run, RUN, run_id(&mut tokens)?)?,
            DATA => once(&mut data, DATA, skip(&mut tokens))?,
            unknown => return Err(SeedFault::UnknownKey { key: unknown.chars().take(64).collect() }),
        }
    }
    let seed = Seed {
        open_tool_calls: open.unwrap_or_default(),
        delegations: delegations.unwrap_or_default(),
        rejected: rejected.unwrap_or_default(),
    };
    Ok((run, seed))
}

fn once<T>(slot: &mut Option<T>, key: &'static str, value: T) -> Result<(), SeedFault> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(SeedFault::RepeatedKey { key }),
    }
}

fn calls(tokens: &mut Tokens<'_>, key: &'static str) -> Result<Vec<ToolCallId<'static>>, SeedFault> {
    let wrong = || SeedFault::WrongType { key, expected: "a list of tool call ids" };
    if tokens.next() != Some(Token::BeginArray) {
        return Err(wrong());
    }
    let mut calls = Vec::new();
    loop {
        match tokens.next() {
            Some(Token::EndArray) => return Ok(calls),
            Some(Token::String(id)) => {
                let id = ToolCallId::new(id.to_text().into_owned())
                    .map_err(|fault| SeedFault::Id { key, fault })?;
                calls.push(id);
            }
            Some(
                Token::BeginObject
                | Token::EndObject
                | Token::BeginArray
                | Token::Key(_)
                | Token::Number(_)
                | Token::Bool(_)
                | Token::Null,
            )
            | None => return Err(wrong()),
        }
    }
}

fn run_id(tokens: &mut Tokens<'_>) -> Result<RunId<'static>, SeedFault> {
    let Some(Token::String(id)) = tokens.next() else {
        return Err(SeedFault::WrongType { key: RUN, expected: "a run id" });
    };
    RunId::new(id.to_text().into_owned()).map_err(|fault| SeedFault::Id { key: RUN, fault })
}

/// Moves past one value.
fn skip(tokens: &mut Tokens<'_>) {
    let mut depth = 0usize;
    for token in tokens {
        match token {
            Token::BeginObject | Token::BeginArray => depth += 1,
            Token::EndObject | Token::EndArray => depth = depth.saturating_sub(1),
            Token::Key(_) => continue,
            Token::String(_) | Token::Number(_) | Token::Bool(_) | Token::Null => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// What the two established formats drop in a resumed run. The limits of the contract bound its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden {
    starts: HashSet<ToolCallId<'static>>,
    ends: HashSet<ToolCallId<'static>>,
}

impl Hidden {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self {
            starts: seed.delegations.iter().chain(&seed.rejected).cloned().collect(),
            ends: seed.rejected.iter().cloned().collect(),
        }
    }

    /// Whether the start of a call is hidden.
    pub(crate) fn start(&self, call: &ToolCallId<'_>) -> bool {
        !self.starts.is_empty() && self.starts.contains(call.as_str())
    }

    /// Whether the end of a call is hidden.
    pub(crate) fn end(&self, call: &ToolCallId<'_>) -> bool {
        !self.ends.is_empty() && self.ends.contains(call.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&'static str]) -> Vec<ToolCallId<'static>> {
        ids.iter().map(|id| ToolCallId::new(*id).unwrap()).collect()
    }

    #[test]
    fn a_seed_is_read_back_from_its_own_json() {
        let seed = Seed {
            open_tool_calls: ids(&["call-1", "call-\"2\"", "réponse"]),
            delegations: ids(&["call-1"]),
            rejected: Vec::new(),
        };
        let text = seed.to_json();
        assert_eq!(
            text,
            r#"{"open_tool_calls":["call-1","call-\"2\"","réponse"],"delegations":["call-1"],"rejected":[]}"#
        );
        assert_eq!(Seed::from_json(&text), Ok(seed));
        assert_eq!(Seed::from_json("{}"), Ok(Seed::new()));
    }

    #[test]
    fn a_line_of_a_seeds_file_names_its_run() {
        let (run, seed) =
            Seed::from_line(r#"{"run_id":"run-2","data":{"a":[1,{}],"b":"c"},"rejected":["x"]}"#).unwrap();
        assert_eq!(run.as_str(), "run-2");
        assert_eq!(seed, Seed { rejected: ids(&["x"]), ..Seed::new() });
        assert_eq!(Seed::from_line("{}"), Err(SeedFault::NoRun));
    }

    #[test]
    fn a_text_that_is_no_seed_is_refused_with_the_reason() {
        for (text, reason) in [
            (
                r#"{"reject":[]}"#,
                "has the unknown key \"reject\"; known are open_tool_calls, delegations, rejected",
            ),
            (r#"{"rejected":[],"rejected":[]}"#, "has rejected twice"),
            (r#"{"rejected":"x"}"#, "rejected is not a list of tool call ids"),
            (r#"{"rejected":[1]}"#, "rejected is not a list of tool call ids"),
            (r#"{"rejected":[{"a":"b"}]}"#, "rejected is not a list of tool call ids"),
            (r#"{"delegations":[""]}"#, "delegations holds a value that is empty"),
            (r#"{"run_id":7}"#, "run_id is not a run id"),
        ] {
            assert_eq!(Seed::from_json(text).unwrap_err().to_string(), reason, "{text}");
        }
        for text in ["", "[]", "null", "{", "{}{}"] {
            assert!(matches!(Seed::from_json(text), Err(SeedFault::Json(_))), "{text}");
        }
    }
}
