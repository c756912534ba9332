//! `[auth]`: the mode, what belongs to it, and the lists of agents.
//!
//! Refuses settings of another mode: they would be without effect. And what would make a check worth nothing: symmetric
//! algorithms, `none`, a clock skew of more than a minute, keys over plain HTTP from another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_contract::Limits;
use causeway_contract::id::check_id;
use causeway_engine::http::config::Url;
use hyper::header::HeaderName;

use super::{Section, printable, reference};
use crate::config::auth::SUBJECT_HEADER;
use crate::config::{Algorithm, AllowedCallers, Auth, AuthMode, JwtAuth, KeySource, ServiceAuth};

/// Headers that mean something else already.
const TAKEN: &[&str] = &[
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "origin",
    "transfer-encoding",
];
/// The most that clocks may differ.
const MAX_LEEWAY: Duration = Duration::from_secs(60);
/// The longest that keys are good without being seen again.
const MAX_KEEP: Duration = Duration::from_secs(7 * 86_400);

pub(super) fn auth(section: &mut Section<'_, '_>) -> Auth {
    let mode = section.choice("mode", &["none", "service", "jwt"]).unwrap_or("none");
    let mut auth = Auth::default();
    match mode {
        "service" => auth.mode = AuthMode::Service(service(section)),
        "jwt" => {
            if !section.has("jwt") {
                section.fault(
                    "mode",
                    "needs the table [auth.jwt]: issuer, audience, algorithms, jwks_url or jwks_file",
                );
            }
            section.table("jwt", |section| {
                if let Some(jwt) = jwt(section) {
                    auth.mode = AuthMode::Jwt(Box::new(jwt));
                }
            });
        }
        _ => {}
    }
    for (key, of) in [("tokens", "service"), ("subject_header", "service"), ("jwt", "jwt")] {
        if mode != of && section.has(key) {
            section.fault(key, format!("is without effect unless auth.mode is \"{of}\"; leave it out"));
        }
    }
    if mode == "none" {
        for key in ["agents", "unlisted_agents", "metrics"] {
            if section.has(key) {
                section.fault(key, "is without effect while auth.mode is \"none\"; leave it out");
            }
        }
    }
    auth.closed = section.choice("unlisted_agents", &["open", "closed"]) == Some("closed");
    auth.open_metrics = section.choice("metrics", &["token", "open"]) == Some("open");
    section.each("agents", |agent, section| {
        let list = AllowedCallers {
            subjects: section.words("subjects").unwrap_or_default(),
            groups: section.words("groups").unwrap_or_default(),
            tokens: section.words("tokens").unwrap_or_default(),
        };
        if let AuthMode::Service(service) = &auth.mode
            && let Some(name) = list.tokens.iter().find(|name| !service.tokens.contains_key(*name))
        {
            section.fault("tokens", format!("`{}` is no token of auth.tokens", printable(name)));
        }
        let strange = match &auth.mode {
            AuthMode::Service(_) => ("groups", !list.groups.is_empty(), "jwt"),
            AuthMode::Jwt(_) => ("tokens", !list.tokens.is_empty(), "service"),
            AuthMode::None => ("", false, ""),
        };
        if let (key, true, of) = strange {
            section.fault(key, format!("is without effect unless auth.mode is \"{of}\"; leave it out"));
        }
        auth.agents.insert(agent.to_owned(), list);
    });
    auth
}

/// A list for an agent that there is not would leave open the one that was meant.
pub(super) fn check_agents<'a>(
    auth: &Auth,
    agents: impl Iterator<Item = &'a String>,
    section: &mut Section<'_, '_>,
) {
    let known: BTreeSet<&String> = agents.collect();
    for agent in auth.agents.keys().filter(|agent| !known.contains(agent)) {
        let message = "is no agent of this configuration; its key must be one of [agents]";
        section.find(&format!("auth.agents.{agent}"), None, message);
    }
}

