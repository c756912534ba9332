//! What must always hold, each law with the rule, decision or promise (D1…, `docs/durability.md`) that it stands for,
//! and what must be possible at all.

use causeway_contract::event::EventType;
use causeway_lifecycle::Thread;
use causeway_store::model::{Epoch, InterruptStatus, Revision, Status};
use stateright::Property;

use crate::Runs;
use crate::scene::{RUNS, Wants};
use crate::world::{Asked, Half, No, Row, Verb, World, bit};

/// R03, R04.
pub const TERMINAL: &str = "one terminal, and nothing after it (R03, R04)";
/// R01–R11, and decisions §2: the log is numbered without gaps.
pub const STREAM: &str = "the log of a run is a valid stream (R01–R11)";
/// R15.
pub const ERROR: &str = "an error implies that the head did not move (R15)";
/// R13.
pub const FINISHED: &str = "finished implies that the head moved (R13)";
/// R14.
pub const INTERRUPT: &str = "an interrupt is stored only with its terminal (R14)";
/// Decisions §6 "Resume"; promise D4.
pub const CONSUMED: &str = "an interrupt is consumed once, by one resumed run (D4)";
/// Decisions §6 "Resume": revision, expiry, and nobody took it back.
pub const TAKEN: &str = "an answer is taken only while the interrupt waits for it (decisions §6)";
/// R13: compare-and-set.
pub const CHAIN: &str = "each head builds on the head before it (R13)";
/// Decisions §6.
pub const ACTIVE: &str = "a conversation has one active run (decisions §6)";
/// Decisions §6 "Deliver after durable"; promise D1.
pub const SHOWN: &str = "what a reader was shown is in the log, under that number (D1)";
/// Promises D4, D5.
pub const ACCEPTED: &str = "an answer that was told to be accepted is the one that counts (D4, D5)";
/// Promise D5.
pub const SAME: &str = "the same answer under the same key is told the same run (D5)";
/// Decisions §6 "Fence before you speak"; promise D8.
pub const UNCERTAIN: &str = "once a run has failed, its commit can no longer land (D8)";
/// Promise D7, and `clear`.
pub const BASE: &str = "a run starts from committed states of its epoch (D7)";
/// Promise D6.
pub const RESUMED: &str = "an answered run starts from what its interrupt committed (D6)";
/// Decisions §6 "Resume": a tool runs after its approval, and once.
pub const TOOL: &str = "an approved tool runs once, after the approval is stored (D4)";
/// Design §9, promise 2.
pub const CARE: &str = "a run without a terminal is in somebody's care (promise 2)";

/// Laws about the log alone, as bits; computed once for each log.
pub struct Broken;

impl Broken {
    const TERMINAL: u16 = 1;
    const STREAM: u16 = 2;
    const ERROR: u16 = 4;
    const FINISHED: u16 = 8;
    const INTERRUPT: u16 = 16;
    const CONSUMED: u16 = 32;
    pub const TAKEN: u16 = 64;
    const CHAIN: u16 = 128;
    const ACTIVE: u16 = 256;

    /// What is wrong with one run.
    pub fn of_run(row: &Row, thread: Thread, valid: bool, log: &[EventType]) -> u16 {
        let terminals = log.iter().filter(|found| found.is_terminal()).count();
        let ends = log.last().is_some_and(|last| last.is_terminal());
        let running = row.status == Some(Status::Running);
        let moves = matches!(row.status, Some(Status::Finished | Status::Interrupted));
        let requested = log.contains(&EventType::InterruptRequested);
        let interrupted = log.contains(&EventType::RunInterrupted);
        let laws = [
            (Self::TERMINAL, terminals == usize::from(!running) && ends != running),
            (Self::STREAM, valid),
            (Self::ERROR, !log.contains(&EventType::RunError) || row.made.is_none()),
            (Self::FINISHED, thread == Thread::Ephemeral || !moves || row.made.is_some()),
            (Self::INTERRUPT, requested == interrupted && requested == row.interrupt.is_some()),
        ];
        broken(&laws)
    }

