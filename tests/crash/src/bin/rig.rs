//! `crash-rig`: kills gateways, has every restart checked, and says in one line what it came to.
//!
//! Exit 0 clean, 1 a promise was broken (the directory is kept), 2 it could not be done.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use causeway_crash::check::Class;
use causeway_crash::episode::{Episode, Programs, Tally, any_seed, work};
use causeway_crash::plan::{self, Hits};
use causeway_crash::random::Random;
use causeway_crash::scene::Scene;
use causeway_store::failpoint::When;

const USAGE: &str = "usage: crash-rig --causeway FILE --work DIR [--kills N] [--live N --python FILE] [--seed N] [--lanes N] \
                     [--episode N] [--control]";

/// Kills in one directory.
const RECORDED_KILLS: u64 = 10;
const LIVE_KILLS: u64 = 5;

struct Options {
    programs: Programs,
    kills: u64,
    live: u64,
    python: Option<PathBuf>,
    seed: u64,
    lanes: u64,
    episode: Option<u64>,
    control: bool,
}

fn main() -> ExitCode {
    match options().and_then(|options| if options.control { control(&options) } else { soak(&options) }) {
        Ok(clean) => ExitCode::from(u8::from(!clean)),
        Err(error) => {
            eprintln!("crash-rig: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn options() -> anyhow::Result<Options> {
    let mut words = std::env::args().skip(1);
    let beside = std::env::current_exe()?;
    let beside = |name: &str| beside.with_file_name(name);
    let mut options = Options {
        programs: Programs {
            causeway: PathBuf::new(),
            archive: beside("crash-archive"),
            check: beside("crash-check"),
            work: PathBuf::new(),
        },
        kills: 60,
        live: 0,
        python: None,
        seed: any_seed()?,
        lanes: 2,
        episode: None,
        control: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| USAGE);
        match word.as_str() {
            "--causeway" => options.programs.causeway = std::path::absolute(value()?)?,
            "--work" => options.programs.work = work(std::path::Path::new(&value()?))?,
            "--kills" => options.kills = value()?.parse()?,
            "--live" => options.live = value()?.parse()?,
            "--python" => options.python = Some(PathBuf::from(value()?)),
            "--seed" => options.seed = value()?.parse()?,
            "--lanes" => options.lanes = value()?.parse()?,
            "--episode" => options.episode = Some(value()?.parse()?),
            "--control" => options.control = true,
            _ => bail!(USAGE),
        }
    }
    ensure!(options.programs.causeway.is_file() && options.programs.work.is_dir(), USAGE);
    ensure!(options.live == 0 || options.python.is_some(), "--live needs --python");
    Ok(options)
}

/// A gateway that commits a head before its terminal, and dies between: the check must find it.
fn control(options: &Options) -> anyhow::Result<bool> {
    let known = Hits::new();
    let episode =
        Episode::new(&options.programs, &Scene::Recorded, &known, Random::new(options.seed), "control")?;
    let tally = episode.control("store.control.split:*,store.control.between:3")?;
    let found = tally.count(&[Class::Head]);
    println!(
        "control: a commit in two halves, {} kill between them: {found} heads that disagree with terminals",
        tally.kills
    );
    let died = tally.died_at.contains_key("store.control.between");
    ensure!(died, "the control did not die between the two halves");
    ensure!(found > 0, "the check does not notice a commit in two halves");
    Ok(true)
}

fn soak(options: &Options) -> anyhow::Result<bool> {
    println!("seed {}", options.seed);
    let mut total = Tally::default();
    let mut sides = vec![(Scene::Recorded, options.kills, RECORDED_KILLS)];
    if let Some(python) = &options.python {
        sides.push((Scene::Live(python.clone()), options.live, LIVE_KILLS));
    }
    let mut clean = true;
    for (scene, kills, each) in sides.into_iter().filter(|(_, kills, _)| *kills > 0) {
        let started = Instant::now();
        let tally = side(options, &scene, kills, each)?;
        clean &= tally.broken.is_empty();
        let name = if scene.is_live() { "live deepagents worker" } else { "recording driver" };
        println!(
            "{name}: {} kills, {} of them at {} failpoints; {} runs, {} events and {} answers told; {} s",
            tally.kills,
            tally.died_at.values().sum::<u64>(),
            tally.died_at.len(),
            tally.runs,
            tally.events,
            tally.answers,
            started.elapsed().as_secs(),
        );
        if !tally.missed.is_empty() {
            println!("{name}: not come to in time, and killed from outside: {:?}", tally.missed);
        }
        if scene.is_live() {
            println!("{name}: tools ran {} times, each as often as it was let", tally.notes);
        }
        println!("{}", sentence(&tally));
        total.add(tally);
    }
    for message in &total.messages {
        eprintln!("BROKEN {message}");
    }
    if options.episode.is_none() {
        clean &= covered(&total, options.live > 0);
    }
    println!("seed {}", options.seed);
    Ok(clean)
}

/// What it came to, in a sentence.
fn sentence(tally: &Tally) -> String {
    let count = |classes: &[Class]| tally.count(classes);
    format!(
        "{} kills, {} acknowledged events lost, {} runs without exactly one terminal, {} heads that disagree with terminals, {} \
         answers executed twice or lost; {} events after a terminal, {} workers left over",
        grouped(tally.kills),
        count(&[Class::Lost, Class::Told]),
        count(&[Class::Terminal]),
        count(&[Class::Head]),
        count(&[Class::Answer]),
        count(&[Class::AfterTerminal]),
        count(&[Class::Worker]),
    )
}

/// Whether every point that this build has was come to.
fn covered(total: &Tally, live: bool) -> bool {
    let missed: Vec<&str> =
        plan::reachable(live).map(|point| point.name).filter(|name| !total.came_to.contains(*name)).collect();
    let deadly = plan::reachable(live).filter(|point| point.when != When::Fault).count();
    println!("failpoints: {} come to, {} of {deadly} killed at", total.came_to.len(), total.died_at.len());
    if !missed.is_empty() {
        eprintln!("BROKEN no gateway came to the points {missed:?}");
    }
    missed.is_empty()
}

/// All episodes of one kind of agents, several at a time.
fn side(options: &Options, scene: &Scene, kills: u64, each: u64) -> anyhow::Result<Tally> {
    let seed = Random::new(options.seed).fork(u64::from(scene.is_live()));
    let kind = if scene.is_live() { "live" } else { "recorded" };
    let nothing = Hits::new();
    let tour =
        Episode::new(&options.programs, scene, &nothing, seed.fork(u64::MAX), &format!("{kind}-tour"))?;
    // A worker takes its time to start, and the store fails the same way with one or without.
    let faults: &[&str] = &["", "store.answer.lost:%5", "store.commit.dropped:%5", "store.commit.refused:%9"];
    let (tally, known) = tour.tour(faults.get(..if scene.is_live() { 1 } else { 4 }).unwrap_or(faults))?;
    let total = Mutex::new(tally);
    let failure = Mutex::new(None);
    let next = AtomicU64::new(options.episode.unwrap_or(0));
    let end = options.episode.map_or(kills.div_ceil(each), |episode| episode + 1);
    let lock = |mutex: &Mutex<Tally>, tally| mutex.lock().unwrap_or_else(PoisonError::into_inner).add(tally);
    std::thread::scope(|scope| {
        for _ in 0..options.lanes.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                    if number >= end || failed {
                        return;
                    }
                    let share = each.min(kills.saturating_sub(number * each)).max(1);
                    let done = Episode::new(
                        &options.programs,
                        scene,
                        &known,
                        seed.fork(number),
                        &format!("{kind}-{number}"),
                    )
                    .and_then(|episode| episode.run(share));
                    match done {
                        Ok(tally) => lock(&total, tally),
                        Err(error) => {
                            let error =
                                error.context(format!("{kind} episode {number}, seed {}", options.seed));
                            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// With commas: 1,000.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
