//! What whoever drives the CLI must see in its lines: where it stands, whether the turn is over, and whether nothing more
//! will come until somebody answers.
//!
//! Translates nothing; the adapter reads the same lines.

use std::collections::HashSet;

use super::native::{Line, kind, owned, read, request_id};
use super::standing::Standing;
use crate::adapter::ItemError;
use crate::worker;

/// Follows the lines of one turn.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Watch {
    standing: Standing,
    /// The root's message is being streamed.
    streaming: bool,
    /// Calls without a result.
    open: HashSet<String>,
    /// Requests that wait, with the calls they are about.
    asked: Vec<(String, String)>,
}

/// What a line is to a driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Seen {
    /// The turn begins.
    Begun,
    /// The answer to a control request of ours, and whether it went well.
    Response(String, bool),
    /// The turn is over.
    Over,
    /// The model, a tool or a person is speaking.
    Said,
    /// Anything that moves nothing.
    Aside,
}

/// Whether the CLI waits for somebody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waits {
    /// Something will come by itself.
    No,
    /// It asked, and what else runs may ask too or end.
    Perhaps,
    /// Everything that is open was asked about.
    Surely,
}

impl Watch {
    /// The same once everything that was asked is answered: what runs goes on, from where the conversation stands.
    pub fn answered(mut self) -> Self {
        self.asked.clear();
        self
    }

    /// Takes a line in.
    ///
    /// # Errors
    /// It is no line of stream-json.
    pub fn see(&mut self, line: &[u8]) -> Result<Seen, ItemError> {
        let json = worker::parse_line(line)?;
        let shape = ItemError::Shape { what: "a line of stream-json" };
        if json.text("type") == Some("control_response") {
            let response = json.get("response").ok_or(shape)?;
            let id = response.get("request_id").map(request_id).unwrap_or_default();
            return Ok(Seen::Response(id, response.text("subtype") == Some("success")));
        }
        self.standing.see(&json);
        match read(&json).filter(|_| json.text("type").is_some()).ok_or(shape)? {
            Line::System("init", _) => return Ok(Seen::Begun),
            Line::Result(_) => return Ok(Seen::Over),
            Line::Stream(event, line) => {
                if owned(line, "parent_tool_use_id").is_none_or(|id| id.is_empty()) {
                    match event.text("type") {
                        Some("message_start") => self.streaming = true,
                        Some("message_stop") => self.streaming = false,
                        Some(_) | None => {}
                    }
                }
            }
            Line::Assistant(said) => {
                let calls = said.blocks().iter().filter(|block| kind(block) == "tool_use");
                self.open.extend(calls.filter_map(|block| owned(block, "id")));
            }
            Line::User(said) => {
                for block in said.blocks().iter().filter(|block| kind(block) == "tool_result") {
                    if let Some(id) = owned(block, "tool_use_id") {
                        self.asked.retain(|(_, call)| *call != id);
                        self.open.remove(&id);
                    }
                }
            }
            Line::Control(id, request) if request.text("subtype") == Some("can_use_tool") => {
                self.asked.push((request_id(id), owned(request, "tool_use_id").unwrap_or_default()));
            }
            Line::Withdrawn(id) => {
                let id = request_id(id);
                self.asked.retain(|(request, _)| *request != id);
            }
            Line::System(..)
            | Line::Control(..)
            | Line::End
            | Line::Cancelled
            | Line::Error(_)
            | Line::Other => return Ok(Seen::Aside),
        }
        Ok(Seen::Said)
    }

    /// Whether it waits for an answer. While a message is streamed it does not: its entries are written down at its end.
    pub fn waits(&self) -> Waits {
        if self.asked.is_empty() || self.streaming {
            return Waits::No;
        }
        let asked = |call: &String| self.asked.iter().any(|(_, about)| about == call);
        if self.open.iter().all(asked) { Waits::Surely } else { Waits::Perhaps }
    }