    /// What is wrong between runs. `moves`: the epoch of every move of the head, and what it was compared with.
    pub fn of_conversation(rows: &[Row; RUNS], moves: &[(Epoch, Revision)]) -> u16 {
        let running = rows.iter().filter(|row| row.status == Some(Status::Running)).count();
        let consumed = (0u8..).zip(rows).all(|(run, row)| {
            let mut resumed = (0u8..).zip(rows).filter(|(_, other)| other.resumed_from == Some(run));
            let (first, second) = (resumed.next(), resumed.next());
            let counts = row.interrupt == Some(InterruptStatus::Consumed);
            second.is_none() && first.is_some() == counts && first.map(|(by, _)| by) == row.resumed_by
        });
        let chain = moves.iter().enumerate().all(|(at, one)| !moves[..at].contains(one));
        broken(&[(Self::CONSUMED, consumed), (Self::CHAIN, chain), (Self::ACTIVE, running <= 1)])
    }
}

fn broken(laws: &[(u16, bool)]) -> u16 {
    laws.iter().filter(|(_, holds)| !holds).fold(0, |all, (law, _)| all | law)
}

type Law = fn(&Runs, &World) -> bool;

/// Every law.
pub const LAWS: &[(&str, Law)] = &[
    (TERMINAL, |_, world| world.facts.broken & Broken::TERMINAL == 0),
    (STREAM, |_, world| world.facts.broken & Broken::STREAM == 0),
    (ERROR, |_, world| world.facts.broken & Broken::ERROR == 0 && !failed_ahead(world)),
    (FINISHED, |_, world| {
        world.facts.broken & Broken::FINISHED == 0 && !matches!(world.apart, Some((Half::Head, _)))
    }),
    (INTERRUPT, |_, world| world.facts.broken & Broken::INTERRUPT == 0),
    (CONSUMED, |_, world| world.facts.broken & Broken::CONSUMED == 0),
    (TAKEN, |_, world| world.facts.broken & Broken::TAKEN == 0 && taken_back_stays(world)),
    (CHAIN, |_, world| world.facts.broken & Broken::CHAIN == 0),
    (ACTIVE, |_, world| world.facts.broken & Broken::ACTIVE == 0),
    (SHOWN, |_, world| !world.garbled && shown_is_there(world)),
    (ACCEPTED, accepted_counts),
    (SAME, same_answer_same_run),
    (UNCERTAIN, |model, world| (0..2).all(|gateway| !failed_may_land(model, world, gateway))),
    (BASE, |_, world| (0..RUNS as u8).all(|run| starts_from_committed(world, run))),
    (RESUMED, |_, world| (0..RUNS as u8).all(|run| resumes_what_waited(world, run))),
    (TOOL, |_, world| tool_runs_once(world)),
    (CARE, |_, world| (0..RUNS as u8).all(|run| is_cared_for(world, run))),
];

/// The head was written first, and then the run failed.
fn failed_ahead(world: &World) -> bool {
    let failed = |run| matches!(world.row(run).status, Some(Status::Error | Status::Uncertain));
    matches!(world.apart, Some((Half::Terminal, run)) if failed(run))
}

fn taken_back_stays(world: &World) -> bool {
    (0..RUNS as u8)
        .all(|run| world.voided & bit(run) == 0 || world.row(run).interrupt == Some(InterruptStatus::Voided))
}

fn shown_is_there(world: &World) -> bool {
    world
        .told
        .iter()
        .zip(&world.facts.rows)
        .all(|(told, row)| row.log.as_slice().starts_with(told.as_slice()))
}

