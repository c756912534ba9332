//! The public keys of the issuer: which there are, how old they are, and when to ask again. Time comes in; nothing here
//! waits or connects.
//!
//! Refuses to ask more than once in half a minute, whatever kids strangers make up, and to keep keys for ever that cannot
//! be had any more.
//!
//! ```text
//!            fetched ┌────────────┐ older than refresh ┌───────┐ older than keep ┌──────┐
//!  none ────────────▶│   fresh    │───────────────────▶│ stale │────────────────▶│ none │
//!                    └────────────┘◀──── fetched ──────└───────┘                 └──────┘
//! ```

use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm as Jws, DecodingKey};
use serde_json::Value;

use crate::config::Algorithm;

/// So long nobody asks again after having asked.
const PAUSE_MS: i64 = 30_000;
/// So many keys a set may hold.
const MAX_KEYS: usize = 128;

/// A key and what it may be used for.
#[derive(Clone)]
pub(super) struct Key {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    pub key: DecodingKey,
}

/// The keys that were had last.
pub(super) struct Keys {
    keys: Vec<Key>,
    fetched_at: Option<i64>,
    asked_at: Option<i64>,
    refresh: i64,
    keep: i64,
}

/// What to do about a token.
pub(super) enum Answer {
    /// Verify with this key; and ask for the keys again, behind the answer, where `renew` says so.
    Use { key: Key, renew: bool },
    /// The key may be a new one: ask, then look again.
    Ask,
    /// There is no such key.
    Unknown,
    /// There are no keys at all.
    NoKeys,
}

impl Keys {
    /// None yet.
    pub fn new(refresh: Duration, keep: Duration) -> Self {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self {
            keys: Vec::new(),
            fetched_at: None,
            asked_at: None,
            refresh: millis(refresh),
            keep: millis(keep),
        }
    }

    /// The key for a token with this header.
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm, now: i64) -> Answer {
        let Some(age) = self.age(now).filter(|age| *age < self.keep) else {
            return if self.may_ask(now) { Answer::Ask } else { Answer::NoKeys };
        };
        let mut fitting = self.keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        let found = match kid {
            Some(kid) => fitting.find(|key| key.kid.as_deref() == Some(kid)),
            // Without a name only where there is no choice.
            None => fitting.next().filter(|_| fitting.next().is_none()),
        };
        match found {
            Some(key) => Answer::Use { key: key.clone(), renew: age >= self.refresh && self.may_ask(now) },
            None if self.may_ask(now) => Answer::Ask,
            None => Answer::Unknown,
        }
    }

    /// Whether the keys are good, for `/readyz`.
    pub fn are_good(&self, now: i64) -> bool {
        self.age(now).is_some_and(|age| age < self.keep)
    }

    /// Whether it is not too soon to ask.
    pub fn may_ask(&self, now: i64) -> bool {
        // A clock that was set back must not keep us from asking.
        self.asked_at.is_none_or(|asked| now < asked || now.saturating_sub(asked) >= PAUSE_MS)
    }

    /// Somebody asked: the keys, or none.
    pub fn asked(&mut self, answer: Option<Vec<Key>>, now: i64) {
        self.asked_at = Some(now);
        if let Some(keys) = answer {
            self.keys = keys;
            self.fetched_at = Some(now);
        }
    }

    fn age(&self, now: i64) -> Option<i64> {
        self.fetched_at.map(|fetched| now.saturating_sub(fetched).max(0))
    }
}

/// The usable keys of a key set. Keys of other kinds and for other purposes are passed over: a set may hold some.
///
/// # Errors
/// It is no key set, or holds no key that can be used with the configured algorithms.
pub(super) fn parse(text: &[u8], allowed: &[Algorithm]) -> Result<Vec<Key>, String> {
    let set: Value = serde_json::from_slice(text).map_err(|_| "is no JSON".to_owned())?;
    let list = set.get("keys").and_then(Value::as_array).ok_or("is no key set: `keys` is missing")?;
    if list.len() > MAX_KEYS {
        return Err(format!("holds more than {MAX_KEYS} keys"));
    }
    let keys: Vec<Key> = list.iter().filter_map(|value| usable(value, allowed)).collect();
    if keys.is_empty() {
        return Err("holds no key for the configured algorithms".to_owned());
    }
    Ok(keys)
}

fn usable(value: &Value, allowed: &[Algorithm]) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let ops = value.get("key_ops").and_then(Value::as_array);
    if ops.is_some_and(|ops| !ops.iter().any(|op| op == "verify")) {
        return None;
    }
    let fits: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::Rs256,
            Algorithm::Rs384,
            Algorithm::Rs512,
            Algorithm::Ps256,
            Algorithm::Ps384,
            Algorithm::Ps512,
        ],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::Es256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::Es384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDsa],
        // Symmetric ones above all.
        _ => return None,
    };
    let named = value.get("alg").and_then(Value::as_str);
    let algorithms: Vec<Algorithm> = fits
        .iter()
        .copied()
        .filter(|one| allowed.contains(one) && named.is_none_or(|named| named == one.as_str()))
        .collect();
    if algorithms.is_empty() {
        return None;
    }
    Some(Key { kid: jwk.common.key_id.clone(), algorithms, key: DecodingKey::from_jwk(&jwk).ok()? })
}

/// The name that the library has for an algorithm.
pub(super) fn jws(algorithm: Algorithm) -> Jws {
    match algorithm {
        Algorithm::Rs256 => Jws::RS256,
        Algorithm::Rs384 => Jws::RS384,
        Algorithm::Rs512 => Jws::RS512,
        Algorithm::Ps256 => Jws::PS256,
        Algorithm::Ps384 => Jws::PS384,
        Algorithm::Ps512 => Jws::PS512,
        Algorithm::Es256 => Jws::ES256,
        Algorithm::Es384 => Jws::ES384,
        Algorithm::EdDsa => Jws::EdDSA,
    }
}
