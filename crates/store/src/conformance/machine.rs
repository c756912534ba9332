//! Random walks over every verb: a backend must answer as the [`Reference`] does, step by step.
//!
//! Refuses to know how a backend works. A walk is a list of numbers; what a number means depends on what the reference
//! holds by then, so a list that loses some of its numbers is a walk again, and a failing one is cut down before it
//! is shown.

use std::collections::VecDeque;
use std::sync::Arc;

use causeway_contract::event::EventType;
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::timestamp::Timestamp;

use crate::conformance::Backend;
use crate::conformance::fixture::{
    NOON, agent, answer, cancelled, conversation, deltas, ephemeral, failed, finish, head_move, interrupt_id,
    keyed, open, owned_by, pause, record, run_id, sequence,
};
use crate::conformance::op::{Op, PLACES, owners, same, same_run, same_store};
use crate::conformance::reference::{Reference, Row};
use crate::model::{
    Bound, Final, Generation, OpenBounds, OpenRun, OverQuota, Owner, Quota, Revision, Status, Thread, Whose,
    Withdrawal,
};
use crate::record::Record;
use crate::store::Store;

/// How far to walk.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Steps in all.
    pub steps: usize,
    /// Steps on one store before the next is begun from empty.
    pub life: usize,
    /// Where the numbers come from.
    pub seed: u64,
}

/// Walks; the steps that were taken.
///
/// # Panics
/// The backend answered otherwise than the reference: with the seed and the shortest such walk that was found.
pub async fn walk<B: Backend>(make: impl Fn() -> B, plan: Plan) -> usize {
    let (mut dice, mut taken) = (Dice(plan.seed), 0);
    while taken < plan.steps {
        let numbers: Vec<u64> = (0..plan.life.min(plan.steps - taken)).map(|_| dice.next()).collect();
        if let Err(difference) = live(&mut make(), &numbers).await {
            let (shortest, difference) = shorten(&make, numbers, difference).await;
            panic!(
                "seed {}, after {taken} steps; {} steps from an empty store:\n{difference}",
                plan.seed,
                shortest.len()
            );
        }
        taken += numbers.len();
    }
    taken
}

/// Leaves out what is not needed for a difference, in ever smaller pieces, within a bound of attempts.
async fn shorten<B: Backend>(
    make: &impl Fn() -> B,
    mut numbers: Vec<u64>,
    mut difference: String,
) -> (Vec<u64>, String) {
    let (mut piece, mut attempts) = (numbers.len().div_ceil(2), 0);
    while piece > 0 && attempts < 400 {
        let mut from = 0;
        while from < numbers.len() && attempts < 400 {
            let mut fewer = numbers.clone();
            fewer.drain(from..(from + piece).min(numbers.len()));
            attempts += 1;
            match live(&mut make(), &fewer).await {
                Err(found) => (numbers, difference) = (fewer, found),
                Ok(()) => from += piece,
            }
        }
        piece /= 2;
    }
    (numbers, difference)
}

/// One store from empty to the last number.
async fn live(backend: &mut impl Backend, numbers: &[u64]) -> Result<(), String> {
    let mut world = World { clock: NOON, ..World::default() };
    let mut told = VecDeque::new();
    for (at, number) in numbers.iter().enumerate() {
        let mut dice = Dice(*number);
        let op = world.aim(&mut dice);
        told.push_back(op.clone());
        if told.len() > 12 {
            told.pop_front();
        }
        let explain = |what: String| {
            let last: Vec<_> = told.iter().map(|op| format!("{op:?}")).collect();
            format!("{what}\nthe last of {} steps:\n  {}", at + 1, last.join("\n  "))
        };
        if matches!(op, Op::Restart) {
            backend.restart();
        }
        let store = backend.store();
        let touched = op.run();
        let expected = op.tell(&mut world.reference);
        same("the answer", expected, op.make(&*store).await).map_err(explain)?;
        if let Some(run_id) = touched {
            let after = dice.below(6).checked_sub(1);
            let owner = owner(&mut dice);
            same_run(&world.reference, &*store, &owner, &run_id, [after], 3).await.map_err(explain)?;
        }
        if at == numbers.len() / 2 || at + 1 == numbers.len() {
            same_store(&world.reference, &*store).await.map_err(explain)?;
        }
    }
    Ok(())
}

/// Numbers from a seed (splitmix64).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(u64::try_from(of.len()).unwrap());
        of.get(usize::try_from(at).unwrap())
    }
}

/// The reference and what the walk remembers.
#[derive(Debug, Default)]
struct World {
    reference: Reference,
    clock: i64,
    opened: usize,
    /// Calls under an idempotency key, to be made again.
    keyed: VecDeque<Op>,
}

