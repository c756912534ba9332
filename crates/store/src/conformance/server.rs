//! A PostgreSQL server for tests: an ordinary process in a directory of its own, on a free port of this machine.
//!
//! Refuses to outlive the tests: a shell stands between, which ends the server and removes its files once the other end
//! of its standard input is gone, however that came. Where no PostgreSQL is installed it says so, loudly, and gives none.
#![allow(clippy::print_stderr, clippy::expect_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::postgres::{Options, Tls};

/// How long anything of the server may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Whom the server runs as where the tests run as root, which it refuses.
const NOBODY: &str = "65534";

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    home: PathBuf,
    bin: PathBuf,
    port: u16,
    shell: Child,
}

impl Server {
    /// The server that all tests of a process share, each in a schema of its own; `None`, and a line that says so, where
    /// there is none to be had.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Another server, for tests that do it harm.
    ///
    /// # Panics
    /// It is installed and does not start.
    pub fn start() -> Option<Self> {
        let Some(bin) = binaries() else {
            eprintln!(
                "SKIPPED: no PostgreSQL is installed (Debian: postgresql-15); nothing of shared mode is tested"
            );
            return None;
        };
        let home = home();
        let cluster = home.join("data");
        let initdb = format!(
            "exec {}/initdb --pgdata={} --username=gateway --auth=trust --encoding=UTF8 --locale=C --no-sync",
            bin.display(),
            cluster.display()
        );
        let made = as_user(&initdb).stdin(Stdio::null()).output().expect("a shell");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        for _ in 0..20 {
            let port =
                TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
            let shell = spawn(&bin, &home, port);
            let mut server = Self { home: home.clone(), bin: bin.clone(), port, shell };
            if server.comes_up() {
                return Some(server);
            }
            // Somebody else took the port meanwhile, most likely.
            std::mem::forget(server);
        }
        let log = fs::read_to_string(home.join("log")).unwrap_or_default();
        assert!(log.is_empty(), "the server does not start: {log}");
        None
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its files.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A schema of its own, through the server's socket.
    pub fn empty(&self) -> Options {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = self.home.to_string_lossy().into_owned();
        Options::new(socket, self.port, "gateway", "postgres")
            .schema(format!("test_{number}"))
            .tls(Tls::Disable, None)
            .readers(2)
    }

    /// Kills the server as a crash of its machine does, and starts it again on the same port.
    ///
    /// # Panics
    /// It does not come up again.
    pub fn crash(&mut self) {
        self.kill();
        self.revive();
    }

    /// Stops the server as its operator does, whoever is connected.
    pub fn stop(&mut self) {
        self.signal("INT");
    }

    /// Kills every process of the server.
    pub fn kill(&mut self) {
        self.signal("KILL");
    }

    fn signal(&mut self, signal: &str) {
        let pid = fs::read_to_string(self.home.join("data/postmaster.pid")).unwrap_or_default();
        if let Some(pid) = pid.lines().next() {
            run(&format!("kill -{signal} {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.02; done"));
        }
        let _ = self.shell.wait();
    }

    /// Starts it again.
    ///
    /// # Panics
    /// It does not come up again.
    pub fn revive(&mut self) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            // The processes of the old one may still be leaving: then it refuses and is asked again.
            self.shell = spawn(&self.bin, &self.home, self.port);
            if self.comes_up() {
                return;
            }
        }
        let log = fs::read_to_string(self.home.join("log")).unwrap_or_default();
        assert!(log.is_empty(), "the server does not come up again: {log}");
    }

    /// Whether the server takes connections; false once it has ended instead.
    fn comes_up(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.answers() {
                return true;
            }
            if !matches!(self.shell.try_wait(), Ok(None)) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Server {
    /// Whether the server takes a connection now, as the first bytes of its protocol tell.
    fn answers(&self) -> bool {
        let asked =
            UnixStream::connect(self.home.join(format!(".s.PGSQL.{}", self.port))).and_then(|mut socket| {
                let asked = b"\0\x03\0\0user\0gateway\0database\0postgres\0\0";
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.write_all(&u32::try_from(asked.len() + 4).unwrap_or(0).to_be_bytes())?;
                socket.write_all(asked)?;
                let mut first = [0];
                socket.read_exact(&mut first)?;
                Ok(first == *b"R")
            });
        asked.unwrap_or(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The shell sees the end of its input, ends the server and removes the files.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Where the programs of the newest installed version are.
fn binaries() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    found.sort();
    found.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    found.into_iter().find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
}

/// A directory that the server's user owns; in memory where that is to be had, since these tests are not about disks.
fn home() -> PathBuf {
    let made = as_user("d=$(mktemp -d /dev/shm/causeway-pg.XXXXXX 2>/dev/null || mktemp -d); echo $d")
        .output()
        .expect("a shell");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// A command line as a user whom the server accepts.
fn as_user(line: &str) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    command.args(["-c", line]).current_dir("/");
    command
}

fn run(line: &str) {
    let _ = as_user(line).stdin(Stdio::null()).output();
}

/// The server, and the shell that watches for the end of its input.
fn spawn(bin: &Path, home: &Path, port: u16) -> Child {
    let line = format!(
        "exec 3<&0
         {bin}/postgres -D {home}/data -p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} \
             -c max_connections=200 -c shared_buffers=64MB >>{home}/log 2>&1 </dev/null 3<&- &
         server=$!
         (cat >/dev/null; : >{home}/over; kill -INT $server) <&3 3<&- &
         watch=$!
         wait $server
         if [ -e {home}/over ]; then rm -rf {home}; else kill -KILL $watch; fi",
        bin = bin.display(),
        home = home.display(),
    );
    as_user(&line).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell")
}
