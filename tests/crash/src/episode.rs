//! One directory's life: gateways on it die one after another, and each time what clients were told is checked.
//!
//! Refuses to go on after a violation: the directory is kept as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use causeway_store::failpoint::When;

use crate::check::{Class, Verdict};
use crate::gateway::{End, Gateway, Place, Start};
use crate::history::{Entry, History};
use crate::load::{Deed, Doors, Load};
use crate::plan::{self, Hits, Plan};
use crate::random::Random;
use crate::scene::Scene;
use crate::world::World;

/// The programs, and where directories are made.
#[derive(Clone, Debug)]
pub struct Programs {
    pub causeway: PathBuf,
    pub archive: PathBuf,
    pub check: PathBuf,
    pub work: PathBuf,
}

/// What episodes came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub kills: u64,
    /// Kills at each point; those from outside are not among them.
    pub died_at: BTreeMap<String, u64>,
    /// Points that a gateway did not come to before patience was over: it was killed from outside.
    pub missed: BTreeMap<String, u64>,
    /// Points that some gateway came to.
    pub came_to: BTreeSet<String>,
    pub runs: u64,
    pub events: u64,
    pub answers: u64,
    pub notes: u64,
    pub broken: BTreeMap<Class, u64>,
    pub messages: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.runs += other.runs;
        self.events += other.events;
        self.answers += other.answers;
        self.notes += other.notes;
        for (point, times) in other.died_at {
            *self.died_at.entry(point).or_default() += times;
        }
        for (point, times) in other.missed {
            *self.missed.entry(point).or_default() += times;
        }
        for (class, times) in other.broken {
            *self.broken.entry(class).or_default() += times;
        }
        self.came_to.extend(other.came_to);
        self.messages.extend(other.messages);
    }

    pub fn count(&self, classes: &[Class]) -> u64 {
        classes.iter().filter_map(|class| self.broken.get(class)).sum()
    }
}

/// One episode.
pub struct Episode<'a> {
    scene: &'a Scene,
    known: &'a Hits,
    random: Random,
    place: Place,
    world: World,
    tally: Tally,
    last: Verdict,
}

/// How long a gateway under load may take to come to the point where it is to die.
fn patience(scene: &Scene) -> Duration {
    if scene.is_live() { Duration::from_secs(20) } else { Duration::from_secs(5) }
}