impl World {
    /// What this number means now. Most calls are fit to succeed; the rest fall where they may.
    fn aim(&mut self, dice: &mut Dice) -> Op {
        self.clock += match dice.below(20) {
            0 => 36_000,
            1..=4 => 900,
            _ => 1,
        };
        let op = match dice.below(100) {
            0..=19 => Op::Open(self.new_run(dice)),
            20..=43 => self.append(dice),
            44..=57 => self.finish(dice),
            58..=67 => self.pause(dice),
            68..=77 => self.answer(dice),
            78..=79 => {
                let why = if dice.percent(50) { Withdrawal::Voided } else { Withdrawal::Expired };
                Op::Void(self.interrupted(dice), why)
            }
            80..=81 => Op::Fence(self.active(dice).0),
            82..=84 => {
                let (id, _, next) = self.active(dice);
                let tail = if dice.percent(10) { finish(next, 0, "h").tail } else { vec![cancelled(next)] };
                Op::Close(id, tail)
            }
            85..=86 => {
                let kept = if dice.percent(50) { "a" } else { "b" };
                Op::Result(self.any(dice), kept, vec![u8::try_from(dice.below(2)).unwrap(); 3])
            }
            87..=89 => Op::Clear(owner(dice), place(dice)),
            90..=91 => Op::Delete(owner(dice), place(dice)),
            92 => Op::Forget((0..dice.below(4)).map(|_| self.any(dice)).collect()),
            93 => Op::Expire(Timestamp::from_unix(self.clock - 7200, 0), self.now()),
            94..=95 => Op::Archive(Timestamp::from_unix(self.clock - 3600, 0)),
            96 if dice.percent(60) => Op::Restart,
            _ => match dice.one(self.keyed.make_contiguous()).cloned() {
                Some(Op::Open(mut again)) => {
                    again.run_id = self.fresh(dice);
                    again.started.timestamp = self.now();
                    Op::Open(again)
                }
                Some(Op::Answer(mut again)) => {
                    again.open.run_id = self.fresh(dice);
                    again.open.started.timestamp = self.now();
                    Op::Answer(again)
                }
                Some(_) | None => Op::Forget(Vec::new()),
            },
        };
        let has_key = match &op {
            Op::Open(open) => open.idempotency.is_some(),
            Op::Answer(answer) => answer.open.idempotency.is_some(),
            _ => false,
        };
        if has_key {
            self.keyed.push_front(op.clone());
            self.keyed.truncate(4);
        }
        op
    }

