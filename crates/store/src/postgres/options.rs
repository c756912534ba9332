//! How to reach a database, and how long to wait for it.
//!
//! Refuses to show a password: `Debug` leaves it out, and no error names it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::postgres::schema::{BREAKS, MIGRATIONS};

/// How often to look for what others wrote, where they tell.
const LOOK: Duration = Duration::from_millis(500);
/// The same where they do not.
const LOOK_ALONE: Duration = Duration::from_millis(50);

/// Whether and how the connection is encrypted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Tls {
    /// It is not. For a socket of this machine, or a network that is trusted.
    Disable,
    /// It is, but whoever answers is believed to be the server.
    Require,
    /// It is, and the server shows a certificate for its name, signed by one of this file or, without one, of the
    /// system's own.
    #[default]
    VerifyFull,
}

impl Tls {
    /// The spelling of the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Require => "require",
            Self::VerifyFull => "verify-full",
        }
    }

    /// The mode with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Disable, Self::Require, Self::VerifyFull].into_iter().find(|tls| tls.as_str() == text)
    }
}

/// How to open the store.
#[derive(Clone)]
pub struct Options {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) schema: String,
    password: Option<Arc<str>>,
    pub(crate) tls: Tls,
    pub(crate) ca_file: Option<PathBuf>,
    application_name: String,
    pub(crate) name: String,
    pub(crate) readers: usize,
    pub(crate) queue: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) migrate: bool,
    pub(crate) notify: bool,
    pub(crate) look: Duration,
    pub(crate) careless: bool,
    /// The version of the schema that this program speaks.
    pub(crate) speaks: usize,
    /// The last version up to it that older programs cannot go on with.
    pub(crate) breaks: usize,
}

impl Options {
    /// The defaults, for this server, user and database. A host that begins with `/` is the directory of a socket.
    pub fn new(
        host: impl Into<String>,
        port: u16,
        user: impl Into<String>,
        database: impl Into<String>,
    ) -> Self {
        Self {
            host: host.into(),
            port,
            user: user.into(),
            database: database.into(),
            schema: "causeway".to_owned(),
            password: None,
            tls: Tls::default(),
            ca_file: None,
            application_name: "causeway".to_owned(),
            name: "causeway".to_owned(),
            readers: 4,
            queue: 1024,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(5),
            lease: Duration::from_secs(10),
            renew: Duration::from_secs(3),
            migrate: true,
            notify: true,
            look: LOOK,
            careless: false,
            speaks: MIGRATIONS.len(),
            breaks: BREAKS,
        }
    }

    /// The same, at another place.
    #[must_use]
    pub fn reached_at(mut self, host: impl Into<String>, port: u16) -> Self {
        (self.host, self.port) = (host.into(), port);
        self
    }

    /// The schema of this deployment (`causeway`).
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// The password, where one is asked for.
    #[must_use]
    pub fn password(mut self, password: Option<impl Into<Arc<str>>>) -> Self {
        self.password = password.map(Into::into);
        self
    }

    /// Whether the connection is encrypted (`verify-full`); never asked for on a socket of this machine.
    #[must_use]
    pub fn tls(mut self, tls: Tls, ca_file: Option<PathBuf>) -> Self {
        (self.tls, self.ca_file) = (tls, ca_file);
        self
    }

    /// What the server shows of this gateway's connections (`causeway`).
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }

    /// What this gateway is called in the table of instances (`causeway`).
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many reads go on at once, each on a connection of its own (4).
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }

    /// How many writes may wait before callers do (1024).
    #[must_use]
    pub fn queue(mut self, writes: usize) -> Self {
        self.queue = writes.max(1);
        self
    }

    /// How long connecting (5 s), a statement (10 s) and a lock (3 s) may take.
    #[must_use]
    pub fn timeouts(mut self, connect: Duration, statement: Duration, lock: Duration) -> Self {
        (self.connect_timeout, self.statement_timeout, self.lock_timeout) = (connect, statement, lock);
        self
    }

    /// How long a transaction may stand idle (5 s). It must be well below the lease: this frees what a gateway holds that
    /// was stopped in the middle of a write.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle_timeout = idle;
        self
    }

    /// How long a lease lasts (10 s), and how often it is renewed (every 3 s).
    #[must_use]
    pub fn lease(mut self, lease: Duration, renew: Duration) -> Self {
        (self.lease, self.renew) = (lease, renew);
        self
    }

    /// Whether an older schema, or none, is brought up to date (yes); it is refused otherwise.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Whether gateways tell each other by `NOTIFY` that something was written (yes), and how often they look all the same
    /// (every 500 ms). Without it they look every 50 ms.
    #[must_use]
    pub fn notify(mut self, notify: bool) -> Self {
        (self.notify, self.look) = (notify, if notify { LOOK } else { LOOK_ALONE });
        self
    }

    /// How often to look for what others wrote, whether it was told or not.
    #[must_use]
    pub fn look(mut self, every: Duration) -> Self {
        self.look = every;
        self
    }

    /// Breaks the promise of the crate: a batch looks at the lease without holding it. The control of the tests of
    /// fencing.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without_lease_lock(mut self) -> Self {
        self.careless = true;
        self
    }

    /// Is a program of another version, so many steps ahead: they change nothing, but the last of them breaks older programs where
    /// `breaking`.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn versions_ahead(mut self, steps: usize, breaking: bool) -> Self {
        self.speaks = MIGRATIONS.len() + steps;
        self.breaks = if breaking { self.speaks } else { BREAKS };
        self
    }

    /// Whether the server is reached through a socket of this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.host.starts_with('/')
    }

    /// What errors call the place.
    pub(crate) fn place(&self) -> PathBuf {
        let at = if self.is_local() {
            format!("postgresql:{}/.s.PGSQL.{}", self.host, self.port)
        } else {
            format!("postgresql://{}:{}", self.host, self.port)
        };
        PathBuf::from(format!("{at}/{}/{}", self.database, self.schema))
    }

    pub(crate) fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config
            .host(&self.host)
            .port(self.port)
            .user(&self.user)
            .dbname(&self.database)
            .application_name(&self.application_name)
            .connect_timeout(self.connect_timeout)
            .keepalives_idle(Duration::from_secs(15))
            .tcp_user_timeout(self.statement_timeout)
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .ssl_mode(match (&self.tls, self.is_local()) {
                (Tls::Disable, _) | (_, true) => SslMode::Disable,
                (Tls::Require | Tls::VerifyFull, false) => SslMode::Require,
            });
        if let Some(password) = &self.password {
            config.password(password.as_bytes());
        }
        config
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("place", &self.place())
            .field("user", &self.user)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let options = Options::new("db.example", 5432, "gateway", "runs").password(Some("hunter2"));
        let shown = format!("{options:?} {}", options.place().display());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("postgresql://db.example:5432/runs/causeway"), "{shown}");
    }

    #[test]
    fn a_tls_mode_reads_back_from_its_spelling() {
        for tls in [Tls::Disable, Tls::Require, Tls::VerifyFull] {
            assert_eq!(Tls::parse(tls.as_str()), Some(tls));
        }
        assert_eq!(Tls::parse("prefer"), None);
    }
}
