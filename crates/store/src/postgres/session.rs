//! One connection, its settings, and the statements it has prepared.
//!
//! Refuses a server whose text is not UTF-8, and one that acknowledges before it has written: what is durable must not
//! depend on how a database happens to be set up.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};

use crate::columns::{Cell, Cells, Columns, Damaged};
use crate::error::{Cause, Unavailable};
use crate::postgres::fault::{self, Trouble};
use crate::postgres::options::Options;
use crate::postgres::tls::MakeTls;

/// What work on a session answers.
pub(crate) type Sql<T> = Result<T, Trouble>;

/// The parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One connection.
pub(crate) struct Session {
    client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Session {
    /// Connects and sets the connection up; its driver runs as a task until the session is dropped.
    ///
    /// # Errors
    /// `Unreachable`, `Denied`, `Missing`.
    pub(crate) async fn connect(options: &Options, tls: &MakeTls) -> Result<Self, Unavailable> {
        Ok(Self::connect_hearing(options, tls, |_| {}).await?.0)
    }

    /// The same, with whatever is to be done when somebody notifies, whose process it is told; and the task that drives
    /// the connection, which ends with it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_hearing(
        options: &Options,
        tls: &MakeTls,
        heard: impl Fn(i32) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), Unavailable> {
        let place = options.place();
        let whole = async {
            let (client, mut connection) = options.config().connect(tls.clone()).await?;
            // It ends with the session; what went wrong is told to whoever waits for an answer.
            let driver = tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                    if let AsyncMessage::Notification(notification) = message {
                        heard(notification.process_id());
                    }
                }
            });
            client.batch_execute(&settings(options)).await?;
            let encoding = client.query_one("SHOW server_encoding", &[]).await?;
            Ok::<_, tokio_postgres::Error>((client, driver, encoding.try_get::<_, String>(0)?))
        };
        let bound = options.connect_timeout.saturating_add(options.statement_timeout);
        let connected = tokio::time::timeout(bound, whole).await;
        let (client, driver, encoding) = connected
            .map_err(|_| Trouble::Silent.unavailable(&place))?
            .map_err(|error| fault::unavailable(&error, &place))?;
        if encoding != "UTF8" {
            return Err(Unavailable::new(Cause::Corrupted, place, "the database is not in UTF8"));
        }
        Ok((Self { client, statements: Mutex::default() }, driver))
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn prepared(&self, sql: &str) -> Sql<Statement> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let statement = self.client.prepare(sql).await?;
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Sql<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// The rows of a query that is not worth preparing, without parameters.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn rows_unprepared(&self, sql: &str) -> Sql<Vec<Row>> {
        Ok(self.client.query_typed(sql, &[]).await?)
    }

    /// Runs a statement; the number of rows that it touched.
    pub(crate) async fn execute(&self, sql: &str, parameters: Parameters<'_>) -> Sql<u64> {
        let statement = self.prepared(sql).await?;
        Ok(self.client.execute(&statement, parameters).await?)
    }

    /// The rows of a query.
    pub(crate) async fn rows(&self, sql: &str, parameters: Parameters<'_>) -> Sql<Vec<Row>> {
        let statement = self.prepared(sql).await?;
        Ok(self.client.query(&statement, parameters).await?)
    }

    /// The one row of a query, if there is one.
    pub(crate) async fn one<T>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        read: impl FnOnce(&mut Columns<'_, Row>) -> Cell<T>,
    ) -> Sql<Option<T>> {
        let rows = self.rows(sql, parameters).await?;
        Ok(rows.first().map(|row| read(&mut Columns::new(row))).transpose()?)
    }

    /// Every row of a query.
    pub(crate) async fn every<T>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        mut read: impl FnMut(&mut Columns<'_, Row>) -> Cell<T>,
    ) -> Sql<Vec<T>> {
        let rows = self.rows(sql, parameters).await?;
        Ok(rows.iter().map(|row| read(&mut Columns::new(row))).collect::<Cell<_>>()?)
    }
}

/// The settings of every connection: the schema, how long things may take, and that a commit is on the disk when it is
/// acknowledged.
fn settings(options: &Options) -> String {
    let millis = |time: Duration| time.as_millis();
    format!(
        "SET search_path TO {schema};
         SET statement_timeout TO {statement};
         SET lock_timeout TO {lock};
         SET idle_in_transaction_session_timeout TO {idle};
         SET default_transaction_isolation TO 'read committed';
         SET client_min_messages TO 'warning';
         SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local');",
        schema = quoted(&options.schema),
        statement = millis(options.statement_timeout),
        lock = millis(options.lock_timeout),
        idle = millis(options.idle_timeout),
    )
}

/// A name as SQL quotes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Cells for Row {
    fn text(&self, at: usize) -> Cell<Option<&str>> {
        self.try_get(at).map_err(|_| Damaged)
    }

    fn int(&self, at: usize) -> Cell<Option<i64>> {
        self.try_get(at).map_err(|_| Damaged)
    }

    fn blob(&self, at: usize) -> Cell<Option<&[u8]>> {
        self.try_get(at).map_err(|_| Damaged)
    }
}
