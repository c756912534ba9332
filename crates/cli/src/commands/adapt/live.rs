//! One run while it is adapted: drafts go in, canonical lines come out; through the coordinator and the store, or as the
//! adapter yields them.

use std::collections::VecDeque;

use anyhow::{Context as _, bail};
use causeway_adapter::adapter::{ItemError, Output, State};
use causeway_contract::event::{Event, EventData, EventDraft, RunStarted, Sequence};
use causeway_contract::id::{ConversationId, HarnessId, InterruptId, Name, RunId};
use causeway_contract::limits::Limits;
use causeway_contract::timestamp::Timestamp;
use causeway_engine::Coordinator;
use causeway_engine::coordinator::seed::{Remains, Seed};
use causeway_engine::coordinator::{Commit, Effect, Head, Input, Outcome, Rejection, Run, Signal, Stage};
use causeway_engine::failure::Failure;
use causeway_lifecycle::Thread;
use causeway_store::Record;
use causeway_store::model::{
    self, ConsumeInterrupt, Final, Generation, HeadMove, InterruptCommit, OpenRun, Opened, Owner, Revision,
    Withdrawal,
};
use causeway_store::record::Payload;

use super::session::Session;
use super::{Args, FailCommit, ThreadKind};

/// What an interrupted run left for the one that resumes it.
#[derive(Clone, Debug)]
pub struct Left {
    run_id: RunId<'static>,
    interrupt_id: InterruptId<'static>,
    revision: Revision,
    /// Its open calls.
    pub remains: Remains,
    /// What its adapter must remember.
    pub private: String,
}

/// What is known of a run before it starts.
pub struct Start<'a> {
    /// Its conversation.
    pub conversation_id: ConversationId<'static>,
    /// Its id.
    pub run_id: RunId<'static>,
    /// The harness.
    pub harness: &'a str,
    /// The run that it resumes, if that is in the store.
    pub resumes: Option<Left>,
    /// What its encoders are seeded with, if it resumes one.
    pub seed: Option<Seed>,
    /// The interrupted run of the same conversation whose interrupt nobody answered.
    pub unanswered: Option<Left>,
}

/// A run.
pub struct Live {
    run_id: RunId<'static>,
    conversation_id: ConversationId<'static>,
    remains: Remains,
    private: String,
    /// The time of the last input, for canonical streams that bring their own.
    at: Option<Timestamp<'static>>,
    mode: Mode,
}

enum Mode {
    Yielded { next: u64, interrupted: Option<InterruptId<'static>>, ended: bool },
    Coordinated(Box<Coordinated>),
}

struct Coordinated {
    coordinator: Coordinator,
    open: Option<OpenPlan>,
    thread: Thread,
    fail: Option<FailCommit>,
    generation: Generation,
    /// In the store, not shown yet.
    unshown: VecDeque<Record>,
    left: Option<(InterruptId<'static>, Revision)>,
}

/// How the run gets into the store.
struct OpenPlan {
    agent_id: Name<'static>,
    harness_id: HarnessId<'static>,
    seed: Option<Payload>,
    resumes: Option<Left>,
}

impl Live {
    /// A run of which nothing has happened.
    ///
    /// # Errors
    /// The harness has no canonical name, or the store refuses.
    pub fn new(start: Start<'_>, args: &Args, session: &mut Session) -> anyhow::Result<Self> {
        let Start { conversation_id, run_id, harness, resumes, seed, unanswered } = start;
        if let Some(seed) = &seed {
            session.seed(&run_id, seed)?;
        }
        let mode = if args.yielded {
            Mode::Yielded { next: 0, interrupted: None, ended: false }
        } else {
            if let Some(left) = unanswered {
                session.memory.void_interrupt(&left.run_id, Withdrawal::Voided)?;
            }
            let thread = match args.thread {
                ThreadKind::Durable => Thread::Durable,
                ThreadKind::Ephemeral => Thread::Ephemeral,
            };
            let harness_id = HarnessId::new(harness.to_owned()).context("the harness's name")?;
            let started = RunStarted {
                harness_id: harness_id.clone(),
                adapter_version: Name::new(env!("CARGO_PKG_VERSION"))?,
                message_id: None,
                provider_run_id: None,
            };
            let coordinator = Coordinator::new(Run {
                run_id: run_id.clone(),
                conversation_id: conversation_id.clone(),
                thread,
                started,
                limits: Limits::DEFAULT,
            });
            let open = OpenPlan {
                agent_id: args.agent_id.clone(),
                harness_id,
                seed: seed.map(|seed| Payload::from(seed.to_json())),
                resumes,
            };
            Mode::Coordinated(Box::new(Coordinated {
                coordinator,
                open: Some(open),
                thread,
                fail: args.fail_commit,
                generation: Generation::new(1),
                unshown: VecDeque::new(),
                left: None,
            }))
        };
        let (remains, private) = (Remains::new(), "{}".to_owned());
        Ok(Self { run_id, conversation_id, remains, private, at: None, mode })
    }

    /// Takes the time of the events that follow from the stream.
    pub fn set_time(&mut self, at: Timestamp<'static>) {
        self.at = Some(at);
    }

