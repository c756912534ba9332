//! What a step does: gateways, their store, harnesses, clients, time.
//!
//! The driver's half of the engine is written out here; the coordinator's and the log's are looked up in the
//! [`Lab`](crate::lab::Lab). A guard that is taken away is taken away here, or in the [`log`](crate::log).

use causeway_engine::coordinator::{Closing as Close, Outcome};
use causeway_store::model::Status;

use crate::Runs;
use crate::guard::Guard;
use crate::lab::{Act, Sig, word};
use crate::scene::{RUNS, Wants};
use crate::world::{Adrift, Answer, Asked, Closing, Drive, Half, List, No, Rec, Verb, World, bit, sequence};

/// One step of the model. `G` is a gateway.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// A client's request comes to G, is checked, written and answered.
    Ask { request: u8, gateway: usize },
    /// The same, but the store's answer is lost; the write is on its way.
    AskInVain { request: u8, gateway: usize },
    /// The harness says its next word.
    Say(usize),
    /// It dies.
    Die(usize),
    /// Somebody cancels the active run.
    Cancel(usize),
    /// Somebody cancels a run that was interrupted.
    TakeBack { run: u8 },
    /// Somebody clears the conversation.
    Clear,
    /// The next effect is performed as it should be.
    Perform(usize),
    /// The store cannot do the next write. Nothing is written.
    Refuse(usize),
    /// The answer to the next write is lost; the write is on its way.
    LoseAnswer(usize),
    /// The store cannot be read.
    CannotRead(usize),
    /// The transaction of a lost write makes its checks; if they fail, that was it.
    Begin(usize),
    /// It is committed.
    Land(usize),
    /// It never will be.
    Sink(usize),
    /// G is killed.
    Crash(usize),
    /// The next gateway takes G's place.
    Restart(usize),
    /// The lease of G runs out.
    Expire(usize),
    /// Another gateway takes the lease of G away, so that it writes nothing more.
    Oust(usize),
    /// G notices, and takes a new lease.
    Rejoin(usize),
    /// G reads the log of a run that is to be closed.
    Look { gateway: usize, run: u8 },
    /// And closes it.
    CloseRun,
    /// A reader comes back and reads the log.
    ReadAgain { run: u8 },
    /// Pending interrupts expire.
    GrowLate,
}

