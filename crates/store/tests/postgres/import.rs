//! A data directory of SQLite in a schema: whatever is asked there gives the answer that the directory gave, and whatever
//! stops an import leaves nothing behind.

use std::collections::BTreeMap;

use causeway_contract::timestamp::Timestamp;
use causeway_store::conformance::fixture::{
    agent, answer, conversation, deltas, fail, failed, finish, first, interrupt_id, keyed, later, log, open,
    opened, owned_by, pause, record, reference, replayed, run_id, run_to_end, run_to_pause, sequence,
};
use causeway_store::conformance::server::Server;
use causeway_store::error::Cause;
use causeway_store::model::{Interrupt, Owner, Run, RunFilter, Status};
use causeway_store::postgres::{ImportError, Options, import};
use causeway_store::{PostgresStore, SqliteStore, Store, sqlite};
use tempfile::TempDir;

use crate::gateways::gateway;

const OWNERS: &[&str] = &["local", "somebody"];
const LONG: u64 = 2_500;

fn directory(dir: &TempDir) -> SqliteStore {
    SqliteStore::open(sqlite::Options::new(dir.path().join("data")).low_disk_bytes(0)).unwrap()
}

/// Something of everything that a store keeps.
async fn fill(store: &dyn Store) {
    // Ended weeks before the others, and packed.
    for number in 0..3 {
        run_to_end(store, open(&format!("packed{number}"), "old"), &format!("head{number}")).await;
    }
    let noon = record(0, causeway_contract::event::EventType::RunStarted, "{}").timestamp;
    let after = Timestamp::from_unix(noon.unix_millis() / 1000 + 3600, 0);
    assert_eq!(store.archive(&after, 100).await.unwrap().runs, 3);
    // Long, of a later week, with a result kept whole.
    opened(store, keyed(later(open("long", "c1"), 40 * 86_400), "key", 7)).await;
    let id = run_id("long");
    for from in (1..LONG).step_by(500) {
        store.append(&id, first(), deltas(from..(from + 500).min(LONG))).await.unwrap();
    }
    store.put_result(&id, &reference("whole"), vec![0, 1, 2, 255]).await.unwrap();
    store.commit_final(&id, first(), finish(LONG, 0, "long-head")).await.unwrap();
    store.note_cause(&id, "a word").await.unwrap();
    // Answered, and waiting: once for ever, and once until a time.
    run_to_pause(store, open("asked", "c2"), "h1", "i1").await;
    store.consume_interrupt(answer("asked", "i1", 1, open("answered", "c2"))).await.unwrap();
    store.append(&run_id("answered"), first(), deltas(1..4)).await.unwrap();
    store.commit_final(&run_id("answered"), first(), finish(4, 1, "h2")).await.unwrap();
    run_to_pause(store, owned_by(open("waits", "c3"), "somebody"), "h3", "i3").await;
    opened(store, open("expires", "c4")).await;
    let mut until = pause(1, 0, "h4", "i4");
    until.expires_at = Some(Timestamp::from_unix(4_000_000_000, 250_000_000));
    store.commit_interrupt(&run_id("expires"), first(), until).await.unwrap();
    // Failed, cleared, forgotten.
    opened(store, open("failed", "c5")).await;
    store.commit_final(&run_id("failed"), first(), fail(1)).await.unwrap();
    store.clear_conversation(&Owner::local(), &conversation("c5")).await.unwrap();
    store.threads_forgotten(&[run_id("failed")]).await.unwrap();
    // Open, as a gateway that was killed leaves it.
    opened(store, owned_by(open("open", "c6"), "somebody")).await;
    store.append(&run_id("open"), first(), deltas(1..8)).await.unwrap();
}

/// What a store answers to whoever asks for everything.
#[derive(Debug, PartialEq)]
struct Answers {
    runs: Vec<Run>,
    logs: BTreeMap<String, Vec<causeway_store::Record>>,
    heads: Vec<String>,
    pending: Vec<Interrupt>,
    decided: Option<String>,
    result: Vec<u8>,
    stale: Vec<String>,
}

