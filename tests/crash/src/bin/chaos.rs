//! `chaos-rig`: three gateways on one PostgreSQL under load, blow after blow, and one line that says what it came to.
//!
//! Exit 0 clean, 1 a promise was broken (the history is kept), 2 it could not be done.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use causeway_crash::check::{Class, Verdict};
use causeway_crash::episode::{any_seed, fresh, judge, work};
use causeway_crash::fleet::{Blow, Fleet};
use causeway_crash::history::History;
use causeway_crash::load::{Doors, Load, PROTOCOLS};
use causeway_crash::random::Random;
use causeway_crash::scene::Scene;
use causeway_crash::world::{Start, World};

const USAGE: &str = "usage: chaos-rig --causeway FILE --work DIR [--seconds N] [--runs N] [--followed N] [--seed N] [--control]";
const GATEWAYS: usize = 3;
/// How many streams are attached to in the end, each at a gateway and a cursor of its own.
const ATTACHED: usize = 50;
/// Between blows, at most: in a minute everything happens once.
const PAUSE: u64 = 9_000;

struct Options {
    causeway: PathBuf,
    work: PathBuf,
    seconds: u64,
    /// Runs that are open at the same time, besides the mixed load.
    runs: u64,
    /// How many of them somebody follows while they go on.
    followed: u64,
    seed: u64,
    control: bool,
}