impl Runs {
    /// Does it. `None`: nothing would change.
    pub fn step(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Ask { request, gateway } => return self.ask(world, request, gateway),
            Action::AskInVain { request, gateway } => self.ask_in_vain(world, request, gateway),
            Action::Say(gateway) => self.say(world, gateway),
            Action::Die(gateway) => {
                world.left.deaths -= 1;
                world.gateways[gateway].drive.as_mut()?.speaks = false;
                self.tell(world, gateway, Sig::Closed);
            }
            Action::Cancel(gateway) => {
                world.left.cancels -= 1;
                self.tell(world, gateway, Sig::Cancel);
            }
            Action::TakeBack { run } => {
                world.left.voids -= 1;
                let expired = world.late && self.scene(world).expires;
                if self.write(world, Verb::Void { run, expired }) == Answer::Withdrawn(true) && !expired {
                    world.voided |= bit(run);
                }
            }
            Action::Clear => {
                world.left.clears -= 1;
                let forgets = !self.without(Guard::ClearForgets);
                if !forgets || self.write(world, Verb::Clear) == Answer::Done {
                    let there = (0..RUNS as u8).filter(|run| world.row(*run).status.is_some());
                    world.cleared = there.fold(0, |all, run| all | bit(run));
                    world.thread = 0;
                }
            }
            Action::Perform(gateway) => self.perform(world, gateway)?,
            Action::Refuse(gateway) => self.refuse(world, gateway)?,
            Action::LoseAnswer(gateway) => self.lose_answer(world, gateway)?,
            Action::CannotRead(gateway) => {
                world.left.faults -= 1;
                world.gateways[gateway].drive.as_mut()?.effects.pop_front()?;
                let silent = !self.without(Guard::NeverGuess);
                let outcome = if silent { Outcome::Unreachable } else { Outcome::NotCommitted };
                self.tell(world, gateway, Sig::Outcome(outcome));
            }
            Action::Begin(gateway) => {
                let adrift = world.adrift[gateway]?;
                let passes = self.would_pass(world, gateway, &adrift);
                world.adrift[gateway] = passes.then_some(Adrift { begun: true, ..adrift });
            }
            Action::Land(gateway) => {
                let adrift = world.adrift[gateway].take()?;
                if !adrift.begun && !self.would_pass(world, gateway, &adrift) {
                    return Some(());
                }
                let answer = self.write_as(world, adrift.verb, adrift.begun);
                if let (Answer::Opened { .. }, Some(run)) = (answer, adrift.verb.run()) {
                    world.owners[usize::from(run)] = (gateway as u8, adrift.epoch);
                }
            }
            Action::Sink(gateway) => world.adrift[gateway] = None,
            Action::Crash(gateway) => {
                world.left.crashes -= 1;
                let here = &mut world.gateways[gateway];
                (here.lives, here.drive, here.lost) = (false, None, 0);
                world.closing = world.closing.filter(|closing| usize::from(closing.by) != gateway);
            }
            Action::Restart(gateway) => {
                if !self.scene(world).shared {
                    // What the former process left behind has landed by now, or never will.
                    world.adrift[gateway] = None;
                    world.leases[gateway].epoch += u8::from(!self.without(Guard::Recovery));
                }
                world.gateways[gateway].lives = true;
                world.gateways[gateway].epoch = world.leases[gateway].epoch;
            }
            Action::Expire(gateway) => {
                world.left.pauses -= u8::from(world.gateways[gateway].lives);
                world.leases[gateway].expired = true;
            }
            Action::Oust(gateway) => {
                world.leases[gateway].epoch += 1;
                world.leases[gateway].expired = false;
            }
            Action::Rejoin(gateway) => world.gateways[gateway].epoch = world.leases[gateway].epoch,
            Action::Look { gateway, run } => self.look(world, gateway, run),
            Action::CloseRun => self.close_run(world)?,
            Action::ReadAgain { run } => {
                world.left.looks -= 1;
                world.told[usize::from(run)] = world.row(run).log;
            }
            Action::GrowLate => world.late = true,
        }
        Some(())
    }

    /// A client's request: read, checked, written and answered. What is read of an interrupt never changes, so that
    /// reading and writing are one step here; whether it still waits is decided by the write.
    fn ask(&self, world: &mut World, request: u8, gateway: usize) -> Option<()> {
        let at = usize::from(request);
        self.notice_expiry(world, request);
        let (coordinator, verb, first) = self.opening(world, request);
        let answer = self.write(world, verb);
        world.asked[at] = match answer {
            Answer::Opened { generation, revision, base } => {
                // A gateway drives more runs than one, but a conversation has one that is active.
                if world.gateways[gateway].drive.is_some() {
                    return None;
                }
                world.owners[at] = (gateway as u8, world.gateways[gateway].epoch);
                self.drive(world, gateway, request, coordinator, first, generation, base);
                self.tell(world, gateway, Sig::Opened { revision });
                Asked::Accepted { run: request }
            }
            Answer::Replayed { run } => Asked::Accepted { run },
            Answer::Refused(no) => Asked::Refused(no),
            Answer::Done | Answer::Receipt { .. } | Answer::Fenced { .. } | Answer::Withdrawn(_) => {
                return None;
            }
        };
        Some(())
    }

    fn ask_in_vain(&self, world: &mut World, request: u8, gateway: usize) {
        world.left.faults -= 1;
        self.notice_expiry(world, request);
        let (coordinator, verb, first) = self.opening(world, request);
        let epoch = world.gateways[gateway].epoch;
        world.adrift[gateway] = Some(Adrift { verb, epoch, begun: false });
        world.asked[usize::from(request)] = Asked::Unknown;
        if self.without(Guard::DriveAfterOpen) {
            let base = world.facts.head.unwrap_or(0);
            self.drive(world, gateway, request, coordinator, first, 1, base);
        } else if !self.without(Guard::Repair) {
            world.gateways[gateway].lost |= bit(request);
        }
    }

    /// Whoever looks at an interrupt whose time is over records it.
    fn notice_expiry(&self, world: &mut World, request: u8) {
        let scene = self.scene(world);
        if let Wants::Answer { of, .. } = scene.requests[usize::from(request)].wants
            && world.late
            && scene.expires
        {
            self.write(world, Verb::Void { run: of as u8, expired: true });
        }
    }

    fn opening(&self, world: &World, request: u8) -> (u32, Verb, Rec) {
        let scene = self.scene(world);
        let fresh = self.lab.fresh(request, scene.thread);
        let step = self.lab.tell(fresh, Sig::Word(word("started")));
        let Some(Act::Open(first)) = step.effects.as_slice().first().map(|effect| self.lab.act(*effect))
        else {
            panic!("a run begins with run.started")
        };
        let (run, late) = (request, world.late);
        let verb = match scene.requests[usize::from(request)].wants {
            Wants::Start => Verb::Open { run, first, late },
            Wants::Answer { .. } => Verb::Consume { run, first, late },
        };
        (step.coordinator, verb, first)
    }

    #[expect(clippy::too_many_arguments, reason = "what a run begins with")]
    fn drive(
        &self,
        world: &mut World,
        gateway: usize,
        run: u8,
        coordinator: u32,
        first: Rec,
        generation: u8,
        base: u8,
    ) {
        let shared = self.without(Guard::ThreadPerRun) && world.thread != 0;
        world.begun[usize::from(run)] = Some(if shared { world.thread } else { base });
        world.gateways[gateway].drive = Some(Drive {
            run,
            coordinator,
            effects: List::default(),
            over: false,
            generation,
            said: 1,
            speaks: true,
            unshown: List::of(&[first]),
        });
    }

    fn tell(&self, world: &mut World, gateway: usize, told: Sig) {
        let here = &mut world.gateways[gateway];
        let Some(drive) = &mut here.drive else { return };
        let step = self.lab.tell(drive.coordinator, told);
        drive.coordinator = step.coordinator;
        drive.effects.extend(&step.effects);
        drive.over = step.over;
        if drive.over && drive.effects.len() == 0 {
            here.drive = None;
        }
    }

    fn say(&self, world: &mut World, gateway: usize) {
        let Some(drive) = world.gateways[gateway].drive else { return };
        let run = drive.run;
        let text = self.scene(world).requests[usize::from(run)].script[usize::from(drive.said)];
        let spoken = word(text);
        if let Some(drive) = &mut world.gateways[gateway].drive {
            drive.said += 1;
        }
        let holds = world.begun[usize::from(run)].unwrap_or(0) | bit(run);
        if self.without(Guard::ThreadPerRun) {
            world.thread = holds;
        }
        let resumed = !matches!(self.scene(world).requests[usize::from(run)].wants, Wants::Start);
        if resumed && text == "tool- c" {
            world.ran |= bit(run);
        }
        if text == "ask c" && self.without(Guard::HoldBack) {
            let record = self.lab.held(drive.coordinator, run, spoken);
            self.write(world, Verb::Append { run, generation: drive.generation, record });
        }
        self.tell(world, gateway, if text == "state" { Sig::State(holds) } else { Sig::Word(spoken) });
        if self.without(Guard::DeliverAfterDurable) {
            self.show_what_waits(world, gateway);
        }
    }

    fn show_what_waits(&self, world: &mut World, gateway: usize) {
        let Some(drive) = world.gateways[gateway].drive else { return };
        for effect in drive.effects.as_slice() {
            if let Act::Append(record) = self.lab.act(*effect) {
                show(world, drive.run, record);
            }
        }
    }

    fn perform(&self, world: &mut World, gateway: usize) -> Option<()> {
        let drive = world.gateways[gateway].drive.as_mut()?;
        let effect = drive.effects.pop_front()?;
        let (run, generation) = (drive.run, drive.generation);
        match self.lab.act(effect) {
            Act::Open(_) => panic!("a run that is open is opened again"),
            Act::Append(record) => {
                self.gather(world, gateway, record);
                let through = sequence(record);
                let told = match self.write_at(world, gateway, Verb::Append { run, generation, record }) {
                    Answer::Done => Sig::Appended { through },
                    // An earlier try of this very append, whose answer was lost, has landed.
                    Answer::Refused(No::NotContiguous { expected }) if expected > through => {
                        Sig::Appended { through }
                    }
                    _refused => Sig::AppendFailed,
                };
                self.tell(world, gateway, told);
            }
            Act::Commit { tail, head, interrupt, .. } => {
                if self.commit_apart(world, gateway, effect, &tail, head.is_some()) {
                    return Some(());
                }
                let verb = Verb::Commit { run, generation, effect };
                let told = match self.write_at(world, gateway, verb) {
                    Answer::Done if !interrupt => Sig::Committed,
                    Answer::Receipt { revision, state } => Sig::Receipt { revision, state },
                    // Somebody else writes this run now.
                    Answer::Refused(No::Fenced | No::Ended) => Sig::AppendFailed,
                    _refused => Sig::CommitRefused,
                };
                if matches!(told, Sig::Committed | Sig::Receipt { .. }) {
                    world.gateways[gateway].drive.as_mut()?.unshown.extend(&tail);
                }
                self.tell(world, gateway, told);
            }
            Act::ReadOutcome => {
                let outcome = self.read_outcome(world, gateway)?;
                self.tell(world, gateway, Sig::Outcome(outcome));
            }
            Act::Deliver { through } => {
                let drive = world.gateways[gateway].drive.as_mut()?;
                let shown = drive.unshown;
                drive.unshown.keep(|record| sequence(record) > through);
                for record in shown.as_slice().iter().filter(|record| sequence(**record) <= through) {
                    show(world, run, *record);
                }
            }
            Act::StopHarness => drive.speaks = false,
            Act::Close(Close::WithoutTerminal) => world.gateways[gateway].lost |= bit(run),
            Act::Close(Close::Terminal) | Act::Other => {}
        }
        let here = &mut world.gateways[gateway];
        here.drive = here.drive.filter(|drive| !(drive.over && drive.effects.len() == 0));
        Some(())
    }

    /// What a driver does that takes the parts of a commit apart. Returns whether it did, and must go on.
    fn commit_apart(&self, world: &mut World, gateway: usize, effect: u16, tail: &List, moves: bool) -> bool {
        let Some(drive) = world.gateways[gateway].drive else { return false };
        let run = drive.run;
        if self.without(Guard::TailInCommit) && tail.len() > 1 {
            let record = tail.as_slice()[0];
            let verb = Verb::Append { run, generation: drive.generation, record };
            self.write_at(world, gateway, verb);
        }
        if self.without(Guard::HeadWithTerminal) && moves {
            world.apart = Some((Half::Head, run));
        }
        if self.without(Guard::TerminalWithHead) && moves {
            if world.apart.is_none() {
                world.apart = Some((Half::Terminal, run));
                if let Some(drive) = &mut world.gateways[gateway].drive {
                    drive.effects.push_front(effect);
                }
                return true;
            }
            world.apart = None;
        }
        false
    }

    /// Fence, then read: a commit that is on its way can then no longer land.
    fn read_outcome(&self, world: &mut World, gateway: usize) -> Option<Outcome> {
        let drive = world.gateways[gateway].drive?;
        let run = drive.run;
        let answer = if self.without(Guard::Fence) {
            let row = world.row(run);
            if row.status == Some(Status::Running) {
                let last = row.log.len() as u8 - 1;
                Answer::Fenced { generation: drive.generation, last }
            } else {
                Answer::Refused(No::Ended)
            }
        } else {
            // No batch: a fence takes a run from whoever writes it, and needs no lease for that.
            self.write(world, Verb::Fence { run })
        };
        Some(match answer {
            Answer::Fenced { generation, last } => {
                let forgets = !self.without(Guard::ForgetUnwritten);
                let drive = world.gateways[gateway].drive.as_mut()?;
                drive.generation = generation;
                if forgets {
                    drive.unshown.keep(|record| sequence(record) <= last);
                }
                Outcome::NotCommitted
            }
            Answer::Refused(No::Ended) => {
                let mine = drive.unshown.as_slice().last() == world.row(run).log.as_slice().last();
                if mine || self.without(Guard::CompareTerminal) {
                    Outcome::Committed
                } else {
                    Outcome::Unreachable
                }
            }
            _other => Outcome::Unreachable,
        })
    }

    fn refuse(&self, world: &mut World, gateway: usize) -> Option<()> {
        world.left.faults -= 1;
        let effect = world.gateways[gateway].drive.as_mut()?.effects.pop_front()?;
        let told = match self.lab.act(effect) {
            Act::Commit { .. } => Sig::CommitRefused,
            Act::Append(record) => {
                self.gather(world, gateway, record);
                Sig::AppendFailed
            }
            _other => return None,
        };
        self.tell(world, gateway, told);
        Some(())
    }

    fn lose_answer(&self, world: &mut World, gateway: usize) -> Option<()> {
        world.left.faults -= 1;
        let epoch = world.gateways[gateway].epoch;
        let drive = world.gateways[gateway].drive.as_mut()?;
        let (run, generation, effect) = (drive.run, drive.generation, drive.effects.pop_front()?);
        let mut adrift = |verb| world.adrift[gateway] = Some(Adrift { verb, epoch, begun: false });
        match self.lab.act(effect) {
            // It is tried again as it is, once the store has told that it did not land.
            Act::Append(record) => {
                drive.effects.push_front(effect);
                adrift(Verb::Append { run, generation, record });
            }
            Act::Commit { tail, from, head, interrupt } => {
                drive.unshown.extend(&tail);
                adrift(Verb::Commit { run, generation, effect });
                let told = match head {
                    Some(state) if interrupt && self.without(Guard::Receipt) => {
                        Sig::Receipt { revision: from + 1, state }
                    }
                    _other if self.without(Guard::ReadOutcome) => Sig::Committed,
                    _other => Sig::CommitUnknown,
                };
                self.tell(world, gateway, told);
            }
            _other => return None,
        }
        Some(())
    }

    fn gather(&self, world: &mut World, gateway: usize, record: Rec) {
        if let Some(drive) = &mut world.gateways[gateway].drive
            && !drive.unshown.as_slice().contains(&record)
        {
            drive.unshown.push(record);
        }
    }

    fn look(&self, world: &mut World, gateway: usize, run: u8) {
        let lost = world.gateways[gateway].lost & bit(run) != 0;
        let row = world.row(run);
        if row.status == Some(Status::Running) {
            let seen = row.log.len() as u8;
            world.closing = Some(Closing { by: gateway as u8, run, seen, lost });
        } else {
            // It has its terminal, or never came to be.
            world.gateways[gateway].lost &= !bit(run);
        }
    }

    fn close_run(&self, world: &mut World) -> Option<()> {
        let Closing { by, run, seen, lost } = world.closing.take()?;
        let answer = self.write_at(world, usize::from(by), Verb::Close { run, seen, lost });
        if matches!(answer, Answer::Done | Answer::Refused(No::Ended)) {
            world.gateways[usize::from(by)].lost &= !bit(run);
        }
        Some(())
    }

    /// Writes in the name of a gateway. Every batch reads the lease of its gateway (design §6).
    fn write_at(&self, world: &mut World, gateway: usize, verb: Verb) -> Answer {
        if world.has_lease(gateway) || self.without(Guard::LeaseEpoch) {
            self.write(world, verb)
        } else {
            Answer::Refused(No::Fenced)
        }
    }

    fn write(&self, world: &mut World, verb: Verb) -> Answer {
        self.write_as(world, verb, false)
    }

    /// `lax`: its checks were made when its transaction began.
    fn write_as(&self, world: &mut World, verb: Verb, lax: bool) -> Answer {
        let (store, answer) = self.lab.write(world.store, verb, lax);
        if store != world.store {
            world.store = store;
            world.facts = self.lab.facts(store);
        }
        answer
    }

    /// Whether the checks of a lost write would pass now.
    pub fn would_pass(&self, world: &World, gateway: usize, adrift: &Adrift) -> bool {
        let leased = adrift.epoch == world.leases[gateway].epoch || self.without(Guard::LeaseEpoch);
        leased
            && matches!(
                self.lab.write(world.store, adrift.verb, false).1,
                Answer::Done | Answer::Receipt { .. } | Answer::Opened { .. }
            )
    }
}

/// Shows a record to those who read the run.
fn show(world: &mut World, run: u8, record: Rec) {
    let told = &mut world.told[usize::from(run)];
    let number = usize::from(sequence(record));
    match told.as_slice().get(number) {
        Some(shown) => world.garbled |= *shown != record,
        None if number == told.len() => told.push(record),
        None => world.garbled = true,
    }
}
