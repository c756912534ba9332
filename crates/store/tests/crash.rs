//! A gateway that is killed in mid-write: what was acknowledged is there, once; no terminal is without its head.
//!
//! The test starts itself again as a child that writes, reads from the child's output what was acknowledged, and kills
//! it. What a lost page cache would do is not tested here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::EventType;
use causeway_store::conformance::fixture::{
    agent, conversation, deltas, failed, finish, first, log, open, opened, pause, run_id,
};
use causeway_store::model::{Owner, RunFilter, Status, Withdrawal};
use causeway_store::sqlite::{Options, SqliteStore};
use causeway_store::store::Store;

const DIR: &str = "CAUSEWAY_CRASH_DIR";
const ROUND: &str = "CAUSEWAY_CRASH_ROUND";
const WRITERS: usize = 6;

/// Not a test but the child; does nothing unless the parent asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_writes_until_it_is_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let round = std::env::var(ROUND).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options(Path::new(&dir))).unwrap());
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&store), round.clone(), writer))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Runs of one conversation, one after another: some finish, some are interrupted.
async fn write(store: Arc<dyn Store>, round: String, writer: usize) {
    for turn in 0.. {
        let id = format!("r{round}-{writer}-{turn}");
        let base = opened(&*store, open(&id, &format!("c{writer}"))).await.base_revision().value();
        acknowledge(&id, 0);
        let mut next = 1;
        for count in [1, 7, 3, 64, 1, 1, 20] {
            store.append(&run_id(&id), first(), deltas(next..next + count)).await.unwrap();
            next += count;
            acknowledge(&id, next - 1);
        }
        if turn % 3 == 2 {
            store.commit_interrupt(&run_id(&id), first(), pause(next, base, &id, "i")).await.unwrap();
            acknowledge(&id, next + 1);
            store.void_interrupt(&run_id(&id), Withdrawal::Voided).await.unwrap();
        } else {
            store.commit_final(&run_id(&id), first(), finish(next, base, &id)).await.unwrap();
            acknowledge(&id, next);
        }
    }
}

fn acknowledge(id: &str, last: u64) {
    // One write a line: a line is whole or the child did not live to tell.
    let line = format!("ACK {id} {last}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn options(dir: &Path) -> Options {
    Options::new(dir).low_disk_bytes(0)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets a child write for a while, kills it, and returns the last acknowledged number of each run.
fn write_and_kill(dir: &Path, round: usize) -> BTreeMap<String, u64> {
    let mut child = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(DIR, dir)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let out = BufReader::new(child.0.stdout.take().unwrap());
    let (began, first) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = BTreeMap::new();
        for line in out.lines().map_while(Result::ok) {
            let Some(at) = line.find("ACK ") else { continue };
            let mut words = line[at + 4..].split(' ');
            if let (Some(id), Some(Ok(last))) = (words.next(), words.next().map(str::parse::<u64>)) {
                acknowledged.insert(id.to_owned(), last);
                let _ = began.send(());
            }
        }
        acknowledged
    });
    // Another moment of the commit cycle each time.
    first.recv_timeout(Duration::from_secs(120)).expect("the child writes");
    std::thread::sleep(Duration::from_millis(50 + 37 * u64::try_from(round).unwrap()));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    reader.join().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_loses_nothing_that_was_acknowledged() {
    let rounds = std::env::var("CAUSEWAY_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    for round in 0..rounds {
        acknowledged.append(&mut write_and_kill(dir.path(), round));
        let store = SqliteStore::open(options(dir.path())).unwrap();
        verify(&store, &acknowledged).await;
        for orphan in store.list_orphans().await.unwrap() {
            let next = orphan.last_sequence.value() + 1;
            store.close_run(&orphan.run_id, vec![failed(next, "engine_restarted")]).await.unwrap();
        }
        for writer in 0..WRITERS {
            let pending =
                store.pending_interrupt(&Owner::local(), &conversation(&format!("c{writer}"))).await;
            if let Some(interrupt) = pending.unwrap() {
                store.void_interrupt(&interrupt.run_id, Withdrawal::Voided).await.unwrap();
            }
        }
        verify(&store, &acknowledged).await;
        assert_eq!(store.list_orphans().await, Ok(Vec::new()));
    }
    assert!(acknowledged.len() > rounds, "the children hardly wrote anything: {}", acknowledged.len());
}

async fn verify(store: &dyn Store, acknowledged: &BTreeMap<String, u64>) {
    let mut revisions = BTreeMap::new();
    let mut cursor = None;
    let mut found = BTreeMap::new();
    loop {
        let page = store.runs(&Owner::local(), &RunFilter::default(), 500, cursor).await.unwrap();
        for run in page.runs {
            let id = run.run_id.as_str().to_owned();
            let records = log(store, &id).await;
            let numbers: Vec<_> = records.iter().map(|record| record.sequence.value()).collect();
            let last = run.last_sequence.value();
            assert_eq!(numbers, (0..=last).collect::<Vec<_>>(), "{id} has a gap or a repetition");
            let terminals = records.iter().filter(|record| record.event_type.is_terminal()).count();
            assert_eq!(terminals, usize::from(run.status.is_terminal()), "{id} is {}", run.status);
            let end = records.last().map(|record| record.event_type);
            match run.status {
                Status::Finished => assert_eq!(end, Some(EventType::RunFinished)),
                Status::Interrupted => assert_eq!(end, Some(EventType::RunInterrupted)),
                Status::Error => assert_eq!(end, Some(EventType::RunError)),
                Status::Running | Status::Cancelled | Status::Uncertain => {
                    assert_eq!(run.status, Status::Running);
                }
            }
            if matches!(run.status, Status::Finished | Status::Interrupted) {
                *revisions.entry(run.conversation_id.clone()).or_insert(0) += 1;
            }
            found.insert(id, last);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    for (id, last) in acknowledged {
        assert!(found.get(id).is_some_and(|found| found >= last), "{id} was acknowledged up to {last}");
    }
    // A head moves exactly with the terminals that move it.
    for writer in 0..WRITERS {
        let place = conversation(&format!("c{writer}"));
        let head = store.load_head(&Owner::local(), &place, &agent("helper")).await.unwrap();
        let revision = head.map_or(0, |head| head.revision.value());
        assert_eq!(revision, revisions.get(&place).copied().unwrap_or(0), "head of {place}");
    }
}
