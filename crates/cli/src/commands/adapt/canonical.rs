//! Canonical events through the coordinator: what it converts, refuses and ends by itself.
//!
//! `thread_state` in `run.finished` is the store's answer: it is taken off before the yield check.

use anyhow::Context as _;
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Durability, Event, EventData, EventDraft, EventType};
use causeway_contract::id::Reference;
use causeway_contract::limits::Limits;
use causeway_engine::coordinator::{Head, Rejection, Signal};
use causeway_lifecycle::{Boundary, Rule, Thread, Validator, Verdict};

use super::live::{Live, Start};
use super::session::{Clock, Session};
use super::{Args, ThreadKind};

/// The canonical stream.
pub struct Canonical<'a> {
    args: &'a Args,
    validator: Validator,
    live: Option<Live>,
    number: u64,
}

impl<'a> Canonical<'a> {
    /// A stream of which nothing was read.
    pub fn new(args: &'a Args) -> Self {
        let thread = match args.thread {
            ThreadKind::Durable => Thread::Durable,
            ThreadKind::Ephemeral => Thread::Ephemeral,
        };
        let validator = Validator::new(Boundary::Yield, thread, Limits::DEFAULT).offline();
        Self { args, validator, live: None, number: 0 }
    }

    /// Takes a line.
    ///
    /// # Errors
    /// The output cannot be written, or the store failed.
    pub fn line(&mut self, line: &[u8], session: &mut Session) -> anyhow::Result<()> {
        self.number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let decoded = decode_line(line, &Limits::DEFAULT);
        if self.live.is_none() {
            self.live = Some(self.start(decoded.as_ref().ok(), session)?);
        }
        let live = self.live.as_mut().context("the run has started")?;
        let event = match decoded {
            Ok(event) => event.into_owned(),
            Err(error) => {
                let verdict = Verdict::from(error.check());
                return refuse(live, verdict, None, format!("line {}: {error}", self.number), session);
            }
        };
        if matches!(session.clock, Clock::System) {
            live.set_time(event.timestamp.clone());
        }
        let (event, saved) = without_state(event);
        let event_type = event.data.event_type();
        if let Err(violation) = self.validator.accept(&event, line.len()) {
            let text = format!("line {}: {violation}", self.number);
            return refuse(live, violation.rule(), Some(event_type), text, session);
        }
        match (event_type, saved) {
            (EventType::RunFinished, Saved::As(reference)) => state(live, reference, session)?,
            (EventType::RunFinished, Saved::NotAtAll) if self.args.thread == ThreadKind::Durable => {
                let text =
                    format!("line {}: a durable thread's success needs its state committed", self.number);
                let rule = Verdict::Rule(Rule::R13CommittedFinish);
                return refuse(live, rule, Some(event_type), text, session);
            }
            (EventType::RunFinished, Saved::Otherwise) => {
                let text = format!("line {}: the state of the thread is not committed", self.number);
                let rule = Verdict::Rule(Rule::R13CommittedFinish);
                return refuse(live, rule, Some(event_type), text, session);
            }
            // A canonical stream does not say what the store kept for the answer.
            (EventType::InterruptRequested, _) => state(live, Reference::new("state")?, session)?,
            _other => {}
        }
        live.draft(EventDraft { namespace: event.namespace, data: event.data }, session)
    }

    /// The stream is over.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub fn end(&mut self, session: &mut Session) -> anyhow::Result<()> {
        match self.live.take() {
            Some(mut live) => live.closed(session),
            None => Ok(()),
        }
    }

    /// The run keeps its own ids unless others are given.
    fn start(&self, first: Option<&Event<'_>>, session: &mut Session) -> anyhow::Result<Live> {
        let mut run_id = session.next_run_id()?;
        let mut conversation_id = session.conversation(None)?;
        if let Some(first) = first {
            if self.args.run_id.is_none() {
                run_id = first.run_id.clone().into_owned();
            }
            if self.args.conversation_id.is_none() {
                conversation_id = first.conversation_id.clone().into_owned();
            }
        }
        let (resumes, seed, unanswered) = (None, None, None);
        let start = Start { conversation_id, run_id, harness: "canonical", resumes, seed, unanswered };
        Live::new(start, self.args, session)
    }
}

/// What `thread_state` said.
enum Saved {
    As(Reference<'static>),
    NotAtAll,
    Otherwise,
}

fn without_state(mut event: Event<'static>) -> (Event<'static>, Saved) {
    let state = match &mut event.data {
        EventData::RunFinished(finished) => finished.thread_state.take(),
        _other => None,
    };
    let saved = match state {
        None => Saved::NotAtAll,
        Some(state) if state.durability == Durability::Committed => Saved::As(state.head_ref),
        Some(_) => Saved::Otherwise,
    };
    (event, saved)
}

fn state(live: &mut Live, reference: Reference<'static>, session: &mut Session) -> anyhow::Result<()> {
    live.tell(Signal::State(Head { reference, private: None }), session)
}

fn refuse(
    live: &mut Live,
    verdict: Verdict,
    event_type: Option<EventType>,
    message: String,
    session: &mut Session,
) -> anyhow::Result<()> {
    live.rejected(Rejection { sequence: None, event_type, verdict, message }, session)
}
