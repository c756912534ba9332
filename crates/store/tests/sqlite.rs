//! The store on SQLite passes the suite of all backends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use causeway_contract::event::EventType;
use causeway_contract::timestamp::Timestamp;
use causeway_store::Store;
use causeway_store::conformance::Backend;
use causeway_store::conformance::fixture::{
    NOON, conversation, fail, first, open, opened, record, reference, run_id, run_to_end,
};
use causeway_store::model::{OpenRun, Owner, RunFilter, Whose};
use causeway_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

struct Sqlite {
    dir: TempDir,
    store: Option<SqliteStore>,
}

impl Sqlite {
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Some(SqliteStore::open(options(&dir)).unwrap());
        Self { dir, store }
    }
}

fn options(dir: &TempDir) -> Options {
    Options::new(dir.path().join("data")).low_disk_bytes(0)
}

impl Backend for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone().unwrap())
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(SqliteStore::open(options(&self.dir)).unwrap());
    }
}

causeway_store::conformance_suite!(Sqlite::empty());

/// Every file of the directory that holds these words.
fn holds(dir: &std::path::Path, words: &str) -> Vec<String> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| {
            let bytes = std::fs::read(file).unwrap();
            bytes.windows(words.len()).any(|found| found == words.as_bytes())
        })
        .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
        .collect()
}

const PLANTED: &str = "the otter sleeps under the third bridge";

/// A run that says the words everywhere, between others that do not.
async fn planted(store: &dyn Store, run: &str, of: &str) {
    let request = format!(r#"{{"message":"{PLANTED}"}}"#);
    let asked = OpenRun { request: request.as_str().into(), ..open(run, of) };
    opened(store, asked).await;
    let text = format!(r#"{{"message_id":"m","delta":"{PLANTED}"}}"#);
    let spoken = (1..400).map(|at| record(at, EventType::TextDelta, &text)).collect();
    store.append(&run_id(run), first(), spoken).await.unwrap();
    let long = PLANTED.repeat(2000).into_bytes();
    store.put_result(&run_id(run), &reference("a"), long).await.unwrap();
    store.commit_final(&run_id(run), first(), fail(400)).await.unwrap();
}

#[tokio::test]
async fn what_was_deleted_is_in_no_file_any_more() {
    let mut backend = Sqlite::empty();
    let dir = backend.dir.path().join("data");
    let store = backend.store();
    for at in 0..20 {
        run_to_end(&*store, open(&format!("a{at}"), "other"), "h").await;
        planted(&*store, &format!("r{at}"), &format!("c{at}")).await;
    }
    assert!(!holds(&dir, PLANTED).is_empty(), "the control");
    let ended = Timestamp::from_unix(NOON + 1000, 0);
    // Some are packed, some are not.
    store.archive(&ended, 25).await.unwrap();
    for at in 0..10 {
        store.delete_conversation(&Owner::local(), &conversation(&format!("c{at}"))).await.unwrap();
    }
    assert_eq!(store.expire(&ended, &ended, 100).await.unwrap().runs.len(), 30);
    // What waits behind the last deletion sees the log folded in.
    store.outcome(&run_id("r0")).await.unwrap();
    assert_eq!(holds(&dir, PLANTED), [""; 0], "while it is open");
    drop(store);
    backend.restart();
    assert_eq!(holds(&dir, PLANTED), [""; 0]);
    assert_eq!(backend.store().health().await.unwrap().backend, "sqlite");
}

/// What the steps behind version 2 made, undone: no program writes such files any more.
const BACK_TO_2: &str = "
DROP INDEX run_expirable; DROP INDEX run_owner_bytes; DROP INDEX run_agent_bytes; DROP INDEX run_open_owner;
DROP INDEX run_open_agent; DROP TABLE begun;
ALTER TABLE run DROP COLUMN expired_at; ALTER TABLE run DROP COLUMN content_bytes; PRAGMA user_version = 2;
PRAGMA wal_checkpoint(TRUNCATE);
";

#[tokio::test]
async fn a_file_of_an_older_version_is_read_as_it_is_and_migrated_by_a_gateway() {
    let mut backend = Sqlite::empty();
    let store = backend.store();
    run_to_end(&*store, open("r1", "c"), "h1").await;
    opened(&*store, open("r2", "d")).await;
    let everything = async |store: &dyn Store| {
        let runs = store.runs(&Owner::local(), &RunFilter::default(), 10, None).await.unwrap();
        (runs, store.read_after(&run_id("r1"), None, 100).await.unwrap())
    };
    let before = everything(&*store).await;
    let bytes = store.stored_bytes(Whose::Owner, "local").await.unwrap();
    drop(store);
    backend.store = None;
    let data = backend.dir.path().join("data");
    let file = data.join("causeway.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(BACK_TO_2).unwrap();
    std::fs::remove_file(data.join("causeway.mark")).unwrap();

    let older = std::fs::read(&file).unwrap();
    let reader = SqliteStore::open_read_only(&data).unwrap();
    assert_eq!(everything(&reader).await, before);
    drop(reader);
    assert!(std::fs::read(&file).unwrap() == older, "the file was changed");

    let store = SqliteStore::open(options(&backend.dir)).unwrap();
    assert_eq!(everything(&store).await, before);
    assert_eq!(store.stored_bytes(Whose::Owner, "local").await, Ok(bytes));
}
