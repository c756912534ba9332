//! Recordings of the CLI, cut into turns: a turn ends with its `result`, or with a request for permission; what follows
//! that is the turn that resumes it.
//!
//! What was sent to the CLI (`NAME.stdin.jsonl`) tells how a request was answered, and after how many lines: until then
//! further requests belong to the same interrupt. Without it the decision stays unknown, and only requests that follow
//! each other at once are taken together.

use std::collections::HashMap;

use super::native::{Line, read, request_id};
use crate::json::Json;
use crate::recording::{Head, Place, Split};
use crate::worker::{Op, parse_line};

/// Cuts lines into turns as they come.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    state: State,
    /// Lines seen.
    seen: u64,
    /// Control responses by the id of their request.
    answers: HashMap<String, Response>,
}

/// A control response that was sent.
#[derive(Clone, Debug)]
struct Response {
    /// As JSON.
    value: String,
    /// After how many lines, where that was noted.
    after: Option<u64>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum State {
    /// No turn yet, or the process is gone.
    #[default]
    Idle,
    /// A turn is running.
    Running {
        /// Its `init` came.
        init: bool,
    },
    /// The turn waits for the answers to these requests.
    Asking(Vec<String>),
    /// The turn is over; the process may still say something.
    Over,
}

/// What a line means for the cut.
enum Means {
    Nothing,
    Gone,
    Begins,
    Speaks,
    Ends,
    Asks(String),
}

impl Turns {
    fn means(line: &[u8]) -> Means {
        let Ok(json) = parse_line(line) else { return Means::Nothing };
        match json.text("kind") {
            Some("hello") if json.text("type").is_none() => return Means::Gone,
            Some("begin") if json.text("type").is_none() => return Means::Begins,
            Some(_) | None => {}
        }
        match read(&json) {
            Some(Line::System("init", _)) => Means::Begins,
            Some(Line::System(..) | Line::Stream(..) | Line::Assistant(_) | Line::User(_)) => Means::Speaks,
            Some(Line::Result(_) | Line::End | Line::Cancelled | Line::Error(_)) => Means::Ends,
            Some(Line::Control(id, request)) if request.text("subtype") == Some("can_use_tool") => {
                Means::Asks(request_id(id))
            }
            Some(Line::Control(..) | Line::Withdrawn(_) | Line::Other) | None => Means::Nothing,
        }
    }

    /// Whether the stream goes on while these requests still wait.
    fn still_asking(&self, requests: &[String], means: &Means) -> bool {
        let answers: Vec<_> = requests.iter().map(|request| self.answers.get(request)).collect();
        let unanswered = |answer: &Option<&Response>| answer.is_none_or(|answer| answer.after.is_none());
        if answers.iter().all(unanswered) {
            return matches!(means, Means::Asks(_));
        }
        // The line that comes now is the one after `seen - 1` others.
        answers
            .iter()
            .all(|answer| answer.and_then(|answer| answer.after).is_none_or(|after| after >= self.seen))
    }

    /// The one answer to these requests.
    fn answer(&self, requests: &[String]) -> Option<String> {
        let values: Option<Vec<&str>> =
            requests.iter().map(|request| Some(self.answers.get(request)?.value.as_str())).collect();
        match values?.as_slice() {
            [one] => Some((*one).to_owned()),
            many => Some(format!("[{}]", many.join(","))),
        }
    }

    fn first(&mut self, op: Op, resume: Option<String>) -> Place {
        Place::First(Head { op, thread_id: None, run_id: None, resume })
    }
}

impl Split for Turns {
    fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    fn place(&mut self, line: &[u8]) -> Place {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Place::Outside;
        }
        self.seen += 1;
        let means = Self::means(line);
        let mut before = std::mem::take(&mut self.state);
        if let State::Asking(requests) = &mut before
            && matches!(means, Means::Speaks | Means::Asks(_))
            && self.still_asking(requests, &means)
        {
            if let Means::Asks(request) = means {
                requests.push(request);
            }
            self.state = before;
            return Place::Inside;
        }
        self.state = match &means {
            Means::Gone => State::Idle,
            Means::Begins => State::Running { init: true },
            Means::Ends => State::Over,
            Means::Asks(request) => State::Asking(vec![request.clone()]),
            Means::Speaks | Means::Nothing => match &before {
                State::Running { init } => State::Running { init: *init },
                State::Idle => State::Running { init: false },
                State::Asking(_) | State::Over if matches!(means, Means::Nothing) => before.clone(),
                State::Asking(_) | State::Over => State::Running { init: false },
            },
        };
        match (before, means) {
            (_, Means::Gone) => Place::Outside,
            (State::Idle, _)
            | (State::Running { init: true } | State::Asking(_) | State::Over, Means::Begins) => {
                self.first(Op::Run, None)
            }
            (State::Running { .. }, _) => Place::Inside,
            (State::Asking(_) | State::Over, Means::Nothing) => Place::Inside,
            (State::Asking(requests), Means::Speaks | Means::Ends | Means::Asks(_)) => {
                let answer = self.answer(&requests);
                self.first(Op::Resume, answer)
            }
            // The SDK's iterator ends after the `result`.
            (State::Over, Means::Ends)
                if parse_line(line).is_ok_and(|json| json.text("kind").is_some_and(|k| k != "event")) =>
            {
                Place::Inside
            }
            // A trailing word of the process.
            (State::Over, Means::Speaks) if parse_line(line).is_ok_and(|json| is_trailing(&json)) => {
                self.state = State::Over;
                Place::Inside
            }
            (State::Over, Means::Speaks | Means::Ends | Means::Asks(_)) => self.first(Op::Run, None),
        }
    }

