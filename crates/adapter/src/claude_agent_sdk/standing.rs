//! Where a conversation of the CLI stands: its session and the newest entry of it, which together are the head.
//!
//! Shared by the adapter, which reports the head, and by whoever drives the CLI, which must know whether a process stands
//! where the next turn begins. Counts only the root's own entries: what a subagent says is kept elsewhere.

use super::native::{Line, either, owned, read};
use crate::json::Json;

/// What the lines of a turn told so far.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Standing {
    session: Option<String>,
    newest: Option<String>,
}

impl Standing {
    /// A conversation that stands at this head: an answer goes on where the question was asked.
    pub fn at(head: &str) -> Self {
        let (session, newest) = parts(head);
        Self { session: Some(session.to_owned()), newest: newest.map(str::to_owned) }
    }

    /// Takes a line in.
    pub fn see(&mut self, json: &Json<'_>) {
        let around = either(json, "event", "data").filter(|_| json.text("type").is_none()).unwrap_or(json);
        if self.session.is_none() {
            let inner = around.get("data").unwrap_or(around);
            self.session = owned(around, "session_id")
                .or_else(|| owned(inner, "session_id"))
                .filter(|id| !id.is_empty());
        }
        let said = match read(json) {
            Some(Line::Assistant(said)) if !said.is_error() && !said.is_synthetic() => said,
            Some(Line::User(said)) => said,
            Some(
                Line::Assistant(_)
                | Line::System(..)
                | Line::Stream(..)
                | Line::Result(_)
                | Line::Control(..)
                | Line::Withdrawn(_)
                | Line::End
                | Line::Cancelled
                | Line::Error(_)
                | Line::Other,
            )
            | None => return,
        };
        if said.parent().is_none() {
            self.newest = owned(said.line, "uuid").or_else(|| self.newest.take());
        }
    }

    /// Whether an entry of the conversation was seen: else the head is the session as it is now.
    pub fn is_exact(&self) -> bool {
        self.newest.is_some()
    }

    /// The head: `session:entry`, or the session alone.
    pub fn head(&self) -> Option<String> {
        let session = self.session.as_deref()?;
        Some(match &self.newest {
            Some(newest) => format!("{session}:{newest}"),
            None => session.to_owned(),
        })
    }
}

/// Session and entry of a head.
pub fn parts(head: &str) -> (&str, Option<&str>) {
    match head.split_once(':') {
        Some((session, entry)) => (session, Some(entry)),
        None => (head, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_the_session_and_the_newest_entry_of_the_root() {
        let mut standing = Standing::default();
        let mut see = |line: &str| {
            standing.see(&Json::parse(line.as_bytes()).unwrap());
            standing.head()
        };
        assert_eq!(see(r#"{"type":"control_response","response":{}}"#), None);
        assert_eq!(
            see(r#"{"type":"system","subtype":"init","session_id":"s","uuid":"x"}"#).as_deref(),
            Some("s")
        );
        for (line, head) in [
            (r#"{"type":"assistant","uuid":"a","message":{"content":[]}}"#, "s:a"),
            (r#"{"type":"assistant","uuid":"b","parent_tool_use_id":"k","message":{}}"#, "s:a"),
            (r#"{"type":"assistant","uuid":"c","error":"rate_limit","message":{}}"#, "s:a"),
            (r#"{"type":"user","uuid":"d","session_id":"t","message":{}}"#, "s:d"),
            (r#"{"type":"user","message":{}}"#, "s:d"),
        ] {
            assert_eq!(see(line).as_deref(), Some(head), "{line}");
        }
        for head in ["s:d", "s"] {
            assert_eq!(Standing::at(head).head().as_deref(), Some(head));
        }
        assert_eq!((parts("s:d"), parts("s")), (("s", Some("d")), ("s", None)));
    }
}