fn main() -> ExitCode {
    match options().and_then(|options| if options.control { control(&options) } else { chaos(&options) }) {
        Ok(clean) => ExitCode::from(u8::from(!clean)),
        Err(error) => {
            eprintln!("chaos-rig: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn options() -> anyhow::Result<Options> {
    let mut words = std::env::args().skip(1);
    let mut options = Options {
        causeway: PathBuf::new(),
        work: PathBuf::new(),
        seconds: 60,
        runs: 200,
        followed: 60,
        seed: any_seed()?,
        control: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().context(USAGE);
        match word.as_str() {
            "--causeway" => options.causeway = std::path::absolute(value()?)?,
            "--work" => options.work = work(Path::new(&value()?))?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--runs" => options.runs = value()?.parse()?,
            "--followed" => options.followed = value()?.parse()?,
            "--seed" => options.seed = value()?.parse()?,
            "--control" => options.control = true,
            _ => bail!(USAGE),
        }
    }
    ensure!(options.causeway.is_file() && options.work.is_dir(), USAGE);
    Ok(options)
}

fn chaos(options: &Options) -> anyhow::Result<bool> {
    println!("seed {}", options.seed);
    let dir = fresh(&options.work, "chaos")?;
    let notes = dir.join("notes");
    let Some(mut fleet) = Fleet::start(&options.causeway, &dir, GATEWAYS, &notes)? else {
        println!("SKIPPED: no PostgreSQL; gateways that share a database were not harmed");
        return Ok(true);
    };
    if !fleet.has_clocks() {
        println!("SKIPPED: no libfaketime; clocks of gateways were not set");
    }
    let world = World::new(History::open(&dir.join("history.jsonl"))?);
    let doors = fleet.serve(&[])?;
    let (stop, open, most) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut random = Random::new(options.seed);
    let seed = random.fork(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..options.runs {
            let (world, doors, stop, open, most) = (&world, &doors, &stop, &open, &most);
            let (random, followed) = (seed.fork(number), number < options.followed);
            scope.spawn(move || long_runs(world, doors, random, followed, stop, (open, most)));
        }
        for number in 0..Scene::Shared.clients() {
            let random = seed.fork(options.runs + number);
            let load = Load {
                world: &world,
                scene: &Scene::Shared,
                doors: &doors,
                random,
                focus: None,
                stop: &stop,
            };
            scope.spawn(move || load.run());
        }
        let done = weather(options, &mut fleet, &mut random, &doors, &world.history);
        stop.store(true, Ordering::Relaxed);
        // Nobody waits for a gateway that is stopped or gone.
        done.and(fleet.settle(&doors, &world.history))
    })
    .with_context(|| format!("in {}", dir.display()))?;
    fleet.settle(&doors, &world.history)?;
    let runs = world.memory().runs.clone();
    for _ in 0..ATTACHED {
        attach(&world, &doors, &mut random, &runs)?;
    }
    fleet.stop()?;
    let verdict = judged(&fleet, &dir, &notes)?;
    println!(
        "{GATEWAYS} gateways, {} s of load and trouble: {}; {} runs ({} long ones open at the same time), {} events and {} answers \
         told, tools ran {} times, {ATTACHED} streams attached to at any gateway and cursor",
        began.elapsed().as_secs(),
        fleet.blows.iter().map(|(blow, times)| format!("{blow:?} {times}")).collect::<Vec<_>>().join(", "),
        verdict.runs,
        most.load(Ordering::Relaxed),
        verdict.events,
        verdict.answers,
        verdict.notes,
    );
    let count =
        |classes: &[Class]| verdict.violations.iter().filter(|found| classes.contains(&found.class)).count();
    println!(
        "{} acknowledged events lost, {} runs without exactly one terminal, {} events after a terminal, {} heads that disagree, \
         {} answers or tool calls twice, {} orphans left for longer than three leases",
        count(&[Class::Lost, Class::Told]),
        count(&[Class::Terminal]),
        count(&[Class::AfterTerminal]),
        count(&[Class::Head]),
        count(&[Class::Answer]),
        count(&[Class::Orphan]),
    );
    println!("seed {}", options.seed);
    if verdict.violations.is_empty() {
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(verdict.violations.is_empty())
}

/// One blow after another, each kind as often as any other, until the time is over.
fn weather(
    options: &Options,
    fleet: &mut Fleet,
    random: &mut Random,
    doors: &Doors,
    history: &History,
) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut coming: Vec<Blow> = Vec::new();
    let mut next = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        fleet.tend(doors, history, false)?;
        if Instant::now() >= next {
            if coming.is_empty() {
                coming = Blow::ALL.to_vec();
            }
            let at = usize::try_from(random.below(coming.len() as u64)).unwrap_or(0);
            let blow = coming.swap_remove(at);
            fleet.strike(blow, random, history)?;
            next = Instant::now() + Duration::from_millis(PAUSE - random.below(PAUSE / 3));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// One long run after another; while it goes on somebody follows it, at whichever gateway, and comes back where it was
/// when the stream breaks off.
fn long_runs(
    world: &World,
    doors: &Doors,
    mut random: Random,
    followed: bool,
    stop: &AtomicBool,
    (open, most): (&AtomicU64, &AtomicU64),
) {
    while !stop.load(Ordering::Relaxed) {
        let op = world.op();
        let agent = if random.percent(50) { "long" } else { "longer" };
        let start = Start {
            agent: agent.to_owned(),
            conversation: format!("long-{op}"),
            message: format!("hello {op}"),
            key: Some(format!("k{op}")),
        };
        let Ok(Some(run_id)) = world.start(&doors.any(&mut random), &start) else {
            std::thread::sleep(Duration::from_millis(300));
            continue;
        };
        most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let protocol = random.pick(PROTOCOLS).copied().unwrap_or("canonical");
        let mut after = None;
        let until = Instant::now() + Duration::from_secs(180);
        while Instant::now() < until {
            let door = doors.any(&mut random);
            let told = if followed { world.follow(&door, &run_id, protocol, after, None) } else { Ok(after) };
            after = told.unwrap_or(after);
            let ended = world.show(&door, &run_id).is_ok_and(|run| !run["ended_at"].is_null());
            if ended {
                break;
            }
            std::thread::sleep(Duration::from_millis(if followed { 50 } else { 1_000 }));
        }
        open.fetch_sub(1, Ordering::Relaxed);
        if followed {
            // What is left of it; nothing, most of the time.
            let _told = world.follow(&doors.any(&mut random), &run_id, protocol, after, None);
        }
    }
}

/// Attaches at some gateway, leaves at some event, and attaches at another: the checker holds both against the log.
fn attach(world: &World, doors: &Doors, random: &mut Random, runs: &[String]) -> anyhow::Result<()> {
    let gone = |_| anyhow::anyhow!("a gateway is gone");
    let run_id = random.pick(runs).context("no run was started")?;
    let protocol = random.pick(PROTOCOLS).copied().unwrap_or("canonical");
    let most = usize::try_from(1 + random.below(30)).unwrap_or(1);
    let after = world.follow(&doors.any(random), run_id, protocol, None, Some(most)).map_err(gone)?;
    world.follow(&doors.any(random), run_id, protocol, after, None).map_err(gone)?;
    Ok(())
}

/// What the checking program says of the fleet, and the first of what is wrong.
fn judged(fleet: &Fleet, dir: &Path, notes: &Path) -> anyhow::Result<Verdict> {
    let check = std::env::current_exe()?.with_file_name("crash-check");
    let stored = fleet.database.place();
    let verdict = judge(&check, &dir.join("history.jsonl"), stored.as_ref(), Some(notes))?;
    for violation in verdict.violations.iter().take(50) {
        eprintln!("BROKEN {}: {:?}: {}", dir.display(), violation.class, violation.what);
    }
    Ok(verdict)
}

/// A commit that is held up on its way until another gateway has ended the run. The log has a key, which refuses a second
/// event of the same number; it is taken away here, so that only the lock of the lease is left. With the lock the commit must
/// not land, and without it the check must notice that it does.
fn control(options: &Options) -> anyhow::Result<bool> {
    for careless in [false, true] {
        let dir = fresh(&options.work, if careless { "careless" } else { "careful" })?;
        let notes = dir.join("notes");
        let Some(mut fleet) = Fleet::start(&options.causeway, &dir, 2, &notes)? else {
            println!("SKIPPED: no PostgreSQL; the control of the chaos rig was not run");
            return Ok(true);
        };
        let world = World::new(History::open(&dir.join("history.jsonl"))?);
        let armed = if careless { "store.control.careless:*" } else { "" };
        let doors = fleet.serve(&[armed])?;
        fleet.database.without_key()?;
        let owner = doors.number(0).context("a gateway")?;
        let start = Start {
            agent: "long".to_owned(),
            conversation: "held".to_owned(),
            message: "hello".to_owned(),
            key: None,
        };
        let run_id = world.start(&owner, &start).ok().flatten().context("no run")?;
        world
            .follow(&owner, &run_id, "canonical", None, Some(2))
            .map_err(|_| anyhow::anyhow!("it is gone"))?;
        let proxy = fleet.proxy(0)?.clone();
        proxy.hold(true);
        let until = Instant::now() + Duration::from_secs(120);
        while !proxy.held() {
            ensure!(Instant::now() < until, "no commit came by");
            std::thread::sleep(Duration::from_millis(20));
        }
        fleet.ended(&run_id)?;
        proxy.hold(false);
        let other = doors.number(1).context("a gateway")?;
        world.follow(&other, &run_id, "canonical", None, None).map_err(|_| anyhow::anyhow!("it is gone"))?;
        fleet.settle(&doors, &world.history)?;
        fleet.stop()?;
        let verdict = judged(&fleet, &dir, &notes)?;
        let found = verdict.violations.len();
        println!(
            "control: a commit held up beyond its lease, {} the lock: {found} violations",
            if careless { "without" } else { "with" }
        );
        ensure!(careless || found == 0, "what a gateway held up landed behind another's terminal");
        ensure!(!careless || found > 0, "the check does not notice what lands without the lock");
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(true)
}
