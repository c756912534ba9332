//! What Linux tells about processes in `/proc`: enough to know one again after a restart of ours.
//!
//! Where there is no `/proc` nothing is known, and nothing is killed on a guess.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

/// A process, as far as it can be known again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stat {
    pub pid: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in ticks since boot: with the pid it names one process of this boot.
    pub started: u64,
    /// Whether it is dead and only waits for its parent.
    pub gone: bool,
}

/// A process that exists.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// All processes that can be seen.
pub(super) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

/// Those of a process group that still run.
pub(super) fn members(group: i32) -> Vec<Stat> {
    all().into_iter().filter(|process| process.group == group && !process.gone).collect()
}

/// Processes that run with `name=value` in the environment they were started with.
pub(super) fn marked(name: &str, value: &OsStr) -> Vec<Stat> {
    let wanted = [name.as_bytes(), b"=", value.as_bytes()].concat();
    let has = |process: &Stat| {
        // Somebody else's environment cannot be read, and is none of ours.
        fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted))
    };
    all().into_iter().filter(|process| !process.gone).filter(has).collect()
}

/// What names this boot of the machine: pids and start times mean nothing in another one.
pub(super) fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// `pid (name) state ppid pgrp session … starttime …`; the name may hold anything, parentheses too.
fn parse(line: &str) -> Option<Stat> {
    let (pid, rest) = line.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        pid: pid.parse().ok()?,
        gone: matches!(*fields.first()?, "Z" | "X" | "x"),
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_fields() {
        let line = "77 (a) S 1 (b) Z 1 77 5 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse(line), Some(Stat { pid: 77, group: 77, session: 5, started: 4242, gone: true }));
        assert_eq!(parse("77 (a) S 1"), None);
    }

    #[test]
    fn this_process_is_known_where_there_is_a_proc() {
        if boot().is_none() {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED: no /proc on this machine\n");
            return;
        }
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = stat(own).unwrap();
        assert!(stat.started > 0 && !stat.gone);
        assert!(members(stat.group).iter().any(|process| process.pid == own));
    }
}
