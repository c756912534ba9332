//! Recordings of a worker's lines, cut into turns.
//!
//! A turn starts at `begin`, or at the first native item where there is no `begin`. It ends with its closing line, or
//! where the next `hello` or `begin` shows that the worker is gone. Nothing is judged: a line that cannot be read stays
//! with its turn, and the adapter refuses it.

use crate::adapter::ItemError;
use crate::worker::{Op, WorkerLine};

/// One turn of a recording.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordedTurn<'a> {
    /// What it is.
    pub op: Op,
    /// The native thread, in old recordings.
    pub thread_id: Option<String>,
    /// The run, in lines of protocol 1.
    pub run_id: Option<String>,
    /// The resume value that `begin` repeats, as JSON.
    pub resume: Option<String>,
    /// Its lines, `begin` and stray ones included, `hello` not.
    pub lines: Vec<&'a [u8]>,
}

/// Cuts lines into turns. Blank lines are left out.
pub fn turns<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vec<RecordedTurn<'a>> {
    let mut turns: Vec<RecordedTurn<'a>> = Vec::new();
    let (mut running, mut begins) = (false, false);
    for line in lines {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let parsed = WorkerLine::parse(line);
        let fresh = RecordedTurn { op: Op::Run, thread_id: None, run_id: None, resume: None, lines: Vec::new() };
        let closes = match parsed {
            Ok(WorkerLine::Hello(_)) => {
                running = false;
                continue;
            }
            Ok(WorkerLine::Begin { run_id, op, thread_id, resume }) => {
                let resume = resume.map(|value| value.to_text());
                turns.push(RecordedTurn { op, thread_id, run_id, resume, lines: Vec::new() });
                (running, begins) = (true, true);
                false
            }
            Ok(WorkerLine::Chunk { run_id }) => {
                if !running && !begins {
                    turns.push(RecordedTurn { run_id, ..fresh });
                    running = true;
                }
                false
            }
            // Answers to requests that named no run close nothing.
            Ok(WorkerLine::Error { ref run_id, .. }) => running || run_id.is_some() || turns.is_empty(),
            Ok(WorkerLine::End { .. } | WorkerLine::Cancelled { .. }) => true,
            Err(ItemError::Oversized { .. }) | Err(_) => false,
        };
        if turns.is_empty() || (closes && !running && begins && !is_stray(&turns, line)) {
            turns.push(RecordedTurn {
                op: Op::Run,
                thread_id: None,
                run_id: None,
                resume: None,
                lines: Vec::new(),
            });
        }
        if let Some(turn) = turns.last_mut() {
            turn.lines.push(line);
        }
        running &= !closes;
    }
    turns
}

/// Whether a closing line without `begin` belongs to the turn that is already closed: it names no other run.
fn is_stray(turns: &[RecordedTurn<'_>], line: &[u8]) -> bool {
    let Ok(parsed) = WorkerLine::parse(line) else { return true };
    let last = turns.last().and_then(|turn| turn.run_id.as_deref());
    parsed.run_id().is_none() || parsed.run_id() == last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(lines: &[&'static str]) -> Vec<Vec<String>> {
        let all = turns(lines.iter().map(|line| line.as_bytes()));
        all.iter().map(|turn| turn.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()).collect()
    }

    const HELLO: &str = r#"{"kind":"hello"}"#;
    const BEGIN: &str = r#"{"kind":"begin","op":"run"}"#;
    const CHUNK: &str = r#"{"kind":"chunk"}"#;
    const END: &str = r#"{"kind":"end"}"#;

    #[test]
    fn a_turn_ends_with_its_closing_line_or_with_the_next_hello_or_begin() {
        assert_eq!(cut(&[HELLO, BEGIN, CHUNK, END, BEGIN, END]), [vec![BEGIN, CHUNK, END], vec![BEGIN, END]]);
        assert_eq!(cut(&[HELLO, BEGIN, CHUNK, HELLO, BEGIN, END]), [vec![BEGIN, CHUNK], vec![BEGIN, END]]);
        assert_eq!(cut(&[BEGIN, CHUNK, BEGIN, END]), [vec![BEGIN, CHUNK], vec![BEGIN, END]]);
    }

    #[test]
    fn without_begin_the_first_native_item_starts_a_turn() {
        assert_eq!(cut(&["", CHUNK, CHUNK, END, CHUNK]), [vec![CHUNK, CHUNK, END], vec![CHUNK]]);
        assert_eq!(cut(&[BEGIN, END, CHUNK, END]), [vec![BEGIN, END, CHUNK, END]], "late lines stay with their turn");
        assert_eq!(cut(&["garbage"]), [vec!["garbage"]]);
        assert_eq!(cut(&[HELLO]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_refused_request_is_a_turn_of_its_own() {
        let busy = r#"{"kind":"error","run_id":"r2","error_type":"busy"}"#;
        assert_eq!(cut(&[BEGIN, END, busy]), [vec![BEGIN, END], vec![busy]]);
        let unreadable = r#"{"kind":"error","run_id":null,"error_type":"bad_request"}"#;
        assert_eq!(cut(&[BEGIN, END, unreadable]), [vec![BEGIN, END, unreadable]]);
    }
}
