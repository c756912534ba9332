//! The log of the model: the real [`Memory`], whose checks are those of every backend, written to by verbs that are
//! numbers, and what can be read from it.

use causeway_contract::event::EventData;
use causeway_contract::id::{ConversationId, HarnessId, Name, RunId};
use causeway_contract::limits::Limits;
use causeway_engine::coordinator::{Commit, Crash, Effect};
use causeway_lifecycle::{Boundary, Thread, Validator};
use causeway_store::memory::core::Memory;
use causeway_store::model::{
    self, ConsumeInterrupt, Final, Generation, HeadMove, Idempotency, InterruptCommit, OpenRun, Opened,
    Outcome, Owner, Revision, Run, Withdrawal,
};
use causeway_store::record::Payload;
use causeway_store::store::Result;
use causeway_store::{Error, Record, Refusal};

use crate::guard::{Guard, Guards};
use crate::lab::{Shelf, closing_records, lenient, run_id, state_of};
use crate::law::Broken;
use crate::scene::{RUNS, Request, Scene, Wants};
use crate::support::at;
use crate::world::{Answer, Facts, List, No, Row, Verb};

/// When interrupts expire, and when it is too late.
const EXPIRY: i64 = 50;
const LATE: i64 = 100;

/// A log, and what it belongs to.
#[derive(Clone)]
pub struct Stored {
    scene: u8,
    thread: Thread,
    requests: &'static [Request],
    expires: bool,
    memory: Memory,
    epoch: u8,
}

impl Stored {
    pub fn new(number: u8, scene: &Scene) -> Self {
        let Scene { thread, requests, expires, .. } = *scene;
        Self { scene: number, thread, requests, expires, memory: Memory::new(), epoch: 1 }
    }

    /// Writes; a refusal writes nothing.
    pub fn write(&mut self, verb: Verb, lax: bool, without: Guards, shelf: &Shelf) -> Answer {
        lenient(&mut self.memory, if lax { Some(|_| true) } else { tolerated(verb, without) });
        let answer = self.try_write(verb, without, shelf);
        lenient(&mut self.memory, None);
        answer.unwrap_or_else(|error| Answer::Refused(no(&error)))
    }

    fn try_write(&mut self, verb: Verb, without: Guards, shelf: &Shelf) -> Result<Answer> {
        let named = |generation, current: &dyn Fn() -> Generation| {
            if without.has(Guard::Generation) { current() } else { Generation::new(u64::from(generation)) }
        };
        let memory = &mut self.memory;
        let current = |memory: &Memory, run| {
            memory.run(&owner(), &run_id(run)).map_or(Generation::new(0), |run| run.generation)
        };
        match verb {
            Verb::Open { run, first, late } => {
                let open = self.open(run, shelf.at(first), late, without);
                Ok(opened(self.memory.open_run(open)?))
            }
            Verb::Consume { run, first, late } => {
                let open = self.open(run, shelf.at(first), late, without);
                let answer = self.consumption(run, open, without)?;
                Ok(opened(self.memory.consume_interrupt(answer)?))
            }
            Verb::Append { run, generation, record } => {
                let generation = named(generation, &|| current(memory, run));
                memory.append(&run_id(run), generation, vec![shelf.at(record).clone()])?;
                Ok(Answer::Done)
            }
            Verb::Commit { run, generation, effect } => {
                let Effect::Commit(commit) = shelf.effect_at(effect) else { panic!("no commit") };
                let generation = named(generation, &|| current(memory, run));
                self.commit(run, generation, commit)
            }
            Verb::Fence { run } => {
                let fenced = memory.fence(&run_id(run))?;
                let (generation, last) =
                    (fenced.generation.value() as u8, fenced.last_sequence.value() as u8);
                Ok(Answer::Fenced { generation, last })
            }
            Verb::Close { run, seen, lost } => {
                let page = memory.read_after(&run_id(run), None, usize::from(seen))?;
                let crash = if lost { Crash::Journal } else { Crash::Restart };
                let Some(tail) = closing_records(&page.records, run, self.thread, crash) else {
                    return Ok(Answer::Done);
                };
                memory.close_run(&run_id(run), tail)?;
                Ok(Answer::Done)
            }
            Verb::Void { run, expired } => {
                let why = if expired { Withdrawal::Expired } else { Withdrawal::Voided };
                Ok(Answer::Withdrawn(memory.void_interrupt(&run_id(run), why)?))
            }
            Verb::Clear => {
                self.epoch = memory.clear_conversation(&owner(), &conversation())?.value() as u8;
                Ok(Answer::Done)
            }
        }
    }