impl<'a> Episode<'a> {
    /// A fresh directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(
        programs: &Programs,
        scene: &'a Scene,
        known: &'a Hits,
        random: Random,
        name: &str,
    ) -> anyhow::Result<Self> {
        let dir = fresh(&programs.work, name)?;
        let place = Place {
            dir,
            causeway: programs.causeway.clone(),
            archive: programs.archive.clone(),
            check: programs.check.clone(),
            notes: scene.is_live(),
            environment: Vec::new(),
        };
        scene.write(&place.dir, &place.notes_file())?;
        let world = World::new(History::open(&place.history())?);
        Ok(Self { scene, known, random, place, world, tally: Tally::default(), last: Verdict::default() })
    }

    /// So many kills, a restart, and an end in good order; then the directory is removed, unless something was wrong.
    ///
    /// # Errors
    /// What is no violation and should not happen: a gateway that does not start, a check that cannot be made.
    pub fn run(mut self, kills: u64) -> anyhow::Result<Tally> {
        let done = self.rounds(kills);
        let (hits, _) = plan::read_trace(&self.place.trace());
        self.tally.came_to.extend(hits.into_keys());
        let Verdict { runs, events, answers, notes, .. } = self.last;
        (self.tally.runs, self.tally.events, self.tally.answers, self.tally.notes) =
            (runs, events, answers, notes);
        done.with_context(|| format!("in {}", self.place.dir.display()))?;
        if self.tally.broken.is_empty() {
            std::fs::remove_dir_all(&self.place.dir)?;
        }
        Ok(self.tally)
    }

    fn rounds(&mut self, kills: u64) -> anyhow::Result<()> {
        let mut fresh = true;
        while self.tally.kills < kills && self.tally.broken.is_empty() {
            if !fresh && self.random.percent(12) {
                self.archive()?;
                continue;
            }
            let plan = self.plan(fresh);
            fresh = false;
            match Gateway::start(&self.place, &plan.armed)? {
                Start::Died => self.killed(true)?,
                Start::Refused => {}
                Start::Serves(gateway) => {
                    self.ready()?;
                    if self.tally.broken.is_empty() {
                        self.load(gateway, &plan)?;
                    }
                }
            }
        }
        self.last_round()
    }

    fn plan(&mut self, fresh: bool) -> Plan {
        let (live, known) = (self.scene.is_live(), self.known);
        let dice = self.random.below(100);
        let chosen = match (fresh, dice) {
            (true, 0..25) => plan::choose(&mut self.random, live, known, |when| when == When::First),
            (false, 0..30) => plan::choose(&mut self.random, live, known, |when| when == When::Start),
            (_, 30..38) => plan::choose(&mut self.random, live, known, |when| when == When::Stop),
            (_, 38..45) => plan::choose(&mut self.random, live, known, |when| when == When::Unknown),
            (_, 45..55) => None,
            _ => plan::choose(&mut self.random, live, known, |when| when == When::Serve),
        };
        chosen.unwrap_or_else(plan::from_outside)
    }

    fn load(&mut self, mut gateway: Gateway, plan: &Plan) -> anyhow::Result<()> {
        let stop = AtomicBool::new(false);
        let clients = self.scene.clients();
        let longest = if self.scene.is_live() { 8_000 } else { 1_200 };
        let moment = Duration::from_millis(20 + self.random.below(longest));
        let seed = Random::new(self.random.number());
        let (world, scene) = (&self.world, self.scene);
        let mut missed = false;
        let doors = &Doors::new(vec![gateway.client]);
        let died = std::thread::scope(|scope| {
            for number in 0..clients {
                let (random, focus) = (seed.fork(number), plan.focus);
                let load = Load { world, scene, doors, random, focus, stop: &stop };
                scope.spawn(move || load.run());
            }
            let died = (|| match plan.when {
                When::Stop => {
                    std::thread::sleep(moment);
                    Ok((gateway.stop()? == End::Killed).then_some(true))
                }
                _ if plan.armed.is_empty() => {
                    // From outside: unless it is dead before, which it must not be.
                    if gateway.gone(moment)? {
                        bail!("the gateway was killed by somebody else");
                    }
                    gateway.kill()?;
                    Ok(Some(false))
                }
                // At a start that is over it will hardly come to it any more.
                When::Start => match gateway.gone(moment)? {
                    true => Ok(Some(true)),
                    false => {
                        gateway.kill()?;
                        Ok(Some(false))
                    }
                },
                _ => match gateway.gone(patience(scene))? {
                    true => Ok(Some(true)),
                    false => {
                        missed = true;
                        gateway.kill()?;
                        Ok(Some(false))
                    }
                },
            })();
            stop.store(true, Ordering::Relaxed);
            died
        })?;
        if missed {
            *self.tally.missed.entry(plan.armed.clone()).or_default() += 1;
        }
        match died {
            Some(at_point) => self.killed(at_point),
            None => Ok(()),
        }
    }

    /// Notes a death.
    fn killed(&mut self, at_point: bool) -> anyhow::Result<()> {
        let point = if at_point { plan::read_trace(&self.place.trace()).1 } else { None };
        self.tally.kills += 1;
        if let Some(point) = &point {
            *self.tally.died_at.entry(point.clone()).or_default() += 1;
        }
        self.world.history.note(&Entry::Killed { point })
    }

    /// A gateway serves: nothing of former ones may run, and everything that was told must be true.
    fn ready(&mut self) -> anyhow::Result<()> {
        let workers = self.place.workers();
        self.world.history.note(&Entry::Ready { workers })?;
        self.check()
    }

    fn archive(&mut self) -> anyhow::Result<()> {
        let plan = plan::choose(&mut self.random, false, self.known, |when| when == When::Archive);
        if self.place.archive(&plan.map(|plan| plan.armed).unwrap_or_default())? {
            self.killed(true)?;
        }
        Ok(())
    }

    fn last_round(&mut self) -> anyhow::Result<()> {
        let Start::Serves(gateway) = Gateway::start(&self.place, "")? else {
            bail!("killed by somebody else")
        };
        self.ready()?;
        ensure!(gateway.stop()? == End::Stopped, "killed by somebody else");
        self.ready()
    }

    /// One gateway that is wrong on purpose, and a good one after it.
    ///
    /// # Errors
    /// As [`Episode::run`].
    pub fn control(mut self, armed: &str) -> anyhow::Result<Tally> {
        let Start::Serves(gateway) = Gateway::start(&self.place, armed)? else {
            bail!("it died before it served")
        };
        self.ready()?;
        self.load(gateway, &Plan { armed: armed.to_owned(), when: When::Control, focus: None })?;
        let Start::Serves(gateway) = Gateway::start(&self.place, "")? else {
            bail!("killed by somebody else")
        };
        self.ready()?;
        gateway.kill()?;
        Ok(self.tally)
    }

    /// Every deed once, and again where a point was not come to: what a gateway comes to, and how often.
    ///
    /// # Errors
    /// As [`Episode::run`].
    pub fn tour(mut self, first: &[&str]) -> anyhow::Result<(Tally, Hits)> {
        let mut known = Hits::new();
        let again = std::iter::repeat_n(&"", 6);
        for (round, armed) in first.iter().chain(again).enumerate() {
            if round >= first.len()
                && plan::served(self.scene.is_live()).all(|point| known.contains_key(point.name))
            {
                break; // clients came into each other's way before
            }
            let gateway = self.start_failing(armed)?;
            self.ready()?;
            let stop = AtomicBool::new(false);
            let (world, scene) = (&self.world, self.scene);
            let random = Random::new(self.random.number());
            let doors = &Doors::new(vec![gateway.client]);
            std::thread::scope(|scope| {
                for (number, deeds) in (0..).zip(TOURS) {
                    let random = random.fork(number);
                    let load = Load { world, scene, doors, random, focus: None, stop: &stop };
                    scope.spawn(move || load.tour(deeds));
                }
            });
            // One more that nobody ends, for the next gateway to find; it dies in its middle.
            let request = self.scene.slows();
            let start = crate::world::Start {
                agent: request.first().map_or("", |(agent, _)| agent).to_owned(),
                conversation: format!("orphan-{}", world.op()),
                message: format!("slow {}", world.op()),
                key: None,
            };
            if let Ok(Some(run_id)) = world.start(&gateway.client, &start) {
                let _told = world.follow(&gateway.client, &run_id, "canonical", None, Some(2));
            }
            gateway.kill()?;
            self.killed(false)?;
            let (hits, _) = plan::read_trace(&self.place.trace());
            known.extend(hits);
        }
        self.tally.kills = 0; // they prove nothing: nobody chose their moments
        self.place.archive("")?;
        self.last_round()?;
        let (hits, _) = plan::read_trace(&self.place.trace());
        known.extend(hits);
        Ok((self.run(0)?, known))
    }

    /// A gateway whose store fails now and then, which may keep it from recovering at once.
    fn start_failing(&self, armed: &str) -> anyhow::Result<Gateway> {
        for _ in 0..20 {
            match Gateway::start(&self.place, armed)? {
                Start::Serves(gateway) => return Ok(gateway),
                Start::Refused => {} // what it did write, it has written
                Start::Died => bail!("killed by somebody else"),
            }
        }
        bail!("no gateway recovers what is left")
    }

    fn check(&mut self) -> anyhow::Result<()> {
        let notes = self.place.notes.then(|| self.place.notes_file());
        let verdict =
            judge(&self.place.check, &self.place.history(), self.place.data().as_os_str(), notes.as_deref())?;
        for violation in &verdict.violations {
            *self.tally.broken.entry(violation.class).or_default() += 1;
            let place = self.place.dir.display();
            self.tally.messages.push(format!("{place}: {:?}: {}", violation.class, violation.what));
        }
        self.last = verdict;
        Ok(())
    }
}

