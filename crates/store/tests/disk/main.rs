//! What reaches the disk, and when: syncs before acknowledgements, power cuts, kills and errors at every call.
//!
//! A child takes the steps of `script` under strace. `CAUSEWAY_DISK=all` tries every call instead of a part of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod image;
mod script;
mod trace;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_contract::event::EventType;
use causeway_store::conformance::fixture::{first, open, opened, record, run_id};
use causeway_store::sqlite::SqliteStore;
use causeway_store::store::Store;
use tempfile::TempDir;

use self::image::{Cut, Disk};
use self::script::{Told, check, options, said, steps};
use self::trace::{Call, Trace, can_trace, traced};

const DIR: &str = "CAUSEWAY_DISK_DIR";
/// Set for a child that breaks its promise.
const CARELESS: &str = "CAUSEWAY_DISK_CARELESS";
/// A file for calls that only move the counters of the opening thread out of the way.
const PAD: &str = "CAUSEWAY_DISK_PAD";
const PADS: usize = 800;
const WRITERS: u64 = 6;
const TURNS: u64 = 25;

/// One write a line: a line is whole, or was not said.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn child_options(dir: &str) -> causeway_store::sqlite::Options {
    let options = options(Path::new(dir));
    if std::env::var_os(CARELESS).is_some() { options.without_sync() } else { options }
}

/// Not a test but a child; does nothing unless a test asks.
#[tokio::test]
async fn child_that_takes_every_step() {
    let Ok(dir) = std::env::var(DIR) else { return };
    if let Ok(pad) = std::env::var(PAD) {
        let file = std::fs::File::create(pad).unwrap();
        for at in 0..PADS {
            // One of them fails in place of the call of the same number by the thread that opens.
            let _ = file.write_at(b"x", 0);
            if at % 4 == 0 {
                let _ = file.sync_data();
                let _ = file.sync_all();
            }
        }
    }
    let store = match SqliteStore::open(child_options(&dir)) {
        Ok(store) => store,
        Err(trouble) => return say(&format!("CLOSED {} {trouble}", trouble.cause.as_str())),
    };
    for step in steps() {
        let answer = step.make(&store).await.map(|_| ());
        say(&format!("STEP {}", said(&answer)));
    }
    drop(store);
    say("THE END");
}

/// Not a test but a child: writers at once, each saying what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_with_many_writers() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(child_options(&dir)).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let id = run_id(&format!("r{writer}"));
            opened(&*store, open(id.as_str(), &format!("c{writer}"))).await;
            for turn in 1..=TURNS {
                let text = format!(r#"{{"delta":"{}"}}"#, token(writer, turn));
                let batch = vec![record(turn, EventType::TextDelta, &text)];
                store.append(&id, first(), batch).await.unwrap();
                say(&format!("ACK {}", token(writer, turn)));
            }
        });
    }
    tasks.join_all().await;
}

/// What is found again in the bytes of the log.
fn token(writer: u64, turn: u64) -> String {
    format!("token-{writer}-{turn}-end")
}

/// In memory where that is to be had: a sync is a call there too.
fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

struct Ran {
    out: String,
    trace: PathBuf,
}

/// Runs a child of this file under strace.
fn run(child: &str, place: &Path, inject: Option<&str>, set: &[(&str, &str)]) -> Ran {
    let trace = place.join("trace");
    let mut command: Command = traced(&trace, inject);
    command.arg(std::env::current_exe().unwrap()).args(["--exact", child, "--nocapture", "--test-threads=1"]);
    command.env(DIR, place.join("data")).envs(set.iter().copied());
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    Ran { out: String::from_utf8_lossy(&output.stdout).into_owned(), trace }
}

