//! Files that were damaged while nobody had them open: a start finds it and says so, or nothing is missing or changed.
//!
//! `CAUSEWAY_DAMAGES` places are hit (400). The seed is fixed: a place that is not found stays not found.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use causeway_store::conformance::fixture::{answer, deltas, finish, first, keyed, open, pause, run_id};
use causeway_store::conformance::op::{Op, same_store};
use causeway_store::conformance::reference::Reference;
use causeway_store::error::Cause;
use causeway_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;

fn options(dir: &Path) -> Options {
    Options::new(dir).low_disk_bytes(0).readers(1)
}

fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// A file with two turns, an answer, a long log of records and a large result.
fn steps() -> Vec<Op> {
    let mut steps = vec![
        Op::Open(keyed(open("r1", "c0"), "k", 1)),
        Op::Append(run_id("r1"), first(), deltas(1..200)),
        Op::Finish(run_id("r1"), first(), finish(200, 0, "h1")),
        Op::Open(open("r2", "c0")),
        Op::Result(run_id("r2"), "a", vec![7; 20_000]),
        Op::Pause(run_id("r2"), first(), pause(1, 1, "h2", "i")),
        Op::Answer(answer("r2", "i", 2, open("r3", "c0"))),
        Op::Open(open("r4", "c1")),
        Op::Pause(run_id("r4"), first(), pause(1, 0, "h4", "i")),
    ];
    steps.extend((0..12).map(|at| Op::Append(run_id("r3"), first(), deltas(1 + at * 20..21 + at * 20))));
    steps
}

/// A directory as it was left: in good order, or in the middle of it all with a write-ahead log.
struct Left {
    dir: TempDir,
    holds: Reference,
}

async fn left(in_good_order: bool) -> Left {
    let (work, dir) = (place(), place());
    let store = SqliteStore::open(options(work.path())).unwrap();
    let mut holds = Reference::default();
    for step in steps() {
        step.tell(&mut holds).unwrap();
        step.make(&store).await.unwrap();
    }
    holds.restart();
    if !in_good_order {
        copy(work.path(), dir.path());
    }
    drop(store);
    if in_good_order {
        copy(work.path(), dir.path());
    }
    // What a crash leaves has no shared memory that anybody may trust.
    let _ = fs::remove_file(dir.path().join("causeway.db-shm"));
    Left { dir, holds }
}

/// What a start makes of a damaged directory.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Verdict {
    /// It is refused: damaged, or not what was left.
    Refused,
    /// The damage hit nothing: everything is there.
    Whole,
    /// It opens, and the first to read the place is told.
    ToldWhenRead,
    /// It opens, and reads back something else.
    Silent,
}