    /// Whether nothing more can come of it.
    pub fn is_over(&self) -> bool {
        match &self.mode {
            Mode::Yielded { ended, .. } => *ended,
            Mode::Coordinated(run) => matches!(run.coordinator.stage(), Stage::Ended(_)),
        }
    }

    /// Takes what an adapter gave.
    ///
    /// # Errors
    /// The output cannot be written, or the store failed.
    pub fn output(&mut self, output: Output, session: &mut Session) -> anyhow::Result<()> {
        match output {
            Output::Draft(draft) => self.draft(draft, session),
            Output::State(State { head, private }) => {
                self.private.clone_from(&private);
                self.tell(Signal::State(Head { reference: head, private: Some(private) }), session)
            }
            Output::Result(whole) => {
                if matches!(self.mode, Mode::Coordinated(_)) && !self.is_over() {
                    session.memory.put_result(&self.run_id, &whole.result_ref, whole.text.as_bytes())?;
                }
                Ok(())
            }
        }
    }

    /// Takes an event.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn draft(&mut self, draft: EventDraft<'static>, session: &mut Session) -> anyhow::Result<()> {
        let Mode::Yielded { next, interrupted, ended } = &mut self.mode else {
            return self.tell(Signal::Draft(draft), session);
        };
        if *ended {
            return Ok(());
        }
        if let EventData::RunInterrupted(end) = &draft.data {
            *interrupted = Some(end.interrupt_id.clone());
        }
        *ended = draft.data.is_terminal();
        let sequence = Sequence::new(*next).context("the run has too many events")?;
        *next += 1;
        let at = self.at.clone().unwrap_or_else(|| session.clock.now());
        let event = draft.into_event(self.run_id.clone(), self.conversation_id.clone(), sequence, at);
        self.remains.see(&event, &Limits::DEFAULT);
        let mut line = Vec::new();
        event.write_json(&mut line);
        session.print(&line)
    }

    /// An item that the adapter could not read, or an event of it that breaks a rule.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn item_refused(
        &mut self,
        error: &ItemError,
        place: &str,
        session: &mut Session,
    ) -> anyhow::Result<()> {
        if self.is_over() {
            session.note(&self.run_id, &format!("{place} comes after the end and is ignored: {error}"));
            return Ok(());
        }
        session.note(&self.run_id, &format!("{place}: {error}"));
        session.found();
        self.refused(
            match Rejection::of(error) {
                Some(rejection) => Signal::Rejected(rejection),
                None => Signal::Failed(match error {
                    ItemError::Oversized { .. } => Failure::OutputOversized,
                    _other => Failure::OutputMalformed,
                }),
            },
            session,
        )
    }

    /// An event that breaks a rule.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn rejected(&mut self, rejection: Rejection, session: &mut Session) -> anyhow::Result<()> {
        self.refused(Signal::Rejected(rejection), session)
    }

    fn refused(&mut self, signal: Signal, session: &mut Session) -> anyhow::Result<()> {
        if let Mode::Yielded { ended, .. } = &mut self.mode {
            *ended = true;
            session.found();
            if let Signal::Rejected(rejection) = signal {
                session.note(&self.run_id, &format!("{}: {}", rejection.verdict, rejection.message));
            }
            return Ok(());
        }
        self.tell(signal, session)
    }

    /// The native stream is over.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn closed(&mut self, session: &mut Session) -> anyhow::Result<()> {
        self.tell(Signal::Closed, session)?;
        session.flush()
    }

    /// What it left, if it waits for an answer.
    pub fn left(self) -> Option<Left> {
        let (interrupt_id, revision) = match self.mode {
            Mode::Yielded { interrupted, .. } => (interrupted?, Revision::new(0)),
            Mode::Coordinated(run) => run.left?,
        };
        Some(Left {
            run_id: self.run_id,
            interrupt_id,
            revision,
            remains: self.remains,
            private: self.private,
        })
    }

    /// Tells the coordinator, and does what it wants.
    pub fn tell(&mut self, signal: Signal, session: &mut Session) -> anyhow::Result<()> {
        let mut signals = VecDeque::from([signal]);
        while let Some(signal) = signals.pop_front() {
            let at = self.at.clone().unwrap_or_else(|| session.clock.now());
            let Mode::Coordinated(run) = &mut self.mode else { return Ok(()) };
            let mut effects = Vec::new();
            run.coordinator.apply(Input::new(at, signal), &mut effects);
            for effect in effects {
                self.perform(effect, &mut signals, session)?;
            }
        }
        Ok(())
    }

    fn perform(
        &mut self,
        effect: Effect,
        signals: &mut VecDeque<Signal>,
        session: &mut Session,
    ) -> anyhow::Result<()> {
        let Mode::Coordinated(run) = &mut self.mode else { return Ok(()) };
        match effect {
            Effect::Open(event) => {
                let record = Record::from_event(&event);
                let base_revision = run.open(&event, record.clone(), session)?;
                self.remains.see(&event, &Limits::DEFAULT);
                run.unshown.push_back(record);
                signals.push_back(Signal::Opened { base_revision });
            }
            Effect::Append(event) => {
                let record = Record::from_event(&event);
                session.memory.append(&self.run_id, run.generation, vec![record.clone()])?;
                self.remains.see(&event, &Limits::DEFAULT);
                run.unshown.push_back(record);
                signals.push_back(Signal::Appended { through: event.sequence });
            }
            Effect::Commit(commit) => {
                let signal = run.commit(&self.run_id, &commit, session)?;
                if matches!(signal, Signal::Committed(_)) {
                    for event in &commit.events {
                        self.remains.see(event, &Limits::DEFAULT);
                        note_end(event, session);
                    }
                }
                signals.push_back(signal);
            }
            Effect::Deliver { through } => {
                while let Some(record) = run.unshown.pop_front_if(|record| record.sequence <= through) {
                    let mut line = Vec::new();
                    record.write_json(&self.run_id, &self.conversation_id, &mut line);
                    session.print(&line)?;
                }
            }
            // Nothing is ever unknown about a store in memory.
            Effect::ReadOutcome => signals.push_back(Signal::Outcome(Outcome::Unreachable)),
            Effect::Reject(rejection) => {
                let event = rejection.event_type.map_or("an event", causeway_contract::EventType::as_str);
                let text = format!("{event} is refused by {}: {}", rejection.verdict, rejection.message);
                session.note(&self.run_id, &text);
            }
            Effect::Late(late) => session.note(&self.run_id, &format!("ignored after the end: {late:?}")),
            Effect::CancelHarness(_) | Effect::StopHarness | Effect::Close(_) => {}
        }
        Ok(())
    }
}

