//! Recordings of a worker's lines, cut into turns.
//!
//! A turn starts at `begin`, or at the first native item where there is no `begin`. It ends with its closing line, or
//! where the next `hello` or `begin` shows that the worker is gone. Nothing is judged: a line that cannot be read stays
//! with its turn, and the adapter refuses it.

use crate::worker::{Op, ToolLine, WorkerLine};

/// What is known of a turn when it starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// What it is.
    pub op: Op,
    /// The native thread, in old recordings.
    pub thread_id: Option<String>,
    /// The run, in lines of protocol 1.
    pub run_id: Option<String>,
    /// The resume value that `begin` repeats, as JSON.
    pub resume: Option<String>,
}

/// Where a line belongs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// To no turn: a blank line, or `hello`; with the latter the turn before it is over.
    Outside,
    /// To a new turn, as its first line; the turn before it is over.
    First(Head),
    /// To the current turn. It is closed by this line, or was closed before it.
    Inside,
}

/// Cuts the lines of a recording into turns as they come.
pub trait Split: Send {
    /// Whether a turn has begun whose closing line has not come.
    fn is_running(&self) -> bool;

    /// Says where the next line belongs.
    fn place(&mut self, line: &[u8]) -> Place;

    /// Whether a recording that starts with these bytes has no lines: it is then given in pieces of any size.
    fn is_binary(&self, _start: &[u8]) -> bool {
        false
    }

    /// Takes what was sent to the harness, where answers are not in its stream; gives whether that is of use.
    fn sent(&mut self, _sidecar: &[u8]) -> bool {
        false
    }
}

/// Cuts the lines of a worker.
#[derive(Clone, Debug, Default)]
pub struct Splitter {
    running: bool,
    begins: bool,
    /// The run of the current turn; the outer `None` before the first turn.
    run_id: Option<Option<String>>,
}

impl Splitter {
    /// A splitter that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a line that names this run cannot belong to the current turn.
    fn is_other(&self, run_id: &Option<String>) -> bool {
        run_id.is_some() && self.run_id.as_ref() != Some(run_id)
    }
}

impl Split for Splitter {
    fn is_running(&self) -> bool {
        self.running
    }

    fn place(&mut self, line: &[u8]) -> Place {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Place::Outside;
        }
        let fresh = |run_id| Head { op: Op::Run, thread_id: None, run_id, resume: None };
        let (run_id, closes, starts) = match WorkerLine::parse(line) {
            Ok(WorkerLine::Hello(_)) => {
                self.running = false;
                return Place::Outside;
            }
            Ok(WorkerLine::Begin { run_id, op, thread_id, resume }) => {
                (self.running, self.begins) = (true, true);
                self.run_id = Some(run_id.clone());
                return Place::First(Head {
                    op,
                    thread_id,
                    run_id,
                    resume: resume.map(|value| value.to_text()),
                });
            }
            Ok(WorkerLine::Chunk { run_id } | WorkerLine::Tool(ToolLine { run_id, .. })) => {
                (run_id, false, !self.running && !self.begins)
            }
            // An answer to a request that named no run closes nothing.
            Ok(WorkerLine::Error { run_id, .. }) => {
                let (closes, other) = (self.running || run_id.is_some(), self.is_other(&run_id));
                (run_id, closes, !self.running && other)
            }
            Ok(WorkerLine::End { run_id, .. } | WorkerLine::Cancelled { run_id, .. }) => {
                let other = self.is_other(&run_id);
                (run_id, true, !self.running && other)
            }
            Err(_) => (None, false, false),
        };
        let starts = starts || self.run_id.is_none();
        if starts {
            self.run_id = Some(run_id.clone());
            self.running = true;
        }
        self.running &= !closes;
        if starts { Place::First(fresh(run_id)) } else { Place::Inside }
    }
}

/// One turn of a recording.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordedTurn<'a> {
    /// What is known of it.
    pub head: Head,
    /// Its lines, `begin` and stray ones included, `hello` not.
    pub lines: Vec<&'a [u8]>,
}

/// Cuts the lines of a worker into turns.
pub fn turns<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vec<RecordedTurn<'a>> {
    turns_with(&mut Splitter::new(), lines)
}

/// Cuts lines into turns.
pub fn turns_with<'a>(
    splitter: &mut dyn Split,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<RecordedTurn<'a>> {
    let mut turns: Vec<RecordedTurn<'a>> = Vec::new();
    for line in lines {
        match splitter.place(line) {
            Place::Outside => {}
            Place::First(head) => turns.push(RecordedTurn { head, lines: vec![line] }),
            Place::Inside => {
                if let Some(turn) = turns.last_mut() {
                    turn.lines.push(line);
                }
            }
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(lines: &[&'static str]) -> Vec<Vec<String>> {
        let all = turns(lines.iter().map(|line| line.as_bytes()));
        all.iter()
            .map(|turn| turn.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect())
            .collect()
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
        assert_eq!(
            cut(&[BEGIN, END, CHUNK, END]),
            [vec![BEGIN, END, CHUNK, END]],
            "late lines stay with their turn"
        );
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
