//! Disks and directories in trouble: each gets an error that names cause and remedy, and nothing acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use causeway_contract::event::EventType;
use causeway_store::conformance::fixture::{
    deltas, fail, finish, first, keyed, log, open, opened, record, replayed, run_id, run_to_end, sequence,
};
use causeway_store::error::{Cause, Error, Unavailable};
use causeway_store::model::{Outcome, Owner, RunFilter, Status};
use causeway_store::sqlite::{Options, SqliteStore};
use causeway_store::store::Store;

fn options(dir: &Path) -> Options {
    Options::new(dir).low_disk_bytes(0)
}

fn trouble(opened: Result<SqliteStore, Unavailable>) -> Unavailable {
    opened.map(|_| ()).unwrap_err()
}

fn cause<T: std::fmt::Debug>(answer: Result<T, Error>) -> Cause {
    match answer.unwrap_err() {
        Error::Unavailable(trouble) => trouble.cause,
        other => panic!("not unavailable: {other}"),
    }
}

#[tokio::test]
async fn the_directory_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("deep/data");
    let store = SqliteStore::open(options(&data)).unwrap();
    run_to_end(&store, open("r1", "c"), "h1").await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for file in fs::read_dir(&data).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_directory_in_use_is_refused_and_free_again_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(dir.path())).unwrap();
    let refused = trouble(SqliteStore::open(options(dir.path())));
    assert_eq!(refused.cause, Cause::InUse);
    assert_eq!(refused.detail, format!("process {}", std::process::id()));
    drop(store);
    SqliteStore::open(options(dir.path())).unwrap();
}

#[test]
fn a_file_of_a_newer_version_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(options(dir.path())).unwrap());
    let file = dir.path().join("causeway.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(connection);
    let before = fs::read(&file).unwrap();
    let refused = trouble(SqliteStore::open(options(dir.path())));
    assert_eq!(
        (refused.cause, refused.detail.as_str()),
        (Cause::NewerSchema, "schema 9, this version reads up to 3")
    );
    assert_eq!(trouble(SqliteStore::open_read_only(dir.path())).cause, Cause::NewerSchema);
    assert!(fs::read(&file).unwrap() == before, "the file was changed");
}

#[test]
fn another_programs_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(dir.path().join("causeway.db")).unwrap();
    connection.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(connection);
    assert_eq!(trouble(SqliteStore::open(options(dir.path()))).cause, Cause::Corrupted);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("causeway.db"), "not a database, but long enough to have a header".repeat(200))
        .unwrap();
    let refused = trouble(SqliteStore::open(options(dir.path())));
    assert_eq!(refused.cause, Cause::Corrupted);
    assert!(refused.to_string().contains("put back a backup"), "{refused}");
    assert_eq!(trouble(SqliteStore::open_read_only(dir.path())).cause, Cause::Corrupted);
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(dir.path())).unwrap();
    opened(&store, open("r1", "c")).await;
    for batch in 0..40 {
        store.append(&run_id("r1"), first(), deltas(1 + batch * 100..101 + batch * 100)).await.unwrap();
    }
    drop(store);
    let file = dir.path().join("causeway.db");
    let mut bytes = fs::read(&file).unwrap();
    let pages = bytes.len() / 4096;
    for page in bytes.chunks_mut(4096).skip(pages / 2).take(4) {
        page[..2048].fill(0xa5);
    }
    fs::write(&file, bytes).unwrap();
    assert_eq!(trouble(SqliteStore::open(options(dir.path()))).cause, Cause::Corrupted);
    // Nor without the mark that vouches for the file.
    fs::remove_file(dir.path().join("causeway.mark")).unwrap();
    assert_eq!(trouble(SqliteStore::open(options(dir.path()))).cause, Cause::Corrupted);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_lets_runs_go_on_when_there_is_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(dir.path()).max_pages(120)).unwrap();
    run_to_end(&store, open("r0", "c"), "h1").await;
    opened(&store, open("r1", "c")).await;
    let large = |number| record(number, EventType::Warning, &format!("\"{}\"", "x".repeat(20_000)));
    let mut last = 0;
    let full = loop {
        match store.append(&run_id("r1"), first(), vec![large(last + 1)]).await {
            Ok(()) => last += 1,
            Err(error) => break error,
        }
        assert!(last < 1000, "the file never fills up");
    };
    let Error::Unavailable(full) = full else { panic!("{full}") };
    assert_eq!(full.cause, Cause::DiskFull);
    assert!(full.to_string().contains("free space on this disk"), "{full}");
    assert!(last > 5);
    // A commit that does not fit is refused whole: the head stays.
    let mut end = finish(last + 2, 1, "h2");
    end.tail.insert(0, large(last + 1));
    assert_eq!(cause(store.commit_final(&run_id("r1"), first(), end).await), Cause::DiskFull);
    let running = Outcome::Running { generation: first(), last_sequence: sequence(last) };
    assert_eq!(store.outcome(&run_id("r1")).await, Ok(running));
    drop(store);

    let store = SqliteStore::open(options(dir.path())).unwrap();
    assert_eq!(log(&store, "r1").await.len() as u64, last + 1);
    store.append(&run_id("r1"), first(), vec![large(last + 1)]).await.unwrap();
    store.commit_final(&run_id("r1"), first(), finish(last + 2, 1, "h2")).await.unwrap();
}

