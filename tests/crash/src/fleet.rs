//! Several gateways on one database, and what happens to them: killed, stopped, cut off, their clocks set, the database
//! itself killed or restarted.
//!
//! Refuses to leave nobody: at least one gateway is neither dead nor stopped at any time, so that there is somebody to
//! keep the promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use causeway_store::conformance::server::Server;

use crate::database::{Database, SCHEMA};
use crate::gateway::{End, Gateway, PATIENCE, Place, Start};
use crate::history::{Entry, History};
use crate::http::Client;
use crate::load::Doors;
use crate::proxy::Proxy;
use crate::random::Random;
use crate::scene::Scene;

/// A little more than a lease lasts.
const LONGER_THAN_A_LEASE: u64 = 12_000;
/// Where Debian's `libfaketime` has what shifts a clock.
const FAKETIME: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// What may happen.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Blow {
    /// SIGKILL of a gateway; it starts again after a while.
    Kill,
    /// SIGSTOP of a gateway for longer than its lease, then SIGCONT.
    Stop,
    /// Every connection of a gateway to the database is cut.
    Cut,
    /// SIGKILL of the database.
    Crash,
    /// A restart of the database in good order, with everybody connected.
    Restart,
    /// The clock of a gateway is set to another hour.
    Shift,
}

impl Blow {
    pub const ALL: &[Self] = &[Self::Kill, Self::Stop, Self::Cut, Self::Crash, Self::Restart, Self::Shift];
}

/// One gateway of several.
#[derive(Debug)]
struct Member {
    name: String,
    place: Place,
    proxy: Proxy,
    gateway: Option<Gateway>,
    /// Until when it is stopped.
    stopped: Option<Instant>,
    /// When it starts again.
    back: Option<Instant>,
}

/// The gateways, and the database.
#[derive(Debug)]
pub struct Fleet {
    server: Server,
    pub database: Database,
    members: Vec<Member>,
    began: Instant,
    /// How often each thing happened.
    pub blows: BTreeMap<Blow, u64>,
    /// Runs of dead gateways that are not known to have ended.
    orphans: BTreeSet<String>,
    clocks: bool,
}

