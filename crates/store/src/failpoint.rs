//! The seams of store, engine and server at which a gateway that is built for it can be made to die.
//!
//! Refuses to be in a released binary: without the feature `failpoints` a call is nothing at all. With it,
//! `CAUSEWAY_FAILPOINT=NAME:N[,NAME:N…]` ends the process by SIGKILL, no word said, when it comes to a point for the N-th
//! time (`*`: each time, `%N`: each N-th); a point of the kind [`When::Fault`] or [`When::Control`] makes the store fail instead.
//! `CAUSEWAY_FAILPOINT_TRACE=FILE` notes which points were come to.

/// A seam.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// What it is called, `part.seam`.
    pub name: &'static str,
    /// When a gateway comes to it.
    pub when: When,
    /// What has happened there, and what has not.
    pub what: &'static str,
}

/// When a gateway comes to a point.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum When {
    /// At its first start on a directory.
    First,
    /// At each start; some only where the gateway before left something.
    Start,
    /// While it serves.
    Serve,
    /// Where the answer of the store to a commit is lost.
    Unknown,
    /// While it is told to stop.
    Stop,
    /// While ended runs are packed.
    Archive,
    /// It is no seam: the store fails there.
    Fault,
    /// It is no seam: the store is made wrong on purpose, so that the rig is seen to notice.
    Control,
}

/// Defines points, and `POINTS`, the list of them: `NAME = "part.seam", When, "what has happened there";`.
#[macro_export]
macro_rules! points {
    ($($constant:ident = $name:literal, $when:ident, $what:literal;)+) => {
        $(
            #[doc = $what]
            pub const $constant: $crate::failpoint::Point = $crate::failpoint::Point {
                name: $name,
                when: $crate::failpoint::When::$when,
                what: $what,
            };
        )+
        /// Every point of this crate.
        pub const POINTS: &[$crate::failpoint::Point] = &[$($constant),+];
    };
}

points! {
    LOCKED = "store.open.locked", Start, "the directory is locked, the file not opened yet";
    CHECKED = "store.open.checked", Start, "the file is sound, nothing of it was changed yet";
    MIGRATING = "store.migrate.steps", First, "every step was taken, in a transaction that is still open";
    MIGRATED = "store.migrate.done", First, "the file has the newest version";
    INSTANCE = "store.open.instance", Start, "a new instance has begun, nothing was recovered yet";
    BEGIN = "store.begin", Serve, "a write is taken from the queue, its transaction has not begun";
    STATEMENTS = "store.statements", Serve, "the statements of one write are done, others may join";
    COMMIT = "store.commit", Serve, "every statement of the transaction is done, before COMMIT";
    COMMITTED = "store.committed", Serve, "the transaction is on the disk, nobody was told";
    TOLD = "store.told", Serve, "everybody was told";
    OPEN_RUN = "store.open_run", Serve, "the run's row is there, its key and its first record are not";
    APPEND = "store.append", Serve, "records are in the log, before COMMIT";
    END_HEAD = "store.end.head", Serve, "the head has moved, the terminal is not in the log";
    END_LOGGED = "store.end.logged", Serve, "the terminal is in the log, the run's row does not say so";
    INTERRUPT = "store.interrupt", Serve, "the run is interrupted, its interrupt is not there yet";
    CONSUMED = "store.consume", Serve, "the interrupt is consumed, the resumed run is not there yet";
    WITHDRAWN = "store.withdraw", Serve, "the interrupt is taken back, the conversation still points to it";
    FENCED = "store.fence", Unknown, "the former writer is fenced off, before COMMIT";
    CLOSED = "store.close", Start, "an orphan has its terminal, its former writer is not fenced off";
    CLEARED = "store.clear", Serve, "the next epoch has begun, the head of the former is still there";
    DELETED = "store.delete", Serve, "the records of a conversation are gone, its runs are not";
    RESULT = "store.result", Serve, "a whole result is kept, before COMMIT";
    FORGOTTEN = "store.forgotten", Serve, "forgotten threads are noted, before COMMIT";
    PACKED = "store.pack.packed", Archive, "a run is packed, and still in the log as well";
    UNLOGGED = "store.pack.unlogged", Archive, "a run is packed and out of the log, its row does not say so";
    CHECKPOINT = "store.checkpoint", Stop, "every write has landed, the write-ahead log is not folded in";
    LOST = "store.answer.lost", Fault, "a transaction lands, and its callers hear that nobody knows";
    DROPPED = "store.commit.dropped", Fault, "a transaction is rolled back, and its callers hear that nobody knows";
    REFUSED = "store.commit.refused", Fault, "a transaction finds the disk full, and its callers hear so";
    SPLIT = "store.control.split", Control, "a head is committed in a transaction of its own, before its terminal";
    BETWEEN = "store.control.between", Control, "the gateway dies between those two";
    CARELESS = "store.control.careless", Control, "a gateway of shared mode looks at its lease and does not hold it";
}

#[cfg(not(feature = "failpoints"))]
mod off {
    use super::Point;