    fn sent(&mut self, sidecar: &[u8]) -> bool {
        for line in sidecar.split(|byte| *byte == b'\n') {
            let Ok(json) = Json::parse(line) else { continue };
            let sent = json.get("line").unwrap_or(&json);
            let Some(response) =
                sent.get("response").filter(|_| sent.text("type") == Some("control_response"))
            else {
                continue;
            };
            if let Some(request) = response.get("request_id") {
                let after = json.get("after").and_then(Json::as_u64);
                self.answers.insert(request_id(request), Response { value: sent.to_text(), after });
            }
        }
        true
    }
}

/// Whether a line after a `result` belongs to the turn that is over: anything `system`.
fn is_trailing(json: &Json<'_>) -> bool {
    matches!(read(json), Some(Line::System(..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::turns_with;

    const INIT: &str = r#"{"type":"system","subtype":"init"}"#;
    const STATUS: &str = r#"{"type":"system","subtype":"status"}"#;
    const CONTROL: &str = r#"{"type":"control_response","response":{}}"#;
    const EVENT: &str = r#"{"type":"stream_event","event":{}}"#;
    const RESULT: &str = r#"{"subtype":"success","type":"result"}"#;
    const ASK: &str = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool"}}"#;
    const SENT: &str = r#"{"after":2,"line":{"type":"control_response","response":{"request_id":"r1","response":{"behavior":"allow"}}}}"#;

    fn cut(sidecar: &str, lines: &[&'static str]) -> Vec<(Op, bool, usize)> {
        let mut split = Turns::default();
        split.sent(sidecar.as_bytes());
        let all = turns_with(&mut split, lines.iter().map(|line| line.as_bytes()));
        all.iter().map(|turn| (turn.head.op, turn.head.resume.is_some(), turn.lines.len())).collect()
    }

    #[test]
    fn a_turn_ends_with_its_result_and_the_next_begins_with_init() {
        let lines = [CONTROL, INIT, EVENT, RESULT, STATUS, CONTROL, "", INIT, EVENT, RESULT];
        assert_eq!(cut("", &lines), [(Op::Run, false, 6), (Op::Run, false, 3)]);
        assert_eq!(
            cut("", &[INIT, EVENT, INIT, RESULT]),
            [(Op::Run, false, 2), (Op::Run, false, 2)],
            "a new process"
        );
    }

    #[test]
    fn what_follows_a_request_is_the_turn_that_resumes_it() {
        let lines = [INIT, ASK, EVENT, RESULT];
        assert_eq!(cut(SENT, &lines), [(Op::Run, false, 2), (Op::Resume, true, 2)]);
        assert_eq!(cut("", &lines), [(Op::Run, false, 2), (Op::Resume, false, 2)]);
        assert_eq!(
            cut("", &[INIT, ASK, INIT, RESULT]),
            [(Op::Run, false, 2), (Op::Run, false, 2)],
            "nobody answered"
        );
    }

    #[test]
    fn requests_that_wait_at_the_same_time_are_one_interrupt() {
        let second = r#"{"type":"control_request","request_id":"r2","request":{"subtype":"can_use_tool"}}"#;
        let both = |first: u64, other: u64| {
            let line = |id: &str, after: u64| {
                format!(
                    r#"{{"after":{after},"line":{{"type":"control_response","response":{{"request_id":"{id}","response":{{"behavior":"allow"}}}}}}}}"#
                )
            };
            format!("{}\n{}", line("r1", first), line("r2", other))
        };
        let lines = [INIT, ASK, EVENT, second, EVENT, RESULT];
        assert_eq!(cut(&both(5, 5), &lines), [(Op::Run, false, 5), (Op::Resume, true, 1)]);
        let one_by_one = [(Op::Run, false, 2), (Op::Resume, true, 2), (Op::Resume, true, 2)];
        assert_eq!(cut(&both(2, 4), &lines), one_by_one);
        let (at_once, unknown) =
            ([INIT, ASK, second, EVENT, RESULT], [(Op::Run, false, 3), (Op::Resume, false, 2)]);
        assert_eq!(cut("", &at_once), unknown);
    }

    #[test]
    fn the_sdk_ends_its_iteration_after_the_result() {
        let (hello, end) = (r#"{"kind":"hello"}"#, r#"{"kind":"end"}"#);
        let result = r#"{"kind":"event","class":"ResultMessage","event":{"subtype":"success"}}"#;
        assert_eq!(cut("", &[hello, result, end]), [(Op::Run, false, 2)]);
    }
}