#[tokio::test]
async fn a_write_that_does_not_fit_takes_nobody_elses_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(dir.path()).max_pages(300)).unwrap();
    for run in 0..8 {
        opened(&store, open(&format!("r{run}"), &format!("c{run}"))).await;
    }
    let large = record(1, EventType::Warning, &format!("\"{}\"", "x".repeat(3_000_000)));
    let mut tasks = tokio::task::JoinSet::new();
    for run in 0..8 {
        let (store, large) = (store.clone(), large.clone());
        tasks.spawn(async move {
            let records = if run == 3 { vec![large] } else { deltas(1..4) };
            (run, store.append(&run_id(&format!("r{run}")), first(), records).await)
        });
    }
    for (run, answer) in tasks.join_all().await {
        if run == 3 {
            assert_eq!(cause(answer), Cause::DiskFull);
        } else {
            assert_eq!(answer, Ok(()), "run {run}");
        }
    }
}

#[tokio::test]
async fn little_space_refuses_new_runs_before_it_breaks_running_ones() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(dir.path())).unwrap();
    opened(&store, keyed(open("r1", "c"), "k", 1)).await;
    drop(store);
    let store = SqliteStore::open(options(dir.path()).low_disk_bytes(u64::MAX)).unwrap();
    assert_eq!(cause(store.open_run(open("r2", "d")).await), Cause::LowDisk);
    assert_eq!(replayed(store.open_run(keyed(open("r3", "e"), "k", 1)).await).run_id, run_id("r1"));
    store.append(&run_id("r1"), first(), deltas(1..3)).await.unwrap();
    store.commit_final(&run_id("r1"), first(), fail(3)).await.unwrap();
    assert!(store.health().await.unwrap().low_disk);
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    // Root writes where modes forbid it: /sys is read-only for everybody.
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    let place =
        if fs::write(closed.join("probe"), "").is_ok() { Path::new("/sys/causeway") } else { &closed };
    let refused = trouble(SqliteStore::open(options(place)));
    assert_eq!(refused.cause, Cause::ReadOnly, "{refused}");
    assert!(refused.to_string().contains("make the directory writable"), "{refused}");
}

#[tokio::test]
async fn a_reader_sees_what_a_gateway_in_use_has_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(trouble(SqliteStore::open_read_only(dir.path())).cause, Cause::Missing);
    let store = SqliteStore::open(options(dir.path())).unwrap();
    opened(&store, open("r1", "c")).await;
    let reader = SqliteStore::open_read_only(dir.path()).unwrap();
    store.append(&run_id("r1"), first(), deltas(1..5)).await.unwrap();
    assert_eq!(log(&reader, "r1").await, log(&store, "r1").await);
    let runs = reader.runs(&Owner::local(), &RunFilter::default(), 9, None).await;
    assert_eq!(runs, store.runs(&Owner::local(), &RunFilter::default(), 9, None).await);
    assert_eq!(reader.outcome(&run_id("r1")).await, store.outcome(&run_id("r1")).await);
    assert_eq!(cause(reader.append(&run_id("r1"), first(), deltas(5..6)).await), Cause::ReadOnly);
}

#[tokio::test]
async fn a_write_whose_caller_left_is_done_before_the_outcome_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(options(dir.path())).unwrap());
    opened(&*store, open("r1", "c")).await;
    for number in 1..100 {
        poll_once(store.append(&run_id("r1"), first(), deltas(number..number + 1)));
        let outcome = store.outcome(&run_id("r1")).await.unwrap();
        assert_eq!(outcome, Outcome::Running { generation: first(), last_sequence: sequence(number) });
    }
    store.commit_final(&run_id("r1"), first(), fail(100)).await.unwrap();
    assert_eq!(store.run(&Owner::local(), &run_id("r1")).await.unwrap().status, Status::Error);
}

/// Polls a future once, which puts its write into the queue, and drops it.
fn poll_once<T>(future: impl Future<Output = T>) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(future).poll(&mut context).is_pending());
}

