//! The machine against lists of operations, and its transitions one by one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);
const OPEN: Duration = Duration::from_secs(30);

fn bounds(places: usize, queue: usize) -> Bounds {
    Bounds { places, queue, patience: PATIENCE, failures: 3, open_for: OPEN }
}

/// A machine, its clock, and what it is known to have done.
struct Bench {
    admission: Admission,
    now: Instant,
}

impl Bench {
    fn new(places: usize, queue: usize) -> Self {
        Self { admission: Admission::new(bounds(places, queue)), now: Instant::now() }
    }

    fn claim(&mut self) -> Result<Ticket, Turned> {
        self.admission.claim(self.now, false)
    }

    /// A claim that stands in line.
    fn joined(&mut self) -> Ticket {
        let ticket = self.claim().unwrap();
        self.admission.join(self.now, ticket);
        ticket
    }

    fn answers(&mut self) -> Vec<(Ticket, Answer)> {
        std::iter::from_fn(|| self.admission.poll(self.now)).collect()
    }

    /// One that has its place.
    fn placed(&mut self) -> Ticket {
        let ticket = self.joined();
        assert_eq!(self.answers(), [(ticket, Ok(()))]);
        ticket
    }

    /// A start that fails, from its claim to its end.
    fn fails(&mut self) -> bool {
        let ticket = self.placed();
        let opens = self.admission.failed(self.now, ticket);
        self.admission.give_back(self.now, ticket);
        opens
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

#[test]
fn those_that_wait_are_answered_in_the_order_they_came() {
    let mut bench = Bench::new(1, 2);
    let first = bench.placed();
    let (second, third) = (bench.joined(), bench.joined());
    assert_eq!(bench.claim(), Err(Turned::Full));
    assert_eq!(bench.answers(), []);
    bench.admission.give_back(bench.now, first);
    let new = bench.joined(); // there is a place at this moment, and two before it
    assert_eq!(bench.answers(), [(second, Ok(()))]);
    bench.admission.give_back(bench.now, third); // it was cancelled
    bench.admission.give_back(bench.now, second);
    assert_eq!(bench.answers(), [(new, Ok(()))]);
}

#[test]
fn one_that_waited_too_long_goes_and_one_with_a_place_does_not() {
    let mut bench = Bench::new(1, 2);
    let first = bench.placed();
    let second = bench.joined();
    bench.pass(PATIENCE - Duration::from_millis(1));
    let third = bench.joined();
    assert_eq!(bench.answers(), []);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.answers(), [(second, Err(Turned::Late))]);
    bench.pass(PATIENCE);
    bench.admission.give_back(bench.now, first); // at the last moment
    assert_eq!(bench.answers(), [(third, Ok(()))]);
    assert_eq!(bench.admission.refused(), Refused { late: 1, ..Refused::default() });
}

#[test]
fn a_worker_that_is_idle_or_leaves_is_room_and_one_at_work_is_none() {
    let mut bench = Bench::new(1, 0);
    let place = bench.placed();
    assert_eq!(bench.claim(), Err(Turned::Full));
    assert!(bench.admission.rest(place, false));
    let next = bench.joined();
    assert!(bench.admission.wants_room());
    assert_eq!(bench.claim(), Err(Turned::Full), "the room is spoken for");
    bench.admission.leave(place);
    assert!(!bench.admission.wants_room());
    assert_eq!(bench.answers(), []);
    bench.admission.give_back(bench.now, place);
    assert_eq!(bench.answers(), [(next, Ok(()))]);
}

#[test]
fn a_worker_stays_unless_somebody_waits_for_its_place_or_it_asked_somebody() {
    let mut bench = Bench::new(2, 2);
    let (one, two) = (bench.placed(), bench.placed());
    bench.joined();
    assert!(bench.admission.rest(one, true), "it waits for an answer");
    assert!(bench.admission.wants_room(), "for whoever comes after it asked");
    assert!(!bench.admission.rest(two, false));
    assert!(!bench.admission.wants_room(), "one leaves, one waits");
}

#[test]
fn an_idle_worker_serves_its_conversation_without_a_place() {
    let mut bench = Bench::new(1, 0);
    let place = bench.placed();
    assert!(bench.admission.rest(place, false));
    let claim = bench.claim().unwrap();
    bench.admission.serve(bench.now, claim, place);
    assert_eq!((bench.admission.taken(), bench.claim()), (1, Err(Turned::Full)));
}

#[test]
fn starts_that_fail_in_a_row_open_the_circuit_and_one_that_does_not_closes_it() {
    let mut bench = Bench::new(2, 2);
    assert_eq!([bench.fails(), bench.fails()], [false, false]);
    let well = bench.placed();
    assert!(!bench.admission.started());
    assert_eq!([bench.fails(), bench.fails(), bench.fails()], [false, false, true]);
    assert_eq!(bench.admission.circuit(bench.now), Circuit::Open);
    assert_eq!(bench.claim(), Err(Turned::Unavailable { retry_after: OPEN }));
    let kept = bench.admission.claim(bench.now, true).unwrap(); // the kept worker is none the worse
    bench.admission.rest(well, false);
    bench.admission.serve(bench.now, kept, well);
    bench.pass(OPEN - Duration::from_secs(1));
    assert_eq!(bench.claim(), Err(Turned::Unavailable { retry_after: Duration::from_secs(1) }));
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.admission.circuit(bench.now), Circuit::HalfOpen);
    let tried = bench.placed();
    assert_eq!(bench.claim(), Err(Turned::Unavailable { retry_after: SOON }), "one is tried at a time");
    assert!(bench.admission.failed(bench.now, tried));
    bench.admission.give_back(bench.now, tried);
    assert_eq!(bench.claim(), Err(Turned::Unavailable { retry_after: OPEN }));
    bench.pass(OPEN);
    let given_up = bench.claim().unwrap();
    bench.admission.give_back(bench.now, given_up);
    bench.placed();
    assert!(bench.admission.started());
    assert_eq!(bench.admission.circuit(bench.now), Circuit::Closed);
    bench.claim().unwrap();
    assert_eq!(bench.admission.refused().unavailable, 4);
}