/// Acknowledgements whose records were not followed by a sync of the log first, and how many there were in all.
fn unsynced(calls: &[Call]) -> (Vec<String>, usize, usize) {
    let is_log = |path: &Path| path.to_str().is_some_and(|path| path.ends_with("causeway.db-wal"));
    // Tokens in the log, and whether a sync came since.
    let (mut logged, mut early, mut acknowledged, mut syncs) = (BTreeMap::new(), Vec::new(), 0, 0);
    for call in calls {
        match call {
            Call::Wrote(path, _, bytes) if is_log(path) => {
                let text = String::from_utf8_lossy(bytes);
                for found in text.split("token-").skip(1).filter_map(|rest| rest.split("-end").next()) {
                    logged.entry(format!("token-{found}-end")).or_insert(false);
                }
            }
            Call::Synced(path) if is_log(path) => {
                syncs += 1;
                logged.values_mut().for_each(|synced| *synced = true);
            }
            Call::Said(line) => {
                for token in line.lines().filter_map(|line| line.split("ACK ").nth(1)) {
                    acknowledged += 1;
                    if logged.get(token.trim()) != Some(&true) {
                        early.push(token.trim().to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    (early, acknowledged, syncs)
}

#[test]
fn every_acknowledged_write_was_synced_before_it_was_acknowledged() {
    if !can_trace() {
        return;
    }
    let place = place();
    let ran = run("child_with_many_writers", place.path(), None, &[]);
    let (early, acknowledged, syncs) = unsynced(&Trace::read(&ran.trace).calls);
    eprintln!("{acknowledged} acknowledged writes, {syncs} syncs of the log, {} too early", early.len());
    assert_eq!((early, acknowledged as u64), (Vec::new(), WRITERS * TURNS), "{}", ran.out);
    assert!(syncs > TURNS as usize, "{syncs} syncs");
    // The control: without syncs the same program finds every one of them.
    let control = self::place();
    let ran = run("child_with_many_writers", control.path(), None, &[(CARELESS, "1")]);
    let (early, acknowledged, _) = unsynced(&Trace::read(&ran.trace).calls);
    assert_eq!((early.len(), acknowledged as u64), (acknowledged, WRITERS * TURNS), "{}", ran.out);
}

/// Cuts the power at calls of this trace; what was lost or broken, and the number of cuts.
async fn cut_power(calls: &[Call], root: &Path, stride: usize) -> (Vec<String>, usize) {
    let (mut disk, mut lines, mut lost, mut cuts) = (Disk::new(root), Vec::new(), Vec::new(), 0);
    for (at, call) in calls.iter().enumerate() {
        disk.apply(call);
        if let Call::Said(line) = call {
            lines.extend(line.lines().map(str::to_owned));
        }
        // Whatever the stride: what was just acknowledged, and what was just synced.
        let matters = matches!(call, Call::Said(_) | Call::Synced(_));
        let of_ours = !matches!(call, Call::Opened(path, _) if !path.starts_with(root));
        if !of_ours || !(matters || at % stride == 0) {
            continue;
        }
        let outcomes = Told::read(lines.iter().map(String::as_str)).outcomes();
        let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at as u64 + 1);
        for how in [Cut::Nothing, Cut::Some(seed), Cut::Some(!seed), Cut::Everything] {
            let place = place();
            disk.cut(how, place.path());
            cuts += 1;
            if let Err(found) = check(place.path(), &outcomes).await {
                lost.push(format!("{how:?} after call {at} of {}: {found}", calls.len()));
            }
        }
    }
    (lost, cuts)
}

fn stride(part: usize) -> usize {
    if std::env::var("CAUSEWAY_DISK").is_ok_and(|what| what == "all") { 1 } else { part }
}

#[tokio::test]
async fn a_power_cut_at_any_call_loses_nothing_that_was_acknowledged() {
    if !can_trace() {
        return;
    }
    let place = place();
    let ran = run("child_that_takes_every_step", place.path(), None, &[]);
    let told = Told::read(ran.out.lines());
    assert!(told.ended && told.steps.iter().all(|step| step == "ok"), "{told:?}");
    let root = place.path().join("data");
    let calls = Trace::read(&ran.trace).calls;
    // In the order of the steps, with nobody else writing, nothing at all may be waiting at an acknowledgement.
    let mut disk = Disk::new(&root);
    for call in &calls {
        disk.apply(call);
        if matches!(call, Call::Said(line) if line.contains("STEP ok")) {
            assert_eq!(disk.unsynced("causeway.db-wal"), 0);
        }
    }
    let (lost, cuts) = cut_power(&calls, &root, stride(4)).await;
    eprintln!("{} calls, {cuts} power cuts, {} with a loss", calls.len(), lost.len());
    assert_eq!(lost, Vec::<String>::new());
    assert!(cuts > 200, "{cuts}");
    // The control: the same cuts find the losses of a store that does not sync.
    let control = self::place();
    let ran = run("child_that_takes_every_step", control.path(), None, &[(CARELESS, "1")]);
    let calls = Trace::read(&ran.trace).calls;
    let (lost, cuts) = cut_power(&calls, &control.path().join("data"), 1000).await;
    eprintln!("without syncs: {} of {cuts} power cuts with a loss", lost.len());
    assert!(lost.len() > 10, "{lost:?}");
}

/// One run of the child with one thing going wrong.
#[derive(Clone, Debug)]
struct Trial {
    inject: String,
    /// Whether the thread that opens the store is spared.
    padded: bool,
}

/// What goes wrong, and where: at every call of the writer's thread, and at the first ones of the thread that opens.
fn trials(most: [(&str, usize); 3], part: usize) -> Vec<Trial> {
    let [(write, _), (sync, syncs), (cut, _)] = most;
    let mut trials = Vec::new();
    for (call, what, every) in [
        (write, "error=ENOSPC", part),
        (write, "error=EIO", part),
        (write, "signal=SIGKILL", part),
        (sync, "error=EIO", 1),
        (sync, "signal=SIGKILL", part),
        (cut, "error=EIO", 1),
        (cut, "signal=SIGKILL", 1),
    ] {
        let most = most.iter().find(|(name, _)| *name == call).map_or(0, |(_, most)| *most);
        // Another remainder for each of them, so that together they meet every call.
        let from = 1 + trials.len() % every;
        for at in (from..=most).step_by(every) {
            trials.push(Trial {
                inject: format!("{call}:{what}:when={at}"),
                padded: call != cut && what.starts_with("error"),
            });
        }
        for at in (1..=8.min(most)).filter(|_| call != cut) {
            trials.push(Trial { inject: format!("{call}:{what}:when={at}"), padded: false });
        }
    }
    // A disk that stays broken.
    for at in (1..=syncs).step_by(part) {
        trials.push(Trial { inject: format!("{sync}:error=EIO:when={at}+"), padded: true });
    }
    trials
}

/// Runs one trial; what was wrong about it, if anything was.
fn attempt(trial: &Trial) -> Result<Told, String> {
    let place = place();
    let pad = place.path().join("pad");
    let set = [(PAD, pad.to_str().unwrap())];
    let set = if trial.padded { &set[..] } else { &[] };
    let ran = run("child_that_takes_every_step", place.path(), Some(&trial.inject), set);
    let told = Told::read(ran.out.lines());
    let wrong = |what: &str| Err(format!("{}: {what}: {told:?}", trial.inject));
    let answers: Vec<&String> = told.steps.iter().chain(&told.closed).collect();
    if trial.inject.contains("error=") {
        if !told.ended && told.closed.is_none() {
            return wrong("the child did not come to its end");
        }
        let cause = if trial.inject.contains("ENOSPC") { "disk_full" } else { "io" };
        for answer in &answers {
            // SQLite does not say why the shared memory of its log could not grow.
            if answer.contains("sqlite code 4874 (") {
                continue;
            }
            let words: Vec<_> = answer.splitn(3, ' ').collect();
            let typed = match words.as_slice() {
                ["ok"] | ["refused", ..] => true,
                ["unavailable" | "unknown", found, text] => *found == cause && text.contains(" ("),
                [found, ..] => *found == cause,
                [] => false,
            };
            if !typed {
                return wrong("an answer does not say what happened");
            }
        }
    }
    let calls = Trace::read(&ran.trace).calls;
    if let Some(lost) =
        calls.iter().position(|call| matches!(call, Call::Said(line) if line.contains("unknown io")))
    {
        // No write goes through a connection whose disk failed: the file is opened anew before the next answer.
        let opened = |call: &Call| matches!(call, Call::Opened(path, _) if path.ends_with("causeway.db"));
        let next_ok = calls[lost..]
            .iter()
            .position(|call| matches!(call, Call::Said(line) if line.contains("STEP ok")));
        let reopened = calls[lost..].iter().position(opened);
        if next_ok.is_some_and(|next| reopened.is_none_or(|reopened| reopened > next)) {
            return wrong("it went on as if nothing had happened");
        }
    }
    if trial.inject.ends_with('+') {
        let first = told.steps.iter().position(|step| step.contains(" io ")).unwrap_or(usize::MAX);
        // Step 15, the archive, may find nothing to do.
        let later =
            told.steps.iter().enumerate().filter(|(at, step)| *at > first && *at != 15 && *step == "ok");
        if later.count() > 0 {
            return wrong("it acknowledged a write on a broken disk");
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    match runtime.block_on(check(&place.path().join("data"), &told.outcomes())) {
        Ok(()) => Ok(told),
        Err(found) => wrong(&found),
    }
}

#[test]
fn an_error_or_a_kill_at_any_call_is_told_and_loses_nothing() {
    if !can_trace() {
        return;
    }
    let clean = place();
    let ran = run("child_that_takes_every_step", clean.path(), None, &[]);
    let trace = Trace::read(&ran.trace);
    let count = |call: &'static str| (call, trace.most.get(call).copied().unwrap_or(0));
    // Which of the two SQLite uses is up to its build.
    let sync = [count("fsync"), count("fdatasync")].into_iter().max_by_key(|(_, most)| *most).unwrap();
    let most = [count("pwrite64"), sync, count("ftruncate")];
    assert!(most.iter().all(|(_, most)| *most > 0) && most[0].1 < PADS && sync.1 < PADS / 4, "{most:?}");
    let trials = trials(most, stride(12));
    let (next, wrong) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let tally = std::sync::Mutex::new(BTreeMap::<String, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match attempt(trial) {
                        Ok(told) => {
                            let mut tally = tally.lock().unwrap();
                            for step in told.steps.iter().chain(&told.closed) {
                                let words: Vec<_> = step.split(' ').take(2).collect();
                                *tally.entry(words.join(" ")).or_default() += 1;
                            }
                        }
                        Err(what) => wrong.lock().unwrap().push(what),
                    }
                }
            });
        }
    });
    let (wrong, tally) = (wrong.into_inner().unwrap(), tally.into_inner().unwrap());
    eprintln!("{} trials at {most:?}, {} wrong; answers: {tally:?}", trials.len(), wrong.len());
    assert_eq!(wrong, Vec::<String>::new());
    // The trials reached what they were made for.
    for answer in ["ok", "unavailable disk_full", "unavailable io", "unknown io"] {
        assert!(tally.contains_key(answer), "{answer}: {tally:?}");
    }
}
