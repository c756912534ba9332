//! Gateways of two versions on one schema: side by side where a step only adds, one after the other where it breaks.

use causeway_store::conformance::fixture::{deltas, first, log, open, opened, run_id};
use causeway_store::conformance::server::Server;
use causeway_store::error::{Cause, Error, Unavailable};
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, Store};

use crate::schema::raw;

fn start(options: &Options) -> Result<PostgresStore, Unavailable> {
    tokio::task::block_in_place(|| PostgresStore::open(options.clone()))
}

fn refused(options: &Options) -> Unavailable {
    start(options).map(drop).unwrap_err()
}

fn stop(store: PostgresStore) {
    tokio::task::block_in_place(|| drop(store));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_older_gateway_goes_on_beside_a_newer_one_where_a_step_only_adds() {
    let Some(server) = Server::shared() else { return };
    let client = raw(server).await;
    let options = server.empty().schema("side_by_side");
    let older = start(&options).unwrap();
    opened(&older, open("r1", "c1")).await;
    let newer = start(&options.clone().versions_ahead(1, false)).unwrap();
    let (speaks, next) = (PostgresStore::migrations(0).count(), PostgresStore::migrations(0).count() + 1);
    let asked = tokio::task::block_in_place(|| PostgresStore::version(&options));
    assert_eq!(asked, Ok((next, speaks)));
    let spoken =
        client.query("SELECT speaks FROM side_by_side.instance ORDER BY instance", &[]).await.unwrap();
    let spoken: Vec<i64> = spoken.iter().map(|row| row.get(0)).collect();
    assert_eq!(spoken, [speaks, next].map(|version| i64::try_from(version).unwrap()));

    // What was begun goes on, and each reads what the other wrote.
    older.append(&run_id("r1"), first(), deltas(1..4)).await.unwrap();
    assert_eq!(log(&newer, "r1").await.len(), 4);
    opened(&newer, open("r2", "c2")).await;
    assert_eq!(log(&older, "r2").await.len(), 1);
    // One of the older version can be started again until the last of them is replaced.
    stop(older);
    let older = start(&options.clone().migrate(false)).unwrap();
    opened(&older, open("r3", "c3")).await;
    assert_eq!(log(&newer, "r3").await.len(), 1);
    stop(older);
    stop(newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_step_that_breaks_older_gateways_waits_for_the_last_of_them() {
    let Some(server) = Server::shared() else { return };
    let client = raw(server).await;
    let options = server.empty().schema("broken");
    let breaking = options.clone().versions_ahead(1, true);
    let older = start(&options).unwrap();
    opened(&older, open("r1", "c1")).await;
    let trouble = refused(&breaking);
    assert_eq!(trouble.cause, Cause::OlderGateways);
    assert!(trouble.to_string().contains("stop those gateways"), "{trouble}");
    older.append(&run_id("r1"), first(), deltas(1..4)).await.unwrap();
    stop(older);

    // One that was killed and whose lease is over, and whom nobody has ended: it must not come back.
    let dead = "INSERT INTO broken.instance (name, epoch, fences, fenced, started_at, renewed_at, expires_at)
        SELECT 'killed', 1, 0, 0, now(), now(), now() - interval '1 second' RETURNING instance";
    let dead: i64 = client.query_one(dead, &[]).await.unwrap().get(0);
    let newer = start(&breaking).unwrap();
    let fenced = "SELECT fenced FROM broken.instance WHERE instance = $1";
    assert_eq!(client.query_one(fenced, &[&dead]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(refused(&options).cause, Cause::NewerSchema);
    assert_eq!(log(&newer, "r1").await.len(), 4);
    opened(&newer, open("r2", "c2")).await;
    stop(newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gateway_that_slept_through_such_a_step_gets_no_new_lease() {
    let Some(server) = Server::shared() else { return };
    let client = raw(server).await;
    let options = server.empty().schema("slept");
    let older = start(&options).unwrap();
    opened(&older, open("r1", "c1")).await;
    client.batch_execute("UPDATE slept.instance SET fenced = 1, epoch = epoch + 1").await.unwrap();
    let newer = start(&options.clone().versions_ahead(1, true)).unwrap();
    match older.open_run(open("r2", "c2")).await {
        Err(Error::Unavailable(trouble)) => assert_eq!(trouble.cause, Cause::NewerSchema, "{trouble}"),
        other => panic!("{other:?}"),
    }
    opened(&newer, open("r3", "c3")).await;
    stop(older);
    stop(newer);
}