/// A run that ended because of an invalid event makes the exit status 1.
fn note_end(event: &Event<'_>, session: &mut Session) {
    if let EventData::RunError(error) = &event.data
        && error.code == *"harness_event_invalid"
    {
        session.found();
    }
}

impl Coordinated {
    /// Puts the run into the store; gives the revision that it starts from.
    fn open(
        &mut self,
        event: &Event<'static>,
        started: Record,
        session: &mut Session,
    ) -> anyhow::Result<u64> {
        let Some(plan) = self.open.take() else { bail!("run {} was opened twice", event.run_id) };
        let open = OpenRun {
            owner: Owner::local(),
            run_id: event.run_id.clone(),
            conversation_id: event.conversation_id.clone(),
            agent_id: plan.agent_id,
            harness_id: plan.harness_id,
            thread: match self.thread {
                Thread::Durable => model::Thread::Durable,
                Thread::Ephemeral => model::Thread::Ephemeral,
            },
            worker_thread: None,
            request: Payload::from("{}".to_owned()),
            seed: plan.seed,
            idempotency: None,
            quota: model::Quota::default(),
            started,
        };
        let opened = match plan.resumes {
            None => session.memory.open_run(open)?,
            Some(left) => session.memory.consume_interrupt(ConsumeInterrupt {
                interrupted: left.run_id,
                interrupt_id: left.interrupt_id,
                revision: left.revision,
                decision: Payload::from("{}".to_owned()),
                open,
            })?,
        };
        let Opened::New(opened) = opened else { bail!("run {} was opened before", event.run_id) };
        self.generation = opened.generation;
        Ok(opened.base_revision().value())
    }

    fn commit(
        &mut self,
        run_id: &RunId<'static>,
        commit: &Commit,
        session: &mut Session,
    ) -> anyhow::Result<Signal> {
        let tail: Vec<Record> = commit.events.iter().map(Record::from_event).collect();
        let finishes = commit.terminal().is_some_and(|event| matches!(event.data, EventData::RunFinished(_)));
        let fails = match self.fail {
            Some(FailCommit::Final) => finishes,
            Some(FailCommit::Interrupt) => commit.interrupt.is_some(),
            None => false,
        };
        if fails {
            return Ok(Signal::CommitRefused);
        }
        let head = commit.head.as_ref().map(|head| HeadMove {
            expected: Revision::new(head.from),
            head_ref: head.head.reference.clone(),
        });
        let asked = commit.events.iter().zip(&tail).find_map(|(event, record)| match &event.data {
            EventData::InterruptRequested(asked) => Some((record.data.clone(), asked.request.reason())),
            _other => None,
        });
        let signal = match (&commit.interrupt, &commit.head, head, asked) {
            (Some(interrupt_id), Some(new), Some(head), Some((request, reason))) => {
                let revision = head.revision();
                let interrupt = InterruptCommit {
                    tail: tail.clone(),
                    head,
                    interrupt_id: interrupt_id.clone(),
                    reason,
                    request,
                    snapshot: Payload::from(new.head.private.clone().unwrap_or_else(|| "{}".to_owned())),
                    expires_at: None,
                };
                let receipt = session.memory.commit_interrupt(run_id, self.generation, interrupt)?;
                self.left = Some((interrupt_id.clone(), revision));
                Signal::Committed(Some(receipt))
            }
            (_, _, head, _) => {
                session.memory.commit_final(run_id, self.generation, Final { tail: tail.clone(), head })?;
                Signal::Committed(None)
            }
        };
        self.unshown.extend(tail);
        Ok(signal)
    }
}