    fn open(&self, run: u8, first: &Record, late: bool, without: Guards) -> OpenRun {
        let request = &self.requests[usize::from(run)];
        let key = request.key.filter(|_| !without.has(Guard::Idempotency));
        OpenRun {
            owner: owner(),
            run_id: run_id(run),
            conversation_id: conversation(),
            agent_id: agent(),
            harness_id: HarnessId::new("deepagents").unwrap(),
            thread: match self.thread {
                Thread::Durable => model::Thread::Durable,
                Thread::Ephemeral => model::Thread::Ephemeral,
            },
            worker_thread: None,
            request: Payload::from("{}"),
            seed: None,
            idempotency: key
                .map(|key| Idempotency { key: key.into(), body_hash: [u8::from(body(request)); 32] }),
            quota: model::Quota::default(),
            started: Record { timestamp: at(if late { LATE } else { 0 }), ..first.clone() },
        }
    }

    fn consumption(&self, run: u8, open: OpenRun, without: Guards) -> Result<ConsumeInterrupt> {
        let Wants::Answer { of, stale, .. } = self.requests[usize::from(run)].wants else {
            panic!("no answer")
        };
        let interrupted = run_id(of as u8);
        let interrupt = self.memory.interrupt(&owner(), &interrupted)?;
        let revision = interrupt.summary.revision;
        let named = if stale && !without.has(Guard::Revision) { revision.next() } else { revision };
        Ok(ConsumeInterrupt {
            interrupted,
            interrupt_id: interrupt.summary.interrupt_id,
            revision: named,
            decision: Payload::from(format!("{run}")),
            open,
        })
    }

    fn commit(&mut self, run: u8, generation: Generation, commit: &Commit) -> Result<Answer> {
        let tail: Vec<Record> = commit.events.iter().map(Record::from_event).collect();
        let head = commit.head.as_ref().map(|head| HeadMove {
            expected: Revision::new(head.from),
            head_ref: head.head.reference.clone(),
        });
        if let (Some(interrupt_id), Some(head)) = (&commit.interrupt, &head) {
            let Some(EventData::RunInterrupted(ended)) = commit.terminal().map(|terminal| &terminal.data)
            else {
                panic!("an interrupt is committed with its terminal")
            };
            let interrupt = InterruptCommit {
                reason: ended.reason,
                tail,
                head: head.clone(),
                interrupt_id: interrupt_id.clone(),
                request: Payload::from("{}"),
                snapshot: Payload::from("{}"),
                expires_at: self.expires.then(|| at(EXPIRY)),
            };
            self.memory.commit_interrupt(&run_id(run), generation, interrupt)?;
            let revision = head.revision().value() as u8;
            return Ok(Answer::Receipt { revision, state: state_of(&head.head_ref) });
        }
        self.memory.commit_final(&run_id(run), generation, Final { tail, head })?;
        Ok(Answer::Done)
    }

    /// What the log says, and which laws it breaks.
    pub fn facts(&self, shelf: &mut Shelf) -> Facts {
        let mut facts = Facts::default();
        let mut moves = Vec::new();
        for run in 0..self.requests.len() as u8 {
            let Ok(view) = self.memory.run(&owner(), &run_id(run)) else { continue };
            let (row, moved) = self.row(run, &view, shelf);
            let types: Vec<_> = self.log(run).iter().map(|record| record.event_type).collect();
            let valid = self.is_valid(run, &row.log, shelf);
            facts.broken |= Broken::of_run(&row, self.thread, valid, &types);
            if let Some(expected) = moved {
                moves.push((view.epoch, expected));
            }
            facts.rows[usize::from(run)] = row;
        }
        let head = self.memory.load_head(&owner(), &conversation(), &agent());
        facts.head = head.map(|head| state_of(&head.head_ref));
        facts.broken |= Broken::of_conversation(&facts.rows, &moves);
        for (answer, row) in self.requests.iter().zip(&facts.rows) {
            if let (Wants::Answer { stale, .. }, Some(_)) = (answer.wants, row.resumed_from)
                && (stale || (row.late && self.expires))
            {
                facts.broken |= Broken::TAKEN;
            }
        }
        facts
    }