impl Left {
    async fn verdict(&self, damage: impl FnOnce(&Path)) -> (Verdict, String) {
        let dir = place();
        copy(self.dir.path(), dir.path());
        damage(dir.path());
        let store = match SqliteStore::open(options(dir.path())) {
            Ok(store) => store,
            Err(trouble) => {
                let named = trouble.to_string();
                // A changed version number is taken for one.
                let causes = [Cause::Corrupted, Cause::Altered, Cause::NewerSchema];
                assert!(causes.contains(&trouble.cause), "{named}");
                assert!(named.contains("causeway.db") && named.contains("backup"), "{named}");
                return (Verdict::Refused, named);
            }
        };
        match same_store(&self.holds, &store).await {
            Ok(()) => (Verdict::Whole, String::new()),
            Err(difference) if difference.contains("cause: Corrupted") => (Verdict::ToldWhenRead, difference),
            Err(difference) => (Verdict::Silent, difference),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Cut(usize),
    Flip(usize),
    ZeroPage(usize),
}

impl Damage {
    fn onto(self, file: &Path) {
        let mut bytes = fs::read(file).unwrap();
        match self {
            Self::Cut(len) => bytes.truncate(len),
            Self::Flip(at) => bytes[at] ^= 0x20,
            Self::ZeroPage(at) => {
                let end = (at + PAGE).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(file, bytes).unwrap();
    }
}

/// Every page boundary, its neighbours and the header, and places from a seed.
fn damages(len: usize, header: usize, page: usize) -> Vec<Damage> {
    let count = std::env::var("CAUSEWAY_DAMAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let mut all = vec![Damage::Cut(0), Damage::Cut(1), Damage::Cut(16), Damage::Cut(header)];
    all.extend((0..header.min(100)).step_by(3).map(Damage::Flip));
    for at in (header..len).step_by(page) {
        all.extend([Damage::Cut(at), Damage::Cut(at + page / 2), Damage::ZeroPage(at), Damage::Flip(at)]);
    }
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    while all.len() < count {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(seed >> 33).unwrap() % len;
        all.push(if seed & (1 << 20) == 0 { Damage::Flip(at) } else { Damage::Cut(at) });
    }
    all.retain(|damage| !matches!(damage, Damage::Cut(at) if *at >= len));
    all
}

async fn tally(left: &Left, file: &str, all: Vec<Damage>) -> BTreeMap<Verdict, usize> {
    let mut tally = BTreeMap::new();
    for damage in all {
        let (verdict, what) = left.verdict(|dir| damage.onto(&dir.join(file))).await;
        if verdict == Verdict::Silent {
            eprintln!("{file} {damage:?}: {}", what.chars().take(600).collect::<String>());
        }
        *tally.entry(verdict).or_default() += 1;
    }
    eprintln!("{file}: {tally:?}");
    tally
}

fn length(left: &Left, file: &str) -> usize {
    usize::try_from(fs::metadata(left.dir.path().join(file)).unwrap().len()).unwrap()
}

#[tokio::test]
async fn any_damage_to_a_file_that_was_left_in_good_order_is_refused() {
    let left = left(true).await;
    assert!(!left.dir.path().join("causeway.db-wal").exists());
    let all = damages(length(&left, "causeway.db"), 100, PAGE);
    let count = all.len();
    // The zeroing of a page that holds nothing is none.
    let tally = tally(&left, "causeway.db", all).await;
    assert_eq!((tally.get(&Verdict::Silent), tally.get(&Verdict::ToldWhenRead)), (None, None), "{tally:?}");
    assert!(tally[&Verdict::Refused] * 100 >= count * 95, "{tally:?}");
}

#[tokio::test]
async fn any_damage_to_the_log_of_a_crash_is_refused_or_hits_nothing() {
    let left = left(false).await;
    let all = damages(length(&left, "causeway.db-wal"), 32, FRAME);
    let tally = tally(&left, "causeway.db-wal", all).await;
    assert_eq!(tally.get(&Verdict::Silent), None, "{tally:?}");
    assert_eq!(tally.get(&Verdict::ToldWhenRead), None, "{tally:?}");
    // The log cleared away by somebody who takes it for a leftover, and the file as well.
    for gone in [&["causeway.db-wal"][..], &["causeway.db", "causeway.db-wal"]] {
        let (verdict, what) =
            left.verdict(|dir| gone.iter().for_each(|file| fs::remove_file(dir.join(file)).unwrap())).await;
        assert_eq!(verdict, Verdict::Refused);
        assert!(what.contains("acknowledged") && what.contains("remove causeway.mark"), "{what}");
    }
}

#[tokio::test]
async fn an_older_copy_is_refused_until_the_mark_is_removed() {
    let left = left(true).await;
    let backup = fs::read(left.dir.path().join("causeway.db")).unwrap();
    let store = SqliteStore::open(options(left.dir.path())).unwrap();
    Op::Append(run_id("r3"), first(), deltas(241..243)).make(&store).await.unwrap();
    drop(store);
    fs::write(left.dir.path().join("causeway.db"), backup).unwrap();
    for refused in [
        SqliteStore::open(options(left.dir.path())).map(|_| ()).unwrap_err(),
        SqliteStore::open_read_only(left.dir.path()).map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(refused.cause, Cause::Altered, "{refused}");
    }
    fs::remove_file(left.dir.path().join("causeway.mark")).unwrap();
    let store = SqliteStore::open(options(left.dir.path())).unwrap();
    assert_eq!(same_store(&left.holds, &store).await, Ok(()));
}

#[tokio::test]
async fn a_mark_that_cannot_be_read_says_nothing_and_is_written_anew() {
    let left = left(true).await;
    fs::write(left.dir.path().join("causeway.mark"), "scribbled over").unwrap();
    let store = SqliteStore::open(options(left.dir.path())).unwrap();
    assert_eq!(same_store(&left.holds, &store).await, Ok(()));
    drop(store);
    let text = fs::read_to_string(left.dir.path().join("causeway.mark")).unwrap();
    assert!(text.starts_with("causeway mark 1 commits ") && text.contains(" left "), "{text}");
}
