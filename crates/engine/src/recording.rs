//! The `recording` driver: plays a recorded native stream, one recorded turn a run.
//!
//! Refuses to pretend: it starts nothing, and its states are those that were recorded. What it gives goes through
//! adapter, coordinator and store exactly like the words of a living worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use causeway_adapter::recording::{Split, turns_with};
use causeway_adapter::worker::Op;
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

/// Conversations whose place is remembered; beyond that all start from the first turn again.
const MAX_PLACES: usize = 4096;

/// The largest recording that is loaded.
const MAX_BYTES: u64 = 256 << 20;

impl Recording {
    /// Reads a recording; `splitter` knows where the turns of its harness begin.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub(crate) fn load(config: &RecordingConfig, splitter: &mut dyn Split) -> Result<Self, String> {
        let file = config.file.display();
        let size =
            std::fs::metadata(&config.file).map_err(|error| format!("recording {file}: {error}"))?.len();
        if size > MAX_BYTES {
            return Err(format!("recording {file}: {size} bytes, the limit is {MAX_BYTES}"));
        }
        let bytes = std::fs::read(&config.file).map_err(|error| format!("recording {file}: {error}"))?;
        let turns = cut(&bytes, splitter);
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

/// Cuts a recording into its turns.
fn cut(bytes: &[u8], splitter: &mut dyn Split) -> Vec<Recorded> {
    turns_with(splitter, bytes.split(|&byte| byte == b'\n'))
        .into_iter()
        .map(|turn| Recorded {
            // A turn that went on after a kill cannot be had again: it is played as what it was, a message's.
            op: match turn.head.op {
                Op::Resume => Op::Resume,
                Op::Run | Op::Continue => Op::Run,
            },
            lines: turn.lines.into_iter().map(<[u8]>::to_vec).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use causeway_adapter::recording::Splitter;
    use causeway_contract::id::{ConversationId, Name, RunId};

    use super::*;

    fn turn(conversation: &'static str, input: TurnInput) -> Turn {
        Turn {
            owner: causeway_store::model::Owner::local(),
            agent_id: Name::new("tour").unwrap(),
            conversation_id: ConversationId::new(conversation).unwrap(),
            epoch: 0,
            run_id: RunId::new("run").unwrap(),
            thread_id: Arc::from("run"),
            base: None,
            input,
            traceparent: None,
            forget: Vec::new(),
            tools: None,
        }
    }

    fn message() -> TurnInput {
        TurnInput::Message { text: "hi".to_owned(), context: None, files: None }
    }

    #[test]
    fn every_run_of_a_conversation_plays_the_next_turn_that_fits() {
        let lines = [
            r#"{"kind":"hello"}"#,
            r#"{"kind":"begin","op":"run"}"#,
            r#"{"kind":"end","state":{"checkpoint_id":"1"}}"#,
            r#"{"kind":"begin","op":"resume"}"#,
            r#"{"kind":"end","state":{"checkpoint_id":"2"}}"#,
            r#"{"kind":"begin","op":"run"}"#,
            r#"{"kind":"end","state":{"checkpoint_id":"3"}}"#,
        ];
        let recording = Recording {
            turns: cut(lines.join("\n").as_bytes(), &mut Splitter::new()),
            pace: Pace::Fast,
            next: Mutex::default(),
        };
        let last = |conversation, input| {
            let picked = recording.pick(&turn(conversation, input))?;
            picked.lines.last().map(|line| String::from_utf8_lossy(line).into_owned())
        };
        let ends = |head: &str| Some(format!(r#"{{"kind":"end","state":{{"checkpoint_id":"{head}"}}}}"#));
        assert_eq!(last("a", message()), ends("1"));
        assert_eq!(last("a", TurnInput::Resume("1".to_owned())), ends("2"));
        assert_eq!(last("a", message()), ends("3"));
        assert_eq!(last("a", message()), ends("1"), "after the last turn the first again");
        assert_eq!(last("b", message()), ends("1"), "another conversation has a place of its own");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_recording_waits_between_lines_and_leaves_when_it_is_cancelled() {
        let lines: Arc<[Vec<u8>]> = Arc::from([b"1".to_vec(), b"2".to_vec(), b"3".to_vec()]);
        let started = Instant::now();
        let mut playing =
            Playing { refused: false, lines, at: 0, pace: Pace::RECORDED, due: started, left: false };
        assert_eq!(playing.next().await, Item::Line(b"1".to_vec()));
        assert_eq!(playing.next().await, Item::Line(b"2".to_vec()));
        assert_eq!(started.elapsed(), Duration::from_millis(50));
        playing.cancel();
        assert_eq!(playing.next().await, Item::End(TurnEnd::Broken));
    }
}