    fn now(&self) -> Timestamp<'static> {
        Timestamp::from_unix(self.clock, 5_000_000)
    }

    fn fresh(&mut self, dice: &mut Dice) -> RunId<'static> {
        if dice.percent(4) {
            return self.any(dice);
        }
        self.opened += 1;
        run_id(&format!("r{}", self.opened))
    }

    fn any(&self, dice: &mut Dice) -> RunId<'static> {
        match dice.one(&self.reference.rows) {
            Some(row) if dice.percent(95) => row.run.run_id.clone(),
            Some(_) | None => run_id("nobody"),
        }
    }

    /// A run, its writer's generation and its next number; active, for the most part.
    fn active(&self, dice: &mut Dice) -> (RunId<'static>, Generation, u64) {
        let active: Vec<&Row> =
            self.reference.rows.iter().filter(|row| row.run.status == Status::Running).collect();
        let all: Vec<&Row> = self.reference.rows.iter().collect();
        let from = if active.is_empty() || dice.percent(8) { &all } else { &active };
        let Some(row) = dice.one(from) else { return (run_id("nobody"), Generation::new(1), 1) };
        let generation =
            if dice.percent(5) { Generation::new(1 + dice.below(3)) } else { row.run.generation };
        let skip = if dice.percent(5) { dice.below(3) } else { 1 };
        (row.run.run_id.clone(), generation, row.run.last_sequence.value() + skip)
    }

    fn interrupted(&self, dice: &mut Dice) -> RunId<'static> {
        let pending: Vec<_> =
            owners().iter().flat_map(|owner| self.reference.pending_of_all(owner)).collect();
        match dice.one(&pending) {
            Some(interrupt) if dice.percent(85) => interrupt.run_id.clone(),
            Some(_) | None => self.any(dice),
        }
    }

    /// The revision that a commit of this run builds on, or another one.
    fn base(&self, run_id: &RunId<'_>, dice: &mut Dice) -> u64 {
        let row = self.reference.rows.iter().find(|row| row.run.run_id == *run_id);
        let head = row.and_then(|Row { run, .. }| {
            self.reference.load_head(&run.owner, &run.conversation_id, &run.agent_id)
        });
        let revision = head.map_or(0, |head| head.revision.value());
        if dice.percent(6) { dice.below(4) } else { revision }
    }

    fn new_run(&mut self, dice: &mut Dice) -> OpenRun {
        let run_id = self.fresh(dice);
        let (mut owner, mut at) = (owner(dice), place(dice));
        // Another place if this one is busy, three times of four.
        for _ in 0..3 {
            if self.reference.active_run(&owner, &at).is_some() && dice.percent(75) {
                (owner, at) = (self::owner(dice), place(dice));
            }
        }
        let mut new = owned_by(open(run_id.as_str(), at.as_str()), owner.as_str());
        new.started.timestamp = self.now();
        if dice.percent(10) {
            new = ephemeral(new);
        }
        if dice.percent(15) {
            new.agent_id = agent("other");
        }
        if dice.percent(15) {
            new.worker_thread = None;
        }
        if dice.percent(25) {
            let reached = OverQuota::new(Whose::Agent, Bound::StoredBytes, 9);
            let reached = dice.percent(5).then_some(reached);
            new.quota = Quota { owner: bounds(dice), agent: bounds(dice), reached };
        }
        self.with_key(new, dice)
    }

    fn with_key(&self, new: OpenRun, dice: &mut Dice) -> OpenRun {
        if !dice.percent(30) {
            return new;
        }
        let (key, body) = (dice.below(6), u8::from(dice.percent(15)));
        keyed(new, &format!("k{key}"), body)
    }

    fn append(&self, dice: &mut Dice) -> Op {
        let (id, generation, next) = self.active(dice);
        let mut records = deltas(next..next + dice.below(4) + 1);
        match dice.below(40) {
            0 => records.clear(),
            1 => records.push(failed(next + u64::try_from(records.len()).unwrap(), "harness_timeout")),
            2 => records.extend(deltas(next + 9..next + 10)),
            3..=8 => {
                let usage = format!(r#"{{"input_tokens":{},"final":false}}"#, dice.below(99));
                records = vec![record(next, EventType::UsageUpdated, &usage)];
            }
            _ => {}
        }
        Op::Append(id, generation, records)
    }

    fn finish(&self, dice: &mut Dice) -> Op {
        let (id, generation, next) = self.active(dice);
        let base = self.base(&id, dice);
        let is_ephemeral =
            self.reference.rows.iter().any(|row| row.run.run_id == id && row.run.thread == Thread::Ephemeral);
        let mut end = match dice.below(20) {
            0..=2 => Final { tail: vec![failed(next, "harness_timeout")], head: None },
            3 => Final { tail: vec![failed(next, "thread_durability_uncertain")], head: None },
            4 => Final { tail: vec![cancelled(next)], head: None },
            5 => Final { tail: vec![cancelled(next)], head: Some(head_move(base, "hc")) },
            6 => Final { tail: vec![failed(next, "harness_timeout")], head: Some(head_move(base, "h")) },
            7 => Final { head: Some(head_move(base, "another")), ..finish(next, base, "h") },
            8 => Final { head: None, ..finish(next, base, "h") },
            _ => finish(next, base, &format!("h{next}")),
        };
        if is_ephemeral && dice.percent(80) {
            end.head = None;
        }
        if dice.percent(30) {
            // The terminal with what was held back before it.
            let terminal = end.tail.remove(0);
            let later = Record { sequence: sequence(terminal.sequence.value() + 2), ..terminal };
            end.tail = deltas(next..next + 2);
            end.tail.push(later);
        }
        Op::Finish(id, generation, end)
    }

    fn pause(&self, dice: &mut Dice) -> Op {
        let (id, generation, next) = self.active(dice);
        let mut commit = pause(next, self.base(&id, dice), &format!("p{next}"), &format!("i-{id}"));
        if dice.percent(40) {
            commit.expires_at = Some(Timestamp::from_unix(self.clock + 1800, 0));
        }
        Op::Pause(id, generation, commit)
    }

    fn answer(&mut self, dice: &mut Dice) -> Op {
        let interrupted = self.interrupted(dice);
        let new = self.new_run(dice);
        let Some(row) = self.reference.rows.iter().find(|row| row.run.run_id == interrupted) else {
            return Op::Answer(answer(interrupted.as_str(), "i", 1, new));
        };
        let revision = row.interrupt.as_ref().map_or(0, |found| found.summary.revision.value());
        let mut given = answer(interrupted.as_str(), &format!("i-{interrupted}"), revision, new);
        let Row { run, .. } = row;
        if dice.percent(96) {
            given.open.owner = run.owner.clone();
        }
        if dice.percent(96) {
            given.open.conversation_id = run.conversation_id.clone();
            given.open.agent_id = run.agent_id.clone();
            given.open.thread = run.thread;
        }
        match dice.below(30) {
            0 => given.interrupt_id = interrupt_id("another"),
            1 => given.revision = Revision::new(revision + 1),
            _ => {}
        }
        Op::Answer(given)
    }
}

fn owner(dice: &mut Dice) -> Owner {
    if dice.percent(20) { Owner::new("ann") } else { Owner::local() }
}

fn bounds(dice: &mut Dice) -> OpenBounds {
    OpenBounds {
        open_runs: dice.percent(40).then(|| dice.below(5)),
        starts_per_minute: dice.percent(40).then(|| 1 + dice.below(6)),
    }
}

fn place(dice: &mut Dice) -> ConversationId<'static> {
    conversation(&format!("c{}", dice.below(PLACES)))
}

/// A backend that is only a store, for stores that a restart does not change.
pub struct Fixed(pub Arc<dyn Store>);

impl Backend for Fixed {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0)
    }

    fn restart(&mut self) {}
}
