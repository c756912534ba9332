//! The `recording` driver: plays a recorded native stream, one recorded turn a run.
//!
//! Refuses to pretend: it starts nothing, and its states are those that were recorded. What it gives goes through
//! adapter, coordinator and store exactly like the words of a living worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use tokio::time::Instant;

use crate::config::{Pace, RecordingConfig};
use crate::failure::Failure;
use crate::harness::{Harness, Item, Session, Turn, TurnEnd, TurnInput};

/// A recorded native stream that can be played any number of times.
pub(crate) struct Recording {
    turns: Vec<Recorded>,
    pace: Pace,
    /// The turn that a conversation's next run plays.
    next: Mutex<HashMap<(String, u64), usize>>,
}

/// One recorded turn.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Recorded {
    op: Op,
    lines: Arc<[Vec<u8>]>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Op {
    Run,
    Resume,
}

/// Conversations whose place is remembered; beyond that all start from the first turn again.
const MAX_PLACES: usize = 4096;

/// The largest recording that is loaded.
const MAX_BYTES: u64 = 256 << 20;

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub(crate) fn load(config: &RecordingConfig) -> Result<Self, String> {
        let file = config.file.display();
        let size =
            std::fs::metadata(&config.file).map_err(|error| format!("recording {file}: {error}"))?.len();
        if size > MAX_BYTES {
            return Err(format!("recording {file}: {size} bytes, the limit is {MAX_BYTES}"));
        }
        let bytes = std::fs::read(&config.file).map_err(|error| format!("recording {file}: {error}"))?;
        let turns = split(&bytes);
        if !turns.iter().any(|turn| turn.op == Op::Run) {
            return Err(format!("recording {file}: holds no turn that a message could start"));
        }
        Ok(Self { turns, pace: config.pace, next: Mutex::default() })
    }

    /// The next turn of this conversation that fits the input; after the last one, the first again.
    fn pick(&self, turn: &Turn) -> Option<Recorded> {
        let wanted = match turn.input {
            TurnInput::Message { .. } => Op::Run,
            TurnInput::Resume(_) => Op::Resume,
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (turn.conversation_id.as_str().to_owned(), turn.epoch);
        let from = next.get(&place).copied().unwrap_or(0);
        let order = (from..self.turns.len()).chain(0..from);
        let (at, found) = order
            .filter_map(|at| Some((at, self.turns.get(at)?)))
            .find(|(_, recorded)| recorded.op == wanted)?;
        if next.len() >= MAX_PLACES && !next.contains_key(&place) {
            next.clear();
        }
        next.insert(place, at + 1);
        Some(found.clone())
    }
}

#[async_trait]
impl Harness for Recording {
    fn begin(&self, turn: Turn) -> Box<dyn Session> {
        let picked = self.pick(&turn);
        Box::new(Playing {
            refused: picked.is_none(),
            lines: picked.map_or_else(|| Arc::from([]), |recorded| recorded.lines),
            at: 0,
            pace: self.pace,
            due: Instant::now(),
            left: false,
        })
    }

    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// A turn that is being played.
struct Playing {
    refused: bool,
    lines: Arc<[Vec<u8>]>,
    at: usize,
    pace: Pace,
    due: Instant,
    left: bool,
}

#[async_trait]
impl Session for Playing {
    async fn next(&mut self) -> Item {
        if self.refused {
            return Item::End(TurnEnd::Failed(Failure::RequestRefused));
        }
        if self.left {
            return Item::End(TurnEnd::Broken);
        }
        let Some(line) = self.lines.get(self.at) else {
            return Item::End(TurnEnd::Regular);
        };
        if let Pace::Every(pause) = self.pace {
            tokio::time::sleep_until(self.due).await;
            self.due = Instant::now() + pause;
        }
        self.at += 1;
        Item::Line(line.clone())
    }

    fn cancel(&mut self) {
        self.left = true;
    }

    async fn stop(&mut self) {
        self.left = true;
    }

    fn forgot(&self) -> bool {
        true
    }
}

/// The part of a line that tells where turns begin and end.
#[derive(Deserialize)]
struct Mark {
    kind: String,
    op: Option<String>,
}

/// Splits a recording into its turns: from `begin` to the closing line, or to where the next turn or worker begins.
/// A file without such marks is one turn.
fn split(bytes: &[u8]) -> Vec<Recorded> {
    let mut turns = Vec::new();
    let mut current: Option<(Op, Vec<Vec<u8>>)> = None;
    let mut close = |turn: Option<(Op, Vec<Vec<u8>>)>| {
        if let Some((op, lines)) = turn
            && !lines.is_empty()
        {
            turns.push(Recorded { op, lines: lines.into() });
        }
    };
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let mark: Option<Mark> = serde_json::from_slice(line).ok();
        let kind = mark.as_ref().map_or("", |mark| mark.kind.as_str());
        match kind {
            "hello" => close(current.take()),
            "begin" => {
                close(current.take());
                let resumes = mark.as_ref().and_then(|mark| mark.op.as_deref()) == Some("resume");
                let op = if resumes { Op::Resume } else { Op::Run };
                current = Some((op, vec![line.to_vec()]));
            }
            _content => {
                current.get_or_insert_with(|| (Op::Run, Vec::new())).1.push(line.to_vec());
                if matches!(kind, "end" | "cancelled" | "error") {
                    close(current.take());
                }
            }
        }
    }
    close(current);
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(text: &str) -> Vec<(Op, usize)> {
        split(text.as_bytes()).iter().map(|turn| (turn.op, turn.lines.len())).collect()
    }

    #[test]
    fn a_turn_goes_from_its_begin_to_its_closing_line() {
        let text = concat!(
            "{\"kind\":\"hello\"}\n",
            "{\"kind\":\"begin\",\"op\":\"run\"}\n{\"kind\":\"chunk\"}\n{\"kind\":\"end\"}\n\n",
            "{\"kind\":\"begin\",\"op\":\"resume\"}\n{\"kind\":\"error\"}\n",
            "{\"kind\":\"begin\",\"op\":\"run\"}\n{\"kind\":\"chunk\"}\n",
            "{\"kind\":\"hello\"}\n{\"kind\":\"begin\",\"op\":\"continue\"}\n{\"kind\":\"end\"}",
        );
        assert_eq!(ops(text), [(Op::Run, 3), (Op::Resume, 2), (Op::Run, 2), (Op::Run, 2)]);
    }

    #[test]
    fn a_file_without_marks_is_one_turn() {
        assert_eq!(ops("{\"type\":\"system\"}\n{\"type\":\"result\"}\n"), [(Op::Run, 2)]);
        assert_eq!(ops("\n"), []);
    }
}