    fn row(&self, run: u8, view: &Run, shelf: &mut Shelf) -> (Row, Option<Revision>) {
        let moved = match self.memory.outcome(&run_id(run)) {
            Outcome::Ended { head, .. } => head,
            Outcome::Running { .. } | Outcome::Missing => None,
        };
        let log: Vec<_> = self.log(run).iter().map(|record| shelf.file(record)).collect();
        let row = Row {
            status: Some(view.status),
            generation: view.generation.value() as u8,
            log: List::of(&log),
            interrupt: view.interrupt.as_ref().map(|interrupt| interrupt.status),
            resumed_from: self.numbered(view.resumed_from.as_ref()),
            resumed_by: self.numbered(view.resumed_by.as_ref()),
            made: moved.as_ref().map(|head| state_of(&head.head_ref)),
            late: view.created_at.unix_millis() >= at(EXPIRY).unix_millis(),
        };
        (row, moved.map(|head| head.expected))
    }

    fn log(&self, run: u8) -> Vec<Record> {
        self.memory.read_after(&run_id(run), None, usize::MAX).map(|page| page.records).unwrap_or_default()
    }

    fn numbered(&self, id: Option<&RunId<'static>>) -> Option<u8> {
        id.map(|id| (0..RUNS as u8).find(|run| run_id(*run) == *id).unwrap())
    }

    fn is_valid(&self, run: u8, log: &List, shelf: &mut Shelf) -> bool {
        let key = (self.thread == Thread::Durable, *log);
        if let Some(known) = shelf.valid.get(&key) {
            return *known;
        }
        let mut validator = Validator::new(Boundary::Commit, self.thread, Limits::DEFAULT).offline();
        let (run_id, conversation) = (run_id(run), conversation());
        let valid = self.log(run).iter().enumerate().all(|(number, record)| {
            let event = record.decode(&run_id, &conversation, &Limits::DEFAULT).unwrap();
            record.sequence.value() == number as u64 && validator.accept(&event, 0).is_ok()
        });
        shelf.valid.insert(key, valid);
        valid
    }

    /// Everything that makes two logs different.
    pub fn key(&self, facts: &Facts) -> Vec<u8> {
        let option = |number: Option<u8>| number.map_or(0, |number| number + 1);
        let mut key = vec![self.scene, self.epoch];
        for (run, row) in (0u8..).zip(&facts.rows) {
            let Ok(view) = self.memory.run(&owner(), &run_id(run)) else { continue };
            let interrupt = view.interrupt.as_ref();
            let expected = match self.memory.outcome(&run_id(run)) {
                Outcome::Ended { head: Some(head), .. } => Some(head.expected.value() as u8),
                Outcome::Ended { head: None, .. } | Outcome::Running { .. } | Outcome::Missing => None,
            };
            key.extend([
                run,
                view.status as u8,
                row.generation,
                view.epoch.value() as u8,
                u8::from(row.late),
                option(row.resumed_from),
                option(row.resumed_by),
                option(row.made),
                option(expected),
                option(row.interrupt.map(|status| status as u8)),
                option(interrupt.map(|summary| summary.revision.value() as u8)),
                row.log.len() as u8,
            ]);
            key.extend(row.log.as_slice().iter().flat_map(|record| record.to_be_bytes()));
            if let Some(decision) = interrupt.and_then(|summary| summary.decision.as_ref()) {
                key.extend(decision.as_str().as_bytes());
            }
        }
        if let Some(head) = self.memory.load_head(&owner(), &conversation(), &agent()) {
            let by = self.numbered(Some(&head.run_id));
            key.extend([0xff, head.revision.value() as u8, state_of(&head.head_ref), option(by)]);
        }
        let active = self.memory.active_run(&owner(), &conversation());
        let pending = self.memory.pending_interrupt(&owner(), &conversation());
        key.push(option(self.numbered(active.as_ref())));
        key.push(option(self.numbered(pending.as_ref().map(|interrupt| &interrupt.run_id))));
        key
    }
}