fn accepted_counts(model: &Runs, world: &World) -> bool {
    let requests = model.scene(world).requests;
    requests.iter().zip(&world.asked).zip(0u8..).all(|((request, asked), number)| match *asked {
        Asked::Not | Asked::Unknown => true,
        Asked::Refused(_) => world.row(number).status.is_none(),
        Asked::Accepted { run } => {
            let row = world.row(run);
            let told = requests[usize::from(run)].wants;
            row.status.is_some()
                && match (request.wants, told) {
                    (Wants::Start, Wants::Start) => true,
                    (Wants::Answer { of, body, .. }, Wants::Answer { body: counted, .. }) => {
                        body == counted
                            && row.resumed_from == Some(of as u8)
                            && world.row(of as u8).resumed_by == Some(run)
                    }
                    (Wants::Start, Wants::Answer { .. }) | (Wants::Answer { .. }, Wants::Start) => false,
                }
        }
    })
}

fn same_answer_same_run(model: &Runs, world: &World) -> bool {
    let requests = model.scene(world).requests;
    let all = || requests.iter().zip(&world.asked);
    all().all(|(one, asked)| {
        let Asked::Accepted { run } = *asked else { return true };
        all().filter(|(other, _)| one.key.is_some() && one.key == other.key && one.wants == other.wants).all(
            |(_, other)| match *other {
                Asked::Accepted { run: again } => again == run,
                Asked::Refused(No::Consumed { by }) => by != run,
                Asked::Refused(_) | Asked::Unknown | Asked::Not => true,
            },
        )
    })
}

fn failed_may_land(model: &Runs, world: &World, gateway: usize) -> bool {
    let Some(adrift) = world.adrift[gateway] else { return false };
    let Verb::Commit { run, .. } = adrift.verb else { return false };
    let failed = matches!(world.row(run).status, Some(Status::Error | Status::Uncertain));
    failed && (adrift.begun || model.would_pass(world, gateway, &adrift))
}

fn starts_from_committed(world: &World, run: u8) -> bool {
    let Some(begun) = world.begun[usize::from(run)] else { return true };
    let committed =
        (0..RUNS as u8).filter(|run| world.row(*run).made.is_some()).fold(0, |all, run| all | bit(run));
    let former = if world.cleared & bit(run) == 0 { world.cleared } else { 0 };
    begun & !committed == 0 && begun & former == 0
}

fn resumes_what_waited(world: &World, run: u8) -> bool {
    let (Some(begun), Some(from)) = (world.begun[usize::from(run)], world.row(run).resumed_from) else {
        return true;
    };
    world.row(from).made == Some(begun)
}

fn tool_runs_once(world: &World) -> bool {
    world.ran.count_ones() <= 1
        && (0..RUNS as u8).all(|run| world.ran & bit(run) == 0 || world.row(run).resumed_from.is_some())
}

fn is_cared_for(world: &World, run: u8) -> bool {
    world.row(run).status != Some(Status::Running)
        || world.is_orphan(run)
        || world.gateways.iter().zip(0u8..).any(|(gateway, number)| {
            let drives = gateway.drive.is_some_and(|drive| drive.run == run);
            let opened = world.owners[usize::from(run)].0 == number && !gateway.lives;
            drives || gateway.lost & bit(run) != 0 || opened
        })
        || world.closing.is_some_and(|closing| closing.run == run)
}

