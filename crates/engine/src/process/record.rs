//! Which workers run, written down: a gateway that was killed finds them again, and ends them before it recovers.
//!
//! A record is on disk before its worker gets a request. Refuses to kill what it cannot know again for sure: a pid alone may be someone else's by now.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::command;
use super::proc::{self, Stat};
use crate::failpoint::{self, hit};

/// Why orphans may still run.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    /// The records cannot be read or removed.
    #[error("the records of workers in {} cannot be read: {source}", path.display())]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process does not die.
    #[error(
        "worker {pid} of an earlier gateway was killed and is still running; end it by hand and start again"
    )]
    Undying {
        /// Its pid.
        pid: i32,
    },
}

/// How long a killed process may take to be gone.
const DYING: Duration = Duration::from_secs(5);
const SUFFIX: &str = "pid";

/// The record of a worker that runs. Removed by [`Record::remove`] once its group is gone.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
}

/// What a record says.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Entry {
    leader: Stat,
    boot: String,
}

impl Record {
    /// Writes down a worker of ours that has just been started and leads its group. Durable when it returns.
    pub(crate) fn write(dir: &Path, agent: &str, pid: i32) -> io::Result<Self> {
        make_dir(dir)?;
        let leader = proc::stat(pid).unwrap_or(Stat { pid, group: pid, session: 0, started: 0, gone: false });
        let entry = Entry { leader, boot: proc::boot().unwrap_or_default() };
        let path = dir.join(format!("{agent}.{pid}.{SUFFIX}"));
        // Whole or not at all: half a record could name another process.
        let draft = dir.join(format!("{agent}.{pid}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(entry.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(dir)?.sync_all()?;
        Ok(Self { path })
    }

    /// The worker and its group are gone. A record that stays because this fails is harmless: it names a process that is not there.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a directory for us alone.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes a file that only we may read.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// Ends all workers that are written down in `dir`, whichever agent's: none of ours runs yet. When it returns, none of them runs.
pub(super) async fn reap(dir: &Path) -> Result<(), ReapError> {
    hit(failpoint::REAP);
    let dir = dir.to_path_buf();
    let unreadable = |source| ReapError::Unreadable { path: dir.clone(), source };
    let Some(entries) = unless_gone(fs::read_dir(&dir)).map_err(unreadable)? else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(SUFFIX) => {
                let text = unless_gone(fs::read_to_string(&path)).map_err(unreadable)?;
                match text.as_deref().map(Entry::parse) {
                    Some(Some(entry)) => {
                        end(&entry).await?;
                        hit(failpoint::REAP_ENDED);
                    }
                    Some(None) => {
                        tracing::warn!(path = %path.display(), "the record of a worker cannot be read; it is dropped");
                    }
                    None => {}
                }
            }
            Some("new") => {}
            Some(_) | None => continue,
        }
        unless_gone(fs::remove_file(&path)).map_err(unreadable)?;
    }
    hit(failpoint::REAP_RECORDS);
    end_marked(&command::mark(&dir)).await
}

/// Ends workers that were started and not written down yet when their gateway died, and children that left their worker's group: all
/// of them carry the mark.
async fn end_marked(mark: &OsStr) -> Result<(), ReapError> {
    let deadline = Instant::now() + DYING;
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    loop {
        let mut left = proc::marked(command::MARK, mark);
        left.retain(|process| process.pid != own);
        let Some(first) = left.first() else { return Ok(()) };
        if Instant::now() > deadline {
            return Err(ReapError::Undying { pid: first.pid });
        }
        for process in &left {
            tracing::info!(pid = process.pid, "ending a process of an earlier gateway's worker");
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::KILL); // gone is what we want
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A record may be removed by whoever else sees that its worker is gone.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Kills what is left of a worker and waits until it is gone.
async fn end(entry: &Entry) -> Result<(), ReapError> {
    if proc::boot().is_none_or(|boot| boot != entry.boot) {
        return Ok(()); // Another boot: nothing of it can run.
    }
    let deadline = Instant::now() + DYING;
    loop {
        let left = entry.left(&proc::all());
        let Some(first) = left.first() else { return Ok(()) };
        if Instant::now() > deadline {
            return Err(ReapError::Undying { pid: first.pid });
        }
        for process in left {
            // The leader, known again by its start time, still holds the group's number: the group is ours.
            if process.pid == entry.leader.pid {
                tracing::info!(pid = process.pid, "ending a worker that an earlier gateway left running");
                let _ = kill_group(entry.leader.group); // gone is what we want
            } else if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills a process group. The caller knows it to be the right one.
pub(crate) fn kill_group(group: i32) -> io::Result<()> {
    // 0 would mean our own group, 1 and what is below zero everybody.
    match (group > 1).then(|| Pid::from_raw(group)).flatten() {
        Some(pid) => Ok(kill_process_group(pid, Signal::KILL)?),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Entry {
    fn to_text(&self) -> String {
        let Stat { pid, group, session, started, gone: _ } = self.leader;
        format!(
            "worker 1\npid {pid}\ngroup {group}\nsession {session}\nstarted {started}\nboot {}\n",
            self.boot
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        if value("worker")? != "1" {
            return None;
        }
        let leader = Stat {
            pid: value("pid")?.parse().ok()?,
            group: value("group")?.parse().ok()?,
            session: value("session")?.parse().ok()?,
            started: value("started")?.parse().ok()?,
            gone: false,
        };
        Some(Self { leader, boot: value("boot")?.to_owned() })
    }

    /// What still runs of it: the very leader and its group; or, when the leader is gone, members that it left behind.
    fn left(&self, now: &[Stat]) -> Vec<Stat> {
        let Stat { pid, group, session, started, gone: _ } = self.leader;
        match now.iter().find(|process| process.pid == pid) {
            Some(leader) if leader.started != started => return Vec::new(), // the pid is someone else's by now
            Some(_) | None => {}
        }
        now.iter()
            .filter(|process| !process.gone && process.group == group && process.session == session)
            .filter(|process| process.started >= started)
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    fn sleeper(script: &str) -> Child {
        Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()).process_group(0).spawn().unwrap()
    }

    fn pid(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    fn has_proc() -> bool {
        let has = proc::boot().is_some();
        if !has {
            let _ = writeln!(io::stderr(), "SKIPPED: no /proc here, so orphans cannot be known again");
        }
        has
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let leader = Stat { pid: 7, group: 7, session: 3, started: 99, gone: false };
        let entry = Entry { leader, boot: "b-1".to_owned() };
        assert_eq!(Entry::parse(&entry.to_text()), Some(entry));
        for bad in ["", "worker 2\n", "worker 1\npid x\n", "worker 1\npid 1\ngroup 1\n"] {
            assert_eq!(Entry::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_worker_that_was_left_running_is_ended_with_its_children() {
        if !has_proc() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut child = sleeper("sleep 300 & sleep 300");
        let record = Record::write(dir.path(), "helper", pid(&child)).unwrap();
        while proc::members(pid(&child)).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        reap(dir.path()).await.unwrap();
        assert_eq!(proc::members(pid(&child)), []);
        assert!(!record.path.exists());
        child.wait().unwrap();
        reap(dir.path()).await.unwrap(); // nothing left, no error
    }

    #[tokio::test]
    async fn children_of_a_worker_that_is_gone_are_ended() {
        if !has_proc() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut child = sleeper("sleep 300 & read line");
        Record::write(dir.path(), "helper", pid(&child)).unwrap();
        child.wait().unwrap(); // its stdin is empty, so it is gone, and its child is not
        assert_eq!(proc::members(pid(&child)).len(), 1);
        reap(dir.path()).await.unwrap();
        assert_eq!(proc::members(pid(&child)), []);
    }

    #[tokio::test]
    async fn a_worker_that_was_not_written_down_yet_is_ended_and_one_of_another_gateway_is_not() {
        if !has_proc() {
            return;
        }
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let start = |dir: &Path| {
            let mut command = Command::new("/bin/sleep");
            command.arg("300").env(command::MARK, command::mark(dir)).process_group(0).spawn().unwrap()
        };
        let (mut ours, mut foreign) = (start(dir.path()), start(other.path()));
        while proc::marked(command::MARK, &command::mark(dir.path())).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        reap(dir.path()).await.unwrap();
        assert!(ours.wait().unwrap().code().is_none(), "it was killed");
        assert_eq!(proc::members(pid(&foreign)).len(), 1);
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }

    #[tokio::test]
    async fn a_pid_that_is_someone_elses_by_now_is_left_alone() {
        if !has_proc() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut child = sleeper("exec sleep 300");
        let record = Record::write(dir.path(), "helper", pid(&child)).unwrap();
        let text = fs::read_to_string(&record.path).unwrap();
        let mut entry = Entry::parse(&text).unwrap();
        entry.leader.started -= 1; // an earlier process that had the same pid
        fs::write(&record.path, entry.to_text()).unwrap();
        reap(dir.path()).await.unwrap();
        assert_eq!(proc::members(pid(&child)).len(), 1);
        entry.leader.started += 1;
        entry.boot = "another boot".to_owned();
        fs::write(&record.path, entry.to_text()).unwrap();
        reap(dir.path()).await.unwrap();
        assert_eq!(proc::members(pid(&child)).len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn rubbish_among_the_records_stops_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.1.pid"), "rubbish").unwrap();
        fs::write(dir.path().join("x.2.new"), "half").unwrap();
        fs::write(dir.path().join("c.sqlite"), "kept").unwrap();
        reap(dir.path()).await.unwrap();
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["c.sqlite"]);
        assert!(kill_group(0).is_err() && kill_group(1).is_err() && kill_group(-5).is_err());
    }
}
