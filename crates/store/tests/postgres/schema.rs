//! What a schema may be, and how its log is divided.

use causeway_contract::timestamp::Timestamp;
use causeway_store::conformance::fixture::{NOON, deltas, fail, first, log, open, opened, run_id};
use causeway_store::conformance::server::Server;
use causeway_store::error::{Cause, Unavailable};
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, Store};

/// A connection of the test's own.
pub async fn raw(server: &Server) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    config.host_path(server.home()).port(server.port()).user("gateway").dbname("postgres");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn open_blocking(options: Options) -> Result<PostgresStore, Unavailable> {
    tokio::task::block_in_place(|| PostgresStore::open(options))
}

fn cause(opened: Result<PostgresStore, Unavailable>) -> Cause {
    opened.map(|_| ()).unwrap_err().cause
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_newer_older_or_another_programs_is_refused() {
    let Some(server) = Server::shared() else { return };
    let client = raw(server).await;
    let options = server.empty().schema("ages");
    assert_eq!(cause(open_blocking(options.clone().migrate(false))), Cause::OlderSchema);
    let newest = PostgresStore::migrations(0).count();
    assert_eq!(tokio::task::block_in_place(|| PostgresStore::version(&options)), Ok((0, newest)));
    assert_eq!(tokio::task::block_in_place(|| PostgresStore::migrate(&options)), Ok((0, newest)));
    drop(open_blocking(options.clone().migrate(false)).unwrap());
    client.batch_execute("UPDATE ages.meta SET value = 99").await.unwrap();
    assert_eq!(cause(open_blocking(options)), Cause::NewerSchema);
    client.batch_execute("CREATE SCHEMA foreigner; CREATE TABLE foreigner.run (id int)").await.unwrap();
    assert_eq!(cause(open_blocking(server.empty().schema("foreigner"))), Cause::Corrupted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gateways_that_find_no_schema_at_once_make_one() {
    let Some(server) = Server::shared() else { return };
    let options = server.empty();
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let options = options.clone();
            tokio::task::spawn_blocking(move || PostgresStore::open(options))
        })
        .collect();
    let mut instances = Vec::new();
    for opening in opening {
        let store = opening.await.unwrap().unwrap();
        instances.push(store.instance());
        tokio::task::block_in_place(|| drop(store));
    }
    instances.sort_unstable();
    instances.dedup();
    assert_eq!(instances.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_and_a_database_that_is_not_are_told_apart() {
    let Some(server) = Server::shared() else { return };
    let away = server.empty().reached_at("/nonexistent", 1);
    let trouble = open_blocking(away).map(|_| ()).unwrap_err();
    assert_eq!(trouble.cause, Cause::Unreachable);
    let socket = server.home().to_string_lossy().into_owned();
    let nowhere = Options::new(socket, server.port(), "gateway", "nowhere");
    assert_eq!(cause(open_blocking(nowhere)), Cause::Missing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_goes_once_all_its_runs_are_packed_and_replay_gives_the_same_bytes() {
    let Some(server) = Server::shared() else { return };
    let client = raw(server).await;
    let options = server.empty().schema("weeks");
    let store = open_blocking(options).unwrap();
    for run in ["r1", "r2"] {
        opened(&store, open(run, run)).await;
        store.append(&run_id(run), first(), deltas(1..20)).await.unwrap();
    }
    // As if both had been opened long ago.
    client
        .batch_execute(
            "CREATE TABLE weeks.log_7 (LIKE weeks.log INCLUDING ALL);
             ALTER TABLE weeks.log ATTACH PARTITION weeks.log_7 FOR VALUES FROM (7) TO (8);
             UPDATE weeks.log SET bucket = 7; UPDATE weeks.run SET bucket = 7;",
        )
        .await
        .unwrap();
    tokio::task::block_in_place(|| drop(store));
    let store = open_blocking(server.empty().schema("weeks")).unwrap();
    store.commit_final(&run_id("r1"), first(), fail(20)).await.unwrap();
    let (one, two) = (log(&store, "r1").await, log(&store, "r2").await);
    let partition = || async {
        let found = client.query_one("SELECT to_regclass('weeks.log_7') IS NOT NULL", &[]).await.unwrap();
        found.get::<_, bool>(0)
    };
    let later = Timestamp::from_unix(NOON + 100_000, 0);
    assert_eq!(store.archive(&later, 10).await.unwrap().runs, 1);
    assert!(partition().await, "one of its runs is not packed");
    assert_eq!((log(&store, "r1").await, log(&store, "r2").await), (one.clone(), two));
    store.commit_final(&run_id("r2"), first(), fail(20)).await.unwrap();
    let two = log(&store, "r2").await;
    assert_eq!(store.archive(&later, 10).await.unwrap().runs, 1);
    assert!(!partition().await);
    assert_eq!((log(&store, "r1").await, log(&store, "r2").await), (one, two));
}
