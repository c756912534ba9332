//! `mode = "jwt"`: tokens that a pinned issuer signed for this gateway, verified with its published keys.
//!
//! Refuses whatever the token says about how it should be verified: algorithms come from the configuration, keys from the
//! pinned place; `jku`, `jwk`, `x5u` are not looked at. A token without an end is none.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use causeway_engine::http::fetch::Fetcher;
use causeway_store::model::Owner;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::keys::{self, Answer, Key, Keys};
use super::service::is_subject;
use super::{Bearer, Clock, Turned, ring};
use crate::config::{Algorithm, JwtAuth, KeySource};
use crate::problem::Problem;

/// The largest key set.
const MAX_SET: usize = 1 << 20;
/// So many groups of a caller count.
const MAX_GROUPS: usize = 256;
/// What the log calls a token.
const NAME: &str = "jwt";

/// The check of tokens.
#[derive(Clone)]
pub(super) struct Jwt(Arc<Inner>);

struct Inner {
    issuer: String,
    audience: Vec<String>,
    algorithms: Vec<Algorithm>,
    leeway_ms: i64,
    groups_claim: String,
    timeout: Duration,
    source: Source,
    keys: Mutex<Keys>,
    /// Held by whoever asks for the keys: one at a time, the others wait for what it learns.
    asking: tokio::sync::Mutex<()>,
    clock: Clock,
}

enum Source {
    File(PathBuf),
    Url(Fetcher),
}

impl Jwt {
    /// Takes the settings and the first keys; and says what is wrong with an address that does not give them. That is no
    /// reason not to start: tokens are refused until it does, and `/readyz` says so.
    ///
    /// # Errors
    /// A file that cannot be used, or authorities that cannot be read.
    pub async fn open(config: &JwtAuth, clock: Clock) -> Result<(Self, Option<String>), String> {
        ring::install();
        let source = match &config.keys {
            KeySource::File(file) => Source::File(file.clone()),
            KeySource::Url { url, ca_file } => Source::Url(
                Fetcher::new(url.clone(), ca_file.as_deref()).map_err(|what| format!("auth.jwt: {what}"))?,
            ),
        };
        let this = Self(Arc::new(Inner {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            algorithms: config.algorithms.clone(),
            leeway_ms: i64::try_from(config.leeway.as_millis()).unwrap_or(0),
            groups_claim: config.groups_claim.clone(),
            timeout: config.timeout,
            source,
            keys: Mutex::new(Keys::new(config.refresh, config.keep)),
            asking: tokio::sync::Mutex::new(()),
            clock,
        }));
        let now = this.now();
        match this.0.read().await {
            Ok(keys) => {
                this.keys().asked(Some(keys), now);
                Ok((this, None))
            }
            Err(what) => match &this.0.source {
                Source::File(_) => Err(format!("auth.jwt.jwks_file: {what}")),
                Source::Url(_) => {
                    this.keys().asked(None, now);
                    Ok((this, Some(what)))
                }
            },
        }
    }