async fn answers(store: &dyn Store) -> Answers {
    let (mut runs, mut pending, mut heads, mut stale) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut logs = BTreeMap::new();
    for owner in OWNERS {
        let owner = Owner::new(*owner);
        runs.extend(store.runs(&owner, &RunFilter::default(), 100, None).await.unwrap().runs);
        pending.extend(store.pending_interrupts(&owner, 100).await.unwrap());
        for id in ["old", "c1", "c2", "c3", "c4", "c5", "c6"] {
            let conversation = conversation(id);
            heads.push(format!(
                "{:?}",
                store.load_head(&owner, &conversation, &agent("helper")).await.unwrap()
            ));
            stale.push(format!("{:?}", store.stale_threads(&owner, &conversation, 100).await.unwrap()));
        }
    }
    for run in &runs {
        logs.insert(run.run_id.to_string(), log(store, run.run_id.as_str()).await);
    }
    let local = Owner::local();
    let decided = store.interrupt(&local, &run_id("asked")).await.unwrap().summary.decision;
    let result = store.result(&local, &run_id("long"), &reference("whole")).await.unwrap().to_vec();
    Answers {
        runs,
        logs,
        heads,
        pending,
        decided: decided.map(|text| text.as_str().to_owned()),
        result,
        stale,
    }
}