impl Fleet {
    /// So many gateways on a new database in `work`; `None` where no PostgreSQL is installed.
    ///
    /// # Errors
    /// One of them does not start.
    pub fn start(causeway: &Path, work: &Path, count: usize, notes: &Path) -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start() else { return Ok(None) };
        let database = Database::of(&server);
        let faketime = FAKETIME.iter().find(|file| Path::new(file).exists());
        let mut members = Vec::new();
        for number in 0..count {
            let name = format!("gw-{number}");
            let dir = work.join(&name);
            std::fs::create_dir_all(&dir)?;
            let proxy = Proxy::start(database.socket())?;
            Scene::Shared.write(&dir, notes)?;
            write!(
                File::options().append(true).open(dir.join("causeway.toml"))?,
                "[store]\nkind = \"postgres\"\n[store.postgres]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"gateway\"\n\
                 database = \"postgres\"\nschema = \"{SCHEMA}\"\ntls = \"disable\"\napplication_name = \"{name}\"\nreaders = 4\n",
                proxy.port()
            )?;
            let place = Place {
                environment: faketime.map(|file| clock(file, &dir)).unwrap_or_default(),
                dir,
                causeway: causeway.to_owned(),
                archive: PathBuf::new(),
                check: PathBuf::new(),
                notes: true,
            };
            set_clock(&place, 0)?;
            members.push(Member { name, place, proxy, gateway: None, stopped: None, back: None });
        }
        let clocks = faketime.is_some();
        let began = Instant::now();
        let orphans = BTreeSet::new();
        Ok(Some(Self { server, database, members, began, blows: BTreeMap::new(), orphans, clocks }))
    }

    /// Whether clocks can be set here.
    pub fn has_clocks(&self) -> bool {
        self.clocks
    }

    /// Starts every gateway, each with these failpoints armed.
    ///
    /// # Errors
    /// One does not start.
    pub fn serve(&mut self, armed: &[&str]) -> anyhow::Result<Doors> {
        let mut clients: Vec<Client> = Vec::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            let gateway = begin(&member.place, armed.get(at).copied().unwrap_or_default())?;
            clients.push(gateway.client);
            member.gateway = Some(gateway);
        }
        Ok(Doors::new(clients))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Something happens to somebody.
    ///
    /// # Errors
    /// It cannot be done.
    pub fn strike(&mut self, blow: Blow, random: &mut Random, history: &History) -> anyhow::Result<()> {
        let up: Vec<usize> = (0..self.members.len()).filter(|at| self.is_up(*at)).collect();
        let target = random.pick(&up).copied().context("no gateway is up")?;
        let blow = match blow {
            // Somebody has to be left.
            Blow::Kill | Blow::Stop if up.len() < 2 => Blow::Cut,
            Blow::Shift if !self.clocks => Blow::Cut,
            other => other,
        };
        *self.blows.entry(blow).or_default() += 1;
        match blow {
            Blow::Kill => self.kill(target, Duration::from_millis(500 + random.below(6_000)), history)?,
            Blow::Stop => {
                let member = self.member(target)?;
                member.gateway.as_ref().context("it is gone")?.signal("STOP")?;
                let time = Duration::from_millis(LONGER_THAN_A_LEASE + random.below(4_000));
                member.stopped = Some(Instant::now() + time);
            }
            Blow::Cut => {
                self.member(target)?.proxy.cut();
            }
            Blow::Crash | Blow::Restart => {
                let from = self.now();
                if blow == Blow::Crash {
                    self.server.kill();
                } else {
                    self.server.stop();
                }
                std::thread::sleep(Duration::from_millis(random.below(1_500)));
                self.server.revive();
                history.note(&Entry::Away { from, until: self.now() })?;
            }
            Blow::Shift => {
                let hours = i64::try_from(random.below(5)).unwrap_or(0) - 2;
                set_clock(&self.member(target)?.place, hours)?;
            }
        }
        Ok(())
    }

    fn member(&mut self, at: usize) -> anyhow::Result<&mut Member> {
        self.members.get_mut(at).context("no such gateway")
    }

    fn is_up(&self, at: usize) -> bool {
        self.members.get(at).is_some_and(|member| member.gateway.is_some() && member.stopped.is_none())
    }

    /// SIGKILL, and what it leaves behind.
    ///
    /// # Errors
    /// It does not die, or the database cannot say what it had.
    pub fn kill(&mut self, at: usize, away: Duration, history: &History) -> anyhow::Result<()> {
        let member = self.member(at)?;
        member.gateway.take().context("it is gone")?.kill()?;
        member.back = Some(Instant::now() + away);
        let name = member.name.clone();
        let (moment, runs) = (self.now(), self.database.runs_of(&name)?);
        self.orphans.extend(runs.iter().cloned());
        history.note(&Entry::Orphaned { gateway: at, at: moment, runs })
    }

    /// Lets stopped gateways go on and dead ones start again, where it is time (or `all` of them), and notes which orphans
    /// have ended.
    ///
    /// # Errors
    /// A gateway does not start.
    pub fn tend(&mut self, doors: &Doors, history: &History, all: bool) -> anyhow::Result<()> {
        let due = |moment: Option<Instant>| moment.is_some_and(|moment| all || moment <= Instant::now());
        for (at, member) in self.members.iter_mut().enumerate() {
            if due(member.stopped) {
                member.gateway.as_ref().context("it is gone")?.signal("CONT")?;
                member.stopped = None;
            }
            if due(member.back) {
                let gateway = begin(&member.place, "")?;
                doors.moved(at, gateway.client);
                (member.gateway, member.back) = (Some(gateway), None);
            }
            if let Some(gateway) = &mut member.gateway
                && member.stopped.is_none()
            {
                ensure!(!gateway.gone(Duration::ZERO)?, "{} was killed by somebody else", member.name);
            }
        }
        self.note_ended(history)
    }

    fn note_ended(&mut self, history: &History) -> anyhow::Result<()> {
        if self.orphans.is_empty() {
            return Ok(());
        }
        let open: BTreeSet<String> = self.database.open()?.into_iter().collect();
        let ended: Vec<String> = self.orphans.difference(&open).cloned().collect();
        for run_id in ended {
            self.orphans.remove(&run_id);
            history.note(&Entry::Closed { at: self.now(), run_id })?;
        }
        Ok(())
    }

    /// Waits until no run is open, or gives up: what then is open the checker says.
    ///
    /// # Errors
    /// A gateway or the database is gone.
    pub fn settle(&mut self, doors: &Doors, history: &History) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.tend(doors, history, true)?;
            if self.database.open()?.is_empty() {
                return self.note_ended(history);
            }
            if Instant::now() >= until {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until somebody ended this run.
    ///
    /// # Errors
    /// Nobody does.
    pub fn ended(&self, run_id: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.database.open()?.iter().any(|open| open == run_id) {
            ensure!(Instant::now() < until, "run {run_id} is not ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The way of one gateway to the database.
    ///
    /// # Errors
    /// There is no such gateway.
    pub fn proxy(&self, at: usize) -> anyhow::Result<&Proxy> {
        Ok(&self.members.get(at).context("no such gateway")?.proxy)
    }

    /// Ends the gateways in good order, and gives the database to whoever checks it.
    ///
    /// # Errors
    /// One does not stop.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        for member in &mut self.members {
            if let Some(gateway) = member.gateway.take() {
                ensure!(gateway.stop()? == End::Stopped, "{} was killed by somebody else", member.name);
            }
        }
        Ok(())
    }
}

/// Starts a gateway, which may find the database away.
fn begin(place: &Place, armed: &str) -> anyhow::Result<Gateway> {
    let until = Instant::now() + PATIENCE;
    loop {
        match Gateway::start(place, armed) {
            Ok(Start::Serves(gateway)) => return Ok(gateway),
            Ok(Start::Died | Start::Refused) => bail!("it did not live to serve: {}", place.dir.display()),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// What a process needs so that its clock, and not what it measures spans with, is told by a file in `dir`.
fn clock(library: &str, dir: &Path) -> Vec<(String, String)> {
    [
        ("LD_PRELOAD", library.to_owned()),
        ("FAKETIME_TIMESTAMP_FILE", dir.join("clock").display().to_string()),
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Sets a gateway's clock so many hours off, in one step: it reads the file or the one before.
fn set_clock(place: &Place, hours: i64) -> anyhow::Result<()> {
    let (file, new) = (place.dir.join("clock"), place.dir.join("clock.new"));
    std::fs::write(&new, format!("{hours:+}h\n"))?;
    Ok(std::fs::rename(new, file)?)
}