    /// Whose token this is.
    pub async fn check(&self, token: &str) -> Result<Bearer, Turned> {
        let header = decode_header(token).map_err(|_| Turned::invalid("jwt_malformed"))?;
        let named = self.0.algorithms.iter().copied().find(|one| keys::jws(*one) == header.alg);
        let algorithm = named.ok_or_else(|| Turned::invalid("jwt_algorithm"))?;
        let kid = header.kid.as_deref();
        let key = match self.find(kid, algorithm) {
            Answer::Ask => {
                self.ask(kid, algorithm).await;
                self.find(kid, algorithm)
            }
            known => known,
        };
        let key = match key {
            Answer::Use { key, renew } => {
                if renew {
                    let this = self.clone();
                    tokio::spawn(async move { this.renew().await });
                }
                key
            }
            Answer::Unknown => return Err(Turned::invalid("jwt_key_unknown")),
            Answer::Ask | Answer::NoKeys => {
                let message = "tokens cannot be checked now: the keys of their issuer cannot be had";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "keys_unavailable", message);
                return Err(Turned::new(problem.action("retry"), "keys_unavailable"));
            }
        };
        self.verify(token, algorithm, &key)
    }

    /// Whether tokens can be checked.
    pub fn is_ready(&self) -> bool {
        self.keys().are_good(self.now())
    }

    fn now(&self) -> i64 {
        (self.0.clock)()
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Answer {
        self.keys().find(kid, algorithm, self.now())
    }

    /// Asks for the keys, unless somebody did while we waited for our turn.
    async fn ask(&self, kid: Option<&str>, algorithm: Algorithm) {
        let _turn = self.0.asking.lock().await;
        if matches!(self.find(kid, algorithm), Answer::Ask) {
            self.refresh().await;
        }
    }

    async fn renew(&self) {
        let _turn = self.0.asking.lock().await;
        let due = self.keys().may_ask(self.now());
        if due {
            self.refresh().await;
        }
    }

    async fn refresh(&self) {
        // As old as the question: what changes while it is answered may be missing.
        let now = self.now();
        let answer = self.0.read().await;
        if let Err(what) = &answer {
            tracing::warn!(
                what,
                "the issuer's keys cannot be had; those from before are used as long as they may"
            );
        }
        self.keys().asked(answer.ok(), now);
    }

    fn verify(&self, token: &str, algorithm: Algorithm, key: &Key) -> Result<Bearer, Turned> {
        let mut validation = Validation::new(keys::jws(algorithm));
        validation.set_issuer(&[&self.0.issuer]);
        validation.set_audience(&self.0.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Times are checked below, against our clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let verified = decode::<Map<String, Value>>(token, &key.key, &validation);
        let claims = verified.map_err(|error| Turned::invalid(reason(error.kind())))?.claims;
        // The library takes a list of issuers too.
        if claims.get("iss").and_then(Value::as_str) != Some(self.0.issuer.as_str()) {
            return Err(Turned::invalid("jwt_issuer"));
        }
        let now = self.now();
        let until = instant(&claims, "exp")?.ok_or_else(|| Turned::invalid("jwt_claim_missing"))?;
        let until = until.saturating_add(self.0.leeway_ms);
        if now >= until {
            let problem = Problem::new(
                StatusCode::UNAUTHORIZED,
                "token_expired",
                "the token has expired; send a new one",
            );
            return Err(Turned::new(problem.action("authenticate"), "jwt_expired"));
        }
        if instant(&claims, "nbf")?.is_some_and(|from| from.saturating_sub(self.0.leeway_ms) > now) {
            return Err(Turned::invalid("jwt_not_yet_valid"));
        }
        let subject = claims.get("sub").and_then(Value::as_str).filter(|text| is_subject(text));
        let subject = subject.ok_or_else(|| Turned::invalid("jwt_subject"))?;
        let groups = match claims.get(&self.0.groups_claim) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(several)) => {
                several.iter().filter_map(Value::as_str).take(MAX_GROUPS).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Ok(Bearer {
            owner: Owner::new(subject),
            credential: Arc::from(NAME),
            groups,
            expires_at: Some(until),
            listed: None,
        })
    }
}

impl Inner {
    async fn read(&self) -> Result<Vec<Key>, String> {
        let (text, from) = match &self.source {
            Source::File(file) => {
                let shown = file.display();
                let text = read_file(file).await.map_err(|error| format!("cannot read {shown}: {error}"))?;
                if text.len() > MAX_SET {
                    return Err(format!("{shown} has more than {MAX_SET} bytes"));
                }
                (text.into(), shown.to_string())
            }
            Source::Url(fetcher) => {
                let accept = "application/jwk-set+json, application/json";
                (fetcher.get(accept, MAX_SET, self.timeout).await?, "the key set".to_owned())
            }
        };
        keys::parse(&text, &self.algorithms).map_err(|what| format!("{from} {what}"))
    }
}

async fn read_file(file: &std::path::Path) -> std::io::Result<Vec<u8>> {
    let file = file.to_owned();
    let read = move || {
        use std::io::Read as _;
        let mut text = Vec::new();
        // One byte more than may be tells that it is too large, whatever the file is.
        std::fs::File::open(file)?.take(MAX_SET as u64 + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|broken| Err(std::io::Error::other(broken)))
}

/// A time of the claims in Unix milliseconds.
fn instant(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, Turned> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    // A float becomes the nearest whole number there is: what is out of range is very far away.
    seconds.map(|seconds| Some((seconds * 1000.0) as i64)).ok_or_else(|| Turned::invalid("jwt_malformed"))
}

fn reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidSignature => "jwt_signature",
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => "jwt_algorithm",
        ErrorKind::InvalidIssuer => "jwt_issuer",
        ErrorKind::InvalidAudience => "jwt_audience",
        ErrorKind::MissingRequiredClaim(_) => "jwt_claim_missing",
        _ => "jwt_malformed",
    }
}
