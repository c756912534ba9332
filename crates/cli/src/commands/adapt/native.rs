//! Native lines to runs: where turns begin, which interrupt a turn resumes, what was decided.

use std::collections::HashMap;

use causeway_adapter::adapter::{Adapter, Close, Output};
use causeway_adapter::ids::SeededIds;
use causeway_adapter::recording::{Head, Place, Split};
use causeway_adapter::registry::Harness;
use causeway_adapter::turn::{Answer, Options, Resume, Turn};
use causeway_adapter::worker::Op;
use causeway_contract::event::EventData;
use causeway_engine::coordinator::seed::{Remains, Seed};

use super::Args;
use super::live::{Left, Live, Start};
use super::session::Session;

/// The native stream.
pub struct Native<'a> {
    harness: &'static Harness,
    args: &'a Args,
    /// `--resume-from`, for the first turn.
    given: Option<Resume>,
    splitter: Box<dyn Split>,
    number: u64,
    turn: Option<Playing>,
    /// Interrupts that wait, by native thread.
    waiting: HashMap<Option<String>, Left>,
}

/// The turn that is being played.
struct Playing {
    thread: Option<String>,
    state: State,
}

enum State {
    /// Its decisions are only known at its end.
    Gathering {
        head: Head,
        lines: Vec<(u64, Vec<u8>)>,
    },
    Playing {
        adapter: Box<dyn Adapter>,
        live: Live,
    },
}

impl<'a> Native<'a> {
    /// A stream of which nothing was read.
    pub fn new(harness: &'static Harness, args: &'a Args, given: Option<Resume>) -> Self {
        let splitter = harness.splitter();
        Self { harness, args, given, splitter, number: 0, turn: None, waiting: HashMap::new() }
    }

    /// Whether a stream that starts with these bytes is binary: it then has no lines but pieces.
    pub fn is_binary(&self, start: &[u8]) -> bool {
        self.splitter.is_binary(start)
    }

    /// Takes what was sent to the harness; gives whether the harness's turns depend on it.
    pub fn sent(&mut self, sidecar: &[u8]) -> bool {
        self.splitter.sent(sidecar)
    }

    /// Takes a line, or a piece of a binary stream.
    ///
    /// # Errors
    /// The output cannot be written, or the store failed.
    pub fn line(&mut self, line: &[u8], session: &mut Session) -> anyhow::Result<()> {
        self.number += 1;
        match self.splitter.place(line) {
            Place::Outside => {
                if !self.splitter.is_running() && !line.iter().all(u8::is_ascii_whitespace) {
                    self.end(session)?;
                }
                return Ok(());
            }
            Place::First(head) => {
                self.end(session)?;
                self.begin(head, session)?;
            }
            Place::Inside => {}
        }
        match &mut self.turn {
            Some(Playing { state: State::Gathering { lines, .. }, .. }) => {
                lines.push((self.number, line.to_vec()));
            }
            Some(Playing { state: State::Playing { adapter, live }, .. }) => {
                feed(&mut **adapter, live, line, self.number, session)?;
            }
            None => {}
        }
        Ok(())
    }