fn take_over(dir: &TempDir, options: &Options) -> Result<BTreeMap<&'static str, u64>, ImportError> {
    let dir = dir.path().join("data");
    let done = tokio::task::block_in_place(|| import(&dir, options, |_, _| {}))?;
    Ok(done.into_iter().map(|table| (table.table, table.rows)).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_directory_held_is_in_the_schema_and_its_open_runs_are_ended_there() {
    let Some(server) = Server::shared() else { return };
    let (dir, options) = (tempfile::tempdir().unwrap(), server.empty());
    let before = {
        let store = directory(&dir);
        fill(&store).await;
        let in_use = take_over(&dir, &options).unwrap_err();
        assert!(matches!(&in_use, ImportError::Source(trouble) if trouble.cause == Cause::InUse), "{in_use}");
        answers(&store).await
    };
    let rows = take_over(&dir, &options).unwrap();
    assert_eq!((rows["conversation"], rows["run"], rows["result"]), (7, 10, 1));
    assert_eq!((rows["interrupt"], rows["idempotency"], rows["head"], rows["pack"]), (3, 1, 5, 3));
    assert_eq!(rows["log"], LONG + 1 + 3 + 5 + 3 + 3 + 2 + 8);

    let here = gateway(&options);
    assert_eq!(answers(&here).await, before);
    // The key still stands for its run, and new runs have keys of their own.
    let again = here.open_run(keyed(later(open("again", "c1"), 40 * 86_400), "key", 7)).await;
    assert_eq!(replayed(again).run_id, run_id("long"));
    run_to_end(&here, open("new", "c1"), "h").await;
    let found = here.runs(&Owner::local(), &RunFilter::default(), 1, None).await.unwrap().runs;
    assert_eq!(found[0].run_id, run_id("new"));
    // Interrupts are answered, and expire, here.
    assert_eq!(here.expiring_interrupts(10).await.unwrap()[0].0, run_id("expires"));
    let mut resumed = owned_by(open("resumed", "c3"), "somebody");
    resumed.worker_thread = None;
    here.consume_interrupt(answer("waits", "i3", 1, resumed)).await.unwrap();
    let (waits, somebody) = (run_id("waits"), Owner::new("somebody"));
    assert_eq!(
        here.run(&somebody, &waits).await.unwrap().interrupt.unwrap().interrupt_id,
        interrupt_id("i3")
    );
    // Whoever comes first ends what nobody drives any more.
    let orphans = here.list_orphans().await.unwrap();
    assert_eq!(
        orphans.iter().map(|orphan| (&orphan.run_id, orphan.last_sequence)).collect::<Vec<_>>(),
        [(&run_id("open"), sequence(7))]
    );
    here.close_run(&run_id("open"), vec![failed(8, "thread_durability_uncertain")]).await.unwrap();
    assert_eq!(here.run(&somebody, &run_id("open")).await.unwrap().status, Status::Uncertain);

    // With a gateway there, or with runs, it is somebody else's.
    let shared = take_over(&dir, &options).unwrap_err();
    assert!(matches!(shared, ImportError::Shared { gateways: 1 }), "{shared}");
    tokio::task::block_in_place(|| drop(here));
    let full = take_over(&dir, &options).unwrap_err();
    assert!(matches!(full, ImportError::NotEmpty { conversations: 7, runs: 12 }), "{full}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_that_stops_half_way_leaves_an_empty_schema() {
    let Some(server) = Server::shared() else { return };
    let (dir, options) = (tempfile::tempdir().unwrap(), server.empty());
    let store = directory(&dir);
    fill(&store).await;
    drop(store);
    let file = rusqlite::Connection::open(dir.path().join("data/causeway.db")).unwrap();
    // The last rows of the last table cannot be text there.
    let spoil =
        "UPDATE log SET data = CAST(x'7b00' AS TEXT) WHERE position = (SELECT max(position) FROM log)";
    let whole: String =
        file.query_row("SELECT data FROM log ORDER BY position DESC LIMIT 1", [], |row| row.get(0)).unwrap();
    file.execute(spoil, []).unwrap();
    let stopped = take_over(&dir, &options).unwrap_err();
    assert!(matches!(stopped, ImportError::Table { table: "log", .. }), "{stopped}");
    let nothing = PostgresStore::open_read_only(options.clone());
    let nothing = tokio::task::block_in_place(|| nothing.unwrap());
    for owner in OWNERS {
        let found = nothing.runs(&Owner::new(*owner), &RunFilter::default(), 1, None).await.unwrap();
        assert_eq!(found.runs, []);
    }
    tokio::task::block_in_place(|| drop(nothing));

    file.execute("UPDATE log SET data = ?1 WHERE position = (SELECT max(position) FROM log)", [&whole])
        .unwrap();
    // What this version has no place for stops it, too.
    file.execute_batch("CREATE TABLE strange (x)").unwrap();
    let strange = take_over(&dir, &options).unwrap_err();
    assert_eq!(strange.to_string(), "there is no place in the schema for table strange");
    file.execute_batch("DROP TABLE strange; ALTER TABLE head ADD COLUMN strange TEXT").unwrap();
    let strange = take_over(&dir, &options).unwrap_err();
    assert_eq!(strange.to_string(), "there is no place in the schema for column strange of table head");
    file.execute_batch("ALTER TABLE head DROP COLUMN strange").unwrap();
    assert_eq!(take_over(&dir, &options).unwrap()["run"], 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_not_found_again_as_it_was_read_undoes_the_import() {
    let Some(server) = Server::shared() else { return };
    let (dir, options) = (tempfile::tempdir().unwrap(), server.empty().schema("import_differs"));
    let store = directory(&dir);
    fill(&store).await;
    drop(store);
    tokio::task::block_in_place(|| drop(gateway(&options)));
    let client = crate::schema::raw(server).await;
    let spoil = "CREATE FUNCTION import_differs.spoil() RETURNS trigger LANGUAGE plpgsql AS
                     $$BEGIN NEW.bytes := NEW.bytes || '\\x00'::bytea; RETURN NEW; END$$;
                 CREATE TRIGGER spoil BEFORE INSERT ON import_differs.result
                     FOR EACH ROW EXECUTE FUNCTION import_differs.spoil();";
    client.batch_execute(spoil).await.unwrap();
    let differs = take_over(&dir, &options).unwrap_err();
    assert!(matches!(differs, ImportError::Differs { table: "result", read: 1, found: 1 }), "{differs}");
    client.batch_execute("DROP TRIGGER spoil ON import_differs.result").await.unwrap();
    assert_eq!(take_over(&dir, &options).unwrap()["result"], 1);
}