#[test]
fn an_open_circuit_turns_away_whoever_waits_as_soon_as_there_is_a_place() {
    let mut bench = Bench::new(1, 2);
    let place = bench.placed();
    let (second, third) = (bench.joined(), bench.joined());
    for _ in 0..3 {
        bench.admission.failed(bench.now, place);
    }
    assert_eq!(bench.answers(), []);
    bench.admission.give_back(bench.now, place);
    let refused = Err(Turned::Unavailable { retry_after: OPEN });
    assert_eq!(bench.answers(), [(second, refused), (third, refused)]);
    assert_eq!(bench.admission.taken(), 0);
}

#[test]
fn without_a_number_of_failures_there_is_no_circuit() {
    let mut bench = Bench::new(1, 0);
    bench.admission.bounds.failures = 0;
    assert!((0..100).all(|_| !bench.fails()));
}

#[test]
fn at_the_end_nobody_waits_and_nobody_comes() {
    let mut bench = Bench::new(1, 2);
    let place = bench.placed();
    let waiting = bench.joined();
    bench.admission.close();
    assert_eq!(bench.answers(), [(waiting, Err(Turned::Closing))]);
    assert_eq!(bench.claim(), Err(Turned::Closing));
    assert!(!bench.admission.rest(place, true));
}

#[test]
fn a_wait_beyond_what_a_clock_can_say_is_no_fault() {
    let mut bench = Bench::new(1, 1);
    (bench.admission.bounds.patience, bench.admission.bounds.open_for) = (Duration::MAX, Duration::MAX);
    bench.fails();
    bench.fails();
    assert!(bench.fails());
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Claim { kept: bool },
    Join(usize),
    GiveBack(usize),
    Serve(usize, usize),
    Rest(usize, bool),
    Leave(usize),
    Started(usize),
    Failed(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any::<bool>().prop_map(|kept| Op::Claim { kept }),
        8 => any::<usize>().prop_map(Op::Join),
        4 => any::<usize>().prop_map(Op::GiveBack),
        2 => any::<(usize, usize)>().prop_map(|(claim, place)| Op::Serve(claim, place)),
        4 => any::<(usize, bool)>().prop_map(|(place, asked)| Op::Rest(place, asked)),
        2 => any::<usize>().prop_map(Op::Leave),
        1 => any::<usize>().prop_map(Op::Started),
        4 => any::<usize>().prop_map(Op::Failed),
        3 => (0..12_000_u64).prop_map(Op::Pass),
    ]
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Claimed,
    Waiting(Instant),
    Starting,
    Up(Use),
}