    /// The stream, or its current turn, is over.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub fn end(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let Some(Playing { thread, state }) = self.turn.take() else { return Ok(()) };
        let (mut adapter, mut live) = match state {
            State::Playing { adapter, live } => (adapter, live),
            State::Gathering { head, lines } => {
                let (mut adapter, mut live) = self.play_gathered(&head, &lines, session)?;
                for (number, line) in &lines {
                    feed(&mut *adapter, &mut live, line, *number, session)?;
                }
                (adapter, live)
            }
        };
        adapter.close(Close::End);
        drain(&mut *adapter, &mut live, session)?;
        live.closed(session)?;
        match live.left() {
            Some(left) => self.waiting.insert(thread, left),
            None => None,
        };
        Ok(())
    }

    fn begin(&mut self, head: Head, session: &mut Session) -> anyhow::Result<()> {
        let thread = head.thread_id.clone();
        if let Some(resume) = self.given.take() {
            let mut remains = Remains::new();
            remains.open_calls.clone_from(&resume.open_calls);
            remains.delegations.clone_from(&resume.delegations);
            let seed = resume.answer.as_ref().map(|answer| remains.seed(answer));
            let state = self.start(&head, Turn::Resume(resume), seed, None, session)?;
            self.turn = Some(Playing { thread, state });
            return Ok(());
        }
        let left = self.waiting.get(&thread);
        let state = match (head.op, left) {
            (Op::Run | Op::Continue, _) => self.start(&head, Turn::Start, None, None, session)?,
            (Op::Resume, None) => {
                // Nothing here was interrupted: what was is told by what happens.
                self.start(&head, Turn::Resume(Resume::default()), None, None, session)?
            }
            (Op::Resume, Some(left)) => match self.answer(&head, left) {
                None => State::Gathering { head, lines: Vec::new() },
                Some(answer) => {
                    let seed = left.remains.seed(&answer);
                    self.resume(&head, Some(answer), seed, session)?
                }
            },
        };
        self.turn = Some(Playing { thread, state });
        Ok(())
    }

    /// The decisions that `begin` carries.
    fn answer(&self, head: &Head, left: &Left) -> Option<Answer> {
        self.harness.answer_of(&left.private, head.resume.as_ref()?.as_bytes(), &self.options())
    }

    fn options(&self) -> Options {
        Options::new(self.args.agent_id.clone()).stream_arguments(self.args.stream_arguments)
    }

    fn resume(
        &mut self,
        head: &Head,
        answer: Option<Answer>,
        seed: Seed,
        session: &mut Session,
    ) -> anyhow::Result<State> {
        let Some(left) = self.waiting.remove(&head.thread_id) else {
            return self.start(head, Turn::Resume(Resume::default()), None, None, session);
        };
        let turn = Turn::Resume(told(&left, answer));
        self.start(head, turn, Some(seed), Some(left), session)
    }

    /// Starts a turn whose decisions follow from what happened in it.
    fn play_gathered(
        &mut self,
        head: &Head,
        lines: &[(u64, Vec<u8>)],
        session: &mut Session,
    ) -> anyhow::Result<(Box<dyn Adapter>, Live)> {
        let mut seed = Seed::default();
        if let Some(left) = self.waiting.get(&head.thread_id) {
            let ids = Box::new(SeededIds::new(0));
            let mut adapter = self.harness.adapter(Turn::Resume(told(left, None)), self.options(), ids);
            for (_, line) in lines {
                if adapter.handle(line).is_err() {
                    break;
                }
            }
            seed = left.remains.seed(&Answer::Dismissed);
            while let Some(output) = adapter.poll() {
                if let Output::Draft(draft) = output
                    && let EventData::ToolError(end) = draft.data
                    && end.code == *"tool_rejected"
                    && seed.open_tool_calls.contains(&end.tool_call_id)
                {
                    seed.rejected.push(end.tool_call_id);
                }
            }
        }
        match self.resume(head, None, seed, session)? {
            State::Playing { adapter, live } => Ok((adapter, live)),
            State::Gathering { .. } => anyhow::bail!("a turn was gathered twice"),
        }
    }

    fn start(
        &mut self,
        head: &Head,
        turn: Turn,
        seed: Option<Seed>,
        resumes: Option<Left>,
        session: &mut Session,
    ) -> anyhow::Result<State> {
        let run_id = session.next_run_id()?;
        let conversation_id = session.conversation(head.thread_id.as_deref())?;
        let unanswered = self.waiting.remove(&head.thread_id);
        // Ids may not repeat within a conversation epoch, so every run draws from its own.
        let runs = u64::try_from(session.runs()).unwrap_or(u64::MAX);
        let ids = SeededIds::new(self.args.seed.wrapping_mul(1_000_003).wrapping_add(runs));
        let mut adapter = self.harness.adapter(turn, self.options(), Box::new(ids));
        let harness = self.harness.id;
        let start = Start { conversation_id, run_id, harness, resumes, seed, unanswered };
        let mut live = Live::new(start, self.args, session)?;
        drain(&mut *adapter, &mut live, session)?;
        Ok(State::Playing { adapter, live })
    }
}

/// What the adapter of a resumed run is told.
fn told(left: &Left, answer: Option<Answer>) -> Resume {
    Resume {
        open_calls: left.remains.open_calls.clone(),
        delegations: left.remains.delegations.clone(),
        answer,
        private: Some(left.private.clone()),
    }
}

fn feed(
    adapter: &mut dyn Adapter,
    live: &mut Live,
    line: &[u8],
    number: u64,
    session: &mut Session,
) -> anyhow::Result<()> {
    let handled = adapter.handle(line);
    drain(adapter, live, session)?;
    if let Err(error) = handled {
        live.item_refused(&error, &format!("line {number}"), session)?;
    }
    if live.is_over() {
        session.flush()?;
    }
    Ok(())
}

fn drain(adapter: &mut dyn Adapter, live: &mut Live, session: &mut Session) -> anyhow::Result<()> {
    while let Some(output) = adapter.poll() {
        live.output(output, session)?;
    }
    Ok(())
}