/// What must be possible, so that the model is not empty.
pub const POSSIBLE: &[(&str, Law)] = &[
    ("a run finishes", |_, world| has(world, Status::Finished)),
    ("a run is interrupted", |_, world| has(world, Status::Interrupted)),
    ("a run fails", |_, world| has(world, Status::Error)),
    ("a run ends uncertain", |_, world| has(world, Status::Uncertain)),
    ("a cancelled run hands over its state", |_, world| {
        world.facts.rows.iter().any(|row| row.status == Some(Status::Cancelled) && row.made.is_some())
    }),
    ("a cancelled run hands over no state", |_, world| {
        world.facts.rows.iter().any(|row| row.status == Some(Status::Cancelled) && row.made.is_none())
    }),
    ("a lost commit lands after its gateway died", |_, world| {
        !world.gateways[0].lives
            && world.facts.rows[0].status == Some(Status::Finished)
            && !shown_whole(world, 0)
    }),
    ("an answered run finishes", |_, world| {
        world.facts.rows.iter().any(|row| row.resumed_from.is_some() && row.status == Some(Status::Finished))
    }),
    ("an answered run is interrupted again and answered again", |_, world| {
        world.facts.rows.iter().any(|row| row.resumed_from == Some(1) && row.status == Some(Status::Finished))
    }),
    ("an approved tool runs", |_, world| world.ran != 0),
    ("the same answer is told the same run twice", |_, world| {
        world.asked[1] == world.asked[2] && matches!(world.asked[1], Asked::Accepted { .. })
    }),
    ("an answer whose reply was lost counts, and its repetition finds the run", |_, world| {
        world.asked[1] == Asked::Unknown && world.asked[2] == Asked::Accepted { run: 1 }
    }),
    ("a lost answer lands and is closed, not driven", |_, world| {
        world.row(1).resumed_from.is_some()
            && world.row(1).status == Some(Status::Error)
            && world.asked[1] == Asked::Unknown
            && world.begun[1].is_none()
    }),
    ("another answer comes too late", |_, world| refused(world, |no| matches!(no, No::Consumed { .. }))),
    ("a key is used for another answer", |_, world| refused(world, |no| no == No::KeyReused)),
    ("an answer comes after the expiry", |_, world| {
        world.late && refused(world, |no| matches!(no, No::Closed | No::Other))
    }),
    ("an answer names another revision", |_, world| refused(world, |no| no == No::Revision)),
    ("a pending interrupt is taken back", |_, world| world.voided != 0),
    ("a run starts after a clear", |_, world| {
        let after = |run: u8| world.cleared & bit(run) == 0 && world.row(run).status.is_some();
        world.cleared != 0 && (0..RUNS as u8).any(after)
    }),
    ("a start is refused while a run is active", |_, world| refused(world, |no| no == No::Busy)),
    ("a start is refused while an interrupt is pending", |_, world| refused(world, |no| no == No::Pending)),
    ("another gateway closes the run of a slow one", |_, world| {
        let (owner, epoch) = world.owners[0];
        let gateway = &world.gateways[usize::from(owner)];
        gateway.lives
            && gateway.epoch == epoch
            && gateway.drive.is_some_and(|drive| drive.run == 0)
            && world.row(0).status == Some(Status::Uncertain)
    }),
    ("a slow gateway finishes before it is ousted", |_, world| {
        world.leases.iter().any(|lease| lease.expired)
            && world.gateways.iter().all(|gateway| gateway.lives)
            && world.row(0).status == Some(Status::Finished)
    }),
    ("a run starts on the gateway that ousted another", |_, world| {
        let opened = |run: usize| world.facts.rows[run].status.is_some();
        world.leases.iter().any(|lease| lease.epoch > 0)
            && opened(1)
            && world.owners[0].0 != world.owners[1].0
    }),
    ("a reader is sent away without a terminal", |_, world| {
        world.gateways.iter().any(|gateway| gateway.lost != 0)
    }),
    ("a run ends after its terminal was shown", |_, world| {
        shown_whole(world, 0) && has(world, Status::Finished)
    }),
];

fn has(world: &World, status: Status) -> bool {
    world.facts.rows.iter().any(|row| row.status == Some(status))
}

fn refused(world: &World, why: impl Fn(No) -> bool) -> bool {
    world.asked.iter().any(|asked| matches!(asked, Asked::Refused(no) if why(*no)))
}

fn shown_whole(world: &World, run: usize) -> bool {
    world.told[run] == world.facts.rows[run].log
}

/// Laws and possibilities as the checker takes them.
pub fn properties() -> Vec<Property<Runs>> {
    let laws = LAWS.iter().map(|(name, law)| Property::always(name, *law));
    laws.chain(POSSIBLE.iter().map(|(name, law)| Property::sometimes(name, *law))).collect()
}