fn body(request: &Request) -> bool {
    matches!(request.wants, Wants::Answer { body: crate::scene::Body::Approve, .. })
}

fn opened(opened: Opened) -> Answer {
    match opened {
        Opened::New(open) => Answer::Opened {
            generation: open.generation.value() as u8,
            revision: open.base_revision().value() as u8,
            base: open.base.as_ref().map_or(0, |head| state_of(&head.head_ref)),
        },
        Opened::Replayed(run) => {
            let run = (0..RUNS as u8).find(|number| run_id(*number) == run.run_id).unwrap();
            Answer::Replayed { run }
        }
    }
}

fn no(error: &Error) -> No {
    match error {
        Error::Refused(Refusal::ConversationBusy { .. }) => No::Busy,
        Error::Refused(Refusal::InterruptPending { .. }) => No::Pending,
        Error::Refused(Refusal::InterruptConsumed { resumed_by }) => {
            No::Consumed { by: (0..RUNS as u8).find(|run| run_id(*run) == *resumed_by).unwrap() }
        }
        Error::Refused(Refusal::InterruptClosed | Refusal::InterruptExpired) => No::Closed,
        Error::Refused(Refusal::RevisionMismatch { .. }) => No::Revision,
        Error::Refused(Refusal::KeyReused { .. }) => No::KeyReused,
        Error::Refused(Refusal::Fenced { .. } | Refusal::UnknownRun) => No::Fenced,
        Error::Refused(Refusal::Ended { .. }) => No::Ended,
        Error::Refused(Refusal::NotContiguous { expected, .. }) => {
            No::NotContiguous { expected: expected.value() as u8 }
        }
        _other => No::Other,
    }
}

/// What a log without some guards does not refuse.
fn tolerated(verb: Verb, without: Guards) -> Option<fn(&Refusal) -> bool> {
    let lacks = |guard| without.has(guard);
    match verb {
        Verb::Open { .. } | Verb::Consume { .. } if lacks(Guard::OneActiveRun) => {
            Some(|refusal| matches!(refusal, Refusal::ConversationBusy { .. }))
        }
        Verb::Open { .. } if lacks(Guard::PendingFirst) => {
            Some(|refusal| matches!(refusal, Refusal::InterruptPending { .. }))
        }
        Verb::Consume { .. } if lacks(Guard::ConsumeOnce) => {
            Some(|refusal| matches!(refusal, Refusal::InterruptConsumed { .. }))
        }
        Verb::Consume { .. } if lacks(Guard::ConsumeOpen) => {
            // Taken back or expired: whatever is neither of the other reasons to say no.
            Some(|refusal| {
                !matches!(
                    refusal,
                    Refusal::ConversationBusy { .. }
                        | Refusal::InterruptConsumed { .. }
                        | Refusal::KeyReused { .. }
                        | Refusal::NoInterrupt
                        | Refusal::RevisionMismatch { .. }
                        | Refusal::RunExists { .. }
                        | Refusal::UnknownRun
                )
            })
        }
        Verb::Commit { .. } if lacks(Guard::CompareHead) => {
            Some(|refusal| matches!(refusal, Refusal::HeadMoved { .. }))
        }
        Verb::Close { .. } if lacks(Guard::Contiguous) => {
            Some(|refusal| matches!(refusal, Refusal::NotContiguous { .. }))
        }
        Verb::Clear if lacks(Guard::ClearWhenIdle) => {
            Some(|refusal| matches!(refusal, Refusal::ConversationBusy { .. }))
        }
        _strict => None,
    }
}

pub fn owner() -> Owner {
    Owner::local()
}

pub fn conversation() -> ConversationId<'static> {
    ConversationId::new("conversation-1").unwrap()
}

fn agent() -> Name<'static> {
    Name::new("helper").unwrap()
}
