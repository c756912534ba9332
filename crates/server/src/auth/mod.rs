//! Who may call: bearer tokens of services, or JWTs of an identity provider; and what a caller may do with agents.
//!
//! Refuses everything but a credential in the one `authorization` header. An answer says only that a credential is
//! missing, not valid or expired; the log says why, and neither repeats it. Time comes in with each check.

pub mod allow;
mod bearer;
mod caller;
mod jwt;
mod keys;
mod ring;
mod service;
pub(crate) mod url;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, Method, StatusCode};
use causeway_store::model::Owner;
use tokio::sync::watch;
use tokio::time::Instant;

use self::allow::{Allow, Lists};
pub use self::caller::Caller;
use self::caller::Identity;
use self::jwt::Jwt;
use self::service::Service;
use crate::config;
use crate::problem::Problem;

/// What tells the time, in Unix milliseconds. The edge reads the system's clock; tests bring their own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The system's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// The check of every request.
pub struct Auth {
    policy: RwLock<Arc<Policy>>,
    allow: Allow,
    clock: Clock,
}

struct Policy {
    mode: Mode,
    /// What the mode was made of.
    told: config::AuthMode,
    open_metrics: bool,
}

/// Tokens, keys and lists of a configuration, read and checked.
pub struct Checked {
    policy: Policy,
    lists: Lists,
    /// Why the issuer's keys cannot be had.
    keyless: Option<String>,
}

enum Mode {
    None,
    Service(Service),
    Jwt(Jwt),
}

/// Why a request has no caller.
#[derive(Debug)]
pub struct Turned {
    /// What the caller is told.
    pub(crate) problem: Box<Problem>,
    /// What the log is told.
    pub(crate) reason: &'static str,
    /// The name of the credential, where it was a good one.
    pub(crate) credential: Option<Arc<str>>,
}

impl Turned {
    fn new(problem: Problem, reason: &'static str) -> Self {
        Self { problem: Box::new(problem), reason, credential: None }
    }

    fn by(self, credential: &Arc<str>) -> Self {
        Self { credential: Some(Arc::clone(credential)), ..self }
    }

    fn missing() -> Self {
        let problem = Problem::new(
            StatusCode::UNAUTHORIZED,
            "token_missing",
            "send a token as `authorization: Bearer`",
        );
        Self::new(problem.action("authenticate"), "token_missing")
    }

    fn invalid(reason: &'static str) -> Self {
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "token_invalid", "the token is not valid here");
        Self::new(problem.action("authenticate"), reason)
    }
}

impl From<Problem> for Turned {
    fn from(problem: Problem) -> Self {
        let reason = problem.code;
        Self::new(problem, reason)
    }
}

/// What a credential that holds says of its bearer.
struct Bearer {
    owner: Owner,
    credential: Arc<str>,
    groups: Vec<String>,
    /// Unix milliseconds.
    expires_at: Option<i64>,
    /// Closed when it is taken out of the configuration.
    listed: Option<watch::Receiver<()>>,
}

impl Auth {
    /// No authentication: whoever reaches the loopback address is the owner `local`.
    pub fn none() -> Self {
        let policy = Policy { mode: Mode::None, told: config::AuthMode::None, open_metrics: false };
        Self { policy: RwLock::new(Arc::new(policy)), allow: Allow::default(), clock: system_clock() }
    }

    /// The check that a configuration asks for.
    ///
    /// # Errors
    /// What cannot be read, with the key that names it.
    pub async fn open(config: &config::Auth, clock: Clock) -> Result<Self, String> {
        let Checked { policy, lists, keyless } = Checked::read(config, &clock).await?;
        if let Some(what) = keyless {
            tracing::error!(what, "the issuer's keys cannot be had; every token is refused until they can");
        }
        let allow = Allow::default();
        allow.take(lists);
        Ok(Self { policy: RwLock::new(Arc::new(policy)), allow, clock })
    }

    /// Reads and checks the tokens, keys and lists of a configuration; nothing changes yet. Where the issuer's keys cannot be
    /// had and nothing else of it is new, those from before stay.
    ///
    /// # Errors
    /// As [`open`](Self::open), and keys of another issuer that cannot be had.
    pub async fn check(&self, config: &config::Auth) -> Result<Checked, String> {
        let mut checked = Checked::read(config, &self.clock).await?;
        if let Some(what) = checked.keyless.take() {
            match &self.policy().mode {
                Mode::Jwt(jwt) if self.policy().told == config.mode => {
                    tracing::warn!(what, "the issuer's keys cannot be had now; the last ones stay");
                    checked.policy.mode = Mode::Jwt(jwt.clone());
                }
                Mode::None | Mode::Service(_) | Mode::Jwt(_) => {
                    return Err(format!("auth.jwt: the keys cannot be had: {what}"));
                }
            }
        }
        Ok(checked)
    }