    /// Comes to a point: nothing, in this build.
    #[inline(always)]
    pub const fn hit(_: Point) {}

    /// Whether the store is to fail here: never, in this build.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    #[inline(always)]
    pub(crate) const fn strikes(_: Point) -> bool {
        false
    }
}

#[cfg(not(feature = "failpoints"))]
pub use off::hit;
#[cfg(all(any(feature = "sqlite", feature = "postgres"), not(feature = "failpoints")))]
pub(crate) use off::strikes;

#[cfg(feature = "failpoints")]
pub(crate) use on::strikes;
#[cfg(feature = "failpoints")]
pub use on::{Unarmed, arm, hit};

#[cfg(feature = "failpoints")]
mod on {
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use rustix::process::{Signal, getpid, kill_process};

    use super::{Point, When};

    /// Why what the environment asks for cannot be done.
    #[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
    #[error("CAUSEWAY_FAILPOINT: {0}")]
    pub struct Unarmed(String);

    /// The fault that strikes the write that looks next.
    static STRUCK: Mutex<Option<&'static str>> = Mutex::new(None);

    /// Comes to a point.
    pub fn hit(point: Point) {
        fail::fail_point!(point.name);
    }

    /// Whether the store is to fail here.
    pub(crate) fn strikes(point: Point) -> bool {
        hit(point);
        let mut struck = STRUCK.lock().unwrap_or_else(PoisonError::into_inner);
        struck.take_if(|name| *name == point.name).is_some()
    }

    /// At which hits something happens.
    #[derive(Clone, Copy)]
    enum Due {
        Each(u64),
        Nth(u64),
    }

    impl Due {
        fn parse(text: &str) -> Option<Self> {
            match (text, text.strip_prefix('%')) {
                ("*", _) => Some(Self::Each(1)),
                (_, Some(every)) => every.parse().ok().filter(|every| *every > 0).map(Self::Each),
                (nth, None) => nth.parse().ok().map(Self::Nth),
            }
        }

        fn is_now(self, hit: u64) -> bool {
            match self {
                Self::Each(every) => hit.is_multiple_of(every),
                Self::Nth(nth) => hit == nth,
            }
        }
    }

    /// Does what the environment asks for at these points.
    ///
    /// # Errors
    /// A point that does not exist, a number that is none, a trace that cannot be written.
    pub fn arm(tables: &[&'static [Point]]) -> Result<(), Unarmed> {
        let asked = std::env::var("CAUSEWAY_FAILPOINT").unwrap_or_default();
        let mut due = Vec::new();
        for one in asked.split(',').filter(|one| !one.is_empty()) {
            let (name, nth) = one.rsplit_once(':').ok_or_else(|| Unarmed(format!("{one} is no NAME:N")))?;
            let when = Due::parse(nth).ok_or_else(|| Unarmed(format!("{nth} is no number")))?;
            due.push((name.to_owned(), when));
        }
        let points = || tables.iter().flat_map(|table| table.iter());
        if let Some((name, _)) = due.iter().find(|(name, _)| !points().any(|point| point.name == name)) {
            return Err(Unarmed(format!("there is no point {name}")));
        }
        let trace = match std::env::var_os("CAUSEWAY_FAILPOINT_TRACE") {
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Some(Arc::new(file.map_err(|error| Unarmed(format!("the trace: {error}")))?))
            }
            None => None,
        };
        for &point in points() {
            let due = due.iter().find(|(name, _)| name == point.name).map(|(_, due)| *due);
            let (trace, hits) = (trace.clone(), AtomicU64::new(0));
            let come = move || {
                let hit = hits.fetch_add(1, Ordering::Relaxed) + 1;
                let is_due = due.is_some_and(|due| due.is_now(hit));
                note(trace.as_deref(), point, hit, is_due);
                if is_due {
                    happen(point);
                }
            };
            fail::cfg_callback(point.name, come).map_err(Unarmed)?;
        }
        Ok(())
    }

    /// One line for the first hit, the second, the fourth and so on, and one for the hit at which something happens.
    fn note(trace: Option<&File>, point: Point, hit: u64, is_due: bool) {
        if let Some(mut file) = trace
            && (is_due || hit.is_power_of_two())
        {
            let word = if is_due { "due" } else { "hit" };
            // A trace that cannot be written is missed by whoever reads it.
            let _ = file.write_all(format!("{word} {} {hit}\n", point.name).as_bytes());
        }
    }

    fn happen(point: Point) {
        match point.when {
            When::Fault => *STRUCK.lock().unwrap_or_else(PoisonError::into_inner) = Some(point.name),
            When::Control if matches!(point, super::SPLIT | super::CARELESS) => {
                *STRUCK.lock().unwrap_or_else(PoisonError::into_inner) = Some(point.name);
            }
            When::First
            | When::Start
            | When::Serve
            | When::Unknown
            | When::Stop
            | When::Archive
            | When::Control => {
                let _ = kill_process(getpid(), Signal::KILL);
                // It does not come back from that; should it, nothing more is to happen here.
                loop {
                    std::thread::park();
                }
            }
        }
    }
}
