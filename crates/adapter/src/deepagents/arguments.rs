//! Streamed tool arguments (`stream_arguments = true`): fragments joined per call, and settled once the model's message
//! is complete.
//!
//! LangChain completes broken argument JSON and runs the tool with it; the contract wants the joined deltas to be one
//! JSON object. What is missing is yielded as a last delta where it can be told.

use causeway_contract::json::check_object;
use causeway_contract::limits::Limits;

use crate::json::Json;
use crate::text::Stream;

/// One call whose arguments are arriving.
#[derive(Debug)]
pub(super) struct Arriving {
    /// The native path that streams it.
    pub source: Vec<String>,
    /// Its index in the message, as spelled.
    pub index: String,
    /// The call's native id.
    pub native: String,
    /// The call's place.
    pub call: usize,
    /// What was yielded so far.
    pub text: String,
    /// Halves of characters.
    pub stream: Stream,
}

/// What settling a call gave.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Settled {
    /// The fragments are the arguments.
    Whole,
    /// They are, with this after them.
    Completed(String),
    /// They can never be.
    Broken,
}

impl Arriving {
    /// The index of a fragment; providers without one stream a single call.
    pub(super) fn index_of(fragment: &Json<'_>) -> String {
        fragment.get("index").map(Json::to_text).unwrap_or_default()
    }

    /// Whether a fragment from there belongs to it.
    pub(super) fn takes(&self, source: &[Json<'_>], index: &str) -> bool {
        self.index == index && self.is_from(source)
    }

    /// Whether it is streamed from there.
    pub(super) fn is_from(&self, source: &[Json<'_>]) -> bool {
        self.source.len() == source.len()
            && self
                .source
                .iter()
                .zip(source)
                .all(|(mine, other)| other.as_str().is_some_and(|o| o == mine.as_str()))
    }

    /// Compares the fragments with an object.
    pub(super) fn settle(&self, limits: &Limits) -> Settled {
        if check_object(&self.text, limits).is_ok() {
            return Settled::Whole;
        }
        match completion(&self.text) {
            Some(rest) if check_object(&format!("{}{rest}", self.text), limits).is_ok() => {
                Settled::Completed(rest)
            }
            Some(_) | None => Settled::Broken,
        }
    }
}

/// What closes the strings, arrays and objects that a piece of JSON leaves open.
fn completion(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("{}".to_owned());
    }
    let mut closers = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        match (in_string, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (true, '"') => in_string = false,
            (true, _) => {}
            (false, '"') => in_string = true,
            (false, '{') => closers.push('}'),
            (false, '[') => closers.push(']'),
            (false, '}' | ']') => {
                closers.pop()?;
            }
            (false, _) => {}
        }
    }
    if escaped {
        return None;
    }
    let quote = if in_string { "\"" } else { "" };
    Some(quote.chars().chain(closers.into_iter().rev()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(text: &str) -> Settled {
        let arriving = Arriving {
            source: Vec::new(),
            index: "0".to_owned(),
            native: "c".to_owned(),
            call: 0,
            text: text.to_owned(),
            stream: Stream::default(),
        };
        arriving.settle(&Limits::DEFAULT)
    }

    #[test]
    fn broken_arguments_are_completed_where_only_closing_signs_are_missing() {
        assert_eq!(settled(r#"{"a":1}"#), Settled::Whole);
        assert_eq!(settled(r#"{"a":["x"#), Settled::Completed("\"]}".to_owned()));
        assert_eq!(settled(r#"{"a":{"b":1}"#), Settled::Completed("}".to_owned()));
        assert_eq!(settled(""), Settled::Completed("{}".to_owned()));
        assert_eq!(settled(r#"{"a":"#), Settled::Broken);
        assert_eq!(settled(r#"{"a":"x\"#), Settled::Broken);
        assert_eq!(settled("[1"), Settled::Broken);
    }
}
