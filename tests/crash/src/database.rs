//! The database that the gateways of a chaos episode share, as the rig sees it: through its socket, past every proxy.
//!
//! Refuses to change what it holds: it is asked, and for the control one of its guards is taken away.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use causeway_store::conformance::server::Server;
use causeway_store::postgres::{Options, Tls};
use tokio_postgres::{Client, NoTls};

/// The schema of an episode.
pub const SCHEMA: &str = "chaos";
/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a schema is reached through the server's socket.
pub fn options(socket: &str, port: u16, schema: &str) -> Options {
    Options::new(socket, port, "gateway", "postgres").schema(schema).tls(Tls::Disable, None)
}

/// Where the database is; the server itself is somebody else's to start and to kill.
#[derive(Clone, Debug)]
pub struct Database {
    socket: String,
    port: u16,
}

impl Database {
    pub fn of(server: &Server) -> Self {
        Self { socket: server.home().display().to_string(), port: server.port() }
    }

    /// What `crash-check` is told.
    pub fn place(&self) -> String {
        format!("postgres:{}:{}:{SCHEMA}", self.socket, self.port)
    }

    /// The file of the socket.
    pub fn socket(&self) -> std::path::PathBuf {
        Path::new(&self.socket).join(format!(".s.PGSQL.{}", self.port))
    }

    /// The open runs of the newest instance of a gateway.
    ///
    /// # Errors
    /// The database is away.
    pub fn runs_of(&self, gateway: &str) -> anyhow::Result<Vec<String>> {
        let newest = format!(
            "SELECT run_id FROM {SCHEMA}.run WHERE status = 0 AND instance =
                 (SELECT max(instance) FROM {SCHEMA}.instance WHERE name LIKE '{gateway} %')"
        );
        self.ask(&newest)
    }

    /// Every open run.
    ///
    /// # Errors
    /// The database is away.
    pub fn open(&self) -> anyhow::Result<Vec<String>> {
        self.ask(&format!("SELECT run_id FROM {SCHEMA}.run WHERE status = 0"))
    }

    fn ask(&self, sql: &str) -> anyhow::Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let asked = async {
                let client = self.connect().await?;
                let rows = client.query(sql, &[]).await?;
                Ok(rows.iter().map(|row| row.get(0)).collect())
            };
            tokio::time::timeout(PATIENCE, asked).await.context("the database says nothing")?
        })
    }

    /// Takes away the key of the log, so that nothing but the lock of the lease keeps two gateways from writing one number.
    ///
    /// # Errors
    /// The database is away.
    pub fn without_key(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let sql = format!("ALTER TABLE {SCHEMA}.log DROP CONSTRAINT log_pkey CASCADE");
            Ok(self.connect().await?.batch_execute(&sql).await?)
        })
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        let place = format!("host={} port={} user=gateway dbname=postgres", self.socket, self.port);
        let (client, connection) = tokio_postgres::connect(&place, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}