fn service(section: &mut Section<'_, '_>) -> ServiceAuth {
    let mut tokens = BTreeMap::new();
    section.free("tokens", |name, node, section| {
        if check_id(name, Limits::DEFAULT.id_bytes).is_err() {
            section.find(&format!("auth.tokens.{name}"), Some(&node.origin), "is no name for a token");
        }
        if let Some(value) = reference("tokens", name, node, section) {
            tokens.insert(name.to_owned(), value);
        }
    });
    if tokens.is_empty() && !section.has("tokens") {
        section.here(
            "mode \"service\" needs tokens; write e.g. tokens = { web = { file = \"/run/secrets/web.sha256\" } }, \
             a file with the SHA-256 of each token in hexadecimal digits",
        );
    }
    let mut subject_header = SUBJECT_HEADER.to_owned();
    if let Some(text) = section.text("subject_header") {
        match HeaderName::from_bytes(text.as_bytes()) {
            Ok(name) if !TAKEN.contains(&name.as_str()) => subject_header = name.as_str().to_owned(),
            _ => section.fault("subject_header", "is no header, or one that means something else"),
        }
    }
    ServiceAuth { subject_header, tokens }
}

fn jwt(section: &mut Section<'_, '_>) -> Option<JwtAuth> {
    let issuer = section.text("issuer").filter(|text| !text.is_empty());
    if issuer.is_none() {
        section.here("`issuer` is missing; write what the claim `iss` of good tokens says");
    }
    let audience = section.words("audience").unwrap_or_default();
    if audience.is_empty() || audience.iter().any(String::is_empty) {
        section.here(
            "`audience` is missing; write [\"…\"], what the claim `aud` of tokens for this gateway holds",
        );
    }
    let mut algorithms = Vec::new();
    for text in section.words("algorithms").unwrap_or_default() {
        match Algorithm::parse(&text) {
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let known: Vec<&str> = Algorithm::ALL.iter().map(|one| one.as_str()).collect();
                let message = format!(
                    "`{}` is not taken; use {}. Who can check a token must not be able to make one",
                    printable(&text),
                    known.join(", ")
                );
                section.fault("algorithms", message);
            }
        }
    }
    if algorithms.is_empty() && !section.has("algorithms") {
        section.here("`algorithms` is missing; write what the issuer signs with, e.g. [\"RS256\"]");
    } else if algorithms.is_empty() {
        section.fault("algorithms", "holds none; write what the issuer signs with, e.g. [\"RS256\"]");
    }
    let leeway = section.duration("leeway", false).unwrap_or(Duration::from_secs(30));
    if leeway > MAX_LEEWAY {
        section.fault("leeway", "is more than 60s; mend the clocks instead");
    }
    let refresh = section.duration("refresh", true).unwrap_or(Duration::from_secs(10 * 60));
    let keep = section.duration("keep", true).unwrap_or(Duration::from_secs(86_400));
    if keep > MAX_KEEP || keep < refresh {
        section.fault(
            "keep",
            "must be from `refresh` to 7d: so long keys are good that cannot be asked for again",
        );
    }
    let timeout = section.duration("timeout", true).unwrap_or(Duration::from_secs(5));
    if timeout > MAX_LEEWAY {
        section.fault("timeout", "is more than 60s: requests wait for it");
    }
    let keys = keys(section);
    Some(JwtAuth {
        issuer: issuer?,
        audience,
        keys: keys?,
        algorithms,
        leeway,
        groups_claim: section.text("groups_claim").unwrap_or_else(|| "groups".to_owned()),
        refresh,
        keep,
        timeout,
    })
}

fn keys(section: &mut Section<'_, '_>) -> Option<KeySource> {
    let file = section.path("jwks_file");
    let url = section.text("jwks_url").and_then(|text| match Url::parse(&text) {
        Ok(url) if url.is_tls() || url.is_loopback() => Some(url),
        Ok(_) => {
            section
                .fault("jwks_url", "must be https: whoever can change the keys on their way can be anybody");
            None
        }
        Err(what) => {
            section.fault("jwks_url", what); // not repeated: it may hold credentials
            None
        }
    });
    let ca_file = section.path("ca_file");
    match (section.has("jwks_file"), section.has("jwks_url")) {
        (true, false) => {
            if ca_file.is_some() {
                section.fault("ca_file", "is without effect with `jwks_file`; leave it out");
            }
            file.map(KeySource::File)
        }
        (false, true) => url.map(|url| KeySource::Url { url, ca_file }),
        _ => {
            section.here(
                "exactly one of `jwks_url` and `jwks_file` is needed: where the issuer's public keys are",
            );
            None
        }
    }
}