/// Who does what on a tour.
const TOURS: &[&[Deed]] = &[
    &[Deed::Talk, Deed::Ask, Deed::Answer, Deed::Clear, Deed::Converse],
    &[Deed::Big, Deed::Cancel, Deed::Void, Deed::Ask, Deed::Answer],
    &[Deed::Delete, Deed::Expire, Deed::Replay, Deed::Ask],
];

/// What the checking program says of a history and what is stored: a data directory, or the place of a schema.
///
/// # Errors
/// It could not say.
pub fn judge(check: &Path, history: &Path, stored: &OsStr, notes: Option<&Path>) -> anyhow::Result<Verdict> {
    let mut command = Command::new(check);
    command.arg(history).arg(stored).args(notes);
    let output = command.output().with_context(|| check.display().to_string())?;
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "crash-check could not: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// An empty directory with this name; what was there before is removed.
///
/// # Errors
/// It cannot be made.
pub fn fresh(work: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let dir = work.join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// A seed for whoever names none.
///
/// # Errors
/// The clock is before 1970.
pub fn any_seed() -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(now.as_secs() ^ u64::from(now.subsec_nanos()))
}

/// The folder in which everything is made anew.
///
/// # Errors
/// It cannot be made.
pub fn work(dir: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    Ok(std::path::absolute(dir)?)
}