    /// Takes what was checked instead of what holds now. Requests that were let in stay; streams of tokens that are not
    /// listed any more end.
    pub fn take(&self, checked: Checked) {
        let Checked { mut policy, lists, keyless: _ } = checked;
        let mut now = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        if let (Mode::Service(service), Mode::Service(before)) = (&mut policy.mode, &now.mode) {
            service.adopt(before);
        }
        self.allow.take(lists);
        *now = Arc::new(policy);
    }

    /// Checks tokens, keys and lists, and takes them.
    ///
    /// # Errors
    /// As [`check`](Self::check); then nothing changes.
    pub async fn reload(&self, config: &config::Auth) -> Result<(), String> {
        let checked = self.check(config).await?;
        self.take(checked);
        Ok(())
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a route tells nothing about anybody, and so needs no token.
    pub(crate) fn is_open(&self, method: &Method, route: Option<&str>) -> bool {
        let looks = matches!(*method, Method::GET | Method::HEAD);
        looks
            && route.is_some_and(|route| {
                OPEN.contains(&route)
                    || OPEN_BELOW.iter().any(|folder| route.starts_with(folder))
                    || (route == "/metrics" && self.policy().open_metrics)
            })
    }

    /// Whether credentials can be checked, for `/readyz`.
    pub fn is_ready(&self) -> bool {
        match &self.policy().mode {
            Mode::None | Mode::Service(_) => true,
            Mode::Jwt(jwt) => jwt.is_ready(),
        }
    }

    /// Who makes a request with these headers.
    ///
    /// # Errors
    /// Nobody that is known here, and why.
    pub async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Turned> {
        let policy = self.policy();
        let now = (self.clock)();
        let bearer = match &policy.mode {
            Mode::None => {
                no_subject(headers, config::SUBJECT_HEADER)?;
                None
            }
            Mode::Service(service) => Some(service.check(bearer::token(headers)?, headers)?),
            Mode::Jwt(jwt) => {
                let bearer = jwt.check(bearer::token(headers)?).await?;
                let subject = no_subject(headers, config::SUBJECT_HEADER);
                subject.map_err(|turned| turned.by(&bearer.credential))?;
                Some(bearer)
            }
        };
        Ok(Caller::new(match bearer {
            None => Identity {
                owner: Owner::local(),
                credential: None,
                groups: Vec::new(),
                until: None,
                listed: None,
                allow: self.allow.clone(),
                denied: OnceLock::new(),
            },
            Some(bearer) => Identity {
                owner: bearer.owner,
                credential: Some(bearer.credential),
                groups: bearer.groups,
                until: bearer.expires_at.map(|at| {
                    let left = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
                    Instant::now() + Duration::from_millis(left).min(LONGEST)
                }),
                listed: bearer.listed,
                allow: self.allow.clone(),
                denied: OnceLock::new(),
            },
        }))
    }
}

impl Checked {
    async fn read(config: &config::Auth, clock: &Clock) -> Result<Self, String> {
        let mut keyless = None;
        let mode = match &config.mode {
            config::AuthMode::None => Mode::None,
            config::AuthMode::Service(service) => Mode::Service(Service::open(service)?),
            config::AuthMode::Jwt(jwt) => {
                let (jwt, trouble) = Jwt::open(jwt, Arc::clone(clock)).await?;
                keyless = trouble;
                Mode::Jwt(jwt)
            }
        };
        let policy = Policy { mode, told: config.mode.clone(), open_metrics: config.open_metrics };
        Ok(Self { policy, lists: Lists::new(config.agents.clone(), config.closed), keyless })
    }
}

/// Routes without anything of anybody: probes, the description of the API, the page of the inspector.
const OPEN: &[&str] = &["/healthz", "/readyz", "/openapi.json", "/"];
/// The same for the files of that page.
const OPEN_BELOW: &[&str] = &["/assets/"];

/// So far a deadline is looked ahead; a stream does not last as long.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// The subject header means something only where a service's token vouches for it.
fn no_subject(headers: &HeaderMap, name: &str) -> Result<(), Turned> {
    if !headers.contains_key(name) {
        return Ok(());
    }
    let message = format!("{name} is not taken here: nothing vouches for it");
    let problem = Problem::new(StatusCode::BAD_REQUEST, "subject_not_taken", message);
    Err(Turned::new(problem, "subject_not_taken"))
}