#[tokio::test]
async fn closing_waits_for_what_was_queued() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(dir.path())).unwrap();
    opened(&store, open("r1", "c")).await;
    let id = run_id("r1");
    for number in 1..50 {
        poll_once(store.append(&id, first(), deltas(number..number + 1)));
    }
    drop(store);
    let store = SqliteStore::open(options(dir.path())).unwrap();
    assert_eq!(log(&store, "r1").await.len(), 50);
}

#[tokio::test]
async fn a_directory_that_was_removed_or_made_anew_is_noticed_and_takes_no_new_runs() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = SqliteStore::open(options(&data)).unwrap();
    run_to_end(&store, open("r0", "c"), "h1").await;
    store.health().await.unwrap();
    let noticed = async |detail: &str| {
        let Err(Error::Unavailable(trouble)) = store.health().await else { panic!("healthy") };
        let expected = Unavailable::new(Cause::Replaced, data.join("causeway.db"), detail);
        assert_eq!(trouble, expected);
        assert!(trouble.to_string().contains("restart the gateway"), "{trouble}");
        assert_eq!(store.open_run(open("r1", "d")).await.unwrap_err(), expected.clone().into());
        assert_eq!(store.renew_lease().await, Err(expected.into()));
    };
    let away = dir.path().join("away");
    fs::rename(&data, &away).unwrap();
    noticed("no such file is there").await;
    drop(SqliteStore::open(options(&data)).unwrap());
    noticed("another file is there").await;
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&away, &data).unwrap();
    store.health().await.unwrap();
    run_to_end(&store, open("r1", "d"), "h1").await;
}

#[test]
fn a_file_for_a_directory_and_a_directory_for_a_file_are_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for place in [file.clone(), file.join("data")] {
        for refused in
            [trouble(SqliteStore::open(options(&place))), trouble(SqliteStore::open_read_only(&place))]
        {
            assert_eq!(refused, Unavailable::new(Cause::NotADirectory, &file, ""));
        }
    }
    let data = dir.path().join("data");
    let place = data.join("causeway.db");
    fs::create_dir_all(&place).unwrap();
    for refused in [trouble(SqliteStore::open(options(&data))), trouble(SqliteStore::open_read_only(&data))] {
        assert_eq!(refused, Unavailable::new(Cause::IsADirectory, &place, ""));
        assert!(refused.to_string().contains("is a directory, not a database"), "{refused}");
    }
}

/// A directory seen again through a mount that cannot be written; unmounted when dropped.
struct ReadOnlyView(std::path::PathBuf);

impl ReadOnlyView {
    /// `None`, said loudly, where mounting is not allowed.
    fn mount(of: &Path, at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mount = |args: &[&str]| {
            let done = std::process::Command::new("mount").args(args).arg(at).output();
            done.is_ok_and(|output| output.status.success())
        };
        if !mount(&["--bind", of.to_str().unwrap()]) {
            eprintln!("SKIPPED: mounting is not allowed here; no read-only directory was tested");
            return None;
        }
        let view = Self(at.to_owned());
        assert!(mount(&["-o", "remount,bind,ro"]), "the mount stays writable");
        Some(view)
    }
}

impl Drop for ReadOnlyView {
    fn drop(&mut self) {
        let _unmounted = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = SqliteStore::open(options(&data)).unwrap();
    run_to_end(&store, open("r1", "c"), "h1").await;
    let Some(view) = ReadOnlyView::mount(&data, &dir.path().join("view")) else { return };
    // While a gateway has it open, its log and the log's memory are read, not the file alone.
    opened(&store, open("r2", "d")).await;
    let reader = SqliteStore::open_read_only(&view.0).unwrap();
    assert_eq!(log(&reader, "r2").await, log(&store, "r2").await);
    store.append(&run_id("r2"), first(), deltas(1..5)).await.unwrap();
    assert_eq!(log(&reader, "r2").await, log(&store, "r2").await);
    let expected = log(&store, "r2").await;
    drop((reader, store));
    assert!(!data.join("causeway.db-shm").exists(), "the gateway left in good order");
    let reader = SqliteStore::open_read_only(&view.0).unwrap();
    assert_eq!(log(&reader, "r2").await, expected);
    drop(reader);
    // A log without its memory cannot be read, and leaving it out would be a lie.
    fs::write(data.join("causeway.db-wal"), "x").unwrap();
    let refused = trouble(SqliteStore::open_read_only(&view.0));
    assert_eq!(refused.cause, Cause::ReadOnly, "{refused}");
    assert!(refused.detail.contains("write-ahead log"), "{refused}");
}
