//! TLS to a real server: who is believed, and who is not. The authority is the test's own.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::time::Duration;

use causeway_store::conformance::fixture::{log, open, run_to_end};
use causeway_store::conformance::server::Server;
use causeway_store::error::{Cause, Unavailable};
use causeway_store::postgres::{Options, Tls};
use causeway_store::{PostgresStore, Store};
use tokio::time::sleep;

use crate::authority::Authority;
use crate::gateways::bounded;

/// Puts a certificate for `localhost` into the server's hands and has it used.
async fn encrypt(server: &Server, authority: &Authority) {
    let (certificate, key) = authority.pem("localhost");
    let home = fs::metadata(server.home()).unwrap();
    for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
        let file = server.home().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(home.uid()), Some(home.gid())).unwrap();
    }
    let client = crate::schema::raw(server).await;
    for (setting, file) in [("ssl_cert_file", "tls.crt"), ("ssl_key_file", "tls.key")] {
        let sql = format!("ALTER SYSTEM SET {setting} TO '{}'", server.home().join(file).display());
        client.batch_execute(&sql).await.unwrap();
    }
    client.batch_execute("ALTER SYSTEM SET ssl TO on").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    bounded(async {
        while client.query_one("SHOW ssl", &[]).await.unwrap().get::<_, &str>(0) != "on" {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn opened(options: &Options) -> Result<PostgresStore, Unavailable> {
    tokio::task::block_in_place(|| PostgresStore::open(options.clone()))
}

/// Why it is not opened. Others are never told more than that: no certificate, no name.
fn refused(options: &Options) -> Cause {
    opened(options).map(|_| ()).unwrap_err().cause
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_a_server_that_shows_the_right_name_from_a_known_authority_is_believed() {
    let Some(server) = Server::start() else { return };
    let (ours, stranger) = (Authority::new(), Authority::new());
    let options = server.empty();
    let at = |host: &str, tls: Tls, authority: &Authority| {
        options.clone().reached_at(host, server.port()).tls(tls, Some(authority.file.path().to_path_buf()))
    };
    let right = at("localhost", Tls::VerifyFull, &ours);
    // Before it can encrypt at all.
    for tls in [Tls::VerifyFull, Tls::Require] {
        refused(&at("localhost", tls, &ours));
    }
    encrypt(&server, &ours).await;

    let store = opened(&right).unwrap();
    run_to_end(&store, open("r1", "c"), "h").await;
    assert_eq!(log(&store, "r1").await.len(), 2);
    let client = crate::schema::raw(&server).await;
    let encrypted = "SELECT count(*) FILTER (WHERE s.ssl AND s.version IN ('TLSv1.2', 'TLSv1.3')), count(*)
                     FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'causeway'";
    let row = client.query_one(encrypted, &[]).await.unwrap();
    let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
    assert!(encrypted == all && all >= 2, "{encrypted} of {all}");
    store.health().await.unwrap();
    tokio::task::block_in_place(|| drop(store));

    assert_eq!(refused(&at("127.0.0.1", Tls::VerifyFull, &ours)), Cause::Denied, "another name");
    assert_eq!(refused(&at("localhost", Tls::VerifyFull, &stranger)), Cause::Denied, "an unknown authority");
    let system = options.clone().reached_at("localhost", server.port()).tls(Tls::VerifyFull, None);
    assert_eq!(refused(&system), Cause::Denied, "an authority that the system does not know");
    let nothing = PathBuf::from("/no/such/file");
    let missing = options.clone().reached_at("localhost", server.port()).tls(Tls::VerifyFull, Some(nothing));
    assert_eq!(refused(&missing), Cause::Denied, "no certificates");
    // Whoever answers: encrypted all the same.
    let store = opened(&at("127.0.0.1", Tls::Require, &stranger)).unwrap();
    assert_eq!(log(&store, "r1").await.len(), 2);
    tokio::task::block_in_place(|| drop(store));
    // And not where it is switched off.
    opened(&at("127.0.0.1", Tls::Disable, &stranger)).unwrap();
}