/// What a reader of the rules knows about the machine, kept apart from it.
struct Model {
    bench: Bench,
    stages: BTreeMap<Ticket, Stage>,
    /// In the order of joining.
    line: Vec<Ticket>,
    failed: u32,
    /// Until when nothing may start, and who tries after that.
    open: Option<(Instant, Option<Ticket>)>,
}

impl Model {
    fn pick(&self, at: usize, is: impl Fn(Stage) -> bool) -> Option<Ticket> {
        let fitting: Vec<_> =
            self.stages.iter().filter(|(_, stage)| is(**stage)).map(|(ticket, _)| *ticket).collect();
        (!fitting.is_empty()).then(|| fitting[at % fitting.len()])
    }

    fn count(&self, is: impl Fn(Stage) -> bool) -> usize {
        self.stages.values().filter(|stage| is(**stage)).count()
    }

    /// Whether the circuit lets a start through, which is then the one that is tried.
    fn passes(&mut self, ticket: Ticket) -> bool {
        let now = self.bench.now;
        match &mut self.open {
            None => true,
            Some((_, Some(tried))) => *tried == ticket,
            Some((until, None)) if now < *until => false,
            Some((_, tried)) => {
                *tried = Some(ticket);
                true
            }
        }
    }

    fn gone(&mut self, ticket: Ticket) {
        self.stages.remove(&ticket);
        self.line.retain(|one| *one != ticket);
        if let Some((until, tried)) = &mut self.open
            && *tried == Some(ticket)
        {
            (*until, *tried) = (self.bench.now, None);
        }
    }