    /// The requests that wait.
    pub fn asked(&self) -> Vec<String> {
        self.asked.iter().map(|(request, _)| request.clone()).collect()
    }

    /// Where the conversation stands; `None` where that cannot be told exactly.
    pub fn head(&self) -> Option<String> {
        self.standing.head().filter(|_| self.standing.is_exact())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(watch: &mut Watch, line: &str) -> Seen {
        watch.see(line.as_bytes()).unwrap()
    }

    fn call(id: &str) -> String {
        format!(
            r#"{{"type":"assistant","uuid":"u-{id}","session_id":"s","message":{{"content":[{{"type":"tool_use","id":"{id}"}}]}}}}"#
        )
    }

    fn ask(id: &str) -> String {
        format!(
            r#"{{"type":"control_request","request_id":"r-{id}","request":{{"subtype":"can_use_tool","tool_use_id":"{id}"}}}}"#
        )
    }

    fn done(id: &str) -> String {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}"}}]}}}}"#
        )
    }

    const START: &str = r#"{"type":"stream_event","event":{"type":"message_start"}}"#;
    const STOP: &str = r#"{"type":"stream_event","event":{"type":"message_stop"}}"#;

    #[test]
    fn it_waits_once_the_message_is_over_and_all_that_is_open_was_asked_about() {
        let mut watch = Watch::default();
        for (line, waits) in [
            (START.to_owned(), Waits::No),
            (call("a"), Waits::No),
            (ask("a"), Waits::No),
            (call("b"), Waits::No),
            (call("c"), Waits::No),
            (STOP.to_owned(), Waits::Perhaps),
            (ask("b"), Waits::Perhaps),
            (done("c"), Waits::Surely),
        ] {
            assert_eq!(see(&mut watch, &line), Seen::Said);
            assert_eq!(watch.waits(), waits, "{line}");
        }
        assert_eq!(
            (watch.asked(), watch.head().as_deref()),
            (vec!["r-a".into(), "r-b".into()], Some("s:u-c"))
        );
        see(&mut watch, r#"{"type":"control_cancel_request","request_id":"r-a"}"#);
        see(&mut watch, &done("b"));
        assert_eq!((watch.waits(), watch.asked()), (Waits::No, Vec::new()));
    }

    #[test]
    fn what_is_asked_after_an_answer_is_seen_beside_what_still_runs() {
        let mut watch = Watch::default();
        for line in [call("a"), call("b"), ask("a")] {
            see(&mut watch, &line);
        }
        assert_eq!(watch.waits(), Waits::Perhaps, "b may ask too");
        let mut watch = watch.answered();
        assert_eq!((watch.waits(), watch.head().as_deref()), (Waits::No, Some("s:u-b")));
        see(&mut watch, &ask("b"));
        assert_eq!(watch.waits(), Waits::Perhaps, "a still runs");
        see(&mut watch, &done("a"));
        assert_eq!((watch.waits(), watch.asked()), (Waits::Surely, vec!["r-b".to_owned()]));
        assert_eq!(watch.head().as_deref(), Some("s:u-b"), "no entry since is none the less a place");
    }

    #[test]
    fn the_begin_the_end_and_answers_are_told_from_what_is_said() {
        let mut watch = Watch::default();
        assert_eq!(see(&mut watch, r#"{"type":"system","subtype":"init","session_id":"s"}"#), Seen::Begun);
        assert_eq!(watch.head(), None, "no entry was seen");
        assert_eq!(see(&mut watch, r#"{"type":"system","subtype":"status"}"#), Seen::Aside);
        let response = r#"{"type":"control_response","response":{"subtype":"success","request_id":"i"}}"#;
        assert_eq!(see(&mut watch, response), Seen::Response("i".to_owned(), true));
        assert_eq!(see(&mut watch, r#"{"subtype":"success","type":"result"}"#), Seen::Over);
        for bad in ["", "no", "[]", "{}", r#"{"kind":"end"}"#, r#"{"type":"assistant"}"#] {
            assert!(watch.see(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