    fn act(&mut self, op: Op) {
        let now = self.bench.now;
        let (places, queue) = (self.bench.admission.bounds.places, self.bench.admission.bounds.queue);
        let claimed = |stage| stage == Stage::Claimed;
        let up = |stage| matches!(stage, Stage::Up(_));
        let held = |stage| matches!(stage, Stage::Starting | Stage::Up(_));
        match op {
            Op::Claim { kept } => {
                let spare = self.count(|stage| matches!(stage, Stage::Up(Use::Idle | Use::Leaving)));
                let room = places - self.count(held) + spare + queue;
                let claims = self.count(|stage| !held(stage));
                match self.bench.admission.claim(now, kept) {
                    Ok(ticket) => {
                        assert!(claims < room, "admitted beyond the queue");
                        assert!(kept || self.passes(ticket), "an open circuit let it through");
                        self.stages.insert(ticket, Stage::Claimed);
                    }
                    Err(Turned::Full) => assert!(claims >= room, "refused though there was room"),
                    Err(Turned::Unavailable { .. }) => {
                        assert!(!kept && !self.passes(Ticket(u64::MAX)), "a closed circuit refused it");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            Op::Join(at) => {
                let Some(ticket) = self.pick(at, claimed) else { return };
                let until = self.bench.admission.join(now, ticket);
                self.stages.insert(ticket, Stage::Waiting(until));
                self.line.push(ticket);
            }
            Op::GiveBack(at) => {
                let Some(ticket) = self.pick(at, |_| true) else { return };
                self.bench.admission.give_back(now, ticket);
                self.gone(ticket);
            }
            Op::Serve(claim, place) => {
                let Some(claim) = self.pick(claim, claimed) else { return };
                let Some(place) = self.pick(place, |stage| stage == Stage::Up(Use::Idle)) else { return };
                self.bench.admission.serve(now, claim, place);
                self.gone(claim);
                self.stages.insert(place, Stage::Up(Use::Work));
            }
            Op::Rest(at, asked) => {
                let Some(place) = self.pick(at, |stage| stage == Stage::Up(Use::Work)) else { return };
                let leaving = self.count(|stage| stage == Stage::Up(Use::Leaving));
                let stays = self.bench.admission.rest(place, asked);
                assert_eq!(stays, asked || self.line.len() <= leaving);
                self.stages.insert(place, Stage::Up(if stays { Use::Idle } else { Use::Leaving }));
            }
            Op::Leave(at) => {
                let Some(place) = self.pick(at, up) else { return };
                self.bench.admission.leave(place);
                self.stages.insert(place, Stage::Up(Use::Leaving));
            }
            Op::Started(at) => {
                let Some(place) = self.pick(at, |stage| stage == Stage::Starting) else { return };
                assert_eq!(self.bench.admission.started(), self.open.is_some());
                (self.open, self.failed) = (None, 0);
                self.stages.insert(place, Stage::Up(Use::Work));
            }
            Op::Failed(at) => {
                let Some(place) = self.pick(at, |stage| stage == Stage::Starting) else { return };
                let opens = match &self.open {
                    None => {
                        self.failed += 1;
                        self.failed >= self.bench.admission.bounds.failures
                    }
                    Some((_, tried)) => *tried == Some(place),
                };
                if opens {
                    self.open = Some((now + OPEN, None));
                }
                assert_eq!(self.bench.admission.failed(now, place), opens);
                self.bench.admission.give_back(now, place);
                self.gone(place);
            }
            Op::Pass(millis) => self.bench.pass(Duration::from_millis(millis)),
        }
    }

    /// What is answered, held against the rules.
    fn settle(&mut self) {
        let places = self.bench.admission.bounds.places;
        let held = |stage| matches!(stage, Stage::Starting | Stage::Up(_));
        for (ticket, answer) in self.bench.answers() {
            assert_eq!(self.line.first(), Some(&ticket), "not the first in line");
            let Some(Stage::Waiting(until)) = self.stages.get(&ticket).copied() else { panic!("{ticket:?}") };
            let free = self.count(held) < places;
            match answer {
                Ok(()) => {
                    assert!(free, "more places than workers allowed");
                    assert!(self.passes(ticket), "an open circuit let it through");
                    self.line.remove(0);
                    self.stages.insert(ticket, Stage::Starting);
                }
                Err(Turned::Late) => {
                    assert!(!free && until <= self.bench.now, "sent away too early");
                    self.gone(ticket);
                }
                Err(Turned::Unavailable { .. }) => {
                    assert!(free && !self.passes(ticket), "a closed circuit refused it");
                    self.gone(ticket);
                }
                Err(other) => panic!("{other}"),
            }
        }
        let spare = self.count(|stage| matches!(stage, Stage::Up(Use::Idle | Use::Leaving)));
        let admission = &self.bench.admission;
        assert_eq!((admission.taken(), admission.waiting()), (self.count(held), self.line.len()));
        assert!(admission.taken() <= places);
        assert!(self.line.is_empty() || admission.taken() == places, "one waits though there is a place");
        assert!(self.line.len() <= spare + admission.bounds.queue, "the queue is too long");
        for ticket in &self.line {
            let Stage::Waiting(until) = self.stages[ticket] else { panic!("{ticket:?}") };
            assert!(until > self.bench.now, "one waits longer than it may");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold(places in 1..4_usize, queue in 0..4_usize, ops in prop::collection::vec(op(), 0..120)) {
        let mut model = Model {
            bench: Bench::new(places, queue),
            stages: BTreeMap::new(),
            line: Vec::new(),
            failed: 0,
            open: None,
        };
        for op in ops {
            model.act(op);
            model.settle();
        }
        // Nothing stays behind once everybody is gone.
        while let Some(ticket) = model.pick(0, |_| true) {
            model.bench.admission.give_back(model.bench.now, ticket);
            model.gone(ticket);
            model.settle();
        }
        let left = &model.bench.admission;
        prop_assert_eq!((left.places.len(), left.idle, left.leaving, left.claimed.len(), left.queue.len()), (0, 0, 0, 0, 0));
    }
}
